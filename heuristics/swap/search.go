package swap

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"workbench/model/instance/functions"
	"workbench/model/plan"
	"workbench/model/platform"
)

// Search is our own method. It uses durations where [003] assumes time proportional to bytes. It
// takes the best plan of the other methods and of Belady's rule with several weights, starts its
// transfers as early as possible, and improves it by simulated annealing, then the plans of
// Belady's rule. A move adds an eviction, removes one, or moves a transfer in the list of the
// machine.
//
// It stops when a lower bound is attained, after its budget of moves, or when ctx ends, and returns
// the best plan seen. That is never worse than the other methods of this package, unless ctx ends
// it before it has run them. It finds a plan whenever one exists, and is deterministic for a seed.
//
// It runs the machine some hundred times, then as often as processes some million events, at least
// a minimum number: half a second to two seconds.
func Search(ctx context.Context, s *functions.Sequence, p platform.Platform, seed uint64) (*plan.Plan, error) {
	in, err := newInstance(s, p)
	if err != nil {
		return nil, err
	}
	x := &searcher{
		ctx: ctx, in: in, rng: rand.New(rand.NewPCG(seed, 0x5eed)), floor: in.BestBound(),
		m: newMachine(in), o: newOrders(in), T: math.Inf(1),
	}
	x.methods()
	x.rules()
	x.anneal()
	x.m.run(x.list)
	return x.m.plan("search"), nil
}

// searcher is the state of Search.
type searcher struct {
	ctx   context.Context
	in    *instance
	rng   *rand.Rand
	floor float64 // a lower bound
	m     *machine
	o     *orders
	list  []int // of the best plan, in order of starts
	T     float64
}

func (x *searcher) done() bool { return met(x.T, x.floor) || x.ctx.Err() != nil }

// updateIncumbent takes the list that the machine has just run, if it is faster.
func (x *searcher) updateIncumbent(list []int, T float64) {
	if !(T < x.T) {
		return
	}
	x.T, x.list = T, append(x.list[:0], list...)
	for { // in the order of starts nothing is later, but for rounding, and something may be earlier
		sorted := x.m.eventsOf()
		T = x.m.run(sorted)
		if !(T < x.T) {
			return
		}
		x.T, x.list = T, sorted
	}
}

// methods takes the plans of the other methods, until one meets the bound. Naive
// always makes one.
func (x *searcher) methods() {
	b := newBest(x.ctx, x.in)
	b.floor = x.floor
	take := func() {
		if b.list != nil {
			b.m.run(b.list)
			list := b.m.eventsOf()
			x.updateIncumbent(list, x.m.run(list))
		}
	}
	b.try(x.in.naive(nil), "naive")
	take()
	if x.in.vdnn(x.o) {
		b.try(x.o.list(nil), "vdnn-swap")
	}
	newWindows(b).search()
	take()
	if !x.done() {
		x.in.lmsTuned(b, x.o)
		x.in.lmsGrid(b, x.o)
		take()
	}
}

// weights of Belady's rule, see belady.
type weights struct{ since, cost float64 }

// beladys are the weights of Belady's rule that are tried.
var beladys = [...]weights{{0, 0}, {0, 1}, {0, 3}, {0.3, 0}, {0.3, 1}, {0.3, 3}, {1, 0}, {1, 1}, {1, 3}}

// rules takes the plans of Belady's rule.
func (x *searcher) rules() {
	var list []int
	for _, w := range beladys {
		if !x.done() {
			list = x.in.belady(x.o, w, list[:0])
			x.updateIncumbent(list, x.m.run(list))
		}
	}
}

// belady appends a list to list in which variables are evicted when memory is insufficient for a
// function: among those that the function does not use, the one with the maximum
//
//	(time until its next use) + since · (time since its last use) − cost · (time of its transfers),
//
// in computations. It is evicted right after its last use. What a function needs is fetched right
// before it in the list, which the machine starts as early as memory allows. O(evictions ·
// variables on the GPU).
func (in *instance) belady(o *orders, w weights, list []int) []int {
	clock := make([]float64, in.N+1) // starts of functions without idle time
	for i, u := range in.Times {
		clock[i+1] = clock[i] + u
	}
	b := &residents{
		in: in, slot: make([]int, len(in.Size)), next: make([]int, len(in.Size)), host: make([]bool, len(in.Size)),
		last: make([]int, len(in.Size)),
	}
	for v, where := range in.Initial {
		b.next[v], b.last[v] = in.First[v], -1
		b.host[v] = where == functions.Host
		if where == functions.Device && in.Size[v] > 0 {
			b.add(v)
		}
	}
	mine := slices.Repeat([]int{-1}, len(in.Size))
	for i := range in.N {
		need := 0.0
		for _, v := range in.Use[in.At[i]:in.At[i+1]] {
			mine[v] = i
			if b.slot[v] == 0 {
				need += in.Size[v]
			}
		}
		for b.bytes+need > in.Memory {
			best, worth := -1, math.Inf(-1)
			for _, v := range b.on {
				if mine[v] == i {
					continue
				}
				cost := in.Move[v]
				if !b.host[v] {
					cost *= 2
				}
				since := clock[i] - clock[b.last[v]+1]
				if score := clock[b.next[v]] - clock[i] + w.since*since - w.cost*cost; score > worth {
					best, worth = v, score
				}
			}
			if best < 0 {
				break
			}
			b.remove(best)
			b.host[best] = true
			o.addEviction(best, b.last[best]+1)
		}
		for k := in.At[i]; k < in.At[i+1]; k++ {
			v := in.Use[k]
			if b.slot[v] == 0 {
				b.add(v)
			}
			if in.Writes[k] {
				b.host[v] = false
			}
			b.next[v], b.last[v] = in.Next[k], i
			if in.Next[k] == in.N {
				b.remove(v)
			}
		}
	}
	return o.list(list)
}

