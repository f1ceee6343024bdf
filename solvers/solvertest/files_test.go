package solvertest_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"workbench/model/milp"
	"workbench/model/testfile"
	"workbench/solvers"
	"workbench/solvers/enumerate"
	"workbench/solvers/highs"
	"workbench/solvers/lpsolve"
	"workbench/solvers/solvertest"
)

// fileCases are the written forms of a model, and who has to understand them.
var fileCases = []struct {
	name      string
	available func() error // of the library that reads
	write     func(m *milp.Model, f *os.File) (*milp.NameMap, error)
	read      func(path string) (*milp.Model, error)
}{
	{"highs.mps", highs.Available, writeMPS(milp.FreeMPS), highs.Read},
	{"highs_fixed.mps", highs.Available, writeMPS(milp.FixedMPS), highs.Read},
	{"highs.lp", highs.Available, func(m *milp.Model, f *os.File) (*milp.NameMap, error) { return m.WriteLP(f) }, highs.Read},
	{"lpsolve.mps", lpsolve.Available, writeMPS(milp.FreeMPS), readLPSolve(milp.FreeMPS)},
	{"lpsolve_fixed.mps", lpsolve.Available, writeMPS(milp.FixedMPS), readLPSolve(milp.FixedMPS)},
}

func readLPSolve(format milp.MPSFormat) func(string) (*milp.Model, error) {
	return func(path string) (*milp.Model, error) { return lpsolve.Read(path, format) }
}

func writeMPS(format milp.MPSFormat) func(*milp.Model, *os.File) (*milp.NameMap, error) {
	return func(m *milp.Model, f *os.File) (*milp.NameMap, error) { return m.WriteMPS(f, format) }
}

// A model that package milp writes and a library reads has the same optimum:
// judged by enumeration, so that only the reading is on trial.
func TestWrittenModelsAreReadAlike(t *testing.T) {
	judge := enumerate.New()
	dir := t.TempDir()
	optimal := 0
	for seed := range uint64(testfile.Cases(150)) {
		m := scribble(rand.New(rand.NewPCG(seed, 1)))
		want, err := judge.Solve(t.Context(), m, solvers.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if want.Status == solvers.Optimal {
			optimal++
		}
		for _, c := range fileCases {
			if err := c.available(); err != nil {
				if seed == 0 {
					t.Logf("%s is not read: %v", c.name, err)
				}
				continue
			}
			path := filepath.Join(dir, c.name)
			f, err := os.Create(path)
			if err != nil {
				t.Fatal(err)
			}
			names, err := c.write(m, f)
			if err != nil {
				t.Fatalf("seed %d: %s: %v", seed, c.name, err)
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
			again, err := c.read(path)
			if err != nil {
				text, _ := os.ReadFile(path)
				t.Fatalf("seed %d: %s: %v\n%s", seed, c.name, err, text)
			}
			got, err := judge.Solve(t.Context(), again, solvers.Options{})
			if err != nil {
				t.Fatalf("seed %d: %s: %v", seed, c.name, err)
			}
			objective := got.Obj
			if names.Negated {
				objective = -objective
			}
			if got.Status != want.Status || want.Status == solvers.Optimal && math.Abs(objective-want.Obj) > 1e-6 {
				text, _ := os.ReadFile(path)
				t.Fatalf("seed %d: %s: %v %v, want %v %v\n%s", seed, c.name, got.Status, objective, want.Status, want.Obj, text)
			}
		}
	}
	if optimal < testfile.Cases(30) {
		t.Errorf("only %d models have an optimum", optimal)
	}
}

// CBC and GLPK, which share nothing with this program, find the same optimum in what
// package milp writes.
func TestOtherProgramsReadWrittenModels(t *testing.T) {
	forms := map[string]func(*milp.Model, *os.File) (*milp.NameMap, error){
		"model.mps": writeMPS(milp.FreeMPS),
		"model.lp":  func(m *milp.Model, f *os.File) (*milp.NameMap, error) { return m.WriteLP(f) },
	}
	for _, program := range solvertest.Programs() {
		t.Run(program.Name, func(t *testing.T) {
			t.Parallel()
			if !program.Here() {
				t.Skipf("%s is not installed", program.Name)
			}
			optimal := 0
			for seed := range uint64(testfile.Cases(60)) {
				m := scribble(rand.New(rand.NewPCG(seed, 1)))
				want, err := enumerate.New().Solve(t.Context(), m, solvers.Options{})
				if err != nil {
					t.Fatal(err)
				}
				for name, write := range forms {
					path := filepath.Join(t.TempDir(), name)
					f, err := os.Create(path)
					if err != nil {
						t.Fatal(err)
					}
					names, err := write(m, f)
					if err := errors.Join(err, f.Close()); err != nil {
						t.Fatal(err)
					}
					status, objective, err := program.Solve(t.Context(), path)
					if names.Negated {
						objective = -objective
					}
					text, _ := os.ReadFile(path)
					switch {
					case err != nil:
						t.Errorf("seed %d: %s: %v\n%s", seed, name, err, text)
					case want.Status == solvers.Optimal:
						optimal++
						if status != want.Status || math.Abs(objective-want.Obj) > 1e-6 {
							t.Errorf("seed %d: %s: %v %v, want %v\n%s", seed, name, status, objective, want.Obj, text)
						}
					case status == solvers.Optimal:
						t.Errorf("seed %d: %s: %v %v, want %v\n%s", seed, name, status, objective, want.Status, text)
					}
				}
			}
			if optimal < testfile.Cases(20) {
				t.Errorf("only %d models have an optimum", optimal)
			}
		})
	}
}

// scribble returns a random model of names, bounds, sides and objectives that
// file formats have trouble with.
func scribble(r *rand.Rand) *milp.Model {
	m := milp.New("a random model")
	inf := math.Inf(1)
	var x []milp.Var
	for range 2 + r.IntN(3) {
		name := []string{"x", "free", "e1", "a b", "RHS", "inf", "nan", "end", "9", "long name of a variable"}[r.IntN(10)]
		lo := float64(r.IntN(13) - 6)
		up := lo + float64(r.IntN(7))
		kind := []milp.Kind{milp.Continuous, milp.Integer, milp.Binary}[r.IntN(3)]
		if kind == milp.Binary {
			lo, up = 0, 1
		}
		if kind == milp.Continuous {
			switch r.IntN(6) {
			case 0:
				lo = -inf
			case 1:
				up = inf
			case 2:
				lo, up = -inf, inf
			case 3:
				lo, up = 0, inf
			}
		}
		l := m.List(name, 1+r.IntN(2), kind, lo, up)
		for i := range l.Len() {
			x = append(x, l.At(i))
		}
	}
	var e milp.Expr
	expr := func() *milp.Expr {
		e.Reset().AddConst(float64(r.IntN(9)-4) / 2)
		for range r.IntN(5) {
			e.Add(float64(r.IntN(17)-8)/2, x[r.IntN(len(x))])
		}
		return &e
	}
	for range r.IntN(5) {
		g := m.Group([]string{"row", "end", "memory of the gpu"}[r.IntN(3)], "[001] (4)")
		b := float64(r.IntN(13))
		switch r.IntN(6) {
		case 0:
			g.AtMost(expr(), b)
		case 1:
			g.AtLeast(expr(), -b)
		case 2:
			g.Equal(expr(), b/4)
		case 3, 4:
			g.Between(-b, expr(), float64(1+r.IntN(6)))
		case 5:
			g.Between(-inf, expr(), inf)
		}
	}
	if r.IntN(2) == 0 {
		m.Maximize(expr())
	} else {
		m.Minimize(expr())
	}
	return m
}
