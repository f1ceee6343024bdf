package flush

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"strconv"

	"workbench/model/cycleratio"
	"workbench/model/plan"
)

// ErrDeadlock reports an order in which no operation can be next.
var ErrDeadlock = errors.New("the order has a cycle: GPUs wait for each other")

// Timer computes the earliest start times of orders. It can be reused without allocating.
type Timer struct {
	v     *Instance
	jobs  int
	rows  []row     // by operation
	end   []float64 // by operation·jobs + micro-batch
	at    []float64 // the same, for GPUs that offload: when the operation changes held memory
	count []int32   // by operation: how many have been timed
	next  []int     // by GPU: index in its byEnd
	free  []float64 // by GPU, then by link to the host: when it is free
	given []float64 // by GPU: when all memory freed so far in the byEnd is available
	first []float64 // by GPU: when it starts
	queue []int
	waits []Operation // by GPU that is not in the queue: what its next operation waits for
}

// row has the timing data of an operation.
type row struct {
	time, delay float64   // its duration, and the delay after the operation it needs
	from        Operation // the operation it needs; -1: none
	wakes       int       // the GPU that may wait for it; -1: none
}

// NewTimer returns a timer for orders of v.
func NewTimer(v *Instance) *Timer {
	t := &Timer{
		v: v, jobs: v.Jobs, rows: make([]row, Kinds*v.Stages), end: make([]float64, Kinds*v.Stages*v.Jobs), count: make([]int32, Kinds*v.Stages),
		next: make([]int, v.GPUs), free: make([]float64, 2*v.GPUs), given: make([]float64, v.GPUs), first: make([]float64, v.GPUs),
		queue: make([]int, 0, v.GPUs), waits: make([]Operation, v.GPUs),
	}
	if slices.Contains(v.Moves, true) {
		t.at = make([]float64, len(t.end))
	}
	for i := range t.rows {
		l := Operation(i)
		x := row{time: v.time(l), wakes: -1}
		x.from, x.delay = v.Needs(l)
		switch s := l.Stage(); {
		case l.Kind() == F && s+1 < v.Stages:
			x.wakes = v.GPU[s+1]
		case l.Kind() == B && s > 0:
			x.wakes = v.GPU[s-1]
		}
		t.rows[i] = x
	}
	return t
}

// Run times a complete order; GPU g starts no earlier than release[g], or 0 if release is nil. It
// reports whether the order has no deadlock. O(operations).
func (t *Timer) Run(o Order, release []float64) bool {
	clear(t.count)
	clear(t.free)
	clear(t.given)
	t.queue = t.queue[:0]
	left := 0
	for g := range t.next {
		t.next[g], t.first[g] = 0, math.Inf(1)
		if release != nil {
			t.free[g] = release[g]
		}
		t.queue, t.waits[g] = append(t.queue, g), -1
		left += len(o[g])
	}
	for len(t.queue) > 0 {
		g := t.queue[len(t.queue)-1]
		t.queue = t.queue[:len(t.queue)-1]
		before := t.next[g]
		if t.v.Moves[g] {
			t.runWithLink(g, o[g])
		} else {
			t.runAlone(g, o[g])
		}
		left -= t.next[g] - before
	}
	return left == 0
}

// runAlone times the next operations of a GPU without copies until one waits for another GPU, and
// wakes the GPUs that may wait for them. The operations of the GPU end in the order of its
// sequence, so their predecessors on the GPU have ended, and the memory they freed is available,
// when it is free.
func (t *Timer) runAlone(g int, sequence []Operation) {
	free, i := t.free[g], t.next[g]
	for ; i < len(sequence); i++ {
		l := sequence[i]
		x, j := &t.rows[l], int(t.count[l])
		if x.from >= 0 {
			if int(t.count[x.from]) <= j {
				t.waits[g] = x.from
				break
			}
			if ready := t.end[int(x.from)*t.jobs+j] + x.delay; ready > free {
				free = ready
			}
		}
		if i == 0 {
			t.first[g] = free
		}
		free += x.time
		if t.v.Fuses(sequence, i, t.count) {
			free += t.rows[l+1].time
			t.end[int(l+1)*t.jobs+j] = free
			t.count[l+1]++
			i++
		}
		t.end[int(l)*t.jobs+j] = free
		t.count[l]++
		if x.wakes >= 0 && t.waits[x.wakes] == l {
			t.wake(x.wakes)
		}
	}
	t.free[g], t.next[g] = free, i
}

