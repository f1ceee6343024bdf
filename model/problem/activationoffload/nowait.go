package activationoffload

import (
	"fmt"
	"math"

	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
)

// Choice has the activations to offload and the orders of their transfers.
type Choice struct {
	Offload  []int // i of ā_i, in the order of the transfers
	Prefetch []int // the same indices; nil: Offload reversed
}

// Unfit is the reason why a choice yields no plan. It wraps plan.ErrNoPlan.
type Unfit struct {
	Op    string  // the computation that cannot run: "F_3"
	Short float64 // missing bytes when all transfers that can precede it have ended
	// Waits is the activation whose transfer is next in the order and cannot start before Op has
	// run; -1: none, the set is too small in any order.
	Waits int
}

func (e *Unfit) Error() string {
	s := fmt.Sprintf("offload: %s lacks %.15g bytes when all chosen activations that can be on the host are there", e.Op, e.Short)
	if e.Waits >= 0 {
		s = fmt.Sprintf("offload: %s lacks %.15g bytes, and next in the order of transfers is abar_%d, which cannot move yet: transfer "+
			"others before", e.Op, e.Short, e.Waits)
	}
	return s
}

func (e *Unfit) Unwrap() error { return plan.ErrNoPlan }

// Schedule returns the best no-wait plan for a choice ([004] Proposition 1): the
// forward phase and its offloads start as early as they can, the backward phase
// and its prefetches, seen from the end of the plan, as late as they can, and
// the phases are joined as early as memory and link allow, so that offloads may
// run on into the backward phase, or prefetches start in the forward phase. All
// offloads precede all prefetches; of the plans with these orders none is
// shorter. (Plans in which a prefetch precedes an offload can be: finding 17.)
//
// The errors are those of the methods, an *Unfit if the choice gives no plan, or
// one wrapping ErrChoice if it makes no sense. O(N log N), of which writing the
// plan is the larger part.
func Schedule(c *chain.Chain, p platform.Platform, method string, ch Choice) (*plan.Plan, error) {
	in, err := New(c, p)
	if err != nil {
		return nil, err
	}
	return in.Schedule(method, ch)
}

func (in *Instance) Schedule(method string, ch Choice) (*plan.Plan, error) {
	s := NewNoWait(in)
	if err := s.set(ch); err != nil {
		return nil, err
	}
	T := s.Evaluate()
	if s.Unfit != nil {
		return nil, s.Unfit
	}
	return s.Plan(method, T), nil
}

// NoWait evaluates choices of one instance without allocating.
type NoWait struct {
	in *Instance
	// Offload is the order of offloads, Fetch that of prefetches from the end of the plan
	// backwards. Both hold indices i of ā_i.
	Offload, Fetch []int
	fwd, bwd       phase
	// Unfit is set by Evaluate if there is no plan and Explain is set.
	Unfit   *Unfit
	Explain bool
}

// phase has the times of one phase: start and end of its computations by layer, index 0 being time
// 0, and ends of its transfers in their order. The backward phase is in reversed time: its times
// are before the end of the plan.
type phase struct {
	start, end []float64
	done       []float64
	used       []bool // scratch: the transfer of ā_i has been counted
}

func NewNoWait(in *Instance) *NoWait {
	s := &NoWait{in: in, Explain: true, Offload: make([]int, 0, in.N), Fetch: make([]int, 0, in.N)}
	for _, f := range []*phase{&s.fwd, &s.bwd} {
		f.start, f.end = make([]float64, in.N+1), make([]float64, in.N+1)
		f.done, f.used = make([]float64, in.N), make([]bool, in.N+1)
	}
	return s
}

