package join

import (
	"context"
	"fmt"

	"workbench/model/instance/join"
	"workbench/model/plan"
)

// Revolve is [004] Theorem 1 for a join of one branch: the makespan of
// SINGLE(L, m) is Opt_0(L-1, m) + u_F + u_L. It is optimal. Fewer slots than
// Lemma 2 asks for give a *plan.Infeasible error; the end of ctx one wrapping
// plan.ErrNoPlan. O(L²·min(slots, L)) time, 4·L·min(slots, L) bytes.
func Revolve(ctx context.Context, j *join.Join, slots int) (*plan.Plan, error) {
	if err := check(j); err != nil {
		return nil, err
	}
	if j.K() != 1 {
		return nil, fmt.Errorf("revolve: %q has %d branches: Theorem 1 is for one; use the dynamic program of Theorem 3", j.Name, j.K())
	}
	if slots < LeastSlots(j) {
		return nil, infeasible(j, slots)
	}
	l := j.Branches[0]
	m := min(slots, StoreAllSlots(j))
	if l == 0 {
		return newSequence(j).loss().plan("revolve", slots), nil
	}
	r, err := newRevolve(ctx, l-1, m)
	if err != nil {
		return nil, err
	}
	if err := checkSize(j, 1+int(r.row(l - 1)[m])); err != nil {
		return nil, err
	}
	// The part before the loss is the first descent of ADJCHAIN(L-1, m): its
	// forwards up to a_{L-1}, then F_L and the loss make the δ_L that it starts
	// from.
	s := newSequence(j)
	r.single(s, 0, l-1, m)
	s.finish(1)
	return s.plan("revolve", slots), nil
}

// single appends the schedule of ADJCHAIN(ℓ, m) from base with F and the loss
// at the turn, where δ_{base+ℓ+1} is not there yet.
func (r *revolve) single(s *sequence, base, l, m int) {
	s.copy(1, base)
	if l == 0 {
		s.forward(1, base, 1)
		s.loss()
		s.backward(1, base+1)
		return
	}
	i := r.split(l, m)
	s.forward(1, base, i)
	r.single(s, base+i, l-i, m-1)
	r.run(s, 1, base, i-1, m)
}