// runWithLink is runAlone for a GPU with copies, which run concurrently with its operations. Each
// operation also waits for its predecessor, and one that allocates memory for everything freed
// before it in the sequence.
func (t *Timer) runWithLink(g int, sequence []Operation) {
	for ; t.next[g] < len(sequence); t.next[g]++ {
		l := sequence[t.next[g]]
		x, j, lane := &t.rows[l], int(t.count[l]), g
		ready := 0.0
		if x.from >= 0 {
			if int(t.count[x.from]) <= j {
				t.waits[g] = x.from
				return
			}
			ready = t.end[int(x.from)*t.jobs+j] + x.delay
		}
		if l.Copies() {
			lane += t.v.GPUs
		}
		start := max(ready, t.free[lane])
		if from := t.v.Predecessor(l); from >= 0 { // earlier in the byEnd
			start = max(start, t.end[int(from)*t.jobs+j])
		}
		if l.Takes() {
			start = max(start, t.given[g])
		}
		if t.next[g] == 0 {
			t.first[g] = start
		}
		end := start + x.time
		t.end[int(l)*t.jobs+j], t.free[lane] = end, end
		if t.at[int(l)*t.jobs+j] = start; !l.Takes() {
			t.at[int(l)*t.jobs+j], t.given[g] = end, max(t.given[g], end)
		}
		t.count[l]++
		if x.wakes >= 0 && t.waits[x.wakes] == l {
			t.wake(x.wakes)
		}
	}
}

// wake puts a GPU in the queue.
func (t *Timer) wake(g int) { t.queue, t.waits[g] = append(t.queue, g), -1 }

// time returns the duration of an operation, in seconds.
func (v *Instance) time(l Operation) float64 { return v.Time[l.Stage()][l.Kind()] }

// Needs returns the operation of the same micro-batch that l comes after, -1 if none, and the delay
// until its result arrives. B also comes after [Instance.Predecessor].
func (v *Instance) Needs(l Operation) (Operation, float64) {
	s := l.Stage()
	switch {
	case l.Kind() == B && s < v.Stages-1:
		return OperationOf(s+1, B), v.Delay[s]
	case l.Kind() == F && s > 0:
		return OperationOf(s-1, F), v.Delay[s-1]
	}
	return v.Predecessor(l), 0
}

// End returns the end of an operation in the last order.
func (t *Timer) End(l Operation, job int) float64 { return t.end[int(l)*t.jobs+job] }

// Span and Makespan return those of the last order. A GPU may be able to start later and end at the
// same time; [Instance.Schedule] takes this into account.
func (t *Timer) Span() float64 {
	span := 0.0
	for g := range t.first {
		if t.next[g] > 0 {
			span = max(span, t.free[g]-t.first[g])
		}
	}
	return span
}

// MeanSpan returns the mean span over the GPUs.
func (t *Timer) MeanSpan() float64 {
	sum := 0.0
	for g := range t.first {
		if t.next[g] > 0 {
			sum += t.free[g] - t.first[g]
		}
	}
	return sum / float64(len(t.first))
}

func (t *Timer) Makespan() float64 { return slices.Max(t.free) }

// Objective returns the objective value of the last order.
func (t *Timer) Objective() float64 {
	if t.v.Span() {
		return t.Span()
	}
	return t.Makespan()
}

