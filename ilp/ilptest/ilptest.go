// Package ilptest has what the tests of formulations share.
package ilptest

import (
	"testing"

	"workbench/ilp/formulation"
	"workbench/model/chain"
	"workbench/model/milp"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/solvers"
)

// Network returns a chain of layers with forward and backward time, activation
// and weight each.
func Network(input float64, layers ...[4]float64) *chain.Chain {
	c := &chain.Chain{Name: "test", Input: chain.Input{Activation: input}}
	for _, l := range layers {
		c.Layers = append(c.Layers, chain.Layer{ForwardTime: l[0], BackwardTime: l[1], Activation: l[2], Weight: l[3]})
	}
	return c
}

// Must builds the program of an instance.
func Must[T plan.Instance](t testing.TB, build formulation.Builder[T], in T, p platform.Platform) *formulation.Program {
	t.Helper()
	program, err := build(in, p)
	if err != nil {
		t.Fatal(err)
	}
	if err := program.Model.Err(); err != nil {
		t.Fatal(err)
	}
	return program
}

// Built builds the program of a formulation of the table.
func Built(t testing.TB, f formulation.Formulation, in plan.Instance, p platform.Platform) *formulation.Program {
	t.Helper()
	return Must(t, func(in plan.Instance, p platform.Platform) (*formulation.Program, error) { return f.Build(in, p, nil) }, in, p)
}

func Optimum(t testing.TB, b solvers.Backend, m *milp.Model) float64 {
	t.Helper()
	r, err := b.Solve(t.Context(), m, solvers.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if r.Status != solvers.Optimal {
		t.Fatalf("%s: %v %s", m.Name(), r.Status, r.Note)
	}
	return r.Obj
}

func Formulation(t *testing.T, list []formulation.Formulation, name string) formulation.Formulation {
	t.Helper()
	for _, f := range list {
		if f.Name == name {
			return f
		}
	}
	t.Fatalf("no formulation %q", name)
	return formulation.Formulation{}
}
