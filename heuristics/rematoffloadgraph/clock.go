package rematoffloadgraph

import (
	"cmp"
	"math"
	"slices"

	"workbench/model/plan"
	"workbench/model/platform"
)

// A clock lets a route happen, with gaps in which values are away.
//
// Values are sent as soon as they are there, those first that are to be gone first; what has
// been sent and is not used is freed. They are fetched in the order in which they are used,
// not before there is room until then, nor much before they must be (see gates). A
// computation waits for what it reads, and for room.
type clock struct {
	*route
	memory, bandwidth float64
	sends             []send  // by value
	queue             []int   // values that are there and to be sent, by due
	back              []fetch // in the order of use
	next              int     // of back
	begin             [][]int // by position: the gaps, as indices of back, that begin there
	makes             [][]int // by position: values that it makes that are to be sent

	now      float64
	used     float64 // on the device, also on its way
	running  float64 // what the running computation takes beside
	out, in  float64 // when the links are free
	frees    []free  // to come, in order of time
	ops      []plan.Op
	waits    []float64 // by position: how long it waited
	headroom []float64 // by position: what was free while it ran
}

// A send is the way of a value to the host.
type send struct {
	wanted bool
	made   int     // the position that makes what is sent
	due    int     // the position by which it is to be gone
	end    float64 // +Inf: it has not begun
	after  []leave // gaps that wait for it
}

// leave is a gap that has begun.
type leave struct {
	gap  int
	time float64
}

// A fetch is the way back of the value of a gap.
type fetch struct {
	gap
	gate int     // the position from which on it may begin
	gone float64 // when it was freed; NaN: not yet
	end  float64
}

// A free is something that leaves the device.
type free struct {
	time float64
	gap  int
}

// run returns what the clock makes of a route; false if it cannot go on.
func (r *route) run(memory, bandwidth float64, away []gap) (*clock, bool) {
	n := len(r.order)
	c := &clock{
		route: r, memory: memory, bandwidth: bandwidth, sends: make([]send, r.v.M), begin: make([][]int, n+1),
		makes: make([][]int, n+1), used: r.v.Graph.Input, waits: make([]float64, n+1), headroom: make([]float64, n+1),
	}
	for _, g := range away {
		c.back = append(c.back, fetch{gap: g, gone: math.NaN(), end: math.Inf(1)})
	}
	slices.SortStableFunc(c.back, func(a, b fetch) int { return cmp.Compare(a.to, b.to) })
	c.gates()
	for f := range c.back {
		g := c.back[f].gap
		c.begin[g.from] = append(c.begin[g.from], f)
		s := &r.stays[g.stay]
		if x := &c.sends[s.value]; !x.wanted || g.due < x.due { // the host keeps what it has
			*x = send{wanted: true, made: s.at[0], due: g.due, end: math.Inf(1)}
		}
	}
	for i := range c.sends {
		if x := &c.sends[i]; x.wanted {
			c.makes[x.made] = append(c.makes[x.made], i)
		}
	}
	for k := range r.order {
		if !c.step(k) {
			return nil, false
		}
	}
	return c, c.wait(n)
}

// gates says from when on values may be fetched: not before there is room for them until
// they are used, nor much before they must be on their way for nothing to wait.
func (c *clock) gates() {
	room := make([]float64, len(c.use))
	for k, use := range c.use {
		room[k] = c.memory - use
	}
	latest := make([]float64, len(c.back)) // when each must begin
	begin := c.clock[len(c.order)]
	for f := len(c.back) - 1; f >= 0; f-- {
		x := &c.back[f]
		for k := x.from + 1; k < x.to; k++ {
			room[k] += c.size(x.gap)
		}
		begin = min(begin, c.clock[x.to]) - c.seconds(c.stays[x.stay].value)
		latest[f] = begin
	}
	for f := range c.back {
		x := &c.back[f]
		size := c.size(x.gap)
		early := latest[f] - max(c.seconds(c.stays[x.stay].value), lead*c.clock[len(c.order)])
		g := x.to
		for g-1 > x.from && platform.Fits(size, room[g-1]) && (g == x.to || c.clock[g] > early) {
			g--
			room[g] -= size
		}
		x.gate = g
	}
}

// lead is how much earlier than it must a prefetch may begin, as a part of the makespan.
const lead = 0.01

// seconds is how long a value travels.
func (c *clock) seconds(value int) float64 { return c.v.Memory[value] / c.bandwidth }

