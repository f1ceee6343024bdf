package pipeline

import (
	"cmp"
	"math"
	"slices"

	"workbench/model/covering"
)

// A master looks for the prices that prove most. They are the duals of the linear
// program of the fewest sets, in fractions, that hold all layers: sets that are worth
// more than 1 enter it until there is none (package covering). Layers that
// are alike in all sizes share a row. Nothing rests on its arithmetic: see shelves.
type master struct {
	in      *Instance
	row     []int     // of layers
	weight  []float64 // of layers in their rows
	layers  []float64 // by row: how many it has, by weight
	program *covering.Program
	pool    []*column
	best    *shelves // of the prices that proved most
	surplus float64  // what it costs to hold a layer once more
	units   float64  // of prices, of what a set costs
}

// A column is a set of layers, by rows. One layer alone stands in for a set at first,
// whether that fits or not.
type column struct {
	covering.Column
	peak float64 // what a processor needs for it
}

// mostRows is how many rows a master has. Where there are more layers that differ, those
// next to each other in size share a row, by their sizes.
const mostRows = 200

func newMaster(in *Instance) *master {
	m := &master{in: in, row: make([]int, in.N+1), weight: make([]float64, in.N+1)}
	first := map[[5]float64]int{} // layers of a kind
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
	row := make([]int, in.N+1) // of the first of a kind
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

// wider allows more prices. Those of less than nothing say that it is dearer to hold a
// layer more than once, which no allocation does.
func (m *master) wider() {
	m.surplus = max(leastSurplus, 4*m.surplus)
	m.program.Surplus(m.surplus)
}

// leastSurplus is what a surplus costs after nothing, in sets.
const leastSurplus = 1. / 32

// raise returns a memory, from low on, below which the prices prove that there is no
// allocation, high + 1 if they prove as much, and how many labels that took. Prices are
// those for memory at, or for the bound if it is more. It ends after so many rounds or,
// about, labels, or where no prices prove more.
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

// shelves are those of prices of rows, which are rounded as finely as roundLabels allow,
// or nil.
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

// A set is worth priceUnits, about, times as many as share a row, whose price is rounded
// as often, at first, and leastUnits at least.
const (
	priceUnits  = 1 << 10
	leastUnits  = 1 << 8
	roundLabels = 1 << 22
)

// add takes into the pool the dearest set from each layer on, if it is worth more
// than 1 and fits in the memory. It reports whether there is one.
func (m *master) add(s *shelves, duals []float64, memory float64) (added bool) {
	for l := 1; l <= m.in.N && !m.in.Stop.Given(); l += 1 + m.in.N/mostAdded {
		layers, peak := s.dearest(l, memory)
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

// mostAdded is about how many sets enter the pool in a round.
const mostAdded = 400

// optimum solves the program over the sets of the pool that fit in a memory, and returns
// its duals by row, or those of its last step once in.Stop is closed. Sets that are worth
// little leave the pool.
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

// littleWorth is what a set is worth that is forgotten.
const littleWorth = 0.8
