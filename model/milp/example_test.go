package milp_test

import (
	"fmt"
	"math"
	"os"

	"workbench/model/milp"
)

// A knapsack: one expression is reused for all rows and the objective.
func Example() {
	value, weight := []float64{10, 13, 7}, []float64{3, 4, 2}

	m := milp.New("knapsack")
	take := m.List("take", len(value), milp.Binary, 0, 1)
	var e milp.Expr
	for i, w := range weight {
		e.Add(w, take.At(i))
	}
	m.Group("capacity", "").AtMost(&e, 6)
	e.Reset()
	for i, v := range value {
		e.Add(v, take.At(i))
	}
	m.Maximize(&e)
	if err := m.Err(); err != nil {
		fmt.Println(err)
		return
	}
	m.Print(os.Stdout)
	// Output:
	// model knapsack: 1 row, 3 columns (0 continuous, 0 integer, 3 binary), 3 nonzeros
	// maximize
	//   10 take[0] + 13 take[1] + 7 take[2]
	// capacity
	//   capacity[0]: 3 take[0] + 4 take[1] + 2 take[2] ≤ 6
	// columns
	//   take[0] … take[2]: binary
}

// Groups carry their source, and labels that are made only when read.
func ExampleGroup() {
	m := milp.New("schedule")
	start := milp.Vars(m, "start", []string{"F1", "B1"}, milp.Continuous, 0, math.Inf(1))
	forward, _ := start.At("F1")
	backward, _ := start.At("B1")

	order := m.Group("order", "[001] (2)").Label(func(i int) string { return []string{"F1 before B1"}[i] })
	var e milp.Expr
	row := order.AtLeast(e.Add(1, backward).Add(-1, forward), 3)

	fmt.Println(m.RowName(row))
	fmt.Println(m.Groups()[0])
	for _, v := range m.Violations([]float64{4, 5}, 1e-6) {
		fmt.Println(v)
	}
	// Output:
	// order[F1 before B1]
	// order, from [001] (2)
	// order[F1 before B1] is 1, below 3 by 2
}

// What does one group of constraints cost? Solve without it.
func ExampleModel_Without() {
	m := milp.New("ablation")
	x := m.Var("x", milp.Continuous, 0, 10)
	var e milp.Expr
	e.Add(1, x)
	m.Group("memory", "[001] (4)").AtMost(&e, 3)
	m.Group("order", "[001] (2)").AtMost(&e, 7)
	m.Maximize(&e)

	relaxed, err := m.Without("memory")
	if err != nil {
		fmt.Println(err)
		return
	}
	for r := range relaxed.Rows() {
		fmt.Println(r)
	}
	_, err = m.Without("memry")
	fmt.Println(err)
	// Output:
	// order[0]: x ≤ 7
	// model ablation: group "memry": no such constraint group: did you mean memory?
}

// Propagation explains most typing mistakes without a solver.
func ExampleModel_Propagate() {
	m := milp.New("typo")
	x := m.Var("x", milp.Integer, 0, 9)
	y := m.Var("y", milp.Continuous, 0, 4)
	var e milp.Expr
	m.Group("ratio", "[001] (3)").AtLeast(e.Reset().Add(1, y).Add(-2, x), 0)
	m.Group("demand", "[001] (5)").AtLeast(e.Reset().Add(1, x), 2.5)

	_, _, conflict := m.Propagate(10)
	fmt.Print(conflict.Text(m))
	// Output:
	// these cannot hold together:
	//   ratio, from [001] (3)
	//     ratio[0]: y - 2 x ≥ 0
	//   demand, from [001] (5)
	//     demand[0]: x ≥ 2.5
	//   bounds
	//     y ≤ 4
}

func ExampleModel_WriteLP() {
	m := milp.New("small")
	x := m.Grid("x", 1, 2, milp.Integer, 0, 5)
	var e milp.Expr
	m.Group("sum", "[001] (1)").Between(1, e.Add(1, x.At(0, 0)).Add(2, x.At(0, 1)), 8)
	m.Maximize(&e)
	names, err := m.WriteLP(os.Stdout)
	fmt.Println(names.Cols, err)
	// Output:
	// \ "small"
	// Maximize
	//  obj: + 1 x(0,0) + 2 x(0,1)
	// Subject To
	// \ sum, from [001] (1)
	//  sum(0): + 1 x(0,0) + 2 x(0,1) <= 8
	//  sum(0).lower: + 1 x(0,0) + 2 x(0,1) >= 1
	// Bounds
	//  0 <= x(0,0) <= 5
	//  0 <= x(0,1) <= 5
	// Generals
	//  x(0,0)
	//  x(0,1)
	// End
	// [x(0,0) x(0,1)] <nil>
}
