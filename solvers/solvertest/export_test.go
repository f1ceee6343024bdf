package solvertest

import (
	"context"

	"workbench/model/milp"
	"workbench/solvers"
)

// Grace is grace, for mutants that outlast it.
const Grace = grace

// Agree is agree, for tests of Differential.
func Agree(judge, b solvers.Backend, m *milp.Model) error {
	return agree(context.Background(), judge, b, m)
}

// Reverse returns m with rows and columns in reverse order.
func Reverse(m *milp.Model) *milp.Model {
	d := m.Data()
	return milp.FromData(permuteColumns(permuteRows(d, descending(len(d.RowLower))), descending(len(d.Cost))))
}

func descending(n int) []int {
	order := make([]int, n)
	for i := range order {
		order[i] = n - 1 - i
	}
	return order
}
