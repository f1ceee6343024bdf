package catalog_test

import (
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"workbench/bench/solve/catalog"
	"workbench/ilp"
	"workbench/ilp/formulation"
	"workbench/model/milp"
	"workbench/model/plan"
	"workbench/model/testcase"
	"workbench/model/testfile"
	"workbench/solvers"
	"workbench/solvers/highs"
	"workbench/solvers/solvertest"
)

// forms are the files that other programs read.
var forms = map[string]func(*milp.Model, io.Writer) (*milp.NameMap, error){
	"model.mps": func(m *milp.Model, w io.Writer) (*milp.NameMap, error) { return m.WriteMPS(w, milp.FreeMPS) },
	"model.lp":  (*milp.Model).WriteLP,
}

// TestOthersReadOurFiles: of every formulation, the file that is written has the
// same optimum by programs that share nothing with this one.
func TestOthersReadOurFiles(t *testing.T) {
	testfile.Long(t)
	for _, program := range solvertest.Programs() {
		t.Run(program.Name, func(t *testing.T) {
			t.Parallel()
			if !program.Here() {
				t.Skipf("%s is not installed", program.Name)
			}
			for _, f := range ilp.Formulations() {
				p, err := catalog.FindProblem(f.Problem)
				if err != nil {
					t.Fatal(err)
				}
				for _, m := range smallModels(t, f, p.SubjectOf(f)) {
					readAlike(t, program, m)
				}
			}
		})
	}
}

// smallModels returns a few models of a formulation.
func smallModels(t *testing.T, f formulation.Formulation, about *testcase.Subject) (list []*milp.Model) {
	t.Helper()
	random := rand.New(rand.NewPCG(1, 1))
	for len(list) < testfile.Cases(3) {
		trial, err := about.Random(random, min(2, about.Usual))
		if err != nil {
			t.Fatal(err)
		}
		built, err := f.Build(trial.In, trial.Platform, nil)
		if infeasible := new(plan.Infeasible); errors.As(err, &infeasible) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, built.Model)
	}
	return list
}

// readAlike compares what a program finds in both files of a model with what HiGHS
// finds in the model itself.
func readAlike(t *testing.T, program solvertest.Program, m *milp.Model) {
	t.Helper()
	want, err := highs.New().Solve(t.Context(), m, solvers.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for name, write := range forms {
		path := filepath.Join(t.TempDir(), name)
		file, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		names, err := write(m, file)
		if err != nil {
			t.Fatal(err)
		}
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
		status, objective, err := program.Solve(t.Context(), path)
		if names.Negated {
			objective = -objective
		}
		switch {
		case err != nil:
			t.Errorf("%s, %s: %v", m.Name(), name, err)
		case status == solvers.Optimal && want.Status == solvers.Optimal:
			if math.Abs(objective-want.Obj) > 1e-5*math.Max(1, math.Abs(want.Obj)) {
				t.Errorf("%s, %s: %g, want %g", m.Name(), name, objective, want.Obj)
			}
		case status == solvers.Optimal || want.Status != solvers.Infeasible:
			t.Errorf("%s, %s: %v, want %v", m.Name(), name, status, want.Status)
		}
	}
}
