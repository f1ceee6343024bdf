package pipeline

import (
	"math"
	"sync/atomic"
)

// mostVain is how often more work tells no more before that is the end.
const mostVain = 3

// noLimit is work without end.
const noLimit = math.MaxInt64 / 16

// A climb raises what is known of patterns of every k.
type climb struct {
	in      *instance
	threads int
	ended   func() bool
	every   float64 // no pattern has a shorter period, seconds a mini-batch
	heavy   bool    // no layer is light
	waited  bool    // somebody waits for it

	left   float64 // the least period that has been left open, with the work of worked
	worked int64
	never  float64 // the least that is left open with any work

	news  chan news     // of a climb apart; closed when it is over
	upper atomic.Uint64 // bits of the least period that is known to be possible
	alone chan struct{} // closed when nobody else goes on, so that all threads are its own; nil: they are
}

// news are what has become known, and the allocations that were looked at for it.
type news struct {
	bound       float64
	allocations int64
}

func newClimb(in *instance, every float64, threads int, ended func() bool) *climb {
	return &climb{in: in, every: every, threads: threads, ended: ended, left: math.Inf(1), never: math.Inf(1)}
}

// leaveNothingOut counts all layers from now on, light ones as others, and what was left open is forgotten.
func (c *climb) leaveNothingOut() {
	c.heavy, c.left, c.worked, c.never = true, math.Inf(1), 0, math.Inf(1)
}

// raise looks for the largest period at which no allocation is left by what holds for every pattern, up to that
// relative width, and tells what it finds; upper is possible. Each probe may do so much work.
//
// The first work of all is for a bisection. More climbs in small steps from where less has ended, up to the first
// that needs more still: what a probe costs grows many times in a hundredth of the period. Where nobody
// waits for it, what no work would exclude is bisected, too.
func (c *climb) raise(budget int64, width float64, upper func() float64, tell func(news)) {
	first := c.worked == 0
	if budget > c.worked {
		c.left, c.worked = math.Inf(1), budget
	}
	for {
		most := upper()
		open := min(most, c.never, c.left)
		if open-c.every <= width*open || c.ended() {
			return
		}
		test := (c.every + open) / 2
		if !first {
			test = min(test, c.every+max((most-c.every)/climbs, grain*most))
		}
		a := newAllocations(c.in, test, c.heavy, 0, c.ended)
		a.budget = budget
		a.runAbreast(c.threads, c.alone)
		if a.proved() {
			c.every = test * (1 - safe)
		} else if c.left = test; !a.short {
			c.never = test
		}
		tell(news{c.every, a.nodes})
		if !first && !a.proved() && (a.short || c.waited) {
			return
		}
	}
}

// catchUp raises what has been left behind, until mostVain times, each with four times the work of that before, have told no more.
func (c *climb) catchUp(upper func() float64, gap float64, tell func(news)) {
	c.waited = false
	for budget, vain := int64(firstBudget), 0; vain < mostVain && c.every < upper()*(1-max(gap, grain/16)) && !c.ended() && budget < noLimit; budget *= 4 {
		before := c.every
		c.raise(budget, grain/16, upper, tell)
		if vain++; c.every > before {
			vain = 0
		}
	}
}

// known tells a climb apart what is possible.
func (c *climb) known(upper float64) { c.upper.Store(math.Float64bits(upper)) }

// goApart raises what is known while others go on, on one thread, and says so on news. Nobody waits for it, so that after the bisections
// each probe has all the work it needs.
func (c *climb) goApart(gap float64) {
	c.news, c.alone = make(chan news, 1<<10), make(chan struct{})
	upper := func() float64 { return math.Float64frombits(c.upper.Load()) }
	tell := func(told news) { c.news <- told }
	go func() {
		defer close(c.news)
		for {
			c.raise(firstBudget/8, grain, upper, tell)
			c.raise(noLimit, grain, upper, tell)
			if c.heavy || math.IsInf(c.never, 1) {
				break
			}
			c.leaveNothingOut()
		}
		c.raise(noLimit, max(gap, grain/16), upper, tell)
	}()
}
