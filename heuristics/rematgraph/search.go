package rematgraph

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/problem/rematgraph"
)

// Search is our own method: ruin and recreate on schedules in stages. It starts from the best of
// the other methods, of greedy schedules and of the choices of the time bound. Each round keeps or
// drops a few neighbouring values, repairs the schedule (see [state.repair]), fills the remaining
// memory, and accepts the result by simulated annealing. It stops when it attains
// rematgraph.View.TimeBound.
//
// It is deterministic for a seed and number of rounds, and returns the best plan so far when ctx
// ends. A round takes O(n·degree) moves.
func Search(ctx context.Context, v *rematgraph.View, p platform.Platform, seed uint64, rounds int) (*plan.Plan, error) {
	if err := v.Fits(p.Memory); err != nil {
		return nil, err
	}
	s := &search{ctx: ctx, v: v, limits: everywhere(v, p.Memory), r: rand.New(rand.NewPCG(seed, 0)), bound: v.TimeBound}
	s.run(rounds)
	if s.best == nil {
		return leastPlan(v, p)
	}
	return fit("search", s.best, p)
}

// SearchStageLimits is Search with a memory limit for each stage, for plans with a link that
// offload the excess. It returns the fastest schedule found, nil if there is none. It starts also
// from those of from that are schedules of v and fit.
func SearchStageLimits(ctx context.Context, v *rematgraph.View, limits []float64, seed uint64, rounds int,
	from ...*rematgraph.Schedule,
) *rematgraph.Schedule {
	s := &search{ctx: ctx, v: v, limits: limits, r: rand.New(rand.NewPCG(seed, 0)), from: from}
	s.bound = func(memory float64) rematgraph.TimeBound {
		b := v.TimeBound(memory) // with a link only its starting points are valid
		b.Seconds = v.Graph.TotalTime()
		return b
	}
	s.run(rounds)
	return s.best
}

// run looks for the best schedule.
func (s *search) run(rounds int) {
	s.start(rounds)
	if s.best == nil {
		return
	}
	for k := range runs {
		s.anneal((rounds + k) / runs)
	}
}

// runs is the number of annealing runs of Search.
const runs = 4

// search is a run of Search.
type search struct {
	ctx    context.Context
	v      *rematgraph.View
	limits []float64 // of each stage
	r      *rand.Rand
	from   []*rematgraph.Schedule
	best   *rematgraph.Schedule                      // fits; nil: none
	least  float64                                   // its time
	bound  func(memory float64) rematgraph.TimeBound // on the time of any plan
	lowest float64                                   // the seconds of that
}

// most returns the largest limit.
func (s *search) most() float64 { return slices.Max(s.limits) }

// fits reports whether every stage keeps to its limit.
func (s *search) fits(x *rematgraph.Schedule) bool {
	for t, limit := range s.limits {
		if peak, _ := x.StagePeak(t); !platform.Fits(peak, limit) {
			return false
		}
	}
	return true
}

// stop reports whether ctx has ended.
func (s *search) stop() bool { return s.ctx.Err() != nil }

// done reports whether the best schedule is proved optimal, or ctx has ended.
func (s *search) done() bool {
	return s.stop() || s.best != nil && platform.Closed(s.least, s.lowest, plan.Tolerance)
}

// noise returns random factors around 1: exp of a normal variate with the given standard deviation.
func (s *search) noise(deviation float64) func() float64 {
	return func() float64 { return math.Exp(deviation * s.r.NormFloat64()) }
}

func exact() float64 { return 1 }

