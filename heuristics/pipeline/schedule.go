package pipeline

import (
	"math"
	"slices"

	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	view "workbench/model/problem/pipeline"
)

// Schedule is our own method, in place of the ILP of [004] 7.2. It returns a 1-periodic pattern of
// an allocation, contiguous or not: the best that a list scheduler finds for stages without
// interruption, and for up to 16 layers also for single layers. It may miss existing patterns. Up
// to 14 periods, each tried up to eight times: see scheduler.
func Schedule(c *chain.Chain, p platform.Platform, allocation []plan.Stage, o Options) (*plan.Plan, error) {
	in, err := newInstance(c, p, o)
	if err != nil {
		return nil, err
	}
	if err := in.checkAllocation(allocation); err != nil {
		return nil, err
	}
	s := in.schedule(allocation, math.Inf(1))
	if s == nil {
		return nil, in.noPlan("schedule", "by list scheduling of this allocation")
	}
	return s.Plan(in.Instance, "schedule"), nil
}

// fineLayers is the maximum number of layers that are scheduled one by one.
const fineLayers = 16

// schedule returns the best pattern found of a period below the given one, or
// nil. An allocation whose load reaches that period costs nothing.
func (in *instance) schedule(stages []plan.Stage, below float64) *view.Pattern {
	best := in.search(stages, below)
	if best != nil {
		below = best.Rate()
	}
	if in.N <= fineLayers && len(stages) < in.N {
		if s := in.search(view.SplitLayers(stages), below); s != nil {
			best = s
		}
	}
	return best
}

// search halves the range of periods between the largest load of a resource and
// the shortest period known. The scheduler is not monotone, so this finds a good
// period, not the best.
func (in *instance) search(stages []plan.Stage, below float64) *view.Pattern {
	c := newScheduler(in, stages)
	low := slices.Max(c.loads())
	if low >= below*(1-view.Rounding) {
		return nil
	}
	best := c.patternAt(low)
	if best != nil {
		return best
	}
	high := 0.0
	for i := range c.items {
		high += c.items[i].Time() + c.items[i].Reduce
	}
	if high > below && in.N > fineLayers {
		high = below * (1 - 1e-4) // not worth a search without a pattern here
	}
	if high < below {
		if best = c.patternAt(high); best == nil {
			return nil
		}
		below = best.Rate()
	}
	high = below * (1 - 1e-9)
	for range 12 {
		test := low + (high-low)/2
		if high-low <= 1e-4*high {
			break
		}
		if s := c.patternAt(test); s != nil {
			best, high = s, min(test, s.Rate())
		} else {
			low = test
		}
	}
	return best
}

// scheduler places the operations of an allocation on circles of one period, one for each resource,
// from the end of the chain outwards: each forward as late as possible before the next item's, each
// backward as early as possible after it. That keeps mini-batches in flight briefly; if every item
// has its own resource, it yields the groups of 1F1B*. An operation may also skip the first free
// position, a few times in a schedule (limited discrepancy search). If that leaves gaps too short
// for anything, operations are placed only next to others of their resource: with enough memory
// that succeeds at every period not below the loads.
//
// All mini-batches have the same times, each a period after the previous one: the circle of a
// replica, or of a link to one, has as many periods as mini-batches alternate there.
type scheduler struct {
	in     *instance
	stages []plan.Stage
	items  []view.Item
	period float64
	// resource numbers the resources of the items; busy[r] is what is on one, on which turns[r]
	// mini-batches alternate.
	resource []int
	busy     [][]span
	turns    []float64
	f, b     []float64
	// room[p] is the memory of processor p beyond one mini-batch in flight of each of its stages.
	room, left []float64
	places     []float64 // scratch: candidates, a stack
	compact    bool      // operations are placed next to others only
	budget     int       // operations that may still be placed
	found      *view.Pattern
}

// A span is an operation on a circle.
type span struct{ start, length float64 }

func newScheduler(in *instance, stages []plan.Stage) *scheduler {
	c := &scheduler{in: in, stages: stages, items: in.Items(stages)}
	// Resources are numbered from 0 here, in order of appearance.
	number := map[int]int{}
	c.resource = make([]int, len(c.items))
	for i := range c.items {
		r := c.items[i].Resource
		if _, ok := number[r]; !ok {
			number[r] = len(number)
		}
		c.resource[i] = number[r]
	}
	c.busy, c.turns = make([][]span, len(number)), make([]float64, len(number))
	for i, r := range c.resource {
		c.turns[r] = float64(view.Meeting(c.items, i))
	}
	c.f, c.b = make([]float64, len(c.items)), make([]float64, len(c.items))
	c.room, c.left = make([]float64, in.Platform.Processors), make([]float64, in.Platform.Processors)
	most := make([]float64, in.Platform.Processors)
	for p := range c.room {
		c.room[p] = in.Memory
	}
	for k, s := range stages {
		p := s.Processor
		c.room[p] -= in.Weights[s.To] - in.Weights[s.From-1]
		if k > 0 && stages[k-1].Processor != p {
			c.room[p] -= in.Buffer[s.From-1]
		}
		if k < len(stages)-1 && stages[k+1].Processor != p {
			c.room[p] -= in.Buffer[s.To]
		}
		if in.Task {
			most[p] = max(most[p], in.Peak(s.From, s.To))
		} else {
			c.room[p] -= in.Inputs(s.From, s.To)
		}
	}
	for p := range c.room {
		c.room[p] -= most[p]
	}
	return c
}

