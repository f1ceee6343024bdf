package rematgraph

import (
	"fmt"
	"math"

	"workbench/model/milp"
)

// base is the maximum memory of a row in units of grain: solvers can distinguish 2²⁰ units, since their tolerance
// is 10⁻⁶ with the memory scaled to 2¹⁰.
const base = 1 << 20

// loose is added to the scaled memory of a row. It is at most half a unit, so it admits no further integer
// solution. It exceeds the rounding errors of solvers, so that they do not cut off solutions that fill the memory
// exactly.
const loose = 0x1p-12

// divisor returns the greatest common divisor of integers, 1 for none. For sizes in bytes it is
// often large: that of the elements of a tensor, or of a mini-batch.
func divisor(sizes ...float64) float64 {
	d := 0.0
	for _, x := range sizes {
		for x > 0 {
			d, x = x, math.Mod(d, x)
		}
	}
	return max(d, 1)
}

// grain returns the unit in which sizes are counted for a given memory: their greatest common divisor, times a
// power of two if memory would have more than base units. Sizes rounded down to units make a relaxation of Σ size
// x ≤ room, since ⌊·⌋ of a sum is at least the sum of ⌊·⌋. If exact is true the row is unchanged.
func grain(room float64, sizes []float64) (size float64, exact bool) {
	size = divisor(sizes...)
	for exact = true; math.Floor(room/size) >= base; exact = false {
		size *= 2
	}
	return size, exact
}

// memoryRow is the row Σ size x ≤ room under construction: sizes are integer and positive, every x
// is between 0 and 1, and integer in feasible solutions.
type memoryRow struct {
	room  float64
	vars  []milp.Var
	sizes []float64
	place map[milp.Var]int
}

// add adds a value of the given size that is in memory if x is 1.
func (r *memoryRow) add(size float64, x milp.Var) {
	if size == 0 {
		return
	}
	if k, ok := r.place[x]; ok {
		r.sizes[k] += size
		return
	}
	r.place[x] = len(r.vars)
	r.vars, r.sizes = append(r.vars, x), append(r.sizes, size)
}

// carry is a column with the excess of its row of digits, in units of base.
type carry struct {
	x     milp.Var
	terms []milp.Term // the other columns of the row
	room  float64
}

// memoryRows adds a row to a model in numbers that solvers can distinguish. A column larger than
// room is fixed to 0. The rest is counted in units of grain. If there would be too many, sizes are
// rounded down, or, if exact is set, written in digits of base, a row for each, from the last digit
// on. With integer carries c,
//
//	Σ (size mod base) x − base·c ≤ room mod base,   Σ ⌊size/base⌋ x + c ≤ ⌊room/base⌋
//
// has a solution if and only if x satisfies the row, namely c = ⌈(Σ (size mod base) x − room mod
// base)/base⌉, which is not negative; and so on for the second. With continuous columns the two
// also imply the row. It returns the carries in an order in which they can be computed.
func memoryRows(m *milp.Model, groups memoryGroups, r *memoryRow, exact bool, name string) []carry {
	var e milp.Expr
	if r.room < 0 {
		groups.memory.AtMost(&e, -1)
		return nil
	}
	var terms []milp.Term // of values that can be in memory
	var sizes []float64
	total := 0.0
	for k, x := range r.vars {
		if r.sizes[k] > r.room {
			groups.never.AtMost(e.Reset().Add(1, x), 0)
			continue
		}
		terms, sizes = append(terms, milp.Term{Coef: 0, Var: x}), append(sizes, r.sizes[k])
		total += r.sizes[k]
	}
	if total <= r.room {
		return nil // everything fits
	}
	size, same := grain(r.room, sizes)
	if exact && !same {
		size = divisor(sizes...)
	}
	room := math.Floor(r.room / size)
	for k := range sizes {
		sizes[k] = math.Floor(sizes[k] / size)
	}
	var carries []carry
	for digit := 0; room >= base; digit++ {
		row := make([]milp.Term, 0, len(terms)+1)
		for k, t := range terms {
			if c := math.Mod(sizes[k], base); c > 0 {
				row = append(row, milp.Term{Coef: c, Var: t.Var})
			}
			sizes[k] = math.Floor(sizes[k] / base)
		}
		c := carry{m.Var(fmt.Sprintf("carry[%s,%d]", name, digit), milp.Integer, 0, float64(len(row)+1)), row, math.Mod(room, base)}
		addRow(groups.memory, append(row[:len(row):len(row)], milp.Term{Coef: -base, Var: c.x}), c.room, base)
		carries = append(carries, c)
		terms, sizes = append(terms, milp.Term{Var: c.x}), append(sizes, 1)
		room = math.Floor(room / base)
	}
	for k := range terms {
		terms[k].Coef = sizes[k]
	}
	addRow(groups.memory, terms, room, max(room, 1))
	return carries
}

// memoryGroups are the constraint groups of memory rows.
type memoryGroups struct{ memory, never milp.Group }

// addRow adds Σ coef x ≤ room, scaled so that the largest number is about 2¹⁰.
func addRow(g milp.Group, terms []milp.Term, room, largest float64) {
	scale := milp.PowerOfTwo(largest, about)
	var e milp.Expr
	for _, t := range terms {
		if t.Coef != 0 {
			e.Add(scale*t.Coef, t.Var)
		}
	}
	g.AtMost(&e, scale*room+loose)
}

// value returns the value of the carry at x: the minimum that satisfies its row.
func (c *carry) value(x []float64) float64 {
	sum := -c.room
	for _, t := range c.terms {
		sum += t.Coef * x[t.Var.Index()]
	}
	return max(0, math.Ceil(sum/base))
}