// set validates ch and makes it the next choice to evaluate.
func (s *NoWait) set(ch Choice) error {
	chosen := make([]bool, s.in.N)
	for _, i := range ch.Offload {
		switch {
		case i < 0 || i >= s.in.N:
			return fmt.Errorf("%w: abar_%d is offloaded, the choices are abar_0 to abar_%d", ErrChoice, i, s.in.N-1)
		case chosen[i]:
			return fmt.Errorf("%w: abar_%d is offloaded twice, once is enough", ErrChoice, i)
		}
		chosen[i] = true
	}
	for _, i := range ch.Prefetch {
		if i < 0 || i >= s.in.N || !chosen[i] {
			return fmt.Errorf("%w: abar_%d is prefetched without being offloaded, or twice", ErrChoice, i)
		}
		chosen[i] = false
	}
	if ch.Prefetch != nil && len(ch.Prefetch) != len(ch.Offload) {
		return fmt.Errorf("%w: %d activations are offloaded and %d prefetched, give each once in both or leave out the prefetches", ErrChoice,
			len(ch.Offload), len(ch.Prefetch))
	}
	s.Offload = append(s.Offload[:0], ch.Offload...)
	s.Fetch = s.Fetch[:0]
	if ch.Prefetch == nil {
		s.Fetch = append(s.Fetch, ch.Offload...)
		return nil
	}
	for k := len(ch.Prefetch) - 1; k >= 0; k-- {
		s.Fetch = append(s.Fetch, ch.Prefetch[k])
	}
	return nil
}

// Choose makes a set, in sorted order, the next choice to evaluate. O(N).
func (s *NoWait) Choose(away []bool) {
	s.Offload, s.Fetch = s.Offload[:0], s.Fetch[:0]
	for i := range s.in.N {
		if away[i] {
			s.Offload, s.Fetch = append(s.Offload, i), append(s.Fetch, i)
		}
	}
}

// Evaluate returns the makespan of the best no-wait plan for Offload and Fetch, +Inf if there is
// none. O(N).
func (s *NoWait) Evaluate() float64 {
	s.Unfit = nil
	if !s.run(&s.fwd, s.Offload, false) || !s.run(&s.bwd, s.Fetch, true) {
		return math.Inf(1)
	}
	return s.join()
}

// run fills one phase; false if an operation never finds the memory it needs.
//
// Before operation ℓ at least X = ā_0 + … + ā_{ℓ-1} + M_ℓ − M bytes have left the
// GPU, none of them of ā_{ℓ-1}, which ℓ uses: it waits for as many transfers as
// that takes. ā_i can be offloaded after F_i. In reversed time a prefetch is an
// offload that starts after B_{i+1}. O(N), as transfers are counted once.
func (s *NoWait) run(f *phase, order []int, backward bool) bool {
	in := s.in
	u, need, lag := in.UF, in.NeedF, 0
	if backward {
		u, need, lag = in.UB, in.NeedB, 1
	}
	clear(f.used)
	q, link, gone := 0, 0.0, 0.0 // transfers counted, end of the last one, their bytes
	for l := 1; l <= in.N; l++ {
		t := f.end[l-1]
		x := in.Before[l] + need[l] - in.Memory
		for {
			away := gone
			if f.used[l-1] {
				away -= in.Abar[l-1]
			}
			if away >= x {
				break
			}
			if q == len(order) || order[q]+lag >= l {
				if s.Explain {
					s.Unfit = &Unfit{Op: opName(backward, l), Short: x - away, Waits: -1}
					if q < len(order) && s.enough(x-away, l, order[q:]) {
						s.Unfit.Waits = order[q]
					}
				}
				return false
			}
			i := order[q]
			link = max(link, f.end[i+lag]) + in.Move[i]
			f.done[q], f.used[i] = link, true
			gone += in.Abar[i]
			t = max(t, link)
			q++
		}
		f.start[l], f.end[l] = t, t+u[l]
	}
	for ; q < len(order); q++ {
		link = max(link, f.end[order[q]+lag]) + in.Move[order[q]]
		f.done[q] = link
	}
	return true
}

// enough reports whether layer l would have enough memory if all remaining transfers that may
// precede it had ended.
func (s *NoWait) enough(short float64, l int, left []int) bool {
	for _, i := range left {
		if i <= l-2 {
			short -= s.in.Abar[i]
		}
	}
	return short <= 0
}

