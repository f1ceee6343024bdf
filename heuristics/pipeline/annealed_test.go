package pipeline

import (
	"math"
	"math/rand/v2"
	"testing"

	"workbench/model/instance/chain"
	"workbench/model/platform"
	"workbench/model/testfile"
)

// On five to seven GPUs, with links that are nearly full, times of nanoseconds and hours, and memory from the minimum on,
// no plan of any k that is found is below the bound for any k; and some bounds are met.
func TestAnyKBoundsAnnealedPatterns(t *testing.T) {
	t.Parallel()
	total, several, near := 0, 0, 0
	for seed := range uint64(testfile.Cases(4)) {
		r := rand.New(rand.NewPCG(seed, 51))
		n, unit := 6+r.IntN(3), []float64{1e-9, 1, 3600}[r.IntN(3)]
		c, work := &chain.Chain{Name: "drawn"}, 0.0
		for range n {
			a := float64(1 + r.IntN(9))
			x := chain.Layer{
				ForwardTime: unit * (0.2 + r.Float64()), BackwardTime: unit * (0.2 + 2*r.Float64()), Activation: a, Saved: a,
				Gradient: a, Weight: float64(r.IntN(2)),
			}
			if r.IntN(5) == 0 {
				x.Gradient = 0
			}
			work += x.ForwardTime + x.BackwardTime
			c.Layers = append(c.Layers, x)
		}
		p := platform.Platform{Memory: 1e9, Processors: 5 + r.IntN(3), WeightCopies: r.IntN(3)}
		p.Bandwidth = 12 / work * float64(p.Processors) * (0.4 + r.Float64()) // of all layers about as long as their share of the work
		in, err := newInstance(c, p, Options{})
		if err != nil {
			t.Fatal(err)
		}
		p.Memory = math.Floor(in.Least().High*(1+r.Float64())) - float64(r.IntN(2))
		best, err := Search(c, p, Options{})
		if err != nil {
			continue
		}
		verified(t, c, best)
		if x, err := Anneal(c, p, best, Options{}); err != nil {
			t.Fatal(err)
		} else if x != nil {
			if verified(t, c, x) >= best.Claims.Makespan {
				t.Fatalf("seed %d: %v, had %v", seed, x.Claims.Makespan, best.Claims.Makespan)
			}
			best = x
		}
		if in, err = newInstance(c, p, Options{}); err != nil {
			t.Fatal(err)
		}
		a := &exact{in: in, stop: func() bool { return false }, upper: best.Claims.Makespan * 1.1, anyK: anyKBound{open: math.Inf(1)}}
		for _, a.exactLayers = range []bool{false, true} {
			for _, budget := range []int64{1 << 10, 1 << 12, 1 << 14} {
				a.raiseAnyK(budget)
			}
		}
		bound := a.anyK.bound.Period
		if bound > best.Claims.Makespan*(1+2*safe) {
			t.Fatalf("seed %d: %v is proved, and a plan of %d takes %v: %+v %+v", seed, bound, best.K, best.Claims.Makespan, c.Layers, p)
		}
		total++
		if best.K > 1 {
			several++
		}
		if bound > best.Claims.Makespan*0.98 {
			near++
		}
	}
	t.Logf("of %d plans %d are of several mini-batches, %d bounds are within a fiftieth", total, several, near)
	if total < testfile.Cases(4)/2 || near == 0 && !testing.Short() {
		t.Errorf("of %d plans %d are of several mini-batches, %d bounds are within a fiftieth", total, several, near)
	}
}
