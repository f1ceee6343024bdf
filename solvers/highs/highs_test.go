//go:build cgo && !nohighs

package highs

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"workbench/model/milp"
	"workbench/model/testfile"
	"workbench/solvers"
	"workbench/solvers/solvertest"
)

var _ solvers.Engine = Engine{}

var inf = math.Inf(1)

func TestVersion(t *testing.T) {
	if err := Available(); err != nil {
		t.Fatal(err)
	}
	v, text := libraryVersion()
	if want := fmt.Sprintf("%d.%d.%d", v.major, v.minor, v.patch); text != want || Version() != want {
		t.Errorf("version %q, numbers %q", text, want)
	}
	if (Engine{}).Name() != "highs "+text {
		t.Errorf("name %q", Engine{}.Name())
	}
}

// TestDuals checks the conditions of optimality that tie duals to the solution,
// for random linear programs of either sense with an optimum.
func TestDuals(t *testing.T) {
	testfile.Property(t, func(t *rapid.T) {
		small := rapid.IntRange(-5, 5)
		m := milp.New("lp")
		var objective, e milp.Expr
		n := rapid.IntRange(1, 5).Draw(t, "columns")
		x := make([]milp.Var, n)
		for j := range n {
			lo := float64(small.Draw(t, "lower"))
			x[j] = m.Var(fmt.Sprint("x", j), milp.Continuous, lo, lo+float64(rapid.IntRange(0, 9).Draw(t, "width")))
			objective.Add(float64(small.Draw(t, "cost")), x[j])
		}
		rows := m.Group("row", "")
		for range rapid.IntRange(1, 5).Draw(t, "rows") { // without rows HiGHS is not asked
			e.Reset()
			for j := range n {
				e.Add(float64(small.Draw(t, "entry")), x[j])
			}
			lo := float64(rapid.IntRange(-30, 0).Draw(t, "side"))
			up := rapid.SampledFrom([]float64{lo, lo + 10, inf}).Draw(t, "other side")
			rows.Between(lo, &e, up)
		}
		objective.Const = 3
		if rapid.Bool().Draw(t, "maximize") {
			m.Maximize(&objective)
		} else {
			m.Minimize(&objective)
		}
		r, err := New().Solve(context.Background(), m, solvers.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if r.Status == solvers.Infeasible {
			return
		}
		if r.Status != solvers.Optimal || r.Dual == nil {
			t.Fatalf("%v (%s), duals %v", r.Status, r.Note, r.Dual)
		}
		checkDuals(t, m.Data(), r)
	})
}

// checkDuals checks that reduced costs are c − Aᵀy, that duals are nonzero only
// at an active side and point the right way, and that the dual objective is the
// primal one.
func checkDuals(t *rapid.T, d milp.Data, r *solvers.Result) {
	const tolerance = 1e-6
	sense := float64(d.Sense)
	dual := d.Offset
	// price adds a dual value's share. At a lower side, tightening worsens the
	// objective: it grows when minimising.
	price := func(what string, y, lo, value, up float64) {
		switch {
		case math.Abs(y) < tolerance:
		case sense*y > 0 && math.Abs(value-lo) < tolerance:
			dual += y * lo
		case sense*y < 0 && math.Abs(value-up) < tolerance:
			dual += y * up
		default:
			t.Errorf("%s has dual %v at %v in [%v, %v]", what, y, value, lo, up)
		}
	}
	reduced := append([]float64(nil), d.Cost...)
	for i, y := range r.Dual.Row {
		activity := 0.
		for k := d.Start[i]; k < d.Start[i+1]; k++ {
			activity += d.Val[k] * r.X[d.Col[k]]
			reduced[d.Col[k]] -= y * d.Val[k]
		}
		price(fmt.Sprint("row ", i), y, d.RowLower[i], activity, d.RowUpper[i])
	}
	for j, z := range r.Dual.Reduced {
		if math.Abs(z-reduced[j]) > tolerance {
			t.Errorf("reduced cost of column %d is %v, want %v", j, z, reduced[j])
		}
		price(fmt.Sprint("column ", j), z, d.Lower[j], r.X[j], d.Upper[j])
	}
	if math.Abs(dual-r.Obj) > 1e-5 {
		t.Errorf("dual objective %v, primal %v", dual, r.Obj)
	}
}

// TestDualSign: one more unit of a resource that is sold for 3 is worth 3.
func TestDualSign(t *testing.T) {
	for _, sense := range []milp.Sense{milp.Maximize, milp.Minimize} {
		m := milp.New("sale")
		sold := m.Var("sold", milp.Continuous, 0, inf)
		e := new(milp.Expr).Add(1, sold)
		stock := m.Group("stock", "").AtMost(e, 10)
		price := new(milp.Expr).Add(3*-float64(sense), sold)
		if sense == milp.Maximize {
			m.Maximize(price)
		} else {
			m.Minimize(price)
		}
		r := solvertest.Solve(t, New(), m, solvers.Options{})
		if r.Dual == nil || r.Dual.Row[stock.Index()] != 3*-float64(sense) || r.Dual.Reduced[0] != 0 {
			t.Errorf("sense %v: duals %+v", sense, r.Dual)
		}
	}
}

// TestDoubtful: models of which HiGHS 1.10 says what is not so.
func TestDoubtful(t *testing.T) {
	for _, test := range []struct {
		name string
		make func(x, y, z milp.Var, rows milp.Group) *milp.Expr // the objective, to be maximised
		want solvers.Status
	}{
		// Presolve says infeasible or unbounded.
		{"optimum", func(x, y, _ milp.Var, rows milp.Group) *milp.Expr {
			e := new(milp.Expr).Add(-5, x).Add(3, y)
			rows.AtMost(e, 0)
			return e
		}, solvers.Optimal},
		// The search says infeasible.
		{"unbounded", func(x, y, z milp.Var, rows milp.Group) *milp.Expr {
			rows.AtMost(new(milp.Expr).Add(-5, z).Add(-5, x).Add(5, y), 0)
			rows.AtLeast(new(milp.Expr).Add(-5, x).Add(5, y), -1)
			return new(milp.Expr).Add(-5, z).Add(-4, x)
		}, solvers.Unbounded},
		{"infeasible", func(x, y, z milp.Var, rows milp.Group) *milp.Expr {
			rows.Equal(new(milp.Expr).Add(2, z), 1)
			return new(milp.Expr).Add(-1, x).Add(-1, y)
		}, solvers.Infeasible},
	} {
		m := milp.New(test.name)
		x, y := m.Var("x", milp.Continuous, -inf, 0), m.Var("y", milp.Continuous, -inf, 0)
		z := m.Var("z", milp.Integer, 0, 1)
		m.Maximize(test.make(x, y, z, m.Group("row", "")))
		if r := solvertest.Solve(t, New(), m, solvers.Options{}); r.Status != test.want {
			t.Errorf("%s: %v (%s)", m.Name(), r.Status, r.Note)
		}
	}
}

// TestNoDuals: the duals of the last node of a search mean nothing.
func TestNoDuals(t *testing.T) {
	if r := solvertest.Solve(t, New(), solvertest.RandomJobShop(3, 2, 1), solvers.Options{}); r.Status != solvers.Optimal || r.Dual != nil {
		t.Errorf("%v, duals %v", r.Status, r.Dual)
	}
	if r := solvertest.Solve(t, New(), solvertest.RandomJobShop(3, 2, 1), solvers.Options{Relax: true}); r.Status != solvers.Optimal ||
		r.Dual == nil {
		t.Errorf("relaxed: %v, duals %v", r.Status, r.Dual)
	}
}

func TestStart(t *testing.T) {
	testfile.Long(t)
	m := solvertest.RandomJobShop(6, 6, 3)
	best := solvertest.Solve(t, New(), m, solvers.Options{})
	d := m.Data()
	integersOnly, one, none := append([]float64(nil), best.X...), nans(len(d.Cost)), nans(len(d.Cost))
	wrong := append([]float64(nil), best.X...)
	for j, integer := range d.Integer {
		if !integer {
			integersOnly[j], wrong[j] = math.NaN(), math.NaN()
			continue
		}
		wrong[j] = 0 // with all ties broken one way, the first job is last everywhere: too late
		one[j] = best.X[j]
	}
	for j, integer := range d.Integer {
		if integer {
			one[j] = math.NaN()
			break
		}
	}
	for _, test := range []struct {
		name  string
		start []float64
		want  solvers.StartUse
	}{
		{"complete", best.X, solvers.StartAccepted},
		{"integers only", integersOnly, solvers.StartAccepted},
		{"one integer short", one, solvers.StartAccepted},
		{"nothing", none, solvers.StartRejected},
	} {
		t.Run(test.name, func(t *testing.T) {
			first := math.NaN()
			r := solvertest.Solve(t, New(), m, solvers.Options{Start: test.start, OnProgress: func(p solvers.Progress) {
				if p.X != nil && math.IsNaN(first) {
					first = p.Objective
				}
			}})
			if r.Status != solvers.Optimal || math.Abs(r.Obj-best.Obj) > 1e-4 || r.Start != test.want {
				t.Errorf("%v, %v, objective %v, want %v", r.Status, r.Start, r.Obj, best.Obj)
			}
			// A complete start is the incumbent before the search: no progress.
			if begun := test.name == "complete" || math.Abs(first-best.Obj) < 1e-4; begun != (test.want == solvers.StartAccepted) {
				t.Errorf("first incumbent %v of optimum %v", first, best.Obj)
			}
		})
	}
}

// TestStartInfeasible: integers that no continuous values fit to.
func TestStartInfeasible(t *testing.T) {
	m := milp.New("")
	x, y := m.Var("x", milp.Integer, 0, 5), m.Var("y", milp.Continuous, 0, 1)
	m.Group("row", "").AtLeast(new(milp.Expr).Add(1, x).Add(1, y), 3)
	m.Minimize(new(milp.Expr).Add(1, x).Add(5, y))
	r := solvertest.Solve(t, New(), m, solvers.Options{Start: []float64{1, math.NaN()}})
	if r.Status != solvers.Optimal || r.Obj != 3 || r.Start != solvers.StartRejected {
		t.Errorf("%v, objective %v, %v", r.Status, r.Obj, r.Start)
	}
}

func nans(n int) []float64 {
	x := make([]float64, n)
	for j := range x {
		x[j] = math.NaN()
	}
	return x
}

func TestRaw(t *testing.T) {
	m := solvertest.RandomJobShop(3, 3, 1)
	good := map[string]string{
		"presolve": "off", "mip_heuristic_effort": "0.1", "mip_pool_age_limit": "5", "mip_allow_restart": "false",
	}
	if r := solvertest.Solve(t, New(), m, solvers.Options{Raw: good}); r.Status != solvers.Optimal {
		t.Errorf("%v", r.Status)
	}
	for _, test := range []struct{ name, value, want string }{
		{"mip_heuristic_efort", "0.1", "mip_heuristic_effort"}, // the nearest
		{"mip_heuristic_effort", "much", `"much" is not a number`},
		{"mip_heuristic_effort", "NaN", `"NaN" is not a number`},
		{"mip_heuristic_effort", "2", "rejects"},
		{"mip_pool_age_limit", "1.5", "not an integer"},
		{"mip_pool_age_limit", "9999999999", "not an integer"},
		{"mip_allow_restart", "maybe", "not true or false"},
		{"time_limit", "5", "use Time"},
	} {
		_, err := New().Solve(t.Context(), m, solvers.Options{Raw: map[string]string{test.name: test.value}})
		if !errors.Is(err, solvers.ErrOption) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s = %s: %v", test.name, test.value, err)
		}
	}
}

