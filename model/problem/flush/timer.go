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

// ErrDeadlock says that of an order no operation can be the next.
var ErrDeadlock = errors.New("the order has a cycle: GPUs wait for each other")

// A Timer starts the operations of orders as early as they can. It is reused for the
// next order, so that a search allocates nothing.
type Timer struct {
	v     *Instance
	jobs  int
	rows  []row     // by letter
	end   []float64 // by letter·jobs + micro-batch
	at    []float64 // the same, of GPUs that send: when it changes what is held
	count []int32   // by letter: so many have ended
	next  []int     // by GPU: place in its word
	free  []float64 // by GPU, then by link to the host: when it is
	given []float64 // by GPU: when all that the word has given back is free
	first []float64 // by GPU: when it starts
	queue []int
	waits []Letter // by GPU that is not in the queue: what its next operation waits for
}

// A row is what the timer asks of a letter.
type row struct {
	time, delay float64 // its own, and that behind the letter it needs
	from        Letter  // which is this; -1: none
	wakes       int     // the GPU that may wait for it; -1: none
}

// NewTimer returns a timer for orders of v.
func NewTimer(v *Instance) *Timer {
	t := &Timer{
		v: v, jobs: v.Jobs, rows: make([]row, Kinds*v.Stages), end: make([]float64, Kinds*v.Stages*v.Jobs), count: make([]int32, Kinds*v.Stages),
		next: make([]int, v.GPUs), free: make([]float64, 2*v.GPUs), given: make([]float64, v.GPUs), first: make([]float64, v.GPUs),
		queue: make([]int, 0, v.GPUs), waits: make([]Letter, v.GPUs),
	}
	if slices.Contains(v.Moves, true) {
		t.at = make([]float64, len(t.end))
	}
	for i := range t.rows {
		l := Letter(i)
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

// Run times an order that is complete, GPU g not before release[g]; nil: from 0 on. It
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
			t.besideLink(g, o[g])
		} else {
			t.alone(g, o[g])
		}
		left -= t.next[g] - before
	}
	return left == 0
}

