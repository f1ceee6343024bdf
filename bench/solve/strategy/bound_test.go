package strategy

import (
	"math"
	"testing"

	"workbench/bench/solve"
	"workbench/bench/solve/method"
)

// The bound of all strategies is the smallest of those of their problems: a problem without one
// leaves the sum of the computations, one without plans counts for nothing.
func TestBoundOfAllStrategies(t *testing.T) {
	row := func(p *solve.Problem, status solve.Status, bound float64) Row {
		r := Row{Problem: p.Name, problem: p, Status: status}
		if bound > 0 {
			r.Bound = &solve.Bound{Value: bound}
		}
		return r
	}
	remat, both := method.Remat(), method.RematOffload()
	for name, x := range map[string]struct {
		rows []Row
		want float64
	}{
		"the smaller":           {[]Row{row(remat, solve.Optimal, 7), row(both, solve.Feasible, 6)}, 6},
		"the best of a problem": {[]Row{row(remat, solve.Feasible, 5), row(remat, solve.Optimal, 7), row(both, solve.Feasible, 6)}, 6},
		"none of a problem":     {[]Row{row(remat, solve.Optimal, 7), row(both, solve.Limit, 0)}, 4},
		"no plans of a problem": {[]Row{row(remat, solve.Infeasible, 0), row(both, solve.Feasible, 6)}, 6},
		"refused":               {[]Row{row(remat, solve.Optimal, 7), row(both, solve.Failed, 0)}, 7},
		"weights":               {[]Row{row(method.WeightOffload(), solve.Optimal, 3)}, 0},
	} {
		r := &Ranking{Compute: 4, Rows: x.rows}
		if err := r.setBound(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		got := 0.0
		if r.Bound != nil {
			got = r.Bound.Value
		}
		if math.Abs(got-x.want) > 1e-8 {
			t.Errorf("%s: bound %v, want %v", name, got, x.want)
		}
	}
	step := 5.0
	r := &Ranking{Compute: 4, Rows: []Row{{
		Problem: remat.Name, problem: remat, Status: solve.Feasible, StepTime: &step,
		Bound: &solve.Bound{Value: 6},
	}}}
	if r.setBound() == nil {
		t.Error("a plan below the bound is no alarm")
	}
}