func TestTaken(t *testing.T) {
	h, err := newInstance(0)
	if err != nil {
		t.Fatal(err)
	}
	defer h.free()
	for name := range taken {
		if _, ok := h.optionType(name); !ok {
			t.Errorf("HiGHS has no option %s", name)
		}
	}
	if _, err := New().Solve(t.Context(), solvertest.RandomJobShop(2, 2, 1),
		solvers.Options{Seed: solvers.Some(math.MaxInt32 + 1)}); !errors.Is(err, solvers.ErrOption) {
		t.Errorf("seed of 32 bits: %v", err)
	}
}

// TestLimits: node and solution limits share one model status.
func TestLimits(t *testing.T) {
	m := solvertest.RandomKnapsack(100, 5, 1)
	if r := solvertest.Solve(t, New(), m, solvers.Options{Nodes: solvers.Some(int64(20))}); r.Status != solvers.Feasible ||
		r.Stop != solvers.Nodes {
		t.Errorf("nodes: %v, %v", r.Status, r.Stop)
	}
	one := map[string]string{"mip_max_improving_sols": "1"}
	if r := solvertest.Solve(t, New(), m, solvers.Options{Raw: one, Nodes: solvers.Some(int64(1e6))}); r.Status != solvers.Feasible ||
		r.Stop != solvers.Solutions {
		t.Errorf("solutions: %v, %v", r.Status, r.Stop)
	}
	for _, limit := range []time.Duration{1, time.Millisecond, 100 * time.Millisecond} {
		r := solvertest.Solve(t, New(), m, solvers.Options{Time: limit})
		if r.Stop != solvers.Time || r.Status != solvers.Feasible && r.Status != solvers.NoSolution {
			t.Errorf("limit %v: %v, %v", limit, r.Status, r.Stop)
		}
	}
	if got := timeLimit(time.Second, 200*time.Millisecond); got != 0.75 {
		t.Errorf("HiGHS gets %v s", got)
	}
	if got := timeLimit(time.Second, 2*time.Second); got != 0 {
		t.Errorf("HiGHS gets %v s", got)
	}
}

