package weightoffload

import (
	"cmp"
	"math"
	"slices"

	"workbench/model/cycleratio"
	"workbench/model/plan"
	verifyweightoffload "workbench/model/verify/weightoffload"
)

// Schedule is a cyclic plan in normal form: a weight is deleted once, as soon
// as that may be, and prefetched once in each gap in which it is away, and
// uploaded once a cycle if it is ever away, before it is first deleted.
//
// Every valid plan can be brought to it without changing T: between two uses,
// only the first deletion and the last prefetch count, since leaving out the
// stay between them (and the uploads in it, of a value that the host holds
// already) frees memory and links; of the uploads after a backward only the
// first counts, since a deletion needs one that has ended, and none of them
// frees anything; and an earlier deletion frees memory, no more.
//
// Times are unwrapped: Op[j] is the start of operation j in the cycle that
// starts at Op[0]; what happens in gap 2k lies between B_k and F_k of this
// cycle, what happens in gap 2k+1 between F_k of this cycle and B_k of the
// next, so it may exceed T.
type Schedule struct {
	T    float64   // the period, seconds
	Op   []float64 // 2L
	Away []bool    // 2L, by gap
	Pre  []float64 // 2L: start of the prefetch that ends the gap, if away
	Up   []float64 // L: start of the upload after B_k, if a gap of k is away
	// Again holds the starts of second uploads after F_k, which Greedy* of
	// [001] makes where others need none, NaN where there is none. It is empty
	// in normal form.
	Again []float64
}

// NewSchedule returns a schedule in which nothing is placed yet.
func NewSchedule(in *Instance) *Schedule {
	return &Schedule{Op: make([]float64, in.N), Away: make([]bool, in.N), Pre: make([]float64, in.N), Up: make([]float64, in.L)}
}

// CopyFrom makes s equal to o.
func (s *Schedule) CopyFrom(o *Schedule) {
	s.T = o.T
	copy(s.Op, o.Op)
	copy(s.Away, o.Away)
	copy(s.Pre, o.Pre)
	copy(s.Up, o.Up)
	s.Again = append(s.Again[:0], o.Again...)
}

// Uploads reports whether w_k is uploaded: once a cycle if it ever leaves.
func (s *Schedule) Uploads(k int) bool { return s.Away[2*k] || s.Away[2*k+1] }

// Deleted returns when the weight of gap g is deleted: as soon as its last use
// and the upload of its value have ended.
func (s *Schedule) Deleted(in *Instance, g int) float64 {
	k, j := g>>1, in.Last(g)
	t := s.Op[j] + in.U[j]
	switch {
	case g&1 == 0 || !s.Away[2*k]:
		t = max(t, s.Up[k]+in.Move[k])
	case len(s.Again) > 0 && !math.IsNaN(s.Again[k]):
		t = max(t, s.Again[k]+in.Move[k])
	}
	return t
}

// Plan writes s as a plan: operations in order of time, starts in [0,T). It claims the peak that its
// verifier finds: which bytes of an instant are there together is for nobody else to say. A
// period of nothing cannot be replayed, and its plan claims nothing. O(L log L).
func (s *Schedule) Plan(in *Instance, method string) *plan.Plan {
	period := s.T
	p := &plan.Plan{
		Format: plan.Format, Problem: plan.WeightOffload, Method: method, Instance: plan.InstanceRef{Name: in.Chain.Name},
		Platform: in.Platform, Period: &period, Unit: in.Chain.Unit,
	}
	p.Ops = make([]plan.Op, 0, 7*in.L)
	add := func(kind, tensor string, k int, start, duration float64) {
		start = wrap(start-s.Op[0], s.T)
		p.Ops = append(p.Ops, plan.Op{Op: kind, Tensor: tensor, Layer: k + 1, Start: start, End: start + duration})
	}
	for j := range s.Op {
		kind := plan.OpF
		if in.Backward(j) {
			kind = plan.OpB
		}
		add(kind, "", in.Layer(j), s.Op[j], in.U[j])
	}
	for k := range s.Up {
		if s.Uploads(k) {
			add(plan.OpO, plan.TensorW, k, s.Up[k], in.Move[k])
		}
		if len(s.Again) > 0 && !math.IsNaN(s.Again[k]) {
			add(plan.OpO, plan.TensorW, k, s.Again[k], in.Move[k])
		}
	}
	for g, away := range s.Away {
		if away {
			add(plan.OpD, plan.TensorW, g>>1, s.Deleted(in, g), 0)
			add(plan.OpP, plan.TensorW, g>>1, s.Pre[g], in.Move[g>>1])
		}
	}
	slices.SortStableFunc(p.Ops, func(a, b plan.Op) int { return cmp.Compare(a.Start, b.Start) })
	if r, err := verifyweightoffload.Verify(in.Chain, p); err == nil {
		p.Claims = plan.Claims{Makespan: s.T, PeakMemory: r.PeakMemory}
	}
	return p
}

// wrap returns t modulo T in [0,T), and 0 for times that differ from a
// multiple of T by rounding only.
func wrap(t, T float64) float64 {
	if T <= 0 {
		return 0
	}
	t -= T * math.Floor(t/T)
	if t >= T*(1-cycleratio.Tolerance) || t <= T*cycleratio.Tolerance {
		return 0
	}
	return t
}

// Shift moves everything by d, so that the cycle may start at 0.
func (s *Schedule) Shift(d float64) {
	for _, times := range [...][]float64{s.Op, s.Pre, s.Up, s.Again} {
		for i := range times {
			times[i] += d
		}
	}
}

// At returns the start of operation j, counted on from the start of this cycle:
// j ≥ 2L are operations of the next.
func (s *Schedule) StartOf(j int) float64 {
	if n := len(s.Op); j >= n {
		return s.Op[j-n] + s.T
	}
	return s.Op[j]
}

// window returns the times between which everything in gap g happens: the end
// of the operation before it and the start of the one after it.
func (s *Schedule) window(in *Instance, g int) (from, to float64) {
	a, b := in.Last(g), in.Use(g)
	from, to = s.Op[a]+in.U[a], s.Op[b]
	if b < a {
		to += s.T
	}
	return from, to
}
