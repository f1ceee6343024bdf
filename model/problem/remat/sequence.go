package remat

import (
	"fmt"

	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
)

// A Sequence is a plan under construction: operations follow each other without
// idle time. What is stored is followed, so that the peak is exact and Err says
// when an operation lacks what it reads.
type Sequence struct {
	Ops  []plan.Op
	Time float64 // end of the last operation, in seconds
	Peak float64 // the most memory so far
	Err  error

	v       *View
	a, abar []bool // what is stored, by layer
	stored  float64
}

// NewSequence starts with a_0 and δ_N in memory.
func (v *View) NewSequence() *Sequence {
	flags := make([]bool, 2*(v.N+1))
	s := &Sequence{v: v, a: flags[:v.N+1], abar: flags[v.N+1:], stored: v.A[0] + v.Delta[v.N]}
	s.a[0], s.Peak = true, s.stored
	return s
}

// Has reports whether a_ℓ itself is stored.
func (s *Sequence) Has(l int) bool { return s.a[l] }

// run appends a computation that takes so long, reads layer ℓ-1, and needs so
// much more memory while it runs.
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

// All is F_all ℓ.
func (s *Sequence) All(l int) {
	s.run(plan.OpFAll, l, s.v.UF[l], s.v.Abar[l]+s.v.OF[l])
	s.store(&s.abar[l], s.v.Abar[l])
}

// Checkpoint is F_ck ℓ.
func (s *Sequence) Checkpoint(l int) {
	s.run(plan.OpFCk, l, s.v.UF[l], s.v.A[l]+s.v.OC[l])
	s.store(&s.a[l], s.v.A[l])
}

// None is F_none ℓ, which consumes a_{ℓ-1}.
func (s *Sequence) None(l int) {
	if !s.a[l-1] && s.Err == nil {
		s.Err = fmt.Errorf("there is no a_%d for F_none %d", l-1, l)
	}
	s.run(plan.OpFNone, l, s.v.UF[l], s.v.A[l]+s.v.OC[l])
	s.store(&s.a[l], s.v.A[l])
	s.free(&s.a[l-1], s.v.A[l-1])
}

// Backward is B ℓ. It consumes a_{ℓ-1}, not ā_{ℓ-1}.
func (s *Sequence) Backward(l int) {
	if !s.abar[l] && s.Err == nil {
		s.Err = fmt.Errorf("there is no ā_%d for B %d", l, l)
	}
	s.run(plan.OpB, l, s.v.UB[l], s.v.Delta[l-1]+s.v.OB[l])
	s.stored += s.v.Delta[l-1] - s.v.Delta[l]
	s.free(&s.abar[l], s.v.Abar[l])
	s.free(&s.a[l-1], s.v.A[l-1])
}

// Discard discards what is stored of layer ℓ: D of a_ℓ, of ā_ℓ, or nothing.
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

// Advance is F_ck first, F_none first+1 .. F_none last.
func (s *Sequence) Advance(first, last int) {
	s.Checkpoint(first)
	for l := first + 1; l <= last; l++ {
		s.None(l)
	}
}

// Segment is F_all first .. F_all last, B last .. B first.
func (s *Sequence) Segment(first, last int) {
	for l := first; l <= last; l++ {
		s.All(l)
	}
	for l := last; l >= first; l-- {
		s.Backward(l)
	}
}

// Plan returns what was built, with claims.
func (s *Sequence) Plan(method string, c *chain.Chain, p platform.Platform) *plan.Plan {
	out := plan.New(Problem, method, c, p)
	out.Ops = s.Ops
	out.Claims = plan.Claims{Makespan: s.Time, PeakMemory: s.Peak}
	return out
}
