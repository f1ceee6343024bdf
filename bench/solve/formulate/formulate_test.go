package formulate_test

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"workbench/bench/solve"
	"workbench/bench/solve/backends"
	"workbench/bench/solve/catalog"
	"workbench/bench/solve/formulate"
	"workbench/bench/solve/method"
	"workbench/ilp"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/testfile"
	"workbench/solvers"
	"workbench/solvers/highs"
)

func built(t *testing.T, name string, in *solve.Instance, p platform.Platform) formulate.Built {
	t.Helper()
	for _, f := range ilp.Formulations() {
		if f.Name == name {
			program, err := method.Build(f, in, p)
			if err != nil {
				t.Fatal(err)
			}
			return formulate.Built{Formulation: f, Program: program}
		}
	}
	t.Fatalf("no formulation %s", name)
	return formulate.Built{}
}

func loaded(t *testing.T, spec string) (*solve.Instance, solvers.Backend) {
	t.Helper()
	in, err := solve.Load(spec, strings.NewReader(""))
	if err != nil {
		t.Fatal(err)
	}
	b, err := backends.New("highs", false)
	if err != nil {
		t.Fatal(err)
	}
	return in, b
}

func valid(t *testing.T, schema string, v any) {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	if err := testfile.Schema(t, schema)(string(data)); err != nil {
		t.Error(err)
	}
}

// The plan of an exact formulation is as fast as the model says, and its relaxation no
// slower; the duals of the relaxation are of rows and columns that there are.
func TestSolve(t *testing.T) {
	t.Parallel()
	in, b := loaded(t, "../../../testdata/examples/fork.graph.json")
	x := built(t, "checkmate", in, platform.Platform{Memory: 4})
	s, err := formulate.Solve(t.Context(), b, x.Formulation, in, x.Program, solvers.Options{}, formulate.Wants{Values: true, Solutions: true})
	if err != nil {
		t.Fatal(err)
	}
	if s.Plan == nil || s.Objective == nil || math.Abs(*s.Plan-*s.Objective) > 1e-6 || s.PlanError != "" || len(s.Columns) == 0 {
		t.Errorf("%+v", s)
	}
	valid(t, "formulation-solution-v1.json", s)
	relaxed, err := formulate.Solve(t.Context(), b, x.Formulation, in, x.Program, solvers.Options{Relax: true},
		formulate.Wants{Values: true, Solutions: true})
	if err != nil {
		t.Fatal(err)
	}
	if *relaxed.Objective > *s.Objective+1e-6 || relaxed.Plan != nil || len(relaxed.Duals) == 0 {
		t.Errorf("%+v", relaxed)
	}
	valid(t, "formulation-solution-v1.json", relaxed)
	var text strings.Builder
	s.Text(&text)
	for _, want := range []string{"checkmate (exact) on fork", "verified by replay", "not certified"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, &text)
		}
	}
}

// Solutions on the way get better, and the last is the answer, with the same plan.
func TestSolutions(t *testing.T) {
	t.Parallel()
	in, b := loaded(t, "../../../testdata/examples/fork.graph.json")
	x := built(t, "checkmate", in, platform.Platform{Memory: 4})
	s, err := formulate.Solve(t.Context(), b, x.Formulation, in, x.Program, solvers.Options{}, formulate.Wants{Solutions: true})
	if err != nil {
		t.Fatal(err)
	}
	for k, f := range s.Solutions {
		if f.Objective == nil || f.Plan == nil || k > 0 && *f.Objective >= *s.Solutions[k-1].Objective {
			t.Errorf("solution %d: %+v", k, f)
		}
	}
	if last := s.Solutions[len(s.Solutions)-1]; *last.Objective != *s.Objective || *last.Plan != *s.Plan {
		t.Errorf("the last is %v, the answer %v", *last.Objective, *s.Objective)
	}
}

// What presolve leaves is no more than there was; a backend that does not tell is no error.
func TestPresolved(t *testing.T) {
	t.Parallel()
	in, b := loaded(t, "../../../testdata/examples/fork.graph.json")
	m := built(t, "checkmate", in, platform.Platform{Memory: 4}).Program.Model
	left, err := formulate.PresolvedBy(t.Context(), b, m)
	if err != nil || left == nil || left.Variables >= m.NumCols() || left.Constraints >= m.NumRows() || left.Nonzeros >= m.NumNonzeros() {
		t.Errorf("%v of %v, %v", left, formulate.SizeOf(m), err)
	}
	other, err := backends.New("lpsolve", false)
	if err != nil {
		t.Skip(err)
	}
	if left, err := formulate.PresolvedBy(t.Context(), other, m); left != nil || err != nil {
		t.Errorf("lp_solve: %v, %v", left, err)
	}
}

