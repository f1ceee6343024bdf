package knapsack

import (
	"math"
	"strings"
	"testing"

	"workbench/ilp/ilptest"
	"workbench/model/instance/training"
	"workbench/model/testfile"
	"workbench/solvers"
	"workbench/solvers/highs"
	"workbench/solvers/lpsolve"
)

// twoModules are those of rematgraph's TestModules, with rounder pieces.
func twoModules() *training.Modules {
	return &training.Modules{
		IA: []float64{0, 4, 6}, ACM: []float64{0, 5, 6}, ACT: []float64{0, 3, 3},
		AG: []float64{4, 2, 2}, TA: []float64{13, 6, 14}, TG: []float64{0, 3, 0}, M: 7,
		Slopes: [][]float64{nil, {0.5, 1}, {0}}, Intercepts: [][]float64{nil, {0.25, 0}, {1}},
	}
}

func TestSACGolden(t *testing.T) {
	p, err := SAC(twoModules(), 16)
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	if err := p.Model.Print(&text); err != nil {
		t.Fatal(err)
	}
	text.WriteString("\n" + p.Model.Stats().String())
	testfile.Golden(t, "sac-ilp.golden", text.String())
}

// Without checkpoints the root takes 17, the second module 16. A part r of the first discards
// 5r − 1 in 3 max(r/2 + 1/4, r) s, any of the second up to 6 in 3 s. Below 16 the second module's
// backward asks for what only the first discards: at 12 for all of it, and the root for 1 more.
func TestSAC(t *testing.T) {
	for _, backend := range []solvers.Backend{highs.New(), lpsolve.New()} {
		for _, x := range []struct{ budget, cost float64 }{{17, 0}, {16, 1.35}, {15, 1.8}, {14, 2.4}, {13, 3}, {12, 6}} {
			p, err := SAC(twoModules(), x.budget)
			if err != nil {
				t.Fatal(err)
			}
			if got := p.Objective(ilptest.Optimum(t, backend, p.Model)); math.Abs(got-x.cost) > 1e-6 {
				t.Errorf("%s: budget %v: %v s, want %v", backend.Name(), x.budget, got, x.cost)
			}
		}
	}
}
