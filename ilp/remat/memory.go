package remat

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"

	"workbench/ilp/formulation"
	"workbench/model/milp"
)

// item is a column of a memory row with its size. At most one item of a layer is stored ("one
// copy").
type item struct {
	v     milp.Var
	layer int
	size  float64
}

// memoryRow states that what is stored fits in room, an integer. The model may contain another row
// with the same integer solutions, see limit.
type memoryRow struct {
	items []item
	room  float64
}

// collect appends the columns that have a size.
func (f *chainMILP) collect(items []item, size float64, kind, k, i int) []item {
	if v, ok := f.column(kind, k, i); ok && size > 0 {
		items = append(items, item{v, i, size})
	}
	return items
}

// found collects what stage k finds of layers first..last.
func (f *chainMILP) found(items []item, k, first, last int) []item {
	for i := first; i <= last; i++ {
		items = f.collect(items, f.v.A[i], foundA, k, i)
		items = f.collect(items, f.v.Abar[i], foundAbar, k, i)
	}
	return items
}

// present collects what is there of layer i for who reads it in stage k.
func (f *chainMILP) present(items []item, k, i int) []item {
	items = f.found(items, k, i, i)
	items = f.collect(items, f.v.A[i], runCk, k, i)
	return f.collect(items, f.v.Abar[i], runAll, k, i)
}

// backwardMemory adds the memory during B_t, which ends stage k: of the layers before its input
// what the next stage finds. Its input is stored, by "input of B": at least a_{t-1}, which ā_{t-1}
// exceeds by the difference.
func (f *chainMILP) backwardMemory(k int) {
	t := f.top(k)
	g := f.m.Group("memory of B", "the rules")
	items := f.found(nil, k+1, 0, t-2)
	items = f.collect(items, f.v.Abar[t-1]-f.v.A[t-1], foundAbar, k, t-1)
	items = f.collect(items, f.v.Abar[t-1]-f.v.A[t-1], runAll, k, t-1)
	f.limit(g, items, f.v.Memory-f.v.A[t-1]-f.v.Abar[t]-f.v.Delta[t]-f.v.Delta[t-1]-f.v.OB[t])
}

// forwardMemory adds the memory during F_l, or when it would run.
func (f *chainMILP) forwardMemory(ctx context.Context) {
	g := f.m.Group("memory of F", "the rules")
	for k := range f.cols {
		if ctx.Err() != nil {
			return
		}
		t := f.top(k)
		for l := 1; l <= t; l++ {
			items := f.present(f.found(nil, k+1, 0, l-2), k, l-1)
			items = f.found(items, k, l, t)
			items = f.collect(items, f.v.A[l]+f.v.OC[l], runCk, k, l)
			items = f.collect(items, f.v.Abar[l]+f.v.OF[l], runAll, k, l)
			f.limit(g, items, f.v.Memory-f.v.Delta[t])
		}
	}
}

// limit adds that the items fit. An item that does not fit alone is fixed to 0; a row that always
// holds is omitted; the others are rewritten with fewer and coarser coefficients, and scaled by a
// power of two. If sums that fit and sums that do not are too close for a solver to distinguish,
// cover cuts state what does not fit, if there are few.
func (f *chainMILP) limit(g milp.Group, items []item, room float64) {
	f.rows = append(f.rows, memoryRow{items, room})
	some := make([]item, 0, len(items))
	for _, x := range items {
		if x.size > room {
			f.m.Fix(x.v, 0)
			continue
		}
		some = append(some, x)
	}
	if most(some) <= room {
		return
	}
	some, room, gap := fewer(some, room)
	largest := 0.0
	for _, x := range some {
		largest = max(largest, x.size)
	}
	if gap < visible*largest {
		if covers := minimalCovers(some, room); covers != nil {
			for _, c := range covers {
				f.e.Reset()
				for _, x := range c {
					f.e.Add(1, x.v)
				}
				f.m.Group("does not fit", "memory of B and F").AtMost(&f.e, float64(len(c)-1))
			}
			return
		}
	}
	coarser(some, &room, gap)
	scale := milp.PowerOfTwo(largest, scaled)
	f.e.Reset()
	for _, x := range some {
		if x.size > 0 {
			f.e.Add(x.size*scale, x.v)
		}
	}
	g.AtMost(&f.e, room*scale)
}

// coarser rounds sizes and room down to multiples of a power of two, if no sum is between room and
// room + gap. The row has few digits, which solvers handle well, and the same integer solutions.
//
// Proof. At most n items are stored, one of a layer, and n multiples are at most gap/2. What fits
// takes no more than before, so at most room, and as a multiple at most room rounded down. What
// does not fit takes room + gap, and rounded down still more than room.
func coarser(items []item, room *float64, gap float64) {
	n := float64(len(byLayer(items)))
	if math.IsInf(gap, 1) || gap < 4*n {
		return
	}
	_, e := math.Frexp(gap / (2 * n))
	q := math.Ldexp(1, e-1)
	for i := range items {
		items[i].size = math.Floor(items[i].size/q) * q
	}
	*room = math.Floor(*room/q) * q
}

// visible is the fraction of the largest number of a row that solvers can distinguish, with a
// margin: their tolerance is 10^-6 in numbers of about scaled.
const visible = 0x1p-16

// byLayer returns the sizes there can be of each layer.
func byLayer(items []item) map[int][]float64 {
	sizes := map[int][]float64{}
	for _, x := range items {
		sizes[x.layer] = append(sizes[x.layer], x.size)
	}
	return sizes
}

// most returns the largest sum of items, one of each layer.
func most(items []item) (sum float64) {
	for _, sizes := range byLayer(items) {
		sum += slices.Max(sizes)
	}
	return sum
}

