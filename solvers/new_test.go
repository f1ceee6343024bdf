package solvers

import (
	"bytes"
	"context"
	"errors"
	"math"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"workbench/model/milp"
)

var inf = math.Inf(1)

// fakeEngine answers what a test tells it, and counts.
type fakeEngine struct {
	can  Features
	runs int
	run  func(ctx context.Context, p *Problem) (*Answer, error)
}

func (f *fakeEngine) Name() string  { return "fake 1" }
func (f *fakeEngine) Can() Features { return f.can }
func (f *fakeEngine) Run(ctx context.Context, p *Problem) (*Answer, error) {
	f.runs++
	return f.run(ctx, p)
}

const all = ^Features(0)

// saying answers the same always.
func saying(a Answer) *fakeEngine {
	return &fakeEngine{can: all &^ CanRetry, run: func(context.Context, *Problem) (*Answer, error) { return &a, nil }}
}

// pick is max 3x + 2y, x + y ≤ 4, x ≤ 3, integers: 11 at (3, 1); the box gives
// the bound 17.
func pick() *milp.Model {
	m := milp.New("pick")
	x, y := m.Var("x", milp.Integer, 0, 3), m.Var("y", milp.Integer, 0, 4)
	var e milp.Expr
	m.Group("sum", "").AtMost(e.Add(1, x).Add(1, y), 4)
	m.Maximize(e.Reset().Add(3, x).Add(2, y))
	return m
}

// ray is max x, x ≥ 1 as a row, without a bound.
func ray() *milp.Model {
	m := milp.New("ray")
	x := m.Var("x", milp.Continuous, 0, inf)
	var e milp.Expr
	m.Group("row", "").AtLeast(e.Add(1, x), 1)
	m.Maximize(&e)
	return m
}