// join returns the minimum makespan T with the forward phase at its times and the backward phase at
// T minus its times. Each condition states a minimum delay between an event of the forward phase
// and one of the backward phase. O(N).
func (s *NoWait) join() float64 {
	in, m := s.in, len(s.Offload)
	T := s.fwd.end[in.N] + s.bwd.end[in.N]
	if m == 0 {
		return T
	}
	T = max(T, s.fwd.done[m-1]+s.bwd.done[m-1]) // one link, offloads first
	last := 0                                   // the largest index offloaded
	for k, i := range s.Fetch {
		T = max(T, s.fwd.end[i+1]+s.bwd.done[k]) // ā_i is freed before it is prefetched
		last = max(last, i)
	}
	return max(T, s.joinForward(last), s.joinBackward(last))
}

// joinForward is for prefetches in the forward phase. They follow the last
// offload, so only F_ℓ with ℓ > last can run beside them. When F_ℓ ends, at
// least X bytes, as in run, still have to be fetched: prefetch k, counted from
// the end of the plan, starts afterwards if those before it in that order,
// 0..k-1, are less. Later operations first: only a larger X than theirs counts.
func (s *NoWait) joinForward(last int) float64 {
	in, T := s.in, 0.0
	k, left := 0, 0.0 // prefetches 0..k-1 start after the current F_ℓ; their bytes
	for l := in.N; l > last && k < len(s.Fetch); l-- {
		x := in.Before[l] + in.NeedF[l] - in.Memory
		if l == last+1 {
			x += in.Abar[last] // it may have been offloaded, but F_ℓ uses it
		}
		for k < len(s.Fetch) && left < x {
			left += in.Abar[s.Fetch[k]]
			k++
			T = max(T, s.fwd.end[l]+s.bwd.done[k-1])
		}
	}
	return T
}

// joinBackward handles offloads in the backward phase. They precede the first prefetch, which
// precedes B_{last+1}. Before B_ℓ at least X bytes have been freed.
func (s *NoWait) joinBackward(last int) float64 {
	in, T := s.in, 0.0
	q, gone := 0, 0.0
	for l := in.N; l > last+1 && q < len(s.Offload); l-- {
		x := in.Before[l] + in.NeedB[l] - in.Memory
		for q < len(s.Offload) && gone < x {
			gone += in.Abar[s.Offload[q]]
			q++
			T = max(T, s.fwd.done[q-1]+s.bwd.end[l])
		}
	}
	return T
}

// Plan returns the plan of the last evaluated choice, with makespan T. O(N log N).
func (s *NoWait) Plan(method string, T float64) *plan.Plan {
	in := s.in
	ops := make([]plan.Op, 0, 2*in.N+2*len(s.Offload))
	// T minus a time is rounded: free is the end of the previous operation.
	free := 0.0
	for l := 1; l <= in.N; l++ {
		free = s.fwd.end[l]
		ops = append(ops, plan.Op{Op: plan.OpFAll, Layer: l, Start: s.fwd.start[l], End: free})
	}
	for l := in.N; l >= 1; l-- {
		start := max(free, T-s.bwd.end[l])
		free = start + in.UB[l]
		ops = append(ops, plan.Op{Op: plan.OpB, Layer: l, Start: start, End: free})
	}
	end := free
	free = 0
	transfer := func(kind string, i int, start float64) {
		free = start + in.Move[i]
		ops = append(ops, plan.Op{Op: kind, Tensor: plan.TensorAbar, Layer: i, Start: start, End: free})
	}
	for k, i := range s.Offload {
		transfer(plan.OpO, i, max(free, s.fwd.done[k]-in.Move[i]))
	}
	for k := len(s.Fetch) - 1; k >= 0; k-- {
		transfer(plan.OpP, s.Fetch[k], max(free, T-s.bwd.done[k]))
	}
	return in.NewPlan(method, ops, end)
}
