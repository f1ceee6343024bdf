package layout

import (
	"math"
	"slices"

	"workbench/model/plan"
)

// mostPairs is the maximum number of layers for which [Instance.pairs] is computed.
const mostPairs = 100

// pairs is B4, for a V: GPU q has a run of layers from the front and one from the back, so the cuts are made from outside
// in, and a state is
// how many layers are taken on each side. For a time T a GPU may have two runs only if, from when the first micro-batch
// reaches it (head) on,
//
//   - it can compute all micro-batches: m·(F + I + W + what is computed again) ≤ T − head, and
//   - what these hold has room: a run holds what its options hold from the start of its F to the end of its W, no less than τ, its own
//     operations and the way to the loss and back, and m·Σ held·τ ≤ (M − weights)·(T − head) (Little's law).
//
// What is computed again to fit is a fractional knapsack over the options of both runs. The least T for which all layers can
// be taken so is a
// bound, found by bisection from below. O(GPUs·layers²·(layers/GPUs)²·options) a step.
func (in *Instance) pairs(low float64) float64 {
	n := len(in.Layers)
	if n > mostPairs {
		return 0
	}
	p := newPairing(in)
	high := low
	for step := low / 64; ; step *= 2 {
		high += step
		if high > 8*low {
			return 0 // nothing fits, or is far from fitting
		}
		if p.fits(high) {
			break
		}
		low = high
	}
	for range 8 {
		if middle := low + (high-low)/2; p.fits(middle) {
			high = middle
		} else {
			low = middle
		}
	}
	return low
}

// pairing has the prefix sums of [Instance.pairs].
type pairing struct {
	in                    *Instance
	f, i, w, weight, held []float64 // sums over the layers before each
	after                 []float64
	steps                 [][]savings // by layer, the steepest first
}

// savings is a trade: fewer bytes held for more seconds of recomputation.
type savings struct{ held, again float64 }

func newPairing(in *Instance) *pairing {
	n := len(in.Layers)
	p := &pairing{in: in, after: in.forwardToBackward(), steps: make([][]savings, n)}
	for _, s := range []*[]float64{&p.f, &p.i, &p.w, &p.weight, &p.held} {
		*s = make([]float64, n+1)
	}
	for k := range in.Layers {
		l := &in.Layers[k]
		p.f[k+1], p.i[k+1], p.w[k+1] = p.f[k]+l.F, p.i[k]+l.I, p.w[k]+l.W
		p.weight[k+1], p.held[k+1] = p.weight[k]+l.Weight, p.held[k]+l.Options[0].Held
		p.steps[k] = l.hull()
	}
	return p
}

// hull returns the steps of the lower convex hull from no recomputation to minimum memory. Each
// saves less memory per second than the previous one.
func (l *Layer) hull() (steps []savings) {
	at := Option{Held: l.Options[0].Held}
	for {
		best, rate := -1, 0.0
		for k, o := range l.Options {
			if saved, again := at.Held-o.Held, max(0, o.Again-at.Again); saved > 0 && (best < 0 || saved > rate*again) {
				best, rate = k, math.Inf(1)
				if again > 0 {
					rate = saved / again
				}
			}
		}
		if best < 0 {
			return steps
		}
		o := l.Options[best]
		steps = append(steps, savings{at.Held - o.Held, max(0, o.Again-at.Again)})
		at = o
	}
}

// fits reports whether the layers can be assigned from outside in within T.
func (p *pairing) fits(T float64) bool {
	n, gpus := len(p.in.Layers), p.in.GPUs
	now := map[[2]int]bool{{0, n}: true}
	for q := range gpus {
		next := map[[2]int]bool{}
		rest := 2 * (gpus - 1 - q) // minimum number of layers for the other GPUs
		for state := range now {
			for a := state[0] + 1; a < state[1]-rest; a++ {
				if !p.computes(state[0], a, state[1], state[1], T) {
					break
				}
				for b := state[1] - 1; b >= a+rest; b-- {
					if q == gpus-1 && b != a {
						continue
					}
					if !p.computes(state[0], a, b, state[1], T) {
						break
					}
					if !next[[2]int{a, b}] && p.compatible(state[0], a, b, state[1], T) {
						next[[2]int{a, b}] = true
					}
				}
			}
		}
		if now = next; len(now) == 0 {
			return false
		}
	}
	return true
}

// work returns the time of layers from..to−1 for one micro-batch.
func (p *pairing) work(from, to int) float64 {
	return p.f[to] - p.f[from] + p.i[to] - p.i[from] + p.w[to] - p.w[from]
}

// computes reports whether the first condition holds, without recomputation.
func (p *pairing) computes(a, b, c, d int, T float64) bool {
	return p.head(a)+float64(p.in.Jobs)*(p.work(a, b)+p.work(c, d)) <= T*(1+1e-12)
}

// head returns the time when the first micro-batch reaches layer a; 0 for the span, which starts
// with the GPU.
func (p *pairing) head(a int) float64 {
	if p.in.Platform.Objective != plan.MakespanObjective {
		return 0
	}
	return p.f[a]
}

// compatible reports whether both conditions hold.
func (p *pairing) compatible(a, b, c, d int, T float64) bool {
	jobs, time := float64(p.in.Jobs), T-p.head(a)
	room := p.in.Platform.Memory - (p.weight[b] - p.weight[a]) - (p.weight[d] - p.weight[c])
	if room < 0 {
		return false
	}
	first, second := p.work(a, b)+p.after[b], p.work(c, d)+p.after[d]
	over := jobs*((p.held[b]-p.held[a])*first+(p.held[d]-p.held[c])*second) - room*time
	spare := time/jobs - p.work(a, b) - p.work(c, d)
	if over <= 0 {
		return true
	}
	var steps []savings
	for k := a; k < b; k++ {
		for _, s := range p.steps[k] {
			steps = append(steps, savings{jobs * s.held * first, s.again})
		}
	}
	for k := c; k < d; k++ {
		for _, s := range p.steps[k] {
			steps = append(steps, savings{jobs * s.held * second, s.again})
		}
	}
	slices.SortStableFunc(steps, func(x, y savings) int {
		switch l, r := x.held*y.again, y.held*x.again; {
		case l > r:
			return -1
		case l < r:
			return 1
		}
		return 0
	})
	for _, s := range steps {
		part := min(1, over/s.held)
		over, spare = over-part*s.held, spare-part*s.again
		if over <= 0 || spare < 0 {
			break
		}
	}
	return over <= room*time*1e-12 && spare >= -1e-12*time
}
