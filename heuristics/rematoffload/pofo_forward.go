package rematoffload

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"workbench/model/plan"
)

// state is (s, A_s, Δ_F, Δ_B, x) of [004] 4.1.4, reached from (1,0,0,0) by decisions for the layers before s; s
// and x are those of its list. The cost of a sequence is that of its decisions so far plus that of the rest, which
// depends only on the state. States are therefore expanded forwards, by increasing s, instead of by recursion from
// s = 1, so that only relevant ones are visited.
type state struct {
	kept    float64 // A_s, bytes
	out     float64 // Δ_F, bytes
	back    float64 // Δ_B, bytes
	cost    float64 // seconds of F_1 .. F_{s-1} and B_{s-1} .. B_1, including waits
	from    int32   // the previous state, -1: none; in the list of (source, fromX)
	source  int32   // its s
	tail    int32   // Case 2: the sequence of (source,s-1); -1: Case 1
	fromX   bool
	offload bool // v = 1: the input of layer source is offloaded
}

// forwards holds the states of layers 1..N by s and x.
type forwards struct {
	in     *instance
	d      *tails
	only   only
	lists  [][2]span
	atMost float64 // larger costs are pruned
	slot   float64 // bytes
	side   int     // of the grid: 0, 1, .. slots, plus one for rounding
	full   bool    // memory was insufficient for a state

	rests []rest
	*forth
}

// forth holds the buffers of a run.
type forth struct {
	states []state
	found  []state // of the current list
	cells  []cell  // of these
	order  []int32 // of these
	grid   []int32 // 1 + index of the state found in each cell, 0: none
	reach  []float64
}

// span is a range of states.
type span struct{ from, to int }

// list returns the states of layer s whose input is ā_{s-1} if x, else a_{s-1}.
func (f *forwards) list(s int, x bool) []state {
	at := f.lists[s][index(x)]
	return f.states[at.from:at.to]
}

// cell is A_s, Δ_F and Δ_B in slots, rounded up.
type cell struct{ kept, out, back int32 }

// only restricts a program to a pure strategy.
type only uint8

const (
	both          only = iota
	onlyRecompute      // nothing is offloaded
	onlyOffload        // nothing is recomputed
)

// end is a state of layer N, with the cost of the sequence.
type end struct {
	state
	x    bool
	cost float64
}

// run visits all states and returns the ends, the best first. The error wraps plan.ErrNoPlan if ctx ended before,
// or is a *TooLargeError.
func (f *forwards) run(ctx context.Context) (ends []end, err error) {
	in := f.in
	f.forth = &f.d.scratch
	f.full = !f.start()
	for s := 2; s <= in.N && !f.full; s++ {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("remat-offload: pofo: %w: %w", context.Cause(ctx), plan.ErrNoPlan)
		}
		f.all(s-1, false)
		f.all(s-1, true)
		f.lists[s][1] = f.keep()
		for source := s - 1; source >= 1 && f.only != onlyOffload; source-- {
			if !f.checkpoint(source, s-1) {
				break
			}
		}
		f.lists[s][0] = f.keep()
	}
	if f.full {
		return nil, f.d.noRoom()
	}
	for _, x := range [...]bool{false, true} {
		for _, z := range f.list(in.N, x) {
			if y, fits := f.loss(&z, x); fits {
				ends = append(ends, end{z, x, y})
			}
		}
	}
	slices.SortStableFunc(ends, func(x, y end) int { return cmp.Compare(x.cost, y.cost) })
	return ends, nil
}

// start creates the tables of a run and the first state; false if the memory does not suffice.
func (f *forwards) start() (ok bool) {
	f.lists = make([][2]span, f.in.N+1)
	f.found, f.cells = f.found[:0], f.cells[:0]
	if f.grid, ok = table(&f.d.ledger, f.grid, f.side*f.side*f.side); !ok {
		return false
	}
	if f.reach, ok = table(&f.d.ledger, f.reach, f.side*f.side); !ok {
		return false
	}
	if f.states, ok = reserve(&f.d.ledger, f.states[:0], 1); !ok {
		return false
	}
	f.states = append(f.states, state{from: -1, tail: -1})
	f.lists[1][0] = span{0, 1}
	return true
}

// wait returns the idle time of Lemma 8 until over bytes have left the device.
func (f *forwards) wait(over float64) float64 {
	if over <= 0 {
		return 0
	}
	return over / f.in.Bandwidth
}

