package rematgraph

import (
	"context"
	"fmt"
	"slices"

	"workbench/heuristics/remat"
	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/problem/rematgraph"
)

// Linearised converts the graph into a chain, plans that with the persistent dynamic program of
// [004] (remat.Persistent), and executes the plan on the graph.
//
// The forward part is cut at its articulation tensors. A cut is valid only if the nodes computed
// once can be cut too: those before it read forwards after the cut or its tensor, and those after
// it read forwards before the cut or its tensor. The overheads of the layers are those of executing
// them, so a plan that fits on the chain fits on the graph; it may need less.
//
// An error wraps plan.ErrNoPlan if the dynamic program finds no plan, which proves nothing about
// the graph. Complexity as of remat.PersistentCurve.
func Linearised(ctx context.Context, v *rematgraph.View, p platform.Platform) (*plan.Plan, error) {
	if err := v.Fits(p.Memory); err != nil {
		return nil, err
	}
	s, err := linearised(ctx, v, p.Memory)
	if err != nil {
		return nil, err
	}
	return fit("linearised", s, p)
}

// linearised returns the schedule of Linearised.
func linearised(ctx context.Context, v *rematgraph.View, memory float64) (*rematgraph.Schedule, error) {
	s, err := cut("linearised", v)
	if err != nil {
		return nil, err
	}
	k := newChained(s)
	c := k.chain()
	p, err := remat.Persistent(ctx, c, platform.Platform{Memory: memory - v.Graph.Input})
	if err != nil {
		// Not wrapped: what it proves of the chain it does not prove of the graph.
		return nil, fmt.Errorf("linearised: %w on the chain of %d layers: %v", plan.ErrNoPlan, c.Len(), err)
	}
	return k.carryOut(p), nil
}

// chained is a graph as a chain: layer ℓ = 1..n has the forwards forward[ℓ-1]..forward[ℓ]-1 and the
// backwards backward[ℓ]..backward[ℓ-1]-1; its output is that of node forward[ℓ]-1. Layer n+1, the
// loss, has no forwards.
type chained struct {
	*segments
	n        int
	forward  []int // n+1 entries, from 0 to the number of forwards
	backward []int // n+2 entries: [n+1] is the first node computed once, [0] is N
}

// newChained finds the cuts that stand. O(layers·edges).
func newChained(s *segments) *chained {
	k := &chained{segments: s, forward: []int{0}}
	ends := []int{s.v.N}
	for _, c := range s.last {
		at, ok := k.turn(c)
		if !ok || at > ends[len(ends)-1] {
			continue
		}
		k.forward = append(k.forward, c+1)
		ends = append(ends, at)
	}
	if k.forward[len(k.forward)-1] != s.forwards {
		// The last cut does not stand: the last layer is the rest.
		k.forward = append(k.forward, s.forwards)
		ends = append(ends, s.forwards)
	}
	k.n = len(k.forward) - 1
	k.backward = append(ends, s.forwards)
	return k
}

// turn returns where the nodes computed once are cut for the cut after forward
// node c: those from the place on read forwards up to c only, those before it
// read c and later ones only. Where there is a choice, the fewest bytes of
// gradients cross, and then the backwards after it are as few as possible. If
// there is no place, ok is false.
func (k *chained) turn(c int) (at int, ok bool) {
	v := k.v
	from, to := k.forwards, v.N
	for j := k.forwards; j < v.N; j++ {
		for _, i := range v.Pred[j] {
			p := v.Writer[i]
			if p > c && p < k.forwards {
				from = j + 1
			}
			if p < c {
				to = min(to, j)
			}
		}
	}
	least := 0.0
	for place := from; place <= to; place++ {
		if bytes := k.crossing(place); place == from || bytes <= least {
			at, least, ok = place, bytes, true
		}
	}
	return at, ok
}

// crossing returns the size of what is computed once before a place and read
// from there on.
func (k *chained) crossing(place int) float64 {
	bytes := 0.0
	for j := k.forwards; j < place; j++ {
		for _, i := range k.v.Writes[j] {
			if k.v.End(i) >= place {
				bytes += k.v.Memory[i]
			}
		}
	}
	return bytes
}

// saved reports whether a value of a forward node is part of ā: it is an output of its layer, or
// needed after the forward part.
func (k *chained) saved(i, layer int) bool {
	return k.output(i, layer) || k.firstBehind(i) < k.v.N || k.v.Result[i]
}

// output reports whether a value is part of what its layer puts out.
func (k *chained) output(i, layer int) bool { return k.v.Writer[i] == k.forward[layer]-1 }

