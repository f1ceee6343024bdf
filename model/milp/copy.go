package milp

import (
	"fmt"
	"slices"

	"workbench/model/nearest"
)

// Clone returns a copy that can be changed and extended without affecting m.
// Variables and rows of m made so far are valid in the copy; those made later,
// and those of the copy in m, are foreign. O(columns + groups): the rows are
// shared.
func (m *Model) Clone() *Model {
	c := *m
	c.tag = tags.Add(1)
	c.parents = append(slices.Clip(slices.Clone(m.parents)), parent{m.tag, len(m.lower), len(m.rowLower)})
	c.lower, c.upper, c.cost = slices.Clone(m.lower), slices.Clone(m.upper), slices.Clone(m.cost)
	c.kind, c.stamp = slices.Clone(m.kind), make([]int32, len(m.stamp))
	c.groups, c.families = slices.Clone(m.groups), slices.Clip(m.families)
	c.start, c.col, c.val = slices.Clip(m.start), slices.Clip(m.col), slices.Clip(m.val)
	c.rowLower, c.rowUpper = slices.Clip(m.rowLower), slices.Clip(m.rowUpper)
	c.rowGroup, c.rowInGroup = slices.Clip(m.rowGroup), slices.Clip(m.rowInGroup)
	c.rowNames, c.errs = slices.Clip(m.rowNames), slices.Clip(m.errs)
	c.when = slices.Clip(m.when)
	return &c
}

// cloneCols is Clone without the rows: rows of m are foreign to the copy.
func (m *Model) cloneCols(rows, nonzeros int) *Model {
	c := m.Clone()
	for i := range c.parents {
		c.parents[i].rows = 0
	}
	for g := range c.groups {
		c.groups[g].rows = 0
	}
	c.start = append(make([]int32, 0, rows+1), 0)
	c.col, c.val = make([]int32, 0, nonzeros), make([]float64, 0, nonzeros)
	c.rowLower, c.rowUpper = make([]float64, 0, rows), make([]float64, 0, rows)
	c.rowGroup, c.rowInGroup = make([]int32, 0, rows), make([]int32, 0, rows)
	c.rowNames, c.when = nil, nil
	return c
}

// Filter returns a copy with the rows for which keep holds. Columns, groups (including those that lose all rows)
// and names of rows are unchanged. Rows of m are foreign to the copy, since they are renumbered. O(columns + rows
// + nonzeros kept).
func (m *Model) Filter(keep func(row int) bool) *Model {
	var kept []int
	nonzeros := 0
	for i := range m.rowLower {
		if keep(i) {
			kept = append(kept, i)
			nonzeros += int(m.start[i+1] - m.start[i])
		}
	}
	c := m.cloneCols(len(kept), nonzeros)
	for _, i := range kept {
		c.copyRow(m, i)
	}
	return c
}

// copyRow appends row i of m, whose columns and groups c has.
func (c *Model) copyRow(m *Model, i int) {
	c.col = append(c.col, m.col[m.start[i]:m.start[i+1]]...)
	c.val = append(c.val, m.val[m.start[i]:m.start[i+1]]...)
	c.start = append(c.start, int32(len(c.col)))
	c.rowLower, c.rowUpper = append(c.rowLower, m.rowLower[i]), append(c.rowUpper, m.rowUpper[i])
	c.rowGroup, c.rowInGroup = append(c.rowGroup, m.rowGroup[i]), append(c.rowInGroup, m.rowInGroup[i])
	c.groups[m.rowGroup[i]].rows++
	if x := m.condition(i); x != nil {
		c.when = append(c.when, condition{len(c.rowLower) - 1, x.when})
	}
	if i < len(m.rowNames) {
		c.rowNames = append(c.rowNames, m.rowNames[i])
	}
}

// Without returns m without the named groups: an ablation. The error for an unknown name, [ErrNoGroup], suggests
// the nearest one.
func (m *Model) Without(groups ...string) (*Model, error) {
	number := make([]int32, len(m.groups)) // of each group in the copy, or -1
	names := make([]string, len(m.groups))
	kept := int32(0)
	for g := range m.groups {
		names[g] = m.groups[g].name
		if slices.Contains(groups, names[g]) {
			number[g] = -1
			continue
		}
		number[g] = kept
		kept++
	}
	for _, name := range groups {
		if !slices.Contains(names, name) {
			return nil, fmt.Errorf("model %s: group %q: %w: %s", m.name, name, ErrNoGroup, nearest.Hint(name, names))
		}
	}
	c := m.Filter(func(row int) bool { return number[m.rowGroup[row]] >= 0 })
	for i, g := range c.rowGroup {
		c.rowGroup[i] = number[g]
	}
	c.groups = slices.DeleteFunc(c.groups, func(g group) bool { return slices.Contains(groups, g.name) })
	return c, nil
}