// all applies Case 1 of 4.2.1: F_all s, the rest, B_s.
func (f *forwards) all(s int, x bool) {
	in := f.in
	list := f.list(s, x)
	input := in.Input(s, x)
	needF, needB := input+in.NeedAll(s), input+in.NeedBackward(s)
	for i := range list {
		z := &list[i]
		room := in.Memory - z.kept
		if needF > room || needB > room {
			continue
		}
		f.expand(i, z, &decision{
			s: s, t: s, x: x, tail: -1, input: input, keep: true,
			forward: in.UF[s] + f.wait(needF+z.out-room), backward: in.UB[s] + f.wait(needB+z.back-room),
		})
	}
}

// checkpoint applies Case 2: F_ck s, F_none s+1 .. t, the rest, a sequence of (s,t). It returns false if F_none of
// the layers s+1 .. t does not fit; then it does not fit for a smaller s either.
func (f *forwards) checkpoint(s, t int) bool {
	in := f.in
	first := in.A[s] + in.OC[s]
	most, wave := 0.0, first // of layers s+1..t; of all, less β·Σ uF_s..k-1
	for k := s + 1; k <= t; k++ {
		need := in.A[k-1] + in.A[k] + in.OC[k]
		most = max(most, need)
		wave = max(wave, need-in.Bandwidth*(in.Until[k-1]-in.Until[s-1]))
	}
	if most > in.Memory {
		return false
	}
	forward := in.Until[t] - in.Until[s-1]
	// A lower bound on the time that follows a state.
	rest := 2*forward + in.Until[in.N] - in.Until[t] + f.backwards(s)
	for _, x := range [...]bool{false, true} {
		list := f.list(s, x)
		input := in.Input(s, x)
		for i := range list {
			z := &list[i]
			if z.cost+rest > f.atMost {
				break // sorted by increasing cost
			}
			room := in.Memory - z.kept
			if input+first > room || most > room {
				continue
			}
			k, time := f.d.best(s, t, room-input, z.back)
			if k < 0 {
				continue
			}
			f.expand(i, z, &decision{
				s: s, t: t, x: x, tail: k, input: input, keep: input+most <= room,
				forward: forward + f.wait(wave+input+z.out-room), backward: time,
			})
		}
	}
	return true
}

func index(x bool) int {
	if x {
		return 1
	}
	return 0
}

// decision is the way in which layers s..t are computed from their input, ā_{s-1} if x.
type decision struct {
	s, t              int
	x                 bool
	tail              int32   // of Case 2; else -1
	forward, backward float64 // seconds, including waits
	input             float64 // bytes
	keep              bool    // the input may be kept
}

// expand adds the successors of the i-th state z by Table 4.1: with the input kept, v = 2, if that fits, and
// offloaded, v = 1.
func (f *forwards) expand(i int, z *state, d *decision) {
	beta := f.in.Bandwidth
	y := state{cost: z.cost + d.forward + d.backward, from: int32(i), source: int32(d.s), fromX: d.x, tail: d.tail}
	if d.keep {
		y.kept, y.out, y.back = z.kept+d.input, max(0, z.out-d.forward*beta), max(0, z.back-d.backward*beta)
		f.add(&y, d.t+1)
	}
	if f.only != onlyRecompute && d.input > 0 {
		y.kept, y.offload = z.kept, true
		y.out, y.back = max(0, z.out+d.input-d.forward*beta), max(0, z.back-d.backward*beta)+d.input
		f.add(&y, d.t+1)
	}
}

// add adds a state of layer s, unless no continuation of it can improve the result. Of the states in one cell of
// the grid, whose sides are a slot, it keeps the one that would be first if it had the minimum transfers of the
// cell.
func (f *forwards) add(y *state, s int) {
	in := f.in
	z := &f.rests[s]
	if y.cost+max(z.forward, y.out/in.Bandwidth)+max(z.backward, y.back/in.Bandwidth) > f.atMost {
		return
	}
	x := cell{f.slotsOf(y.kept), f.slotsOf(y.out), f.slotsOf(y.back)}
	side := int32(f.side)
	if x.kept >= side || x.out >= side || x.back >= side {
		return
	}
	at := &f.grid[(int(x.kept)*f.side+int(x.out))*f.side+int(x.back)]
	if *at > 0 && f.corner(y, x) >= f.corner(&f.found[*at-1], x) {
		return
	}
	if y.cost+z.bound(y.kept, in.Input(s, y.tail < 0), y.out, y.back, in.Bandwidth) > f.atMost*(1+plan.Tolerance) {
		return
	}
	if *at > 0 {
		f.found[*at-1] = *y
		return
	}
	var ok, also bool
	f.found, ok = reserve(&f.d.ledger, f.found, 1)
	f.cells, also = reserve(&f.d.ledger, f.cells, 1)
	if !ok || !also {
		f.full = true
		return
	}
	f.found, f.cells = append(f.found, *y), append(f.cells, x)
	*at = int32(len(f.found))
}

