package pipeline

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"workbench/model/cycleratio"
	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	view "workbench/model/problem/pipeline"
)

const (
	// mostPerPeriod is the maximum number of mini-batches a period that is annealed.
	mostPerPeriod = 4
	// annealWork is the work of annealing each number of them: moves times operations, a fifth of a microsecond each. Anneal
	// has more.
	annealWork = 1 << 18
	// neighbourWork is that of a neighbouring allocation, if it has a 1-periodic pattern that takes at most neighbourGap longer.
	neighbourWork, neighbourGap = 1 << 17, 0.08
	// leastMoves are needed to gain anything.
	leastMoves = 1 << 10
	// firstTemperature is the initial temperature, relative to the period.
	firstTemperature = 0.02
)

// Anneal is a method of our own: from a plan that fits it looks for a shorter pattern of several mini-batches a period by
// simulated annealing of the order of operations, and then in neighbouring allocations, as long as that gains. It returns nil
// if it finds none. The minimum period of one mini-batch is often known where one of three is 3 % shorter: the wait between
// F and B has to avoid what runs meanwhile on each processor, and modulo T it has little choice. 1 to 3 s for the networks of
// [004], and up to half a minute for the allocations.
func Anneal(c *chain.Chain, pl platform.Platform, p *plan.Plan, o Options) (*plan.Plan, error) {
	in, err := newInstance(c, pl, o)
	if err != nil {
		return nil, err
	}
	start := in.Pattern(p)
	best := in.annealed(start, 16*annealWork)
	if best == nil {
		best = start
	}
	for near := in.annealNeighbours(best); near != nil; near = in.annealNeighbours(best) {
		best = near
		if x := in.annealed(best, 4*annealWork); x != nil {
			best = x
		}
	}
	if best == start {
		return nil, nil
	}
	return best.Plan(in.Instance, "search"), nil
}

// annealNeighbours returns a better pattern than s of a neighbouring allocation, nil if it finds none.
func (in *instance) annealNeighbours(s *view.Pattern) *view.Pattern {
	for _, stages := range neighbours(view.Merged(s.Stages), in.Procs) {
		if in.stopped() {
			return nil
		}
		x := in.search(stages, s.Rate()*(1+neighbourGap))
		if x == nil {
			continue
		}
		for k := 1; k <= mostPerPeriod; k++ {
			if y := in.annealFrom(x, k, neighbourWork, s.Rate()); y != nil {
				return y
			}
		}
	}
	return nil
}

// annealed returns a better pattern than s, of up to mostPerPeriod mini-batches a period or those of s, nil if it finds none:
// first of stages as they are, then of single layers, from s and from what was found.
func (in *instance) annealed(s *view.Pattern, work int) (best *view.Pattern) {
	below := s.Rate()
	try := func(x *view.Pattern, k int) {
		if y := in.annealFrom(x, k, work, below); y != nil {
			best, below = y, y.Rate()
		}
	}
	start := s
	for range 2 {
		for k := 1; k == 1 || k*s.K <= mostPerPeriod; k++ {
			try(start, k)
		}
		if best != nil {
			try(best.SplitLayers(in.Instance), 1)
		}
		start = s.SplitLayers(in.Instance)
	}
	return best
}

// annealFrom returns a pattern below a time a mini-batch that it finds from k times s, nil if it finds none or the work does not
// suffice.
func (in *instance) annealFrom(s *view.Pattern, k, work int, below float64) *view.Pattern {
	n := work / (2 * len(s.Items) * s.K * k)
	if n < leastMoves || in.stopped() {
		return nil
	}
	return anneal(in.Instance, repeated(s, k), annealing{moves: n, temperature: firstTemperature, below: below, seed: uint64(k)})
}

// annealing are the parameters of anneal.
type annealing struct {
	moves       int     // that are tried
	temperature float64 // how much longer a period may become at first, relative to it
	below       float64 // seconds a mini-batch that a pattern has to be below
	seed        uint64
}