// alone times the next operations of a GPU without copies, as far as what they need is timed, and wakes the GPUs
// that may wait for them. Its own operations end in the order of its word, so that what an operation of it
// comes after, and what has given memory back, has ended when the GPU is free.
func (t *Timer) alone(g int, word []Letter) {
	free, i := t.free[g], t.next[g]
	for ; i < len(word); i++ {
		l := word[i]
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
		if t.v.Fuses(word, i, t.count) {
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

// besideLink does the same on a GPU with copies, which run beside the rest of its word: each operation also waits for
// what it comes after, and one that takes memory for all that the word has given back before it.
func (t *Timer) besideLink(g int, word []Letter) {
	for ; t.next[g] < len(word); t.next[g]++ {
		l := word[t.next[g]]
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
		if from := t.v.Predecessor(l); from >= 0 { // the word has it before
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

// time returns how long an operation takes.
func (v *Instance) time(l Letter) float64 { return v.Time[l.Stage()][l.Kind()] }

// Needs returns what an operation comes after, of the same micro-batch, and how long
// what that makes is on its way; -1: nothing. B comes after [Instance.Predecessor], too.
func (v *Instance) Needs(l Letter) (Letter, float64) {
	s := l.Stage()
	switch {
	case l.Kind() == B && s < v.Stages-1:
		return LetterOf(s+1, B), v.Delay[s]
	case l.Kind() == F && s > 0:
		return LetterOf(s-1, F), v.Delay[s-1]
	}
	return v.Predecessor(l), 0
}

// End returns when an operation ends.
func (t *Timer) End(l Letter, job int) float64 { return t.end[int(l)*t.jobs+job] }

// Span and Makespan return those of the last order. A GPU may well start later than it
// did and end at the same time, which [Instance.Schedule] sees to.
func (t *Timer) Span() float64 {
	span := 0.0
	for g := range t.first {
		if t.next[g] > 0 {
			span = max(span, t.free[g]-t.first[g])
		}
	}
	return span
}

// MeanSpan is the mean over the GPUs.
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

// Objective returns the one that is minimised.
func (t *Timer) Objective() float64 {
	if t.v.Span() {
		return t.Span()
	}
	return t.Makespan()
}

// Schedule is an order with its times.
type Schedule struct {
	Order Order
	Start [][]float64 // as Order
	at    [][]float64 // as Order, of GPUs that send: when an operation changes what is held
	Span, Makespan,
	Objective float64
}

// Schedule times an order so that its objective is least. The makespan is least if
// everything starts as early as it can. The span is least if every GPU starts so late
// that its last operation ends one period T later, T the least for which there are such
// times: what comes after what, beside, if T is added from the last end of each GPU
// to its first start, is a cyclic schedule, and T its largest cycle ratio. The error
// is [ErrDeadlock]. O(operations) a pass of [cycleratio.Graph.Least].
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
	for g, word := range o {
		for _, l := range word {
			if v.Moves[g] {
				s.at[g] = append(s.at[g], t.at[int(l)*t.jobs+count[l]])
			}
			s.Start[g] = append(s.Start[g], t.End(l, count[l])-v.time(l)-v.late(t, l, count[l]))
			count[l]++
		}
	}
	return s, nil
}

// releases returns when the GPUs start for the least span. t has timed the order from 0
// on.
func (v *Instance) releases(o Order, t *Timer) ([]float64, error) {
	var g cycleratio.Graph
	event := make([]int, Kinds*v.Stages*v.Jobs) // by letter and micro-batch
	type placed struct {
		event int
		end   float64
	}
	var sequence []placed
	n, busy := 0, 0.0
	count := make([]int, Kinds*v.Stages)
	for _, word := range o {
		for _, l := range word {
			k := int(l)*v.Jobs + count[l]
			event[k] = n
			sequence = append(sequence, placed{n, t.end[k]})
			count[l]++
			n++
		}
	}
	g.Reset(n)
	slices.SortStableFunc(sequence, func(a, b placed) int { return cmp.Compare(a.end, b.end) })
	for _, x := range sequence {
		g.Order(x.event)
	}
	clear(count)
	first := make([]int, len(o))
	for gpu, word := range o {
		none, load := placed{event: -1}, 0.0
		last, given := [2]placed{none, none}, [2]placed{none, none} // of the GPU and of its link
		for i, l := range word {
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

// late returns how much after the end of an operation other stages get its result: a B that is one with its W ends with that.
func (v *Instance) late(t *Timer, l Letter, job int) float64 {
	if !v.Fused || l.Kind() != B || !v.Split[l.Stage()] || v.Moves[v.GPU[l.Stage()]] || t.End(l, job) < t.End(l+1, job) {
		return 0
	}
	return v.time(l + 1)
}

// Fuses reports whether the operation at a place of a sequence is a B that is one with its W ([Instance.Fused]); count has how
// many there are before it, by letter.
func (v *Instance) Fuses(word []Letter, i int, count []int32) bool {
	return v.Fused && i+1 < len(word) && word[i].Kind() == B && word[i+1] == word[i]+1 && count[word[i]] == count[word[i+1]] &&
		!v.Separate[[2]int{int(word[i]), int(count[word[i]])}]
}

// Names are those of the kinds of operation in plans.
var Names = [Kinds]string{plan.OpF, plan.OpB, plan.OpW, plan.OpO, plan.OpP}

// Plan returns a schedule as a plan, with what it claims. What a GPU and its link do is listed in the order of
// the instants at which it changes what is held.
func (v *Instance) Plan(method string, s *Schedule) *plan.Plan {
	p := plan.New(Problem, method, v.Partition, v.Platform)
	count := make([]int, Kinds*v.Stages)
	type listed struct {
		op     plan.Op
		at     float64
		change int64
	}
	for g, word := range s.Order {
		held := v.Overhead[g]
		for _, stage := range v.On[g] {
			held += int64(v.Partition.Stages[stage].Weight)
		}
		ops := make([]listed, len(word))
		fused, last := make([]int32, Kinds*v.Stages), false
		for i, l := range word {
			one := v.Fuses(word, i, fused)
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
				ops[i].change -= kept // a B that is one with its W takes nothing for it
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

// OrderOf returns the order of a plan, false if it is no complete one.
func (v *Instance) OrderOf(p *plan.Plan) (Order, bool) {
	o := make(Order, v.GPUs)
	for k := range p.Ops {
		x := &p.Ops[k]
		kind := slices.Index(Names[:], x.Op)
		if kind < 0 || x.Stage < 1 || x.Stage > v.Stages {
			return nil, false
		}
		g := v.GPU[x.Stage-1]
		o[g] = append(o[g], LetterOf(x.Stage-1, kind))
	}
	return o, v.Complete(o)
}
