// Package join finds optimal plans of tiny joins by exhaustive search.
package join

import (
	"fmt"
	"math"
	"math/bits"

	"workbench/model/exhaustive"
	"workbench/model/instance/join"
	"workbench/model/plan"
	"workbench/model/platform"
)

// Largest joins that [Search] takes: in branches, and in forwards and branches together.
const (
	MaxBranches = 6
	MaxValues   = 24
)

// Search returns the least makespan of a join ([004] chapter 1) in a number of
// slots, and a plan that has it. limit is the most states to visit; joins with
// seven forwards in up to three branches have some thousands at most. The
// errors are [exhaustive.ErrInfeasible], [exhaustive.ErrLimit] and [exhaustive.ErrTooHard].
//
// It is Dijkstra's algorithm over which activations of each branch are stored
// and how far its backwards are. By the rules there can be several copies of
// an activation. One is enough, if a copy is made by S just before an F that
// would consume the only one: take any plan, and follow it with one copy of
// whatever it has. S is put off; an F whose output is there already is left
// out, its input discarded if that was the last copy; an F, B or LOSS that
// leaves further copies is preceded by S. There are never more values than in
// the plan. After a B or the LOSS the copy is of no use, because only what
// comes after it would read it. Values that nothing to come can read are
// discarded at once.
func Search(j *join.Join, slots, limit int) (float64, *plan.Plan, error) {
	r, err := newJoined(j)
	if err != nil {
		return 0, nil, err
	}
	if slots < j.K() { // the inputs alone
		return 0, nil, exhaustive.ErrInfeasible
	}
	makespan, path, err := r.search(float64(slots), false, limit)
	if err != nil {
		return 0, nil, err
	}
	return makespan, r.plan(slots, path), nil
}

// LeastSlots returns the least number of slots in which there is a plan of
// a join. The errors are [exhaustive.ErrLimit] and [exhaustive.ErrTooHard].
func LeastSlots(j *join.Join, limit int) (int, error) {
	r, err := newJoined(j)
	if err != nil {
		return 0, err
	}
	peak, _, err := r.search(math.Inf(1), true, limit)
	if err != nil {
		return 0, err
	}
	return max(int(peak), j.K()), nil
}

// joined is a join and the bits of each branch: from low on, bit i for a_i, i = 0..L.
type joined struct {
	j   *join.Join
	low []int
}

func newJoined(j *join.Join) (*joined, error) {
	k := j.K()
	if k == 0 || k > MaxBranches {
		return nil, fmt.Errorf("%w: %d branches, there can be 1 to %d", exhaustive.ErrTooHard, k, MaxBranches)
	}
	if len(j.Keep) != k {
		return nil, fmt.Errorf("%w: keep has %d entries for %d branches", exhaustive.ErrTooHard, len(j.Keep), k)
	}
	r := &joined{j: j}
	values := 0
	for b, l := range j.Branches {
		if l < 0 || l > MaxValues {
			return nil, fmt.Errorf("%w: branch %d has length %d, it can be 0 to %d", exhaustive.ErrTooHard, b+1, l, MaxValues)
		}
		r.low = append(r.low, values)
		values += l + 1
	}
	if values > MaxValues {
		return nil, fmt.Errorf("%w: %d forwards and branches, there can be %d", exhaustive.ErrTooHard, values, MaxValues)
	}
	for _, x := range []float64{j.ForwardTime, j.BackwardTime, j.LossTime} {
		if !(x >= 0) || math.IsInf(x, 1) {
			return nil, fmt.Errorf("%w: a time is %v, it must be finite and not negative", exhaustive.ErrTooHard, x)
		}
	}
	return r, nil
}

// A held is a state: which activations are stored, as bits, and of each branch
// which gradient: -1: before the loss, i: δ_i, with δ_0 discarded unless it is
// kept.
type held struct {
	values   uint32
	gradient [MaxBranches]int8
}

// hash takes 24 bits for the activations and 5 for each gradient.
func (x held) hash() uint64 {
	k := uint64(x.values)
	for b, g := range x.gradient {
		k |= uint64(g+1) << (MaxValues + 5*b)
	}
	return k
}

type (
	none   = struct{}
	engine = exhaustive.Search[held, none]
	label  = exhaustive.Label[held, none]
)

// Steps of joins; beside them stand the branch, 0-based, and the layer of the
// operation.
const (
	stepF     = iota << 16 // replaces its input
	stepCopyF              // S, then F
	stepBack
	stepLoss
	stepD // of an activation
)

func joinStep(kind, branch, layer int) uint32 { return uint32(kind | branch<<8 | layer) }

