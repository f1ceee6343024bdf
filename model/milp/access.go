package milp

import "iter"

// Col is a column of a model, for reading.
type Col struct {
	Index        int
	Lower, Upper float64
	Cost         float64
	Kind         Kind
	m            *Model
}

// Col returns column j. It panics if j is out of range.
func (m *Model) Col(j int) Col {
	return Col{Index: j, Lower: m.lower[j], Upper: m.upper[j], Cost: m.cost[j], Kind: m.kind[j], m: m}
}

// Var returns the handle of c.
func (c Col) Var() Var { return Var{uint32(c.Index), c.m.tag} }

// Name returns the name of c.
func (c Col) Name() string { return c.m.colName(c.Index) }

// Row is a row of a model, for reading: Lower ≤ Σ_k Val[k]·x[Col[k]] ≤ Upper. Its slices are shared with the
// model. Each column occurs at most once and no value is zero.
type Row struct {
	Index        int
	Lower, Upper float64
	Col          []int32
	Val          []float64
	m            *Model
}

// Row returns row i. It panics if i is out of range.
func (m *Model) Row(i int) Row {
	from, to := m.start[i], m.start[i+1]
	return Row{
		Index: i, Lower: m.rowLower[i], Upper: m.rowUpper[i],
		Col: m.col[from:to:to], Val: m.val[from:to:to], m: m,
	}
}

// Name returns the name of r.
func (r Row) Name() string { return r.m.rowName(r.Index) }

// Constr returns the handle of r.
func (r Row) Constr() Constr { return Constr{uint32(r.Index), r.m.tag} }

// Group returns the number of the group of r in [Model.Groups].
func (r Row) Group() int { return int(r.m.rowGroup[r.Index]) }

// Rows iterates over the rows in order.
func (m *Model) Rows() iter.Seq[Row] {
	return func(yield func(Row) bool) {
		for i := range m.rowLower {
			if !yield(m.Row(i)) {
				return
			}
		}
	}
}

// GroupOf returns the number of the group of a row in [Model.Groups].
func (m *Model) GroupOf(row int) int { return int(m.rowGroup[row]) }
