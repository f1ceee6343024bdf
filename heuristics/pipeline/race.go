package pipeline

import (
	"math"
	"slices"

	view "workbench/model/pipeline"
	"workbench/model/plan"
)

// A race asks, for every k, whether an allocation has a pattern of period T a mini-batch. Let m
// be one of its mini-batches for which start - m·T is largest: each one j behind it starts by j·T
// after it. Without those before m the rest stays valid. So processors that are empty can start
// mini-batch j by j·T, for all j ≥ 0. A race tries all ways to do that. If each comes to an end, T
// is too short; if one comes back to where it was, and earlier, nothing is excluded.
//
// It is run in the order of starts. What a processor stores depends on the order of its own
// operations alone, and mini-batches pass each operation in their order (see circle). So where
// everybody is counts, and when processors and mini-batches are free, relative to the next deadline;
// and of two ways to the same places, one that is no earlier anywhere need not go on. Of steps that may be next
// only those are tried that can make a difference (see goOn).
//
// Links carry as many tensors at a time as one likes. Layers that are light or not placed are
// delays, and so are first forwards that take next to no time: else mini-batches would pile up
// that hold little.
// Layers in a row are one step (see step).
type race struct {
	in        *instance
	unit      float64   // seconds; a period has raceGrain
	room      []float64 // by processor, beside weights and buffers
	steps     []step
	stored    [][]float64 // behind so many steps, by processor, of one mini-batch
	latest    []int32     // by step, see schedule
	lead      []int32     // by step: from the start of the first to its own, at least
	next      [][]int     // behind so many steps, by processor: the next step there
	elsewhere bool        // the first step takes memory on another processor, of first forwards that are delays
	ways      *raceWays
	made      int // of them

	// Of the way that goes on: the options of each processor, by when it begins one if no other does before, and when any can begin.
	options [][]option
	until   []int32
	soonest int32
	left    []int  // scratch of begin
	child   runner // scratch of follow
}

const (
	// raceGrain is the number of units of a period; all times are rounded down to them.
	raceGrain = 2048
	// raceDelay is the part of a period that first forwards may take and be delays.
	raceDelay = 0.05
	// mostInside is how many mini-batches are followed; where more fit, nothing is excluded.
	mostInside = 12
	// mostBegun is how many steps that are begun on a processor end before another or behind it, each by itself.
	mostBegun = 3
)

// A step is what one processor does of a mini-batch: forwards, or backwards, of layers in a row.
// Between them it may do others, for which the step ends later. When is left open, so what it
// stores is the least from its first layer on, and what it needs is that of its first.
type step struct {
	on          int
	layers      int
	exact       float64 // seconds it takes
	time        int32   // it takes, in units
	first, last int32   // of that, its first layer and its last
	wait        float64 // seconds from its end to the next step at least
	delay       int32   // the same in units
	need        float64 // bytes, of this mini-batch, while the first layer runs
}

// newRace is the race of layers 1..n as they are placed; the others take v at least. Steps have at
// most so many layers. O(n·P).
func (a *allocations) newRace(n int, v float64, wide int) *race {
	in := a.in
	c := &race{in: in, unit: a.period * (1 + safe) / raceGrain, ways: &a.ways}
	for range in.Procs {
		c.room = append(c.room, in.Memory)
	}
	for l := 1; l <= n; l++ {
		if r := a.owner[l]; r != none {
			c.room[r] -= in.Copies * in.W[l]
			if a.owner[l-1] != r {
				c.room[r] -= a.buffer[l-1]
			}
			if l < in.N && (l == n || a.owner[l+1] != r) {
				c.room[r] -= a.buffer[l]
			}
		}
	}
	held := make([]float64, in.Procs)
	c.stored = append(c.stored, slices.Clone(held))
	next := func(l, r int) bool { return l >= 1 && l <= n && a.owner[l] == r } // on the same processor
	began := 0.0
	for l := 1; l <= n; l++ {
		r := a.owner[l]
		if r == none {
			c.delay(in.UF[l])
			continue
		}
		held[r] += a.hold[l]
		if began += in.UF[l]; len(c.steps) == 0 && began <= raceDelay*a.period && (next(l+1, r) || held[r] <= raceDelay*in.Memory) {
			continue
		}
		own, waits := 0.0, 0.0
		if in.Task {
			own = in.A[l]
			if next(l+1, r) {
				waits = own
			}
		}
		// What a run holds in the end is a step of its own, since others count it for long.
		c.add(r, in.UF[l], held, own, waits, next(l-1, r) && next(l+1, r), wide)
		if l < n {
			c.delay(a.cutF[l] * a.crosses(l))
		}
	}
	c.delay(v)
	for l := n; l >= 1; l-- {
		r := a.owner[l]
		if r == none {
			c.delay(in.UB[l])
			continue
		}
		own, waits := 0.0, 0.0
		if in.Task {
			own = a.hold[l] + in.D[l] + in.D[l-1]
			if next(l-1, r) {
				waits = in.D[l-1]
			}
		} else {
			own = a.hold[l]
		}
		held[r] -= a.hold[l]
		c.add(r, in.UB[l], held, own, waits, next(l+1, r) && l > 1, wide)
		if l > 1 {
			c.delay(a.cutB[l-1] * a.crosses(l-1))
		}
	}
	return c
}

