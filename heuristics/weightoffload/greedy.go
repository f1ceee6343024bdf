package weightoffload

import (
	"context"
	"fmt"
	"math"

	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/problem/weightoffload"
)

// Greedy returns the plan of [001] §5: Algorithm 1 selects the choices, with the discount, and
// Algorithm 2 schedules them for every cut point. It tries the choices of Algorithm 1 as printed,
// if that terminates, as corrected (see instance.excess), and without the discount; the last may be
// better and are still uploaded once. It keeps the shortest schedule, so the discount never makes a
// plan worse.
//
// The statement that "all operations eventually become feasible" fails when activations shrink by
// more than the next weight grows: the prefetch then waits for memory that only its own operation
// frees. So Greedy also tries smaller memories and keeps the best (see instance.memories). If none
// gives a schedule, it returns an error wrapping plan.ErrNoPlan.
//
// When ctx ends, it returns the shortest schedule so far. O(L³), of which Algorithm 2 takes O(L²)
// unless prefetches run far ahead.
func Greedy(ctx context.Context, c *chain.Chain, p platform.Platform) (*plan.Plan, error) {
	return greedy(ctx, c, p, "greedy", true, everySelection, true)
}

// GreedyPrinted is [001] §5 to the letter: the choices of Algorithm 1 as
// printed, which counts the weight of an operation twice, scheduled by
// Algorithm 2 for every cut point. Where the printed loop would never end, no
// choice covering what is missing, it returns an error wrapping plan.ErrNoPlan.
// O(L³).
func GreedyPrinted(ctx context.Context, c *chain.Chain, p platform.Platform) (*plan.Plan, error) {
	return greedy(ctx, c, p, "greedy-printed", true, everySelection[:1], false)
}

// GreedyNoDiscount returns the plan of Greedy* of [001] §7: a weight that is evicted twice a cycle
// is uploaded twice, in the costs of Algorithm 1 and in the schedule. O(L³).
func GreedyNoDiscount(ctx context.Context, c *chain.Chain, p platform.Platform) (*plan.Plan, error) {
	return greedy(ctx, c, p, "greedy-nodiscount", false, withoutDiscount, true)
}

// selection is a variant of Algorithm 1: how often it counts the weight of an operation itself, and
// whether its second choice of a layer costs less.
type selection struct {
	own      int
	discount bool
}

var (
	everySelection  = []selection{{2, true}, {2, false}, {1, true}, {1, false}}
	withoutDiscount = []selection{{2, false}, {1, false}}
)

func greedy(ctx context.Context, c *chain.Chain, p platform.Platform, method string, discount bool, selections []selection,
	smaller bool,
) (*plan.Plan, error) {
	return solve(c, p, method, func(in *instance) (*weightoffload.Schedule, error) {
		s := newScheduler(ctx, in, discount)
		memories := []float64{in.Memory}
		if smaller {
			memories = in.memories()
		}
		for _, memory := range memories {
			if s.found.T <= in.Compute()*(1+1e-12) {
				break // no schedule is shorter than the computations
			}
			s.greedy(selections, memory)
		}
		if !s.any() {
			return nil, s.none(method)
		}
		return s.found, nil
	})
}

// none returns the error of a method that found no schedule.
func (s *scheduler) none(method string) error {
	if err := s.ctx.Err(); err != nil {
		return fmt.Errorf("%s: %w before the first schedule: %w", method, plan.ErrNoPlan, err)
	}
	return fmt.Errorf("%s: %w: no cut point of Algorithm 2 gives a schedule that fits in %s", method, plan.ErrNoPlan,
		s.in.Chain.Unit.Exactly(s.in.Memory))
}

// scheduler is Algorithm 2 of [001].
type scheduler struct {
	ctx context.Context // its end keeps what was found
	machine
	discount bool
	now      *weightoffload.Schedule
	found    *weightoffload.Schedule // the best of all cut points
	gone     []float64               // by gap: when its weight is deleted
	sent     []bool                  // by layer: w_k has been uploaded since B_k
	waiting  []int                   // WL: layers with choice (k,1) only, after B_k
	fetch    []int                   // layers with choice (k,1), in the order of their B
}

func newScheduler(ctx context.Context, in *instance, discount bool) *scheduler {
	s := &scheduler{
		ctx: ctx, machine: *newMachine(in), discount: discount,
		now: weightoffload.NewSchedule(in.Instance), found: weightoffload.NewSchedule(in.Instance),
		gone: make([]float64, in.N), sent: make([]bool, in.L),
	}
	s.found.T = math.Inf(1)
	if !discount {
		s.now.Again = make([]float64, in.L)
	}
	return s
}

// greedy runs Algorithms 1 and 2 for the given memory and stores the best schedule in s.found.
func (s *scheduler) greedy(selections []selection, memory float64) {
	s.mem.limit = memory
	away, excess := make([]bool, s.in.N), make([]float64, s.in.N)
	for _, v := range selections {
		if s.ctx.Err() != nil {
			break
		}
		clear(away)
		if s.in.choose(away, memory, v.own, v.discount, excess) {
			s.try(away)
		}
	}
}

