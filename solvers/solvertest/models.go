package solvertest

import (
	"math/rand/v2"

	"workbench/model/milp"
)

// RandomJobShop is the disjunctive model of a random job shop, minimising the
// makespan, every job on every machine once in a random order.
func RandomJobShop(jobs, machines int, seed uint64) *milp.Model {
	s := newJobShop(jobs, machines, int64(seed))
	return s.model(float64(s.horizon))
}

// RandomKnapsack maximises the value of things of random weights within several
// limits: quick to find solutions for, slow to prove.
func RandomKnapsack(things, limits int, seed uint64) *milp.Model {
	return newMultiKnapsack(limits, things, int64(seed)).model()
}

// Sparse has about the given number of entries, ten a row, and is trivial to
// solve.
func Sparse(nonzeros int) *milp.Model {
	random := rand.New(rand.NewPCG(1, 2))
	n := nonzeros / 10
	m := milp.New("sparse")
	m.Grow(n, n, nonzeros)
	x := m.List("x", n, milp.Integer, 0, 9)
	row := m.Group("row", "")
	var e milp.Expr
	for range n {
		e.Reset()
		for range 10 {
			e.Add(float64(1+random.IntN(9)), x.At(random.IntN(n)))
		}
		row.AtMost(&e, 1000)
	}
	e.Reset()
	for j := range n {
		e.Add(1, x.At(j))
	}
	m.Minimize(&e)
	return m
}
