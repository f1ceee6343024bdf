package activationoffload

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"workbench/model/exhaustive"
	optimumactivationoffload "workbench/model/exhaustive/activationoffload"
	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	view "workbench/model/problem/activationoffload"
	"workbench/model/testcase/random"
	"workbench/model/testfile"
	"workbench/model/verify/rematoffload"
)

// drawMixed is a chain of sizes of all magnitudes, with memory at a breakpoint or
// next to it, at some pace.
func drawMixed(t *rapid.T) (*chain.Chain, platform.Platform) {
	r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0xed9e))
	c, memory, bandwidth := random.Offload(r, 1+r.IntN(5))
	if r.IntN(2) == 0 {
		c, memory, bandwidth = random.Magnify(r, c, memory, bandwidth)
	} else {
		c, memory = random.MixSizes(r, c)
		bandwidth = memory/float64(1+r.IntN(8)) + 1
	}
	pace := random.Paces[r.IntN(len(random.Paces))]
	return random.Pace(c, pace), platform.Platform{Memory: memory, Bandwidth: bandwidth / pace}
}

// At the edge of memory, whatever the magnitudes: a plan if and only if there is
// one, bounds below the optimum, no method better than it, Optimum equal to it.
func TestMixedMagnitudes(t *testing.T) {
	testfile.Property(t, func(t *rapid.T) {
		c, p := drawMixed(t)
		want, _, err := optimumactivationoffload.Search(c, p.Memory, p.Bandwidth, 1<<20)
		switch {
		case errors.Is(err, exhaustive.ErrLimit):
			t.Skip("too many states")
		case errors.Is(err, exhaustive.ErrInfeasible):
			low, _ := view.Range(c)
			var unfit *plan.Infeasible
			if _, err := view.New(c, p); !errors.As(err, &unfit) || unfit.Memory != low || p.Memory >= low {
				t.Fatalf("there is no plan, least %.0f: %v\n%+v %+v", low, err, c, p)
			}
			return
		case err != nil:
			t.Fatal(err)
		}
		bounds, err := view.Bounds(c, p)
		if err != nil {
			t.Fatalf("%v\n%+v %+v", err, c, p)
		}
		for _, b := range bounds {
			if b.Value > want {
				t.Fatalf("%s: %.17g, the optimum is %.17g\n%+v %+v", b.By, b.Value, want, c, p)
			}
		}
		found, err := Search(context.Background(), c, p, 1)
		if err != nil {
			t.Fatalf("search: %v\n%+v %+v", err, c, p)
		}
		best, err := Optimum(context.Background(), c, p, found, 0)
		if err != nil {
			t.Fatalf("optimum: %v\n%+v %+v", err, c, p)
		}
		for _, x := range []*plan.Plan{found, best.Plan} {
			if report, err := rematoffload.Verify(c, x); err != nil || !report.Valid() {
				t.Fatalf("%s: %v %+v\n%+v %+v", x.Method, err, report.Violations, c, p)
			} else if report.Makespan < want*(1-plan.Tolerance) {
				t.Fatalf("%s: %.17g beats the optimum %.17g\n%+v %+v", x.Method, report.Makespan, want, c, p)
			}
		}
		if T := best.Plan.Claims.Makespan; best.Value > want || best.Proved && T > want*(1+plan.Tolerance) || !best.Proved {
			t.Fatalf("optimum: %.17g, at least %.17g by %s, proved %v; exhaustive search has %.17g\n%+v %+v", T, best.Value, best.By, best.Proved,
				want, c, p)
		}
	})
}