// backwards returns Σ uB_s..N.
func (f *forwards) backwards(s int) float64 { return f.d.backward[f.in.N] - f.d.backward[s-1] }

// slotsOf returns the number of slots for the given bytes.
func (f *forwards) slotsOf(bytes float64) int32 {
	return int32(math.Ceil(bytes / f.slot))
}

// corner returns the time at which the state attains the lower corner of its cell by waiting.
func (f *forwards) corner(y *state, x cell) float64 {
	extra := max(0, y.out-float64(x.out-1)*f.slot) + max(0, y.back-float64(x.back-1)*f.slot)
	if x.out == 0 {
		extra -= y.out
	}
	return y.cost + extra/f.in.Bandwidth
}

// keep returns the nondominated states among those found, by increasing cost. A state dominates another if it
// keeps no more and has no more to transfer at the same time, if necessary after waiting. By increasing A, it
// maintains the earliest times at which Δ_F and Δ_B are within each number of slots. O(slots³) at most, and
// usually far less, as only the box of all Δ_F and Δ_B matters.
func (f *forwards) keep() span {
	var ok, also bool
	f.order, ok = table(&f.d.ledger, f.order, len(f.found))
	f.states, also = reserve(&f.d.ledger, f.states, len(f.found))
	if !ok || !also {
		f.full = true
		return span{}
	}
	order, kept := f.order, len(f.states)
	var box cell
	for i, x := range f.cells {
		order[i] = int32(i)
		box.out, box.back = max(box.out, x.out), max(box.back, x.back)
		f.grid[(int(x.kept)*f.side+int(x.out))*f.side+int(x.back)] = 0
	}
	slices.SortFunc(order, func(i, j int32) int {
		x, y := f.cells[i], f.cells[j]
		return cmp.Or(cmp.Compare(x.kept, y.kept), cmp.Compare(x.out, y.out), cmp.Compare(x.back, y.back))
	})
	wide := int(box.back) + 1
	reach := f.reach[:(int(box.out)+1)*wide]
	for i := range reach {
		reach[i] = math.Inf(1)
	}
	at := func(k int32) *float64 { return &reach[int(f.cells[k].out)*wide+int(f.cells[k].back)] }
	for i := 0; i < len(order); {
		fresh := order[i:i] // overwrites the processed part
		for a := f.cells[order[i]].kept; i < len(order) && f.cells[order[i]].kept == a; i++ {
			if k := order[i]; *at(k) > f.found[k].cost {
				fresh = append(fresh, k)
			}
		}
		if len(fresh) == 0 {
			continue
		}
		for _, k := range fresh {
			*at(k) = f.found[k].cost
		}
		spread(reach, wide, f.slot/f.in.Bandwidth)
		for _, k := range fresh {
			if *at(k) >= f.found[k].cost {
				f.states = append(f.states, f.found[k])
			}
		}
	}
	f.found, f.cells = f.found[:0], f.cells[:0]
	slices.SortStableFunc(f.states[kept:], func(x, y state) int { return cmp.Compare(x.cost, y.cost) })
	return span{kept, len(f.states)}
}

// spread propagates every time to larger amounts of transfer, and to smaller amounts one slot's transfer later.
func spread(reach []float64, wide int, step float64) {
	for row := range slices.Chunk(reach, wide) {
		for b := 1; b < wide; b++ {
			row[b] = min(row[b], row[b-1])
		}
		for b := wide - 2; b >= 0; b-- {
			row[b] = min(row[b], row[b+1]+step)
		}
	}
	for i := wide; i < len(reach); i++ {
		reach[i] = min(reach[i], reach[i-wide])
	}
	for i := len(reach) - wide - 1; i >= 0; i-- {
		reach[i] = min(reach[i], reach[i+wide]+step)
	}
}

// loss applies 4.2.2: F_all N and B_N, between which all transfers of either direction end.
func (f *forwards) loss(z *state, x bool) (cost float64, fits bool) {
	in := f.in
	input := in.Input(in.N, x)
	needF, needB := input+in.NeedAll(in.N), input+in.NeedBackward(in.N)
	room := in.Memory - z.kept
	if needF > room || needB > room {
		return 0, false
	}
	forward := in.UF[in.N] + f.wait(needF+z.out-room)
	backward := in.UB[in.N] + f.wait(needB+z.back-room)
	transfers := max(0, z.out-forward*in.Bandwidth) + max(0, z.back-backward*in.Bandwidth)
	return z.cost + forward + backward + f.wait(transfers), true
}