// The models of a set are read again, and the optimum of each lies between bound and start.
func TestExport(t *testing.T) {
	t.Parallel()
	in, b := loaded(t, "../../../testdata/examples/fork.graph.json")
	p, err := catalog.FindProblem(plan.Remat)
	if err != nil {
		t.Fatal(err)
	}
	m, err := catalog.FindMethod(p, catalog.DefaultMethod(p, in))
	if err != nil {
		t.Fatal(err)
	}
	setting := solve.Setting{Platform: platform.Platform{Memory: 4}, Time: time.Minute, Threads: 1, Backend: b}
	r := solve.Run(t.Context(), p, m, in, setting)
	folder := filepath.Join(t.TempDir(), "set")
	set := &formulate.Set{Format: formulate.SetFormat, Date: "2026-11-22", Licence: formulate.Licence}
	if err := set.Export(folder, ilp.Formulations(), in, setting.Platform, r); err != nil {
		t.Fatal(err)
	}
	if err := set.Write(folder); err != nil {
		t.Fatal(err)
	}
	valid(t, "formulation-set-v1.json", set)
	starts, bounds := 0, 0
	for _, x := range set.Models {
		read, err := highs.Read(filepath.Join(folder, x.File))
		if err != nil {
			t.Fatal(err)
		}
		solved, err := b.Solve(t.Context(), read, solvers.Options{})
		if err != nil || solved.Status != solvers.Optimal {
			t.Fatalf("%s: %v, %v", x.File, solved, err)
		}
		if x.Best != nil {
			starts++
			if *x.Best < solved.Obj-1e-6 {
				t.Errorf("%s: the start costs %v, the optimum %v", x.File, *x.Best, solved.Obj)
			}
		}
		if x.Bound != nil {
			bounds++
			if *x.Bound > solved.Obj+1e-6 {
				t.Errorf("%s: the bound is %v, the optimum %v", x.File, *x.Bound, solved.Obj)
			}
		}
	}
	if starts == 0 || bounds == 0 {
		t.Errorf("%d starts and %d bounds of %d models", starts, bounds, len(set.Models))
	}
	licence, err := os.ReadFile("../../../LICENSE")
	if err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(filepath.Join(folder, "LICENSE")); err != nil || string(text) != string(licence) {
		t.Errorf("the licence beside the models is not that of the program: %v", err)
	}
	for _, name := range []string{"README.md", "index.json"} {
		if text, err := os.ReadFile(filepath.Join(folder, name)); err != nil || !strings.Contains(string(text), set.Models[0].File) {
			t.Errorf("%s: %v\n%s", name, err, text)
		}
	}
}

// A plan that does not decode is said, and is no error.
func TestSolveSaysWhyThereIsNoPlan(t *testing.T) {
	t.Parallel()
	in, b := loaded(t, "../../../testdata/examples/fork.graph.json")
	x := built(t, "checkmate", in, platform.Platform{Memory: 4})
	without, err := x.Program.Model.Without("memory", "memory at the start")
	if err != nil {
		t.Fatal(err)
	}
	program := *x.Program
	program.Model = without
	s, err := formulate.Solve(t.Context(), b, x.Formulation, in, &program, solvers.Options{}, formulate.Wants{})
	if err != nil {
		t.Fatal(err)
	}
	if s.Plan != nil == (s.PlanError != "") {
		t.Errorf("plan %v, error %q: one of them is wanted", s.Plan, s.PlanError)
	}
}

// Groups and families of both are listed once, with what each has.
func TestCompare(t *testing.T) {
	t.Parallel()
	in, b := loaded(t, "../../../testdata/examples/fork.graph.json")
	p := platform.Platform{Memory: 4}
	both := [2]formulate.Built{built(t, "checkmate", in, p), built(t, "checkmate-strong", in, p)}
	d, err := formulate.Compare(context.Background(), b, in.Name, in, both, solvers.Options{})
	if err != nil {
		t.Fatal(err)
	}
	valid(t, "formulation-diff-v1.json", d)
	seen := map[string]bool{}
	for _, g := range d.Groups {
		if seen[g.Name] || g.Sides[0] == nil && g.Sides[1] == nil {
			t.Errorf("group %+v", g)
		}
		seen[g.Name] = true
	}
	if !seen["memory"] || !seen["live"] || len(d.Families) > 12 {
		t.Errorf("groups %v, %d families", seen, len(d.Families))
	}
	if a, b := d.Sides[0].Program.Objective, d.Sides[1].Program.Objective; a == nil || b == nil || math.Abs(*a-*b) > 1e-6 {
		t.Errorf("two exact formulations say %v and %v", a, b)
	}
	var text strings.Builder
	if err := d.Text(&text); err != nil || !strings.Contains(text.String(), "relaxation") {
		t.Errorf("%v\n%s", err, &text)
	}
}
