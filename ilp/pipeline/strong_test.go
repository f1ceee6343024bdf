package pipeline

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"workbench/ilp/formulation"
	"workbench/ilp/ilptest"
	"workbench/model/exhaustive"
	optimum "workbench/model/exhaustive/pipeline"
	"workbench/model/instance/chain"
	"workbench/model/milp"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/testfile"
	"workbench/model/verify"
	"workbench/solvers"
	"workbench/solvers/highs"
	"workbench/solvers/lpsolve"
)

// The strengthened ILP has the shortest period, in both memory models, with its
// own constants and with K, and its solutions are plans. What exhaustive search
// finds is a solution: no row cuts it off.
func TestPipelineStrongEqualsExhaustive(t *testing.T) {
	t.Parallel()
	b := highs.New()
	found := 0
	for seed := range uint64(testfile.Cases(48)) {
		r := rand.New(rand.NewPCG(seed, 12))
		c, p := randomPipeline(r, 1+r.IntN(3))
		model := []string{plan.TaskModel, plan.StageModel}[seed%2]
		want, best, err := optimum.Search(c, p, model, 1e7)
		if err != nil && !errors.Is(err, exhaustive.ErrInfeasible) {
			t.Fatal(err)
		}
		f, buildErr := newPipelineStrong(c, p, model)
		var infeasible *plan.Infeasible
		if errors.As(buildErr, &infeasible) {
			if err == nil {
				t.Errorf("seed %d: no plan fits, but one of period %g does", seed, want)
			}
			continue
		}
		if buildErr != nil {
			t.Fatal(buildErr)
		}
		program := f.program(strongName)
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
		if res.Status != solvers.Optimal || math.Abs(program.Objective(res.Obj)-want) > 1e-5*want {
			t.Errorf("seed %d, %s: %v %g, exhaustive search finds %g", seed, model, res.Status, program.Objective(res.Obj), want)
		}
		x, _ := res.Solution()
		got, err := program.Plan(x)
		if err != nil {
			t.Fatal(err)
		}
		if report := verifiedPattern(t, c, got); math.Abs(report.Makespan-want) > 1e-5*want {
			t.Errorf("seed %d: the plan has %g, exhaustive search finds %g", seed, report.Makespan, want)
		}
		if x, err = program.Start(best); err != nil {
			t.Fatal(err)
		}
		if v := program.Model.Violations(x, 1e-6); len(v) > 0 {
			t.Errorf("seed %d, %s: the best plan is no solution: %v", seed, model, v[0])
		}
	}
	if found < testfile.Cases(25) {
		t.Errorf("only %d instances have plans", found)
	}
}

// Every group beyond [004] can be left out alone: the optimum stays, and the
// relaxation does not become better. That of the plain ILP is worse.
func TestPipelineStrongGroups(t *testing.T) {
	t.Parallel()
	testfile.Long(t)
	b := highs.New()
	less := map[string]int{}
	for seed := range uint64(2) {
		r := rand.New(rand.NewPCG(seed, 13))
		c, p := randomPipeline(r, 3)
		p.Memory *= 1.2
		program, err := Strong(c, p, MemoryOption{})
		if err != nil {
			continue
		}
		want, _, err := optimum.Search(c, p, plan.TaskModel, 1e7)
		if err != nil {
			continue
		}
		whole := relaxed(t, b, program.Model)
		for _, group := range pipelineCuts {
			m, err := program.Model.Without(group)
			if err != nil {
				t.Fatal(err)
			}
			if got := leastPeriod(t, b, m, program.Unit); math.Abs(got-want) > 1e-5*want {
				t.Errorf("seed %d without %s: %g, exhaustive search finds %g", seed, group, got, want)
			}
			if got := relaxed(t, b, m); got > whole*(1+1e-6) {
				t.Errorf("seed %d without %s: the relaxation rises from %g to %g", seed, group, whole, got)
			} else if got < whole*(1-1e-6) {
				less[group]++
			}
		}
		m, err := program.Model.Without(pipelineCuts...)
		if err != nil {
			t.Fatal(err)
		}
		if got := leastPeriod(t, b, m, program.Unit); math.Abs(got-want) > 1e-5*want {
			t.Errorf("seed %d without all: %g, exhaustive search finds %g", seed, got, want)
		}
		plain := ilptest.Must(t, Patterns, c, p).Model
		if relaxed(t, b, plain) > whole*(1-1e-3) {
			t.Errorf("seed %d: the relaxation of the plain ILP is as good", seed)
		}
	}
	if less["load"] == 0 {
		t.Errorf("without loads no relaxation is worse; groups that make a difference: %v", less)
	}
}

// strongest is Strong in the task model of memory.
func strongest(c *chain.Chain, p platform.Platform) (*formulation.Program, error) {
	return Strong(c, p, MemoryOption{})
}

