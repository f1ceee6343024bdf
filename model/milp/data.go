package milp

// Data is a model as flat arrays, shared with the Model: read only.
// Infinite bounds are ±Inf. Rows are compressed: the entries of row i are
// Col[Start[i]:Start[i+1]] and Val[Start[i]:Start[i+1]], each column at most
// once. Data can be encoded as it is (gob; JSON has no infinities).
type Data struct {
	Name               string
	Sense              Sense
	Offset             float64
	Cost, Lower, Upper []float64
	Integer            []bool
	RowLower, RowUpper []float64
	Start, Col         []int32
	Val                []float64

	// Groups, and the group of every row in it. Optional in FromData.
	Groups   []GroupInfo
	RowGroup []int32

	// Names by column and row. Data leaves them nil, since generating them costs more than everything else; set
	// them from ColNames and RowNames if they are needed.
	ColNames, RowNames []string
}

// Data returns the model, without conditions ([Model.Plain]), as flat arrays. O(columns) and
// the matrix shared if there are no conditional rows.
func (m *Model) Data() Data {
	m = m.Plain()
	integer := make([]bool, len(m.kind))
	for j, k := range m.kind {
		integer[j] = k != Continuous
	}
	return Data{
		Name: m.name, Sense: m.sense, Offset: m.offset,
		Cost: m.cost, Lower: m.lower, Upper: m.upper, Integer: integer,
		RowLower: m.rowLower, RowUpper: m.rowUpper,
		Start: m.start, Col: m.col, Val: m.val,
		Groups: m.Groups(), RowGroup: m.rowGroup,
	}
}

// ColNames returns the names of all columns.
func (m *Model) ColNames() []string {
	names := make([]string, 0, len(m.lower))
	for i := range m.families {
		for j := range m.families[i].n {
			names = append(names, m.families[i].colName(j))
		}
	}
	return names
}

// RowNames returns the names of all rows.
func (m *Model) RowNames() []string {
	names := make([]string, len(m.rowLower))
	for i := range names {
		names[i] = m.rowName(i)
	}
	return names
}

// FromData builds a model with the columns, rows and objective of d; of d itself it keeps only the names. Columns are
// called x[j] and rows after their group, or "row", unless d names them. It validates everything: arrays that do
// not fit together, foreign columns and values that are not finite are errors, see [Model.Err]. O(columns + rows +
// nonzeros).
func FromData(d Data) *Model {
	m := New(d.Name)
	cols, rows := len(d.Cost), len(d.RowLower)
	if !d.fits() || cols > m.limit {
		m.failf("%d costs, %d and %d bounds, %d integer marks, %d and %d sides, %d starts, %d and %d entries, %d row groups, %d and %d names: %w",
			cols, len(d.Lower), len(d.Upper), len(d.Integer), rows, len(d.RowUpper), len(d.Start), len(d.Col), len(d.Val),
			len(d.RowGroup), len(d.ColNames), len(d.RowNames), ErrShape)
		return m
	}
	m.Grow(cols, rows, len(d.Col))
	x := m.List("x", cols, Continuous, 0, inf)
	m.families[0].names, m.rowNames = d.ColNames, d.RowNames
	var e Expr
	for j := range cols {
		if d.Integer[j] {
			m.kind[j] = Integer
		}
		m.SetBounds(x.At(j), d.Lower[j], d.Upper[j])
		e.Add(d.Cost[j], x.At(j))
	}
	e.Const = d.Offset
	if d.Sense != Minimize && d.Sense != Maximize {
		m.failf("sense %d: %w, want 1 or -1", d.Sense, ErrShape)
	}
	m.setObjective(d.Sense, &e)

	for _, g := range d.Groups {
		m.Group(g.Name, g.Source)
	}
	if len(m.groups) != len(d.Groups) {
		m.failf("groups: %w", ErrDuplicate)
		return m
	}
	if d.RowGroup == nil && rows > 0 {
		m.Group("row", "")
	}
	for i := range rows {
		e.Reset()
		for p := d.Start[i]; p < d.Start[i+1]; p++ {
			if uint(d.Col[p]) < uint(cols) {
				e.Add(d.Val[p], x.At(int(d.Col[p])))
			} else {
				e.Add(d.Val[p], Var{})
			}
		}
		g := int32(0)
		if d.RowGroup != nil {
			g = d.RowGroup[i]
		}
		m.row(g, d.RowLower[i], &e, d.RowUpper[i])
	}
	return m
}

// fits reports whether the arrays of d have matching lengths and positions.
func (d *Data) fits() bool {
	cols, rows, nonzeros := len(d.Cost), len(d.RowLower), len(d.Col)
	if len(d.Lower) != cols || len(d.Upper) != cols || len(d.Integer) != cols ||
		len(d.RowUpper) != rows || len(d.Start) != rows+1 || len(d.Val) != nonzeros ||
		d.ColNames != nil && len(d.ColNames) != cols || d.RowNames != nil && len(d.RowNames) != rows ||
		d.RowGroup != nil && len(d.RowGroup) != rows {
		return false
	}
	for i := range rows {
		if d.Start[i] > d.Start[i+1] {
			return false
		}
	}
	for _, g := range d.RowGroup {
		if uint(g) >= uint(len(d.Groups)) {
			return false
		}
	}
	return d.Start[0] == 0 && int(d.Start[rows]) == nonzeros
}