// TestJudge is the table of what becomes of what a library says of pick.
func TestJudge(t *testing.T) {
	x, y := []float64{3, 1}, []float64{2, 2} // 11 and 10
	for _, c := range []struct {
		name   string
		says   Answer
		status Status
		stop   Stop
		x      []float64
		bound  float64
		note   string
	}{
		{"sound", Answer{Status: Optimal, X: x, Bound: 11}, Optimal, NotStopped, x, 11, ""},
		{"integers off by 1e-7", Answer{Status: Optimal, X: []float64{2.9999999, 1.0000001}, Bound: 11}, Optimal, NotStopped, x, 11, ""},
		{"bound off by 1e-6", Answer{Status: Optimal, X: x, Bound: 10.999999}, Optimal, NotStopped, x, 10.999999, ""},
		{"optimal with a gap", Answer{Status: Optimal, X: x, Bound: 12}, Feasible, Unknown, x, 12, "leave a gap"},
		{"optimal without a bound", Answer{Status: Optimal, X: x, Bound: math.NaN()}, Feasible, Unknown, x, 17, "leave a gap"},
		{"bound on the wrong side", Answer{Status: Optimal, X: x, Bound: 9}, Feasible, Unknown, x, 17, "beyond objective"},
		{"optimal without a point", Answer{Status: Optimal, Bound: 11}, Numerical, Unknown, nil, -inf, "no point"},
		{"fractional", Answer{Status: Optimal, X: []float64{2.5, 1.5}, Bound: 10.5}, Imprecise, Unknown, nil, -inf, "integer x is 2.5"},
		{"outside its bounds", Answer{Status: Optimal, X: []float64{4, 0}, Bound: 12}, Imprecise, Unknown, nil, -inf, "x is 4, outside [0, 3]"},
		{"row violated", Answer{Status: Optimal, X: []float64{3, 2}, Bound: 13}, Imprecise, Unknown, nil, -inf, "sum[0] is 5"},
		{"NaN", Answer{Status: Optimal, X: []float64{math.NaN(), 1}, Bound: 11}, Numerical, Unknown, nil, -inf, "not all finite"},
		{"infinite for lp_solve", Answer{Status: Optimal, X: []float64{3, 1e30}, Bound: 11}, Numerical, Unknown, nil, -inf, "not all finite"},
		{"too short", Answer{Status: Optimal, X: []float64{3}, Bound: 11}, Numerical, Unknown, nil, -inf, "1 value for 2"},
		{"stopped", Answer{Status: Feasible, Stop: Nodes, X: y, Bound: 11.5}, Feasible, Nodes, y, 11.5, ""},
		{"stopped for no reason", Answer{Status: Feasible, X: y, Bound: 11.5}, Feasible, Unknown, y, 11.5, ""},
		{"stopped by a clock nobody set", Answer{Status: Feasible, Stop: Time, X: y, Bound: 11.5}, Feasible, Unknown, y, 11.5, ""},
		{"stopped with the gap closed", Answer{Status: Feasible, Stop: Nodes, X: x, Bound: 11}, Optimal, NotStopped, x, 11, ""},
		{
			"stopped with a wrong point",
			Answer{Status: Feasible, Stop: Nodes, X: []float64{3, 2}, Bound: 14},
			Imprecise, Nodes, nil, -inf,
			"sum[0]",
		},
		{"nothing found", Answer{Status: NoSolution, Stop: Iterations, Bound: 12}, NoSolution, Iterations, nil, 12, ""},
		{"nothing found, no bound", Answer{Status: NoSolution, Stop: Memory, Bound: inf}, NoSolution, Memory, nil, 17, ""},
		{"a point after all", Answer{Status: NoSolution, Stop: Nodes, X: y, Bound: 12}, Feasible, Nodes, y, 12, ""},
		{"trouble", Answer{Status: Numerical}, Numerical, Unknown, nil, -inf, "trouble"},
		{"trouble, but a good point", Answer{Status: Numerical, X: y, Bound: 10}, Feasible, Unknown, y, 17, "trouble"},
		{"trouble, but the optimum", Answer{Status: Imprecise, X: x, Bound: 11}, Optimal, NotStopped, x, 11, "trouble"},
		{"infeasible", Answer{Status: Infeasible, Bound: -inf}, Infeasible, NotStopped, nil, -inf, ""},
		{"unbounded in a box", Answer{Status: Unbounded}, Numerical, Unknown, nil, -inf, "column bounds"},
		{"either, in a box", Answer{Status: InfeasibleOrUnbounded}, Infeasible, NotStopped, nil, -inf, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := New(saying(c.says)).Solve(t.Context(), pick(), Options{})
			if err != nil {
				t.Fatal(err)
			}
			got, _ := r.Solution()
			// For max, no bound is +Inf: the table says −Inf for brevity.
			bound := c.bound
			if bound == -inf {
				bound = inf
			}
			if r.Status != c.status || r.Stop != c.stop || !slices.Equal(got, c.x) || r.Bound != bound || !strings.Contains(r.Note, c.note) ||
				(c.note == "") != (r.Note == "") {
				t.Errorf("%v, %v, %v, bound %v, %q\nwant %v, %v, %v, bound %v, %q", r.Status, r.Stop, got, r.Bound, r.Note, c.status, c.stop, c.x,
					bound, c.note)
			}
			if kept := r.X != nil; kept != (c.x != nil || c.status == Imprecise) {
				t.Errorf("values %v", r.X)
			}
		})
	}
}

// TestJudgeUnbounded is about models that have a ray.
func TestJudgeUnbounded(t *testing.T) {
	for _, c := range []struct {
		says Answer
		want Status
	}{
		{Answer{Status: Unbounded}, Unbounded},
		{Answer{Status: Unbounded, X: []float64{5}}, Unbounded},
		{Answer{Status: InfeasibleOrUnbounded}, InfeasibleOrUnbounded},
		{Answer{Status: InfeasibleOrUnbounded, X: []float64{5}}, Unbounded},
		{Answer{Status: Infeasible}, Infeasible},
		{Answer{Status: Infeasible, X: []float64{5}}, Feasible},
	} {
		r, err := New(saying(c.says)).Solve(t.Context(), ray(), Options{})
		if err != nil || r.Status != c.want {
			t.Errorf("%v with %v: %v, %v", c.says.Status, c.says.X, r, err)
		}
	}
}

