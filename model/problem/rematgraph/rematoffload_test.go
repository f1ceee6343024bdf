package rematgraph

import (
	"errors"
	"testing"

	"workbench/model/exhaustive"
	optimumrematoffload "workbench/model/exhaustive/rematoffload"
	"workbench/model/testcase/random"
	"workbench/model/testfile"
)

// The bounds of steps with a link are never above the optimum, nor above the least memory
// in which there is a plan; often enough they say more than the sum of the computations,
// and less than the bound without a link.
func TestLinkedBound(t *testing.T) {
	r := testfile.Random(t, 17, 1)
	const states = 1 << 14
	searched, above, below := 0, 0, 0
	for i := range testfile.Cases(600) {
		g := random.Training(r, 1+i%2)
		for v := range g.Nodes {
			g.Nodes[v].Time *= float64(1 + i%3)
		}
		for s := range g.Storages {
			g.Storages[s].NoOffload = r.IntN(12) == 0
		}
		v, err := New(g)
		if err != nil {
			t.Fatal(err)
		}
		least, _ := v.LinkedLeast()
		for memory := max(0, least-1); memory < least+3; memory++ {
			bandwidth := []float64{1, 0.25, 0.0625}[r.IntN(3)]
			time, _, err := optimumrematoffload.SearchGraph(g, memory, bandwidth, states)
			if errors.Is(err, exhaustive.ErrLimit) {
				continue
			}
			none := v.LinkedFits(memory)
			if err == nil && none != nil {
				t.Fatalf("case %d: there is a plan in %g, but %v", i, memory, none)
			}
			if err != nil {
				continue
			}
			searched++
			bound, alone := v.LinkedBound(memory, bandwidth), v.TimeBound(memory)
			switch total := g.TotalTime(); {
			case bound.Seconds > time:
				t.Fatalf("case %d: memory %g, bandwidth %g: %+v, the optimum is %g", i, memory, bandwidth, bound, time)
			case bound.Seconds > total:
				above++
			}
			if bound.Seconds < alone.Seconds*(1-1e-9) {
				below++
			}
		}
	}
	t.Logf("%d searched, %d bounds say more than the sum, %d are below those without a link", searched, above, below)
	if above < testfile.Cases(5) || below < testfile.Cases(100) {
		t.Errorf("%d searched, %d bounds say more than the sum, %d are below those without a link", searched, above, below)
	}
}