// any reports whether there is a schedule.
func (s *scheduler) any() bool { return !math.IsInf(s.found.T, 1) }

// memories returns the memory of in, and all multiples of a twentieth of the range
// that are smaller. A plan for less memory is one for more, and where Algorithm 2
// has less room it may find a shorter one, or the only one: with these a method that
// has a plan at 15 % of the range has none that is longer at 20 %.
func (in *instance) memories() []float64 {
	all := []float64{in.Memory}
	low, high := in.Range()
	for k := range steps {
		if m := math.Floor(low + (high-low)*float64(k)/steps); m < in.Memory {
			all = append(all, m)
		}
	}
	return all
}

// steps is into how many parts memories divides the range.
const steps = 20

// try schedules the choices for every cut point and keeps the shortest
// schedule in s.found if it is shorter than that.
//
// The cut divides the communications into those performed before B_L, that is
// at the end of the cycle before, and the others. Only prefetches for
// backwards can come before B_L: an upload or a prefetch for a forward follows
// the backward of its own layer.
func (s *scheduler) try(away []bool) {
	copy(s.now.Away, away)
	s.fetch = s.fetch[:0]
	for k := s.in.L - 1; k >= 0; k-- {
		if away[2*k+1] {
			s.fetch = append(s.fetch, k)
		}
	}
	for cut := 0; cut <= len(s.fetch) && s.ctx.Err() == nil; cut++ {
		if s.run(cut) {
			s.found.CopyFrom(s.now)
		}
	}
}

// run schedules one cycle in which the prefetches of fetch[:cut] were
// performed before B_L, and reports whether that gave a cycle shorter than
// s.found. O(L) placements.
func (s *scheduler) run(cut int) bool {
	in, now := s.in, s.now
	here := in.Total
	for _, k := range s.fetch[cut:] {
		here -= in.W[k]
	}
	if !s.start(here) {
		return false
	}
	s.waiting = s.waiting[:0]
	clear(s.sent)
	for k := range now.Again {
		now.Again[k] = math.NaN()
	}
	fetched := cut
	for k := in.L - 1; k >= 0; k-- {
		ready := s.free
		if fetched < len(s.fetch) && s.fetch[fetched] == k {
			fetched++
			now.Pre[2*k+1] = s.prefetch(k, 0)
			ready = now.Pre[2*k+1] + in.Move[k]
		}
		if !s.do(in.B(k), ready) {
			return false
		}
		switch {
		case now.Away[2*k]:
			s.early()
			now.Up[k] = s.upload(k, s.free)
			s.sent[k] = true
			s.gone[2*k] = s.off
			s.remove(k, s.off)
		case now.Away[2*k+1]:
			s.waiting = append(s.waiting, k)
		}
	}
	for k := range in.L {
		ready := s.free
		if now.Away[2*k] {
			now.Pre[2*k] = s.prefetch(k, s.gone[2*k])
			ready = now.Pre[2*k] + in.Move[k]
		}
		if !s.do(in.F(k), ready) {
			return false
		}
		if now.Away[2*k+1] {
			s.evict(k)
		}
	}
	for _, k := range s.fetch[:cut] {
		now.Pre[2*k+1] = s.prefetch(k, s.gone[2*k+1])
		if math.IsInf(now.Pre[2*k+1], 1) {
			return false
		}
	}
	now.T = max(s.free, s.pre, s.off)
	if !(now.T < s.found.T) {
		return false
	}
	for _, k := range s.fetch[cut:] {
		now.Pre[2*k+1] += now.T
	}
	return true
}

// do computes operation j; false if it never fits or ends too late to beat the
// best schedule known.
func (s *scheduler) do(j int, ready float64) bool {
	s.now.Op[j] = s.compute(j, ready)
	return s.free < s.found.T && !math.IsInf(s.now.Op[j], 1) && s.ctx.Err() == nil
}

// early uploads weights of WL that fit before the end of the current
// backward, the smallest first, without deleting them: the discount in time,
// w_k being the same before F_k and after.
func (s *scheduler) early() {
	for len(s.waiting) > 0 {
		i := 0
		for o, k := range s.waiting {
			if s.in.W[k] < s.in.W[s.waiting[i]] {
				i = o
			}
		}
		k := s.waiting[i]
		from := max(s.off, s.now.Op[s.in.B(k)]+s.in.U[s.in.B(k)])
		if s.free-from < s.in.Move[k] {
			return
		}
		s.now.Up[k] = s.upload(k, from)
		s.sent[k] = true
		s.waiting = append(s.waiting[:i], s.waiting[i+1:]...)
	}
}

// evict removes w_k after F_k: at once if the host has its value, else after an upload.
func (s *scheduler) evict(k int) {
	gone := s.free
	switch {
	case !s.sent[k]:
		s.now.Up[k] = s.upload(k, s.free)
		gone = s.off
	case !s.now.Away[2*k]:
		gone = max(gone, s.now.Up[k]+s.in.Move[k])
	case !s.discount:
		s.now.Again[k] = s.upload(k, s.free)
		gone = s.off
	}
	s.gone[2*k+1] = gone
	s.remove(k, gone)
}
