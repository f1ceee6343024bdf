package formulation

import "workbench/model/milp"

// A Cover says of tensors, or variables, that those of some that are away have so
// many bytes together: Σ size·away ≥ least, for binaries away. Sizes are whole
// numbers of any magnitude; a solver compares sums with a tolerance. So the rows
// that stand for it
//
//   - have no coefficient above what they ask for, as min(size, least) is as good
//     with binaries, and better in the relaxation;
//   - are scaled by a power of two so that they ask for about 2¹⁰;
//   - rule the condition out where all together are not enough;
//   - leave to the right what is smaller than least·2⁻²⁴, as if all of it were away.
//     Where what is larger is not enough, a row of its own asks for the rest of
//     that: it decides at the edge of memory.
//
// All numbers are exact, so the rows together are implied by the condition, and
// where nothing is that small, equal to it.
type Cover struct{ items []coverItem }

type coverItem struct {
	size float64
	v    milp.Var
	kept bool // v says that it is there, not that it is away
}

// A Case is a literal of a condition under which a cover must hold.
type Case struct {
	Value float64 // ±1, the coefficient of Var
	Var   milp.Var
}

const (
	coverTarget = 0x1p10  // of what a row asks for
	tooSmall    = 0x1p-24 // as a part of that
)

// Reset empties the cover.
func (c *Cover) Reset() *Cover {
	c.items = c.items[:0]
	return c
}

// AddOffloaded adds what is away where v is 1, which it must be able to be.
func (c *Cover) AddOffloaded(size float64, v milp.Var) {
	c.items = append(c.items, coverItem{size, v, false})
}

// Kept adds what is away where v is 0.
func (c *Cover) Kept(size float64, v milp.Var) { c.items = append(c.items, coverItem{size, v, true}) }

// AtLeast adds the rows to g: least bytes are away where constant + Σ Value·Var of
// the cases is 1. It must be an integer, and at most 1 in every solution; without cases
// constant is 1. Empties the cover.
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
