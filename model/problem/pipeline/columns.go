package pipeline

import (
	"cmp"
	"math"
	"slices"

	"workbench/model/covering"
)

// master searches for prices that prove the largest bound, by column generation (Gilmore and Gomory
// 1961). The prices are the duals of the linear program that covers all layers by a minimum
// fractional number of sets. Sets worth more than 1 enter until there is none (package covering).
// Layers with equal sizes share a row. The proof does not rest on its arithmetic: see shelves.
type master struct {
	in      *Instance
	row     []int     // by layer
	weight  []float64 // by layer, in its row
	layers  []float64 // by row: the number of layers, by weight
	program *covering.Program
	pool    []*column
	best    *shelves // of the prices that proved the largest bound
	surplus float64  // cost of covering a layer more than once
	units   float64  // price units per set
}

// column is a set of layers, by rows. At first single layers stand for sets, whether they fit or
// not.
type column struct {
	covering.Column
	peak float64 // memory of a processor with this set
}

// mostRows is the maximum number of rows of a master. If more layers differ, layers of similar size
// share a row, weighted by size.
const mostRows = 200

func newMaster(in *Instance) *master {
	m := &master{in: in, row: make([]int, in.N+1), weight: make([]float64, in.N+1)}
	first := map[[5]float64]int{} // first layer of each kind
	var kinds []int
	for l := 1; l <= in.N; l++ {
		sizes := [5]float64{in.W[l], in.Kept[l], in.otherMemory(l), in.Buffer[l-1], in.Buffer[l]}
		if _, ok := first[sizes]; !ok {
			first[sizes] = l
			kinds = append(kinds, l)
		}
		m.row[l] = first[sizes]
	}
	size := func(l int) float64 { return in.Copies*in.W[l] + in.Kept[l] }
	rows := min(len(kinds), mostRows)
	if len(kinds) > rows {
		slices.SortStableFunc(kinds, func(k, l int) int { return cmp.Compare(size(k), size(l)) })
	}
	row := make([]int, in.N+1) // by first layer of a kind
	for k, l := range kinds {
		row[l] = k * rows / len(kinds)
	}
	m.layers = make([]float64, rows)
	sizes := make([]float64, rows)
	for l := 1; l <= in.N; l++ {
		m.row[l] = row[m.row[l]]
		m.layers[m.row[l]]++
		sizes[m.row[l]] += size(l)
	}
	for l := 1; l <= in.N; l++ {
		m.weight[l] = 1
		if r := m.row[l]; len(kinds) > rows && sizes[r] > 0 {
			m.weight[l] = size(l) * m.layers[r] / sizes[r]
		}
	}
	m.program, m.units = covering.New(m.layers), priceUnits*slices.Max(m.layers)
	return m
}

// wider allows negative prices, down to a larger bound. A negative price states that covering a
// layer more than once is expensive; no allocation does that.
func (m *master) wider() {
	m.surplus = max(leastSurplus, 4*m.surplus)
	m.program.Surplus(m.surplus)
}

// leastSurplus is the first nonzero cost of a surplus, in sets.
const leastSurplus = 1. / 32

// raise returns a lower bound on the memory of any allocation, at least low, and the number of
// labels it took. It returns high + 1 if the prices prove that much. The prices are those for
// memory at, or for the bound if it is larger. It ends after the given rounds or about the given
// labels, or when no prices improve the bound.
func (m *master) raise(low, at, high float64, rounds, labels int) (bound float64, took int) {
	for ; rounds > 0 && took < labels && !m.in.Stop.Given(); rounds-- {
		at = max(at, low)
		duals := m.optimum(at)
		s := m.shelves(duals, high, &took)
		if s == nil {
			break
		}
		low = max(low, min(s.bound(), high+1))
		if m.best == nil || s.sets(at) >= m.best.sets(at) {
			m.best = s
		}
		if low > high || !m.add(s, duals, at) {
			break
		}
	}
	return low, took
}

// shelves returns those of row prices, rounded as finely as roundLabels allows, or nil.
func (m *master) shelves(rows []float64, memory float64, took *int) *shelves {
	prices := make([]int, m.in.N+1)
	for ; m.units >= leastUnits && !m.in.Stop.Given(); m.units /= 16 {
		for l := 1; l <= m.in.N; l++ {
			prices[l] = int(math.Round(m.units * rows[m.row[l]] * m.weight[l]))
		}
		s := m.in.newShelves(prices, memory, roundLabels)
		if *took += len(s.labels); len(s.labels) < roundLabels && !m.in.Stop.Given() {
			return s
		}
	}
	return nil
}

// priceUnits is about the initial number of units of a set, times the number of layers that share a
// row, since their price is rounded as often. leastUnits is the minimum.
const (
	priceUnits  = 1 << 10
	leastUnits  = 1 << 8
	roundLabels = 1 << 22
)

// add adds to the pool the most valuable set that starts at each layer, if it is worth more than 1
// and fits in memory. It reports whether there is one.
func (m *master) add(s *shelves, duals []float64, memory float64) (added bool) {
	for l := 1; l <= m.in.N && !m.in.Stop.Given(); l += 1 + m.in.N/mostAdded {
		layers, peak := s.mostValuable(l, memory)
		c := &column{peak: peak}
		for _, k := range layers {
			c.Add(m.row[k], m.weight[k])
		}
		if c.Value(duals) > 1+1e-6 {
			m.pool = append(m.pool, c)
			added = true
		}
	}
	return added
}

// mostAdded is about the maximum number of sets that enter the pool in a round.
const mostAdded = 400

// optimum solves the program over the sets of the pool that fit in a memory and returns its duals
// by row, or those of its last step once in.Stop is closed. Sets of little value leave the pool.
func (m *master) optimum(memory float64) (duals []float64) {
	duals = m.program.Solve(func(yield func(*covering.Column) bool) {
		if m.in.Stop.Given() {
			return
		}
		for _, c := range m.pool {
			if c.peak <= memory && !yield(&c.Column) {
				return
			}
		}
	})
	m.pool = slices.DeleteFunc(m.pool, func(c *column) bool { return c.Value(duals) < littleWorth })
	return duals
}

// littleWorth is the value below which a set is removed from the pool.
const littleWorth = 0.8
