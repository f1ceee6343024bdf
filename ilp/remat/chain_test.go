package remat

import (
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"workbench/ilp/check"
	"workbench/ilp/formulation"
	"workbench/ilp/ilptest"
	"workbench/model/exhaustive"
	optimum "workbench/model/exhaustive/remat"
	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/testcase"
	"workbench/model/testcase/random"
	"workbench/model/testfile"
	verifyremat "workbench/model/verify/remat"
	"workbench/model/zoo"
	"workbench/solvers"
	"workbench/solvers/highs"
	"workbench/solvers/lpsolve"
)

// Both MILPs keep their promises on both backends.
func TestChainPromises(t *testing.T) {
	both := []solvers.Backend{highs.New(), lpsolve.New()}
	for name, layers := range map[string]int{"chain-milp": 4, "chain-milp-bound": 5} {
		ilptest.Keeps(t, ilptest.Formulation(t, Formulations(), name), testcase.Remat(),
			ilptest.Check{Backends: both[:1], Cases: 400, Layers: layers, Tight: 0.9},
			ilptest.Check{Backends: both, Cases: 100, Layers: 3, Tight: 0.9})
	}
}

// The groups that are ours change no optimum, one by one and together.
func TestChainGroups(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 1))
	b := highs.New()
	for range testfile.Cases(25) {
		c := random.Chain(r, 4)
		least, err := optimum.LeastMemory(c, testcase.States)
		if err != nil {
			t.Fatal(err)
		}
		p := platform.Platform{Memory: max(1, least+float64(r.IntN(4)))}
		for _, f := range []string{"chain-milp", "chain-milp-bound"} {
			f := ilptest.Formulation(t, Formulations(), f)
			m := ilptest.Built(t, f, c, p).Model
			want := ilptest.Optimum(t, b, m)
			groups := [][]string{f.Extra}
			for _, g := range f.Extra {
				groups = append(groups, []string{g})
			}
			for _, g := range groups {
				less, err := m.Without(g...)
				if err != nil {
					t.Fatal(err)
				}
				if got := ilptest.Optimum(t, b, less); !check.Same(got, want) {
					t.Errorf("%s: %g without %v, %g with them: %+v in %g", f.Name, got, g, want, c, p.Memory)
				}
			}
		}
	}
}

// descending is the smallest chain on which forwards must descend: F_3 leaves
// no room for anything else, and later the gradient leaves none for F_2. So the
// second sweep of F_1 F_2 comes after F_3, before B_3.
func descending() (*chain.Chain, platform.Platform) {
	return &chain.Chain{Name: "descending", Layers: []chain.Layer{
		{Saved: 1, BackwardTime: 1},
		{Saved: 1, BackwardTime: 1, ForwardOverhead: 3, Gradient: 3},
		{Saved: 1, BackwardTime: 2, ForwardTime: 2, ForwardOverhead: 5},
	}}, platform.Platform{Memory: 6}
}

func TestChainDescends(t *testing.T) {
	c, p := descending()
	want, best, err := optimum.Search(c, p.Memory, testcase.States)
	if err != nil {
		t.Fatal(err)
	}
	for sweeps, status := range map[int]solvers.Status{1: solvers.Infeasible, 2: solvers.Optimal} {
		f, err := newChainMILP(c, p, false)
		if err != nil {
			t.Fatal(err)
		}
		f.sweeps = sweeps
		if err := f.build(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		r, err := highs.New().Solve(t.Context(), f.m, solvers.Options{})
		if err != nil || r.Status != status || status == solvers.Optimal && !check.Same(r.Obj/f.time, want) {
			t.Errorf("%d sweeps: %v %g, %v; should be %v, %g", sweeps, r.Status, r.Obj, err, status, want)
		}
		x, err := f.start(best)
		if fits := err == nil && len(f.m.Violations(x, 1e-9)) == 0; fits != (sweeps == 2) {
			t.Errorf("%d sweeps: the best plan fits in: %v", sweeps, fits)
		}
	}
}

// Solve finds the optimum of small chains, and as a rule proves it.
func TestSolveChainIsExhaustive(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 1))
	b := highs.New()
	const cases = 60
	proved := 0
	for range cases {
		c := random.Chain(r, 2+r.IntN(4))
		least, err := optimum.LeastMemory(c, testcase.States)
		if err != nil {
			t.Fatal(err)
		}
		p := platform.Platform{Memory: max(1, least-1+float64(r.IntN(5)))}
		want, start, err := optimum.Search(c, p.Memory, testcase.States)
		if r.IntN(2) == 0 {
			start = nil
		}
		got, bound, _, gotErr := solve(t.Context(), b, c, p, start, solvers.Options{})
		if errors.Is(err, exhaustive.ErrInfeasible) {
			var none *plan.Infeasible
			switch {
			case errors.As(gotErr, &none) && none.Memory > p.Memory && none.Memory <= least*(1+1e-6):
				proved++
			case !errors.Is(gotErr, plan.ErrNoPlan):
				t.Errorf("%v; the least memory is %g: %+v", gotErr, least, c)
			}
			continue
		}
		if err != nil || gotErr != nil {
			t.Fatal(err, gotErr)
		}
		report, err := verifyremat.Verify(c, got)
		if err != nil {
			t.Fatal(err)
		}
		if !report.Valid() || !check.Same(report.Makespan, want) || bound > report.Makespan {
			t.Errorf("makespan %g, bound %g, %v; should be %g in %g: %+v", report.Makespan, bound, report.Violations, want, p.Memory, c)
		}
		if check.Same(bound, want) {
			proved++
		}
	}
	if proved < cases*8/10 {
		t.Errorf("%d of %d proved", proved, cases)
	}
}

