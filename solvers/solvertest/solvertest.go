// Package solvertest holds backends to the contract of package solvers.
//
// A backend's test is three lines:
//
//	func TestContract(t *testing.T) { solvertest.Run(t, highs.New(), nil) }
//
// Every case builds models, solves them and says what is wrong with the
// answers. Whatever a case looks at, the harness checks every single result
// against the contract (contract.go), with code of its own. Nothing is skipped:
// what a backend does not claim to do, it must refuse, naming it.
package solvertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"workbench/model/milp"
	"workbench/model/testfile"
	"workbench/solvers"
)

// testCase is one part of the contract. run returns what is wrong. In cases
// that need more than the backend claims, the harness sees to the refusal and
// has run return errRefused.
type testCase struct {
	name string
	run  func(h *harness) error
}

// cases returns all cases, by theme.
func cases() []testCase {
	return slices.Concat(modelCases(), statusCases(), limitCases(), optionCases(), startCases(), callbackCases(), metamorphicCases(),
		goldenCases())
}

// slow are cases that the full run has, beside the large ones.
var slow = []string{"option/seed repeats", "option/threads 2, 1, 2", "repeat/eight at once", "golden/7919a − 7907b = 99991"}

// Names returns the names of all cases in order.
func Names() []string {
	var names []string
	for _, c := range cases() {
		names = append(names, c.name)
	}
	return names
}

// Solve solves a model, which is no error.
func Solve(t testing.TB, b solvers.Backend, m *milp.Model, o solvers.Options) *solvers.Result {
	t.Helper()
	r, err := b.Solve(t.Context(), m, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Problem is what solvers.New makes of a sound model and no options.
func Problem(m *milp.Model) *solvers.Problem {
	return &solvers.Problem{Model: m.Data(), Threads: 1, Nodes: -1, OnProgress: func(solvers.Progress) {}}
}

// Run holds b to the contract, each case a subtest. knownBad maps a case to the
// reason why b fails it today; it must then still fail.
func Run(t *testing.T, b solvers.Backend, knownBad map[string]string) {
	t.Helper()
	names := Names()
	for name := range knownBad {
		if !slices.Contains(names, name) {
			t.Errorf("known bad %q: no such case", name)
		}
	}
	for _, c := range cases() {
		t.Run(c.name, func(t *testing.T) {
			if strings.Contains(c.name, ", large") || slices.Contains(slow, c.name) {
				testfile.Long(t)
			}
			err := c.check(t.Context(), b)
			switch why, bad := knownBad[c.name]; {
			case bad && err == nil:
				t.Fatalf("passes, but is known as bad: %s", why)
			case bad:
				t.Logf("known bad (%s): %v", why, err)
			case err != nil:
				t.Fatal(err)
			}
		})
	}
}

// Failure is a case that a backend fails.
type Failure struct {
	Case string
	Err  error
}

// Check runs the named cases, or all if none is named, and returns those that b
// fails: Run for programs, such as tests of the suite itself.
func Check(ctx context.Context, b solvers.Backend, names ...string) []Failure {
	var failures []Failure
	for _, c := range cases() {
		if len(names) > 0 && !slices.Contains(names, c.name) {
			continue
		}
		if err := c.check(ctx, b); err != nil {
			failures = append(failures, Failure{c.name, err})
		}
	}
	return failures
}

// check runs one case. A panic counts as a failure.
func (c testCase) check(ctx context.Context, b solvers.Backend) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panics: %v", v)
		}
	}()
	err = c.run(&harness{ctx: ctx, backend: b})
	if errors.Is(err, errRefused) {
		return nil
	}
	return err
}

const (
	// lp has −2.8 + 6.3 at (1.6, 1.2), pick 11 at (3, 1).
	lp   = "min -x - y + 6.3; st; x + 2y <= 4; 3x + y <= 6"
	pick = "max 3x + 2y; st; x + y <= 4; bounds; x <= 3; y <= 4; int; x y"
	// infeasiblePick wants more than there is.
	infeasiblePick = "max 3x + 2y; st; x + y >= 8; bounds; x <= 3; y <= 4; int; x y"
)

// text returns a model in LP format, whose lines end in semicolons.
func text(lp string) *milp.Model {
	m, err := milp.ReadLP(strings.NewReader(strings.ReplaceAll(lp, ";", "\n") + "\nend\n"))
	if err != nil {
		panic(err) // check reports it
	}
	return m
}

// model is a milp.Model that is quick to write down.
type model struct {
	*milp.Model
	rows milp.Group
}

func newModel(name string) model {
	m := milp.New(name)
	return model{m, m.Group("row", "")}
}

// cols adds n columns of one kind.
func (m model) cols(n int, k milp.Kind, lo, up float64) []milp.Var {
	list := m.List(fmt.Sprintf("x%d", m.NumCols()), n, k, lo, up)
	vars := make([]milp.Var, n)
	for i := range vars {
		vars[i] = list.At(i)
	}
	return vars
}

// col adds a column.
func (m model) col(k milp.Kind, lo, up float64) milp.Var { return m.cols(1, k, lo, up)[0] }

// row adds lo ≤ Σ terms ≤ up.
func (m model) row(lo, up float64, terms ...milp.Term) {
	m.rows.Between(lo, &milp.Expr{Terms: terms}, up)
}

func (m model) min(offset float64, terms ...milp.Term) {
	m.Minimize(&milp.Expr{Terms: terms, Const: offset})
}

func (m model) max(offset float64, terms ...milp.Term) {
	m.Maximize(&milp.Expr{Terms: terms, Const: offset})
}

func term(c float64, v milp.Var) milp.Term { return milp.Term{Coef: c, Var: v} }

// sum is Σ coef_i · v_i.
func sum(coef []float64, v []milp.Var) []milp.Term {
	terms := make([]milp.Term, len(v))
	for i := range v {
		terms[i] = term(coef[i], v[i])
	}
	return terms
}

// ones is Σ v_i.
func ones(v []milp.Var) []milp.Term {
	return sum(slices.Repeat([]float64{1}, len(v)), v)
}
