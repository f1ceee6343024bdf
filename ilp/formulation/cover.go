package formulation

import "workbench/model/milp"

// Cover states that the tensors, or variables, on the host have a minimum total size: Σ size·away ≥ least, for
// binaries away (a knapsack cover). Sizes are integers of any magnitude, but a solver compares sums with a
// tolerance. The rows therefore
//
//   - have no coefficient above their right-hand side: min(size, least) is equivalent for binaries, and
//     stronger in the relaxation;
//   - are scaled by a power of two so that the right-hand side is about 2¹⁰;
//   - are infeasible if the total is too small;
//   - move sizes below least·2⁻²⁴ to the right-hand side, as if all of them were on the host. If the larger
//     ones do not suffice, a separate row states the rest of the condition: it decides at the edge of memory.
//
// All numbers are exact, so the condition implies the rows, and is equivalent to them if no size is that small.
type Cover struct{ items []coverItem }

type coverItem struct {
	size float64
	v    milp.Var
	kept bool // v is 1 if the tensor is resident, 0 if it is on the host
}

// Case is a literal of a condition under which a cover must hold.
type Case struct {
	Value float64 // ±1, the coefficient of Var
	Var   milp.Var
}

const (
	coverTarget = 0x1p10  // of a right-hand side
	tooSmall    = 0x1p-24 // as a fraction of it
)

// Reset empties the cover.
func (c *Cover) Reset() *Cover {
	c.items = c.items[:0]
	return c
}

// AddOffloaded adds a tensor that is on the host if v is 1; v must be able to be 1.
func (c *Cover) AddOffloaded(size float64, v milp.Var) {
	c.items = append(c.items, coverItem{size, v, false})
}

// Kept adds a tensor that is on the host if v is 0.
func (c *Cover) Kept(size float64, v milp.Var) { c.items = append(c.items, coverItem{size, v, true}) }

// AtLeast adds the rows to g: at least least bytes are on the host if constant + Σ Value·Var of the
// cases is 1. That must be an integer, and at most 1 in every solution; without cases constant is
// 1. It empties the cover.
func (c *Cover) AtLeast(g milp.Group, least, constant float64, cases ...Case) {
	var e milp.Expr
	items, all := c.items, 0.0
	for _, x := range items {
		all += x.size
	}
	if least > all { // never: the condition must not hold
		for _, k := range cases {
			e.Add(-k.Value, k.Var)
		}
		g.AtLeast(&e, constant)
		c.Reset()
		return
	}
	for least > 0 {
		large, rest, sum := items[:0:0], least, 0.0
		small := items[:0:0]
		for _, x := range items {
			switch {
			case x.size == 0:
			case x.size < least*tooSmall:
				small = append(small, x)
				rest -= x.size
			default:
				large = append(large, x)
				sum += x.size
			}
		}
		scale := milp.PowerOfTwo(least, coverTarget)
		e.Reset()
		right := constant * rest
		for _, x := range large {
			part := min(x.size, rest)
			if x.kept {
				right -= part
				part = -part
			}
			e.Add(scale*part, x.v)
		}
		for _, k := range cases {
			e.Add(-k.Value*scale*rest, k.Var)
		}
		g.AtLeast(&e, scale*right)
		if len(small) == 0 || sum >= least {
			break
		}
		items, least = small, least-sum // no more than all of them
	}
	c.Reset()
}
