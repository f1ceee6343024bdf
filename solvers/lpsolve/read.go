//go:build cgo && unix

package lpsolve

import (
	"fmt"

	"workbench/model/milp"
	"workbench/solvers"
)

// Read reads a model from an MPS file with the reader of lp_solve.
func Read(file string, f milp.MPSFormat) (*milp.Model, error) {
	lib, err := load()
	if err != nil {
		return nil, err
	}
	turn <- struct{}{}
	defer func() { <-turn }()
	in, ok := lib.read(file, f)
	if !ok {
		return nil, fmt.Errorf("read %s: %w: lp_solve cannot", file, solvers.ErrSolver)
	}
	defer in.free()
	d, err := in.data()
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	m := milp.FromData(d)
	return m, m.Err()
}

// data returns the model.
func (m instance) data() (d milp.Data, err error) {
	cols, rows, nonzeros := m.size(&d)
	byRow := make([][]int32, rows) // columns
	values := make([][]float64, rows)
	for j := range cols {
		c := m.column(j, rows)
		if c.semicontinuous {
			return d, fmt.Errorf("%w: column %s is semi-continuous", solvers.ErrUnsupported, c.name)
		}
		cost := 0.
		for k, r := range c.row {
			if r == 0 {
				cost = c.value[k]
				continue
			}
			byRow[r-1], values[r-1] = append(byRow[r-1], int32(j)), append(values[r-1], c.value[k])
		}
		d.Cost, d.Lower, d.Upper = append(d.Cost, cost), append(d.Lower, c.lower), append(d.Upper, c.upper)
		d.Integer, d.ColNames = append(d.Integer, c.integer), append(d.ColNames, c.name)
	}
	d.Start = make([]int32, 1, rows+1)
	d.Col, d.Val = make([]int32, 0, nonzeros), make([]float64, 0, nonzeros)
	for i := range rows {
		lower, upper, name := m.row(i)
		d.RowLower, d.RowUpper, d.RowNames = append(d.RowLower, lower), append(d.RowUpper, upper), append(d.RowNames, name)
		d.Col, d.Val = append(d.Col, byRow[i]...), append(d.Val, values[i]...)
		d.Start = append(d.Start, int32(len(d.Col)))
	}
	return d, nil
}
