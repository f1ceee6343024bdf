package check

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"workbench/ilp/formulation"
	"workbench/model/exhaustive"
	optimumremat "workbench/model/exhaustive/remat"
	optimumrematgraph "workbench/model/exhaustive/rematgraph"
	"workbench/model/instance/chain"
	"workbench/model/instance/graph"
	"workbench/model/milp"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/testcase"
	"workbench/model/testfile"
	"workbench/solvers"
	"workbench/solvers/highs"
	"workbench/solvers/lpsolve"
)

// A toy is a formulation of rematerialization that knows the optimum from
// elsewhere: one column, the makespan, at least a bound. Its mistakes are as
// they are told.
type toy struct {
	bound func(optimum, total float64) float64 // +Inf: no solution
	start float64                              // added to starts
	plan  func(*plan.Plan) *plan.Plan
	prove bool // that there is no plan, instead of a model without solution
	hint  *formulation.Hint
}

func (y toy) program(optimum, total float64, best *plan.Plan, err error) (*formulation.Program, error) {
	if errors.Is(err, exhaustive.ErrInfeasible) {
		optimum = math.Inf(1)
	} else if err != nil {
		return nil, err
	}
	least := y.bound(optimum, total)
	if math.IsInf(least, 1) && y.prove {
		return nil, &plan.Infeasible{Problem: plan.Remat}
	}
	m := milp.New("toy")
	var e milp.Expr
	makespan := m.Var("makespan", milp.Continuous, 0, 1000)
	m.Group("bound", "toy").AtLeast(e.Add(1, makespan), min(least, 2000))
	m.Minimize(e.Reset().Add(1, makespan))
	made := &formulation.Program{
		Model: m,
		Start: func(p *plan.Plan) ([]float64, error) { return []float64{p.Claims.Makespan + y.start}, nil },
		Plan: func(x []float64) (*plan.Plan, error) {
			if best == nil {
				return nil, errors.New("no plan")
			}
			if y.plan != nil {
				return y.plan(best), nil
			}
			return best, nil
		},
	}
	if y.hint != nil {
		made.Hint = func([]float64) *formulation.Hint { return y.hint }
	}
	return made, nil
}

// A restriction that has the optimum of short chains is held to it there, and to no
// more than its promise beyond.
func TestCheckEqualTo(t *testing.T) {
	late := toy{bound: func(o, _ float64) float64 { return o + 1 }, plan: func(p *plan.Plan) *plan.Plan {
		q := *p // a second later
		q.Ops = slices.Clone(p.Ops)
		for i := range q.Ops {
			q.Ops[i].Start++
			q.Ops[i].End++
		}
		q.Claims.Makespan++
		return &q
	}}
	f := late.chains(formulation.Restriction)
	for _, x := range []struct {
		to     int
		failed bool
	}{{0, false}, {2, true}, {9, true}} {
		f.EqualTo = x.to
		r, err := Run(t.Context(), f, testcase.Remat(), []solvers.Backend{highs.New()}, Options{Seed: 3, Cases: 40})
		if err != nil {
			t.Fatal(err)
		}
		if failed := len(r.Failures) > 0; failed != x.failed {
			t.Errorf("equal up to %d layers: %+v", x.to, r.Failures)
		}
		for _, f := range r.Failures {
			if x.to == 2 && f.Count > 20 {
				t.Errorf("%d of 40 instances, with 1 to 6 layers, are held to the optimum", f.Count)
			}
		}
	}
}

// chains and graphs make a formulation of the toy.
func (y toy) chains(p formulation.Promise) formulation.Formulation {
	return formulation.Formulation{
		Name: "toy", Problem: plan.Remat, Promise: p, Kind: chain.Kind,
		Build: formulation.Without(func(c *chain.Chain, m platform.Platform) (*formulation.Program, error) {
			optimum, best, err := optimumremat.Search(c, m.Memory, testcase.States)
			return y.program(optimum, c.TotalTime(), best, err)
		}),
	}
}

