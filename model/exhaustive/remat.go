package exhaustive

import (
	"fmt"
	"math"

	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
)

// MaxRematLayers is the length of the longest chain that [Remat] searches: it
// has 4ᴺ·4/3 states.
const MaxRematLayers = 10

// Remat returns the least makespan of rematerialization ([002], [004] Table
// 2.1) within so much memory, and a plan that has it. limit is the most states
// to visit; chains of five layers have at most 1,365, of six 5,461. The errors
// are [ErrInfeasible], [ErrLimit] and [ErrTooHard].
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
func Remat(c *chain.Chain, memory float64, limit int) (float64, *plan.Plan, error) {
	r, err := newRemat(c, memory)
	if err != nil {
		return 0, nil, err
	}
	makespan, path, err := r.search(&shortest{memory: memory, limit: limit})
	if err != nil {
		return 0, nil, err
	}
	return makespan, r.plan(c, memory, path), nil
}

// RematLeastMemory returns the least memory within which there is a plan: the
// least peak of a way through the states of [Remat]. There always is one. The
// errors are [ErrLimit] and [ErrTooHard].
func RematLeastMemory(c *chain.Chain, limit int) (float64, error) {
	r, err := newRemat(c, math.Inf(1))
	if err != nil {
		return 0, err
	}
	peak, _, err := r.search(&shortest{memory: math.Inf(1), peak: true, limit: limit})
	return peak, err
}

// remat is a chain in slices indexed by layer as in the papers.
type remat struct {
	n                          int
	uF, uB                     []float64
	a, abar, delta, oF, oC, oB []float64
}

func newRemat(c *chain.Chain, memory float64) (*remat, error) {
	n := c.Len()
	if n == 0 || n > MaxRematLayers {
		return nil, fmt.Errorf("%w: %d layers, there can be 1 to %d", ErrTooHard, n, MaxRematLayers)
	}
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrTooHard, err)
	}
	if !(memory >= 0) {
		return nil, fmt.Errorf("%w: memory is %v bytes, it must not be negative", ErrTooHard, memory)
	}
	r := &remat{n: n}
	for _, x := range []*[]float64{&r.uF, &r.uB, &r.a, &r.abar, &r.delta, &r.oF, &r.oC, &r.oB} {
		*x = make([]float64, n+1)
	}
	r.a[0], r.abar[0], r.delta[0] = c.Input.Activation, c.Input.Activation, c.Input.Gradient
	for i := range c.Layers {
		l := &c.Layers[i]
		r.uF[i+1], r.uB[i+1], r.oF[i+1], r.oC[i+1], r.oB[i+1] = l.ForwardTime, l.BackwardTime, l.Overhead(true), l.Overhead(false),
			l.BackwardOverhead
		r.a[i+1], r.abar[i+1], r.delta[i+1] = l.Activation, l.Saved, l.Gradient
	}
	return r, nil
}

// stored is a state: bit ℓ of a and abar says whether a_ℓ and ā_ℓ are stored.
// B_next is the next backward, δ_next is stored, and no other gradient.
type stored struct {
	a, abar uint16
	next    int
}

func (x stored) key() uint64 { return uint64(x.a) | uint64(x.abar)<<16 | uint64(x.next)<<32 }

func storedOf(key uint64) stored {
	return stored{a: uint16(key), abar: uint16(key >> 16), next: int(key >> 32)}
}

// Steps of rematerialization; the layer stands in the low bits.
const (
	stepAll = iota << 8
	stepCk
	stepNone
	stepB
	stepDA
	stepDAbar
)

// search finds the best way from a_0 and δ_N to δ_0.
func (r *remat) search(s *shortest) (float64, []reached, error) {
	start := stored{a: 1, next: r.n}
	goal := func(key uint64) bool { return storedOf(key).next == 0 }
	return s.run(start.key(), goal, func(key uint64) { r.expand(storedOf(key), s) })
}

// size returns what is stored in x.
func (r *remat) size(x stored) float64 {
	sum := r.delta[x.next]
	for l := 0; l <= x.next; l++ {
		if x.a>>l&1 != 0 {
			sum += r.a[l]
		}
		if x.abar>>l&1 != 0 {
			sum += r.abar[l]
		}
	}
	return sum
}

// expand takes every step out of x.
func (r *remat) expand(x stored, s *shortest) {
	size := r.size(x)
	for l := 1; l <= x.next; l++ {
		in, out := uint16(1)<<(l-1), uint16(1)<<l
		if (x.a|x.abar)&in == 0 {
			continue
		}
		if x.abar&out == 0 {
			y := x
			y.abar |= out
			s.relax(y.key(), stepAll|uint32(l), r.uF[l], size+r.abar[l]+r.oF[l])
		}
		if x.a&out == 0 && l < x.next {
			y := x
			y.a |= out
			s.relax(y.key(), stepCk|uint32(l), r.uF[l], size+r.a[l]+r.oC[l])
			if x.a&in != 0 {
				y.a &^= in
				s.relax(y.key(), stepNone|uint32(l), r.uF[l], size+r.a[l]+r.oC[l])
			}
		}
		if l == x.next && x.abar&out != 0 {
			y := stored{a: x.a &^ in, abar: x.abar &^ out, next: l - 1}
			s.relax(y.key(), stepB|uint32(l), r.uB[l], size+r.delta[l-1]+r.oB[l])
		}
	}
	for l := 0; l <= x.next; l++ {
		bit := uint16(1) << l
		if x.a&bit != 0 {
			y := x
			y.a &^= bit
			s.relax(y.key(), stepDA|uint32(l), 0, 0)
		}
		if x.abar&bit != 0 {
			y := x
			y.abar &^= bit
			s.relax(y.key(), stepDAbar|uint32(l), 0, 0)
		}
	}
}

// plan writes a way through the states as a plan.
func (r *remat) plan(c *chain.Chain, memory float64, path []reached) *plan.Plan {
	p := plan.New(plan.Remat, "exhaustive", c, platform.Platform{Memory: memory})
	x := stored{a: 1, next: r.n}
	time, peak := 0.0, r.size(x)
	for _, to := range path {
		l := int(to.step & 0xff)
		o := plan.Op{Layer: l, Start: time}
		duration, during := 0.0, 0.0
		switch to.step &^ 0xff {
		case stepAll:
			o.Op, duration, during = plan.OpFAll, r.uF[l], r.abar[l]+r.oF[l]
		case stepCk:
			o.Op, duration, during = plan.OpFCk, r.uF[l], r.a[l]+r.oC[l]
		case stepNone:
			o.Op, duration, during = plan.OpFNone, r.uF[l], r.a[l]+r.oC[l]
		case stepB:
			o.Op, duration, during = plan.OpB, r.uB[l], r.delta[l-1]+r.oB[l]
		case stepDA:
			o.Op, o.Tensor = plan.OpD, plan.TensorA
		case stepDAbar:
			o.Op, o.Tensor = plan.OpD, plan.TensorAbar
		}
		time += duration
		o.End = time
		peak = max(peak, r.size(x)+during)
		x = storedOf(to.key)
		p.Ops = append(p.Ops, o)
	}
	p.Claims = plan.Claims{Makespan: time, PeakMemory: peak}
	return p
}
