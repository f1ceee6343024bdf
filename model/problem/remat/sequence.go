package remat

import (
	"fmt"

	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
)

// Sequence is a plan under construction, whose operations follow each other without idle time. It
// tracks what is stored, so the peak is exact, and Err is set when an operation lacks an input.
type Sequence struct {
	Ops  []plan.Op
	Time float64 // end of the last operation, in seconds
	Peak float64 // peak memory so far
	Err  error

	v       *View
	a, abar []bool // by layer: it is stored
	stored  float64
}

// NewSequence returns a sequence that starts with a_0 and δ_N in memory.
func (v *View) NewSequence() *Sequence {
	flags := make([]bool, 2*(v.N+1))
	s := &Sequence{v: v, a: flags[:v.N+1], abar: flags[v.N+1:], stored: v.A[0] + v.Delta[v.N]}
	s.a[0], s.Peak = true, s.stored
	return s
}

// Has reports whether a_ℓ itself is stored.
func (s *Sequence) Has(l int) bool { return s.a[l] }

// run appends a computation with the given duration that reads layer ℓ-1 and needs during
// additional memory while it runs.
func (s *Sequence) run(op string, l int, duration, during float64) {
	if !s.a[l-1] && !s.abar[l-1] && s.Err == nil {
		s.Err = fmt.Errorf("%s %d has no input", op, l)
	}
	s.Peak = max(s.Peak, s.stored+during)
	s.Ops = append(s.Ops, plan.Op{Op: op, Layer: l, Start: s.Time, End: s.Time + duration})
	s.Time += duration
}

func (s *Sequence) store(flag *bool, size float64) {
	if !*flag {
		*flag = true
		s.stored += size
	}
}

func (s *Sequence) free(flag *bool, size float64) {
	if *flag {
		*flag = false
		s.stored -= size
	}
}

// All appends F_all ℓ.
func (s *Sequence) All(l int) {
	s.run(plan.OpFAll, l, s.v.UF[l], s.v.Abar[l]+s.v.OF[l])
	s.store(&s.abar[l], s.v.Abar[l])
}

// Checkpoint appends F_ck ℓ.
func (s *Sequence) Checkpoint(l int) {
	s.run(plan.OpFCk, l, s.v.UF[l], s.v.A[l]+s.v.OC[l])
	s.store(&s.a[l], s.v.A[l])
}

// None appends F_none ℓ, which frees a_{ℓ-1}.
func (s *Sequence) None(l int) {
	if !s.a[l-1] && s.Err == nil {
		s.Err = fmt.Errorf("there is no a_%d for F_none %d", l-1, l)
	}
	s.run(plan.OpFNone, l, s.v.UF[l], s.v.A[l]+s.v.OC[l])
	s.store(&s.a[l], s.v.A[l])
	s.free(&s.a[l-1], s.v.A[l-1])
}

// Backward appends B ℓ. It frees a_{ℓ-1}, not ā_{ℓ-1}.
func (s *Sequence) Backward(l int) {
	if !s.abar[l] && s.Err == nil {
		s.Err = fmt.Errorf("there is no ā_%d for B %d", l, l)
	}
	s.run(plan.OpB, l, s.v.UB[l], s.v.Delta[l-1]+s.v.OB[l])
	s.stored += s.v.Delta[l-1] - s.v.Delta[l]
	s.free(&s.abar[l], s.v.Abar[l])
	s.free(&s.a[l-1], s.v.A[l-1])
}

// Discard appends the discards of what is stored of layer ℓ: a_ℓ, ā_ℓ, both or nothing.
func (s *Sequence) Discard(l int) {
	if s.a[l] {
		s.discard(plan.TensorA, l)
		s.free(&s.a[l], s.v.A[l])
	}
	if s.abar[l] {
		s.discard(plan.TensorAbar, l)
		s.free(&s.abar[l], s.v.Abar[l])
	}
}

func (s *Sequence) discard(tensor string, l int) {
	s.Ops = append(s.Ops, plan.Op{Op: plan.OpD, Tensor: tensor, Layer: l, Start: s.Time, End: s.Time})
}

// Advance appends F_ck first, F_none first+1 .. F_none last.
func (s *Sequence) Advance(first, last int) {
	s.Checkpoint(first)
	for l := first + 1; l <= last; l++ {
		s.None(l)
	}
}

// Segment appends F_all first .. F_all last, B last .. B first.
func (s *Sequence) Segment(first, last int) {
	for l := first; l <= last; l++ {
		s.All(l)
	}
	for l := last; l >= first; l-- {
		s.Backward(l)
	}
}

// Plan returns the plan with its claims.
func (s *Sequence) Plan(method string, c *chain.Chain, p platform.Platform) *plan.Plan {
	out := plan.New(Problem, method, c, p)
	out.Ops = s.Ops
	out.Claims = plan.Claims{Makespan: s.Time, PeakMemory: s.Peak}
	return out
}