func relaxed(t *testing.T, b solvers.Backend, m *milp.Model) float64 {
	t.Helper()
	r, err := b.Solve(t.Context(), m, solvers.Options{Relax: true})
	if err != nil {
		t.Fatal(err)
	}
	return r.Bound
}

// Both backends agree on the strengthened ILP.
func TestPipelineStrongBackends(t *testing.T) {
	t.Parallel()
	solved := 0
	for seed := range uint64(12) {
		r := rand.New(rand.NewPCG(seed, 14))
		c, p := randomPipeline(r, 1+r.IntN(2))
		program, err := Strong(c, p, MemoryOption{})
		want, _, searched := optimum.Search(c, p, plan.TaskModel, 1e7)
		if err != nil || searched != nil {
			continue
		}
		solved++
		x, y := program.Objective(ilptest.Optimum(t, highs.New(), program.Model)),
			program.Objective(ilptest.Optimum(t, lpsolve.New(), program.Model))
		if math.Abs(x-y) > 1e-5*want || math.Abs(x-want) > 1e-5*want {
			t.Errorf("seed %d: HiGHS %g, lp_solve %g, exhaustive search %g", seed, x, y, want)
		}
	}
	if solved < 6 {
		t.Errorf("only %d instances have plans", solved)
	}
}

// All groups of the table are in the model.
func TestPipelineStrongNames(t *testing.T) {
	t.Parallel()
	c := saving(1, [4]float64{1, 2, 1, 1}, [4]float64{2, 1, 1, 0}, [4]float64{1, 1, 2, 1})
	program := ilptest.Must(t, strongest, c, platform.Platform{Memory: 20, Bandwidth: 4, Processors: 2, WeightCopies: 3})
	var names []string
	for _, g := range program.Model.Groups() {
		names = append(names, g.Name)
	}
	for _, group := range pipelineCuts {
		if !slices.Contains(names, group) {
			t.Errorf("group %q is not in the model", group)
		}
	}
}

// A communication that is not sent takes no part in the constants of the others,
// however long it were: here B_2 ends at T with 40 for B_1 beside it, and a_2 is
// on the link from the period before on, until 1.
func TestPipelineUnsentIsFree(t *testing.T) {
	t.Parallel()
	c := saving(0, [4]float64{1, 1, 40, 0}, [4]float64{1, 1, 2, 0}, [4]float64{1, 1, 0, 0})
	c.Layers[1].Gradient = 0
	p := platform.Platform{Memory: 1000, Bandwidth: 1, Processors: 2}
	period := 4.0
	best := plan.New(plan.Pipeline, "by hand", c, p)
	best.Period, best.MemoryModel = &period, plan.TaskModel
	best.Allocation = []plan.Stage{{Processor: 0, From: 1, To: 2}, {Processor: 1, From: 3, To: 3}}
	best.Ops = []plan.Op{
		{Op: plan.OpF, Layer: 1, Start: 0, End: 1, Resource: "gpu0", Shift: 2},
		{Op: plan.OpF, Layer: 2, Start: 1, End: 2, Resource: "gpu0", Shift: 2},
		{Op: plan.OpF, Layer: 3, Start: 1, End: 2, Resource: "gpu1", Shift: 1},
		{Op: plan.OpB, Layer: 1, Start: 2, End: 3, Resource: "gpu0"},
		{Op: plan.OpB, Layer: 3, Start: 2, End: 3, Resource: "gpu1", Shift: 1},
		{Op: plan.OpCB, Layer: 2, Start: 3, End: 3, Resource: "link0-1", Shift: 1},
		{Op: plan.OpCF, Layer: 2, Start: 3, End: 5, Resource: "link0-1", Shift: 2},
		{Op: plan.OpB, Layer: 2, Start: 3, End: 4, Resource: "gpu0", Shift: 1},
	}
	best.Claims.Makespan = period
	if r, err := verify.Replay(c, best); err != nil || !r.Valid() {
		t.Fatal(err, r.Violations)
	}
	layers := []plan.Stage{{Processor: 0, From: 1, To: 1}, {Processor: 0, From: 2, To: 2}, {Processor: 1, From: 3, To: 3}}
	plain, err := newStageILP(c, p, layers, plan.TaskModel, period)
	if err != nil {
		t.Fatal(err)
	}
	strong, err := newPipelineStrong(c, p, plan.TaskModel)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range []*pipelineILP{plain, strong.pipelineILP} {
		x, err := patternIO{f}.start(best)
		if err != nil {
			t.Fatal(err)
		}
		if v := f.m.Violations(x, 1e-6); len(v) > 0 {
			t.Errorf("%s: the plan is no solution: %v", f.m.Name(), v[0])
		}
	}
}