func TestRetry(t *testing.T) {
	bad, good := &Answer{Status: Optimal, X: []float64{3, 2}, Bound: 13}, &Answer{Status: Optimal, X: []float64{3, 1}, Bound: 11}
	failed := errors.New("library call returned -1")
	for _, c := range []struct {
		name   string
		can    Features
		first  *Answer
		second *Answer // nil: fails
		runs   int
		want   Status // NoSolution: an error
	}{
		{"good at once", all, good, bad, 1, Optimal},
		{"good at second", all, bad, good, 2, Optimal},
		{"bad twice", all, bad, bad, 2, Imprecise},
		{"bad, then fails", all, bad, nil, 2, Imprecise},
		{"fails, then good", all, nil, good, 2, Optimal},
		{"fails twice", all, nil, nil, 2, NoSolution},
		{"cannot retry", all &^ CanRetry, bad, good, 1, Imprecise},
		{"fails, cannot retry", all &^ CanRetry, nil, good, 1, NoSolution},
	} {
		e := &fakeEngine{can: c.can}
		e.run = func(_ context.Context, p *Problem) (*Answer, error) {
			a := c.first
			if p.Attempt == 1 {
				a = c.second
			}
			if a == nil {
				return nil, failed
			}
			return a, nil
		}
		r, err := New(e).Solve(t.Context(), pick(), Options{})
		if e.runs != c.runs {
			t.Errorf("%s: %d runs", c.name, e.runs)
		}
		if c.want == NoSolution {
			if !errors.Is(err, ErrSolver) || !errors.Is(err, failed) {
				t.Errorf("%s: error %v", c.name, err)
			}
			continue
		}
		if err != nil || r.Status != c.want || strings.Contains(r.Note, "second time") != (c.runs == 2) {
			t.Errorf("%s: %v, %v", c.name, r, err)
		}
	}
}

// TestRepair has a switch that the library leaves on by a millionth: y ≤ 1e6·on,
// max y − 3·on.
func TestRepair(t *testing.T) {
	m := milp.New("switch")
	y, on := m.Var("y", milp.Continuous, 0, 1e6), m.Var("on", milp.Binary, 0, 1)
	var e milp.Expr
	m.Group("switch", "").AtMost(e.Add(1, y).Add(-1e6, on), 0)
	m.Maximize(e.Reset().Add(1, y).Add(-3, on))
	engine := &fakeEngine{can: all &^ CanRetry}
	engine.run = func(_ context.Context, p *Problem) (*Answer, error) {
		if p.Model.Integer[1] {
			return &Answer{Status: Optimal, X: []float64{1, 1e-6}, Bound: 1}, nil
		}
		if p.Model.Lower[1] != 0 || p.Model.Upper[1] != 0 || p.Start != nil || p.Nodes >= 0 {
			t.Errorf("repair asks for %+v", p)
		}
		return &Answer{Status: Optimal, X: []float64{0, 0}, Bound: 0}, nil
	}
	r, err := New(engine).Solve(t.Context(), m, Options{Nodes: Some(int64(9))})
	if err != nil {
		t.Fatal(err)
	}
	if r.Status != Feasible || r.X[0] != 0 || r.Bound != 1 || !strings.Contains(r.Note, "repaired") {
		t.Errorf("%+v", r)
	}
}

