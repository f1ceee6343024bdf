package pipeline

import (
	"encoding/binary"
	"math/bits"
	"slices"
)

// nogoods are sets of layers that some processors cannot have together (nogood learning, Dechter 1990). A nogood of
// layers 1..n, n being one of them and n+1 on another processor, says that no allocation whose processors split these
// layers alike has a pattern of the period, for any k: a label-setting search over these processors alone, in which
// everything else is a delay, is infeasible. That is a relaxation of the search over all of them.
type nogoods struct {
	search labelSearch
	run    searcher         // the search, except in tests
	known  map[string]known // by key
	small  int              // nogoods of at most mostNogood processors
	last   []learned        // that excluded the allocations before, the latest first
	key    []byte           // scratch
	sets   [][]int          // scratch
	stop   func() bool
}

// searcher runs the search over the layers 1..n of a set of processors, with at most width layers a
// step and at most most labels. It also returns the number of labels.
type searcher func(a *partialAllocation, n int, set processors, width, most int) (verdict, int)

// known has the results of the searches for one key.
type known struct {
	verdict
	made int // labels of a search that was unknown
}

// learned is a set of processors whose search was infeasible after the given number of labels.
type learned struct {
	set  processors
	made int
}

const (
	// firstLabels and mostLabels are the labels of the first search of an allocation, and of the last.
	firstLabels, mostLabels = 1 << 12, 1 << 21
	// retried is the number of learned sets that are tried first on the next allocation, with
	// retryLabels times as many labels: allocations that differ by a layer are usually excluded by
	// the same processors.
	retried, retryLabels = 6, 4
	// minimizeLabels times as many labels, and minimizeLeast more, may a search have that makes a nogood smaller.
	minimizeLabels, minimizeLeast = 4, 1 << 12
	// aloneLabels is the label limit for a single processor whenever a run of it ends.
	aloneLabels = 1 << 8
	// mostNogood is the maximum number of processors of a nogood that is looked up at the end of a
	// run.
	mostNogood = 3
)

// widths are the numbers of layers of a step that are tried one after the other: smaller steps prove more and take
// longer.
var widths = [...]int{64, 6, 3, 1}

func newNogoods(stop func() bool) *nogoods {
	g := &nogoods{known: map[string]known{}, stop: stop}
	g.search.store = &labelStore{}
	g.run = func(a *partialAllocation, n int, set processors, width, most int) (verdict, int) {
		g.search = labelSearch{network: a.network(n, set, width), store: g.search.store, stop: stop}
		v := g.search.run(most)
		return v, g.search.made
	}
	return g
}

// keyOf says which layers up to n the processors of a set have, whichever has which.
func (g *nogoods) keyOf(a *partialAllocation, n int, set processors) string {
	sets := g.sets[:0]
	for r, list := range a.on {
		if set.has(r) && len(list) > 0 && list[0] <= n {
			sets = append(sets, list)
		}
	}
	slices.SortFunc(sets, func(x, y []int) int { return x[0] - y[0] })
	key := g.key[:0]
	for _, list := range sets {
		for _, l := range list {
			if l <= n {
				key = binary.LittleEndian.AppendUint16(key, uint16(l))
			}
		}
		key = append(key, 0, 0)
	}
	g.sets, g.key = sets, key
	return string(key)
}

// decide returns what the search over layers 1..n of a set shows with at most as many labels, and how many it made now.
func (g *nogoods) decide(a *partialAllocation, n int, set processors, most int) (verdict, int) {
	key := g.keyOf(a, n, set)
	x, tried := g.known[key]
	if tried && (x.verdict != unknown || x.made >= most) {
		return x.verdict, 0
	}
	v, made := g.run(a, n, set, widths[0], most)
	g.known[key] = known{v, made}
	if v == infeasible && bits.OnesCount64(uint64(set)) <= mostNogood {
		g.small++
	}
	return v, made
}

// atRunEnd returns a known nogood, or one found by a short search of a single processor, that
// excludes the end of the run of layer l; the empty set if there is none. used processors are in
// use. O(used²).
func (g *nogoods) atRunEnd(a *partialAllocation, l, used int) (set processors, made int) {
	q := a.owner[l]
	if used > mostMinimized {
		return 0, 0
	}
	if g.small > 0 {
		if set := g.lookUp(a, one(q), l, 0, used); set != 0 {
			return set, 0
		}
	}
	v, made := g.decide(a, l, one(q), aloneLabels)
	if v == infeasible {
		return one(q), made
	}
	return 0, made
}