// loads returns the loads of the resources, seconds a period.
func (c *scheduler) loads() []float64 {
	loads := make([]float64, len(c.busy))
	for i := range c.items {
		x := &c.items[i]
		loads[c.resource[i]] += (x.Time() + x.Reduce) / c.turns[c.resource[i]]
	}
	return loads
}

// patternAt returns a pattern that fits, of the shortest period with the order that was
// found at the given one, or nil.
func (c *scheduler) patternAt(period float64) *view.Pattern {
	for _, room := range c.room {
		if room < 0 {
			return nil
		}
	}
	c.period, c.found = period, nil
	for _, c.compact = range []bool{false, true} {
		c.budget = 100 * len(c.items)
		for skips := 0; skips <= 3 && c.found == nil && c.budget > 0; skips++ {
			for r := range c.busy {
				c.busy[r] = c.busy[r][:0]
			}
			copy(c.left, c.room)
			c.places = c.places[:0]
			c.item(len(c.items)-1, 0, 0, skips)
		}
	}
	return c.found
}

// item places item i, its forward to end at the given time or before, its
// backward to start when ready or later, and then the items before it. The
// operation placed first gets the better place: the forward, or at the price of
// a skip the backward.
func (c *scheduler) item(i int, end, ready float64, skips int) {
	c.forward(i, end, ready, skips, false)
	if skips > 0 {
		c.backward(i, end, ready, skips-1, false)
	}
}

// forward places F of item i; second says that B has its place.
func (c *scheduler) forward(i int, end, ready float64, skips int, second bool) {
	x, r := &c.items[i], c.resource[i]
	spans, circle := c.busy[r], c.circle(r)
	from := len(c.places)
	if !c.compact || len(spans) == 0 {
		c.places = append(c.places, -end)
	}
	for _, s := range spans {
		turn := math.Floor((end-s.start)/circle + view.Rounding)
		c.places = append(c.places, -(s.start + turn*circle))
	}
	c.each(from, skips, func(place float64, skips int) bool {
		t := -place - x.F
		if !c.free(r, t, x.F) {
			return false
		}
		c.f[i] = t
		c.busy[r] = append(spans, span{t, x.F})
		if second {
			c.next(i, skips)
		} else {
			c.backward(i, end, ready, skips, true)
		}
		c.busy[r] = spans
		return true
	})
}

// backward places B of item i; second says that F has its place.
func (c *scheduler) backward(i int, end, ready float64, skips int, second bool) {
	x, r := &c.items[i], c.resource[i]
	spans, circle := c.busy[r], c.circle(r)
	from := len(c.places)
	if !c.compact || len(spans) == 0 {
		c.places = append(c.places, ready)
	}
	for _, s := range spans {
		e := s.start + s.length
		turn := math.Ceil((ready-e)/circle - view.Rounding)
		c.places = append(c.places, e+turn*circle)
	}
	c.each(from, skips, func(t float64, skips int) bool {
		if !c.free(r, t, x.B+x.Reduce) {
			return false
		}
		c.b[i] = t
		c.busy[r] = append(spans, span{t, x.B + x.Reduce})
		if second {
			c.next(i, skips)
		} else {
			c.forward(i, end, ready, skips, true)
		}
		c.busy[r] = spans
		return true
	})
}

// next goes on to the item before item i, if what is in flight of i fits.
func (c *scheduler) next(i, skips int) {
	x := &c.items[i]
	extra := 0.0
	if !x.Cut {
		extra = math.Floor((c.b[i]-c.f[i]-x.F)/c.circle(c.resource[i])+view.Rounding) * c.in.Inputs(x.From, x.To)
		if extra > c.left[x.Resource] {
			return
		}
		c.left[x.Resource] -= extra
	}
	if i == 0 {
		c.leaf()
	} else {
		c.item(i-1, c.f[i], c.b[i]+x.B, skips)
	}
	if !x.Cut {
		c.left[x.Resource] += extra
	}
}

// each tries the candidates c.places[from:] in ascending order until a pattern
// is found or the budget is spent. try reports whether the place was free; the
// q-th place that is free costs q-1 skips.
func (c *scheduler) each(from, skips int, try func(place float64, skips int) bool) {
	list := c.places[from:]
	slices.Sort(list)
	used := 0
	for k := 0; k < len(list) && used <= skips && c.found == nil && c.budget > 0; k++ {
		if k > 0 && list[k] <= list[k-1]+c.period*view.Rounding {
			continue
		}
		if try(list[k], skips-used) {
			used++
			c.budget--
		}
	}
	c.places = c.places[:from]
}

// circle returns the time in which a resource serves one of each mini-batch that alternate there.
func (c *scheduler) circle(r int) float64 { return c.turns[r] * c.period }

// free reports whether an operation may start at t with those of resource r.
func (c *scheduler) free(r int, t, length float64) bool {
	circle := c.circle(r)
	eps := c.period * view.Rounding
	for _, s := range c.busy[r] {
		d := t - s.start
		d -= circle * math.Floor(d/circle)
		if d < s.length-eps || d+length > circle+eps {
			return false
		}
	}
	return length <= circle+eps
}

// leaf keeps the pattern if it fits.
func (c *scheduler) leaf() {
	s := view.Alike(c.stages, c.items, c.f, c.b, c.period, view.FewTurns)
	if s != nil && (s.K > 1 || s.Retime()) && c.in.Fits(s.Peak(c.in.Instance)) {
		c.found = s
	}
}