// residents are the variables on the GPU.
type residents struct {
	in         *instance
	on         []int
	slot       []int // 1 + place in on, 0: not there
	next, last []int // functions that use a variable; n and -1: none
	host       []bool
	bytes      float64
}

func (b *residents) add(v int) {
	b.on = append(b.on, v)
	b.slot[v] = len(b.on)
	b.bytes += b.in.Size[v]
}

func (b *residents) remove(v int) {
	k, end := b.slot[v]-1, len(b.on)-1
	b.on[k] = b.on[end]
	b.slot[b.on[k]] = k + 1
	b.on, b.slot[v] = b.on[:end], 0
	if b.bytes -= b.in.Size[v]; end == 0 {
		b.bytes = 0
	}
}

// Limits of annealing.
const (
	annealEvents = 4_000_000 // of all lists, twice as many after restarts
	annealMoves  = 30_000
	annealEach   = 200 // moves for each event of the list
	annealFewest = 200 // with fewer moves nothing is found, and none is tried
)

// anneal changes the best list at random, then those of Belady's rule, which lead
// elsewhere.
func (x *searcher) anneal() {
	const episodes = 3
	most := annealEvents / (len(x.list) + 1)
	if most < annealFewest {
		return
	}
	moves := min(annealMoves, most, annealEach*len(x.list)) / episodes
	for episode := range episodes {
		x.episode(slices.Clone(x.list), moves, (x.T-x.floor)/float64(10+10*episode))
	}
	for _, w := range beladys {
		if !x.done() {
			x.episode(x.in.belady(x.o, w, nil), min(moves, 2*most/len(beladys)), (x.T-x.floor)/3)
		}
	}
}

// episode makes the given number of moves of list, while the temperature falls to a thousandth.
func (x *searcher) episode(list []int, moves int, heat float64) {
	T := x.m.run(list)
	if math.IsInf(T, 1) {
		return
	}
	factor := math.Exp(-math.Log(1000) / float64(moves+1))
	var work []int
	for range moves {
		if x.done() {
			return
		}
		work = append(work[:0], list...)
		for more := true; more; more = x.rng.IntN(2) == 0 {
			work = x.mutate(work)
		}
		heat *= factor
		if t := x.m.run(work); t <= T || t-T < heat*x.rng.ExpFloat64() {
			list, T = x.m.eventsOf(), t
			x.updateIncumbent(work, t)
		}
	}
}

// mutate changes a list of events at random.
func (x *searcher) mutate(list []int) []int {
	in := x.in
	k := x.rng.IntN(len(list))
	switch x.rng.IntN(5) {
	case 0: // an eviction after some use, possibly somewhat later
		use := x.rng.IntN(max(1, len(in.Use)))
		if use >= len(in.Use) || in.Next[use] == in.N {
			return list
		}
		i, _ := slices.BinarySearch(in.At, use+1)
		to := slices.Index(list, i-1) + 1
		if x.rng.IntN(4) == 0 {
			to = min(len(list), to+x.rng.IntN(8))
		}
		return slices.Insert(list, to, in.evictEvent(in.Use[use]))
	case 1: // a transfer less
		if k = nextTransfer(list, k, in.N); k < len(list) {
			return slices.Delete(list, k, k+1)
		}
		return list
	case 2: // two transfers in each other's place
		k = nextTransfer(list, k, in.N)
		j := nextTransfer(list, min(len(list), k+1+x.rng.IntN(6)), in.N)
		if k < len(list) && j < len(list) {
			list[k], list[j] = list[j], list[k]
		}
		return list
	}
	if k = nextTransfer(list, k, in.N); k == len(list) {
		return list
	}
	e := list[k]
	to := k + x.rng.IntN(17) - 8
	if x.rng.IntN(4) == 0 {
		to = x.rng.IntN(len(list))
	}
	list = slices.Delete(list, k, k+1)
	return slices.Insert(list, min(max(to, 0), len(list)), e)
}

// nextTransfer returns the place of the first transfer from k on.
func nextTransfer(list []int, k, n int) int {
	for k < len(list) && list[k] < n {
		k++
	}
	return k
}
