package swap

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"workbench/model/instance/functions"
	"workbench/model/plan"
	verifyswap "workbench/model/verify/swap"
)

// machine turns a list of events into a plan by serial list scheduling. It takes the events in
// order and starts each as early as possible given the previous ones: after what it needs, after
// the previous event on its resource (the GPU, the in link, the out link), and when memory is free
// from then on until it is released. So an event never takes memory that an earlier one in the list
// needs.
//
// Every plan has a list for which the machine is as fast, or nearly: its events in order of start,
// a transfer out that starts before functions that only read the variable right after the start of
// the last of these. Proof, by induction: no event starts later than in the plan, since what it
// waits for is no later, and from its start in the plan on as much memory is free as there. (A
// transfer out may have to end after the start of a function. The machine lets it end instant
// seconds after, where a plan may be faster.)
//
// Events are numbered: f_i is i, the eviction of variable v is n+v, its fetch n+V+v; n+2V+v waits
// until v is evicted, and n+3V until everything before it has ended. An eviction drops the variable
// if the host holds its value, else transfers it out. Events without effect (the eviction of an
// absent variable, the fetch of a present one) are skipped, and variables that a function lacks are
// fetched before it.
type machine struct {
	in *instance
	// issued: transfers start no earlier than the end of the function before
	// them in the list, as methods do that issue them between functions.
	issued bool

	// Of variables: what they are by now, in the order of the list.
	state []state
	start []state // what they are before the first event
	held  float64 // bytes on the GPU then
	// Of the run: what has been placed, in the order of the list, and changes of
	// memory in the order of time.
	placed []placed
	points []point
	final  float64 // bytes after all of these
	order  []turn  // scratch of eventsOf

	compute, inEnd, outEnd float64 // ends of the resources
	issue                  float64
}

// state is where a variable is.
type state struct {
	made, here, host bool    // it exists; on the GPU; the host holds its value
	ready            float64 // when it has come
	written          float64 // end of the last function that wrote it
	since            float64 // start of the last function that used it; if it wrote it, its end
	used             float64 // end of the last function that used it
	left             float64 // when it has left
}

// placed is an operation with its time.
type placed struct {
	op    byte // opRun, …
	id    int  // function or variable
	start float64
	after float64 // of an out: the start of the last function that reads the variable
}

// turn is the position of operation k of placed in a list.
type turn struct {
	time  float64
	place int
}

const (
	opRun = iota
	opIn
	opOut
	opDrop
)

// A point is a change of memory. Of points of one time those of smaller order
// come first.
type point struct {
	time  float64
	order int
	bytes float64
}

func newMachine(in *instance) *machine {
	m := &machine{in: in, state: make([]state, len(in.Size)), start: make([]state, len(in.Size))}
	for v := range m.start {
		switch in.Initial[v] {
		case functions.Device:
			m.start[v] = state{made: true, here: true}
			m.held += in.Size[v]
		case functions.Host:
			m.start[v] = state{made: true, host: true}
		}
	}
	return m
}

// Event numbers other than those of functions.
func (in *instance) evictEvent(v int) int { return in.N + v }
func (in *instance) come(v int) int       { return in.N + len(in.Size) + v }
func (in *instance) wait(v int) int       { return in.N + 2*len(in.Size) + v }
func (in *instance) barrier() int         { return in.N + 3*len(in.Size) }

func (m *machine) reset() {
	m.placed, m.points = m.placed[:0], m.points[:0]
	m.final, m.compute, m.inEnd, m.outEnd, m.issue = m.held, 0, 0, 0, 0
	copy(m.state, m.start)
	if m.final > 0 {
		m.points = append(m.points, point{time: math.Inf(-1), bytes: m.final})
	}
}

// run returns the makespan of a list, +Inf if an event never finds memory.
// O(events + uses), and for each start the changes of memory after it.
func (m *machine) run(list []int) float64 {
	if m.runFrom(list) < len(list) {
		return math.Inf(1)
	}
	return m.compute
}

// runFrom places the events of a list until one finds no memory, and returns how
// many it placed.
func (m *machine) runFrom(list []int) int {
	m.reset()
	n, vs := m.in.N, len(m.in.Size)
	for k, e := range list {
		ok := true
		switch {
		case e < n:
			ok = m.function(e)
		case e < n+vs:
			m.leaves(e - n)
		case e < n+2*vs:
			ok = m.comes(e - n - vs)
		case e < n+3*vs:
			m.issue = max(m.issue, m.state[e-n-2*vs].left)
		default:
			m.issue = max(m.issue, m.compute, m.inEnd, m.outEnd)
		}
		if !ok {
			return k
		}
		if e == n-1 { // what comes after is of no use
			break
		}
	}
	return len(list)
}

// function runs f_i.
func (m *machine) function(i int) bool {
	in := m.in
	t, bytes := max(m.compute, m.issue), 0.0
	for _, v := range in.Use[in.At[i]:in.At[i+1]] {
		x := &m.state[v]
		switch {
		case !x.made:
			bytes += in.Size[v]
		case !x.here:
			if !m.comes(v) {
				return false
			}
			t = max(t, x.ready)
		default:
			t = max(t, x.ready)
		}
	}
	// Of a function of no time the order of the plan decides.
	order := len(m.placed) + 1
	if in.Times[i] > 0 {
		order = math.MaxInt - 1
	}
	t, ok := m.fit(t, bytes)
	if !ok {
		return false
	}
	m.add(point{t, order, bytes})
	end := t + in.Times[i]
	freed := 0.0
	for k := in.At[i]; k < in.At[i+1]; k++ {
		v := in.Use[k]
		x := &m.state[v]
		x.made, x.here, x.used = true, true, end
		x.since = t
		if in.Writes[k] {
			x.host, x.written, x.since = false, end, end
		}
		if in.Next[k] == in.N {
			x.here, x.host = false, false
			freed += in.Size[v]
		}
	}
	if in.Times[i] > 0 {
		order = 0
	}
	m.add(point{end, order, -freed})
	m.placed = append(m.placed, placed{op: opRun, id: i, start: t})
	m.compute = end
	if m.issued {
		m.issue = max(m.issue, end)
	}
	return true
}

