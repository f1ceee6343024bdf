package remat

import (
	"errors"
	"math"
	"testing"

	heuristics "workbench/heuristics/remat"
	"workbench/ilp/check"
	"workbench/ilp/formulation"
	"workbench/model/exhaustive"
	optimum "workbench/model/exhaustive/remat"
	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/testcase"
	"workbench/model/testfile"
	"workbench/model/zoo"
	"workbench/solvers"
	"workbench/solvers/highs"
	"workbench/solvers/lpsolve"
)

// nearlyAll is a chain in which 10^10 units, 10^5 and 1 decide together: HiGHS saw
// no difference and proved 2 s where 1 s is possible.
func nearlyAll() *chain.Chain {
	return &chain.Chain{Name: "nearly all", Layers: []chain.Layer{
		{Activation: 1e5, Saved: 1e5},
		{ForwardTime: 1, Saved: 1},
		{Saved: 1e10},
	}}
}

// scattered is a chain on which chain-milp's bound was 2e-7 above the optimum.
func scattered() *chain.Chain {
	layer := func(uF, uB, a, oF, oB float64) chain.Layer {
		return chain.Layer{ForwardTime: uF, BackwardTime: uB, Activation: a, Saved: a, ForwardOverhead: oF, BackwardOverhead: oB}
	}
	return &chain.Chain{Name: "scattered", Input: chain.Input{Activation: 1e5}, Layers: []chain.Layer{
		layer(0, 0, 1, 3, 1), layer(0.009000000000000001, 0.018000000000000002, 1000, 0, 0), layer(9e-6, 1.8e-5, 3, 3, 0),
		layer(1e-6, 2e-6, 1e5, 0, 3), layer(5000, 10000, 1e9, 3, 3), layer(9000, 18000, 1000, 1, 0),
	}}
}

// steep is a chain whose closed-form bounds allowed for a tolerance on memory.
func steep() *chain.Chain {
	return &chain.Chain{Name: "steep", Input: chain.Input{Activation: 3}, Layers: []chain.Layer{
		{ForwardTime: 9e-6, Activation: 1, Saved: 4},
		{Activation: 3, Saved: 3, BackwardOverhead: 1e9},
		{ForwardTime: 1e-3, Activation: 1, Saved: 4},
		{ForwardTime: 1, Activation: 1e4, Saved: 10003, BackwardOverhead: 1},
		{ForwardTime: 4.9999999999999996e-06, Activation: 1e7, Saved: 1.01e7, BackwardOverhead: 1000},
	}}
}

// Small chains on which wrong results were once called proven: at those limits
// and the units around them the search and both backends are right.
func TestOnceWrong(t *testing.T) {
	if want, _, err := optimum.Search(nearlyAll(), 10000000004, testcase.States); err != nil || want != 1 {
		t.Fatal(want, err)
	}
	for _, x := range []struct {
		c      *chain.Chain
		memory float64
	}{{nearlyAll(), 10000000004}, {scattered(), 1000201092}, {steep(), 1000000008}} {
		least, err := optimum.LeastMemory(x.c, testcase.States)
		if err != nil {
			t.Fatal(err)
		}
		for _, around := range []float64{x.memory, least} {
			for _, beside := range testfile.Few(1, 0., -1, 1, -3, -2, 2, 3) {
				p := platform.Platform{Memory: around + beside}
				want, _, err := optimum.Search(x.c, p.Memory, testcase.States)
				infeasible := errors.Is(err, exhaustive.ErrInfeasible)
				if infeasible != (p.Memory < least) {
					t.Fatalf("%s in %.0f: %v, the least is %.0f", x.c.Name, p.Memory, err, least)
				}
				searched(t, x.c, p, want, infeasible)
				if infeasible {
					want = math.Inf(1)
				}
				for _, b := range []solvers.Backend{highs.New(), lpsolve.New()} {
					var sum tally
					solveMixed(t, b, x.c, p, want, &sum)
					if sum.wrong > 0 || sum.infeasible+sum.closed != 1 && !infeasible {
						t.Errorf("%s, %s in %.0f: %+v", b.Name(), x.c.Name, p.Memory, sum)
					}
				}
			}
		}
	}
}

// Limits at which a solution on a network needed one byte more, or its plan beat
// the bound: plan and bound meet, by the search and by the MILPs.
func TestOnceWrongOnNetworks(t *testing.T) {
	testfile.Long(t)
	for network, memory := range map[string]float64{"vgg16": 2125856767, "resnet18": 517051391} {
		c, err := zoo.Load(zoo.Scheme + network)
		if err != nil {
			t.Fatal(err)
		}
		for beside := -1.0; beside <= 1; beside++ {
			p := platform.Platform{Memory: memory + beside}
			best, err := heuristics.Optimum(t.Context(), c, p, nil)
			if err != nil {
				t.Fatal(err)
			}
			makespan, err := verified(c, best.Plan)
			if err != nil || !best.Proved || !check.Same(makespan, best.Value) {
				t.Errorf("%s in %.0f: %g, bound %g, %v", network, p.Memory, makespan, best.Value, err)
			}
			if beside != 0 {
				continue
			}
			next, err := Phases(t.Context(), c, p)
			if err != nil {
				t.Fatal(err)
			}
			task := formulation.Task{
				Backend: highs.New(), Level: formulation.Off,
				Verify: func(q *plan.Plan) (float64, error) { return verified(c, q) },
			}
			r, err := task.Run(t.Context(), next)
			if err != nil || r.Plan == nil || !check.Same(r.Objective, makespan) || !check.Same(r.Claimed(), makespan) {
				t.Errorf("%s in %.0f: %+v, %v; should be %g", network, p.Memory, r, err, makespan)
			}
		}
	}
}
