// Package remat finds optimal plans for the rematerialization of tiny chains by exhaustive
// search.
package remat

import (
	"fmt"
	"math"

	"workbench/model/exhaustive"
	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
)

// MaxLayers is the length of the longest chain that [Search] takes: it has 4ᴺ·4/3 states.
const MaxLayers = 10

// Search returns the least makespan of rematerialization ([002], [004] Table 2.1) within
// the memory, and a plan that has it. limit is the most states to visit; chains of five
// layers have at most 1,365, of six 5,461. The errors are [exhaustive.ErrInfeasible],
// [exhaustive.ErrLimit] and [exhaustive.ErrTooHard].
//
// It is Dijkstra's algorithm over the sets of stored values: which of
// a_0..a_{N-1} and ā_1..ā_N are stored, and which backward is next. Nothing is
// assumed about how long values stay. Three kinds of steps are left out, and a
// plan that has them is no worse without:
//   - writing a value that is stored: what it leaves is stored before it, but
//     for the input of F_none, which D frees as well;
//   - computing a_ℓ with ℓ ≥ b or ā_ℓ with ℓ > b while B_b is next: B_b..B_1
//     read a_{ℓ-1}, ā_{ℓ-1} and ā_ℓ with ℓ ≤ b, and so do the forwards that
//     make these, so nothing that counts reads such a value;
//   - waiting.
func Search(c *chain.Chain, memory float64, limit int) (float64, *plan.Plan, error) {
	r, err := NewLayers(c, memory)
	if err != nil {
		return 0, nil, err
	}
	makespan, path, err := r.search(memory, false, limit)
	if err != nil {
		return 0, nil, err
	}
	return makespan, r.plan(c, memory, path), nil
}

// LeastMemory returns the least memory within which there is a plan: the least peak of a
// way through the states of [Search]. There always is one. The errors are
// [exhaustive.ErrLimit] and [exhaustive.ErrTooHard].
func LeastMemory(c *chain.Chain, limit int) (float64, error) {
	r, err := NewLayers(c, math.Inf(1))
	if err != nil {
		return 0, err
	}
	peak, _, err := r.search(math.Inf(1), true, limit)
	return peak, err
}

// Layers is a chain in slices indexed by layer as in the papers.
type Layers struct {
	N                               int
	Forward, Backward               []float64 // times
	A, Abar, Delta, OFAll, OFCk, OB []float64 // sizes, and overheads of F_all, F_ck and B
}

// NewLayers returns the layers of a chain that is valid and short enough.
func NewLayers(c *chain.Chain, memory float64) (*Layers, error) {
	n := c.Len()
	if n == 0 || n > MaxLayers {
		return nil, fmt.Errorf("%w: %d layers, there can be 1 to %d", exhaustive.ErrTooHard, n, MaxLayers)
	}
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("%w: %w", exhaustive.ErrTooHard, err)
	}
	if !(memory >= 0) {
		return nil, fmt.Errorf("%w: memory is %v bytes, it must not be negative", exhaustive.ErrTooHard, memory)
	}
	r := &Layers{N: n}
	for _, x := range []*[]float64{&r.Forward, &r.Backward, &r.A, &r.Abar, &r.Delta, &r.OFAll, &r.OFCk, &r.OB} {
		*x = make([]float64, n+1)
	}
	r.A[0], r.Abar[0], r.Delta[0] = c.Input.Activation, c.Input.Activation, c.Input.Gradient
	for i := range c.Layers {
		l := &c.Layers[i]
		r.Forward[i+1], r.Backward[i+1] = l.ForwardTime, l.BackwardTime
		r.OFAll[i+1], r.OFCk[i+1], r.OB[i+1] = l.Overhead(true), l.Overhead(false), l.BackwardOverhead
		r.A[i+1], r.Abar[i+1], r.Delta[i+1] = l.Activation, l.Saved, l.Gradient
	}
	return r, nil
}

// stored is a state: bit ℓ of a and abar says whether a_ℓ and ā_ℓ are stored.
// B_next is the next backward, δ_next is stored, and no other gradient.
type stored struct {
	a, abar uint16
	next    int32
}

func (x stored) hash() uint64 { return uint64(x.a) | uint64(x.abar)<<16 | uint64(x.next)<<32 }

