package weightoffload

import (
	"cmp"
	"math"
	"slices"

	"workbench/model/cycleratio"
	"workbench/model/plan"
	verifyweightoffload "workbench/model/verify/weightoffload"
)

// Schedule is a cyclic plan in normal form. In each gap in which a weight is on the host it is
// deleted once, as early as possible, and prefetched once. It is uploaded once a cycle if it is
// ever deleted, before the first deletion.
//
// Every valid plan can be brought to this form without changing T. Between two uses only the first
// deletion and the last prefetch count: omitting the residence between them, and the uploads in it
// of a value that the host already holds, frees memory and links. Of the uploads after a backward
// only the first counts, since a deletion needs one that has ended and none of them frees memory.
// An earlier deletion only frees memory.
//
// Times are unwrapped: Op[j] is the start of operation j in the cycle that starts at Op[0]. Events
// of gap 2k lie between B_k and F_k of this cycle, those of gap 2k+1 between F_k of this cycle and
// B_k of the next, so they may exceed T.
type Schedule struct {
	T    float64   // the period, seconds
	Op   []float64 // 2L
	Away []bool    // 2L, by gap: the weight is on the host
	Pre  []float64 // 2L: start of the prefetch that ends the gap, if Away
	Up   []float64 // L: start of the upload after B_k, if a gap of k is Away
	// Again has the starts of second uploads after F_k, which Greedy* of [001] makes where others
	// need none; NaN where there is none. It is empty in normal form.
	Again []float64
}

// NewSchedule returns a schedule with all times 0 and all weights resident.
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

// Uploads reports whether w_k is uploaded, once a cycle: if it is ever on the host.
func (s *Schedule) Uploads(k int) bool { return s.Away[2*k] || s.Away[2*k+1] }

// Deleted returns the time at which the weight of gap g is deleted: as soon as its last use and the
// upload of its value have ended.
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

// Plan returns s as a plan: operations in order of time, starts in [0,T). Its peak claim is that of
// the verifier, which alone defines the order of simultaneous events. A period of 0 cannot be
// replayed, and its plan has no claims. O(L log L).
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

// wrap returns t modulo T in [0,T), and 0 for times that differ from a multiple of T by rounding
// only.
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

// Shift adds d to all times.
func (s *Schedule) Shift(d float64) {
	for _, times := range [...][]float64{s.Op, s.Pre, s.Up, s.Again} {
		for i := range times {
			times[i] += d
		}
	}
}

// StartOf returns the start of operation j, relative to this cycle: j ≥ 2L are operations of the
// next.
func (s *Schedule) StartOf(j int) float64 {
	if n := len(s.Op); j >= n {
		return s.Op[j-n] + s.T
	}
	return s.Op[j]
}

// window returns the interval that contains all events of gap g: the end of the operation before it
// and the start of the one after it.
func (s *Schedule) window(in *Instance, g int) (from, to float64) {
	a, b := in.Last(g), in.Use(g)
	from, to = s.Op[a]+in.U[a], s.Op[b]
	if b < a {
		to += s.T
	}
	return from, to
}