// anneal returns the best pattern below p.below that it finds with the stages and the mini-batches a period of s, which fits;
// nil if it finds none. It is simulated annealing of a cyclic job shop, deterministic for a seed; a move mostly costs
// O(operations), a few passes over the precedences.
//
// A pattern is the cyclic order of the operations on each resource and the mini-batches they are of: with starts s and
// durations u, s_w + q·T ≥ s_v + u_v where w follows v on its resource, q periods later, or is the next operation of its
// mini-batch, q = 0. The minimum T with that order is the maximum cycle ratio Σu/Σq ([cycleratio]); memory is that of [004]
// (6.31) to (6.35) in the task model, 7.1.1 in that of stages. The moves are those of van Laarhoven, Aarts and Lenstra
// ("Job shop scheduling by simulated annealing", Operations Research 1992): two operations that follow each other on a
// resource are swapped, mostly on the critical cycle, for no other move can shorten the period. What differs: a processor's
// memory depends on its order alone, and a move that does not fit is not made. Communications are operations of their
// links. Acceptance is Metropolis' rule, with a temperature that falls linearly to 0.
func anneal(in *view.Instance, s *view.Pattern, p annealing) *view.Pattern {
	c := newOrders(in, s)
	if !c.retime(math.Inf(1)) {
		return nil
	}
	r := rand.New(rand.NewPCG(p.seed, 0))
	below := p.below * float64(c.k) * (1 - 1e-6)
	best := c.updateBest(nil, &below)
	for k := 0; k < p.moves && c.period > c.load*(1+1e-9) && !in.Stop.Given(); k++ {
		on, place, ok := c.drawMove(r)
		if !ok {
			continue
		}
		c.swap(on, place)
		temperature := p.temperature * (1 - float64(k)/float64(p.moves))
		if !c.fits(on) || !c.retime(c.period*(1-temperature*math.Log(1-r.Float64()))) {
			c.swap(on, place)
			continue
		}
		best = c.updateBest(best, &below)
	}
	return best
}