type (
	none   = struct{}
	engine = exhaustive.Search[stored, none]
	label  = exhaustive.Label[stored, none]
)

// Steps of rematerialization; the layer stands in the low bits.
const (
	StepAll = iota << 8
	StepCk
	StepNone
	StepB
	StepDA
	StepDAbar
)

// search finds the best way from a_0 and δ_N to δ_0: of least time or, with peak, of least
// memory.
func (r *Layers) search(memory float64, peak bool, limit int) (float64, []label, error) {
	s := &engine{Memory: memory, Peak: peak, Limit: limit, Hash: stored.hash}
	last, err := s.Run(r.start(), func(x stored) bool { return x.next == 0 }, func(x label) { r.expand(x.State, s) })
	if err != nil {
		return 0, nil, err
	}
	return s.Labels[last].Cost, s.Path(last), nil
}

func (r *Layers) start() stored { return stored{a: 1, next: int32(r.N)} }

// size returns what is stored in x.
func (r *Layers) size(x stored) float64 {
	sum := r.Delta[x.next]
	for l := 0; l <= int(x.next); l++ {
		if x.a>>l&1 != 0 {
			sum += r.A[l]
		}
		if x.abar>>l&1 != 0 {
			sum += r.Abar[l]
		}
	}
	return sum
}

// expand adds every step out of x.
func (r *Layers) expand(x stored, s *engine) {
	size := r.size(x)
	for l := 1; l <= int(x.next); l++ {
		in, out := uint16(1)<<(l-1), uint16(1)<<l
		if (x.a|x.abar)&in == 0 {
			continue
		}
		if x.abar&out == 0 {
			y := x
			y.abar |= out
			s.Add(y, StepAll|uint32(l), r.Forward[l], size+r.Abar[l]+r.OFAll[l])
		}
		if x.a&out == 0 && l < int(x.next) {
			y := x
			y.a |= out
			s.Add(y, StepCk|uint32(l), r.Forward[l], size+r.A[l]+r.OFCk[l])
			if x.a&in != 0 {
				y.a &^= in
				s.Add(y, StepNone|uint32(l), r.Forward[l], size+r.A[l]+r.OFCk[l])
			}
		}
		if l == int(x.next) && x.abar&out != 0 {
			y := stored{a: x.a &^ in, abar: x.abar &^ out, next: int32(l - 1)}
			s.Add(y, StepB|uint32(l), r.Backward[l], size+r.Delta[l-1]+r.OB[l])
		}
	}
	for l := 0; l <= int(x.next); l++ {
		bit := uint16(1) << l
		if x.a&bit != 0 {
			y := x
			y.a &^= bit
			s.Add(y, StepDA|uint32(l), 0, 0)
		}
		if x.abar&bit != 0 {
			y := x
			y.abar &^= bit
			s.Add(y, StepDAbar|uint32(l), 0, 0)
		}
	}
}

// plan writes a way through the states as a plan.
func (r *Layers) plan(c *chain.Chain, memory float64, path []label) *plan.Plan {
	p := plan.New(plan.Remat, "exhaustive", c, platform.Platform{Memory: memory})
	x := r.start()
	time, peak := 0.0, r.size(x)
	for _, to := range path {
		l := int(to.Step & 0xff)
		o := plan.Op{Layer: l, Start: time}
		duration, during := 0.0, 0.0
		switch to.Step &^ 0xff {
		case StepAll:
			o.Op, duration, during = plan.OpFAll, r.Forward[l], r.Abar[l]+r.OFAll[l]
		case StepCk:
			o.Op, duration, during = plan.OpFCk, r.Forward[l], r.A[l]+r.OFCk[l]
		case StepNone:
			o.Op, duration, during = plan.OpFNone, r.Forward[l], r.A[l]+r.OFCk[l]
		case StepB:
			o.Op, duration, during = plan.OpB, r.Backward[l], r.Delta[l-1]+r.OB[l]
		case StepDA:
			o.Op, o.Tensor = plan.OpD, plan.TensorA
		case StepDAbar:
			o.Op, o.Tensor = plan.OpD, plan.TensorAbar
		}
		time += duration
		o.End = time
		peak = max(peak, r.size(x)+during)
		x = to.State
		p.Ops = append(p.Ops, o)
	}
	p.Claims = plan.Claims{Makespan: time, PeakMemory: peak}
	return p
}
