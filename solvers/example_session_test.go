package solvers_test

import (
	"context"
	"fmt"
	"math"
	"slices"

	"workbench/model/milp"
	"workbench/solvers"
	"workbench/solvers/highs"
)

// Rolls of 100 are cut into pieces; which patterns of cuts are of use, pricing says: column
// generation (Gilmore and Gomory 1961). The dual of a piece is what it is worth, and the
// pattern that is worth most, a knapsack, enters if it is worth more than a roll.
func ExampleSession_columnGeneration() {
	ctx, b := context.Background(), highs.New()
	const roll = 100
	size, demand := []int{45, 36, 31, 14}, []float64{97, 610, 395, 211}

	m := milp.New("cutting stock")
	cover := m.Group("demand", "Gilmore and Gomory 1961")
	rows := make([]milp.Constr, len(size))
	for i := range size {
		rows[i] = cover.AtLeast(new(milp.Expr), demand[i])
	}
	pattern := func(pieces []int) {
		var entries []milp.Entry
		for i, n := range pieces {
			entries = append(entries, milp.Entry{Row: rows[i], Coef: float64(n)})
		}
		m.Column(fmt.Sprint(pieces), milp.Integer, 0, math.Inf(1), 1, entries)
	}
	for i := range size { // so that there is a solution
		alone := make([]int, len(size))
		alone[i] = roll / size[i]
		pattern(alone)
	}

	s := solvers.NewSession(b, m)
	defer s.Close()
	for {
		r, err := s.Solve(ctx)
		if err != nil || r.Status != solvers.Optimal {
			fmt.Println(r, err)
			return
		}
		pieces, worth := bestPattern(roll, size, r.Dual)
		if worth <= 1+1e-9 {
			fmt.Printf("relaxation %.4f\n", r.Objective)
			break
		}
		pattern(pieces)
	}
	whole, err := b.Solve(ctx, m, solvers.Options{}) // of the patterns that there are
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("rolls %.0f\n", whole.Obj)
	// Output:
	// relaxation 452.2500
	// rolls 453
}

// bestPattern returns how many pieces of each size to cut from a roll, so that they are worth
// most: a knapsack, by dynamic programming.
func bestPattern(roll int, size []int, worth []float64) ([]int, float64) {
	best, last := make([]float64, roll+1), make([]int, roll+1) // by length used; last piece
	for length := range best {
		last[length] = -1
		for i, s := range size {
			if s <= length && best[length-s]+worth[i] > best[length]+1e-12 {
				best[length], last[length] = best[length-s]+worth[i], i
			}
		}
	}
	pieces := make([]int, len(size))
	for length := roll; last[length] >= 0; length -= size[last[length]] {
		pieces[last[length]]++
	}
	return pieces, best[roll]
}

// A tour of six cities (Dantzig, Fulkerson and Johnson 1954): the relaxation has subtours, and
// each is forbidden when it is seen.
func ExampleSession_cutLoop() {
	ctx := context.Background()
	distance := [][]float64{ // two groups of three, far apart
		{0, 3, 4, 20, 22, 21},
		{3, 0, 5, 23, 20, 22},
		{4, 5, 0, 21, 24, 20},
		{20, 23, 21, 0, 3, 4},
		{22, 20, 24, 3, 0, 5},
		{21, 22, 20, 4, 5, 0},
	}
	n := len(distance)
	m := milp.New("tour")
	x := m.Grid("x", n, n, milp.Continuous, 0, 1) // i < j are used
	var cost, e milp.Expr
	twice := m.Group("degree", "Dantzig, Fulkerson and Johnson 1954")
	for i := range n {
		e.Reset()
		for j := range n {
			if i != j {
				e.Add(1, x.At(min(i, j), max(i, j)))
			}
			if i < j {
				cost.Add(distance[i][j], x.At(i, j))
			}
		}
		twice.Equal(&e, 2)
	}
	m.Minimize(&cost)
	connected := m.Group("connected", "Dantzig, Fulkerson and Johnson 1954")

	s := solvers.NewSession(highs.New(), m)
	defer s.Close()
	for {
		r, err := s.Solve(ctx)
		if err != nil || r.Status != solvers.Optimal {
			fmt.Println(r, err)
			return
		}
		reached := []int{0} // from the first city
		for k := 0; k < len(reached); k++ {
			for j := range n {
				if i := reached[k]; i != j && r.X[x.At(min(i, j), max(i, j)).Index()] > 1e-6 && !slices.Contains(reached, j) {
					reached = append(reached, j)
				}
			}
		}
		fmt.Printf("%.0f, %d cities reached\n", r.Objective, len(reached))
		if len(reached) == n {
			return
		}
		e.Reset()
		for i := range n {
			for j := i + 1; j < n; j++ {
				if slices.Contains(reached, i) != slices.Contains(reached, j) {
					e.Add(1, x.At(i, j))
				}
			}
		}
		connected.AtLeast(&e, 2)
	}
	// Output:
	// 24, 3 cities reached
	// 54, 6 cities reached
}

