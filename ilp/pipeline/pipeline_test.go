package pipeline

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"workbench/ilp/check"
	"workbench/ilp/formulation"
	"workbench/ilp/ilptest"
	"workbench/model/exhaustive"
	optimum "workbench/model/exhaustive/pipeline"
	"workbench/model/instance/chain"
	"workbench/model/milp"
	"workbench/model/plan"
	"workbench/model/plan/plantest"
	"workbench/model/platform"
	"workbench/model/testcase"
	"workbench/model/testfile"
	"workbench/model/verify"
	"workbench/solvers"
	"workbench/solvers/highs"
	"workbench/solvers/lpsolve"
)

// randomPipeline returns a chain of small integers and a platform with
// some memory between too little and plenty.
func randomPipeline(r *rand.Rand, layers int) (*chain.Chain, platform.Platform) {
	c := &chain.Chain{Name: "random", Input: chain.Input{Activation: float64(r.IntN(3)), Gradient: float64(r.IntN(3))}}
	total := 0.0
	for range layers {
		l := chain.Layer{
			ForwardTime: float64(1 + r.IntN(4)), BackwardTime: float64(1 + r.IntN(4)),
			Activation: float64(r.IntN(4)), Gradient: float64(r.IntN(3)), Weight: float64(r.IntN(2)),
		}
		l.Saved = l.Activation
		total += 2*l.Activation + l.Gradient + l.Weight
		c.Layers = append(c.Layers, l)
	}
	p := platform.Platform{Processors: 2 + r.IntN(2), Bandwidth: []float64{0.5, 1, 4}[r.IntN(3)], WeightCopies: 1 + r.IntN(2)}
	p.Memory = math.Ceil(1 + total*(0.5+1.5*r.Float64()))
	return c, p
}

// saving is network with ā and δ as large as a.
func saving(input float64, layers ...[4]float64) *chain.Chain {
	c := plantest.Network(input, layers...)
	c.Input.Gradient = input
	for i := range c.Layers {
		l := &c.Layers[i]
		l.Saved, l.Gradient = l.Activation, l.Activation
	}
	return c
}

func verifiedPattern(t *testing.T, c *chain.Chain, p *plan.Plan) *plan.Report {
	t.Helper()
	r, err := verify.Replay(c, p)
	if err != nil {
		t.Fatal(err)
	}
	if !r.Valid() {
		t.Fatalf("plan of %s: %v", p.Method, r.Violations)
	}
	if len(r.ClaimErrors) > 0 {
		t.Fatalf("plan of %s: %v", p.Method, r.ClaimErrors)
	}
	return r
}

// leastPeriod is the optimum in seconds of a model with that unit of time.
func leastPeriod(t *testing.T, b solvers.Backend, m *milp.Model, unit float64) float64 {
	t.Helper()
	r, err := b.Solve(t.Context(), m, solvers.Options{})
	if err != nil || r.Status != solvers.Optimal {
		t.Fatalf("%s: %v, %v", m.Name(), r.Status, err)
	}
	return r.Obj * unit
}

// The ILP has the shortest period of all allocations and patterns.
func TestPipelineILPEqualsExhaustive(t *testing.T) {
	t.Parallel()
	b := highs.New()
	found := 0
	for seed := range uint64(testfile.Cases(16)) {
		r := rand.New(rand.NewPCG(seed, 6))
		c, p := randomPipeline(r, 1+r.IntN(3))
		want, best, err := optimum.Search(c, p, plan.TaskModel, 1e7)
		if err != nil && !errors.Is(err, exhaustive.ErrInfeasible) {
			t.Fatal(err)
		}
		var infeasible *plan.Infeasible
		program, buildErr := Patterns(c, p)
		if errors.As(buildErr, &infeasible) {
			if err == nil {
				t.Errorf("seed %d: no plan fits, but one of period %g does", seed, want)
			}
			continue
		}
		if buildErr != nil {
			t.Fatal(buildErr)
		}
		res, solveErr := b.Solve(t.Context(), program.Model, solvers.Options{})
		if solveErr != nil {
			t.Fatal(solveErr)
		}
		if (res.Status == solvers.Infeasible) != (err != nil) {
			t.Fatalf("seed %d: %v, exhaustive search: %v", seed, res.Status, err)
		}
		if err != nil {
			continue
		}
		found++
		if got := program.Objective(res.Obj); res.Status != solvers.Optimal || math.Abs(got-want) > 1e-5*want {
			t.Errorf("seed %d: %v %g, exhaustive search finds %g", seed, res.Status, got, want)
		}
		x, _ := res.Solution()
		got, err := program.Plan(x)
		if err != nil {
			t.Fatal(err)
		}
		if report := verifiedPattern(t, c, got); math.Abs(report.Makespan-want) > 1e-9*want {
			t.Errorf("seed %d: the plan has %g, exhaustive search finds %g", seed, report.Makespan, want)
		}
		x, err = program.Start(best)
		if err != nil {
			t.Fatal(err)
		}
		if v := program.Model.Violations(x, 1e-6); len(v) > 0 {
			t.Errorf("seed %d: the best plan is no solution: %v", seed, v[0])
		}
	}
	if found < testfile.Cases(10) {
		t.Errorf("only %d instances have plans", found)
	}
}

