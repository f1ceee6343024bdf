// Package rematoffload finds optimal plans of rematerialization with offloading of tiny
// chains and graphs by exhaustive search.
package rematoffload

import (
	"fmt"
	"slices"

	"workbench/model/exhaustive"
	"workbench/model/exhaustive/remat"
	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
)

// MaxLayers is the length of the longest chain that [Search] takes.
const MaxLayers = 5

// Search returns the least makespan of rematerialization with offloading ([004] Problem 8)
// among plans in which everything starts at an integer time, and a plan that has it.
// Durations and size/bandwidth must be integers of at most 100. limit is the most states to
// visit: random chains of three layers have some hundred, at most ten thousand, of four
// some thousand, rarely more than a million. The errors are [exhaustive.ErrInfeasible],
// [exhaustive.ErrLimit] and [exhaustive.ErrTooHard].
//
// Plans of other times may be better, but only by an offload that ends right
// after a computation that uses its tensor has started: then the tensor serves
// that computation still, which it does not if the two are at the same instant.
// (Rarely: thirds of the unit gained nothing on 1,205 random chains of two and three
// layers; a chain where it is 4 instead of 5 s is in bench/soak.) Everything else can be moved
// to integer times, see activationoffload.Search, 2.
//
// It is A* over (values stored, values on the host, what runs and how much of it
// is left), second by second. Steps are left out that no plan needs:
//   - computing what is stored or coming, or what nothing can read that counts
//     (see remat.Search);
//   - sending what the host has: D does the same at no cost before the
//     computation that runs when the transfer ends, or after it if it uses the
//     tensor;
//   - moving or discarding a tensor of no bytes: keeping it is as good (F_ck for
//     F_none).
func Search(c *chain.Chain, memory, bandwidth float64, limit int) (float64, *plan.Plan, error) {
	return search(c, memory, bandwidth, limit, false)
}

// search is [Search], or the same for activation offloading.
func search(c *chain.Chain, memory, bandwidth float64, limit int, activation bool) (float64, *plan.Plan, error) {
	s, err := newSeconds(c, memory, bandwidth, limit, activation)
	if err != nil {
		return 0, nil, err
	}
	start := second{stored: 1, next: int8(s.N), op: -1}
	last, err := s.Run(start, func(x second) bool { return x.next == 0 }, func(x label) { s.expand(x.State) })
	if err != nil {
		return 0, nil, err
	}
	return s.Labels[last].Cost, s.plan(c, platform.Platform{Memory: memory, Bandwidth: bandwidth}, last), nil
}

// A second is a state at a whole time. Tensor ℓ is a_ℓ, tensor N+1+ℓ is ā_ℓ; ā_0
// is a_0. What is said of sets holds for their bits.
type second struct {
	stored, host uint16
	gone         uint16 // sent; they go when what uses them has ended
	uses         uint16 // what the running computation does
	next         int8   // the next backward, or the one that runs
	forwards     int8   // computations of activation offloading that have ended
	op           int8   // what runs: a step of package remat >> 8, -1: nothing
	layer        int8
	left         int8 // seconds
	link         int8 // tensor + 1 that is sent; −tensor − 1: fetched; 0: none
	rest         int8
	fresh        bool // a prefetch has just started: it reserves last
}

// Steps in addition to those of package remat; the tensor stands in the low bits.
const (
	stepWait = (iota + 6) << 8
	stepO
	stepP
)

type (
	none  = struct{}
	label = exhaustive.Label[second, none]
)

type seconds struct {
	*remat.Layers
	exhaustive.Search[second, none]
	activation bool
	duration   [2][]int8 // of F_ℓ and B_ℓ
	send       []int8    // of tensors; 0: it is not moved
	size       []float64
}

func newSeconds(c *chain.Chain, memory, bandwidth float64, limit int, activation bool) (*seconds, error) {
	r, err := remat.NewLayers(c, memory)
	switch {
	case err != nil:
		return nil, err
	case r.N > MaxLayers:
		return nil, fmt.Errorf("%w: %d layers, there can be 1 to %d", exhaustive.ErrTooHard, r.N, MaxLayers)
	case !(bandwidth >= 0):
		return nil, fmt.Errorf("%w: bandwidth is %v, it must not be negative", exhaustive.ErrTooHard, bandwidth)
	}
	s := &seconds{
		Layers: r, Search: exhaustive.Search[second, none]{Memory: memory, Limit: limit}, activation: activation,
		size: append(slices.Clone(r.A), r.Abar...), send: make([]int8, 2*r.N+2),
	}
	s.Needs, s.Bound = s.needs, s.bound
	integer := func(x float64) int8 {
		n, wrong := exhaustive.SmallInteger("a duration or size/bandwidth", x)
		if wrong != nil {
			err = wrong
		}
		return n
	}
	for k, u := range [][]float64{r.Forward, r.Backward} {
		s.duration[k] = make([]int8, r.N+1)
		for l, x := range u {
			s.duration[k][l] = integer(x)
		}
	}
	for id, x := range s.size {
		moves := id != s.abarOf(0) && x > 0 && bandwidth > 0
		if activation {
			moves = moves && (id == 0 || id > r.N && id < 2*r.N+1)
		}
		if moves {
			s.send[id] = integer(x / bandwidth)
			if s.send[id] == 0 && err == nil {
				err = fmt.Errorf("%w: a tensor takes no time to transfer", exhaustive.ErrTooHard)
			}
		}
	}
	return s, err
}

