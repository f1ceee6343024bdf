package pipeline

import (
	"math"
	"slices"
)

// A master looks for the prices that prove most. They are the duals of the linear
// program of the fewest sets, in fractions, that hold all layers, solved by columns:
// sets that are worth more than 1 enter it until there is none (Gilmore and Gomory,
// "A linear programming approach to the cutting-stock problem", 1961). Layers that
// are alike in all sizes share a row. Nothing rests on its arithmetic: see shelves.
type master struct {
	in      *Instance
	row     []int       // of layers
	layers  []float64   // by row: how many it has
	inverse [][]float64 // of the basis
	level   []float64   // by place in the basis: how many of it there are
	basis   []*column
	pool    []*column
	best    *shelves // of the prices that proved most
}

// A column is a set of layers, by rows, or, of cost 0, what is held more often than
// need be. One layer alone stands in for a set at first, whether that fits or not.
type column struct {
	row   []int
	count []float64 // of layers
	cost  float64
	peak  float64 // what a processor needs for it
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
	for r := range m.layers {
		unit := make([]float64, len(m.layers))
		unit[r] = 1
		m.inverse = append(m.inverse, unit)
		m.basis = append(m.basis, &column{row: []int{r}, count: []float64{1}, cost: 1})
	}
	m.level = slices.Clone(m.layers)
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
		c, worth := &column{cost: 1, peak: peak}, 0.0
		for _, k := range layers {
			r := m.row[k]
			worth += duals[r]
			i := slices.Index(c.row, r)
			if i < 0 {
				i = len(c.row)
				c.row, c.count = append(c.row, r), append(c.count, 0)
			}
			c.count[i]++
		}
		if worth > 1+1e-6 {
			m.pool = append(m.pool, c)
			added = true
		}
	}
	return added
}

// optimum solves the program over the sets of the pool that fit in a memory, by the
// simplex method with an explicit inverse, and returns its duals by row. Sets that are
// worth little leave the pool. O(pool·entries + rows²) a step.
func (m *master) optimum(memory float64) (duals []float64) {
	for range 50 * len(m.layers) {
		duals = m.duals()
		var enters *column
		most := 1e-7
		for r, y := range duals {
			if -y > most {
				most, enters = -y, &column{row: []int{r}, count: []float64{-1}}
			}
		}
		for _, c := range m.pool {
			if gain := c.worth(duals) - c.cost; gain > most && c.peak <= memory {
				most, enters = gain, c
			}
		}
		if enters == nil || !m.enter(enters) {
			break
		}
	}
	m.pool = slices.DeleteFunc(m.pool, func(c *column) bool { return c.worth(duals) < littleWorth })
	return duals
}

// littleWorth is what a set is worth that is forgotten.
const littleWorth = 0.8

// worth is what duals are for a column.
func (c *column) worth(duals []float64) (sum float64) {
	for k, r := range c.row {
		sum += duals[r] * c.count[k]
	}
	return sum
}

// duals are the costs of the basis times its inverse.
func (m *master) duals() []float64 {
	y := make([]float64, len(m.layers))
	for i, c := range m.basis {
		if c.cost != 0 {
			for r, v := range m.inverse[i] {
				y[r] += v
			}
		}
	}
	return y
}

// enter takes c into the basis in place of the column that it first replaces.
func (m *master) enter(c *column) bool {
	d := make([]float64, len(m.layers)) // c in terms of the basis
	leaves, step := -1, math.Inf(1)
	for i, row := range m.inverse {
		for k, r := range c.row {
			d[i] += row[r] * c.count[k]
		}
		if d[i] > 1e-9 && m.level[i] < step*d[i] {
			leaves, step = i, m.level[i]/d[i]
		}
	}
	if leaves < 0 {
		return false
	}
	pivot := m.inverse[leaves]
	for r := range pivot {
		pivot[r] /= d[leaves]
	}
	for i, row := range m.inverse {
		if i != leaves && d[i] != 0 {
			for r, v := range pivot {
				row[r] -= d[i] * v
			}
			m.level[i] = max(0, m.level[i]-step*d[i])
		}
	}
	m.level[leaves], m.basis[leaves] = step, c
	return true
}
