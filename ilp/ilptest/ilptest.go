// Package ilptest has what the tests of formulations share.
package ilptest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"workbench/ilp/check"
	"workbench/ilp/formulation"
	"workbench/model/milp"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/testcase"
	"workbench/model/testfile"
	"workbench/solvers"
	"workbench/solvers/highs"
)

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

// A Check is a run of the check of a formulation against exhaustive search.
type Check struct {
	Backends      []solvers.Backend
	Cases, Layers int     // in the full run
	Tight         float64 // at least this part of the optima is met
}

// Keeps checks that a formulation keeps its promise.
func Keeps(t *testing.T, f formulation.Formulation, about *testcase.Subject, checks ...Check) {
	t.Helper()
	for _, x := range checks {
		cases := testfile.Cases(x.Cases)
		t.Run(fmt.Sprintf("%s/%d/%d", f.Name, len(x.Backends), x.Layers), func(t *testing.T) {
			r, err := check.Run(t.Context(), f, about, x.Backends, check.Options{Seed: 1, Cases: cases, Layers: x.Layers})
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range r.Failures {
				t.Errorf("%s, %d times:\n%s", f.Kind, f.Count, f.Smallest.String())
			}
			if r.Cases != cases || r.Skipped > cases/100 || float64(r.Tight) < x.Tight*float64(r.Cases-r.Skipped) {
				t.Errorf("%d cases, %d skipped, %d tight", r.Cases, r.Skipped, r.Tight)
			}
		})
	}
}

// Fails reports whether the check finds an instance on which a formulation, a mutant say,
// does not keep its promise. It ends with the first, which it leaves as large as it is.
func Fails(t testing.TB, f formulation.Formulation, about *testcase.Subject, o check.Options) bool {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	first := *about
	first.Smaller = func(*testcase.Trial) []*testcase.Trial {
		stop()
		return nil
	}
	r, err := check.Run(ctx, f, &first, []solvers.Backend{highs.New()}, o)
	if err != nil {
		t.Fatalf("%s: %v", f.Name, err)
	}
	return len(r.Failures) > 0
}

// Spoilt returns f with models that spoil has changed, and programs that edit has; nil changes nothing.
func Spoilt(f formulation.Formulation, spoil func(*milp.Data), edit func(*formulation.Program)) formulation.Formulation {
	build := f.Build
	f.Build = func(in plan.Instance, p platform.Platform, options json.RawMessage) (*formulation.Program, error) {
		made, err := build(in, p, options)
		if err != nil {
			return nil, err
		}
		if spoil != nil {
			d := made.Model.Data()
			d.Cost, d.Lower, d.Upper, d.Integer = slices.Clone(d.Cost), slices.Clone(d.Lower), slices.Clone(d.Upper), slices.Clone(d.Integer)
			d.RowLower, d.RowUpper, d.Col, d.Val = slices.Clone(d.RowLower), slices.Clone(d.RowUpper), slices.Clone(d.Col), slices.Clone(d.Val)
			spoil(&d)
			made.Model = milp.FromData(d)
		}
		if edit != nil {
			edit(made)
		}
		return made, nil
	}
	return f
}

// Starts checks that an optimal plan, of so many seconds, is a solution that costs
// no more.
func Starts(t rapid.TB, program *formulation.Program, best *plan.Plan, optimum float64) {
	t.Helper()
	start, err := program.Start(best)
	if err != nil {
		t.Fatal(err)
	}
	if v := program.Model.Violations(start, check.CheckTolerance); len(v) > 0 {
		t.Fatalf("an optimal plan is no solution: %s", v[0].String())
	}
	if x := program.Objective(program.Model.Objective(start)); x > optimum*(1+plan.Tolerance) {
		t.Fatalf("an optimal plan costs %.17g, not %.17g", x, optimum)
	}
}
