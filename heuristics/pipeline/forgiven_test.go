package pipeline

import (
	"math"
	"testing"

	"workbench/model/chain"
	"workbench/model/exhaustive"
	"workbench/model/plan"
	"workbench/model/platform"
)

// A pattern that the verifier accepts, with a billionth of the memory more than
// there is, is neither beaten by a bound nor said not to be.
func TestBoundsForgiveWhatTheVerifierDoes(t *testing.T) {
	c := &chain.Chain{Name: "heavy", Layers: []chain.Layer{
		{ForwardTime: 1, BackwardTime: 1, Weight: 1e9}, {BackwardTime: 1, Weight: 0.5}, {ForwardTime: 1, BackwardTime: 2, Weight: 1e9},
	}}
	p := platform.Platform{Processors: 2, Memory: 1e9 + 0.2, Bandwidth: 1, WeightCopies: 1}
	best, found, err := exhaustive.Pipeline(c, p, plan.TaskModel, 1<<18)
	if err != nil {
		t.Fatal(err)
	}
	if found.Claims.PeakMemory <= p.Memory {
		t.Fatalf("the pattern fits: %v of %v bytes", found.Claims.PeakMemory, p.Memory)
	}
	x, err := Exact(t.Context(), c, p, Options{}, math.Inf(1), 0)
	if err != nil {
		t.Fatal(err)
	}
	if x.Bound > best*(1+1e-9) || x.Every > best*(1+1e-9) {
		t.Errorf("bounds %v and %v, but there is a pattern of %v", x.Bound, x.Every, best)
	}
}
