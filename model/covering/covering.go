// Package covering solves the linear program of the fewest columns that cover what is
// asked for,
//
//	min Σ_c x_c,  Σ_c count_rc·x_c ≥ demand_r  for every row r,  x ≥ 0
//
// for those who make the columns as they are needed, from the duals (Gilmore and Gomory,
// "A linear programming approach to the cutting-stock problem", 1961). It is in floating
// point: who wants a proof takes the duals as prices and sees for himself what the
// dearest column is worth, since with prices y, none worth more than z,
// the optimum is at least Σ demand·y / z.
package covering

import (
	"iter"
	"math"
	"slices"
)

// A Column covers rows of the program so many times each. Its entries are not negative.
type Column struct {
	Row     []int
	Count   []float64
	surplus bool // what is covered more often than need be
}

// Add puts one more into a row of the column.
func (c *Column) Add(row int, count float64) {
	i := slices.Index(c.Row, row)
	if i < 0 {
		i = len(c.Row)
		c.Row, c.Count = append(c.Row, row), append(c.Count, 0)
	}
	c.Count[i] += count
}

// Value is what prices of the rows are for the column.
func (c *Column) Value(prices []float64) (sum float64) {
	for k, r := range c.Row {
		sum += prices[r] * c.Count[k]
	}
	return sum
}

// Program has a basis of columns. At first a column with each row alone, once, is in it.
type Program struct {
	inverse [][]float64 // of the basis
	level   []float64   // by place in the basis: how many of it there are
	basis   []*Column
	surplus float64 // what it costs to cover a row once more than need be
}

// New returns the program of demands, which are not negative.
func New(demand []float64) *Program {
	p := &Program{level: slices.Clone(demand)}
	for r := range demand {
		unit := make([]float64, len(demand))
		unit[r] = 1
		p.inverse = append(p.inverse, unit)
		p.basis = append(p.basis, &Column{Row: []int{r}, Count: []float64{1}})
	}
	return p
}

// Surplus says what it costs to cover a row once more than need be, nothing at first. Duals
// are then no less than that below zero: of sets that are to have each row exactly as often
// as demanded these prove as much, and more.
func (p *Program) Surplus(cost float64) { p.surplus = cost }

// Solve goes on from the basis to the optimum over it and the columns of pool, which it
// runs through at every step, by the simplex method with an explicit inverse. It
// returns the duals by row, some negative by rounding. O(pool·entries + rows²) a step.
func (p *Program) Solve(pool iter.Seq[*Column]) (duals []float64) {
	for range 50 * len(p.level) {
		duals = p.duals()
		var enters *Column
		most := 1e-7
		for r, y := range duals {
			if gain := -y - p.surplus; gain > most {
				most, enters = gain, &Column{Row: []int{r}, Count: []float64{-1}, surplus: true}
			}
		}
		for c := range pool {
			if gain := c.Value(duals) - 1; gain > most {
				most, enters = gain, c
			}
		}
		if enters == nil || !p.enter(enters) {
			break
		}
	}
	return duals
}

// duals are the costs of the basis times its inverse.
func (p *Program) duals() []float64 {
	y := make([]float64, len(p.level))
	for i, c := range p.basis {
		cost := 1.0
		if c.surplus {
			cost = p.surplus
		}
		if cost == 0 {
			continue
		}
		for r, v := range p.inverse[i] {
			y[r] += cost * v
		}
	}
	return y
}

// enter takes c into the basis in place of the column that it first replaces.
func (p *Program) enter(c *Column) bool {
	d := make([]float64, len(p.level)) // c in terms of the basis
	leaves, step := -1, math.Inf(1)
	for i, row := range p.inverse {
		for k, r := range c.Row {
			d[i] += row[r] * c.Count[k]
		}
		if d[i] > 1e-9 && p.level[i] < step*d[i] {
			leaves, step = i, p.level[i]/d[i]
		}
	}
	if leaves < 0 {
		return false
	}
	pivot := p.inverse[leaves]
	for r := range pivot {
		pivot[r] /= d[leaves]
	}
	for i, row := range p.inverse {
		if i != leaves && d[i] != 0 {
			for r, v := range pivot {
				row[r] -= d[i] * v
			}
			p.level[i] = max(0, p.level[i]-step*d[i])
		}
	}
	p.level[leaves], p.basis[leaves] = step, c
	return true
}