// Schedule is an order with its times.
type Schedule struct {
	Order Order
	Start [][]float64 // indexed as Order
	at    [][]float64 // indexed as Order, for GPUs that offload: when an operation changes held memory
	Span, Makespan,
	Objective float64
}

// Schedule returns the schedule of an order with the minimum objective. The makespan is minimum if
// every operation starts as early as possible. The minimum span is the smallest period T for which
// the last operation of every GPU can end T after its first one starts. Adding these precedences
// yields a cyclic schedule, whose minimum T is its maximum cycle ratio. The error is [ErrDeadlock].
// O(operations) a pass of [cycleratio.Graph.MinMemory].
func (v *Instance) Schedule(o Order) (*Schedule, error) {
	t := NewTimer(v)
	if !t.Run(o, nil) {
		return nil, ErrDeadlock
	}
	if v.Span() {
		release, err := v.releases(o, t)
		if err != nil {
			return nil, err
		}
		t.Run(o, release)
	}
	s := &Schedule{
		Order: o, Start: make([][]float64, len(o)), at: make([][]float64, len(o)), Span: t.Span(), Makespan: t.Makespan(),
		Objective: t.Objective(),
	}
	count := make([]int, Kinds*v.Stages)
	for g, sequence := range o {
		for _, l := range sequence {
			if v.Moves[g] {
				s.at[g] = append(s.at[g], t.at[int(l)*t.jobs+count[l]])
			}
			s.Start[g] = append(s.Start[g], t.End(l, count[l])-v.time(l)-v.late(t, l, count[l]))
			count[l]++
		}
	}
	return s, nil
}

// releases returns the start times of the GPUs for the minimum span; t has timed the order from 0.
func (v *Instance) releases(o Order, t *Timer) ([]float64, error) {
	var g cycleratio.Graph
	event := make([]int, Kinds*v.Stages*v.Jobs) // by operation and micro-batch
	type placed struct {
		event int
		end   float64
	}
	var byEnd []placed
	n, busy := 0, 0.0
	count := make([]int, Kinds*v.Stages)
	for _, sequence := range o {
		for _, l := range sequence {
			k := int(l)*v.Jobs + count[l]
			event[k] = n
			byEnd = append(byEnd, placed{n, t.end[k]})
			count[l]++
			n++
		}
	}
	g.Reset(n)
	slices.SortStableFunc(byEnd, func(a, b placed) int { return cmp.Compare(a.end, b.end) })
	for _, x := range byEnd {
		g.Order(x.event)
	}
	clear(count)
	first := make([]int, len(o))
	for gpu, sequence := range o {
		none, load := placed{event: -1}, 0.0
		last, given := [2]placed{none, none}, [2]placed{none, none} // of the GPU and of its link
		for i, l := range sequence {
			j, lane := count[l], 0
			if l.Copies() {
				lane = 1
			}
			count[l]++
			n := event[int(l)*v.Jobs+j]
			after := func(event int, wait float64) {
				if event >= 0 {
					g.Add(cycleratio.Precedence{From: event, To: n, Wait: wait})
				}
			}
			if from, delay := v.Needs(l); from >= 0 {
				if from.Stage() != l.Stage() {
					delay += v.late(t, from, j)
				}
				after(event[int(from)*v.Jobs+j], v.time(from)+delay)
			}
			if from := v.Predecessor(l); v.Moves[gpu] && from >= 0 {
				after(event[int(from)*v.Jobs+j], v.time(from))
			}
			after(last[lane].event, last[lane].end)
			if v.Moves[gpu] && l.Takes() {
				after(given[1-lane].event, given[1-lane].end)
			}
			x := placed{n, v.time(l)}
			if last[lane] = x; !l.Takes() {
				given[lane] = x
			}
			if lane == 0 {
				load += x.end
			}
			if i == 0 {
				first[gpu] = n
			}
		}
		g.Add(cycleratio.Precedence{From: last[0].event, To: first[gpu], Wait: last[0].end, Turns: 1})
		busy = max(busy, load)
	}
	if _, err := g.Least(busy, math.Inf(1)); err != nil {
		return nil, err
	}
	release := make([]float64, len(o))
	for gpu := range o {
		release[gpu] = g.Times()[first[gpu]]
	}
	return release, nil
}

