package solve_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"workbench/bench/solve"
	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/proof"
)

// two is a chain of which computing once takes 4 s.
func two(t *testing.T) *solve.Instance {
	t.Helper()
	c := &chain.Chain{Name: "two", Layers: []chain.Layer{
		{ForwardTime: 1, BackwardTime: 1, Activation: 1, Saved: 1, Gradient: 1},
		{ForwardTime: 1, BackwardTime: 1, Gradient: 1},
	}}
	in, err := solve.NewInstance(c)
	if err != nil {
		t.Fatal(err)
	}
	return in
}

// outcome runs a method that returns the plan that keeps everything, 4 s, with
// what else out says.
func outcome(t *testing.T, out solve.Outcome, gap float64) *solve.Result {
	t.Helper()
	in := two(t)
	machine := platform.Platform{Memory: 100}
	p := &solve.Problem{
		Name: plan.Remat, Takes: []string{chain.Kind},
		Bound: func(*solve.Instance, solve.Setting) solve.Bound { return proof.BySearch(1, "closed form") },
	}
	m := &solve.Method{Name: "fake", Kind: solve.Exact, Run: func(context.Context, *solve.Instance, solve.Setting) (*solve.Outcome, error) {
		out.Plan = plan.New(plan.Remat, "fake", in.Instance, machine)
		at := 0.0
		for _, o := range []plan.Op{
			{Op: plan.OpFAll, Layer: 1},
			{Op: plan.OpFAll, Layer: 2},
			{Op: plan.OpB, Layer: 2},
			{Op: plan.OpB, Layer: 1},
		} {
			o.Start, o.End = at, at+1
			at++
			out.Plan.Ops = append(out.Plan.Ops, o)
		}
		return &out, nil
	}}
	return solve.Run(t.Context(), p, m, in, solve.Setting{Platform: machine, Gap: gap})
}

// Only a certified bound or one of a search makes a plan optimal; a solver's word
// is a claim, and an assumption says so.
func TestJudge(t *testing.T) {
	bound := func(value float64, how proof.Kind, assumptions ...string) solve.Outcome {
		return solve.Outcome{Bounds: []solve.Bound{{Value: value, By: "them", Proof: how, Assumptions: assumptions}}}
	}
	for name, x := range map[string]struct {
		out    solve.Outcome
		gap    float64
		status solve.Status
		ended  proof.Ended
		bound  float64
		within int // assumptions
		claims int
	}{
		"certified":       {out: bound(4, proof.Certified), status: solve.Optimal, ended: proof.Closed, bound: 4},
		"search":          {out: bound(4, proof.Search), status: solve.Optimal, ended: proof.Closed, bound: 4},
		"a solver's word": {out: bound(4, proof.Solver), status: solve.Feasible, ended: proof.NoProof, bound: 1, claims: 1},
		"an assumption": {
			out: bound(4, proof.Certified, plan.OnePeriodic), status: solve.Feasible, ended: proof.Closed, bound: 1,
			within: 1,
		},
		"the gap asked for": {out: bound(3.9, proof.Certified), gap: 0.05, status: solve.Feasible, ended: proof.Gap, bound: 3.9},
		"open":              {out: bound(3.9, proof.Certified), status: solve.Feasible, ended: proof.NoProof, bound: 3.9},
		"a claim that is less": {
			out: solve.Outcome{Claims: []proof.Claim{{By: "highs", Value: 0.5}}}, status: solve.Feasible,
			ended: proof.NoProof, bound: 1,
		},
		"a claim": {
			out: solve.Outcome{Claims: []proof.Claim{{By: "highs", Value: 3}}}, status: solve.Feasible, ended: proof.NoProof,
			bound: 1, claims: 1,
		},
	} {
		r := outcome(t, x.out, x.gap)
		if r.Status != x.status || r.Ended != x.ended || r.Bound == nil || r.Bound.Value != x.bound || len(r.OptimalWithin) != x.within ||
			len(r.Claims) != x.claims {
			t.Errorf("%s: %s, ended %s, bound %+v, within %v, claims %v, error %v", name, r.Status, r.Ended, r.Bound, r.OptimalWithin, r.Claims,
				r.Err)
		}
	}
}

// No plan beats a bound whose assumptions it keeps, by however little; of a claim
// a note says that the plan disproves it.
func TestAlarm(t *testing.T) {
	for _, b := range []solve.Bound{
		{Value: 4.0000001, By: "them", Proof: proof.Certified},
		{Value: 5, By: "them", Proof: proof.Search},
		{Value: 5, By: "them", Proof: proof.Certified, Assumptions: []string{plan.OnePeriodic}},
		{Value: 5, By: "them", Proof: proof.Certified, Assumptions: []string{"nobody knows this one"}},
	} {
		r := outcome(t, solve.Outcome{Bounds: []solve.Bound{proof.BySearch(2, "another"), b}}, 0)
		if r.Status != solve.Failed || r.Err == nil || !strings.Contains(r.Error, "them") || !strings.Contains(r.Error, "fake") {
			t.Errorf("%+v: %s, %v", b, r.Status, r.Err)
		}
	}
	r := outcome(t, solve.Outcome{Claims: []proof.Claim{{By: "highs", Value: 5, Status: "optimal"}}}, 0)
	if r.Status != solve.Feasible || len(r.Claims) != 0 || !strings.Contains(r.Note, "disproves") {
		t.Errorf("a claim that is wrong: %s, %v, %q", r.Status, r.Claims, r.Note)
	}
}

// Of bounds that are equal but for what certificates leave undone, the certified
// one is named.
func TestCertifiedIsPreferred(t *testing.T) {
	r := outcome(t, solve.Outcome{Bounds: []solve.Bound{
		proof.BySearch(4, "search"),
		{Value: 4 * (1 - 9e-7), By: "model", Proof: proof.Certified},
	}}, 0)
	if r.Status != solve.Optimal || r.Bound.By != "model" || !slices.Equal(r.Bound.Assumptions, []string{}) {
		t.Errorf("%s, %+v", r.Status, r.Bound)
	}
}

// What the range of a percentage took is of the one time limit; a tenth is left to the method.
func TestSpent(t *testing.T) {
	in := two(t)
	for _, x := range []struct{ limit, spent, left time.Duration }{
		{time.Hour, 0, time.Hour},
		{time.Hour, 20 * time.Minute, 40 * time.Minute},
		{time.Hour, 3 * time.Hour, 6 * time.Minute},
		{0, time.Minute, 0},
	} {
		left := time.Duration(-1)
		m := &solve.Method{Name: "fake", Run: func(ctx context.Context, _ *solve.Instance, _ solve.Setting) (*solve.Outcome, error) {
			left = 0
			if end, ok := ctx.Deadline(); ok {
				left = time.Until(end).Round(time.Minute) // all of this takes less than half a minute
			}
			return nil, plan.ErrNoPlan
		}}
		p := &solve.Problem{
			Name: plan.Remat, Takes: []string{chain.Kind},
			Bound: func(*solve.Instance, solve.Setting) solve.Bound { return solve.Bound{} },
		}
		r := solve.Run(t.Context(), p, m, in, solve.Setting{Time: x.limit, Spent: x.spent})
		if left != x.left || r.Parameters.TimeLimit != x.limit.Seconds() {
			t.Errorf("limit %v, spent %v: %v are left, want %v; the result says a limit of %g s", x.limit, x.spent, left, x.left,
				r.Parameters.TimeLimit)
		}
	}
}
