package activationoffload

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	view "workbench/model/problem/activationoffload"
)

// Search is our own method. It takes the best plan of the other methods and improves it by
// simulated annealing: first the set, transferred in sorted order, then sets and orders together,
// in which prefetches may precede offloads (finding 17). It stops when a lower bound is attained,
// after its budget of moves, or when ctx ends, and returns the best plan seen. That is never worse
// than the methods of this package, AutoSwap with the same seed and DynProgSlots with 500 slots,
// unless ctx ends it before it has run them. It finds a plan whenever one exists, and is
// deterministic for a seed.
//
// A move costs O(N), and there are some hundred thousand, a second or two in total; DynProg, which
// comes last, takes longer on chains with a hundred layers.
func Search(ctx context.Context, c *chain.Chain, p platform.Platform, seed uint64) (*plan.Plan, error) {
	in, err := newInstance(c, p)
	if err != nil {
		return nil, err
	}
	s := newSearcher(ctx, in, seed)
	s.methods(seed)
	s.sets()
	s.orders()
	if s.programs() {
		s.sets()
		s.orders()
	}
	return s.plan()
}

// searcher is the state of Search.
type searcher struct {
	ctx   context.Context
	in    *instance
	rng   *rand.Rand
	floor float64 // a lower bound

	sched *view.NoWait
	set   *best // the best plan in sorted order

	dec   *view.Decoder
	order []int // the order of starts of the best plan of all
	T     float64
}

func newSearcher(ctx context.Context, in *instance, seed uint64) *searcher {
	s := &searcher{
		ctx: ctx, in: in, rng: rand.New(rand.NewPCG(seed, 0x5eed)), floor: in.BestBound(),
		sched: view.NewNoWait(in.Instance), set: newBest(in), dec: view.NewDecoder(in.Instance), T: math.Inf(1),
	}
	s.sched.Explain = false
	return s
}

func (s *searcher) done() bool {
	return platform.Closed(s.T, s.floor, plan.Tolerance) || s.ctx.Err() != nil
}

// updateIncumbent makes order, an order of starts, the best if it is shorter.
func (s *searcher) updateIncumbent(order []int, T float64) {
	if T < s.T {
		s.T = T
		s.order = append(s.order[:0], order...)
	}
}

// offerSet offers the plan of the best set so far.
func (s *searcher) offerSet() {
	if !(s.set.T < s.T) {
		return
	}
	p, err := s.set.plan(s.sched, "search")
	s.sched.Explain = false
	if err == nil {
		order := s.in.OrderOf(p)
		s.updateIncumbent(order, min(s.set.T, s.dec.M.Run(order)))
	}
}

// methods takes the plans of the other methods. TFLMS is never better than Greedy.
func (s *searcher) methods(seed uint64) {
	s.set.try(s.sched, s.in.greedy())
	s.offerSet()
	if s.done() {
		return
	}
	s.in.vdnn(s.ctx, s.sched, s.set)
	s.in.autoSwap(s.ctx, s.sched, s.set, seed)
	s.offerSet()
}

// searchSlots are the slots of DynProgSlots, as in [004] 3.3.3.2.
const searchSlots = 500

// programs takes the sets of the dynamic programs; false if they are no better.
func (s *searcher) programs() bool {
	before, away := s.T, make([]bool, s.in.N)
	take := func(k *Claim, err error) {
		if err != nil {
			return
		}
		clear(away)
		for _, i := range k.Offload {
			away[i] = true
		}
		s.set.try(s.sched, away)
		s.offerSet()
	}
	for _, gap := range [...]Gap{GapOverlap, GapSimple} {
		if !s.done() {
			take(DynProgSlotsClaim(s.ctx, s.in.Chain, s.in.Platform, searchSlots, gap))
		}
		if !s.done() {
			take(s.in.claim(s.ctx, gap, DynProgStates))
		}
	}
	return s.T < before
}

// sets anneals the set. A move adds an activation, removes one, or exchanges two.
func (s *searcher) sets() {
	var can []int // without ā_{N-1}, which B_N needs at once, and empty ones
	for i := range s.in.N - 1 {
		if s.in.Abar[i] > 0 {
			can = append(can, i)
		}
	}
	if len(can) == 0 || s.done() {
		return
	}
	away, work := make([]bool, s.in.N), make([]bool, s.in.N)
	moves := 20000 + 100*len(can)
	for episode := range 3 {
		copy(away, s.set.away)
		T := s.set.T
		heat := s.cooling((s.set.T-s.floor)/float64(4+4*episode), moves)
		for range moves {
			if platform.Closed(s.set.T, s.floor, plan.Tolerance) || s.ctx.Err() != nil {
				break
			}
			copy(work, away)
			i := can[s.rng.IntN(len(can))]
			work[i] = !work[i]
			if s.rng.IntN(2) == 0 {
				j := s.other(can, work, i)
				work[j] = !work[j]
			}
			s.sched.Choose(work)
			t := s.sched.Evaluate()
			if heat.accept(t-T, s.rng) {
				away, work = work, away
				T = t
				if t < s.set.T {
					s.set.T = t
					copy(s.set.away, away)
				}
			}
		}
	}
	s.offerSet()
}

