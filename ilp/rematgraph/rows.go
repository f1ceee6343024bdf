package rematgraph

import (
	"fmt"
	"math"

	"workbench/model/milp"
)

// base is the number of grains that the room of a row has at most: solvers can
// tell one of 2²⁰ from none, since their tolerance is 10⁻⁶ where the room is
// scaled to 2¹⁰.
const base = 1 << 20

// loose is added to the scaled room of a row: half a grain at most, so that it
// lets nothing in that is whole, and far more than what solvers lose on the way,
// so that they do not cut off what fills the room to the last grain.
const loose = 0x1p-12

// divisor returns the greatest common divisor of whole numbers, 1 of none. Of
// sizes in bytes it is often large: that of the elements of a tensor, of a
// mini-batch.
func divisor(sizes ...float64) float64 {
	d := 0.0
	for _, x := range sizes {
		for x > 0 {
			d, x = x, math.Mod(d, x)
		}
	}
	return max(d, 1)
}

// grain returns what sizes are to be counted in where the room is so large:
// their greatest common divisor, and that times a power of two where the room
// would have more than base of it. The sizes rounded down to grains make a
// relaxation of Σ size x ≤ room, for ⌊·⌋ of a sum is no less than the sum of
// ⌊·⌋; it is the same row if it is exact.
func grain(room float64, sizes []float64) (size float64, exact bool) {
	size = divisor(sizes...)
	for exact = true; math.Floor(room/size) >= base; exact = false {
		size *= 2
	}
	return size, exact
}

// memoryRow is Σ size x ≤ room under construction: sizes are whole and positive,
// every x is between 0 and 1, and whole in the solutions that count.
type memoryRow struct {
	room  float64
	vars  []milp.Var
	sizes []float64
	place map[milp.Var]int
}

// add counts a value of such a size if x.
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

// carry is a column that is what its row of digits is too large by, in units of
// base.
type carry struct {
	x     milp.Var
	terms []milp.Term // the other columns of the row
	room  float64
}

// memoryRows adds a row to a model in numbers that solvers can tell apart. What
// is larger than the room is not there. The rest is counted in grains; where
// those would be too many, sizes are rounded down, or, if exact is set, written
// with digits of the base, a row for each, from the last digit on: with carries
// c whole,
//
//	Σ (size mod base) x − base·c ≤ room mod base,   Σ ⌊size/base⌋ x + c ≤ ⌊room/base⌋
//
// has a solution if and only if x keeps the row, namely c = ⌈(Σ (size mod base)
// x − room mod base)/base⌉, which is not negative; and so on for the second.
// Every column being real, the two imply the row, too. The carries, if any, are
// returned in the order in which they can be computed.
func memoryRows(m *milp.Model, groups memoryGroups, r *memoryRow, exact bool, name string) []carry {
	var e milp.Expr
	if r.room < 0 {
		groups.memory.AtMost(&e, -1)
		return nil
	}
	var terms []milp.Term // of what can be there
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

// value returns what the carry is at x: the least that keeps its row.
func (c *carry) value(x []float64) float64 {
	sum := -c.room
	for _, t := range c.terms {
		sum += t.Coef * x[t.Var.Index()]
	}
	return max(0, math.Ceil(sum/base))
}
