package race

import (
	"math"
	"slices"
)

// A runner is a way to some places. Times are relative to the deadline of the newest mini-batch: of the
// latest start, 0; when the first layer of what each processor has begun last ends, 1+p; when each
// mini-batch can begin its next step, 1+P+m.
type runner struct {
	places
	inside int
	id     int32 // among the ways
	open   uint16
	times  []int32
}

// places are those of the mini-batches inside, the newest first: how many steps each has begun.
type places [16]uint8

// An option is a step that may be the next to begin on its processor.
type option struct {
	m, step int   // of which mini-batch, -1 for a new one
	ready   bool  // it is the next of its mini-batch anywhere
	start   int32 // it begins then at the earliest
	by      int32 // if it is ready and the next there, it need not begin later
}

// search tries all ways, who is ahead first.
func (c *Race) search(most int) End {
	w := c.memory
	w.reset()
	x := &runner{id: none} // empty, and the first mini-batch is due now: it is there once
	for range 1 + len(c.Room) {
		x.times = append(x.times, Grain)
	}
	for k := 1; ; k++ {
		c.goOn(x)
		switch {
		case w.again:
			return GoesOn
		case w.beyond:
			return Unfinished
		case !w.pop(len(c.Room), x):
			return Lost
		case x.inside == mostInside || c.Ways > most || k%endedEvery == 0 && c.Ended():
			return Unfinished
		}
	}
}

// goOn tries what may be the next step of x to begin. Processors know of each other only by what mini-batches bring, so
//
//   - if none of what a processor has to do fits, it is stuck, and x comes to an end;
//   - a step that is alone on its processor begins as soon as it can, and nothing else is tried: whatever follows,
//     that step can as well be begun first;
//   - else some option is the next of all, and none that begins after another processor has begun something.
func (c *Race) goOn(x *runner) {
	c.soonest = math.MaxInt32
	var alone *option
	for r := range c.options {
		busy, needed := c.list(x, r)
		if needed && len(c.options[r]) == 0 {
			return
		}
		c.leaveOut(x, r, busy)
		if k := c.options[r]; len(k) == 1 && c.canBeFirst(x, &k[0], r) {
			alone = &k[0]
		}
	}
	if alone != nil {
		c.begin(x, alone, alone.start, c.soonest)
		return
	}
	for r, k := range c.options {
		until := int32(math.MaxInt32)
		for other, t := range c.until {
			if other != r {
				until = min(until, t)
			}
		}
		for i := range k {
			if k[i].ready {
				c.begins(x, &k[i], until)
			}
		}
	}
}

// list lists the options of processor r: of each mini-batch its next step there, if it fits now, and those ahead
// have begun it. That others are begun elsewhere changes nothing of it, but that a new mini-batch may take memory here
// (see elsewhere). What r has begun is over by busy.
func (c *Race) list(x *runner, r int) (busy int32, needed bool) {
	P := len(c.Room)
	k := c.options[r][:0]
	free := max(x.times[0], x.times[1+r])
	busy = free
	for i := range x.inside {
		busy = max(busy, c.end(x, i, r))
	}
	ahead := len(c.Steps) // the next step here of those ahead
	for m := x.inside - 1; m >= -1; m-- {
		p, t := 0, x.times[0]
		if m >= 0 {
			p, t = int(x.places[m]), x.times[1+P+m]
		}
		q := c.next[p][r]
		if q >= ahead {
			continue
		}
		ahead = q
		room := c.Room[r]
		for i, p := range x.places[:x.inside] {
			if i != m {
				room -= c.Stored[p][r]
			}
		}
		if c.Steps[q].Need <= room {
			t = max(t+c.lead[q]-c.lead[p], free)
			o := option{m: m, step: q, ready: p == q, start: t, by: max(t, busy)}
			if m < 0 && c.elsewhere {
				o.by = math.MaxInt32
			}
			k = append(k, o)
		}
	}
	c.options[r] = k
	return busy, ahead < len(c.Steps)
}

// leaveOut leaves out options of processor r that another one that is ready, after which no more is stored, can be
// over before: whatever begins with one of them is no worse with that first. It also finds by when r begins one of the
// others, if nothing else begins before that: one that is not ready takes the steps before it from then on.
func (c *Race) leaveOut(x *runner, r int, busy int32) {
	k := c.options[r]
	over := int32(math.MaxInt32)
	for _, o := range k {
		if time := c.Steps[o.step].Time; o.ready && o.by == o.start && time > 0 && c.Stored[o.step+1][r] <= c.Stored[o.step][r] {
			over = min(over, o.start+time)
		}
	}
	c.until[r] = math.MinInt32
	n := 0
	for _, o := range k {
		if o.start >= over {
			continue
		}
		k[n] = o
		n++
		switch {
		case o.ready:
			c.until[r], c.soonest = max(c.until[r], o.by), min(c.soonest, o.start)
		case over < math.MaxInt32:
			c.until[r] = max(c.until[r], over-1-c.ahead(x, o))
		default:
			c.until[r] = math.MaxInt32
		}
	}
	if n == 0 {
		c.until[r] = math.MaxInt32
	}
	c.options[r] = k[:n]
}