// repeated returns a pattern as one of k times as many mini-batches a period.
func repeated(s *view.Pattern, k int) *view.Pattern {
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
// v / items, the others are backwards, as in [view.Pattern].
type orders struct {
	in     *view.Instance
	stages []plan.Stage
	items  []view.Item
	k      int

	on       []int   // by operation: its resource, numbered from 0
	order    [][]int // by resource: its operations
	place    []int   // by operation: where it is there, of some period: as many more for each period later as it has operations
	load     float64 // the shortest period there may be
	room     []float64
	demands  []demand // by item
	itemsOn  [][]int
	graph    cycleratio.Graph
	period   float64
	times    []float64 // by operation
	byTime   []int     // operations by time
	critical []int
}

// demand is the memory of an item of layers, in memory units.
type demand struct {
	kept              float64 // of a mini-batch, from its F to its B
	forward, backward float64 // in addition to what is stored before: while its F runs; while B does, less what is kept
	afterF, afterB    float64 // what waits for the next item, or the one before, on the same processor
	last              float64 // held between F and B of the last item: the loss
}

func newOrders(in *view.Instance, s *view.Pattern) *orders {
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
		whole := math.Floor(periods + view.Instant)
		rest[v], turn[v] = periods-whole, int(whole)
	}
	c.load = slices.Max(load)
	for _, list := range c.order {
		slices.SortStableFunc(list, func(v, w int) int {
			if math.Abs(rest[v]-rest[w]) <= view.Instant {
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

func (c *orders) item(v int) *view.Item { return &c.items[v%len(c.items)] }

func (c *orders) isForward(v int) bool { return v < len(c.items)*c.k }

func (c *orders) length(v int) float64 {
	if c.isForward(v) {
		return c.item(v).F
	}
	return c.item(v).B
}

// memory fills in the demands and the room of processors.
func (c *orders) memory(number map[int]int) {
	in, n := c.in, len(c.items)
	c.demands, c.itemsOn, c.room = make([]demand, n), make([][]int, len(c.order)), make([]float64, len(c.order))
	for r := range c.room {
		c.room[r] = math.Inf(1)
	}
	for i := range c.items {
		if x := &c.items[i]; !x.Cut {
			c.room[number[x.Resource]] = in.Memory
		}
	}
	for i := range c.items {
		x, y := &c.items[i], &c.demands[i]
		if x.Cut {
			for _, beside := range []int{i - 1, i + 1} {
				c.room[number[c.items[beside].Resource]] -= in.Buffer[x.From]
			}
			continue
		}
		r := number[x.Resource]
		c.itemsOn[r] = append(c.itemsOn[r], i)
		c.room[r] -= in.Weights[x.To] - in.Weights[x.From-1]
		for l := x.From; l <= x.To; l++ {
			y.kept += in.Kept[l]
			y.forward = max(y.forward, y.kept+in.OwnF[l])
		}
		kept := 0.0
		for l := x.From; l <= x.To; l++ {
			kept += in.Kept[l]
			y.backward = max(y.backward, kept-y.kept+in.OwnB[l])
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

// drawMove returns a resource and a position on it whose operation is to be swapped with the next
// one.
func (c *orders) drawMove(r *rand.Rand) (on, place int, ok bool) {
	if r.IntN(offCritical) == 0 || len(c.critical) == 0 {
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

// One move in offCritical is not on the critical cycle.
const offCritical = 8

// swap swaps the operations at a position and the next one.
func (c *orders) swap(on, place int) {
	list := c.order[on]
	behind := (place + 1) % len(list)
	v, w := list[place], list[behind]
	list[place], list[behind] = w, v
	c.place[v]++
	c.place[w]--
}

// fits reports whether a processor has room for what is stored there; a link always has. O(its operations).
func (c *orders) fits(on int) bool {
	here := c.itemsOn[on]
	if here == nil {
		return true
	}
	if !c.in.Task {
		return c.stagePeak(on) <= c.room[on]
	}
	n, R := len(c.items), len(c.order[on])
	all := n * c.k
	now := 0.0
	for _, i := range here {
		x := &c.demands[i]
		for f := i; f < all; f += n {
			b := f + all
			now += x.kept * atStart(c.place[f], c.place[b], R)
			now += x.last * atStart(c.place[f], c.place[b]-1, R)
			if x.afterF > 0 {
				now += x.afterF * atStart(c.place[f], c.place[f+1]-1, R)
			}
			if x.afterB > 0 {
				now += x.afterB * atStart(c.place[b], c.place[b-1]-1, R)
			}
		}
	}
	for z, v := range c.order[on] {
		i := v % n
		x := &c.demands[i]
		// What has waited for this operation does so no longer; at the first place it has not been counted.
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

// waits returns the demand of item i if item j is on the same processor.
func (c *orders) waits(i, j int) demand {
	if c.items[i].Resource != c.items[j].Resource {
		return demand{}
	}
	return c.demands[i]
}

// stagePeak returns the bytes that a processor stores in the stage model.
func (c *orders) stagePeak(on int) (stored float64) {
	n, R := len(c.items), len(c.order[on])
	all := n * c.k
	for _, i := range c.itemsOn[on] {
		most := 0.0
		for m := i; m < all; m += n {
			count := 0.0
			for q := i; q < all; q += n {
				count += float64(view.Between(c.place[q], c.place[q+all], c.place[m]+1, R))
			}
			most = max(most, count)
		}
		stored += most * c.demands[i].kept
	}
	return stored
}

// atStart returns how many of the values that are stored between two positions, once every R
// positions, are stored at position 0.
func atStart(from, to, R int) float64 { return float64(view.Between(from, to, 0, R)) }

// retime finds the minimum period with these orders, and times of all operations. It reports false, and changes nothing, if
// that is above most.
func (c *orders) retime(most float64) bool {
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
	for _, v := range c.byTime {
		g.Order(v)
	}
	if !math.IsInf(most, 1) {
		if _, err := g.Least(most, most); err != nil {
			return false // most moves end here, without their period
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

// sort sorts the operations by time.
func (c *orders) sort() {
	if c.byTime == nil {
		for v := range c.times {
			c.byTime = append(c.byTime, v)
		}
	}
	slices.SortStableFunc(c.byTime, func(v, w int) int { return cmp.Compare(c.times[v], c.times[w]) })
}

// updateBest returns the pattern of these orders if it is below the bound and fits; else the best so far.
func (c *orders) updateBest(best *view.Pattern, below *float64) *view.Pattern {
	if c.period >= *below {
		return best
	}
	all := len(c.items) * c.k
	s := &view.Pattern{
		Period: c.period, K: c.k, Stages: c.stages, Items: c.items, F: slices.Clone(c.times[:all]),
		B: slices.Clone(c.times[all:]),
	}
	if !c.in.Fits(s.Peak(c.in)) {
		return best
	}
	*below = c.period * (1 - 1e-6)
	return s
}
