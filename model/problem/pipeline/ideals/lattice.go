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

// ErrMany says that a graph has more ideals than were asked for.
var ErrMany = errors.New("too many ideals")

// Lattice is the ideals of a graph by number of atoms; the first is empty, the last is
// everything. An atom is a layer or, of a graph that has too many ideals, some that are
// never parted: ideals between them are left out, and with them stages that might be
// better.
type Lattice struct {
	View  *View
	Atoms [][]int   // layers, in a topological order each
	Cut   []float64 // of an ideal: the values that are read outside, in units
	Work  []float64 // Σ F + B of its layers, seconds
	Below [][]int   // of an ideal: those with an atom less
	words int
	sets  []uint64
	mark  []int // for Kept: a value, when it was counted
	turn  int
	least map[leastOf]leastFound
}

// Len returns the number of ideals.
func (t *Lattice) Len() int { return len(t.Cut) }

// Has reports whether layer l is in ideal i.
func (t *Lattice) Has(i, l int) bool { return t.sets[i*t.words+l/64]>>(l%64)&1 != 0 }

// Lattice returns the ideals, at most so many, of a graph made coarser until there are no
// more: layers are merged with the only ones that read them, or that they read, the
// quickest first. The error wraps ErrMany if that does not suffice.
// O(ideals·(N + edges)) time and O(ideals·(N/64 + width)) memory for a width of the
// graph, the most layers of which none reads another.
func (v *View) Lattice(most int) (*Lattice, error) {
	return v.coarser(most, make([]float64, v.N), make([]int, v.N), nil)
}

// coarser is Lattice that merges layers that are far before those that are near, the
// quickest of equals first, and only layers of one side; nil once that is to end. Fewer
// parts are made of more, which have all their ideals, so that the finest lattice with no
// more than most is found by halving.
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
	var finest *Lattice // of those that were tried: each is finer than the one before
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

// Near returns a lattice that has some ideals of t, each in the next, and where t leaves
// ideals out is finer near them: layers are merged first where most work is between them
// and the nearest of these ideals. nil if that would be more than most, or is to end.
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

// between is the work of layer l and of those that need it, or else that it needs, which
// are within some set.
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

// lattice returns the ideals of whole atoms, nil if there are more than most.
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

// ready reports whether all that an atom reads is in ideal i or in itself.
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

// A merging of layers into parts: a part with the only one that reads it, or the only one
// that it reads, which closes no cycle, in the order of [View.coarser].
type merging struct {
	*View
	parts      int
	of         []int     // the part of a layer, named by one of its layers
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

// down merges until there are at most n parts, or nothing can be merged, or that is to end.
// O(N + edges) a merger.
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

// pair returns the parts that are merged next, -1: there are none.
func (m *merging) pair() (a, b int) {
	a, b = -1, -1
	for _, next := range [][][]int{m.Succ, m.Pred} {
		only := m.only // of a part: none, one, or several (-2)
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

// atoms lists the layers of each part.
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

// crossing is the sum of the values of ideal i that are read outside.
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

// Kept returns what a mini-batch in flight takes on a stage that has the layers of ideal
// j that are not in i, and their weights. O(N + edges).
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

// Order returns the layers in the order of some ideals, each with those before it, and
// in that of the file between two; the last of them is everything.
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

// A Walk visits the ideals below one.
type Walk struct {
	lattice *Lattice
	seen    []int
	turn    int
	stack   []int
}

// Walk returns one that can be used again and again, not by several at once.
func (t *Lattice) Walk() *Walk { return &Walk{lattice: t, seen: make([]int, t.Len())} }

// VisitSubsets calls visit for the ideals that are properly in j, but not for those below one
// for which it returns false, unless they are below others. O(what is visited · width).
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
