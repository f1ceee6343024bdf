package solvertest

import (
	"fmt"
	"math"
	"math/rand/v2"

	"workbench/model/milp"
)

// RandomJobShop is the disjunctive model of a random job shop, minimising the
// makespan, every job on every machine once in a random order.
func RandomJobShop(jobs, machines int, seed uint64) *milp.Model {
	random := rand.New(rand.NewPCG(seed, 0))
	m := milp.New(fmt.Sprintf("jobshop %dx%d", jobs, machines))
	length, horizon := make([][]float64, jobs), 0.
	order := make([][]int, jobs)
	for j := range jobs {
		order[j] = random.Perm(machines)
		length[j] = make([]float64, machines)
		for k := range machines {
			length[j][k] = float64(1 + random.IntN(99))
			horizon += length[j][k]
		}
	}
	begin := m.Grid("begin", jobs, machines, milp.Continuous, 0, horizon)
	end := m.Var("end", milp.Continuous, 0, horizon)
	chain, disjoint := m.Group("chain", ""), m.Group("disjoint", "")
	var e milp.Expr
	for j := range jobs {
		for i, k := range order[j] {
			next := end
			if i+1 < machines {
				next = begin.At(j, order[j][i+1])
			}
			chain.AtLeast(e.Reset().Add(1, next).Add(-1, begin.At(j, k)), length[j][k])
		}
	}
	for k := range machines {
		for a := range jobs {
			for b := range a {
				first := m.Var(fmt.Sprintf("first[%d,%d,%d]", k, a, b), milp.Binary, 0, 1)
				disjoint.AtLeast(e.Reset().Add(1, begin.At(b, k)).Add(-1, begin.At(a, k)).Add(-horizon, first), length[a][k]-horizon)
				disjoint.AtLeast(e.Reset().Add(1, begin.At(a, k)).Add(-1, begin.At(b, k)).Add(horizon, first), length[b][k])
			}
		}
	}
	m.Minimize(e.Reset().Add(1, end))
	return m
}

// RandomKnapsack maximises the value of things of random weights within several
// limits: quick to find solutions for, slow to prove.
func RandomKnapsack(things, limits int, seed uint64) *milp.Model {
	random := rand.New(rand.NewPCG(seed, 1))
	m := milp.New(fmt.Sprintf("knapsack %dx%d", limits, things))
	x := m.List("x", things, milp.Binary, 0, 1)
	var value, weight milp.Expr
	sums := make([]float64, things)
	limit := m.Group("limit", "")
	for range limits {
		total := 0.
		weight.Reset()
		for j := range things {
			w := float64(1 + random.IntN(1000))
			weight.Add(w, x.At(j))
			sums[j] += w
			total += w
		}
		limit.AtMost(&weight, math.Floor(total/2))
	}
	for j := range things {
		value.Add(math.Floor(sums[j]/float64(limits))+float64(random.IntN(500)), x.At(j))
	}
	m.Maximize(&value)
	return m
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