// start sets best to the best of several schedules, those first that are there
// at once. Of huge graphs with blocks that repeat it tries no others than such as those do.
func (s *search) start(rounds int) {
	if platform.Fits(s.v.StoreAllPeak(), s.most()) {
		s.remember(newState(s.v.StoreAll(), s.limits))
	}
	if s.v.N <= largeGraph {
		s.remember(newState(s.v.Frugal(), s.limits))
	}
	for _, x := range s.from {
		s.try(x, exact)
	}
	if s.from != nil && (s.best != nil || s.stop()) {
		return
	}
	before := s.best
	guesses := s.guided(s.bound(s.most()))
	if s.v.N > HugeGraph && !s.stop() {
		s.repeated(rounds)
	}
	if (s.v.N > HugeGraph || s.stop()) && s.best != before {
		return // hundreds of schedules take longer than there may be time
	}
	if s.best == nil {
		s.stricter()
	}
	s.chen()
	s.partitioned()
	for _, x := range guesses {
		s.try(x, exact)
	}
	if s.v.N <= largeGraph {
		s.linearised()
		s.try(s.v.StoreAll(), exact)
		for k := 0; k < 8 && !s.done(); k++ {
			s.try(s.v.StoreAll(), s.noise(0.5))
		}
	}
	if s.best == nil && !s.stop() {
		s.remember(newState(least(s.v, s.stop), s.limits)) // slow plans, and slowly made
	}
	if s.best != nil && !s.done() {
		s.try(s.best, exact)
	}
}

// leastPlan returns the known plan with the minimum memory, if it fits. It need not be a schedule
// of stages.
func leastPlan(v *rematgraph.View, p platform.Platform) (*plan.Plan, error) {
	least := v.Least()
	if platform.Fits(least.High, p.Memory) {
		if err := written("search", least.Computations(v)); err != nil {
			return nil, err
		}
		return least.Fill(v.NewPlan("search", p), v), nil
	}
	size := v.Graph.Unit.Exactly
	if math.IsInf(least.High, 1) { // stopped
		return nil, fmt.Errorf("search: %w in the time: %s are available, any plan needs %s", plan.ErrNoPlan, size(p.Memory), size(least.Low))
	}
	return nil, fmt.Errorf("search: %w: %s are available, any plan needs %s, and the smallest memory with a known plan is %s", plan.ErrNoPlan,
		size(p.Memory), size(least.Low), size(least.High))
}

// largeGraph is the number of nodes beyond which slow steps that rarely help are skipped: a repair
// of store-all takes hundreds of moves, the persistent dynamic program of a long chain minutes.
const largeGraph = 1500

// HugeGraph is the number of nodes beyond which repeated blocks are tried first (see Repeat), else
// the schedule of the bound, and few moves are priced. With 2,659 nodes and 2 s, that made the gap
// 2.8 instead of 0.1 %.
const HugeGraph = 4000

// stricter remembers the fastest schedule that the time bound suggests for half the memory, a
// quarter and so on, the first that fits. Where none does, or ctx ended before the last of them, it
// remembers the schedule that recomputes everything, of up to N²/2 computations; of a huge graph
// only if there is time.
func (s *search) stricter() {
	lowest := s.lowest
	for memory := s.most() / 2; s.best == nil && s.v.Fits(memory) == nil; memory /= 2 {
		if s.guided(s.bound(memory)); s.stop() {
			break
		}
	}
	if s.best == nil && (s.v.N <= HugeGraph || !s.stop()) {
		s.remember(newState(s.v.Frugal(), s.limits)) // half a second of 10,000 nodes
	}
	s.lowest = lowest
}

// guided returns the schedules that a time bound suggests, even if there is no time left, and
// remembers the best of them: it needs no repair, and takes as long as a few peaks.
func (s *search) guided(h rematgraph.TimeBound) (guesses []*rematgraph.Schedule) {
	s.lowest = h.Seconds
	for _, again := range slices.Backward(h.Again) { // the last makes the most room
		x := newState(besides(s.v, h.Node, again), s.limits)
		s.remember(x)
		guesses = append(guesses, x.s)
		if s.v.N > HugeGraph && s.best != nil && s.stop() {
			break // in larger graphs only the fastest of them is worth its time
		}
	}
	return guesses
}

