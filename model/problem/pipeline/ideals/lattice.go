package ideals

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"sort"

	"workbench/model/plan"
)

// ErrMany reports a graph with more ideals than allowed.
var ErrMany = errors.New("too many ideals")

// Lattice has the ideals of a graph by number of atoms; the first is empty, the last is everything.
// An atom is a layer or, in a graph with too many ideals, a set of layers that is never divided.
// Ideals that would divide an atom are omitted, and with them stages that might be better.
type Lattice struct {
	View  *View
	Atoms [][]int   // layers, each in a topological order
	Cut   []float64 // by ideal: the values that are read outside, in memory units
	Work  []float64 // Σ F + B of its layers, seconds
	Below [][]int   // by ideal: those with one atom less
	words int
	sets  []uint64
	mark  []int // for Kept: by value, when it was counted
	turn  int
	least map[leastOf]leastFound
}

// Len returns the number of ideals.
func (t *Lattice) Len() int { return len(t.Cut) }

// Has reports whether layer l is in ideal i.
func (t *Lattice) Has(i, l int) bool { return t.sets[i*t.words+l/64]>>(l%64)&1 != 0 }

// Lattice returns the ideals of a graph, at most most. The graph is coarsened until it has no more:
// a layer is merged with its only reader or its only input, the shortest first. The error wraps
// ErrMany if that does not suffice. O(ideals·(N + edges)) time and O(ideals·(N/64 + width)) memory,
// where width is the size of a maximum antichain of the graph.
func (v *View) Lattice(most int) (*Lattice, error) {
	return v.coarser(most, make([]float64, v.N), make([]int, v.N), nil)
}

// coarser is Lattice with an order of merging: distant layers before near ones, then the shortest
// first, and only layers on the same side. It returns nil once stop is closed. A coarser lattice
// has a subset of the ideals of a finer one, so the finest one with at most most ideals is found by
// bisection.
func (v *View) coarser(most int, far []float64, side []int, stop plan.Stop) (*Lattice, error) {
	m := v.merging(far, side)
	if t := v.lattice(m.atoms(), most); t != nil {
		return t, nil
	}
	var list [][][]int
	for n := v.N; m.parts <= n && n >= 4; list = append(list, m.atoms()) {
		n = n * 7 / 8
		if m.down(n, stop); stop.Given() {
			return nil, nil
		}
	}
	var finest *Lattice // of those tried: each is finer than the previous one
	sort.Search(len(list), func(k int) bool {
		t := v.lattice(list[k], most)
		if t != nil {
			finest = t
		}
		return t != nil
	})
	if finest == nil {
		return nil, fmt.Errorf("%w: %q has more than %d, also with only %d parts", ErrMany, v.Graph.Name, most, m.parts)
	}
	return finest, nil
}

// Near returns a lattice that contains the chosen ideals of t, a chain, and is finer near them
// where t omits ideals: layers are merged first where most work lies between them and the nearest
// of these ideals. It returns nil if that has more than most ideals or stop is closed.
func (t *Lattice) Near(chosen []int, most int, stop plan.Stop) *Lattice {
	v := t.View
	far, side := slices.Repeat([]float64{math.Inf(1)}, v.N), make([]int, v.N)
	for _, i := range chosen {
		for l := 0; l < v.N && i < t.Len()-1; l++ {
			if stop.Given() {
				return nil
			}
			inside := t.Has(i, l)
			if !inside {
				side[l]++
			}
			far[l] = min(far[l], v.between(l, inside, func(m int) bool { return t.Has(i, m) == inside }))
		}
	}
	finer, err := v.coarser(most, far, side, stop)
	if err != nil {
		return nil
	}
	return finer
}

// between returns the work of layer l and of the layers within a set that depend on it (needing),
// or else that it depends on.
func (v *View) between(l int, needing bool, within func(int) bool) (work float64) {
	next := v.Pred
	if needing {
		next = v.Succ
	}
	seen := map[int]bool{l: true}
	for stack := []int{l}; len(stack) > 0; {
		m := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		work += v.F[m] + v.B[m]
		for _, r := range next[m] {
			if !seen[r] && within(r) {
				seen[r] = true
				stack = append(stack, r)
			}
		}
	}
	return work
}

// lattice returns the ideals of given atoms, nil if there are more than most.
func (v *View) lattice(atoms [][]int, most int) *Lattice {
	t := &Lattice{View: v, Atoms: atoms, words: (v.N + 63) / 64}
	t.sets = make([]uint64, t.words)
	t.Cut, t.Work, t.Below = []float64{0}, []float64{0}, [][]int{nil}
	known := map[string]int{}
	key := make([]byte, 8*t.words)
	for i := 0; i < t.Len(); i++ {
		for _, atom := range atoms {
			if t.Has(i, atom[0]) || !t.ready(i, atom) {
				continue
			}
			set := slices.Clone(t.sets[i*t.words : (i+1)*t.words])
			work := t.Work[i]
			for _, l := range atom {
				set[l/64] |= 1 << (l % 64)
				work += v.F[l] + v.B[l]
			}
			for w, x := range set {
				binary.LittleEndian.PutUint64(key[8*w:], x)
			}
			j, found := known[string(key)]
			if !found {
				if j = t.Len(); j >= most {
					return nil
				}
				known[string(key)] = j
				t.sets = append(t.sets, set...)
				t.Work = append(t.Work, work)
				t.Cut = append(t.Cut, t.crossing(j))
				t.Below = append(t.Below, nil)
			}
			t.Below[j] = append(t.Below[j], i)
		}
	}
	return t
}

