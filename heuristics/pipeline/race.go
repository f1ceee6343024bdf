package pipeline

import (
	"slices"

	"workbench/heuristics/pipeline/race"
	"workbench/model/plan"
)

// A racing allocation makes a race of layers: those that are light or not placed are
// delays, and so are first forwards that take next to no time: else mini-batches would pile up
// that hold little. Others are steps.
type racing struct {
	race.Race
	ways  *race.Memory
	unit  float64   // seconds
	exact []float64 // by step: seconds it takes
	wait  []float64 // seconds from its end to the next step at least
}

// raceDelay is the part of a period that first forwards may take and be delays.
const raceDelay = 0.05

// raceLink is the part of a period from which on a cut keeps its link so busy that F and B wait for each other there.
const raceLink = 0.4

// A half is what layers do, forward or back: the time they and the cuts behind them take, what they make, and what they need beside
// what is kept of them.
type half struct {
	time, cut, makes []float64
	besides          func(l int) float64
}

// halves are forwards and backwards.
func (a *allocations) halves() [2]half {
	in := a.in
	return [...]half{
		{in.UF, a.cutF, in.A, func(l int) float64 { return in.A[l] }},
		{in.UB, a.cutB, in.D, func(l int) float64 { return in.D[l] + in.D[l-1] }},
	}
}

// newRace is the race of layers 1..n of a team, of which layer n+1 is on another processor than layer n, unless the team is open. What all others
// have is a delay, as short as may be. Steps have at most so many layers. Those of one half take memory, and those of the
// other give it back. O(n·P).
func (a *allocations) newRace(n int, of team, wide int) *racing {
	in := a.in
	c := &racing{unit: a.period * (1 + safe) / race.Grain, ways: &a.ways}
	c.Ended = a.ended
	for range in.Procs {
		c.Room = append(c.Room, in.Memory)
	}
	for l := 1; l <= n; l++ {
		if r := a.owner[l]; of.has(r) {
			c.Room[r] -= in.Copies * in.W[l]
			if a.owner[l-1] != r {
				c.Room[r] -= a.buffer[l-1]
			}
			if l < in.N && (l == n && !of.open || l < n && a.owner[l+1] != r) {
				c.Room[r] -= a.buffer[l]
			}
		}
	}
	sender := c.senders(a, n, of)
	held := make([]float64, len(c.Room))
	c.Stored = append(c.Stored, slices.Clone(held))
	next := func(l, r int) bool { return l >= 1 && l <= n && a.owner[l] == r } // on the same processor
	enter, leave := a.halves()[of.time], a.halves()[1-of.time]
	began, last := 0.0, 1 // last: behind the last layer of these processors
	for l := 1; l <= n; l++ {
		r := a.owner[l]
		if !of.has(r) {
			c.delay(enter.time[l])
			continue
		}
		if last < l {
			c.delay(a.cuts.Between(last, l-1)[of.time])
			c.send(sender[l-1], enter.cut[l-1]*a.crosses(l-1), held)
		}
		last = l + 1
		held[r] += a.hold[l]
		if began += enter.time[l]; len(c.Steps) == 0 && began <= raceDelay*a.period && (next(l+1, r) || held[r] <= raceDelay*in.Memory) {
			continue
		}
		own, waits := 0.0, 0.0
		if in.Task {
			own = enter.besides(l)
			if next(l+1, r) {
				waits = enter.makes[l]
			}
		}
		// What a run holds in the end is a step of its own, since others count it for long.
		c.add(r, enter.time[l], held, own, waits, next(l-1, r) && next(l+1, r), wide)
		if l < n {
			c.send(sender[l], enter.cut[l]*a.crosses(l), held)
		}
	}
	if n < in.N {
		v := a.least[n+1]
		if !of.open {
			v = a.through(n, v)
		}
		c.delay(v)
	}
	last = n
	for l := n; l >= 1; l-- {
		r := a.owner[l]
		if !of.has(r) {
			c.delay(leave.time[l])
			continue
		}
		if last > l {
			c.delay(a.cuts.Between(l+1, last)[1-of.time])
			c.send(sender[l], leave.cut[l]*a.crosses(l), held)
		}
		last = l - 1
		own, waits := a.hold[l], 0.0
		if in.Task {
			own += leave.besides(l)
			if next(l-1, r) {
				waits = leave.makes[l-1]
			}
		}
		held[r] -= a.hold[l]
		c.add(r, leave.time[l], held, own, waits, next(l+1, r) && l > 1, wide)
		if l > 1 {
			c.send(sender[l-1], leave.cut[l-1]*a.crosses(l-1), held)
		}
	}
	return c
}

