package knapsack

import (
	"math"
	"testing"

	"workbench/ilp/ilptest"
	"workbench/model/testfile"
	"workbench/solvers"
	"workbench/solvers/enumerate"
	"workbench/solvers/highs"
	"workbench/solvers/lpsolve"
)

// Against all subsets, by every backend.
func TestKnapsack(t *testing.T) {
	r := testfile.Random(t, 9, 1)
	backends := []solvers.Backend{highs.New(), lpsolve.New(), enumerate.New()}
	for range testfile.Cases(40) {
		n := 1 + r.IntN(8)
		memory, time := make([]float64, n), make([]float64, n)
		for i := range n {
			memory[i], time[i] = float64(1+r.IntN(40))/64, float64(r.IntN(9))*1e-5
		}
		budget := float64(r.IntN(65)) / 64
		least := math.Inf(1)
		for set := range 1 << n {
			bytes, lost := 0.0, 0.0
			for i := range n {
				if set>>i&1 != 0 {
					bytes += memory[i]
				} else {
					lost += time[i]
				}
			}
			if bytes <= budget {
				least = min(least, lost)
			}
		}
		p, err := Program(memory, time, budget)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range backends {
			if got := p.Objective(ilptest.Optimum(t, b, p.Model)); math.Abs(got-least) > 1e-12 {
				t.Fatalf("%s: %v s of %v, %v: budget %v, the best subset loses %v s", b.Name(), got, memory, time, budget, least)
			}
		}
	}
}