func (y toy) graphs(p formulation.Promise) formulation.Formulation {
	return formulation.Formulation{
		Name: "toy", Problem: plan.Remat, Promise: p, Kind: graph.Kind,
		Build: formulation.Without(func(g *graph.Graph, m platform.Platform) (*formulation.Program, error) {
			optimum, best, err := optimumrematgraph.Search(g, m.Memory, testcase.States)
			return y.program(optimum, g.TotalTime(), best, err)
		}),
	}
}

func TestCheckRemat(t *testing.T) {
	cases := testfile.Cases(120)
	exact := func(optimum, _ float64) float64 { return optimum }
	total := func(_, total float64) float64 { return total } // as if there were no limit
	never := func(_, _ float64) float64 { return math.Inf(1) }
	dropFirst := func(p *plan.Plan) *plan.Plan {
		q := *p
		q.Ops = q.Ops[1:]
		return &q
	}
	longer := func(p *plan.Plan) *plan.Plan {
		q := *p
		q.Ops = slices.Clone(p.Ops)
		if first := q.Ops[0]; first.Op == plan.OpFAll { // twice
			for i := range q.Ops {
				q.Ops[i].Start += first.End
				q.Ops[i].End += first.End
			}
			q.Ops = append([]plan.Op{first}, q.Ops...)
			q.Claims = plan.Claims{}
		}
		return &q
	}
	for _, x := range []struct {
		name    string
		y       toy
		promise formulation.Promise
		want    []FailureKind
		chain   string // the smallest counterexample of the first kind contains that
		graph   string
	}{
		{"exact", toy{bound: exact}, formulation.Equal, nil, "", ""},
		{"exact, proofs", toy{bound: exact, prove: true}, formulation.Equal, nil, "", ""},
		{"a bound", toy{bound: total}, formulation.LowerBound, nil, "", ""},
		{"a restriction", toy{bound: exact}, formulation.Restriction, nil, "", ""},
		{"a restriction without plans", toy{bound: never}, formulation.Restriction, nil, "", ""},
		{"no restriction", toy{bound: total}, formulation.Restriction, []FailureKind{Below, NoPlan}, "best plan:", "best plan:"},
		{"no bound but plans", toy{bound: total}, formulation.Equal, []FailureKind{Below, NoPlan}, "best plan:", "best plan:"},
		{
			"too much",
			toy{bound: func(o, _ float64) float64 { return o + 1 }},
			formulation.Nothing,
			[]FailureKind{Above},
			"layer 1: u_F = 0, u_B = 0, |a| = 0, |ā| = 0, |δ| = 0, o_F = 0 and 0, o_B = 0\nbest plan: F_all1 B1\noptimum 0; highs",
			"memory 1, input 0\nnode F1 (forward): time 0, memory 0, overhead 0\nnode loss (loss): time 0, memory 0, overhead 0\nnode B1 " +
				"(backward): time 0, memory 0, overhead 0\nbest plan: ",
		},
		{"none", toy{bound: never}, formulation.Nothing, []FailureKind{NoSolution}, "optimum 0; highs", "optimum 0; highs"},
		{
			"none, proved",
			toy{bound: never, prove: true},
			formulation.Equal,
			[]FailureKind{NoSolution},
			"optimum 0; remat: no plan fits",
			"optimum 0; remat: no plan fits",
		},
		{"start", toy{bound: exact, start: -0.5}, formulation.LowerBound, []FailureKind{BadStart}, "optimum 0; ", "optimum 0; "},
		{"dear start", toy{bound: exact, start: 2}, formulation.LowerBound, []FailureKind{BadStart}, "the start costs 2", "the start costs 2"},
		{"plan", toy{bound: exact, plan: dropFirst}, formulation.Equal, []FailureKind{BadPlan}, "optimum 0; ", "optimum 0; "},
		{"plan of nothing", toy{bound: exact, plan: dropFirst}, formulation.Nothing, []FailureKind{BadPlan}, "optimum 0; ", "optimum 0; "},
		{"longer plan", toy{bound: exact, plan: longer}, formulation.Equal, []FailureKind{BadPlan, BadStart}, "plan of makespan 2", ""},
	} {
		t.Run(x.name, func(t *testing.T) {
			check := func(f formulation.Formulation, about *testcase.Subject, smallest string) {
				t.Helper()
				r, err := Run(t.Context(), f, about, testfile.Few[solvers.Backend](1, highs.New(), lpsolve.New()), Options{Seed: 3, Cases: cases})
				if err != nil {
					t.Fatal(err)
				}
				failed := 0
				var kinds []FailureKind
				for _, f := range r.Failures {
					kinds = append(kinds, f.Kind)
					failed += f.Count
					t.Logf("%s, %d times:\n%s", f.Kind, f.Count, f.Smallest.String())
				}
				if r.Cases != cases || x.promise == formulation.Equal && r.Tight+failed != r.Cases {
					t.Errorf("%d cases, %d tight, %d failed", r.Cases, r.Tight, failed)
				}
				slices.Sort(kinds)
				want := slices.Sorted(slices.Values(x.want))
				if !slices.Equal(kinds, want) {
					t.Fatalf("failures %q, want %q", kinds, want)
				}
				if len(x.want) == 0 {
					return
				}
				for _, f := range r.Failures {
					if f.Kind == x.want[0] && !strings.Contains(f.Smallest.String(), smallest) {
						t.Errorf("smallest counterexample\n%s\nwant …%s…", f.Smallest.String(), smallest)
					}
				}
			}
			check(x.y.chains(x.promise), testcase.Remat(), x.chain)
			if (x.graph != "" || x.want == nil) && !testing.Short() {
				check(x.y.graphs(x.promise), testcase.Graphs(), x.graph)
			}
		})
	}
}

