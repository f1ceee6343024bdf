package pipeline

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"workbench/model/chain"
	"workbench/model/exhaustive"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/testfile"
	"workbench/solvers"
	"workbench/solvers/highs"
)

// owners calls visit with each allocation of n layers, processors numbered by
// their first layers.
func owners(n, processors int, visit func(owner []int)) {
	owner := make([]int, n)
	var place func(l, used int)
	place = func(l, used int) {
		if l == n {
			visit(owner)
			return
		}
		for r := range min(used+1, processors) {
			owner[l] = r
			place(l+1, max(used, r+1))
		}
	}
	place(0, 0)
}

// placed returns an allocation as runs, and as stages of single layers.
func placed(owner []int) (runs []placedRun, stages []plan.Stage) {
	for l, r := range owner {
		stages = append(stages, plan.Stage{Processor: r, From: l + 1, To: l + 1})
		if l > 0 && owner[l-1] == r {
			runs[len(runs)-1].j = l
		} else {
			runs = append(runs, placedRun{i: l, j: l, processor: r})
		}
	}
	return runs, stages
}

// mayHold reports whether an allocation is a solution of the model.
func mayHold(t *testing.T, f *pipelineAllocation, runs []placedRun) bool {
	t.Helper()
	m := f.m.Clone()
	if f.orLonger {
		m.Fix(f.beyond, 0)
	}
	for _, x := range f.runs {
		used := false
		for _, y := range runs {
			used = used || x.i == y.i && x.j == y.j && x.processor == y.processor
		}
		if !used {
			m.Fix(x.column, 0)
		}
	}
	r, err := highs.New().Solve(t.Context(), m, solvers.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := r.Solution(); !ok && r.Status != solvers.Infeasible {
		t.Fatalf("%s: %v", m.Name(), r.Status)
	}
	return r.Status != solvers.Infeasible
}

// A tinyPipeline is a chain with the least period of each of its allocations.
type tinyPipeline struct {
	c      *chain.Chain
	p      platform.Platform
	model  string
	in     *pipelineInstance
	owner  [][]int
	period []float64 // seconds; +Inf: it does not fit
}

// newTinyPipeline returns nil if the search takes too long.
func newTinyPipeline(t *testing.T, seed uint64, layers int) *tinyPipeline {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 20))
	x := &tinyPipeline{model: []string{plan.TaskModel, plan.StageModel}[seed%2]}
	x.c, x.p = randomPipeline(r, layers)
	if seed%4 >= 2 { // some that take no time
		for i := range x.c.Layers {
			if r.IntN(3) == 0 {
				x.c.Layers[i].ForwardTime = 0
			}
			if r.IntN(4) == 0 {
				x.c.Layers[i].BackwardTime = 0
			}
		}
		x.c.Layers[r.IntN(layers)].ForwardTime = 1
	}
	var err error
	if x.in, err = newPipelineInstance(x.c, x.p, singleLayers(x.c), x.model); err != nil {
		t.Fatal(err)
	}
	short := false
	owners(layers, x.p.Processors, func(owner []int) {
		if short {
			return
		}
		_, stages := placed(owner)
		best, _, err := exhaustive.PipelineOn(x.c, x.p, stages, x.model, 1, 1e5)
		if errors.Is(err, exhaustive.ErrInfeasible) {
			best = math.Inf(1)
		} else if err != nil {
			short = true
		}
		x.owner, x.period = append(x.owner, append([]int{}, owner...)), append(x.period, best)
	})
	if short {
		return nil
	}
	return x
}