// TestGap: with a gap asked for, the bound tells the truth.
func TestGap(t *testing.T) {
	m := solvertest.RandomKnapsack(40, 5, 2)
	best := solvertest.Solve(t, New(), m, solvers.Options{})
	r := solvertest.Solve(t, New(), m, solvers.Options{RelGap: solvers.Some(0.05)})
	if r.Status != solvers.Optimal || r.Gap() > 0.05 || r.Bound < best.Obj || r.Obj > best.Obj {
		t.Errorf("%v: objective %v, bound %v; optimum %v (%v)", r.Status, r.Obj, r.Bound, best.Obj, best.Status)
	}
}

// TestCancel cancels a search at its first progress.
func TestCancel(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, err := New().Solve(ctx, solvertest.RandomKnapsack(100, 5, 1), solvers.Options{OnProgress: func(p solvers.Progress) { cancel() }})
	if err != nil || r.Stop != solvers.Cancelled || r.Status != solvers.Feasible && r.Status != solvers.NoSolution {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestLate: while HiGHS solves the linear program at the root of a large model
// it does not look at the cancel flag for seconds. Solve returns anyway.
func TestLate(t *testing.T) {
	testfile.Long(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	// HiGHS does look at its own clock there: it ends soon after the test.
	time.AfterFunc(200*time.Millisecond, cancel)
	const clock = 3 * time.Second
	r, err := New().Solve(ctx, solvertest.RandomJobShop(60, 20, 1), solvers.Options{Time: clock})
	if err != nil || r.Stop != solvers.Cancelled || r.Status != solvers.NoSolution {
		t.Fatalf("%+v, %v", r, err)
	}
	if !strings.Contains(r.Note, "was abandoned") && r.Wall > clock/2 {
		t.Errorf("waited for HiGHS: took %v", r.Wall)
	}
}

// TestThreads: one OS thread of HiGHS takes one number of threads only.
func TestThreads(t *testing.T) {
	m := solvertest.RandomJobShop(4, 4, 2)
	want := solvertest.Solve(t, New(), m, solvers.Options{})
	for _, threads := range []int{2, 1, 2, 3, 1} {
		r := solvertest.Solve(t, New(), m, solvers.Options{Threads: solvers.Some(threads)})
		if r.Status != solvers.Optimal || math.Abs(r.Obj-want.Obj) > 1e-4 {
			t.Errorf("%d threads: %v, objective %v, want %v", threads, r.Status, r.Obj, want.Obj)
		}
	}
}

// TestConcurrent: solves at the same time do not influence each other.
func TestConcurrent(t *testing.T) {
	testfile.Long(t)
	solvertest.Concurrent(t, New(), solvertest.RandomJobShop(5, 4, 4))
}

func TestLifetimes(t *testing.T) {
	var l lifetimes
	destroyed := ""
	destroy := func(name string) func() { return func() { destroyed += name } }
	l.begin()
	l.begin()
	l.end(destroy("a"))
	l.begin()
	l.end(destroy("b"))
	if destroyed != "" {
		t.Errorf("destroyed %q while one runs", destroyed)
	}
	l.end(destroy("c"))
	if destroyed != "abc" {
		t.Errorf("destroyed %q of abc", destroyed)
	}
}

func TestSeed(t *testing.T) {
	m := solvertest.RandomJobShop(5, 5, 5)
	a, b := solvertest.Solve(t, New(), m, solvers.Options{Seed: solvers.Some(7)}),
		solvertest.Solve(t, New(), m, solvers.Options{Seed: solvers.Some(7)})
	if a.Obj != b.Obj || a.Nodes != b.Nodes || a.Iterations != b.Iterations {
		t.Errorf("same seed: %+v and %+v", a, b)
	}
	for seed := range 8 {
		if r := solvertest.Solve(t, New(), m, solvers.Options{Seed: solvers.Some(seed)}); r.Iterations != a.Iterations {
			return
		}
	}
	t.Error("seeds make no difference")
}

func TestLog(t *testing.T) {
	var log strings.Builder
	solvertest.Solve(t, New(), solvertest.RandomJobShop(3, 3, 1), solvers.Options{Log: &log})
	for _, want := range []string{"HiGHS " + Version(), "Solving report", "\n"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("log lacks %q: %q", want, log.String())
		}
	}
}

// TestSilence: nothing is written to the process's own streams, whatever
// happens.
func TestSilence(t *testing.T) {
	output := solvertest.Capture(t, 1, func() {
		m := solvertest.RandomJobShop(3, 3, 1)
		solvertest.Solve(t, New(), m, solvers.Options{})
		solvertest.Solve(t, New(), m, solvers.Options{Log: new(strings.Builder), Start: make([]float64, m.NumCols())})
		for _, raw := range []string{"nonsense", "presolve"} {
			if _, err := New().Solve(t.Context(), m, solvers.Options{Log: new(strings.Builder), Raw: map[string]string{raw: "x"}}); err == nil {
				t.Errorf("raw option %s accepted", raw)
			}
		}
		if _, err := Read("nowhere.mps"); err == nil {
			t.Error("read a file that does not exist")
		}
	})
	if output != "" {
		t.Errorf("wrote %q", output)
	}
}

// TestCallbackPanics: a panic in Go reached from C++ comes back to Go.
func TestCallbackPanics(t *testing.T) {
	for name, panics := range map[string]func(){
		"behind New": func() {
			_, _ = New().Solve(t.Context(), solvertest.RandomKnapsack(50, 5, 1),
				solvers.Options{OnProgress: func(solvers.Progress) { panic("boom") }})
		},
		"bare engine": func() {
			p := solvertest.Problem(solvertest.RandomKnapsack(50, 5, 1))
			p.OnProgress = func(solvers.Progress) { panic("boom") }
			_, _ = Engine{}.Run(t.Context(), p)
		},
	} {
		// The bare engine locks its OS thread: not the test's.
		value := make(chan any)
		go func() {
			defer func() { value <- recover() }()
			panics()
		}()
		if v := <-value; v != "boom" {
			t.Errorf("%s: %v", name, v)
		}
	}
}

func TestRead(t *testing.T) {
	write := func(name, text string) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		return path
	}
	long := strings.Repeat("long", 50)
	m, err := Read(write("model.lp", "max\n obj: 2 x + 3 "+long+"\nst\n first: x + 2 "+long+" <= 7\nbounds\n x <= 3\n "+long+
		" <= 9\ngeneral\n x\nend\n"))
	if err != nil {
		t.Fatal(err)
	}
	if names := m.ColNames(); len(names) != 2 || names[0] != "x" || names[1] != long || m.RowNames()[0] != "first" || m.NumIntegers() != 1 {
		t.Errorf("columns %v, rows %v, %d integers", names, m.RowNames(), m.NumIntegers())
	}
	if r := solvertest.Solve(t, New(), m, solvers.Options{}); r.Status != solvers.Optimal || math.Abs(r.Obj-12) > 1e-6 {
		t.Errorf("%v %v, want 12", r.Status, r.Obj)
	}
	for name, text := range map[string]string{
		"nothing.mps": "", "nonsense.mps": "ROWS\n X y\n", "model.txt": "max\nend\n",
		"semi.lp": "min\n obj: x\nst\n r: x >= 1\nbounds\n x <= 5\nsemi\n x\nend\n",
	} {
		if m, err := Read(write(name, text)); err == nil {
			t.Errorf("%s: read %v", name, m)
		}
	}
	if _, err := Read("nowhere.mps"); !errors.Is(err, solvers.ErrSolver) || !strings.Contains(err.Error(), "nowhere.mps") {
		t.Errorf("no file: %v", err)
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
	p := solvertest.Problem(solvertest.Sparse(1e6))
	for b.Loop() {
		h, err := newInstance(0)
		if err != nil {
			b.Fatal(err)
		}
		if err := h.load(p); err != nil {
			b.Fatal(err)
		}
		h.free()
	}
}

// TestRestart: HiGHS 1.10.0 calls 9.999999 optimal after a restart on this model of pipelines with 11 columns.
func TestRestart(t *testing.T) {
	m, err := Read(filepath.Join("testdata", "restart.mps"))
	if err != nil {
		t.Fatal(err)
	}
	r := solvertest.Solve(t, New(), m, solvers.Options{})
	if x, ok := r.Objective(); !ok || r.Status != solvers.Optimal || math.Abs(x-8) > 1e-6 {
		t.Errorf("%v with %g, 8 is the optimum", r.Status, x)
	}
}

// TestRefused: what HiGHS would drop in silence is refused by name.
func TestRefused(t *testing.T) {
	for name, text := range map[string]string{
		"quadratic.lp":   "min\n obj: - 2 x + [ 2 x^2 ] / 2\nst\n c: x <= 10\nend\n",
		"sos.lp":         "min\n obj: x + y\nst\n c: x + y <= 10\nsos\n s: S1:: x:1 y:2\nend\n",
		"semi.lp":        "min\n obj: x\nst\n r: x >= 1\nbounds\n x <= 5\nsemi\n x\nend\n",
		"quadratic.mps":  "NAME\nROWS\n N o\n L c\nCOLUMNS\n x o 1 c 1\nRHS\n r c 4\nQUADOBJ\n x x 2\nENDATA\n",
		"sos.mps":        "NAME\nROWS\n N o\n L c\nCOLUMNS\n x o 1 c 1\n y o 1 c 1\nRHS\n r c 4\nSOS\n S1 s\n x 1\n y 2\nENDATA\n",
		"semi.mps":       "NAME\nROWS\n N o\n L c\nCOLUMNS\n x o 1 c 1\nRHS\n r c 4\nBOUNDS\n SC b x 3\nENDATA\n",
		"indicators.mps": "NAME\nROWS\n N o\n L c\nCOLUMNS\n x o 1 c 1\n y o 1\nRHS\n r c 4\nINDICATORS\n IF c y 1\nENDATA\n",
	} {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		if _, err := milp.OpenFile(path); !errors.Is(err, milp.ErrNotRepresented) || !strings.Contains(err.Error(), "line ") {
			t.Errorf("%s: %v", name, err)
		}
		if m, err := Read(path); err == nil {
			t.Errorf("%s: HiGHS reads %v", name, m.Stats())
		}
	}
}

// TestFalseVerdicts: models on which HiGHS 1.10.0 gave false verdicts.
func TestFalseVerdicts(t *testing.T) {
	for name, want := range map[string]float64{"one-point.lp": -175.91, "highs-2204.mps": 6, "highs-2446.mps.gz": 785.355236} {
		m, err := milp.OpenFile(testfile.Shared(t, "reports/milp/"+name))
		if err != nil {
			t.Fatal(err)
		}
		r := solvertest.Solve(t, New(), m, solvers.Options{Time: 3 * time.Second})
		if r.Proof != "" || r.Status != solvers.Optimal && r.Status != solvers.Feasible && r.Status != solvers.NoSolution {
			t.Errorf("%s: %v, proof %q", name, r.Status, r.Proof)
		}
		if obj, ok := r.Objective(); r.Status == solvers.Optimal && (!ok || math.Abs(math.Abs(obj)-math.Abs(want)) > 1e-6*math.Abs(want)) {
			t.Errorf("%s: %v optimal, want %v", name, obj, want)
		}
	}
}
