package knapsack

import (
	"math"
	"testing"

	"workbench/ilp/ilptest"
	"workbench/model/instance/training"
	"workbench/model/testfile"
	"workbench/solvers"
	"workbench/solvers/enumerate"
	"workbench/solvers/highs"
	"workbench/solvers/lpsolve"
)

// Two layers that save 4 and 2 bytes, 1 of the first for ever, of 3 s each. The second layer's
// backward asks for 4k + 2 + 1 ≤ budget − 1, the loss for 4k + 2k' + 2 ≤ budget − 1: of a byte
// less the first layer, at 3/4 s a byte, has the smaller part computed again.
func TestLayers(t *testing.T) {
	b := &training.Blocks{Saved: []float64{4, 2}, Must: []float64{1, 0}, Temp: []float64{1, 1}, Time: 3, Back: 4, Rest: 1, Loss: 2}
	for _, backend := range []solvers.Backend{highs.New(), lpsolve.New()} {
		for _, x := range []struct{ budget, cost float64 }{{9, 0}, {8, 0.75}, {7, 1.5}, {6, 2.25}} {
			p, err := Layers(b, x.budget, 0)
			if err != nil {
				t.Fatal(err)
			}
			if got := p.Objective(ilptest.Optimum(t, backend, p.Model)); math.Abs(got-x.cost) > 1e-9 {
				t.Errorf("%s: budget %v: %v s, want %v", backend.Name(), x.budget, got, x.cost)
			}
		}
		// Beside a link a byte of the first layer travels in 3 s, which is in the memory of the second:
		// 4(k + o) + 2 + 1 ≤ budget − 1 there.
		for _, x := range []struct{ budget, cost float64 }{{9, 0}, {8, 0}, {7, 0.75}, {6, 1.5}} {
			p, err := Layers(b, x.budget, 1./3)
			if err != nil {
				t.Fatal(err)
			}
			if got := p.Objective(ilptest.Optimum(t, backend, p.Model)); math.Abs(got-x.cost) > 1e-9 {
				t.Errorf("%s: beside a link, budget %v: %v s, want %v", backend.Name(), x.budget, got, x.cost)
			}
		}
	}
}

// Against all choices, by every backend.
func TestShares(t *testing.T) {
	r := testfile.Random(t, 9, 2)
	backends := []solvers.Backend{highs.New(), lpsolve.New(), enumerate.New()}
	for range testfile.Cases(30) {
		n := 1 + r.IntN(4)
		memory, time, sendable := make([]float64, n), make([]float64, n), make([]bool, n)
		choices := 1
		for i := range n {
			memory[i], time[i], sendable[i] = float64(1+r.IntN(40)), float64(r.IntN(9))*1e-3, r.IntN(4) > 0
			choices *= 3
		}
		keep, send, bandwidth := float64(r.IntN(60)), float64(r.IntN(60)), float64(uint(4000)<<r.IntN(3))
		least := math.Inf(1)
		for c := range choices {
			here, away, lost, ok := 0.0, 0.0, 0.0, true
			for i := range n {
				switch c % 3 {
				case 0:
					here += memory[i]
				case 1:
					away += memory[i]
					ok = ok && sendable[i]
				default:
					lost += time[i]
				}
				c /= 3
			}
			over := max(0, away-send)
			if ok && here <= keep && over <= send/20 {
				least = min(least, lost+over/bandwidth)
			}
		}
		p, err := Shares(memory, time, sendable, keep, send, bandwidth)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range backends {
			if got := p.Objective(ilptest.Optimum(t, b, p.Model)); math.Abs(got-least) > 1e-9 {
				t.Fatalf("%s: %v s of %v, %v, %v: %v kept and %v sent at %v, the best choice takes %v s", b.Name(), got, memory, time, sendable, keep,
					send, bandwidth, least)
			}
		}
	}
}
