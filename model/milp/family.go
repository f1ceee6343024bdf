package milp

import (
	"fmt"
	"iter"
	"math"
	"sort"
	"strconv"
)

// family is the bookkeeping of a contiguous run of columns with one name.
type family struct {
	name     string
	first, n int
	label    func(i int) string // nil for a scalar
	names    []string           // complete names, instead of a label
}

// colName returns the name of the i-th column of f.
func (f *family) colName(i int) string {
	switch {
	case f.names != nil:
		return f.names[i]
	case f.label != nil:
		return f.name + "[" + f.label(i) + "]"
	}
	return f.name
}

// Var adds one column.
func (m *Model) Var(name string, k Kind, lo, up float64) Var {
	first, tag := m.addCols(family{name: name, n: 1}, k, lo, up)
	return Var{first, tag}
}

// List is a dense family of n variables, name[0] … name[n-1].
type List struct {
	first, tag uint32
	n          int
}

// List adds n columns.
func (m *Model) List(name string, n int, k Kind, lo, up float64) List {
	first, tag := m.addCols(family{name: name, n: n, label: strconv.Itoa}, k, lo, up)
	return List{first, tag, n}
}

// Len returns the number of variables.
func (l List) Len() int { return l.n }

// At returns name[i]. It panics if i is out of range, as a slice does.
func (l List) At(i int) Var {
	if uint(i) >= uint(l.n) {
		panic("milp: index out of range")
	}
	return Var{l.first + uint32(i), l.tag}
}

// Grid is a dense family of n0×n1 variables, name[0,0] … name[n0-1,n1-1],
// the second index running fastest.
type Grid struct {
	first, tag uint32
	n0, n1     int
}

// Grid adds n0·n1 columns.
func (m *Model) Grid(name string, n0, n1 int, k Kind, lo, up float64) Grid {
	n := n0 * n1
	switch {
	case n0 < 0 || n1 < 0:
		n = -1
	case n1 > 0 && n0 > math.MaxInt/n1:
		n = math.MaxInt
	}
	label := func(i int) string { return fmt.Sprintf("%d,%d", i/n1, i%n1) }
	first, tag := m.addCols(family{name: name, n: n, label: label}, k, lo, up)
	return Grid{first, tag, n0, n1}
}

// Dims returns both dimensions.
func (g Grid) Dims() (n0, n1 int) { return g.n0, g.n1 }

// At returns name[i,j]. It panics if an index is out of range.
func (g Grid) At(i, j int) Var {
	if uint(i) >= uint(g.n0) || uint(j) >= uint(g.n1) {
		panic("milp: index out of range")
	}
	return Var{g.first + uint32(i*g.n1+j), g.tag}
}

// Family is a sparse family of variables indexed by keys.
type Family[K comparable] struct {
	first, tag uint32
	keys       []K
	index      map[K]int
}

// Vars adds one column for each key, in the order of keys. A repeated key is an error, see [Model.Err].
func Vars[K comparable](m *Model, name string, keys []K, k Kind, lo, up float64) Family[K] {
	f := Family[K]{keys: append([]K(nil), keys...), index: make(map[K]int, len(keys))}
	for i, key := range f.keys {
		if j, dup := f.index[key]; dup {
			m.failf("variables %s: key %v at %d and %d: %w", name, key, j, i, ErrDuplicate)
			continue
		}
		f.index[key] = i
	}
	label := func(i int) string { return fmt.Sprint(f.keys[i]) }
	f.first, f.tag = m.addCols(family{name: name, n: len(keys), label: label}, k, lo, up)
	return f
}

// At returns the variable of key, and whether there is one.
func (f Family[K]) At(key K) (Var, bool) {
	i, ok := f.index[key]
	if !ok {
		return Var{}, false
	}
	return Var{f.first + uint32(i), f.tag}, true
}

// All iterates over keys and variables in key order as given, deterministically.
func (f Family[K]) All() iter.Seq2[K, Var] {
	return func(yield func(K, Var) bool) {
		for i, key := range f.keys {
			if !yield(key, Var{f.first + uint32(i), f.tag}) {
				return
			}
		}
	}
}

// VarName returns the name of v, as name, name[i] or name[i,j], or "?" if v is
// no variable of m.
func (m *Model) VarName(v Var) string {
	if !m.owns(v) {
		return "?"
	}
	return m.colName(int(v.id))
}

// colName returns the name of column j. O(log families).
func (m *Model) colName(j int) string {
	f := &m.families[m.familyOf(j)]
	return f.colName(j - f.first)
}

// familyOf returns the number of the family of column j. Empty families share their first column with the next
// one, so it searches by the end.
func (m *Model) familyOf(j int) int {
	return sort.Search(len(m.families), func(i int) bool { return m.families[i].first+m.families[i].n > j })
}