// TestKnownSolution is about claims that a known solution contradicts.
func TestKnownSolution(t *testing.T) {
	stream := func(p *Problem) { p.OnProgress(Progress{X: []float64{2, 2}, Bound: 12}) }
	for name, run := range map[string]func(p *Problem) (*Answer, error){
		"infeasible":  func(*Problem) (*Answer, error) { return &Answer{Status: Infeasible}, nil },
		"no solution": func(*Problem) (*Answer, error) { return &Answer{Status: NoSolution}, nil },
		"unbounded":   func(*Problem) (*Answer, error) { return &Answer{Status: Unbounded}, nil },
		"wrong point": func(*Problem) (*Answer, error) { return &Answer{Status: Optimal, X: []float64{3, 3}, Bound: 15}, nil },
		"error":       func(*Problem) (*Answer, error) { return nil, errors.New("crash") },
		"panic":       func(*Problem) (*Answer, error) { panic("crash") },
		"vanishing":   func(*Problem) (*Answer, error) { runtime.Goexit(); return nil, nil },
		"nothing":     func(*Problem) (*Answer, error) { return nil, nil },
	} {
		streamed := New(&fakeEngine{can: all, run: func(_ context.Context, p *Problem) (*Answer, error) {
			stream(p)
			return run(p)
		}})
		r, err := streamed.Solve(t.Context(), pick(), Options{})
		if err != nil || r.Status != Feasible || r.Stop != Unknown || r.Obj != 10 {
			t.Errorf("%s after streaming: %+v, %v", name, r, err)
		}
		started := New(&fakeEngine{can: all, run: func(_ context.Context, p *Problem) (*Answer, error) { return run(p) }})
		r, err = started.Solve(t.Context(), pick(), Options{Start: []float64{2, 2}})
		if err != nil || r.Status != Feasible || r.Stop != Unknown || r.Obj != 10 || r.Start != StartAccepted {
			t.Errorf("%s after a start: %+v, %v", name, r, err)
		}
	}
}

