package catalog_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"workbench/bench/solve/catalog"
	"workbench/ilp"
	"workbench/model/instance/chain"
	"workbench/model/instance/functions"
	"workbench/model/instance/graph"
	"workbench/model/instance/stages"
	"workbench/model/instance/training"
	"workbench/model/plan"
	"workbench/model/testcase/random"
	"workbench/model/testfile"
	"workbench/solvers"
	"workbench/solvers/highs"
)

// TestUnits: every formulation has the same optimum, or none, whether a unit of time
// is 1, 1e-3, 1e-6 or 1e-9 s.
func TestUnits(t *testing.T) {
	for _, f := range ilp.Formulations() {
		problem, err := catalog.FindProblem(f.Problem)
		if err != nil {
			t.Fatal(err)
		}
		if plan.MinimisesMemory(f.Problem) {
			continue // no time is in it
		}
		about := problem.SubjectOf(f)
		rng := rand.New(rand.NewPCG(5, 5))
		for range testfile.Cases(8) {
			trial, err := about.Random(rng, 2)
			if err != nil {
				t.Fatal(err)
			}
			want := math.NaN()
			for _, unit := range []float64{1, 1e-3, 1e-6, 1e-9} {
				in, p := paced(trial.In, unit), trial.Platform
				p.Bandwidth /= unit
				program, err := f.Build(in, p, nil)
				got := math.Inf(1) // no plan, no solution
				if err == nil {
					r, err := highs.New().Solve(t.Context(), program.Model, solvers.Options{Time: 10 * time.Second})
					if err != nil {
						t.Fatal(err)
					}
					if v, ok := r.Objective(); ok {
						got = program.Objective(v) / unit
					}
				} else if !errors.As(err, new(*plan.Infeasible)) {
					t.Fatalf("%s: %v", f.Name, err)
				}
				if unit == 1 {
					want = got
				} else if got != want && !(math.Abs(got-want) <= 1e-6*math.Max(1, want)) {
					t.Errorf("%s: %g at %g s a unit, %g at 1: %s", f.Name, got, unit, want, about.Text(trial, nil))
				}
			}
		}
	}
}

// paced is an instance whose computations take so many times as long.
func paced(in plan.Instance, pace float64) plan.Instance {
	switch x := in.(type) {
	case *chain.Chain:
		return random.Pace(x, pace)
	case *graph.Graph:
		y := *x
		y.Nodes = shifted(x.Nodes, func(to, _ *graph.Node) { to.Time *= pace })
		return &y
	case *training.Graph:
		y := *x
		y.Nodes = shifted(x.Nodes, func(to, _ *training.Node) { to.Time *= pace })
		return &y
	case *functions.Sequence:
		return random.PaceSequence(x, pace)
	case *stages.Partition:
		return random.PaceStages(x, pace)
	}
	return in
}