// leaves evicts variable v: it drops it or transfers it out.
func (m *machine) leaves(v int) {
	x := &m.state[v]
	if !x.here {
		return
	}
	if x.host {
		x.left = max(x.used, x.ready)
		m.placed = append(m.placed, placed{op: opDrop, id: v, start: x.left})
		m.add(point{x.left, len(m.placed), -m.in.Size[v]})
	} else {
		// It must end after the start of the last function that reads v.
		t := max(m.outEnd, m.issue, x.written, x.since-m.in.Move[v]+2*m.in.Instant)
		if m.in.Move[v] <= 2*m.in.Instant {
			t = max(t, x.used)
		}
		m.outEnd = t + m.in.Move[v]
		x.left = max(m.outEnd, x.used)
		m.placed = append(m.placed, placed{op: opOut, id: v, start: t, after: x.since})
		m.add(point{x.left, 0, -m.in.Size[v]})
	}
	x.here, x.host = false, true
}

// comes fetches variable v.
func (m *machine) comes(v int) bool {
	x := &m.state[v]
	if x.here || !x.host {
		return true
	}
	t, ok := m.fit(max(m.inEnd, m.issue, x.left), m.in.Size[v])
	if !ok {
		return false
	}
	m.inEnd = t + m.in.Move[v]
	m.add(point{t, math.MaxInt, m.in.Size[v]})
	m.placed = append(m.placed, placed{op: opIn, id: v, start: t})
	x.here, x.ready = true, m.inEnd
	x.used = max(x.used, m.inEnd)
	return true
}

// fit returns the first time from t on after which the given bytes are always free, and false if
// there is none.
func (m *machine) fit(t, bytes float64) (float64, bool) {
	free := m.in.Memory - bytes
	level := m.final
	if level > free && bytes > 0 {
		return 0, false
	}
	for k := len(m.points) - 1; k >= 0; k-- {
		p := &m.points[k]
		if p.time <= t {
			break
		}
		if level -= p.bytes; level > free && bytes > 0 {
			return p.time, true
		}
	}
	return t, true
}

// add puts a change of memory in its place.
func (m *machine) add(p point) {
	if p.bytes == 0 {
		return
	}
	m.final += p.bytes
	k := len(m.points)
	for k > 0 && (m.points[k-1].time > p.time || m.points[k-1].time == p.time && m.points[k-1].order > p.order) {
		k--
	}
	m.points = slices.Insert(m.points, k, p)
}

// plan writes the list that was run last, in order of start, and the peak of its replay.
// Transfers that start after the end of the last function are left out.
func (m *machine) plan(method string) *plan.Plan {
	in := m.in
	all := slices.DeleteFunc(slices.Clone(m.placed), func(x placed) bool { return x.start > m.compute })
	slices.SortStableFunc(all, func(a, b placed) int { return cmp.Compare(a.start, b.start) })
	out := plan.New(plan.Swap, method, in.Sequence, in.Platform)
	out.Ops = make([]plan.Op, len(all))
	for k, x := range all {
		o := &out.Ops[k]
		o.Start, o.End = x.start, x.start+m.length(&x)
		o.Op = [...]string{plan.OpRun, plan.OpIn, plan.OpOut, plan.OpDrop}[x.op]
		if x.op == opRun {
			o.Function = x.id + 1
		} else {
			o.Variable = in.Sequence.Variables[x.id].ID
		}
	}
	out.Claims.Makespan = m.compute
	if report, err := verifyswap.Verify(in.Sequence, out); err == nil { // New has refused what it cannot read
		out.Claims.PeakMemory = report.PeakMemory
	}
	return out
}

// length returns the duration of an operation.
func (m *machine) length(x *placed) float64 {
	switch x.op {
	case opRun:
		return m.in.Times[x.id]
	case opDrop:
		return 0
	}
	return m.in.Move[x.id]
}

// explain says which event of a list found no memory.
func (m *machine) explain(method string, list []int) error {
	k := m.runFrom(list)
	what := ""
	if k < len(list) {
		in, n, vs := m.in, m.in.N, len(m.in.Size)
		if e := list[k]; e < n {
			what = in.Name(e)
		} else {
			what = fmt.Sprintf("in %s", in.Sequence.Variables[(e-n)%vs].ID)
		}
	}
	return fmt.Errorf("%s: %w: %s does not fit in %s together with the variables on the GPU at that time", method, plan.ErrNoPlan, what,
		m.in.Sequence.Unit.Exactly(m.in.Platform.Memory))
}

// eventsOf returns the list of what has been placed: the operations in order of start, a transfer
// out after the functions that use the variable before its eviction.
func (m *machine) eventsOf() []int {
	m.order = m.order[:0]
	for k := range m.placed {
		x := &m.placed[k]
		m.order = append(m.order, turn{max(x.start, x.after), k})
	}
	slices.SortFunc(m.order, func(a, b turn) int {
		return cmp.Or(cmp.Compare(a.time, b.time), cmp.Compare(a.place, b.place))
	})
	list := make([]int, len(m.order))
	for k, t := range m.order {
		switch x := &m.placed[t.place]; x.op {
		case opRun:
			list[k] = x.id
		case opIn:
			list[k] = m.in.come(x.id)
		default:
			list[k] = m.in.evictEvent(x.id)
		}
	}
	return list
}