// chain returns the chain. The graph's input is no part of it: it is resident
// all the time.
func (k *chained) chain() *chain.Chain {
	v := k.v
	c := &chain.Chain{Name: v.Graph.Name, Layers: make([]chain.Layer, k.n+1)}
	for l := 1; l <= k.n+1; l++ {
		x := &c.Layers[l-1]
		x.Name = fmt.Sprintf("layer%d", l)
		if l <= k.n {
			x.Name = v.Graph.Nodes[k.forward[l]-1].ID
			x.Activation = v.Written[k.forward[l]-1]
			x.Gradient = k.crossing(k.backward[l])
			for j := k.forward[l-1]; j < k.forward[l]; j++ {
				x.ForwardTime += v.Time[j]
				for _, i := range v.Writes[j] {
					if k.saved(i, l) {
						x.Saved += v.Memory[i]
					}
				}
			}
			x.ForwardOverhead = max(0, k.forwardPeak(l, true)-x.Saved, k.forwardPeak(l, false)-x.Activation)
		}
	}
	for l := k.n + 1; l >= 1; l-- {
		x := &c.Layers[l-1]
		for i := k.backward[l]; i < k.backward[l-1]; i++ {
			x.BackwardTime += v.Time[i]
		}
		after := 0.0 // δ_0
		if l > 1 {
			after = c.Layers[l-2].Gradient
		}
		x.BackwardOverhead = max(0, k.backwardPeak(l)-after)
	}
	return c
}

// forwardPeak returns the peak memory of the forwards of a layer, in addition to what was stored
// before. A value that is not part of ā, or of a, is freed after its last reader.
func (k *chained) forwardPeak(l int, all bool) float64 {
	v := k.v
	now, peak := 0.0, 0.0
	for j := k.forward[l-1]; j < k.forward[l]; j++ {
		now += v.Written[j]
		peak = max(peak, now+v.Overhead[j])
		for _, i := range append(slices.Clone(v.Pred[j]), v.Writes[j]...) {
			kept := k.output(i, l) || all && k.saved(i, l)
			if v.Writer[i] >= k.forward[l-1] && !kept && k.lastForward(i) == j {
				now -= v.Memory[i]
			}
		}
	}
	return peak
}

// backwardPeak returns the peak memory of the backwards of a layer, in addition to what was stored
// before. Gradients and values of the layer are freed after their last reader.
func (k *chained) backwardPeak(l int) float64 {
	v := k.v
	now, peak := 0.0, 0.0
	for j := k.backward[l]; j < k.backward[l-1]; j++ {
		now += v.Written[j]
		peak = max(peak, now+v.Overhead[j])
		for _, i := range append(slices.Clone(v.Pred[j]), v.Writes[j]...) {
			p := v.Writer[i]
			ours := p >= k.forwards || l <= k.n && p >= k.forward[l-1] && p < k.forward[l]
			if ours && v.End(i) == j {
				now -= v.Memory[i]
			}
		}
	}
	return peak
}

// carryOut returns the schedule that retains what a plan of the chain has
// stored after each first computation.
func (k *chained) carryOut(p *plan.Plan) *rematgraph.Schedule {
	s := k.v.New()
	a, abar := make([]bool, k.n+2), make([]bool, k.n+2)
	done := 0 // first computations
	first := func(from, to int) {
		for done >= from && done < to {
			if done++; done == k.v.N {
				return
			}
			for l := 1; l <= k.n; l++ {
				for j := k.forward[l-1]; j < min(k.forward[l], done); j++ {
					for _, i := range k.v.Writes[j] {
						if abar[l] && k.saved(i, l) || a[l] && k.output(i, l) {
							s.Retain(done, i, true)
						}
					}
				}
			}
			// Inside the layer everything is kept; what nothing reads is dropped.
			for j := from; j < done; j++ {
				for _, i := range k.v.Writes[j] {
					s.Retain(done, i, true)
				}
			}
		}
	}
	for _, op := range p.Ops {
		l := op.Layer
		switch op.Op {
		case plan.OpD:
			if op.Tensor == plan.TensorA {
				a[l] = false
			} else {
				abar[l] = false
			}
		case plan.OpB:
			first(k.backward[l], k.backward[l-1])
			a[l-1], abar[l] = false, false
		default:
			if l <= k.n {
				first(k.forward[l-1], k.forward[l])
			}
			abar[l] = abar[l] || op.Op == plan.OpFAll
			a[l] = a[l] || op.Op != plan.OpFAll
			if op.Op == plan.OpFNone {
				a[l-1] = false
			}
		}
	}
	// Gradients are kept: the chain does not recompute backwards.
	for i := range k.v.M {
		if j := k.v.Writer[i]; j >= k.forwards {
			for t := j + 1; t <= k.v.End(i); t++ {
				s.Retain(t, i, true)
			}
		}
	}
	s.Complete()
	return s
}
