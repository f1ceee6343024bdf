package milp

import "fmt"

// group is the bookkeeping of one constraint group.
type group struct {
	name, source string
	label        func(i int) string
	rows         int32
}

// Group is a handle that adds rows to one constraint group of one Model.
type Group struct {
	m  *Model
	id int32
}

// Group returns the group of that name, making it if needed. Source says where
// the constraints come from, as "[001] (4)"; it is printed with statistics and
// conflicts.
func (m *Model) Group(name, source string) Group {
	for i := range m.groups {
		if m.groups[i].name == name {
			return Group{m, int32(i)}
		}
	}
	m.groups = append(m.groups, group{name: name, source: source})
	return Group{m, int32(len(m.groups) - 1)}
}

// Label makes the i-th row of g print as name[label(i)] instead of name[i].
// It is called only when a name is read.
func (g Group) Label(label func(i int) string) Group {
	g.m.groups[g.id].label = label
	return g
}

// Between adds lo ≤ e ≤ up; either side may be infinite. O(len(e.Terms));
// nothing of e is kept. Mistakes are collected, see [Model.Err].
func (g Group) Between(lo float64, e *Expr, up float64) Constr { return g.m.row(g.id, lo, e, up) }

// AtMost adds e ≤ up.
func (g Group) AtMost(e *Expr, up float64) Constr { return g.m.row(g.id, -inf, e, up) }

// AtLeast adds e ≥ lo.
func (g Group) AtLeast(e *Expr, lo float64) Constr { return g.m.row(g.id, lo, e, inf) }

// Equal adds e = b.
func (g Group) Equal(e *Expr, b float64) Constr { return g.m.row(g.id, b, e, b) }

// RowName returns the name of c: its group and its number or label within it.
func (m *Model) RowName(c Constr) string { return m.rowName(int(c.id)) }

func (m *Model) rowName(i int) string {
	g := &m.groups[m.rowGroup[i]]
	if g.label != nil {
		return fmt.Sprintf("%s[%s]", g.name, g.label(int(m.rowInGroup[i])))
	}
	return fmt.Sprintf("%s[%d]", g.name, m.rowInGroup[i])
}