// For a given allocation, contiguous or not, in both models, with every layer
// as a stage: the shortest period of all patterns. With runs of layers computed
// without interruption it may be larger, and the plan is one all the same.
func TestStageILPEqualsExhaustive(t *testing.T) {
	t.Parallel()
	b := highs.New()
	found := 0
	for seed := range uint64(testfile.Cases(30)) {
		r := rand.New(rand.NewPCG(seed, 7))
		c, p := randomPipeline(r, 2+r.IntN(2))
		model := []string{plan.TaskModel, plan.StageModel}[seed%2]
		var layers []plan.Stage
		for l := range c.Len() {
			layers = append(layers, plan.Stage{Processor: r.IntN(p.Processors), From: l + 1, To: l + 1})
		}
		want, best, err := optimum.SearchAllocation(c, p, layers, model, 1, 1e7)
		if err != nil && !errors.Is(err, exhaustive.ErrInfeasible) {
			t.Fatal(err)
		}
		for _, stages := range [][]plan.Stage{layers, merge(layers)} {
			program, buildErr := StageILP(c, p, stages, model)
			if buildErr != nil {
				t.Fatal(buildErr)
			}
			res, solveErr := b.Solve(t.Context(), program.Model, solvers.Options{})
			if solveErr != nil {
				t.Fatal(solveErr)
			}
			if (res.Status == solvers.Infeasible) != (err != nil) {
				t.Fatalf("seed %d, %d stages: %v, exhaustive search: %v", seed, len(stages), res.Status, err)
			}
			if err != nil {
				continue
			}
			found++
			exact := len(stages) == len(layers)
			least := program.Objective(res.Obj)
			if res.Status != solvers.Optimal || least < want*(1-1e-5) || exact && least > want*(1+1e-5) {
				t.Errorf("seed %d, %d stages: %v %g, exhaustive search finds %g", seed, len(stages), res.Status, least, want)
			}
			x, _ := res.Solution()
			got, err := program.Plan(x)
			if err != nil {
				t.Fatal(err)
			}
			if report := verifiedPattern(t, c, got); math.Abs(report.Makespan-least) > 1e-5*want {
				t.Errorf("seed %d: the plan has %g, the model %g", seed, report.Makespan, least)
			}
			if !exact {
				continue
			}
			if x, err = program.Start(best); err != nil {
				t.Fatal(err)
			}
			if v := program.Model.Violations(x, 1e-6); len(v) > 0 {
				t.Errorf("seed %d: the best plan is no solution: %v", seed, v[0])
			}
		}
	}
	if found < testfile.Cases(20) {
		t.Errorf("only %d instances have plans", found)
	}
}

// merge joins neighbouring layers of a processor.
func merge(layers []plan.Stage) (stages []plan.Stage) {
	for _, s := range layers {
		if k := len(stages); k > 0 && stages[k-1].Processor == s.Processor {
			stages[k-1].To = s.To
		} else {
			stages = append(stages, s)
		}
	}
	return stages
}