// ready reports whether everything that an atom reads is in ideal i or in the atom.
func (t *Lattice) ready(i int, atom []int) bool {
	for _, l := range atom {
		for _, u := range t.View.Pred[l] {
			if !t.Has(i, u) && !slices.Contains(atom, u) {
				return false
			}
		}
	}
	return true
}

// merging merges layers into parts: a part with its only reader, or with its only input, which
// creates no cycle, in the order of [View.coarser].
type merging struct {
	*View
	parts      int
	of         []int     // the part of a layer, identified by one of its layers
	side       []int     // of a part
	work, near []float64 // the same
	only       []int     // scratch
}

func (v *View) merging(far []float64, side []int) *merging {
	m := &merging{View: v, parts: v.N, of: v.Order(), side: side, work: make([]float64, v.N), near: slices.Clone(far), only: make([]int, v.N)}
	for l := range m.work {
		m.work[l] = v.F[l] + v.B[l]
	}
	return m
}

// down merges until there are at most n parts, or nothing can be merged, or stop is closed. O(N +
// edges) a merge.
func (m *merging) down(n int, stop plan.Stop) {
	for ; m.parts > n && !stop.Given(); m.parts-- {
		a, b := m.pair()
		if a < 0 {
			return
		}
		for l := range m.of {
			if m.of[l] == a {
				m.of[l] = b
			}
		}
		m.work[b] += m.work[a]
		m.near[b] = min(m.near[b], m.near[a])
	}
}

// pair returns the parts to merge next, -1 if there are none.
func (m *merging) pair() (a, b int) {
	a, b = -1, -1
	for _, next := range [][][]int{m.Succ, m.Pred} {
		only := m.only // by part: its only neighbour; none (-1) or several (-2)
		for x := range only {
			only[x] = -1
		}
		for l := range m.of {
			for _, r := range next[l] {
				if x, y := m.of[l], m.of[r]; x != y && only[x] != y {
					if only[x] == -1 {
						only[x] = y
					} else {
						only[x] = -2
					}
				}
			}
		}
		for x, y := range only {
			if y < 0 || m.side[x] != m.side[y] {
				continue
			}
			if a < 0 || cmp.Or(cmp.Compare(min(m.near[a], m.near[b]), min(m.near[x], m.near[y])),
				cmp.Compare(m.work[x]+m.work[y], m.work[a]+m.work[b])) < 0 {
				a, b = x, y
			}
		}
	}
	return a, b
}

// atoms returns the layers of each part.
func (m *merging) atoms() [][]int {
	var atoms [][]int
	place := map[int]int{}
	for l, x := range m.of {
		k, known := place[x]
		if !known {
			k = len(atoms)
			place[x] = k
			atoms = append(atoms, nil)
		}
		atoms[k] = append(atoms[k], l)
	}
	return atoms
}

// crossing returns the sum of the values of ideal i that are read outside.
func (t *Lattice) crossing(i int) (sum float64) {
	for w, x := range t.sets[i*t.words : (i+1)*t.words] {
		for ; x != 0; x &= x - 1 {
			u := 64*w + bits.TrailingZeros64(x)
			for _, r := range t.View.Succ[u] {
				if !t.Has(i, r) {
					sum += t.View.Out[u]
					break
				}
			}
		}
	}
	return sum
}

// Kept returns the memory of a mini-batch in flight on a stage that has the layers of ideal j that
// are not in i, and their weights. O(N + edges).
func (t *Lattice) Kept(i, j int) (kept, weight float64) {
	v := t.View
	if t.mark == nil {
		t.mark = make([]int, v.N)
	}
	t.turn++
	input := false
	for w := range t.words {
		for x := t.sets[j*t.words+w] &^ t.sets[i*t.words+w]; x != 0; x &= x - 1 {
			l := 64*w + bits.TrailingZeros64(x)
			weight += v.Weight[l]
			for _, u := range v.kept[l] {
				if t.mark[u] != t.turn {
					t.mark[u] = t.turn
					kept += v.Out[u]
				}
			}
			input = input || len(v.Pred[l]) == 0
		}
	}
	if input {
		kept += v.Graph.Input
	}
	return kept, weight
}

// Order returns the layers in the order of a chain of ideals, and in file order between two; the
// last ideal must be everything.
func (t *Lattice) Order(chosen []int) []int {
	var order []int
	i := 0
	for _, j := range chosen {
		for l := range t.View.N {
			if t.Has(j, l) && !t.Has(i, l) {
				order = append(order, l)
			}
		}
		i = j
	}
	return order
}

// Walk visits the ideals below one.
type Walk struct {
	lattice *Lattice
	seen    []int
	turn    int
	stack   []int
}

// Walk returns a Walk that can be reused, but not concurrently.
func (t *Lattice) Walk() *Walk { return &Walk{lattice: t, seen: make([]int, t.Len())} }

// VisitSubsets calls visit for the proper sub-ideals of j. It skips those below an ideal for which
// visit returns false, unless they are below others. O(visited ideals · width).
func (w *Walk) VisitSubsets(j int, visit func(i int) bool) {
	w.turn++
	w.stack = append(w.stack[:0], j)
	for len(w.stack) > 0 {
		x := w.stack[len(w.stack)-1]
		w.stack = w.stack[:len(w.stack)-1]
		for _, i := range w.lattice.Below[x] {
			if w.seen[i] != w.turn {
				w.seen[i] = w.turn
				if visit(i) {
					w.stack = append(w.stack, i)
				}
			}
		}
	}
}
