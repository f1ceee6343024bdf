//go:build cgo && unix

package lpsolve

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"workbench/model/milp"
	"workbench/model/testfile"
	"workbench/solvers"
	"workbench/solvers/enumerate"
	"workbench/solvers/solvertest"
)

var _ solvers.Engine = Engine{}

func TestContract(t *testing.T) {
	solvertest.Run(t, New(), map[string]string{
		"golden/7919a − 7907b = 99991":    "multiplies integers that are off by 1e-7 with 7919 and calls the row satisfied",
		"golden/memory to the last byte":  "infeasible, where two numbers have to add up to a third",
		"golden/stages on two processors": "1230 optimal, there is a solution of 1000",
	})
}

func TestVersion(t *testing.T) {
	if err := Available(); err != nil {
		t.Fatal(err)
	}
	if v := Version(); !strings.HasPrefix(v, "5.5.") || (Engine{}).Name() != "lpsolve "+v {
		t.Errorf("version %q, name %q", v, Engine{}.Name())
	}
}

func TestCandidates(t *testing.T) {
	cache := func() (string, error) { return "/cache", nil }
	env := func(path string) func(string) string {
		return func(name string) string {
			if name == "WORKBENCH_LPSOLVE" {
				return path
			}
			return ""
		}
	}
	if got := candidates(env("/here.so"), cache); len(got) != 1 || got[0] != "/here.so" {
		t.Errorf("with WORKBENCH_LPSOLVE: %v", got)
	}
	got := candidates(env(""), cache)
	if got[0] != "liblpsolve55.so" || got[len(got)-1] != "/cache/workbench/lp_solve/libworkbench_lpsolve.so" {
		t.Errorf("without: %v", got)
	}
	none := func() (string, error) { return "", errors.New("no home") }
	if len(candidates(env(""), none)) != len(got)-1 {
		t.Error("a cache that there is not")
	}
}

func TestOpen(t *testing.T) {
	for _, paths := range [][]string{{"/nowhere/liblpsolve55.so"}, {os.Args[0]}, {"/nowhere", "/nowhere/else"}} {
		_, err := openFirst(paths)
		if !errors.Is(err, solvers.ErrMissing) || !strings.Contains(err.Error(), "apt-get install lp-solve") {
			t.Errorf("%v: %v", paths, err)
		}
	}
	// A library, but another one: no function is missing unnoticed.
	if _, err := openFirst([]string{"libc.so.6"}); !errors.Is(err, solvers.ErrMissing) {
		t.Errorf("libc: %v", err)
	}
}

func TestDifferential(t *testing.T) { solvertest.Differential(t, New()) }