// canBeFirst reports whether an option that is alone on processor r can be begun before what starts sooner elsewhere. It must
// not hide what its mini-batch has begun last, nor that a new one may take memory here.
func (c *Race) canBeFirst(x *runner, o *option, r int) bool {
	if !o.ready || o.by > o.start || c.Stored[1][r] > 0 && r != c.Steps[0].On {
		return false
	}
	if o.m < 0 {
		return true
	}
	on := c.Steps[x.places[o.m]-1].On
	return c.end(x, o.m, on) <= max(x.times[0], x.times[1+on])
}

// ahead is the time that a mini-batch takes until an option of it is ready.
func (c *Race) ahead(x *runner, o option) int32 {
	if o.m < 0 {
		return c.lead[o.step]
	}
	return c.lead[o.step] - c.lead[x.places[o.m]]
}

// end is when what mini-batch i has begun on a processor ends, long ago if it is elsewhere.
func (c *Race) end(x *runner, i, on int) int32 {
	s := &c.Steps[x.places[i]-1]
	if s.On != on {
		return math.MinInt32
	}
	return x.times[1+len(c.Room)+i] - s.Delay
}

// begins begins an option as soon as it can, or when one that is begun on that processor ends, but not after until.
func (c *Race) begins(x *runner, o *option, until int32) {
	if o.start <= until {
		c.begin(x, o, o.start, o.start)
	}
	for i := range x.inside {
		if t := c.end(x, i, c.Steps[o.step].On); t > o.start && t <= until && i != o.m {
			c.begin(x, o, t, t)
		}
	}
}

// begin begins an option at t; nothing else starts before now. Of those begun on the processor that have not ended by then
// some end before it, so that it has to wait for all that they still take, and the others behind it. What has begun
// the same step ends before.
func (c *Race) begin(x *runner, o *option, t, now int32) {
	if o.m < 0 && t > Grain {
		return
	}
	s := &c.Steps[o.step]
	left, same := c.left[:0], 0
	for i, p := range x.places[:x.inside] {
		if i != o.m && c.end(x, i, s.On) > t {
			if int(p)-1 == o.step {
				same |= 1 << len(left)
			}
			left = append(left, i)
		}
	}
	c.left = left
	switch {
	case len(left) > mostBegun:
		c.follow(x, o, t, now, -1)
	case s.Layers == 1:
		c.follow(x, o, t, now, 0) // it is at one go
	default:
		for before := range 1 << len(left) {
			if before&same == same {
				c.follow(x, o, t, now, before)
			}
		}
	}
}

// follow is what follows if those left that are in before end before the option. Where they are too many, -1, they
// are as early as it may be either way.
func (c *Race) follow(x *runner, o *option, t, now int32, before int) {
	c.Ways++
	s, P, y := &c.Steps[o.step], len(c.Room), &c.child
	y.times = append(y.times[:0], x.times...)
	end := t + s.Time
	for k, i := range c.left {
		p := 1 + P + i
		switch z := &c.Steps[x.places[i]-1]; {
		case before < 0:
			y.times[p] += s.First
		case before>>k&1 == 1:
			end = max(end, c.end(x, i, s.On)+s.Time)
			y.times[p] += s.First
		default:
			y.times[p] = max(y.times[p]+s.Time, t+s.Time+z.Last+z.Delay)
		}
	}
	y.times[0], y.times[1+s.On] = now, t+s.First
	c.step(x, y, o, end+s.Delay)
	if c.late(y) {
		return
	}
	if !c.memory.arrive(y) {
		return
	}
	y.open = 0
	for m, p := range y.places[:y.inside] {
		if s := &c.Steps[p-1]; y.times[1+P+m]-s.Delay > y.times[1+s.On] {
			y.open |= 1 << m
		}
	}
	if c.outrun(y) {
		c.memory.forget()
		return
	}
	c.memory.add(y, x.id, c.behind(y))
	c.outruns(y)
}

// step takes the mini-batch of an option, which is ready again then, a step further, from the places of x to those of y. Times are
// relative to the deadline of the newest mini-batch, and nothing starts before the latest start.
func (c *Race) step(x, y *runner, o *option, ready int32) {
	y.places, y.inside = x.places, x.inside
	m, shift := 1+len(c.Room)+o.m, int32(0)
	switch {
	case o.m < 0:
		copy(y.places[1:], x.places[:x.inside])
		y.places[0] = 1
		y.inside++
		y.times = slices.Insert(y.times, m+1, ready)
		shift = Grain
	case o.step+1 == len(c.Steps): // the oldest leaves
		y.inside--
		y.places[y.inside] = 0
		y.times = y.times[:m]
	default:
		y.places[o.m]++
		y.times[m] = ready
	}
	now := y.times[0]
	for i, t := range y.times {
		y.times[i] = max(t, now) - shift
	}
}

// late reports whether a mini-batch can no longer begin its next step in time.
func (c *Race) late(x *runner) bool {
	for m, p := range x.places[:x.inside] {
		t := max(x.times[1+len(c.Room)+m], x.times[1+c.Steps[p].On])
		if by := c.latest[p]; by < math.MaxInt32 && t > by-int32(m)*Grain {
			return true
		}
	}
	return false
}

// behind says how far x is behind; who is ahead goes on first.
func (c *Race) behind(x *runner) int32 {
	sum := x.times[0]
	for _, p := range x.places[:x.inside] {
		sum += Grain - Grain*int32(p)/int32(len(c.Steps))
	}
	return sum
}
