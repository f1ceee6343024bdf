package placement

import (
	"fmt"
	"math"
	"slices"

	"workbench/model/exhaustive"
	"workbench/model/instance/lifetimes"
)

// structured searches one pool of lifetimes with every rule. Buffers that are not pinned
// are placed in the order of their offsets, each on address 0 or the first aligned one on
// top of a placed or pinned buffer or a reserved range. Some optimal placement looks like
// this: that with the least sum of offsets, for a buffer that could go down without a new
// overlap would.
type structured struct {
	l         *lifetimes.Lifetimes
	pool      lifetimes.Pool
	classes   [][]int // colocated buffers, one or more each, that are not pinned
	limit     int
	penalties bool
	at        []float64 // by buffer; NaN: not placed
	value     float64   // of best; infinite: there is none
	best      []float64
}

// structuredPlacement returns the least objective of l and offsets that have it, within the
// capacities and, of the sum of the heights, the memory.
func structuredPlacement(l *lifetimes.Lifetimes, memory float64, limit int) (float64, []float64, error) {
	at, total, largest, penalty := make([]float64, len(l.Buffers)), 0.0, 0.0, 0.0
	penalties := l.Objective == lifetimes.TotalPenalty
	for k, pool := range l.PoolList() {
		if penalties && len(l.Pools) <= 1 {
			pool.Capacity = min(pool.Capacity, memory)
		}
		s := &structured{l: l, pool: pool, limit: limit, penalties: penalties, at: make([]float64, len(l.Buffers)), value: math.Inf(1)}
		if !s.prepare(k) {
			return 0, nil, exhaustive.ErrInfeasible
		}
		s.place(0, -1, 0)
		switch {
		case s.limit < 0:
			return 0, nil, fmt.Errorf("%w: more than %d", exhaustive.ErrLimit, limit)
		case math.IsInf(s.value, 1):
			return 0, nil, exhaustive.ErrInfeasible
		}
		height := 0.0
		for i := range l.Buffers {
			if l.Buffers[i].Pool == k {
				at[i] = s.best[i]
				if l.Buffers[i].Size > 0 {
					height = max(height, at[i]+l.Buffers[i].Size)
				}
			}
		}
		total, largest = total+height, max(largest, height)
		if penalties {
			penalty += s.value
		}
	}
	switch {
	case total > memory:
		return 0, nil, exhaustive.ErrInfeasible
	case penalties:
		return penalty, at, nil
	case l.Objective == lifetimes.LargestHeight:
		return largest, at, nil
	}
	return total, at, nil
}

// prepare places pins and what takes no address, and collects the rest of pool k.
func (s *structured) prepare(k int) bool {
	class := make([]int, len(s.l.Buffers))
	for i := range class {
		class[i] = i
	}
	for range s.l.Colocations {
		for _, x := range s.l.Colocations {
			first := min(class[x.First], class[x.Second])
			class[x.First], class[x.Second] = first, first
		}
	}
	pins := map[int]float64{}
	for i := range s.l.Buffers {
		if b := &s.l.Buffers[i]; b.Pool == k && b.Pinned {
			pins[class[i]] = b.Offset
		}
	}
	sets := map[int][]int{}
	var order []int
	for i := range s.l.Buffers {
		s.at[i] = math.NaN()
		if s.l.Buffers[i].Pool != k {
			continue
		}
		if sets[class[i]] == nil {
			order = append(order, class[i])
		}
		sets[class[i]] = append(sets[class[i]], i)
	}
	for _, c := range order {
		pin, pinned := pins[c]
		switch {
		case pinned && !s.free(sets[c], pin):
			return false
		case pinned || s.l.Buffers[c].Size == 0:
			s.put(sets[c], pin)
		default:
			s.classes = append(s.classes, sets[c])
		}
	}
	return true
}

func (s *structured) put(set []int, at float64) {
	for _, i := range set {
		s.at[i] = at
	}
}

// free reports whether a set may be at an address beside what is placed.
func (s *structured) free(set []int, at float64) bool {
	for _, i := range set {
		b := &s.l.Buffers[i]
		end := at + b.Size
		if b.Size == 0 {
			continue
		}
		if math.Mod(at, float64(s.l.GridOf(i))) != 0 || end > s.pool.Capacity {
			return false
		}
		for _, r := range s.pool.Reserved {
			if at < r.End && r.Begin < end {
				return false
			}
		}
		for j := range s.l.Buffers {
			if c := &s.l.Buffers[j]; !slices.Contains(set, j) && !math.IsNaN(s.at[j]) && c.Size > 0 && at < s.at[j]+c.Size && s.at[j] < end &&
				s.conflict(i, j) {
				return false
			}
		}
	}
	return true
}

// conflict reports whether two buffers of the pool may not overlap.
func (s *structured) conflict(i, j int) bool {
	b, c := &s.l.Buffers[i], &s.l.Buffers[j]
	either := func(list []lifetimes.Pair) bool {
		return slices.Contains(list, lifetimes.Pair{First: i, Second: j}) || slices.Contains(list, lifetimes.Pair{First: j, Second: i})
	}
	if b.Exclusive || c.Exclusive || either(s.l.Separations) {
		return true
	}
	for _, p := range b.Intervals() {
		for _, q := range c.Intervals() {
			if p.Lower < q.Upper && q.Lower < p.Upper {
				return !either(s.l.Exclusions)
			}
		}
	}
	return false
}

// place places what is left, no lower than from, of equal offsets after class last.
func (s *structured) place(from float64, last, placed int) {
	if s.limit--; s.limit < 0 || s.objective() >= s.value {
		return
	}
	if placed == len(s.classes) {
		s.value, s.best = s.objective(), slices.Clone(s.at)
		return
	}
	bases := []float64{0}
	for i := range s.l.Buffers {
		if !math.IsNaN(s.at[i]) {
			bases = append(bases, s.at[i]+s.l.Buffers[i].Size)
		}
	}
	for _, r := range s.pool.Reserved {
		bases = append(bases, r.End)
	}
	for k, set := range s.classes {
		if !math.IsNaN(s.at[set[0]]) {
			continue
		}
		grid := 1.0
		for _, i := range set {
			for g := grid; math.Mod(grid, float64(s.l.GridOf(i))) != 0; {
				grid += g
			}
		}
		var tried []float64
		for _, x := range bases {
			at := math.Ceil(x/grid) * grid
			if at < from || at == from && k < last || slices.Contains(tried, at) || !s.free(set, at) {
				continue
			}
			tried = append(tried, at)
			s.put(set, at)
			s.place(at, k, placed+1)
			s.put(set, math.NaN())
		}
	}
}

// objective returns the height, or the penalties, of what is placed.
func (s *structured) objective() (x float64) {
	taken := func(i int) bool { return !math.IsNaN(s.at[i]) && s.l.Buffers[i].Size > 0 }
	if !s.penalties {
		for i := range s.l.Buffers {
			if taken(i) {
				x = max(x, s.at[i]+s.l.Buffers[i].Size)
			}
		}
		return x
	}
	for _, p := range s.l.Penalties {
		i, j := p.First, p.Second
		if taken(i) && taken(j) && s.at[i] < s.at[j]+s.l.Buffers[j].Size && s.at[j] < s.at[i]+s.l.Buffers[i].Size {
			x += float64(p.Cost)
		}
	}
	return x
}