// other returns an activation to exchange with i, which has just changed: one
// that is now where i is.
func (s *searcher) other(can []int, away []bool, i int) int {
	for range 8 {
		j := can[s.rng.IntN(len(can))]
		if j != i && away[j] == away[i] {
			return j
		}
	}
	return i
}

// A cooling is a falling temperature.
type cooling struct{ heat, factor float64 }

// cooling returns the cooling from hot to a thousandth of it in the given number of moves.
func (s *searcher) cooling(hot float64, moves int) *cooling {
	return &cooling{hot, math.Exp(-math.Log(1000) / float64(moves))}
}

// accept reports whether a change of the makespan is taken, and cools down.
func (c *cooling) accept(change float64, rng *rand.Rand) bool {
	c.heat *= c.factor
	return change <= 0 || change < c.heat*rng.ExpFloat64()
}

// orders anneals lists of events.
func (s *searcher) orders() {
	n := s.in.N
	if s.done() || n < 2 {
		return
	}
	moves := min(40000, max(8000, 4_000_000/n))
	list, work := make([]int, 0, 4*n), make([]int, 0, 4*n)
	for episode := range 3 {
		list = append(list[:0], s.order...)
		T := s.T
		heat := s.cooling((s.T-s.floor)/float64(4+4*episode), moves)
		for range moves {
			if s.done() {
				return
			}
			work = append(work[:0], list...)
			for more := true; more; more = s.rng.IntN(2) == 0 {
				work = s.mutate(work)
			}
			t := s.dec.Run(work, T+8*heat.heat)
			if heat.accept(t-T, s.rng) {
				list = append(list[:0], s.dec.Order...)
				T = t
				s.updateIncumbent(s.dec.Order, t)
			}
		}
	}
}

// mutate changes a list of events at random: it moves a transfer, exchanges two of
// a kind, puts one activation in place of another, drops one, or adds one.
func (s *searcher) mutate(list []int) []int {
	n := s.in.N
	switch s.rng.IntN(7) {
	case 0: // drop or add
		i := s.rng.IntN(n)
		if k := slices.Index(list, 2*n+i); k >= 0 {
			return s.drop(list, i)
		}
		return s.add(list, i)
	case 1: // two offloads or two prefetches
		kind := (2 + s.rng.IntN(2)) * n
		k, j := slices.Index(list, kind+s.rng.IntN(n-1)), slices.Index(list, kind+s.rng.IntN(n-1))
		if k < 0 || j < 0 {
			break
		}
		list[k], list[j] = list[j], list[k]
		return list
	case 2: // another activation in the same places
		i := s.rng.IntN(n - 1)
		k, j := slices.Index(list, 2*n+i), s.rng.IntN(n-1)
		if k < 0 || s.in.Abar[j] == 0 || slices.Contains(list, 2*n+j) {
			break
		}
		list[k] = 2*n + j
		list[slices.Index(list, 3*n+i)] = 3*n + j
		return list
	}
	// The next transfer at or after a random place goes elsewhere.
	k := s.rng.IntN(len(list))
	for k < len(list) && list[k] < 2*n {
		k++
	}
	if k == len(list) {
		return list
	}
	e := list[k]
	to := k + s.rng.IntN(13) - 6
	if s.rng.IntN(4) == 0 {
		to = s.rng.IntN(len(list))
	}
	to = min(max(to, 0), len(list)-1)
	list = slices.Delete(list, k, k+1)
	return slices.Insert(list, to, e)
}

func (s *searcher) drop(list []int, i int) []int {
	n := s.in.N
	return slices.DeleteFunc(list, func(e int) bool { return e == 2*n+i || e == 3*n+i })
}

// add inserts an offload some events after F_i, and a prefetch some events
// before B_{i+1}.
func (s *searcher) add(list []int, i int) []int {
	n := s.in.N
	if s.in.Abar[i] == 0 || i == n-1 {
		return list
	}
	k := 0
	if i > 0 {
		k = slices.Index(list, i-1) + 1
	}
	last := slices.Index(list, 2*n-i-1)
	from := k + s.rng.IntN(last-k+1)
	if s.rng.IntN(2) == 0 {
		from = min(last, k+s.rng.IntN(4))
	}
	list = slices.Insert(list, from, 2*n+i)
	last++
	to := from + 1 + s.rng.IntN(last-from)
	if s.rng.IntN(2) == 0 {
		to = max(from+1, last-s.rng.IntN(4))
	}
	return slices.Insert(list, to, 3*n+i)
}

// plan writes the best plan: by the scheduler if a set in sorted order is as
// good, whose prefetches are no earlier than they must be.
func (s *searcher) plan() (*plan.Plan, error) {
	if s.set.T <= s.T {
		return s.set.plan(s.sched, "search")
	}
	T := s.dec.M.Run(s.order)
	return s.dec.M.Plan("search", s.order, T), nil
}
