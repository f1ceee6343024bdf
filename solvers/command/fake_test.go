package command

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"workbench/model/milp"
	"workbench/solvers"
	"workbench/solvers/enumerate"
)

// This test program is also every solver: with fake set to a dialect and a mutation it
// enumerates the model in its folder and answers as that program would.
const fake = "WORKBENCH_FAKE_SOLVER"

func TestMain(m *testing.M) {
	if dialect, mutation, ok := strings.Cut(os.Getenv(fake), " "); ok {
		if err := play(dialect, mutation); err != nil {
			fmt.Println(err)
			os.Exit(7)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// play is the fake program.
func play(dialect, mutation string) error {
	switch mutation {
	case "hangs":
		time.Sleep(time.Hour)
	case "crashes":
		return syscall.Kill(os.Getpid(), syscall.SIGKILL)
	case "is silent":
		return nil
	}
	m, err := milp.OpenFile(modelFile)
	if err != nil {
		return err
	}
	r, err := enumerate.New().Solve(context.Background(), m, solvers.Options{})
	if err != nil {
		return err
	}
	x, found := r.Solution()
	objective := r.Obj
	switch {
	case mutation == "is wrong" && found:
		for j := range x {
			x[j] += 1000
		}
	case mutation == "settles for less" && found: // any other solution
		d := m.Data()
		d.Cost = make([]float64, len(d.Cost))
		for j := range d.Cost {
			d.Cost[j] = float64(j%3) - 1
		}
		if worse, err := enumerate.New().Solve(context.Background(), milp.FromData(d), solvers.Options{}); err == nil &&
			worse.Status == solvers.Optimal {
			x, objective = worse.X, m.Objective(worse.X)
		}
	case mutation == "says infeasible":
		r.Status, x = solvers.Infeasible, nil
	}
	name := column
	if mutation == "solves another model" {
		name = func(k int) string { return "y" + fmt.Sprint(k) }
	}
	text := formats[dialect](r.Status, x, objective, m, name)
	if mutation == "is cut off" {
		text = text[:len(text)/3]
	}
	if text == "" {
		return nil
	}
	return os.WriteFile(solutionFile, []byte(text), 0o600)
}

// formats write solution files, and print what else a program says.
var formats = map[string]func(s solvers.Status, x []float64, objective float64, m *milp.Model, name func(int) string) string{
	"cbc": func(s solvers.Status, x []float64, objective float64, m *milp.Model, _ func(int) string) string {
		words := map[solvers.Status]string{solvers.Optimal: "Optimal", solvers.Infeasible: "Infeasible", solvers.Unbounded: "Unbounded"}
		if x != nil {
			raw, _ := binary.Append(nil, binary.NativeEndian, []int32{0, int32(len(x))})
			raw, _ = binary.Append(raw, binary.NativeEndian, append([]float64{objective}, append(append([]float64{}, x...), x...)...))
			os.WriteFile(cbcPoint, raw, 0o600)
		}
		return words[s] + " - objective value " + number(objective) + "\n"
	},
	"glpk": func(s solvers.Status, x []float64, objective float64, m *milp.Model, _ func(int) string) string {
		if x == nil {
			fmt.Println(map[solvers.Status]string{
				solvers.Infeasible: "PROBLEM HAS NO PRIMAL FEASIBLE SOLUTION",
				solvers.Unbounded:  "LP HAS UNBOUNDED PRIMAL SOLUTION",
			}[s])
			return fmt.Sprintf("s mip %d %d u 0\ne o f\n", m.NumRows(), m.NumCols())
		}
		text := fmt.Sprintf("s mip %d %d o %v\n", m.NumRows(), m.NumCols(), objective)
		for k, v := range x {
			text += fmt.Sprintf("j %d %v\n", k+1, v)
		}
		return text
	},
	"highs-command": func(s solvers.Status, x []float64, objective float64, m *milp.Model, name func(int) string) string {
		if x == nil {
			return fmt.Sprintf("Model status\n%s\n\n# Primal solution values\nNone\n",
				map[solvers.Status]string{solvers.Infeasible: "Infeasible", solvers.Unbounded: "Unbounded"}[s])
		}
		return fmt.Sprintf("Model status\nOptimal\n\n# Primal solution values\nFeasible\nObjective %v\n# Columns %d\n%s# Rows 0\n", objective,
			len(x), values(x, name))
	},
	"scip": func(s solvers.Status, x []float64, objective float64, m *milp.Model, name func(int) string) string {
		if x == nil {
			return fmt.Sprintf("solution status: %s\nno solution available\n",
				map[solvers.Status]string{solvers.Infeasible: "infeasible", solvers.Unbounded: "unbounded"}[s])
		}
		fmt.Printf("Primal Bound       : %+.14e (1 solutions)\nDual Bound         : %+.14e\n", objective, objective)
		return fmt.Sprintf("solution status: optimal solution found\nobjective value: %v\n%s", objective, values(x, name))
	},
	"gurobi": func(s solvers.Status, x []float64, objective float64, m *milp.Model, name func(int) string) string {
		if x == nil {
			fmt.Println(map[solvers.Status]string{solvers.Infeasible: "Model is infeasible", solvers.Unbounded: "Model is unbounded"}[s])
			return ""
		}
		fmt.Printf("Optimal solution found (tolerance 0.00e+00)\nBest objective %.12e, best bound %.12e, gap 0.0000%%\n", objective, objective)
		return fmt.Sprintf("# Solution for model model\n# Objective value = %v\n%s", objective, values(x, name))
	},
	"cplex": func(s solvers.Status, x []float64, objective float64, m *milp.Model, name func(int) string) string {
		if x == nil {
			fmt.Println(map[solvers.Status]string{solvers.Infeasible: "MIP - Integer infeasible.", solvers.Unbounded: "MIP - Integer unbounded."}[s])
			return ""
		}
		text := fmt.Sprintf("<CPLEXSolution>\n <header objectiveValue=\"%v\" solutionStatusString=\"integer optimal solution\"/>\n <variables>\n",
			objective)
		for k, v := range x {
			text += fmt.Sprintf("  <variable name=\"%s\" index=\"%d\" value=\"%v\"/>\n", name(k), k, v)
		}
		return text + " </variables>\n</CPLEXSolution>\n"
	},
}

func values(x []float64, name func(int) string) (text string) {
	for k, v := range x {
		text += fmt.Sprintf("%s %v\n", name(k), v)
	}
	return text
}

// faked is the backend of a dialect whose program is this one.
func faked(t *testing.T, d *Dialect, mutation string) solvers.Backend {
	t.Setenv(fake, d.Name+" "+mutation)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	versions.Store(self, "1.0")
	return solvers.New(Engine{Dialect: d, Program: self})
}

// TestDialects: what a program says in any dialect is understood.
func TestDialects(t *testing.T) {
	for _, d := range Dialects() {
		b := faked(t, d, "")
		seen := map[solvers.Status]int{}
		for seed := range uint64(40) {
			m := random(seed)
			want, err := enumerate.New().Solve(t.Context(), m, solvers.Options{})
			if err != nil {
				t.Fatal(err)
			}
			got, err := b.Solve(t.Context(), m, solvers.Options{})
			if err != nil {
				t.Fatalf("%s, seed %d: %v", d.Name, seed, err)
			}
			seen[got.Status]++
			if got.Status != want.Status || want.Status == solvers.Optimal && math.Abs(got.Obj-want.Obj) > 1e-9 {
				t.Errorf("%s, seed %d: %v %v (%s), want %v %v", d.Name, seed, got.Status, got.Obj, got.Note, want.Status, want.Obj)
			}
		}
		if seen[solvers.Optimal] < 10 || seen[solvers.Infeasible] < 3 || seen[solvers.Unbounded] < 1 {
			t.Errorf("%s: %v", d.Name, seen)
		}
	}
}

// random returns a small model of any verdict.
func random(seed uint64) *milp.Model {
	r := rand.New(rand.NewPCG(seed, 48))
	m := milp.New("random")
	rows := m.Group("row", "")
	var objective, e milp.Expr
	var x []milp.Var
	for k := range 4 {
		kind, upper := milp.Integer, 3.0
		if k%2 == 1 {
			kind = milp.Continuous
		}
		if k == 3 && seed%5 == 0 {
			upper = math.Inf(1)
		}
		x = append(x, m.Var("x", kind, 0, upper))
		objective.Add(float64(r.IntN(9)-4), x[k])
	}
	objective.Const = float64(r.IntN(3))
	for range 3 {
		e.Reset()
		for _, v := range x {
			e.Add(float64(r.IntN(7)-2), v)
		}
		upper := 8.0
		if seed%5 == 0 {
			upper = math.Inf(1)
		}
		rows.Between(float64(r.IntN(8)-2), &e, upper)
	}
	if seed%2 == 0 {
		m.Maximize(&objective)
	} else {
		m.Minimize(&objective)
	}
	return m
}

// TestMutants: programs that are wrong, hang, crash or answer something else are found out, by
// name.
func TestMutants(t *testing.T) {
	m := random(1)
	for _, d := range Dialects() {
		for mutation, want := range map[string]string{
			"crashes":              "signal: killed",
			"is silent":            "it has written no solution file",
			"solves another model": "is not one of this model",
		} {
			if mutation == "solves another model" && (d.Name == "cbc" || d.Name == "glpk") { // files without names
				continue
			}
			if d.Name == "gurobi" || d.Name == "cplex" { // write no file without a solution
				want = strings.Replace(want, "it has written no solution file", "its status is unknown", 1)
			}
			_, err := faked(t, d, mutation).Solve(t.Context(), m, solvers.Options{})
			if !errors.Is(err, solvers.ErrSolver) || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), d.Name) {
				t.Errorf("%s %s: %v, want %q", d.Name, mutation, err, want)
			}
		}
		r, err := faked(t, d, "is wrong").Solve(t.Context(), m, solvers.Options{})
		if err != nil || r.Status == solvers.Optimal || !strings.Contains(r.Note, "claimed optimum is no solution") {
			t.Errorf("%s is wrong: %+v, %v", d.Name, r, err)
		}
		// its point is in another file
		if r, err := faked(t, d, "is cut off").Solve(t.Context(), m, solvers.Options{}); err == nil && r.Status == solvers.Optimal &&
			d.Name != "cbc" {
			t.Errorf("%s is cut off: %+v", d.Name, r)
		}
		// A consistent lie is found out by models of known answers.
		for _, lie := range []string{"settles for less", "says infeasible"} {
			if w := solvers.Wrong(t.Context(), faked(t, d, lie)); len(w) < 3 || !strings.Contains(strings.Join(w, "\n"), "HiGHS 3043: ") {
				t.Errorf("%s %s: %q", d.Name, lie, w)
			}
		}
	}
	begin := time.Now()
	r, err := faked(t, Dialects()[0], "hangs").Solve(t.Context(), m, solvers.Options{Time: 300 * time.Millisecond})
	if err != nil || r.Status != solvers.NoSolution || r.Stop != solvers.Time {
		t.Errorf("hangs: %+v, %v after %v", r, err, time.Since(begin))
	}
}