// late returns how long after the end of an operation other stages get its result. A B fused with
// its W delivers at the end of W.
func (v *Instance) late(t *Timer, l Operation, job int) float64 {
	if !v.Fused || l.Kind() != B || !v.Split[l.Stage()] || v.Moves[v.GPU[l.Stage()]] || t.End(l, job) < t.End(l+1, job) {
		return 0
	}
	return v.time(l + 1)
}

// Fuses reports whether sequence[i] is a B fused with its W ([Instance.Fused]). count has the
// number of earlier operations of each kind and stage.
func (v *Instance) Fuses(sequence []Operation, i int, count []int32) bool {
	b := sequence[i]
	return v.Fused && i+1 < len(sequence) && b.Kind() == B && sequence[i+1] == b+1 && count[b] == count[b+1] &&
		!v.Separate[[2]int{int(b), int(count[b])}]
}

// Names has the names of the kinds of operation in plans.
var Names = [Kinds]string{plan.OpF, plan.OpB, plan.OpW, plan.OpO, plan.OpP}

// Plan returns a schedule as a plan with its claims. The operations of a GPU and its link are
// listed by the time at which they change held memory.
func (v *Instance) Plan(method string, s *Schedule) *plan.Plan {
	p := plan.New(Problem, method, v.Partition, v.Platform)
	count := make([]int, Kinds*v.Stages)
	type listed struct {
		op     plan.Op
		at     float64
		change int64
	}
	for g, sequence := range s.Order {
		held := v.Overhead[g]
		for _, stage := range v.On[g] {
			held += int64(v.Partition.Stages[stage].Weight)
		}
		ops := make([]listed, len(sequence))
		fused, last := make([]int32, Kinds*v.Stages), false
		for i, l := range sequence {
			one := v.Fuses(sequence, i, fused)
			fused[l]++
			count[l]++
			o := plan.Op{Op: Names[l.Kind()], Stage: l.Stage() + 1, MicroBatch: count[l], Resource: "gpu" + strconv.Itoa(g), Start: s.Start[g][i]}
			if l.Copies() {
				o.Resource = "link" + strconv.Itoa(g)
			}
			o.End = o.Start + v.time(l)
			if ops[i] = (listed{op: o, change: v.Memory[l.Stage()][l.Kind()]}); v.Moves[g] {
				ops[i].at = s.at[g][i]
			}
			if kept := max(0, v.Memory[l.Stage()][B]); one {
				ops[i].change -= kept // a fused B allocates nothing for W
			} else if last {
				ops[i].change += kept
			}
			last = one
		}
		if v.Moves[g] {
			slices.SortStableFunc(ops, func(a, b listed) int { return cmp.Compare(a.at, b.at) })
		}
		for _, x := range ops {
			p.Ops = append(p.Ops, x.op)
			held += x.change
			p.Claims.PeakMemory = max(p.Claims.PeakMemory, float64(held))
		}
	}
	p.Claims.Makespan = s.Makespan
	return p
}

// OrderOf returns the order of a plan, and false if it is not complete.
func (v *Instance) OrderOf(p *plan.Plan) (Order, bool) {
	o := make(Order, v.GPUs)
	for k := range p.Ops {
		x := &p.Ops[k]
		kind := slices.Index(Names[:], x.Op)
		if kind < 0 || x.Stage < 1 || x.Stage > v.Stages {
			return nil, false
		}
		g := v.GPU[x.Stage-1]
		o[g] = append(o[g], OperationOf(x.Stage-1, kind))
	}
	return o, v.Complete(o)
}
