package pipeline

import (
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
	layers  []float64 // by row: how many it has
	program *covering.Program
	pool    []*column
	best    *shelves // of the prices that proved most
}

// A column is a set of layers, by rows. One layer alone stands in for a set at first,
// whether that fits or not.
type column struct {
	covering.Column
	peak float64 // what a processor needs for it
}

func newMaster(in *Instance) *master {
	m := &master{in: in, row: make([]int, in.N+1)}
	rows := map[[5]float64]int{}
	for l := 1; l <= in.N; l++ {
		sizes := [5]float64{in.W[l], in.Kept[l], in.beside(l), in.Buffer[l-1], in.Buffer[l]}
		if _, ok := rows[sizes]; !ok {
			rows[sizes] = len(m.layers)
			m.layers = append(m.layers, 0)
		}
		m.row[l] = rows[sizes]
		m.layers[m.row[l]]++
	}
	m.program = covering.New(m.layers)
	return m
}

// priceUnits is what the dearest set is worth, about, times as many as share a row,
// whose price is rounded as often, up to mostUnits.
const (
	priceUnits = 1000
	mostUnits  = 16000
)

// raise returns a memory, from low on, below which the prices prove that there is no
// allocation, high + 1 if they prove as much, and how many labels that took. It ends
// after so many rounds or, about, labels, or where no prices prove more of low.
func (m *master) raise(low, high float64, rounds, labels int) (bound float64, took int) {
	units := min(priceUnits*slices.Max(m.layers), mostUnits)
	most := 0.0
	for ; rounds > 0 && took < labels; rounds-- {
		duals := m.optimum(low)
		prices := make([]int, m.in.N+1)
		for l := 1; l <= m.in.N; l++ {
			prices[l] = int(math.Round(units * max(0, duals[m.row[l]])))
		}
		s := m.in.newShelves(prices, high)
		took += len(s.labels)
		low = max(low, min(s.bound(), high+1))
		if sets := s.sets(low); sets >= most {
			m.best, most = s, sets
		}
		if low > high || !m.add(s, duals, low) {
			break
		}
	}
	return low, took
}

// add takes into the pool the dearest set from each layer on, if it is worth more
// than 1 and fits in the memory. It reports whether there is one.
func (m *master) add(s *shelves, duals []float64, memory float64) (added bool) {
	for l := 1; l <= m.in.N; l++ {
		layers, peak := s.dearest(l, memory)
		c := &column{peak: peak}
		for _, k := range layers {
			c.Add(m.row[k], 1)
		}
		if c.Worth(duals) > 1+1e-6 {
			m.pool = append(m.pool, c)
			added = true
		}
	}
	return added
}

// optimum solves the program over the sets of the pool that fit in a memory, and returns
// its duals by row. Sets that are worth little leave the pool.
func (m *master) optimum(memory float64) (duals []float64) {
	duals = m.program.Solve(func(yield func(*covering.Column) bool) {
		for _, c := range m.pool {
			if c.peak <= memory && !yield(&c.Column) {
				return
			}
		}
	})
	m.pool = slices.DeleteFunc(m.pool, func(c *column) bool { return c.Worth(duals) < littleWorth })
	return duals
}

// littleWorth is what a set is worth that is forgotten.
const littleWorth = 0.8
