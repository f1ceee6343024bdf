package milp_test

import (
	"fmt"
	"math"
	"os"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

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

// The ten rows that docs/researchers.md shows next to JuMP's.
func Example_tenRows() {
	m := milp.New("ten rows")
	variables := func(name string, n int, k milp.Kind, up float64) (list []milp.Var) {
		for i := range n {
			list = append(list, m.Var(fmt.Sprintf("%s%d", name, i), k, 0, up))
		}
		return list
	}
	s, y, in, out := variables("s", 3, milp.Continuous, 20), variables("y", 2, milp.Binary, 1), variables("in", 2, milp.Integer, 9),
		variables("out", 2, milp.Integer, 9)
	x, c := m.Var("x", milp.Continuous, 0, 32), m.Var("c", milp.Continuous, 0, 9)
	on, z := m.Var("on", milp.Binary, 0, 1), m.Var("z", milp.Continuous, 0, 1)
	u, a, limit, xs, ys := []float64{3, 2}, []float64{5, 4}, 7.0, []float64{0, 8, 32}, []float64{0, 4, 6}
	order, memory, choice := m.Group("order", "ours"), m.Group("memory", "ours"), m.Group("choice", "ours")
	window, flow, apart := m.Group("window", "ours"), m.Group("flow", "ours"), m.Group("apart", "Sekiyama et al. 2018")
	batch, both, cost := m.Group("batch", "ours"), m.Group("both", "McCormick 1976"), m.Group("cost", "Markowitz and Manne 1957")

	for k := range u {
		order.GreaterEqual(milp.Sum(s[k+1]), milp.Sum(s[k]).AddConst(u[k]))
	}
	row := memory.AtMost(milp.Dot(a, y), limit)
	choice.Equal(milp.Sum(y...), 1)
	window.Between(2, milp.Sum(s[1]), 8)
	flow.Equals(milp.Sum(in...), milp.Sum(out...))
	apart.When(milp.Is(y[0])).LessEqual(milp.Sum(s[0]), milp.Sum(s[1]))
	batch.Semi(x, on, 4, 32)
	both.Product(z, y[0], y[1])
	cost.Piecewise("part", x, c, xs, ys)
	m.SetCoef(row, x, 2)

	m.Print(os.Stdout)
	fmt.Println(m.Err())
	// Output:
	// model ten rows: 16 rows, 16 columns (8 continuous, 4 integer, 4 binary), 37 nonzeros
	// minimize
	//   0
	// order, from ours
	//   order[0]: s1 - s0 ≥ 3
	//   order[1]: s2 - s1 ≥ 2
	// memory, from ours
	//   memory[0]: 5 y0 + 4 y1 + 2 x ≤ 7
	// choice, from ours
	//   choice[0]: y0 + y1 = 1
	// window, from ours
	//   window[0]: 2 ≤ s1 ≤ 8
	// flow, from ours
	//   flow[0]: in0 + in1 - out0 - out1 = 0
	// apart, from Sekiyama et al. 2018
	//   apart[0]: if y0 = 1: s0 - s1 ≤ 0
	// batch, from ours
	//   batch[0]: x - 4 on ≥ 0
	//   batch[1]: x - 32 on ≤ 0
	// both, from McCormick 1976
	//   both[0]: z - y0 ≤ 0
	//   both[1]: z - y1 ≤ 0
	//   both[2]: z - y0 - y1 ≥ -1
	// cost, from Markowitz and Manne 1957
	//   cost[0]: part.full[0] - part[0] ≤ 0
	//   cost[1]: part[1] - part.full[0] ≤ 0
	//   cost[2]: x - 8 part[0] - 24 part[1] = 0
	//   cost[3]: c - 4 part[0] - 2 part[1] = 0
	// columns
	//   s0: continuous in [0, 20]
	//   s1: continuous in [0, 20]
	//   s2: continuous in [0, 20]
	//   y0: binary
	//   y1: binary
	//   in0: integer in [0, 9]
	//   in1: integer in [0, 9]
	//   out0: integer in [0, 9]
	//   out1: integer in [0, 9]
	//   x: continuous in [0, 32]
	//   c: continuous in [0, 9]
	//   on: binary
	//   z: continuous in [0, 1]
	//   part[0] … part[1]: continuous in [0, 1]
	//   part.full[0]: binary
	// <nil>
}

// The rows of the document are those of the example, and as long as it says.
func TestTenRowsOfTheDocument(t *testing.T) {
	page, err := os.ReadFile("../../docs/researchers.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	_, rows, _ := strings.Cut(string(page), "| a row that says | `milp` | JuMP |")
	rows, _, _ = strings.Cut(rows, "\n\n")
	lines := regexp.MustCompile("(?m)^\\| [^|`]* \\| `([^`]*)` \\| `([^`]*)` \\|$").FindAllStringSubmatch(rows, -1)
	ours, theirs := 0, 0
	for _, l := range lines {
		ours, theirs = ours+utf8.RuneCountInString(l[1]), theirs+utf8.RuneCountInString(l[2])
		if !strings.Contains(string(source), "\t"+l[1]+"\n") && !strings.Contains(string(source), " := "+l[1]+"\n") {
			t.Errorf("%s is not in the example", l[1])
		}
	}
	if len(lines) != 10 || !strings.Contains(string(page), fmt.Sprintf("All ten take %d characters, JuMP's %d.", ours, theirs)) {
		t.Errorf("%d rows of %d and %d characters", len(lines), ours, theirs)
	}
}
