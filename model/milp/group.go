package milp

import "fmt"

// group is the bookkeeping of one constraint group.
type group struct {
	name, source string
	label        func(i int) string
	next         int32 // number of the next row
	rows         int32 // number of rows; less than next in a copy without some rows
}

// rowName returns the name of the i-th row of g.
func (g *group) rowName(i int32) string {
	if g.label != nil {
		return fmt.Sprintf("%s[%s]", g.name, g.label(int(i)))
	}
	return fmt.Sprintf("%s[%d]", g.name, i)
}

// Group is a handle that adds rows to one constraint group of one Model.
type Group struct {
	m  *Model
	id int32
}

// Group returns the group of that name, which it creates if needed. Source cites the origin of the constraints, as
// "[001] (4)"; statistics and conflicts print it. An empty source returns an existing group unchanged; two
// different ones for one name are an error, see [Model.Err].
func (m *Model) Group(name, source string) Group {
	for i := range m.groups {
		g := &m.groups[i]
		if g.name != name {
			continue
		}
		if g.source == "" {
			g.source = source
		}
		if source != "" && source != g.source {
			m.failf("group %s: source %q: %w, first with source %q", name, source, ErrDuplicate, g.source)
		}
		return Group{m, int32(i)}
	}
	m.groups = append(m.groups, group{name: name, source: source})
	return Group{m, int32(len(m.groups) - 1)}
}

// Label sets the name of the i-th row of g to name[label(i)] instead of name[i]. label is called only when a name
// is read.
func (g Group) Label(label func(i int) string) Group {
	g.m.groups[g.id].label = label
	return g
}

// Between adds lo ≤ e ≤ up; either side may be infinite. O(len(e.Terms)); no reference to e is kept. Errors are
// collected, see [Model.Err].
func (g Group) Between(lo float64, e *Expr, up float64) Constr { return g.m.row(g.id, lo, e, up) }

// AtMost adds e ≤ up.
func (g Group) AtMost(e *Expr, up float64) Constr { return g.m.row(g.id, -inf, e, up) }

// AtLeast adds e ≥ lo.
func (g Group) AtLeast(e *Expr, lo float64) Constr { return g.m.row(g.id, lo, e, inf) }

// Equal adds e = b.
func (g Group) Equal(e *Expr, b float64) Constr { return g.m.row(g.id, b, e, b) }

// RowName returns the name of c, its group and its number or label within it,
// or "?" if c is no row of m.
func (m *Model) RowName(c Constr) string {
	if !m.ownsRow(c) {
		return "?"
	}
	return m.rowName(int(c.id))
}

func (m *Model) rowName(i int) string {
	if i < len(m.rowNames) {
		return m.rowNames[i]
	}
	return m.groups[m.rowGroup[i]].rowName(m.rowInGroup[i])
}

// GroupInfo describes a constraint group.
type GroupInfo struct {
	Name   string `json:"name"`
	Source string `json:"source"` // citation, as "[001] (4)"; may be empty
	Rows   int    `json:"rows"`
}

// String returns the name and the source: "memory, from [001] (4)".
func (g GroupInfo) String() string {
	if g.Source == "" {
		return g.Name
	}
	return g.Name + ", from " + g.Source
}

// Groups returns the constraint groups in the order they were made. Their
// positions are the group numbers of [Row.Group].
func (m *Model) Groups() []GroupInfo {
	infos := make([]GroupInfo, len(m.groups))
	for i, g := range m.groups {
		infos[i] = GroupInfo{g.name, g.source, int(g.rows)}
	}
	return infos
}