// An allocation has a pattern of a period if and only if the model has a
// solution, which is such a pattern.
func TestPipelineOrderEqualsExhaustive(t *testing.T) {
	t.Parallel()
	b := highs.New()
	yes, no := 0, 0
	for seed := range uint64(max(2, testfile.Cases(8))) {
		x := newTinyPipeline(t, seed, 2+int(seed)%3)
		if x == nil {
			continue
		}
		for k, owner := range x.owner {
			runs, _ := placed(owner)
			periods := []float64{x.period[k] * (1 + 1e-6), x.period[k] * (1 - 1e-3), x.period[k] * 1.3}
			if math.IsInf(x.period[k], 1) {
				periods = []float64{x.in.horizon * x.in.time}
			}
			for _, period := range periods {
				master := allocationsUpTo(x.in, period/x.in.time)
				if math.IsInf(master.least[0], 1) { // no run of the first layer fits
					if x.period[k] <= period {
						t.Errorf("seed %d, %v: nothing fits for %g, the least period is %g", seed, owner, period, x.period[k])
					}
					continue
				}
				f := newPipelineOrder(x.in, runs, master.delays(runs), period/x.in.time)
				r, err := b.Solve(t.Context(), f.m, solvers.Options{})
				if err != nil {
					t.Fatal(err)
				}
				values, ok := r.Solution()
				if want := x.period[k] <= period; ok != want {
					t.Errorf("seed %d, %s, %v: %v for %g, the least period is %g", seed, x.model, owner, r.Status, period, x.period[k])
				}
				if !ok {
					no++
					continue
				}
				yes++
				p, err := f.pattern(values).plan("test")
				if err != nil {
					t.Fatal(err)
				}
				if report := verifiedPattern(t, x.c, p); report.Makespan > period*(1+1e-6) || report.Makespan < x.period[k]*(1-1e-6) {
					t.Errorf("seed %d, %v: period %g of at most %g, the least is %g", seed, owner, report.Makespan, period, x.period[k])
				}
			}
		}
	}
	if yes < testfile.Cases(40) || no < testfile.Cases(30) {
		t.Errorf("%d patterns, %d proofs", yes, no)
	}
}

// Cuts exclude the allocations that have no pattern of a period and no other,
// at this period and at shorter ones; and so do the rows of allocations alone.
func TestPipelineCutsEqualExhaustive(t *testing.T) {
	t.Parallel()
	kept, excluded, all, general := 0, 0, 0, 0
	for seed := range uint64(testfile.Cases(64)) {
		x := newTinyPipeline(t, seed+100, 3+int(seed)%3)
		if x == nil {
			continue
		}
		least, most := math.Inf(1), 0.0
		for _, y := range x.period {
			if least = min(least, y); !math.IsInf(y, 1) {
				most = max(most, y)
			}
		}
		if math.IsInf(least, 1) {
			continue
		}
		d, cuts := &Decomposition{in: x.in}, 0
		for _, limit := range []float64{most * 1.1, (least + most) / 2, least * 1.01, least * 0.98} {
			q, err := d.Ask(limit)
			if err != nil {
				t.Fatal(err)
			}
			impossible := func(a Allocation) (bool, error) {
				r, err := highs.New().Solve(t.Context(), q.Patterns(a).Model, solvers.Options{})
				return err == nil && r.Status == solvers.Infeasible, err
			}
			for k, owner := range x.owner {
				runs, _ := placed(owner)
				if x.period[k] <= limit || !mayHold(t, q.f, runs) {
					continue
				}
				if is, err := impossible(runs); !is || err != nil {
					t.Fatalf("seed %d, %v: a pattern of %g, the least is %g: %v", seed, owner, limit, x.period[k], err)
				}
				before := len(d.cuts)
				if err := q.Exclude(runs, impossible); err != nil {
					t.Fatal(err)
				}
				if mayHold(t, q.f, runs) {
					t.Errorf("seed %d, %v: still there at %g after %v", seed, owner, limit, d.cuts[before:])
				}
			}
			all += len(d.cuts) - cuts
			for _, c := range d.cuts[cuts:] {
				for _, y := range c.runs {
					if y.openBack || y.openFront || len(c.runs) == 1 {
						general++
						break
					}
				}
			}
			cuts = len(d.cuts)
			for k, owner := range x.owner {
				runs, _ := placed(owner)
				want := x.period[k] <= limit*(1-1e-6)
				if want {
					kept++
				} else {
					excluded++
				}
				if got := mayHold(t, q.f, runs); got != want && (want || x.period[k] > limit*(1+1e-6)) {
					t.Errorf("seed %d, %s, %v: %v at %g, the least period is %g", seed, x.model, owner, got, limit, x.period[k])
				}
			}
		}
	}
	if kept < testfile.Cases(600) || excluded < testfile.Cases(600) || general < testfile.Cases(5) {
		t.Errorf("%d allocations kept, %d excluded, %d cuts, %d of them general", kept, excluded, all, general)
	}
}
