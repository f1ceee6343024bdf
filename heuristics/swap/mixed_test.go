package swap

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"workbench/model/exhaustive"
	optimumswap "workbench/model/exhaustive/swap"
	"workbench/model/plan"
	"workbench/model/platform"
	view "workbench/model/problem/swap"
	"workbench/model/testcase/random"
	"workbench/model/testfile"
)

// At the edge of memory, whatever the magnitudes: a plan if and only if there is
// one, bounds below the optimum, and no plan below the bounds.
func TestMixedMagnitudes(t *testing.T) {
	testfile.Property(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0xed9e))
		small, memory, bandwidth := random.Swap(r, 4, 5)
		s, memory, bandwidth := random.MagnifySequence(r, small, memory, bandwidth)
		pace := random.Paces[r.IntN(len(random.Paces))]
		p := platform.Platform{Memory: memory, Bandwidth: bandwidth / pace}
		want, _, err := optimumswap.Search(s, memory, bandwidth, 1, 1<<20)
		s = random.PaceSequence(s, pace)
		switch want *= pace; {
		case errors.Is(err, exhaustive.ErrLimit):
			t.Skip("too many states")
		case errors.Is(err, exhaustive.ErrInfeasible):
			low, _, _ := view.Range(s)
			var unfit *plan.Infeasible
			if _, err := view.New(s, p); !errors.As(err, &unfit) || unfit.Memory != low || memory >= low {
				t.Fatalf("there is no plan, least %.0f: %v\n%s %+v", low, err, show(s, nil), p)
			}
			return
		case err != nil:
			t.Fatal(err)
		}
		bounds, err := view.Bounds(s, p)
		if err != nil {
			t.Fatalf("%v\n%s %+v", err, show(s, nil), p)
		}
		found, err := Search(context.Background(), s, p, 1)
		if err != nil {
			t.Fatalf("search: %v\n%s %+v", err, show(s, nil), p)
		}
		T := verified(t, s, found).Makespan
		for _, b := range bounds {
			if b.Value > want*(1+plan.Tolerance) || b.Value > T {
				t.Fatalf("%s: %.17g, the optimum is %.17g, search has %.17g\n%s %+v", b.By, b.Value, want, T, show(s, nil), p)
			}
		}
		if T < want*(1-plan.Tolerance) {
			t.Fatalf("search: %.17g beats the optimum %.17g\n%s %+v", T, want, show(s, nil), p)
		}
	})
}