func TestErrors(t *testing.T) {
	for _, want := range []error{ErrMissing, ErrUnsupported, ErrOption, ErrSolver} {
		e := &fakeEngine{can: all, run: func(context.Context, *Problem) (*Answer, error) { return nil, want }}
		_, err := New(e).Solve(t.Context(), pick(), Options{})
		if !errors.Is(err, want) || !strings.HasPrefix(err.Error(), "fake 1: ") || errors.Is(err, ErrSolver) != (want == ErrSolver) {
			t.Errorf("%v became %v", want, err)
		}
	}
	for name, run := range map[string]func(context.Context, *Problem) (*Answer, error){
		"panic":   func(context.Context, *Problem) (*Answer, error) { panic("engine bug") },
		"Goexit":  func(context.Context, *Problem) (*Answer, error) { runtime.Goexit(); return nil, nil },
		"nothing": func(context.Context, *Problem) (*Answer, error) { return nil, nil },
	} {
		if _, err := New(&fakeEngine{can: all, run: run}).Solve(t.Context(), pick(), Options{}); !errors.Is(err, ErrSolver) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestAbandoned has an engine that returns when the test allows it, long after
// Solve had to.
func TestAbandoned(t *testing.T) {
	release, gone := make(chan struct{}), make(chan struct{})
	heard := 0
	e := &fakeEngine{can: all, run: func(_ context.Context, p *Problem) (*Answer, error) {
		defer close(gone)
		p.OnProgress(Progress{X: []float64{2, 2}, Bound: 12})
		<-release
		p.OnProgress(Progress{X: []float64{3, 1}, Bound: 11})
		_, err := p.Log.Write([]byte("late"))
		return &Answer{Status: Optimal, X: []float64{3, 1}, Bound: 11}, err
	}}
	var log bytes.Buffer
	r, err := New(e).Solve(t.Context(), pick(), Options{
		Time: 10 * time.Millisecond, Log: &log, OnProgress: func(Progress) { heard++ },
	})
	if err != nil || r.Status != Feasible || r.Stop != Time || r.Obj != 10 || r.Bound != 12 || !strings.Contains(r.Note, "was abandoned") {
		t.Errorf("%+v, %v", r, err)
	}
	close(release)
	<-gone
	if heard != 1 || log.Len() != 0 {
		t.Errorf("%d events and %q were heard of an engine left behind", heard, log.String())
	}
}

func TestStop(t *testing.T) {
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	passed, cancel := context.WithDeadline(t.Context(), time.Unix(1, 0))
	defer cancel()
	e := saying(Answer{Status: Optimal, X: []float64{3, 1}, Bound: 11})
	for _, c := range []struct {
		ctx  context.Context
		want Stop
	}{{cancelled, Cancelled}, {passed, Time}} {
		r, err := New(e).Solve(c.ctx, pick(), Options{})
		if err != nil || r.Status != NoSolution || r.Stop != c.want || r.Bound != 17 {
			t.Errorf("%+v, %v", r, err)
		}
		r, err = New(e).Solve(c.ctx, pick(), Options{Start: []float64{3, 1}})
		if err != nil || r.Status != Feasible || r.Stop != c.want {
			t.Errorf("%+v, %v", r, err)
		}
	}
	if e.runs != 0 {
		t.Error("the engine was run although there was no time")
	}
}

// TestTime checks what an engine is told about time.
func TestTime(t *testing.T) {
	told := time.Duration(-1)
	e := &fakeEngine{can: all, run: func(ctx context.Context, p *Problem) (*Answer, error) {
		told = p.Time
		if _, ok := ctx.Deadline(); ok != (told > 0) {
			t.Errorf("limit %v, deadline %t", told, ok)
		}
		return &Answer{Status: Feasible, Stop: Time, X: []float64{2, 2}, Bound: 12}, nil
	}}
	hour, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	for _, c := range []struct {
		ctx         context.Context
		limit       time.Duration
		least, most time.Duration
		stop        Stop
	}{
		{t.Context(), 0, 0, 0, Unknown},
		{t.Context(), time.Minute, 50 * time.Second, time.Minute, Time},
		{hour, 0, 59 * time.Minute, time.Hour, Time},
		{hour, time.Minute, 50 * time.Second, time.Minute, Time},
		{hour, 2 * time.Hour, 59 * time.Minute, time.Hour, Time},
	} {
		r, err := New(e).Solve(c.ctx, pick(), Options{Time: c.limit})
		if err != nil || r.Stop != c.stop || told < c.least || told > c.most {
			t.Errorf("told %v, want %v to %v; %v, %v", told, c.least, c.most, r, err)
		}
	}
}

// TestAnsweredInGo checks that no library sees trivial models.
func TestAnsweredInGo(t *testing.T) {
	want := map[string]Status{"no columns": Optimal, "no rows": Optimal, "no rows, no bounds": Unbounded}
	models := map[string]func(m *milp.Model){
		"no rows": func(m *milp.Model) {
			x, y := m.Var("x", milp.Integer, -2.5, 3), m.Var("y", milp.Continuous, -inf, -1)
			m.Maximize(new(milp.Expr).Add(-1, x).Add(1, y))
			_ = m.Var("z", milp.Continuous, -inf, inf)
		},
		"no rows, no bounds": func(m *milp.Model) {
			m.Minimize(new(milp.Expr).Add(1, m.Var("x", milp.Continuous, -inf, 3)))
		},
		"no columns": func(m *milp.Model) { m.Group("g", "").AtMost(&milp.Expr{}, 1) },
		"crossed":    func(m *milp.Model) { m.Var("x", milp.Continuous, 2, 1) },
		"no integer": func(m *milp.Model) { m.Var("x", milp.Integer, 0.2, 0.8) },
		"empty row": func(m *milp.Model) {
			m.Var("x", milp.Continuous, 0, 1)
			m.Group("g", "").AtLeast(&milp.Expr{}, 1)
		},
	}
	for name, build := range models {
		e := saying(Answer{Status: Optimal, X: []float64{0}})
		m := milp.New(name)
		build(m)
		r, err := New(e).Solve(t.Context(), m, Options{})
		if err != nil || e.runs != 0 {
			t.Fatalf("%s: %v, %d runs", name, err, e.runs)
		}
		w, ok := want[name]
		if !ok {
			w = Infeasible
		}
		if r.Status != w || w == Infeasible && r.Note == "" || name == "no rows" && (r.Obj != 1 || !slices.Equal(r.X, []float64{-2, -1, 0})) {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// TestRefusals checks that each option that is not claimed is refused by its
// name.
func TestRefusals(t *testing.T) {
	for what, o := range map[Features]Options{
		CanRelGap:   {RelGap: Some(0.1)},
		CanAbsGap:   {AbsGap: Some(1.)},
		CanThreads:  {Threads: Some(2)},
		CanSeed:     {Seed: Some(1)},
		CanNodes:    {Nodes: Some(int64(0))},
		CanStart:    {Start: []float64{0, 0}},
		CanProgress: {OnProgress: func(Progress) {}},
		CanLog:      {Log: new(bytes.Buffer)},
		CanRaw:      {Raw: map[string]string{"a": "b"}},
		CanMemory:   {Memory: 1},
		CanInteger:  {},
	} {
		e := saying(Answer{Status: Optimal, X: []float64{3, 1}, Bound: 11})
		e.can = all &^ what
		_, err := New(e).Solve(t.Context(), pick(), o)
		if !errors.Is(err, ErrUnsupported) || !strings.Contains(err.Error(), what.String()) || e.runs != 0 {
			t.Errorf("%v: %v", what, err)
		}
		e.can = all
		if _, err := New(e).Solve(t.Context(), pick(), o); err != nil {
			t.Errorf("%v: %v", what, err)
		}
	}
}

// TestProblem checks what an engine receives.
func TestProblem(t *testing.T) {
	m := milp.New("messy")
	x := m.Var("x", milp.Integer, 0.3, 2.9999999999)
	y := m.Var("y", milp.Continuous, -1e30, 1e25)
	z := m.Var("z", milp.Continuous, 0, 10)
	g := m.Group("row", "")
	var e milp.Expr
	g.Between(-1e20, e.Add(1, x).Add(1e-12, z).Add(2, y), 5)
	g.Between(-3, e.Reset(), 1e21)
	m.Minimize(e.Reset().Add(1, y))
	before := m.Data()
	var got Problem
	engine := &fakeEngine{can: all, run: func(_ context.Context, p *Problem) (*Answer, error) {
		got = *p
		return &Answer{Status: Numerical}, nil
	}}
	start := []float64{2.0000001, 7, math.NaN()}
	if _, err := New(engine).Solve(t.Context(), m, Options{Start: start, Threads: Some(3), RelGap: Some(0.5)}); err != nil {
		t.Fatal(err)
	}
	d := got.Model
	for _, c := range []struct{ got, want any }{
		{d.Lower, []float64{1, -inf, 0}},
		{d.Upper, []float64{3, inf, 10}},
		{d.RowLower, []float64{-inf, -3}},
		{d.RowUpper, []float64{5, inf}},
		{d.Start, []int32{0, 2, 2}},
		{d.Col, []int32{0, 1}},
		{d.Val, []float64{1, 2}},
		{got.Threads, 3},
		{got.RelGap, 0.5},
		{got.Nodes, int64(-1)},
		{got.Start[0], 2.},
		{math.IsNaN(got.Start[1]) && math.IsNaN(got.Start[2]), true},
	} {
		if !reflect.DeepEqual(c.got, c.want) {
			t.Errorf("got %v, want %v", c.got, c.want)
		}
	}
	if after := m.Data(); !reflect.DeepEqual(before, after) {
		t.Error("the model was changed")
	}
}

// TestProgress checks what users hear of what engines say.
func TestProgress(t *testing.T) {
	nan := math.NaN()
	type heard struct {
		objective, bound float64
		x                []float64
	}
	var got []heard
	e := &fakeEngine{can: all, run: func(_ context.Context, p *Problem) (*Answer, error) {
		for _, q := range []Progress{
			{Bound: nan},
			{Bound: 15, Objective: 7},
			{Bound: 16},
			{X: []float64{3, 2}, Bound: 14},
			{X: []float64{1, 1}, Bound: -inf},
			{X: []float64{1.0000001, 0}},
			{X: []float64{2.5, 1}, Bound: 13},
			{X: []float64{2, 2}, Bound: 4},
			{X: []float64{2}, Bound: nan},
			{Bound: 10.5},
			{X: []float64{3, 1}, Bound: nan},
		} {
			p.OnProgress(q)
		}
		return &Answer{Status: Feasible, Stop: Nodes, X: []float64{1, 1}, Bound: nan}, nil
	}}
	r, err := New(e).Solve(t.Context(), pick(), Options{OnProgress: func(p Progress) {
		got = append(got, heard{p.Objective, p.Bound, p.X})
	}})
	if err != nil {
		t.Fatal(err)
	}
	want := []heard{
		{nan, 17, nil}, // of the box
		{nan, 15, nil},
		{nan, 15, nil},            // no worse bound
		{nan, 14, nil},            // no wrong point
		{5, 14, []float64{1, 1}},  // no infinite bound
		{5, 14, nil},              // no worse point; bound 0 is below it
		{5, 13, nil},              // no fractional point
		{10, 13, []float64{2, 2}}, // no bound below the incumbent
		{10, 13, nil},             // no point of another length
		{10, 10.5, nil},           // a bound, so far
		{11, 17, []float64{3, 1}}, // that was none
	}
	if len(got) != len(want) {
		t.Fatalf("heard %v", got)
	}
	for i := range want {
		same := got[i].objective == want[i].objective || math.IsNaN(got[i].objective) && math.IsNaN(want[i].objective)
		if !same || got[i].bound != want[i].bound || !slices.Equal(got[i].x, want[i].x) {
			t.Errorf("%d: heard %v, want %v", i, got[i], want[i])
		}
	}
	if r.Status != Feasible || r.Obj != 11 || r.Bound != 17 {
		t.Errorf("the best incumbent heard of is not the result: %+v", r)
	}
}

// TestPanic checks that the panic of a callback reaches the caller and ends the
// search.
func TestPanic(t *testing.T) {
	e := &fakeEngine{can: all, run: func(ctx context.Context, p *Problem) (*Answer, error) {
		p.OnProgress(Progress{Bound: 12})
		<-ctx.Done()
		return &Answer{Status: NoSolution}, nil
	}}
	defer func() {
		if v := recover(); v != "mine" {
			t.Errorf("recovered %v", v)
		}
	}()
	r, err := New(e).Solve(t.Context(), pick(), Options{OnProgress: func(Progress) { panic("mine") }})
	t.Errorf("no panic: %v, %v", r, err)
}

func TestLogWriterFails(t *testing.T) {
	e := &fakeEngine{can: all, run: func(_ context.Context, p *Problem) (*Answer, error) {
		for range 3 {
			if n, err := p.Log.Write([]byte("four")); n != 4 || err != nil {
				t.Errorf("the engine hears of it: %d, %v", n, err)
			}
		}
		return &Answer{Status: Optimal, X: []float64{3, 1}, Bound: 11}, nil
	}}
	w := &full{}
	r, err := New(e).Solve(t.Context(), pick(), Options{Log: w})
	if err != nil || r.Status != Optimal || r.Note != "log writer: disk full" || w.calls != 1 {
		t.Errorf("%+v, %v, %d calls", r, err, w.calls)
	}
}

type full struct{ calls int }

func (f *full) Write([]byte) (int, error) {
	f.calls++
	return 0, errors.New("disk full")
}

func TestStrings(t *testing.T) {
	seen := map[string]bool{}
	for s := Status(0); s <= Numerical; s++ {
		seen[s.String()] = true
	}
	for s := Stop(0); s <= Unknown; s++ {
		seen[s.String()] = true
	}
	for s := StartUse(0); s <= StartRejected; s++ {
		seen[s.String()] = true
	}
	for f := CanInteger; f <= CanLarge; f <<= 1 {
		seen[f.String()] = true
	}
	if want := 8 + 9 + 3 + 14; len(seen) != want || seen[""] {
		t.Errorf("%d different names, want %d: %v", len(seen), want, seen)
	}
	for got, want := range map[string]string{
		Status(99).String():              "status 99",
		Features(0).String():             "nothing",
		(CanRelGap | CanMemory).String(): "RelGap, Memory",
		(CanLarge << 1).String():         "unknown features 0x4000",
		(CanSeed | CanLarge<<1).String(): "Seed, unknown features 0x4000",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