// Findings 8: as printed, the ILP finds a period of 4 for three layers of unit
// times on one processor, where 6 is the sum.
func TestPipelinePrinted(t *testing.T) {
	testfile.Long(t)
	t.Parallel()
	c := saving(0, [4]float64{1, 1, 0, 0}, [4]float64{1, 1, 0, 0}, [4]float64{1, 1, 0, 0})
	p := platform.Platform{Memory: 100, Bandwidth: 1, Processors: 1}
	b := highs.New()
	least := func(build formulation.Builder[*chain.Chain]) float64 {
		program := ilptest.Must(t, build, c, p)
		return leastPeriod(t, b, program.Model, program.Unit)
	}
	if got := least(Printed); got > 4+1e-6 {
		t.Errorf("as printed: %g, findings 15 has a solution of 4", got)
	}
	if got := least(Patterns); math.Abs(got-6) > 1e-6 {
		t.Errorf("corrected: %g, want 6", got)
	}
}

// Both backends agree on the smallest instances.
func TestPipelineBackends(t *testing.T) {
	t.Parallel()
	c := saving(1, [4]float64{1, 2, 1, 1}, [4]float64{2, 1, 1, 0})
	p := platform.Platform{Memory: 20, Bandwidth: 4, Processors: 2, WeightCopies: 3}
	m := ilptest.Must(t, Patterns, c, p).Model
	x, y := ilptest.Optimum(t, highs.New(), m), ilptest.Optimum(t, lpsolve.New(), m)
	if math.Abs(x-y) > 1e-6 {
		t.Errorf("HiGHS %g, lp_solve %g", x, y)
	}
}

// What no model can be built for is refused with a reason.
func TestPipelineRefuses(t *testing.T) {
	t.Parallel()
	c := saving(1, [4]float64{1, 1, 1, 1}, [4]float64{1, 1, 1, 1})
	good := platform.Platform{Memory: 20, Bandwidth: 1, Processors: 2}
	for name, p := range map[string]platform.Platform{
		"no processor": {Memory: 20, Bandwidth: 1},
		"no memory":    {Bandwidth: 1, Processors: 2},
		"no bandwidth": {Memory: 20, Processors: 2},
		"copies":       {Memory: 20, Bandwidth: 1, Processors: 2, WeightCopies: -1},
	} {
		if _, err := Patterns(c, p); !errors.Is(err, formulation.ErrInstance) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Patterns(nil, good); !errors.Is(err, formulation.ErrInstance) {
		t.Errorf("no chain: %v", err)
	}
	if _, err := Patterns(saving(0, [4]float64{}), good); !errors.Is(err, formulation.ErrInstance) {
		t.Errorf("no time: %v", err)
	}
	var infeasible *plan.Infeasible
	if _, err := Patterns(saving(1, [4]float64{1, 1, 1, 1}, [4]float64{1, 1, 50, 1}), good); !errors.As(err, &infeasible) ||
		infeasible.Memory < 50 {
		t.Errorf("a layer that fits nowhere: %v", err)
	}
	for _, stages := range [][]plan.Stage{
		nil,
		{{Processor: 0, From: 1, To: 1}},
		{{Processor: 0, From: 1, To: 2}, {Processor: 1, From: 2, To: 2}},
		{{Processor: 2, From: 1, To: 2}},
		{{Processor: -1, From: 1, To: 2}},
	} {
		if _, err := StageILP(c, good, stages, ""); !errors.Is(err, formulation.ErrInstance) {
			t.Errorf("stages %v: %v", stages, err)
		}
	}
}

// The table's entries on random chains with zero times and sizes too.
func TestPipelineFormulations(t *testing.T) {
	t.Parallel()
	for _, f := range Formulations() {
		if f.Promise == formulation.Nothing {
			continue // it keeps none, and shrinking what shows so takes seconds
		}
		r, err := check.Run(t.Context(), f, testcase.Pipeline(), []solvers.Backend{highs.New()},
			check.Options{Cases: testfile.Cases(120), Layers: 2, Seed: 3})
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range r.Failures {
			t.Errorf("%s: %s: %s", f.Name, x.Kind, x.Smallest.String())
		}
		if r.Cases != testfile.Cases(120) || r.Tight < r.Cases/2 {
			t.Errorf("%s: %d cases, %d tight", f.Name, r.Cases, r.Tight)
		}
	}
}
