package pipeline

import (
	"errors"
	"math/rand/v2"
	"testing"

	"workbench/model/chain"
	"workbench/model/exhaustive"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/testfile"
	"workbench/solvers"
	"workbench/solvers/highs"
)

// afterwards is a chain whose later layers take long on the way back, or on the
// way there, and whose last ones are stored: while a layer before runs, the
// computations of those are over for several mini-batches.
func afterwards(r *rand.Rand) (*chain.Chain, platform.Platform) {
	n := 4 + r.IntN(3)
	c := &chain.Chain{Name: "afterwards"}
	there := r.IntN(2) == 0
	for l := range n {
		var x chain.Layer
		switch u := float64(1 + r.IntN(6)); {
		case l == 0 || l == n-1:
			x.ForwardTime, x.BackwardTime = float64(r.IntN(2)), float64(r.IntN(2))
		case there:
			x.ForwardTime = u
		default:
			x.BackwardTime = u
		}
		if l >= n-3 && l < n-1 {
			x.Activation = float64(r.IntN(3))
			x.Saved = x.Activation
		}
		c.Layers = append(c.Layers, x)
	}
	return c, platform.Platform{Processors: 2 + r.IntN(3), Memory: float64(1 + r.IntN(12)), Bandwidth: 1e9, WeightCopies: 1}
}

// What a run stores while a layer before it runs: the model of allocations has a
// solution at every period that there is a pattern of, and no bound is above the
// optimum.
func TestPipelineAllocationAfterwards(t *testing.T) {
	t.Parallel()
	tried := 0
	for seed := range uint64(testfile.Cases(120)) {
		c, p := afterwards(rand.New(rand.NewPCG(seed, 55)))
		if c.TotalTime() == 0 {
			continue
		}
		best, _, err := exhaustive.Pipeline(c, p, plan.TaskModel, 1<<17)
		if errors.Is(err, exhaustive.ErrInfeasible) || errors.Is(err, exhaustive.ErrLimit) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		in, err := newPipelineInstance(c, p, singleLayers(c), plan.TaskModel)
		if err != nil {
			t.Fatal(err)
		}
		r, err := highs.New().Solve(t.Context(), allocationsUpTo(in, best*1.001/in.time).m, solvers.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if r.Status == solvers.Infeasible {
			t.Errorf("seed %d: no allocation at %v, but there is a pattern of %v: %+v %+v", seed, best*1.001, best, c, p)
		}
		tried++
	}
	if tried < testfile.Cases(50) {
		t.Errorf("only %d instances", tried)
	}
}