// Hints are read off and looked at.
func TestCheckHints(t *testing.T) {
	exact := func(optimum, _ float64) float64 { return optimum }
	good := &formulation.Hint{Away: make([]bool, 2), Idle: make([]float64, 2)}
	for _, x := range []struct {
		hint *formulation.Hint
		want bool
	}{
		{good, true},
		{&formulation.Hint{Away: good.Away, Idle: good.Idle[:1]}, false},
		{&formulation.Hint{Away: good.Away, Idle: []float64{0, math.NaN()}}, false},
		{&formulation.Hint{Away: good.Away, Idle: []float64{0, -1e6}}, false},
	} {
		r, err := Run(t.Context(), toy{bound: exact, hint: x.hint}.chains(formulation.Equal), testcase.Remat(), []solvers.Backend{highs.New()},
			Options{Cases: 20})
		if err != nil {
			t.Fatal(err)
		}
		if good := len(r.Failures) == 0; good != x.want || r.Hints == 0 || !good && r.Failures[0].Kind != BadHint {
			t.Errorf("%+v: %d hints, failures %v", x.hint, r.Hints, r.Failures)
		}
	}
}

// Without the group that makes it a bound, the toy is none; a group that no model has is an
// error that suggests another.
func TestCheckWithout(t *testing.T) {
	exact := toy{bound: func(optimum, _ float64) float64 { return optimum }}.chains(formulation.Equal)
	r, err := Run(t.Context(), exact, testcase.Remat(), []solvers.Backend{highs.New()}, Options{Cases: 20, Without: []string{"bound"}})
	if err != nil || len(r.Failures) == 0 || r.Failures[0].Kind != Below && r.Failures[0].Kind != NoPlan {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := Run(t.Context(), exact, testcase.Remat(), []solvers.Backend{highs.New()},
		Options{Cases: 2, Without: []string{"bond"}}); !errors.Is(err, milp.ErrNoGroup) || !strings.Contains(err.Error(), "bound") {
		t.Errorf("%v", err)
	}
}

// The counterexample to a formulation that recomputes nothing is one where
// something must be: the check shrinks it to a few numbers.
func TestCheckShrinks(t *testing.T) {
	forgets := toy{bound: func(_, total float64) float64 { return total }}
	r, err := Run(t.Context(), forgets.chains(formulation.Equal), testcase.Remat(), []solvers.Backend{highs.New()},
		Options{Seed: 4, Cases: 200, Layers: 5})
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(r.Failures, func(f Failure) bool { return f.Kind == Below })
	if i < 0 {
		t.Fatal("no failure")
	}
	x := r.Failures[i].Smallest
	size := x.Platform.Memory + x.Chain().TotalTime() + x.Chain().Input.Activation + x.Chain().Input.Gradient
	for _, l := range x.Chain().Layers {
		size += l.Activation + l.Saved + l.Gradient + l.ForwardOverhead + l.BackwardOverhead
	}
	if x.Chain().Len() > 3 || size > 12 {
		t.Errorf("not shrunk:\n%s", x.String())
	}
	t.Log(x.String())
}

// Schedules of Checkmate are judged among themselves: what is exact for all
// plans is below their optimum on some graphs.
func TestCheckStaged(t *testing.T) {
	of := func(search func(plan.Instance, float64, int) (float64, *plan.Plan, error)) formulation.Formulation {
		y := toy{bound: func(optimum, _ float64) float64 { return optimum }}
		return formulation.Formulation{
			Name: "toy", Problem: plan.Remat, Promise: formulation.Equal, Staged: true, Kind: graph.Kind,
			Build: formulation.Without(func(g *graph.Graph, m platform.Platform) (*formulation.Program, error) {
				optimum, best, err := search(g, m.Memory, testcase.States)
				return y.program(optimum, g.TotalTime(), best, err)
			}),
		}
	}
	o := Options{Seed: 5, Cases: 400, Layers: 4}
	r, err := Run(t.Context(), of(optimumrematgraph.SearchStages), testcase.Stages(), []solvers.Backend{highs.New()}, o)
	if err != nil || len(r.Failures) > 0 || r.Tight != r.Cases {
		t.Errorf("%v, %+v", err, r)
	}
	if r, err = Run(t.Context(), of(func(in plan.Instance, memory float64, limit int) (float64, *plan.Plan, error) {
		return optimumrematgraph.Search(plan.As[*graph.Graph](in), memory, limit)
	}), testcase.Stages(), []solvers.Backend{highs.New()}, o); err != nil {
		t.Fatal(err)
	}
	var kinds []FailureKind
	for _, f := range r.Failures {
		kinds = append(kinds, f.Kind)
		t.Logf("%s, %d times:\n%s", f.Kind, f.Count, f.Smallest.String())
	}
	if slices.Sort(kinds); !slices.Equal(kinds, []FailureKind{NoPlan, Below}) {
		t.Errorf("failures %q", kinds)
	}
}

func TestCheckRefuses(t *testing.T) {
	exact := toy{bound: func(optimum, _ float64) float64 { return optimum }}
	broken := errors.New("broken")
	build := func(*chain.Chain, platform.Platform) (*formulation.Program, error) { return nil, broken }
	for name, x := range map[string]struct {
		f     formulation.Formulation
		about *testcase.Subject
		o     Options
		want  error
	}{
		"long chain":  {exact.chains(formulation.Equal), testcase.Remat(), Options{Layers: 9}, formulation.ErrInstance},
		"large graph": {exact.graphs(formulation.Equal), testcase.Graphs(), Options{Layers: 8}, formulation.ErrInstance},
		"no kind":     {formulation.Formulation{Problem: plan.Remat}, testcase.Remat(), Options{}, formulation.ErrInstance},
		"joins":       {formulation.Formulation{Problem: plan.Join, Build: formulation.Without(build)}, nil, Options{}, formulation.ErrInstance},
		"build fails": {
			formulation.Formulation{Problem: plan.Remat, Kind: chain.Kind, Build: formulation.Without(build)},
			testcase.Remat(),
			Options{},
			broken,
		},
	} {
		if _, err := Run(t.Context(), x.f, x.about, nil, x.o); !errors.Is(err, x.want) {
			t.Errorf("%s: error %v, want %v", name, err, x.want)
		}
	}
}
