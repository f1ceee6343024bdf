package rematoffloadgraph

import (
	"cmp"
	"math"
	"slices"

	"workbench/model/plan"
	"workbench/model/platform"
)

// clock simulates a route, with gaps in which values are on the host.
//
// Values are sent as soon as they are computed, those that must be freed first first; a value that has been sent
// and is not in use is freed. They are fetched in the order of use, not before the memory suffices until then, nor
// much before they must be (see gates). A computation waits for its inputs, and for memory.
type clock struct {
	*route
	memory, bandwidth float64
	sends             []send  // by value
	queue             []int   // computed values waiting to be sent, by due
	back              []fetch // in the order of use
	next              int     // of back
	begin             [][]int // by position: indices in back of the gaps that begin there
	makes             [][]int // by position: values computed there that will be sent

	now      float64
	used     float64 // on the device, including values being fetched
	running  float64 // additional memory of the running computation
	out, in  float64 // when the links become free
	frees    []free  // pending, in order of time
	ops      []plan.Op
	waits    []float64 // by position: its waiting time
	headroom []float64 // by position: the free memory while it ran
}

// send is the transfer of a value to the host.
type send struct {
	wanted bool
	made   int     // the position that computes the value
	due    int     // the position by which it must be freed
	end    float64 // +Inf: not started
	after  []leave // gaps that wait for it
}

// leave is a gap that has begun.
type leave struct {
	gap  int
	time float64
}

// fetch is the transfer of the value of a gap to the device.
type fetch struct {
	gap
	gate int     // the first position at which it may begin
	gone float64 // when it was freed; NaN: not yet
	end  float64
}

// free is an event that frees memory.
type free struct {
	time float64
	gap  int
}

// run simulates a route; it returns false at a deadlock.
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
		if x := &c.sends[s.value]; !x.wanted || g.due < x.due { // the host keeps its copy
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

// gates sets the first position at which each value may be fetched: not before the memory suffices until its use,
// nor much before it must start for no computation to wait.
func (c *clock) gates() {
	room := make([]float64, len(c.use))
	for k, use := range c.use {
		room[k] = c.memory - use
	}
	latest := make([]float64, len(c.back)) // the latest start of each
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

// lead is how much earlier than necessary a prefetch may begin, as a fraction of the makespan.
const lead = 0.01

// seconds returns the transfer time of a value.
func (c *clock) seconds(value int) float64 { return c.v.Memory[value] / c.bandwidth }

// step runs the computation at position k.
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

// discard frees the values whose last use is at position k.
func (c *clock) discard(k int) {
	for _, i := range c.ends[k] {
		c.used -= c.v.Memory[i]
		c.ops = append(c.ops, plan.Op{Op: plan.OpD, Storage: c.v.ID(i), Start: c.now, End: c.now})
	}
}

// wait advances the time until the computation at position k can begin.
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

// ready reports whether the inputs of position k are on the device, and none of its outputs is being sent.
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

// fetchOne begins the next prefetch, if it is possible now together with the memory of the computation at position
// k.
func (c *clock) fetchOne(k int, beside float64) bool {
	if c.next == len(c.back) {
		return false
	}
	x := &c.back[c.next]
	if x.to <= k {
		beside = 0 // the computation waits for the value
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

// later returns the time of the next end of a transfer.
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

// advance frees memory that is due, and keeps the link out busy.
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

// free schedules the value of a gap to be freed at a time.
func (c *clock) free(time float64, gap int) {
	at, _ := slices.BinarySearchFunc(c.frees, time, func(f free, t float64) int { return cmp.Compare(f.time, t) })
	c.frees = slices.Insert(c.frees, at, free{time, gap})
}
