// Package race decides whether processors that have nothing to do can start a mini-batch every period of T, for ever: a
// proof that an allocation of a pipeline has no pattern of period T, for every k. It is a relaxation in what it is given (see
// [Step]); its search is exact.
package race

import (
	"math"
	"slices"

	"workbench/model/problem/pipeline"
)

// A Race asks, for every k, whether an allocation has a pattern of period T a mini-batch. Let m
// be one of its mini-batches for which start - m·T is largest: each one j behind it starts by j·T
// after it. Without those before m the rest stays valid. So processors that are empty can start
// mini-batch j by j·T, for all j ≥ 0. A race tries all ways to do that. If each comes to an end, T
// is too short; if one comes back to where it was, and earlier, nothing is excluded.
//
// It is run in the order of starts. What a processor stores depends on the order of its own
// operations alone, and mini-batches pass each operation in their order. So where
// everybody is counts, and when processors and mini-batches are free, relative to the next deadline;
// and of two ways to the same places, one that is no earlier anywhere need not go on, nor one that another is ahead of (see
// outrun). Of steps that may be next only those are tried that can make a difference (see goOn). The proofs are in docs/proofs.md.
//
// Links carry as many tensors at a time as one likes.
type Race struct {
	Steps  []Step
	Room   []float64   // bytes by processor, for what mini-batches store
	Stored [][]float64 // behind so many steps, by processor, of one mini-batch
	Ways   int         // that have been tried
	Ended  func() bool // the caller wants no more: it is unfinished

	latest    []int32 // by step, see schedule
	lead      []int32 // by step: from the start of the first to its own, at least
	next      [][]int // behind so many steps, by processor: the next step there
	beyond    [][]int // behind so many steps: where it is ahead, see compare
	short     [][]int // the reverse
	elsewhere bool    // the first step takes memory on another processor, of first forwards that are delays
	memory    *Memory

	// Of the way that goes on: the options of each processor, by when it begins one if no other does before, and when any can begin.
	options [][]option
	until   []int32
	soonest int32
	// Scratch.
	left         []int
	child, other runner
}

const (
	// Grain is the number of units of a period; all times are rounded down to them.
	Grain = 16384
	// mostInside is how many mini-batches are followed: a race of more is not finished. There are places for 16, with which
	// races of ResNet-50 on four GPUs of 10 GiB took a third of the time and excluded nothing.
	mostInside = 12
	// mostBegun is how many steps that are begun on a processor end before another or behind it, each by itself.
	mostBegun = 3
	// endedEvery is how many ways go on before the caller is asked whether to end.
	endedEvery = 1 << 10
)

// A Step is what one processor does of a mini-batch: forwards, or backwards, of layers in a row.
// Between them it may do others, for which the step ends later. When is left open, so what it
// stores is the least from its first layer on, and what it needs is that of its first.
type Step struct {
	On          int
	Layers      int
	Time        int32   // it takes, in units
	First, Last int32   // of that, its first layer and its last
	Delay       int32   // units from its end to the next step at least
	Need        float64 // bytes, of this mini-batch, while the first layer runs
}

// An End is what a race ends with.
type End int

const (
	// Lost is where there is no pattern.
	Lost End = iota
	// GoesOn is where a way can go on for ever.
	GoesOn
	// Unfinished tells nothing.
	Unfinished
)

// Run tries at most so many ways, in that memory.
func (c *Race) Run(memory *Memory, most int) End {
	c.memory = memory
	if len(c.Steps) < 2 || len(c.Steps) > 255 {
		return Unfinished
	}
	if !c.schedule() {
		return Lost
	}
	c.lookAhead()
	c.compare()
	return c.search(most)
}

// lookAhead tabulates what steps lie ahead. O(steps·P).
func (c *Race) lookAhead() {
	n, P := len(c.Steps), len(c.Room)
	c.lead, c.next = make([]int32, n+1), make([][]int, n+1)
	for p, s := range c.Steps {
		c.lead[p+1] = c.lead[p] + s.Time + s.Delay
	}
	c.next[n] = slices.Repeat([]int{n}, P)
	for p := n - 1; p >= 0; p-- {
		c.next[p] = slices.Clone(c.next[p+1])
		c.next[p][c.Steps[p].On] = p
	}
	for r, held := range c.Stored[1] {
		c.elsewhere = c.elsewhere || held > 0 && r != c.Steps[0].On
	}
	c.options, c.until = make([][]option, P), make([]int32, P)
}

// schedule finds by when each step is to begin, after the deadline of its mini-batch: to be on time for the
// next step, and for the mini-batch that finds no room on a processor before it has begun. It reports false if there is no
// such time.
func (c *Race) schedule() bool {
	n := len(c.Steps)
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
			s, t := &c.Steps[p], c.latest[p]
			if t == math.MaxInt32 {
				continue
			}
			if p > 0 {
				lower(p-1, t-c.Steps[p-1].Time-c.Steps[p-1].Delay)
			}
			held, last := c.Stored[p+1][s.On], p+1
			for last < n-1 && c.Stored[last+1][s.On] >= held {
				last++
			}
			if count := 1 + pipeline.Count(c.Room[s.On]-s.Need, held); count >= 1 && count < mostInside && last < n {
				lower(last, t+int32(count)*Grain)
			}
		}
		if !changed {
			return true
		}
	}
	return false
}
