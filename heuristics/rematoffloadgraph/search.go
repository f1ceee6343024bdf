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

// Search is a method of this project. A link extends the memory: at any time the host can hold what has been sent
// before and can be fetched afterwards. It therefore searches schedules by the search of rematerialization, in
// stages each of which has the memory plus a fraction of that extension. Then the excess is offloaded (see cover),
// and the clock times the result. The best schedule is tuned by giving stages less memory where computations wait
// and more where memory is free.
//
// It begins with the plan of Offload and with that of the search without transfers, and is never worse than these.
// With huge graphs of repeated blocks it derives a plan from a step with fewer blocks before the second, which may
// not finish before ctx ends. The same seed and rounds give the same plan; when ctx ends it returns the best plan
// so far.
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
		return nil, fmt.Errorf("search: %w: offloading every value that may be offloaded does not suffice", plan.ErrNoPlan)
	}
	s.best.Method = "search"
	return s.best, nil
}

// begin finds the plans whose best one is tuned.
func (s *search) begin(rounds int) {
	s.bound = s.v.Graph.TotalTime()
	if x, err := Offload(s.ctx, s.v, s.p); err == nil {
		s.updateIncumbent(x)
	}
	if s.v.N > rematgraph.HugeGraph {
		s.unrolled(rounds)
	}
	if s.ctx.Err() == nil { // the bound of a huge graph takes a second; plans come first
		s.bound = s.v.LinkedBound(s.p.Memory, s.p.Bandwidth).Seconds
	}
	if s.best == nil || !s.done() {
		s.alone(rounds)
	}
	for _, share := range shares {
		if share < s.smooth {
			break // less offloaded, more recomputed
		}
		s.level(share, rounds/10, s.schedule)
	}
	s.level(max(s.smooth, shares[0]), rounds/10, nil) // from scratch
}

// unrolled takes the initial plans of the search from a step with fewer blocks, with the same link and a fraction
// of the memory such that the result exceeds the memory only slightly.
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
		s.replaySchedule(x, limits) // in one that does not fit, computations wait
		return over, true
	})
}

// A step with fewer blocks is searched lengths times, first with a hundredth of the rounds, then with another
// hundredth more each time.
const (
	lengths     = 6
	shortRounds = 100
)

// shares are the fractions of the link's extension of the memory with which schedules are searched.
var shares = [...]float64{0.9, 1, 0.95, 0.8, 0.65, 0.5, 0.3}

// hopeless is the multiple of the best plan's makespan above which the computations of a schedule exclude it: its
// waiting times do not guide the search.
const hopeless = 2

// tunings limits the changes of the best schedule.
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
	// The schedule of the best plan with transfers, the limits with which it was found, and its simulation. Before
	// there is one, schedule is that without transfers.
	schedule *problemrematgraph.Schedule
	limits   []float64
	went     *clock
	smooth   float64 // the largest fraction at which no computation waited
}

func (s *search) done() bool {
	return s.ctx.Err() != nil || s.best != nil && platform.Closed(s.best.Claims.Makespan, s.bound, plan.Tolerance)
}

// updateIncumbent keeps a plan if it is the best.
func (s *search) updateIncumbent(p *plan.Plan) {
	if s.best == nil || p.Claims.Makespan < s.best.Claims.Makespan {
		s.best = p
	}
}

// perNode is the minimum time per node for the search without transfers.
const perNode = 600 * time.Microsecond

// alone adds the plan of the search without transfers, which gets a quarter of the time; of a short time more, but
// not all. At the end of the time it runs only if there is no other plan, since its initialisation ignores the
// time.
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
		s.schedule, _ = s.v.FromPlan(x) // nil if it is not in stages
	}
	x.Problem, x.Platform = plan.RematOffload, s.p
	s.updateIncumbent(x)
}

// level searches a schedule with a fraction of the link's extension of the memory, starting from another one, nil:
// from the initial ones of the search of rematerialization.
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

// stageLimits returns the memory limit of each stage for a fraction of the link's extension.
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

// replaySchedule simulates a schedule, and keeps it if it is the best. It skips nil, a schedule far from the best,
// and one of too many computations: the minimum-memory schedule of a huge graph that was not repaired in time
// computes millions of nodes, and its route would exhaust the machine's memory.
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

// tune changes the limits of stages, by the free memory and the waiting times of the best schedule.
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
