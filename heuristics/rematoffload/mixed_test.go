package rematoffload

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"workbench/model/exhaustive"
	optimumrematoffload "workbench/model/exhaustive/rematoffload"
	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	view "workbench/model/problem/rematoffload"
	"workbench/model/testcase/random"
	"workbench/model/testfile"
	"workbench/model/verify"
)

// At the edge of memory, whatever the magnitudes: no plan below Least, one from
// there on, bounds below the optimum and no method better than it.
func TestMixedMagnitudes(t *testing.T) {
	testfile.Property(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0xed9e))
		small, _, bandwidth := random.Offload(r, 1+r.IntN(3))
		_, high := view.Range(small)
		least, _ := view.Least(small)
		memory := least + float64(r.IntN(int(high-least)+1))
		c, memory, bandwidth := random.Magnify(r, small, memory, bandwidth)
		pace := random.Paces[r.IntN(len(random.Paces))]
		p := platform.Platform{Memory: memory, Bandwidth: bandwidth / pace}
		// The exhaustive search wants whole times.
		want, _, err := optimumrematoffload.Search(c, memory, bandwidth, 1<<18)
		least, _ = view.Least(c)
		fast := random.Pace(c, pace)
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
		report, err := verify.Replay(fast, found)
		if err != nil || !report.Valid() {
			t.Fatalf("%v %+v\n%+v %+v", err, report, c, p)
		}
		if report.Makespan < want*(1-plan.Tolerance) {
			t.Fatalf("search: %.17g beats the optimum %.17g\n%+v %+v", report.Makespan, want, c, p)
		}
	})
}

// What a plan claims is what its replay takes, also where some transfers are shorter than
// what tells two instants apart.
func TestClaimsBesideShortTransfers(t *testing.T) {
	layer := func(forward, backward, activation, gradient float64) chain.Layer {
		return chain.Layer{ForwardTime: forward, BackwardTime: backward, Activation: activation, Saved: activation, Gradient: gradient}
	}
	c := &chain.Chain{Name: "mixed", Layers: []chain.Layer{
		layer(1e-9, 2e-9, 1, 1e9+2), layer(0, 1e-9, 20, 2e12), layer(1e-9, 0, 2e6+1, 20), layer(1e-9, 3e-9, 0, 0), layer(3e-9, 2e-9, 0, 0),
	}}
	c.Input.Activation, c.Input.Gradient = 1e12+2, 10
	p, err := Opportunist(t.Context(), c, platform.Platform{Memory: 2e12 + 1e9 + 25, Bandwidth: 1e9})
	if err != nil {
		t.Fatal(err)
	}
	if least := 2e12 + 1e9 + 23; p.Claims.PeakMemory != least {
		t.Errorf("the plan claims %.0f bytes, %.0f are in use", p.Claims.PeakMemory, least)
	}
	verified(t, c, p)
}
