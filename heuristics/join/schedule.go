package join

import (
	"workbench/model/instance/join"
	"workbench/model/plan"
	"workbench/model/platform"
)

// A sequence is a schedule under construction: operations follow each other
// without idle time. Branches are numbered 1..K.
type sequence struct {
	j          *join.Join
	ops        []plan.Op
	time       float64 // end of the last operation
	used, most int     // slots at the end of the last operation, and the most so far
	forwards   int
	backwards  int
	losses     int
}

// newSequence starts with a_0 of every branch.
func newSequence(j *join.Join) *sequence {
	return &sequence{j: j, used: j.K(), most: j.K()}
}

// add appends an operation after which so many more slots are used.
func (s *sequence) add(op plan.Op, change int) {
	// Times are products, not running sums, so that the makespan is exactly
	// Definition 6's.
	op.Start = s.time
	s.time = float64(s.forwards)*s.j.ForwardTime + float64(s.backwards)*s.j.BackwardTime + float64(s.losses)*s.j.LossTime
	op.End = s.time
	s.ops = append(s.ops, op)
	s.used += change
	s.most = max(s.most, s.used)
}

// copy is S of a_ℓ.
func (s *sequence) copy(branch, layer int) {
	s.add(plan.Op{Op: plan.OpS, Branch: branch, Layer: layer}, 1)
}

// forward is F_{ℓ+1}..F_{ℓ+n}: a_ℓ becomes a_{ℓ+n}.
func (s *sequence) forward(branch, layer, n int) {
	for i := 1; i <= n; i++ {
		s.forwards++
		s.add(plan.Op{Op: plan.OpF, Branch: branch, Layer: layer + i}, 0)
	}
}

// backward is B_ℓ: a_{ℓ-1} and δ_ℓ become δ_{ℓ-1}.
func (s *sequence) backward(branch, layer int) {
	s.backwards++
	s.add(plan.Op{Op: plan.OpB, Branch: branch, Layer: layer}, -1)
}

// loss replaces every a_L by δ_L. Branches without layers are finished then.
func (s *sequence) loss() *sequence {
	s.losses++
	s.add(plan.Op{Op: plan.OpLoss}, 0)
	for k, l := range s.j.Branches {
		if l == 0 {
			s.finish(k + 1)
		}
	}
	return s
}

// finish discards δ_0 of a branch unless it must be kept.
func (s *sequence) finish(branch int) {
	if !s.j.Keep[branch-1] {
		s.add(plan.Op{Op: plan.OpD, Tensor: plan.TensorDelta, Branch: branch}, -1)
	}
}

// plan returns what was built, with claims.
func (s *sequence) plan(method string, slots int) *plan.Plan {
	out := plan.New(plan.Join, method, s.j, platform.Platform{Memory: float64(slots)})
	out.Ops = s.ops
	out.Claims = plan.Claims{Makespan: s.time, PeakMemory: float64(s.most)}
	return out
}

// checkSize refuses to build schedules of so many forwards that they would not
// fit.
func checkSize(j *join.Join, forwards int) error {
	// Every S is followed by a forward.
	ops := 2*float64(forwards) + float64(layers(j)) + float64(j.K()) + 1
	if bytes := ops * opBytes; bytes > maxBytes {
		return refuse("the schedule", bytes, "give more slots, so that less is recomputed")
	}
	return nil
}