// lookUp returns a nogood that has those processors and others from a number on.
func (g *nogoods) lookUp(a *partialAllocation, set processors, l, from, used int) processors {
	if x, tried := g.known[g.keyOf(a, l, set)]; tried && x.verdict == infeasible {
		return set
	}
	if bits.OnesCount64(uint64(set)) == mostNogood {
		return 0
	}
	for r := from; r < used; r++ {
		if !set.has(r) {
			if found := g.lookUp(a, set|one(r), l, r+1, used); found != 0 {
				return found
			}
		}
	}
	return 0
}

// exclude searches for a nogood of a complete allocation within a work budget: among the sets that
// excluded earlier allocations, and over all processors with steps of fewer and fewer layers. It
// returns the set, empty if none was found, the n of its layers 1..n, and the work, in units of
// labelsAUnit labels.
func (g *nogoods) exclude(a *partialAllocation, used int, budget int64) (set processors, n int, work int64) {
	made := 0
	spent := func() int64 { return int64(made / labelsAUnit) }
	try := func(set processors, width, most int) verdict {
		most = int(min(int64(most), labelsAUnit*max(0, budget-spent())))
		v, m := unknown, 0
		if width == widths[0] {
			v, m = g.decide(a, a.lastOf(set, a.in.N), set, most)
		} else {
			v, m = g.run(a, a.in.N, set, width, most)
		}
		made += m
		return v
	}
	found := func(set processors, labels int) (processors, int, int64) {
		if labels > 0 {
			g.last = slices.DeleteFunc(g.last, func(x learned) bool { return x.set == set })
			g.last = slices.Insert(g.last, 0, learned{set, labels})
			g.last = g.last[:min(len(g.last), retried)]
		}
		n := a.lastOf(set, a.in.N)
		set, n = g.minimize(a, set, n, used, minimizeLabels*labels+minimizeLeast, &made)
		return set, n, spent()
	}
	for _, x := range slices.Clone(g.last) {
		before := made
		if try(x.set, widths[0], max(firstLabels, retryLabels*x.made)) == infeasible {
			return found(x.set, made-before)
		}
	}
	for most := firstLabels; most <= mostLabels; most *= 8 {
		before := made
		switch try(allProcessors, widths[0], most) {
		case infeasible:
			return found(allProcessors, made-before)
		case feasible:
			for _, width := range widths[1:] {
				switch try(allProcessors, width, mostLabels) {
				case infeasible:
					return allProcessors, a.in.N, spent()
				case unknown:
					return 0, 0, spent()
				}
			}
			return 0, 0, spent()
		}
	}
	return 0, 0, spent()
}

// labelsAUnit is the number of labels that cost as much as one node of the enumeration.
const labelsAUnit = 4

// minimize makes a nogood smaller as long as searches stay infeasible with at most as many labels (deletion filter): it
// leaves out processors, the last one first, and then the last runs.
func (g *nogoods) minimize(a *partialAllocation, set processors, n, used, most int, made *int) (processors, int) {
	holds := func(set processors, n int) bool {
		v, m := g.decide(a, n, set, most)
		*made += m
		return v == infeasible
	}
	if used <= mostMinimized {
		for r := used - 1; r >= 0; r-- {
			whole := set
			if set == allProcessors {
				whole = one(used) - 1
			}
			less := whole &^ one(r)
			if m := a.lastOf(less, n); less != whole && m > 0 && holds(less, m) {
				set, n = less, m
			}
		}
	}
	for {
		m := a.lastOf(set, a.runBefore(n))
		if m == 0 || !holds(set, m) {
			return set, n
		}
		n = m
	}
}

// mostMinimized is the maximum number of processors in use for which nogoods are minimized.
const mostMinimized = 16

// lastOf returns the last of layers 1..n on those processors, 0 if there is none.
func (a *partialAllocation) lastOf(set processors, n int) int {
	for n > 0 && !set.has(a.owner[n]) {
		n--
	}
	return n
}

// runBefore returns the end of the run before that of layer n.
func (a *partialAllocation) runBefore(n int) int {
	r := a.owner[n]
	for n > 0 && a.owner[n] == r {
		n--
	}
	return n
}
