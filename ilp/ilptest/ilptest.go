// Package ilptest has what the tests of formulations share.
package ilptest

import (
	"slices"
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

func Must(t testing.TB, build formulation.Builder, c *chain.Chain, p platform.Platform) *formulation.Program {
	t.Helper()
	program, err := build(c, p)
	if err != nil {
		t.Fatal(err)
	}
	if err := program.Model.Err(); err != nil {
		t.Fatal(err)
	}
	return program
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

type fataler interface {
	Helper()
	Fatalf(string, ...any)
}

// CheckOffload holds a result against the verifier.
func CheckOffload(t fataler, c *chain.Chain, r *formulation.Found) {
	t.Helper()
	report, err := plan.VerifyOn(plan.Instance{Chain: c}, r.Plan)
	switch {
	case err != nil:
		t.Fatalf("%v", err)
	case !report.Valid():
		t.Fatalf("%v", report.Violations)
	case len(report.ClaimErrors) > 0:
		t.Fatalf("%v", report.ClaimErrors)
	case r.Bound > report.Makespan || r.Bound < c.TotalTime()*(1-1e-9):
		t.Fatalf("bound %g, makespan %g, total %g", r.Bound, report.Makespan, c.TotalTime())
	}
}

// Scaled returns a chain with all times and all sizes times something.
func Scaled(c *chain.Chain, time, size float64) *chain.Chain {
	d := *c
	d.Input.Activation *= size
	d.Input.Gradient *= size
	d.Layers = slices.Clone(c.Layers)
	for i := range d.Layers {
		l := &d.Layers[i]
		l.ForwardTime, l.BackwardTime = l.ForwardTime*time, l.BackwardTime*time
		for _, x := range []*float64{&l.Activation, &l.Saved, &l.Gradient, &l.ForwardOverhead, &l.BackwardOverhead} {
			*x *= size
		}
	}
	return &d
}
