package exhaustive

import (
	"fmt"
	"math"
	"slices"

	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
)

// MaxRematOffloadLayers is the length of the longest chain that [RematOffload]
// searches.
const MaxRematOffloadLayers = 5

// RematOffload returns the least makespan of rematerialization with offloading
// ([004] Problem 8, by the rules of [plan.VerifyOffload]) among plans in which
// everything starts at a whole time, and a plan that has it. Durations and
// size/bandwidth must be integers of at most 100. limit is the most states to
// visit: random chains of three layers have some hundred, at most ten thousand,
// of four some thousand, rarely more than a million. The errors are [ErrInfeasible], [ErrLimit] and
// [ErrTooHard].
//
// Plans of other times may be better, but only by an offload that ends right
// after a computation that uses its tensor has started: then the tensor serves
// that computation still, which it does not if the two are at the same instant.
// (Rarely: thirds of the unit gained nothing on 1,205 random chains of two and three
// layers; a chain where it is 4 instead of 5 s is in bench/soak.) Everything else can be moved to whole times, see [Offload], 2.
//
// It is A* over (values stored, values on the host, what runs and how much of it
// is left), second by second. Steps are left out that no plan needs:
//   - computing what is stored or coming, or what nothing can read that counts
//     (see [Remat]);
//   - sending what the host has: D does the same at no cost before the
//     computation that runs when the transfer ends, or after it if it uses the
//     tensor;
//   - moving or discarding a tensor of no bytes: keeping it is as good (F_ck for
//     F_none).
func RematOffload(c *chain.Chain, memory, bandwidth float64, limit int) (float64, *plan.Plan, error) {
	return searchSeconds(c, memory, bandwidth, limit, false)
}

// searchSeconds is [RematOffload], or the same for activation offloading.
func searchSeconds(c *chain.Chain, memory, bandwidth float64, limit int, activation bool) (float64, *plan.Plan, error) {
	s, err := newSeconds(c, memory, bandwidth, limit, activation)
	if err != nil {
		return 0, nil, err
	}
	last, err := s.run(s, second{stored: 1, next: int8(s.n), op: -1})
	if err != nil {
		return 0, nil, err
	}
	return float64(s.nodes[last].time), s.plan(c, platform.Platform{Memory: memory, Bandwidth: bandwidth}, last), nil
}

// A second is a state at a whole time. Tensor ℓ is a_ℓ, tensor N+1+ℓ is ā_ℓ; ā_0
// is a_0. What is said of sets holds for their bits.
type second struct {
	stored, host uint16
	gone         uint16 // sent; they go when what uses them has ended
	uses         uint16 // what the running computation does
	next         int8   // the next backward, or the one that runs
	forwards     int8   // computations of activation offloading that have ended
	op           int8   // what runs: a step of remat.go >> 8, -1: nothing
	layer        int8
	left         int8 // seconds
	link         int8 // tensor + 1 that is sent; −tensor − 1: fetched; 0: none
	rest         int8
	fresh        bool // a prefetch has just started: it reserves last
}

// Steps beside those of remat.go; the tensor stands in the low bits.
const (
	stepWait = (iota + 6) << 8
	stepO
	stepP
)

type seconds struct {
	*remat
	clocked[second]
	activation bool
	duration   [2][]int8 // of F_ℓ and B_ℓ
	send       []int8    // of tensors; 0: it is not moved
	size       []float64
}

func newSeconds(c *chain.Chain, memory, bandwidth float64, limit int, activation bool) (*seconds, error) {
	r, err := newRemat(c, memory)
	switch {
	case err != nil:
		return nil, err
	case r.n > MaxRematOffloadLayers:
		return nil, fmt.Errorf("%w: %d layers, there can be 1 to %d", ErrTooHard, r.n, MaxRematOffloadLayers)
	case !(bandwidth >= 0):
		return nil, fmt.Errorf("%w: bandwidth is %v, it must not be negative", ErrTooHard, bandwidth)
	}
	s := &seconds{
		remat: r, clocked: clocked[second]{memory: memory, limit: limit}, activation: activation,
		size: append(slices.Clone(r.a), r.abar...), send: make([]int8, 2*r.n+2),
	}
	whole := func(x float64) int8 {
		if !(x >= 0 && x <= 100) || x != math.Trunc(x) {
			err = fmt.Errorf("%w: there is a duration or a size/bandwidth of %g; an integer of 0 to 100 would do", ErrTooHard, x)
			return 0
		}
		return int8(x)
	}
	for k, u := range [][]float64{r.uF, r.uB} {
		s.duration[k] = make([]int8, r.n+1)
		for l, x := range u {
			s.duration[k][l] = whole(x)
		}
	}
	for id, x := range s.size {
		moves := id != s.abarOf(0) && x > 0 && bandwidth > 0
		if activation {
			moves = moves && (id == 0 || id > r.n && id < 2*r.n+1)
		}
		if moves {
			s.send[id] = whole(x / bandwidth)
			if s.send[id] == 0 && err == nil {
				err = fmt.Errorf("%w: a tensor takes no time to transfer", ErrTooHard)
			}
		}
	}
	return s, err
}

// abarOf is the number of ā_ℓ; that of ā_0 means nothing.
func (s *seconds) abarOf(l int) int { return s.n + 1 + l }

func bit(id int) uint16 { return 1 << id }

// bound is what is left to do on the device at least: the backwards, and the
// forwards whose ā is nowhere.
func (s *seconds) bound(x second) float64 {
	sum := 0.0
	if x.op >= 0 {
		sum = float64(x.left)
	}
	for l := 1; l <= int(x.next); l++ {
		if int8(l) != x.next || x.op != stepB>>8 {
			sum += s.uB[l]
		}
		id := s.abarOf(l)
		if (x.stored|x.host)&bit(id) == 0 && !(x.op == stepAll>>8 && int(x.layer) == l) {
			sum += s.uF[l]
		}
	}
	return sum
}