// step lets the computation at position k run.
func (c *clock) step(k int) bool {
	if !c.wait(k) {
		return false
	}
	j := c.order[k]
	start, end := c.now, c.now+c.v.Time[j]
	c.ops = append(c.ops, plan.Op{Op: plan.OpC, Node: c.v.Graph.Nodes[j].ID, Start: start, End: end})
	c.used += c.v.Written[j]
	c.running = c.v.Overhead[j]
	c.headroom[k] = c.memory - c.used - c.running
	for {
		c.advance()
		if c.fetchOne(k, c.running) {
			continue
		}
		t := c.later()
		if t >= end {
			break
		}
		c.now = t
	}
	c.now, c.running = end, 0
	c.advance()
	for _, i := range c.makes[k] {
		at, _ := slices.BinarySearchFunc(c.queue, c.sends[i].due, func(q, due int) int { return cmp.Compare(c.sends[q].due, due) })
		c.queue = slices.Insert(c.queue, at, i)
	}
	for _, f := range c.begin[k] {
		value := c.stays[c.back[f].stay].value
		if x := &c.sends[value]; math.IsInf(x.end, 1) {
			x.after = append(x.after, leave{f, end})
		} else {
			c.free(max(end, x.end), f)
		}
	}
	c.discard(k)
	c.advance()
	return true
}

// discard frees what position k uses last.
func (c *clock) discard(k int) {
	for _, i := range c.ends[k] {
		c.used -= c.v.Memory[i]
		c.ops = append(c.ops, plan.Op{Op: plan.OpD, Storage: c.v.ID(i), Start: c.now, End: c.now})
	}
}

// wait lets time pass until the computation at position k can begin.
func (c *clock) wait(k int) bool {
	from := c.now
	for {
		c.advance()
		need := 0.0
		if k < len(c.order) {
			need = c.v.Written[c.order[k]] + c.v.Overhead[c.order[k]]
		}
		if c.fetchOne(k, need) {
			continue
		}
		if c.ready(k) && platform.Fits(c.used+need, c.memory) {
			c.waits[k] = c.now - from
			return true
		}
		t := c.later()
		if math.IsInf(t, 1) {
			return false
		}
		c.now = t
	}
}

// ready reports whether what position k reads is there, and nothing that it makes is being
// sent.
func (c *clock) ready(k int) bool {
	for f := c.next - 1; f >= 0 && c.back[f].to >= k; f-- {
		if c.back[f].to == k && c.back[f].end > c.now {
			return false
		}
	}
	if c.next < len(c.back) && c.back[c.next].to <= k {
		return false
	}
	if k == len(c.order) {
		return c.in <= c.now
	}
	for _, i := range c.v.Writes[c.order[k]] {
		if x := &c.sends[i]; x.end > c.now && !math.IsInf(x.end, 1) {
			return false
		}
	}
	return true
}

// fetchOne begins the next prefetch, if it can now, beside what the computation at position
// k takes or will take.
func (c *clock) fetchOne(k int, beside float64) bool {
	if c.next == len(c.back) {
		return false
	}
	x := &c.back[c.next]
	if x.to <= k {
		beside = 0 // which waits for it
	}
	value := c.stays[x.stay].value
	if x.gate > k || c.in > c.now || !(x.gone <= c.now) || !platform.Fits(c.used+beside+c.v.Memory[value], c.memory) {
		return false
	}
	x.end = c.now + c.seconds(value)
	c.in = x.end
	c.used += c.v.Memory[value]
	c.ops = append(c.ops, plan.Op{Op: plan.OpP, Storage: c.v.ID(value), Start: c.now, End: x.end})
	c.next++
	return true
}

// later is when something ends next.
func (c *clock) later() float64 {
	t := math.Inf(1)
	if c.in > c.now {
		t = c.in
	}
	if c.out > c.now {
		t = min(t, c.out)
	}
	if len(c.frees) > 0 {
		t = min(t, c.frees[0].time)
	}
	return t
}

// advance frees what is to go by now, and keeps the link out busy.
func (c *clock) advance() {
	for len(c.queue) > 0 && c.out <= c.now {
		i := c.queue[0]
		c.queue = c.queue[1:]
		x := &c.sends[i]
		x.end = c.now + c.seconds(i)
		c.out = x.end
		c.ops = append(c.ops, plan.Op{Op: plan.OpO, Storage: c.v.ID(i), Start: c.now, End: x.end})
		for _, g := range x.after {
			c.free(max(g.time, x.end), g.gap)
		}
		x.after = nil
	}
	for len(c.frees) > 0 && c.frees[0].time <= c.now {
		f := c.frees[0]
		c.frees = c.frees[1:]
		x := &c.back[f.gap]
		x.gone = c.now
		value := c.stays[x.stay].value
		c.used -= c.v.Memory[value]
		c.ops = append(c.ops, plan.Op{Op: plan.OpD, Storage: c.v.ID(value), Start: c.now, End: c.now})
	}
}

// free notes that the value of a gap goes at a time.
func (c *clock) free(time float64, gap int) {
	at, _ := slices.BinarySearchFunc(c.frees, time, func(f free, t float64) int { return cmp.Compare(f.time, t) })
	c.frees = slices.Insert(c.frees, at, free{time, gap})
}