// crosses is 1 if layers l and l+1 are on two processors, else 0.
func (a *allocations) crosses(l int) float64 {
	if a.owner[l] == a.owner[l+1] {
		return 0
	}
	return 1
}

// delay adds time before the next step.
func (c *race) delay(t float64) {
	if k := len(c.steps) - 1; k >= 0 {
		c.steps[k].wait += max(0, t-2*plan.Tolerance*raceGrain*c.unit)
		c.steps[k].delay = int32(c.steps[k].wait / c.unit)
	}
}

// add appends a layer to the last step, or a new one. Beside what is held it needs own, and behind it something waits.
// Its time is less by what the verifier forgives.
func (c *race) add(r int, time float64, held []float64, own, waits float64, join bool, wide int) {
	time = max(0, time-2*plan.Tolerance*raceGrain*c.unit)
	units := int32(time / c.unit)
	behind := slices.Clone(held)
	behind[r] += waits
	if k := len(c.steps) - 1; join && k >= 0 && c.steps[k].layers < wide {
		s := &c.steps[k]
		s.layers++
		s.exact += time
		s.time, s.last = int32(s.exact/c.unit), units
		c.stored[k+1][r] = min(c.stored[k+1][r], behind[r])
		return
	}
	c.steps = append(c.steps, step{on: r, layers: 1, exact: time, time: units, first: units, last: units, need: held[r] + own})
	c.stored = append(c.stored, behind)
}

// What a race ends with.
const (
	lost = iota // there is no pattern
	goesOn
	unfinished
)

// run tries at most so many ways.
func (c *race) run(most int) int {
	if len(c.steps) < 2 || len(c.steps) > 255 {
		return unfinished
	}
	if !c.schedule() {
		return lost
	}
	c.lookAhead()
	return c.search(most)
}

// lookAhead tabulates what steps lie ahead. O(steps·P).
func (c *race) lookAhead() {
	n, P := len(c.steps), c.in.Procs
	c.lead, c.next = make([]int32, n+1), make([][]int, n+1)
	for p, s := range c.steps {
		c.lead[p+1] = c.lead[p] + s.time + s.delay
	}
	c.next[n] = slices.Repeat([]int{n}, P)
	for p := n - 1; p >= 0; p-- {
		c.next[p] = slices.Clone(c.next[p+1])
		c.next[p][c.steps[p].on] = p
	}
	for r, held := range c.stored[1] {
		c.elsewhere = c.elsewhere || held > 0 && r != c.steps[0].on
	}
	c.options, c.until = make([][]option, P), make([]int32, P)
}

// schedule finds by when each step is to begin, after the deadline of its mini-batch: to be on time for the
// next step, and for the mini-batch that finds no room on a processor before it has begun. It reports false if there is no
// such time.
func (c *race) schedule() bool {
	n := len(c.steps)
	c.latest = make([]int32, n)
	for p := 1; p < n; p++ {
		c.latest[p] = math.MaxInt32
	}
	for range 2 * n {
		changed := false
		lower := func(p int, t int32) {
			if t < c.latest[p] {
				c.latest[p], changed = t, true
			}
		}
		for p := n - 1; p >= 0; p-- {
			s, t := &c.steps[p], c.latest[p]
			if t == math.MaxInt32 {
				continue
			}
			if p > 0 {
				lower(p-1, t-c.steps[p-1].time-c.steps[p-1].delay)
			}
			held, last := c.stored[p+1][s.on], p+1
			for last < n-1 && c.stored[last+1][s.on] >= held {
				last++
			}
			if count := 1 + view.Count(c.room[s.on]-s.need, held); count >= 1 && count < mostInside && last < n {
				lower(last, t+int32(count)*raceGrain)
			}
		}
		if !changed {
			return true
		}
	}
	return false
}

// raceWidths are the numbers of layers of a step that are tried one after the other: fewer tell more and
// take longer.
var raceWidths = [...]int{64, 6, 3, 1}

// raceMost is how many ways of an allocation are tried.
const raceMost = 1 << 21

// mayGoOn reports whether no race excludes the whole allocation. If one does, it looks for the shortest beginning
// that is excluded, too, and whatever continues that on another processor need not be looked at.
func (a *allocations) mayGoOn() bool {
	for _, wide := range raceWidths {
		answer, made := a.raceOf(a.in.N, wide, raceMost)
		if answer == goesOn {
			continue
		}
		if answer == lost {
			for n := a.runBefore(a.in.N); n > 0 && answer == lost; n = a.runBefore(n) {
				if answer, _ = a.raceOf(n, wide, 8*made+raceMost>>8); answer == lost {
					a.back = n + 1
				}
			}
			return false
		}
		return true
	}
	return true
}

// raceOf runs the race of layers 1..n.
func (a *allocations) raceOf(n, wide, most int) (answer, made int) {
	v := 0.0
	if n < a.in.N {
		v = a.through(n, a.least[n+1])
	}
	c := a.newRace(n, v, wide)
	answer = c.run(int(min(int64(most), max(0, a.budget))))
	a.budget -= int64(c.made) // a way costs as much as a node
	return answer, c.made
}

// runBefore is the end of the run before that of layer n.
func (a *allocations) runBefore(n int) int {
	r := a.owner[n]
	for n > 0 && a.owner[n] == r {
		n--
	}
	return n
}