// search finds the best way from the inputs to the gradients of the inputs: of least time
// or, with peak, of least memory.
func (r *joined) search(memory float64, peak bool, limit int) (float64, []label, error) {
	goal := func(x held) bool {
		for b := range r.low {
			if x.gradient[b] != 0 {
				return false
			}
		}
		return true
	}
	s := &engine{Memory: memory, Peak: peak, Limit: limit, Hash: held.hash}
	last, err := s.Run(r.start(), goal, func(x label) { r.expand(x.State, s) })
	if err != nil {
		return 0, nil, err
	}
	return s.Labels[last].Cost, s.Path(last), nil
}

func (r *joined) start() (x held) {
	for b, low := range r.low {
		x.values |= 1 << low
		x.gradient[b] = -1
	}
	return x
}

// slots returns the number of values stored in x.
func (r *joined) slots(x *held) int {
	n := bits.OnesCount32(x.values)
	for b := range r.low {
		if g := x.gradient[b]; g > 0 || g == 0 && r.j.Keep[b] {
			n++
		}
	}
	return n
}

// has reports whether a_i of branch b is stored.
func (r *joined) has(x *held, b, i int) bool { return x.values>>(r.low[b]+i)&1 != 0 }

func (r *joined) bit(b, i int) uint32 { return 1 << (r.low[b] + i) }

// expand adds every step out of x. Memory is counted in slots.
func (r *joined) expand(x held, s *engine) {
	n := float64(r.slots(&x))
	beforeLoss := x.gradient[0] < 0
	ready := beforeLoss
	for b, length := range r.j.Branches {
		// F_1..F_last can be of use: up to the input of the next backward.
		last := length
		if !beforeLoss {
			last = int(x.gradient[b]) - 1
		}
		for i := 1; i <= last; i++ {
			if !r.has(&x, b, i-1) || r.has(&x, b, i) {
				continue
			}
			y := x
			y.values |= r.bit(b, i)
			s.Add(y, joinStep(stepCopyF, b, i), r.j.ForwardTime, n+1)
			y.values &^= r.bit(b, i-1)
			s.Add(y, joinStep(stepF, b, i), r.j.ForwardTime, n)
		}
		for i := range length + 1 {
			if r.has(&x, b, i) {
				y := x
				y.values &^= r.bit(b, i)
				s.Add(y, joinStep(stepD, b, i), 0, 0)
			}
		}
		if g := int(x.gradient[b]); g > 0 && r.has(&x, b, g-1) {
			y := x
			y.gradient[b]--
			y.values &^= r.bit(b, g-1)
			s.Add(y, joinStep(stepBack, b, g), r.j.BackwardTime, n)
		}
		ready = ready && r.has(&x, b, length)
	}
	if ready {
		y := x
		for b, length := range r.j.Branches {
			y.gradient[b] = int8(length)
			y.values &^= r.bit(b, length)
		}
		s.Add(y, stepLoss, r.j.LossTime, n)
	}
}

// plan writes a way through the states as a plan.
func (r *joined) plan(slots int, path []label) *plan.Plan {
	p := plan.New(plan.Join, "exhaustive", r.j, platform.Platform{Memory: float64(slots)})
	x := r.start()
	time, peak := 0.0, r.slots(&x)
	add := func(o plan.Op, duration float64) {
		o.Start, o.End = time, time+duration
		time += duration
		p.Ops = append(p.Ops, o)
	}
	finish := func(b int, g int8) {
		if g == 0 && !r.j.Keep[b] {
			add(plan.Op{Op: plan.OpD, Tensor: plan.TensorDelta, Branch: b + 1}, 0)
		}
	}
	for _, to := range path {
		y := to.State
		b, layer := int(to.Step>>8&0xff), int(to.Step&0xff)
		peak = max(peak, r.slots(&x), r.slots(&y))
		switch to.Step &^ 0xffff {
		case stepCopyF:
			add(plan.Op{Op: plan.OpS, Branch: b + 1, Layer: layer - 1}, 0)
			fallthrough
		case stepF:
			add(plan.Op{Op: plan.OpF, Branch: b + 1, Layer: layer}, r.j.ForwardTime)
		case stepBack:
			add(plan.Op{Op: plan.OpB, Branch: b + 1, Layer: layer}, r.j.BackwardTime)
			finish(b, y.gradient[b])
		case stepLoss:
			add(plan.Op{Op: plan.OpLoss}, r.j.LossTime)
			for b := range r.low {
				finish(b, y.gradient[b])
			}
		case stepD:
			add(plan.Op{Op: plan.OpD, Tensor: plan.TensorA, Branch: b + 1, Layer: layer}, 0)
		}
		x = y
	}
	p.Claims = plan.Claims{Makespan: time, PeakMemory: float64(peak)}
	return p
}
