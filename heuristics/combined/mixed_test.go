package combined

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"workbench/model/exhaustive"
	"workbench/model/plan"
	"workbench/model/platform"
	view "workbench/model/rematoffload"
	"workbench/model/testfile"
	"workbench/model/verify"
)

// At the edge of memory, whatever the magnitudes: no plan below Least, one from
// there on, bounds below the optimum and no method better than it.
func TestMixedMagnitudes(t *testing.T) {
	testfile.Property(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0xed9e))
		small, _, bandwidth := exhaustive.RandomOffload(r, 1+r.IntN(3))
		_, high := view.Range(small)
		least, _ := view.Least(small)
		memory := least + float64(r.IntN(int(high-least)+1))
		c, memory, bandwidth := exhaustive.Magnify(r, small, memory, bandwidth)
		pace := exhaustive.Paces[r.IntN(len(exhaustive.Paces))]
		p := platform.Platform{Memory: memory, Bandwidth: bandwidth / pace}
		// The exhaustive search wants whole times.
		want, _, err := exhaustive.RematOffload(c, memory, bandwidth, 1<<18)
		least, _ = view.Least(c)
		fast := exhaustive.Pace(c, pace)
		switch want *= pace; {
		case errors.Is(err, exhaustive.ErrLimit):
			t.Skip("too many states")
		case errors.Is(err, exhaustive.ErrInfeasible):
			var unfit *plan.Infeasible
			if _, err := view.New(fast, p); !errors.As(err, &unfit) || unfit.Memory != least || memory >= least {
				t.Fatalf("there is no plan, least %.0f: %v\n%+v %+v", least, err, c, p)
			}
			return
		case err != nil:
			t.Fatal(err)
		}
		bounds, err := view.Bounds(fast, p)
		if err != nil {
			t.Fatalf("%v\n%+v %+v", err, c, p)
		}
		for _, b := range bounds {
			if b.Value > want*(1+plan.Tolerance) {
				t.Fatalf("%s: %.17g, the optimum is %.17g\n%+v %+v", b.By, b.Value, want, c, p)
			}
		}
		found, err := Search(context.Background(), fast, p, 20)
		if err != nil {
			t.Fatalf("search: %v\n%+v %+v", err, c, p)
		}
		report, err := verify.On(fast, found)
		if err != nil || !report.Valid() {
			t.Fatalf("%v %+v\n%+v %+v", err, report, c, p)
		}
		if report.Makespan < want*(1-plan.Tolerance) {
			t.Fatalf("search: %.17g beats the optimum %.17g\n%+v %+v", report.Makespan, want, c, p)
		}
	})
}
