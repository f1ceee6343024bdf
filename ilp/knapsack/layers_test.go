package knapsack

import (
	"math"
	"testing"

	"workbench/ilp/ilptest"
	"workbench/model/training"
	"workbench/solvers"
	"workbench/solvers/highs"
	"workbench/solvers/lpsolve"
)

// Two layers that save 4 and 2 bytes, 1 of the first for ever, of 3 s each. The second layer's
// backward asks for 4k + 2 + 1 ≤ budget − 1, the loss for 4k + 2k' + 2 ≤ budget − 1: of a byte
// less the first layer, at 3/4 s a byte, has the smaller part computed again.
func TestLayers(t *testing.T) {
	b := &training.Blocks{Saved: []float64{4, 2}, Must: []float64{1, 0}, Temp: []float64{1, 1}, Time: 3, Rest: 1, Loss: 2}
	for _, backend := range []solvers.Backend{highs.New(), lpsolve.New()} {
		for _, x := range []struct{ budget, cost float64 }{{9, 0}, {8, 0.75}, {7, 1.5}, {6, 2.25}} {
			p, err := Layers(b, x.budget)
			if err != nil {
				t.Fatal(err)
			}
			if got := p.Objective(ilptest.Optimum(t, backend, p.Model)); math.Abs(got-x.cost) > 1e-9 {
				t.Errorf("%s: budget %v: %v s, want %v", backend.Name(), x.budget, got, x.cost)
			}
		}
	}
}
