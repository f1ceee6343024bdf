package join

import (
	"context"
	"fmt"

	"workbench/model/instance/join"
	"workbench/model/plan"
)

// DP is the dynamic program of [004] Theorem 3, Opt_b-multi(L, m, b), with b
// given by j.Keep: all true is MULTI-δ, all false MULTI-∅. It is optimal. Fewer
// slots than Lemma 2 asks for give a *plan.Infeasible error, the end of ctx one
// wrapping plan.ErrNoPlan. With m = min(slots, StoreAllSlots):
// O(m·ΣL·Π(L_k+1)) time, 4·m·Π(L_k+1) bytes.
func DP(ctx context.Context, j *join.Join, slots int) (*plan.Plan, error) {
	if err := check(j); err != nil {
		return nil, err
	}
	if slots < LeastSlots(j) {
		return nil, infeasible(j, slots)
	}
	c, err := newCurve(ctx, j, min(slots, StoreAllSlots(j)))
	if err != nil {
		return nil, err
	}
	return c.Plan(slots)
}

// DPCurve is DP for every number of slots in one run.
func DPCurve(ctx context.Context, j *join.Join) (*Curve, error) {
	if err := check(j); err != nil {
		return nil, err
	}
	return newCurve(ctx, j, StoreAllSlots(j))
}

// Curve is the table of Theorem 3: the fewest forwards for every m = K..slots and
// every L' ≤ L, the lengths that are left of the branches when the first layers
// of each lie between checkpoints that were taken.
//
// b is no index of it. A branch that was shortened is one whose δ must be kept,
// for its first layers are still to come: b' = 1 where L' < L, and the b of the
// instance where L' = L. That is fewer states than with b sorted, the remark
// after Theorem 3.
type Curve struct {
	j      *join.Join
	stride []int // of L'_k in the index of L', the last branch running fastest
	states int   // Π(L_k+1)
	slots  int   // most slots in the table
	width  int   // slots - K + 1
	t      []int32
	rev    *revolve
}

// newCurve fills the table for K..slots slots.
func newCurve(ctx context.Context, j *join.Join, slots int) (*Curve, error) {
	c := &Curve{j: j, stride: make([]int, j.K()), slots: slots, width: slots - j.K() + 1}
	states, longest := 1.0, 0
	for _, l := range j.Branches {
		states *= float64(l + 1)
		longest = max(longest, l)
	}
	if bytes := 4 * states * float64(c.width); bytes > maxBytes {
		return nil, refuse(fmt.Sprintf("the table of Theorem 3, %.3g states by %d numbers of slots,", states, c.width), bytes,
			"give fewer slots or shorter branches")
	}
	c.states = 1
	for k := j.K() - 1; k >= 0; k-- {
		c.stride[k] = c.states
		c.states *= j.Branches[k] + 1
	}
	var err error
	if c.rev, err = newRevolve(ctx, max(longest-1, 0), slots); err != nil {
		return nil, err
	}
	c.t = make([]int32, c.states*c.width)
	left := make([]int, j.K()) // L'
	for state := range c.states {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("join-dp: %w in the table of Theorem 3: %w", plan.ErrNoPlan, err)
		}
		c.fill(state, left)
		for k := j.K() - 1; k >= 0; k-- { // the next L'
			if left[k]++; left[k] <= j.Branches[k] {
				break
			}
			left[k] = 0
		}
	}
	return c, nil
}

// row returns the fewest forwards of a state for K..slots slots.
func (c *Curve) row(state int) []int32 { return c.t[state*c.width : (state+1)*c.width] }

// kept returns b'_k of a branch of which so much is left.
func (c *Curve) kept(k, left int) int {
	if left < c.j.Branches[k] || c.j.Keep[k] {
		return 1
	}
	return 0
}

// others returns Σ_{h≠k} b'_h.
func (c *Curve) others(k int, left []int) int {
	n := 0
	for h, l := range left {
		if h != k {
			n += c.kept(h, l)
		}
	}
	return n
}

// fill computes (1.4) for one state and all numbers of slots, the states of
// shorter branches being known. From ΣL'+K slots on everything is stored.
func (c *Curve) fill(state int, left []int) {
	K, out := c.j.K(), c.row(state)
	total := 0
	for _, l := range left {
		total += l
	}
	most := min(total, c.width)
	for x := range most {
		out[x] = none
	}
	for x := most; x < c.width; x++ {
		out[x] = int32(total)
	}
	if most < 2 {
		return // K slots never suffice but for L' = 0
	}
	for k, l := range left {
		spare := K - c.others(k, left) // slots for ADJCHAIN when there are K in all
		for i := 1; i <= l; i++ {
			// Entry x of these is for K+1+x slots.
			rest := c.row(state - i*c.stride[k])[:most-1]
			last := c.rev.row(i - 1)[spare+1:][:most-1]
			best := out[1:][:most-1]
			for x, v := range rest {
				best[x] = min(best[x], int32(i)+v+last[x])
			}
		}
	}
}

// first returns the (i, k) that attain (1.4), the smallest k, then the smallest
// i; k counts from 0. L' is not 0 and m at least its m_min.
func (c *Curve) first(state int, left []int, m int) (i, k int) {
	K := c.j.K()
	want := c.row(state)[m-K]
	for k, l := range left {
		slots := m - c.others(k, left)
		for i := 1; i <= l; i++ {
			if int32(i)+c.row(state - i*c.stride[k])[m-1-K]+c.rev.row(i - 1)[slots] == want {
				return i, k
			}
		}
	}
	panic("join: the table of Theorem 3 contradicts itself")
}

// Points returns the makespan for every number of slots from LeastSlots to
// StoreAllSlots.
func (c *Curve) Points() []Point {
	var out []Point
	for m := LeastSlots(c.j); m <= c.slots; m++ {
		out = append(out, Point{m, makespan(c.j, int(c.row(c.states - 1)[m-c.j.K()]))})
	}
	return out
}

// Plan returns the schedule for so many slots, a *plan.Infeasible error if they
// are fewer than Lemma 2 asks for. O(ΣL) per checkpoint.
func (c *Curve) Plan(slots int) (*plan.Plan, error) {
	if slots < LeastSlots(c.j) {
		return nil, infeasible(c.j, slots)
	}
	m := min(slots, c.slots)
	if err := checkSize(c.j, int(c.row(c.states - 1)[m-c.j.K()])); err != nil {
		return nil, err
	}
	s := newSequence(c.j)
	c.run(s, c.states-1, append([]int(nil), c.j.Branches...), m)
	return s.plan("join-dp", slots), nil
}

// run appends the canonical solution (Definition 8) of the state in m slots.
func (c *Curve) run(s *sequence, state int, left []int, m int) {
	if state == 0 {
		s.loss()
		return
	}
	i, k := c.first(state, left, m)
	branch, base := k+1, c.j.Branches[k]-left[k]
	spare := m - c.others(k, left)
	s.copy(branch, base)
	s.forward(branch, base, i)
	left[k] -= i
	c.run(s, state-i*c.stride[k], left, m-1)
	left[k] += i
	c.rev.run(s, branch, base, i-1, spare)
	if base == 0 {
		s.finish(branch)
	}
}
