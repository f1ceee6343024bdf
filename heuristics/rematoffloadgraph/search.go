package rematoffloadgraph

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"workbench/heuristics/rematgraph"
	"workbench/model/plan"
	"workbench/model/platform"
	problemrematgraph "workbench/model/problem/rematgraph"
)

// Search is a method of ours. A link makes the memory larger: at any time as much can be
// away as has been sent before and can be fetched after it. So schedules are looked for by
// the search of rematerialization, in stages each of which has what there is and a part of
// that beside; then what does not fit leaves (see cover), and the clock says what comes of
// it. The best is changed by giving stages less where its computations wait and more where
// room is left.
//
// It begins with the plan of Offload and with that of the search without transfers, and is
// never worse than these; with huge graphs whose blocks repeat it has what comes of a step with fewer of
// them before the second, to which ctx may not let it come. The same seed and rounds give the same plan; the
// end of ctx ends it with the best until then.
func Search(ctx context.Context, v *problemrematgraph.View, p platform.Platform, seed uint64, rounds int) (*plan.Plan, error) {
	if err := v.LinkedFits(p.Memory); err != nil {
		return nil, err
	}
	s := &search{ctx: ctx, v: v, p: p, seed: seed, r: rand.New(rand.NewPCG(seed, 1))}
	s.begin(rounds)
	for range tunings {
		s.tune(rounds / 20)
	}
	if s.wrong != nil {
		return nil, s.wrong
	}
	if s.best == nil {
		return nil, fmt.Errorf("search: %w: what may be sent away is not enough", plan.ErrNoPlan)
	}
	s.best.Method = "search"
	return s.best, nil
}

// begin looks for plans of which the best can be tuned.
func (s *search) begin(rounds int) {
	s.bound = s.v.Graph.TotalTime()
	if x, err := Offload(s.ctx, s.v, s.p); err == nil {
		s.updateIncumbent(x)
	}
	if s.v.N > rematgraph.HugeGraph {
		s.unrolled(rounds)
	}
	if s.ctx.Err() == nil { // of a huge graph the bound takes a second, which plans come before
		s.bound = s.v.LinkedBound(s.p.Memory, s.p.Bandwidth).Seconds
	}
	if s.best == nil || !s.done() {
		s.alone(rounds)
	}
	for _, share := range shares {
		if share < s.smooth {
			break // less away, more computed again
		}
		s.level(share, rounds/10, s.schedule)
	}
	s.level(max(s.smooth, shares[0]), rounds/10, nil) // as if nothing were known
}

// unrolled takes what the search begins with for a step with fewer blocks, beside the same link
// and in such a part of the memory that what comes of it exceeds what there is by little.
func (s *search) unrolled(rounds int) {
	r := rematgraph.Repeat(s.v)
	if r == nil {
		return
	}
	r.Aim(s.p.Memory, lengths, func(k int, memory float64) (over float64, ok bool) {
		if s.done() {
			return 0, false
		}
		at := s.p
		at.Memory = memory
		short := &search{ctx: s.ctx, v: r.Short, p: at, seed: s.seed, r: s.r}
		short.begin(rounds * (1 + k) / shortRounds)
		if s.wrong = short.wrong; s.wrong != nil || short.schedule == nil {
			return 0, false
		}
		x, limits := r.Unroll(short.schedule), s.stageLimits(short.smooth)
		over = rematgraph.MaxExcess(x, limits)
		if fits := rematgraph.SearchStageLimits(s.ctx, s.v, limits, s.seed, 0, x); fits != nil {
			x = fits
		}
		s.replaySchedule(x, limits) // one that does not fit waits
		return over, true
	})
}

// A step with fewer blocks is searched so often, first a hundredth of the rounds, then another one more.
const (
	lengths     = 6
	shortRounds = 100
)

// shares are the parts of what the link could have away that schedules are looked for with.
var shares = [...]float64{0.9, 1, 0.95, 0.8, 0.65, 0.5, 0.3}

// hopeless times what the best plan takes is what no schedule is looked at that computes longer:
// what waits in it says nothing of better ones.
const hopeless = 2

// tunings is how often the best is changed at most.
const tunings = 60

// search is a run of Search.
type search struct {
	ctx   context.Context
	v     *problemrematgraph.View
	p     platform.Platform
	seed  uint64
	r     *rand.Rand
	bound float64
	best  *plan.Plan
	wrong error // a plan that cannot be replayed
	// Of the best plan that comes of a schedule with transfers: that, what it was looked for
	// with, and how it went. Before there is one, schedule is that without transfers.
	schedule *problemrematgraph.Schedule
	limits   []float64
	went     *clock
	smooth   float64 // the largest part of what can be away at which nothing waited
}

