package join

import (
	"context"
	"fmt"

	"workbench/model/plan"
)

// revolve is the table of [004] Theorem 1: the fewest forwards of
// ADJCHAIN(ℓ, m), which turns a_0 and δ_{ℓ+1} into δ_0 in m slots, for
// ℓ = 0..longest and m = 0..slots. It is Opt_0(ℓ, m) for u_F = 1 and u_B = 0:
//
//	Opt_0(0, m) = 0                                             m ≥ 2   (1.1)
//	Opt_0(ℓ, m) = min_{1≤i≤ℓ} i + Opt_0(ℓ-i, m-1) + Opt_0(i-1, m)       (1.3)
//
// (1.2), m = 3, is the case i = ℓ of (1.3), all others needing more.
type revolve struct {
	slots int
	t     []int32 // (longest+1) × (slots+1)
}

// newRevolve fills the table. O(longest²·slots) time, 4·longest·slots bytes.
func newRevolve(ctx context.Context, longest, slots int) (*revolve, error) {
	if bytes := 4 * float64(longest+1) * float64(slots+1); bytes > maxBytes {
		return nil, refuse("the table of Theorem 1", bytes, "give fewer slots or shorter branches")
	}
	r := &revolve{slots: slots, t: make([]int32, (longest+1)*(slots+1))}
	for l := range longest + 1 {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("revolve: %w in the table of Theorem 1: %w", plan.ErrNoPlan, err)
		}
		r.fill(l)
	}
	return r, nil
}

// row returns Opt_0(ℓ, 0..slots).
func (r *revolve) row(l int) []int32 { return r.t[l*(r.slots+1) : (l+1)*(r.slots+1)] }

// fill computes Opt_0(ℓ, ·) from the rows before. From m = ℓ+2 on everything is
// stored and no forward run twice.
func (r *revolve) fill(l int) {
	out := r.row(l)
	most := min(l+2, r.slots+1)
	for m := range most {
		out[m] = none
	}
	for m := most; m <= r.slots; m++ {
		out[m] = int32(l)
	}
	if most < 4 {
		return
	}
	for i := 1; i <= l; i++ {
		// Opt_0(ℓ-i, m-1) and Opt_0(i-1, m) for m = 3..most-1.
		right, left := r.row(l - i)[2:most-1], r.row(i - 1)[3:most]
		best := out[3:most]
		for x, v := range right {
			best[x] = min(best[x], int32(i)+v+left[x])
		}
	}
}

// split returns the i that attains Opt_0(ℓ, m), the smallest. ℓ ≥ 1. O(ℓ).
func (r *revolve) split(l, m int) int {
	want := r.row(l)[m]
	for i := 1; i < l; i++ {
		if int32(i)+r.row(l - i)[m-1]+r.row(i - 1)[m] == want {
			return i
		}
	}
	return l
}

// run appends the schedule of ADJCHAIN(ℓ, m) on layers base+1..base+ℓ+1 of a
// branch: a_base and δ_{base+ℓ+1} are stored and become δ_base.
func (r *revolve) run(s *sequence, branch, base, l, m int) {
	for l > 0 {
		i := r.split(l, m)
		s.copy(branch, base)
		s.forward(branch, base, i)
		r.run(s, branch, base+i, l-i, m-1)
		l = i - 1
	}
	s.backward(branch, base+1)
}