// abarOf is the number of ā_ℓ; that of ā_0 means nothing.
func (s *seconds) abarOf(l int) int { return s.N + 1 + l }

func bit(id int) uint16 { return 1 << id }

// bound is what is left to do on the device at least: the backwards, and the
// forwards whose ā is nowhere.
func (s *seconds) bound(at *label) float64 {
	x := &at.State
	sum := 0.0
	if x.op >= 0 {
		sum = float64(x.left)
	}
	for l := 1; l <= int(x.next); l++ {
		if int8(l) != x.next || x.op != remat.StepB>>8 {
			sum += s.Backward[l]
		}
		id := s.abarOf(l)
		if (x.stored|x.host)&bit(id) == 0 && !(x.op == remat.StepAll>>8 && int(x.layer) == l) {
			sum += s.Forward[l]
		}
	}
	return sum
}

// needs returns the memory in use.
func (s *seconds) needs(x second) float64 {
	sum := 0.0
	for id, size := range s.size {
		if x.stored&bit(id) != 0 {
			sum += size
		}
	}
	if x.link < 0 {
		sum += s.size[-x.link-1]
	}
	if int(x.next) < s.N {
		sum += s.Delta[x.next]
	}
	l := int(x.layer)
	switch int(x.op) << 8 {
	case remat.StepAll:
		sum += s.Abar[l] + s.OFAll[l]
	case remat.StepCk, remat.StepNone:
		sum += s.A[l] + s.OFCk[l]
	case remat.StepB:
		sum += s.Delta[l-1] + s.OB[l]
		if l == s.N {
			sum += s.Delta[l]
		}
	}
	return sum
}

// expand adds every step out of a state.
func (s *seconds) expand(x second) {
	if !x.fresh {
		if x.op < 0 {
			s.computations(x)
			s.discards(x)
		}
		if x.link == 0 {
			s.transfers(x)
		}
	}
	s.wait(x)
}

// busy reports whether a tensor is being sent, or has been.
func (x *second) busy(id int) bool { return x.link == int8(id+1) || x.gone&bit(id) != 0 }

// usable reports whether a tensor is stored, and coming whether it will be.
func (x *second) usable(id int) bool { return x.stored&bit(id) != 0 }
func (x *second) coming(id int) bool { return x.link == int8(-id-1) }

func (s *seconds) computations(x second) {
	for l := 1; l <= int(x.next); l++ {
		if s.activation && l != int(x.forwards)+1 && int(x.forwards) < s.N {
			continue
		}
		a, abar := l-1, s.abarOf(l-1)
		in := -1 // which input it uses: rather one that stays
		switch hasA, hasAbar := x.usable(a), x.usable(abar); {
		case hasA && (!hasAbar || !x.busy(a) || x.busy(abar)):
			in = a
		case hasAbar:
			in = abar
		}
		if in < 0 {
			continue
		}
		run := func(kind int, uses uint16) {
			y := x
			y.op, y.layer, y.left, y.uses = int8(kind>>8), int8(l), s.duration[0][l], uses
			if kind == remat.StepB {
				y.left = s.duration[1][l]
			}
			if !platform.Fits(s.needs(y), s.Memory) {
				return
			}
			if y.left == 0 {
				s.end(&y)
			}
			s.Add(y, uint32(kind|l), 0, 0)
		}
		made := s.abarOf(l)
		if !x.usable(made) && !x.coming(made) && !(s.activation && int(x.forwards) >= s.N) {
			run(remat.StepAll, bit(in))
		}
		if !s.activation && !x.usable(l) && !x.coming(l) && l < int(x.next) {
			run(remat.StepCk, bit(in))
			if x.usable(a) {
				run(remat.StepNone, bit(a))
			}
		}
		if l == int(x.next) && x.usable(made) {
			run(remat.StepB, bit(in)|bit(made))
		}
	}
}