// TestStarts compares with trying everything, with and without starts of all
// kinds.
func TestStarts(t *testing.T) {
	random := rand.New(rand.NewPCG(4, 3))
	models, optima := rapid.Custom(solvertest.RandomModel), 0
	for i := range testfile.Cases(400) {
		m := models.Example(i)
		if i%3 == 0 {
			m = solvertest.RandomKnapsack(3+random.IntN(9), 1+random.IntN(2), random.Uint64())
		}
		want, err := enumerate.New().Solve(t.Context(), m, solvers.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if want.Status != solvers.Optimal {
			continue // TestDifferential has those
		}
		optima++
		compare(t, m, solvers.Options{}, want)
		complete, partial, wrong := append([]float64(nil), want.X...), append([]float64(nil), want.X...), append([]float64(nil), want.X...)
		for j := range want.X {
			if random.IntN(3) == 0 {
				partial[j] = math.NaN()
			}
			if random.IntN(3) == 0 {
				wrong[j] = m.Col(j).Lower
			}
		}
		for _, start := range [][]float64{complete, partial, wrong} {
			compare(t, m, solvers.Options{Start: start}, want)
		}
	}
	if optima < testfile.Cases(200) {
		t.Errorf("only %d models have an optimum", optima)
	}
}

func compare(t *testing.T, m *milp.Model, o solvers.Options, want *solvers.Result) {
	t.Helper()
	got := solvertest.Solve(t, New(), m, o)
	if got.Status != want.Status || want.Status == solvers.Optimal && math.Abs(got.Obj-want.Obj) > 1e-6 {
		t.Errorf("%s\nstart %v: %v %v %s (%s), enumeration: %v %v", m, o.Start, got.Status, got.Obj, got.Raw, got.Note, want.Status, want.Obj)
	}
}

// TestGuessedStep: from costs 4, 7 and 10 lp_solve guesses that objectives are 3
// apart, and takes 10 for optimal although there is 11.
func TestGuessedStep(t *testing.T) {
	m := milp.New("step")
	var value, weight milp.Expr
	for _, thing := range []struct{ value, weight float64 }{{4, 4}, {7, 7}, {10, 5}} {
		x := m.Var("x", milp.Binary, 0, 1)
		value.Add(thing.value, x)
		weight.Add(thing.weight, x)
	}
	weight.Terms[2].Coef = 11
	m.Group("weight", "").AtMost(&weight, 11)
	m.Maximize(&value)
	if r := solvertest.Solve(t, New(), m, solvers.Options{}); r.Status != solvers.Optimal || r.Obj != 11 {
		t.Errorf("%v %v", r.Status, r.Obj)
	}
}

// TestIncumbents: what lp_solve shows during the search are solutions, in terms
// of the model's columns, whatever bounds these have. (New would drop those that
// are none without a word.)
func TestIncumbents(t *testing.T) {
	models := rapid.Custom(solvertest.RandomModel)
	seen := 0
	for i := range 300 {
		m := models.Example(i)
		if answeredByNew(m) {
			continue
		}
		p := solvertest.Problem(m)
		p.OnProgress = func(progress solvers.Progress) {
			if progress.X == nil {
				return
			}
			seen++
			if bad := m.Violations(progress.X, 1e-6); len(bad) > 0 {
				t.Errorf("%s\nincumbent %v: %v", m, progress.X, bad[0])
			}
			if got := m.Objective(progress.X); math.Abs(got-progress.Objective) > 1e-6 {
				t.Errorf("objective %v, reported %v", got, progress.Objective)
			}
		}
		if _, err := (Engine{}).Run(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	if seen < 50 {
		t.Errorf("only %d incumbents", seen)
	}
}

// answeredByNew reports whether m has no columns, no rows or a row without
// entries: no engine sees such models.
func answeredByNew(m *milp.Model) bool {
	for r := range m.Rows() {
		if len(r.Col) == 0 {
			return true
		}
	}
	return m.NumCols() == 0 || m.NumRows() == 0
}

// TestRootBound: the bound of a search that is not over is the linear
// relaxation's, rounded up where objectives are integral.
func TestRootBound(t *testing.T) {
	m := solvertest.RandomKnapsack(100, 5, 1)
	relaxed := solvertest.Solve(t, New(), m, solvers.Options{Relax: true})
	r := solvertest.Solve(t, New(), m, solvers.Options{Nodes: solvers.Some(int64(100))})
	if relaxed.Status != solvers.Optimal || relaxed.BoundBy != "linear programming" {
		t.Fatalf("%v by %q", relaxed.Status, relaxed.BoundBy)
	}
	if r.Stop != solvers.Nodes || r.BoundBy != "LP relaxation" || r.Bound != math.Floor(relaxed.Obj) {
		t.Errorf("%v, %v, bound %v by %q, relaxation %v", r.Status, r.Stop, r.Bound, r.BoundBy, relaxed.Obj)
	}
}

// TestLonely: columns that appear in no row.
func TestLonely(t *testing.T) {
	for _, test := range []struct {
		cost, upper float64
		side        float64
		want        solvers.Status
	}{
		{1, math.Inf(1), 5, solvers.Unbounded},
		{-1, math.Inf(1), 5, solvers.Optimal},
		{1, 8, 5, solvers.Optimal},
		{1, math.Inf(1), -5, solvers.Infeasible},
	} {
		for _, kind := range []milp.Kind{milp.Continuous, milp.Integer} {
			m := milp.New("lonely")
			lonely, other := m.Var("lonely", kind, 0, test.upper), m.Var("other", milp.Integer, 0, 9)
			m.Group("row", "").AtMost(new(milp.Expr).Add(1, other), test.side)
			m.Maximize(new(milp.Expr).Add(test.cost, lonely).Add(1, other))
			r := solvertest.Solve(t, New(), m, solvers.Options{})
			if r.Status == solvers.InfeasibleOrUnbounded {
				r.Status = solvers.Unbounded // of the relaxation
			}
			if r.Status != test.want {
				t.Errorf("%+v, %v: %v (%s)", test, kind, r.Status, r.Note)
			}
		}
	}
}

func TestRoundUp(t *testing.T) {
	for _, test := range []struct{ b, g, want float64 }{
		{3.2, 0, 3.2}, {3.2, 1, 4}, {3, 1, 3}, {3.0000001, 1, 3.0000001}, {-3.2, 1, -3}, {3.2, 5, 5}, {-4.9, 5, 0}, {7.5e9 + 0.5, 1, 7.5e9 + 0.5},
	} {
		if got := roundUp(test.b, test.g); got != test.want {
			t.Errorf("%v in multiples of %v: %v, want %v", test.b, test.g, got, test.want)
		}
	}
	for _, test := range []struct {
		cost    []float64
		integer bool
		want    float64
	}{
		{[]float64{6, -4, 0}, true, 2},
		{[]float64{6, -4}, false, 0},
		{[]float64{6, 4.5}, true, 0},
		{[]float64{0}, false, 0},
		{[]float64{7}, true, 7},
		{[]float64{6, 10, 15}, true, 1},
	} {
		d := milp.Data{Cost: test.cost, Integer: make([]bool, len(test.cost))}
		for j := range d.Integer {
			d.Integer[j] = test.integer
		}
		if got := granularity(&d); got != test.want {
			t.Errorf("granularity of %v is %v, want %v", test.cost, got, test.want)
		}
	}
}

// TestTableau: substituted columns give the model back.
func TestTableau(t *testing.T) {
	inf := math.Inf(1)
	bounds := [][2]float64{{0, 5}, {2, inf}, {-3, 4}, {-3, inf}, {-inf, -1}, {-9, -2}, {-inf, inf}, {-inf, 7}, {-1e9, 1e9}, {-4, 0}}
	m := milp.New("")
	var cost, row milp.Expr
	for j, b := range bounds {
		x := m.Var(fmt.Sprint("x", j), milp.Integer, b[0], b[1])
		cost.Add(float64(j+1), x)
		row.Add(float64(2*j-7), x)
	}
	cost.Const = 50
	g := m.Group("row", "")
	g.Between(-10, &row, 20)
	g.Between(-inf, &row, inf) // left out
	g.AtLeast(&row, -5)
	m.Maximize(&cost)
	d := m.Data()
	tab := newTableau(&d)
	random := rand.New(rand.NewPCG(1, 1))
	y := make([]float64, len(tab.lower))
	for range 20 {
		z, activity := 0., make([]float64, len(tab.kind)+1)
		for j := range y {
			if tab.lower[j] < 0 {
				t.Fatalf("column %d is at least %v", j, tab.lower[j])
			}
			y[j] = math.Min(tab.lower[j]+float64(random.IntN(4)), tab.upper[j])
			for k := tab.start[j]; k < tab.start[j+1]; k++ {
				if k > tab.start[j] && tab.row[k] <= tab.row[k-1] {
					t.Fatalf("rows of column %d do not ascend", j)
				}
				activity[tab.row[k]] += tab.value[k] * y[j]
			}
		}
		z = activity[0]
		x := tab.restore(y)
		for j, b := range bounds {
			if x[j] < b[0] || x[j] > b[1] {
				t.Errorf("column %d is %v, outside %v", j, x[j], b)
			}
		}
		if got, want := tab.objective(z), m.Objective(x); got != want {
			t.Errorf("objective %v, want %v", got, want)
		}
		a := m.Activity(x)
		if d := activity[1] - tab.side[0]; d != a[0]-20 || tab.width[0] != 30 {
			t.Errorf("first row exceeds its side by %v, want %v", d, a[0]-20)
		}
		if d := activity[2] - tab.side[1]; d != a[2]+5 || tab.kind[1] != atLeast {
			t.Errorf("last row exceeds its side by %v, want %v", d, a[2]+5)
		}
	}
}

// TestStart: a start saves the search up to it, and counts even if nothing
// better is found.
func TestStart(t *testing.T) {
	testfile.Long(t)
	m := solvertest.RandomJobShop(5, 4, 1)
	cold := solvertest.Solve(t, New(), m, solvers.Options{})
	start := append([]float64(nil), cold.X...)
	for j, c := range m.Data().Integer {
		if !c {
			start[j] = math.NaN()
		}
	}
	warm := solvertest.Solve(t, New(), m, solvers.Options{Start: start})
	if warm.Status != solvers.Optimal || math.Abs(warm.Obj-cold.Obj) > 1e-6 || warm.Start != solvers.StartAccepted {
		t.Errorf("%v %v, %v; cold %v", warm.Status, warm.Obj, warm.Start, cold.Obj)
	}
	if warm.Nodes >= cold.Nodes {
		t.Errorf("%d nodes with a start, %d without", warm.Nodes, cold.Nodes)
	}
	none := solvertest.Solve(t, New(), solvertest.RandomKnapsack(60, 5, 1),
		solvers.Options{Start: make([]float64, 60), Nodes: solvers.Some(int64(0))})
	if _, ok := none.Solution(); !ok || none.Start != solvers.StartAccepted {
		t.Errorf("%v, %v", none.Status, none.Start)
	}
}

func TestGap(t *testing.T) {
	m := solvertest.RandomKnapsack(40, 5, 2)
	best := solvertest.Solve(t, New(), m, solvers.Options{})
	r := solvertest.Solve(t, New(), m, solvers.Options{RelGap: solvers.Some(0.05)})
	if r.Status != solvers.Optimal || r.Gap() > 0.05 || r.Bound < best.Obj || r.Obj > best.Obj || r.Nodes >= best.Nodes {
		t.Errorf("%v: objective %v, bound %v, %d nodes; optimum %v (%v), %d nodes", r.Status, r.Obj, r.Bound, r.Nodes, best.Obj, best.Status,
			best.Nodes)
	}
}

func TestLimits(t *testing.T) {
	m := solvertest.RandomJobShop(8, 8, 1)
	for _, limit := range []time.Duration{1, time.Millisecond, 100 * time.Millisecond} {
		r := solvertest.Solve(t, New(), m, solvers.Options{Time: limit})
		if r.Stop != solvers.Time || r.Status != solvers.Feasible && r.Status != solvers.NoSolution {
			t.Errorf("limit %v: %v, %v", limit, r.Status, r.Stop)
		}
		if strings.Contains(r.Note, "was abandoned") {
			t.Errorf("limit %v: %s", limit, r.Note)
		}
	}
}

// TestCancelRoot cancels within the linear program at the root.
func TestCancelRoot(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	time.AfterFunc(50*time.Millisecond, cancel)
	r, err := New().Solve(ctx, solvertest.RandomJobShop(20, 15, 1), solvers.Options{})
	if err != nil || r.Stop != solvers.Cancelled || r.Status != solvers.NoSolution || strings.Contains(r.Note, "was abandoned") {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestTurns: solves take turns; a waiting one can be cancelled.
func TestTurns(t *testing.T) {
	m := solvertest.RandomJobShop(4, 4, 4)
	solvertest.Concurrent(t, New(), m)

	turn <- struct{}{}
	r := solvertest.Solve(t, New(), m, solvers.Options{Time: 20 * time.Millisecond})
	<-turn
	if r.Status != solvers.NoSolution || r.Stop != solvers.Time {
		t.Errorf("waiting: %v, %v", r.Status, r.Stop)
	}
}

// TestSilence: nothing is written to the process's own streams, but all to the
// log.
func TestSilence(t *testing.T) {
	var log strings.Builder
	for _, fd := range []int{1, 2} {
		output := solvertest.Capture(t, fd, func() {
			m := solvertest.RandomJobShop(3, 3, 1)
			solvertest.Solve(t, New(), m, solvers.Options{})
			solvertest.Solve(t, New(), m, solvers.Options{Log: &log, Start: make([]float64, m.NumCols())})
			if _, err := Read("nowhere.mps", milp.FreeMPS); err == nil {
				t.Error("read a file that does not exist")
			}
		})
		if output != "" {
			t.Errorf("wrote %q to file %d", output, fd)
		}
	}
	if !strings.Contains(log.String(), "Optimal solution") {
		t.Errorf("log: %q", log.String())
	}
}

// TestCallbackPanics: a panic in Go reached from C comes back to Go.
func TestCallbackPanics(t *testing.T) {
	p := solvertest.Problem(solvertest.RandomKnapsack(50, 5, 1))
	p.OnProgress = func(solvers.Progress) { panic("boom") }
	defer func() {
		if v := recover(); v != "boom" {
			t.Errorf("%v", v)
		}
		solvertest.Solve(t, New(), solvertest.RandomKnapsack(4, 1, 1), solvers.Options{}) // the turn was given back
	}()
	_, _ = Engine{}.Run(t.Context(), p)
}

func TestCycles(t *testing.T) { solvertest.Cycles(t, New(), testfile.Cases(3000)) }

// TestRead writes a model, reads it with lp_solve and compares all there is.
func TestRead(t *testing.T) {
	m := milp.New("model")
	x, y := m.Var("x", milp.Integer, -3, 7), m.Var("y", milp.Continuous, math.Inf(-1), math.Inf(1))
	var e milp.Expr
	g := m.Group("row", "")
	g.Between(-2, e.Add(1, x).Add(2, y), 9)
	g.AtLeast(e.Reset().Add(3, x), -5)
	m.Maximize(e.Reset().Add(1, x).Add(-4, y))
	path := filepath.Join(t.TempDir(), "model.mps")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.WriteMPS(f, milp.FreeMPS); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := Read(path, milp.FreeMPS)
	if err != nil {
		t.Fatal(err)
	}
	text := func(m *milp.Model) string {
		d := m.Data()
		return fmt.Sprint(d.Sense, d.Offset, d.Cost, d.Lower, d.Upper, d.Integer, d.RowLower, d.RowUpper, d.Start, d.Col, d.Val, m.ColNames(),
			m.RowNames())
	}
	m.Minimize(e.Reset().Add(-1, x).Add(4, y)) // as it is written
	if got, want := text(again), text(m); got != want {
		t.Errorf("read\n%s\nwant\n%s", got, want)
	}
	for _, path := range []string{os.Args[0], "nowhere.mps"} {
		if _, err := Read(path, milp.FreeMPS); !errors.Is(err, solvers.ErrSolver) || !strings.Contains(err.Error(), path) {
			t.Errorf("read %s: %v", path, err)
		}
	}
}

func BenchmarkLatency(b *testing.B) {
	m := solvertest.RandomKnapsack(10, 1, 1)
	for b.Loop() {
		if _, err := New().Solve(b.Context(), m, solvers.Options{}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkLoad passes a model of 10⁶ entries.
func BenchmarkLoad(b *testing.B) {
	lib, err := load()
	if err != nil {
		b.Fatal(err)
	}
	d := solvertest.Sparse(1e6).Data()
	for b.Loop() {
		m, err := lib.newInstance(newTableau(&d), strategies[0])
		if err != nil {
			b.Fatal(err)
		}
		m.free()
	}
}