// Facilities to open and customers to serve (Benders 1962). The master chooses what is open;
// the subproblem, with that fixed, serves as cheaply as it can, and the reduced costs of what is
// fixed say by how much it would get cheaper: a cut for the master.
func ExampleSession_benders() {
	ctx, b := context.Background(), highs.New()
	opening := []float64{7, 5, 9}
	serving := [][]float64{{2, 8, 6, 1}, {7, 3, 5, 6}, {4, 4, 1, 2}} // by facility and customer

	master := milp.New("which to open")
	open := master.List("open", len(opening), milp.Binary, 0, 1)
	service := master.Var("service", milp.Continuous, 0, math.Inf(1))
	var cost, e milp.Expr
	for i, c := range opening {
		cost.Add(c, open.At(i))
		e.Add(1, open.At(i))
	}
	master.Minimize(cost.Add(1, service))
	master.Group("somewhere", "").AtLeast(&e, 1) // else nobody can be served
	cuts := master.Group("cuts", "Benders 1962")

	sub := milp.New("who serves whom")
	fixed := sub.List("open", len(opening), milp.Continuous, 0, 1)
	serve := sub.Grid("serve", len(opening), len(serving[0]), milp.Continuous, 0, 1)
	served, only := sub.Group("served", ""), sub.Group("only if open", "Balinski 1965")
	cost.Reset()
	for j := range serving[0] {
		e.Reset()
		for i := range opening {
			e.Add(1, serve.At(i, j))
			only.AtMost(new(milp.Expr).Add(1, serve.At(i, j)).Add(-1, fixed.At(i)), 0)
			cost.Add(serving[i][j], serve.At(i, j))
		}
		served.Equal(&e, 1)
	}
	sub.Minimize(&cost)
	s := solvers.NewSession(b, sub)
	defer s.Close()

	best := math.Inf(1)
	for {
		r, err := b.Solve(ctx, master, solvers.Options{})
		if err != nil || r.Status != solvers.Optimal {
			fmt.Println(r, err)
			return
		}
		for i := range opening {
			sub.Fix(fixed.At(i), r.X[open.At(i).Index()])
		}
		inner, err := s.Solve(ctx)
		if err != nil || inner.Status != solvers.Optimal {
			fmt.Println(inner, err)
			return
		}
		best = min(best, r.Obj-r.X[service.Index()]+inner.Objective)
		if best-r.Obj < 1e-6 {
			fmt.Printf("%.0f, open %v\n", best, r.X[:len(opening)])
			return
		}
		// service ≥ inner + Σ reduced_i (open_i − its value)
		e.Reset().Add(1, service)
		side := inner.Objective
		for i := range opening {
			v := fixed.At(i).Index()
			e.Add(-inner.Reduced[v], open.At(i))
			side -= inner.Reduced[v] * r.X[open.At(i).Index()]
		}
		cuts.AtLeast(&e, side)
	}
	// Output:
	// 20, open [0 0 1]
}