// chen tries the plan of Chen, if there is one.
func (s *search) chen() {
	all, err := chen(s.ctx, s.v)
	if err != nil {
		return
	}
	var best *rematgraph.Schedule
	for c := range all {
		if s.fits(c) && (best == nil || c.Cost() < best.Cost()) {
			best = c
		}
	}
	if best != nil {
		s.try(best, exact)
	}
}

// partitioned starts from the best of PyTorch's partitions of the step that fit, where its
// operations are known: by minimum cuts and under budgets.
func (s *search) partitioned() {
	if !hasOperations(s.v) {
		return
	}
	var best *rematgraph.Schedule
	consider := func(x *rematgraph.Schedule) {
		if s.fits(x) && (best == nil || x.Cost() < best.Cost()) {
			best = x
		}
	}
	for _, cheap := range []func(string) bool{pointwise, light} {
		c := newPartition(s.v)
		c.split(cheap)
		consider(c.carryOut())
	}
	for _, solve := range []Knapsack{KnapsackGreedy, KnapsackDP} {
		all, err := Budgets(s.ctx, "search", s.v, solve)
		if err != nil {
			return
		}
		if x := fastest(s.ctx, all, s.fits); x != nil {
			consider(x)
		}
	}
	if best != nil {
		s.remember(newState(best, s.limits))
		s.try(best, exact)
	}
}

// linearised tries the plan of Linearised, if there is one.
func (s *search) linearised() {
	if s.done() {
		return
	}
	if c, err := linearised(s.ctx, s.v, slices.Min(s.limits)); err == nil {
		s.try(c, exact)
	}
}

// try repairs and fills a schedule and remembers it if it is the best; nothing
// if the search is done.
func (s *search) try(from *rematgraph.Schedule, noise func() float64) {
	if s.done() {
		return
	}
	x := newState(from.Clone(), s.limits)
	x.stop = s.stop
	if !x.repair(noise) {
		return
	}
	x.fill()
	s.remember(x)
}

// remember makes x the best schedule if it is.
func (s *search) remember(x *state) {
	if s.best != nil && x.total >= s.least*(1-worthwhile) {
		return
	}
	if x.over > 0 {
		return
	}
	s.best, s.least = x.s.Clone(), x.total
}

// anneal makes the given number of rounds from the best schedule.
func (s *search) anneal(rounds int) {
	if rounds == 0 || s.done() {
		return // to begin takes a tenth of a second of 10,000 nodes
	}
	x := newState(s.best.Clone(), s.limits)
	x.stop = s.stop
	spare := s.least - s.v.Graph.TotalTime() // recomputation time
	for k := range rounds {
		if s.done() {
			return
		}
		// What a round may lose: a twentieth of spare at first, nothing at last.
		heat := spare / 20 * math.Pow(1-float64(k)/float64(rounds), 2)
		x.forget()
		before := x.total
		s.ruin(x)
		if x.repair(s.noise(0.3)) {
			x.fill()
			if x.total < before+heat*s.r.ExpFloat64() {
				s.remember(x)
				continue
			}
		}
		x.undo(0)
	}
}

// ruin changes a few values in neighbouring stages: it keeps some recomputed ones, or drops some
// retained ones.
func (s *search) ruin(x *state) {
	var moves []move
	n := 1 + s.r.IntN(4)
	keep := s.r.IntN(2) == 0
	center := s.r.IntN(s.v.N)
	for try := 0; n > 0 && try < 50; try++ {
		t := min(max(center+s.r.IntN(21)-10, 0), s.v.N-1)
		if keep {
			moves = x.recomputeMoves(moves[:0], t)
		} else {
			moves = x.held(moves[:0], t)
		}
		if len(moves) == 0 {
			center = s.r.IntN(s.v.N)
			continue
		}
		x.apply(moves[s.r.IntN(len(moves))])
		n--
	}
}
