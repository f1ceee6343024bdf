// Package reorder improves the order of the operations of a pattern of a pipeline, of one or several mini-batches a
// period, by simulated annealing.
package reorder

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"workbench/model/cycleratio"
	"workbench/model/plan"
	"workbench/model/problem/pipeline"
)

// Options of a run.
type Options struct {
	Moves int     // that are tried
	Heat  float64 // how much worse a period may become at first, relative to it
	Below float64 // seconds a mini-batch that a pattern has to be below
	Seed  uint64
}

// Run returns the best pattern below o.Below that it finds with the stages and the mini-batches a period of s, which
// fits; nil if it finds none.
//
// A pattern is the cyclic order of the operations on each resource and the mini-batches they are of: with starts s and durations u, s_w + q·T ≥ s_v + u_v
// where w follows v on its resource, q periods later, or is the next operation of its mini-batch, q = 0. The least T
// with that order is the largest ratio Σu/Σq of a cycle of these ([cycleratio]); memory is that of [004] (6.31) to (6.35) in the task model, 7.1.1 in that of stages. So it is a job shop that
// repeats itself, and the moves are those of van Laarhoven, Aarts and Lenstra ("Job shop scheduling by simulated annealing", Operations
// Research 1992): two operations that follow each other on a resource change places, mostly at the critical cycle, for no other move
// can shorten the period. What differs: a processor's memory depends on its order alone, and a move that does not fit is
// not made. Communications are operations of their links.
//
// Metropolis' rule, with a heat that falls to nothing in a straight line. Deterministic for a seed. O(operations) a move
// mostly: a few passes over the precedences.
func Run(in *pipeline.Instance, s *pipeline.Pattern, o Options) *pipeline.Pattern {
	c := newOrders(in, s)
	if !c.time(math.Inf(1)) {
		return nil
	}
	r := rand.New(rand.NewPCG(o.Seed, 0))
	below := o.Below * float64(c.k) * (1 - 1e-6)
	best := c.keep(nil, &below)
	for k := 0; k < o.Moves && c.period > c.load*(1+1e-9) && !in.Stop.Given(); k++ {
		on, place, ok := c.draw(r)
		if !ok {
			continue
		}
		c.swap(on, place)
		heat := o.Heat * (1 - float64(k)/float64(o.Moves))
		if !c.fits(on) || !c.time(c.period*(1-heat*math.Log(1-r.Float64()))) {
			c.swap(on, place)
			continue
		}
		best = c.keep(best, &below)
	}
	return best
}

// Repeated is a pattern as one of k times as many mini-batches a period.
func Repeated(s *pipeline.Pattern, k int) *pipeline.Pattern {
	x := *s
	x.Period, x.K, x.F, x.B = s.Period*float64(k), s.K*k, nil, nil
	for turn := range k {
		for v := range s.F {
			x.F = append(x.F, s.F[v]+float64(turn)*s.Period)
			x.B = append(x.B, s.B[v]+float64(turn)*s.Period)
		}
	}
	return &x
}

// orders are the cyclic orders of the operations of a pattern. Operation v < k·items is the forward of item v mod items of mini-batch
// v / items, the others are backwards, as in [pipeline.Pattern].
type orders struct {
	in     *pipeline.Instance
	stages []plan.Stage
	items  []pipeline.Item
	k      int

	on       []int   // by operation: its resource, numbered from 0
	order    [][]int // by resource: its operations
	place    []int   // by operation: where it is there, of some period: as many more for each period later as it has operations
	load     float64 // the least period there may be
	room     []float64
	needs    []need // by item
	here     [][]int
	graph    cycleratio.Graph
	period   float64
	times    []float64 // by operation
	passes   []int     // operations by time
	critical []int
}

// A need is what an item of layers stores and needs.
type need struct {
	kept              float64 // of a mini-batch, from its F to its B
	forward, backward float64 // beside what is stored before: while its F runs; while B does, less what is kept
	afterF, afterB    float64 // what waits for the next item, or the one before, on the same processor
	last              float64 // what waits for B behind its F: the loss
}

