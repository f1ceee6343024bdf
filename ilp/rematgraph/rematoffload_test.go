package rematgraph

import (
	"errors"
	"math/rand/v2"
	"testing"

	"workbench/ilp/check"
	"workbench/ilp/formulation"
	"workbench/ilp/ilptest"
	"workbench/model/instance/training"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/problem/rematgraph"
	"workbench/model/testcase"
	"workbench/model/testcase/random"
	"workbench/model/zoo"
	"workbench/solvers"
	"workbench/solvers/highs"
	"workbench/solvers/lpsolve"
)

// The bound beside a link holds for every plan, on both backends.
func TestLinkedPromise(t *testing.T) {
	f := ilptest.Formulation(t, Formulations(), linkedName)
	report, err := check.Run(t.Context(), f, testcase.Linked(), []solvers.Backend{highs.New(), lpsolve.New()},
		check.Options{Seed: 5, Cases: 60})
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range report.Failures {
		t.Errorf("%s, %d times\n%s", x.Kind, x.Count, x.Smallest.String())
	}
	if report.Cases-report.Skipped < 40 || report.Tight == 0 {
		t.Errorf("%d of %d cases skipped, %d tight", report.Skipped, report.Cases, report.Tight)
	}
}

// Its relaxation is the bound that is found without a model: of small steps at every node
// where that looks, of networks at its node.
func TestLinkedBoundIsThatOfTheModel(t *testing.T) {
	relaxed := func(g *training.Graph, p platform.Platform) (model, bound float64) {
		v, err := rematgraph.New(g)
		if err != nil {
			t.Fatal(err)
		}
		program, err := Linked(g, p, besideOptions{})
		if err != nil {
			t.Fatal(err)
		}
		x, err := highs.New().Solve(t.Context(), program.Model, solvers.Options{Relax: true})
		if err != nil {
			t.Fatal(err)
		}
		value, ok := x.Objective()
		if !ok {
			t.Fatal(x.Status)
		}
		return program.Objective(value), v.LinkedBound(p.Memory, p.Bandwidth).Seconds
	}
	for _, name := range []string{"gpt2?layers=4&batch=4", "resnet18?batch=8"} {
		g, err := zoo.LoadTraining("zoo:" + name)
		if err != nil {
			t.Fatal(err)
		}
		v, err := rematgraph.New(g)
		if err != nil {
			t.Fatal(err)
		}
		high, _, _ := v.StoreAll().Peak()
		low, _ := v.LinkedLeast()
		for _, part := range []float64{0.1, 0.3, 0.6} {
			p := platform.Platform{Memory: float64(int64(low + part*(high-low))), Bandwidth: 4e9}
			if model, bound := relaxed(g, p); !(model >= bound*(1-1e-5) && model <= bound*(1+1e-3)) {
				t.Errorf("%s, %g of the range: the model says %g, the bound %g", name, part, model, bound)
			}
		}
	}
}

// What no model is of is told apart.
func TestLinkedRefuses(t *testing.T) {
	g := random.Training(rand.New(rand.NewPCG(1, 2)), 2)
	v, err := rematgraph.New(g)
	if err != nil {
		t.Fatal(err)
	}
	enough, _, _ := v.StoreAll().Peak()
	far := 1 << 20
	if _, err := Linked(g, platform.Platform{Memory: enough}, besideOptions{}); !errors.Is(err, formulation.ErrInstance) {
		t.Errorf("without a link: %v", err)
	}
	if _, err := Linked(g, platform.Platform{Memory: enough, Bandwidth: 1}, besideOptions{Node: &far}); !errors.Is(err,
		formulation.ErrInstance) {
		t.Errorf("at no node: %v", err)
	}
	var infeasible *plan.Infeasible
	if _, err := Linked(g, platform.Platform{Memory: 0, Bandwidth: 1}, besideOptions{}); !errors.As(err, &infeasible) ||
		infeasible.Problem != plan.RematOffload {
		t.Errorf("without memory: %v", err)
	}
}
