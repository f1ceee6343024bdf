// Package swap finds optimal plans of swapping for tiny sequences by exhaustive search.
package swap

import (
	"fmt"
	"math"
	"slices"

	"workbench/model/exhaustive"
	"workbench/model/instance/functions"
	"workbench/model/plan"
	"workbench/model/platform"
)

// Limits of what [Search] takes.
const (
	MaxFunctions = 7
	MaxVariables = 8
	maxUnits     = 30 // of the longest function or transfer
)

// Search returns the greatest lower bound on the makespans of swapping ([003]), in a given unit of time of which all durations must be
// multiples, and a plan that has it, or comes as near as instants can be told apart.
// limit is the most states to visit: random sequences of five functions and five
// variables have some thousand. The errors are [exhaustive.ErrInfeasible], [exhaustive.ErrLimit] and
// [exhaustive.ErrTooHard].
//
// It is Dijkstra's algorithm over states (functions started, what runs and for
// how long, place of each variable), one unit of time after the other. At each
// instant any variable may be dropped, the next function, an out of any variable
// and an in of any variable may start, in this order, which is that of the
// verifier. (A function that takes no time may come before a drop or after it.)
// An out may end after functions have started at its last instant; what comes then
// is a moment later, and the order begins anew. Left out is only what is of no use:
// transfers of variables that no function still to start uses. It would hold a link,
// and an in the memory; leave it out, and everything else may stay as it is.
//
// No plan is better. Take the order in which everything starts and ends in a plan.
// Whether the rules are kept depends only on which ends are before which starts, and
// more ends before a start do no harm, but for one: an out during a function that
// reads its variable must end after the start of that function. (No out overlaps a
// function that writes its variable.) So let everything start as early as allowed by
// the order of starts, the ends before each start and those outs. These are
// differences of whole units, so then everything starts at a multiple of the unit, and
// what must come later at the same instant does so a moment later: an out that ends
// after a start can begin a moment later, for nothing waits for its beginning, and
// what waits for its end is later, too.
//
// The least makespan need not exist: where an out ends at the instant at which a
// function starts that reads its variable, a plan is the better the shorter the moment
// between them.
func Search(s *functions.Sequence, memory, bandwidth, unit float64, limit int) (float64, *plan.Plan, error) {
	x, err := newSwapSearch(s, memory, bandwidth, unit)
	if err != nil {
		return 0, nil, err
	}
	x.Limit = limit
	goal := func(st swapState) bool { return int(st.next) == len(x.uses) && st.run == 0 }
	last, err := x.Run(x.start(), goal, func(at label) { x.expand(at.State) })
	if err != nil {
		return 0, nil, err
	}
	units := x.Labels[last].Cost
	return units * unit, x.plan(s, platform.Platform{Memory: memory, Bandwidth: bandwidth}, x.Path(last), units), nil
}

// Places of a variable. One that is being sent is where it was.
const (
	atUnmade int8 = iota
	atDirty       // on the GPU only
	atClean       // on the GPU and the host
	atHost
	atComing
	atDoomed // on the GPU until the running function ends; sent
	atDying  // on the GPU until its transfer ends; not used any more
	atDead
)

// swapState is a state; times are in units.
type swapState struct {
	next  int8 // functions started
	run   int8 // how long the last of them still runs, 0: it does not
	in    int8 // how long the in still takes, 0: there is none
	out   int8 // due: it has taken its time and ends at this instant
	going int8 // the variable that goes out
	phase int8 // what has started at this instant: nothing that takes time, a function or an out, an in
	where [MaxVariables]int8
}

// due is more than any transfer takes.
const due = maxUnits + 1

// hash mixes the fields.
func (x swapState) hash() uint64 {
	key := uint64(x.next)
	for _, f := range [...]int8{x.run, x.in, x.out} {
		key = key<<5 | uint64(f)
	}
	key = key<<3 | uint64(x.going)
	key = key<<2 | uint64(x.phase)
	for _, w := range x.where {
		key = key<<3 | uint64(w)
	}
	return key
}

type (
	none  = struct{}
	label = exhaustive.Label[swapState, none]
)

// Steps: a kind and the function or variable it is of.
const (
	swapWait uint32 = iota
	swapRun
	swapIn
	swapOut
	swapDrop
	swapEnd // of an out, after what has started at this instant
)

// swapSearch is the search for a plan. Variables are those that have a size.
type swapSearch struct {
	exhaustive.Search[swapState, none]
	unit     float64
	ids      []int // of the sequence
	size     []float64
	initial  []int8
	last     []int
	uses     [][]int8 // of each function
	writes   [][]int8
	duration []int8 // of each function
	send     []int8 // of each variable; 0: there are no links
}