func newOrders(in *pipeline.Instance, s *pipeline.Pattern) *orders {
	c := &orders{in: in, stages: s.Stages, items: s.Items, k: s.K, period: s.Period}
	start := slices.Concat(s.F, s.B)
	c.on, c.place, c.times = make([]int, len(start)), make([]int, len(start)), start
	number, load := map[int]int{}, []float64{}
	rest, turn := make([]float64, len(start)), make([]int, len(start))
	for v, t := range start {
		x := c.item(v).Resource
		r, known := number[x]
		if !known {
			r = len(number)
			number[x], c.order, load = r, append(c.order, nil), append(load, 0)
		}
		c.on[v], c.order[r] = r, append(c.order[r], v)
		load[r] += c.length(v)
		periods := (t - start[0]) / s.Period
		whole := math.Floor(periods + pipeline.Instant)
		rest[v], turn[v] = periods-whole, int(whole)
	}
	c.load = slices.Max(load)
	for _, list := range c.order {
		slices.SortStableFunc(list, func(v, w int) int {
			if math.Abs(rest[v]-rest[w]) <= pipeline.Instant {
				return cmp.Compare(c.length(v), c.length(w))
			}
			return cmp.Compare(rest[v], rest[w])
		})
		for z, v := range list {
			c.place[v] = z + len(list)*turn[v]
		}
	}
	c.memory(number)
	c.sort()
	return c
}

func (c *orders) item(v int) *pipeline.Item { return &c.items[v%len(c.items)] }

func (c *orders) isForward(v int) bool { return v < len(c.items)*c.k }

func (c *orders) length(v int) float64 {
	if c.isForward(v) {
		return c.item(v).F
	}
	return c.item(v).B
}

// memory fills in what is known of memory.
func (c *orders) memory(number map[int]int) {
	in, n := c.in, len(c.items)
	c.needs, c.here, c.room = make([]need, n), make([][]int, len(c.order)), make([]float64, len(c.order))
	for r := range c.room {
		c.room[r] = math.Inf(1)
	}
	for i := range c.items {
		if x := &c.items[i]; !x.Cut {
			c.room[number[x.Resource]] = in.Memory
		}
	}
	for i := range c.items {
		x, y := &c.items[i], &c.needs[i]
		if x.Cut {
			for _, beside := range []int{i - 1, i + 1} {
				c.room[number[c.items[beside].Resource]] -= in.Buffer[x.From]
			}
			continue
		}
		r := number[x.Resource]
		c.here[r] = append(c.here[r], i)
		c.room[r] -= in.Weights[x.To] - in.Weights[x.From-1]
		for l := x.From; l <= x.To; l++ {
			y.kept += in.Kept[l]
			y.forward = max(y.forward, y.kept+in.A[l])
		}
		kept := 0.0
		for l := x.From; l <= x.To; l++ {
			kept += in.Kept[l]
			y.backward = max(y.backward, kept-y.kept+in.D[l]+in.D[l-1])
		}
		if i+1 < n && !c.items[i+1].Cut {
			y.afterF = in.A[x.To]
		}
		if i > 0 && !c.items[i-1].Cut {
			y.afterB = in.D[x.From-1]
		}
		if x.To == in.N {
			y.last = in.A[in.N]
		}
	}
}

// draw returns a resource and a place of it, whose operation is to change places with that behind it.
func (c *orders) draw(r *rand.Rand) (on, place int, ok bool) {
	if r.IntN(elsewhere) == 0 || len(c.critical) == 0 {
		on = r.IntN(len(c.order))
		place = r.IntN(len(c.order[on]))
	} else {
		v := c.critical[r.IntN(len(c.critical))]
		on = c.on[v]
		n := len(c.order[on])
		place = ((c.place[v]-r.IntN(2))%n + n) % n
	}
	n := len(c.order[on])
	v, w := c.order[on][place], c.order[on][(place+1)%n]
	// Mini-batches that pass an item in another order are others by name only.
	return on, place, v%len(c.items) != w%len(c.items) || c.isForward(v) != c.isForward(w)
}

// elsewhere is how rarely a move is not at the critical cycle.
const elsewhere = 8

// swap lets the operations at a place and behind it change places.
func (c *orders) swap(on, place int) {
	list := c.order[on]
	behind := (place + 1) % len(list)
	v, w := list[place], list[behind]
	list[place], list[behind] = w, v
	c.place[v]++
	c.place[w]--
}