// A limit leaves a plan and a bound.
func TestSolveChainStopped(t *testing.T) {
	c, err := zoo.Load("zoo:resnet18")
	if err != nil {
		t.Fatal(err)
	}
	p := platform.Platform{Memory: 0.46e9}
	best, least, _, err := solve(t.Context(), highs.New(), c, p, nil, solvers.Options{})
	if err != nil {
		t.Fatal(err)
	}
	report, err := verifyremat.Verify(c, best)
	if err != nil || !report.Valid() || least < report.Makespan*(1-1e-6) {
		t.Fatalf("bound %g, %+v, %v", least, report, err)
	}
	got, bound, _, err := solve(t.Context(), highs.New(), c, p, best, solvers.Options{Nodes: solvers.Some[int64](0)})
	if err != nil || got == nil || got.Claims.Makespan > best.Claims.Makespan || bound > report.Makespan || bound < c.TotalTime() {
		t.Errorf("%v, bound %g, %v", got, bound, err)
	}
}

// The relaxation is a bound without a plan.
func TestSolveChainRelaxed(t *testing.T) {
	c, p := descending()
	best, bound, r, err := solve(t.Context(), highs.New(), c, p, nil, solvers.Options{Relax: true})
	if err != nil || best != nil || r == nil || bound < c.TotalTime() || bound > 6 {
		t.Errorf("%v, bound %g, %+v, %v", best, bound, r, err)
	}
}

// Bad input is an error that says what is wrong.
func TestChainBadInput(t *testing.T) {
	c, p := descending()
	for _, x := range []struct {
		c *chain.Chain
		p platform.Platform
	}{
		{nil, p}, {&chain.Chain{}, p}, {c, platform.Platform{Memory: -1}}, {c, platform.Platform{Memory: math.Inf(1)}},
	} {
		if _, err := MILP(x.c, x.p, Options{}); !errors.Is(err, formulation.ErrInstance) {
			t.Errorf("%+v: %v", x, err)
		}
	}
	if _, err := MILP(&chain.Chain{Layers: make([]chain.Layer, Layers+1)}, p, Options{}); !errors.Is(err, formulation.ErrTooLong) {
		t.Error(err)
	}
	program := ilptest.Built(t, ilptest.Formulation(t, Formulations(), nameMILP), c, p)
	for _, ops := range [][]plan.Op{nil, {{Op: plan.OpB, Layer: 3}}, {{Op: plan.OpFAll, Layer: 9}}, {{Op: plan.OpFAll, Layer: -1}}} {
		if _, err := program.Start(&plan.Plan{Problem: plan.Remat, Ops: ops}); !errors.Is(err, formulation.ErrStart) {
			t.Errorf("%v: %v", ops, err)
		}
	}
	if _, err := program.Start(nil); !errors.Is(err, formulation.ErrStart) {
		t.Error(err)
	}
}

// The text of the smallest model with everything in it.
func TestChainGolden(t *testing.T) {
	c, _ := descending()
	f, err := newChainMILP(c, platform.Platform{Memory: 6}, false)
	if err != nil {
		t.Fatal(err)
	}
	f.sweeps = 1
	if err := f.build(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	if err := f.m.Print(&text); err != nil {
		t.Fatal(err)
	}
	text.WriteString("\n" + f.m.Stats().String())
	testfile.Golden(t, "chain-milp.golden", text.String())
}

// What each group is worth: time and nodes to the proof, at 30 % of the memory
// between the least and that of store-all.
func BenchmarkChainMILP(b *testing.B) {
	for _, x := range []struct {
		network   string
		low, high float64
	}{
		{"resnet18", 0.4303e9, 0.7226e9},
		{"vgg16", 1.6634e9, 2.3571e9},
		{"resnet50", 0.79e9, 2.791e9},
	} {
		c, err := zoo.Load(zoo.Scheme + x.network)
		if err != nil {
			b.Fatal(err)
		}
		p := platform.Platform{Memory: x.low + 0.3*(x.high-x.low)}
		for _, name := range []string{"chain-milp", "chain-milp-bound"} {
			f := chainFormulation(name)
			program, err := f.Build(c, p, nil)
			if err != nil {
				b.Fatal(err)
			}
			run := func(label string, without ...string) {
				m, err := program.Model.Without(without...)
				if err != nil {
					b.Fatal(err)
				}
				b.Run(x.network+"/"+name+"/"+label, func(b *testing.B) {
					var nodes int64
					for b.Loop() {
						r, err := highs.New().Solve(b.Context(), m, solvers.Options{})
						if err != nil || r.Status != solvers.Optimal {
							b.Fatal(r, err)
						}
						nodes = r.Nodes
					}
					b.ReportMetric(float64(nodes), "nodes")
				})
			}
			run("all")
			for _, g := range f.Extra {
				run("without "+g, g)
			}
			run("plain", f.Extra...)
		}
	}
}

func chainFormulation(name string) formulation.Formulation {
	for _, f := range Formulations() {
		if f.Name == name {
			return f
		}
	}
	panic(name)
}
