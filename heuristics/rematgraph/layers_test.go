package rematgraph

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"workbench/model/exhaustive"
	"workbench/model/instance/training"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/problem/rematgraph"
	"workbench/model/testcase/random"
	"workbench/model/testfile"
)

// Plans by layers are plans, and none is better than the optimum, whatever part outer keeps.
func TestByLayers(t *testing.T) {
	outer := func(b *training.Blocks, budget float64) (kept, sent []float64, err error) {
		kept = make([]float64, len(b.Saved))
		for l := range kept {
			kept[l] = budget / b.Whole()
		}
		return kept, nil, nil
	}
	neverBetter(t, testfile.Random(t, 8, 4), func(v *rematgraph.View, p platform.Platform) (*plan.Plan, error) {
		return ByLayers(t.Context(), "layers-lp", v, p, outer, KnapsackGreedy)
	})
}

// neverBetter fails if a plan of method for random steps of two layers, in all memory that
// matters, breaks a rule or is better than the optimum, or if there are few.
func neverBetter(t *testing.T, r *rand.Rand, method func(v *rematgraph.View, p platform.Platform) (*plan.Plan, error)) {
	t.Helper()
	found := 0
	for range testfile.Cases(60) {
		g := random.Training(r, 2+r.IntN(3))
		for j := range g.Nodes {
			if g.Nodes[j].Phase != training.Loss {
				g.Nodes[j].Layer = fmt.Sprint("block", r.IntN(2))
			}
		}
		v := view(t, g)
		low, high := Range(v)
		for m := low; m <= high; m++ {
			want, err := optimum(g, m)
			if errors.Is(err, exhaustive.ErrTooHard) || errors.Is(err, exhaustive.ErrLimit) {
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			out, err := method(v, platform.Platform{Memory: m})
			if errors.Is(err, plan.ErrNoPlan) {
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := verified(t, g, out); got < want-1e-9 {
				t.Fatalf("%s, memory %v: %v, the optimum is %v", g.Name, m, got, want)
			}
			found++
		}
	}
	if found < testfile.Cases(50) {
		t.Errorf("%d plans", found)
	}
}
