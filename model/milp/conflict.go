package milp

import (
	"fmt"
	"slices"
	"strings"
)

// Limit is one side of a row, or one bound of a column.
type Limit struct {
	Index int
	Side  Side
}

// Conflict is a set of limits that no point satisfies together, given which
// columns are integer. Both lists are in order of index, each limit once.
type Conflict struct {
	Rows   []Limit // sides of rows
	Bounds []Limit // bounds of columns
	// Minimal is set if the rest is satisfiable whichever row of Rows is removed.
	Minimal bool
}

// Groups returns the numbers of the constraint groups of the rows of c, in
// order.
func (c *Conflict) Groups(m *Model) []int {
	var groups []int
	for _, l := range c.Rows {
		groups = append(groups, m.GroupOf(l.Index))
	}
	slices.Sort(groups)
	return slices.Compact(groups)
}

// Text returns c as lines of text: each row of the conflict, under its group and source, with the relevant side,
// and then the bounds.
func (c *Conflict) Text(m *Model) string {
	var b strings.Builder
	b.WriteString("these cannot hold together:\n")
	rows := slices.Clone(c.Rows)
	slices.SortStableFunc(rows, func(a, b Limit) int { return m.GroupOf(a.Index) - m.GroupOf(b.Index) })
	infos := m.Groups()
	for k, l := range rows {
		if g := m.GroupOf(l.Index); k == 0 || g != m.GroupOf(rows[k-1].Index) {
			fmt.Fprintf(&b, "  %s\n", infos[g])
		}
		r := m.Row(l.Index)
		if l.Side == Below {
			r.Upper = inf
		} else {
			r.Lower = -inf
		}
		fmt.Fprintf(&b, "    %s\n", r)
	}
	if len(c.Bounds) > 0 {
		b.WriteString("  bounds\n")
	}
	for _, l := range c.Bounds {
		col := m.Col(l.Index)
		relation, limit := "≥", col.Lower
		if l.Side == Above {
			relation, limit = "≤", col.Upper
		}
		kind := ""
		if col.Kind != Continuous {
			kind = " (" + col.Kind.String() + ")"
		}
		fmt.Fprintf(&b, "    %s %s %s%s\n", col.Name(), relation, number(limit), kind)
	}
	return b.String()
}

// compareLimits orders limits by index, then side.
func compareLimits(a, b Limit) int {
	if a.Index != b.Index {
		return a.Index - b.Index
	}
	return int(a.Side) - int(b.Side)
}

func sortLimits(l []Limit) []Limit {
	slices.SortFunc(l, compareLimits)
	return slices.Compact(l)
}