func (s *seconds) finished(x second) bool { return x.next == 0 }

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
	if int(x.next) < s.n {
		sum += s.delta[x.next]
	}
	l := int(x.layer)
	switch int(x.op) << 8 {
	case stepAll:
		sum += s.abar[l] + s.oF[l]
	case stepCk, stepNone:
		sum += s.a[l] + s.oC[l]
	case stepB:
		sum += s.delta[l-1] + s.oB[l]
		if l == s.n {
			sum += s.delta[l]
		}
	}
	return sum
}

// expand takes every step out of a state.
func (s *seconds) expand(x second, at, time int32) {
	if !x.fresh {
		if x.op < 0 {
			s.computations(x, at, time)
			s.discards(x, at, time)
		}
		if x.link == 0 {
			s.transfers(x, at, time)
		}
	}
	s.wait(x, at, time)
}

// busy reports whether a tensor is being sent, or has been.
func (x *second) busy(id int) bool { return x.link == int8(id+1) || x.gone&bit(id) != 0 }

// usable reports whether a tensor is stored, and coming whether it will be.
func (x *second) usable(id int) bool { return x.stored&bit(id) != 0 }
func (x *second) coming(id int) bool { return x.link == int8(-id-1) }

func (s *seconds) computations(x second, at, time int32) {
	for l := 1; l <= int(x.next); l++ {
		if s.activation && l != int(x.forwards)+1 && int(x.forwards) < s.n {
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
			if kind == stepB {
				y.left = s.duration[1][l]
			}
			if !platform.Fits(s.needs(y), s.memory) {
				return
			}
			if y.left == 0 {
				s.end(&y)
			}
			s.enqueue(y, at, uint32(kind|l), time)
		}
		made := s.abarOf(l)
		if !x.usable(made) && !x.coming(made) && !(s.activation && int(x.forwards) >= s.n) {
			run(stepAll, bit(in))
		}
		if !s.activation && !x.usable(l) && !x.coming(l) && l < int(x.next) {
			run(stepCk, bit(in))
			if x.usable(a) {
				run(stepNone, bit(a))
			}
		}
		if l == int(x.next) && x.usable(made) {
			run(stepB, bit(in)|bit(made))
		}
	}
}

// end ends the running computation.
func (s *seconds) end(x *second) {
	l := int(x.layer)
	consume := uint16(0)
	switch int(x.op) << 8 {
	case stepAll:
		x.stored |= bit(s.abarOf(l))
		if s.activation {
			x.forwards++
		}
	case stepCk:
		x.stored |= bit(l)
	case stepNone:
		x.stored |= bit(l)
		consume = bit(l - 1)
	case stepB:
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
		for l := int(x.forwards); l < s.n; l++ { // F_{l+1} is to come
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

func (s *seconds) discards(x second, at, time int32) {
	if s.activation {
		return
	}
	for id, size := range s.size {
		if size > 0 && x.usable(id) && !x.busy(id) {
			y := x
			y.stored &^= bit(id)
			kind := stepDA | id
			if id > s.n {
				kind = stepDAbar | (id - s.n - 1)
			}
			s.enqueue(y, at, uint32(kind), time)
		}
	}
}

func (s *seconds) transfers(x second, at, time int32) {
	for id, d := range s.send {
		if d == 0 {
			continue
		}
		y := x
		y.rest = d
		switch {
		case x.usable(id) && x.host&bit(id) == 0:
			y.link = int8(id + 1)
			s.enqueue(y, at, uint32(stepO|id), time)
		case !x.usable(id) && x.host&bit(id) != 0:
			y.link, y.fresh = int8(-id-1), true
			s.enqueue(y, at, uint32(stepP|id), time)
		}
	}
}

// wait lets a second pass.
func (s *seconds) wait(x second, at, time int32) {
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
	s.enqueue(x, at, stepWait, time+1)
}

// plan writes a way as a plan.
func (s *seconds) plan(c *chain.Chain, m platform.Platform, last int32) *plan.Plan {
	problem := plan.RematOffload
	if s.activation {
		problem = plan.ActivationOffload
	}
	p := plan.New(problem, "exhaustive", c, m)
	peak := s.size[0]
	for k := last; s.nodes[k].from >= 0; k = s.nodes[k].from {
		n := &s.nodes[k]
		l := int(n.did & 0xff)
		during := n.state
		if n.did < stepDA {
			during = s.nodes[n.from].state
			during.op, during.layer = int8(n.did>>8), int8(l)
		}
		peak = max(peak, s.needs(during))
		o := plan.Op{Layer: l, Start: float64(n.time)}
		long := 0.0
		move := func(op string) {
			o.Op, o.Tensor, long = op, plan.TensorA, float64(s.send[l])
			switch {
			case l > s.n:
				o.Tensor, o.Layer = plan.TensorAbar, l-s.n-1
			case s.activation:
				o.Tensor = plan.TensorAbar
			}
		}
		switch n.did &^ 0xff {
		case stepWait:
			continue
		case stepAll:
			o.Op, long = plan.OpFAll, s.uF[l]
		case stepCk:
			o.Op, long = plan.OpFCk, s.uF[l]
		case stepNone:
			o.Op, long = plan.OpFNone, s.uF[l]
		case stepB:
			o.Op, long = plan.OpB, s.uB[l]
		case stepDA:
			o.Op, o.Tensor = plan.OpD, plan.TensorA
		case stepDAbar:
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
	p.Claims = plan.Claims{Makespan: float64(s.nodes[last].time), PeakMemory: peak}
	return p
}