func newSwapSearch(s *functions.Sequence, memory, bandwidth, unit float64) (*swapSearch, error) {
	if err := s.Validate(); err != nil {
		return nil, fmt.Errorf("%w: %w", exhaustive.ErrTooHard, err)
	}
	switch {
	case s.Len() > MaxFunctions:
		return nil, fmt.Errorf("%w: %d functions, there can be 1 to %d", exhaustive.ErrTooHard, s.Len(), MaxFunctions)
	case !(memory >= 0):
		return nil, fmt.Errorf("%w: memory is %v bytes, it must not be negative", exhaustive.ErrTooHard, memory)
	case !(bandwidth >= 0):
		return nil, fmt.Errorf("%w: bandwidth is %v, it must not be negative", exhaustive.ErrTooHard, bandwidth)
	case !(unit > 0):
		return nil, fmt.Errorf("%w: the unit of time is %v, it must be positive", exhaustive.ErrTooHard, unit)
	}
	x := &swapSearch{unit: unit}
	x.Memory, x.Hash = memory, swapState.hash
	x.Needs = func(st swapState) float64 { return x.stored(&st) }
	units := func(what string, time float64) (int8, error) {
		n := math.Round(time / unit)
		if !(math.Abs(n*unit-time) <= 1e-9*time) || n > maxUnits {
			return 0, fmt.Errorf("%w: %s takes %v s, it must be a multiple of %v s, at most %d times that", exhaustive.ErrTooHard, what, time, unit,
				maxUnits)
		}
		return int8(n), nil
	}
	last := s.LastUse()
	index := make([]int8, len(s.Variables))
	for v := range s.Variables {
		y := &s.Variables[v]
		if y.Size == 0 {
			index[v] = -1
			continue
		}
		index[v] = int8(len(x.ids))
		x.ids, x.size, x.last = append(x.ids, v), append(x.size, y.Size), append(x.last, last[v])
		x.initial = append(x.initial, map[string]int8{functions.Nowhere: atUnmade, functions.Device: atDirty, functions.Host: atHost}[y.Initial])
		send := int8(0)
		if bandwidth > 0 {
			var err error
			if send, err = units(y.ID, y.Size/bandwidth); err != nil {
				return nil, err
			}
		}
		x.send = append(x.send, send)
		if len(x.ids) > MaxVariables {
			return nil, fmt.Errorf("%w: more than %d variables", exhaustive.ErrTooHard, MaxVariables)
		}
	}
	sized := func(vs []int) (list []int8) {
		for _, v := range vs {
			if index[v] >= 0 {
				list = append(list, index[v])
			}
		}
		return list
	}
	for i := range s.Functions {
		f := &s.Functions[i]
		d, err := units(f.Name, f.Time)
		if err != nil {
			return nil, err
		}
		x.duration = append(x.duration, d)
		x.uses, x.writes = append(x.uses, sized(f.Uses)), append(x.writes, sized(f.Written()))
	}
	return x, nil
}

// start returns the state at time 0.
func (x *swapSearch) start() (st swapState) {
	copy(st.where[:], x.initial)
	return st
}

// stored returns the memory in use.
func (x *swapSearch) stored(st *swapState) float64 {
	sum := 0.0
	for v, size := range x.size {
		if w := st.where[v]; w != atUnmade && w != atHost && w != atDead {
			sum += size
		}
	}
	return sum
}

// expand adds every step out of a state.
func (x *swapSearch) expand(st swapState) {
	if st.phase == 0 {
		for v := range x.size {
			x.drop(st, int8(v))
		}
	}
	if st.run == 0 && int(st.next) < len(x.uses) && (st.phase == 0 || st.phase == 1 && x.duration[st.next] > 0) {
		x.runNext(st)
	}
	if st.out == due {
		x.endOut(&st)
		st.phase = 0
		x.Add(st, swapEnd, 0, 0)
		return
	}
	if st.phase <= 1 && st.out == 0 {
		for v := range x.size {
			x.startOut(st, int8(v))
		}
	}
	if st.phase <= 1 && st.in == 0 {
		for v := range x.size {
			x.startIn(st, int8(v))
		}
	}
	if st.run > 0 || st.in > 0 || st.out > 0 {
		x.wait(st)
	}
}

// usedNow reports whether the function that runs uses, or writes, v.
func usedNow(st *swapState, lists [][]int8, v int8) bool {
	return st.run > 0 && slices.Contains(lists[st.next-1], v)
}

// needed reports whether a function that has not started uses v.
func (x *swapSearch) needed(st *swapState, v int8) bool { return x.last[v] >= int(st.next) }

func (x *swapSearch) drop(st swapState, v int8) {
	if st.where[v] != atClean || usedNow(&st, x.uses, v) || st.out > 0 && st.going == v {
		return
	}
	st.where[v] = atHost
	x.Add(st, swapDrop|uint32(v)<<3, 0, 0)
}

// runNext starts the next function, and ends it if it takes no time.
func (x *swapSearch) runNext(st swapState) {
	i := int(st.next)
	for _, v := range x.uses[i] {
		switch st.where[v] {
		case atUnmade:
			st.where[v] = atDirty
		case atDirty, atClean:
		default:
			return
		}
	}
	for _, v := range x.writes[i] {
		if st.out > 0 && st.going == v {
			return
		}
		st.where[v] = atDirty
	}
	if !platform.Fits(x.stored(&st), x.Memory) {
		return
	}
	st.next++
	st.run = x.duration[i]
	if st.run == 0 {
		x.end(&st)
	} else {
		st.phase = 1
	}
	x.Add(st, swapRun|uint32(i)<<3, 0, 0)
}