func (s *search) done() bool {
	return s.ctx.Err() != nil || s.best != nil && s.best.Claims.Makespan <= s.bound*(1+plan.Tolerance)
}

// updateIncumbent keeps a plan if it is the best.
func (s *search) updateIncumbent(p *plan.Plan) {
	if s.best == nil || p.Claims.Makespan < s.best.Claims.Makespan {
		s.best = p
	}
}

// perNode is the time that the search without transfers has for each node at least: less
// is too little to begin with.
const perNode = 600 * time.Microsecond

// alone takes the plan of the search without transfers, for which there is a quarter of the
// time; of a short one more, but not all. At the end of the time it is not begun where there is another
// plan: what it begins with does not ask for the time.
func (s *search) alone(rounds int) {
	part, cancel := s.ctx, context.CancelFunc(func() {})
	if end, limited := s.ctx.Deadline(); limited {
		left := time.Until(end)
		if s.went != nil && left < time.Duration(s.v.N)*perNode/4 {
			return
		}
		part, cancel = context.WithTimeout(s.ctx, max(left/4, min(left*9/10, time.Duration(s.v.N)*perNode)))
	}
	defer cancel()
	at := s.p
	at.Bandwidth = 0
	x, err := rematgraph.Search(part, s.v, at, s.seed, rounds)
	if err != nil {
		return
	}
	if s.went == nil {
		s.schedule, _ = s.v.FromPlan(x) // nil where it is in no stages
	}
	x.Problem, x.Platform = plan.RematOffload, s.p
	s.updateIncumbent(x)
}

// level looks for a schedule with a part of what the link could have away, from another
// one, nil: from those that the search of rematerialization begins with.
func (s *search) level(share float64, rounds int, other *problemrematgraph.Schedule) {
	if s.done() {
		return
	}
	limits := s.stageLimits(share)
	var from []*problemrematgraph.Schedule
	if other != nil {
		from = append(from, other)
	}
	if c := s.replaySchedule(rematgraph.SearchStageLimits(s.ctx, s.v, limits, s.seed, rounds, from...), limits); c != nil &&
		c.now <= c.clock[len(c.order)] {
		s.smooth = max(s.smooth, share)
	}
}

// stageLimits returns what each stage may have if a part of what the link could have away is away.
func (s *search) stageLimits(share float64) []float64 {
	limits := make([]float64, s.v.N)
	total, now := s.v.Graph.TotalTime(), 0.0
	for t := range limits {
		away := share * s.p.Bandwidth * min(now, total-now-s.v.Time[t])
		limits[t] = s.p.Memory + max(0, away)
		now += s.v.Time[t]
	}
	return limits
}

// replaySchedule lets a schedule happen, and keeps it if it is the best; nil is none, one that is far from it, and
// one of too many computations: what keeps least of a huge graph, where the time ended before it was repaired,
// computes millions of nodes, and its route would take all of the machine's memory.
func (s *search) replaySchedule(x *problemrematgraph.Schedule, limits []float64) *clock {
	if x == nil || x.Computations() > problemrematgraph.MostComputations || s.best != nil && x.Cost() > hopeless*s.best.Claims.Makespan {
		return nil
	}
	c := newRoute(s.v, x.Order()).timed(s.ctx, s.p, s.r.Uint64())
	if c == nil {
		return nil
	}
	p, err := c.plan("search", s.p)
	if err != nil {
		s.wrong = err
		return nil
	}
	s.updateIncumbent(p)
	if s.went == nil || c.now < s.went.now {
		s.schedule, s.limits, s.went = x, limits, c
	}
	return c
}

// tune changes what stages may take, by what the best schedule left and waited for.
func (s *search) tune(rounds int) {
	if s.done() || s.went == nil {
		return
	}
	limits := make([]float64, s.v.N)
	more, less := s.r.Float64(), 2*s.r.Float64()
	first := make([]bool, s.v.N)
	t := 0
	room := -1.0
	for k, j := range s.went.order {
		if h := s.went.headroom[k]; room < 0 || h < room {
			room = h
		}
		limits[t] -= less * s.went.waits[k] * s.p.Bandwidth
		if first[j] {
			continue
		}
		first[j] = true
		limits[t] = max(s.p.Memory, s.limits[t]+limits[t]+more*room)
		t, room = t+1, -1
	}
	s.replaySchedule(rematgraph.SearchStageLimits(s.ctx, s.v, limits, s.r.Uint64(), rounds, s.schedule), limits)
}