// fits reports whether a processor has room for what is stored there; a link has. O(its operations).
func (c *orders) fits(on int) bool {
	here := c.here[on]
	if here == nil {
		return true
	}
	if !c.in.Task {
		return c.counted(on) <= c.room[on]
	}
	n, R := len(c.items), len(c.order[on])
	all := n * c.k
	now := 0.0
	for _, i := range here {
		x := &c.needs[i]
		for f := i; f < all; f += n {
			b := f + all
			now += x.kept * inside(c.place[f], c.place[b], R)
			now += x.last * inside(c.place[f], c.place[b]-1, R)
			if x.afterF > 0 {
				now += x.afterF * inside(c.place[f], c.place[f+1]-1, R)
			}
			if x.afterB > 0 {
				now += x.afterB * inside(c.place[b], c.place[b-1]-1, R)
			}
		}
	}
	for z, v := range c.order[on] {
		i := v % n
		x := &c.needs[i]
		// What has waited for this does so no more; at the first place it has not been counted.
		if c.isForward(v) {
			if z > 0 && i > 0 && c.place[v]-1 > c.place[v-1] {
				now -= c.waits(i-1, i).afterF
			}
			if now+x.forward > c.room[on] {
				return false
			}
			now += x.kept
			if x.last > 0 && c.place[v+all]-1 > c.place[v] {
				now += x.last
			}
			if x.afterF > 0 && c.place[v+1]-1 > c.place[v] {
				now += x.afterF
			}
			continue
		}
		if z > 0 {
			if i+1 < n && c.place[v]-1 > c.place[v+1] {
				now -= c.waits(i+1, i).afterB
			}
			if x.last > 0 && c.place[v]-1 > c.place[v-all] {
				now -= x.last
			}
		}
		if now+x.backward > c.room[on] {
			return false
		}
		now -= x.kept
		if x.afterB > 0 && c.place[v-1]-1 > c.place[v] {
			now += x.afterB
		}
	}
	return true
}

// waits is what is known of item i beside item j on the same processor.
func (c *orders) waits(i, j int) need {
	if c.items[i].Resource != c.items[j].Resource {
		return need{}
	}
	return c.needs[i]
}

// counted is what a processor stores in the stage model.
func (c *orders) counted(on int) (stored float64) {
	n, R := len(c.items), len(c.order[on])
	all := n * c.k
	for _, i := range c.here[on] {
		most := 0.0
		for m := i; m < all; m += n {
			count := 0.0
			for q := i; q < all; q += n {
				count += float64(pipeline.Between(c.place[q], c.place[q+all], c.place[m]+1, R))
			}
			most = max(most, count)
		}
		stored += most * c.needs[i].kept
	}
	return stored
}

// inside is how many of what is stored from behind a place to another, once every R places, are at place 0.
func inside(from, to, R int) float64 { return float64(pipeline.Between(from, to, 0, R)) }

// time finds the least period with these orders, and times of all operations. It reports false, and changes nothing, if that is above
// most.
func (c *orders) time(most float64) bool {
	n := len(c.items)
	all := n * c.k
	g := &c.graph
	g.Reset(2 * all)
	for f := range all {
		b, next := f+all, f+all
		if f%n < n-1 {
			next = f + 1
			g.Add(cycleratio.Precedence{From: b + 1, To: b, Wait: c.length(b + 1)})
		}
		g.Add(cycleratio.Precedence{From: f, To: next, Wait: c.length(f)})
	}
	for _, list := range c.order {
		for z, v := range list {
			w := list[(z+1)%len(list)]
			g.Add(cycleratio.Precedence{From: v, To: w, Wait: c.length(v), Turns: (c.place[v] + 1 - c.place[w]) / len(list)})
		}
	}
	for _, v := range c.passes {
		g.Order(v)
	}
	if !math.IsInf(most, 1) {
		if _, err := g.Least(most, most); err != nil {
			return false // as most are: without their period
		}
	}
	period, err := g.Least(c.load, most)
	if err != nil {
		return false
	}
	c.period = period
	copy(c.times, g.Times())
	c.critical = append(c.critical[:0], g.Critical()...)
	if period <= c.load {
		c.critical = c.critical[:0]
	}
	c.sort()
	return true
}

// sort puts the operations in the order of their times.
func (c *orders) sort() {
	if c.passes == nil {
		for v := range c.times {
			c.passes = append(c.passes, v)
		}
	}
	slices.SortStableFunc(c.passes, func(v, w int) int { return cmp.Compare(c.times[v], c.times[w]) })
}

// keep returns the pattern of these orders if it is below, and fits; else the best so far.
func (c *orders) keep(best *pipeline.Pattern, below *float64) *pipeline.Pattern {
	if c.period >= *below {
		return best
	}
	all := len(c.items) * c.k
	s := &pipeline.Pattern{Period: c.period, K: c.k, Stages: c.stages, Items: c.items, F: slices.Clone(c.times[:all]), B: slices.Clone(c.times[all:])}
	if !c.in.Fits(s.Peak(c.in)) {
		return best
	}
	*below = c.period * (1 - 1e-6)
	return s
}