// end ends the function that started last.
func (x *swapSearch) end(st *swapState) {
	i := int(st.next) - 1
	for _, v := range x.uses[i] {
		switch {
		case x.last[v] == i && st.out > 0 && st.going == v:
			st.where[v] = atDying
		case x.last[v] == i:
			st.where[v] = atDead
		case st.where[v] == atDoomed:
			st.where[v] = atHost
		}
	}
}

func (x *swapSearch) startOut(st swapState, v int8) {
	if st.where[v] != atDirty && st.where[v] != atClean || x.send[v] == 0 || !x.needed(&st, v) || usedNow(&st, x.writes, v) ||
		x.madeNow(&st, v) {
		return
	}
	st.going, st.out, st.phase = v, x.send[v], 1
	x.Add(st, swapOut|uint32(v)<<3, 0, 0)
}

// madeNow reports whether the function that runs has made v, listed among what
// it writes or not.
func (x *swapSearch) madeNow(st *swapState, v int8) bool {
	if !usedNow(st, x.uses, v) || x.initial[v] != atUnmade {
		return false
	}
	for i := range int(st.next) - 1 {
		if slices.Contains(x.uses[i], v) {
			return false
		}
	}
	return true
}

func (x *swapSearch) startIn(st swapState, v int8) {
	if st.where[v] != atHost || x.send[v] == 0 || !x.needed(&st, v) {
		return
	}
	st.where[v], st.in, st.phase = atComing, x.send[v], 2
	x.Add(st, swapIn|uint32(v)<<3, 0, 0)
}

// endOut ends the out that goes on.
func (x *swapSearch) endOut(st *swapState) {
	v := st.going
	st.going, st.out = 0, 0
	switch {
	case st.where[v] == atDying:
		st.where[v] = atDead
	case usedNow(st, x.uses, v):
		st.where[v] = atDoomed
	default:
		st.where[v] = atHost
	}
}

// wait lets a unit of time pass. An out that ends then may do so once the next
// functions have started.
func (x *swapSearch) wait(st swapState) {
	st.phase = 0
	if st.run > 0 {
		if st.run--; st.run == 0 {
			x.end(&st)
		}
	}
	if st.in > 0 {
		if st.in--; st.in == 0 {
			st.where[slices.Index(st.where[:], atComing)] = atClean
		}
	}
	if st.out > 0 {
		if st.out--; st.out == 0 {
			if late := st; st.run == 0 {
				late.out = due
				x.Add(late, swapWait, 1, 0)
			}
			x.endOut(&st)
		}
	}
	x.Add(st, swapWait, 1, 0)
}

// plan writes the steps as a plan that takes so many units, and a moment for each
// out that ends after what has started at its last instant.
func (x *swapSearch) plan(s *functions.Sequence, m platform.Platform, path []label, units float64) *plan.Plan {
	p := plan.New(plan.Swap, "exhaustive", s, m)
	moment := 4 * plan.Tolerance * units * x.unit
	later, out := 0.0, -1 // how much later everything is; the last out in p.Ops
	at := x.start()
	p.Claims.PeakMemory = x.stored(&at)
	for _, step := range path {
		at := step.State
		k := int(step.Step >> 3)
		o := plan.Op{Start: step.Cost*x.unit + later}
		o.End = o.Start
		switch step.Step & 7 {
		case swapWait:
			continue
		case swapEnd:
			later += moment
			p.Ops[out].Start += o.Start + moment - p.Ops[out].End
			p.Ops[out].End = o.Start + moment
			continue
		case swapRun:
			o.Op, o.Function = plan.OpRun, k+1
			o.End += s.Functions[k].Time
			p.Claims.Makespan = units*x.unit + later
		case swapIn:
			o.Op = plan.OpIn
		case swapOut:
			o.Op, out = plan.OpOut, len(p.Ops)
		case swapDrop:
			o.Op = plan.OpDrop
		}
		if o.Op != plan.OpRun {
			o.Variable = s.Variables[x.ids[k]].ID
		}
		if o.Op == plan.OpIn || o.Op == plan.OpOut {
			o.End += x.size[k] / m.Bandwidth
		}
		p.Ops = append(p.Ops, o)
		peak := x.stored(&at)
		if o.Op == plan.OpRun && o.Start == o.End {
			peak = x.during(k, &at)
		}
		p.Claims.PeakMemory = max(p.Claims.PeakMemory, peak)
	}
	return p
}

// during returns the memory in use while function i, which takes no time and has
// just ended, ran: what is stored, and what has gone with it.
func (x *swapSearch) during(i int, st *swapState) float64 {
	sum := x.stored(st)
	for _, v := range x.uses[i] {
		if st.where[v] == atDead {
			sum += x.size[v]
		}
	}
	return sum
}
