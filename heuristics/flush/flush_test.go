package flush_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"

	"workbench/heuristics/flush"
	"workbench/model/exhaustive"
	view "workbench/model/flush"
	"workbench/model/plan"
	"workbench/model/testfile"
)

// Every method makes valid plans or none, none below the optimum, and the branch and
// bound finds and proves that.
func TestAgainstExhaustiveSearch(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(19, 2))
	made, above := map[string]int{}, 0
	for n := range testfile.Cases(200) {
		in, p := exhaustive.RandomFlush(r)
		optimum, _, err := exhaustive.Flush(in, p, 50_000)
		if errors.Is(err, exhaustive.ErrInfeasible) || errors.Is(err, exhaustive.ErrLimit) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		v, err := view.New(in, p)
		if err != nil {
			t.Fatal(err)
		}
		check := func(name string, o view.Order) float64 {
			t.Helper()
			s, err := v.Schedule(o)
			if err != nil {
				t.Fatalf("case %d: %s: %v", n, name, err)
			}
			report, err := plan.VerifyFlush(in, v.Plan(name, s))
			if err != nil || !report.Valid() || len(report.ClaimErrors) > 0 {
				t.Fatalf("case %d: %s: %v %+v", n, name, err, report)
			}
			if x := report.Objective(plan.Flush); x < optimum*(1-1e-9) {
				t.Fatalf("case %d: %s has %v, below the optimum, %v\n%+v %+v", n, name, x, optimum, in, p)
			}
			return s.Objective
		}
		for name, method := range map[string]flush.Method{
			"gpipe": flush.GPipe, "1f1b": flush.OneFOneB, "interleaved": flush.Interleaved, "h1": flush.ZBH1, "h2": flush.ZBH2,
			"auto": flush.ZBAuto, "v": flush.ZBV, "half": flush.VHalf, "min": flush.VMin, "list": flush.List,
			"modulo": func(ctx context.Context, v *view.Instance) view.Order { return flush.Modulo(ctx, v, 1) },
		} {
			o := method(t.Context(), v)
			if o == nil || !v.Complete(o) || !v.Holds(o) {
				if name == "list" {
					t.Fatalf("case %d: list finds nothing, there is a plan\n%+v %+v", n, in, p)
				}
				continue
			}
			if _, err := v.Schedule(o); err == nil {
				made[name]++
				check(name, o)
			}
		}
		f := flush.Exact(t.Context(), v, flush.Goal{Bound: v.Bound().Value, Seed: uint64(n), Steps: 100})
		if x := check("exact", f.Order); x > optimum*(1+1e-8) || f.Bound > optimum*(1+1e-12) || f.Bound < x*(1-1e-8) && v.Bound().Value < x*(1-1e-8) {
			t.Fatalf("case %d: exact has %v and proves %v, the optimum is %v\n%+v %+v", n, x, f.Bound, optimum, in, p)
		}
		if optimum > v.Bound().Value*(1+1e-6) {
			above++
		}
	}
	t.Logf("plans: %v; %d optima are above the bounds", made, above)
	if above == 0 {
		t.Error("no optimum is above the bounds: the branch and bound proves nothing")
	}
	if !testing.Short() && len(made) != 11 {
		t.Errorf("some methods never make a plan: %v", made)
	}
}