// end ends the running computation.
func (s *seconds) end(x *second) {
	l := int(x.layer)
	consume := uint16(0)
	switch int(x.op) << 8 {
	case remat.StepAll:
		x.stored |= bit(s.abarOf(l))
		if s.activation {
			x.forwards++
		}
	case remat.StepCk:
		x.stored |= bit(l)
	case remat.StepNone:
		x.stored |= bit(l)
		consume = bit(l - 1)
	case remat.StepB:
		consume = bit(s.abarOf(l)) | bit(l-1)
		x.next--
	}
	if x.link > 0 {
		consume &^= bit(int(x.link) - 1)
	}
	x.stored &^= consume
	x.gone &^= consume
	x.op, x.layer, x.left, x.uses = -1, 0, 0, 0
	s.release(x)
}

// release takes away what has been sent and is not used.
func (s *seconds) release(x *second) {
	goes := x.gone &^ x.uses
	if x.link > 0 {
		goes &^= bit(int(x.link) - 1)
	}
	if s.activation {
		for l := int(x.forwards); l < s.N; l++ { // F_{l+1} is to come
			id := 0
			if l > 0 {
				id = s.abarOf(l)
			}
			goes &^= bit(id)
		}
	}
	x.stored &^= goes
	x.gone &^= goes
}

func (s *seconds) discards(x second) {
	if s.activation {
		return
	}
	for id, size := range s.size {
		if size > 0 && x.usable(id) && !x.busy(id) {
			y := x
			y.stored &^= bit(id)
			kind := remat.StepDA | id
			if id > s.N {
				kind = remat.StepDAbar | (id - s.N - 1)
			}
			s.Add(y, uint32(kind), 0, 0)
		}
	}
}

func (s *seconds) transfers(x second) {
	for id, d := range s.send {
		if d == 0 {
			continue
		}
		y := x
		y.rest = d
		switch {
		case x.usable(id) && x.host&bit(id) == 0:
			y.link = int8(id + 1)
			s.Add(y, uint32(stepO|id), 0, 0)
		case !x.usable(id) && x.host&bit(id) != 0:
			y.link, y.fresh = int8(-id-1), true
			s.Add(y, uint32(stepP|id), 0, 0)
		}
	}
}

// wait lets a second pass.
func (s *seconds) wait(x second) {
	x.fresh = false
	if x.link != 0 {
		if x.rest--; x.rest == 0 {
			if id := int(x.link) - 1; id >= 0 {
				x.host |= bit(id)
				x.gone |= bit(id) & x.stored
			} else {
				x.stored |= bit(-int(x.link) - 1)
			}
			x.link = 0
		}
	}
	if x.op >= 0 {
		if x.left--; x.left == 0 {
			s.end(&x)
		}
	}
	s.release(&x)
	s.Add(x, stepWait, 1, 0)
}

// plan writes a way as a plan.
func (s *seconds) plan(c *chain.Chain, m platform.Platform, last int32) *plan.Plan {
	problem := plan.RematOffload
	if s.activation {
		problem = plan.ActivationOffload
	}
	p := plan.New(problem, "exhaustive", c, m)
	peak := s.size[0]
	for k := last; s.Labels[k].From >= 0; k = s.Labels[k].From {
		n := &s.Labels[k]
		l := int(n.Step & 0xff)
		during := n.State
		if n.Step < remat.StepDA {
			during = s.Labels[n.From].State
			during.op, during.layer = int8(n.Step>>8), int8(l)
		}
		peak = max(peak, s.needs(during))
		o := plan.Op{Layer: l, Start: n.Cost}
		long := 0.0
		move := func(op string) {
			o.Op, o.Tensor, long = op, plan.TensorA, float64(s.send[l])
			switch {
			case l > s.N:
				o.Tensor, o.Layer = plan.TensorAbar, l-s.N-1
			case s.activation:
				o.Tensor = plan.TensorAbar
			}
		}
		switch n.Step &^ 0xff {
		case stepWait:
			continue
		case remat.StepAll:
			o.Op, long = plan.OpFAll, s.Forward[l]
		case remat.StepCk:
			o.Op, long = plan.OpFCk, s.Forward[l]
		case remat.StepNone:
			o.Op, long = plan.OpFNone, s.Forward[l]
		case remat.StepB:
			o.Op, long = plan.OpB, s.Backward[l]
		case remat.StepDA:
			o.Op, o.Tensor = plan.OpD, plan.TensorA
		case remat.StepDAbar:
			o.Op, o.Tensor = plan.OpD, plan.TensorAbar
		case stepO:
			move(plan.OpO)
		case stepP:
			move(plan.OpP)
		}
		o.End = o.Start + long
		p.Ops = append(p.Ops, o)
	}
	slices.Reverse(p.Ops)
	p.Claims = plan.Claims{Makespan: s.Labels[last].Cost, PeakMemory: peak}
	return p
}
