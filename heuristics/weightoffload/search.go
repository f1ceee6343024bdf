package weightoffload

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/problem/weightoffload"
)

// Options are the options of Search. The zero value is usable.
type Options struct {
	Seed uint64
	// Moves is the maximum number of consecutive moves without improvement; 0: DefaultMoves.
	Moves int
	// Bound is a period at which the search stops, such as a lower bound from another source. The
	// bounds of model/problem/weightoffload are used in any case.
	Bound float64
	// Floor is the best of weightoffload.Instance.Bounds if known, since they take a second for a
	// thousand layers; 0: it is computed.
	Floor float64
	// Start is a plan to start from in addition to those of the other methods.
	Start *plan.Plan
	// Away are gaps to start from, by gap as in the package comment (2L), such
	// as the choices of a MILP: Away[2k] is D_k^(0) and Away[2k+1] is D_k^(1)
	// of [001] §6. nil: none.
	Away []bool
	// OnBetter, if not nil, is called with every better plan.
	OnBetter func(*plan.Plan)
}

// DefaultMoves is the default of Options.Moves.
const DefaultMoves = 50000

// Search is our own method. It takes the best plan of the other methods, of Algorithm 1 with
// decreasing memory, and of a start plan. Then it changes choices and orders at random and computes
// the minimum period of the new orders exactly, until a lower bound is attained, no move helps or
// ctx ends. It never returns a worse plan than Greedy, GreedyNoDiscount, L2L or FirstHalf, and is
// deterministic for the same options unless ctx ends it.
//
// A move costs O(L log L) for sorting and usually about ten passes over O(L) constraints.
func Search(ctx context.Context, c *chain.Chain, p platform.Platform, o Options) (*plan.Plan, error) {
	return solve(c, p, "search", func(in *instance) (*weightoffload.Schedule, error) {
		s := newSearch(ctx, in, o)
		s.start()
		s.selections()
		s.orders()
		if math.IsInf(s.best.T, 1) {
			return nil, fmt.Errorf("search: %w in %s", plan.ErrNoPlan, in.Chain.Unit.Exactly(in.Memory))
		}
		return s.best, nil
	})
}

// search is the state of a search.
type search struct {
	ctx context.Context
	in  *instance
	o   Options
	rng *rand.Rand
	// floor is the closed-form bound, below the period of every order whatever the rounding; the
	// search stops at bound.
	floor, bound float64
	best         *weightoffload.Schedule

	steady *steady
	retime *retimer
	work   *weightoffload.Schedule
	cur    *weightoffload.Schedule
	excess []float64
}

func newSearch(ctx context.Context, in *instance, o Options) *search {
	if o.Moves == 0 {
		o.Moves = DefaultMoves
	}
	s := &search{
		ctx: ctx, in: in, o: o, rng: rand.New(rand.NewPCG(o.Seed, 0x5eed)),
		floor: o.Floor, best: weightoffload.NewSchedule(in.Instance),
		steady: newSteady(in), retime: newRetimer(in), work: weightoffload.NewSchedule(in.Instance), cur: weightoffload.NewSchedule(in.Instance),
		excess: make([]float64, in.N),
	}
	if s.floor == 0 {
		s.floor = in.Bounds()[0].Value
	}
	s.bound = max(s.floor, o.Bound)
	s.best.T = math.Inf(1)
	return s
}

func (s *search) done() bool {
	return platform.Closed(s.best.T, s.bound, plan.Tolerance) || s.ctx.Err() != nil
}

// keep makes w the incumbent if it is better.
func (s *search) keep(w *weightoffload.Schedule) bool {
	if !(w.T < s.best.T*(1-1e-12)) {
		return false
	}
	s.best.CopyFrom(w)
	if s.o.OnBetter != nil && !s.in.slow && !s.in.merges(w) {
		s.o.OnBetter(s.best.Plan(s.in.Instance, "search"))
	}
	return true
}

// evaluate schedules the selected gaps in s.work, and keeps the schedule if it is better. It
// reports false if there is none.
func (s *search) evaluate() bool {
	if !s.steady.run(s.work, 3) || !s.retime.best(s.work, s.in.Compute(), math.Inf(1)) {
		return false
	}
	s.keep(s.work)
	return true
}

// start takes the plans of the other methods, and those given.
func (s *search) start() {
	if s.o.Start != nil {
		if w, err := s.in.Read(s.o.Start); err == nil && s.retime.best(w, s.in.Compute(), math.Inf(1)) {
			s.keep(w)
		}
	}
	for _, x := range []struct {
		discount bool
		run      func(*scheduler)
	}{
		{true, func(g *scheduler) { g.greedy(everySelection, s.in.Memory) }},
		{false, func(g *scheduler) { g.greedy(withoutDiscount, s.in.Memory) }},
		{true, func(g *scheduler) { g.firstHalf(s.in.Memory) }},
	} {
		if !math.IsInf(s.best.T, 1) && s.done() {
			return
		}
		g := newScheduler(s.ctx, s.in, x.discount)
		if x.run(g); g.any() {
			s.keepRetimed(g.found)
		}
	}
	if w, ok := s.in.layerByLayer(); ok {
		s.keepRetimed(w)
	}
}

// keepRetimed keeps w, and then w with the minimum period for its orders.
func (s *search) keepRetimed(w *weightoffload.Schedule) {
	s.keep(w)
	if s.retime.best(w, s.in.Compute(), math.Inf(1)) {
		s.keep(w)
	}
}