// senders gives each cut beside layers of the team that takes more than raceLink of a period, none of its communications next to nothing, a
// processor without memory, and returns it by the layer before: 0 is none. Two cuts on one link have one each, which is a relaxation. That of
// the last layer is a delay.
func (c *racing) senders(a *allocations, n int, of team) []int {
	sender := make([]int, n+1)
	for l := 1; l < n; l++ {
		if p, q := a.owner[l], a.owner[l+1]; p != q && (of.has(p) || of.has(q)) && a.cut(l) > raceLink*a.period && min(a.cutF[l], a.cutB[l]) > raceLink/4*a.period {
			sender[l] = len(c.Room)
			c.Room = append(c.Room, 0)
		}
	}
	return sender
}

// send adds a communication: a delay without a sender, or before the first step.
func (c *racing) send(sender int, t float64, held []float64) {
	if sender == 0 || len(c.Steps) == 0 {
		c.delay(t)
		return
	}
	c.add(sender, t, held, 0, 0, false, 1)
}

// crosses is 1 if layers l and l+1 are on two processors, else 0.
func (a *allocations) crosses(l int) float64 {
	if a.owner[l] == a.owner[l+1] {
		return 0
	}
	return 1
}

// delay adds time before the next step.
func (c *racing) delay(t float64) {
	if k := len(c.Steps) - 1; k >= 0 {
		c.wait[k] += max(0, t-2*plan.Tolerance*race.Grain*c.unit)
		c.Steps[k].Delay = int32(c.wait[k] / c.unit)
	}
}

// add appends a layer to the last step, or a new one. Beside what is held it needs own, and behind it something waits.
// Its time is less by what the verifier forgives.
func (c *racing) add(r int, time float64, held []float64, own, waits float64, join bool, wide int) {
	time = max(0, time-2*plan.Tolerance*race.Grain*c.unit)
	units := int32(time / c.unit)
	behind := slices.Clone(held)
	behind[r] += waits
	if k := len(c.Steps) - 1; join && k >= 0 && c.Steps[k].Layers < wide {
		s := &c.Steps[k]
		s.Layers++
		c.exact[k] += time
		s.Time, s.Last = int32(c.exact[k]/c.unit), units
		c.Stored[k+1][r] = min(c.Stored[k+1][r], behind[r])
		return
	}
	c.Steps = append(c.Steps, race.Step{On: r, Layers: 1, Time: units, First: units, Last: units, Need: held[r] + own})
	c.exact, c.wait = append(c.exact, time), append(c.wait, 0)
	c.Stored = append(c.Stored, behind)
}

// run tries at most so many ways.
func (c *racing) run(most int) race.End { return c.Run(c.ways, most) }

// raceWidths are the numbers of layers of a step that are tried one after the other: fewer tell more and
// take longer.
var raceWidths = [...]int{64, 6, 3, 1}

// raceMost is how many ways of a race are tried.
const raceMost = 1 << 21

// raceWays is how many ways cost as much as one unit of work.
const raceWays = 4

// A racer runs the race of some layers 1..n.
type racer func(n int, of team, wide, most int) told

// raceOf runs the race of layers 1..n of a team.
func (a *allocations) raceOf(n int, of team, wide, most int) told {
	c := a.newRace(n, of, wide)
	a.draw()
	end := c.run(int(min(int64(most), raceWays*max(0, min(a.budget, raceMost)))))
	if a.budget -= int64(c.Ways / raceWays); a.ended() {
		a.budget = -1
	}
	a.draw()
	return told{end, c.Ways, c.Standing()}
}
