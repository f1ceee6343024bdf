package pipeline

import (
	"math"
	"sync/atomic"
)

// mostVain is how often more work tells no more before that is the end.
const mostVain = 3

// A climb raises what is known of patterns of every k.
type climb struct {
	in      *instance
	workers int
	ended   func() bool
	every   float64 // no pattern has a shorter period, seconds a mini-batch
	heavy   bool    // no layer is light

	left   float64 // the least period that has been left open, with the work of worked
	worked int64
	never  float64 // the least that is left open with any work

	news  chan news     // of a climb apart; closed when it is over
	upper atomic.Uint64 // bits of the least period that is known to be possible
	alone atomic.Bool   // nobody else goes on
}

// news are what has become known, and the allocations that were looked at for it.
type news struct {
	bound       float64
	allocations int64
}

func newClimb(in *instance, every float64, workers int, ended func() bool) *climb {
	return &climb{in: in, every: every, workers: workers, ended: ended, left: math.Inf(1), never: math.Inf(1)}
}

// leaveNothingOut counts all layers from now on, light ones as others, and what was left open is forgotten.
func (c *climb) leaveNothingOut() {
	c.heavy, c.left, c.worked, c.never = true, math.Inf(1), 0, math.Inf(1)
}

// raise looks for the largest period at which no allocation is left by what holds for every pattern, up to that
// relative width; upper is possible. Each probe may do so much work.
//
// The first work of all is for a bisection. More climbs in small steps from where less has ended, up to the first
// that needs more still: what a probe costs grows many times in a hundredth of the period. Where nobody
// waits for it, what no work would exclude is bisected, too.
func (c *climb) raise(budget int64, width, upper float64) (told news) {
	first := c.worked == 0
	open := min(upper, c.never)
	if budget <= c.worked {
		open = min(open, c.left)
	}
	c.worked = max(c.worked, budget)
	for open-c.every > width*open && !c.ended() {
		test := (c.every + open) / 2
		if !first {
			test = min(test, c.every+(upper-c.every)/climbs)
		}
		a := newAllocations(c.in, test, c.heavy, 0, c.ended)
		a.budget = budget
		a.runAbreast(c.workers)
		told.allocations += a.nodes
		if a.proved() {
			c.every = test * (1 - safe)
			continue
		}
		if open, c.left = test, test; !a.short {
			c.never = test
		}
		if !first && (a.short || !c.alone.Load()) {
			break
		}
	}
	told.bound = c.every
	return told
}

// catchUp raises what has been left behind, until mostVain times, each with four times the work of that before, have told no more.
func (c *climb) catchUp(upper func() float64, gap float64, tell func(news)) {
	c.alone.Store(true)
	for budget, vain := int64(firstBudget), 0; vain < mostVain && c.every < upper()*(1-max(gap, grain/2)) && !c.ended() && budget < math.MaxInt64/16; budget *= 4 {
		before := c.every
		tell(c.raise(budget, grain/16, upper()))
		if vain++; c.every > before {
			vain = 0
		}
	}
}

// known tells a climb apart what is possible.
func (c *climb) known(upper float64) { c.upper.Store(math.Float64bits(upper)) }

// goApart raises what is known while others go on, and says so on news. It begins as turns do, and ends as they do.
func (c *climb) goApart(gap float64) {
	c.news = make(chan news, 1<<10)
	upper := func() float64 { return math.Float64frombits(c.upper.Load()) }
	tell := func(told news) { c.news <- told }
	go func() {
		defer close(c.news)
		for budget, vain := int64(firstBudget/8), 0; !(vain >= mostVain && c.alone.Load()) && c.every < upper()*(1-grain) && !c.ended() && budget < math.MaxInt64/16; budget *= 4 {
			before := c.every
			tell(c.raise(budget, grain, upper()))
			if vain++; c.every > before {
				vain = 0
			}
			if !math.IsInf(c.never, 1) && !c.heavy {
				c.leaveNothingOut()
				budget = firstBudget / 32
			}
		}
		c.catchUp(upper, gap, tell)
	}()
}