// selections schedules the given choices, and those of Algorithm 1 for decreasing memory, which
// leave more memory for transfers.
func (s *search) selections() {
	if len(s.o.Away) == s.in.N {
		for g, a := range s.o.Away {
			s.work.Away[g] = a && s.in.W[g>>1] > 0
		}
		s.evaluate()
	}
	top := 0.0
	for _, w := range s.in.W {
		top = max(top, w)
	}
	chosen := make([]bool, s.in.N)
	for i := 0; i <= 32 && !s.done(); i++ {
		clear(chosen)
		s.in.choose(chosen, s.in.Memory-float64(i)/8*top, 1, true, s.excess)
		for s.steady.ahead = 0; s.steady.ahead <= 3 && !s.done(); s.steady.ahead++ {
			copy(s.work.Away, chosen)
			s.evaluate()
		}
	}
}

// orders changes choices and orders at random, in episodes. Each starts from
// the incumbent, as it is, or after some changes that are kept whatever they
// cost, or scheduled anew with some other choices, and goes on with changes
// that are kept if they do not make the period longer.
func (s *search) orders() {
	episode := 100 + 40*s.in.L
	for tried, kicks := 0, 0; tried < s.o.Moves && !s.done(); tried++ {
		if tried%episode == 0 {
			s.cur.CopyFrom(s.best)
			kicks = 0
			switch round := tried / episode; round % 3 {
			case 1:
				kicks = 1 + s.rng.IntN(1+round)
			case 2:
				s.rebuild()
			}
		}
		s.work.CopyFrom(s.cur)
		for n := 1 + s.rng.IntN(3); n > 0; n-- {
			s.mutate(s.work)
		}
		cutoff := s.cur.T * (1 + plan.Tolerance)
		if kicks > 0 {
			cutoff = math.Inf(1)
		}
		if !s.retime.best(s.work, s.floor, cutoff) {
			continue
		}
		kicks--
		s.cur.CopyFrom(s.work)
		if s.keep(s.work) {
			tried = 0
		}
	}
}

// rebuild schedules some other choices anew and goes on from there.
func (s *search) rebuild() {
	s.work.CopyFrom(s.cur)
	for n := 1 + s.rng.IntN(4); n > 0; n-- {
		g := s.rng.IntN(s.in.N)
		if s.in.W[g>>1] > 0 {
			s.work.Away[g] = !s.work.Away[g]
		}
	}
	s.steady.ahead = s.rng.IntN(4)
	if s.evaluate() {
		s.cur.CopyFrom(s.work)
	}
}

// mutate changes one thing in w, whose times then are approximate.
func (s *search) mutate(w *weightoffload.Schedule) {
	in := s.in
	k := s.rng.IntN(in.L)
	if c := s.retime.graph.Critical(); len(c) > 0 && s.rng.IntN(4) > 0 {
		k = s.near(c[s.rng.IntN(len(c))])
	}
	if in.W[k] == 0 {
		return
	}
	g := 2*k + s.rng.IntN(2)
	switch s.rng.IntN(4) {
	case 0:
		s.flip(w, g)
	case 1:
		s.flip(w, g)
		s.flip(w, s.rng.IntN(in.N))
	case 2:
		if w.Away[g] {
			s.place(w, g)
		}
	default:
		if w.Uploads(k) {
			s.upload(w, k)
		}
	}
}

// near returns a layer that has to do with node v of the retimer.
func (s *search) near(v int) int {
	in, k := s.in, 0
	switch i := v; {
	case i < in.N:
		k = in.Layer(i)
	case i < 2*in.N:
		k = (i - in.N) >> 1
	case i < s.retime.barrier:
		k = i - 2*in.N
	default:
		k = in.Layer(int(s.retime.release[min(i-s.retime.barrier, len(s.retime.release)-1)].node))
	}
	return min(max(k+s.rng.IntN(5)-2, 0), in.L-1)
}

// flip changes whether the weight of gap g is on the host.
func (s *search) flip(w *weightoffload.Schedule, g int) {
	in, k := s.in, g>>1
	if in.W[k] == 0 {
		return
	}
	if w.Away[g] {
		w.Away[g] = false
		return
	}
	had := w.Uploads(k)
	w.Away[g] = true
	if !had {
		s.upload(w, k)
	}
	s.place(w, g)
}

// upload gives the upload of w_k another time between B_k and the prefetch that
// ends its first gap: at once, before the last use in between if there is one,
// or anywhere.
func (s *search) upload(w *weightoffload.Schedule, k int) {
	in := s.in
	from := w.Op[in.B(k)] + in.U[in.B(k)]
	to := w.Op[in.F(k)] - in.Move[k]
	switch how := s.rng.IntN(4); {
	case how < 2:
		w.Up[k] = from
		return
	case how == 2 && !w.Away[2*k]:
		to = w.Op[in.F(k)] + in.U[in.F(k)]
	case !w.Away[2*k]:
		to = w.Op[in.B(k)] + w.T - in.Move[k]
	}
	w.Up[k] = from + s.rng.Float64()*max(0, to-from-in.Move[k])
}

// place gives the prefetch of gap g another time.
func (s *search) place(w *weightoffload.Schedule, g int) {
	in := s.in
	to := w.Op[in.Use(g)] - in.Move[g>>1]
	if g&1 == 1 {
		to += w.T
	}
	from := w.Deleted(in.Instance, g)
	switch s.rng.IntN(3) {
	case 0:
		w.Pre[g] = to
	case 1:
		w.Pre[g] = to - s.rng.Float64()*4*in.Move[g>>1]
	default:
		w.Pre[g] = from + s.rng.Float64()*max(0, to-from)
	}
	w.Pre[g] = max(w.Pre[g], from)
}