// apart is the ratio of sizes between which fewer tries to cut.
const apart = 16

// fewer returns a row with the same integer solutions, as far as it is quickly found: one without
// the smaller items that never matter, and with room reduced to what can be filled. gap is the
// minimum by which an infeasible sum exceeds it, +Inf if unknown.
//
// Proof. Let the items of at least some size be large, the others small with total s, and let b be
// the most that large ones fill of room. If b ≤ room − s, the large ones that fit leave room for
// all small ones: the row states that the large ones take at most room, or at most b.
func fewer(items []item, room float64) (some []item, filled, gap float64) {
	sizes := make([]float64, len(items))
	for i, x := range items {
		sizes[i] = x.size
	}
	slices.Sort(sizes)
	sizes = slices.Compact(sizes)
	for i := len(sizes) - 1; i >= 0; i-- {
		if i > 0 && sizes[i] < apart*sizes[i-1] {
			continue
		}
		var large, small []item
		for _, x := range items {
			if x.size >= sizes[i] {
				large = append(large, x)
			} else {
				small = append(small, x)
			}
		}
		if below, above, ok := around(large, room); ok && below <= room-most(small) {
			return large, below, above - below
		}
	}
	return slices.Clone(items), room, math.Inf(1)
}

// sums is the number of sums that around keeps.
const sums = 256

// around returns the largest sum of items, one of each layer at most, in the
// room, and the smallest beyond it, +Inf if there is none. They are not known if
// that takes more than a few sums.
func around(items []item, room float64) (below, above float64, ok bool) {
	layers := byLayer(items)
	rest := most(items)
	now := []float64{0}
	above = math.Inf(1)
	for _, layer := range slices.Sorted(maps.Keys(layers)) {
		sizes := append(layers[layer], 0)
		rest -= slices.Max(sizes)
		var next []float64
		for _, sum := range now {
			for _, x := range sizes {
				switch {
				case sum+x > room:
					above = min(above, sum+x)
				case sum+x+rest <= room:
					below = max(below, sum+x+rest)
				default:
					next = append(next, sum+x)
				}
			}
		}
		slices.Sort(next)
		now = slices.Compact(next)
		if len(now) > sums {
			return 0, 0, false
		}
	}
	return below, above, true
}

// Limits of minimalCovers.
const (
	mostCovers = 64
	mostSets   = 4096 // looked at
)

// minimalCovers returns the sets of items of different layers that do not fit,
// though each would without any of its items; nil if there are many.
func minimalCovers(items []item, room float64) (covers [][]item) {
	items = slices.Clone(items)
	slices.SortStableFunc(items, func(x, y item) int { return cmp.Compare(y.size, x.size) })
	sets := 0
	var set []item
	var search func(from int, sum float64) bool
	search = func(from int, sum float64) bool {
		for i := from; i < len(items); i++ {
			x := items[i]
			if slices.ContainsFunc(set, func(y item) bool { return y.layer == x.layer }) {
				continue
			}
			if sets++; sets > mostSets {
				return false
			}
			set = append(set, x)
			if sum+x.size > room { // not without x, the smallest
				covers = append(covers, slices.Clone(set))
			} else if !search(i+1, sum+x.size) {
				return false
			}
			set = set[:len(set)-1]
		}
		return len(covers) <= mostCovers
	}
	if !search(0, 0) {
		return nil
	}
	return covers
}

// Cover is a cover cut: it names items of a memory row, by number, that do not fit together. In
// numbers of many magnitudes a solver with tolerances cannot tell; here all coefficients are 1.
type Cover struct {
	Row   int   `json:"row"`
	Items []int `json:"items"`
}

// cover adds the covers, after a look at whether they are. What is as large as
// the largest of one cannot replace any of its items either.
func (f *chainMILP) cover() error {
	if len(f.covers) == 0 {
		return nil
	}
	g := f.m.Group("covers", "these cannot all stay")
	for _, c := range f.covers {
		if c.Row < 0 || c.Row >= len(f.rows) {
			return fmt.Errorf("%w: a cover of memory row %d, there are %d", formulation.ErrInstance, c.Row, len(f.rows))
		}
		row := &f.rows[c.Row]
		in := make([]bool, len(row.items))
		sum, largest := 0.0, 0.0
		for _, i := range c.Items {
			if i < 0 || i >= len(in) || in[i] {
				return fmt.Errorf("%w: a cover has item %d of %d, or a duplicate item", formulation.ErrInstance, i, len(in))
			}
			in[i] = true
			sum += row.items[i].size
			largest = max(largest, row.items[i].size)
		}
		if sum <= row.room {
			return fmt.Errorf("%w: a cover takes %.0f, the limit is %.0f", formulation.ErrInstance, sum, row.room)
		}
		f.e.Reset()
		for i, x := range row.items {
			if in[i] || x.size >= largest {
				f.e.Add(1, x.v)
			}
		}
		g.AtMost(&f.e, float64(len(c.Items)-1))
	}
	return nil
}

// broken returns covers that a solution breaks, one of each memory row that it
// breaks in exact arithmetic, of items as large as possible.
func (f *chainMILP) broken(x []float64) (covers []Cover) {
	for k, row := range f.rows {
		var there []int
		sum := 0.0
		for i, it := range row.items {
			if x[it.v.Index()] > 0.5 {
				there = append(there, i)
				sum += it.size
			}
		}
		if sum <= row.room {
			continue
		}
		slices.SortStableFunc(there, func(i, j int) int { return cmp.Compare(row.items[i].size, row.items[j].size) })
		for len(there) > 0 && sum-row.items[there[0]].size > row.room {
			sum -= row.items[there[0]].size
			there = there[1:]
		}
		covers = append(covers, Cover{k, there})
	}
	return covers
}
