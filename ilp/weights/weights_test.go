package weights

import (
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"workbench/ilp/check"
	"workbench/ilp/formulation"
	"workbench/ilp/ilptest"
	"workbench/model/chain"
	"workbench/model/cycle"
	"workbench/model/exhaustive"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/solvers"
	"workbench/solvers/highs"
	"workbench/solvers/lpsolve"
)

var update = flag.Bool("update", false, "write the golden files")

// uniform returns L equal layers with the numbers of [001] Table 1: times in
// milliseconds, the transfer one at 12 GB/s, 20 MB of activations a layer at
// batch 16.
func uniform(layers, batch int, u, transfer float64) *chain.Chain {
	a := 20e6 * float64(batch) / 16
	c := &chain.Chain{Name: fmt.Sprintf("uniform-%d-b%d", layers, batch), Input: chain.Input{Activation: a}}
	for range layers {
		c.Layers = append(c.Layers, chain.Layer{ForwardTime: u / 4000, BackwardTime: 3 * u / 4000, Activation: a, Weight: transfer / 1000 * 12e9})
	}
	return c
}

// at returns the platform with a fraction of the memory range of c.
func at(c *chain.Chain, fraction, bandwidth float64) platform.Platform {
	low, high := cycle.Of(c).Range()
	return platform.Platform{Memory: low + fraction*(high-low), Bandwidth: bandwidth}
}

// weightFormulations returns the formulations of weight offloading.
func weightFormulations() []formulation.Formulation {
	return slices.DeleteFunc(Formulations(), func(f formulation.Formulation) bool { return f.Problem != plan.WeightOffload })
}

// Every formulation is built of the smallest example that has both kinds of
// gaps, and its text is what a reader compares with the paper.
func TestGolden(t *testing.T) {
	c := ilptest.Network(1, [4]float64{1, 2, 1, 2}, [4]float64{1, 2, 1, 1})
	p := platform.Platform{Memory: 7, Bandwidth: 1}
	for _, f := range weightFormulations() {
		t.Run(f.Name, func(t *testing.T) {
			m := ilptest.Must(t, f.Build, c, p).Model
			var text strings.Builder
			if err := m.Print(&text); err != nil {
				t.Fatal(err)
			}
			text.WriteString("\n" + m.Stats().String())
			got := text.String()
			file := filepath.Join("testdata", f.Name+".golden")
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(string(want), got); d != "" {
				t.Errorf("-want +got; if this is meant, run with -update:\n%s", d)
			}
		})
	}
}

// A formulation that holds up is no accident of HiGHS: lp_solve gets the same
// optima.
func TestCheckPromises(t *testing.T) {
	both := []solvers.Backend{highs.New(), lpsolve.New()}
	for _, x := range []struct {
		name          string
		backends      []solvers.Backend
		cases, layers int
		tight         float64 // at least this part of the optima is met
	}{
		{"weights", both[:1], 1000, 3, 0.75},
		{"weights", both, 150, 2, 0.75},
		{"weights-nested", both[:1], 1000, 3, 0.9},
		{"weights-nested", both, 150, 2, 0.9},
		{"weights-exact", both[:1], 400, 3, 1},
		{"weights-exact", both, 100, 2, 1},
	} {
		t.Run(fmt.Sprintf("%s/%d/%d", x.name, len(x.backends), x.layers), func(t *testing.T) {
			r, err := check.Run(t.Context(), ilptest.Formulation(t, Formulations(), x.name), x.backends, check.Options{Seed: 1, Cases: x.cases, Layers: x.layers})
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range r.Failures {
				t.Errorf("%s, %d times:\n%s", f.Kind, f.Count, f.Smallest.String())
			}
			if r.Cases != x.cases || r.Skipped > x.cases/100 || float64(r.Tight) < x.tight*float64(r.Cases-r.Skipped) {
				t.Errorf("%d cases, %d skipped, %d tight", r.Cases, r.Skipped, r.Tight)
			}
		})
	}
}

// findings 1: with (4) as printed, the model is infeasible on 51 % of small
// instances and above the optimum on 9 %; with (6) as printed, too, nothing may
// ever leave. The check says so, with small examples.
func TestCheckFindsMisprints(t *testing.T) {
	for name, want := range map[string]map[check.FailureKind]int{ // at least, per cent
		"weights-printed":        {check.NoSolution: 80},
		"weights-printed-memory": {check.NoSolution: 40, check.Above: 5},
	} {
		r, err := check.Run(t.Context(), ilptest.Formulation(t, Formulations(), name), []solvers.Backend{highs.New()}, check.Options{Seed: 2, Cases: 300})
		if err != nil {
			t.Fatal(err)
		}
		found := map[check.FailureKind]check.Failure{}
		for _, f := range r.Failures {
			found[f.Kind] = f
		}
		for kind, percent := range want {
			f := found[kind]
			if 100*f.Count < percent*r.Cases {
				t.Errorf("%s: %d of %d are %s, want %d %%", name, f.Count, r.Cases, kind, percent)
				continue
			}
			t.Logf("%s: %d of %d are %s:\n%s", name, f.Count, r.Cases, kind, f.Smallest.String())
			x := f.Smallest
			size := x.Platform.Memory + x.Chain.TotalTime()
			for _, l := range x.Chain.Layers {
				size += l.Weight + l.Activation
			}
			if x.Chain.Len() > 2 || size > 20 {
				t.Errorf("%s: not shrunk:\n%s", name, x.String())
			}
		}
	}
}

// findings 1, the example: one layer of weight 1 in a memory of 2.
func TestPrintedCountsOwnWeightTwice(t *testing.T) {
	c, p := ilptest.Network(0, [4]float64{1, 1, 0, 1}), platform.Platform{Memory: 2, Bandwidth: 1}
	r, err := highs.New().Solve(t.Context(), ilptest.Must(t, Printed, c, p).Model, solvers.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if r.Status != solvers.Infeasible {
		t.Errorf("as printed: %v, want infeasible", r.Status)
	}
	if got := ilptest.Optimum(t, highs.New(), ilptest.Must(t, Paper, c, p).Model); !check.Same(got, 2) {
		t.Errorf("corrected: %g, want 2", got)
	}
}

// The compact form has the optimum of the paper's, once no part of a weight is
// deleted twice.
func TestNestedEqualsPaper(t *testing.T) {
	b := highs.New()
	r := rand.New(rand.NewPCG(5, 6))
	stronger := 0
	for n := range 200 {
		x := check.RandomInstance(r, 1+n%6)
		in, err := newWeightInstance(x.Chain, x.Platform)
		if err != nil {
			t.Fatal(err)
		}
		paper := ilptest.Optimum(t, b, buildWeights(in, tightened).Model)
		nested := ilptest.Must(t, Nested, x.Chain, x.Platform).Model
		plain, err := nested.Without(ilptest.Formulation(t, Formulations(), "weights-nested").Extra...)
		if err != nil {
			t.Fatal(err)
		}
		if got := ilptest.Optimum(t, b, plain); !check.Same(got, paper) {
			t.Errorf("case %d: paper %g, nested %g\n%s", n, paper, got, x)
		}
		if ilptest.Optimum(t, b, nested) > paper+1e-3 {
			stronger++
		}
	}
	if stronger < 20 {
		t.Errorf("strengthened in %d cases only", stronger)
	}
}

// deletedOnce is worth something: [001] (6) lets one half of a weight leave
// twice.
func TestDeletedOnce(t *testing.T) {
	c, p := ilptest.Network(1, [4]float64{0, 1, 0, 2}, [4]float64{0, 1, 0, 3}), platform.Platform{Memory: 8, Bandwidth: 1}
	in, err := newWeightInstance(c, p)
	if err != nil {
		t.Fatal(err)
	}
	for variant, want := range map[weightsVariant]float64{corrected: 3, tightened: 4} {
		if got := ilptest.Optimum(t, highs.New(), buildWeights(in, variant).Model); !check.Same(got, want) {
			t.Errorf("variant %d: %g, want %g", variant, got, want)
		}
	}
}

// Optima scale with the units, and the models are built in units of their own.
func TestUnits(t *testing.T) {
	c, p := ilptest.Network(1, [4]float64{1, 2, 1, 2}, [4]float64{1, 2, 1, 3}), platform.Platform{Memory: 9, Bandwidth: 1}
	scaled := ilptest.Network(1)
	for _, l := range c.Layers {
		scaled.Layers = append(scaled.Layers, chain.Layer{
			ForwardTime: l.ForwardTime * 1e-3, BackwardTime: l.BackwardTime * 1e-3,
			Activation: l.Activation * 1e9, Weight: l.Weight * 1e9,
		})
	}
	scaled.Input.Activation *= 1e9
	for _, f := range weightFormulations()[2:] {
		want := ilptest.Optimum(t, highs.New(), ilptest.Must(t, f.Build, c, p).Model)
		got := ilptest.Optimum(t, highs.New(), ilptest.Must(t, f.Build, scaled, platform.Platform{Memory: 9e9, Bandwidth: 1e12}).Model)
		if !check.Same(got*1e3, want) {
			t.Errorf("%s: %g, want %g", f.Name, got*1e3, want)
		}
	}
}

// [001] Table 1, two rows: the bound is Σu at 12 GB/s and more where the links
// are slow, and more again with every group that [001] does not have.
func TestBoundOfTable1(t *testing.T) {
	c := uniform(38, 32, 11840./38, 35.95)
	b := highs.New()
	sum := cycle.Of(c).Compute()
	for _, fraction := range []float64{0.1, 0.3, 0.6} {
		got, err := SolveBound(t.Context(), b, c, at(c, fraction, 12e9), nil, solvers.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if !check.Same(got.Value, sum) || got.Result.Status != solvers.Optimal {
			t.Errorf("12 GB/s, %g: bound %g, %v, want Σu = %g", fraction, got.Value, got.Result.Status, sum)
		}
	}
	p := at(c, 0.3, 1e9)
	full, err := SolveBound(t.Context(), b, c, p, nil, solvers.Options{})
	if err != nil {
		t.Fatal(err)
	}
	away := 0
	for _, a := range full.Hint.Away {
		if a {
			away++
		}
	}
	if need := c.Len() / 2; away < need || len(full.Hint.Idle) != 2*c.Len() {
		t.Errorf("hint: %d gaps, want more than %d", away, need)
	}
	relaxed, err := SolveBound(t.Context(), b, c, p, nil, solvers.Options{Relax: true})
	if err != nil {
		t.Fatal(err)
	}
	if !(relaxed.Value > sum && relaxed.Value <= full.Value && relaxed.Hint == nil) {
		t.Errorf("1 GB/s: Σu %g, LP %g, MILP %g", sum, relaxed.Value, full.Value)
	}
	for _, group := range []string{"whole weights", "in flight"} {
		m, err := ilptest.Must(t, Nested, c, p).Model.Without(group)
		if err != nil {
			t.Fatal(err)
		}
		if got := ilptest.Optimum(t, b, m); got >= full.Value*(1-1e-3) {
			t.Errorf("without %q: %g, with all groups %g", group, got, full.Value)
		}
	}
}

// A plan that meets the bound proves it at once, and a complete start is taken
// as it is.
func TestStartProves(t *testing.T) {
	c := ilptest.Network(0, [4]float64{4, 4, 0, 1}, [4]float64{4, 4, 0, 1}, [4]float64{4, 4, 0, 1})
	p := platform.Platform{Memory: 3, Bandwidth: 1}
	best, pl, err := exhaustive.WeightOffload(c, p, check.States)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range weightFormulations()[2:] {
		program := ilptest.Must(t, f.Build, c, p)
		x, err := program.Start(pl)
		if err != nil {
			t.Fatal(err)
		}
		r, err := highs.New().Solve(t.Context(), program.Model, solvers.Options{Start: x})
		if err != nil {
			t.Fatal(err)
		}
		if r.Start != solvers.StartAccepted || r.Status != solvers.Optimal || r.Obj > best+1e-6 {
			t.Errorf("%s: start %v, %v, %g; plan %g", f.Name, r.Start, r.Status, r.Obj, best)
		}
	}
}

func TestBadStarts(t *testing.T) {
	c, p := ilptest.Network(0, [4]float64{1, 1, 0, 1}, [4]float64{1, 1, 0, 1}), platform.Platform{Memory: 3, Bandwidth: 1}
	period := 8.
	op := func(kind string, layer int, start float64) plan.Op {
		o := plan.Op{Op: kind, Layer: layer, Start: start, End: start + 1}
		if kind != plan.OpF && kind != plan.OpB {
			o.Tensor = plan.TensorW
		}
		return o
	}
	all := []plan.Op{op(plan.OpB, 2, 0), op(plan.OpB, 1, 2), op(plan.OpF, 1, 4), op(plan.OpF, 2, 6)}
	for name, x := range map[string]*plan.Plan{
		"nil":          nil,
		"other":        {Problem: "remat", Period: &period, Ops: all},
		"no period":    {Problem: plan.WeightOffload, Ops: all},
		"missing":      {Problem: plan.WeightOffload, Period: &period, Ops: all[1:]},
		"layer":        {Problem: plan.WeightOffload, Period: &period, Ops: append(all[:4:4], op(plan.OpF, 3, 7))},
		"out of order": {Problem: plan.WeightOffload, Period: &period, Ops: []plan.Op{all[0], op(plan.OpF, 1, 2), op(plan.OpB, 1, 4), all[3]}},
		"no prefetch":  {Problem: plan.WeightOffload, Period: &period, Ops: append(all[:4:4], op(plan.OpO, 2, 1), op(plan.OpD, 2, 2))},
		"no upload":    {Problem: plan.WeightOffload, Period: &period, Ops: append(all[:4:4], op(plan.OpD, 2, 2), op(plan.OpP, 2, 4))},
	} {
		for _, f := range weightFormulations() {
			if _, err := ilptest.Must(t, f.Build, c, p).Start(x); !errors.Is(err, formulation.ErrStart) {
				t.Errorf("%s, %s: error %v, want %v", name, f.Name, err, formulation.ErrStart)
			}
		}
	}
}

// A plan that prefetches twice in one gap and uploads twice in a cycle is a
// start all the same, in normal form.
func TestStartNormalForm(t *testing.T) {
	c := ilptest.Network(0, [4]float64{1, 1, 0, 1}, [4]float64{9, 9, 0, 1})
	p := platform.Platform{Memory: 4, Bandwidth: 1}
	period := 20.
	pl := &plan.Plan{
		Problem: plan.WeightOffload, Period: &period, Platform: p,
		Ops: []plan.Op{
			{Op: plan.OpB, Layer: 2, Start: 3, End: 12},
			{Op: plan.OpB, Layer: 1, Start: 12, End: 13},
			{Op: plan.OpF, Layer: 1, Start: 13, End: 14},
			{Op: plan.OpF, Layer: 2, Start: 14, End: 23},
			{Op: plan.OpO, Tensor: plan.TensorW, Layer: 1, Start: 14, End: 15},
			{Op: plan.OpD, Tensor: plan.TensorW, Layer: 1, Start: 15, End: 15},
			{Op: plan.OpP, Tensor: plan.TensorW, Layer: 1, Start: 15, End: 16},
			{Op: plan.OpO, Tensor: plan.TensorW, Layer: 1, Start: 17, End: 18},
			{Op: plan.OpD, Tensor: plan.TensorW, Layer: 1, Start: 19, End: 19},
			{Op: plan.OpP, Tensor: plan.TensorW, Layer: 1, Start: 4, End: 5},
		},
	}
	r, err := plan.Verify(c, pl)
	if err != nil || !r.Valid() {
		t.Fatalf("%v %+v", err, r)
	}
	for _, f := range weightFormulations()[2:] {
		program := ilptest.Must(t, f.Build, c, p)
		x, err := program.Start(pl)
		if err != nil {
			t.Fatal(err)
		}
		if v := program.Model.Violations(x, 1e-9); len(v) > 0 {
			t.Errorf("%s: %v", f.Name, v)
		}
		if got := program.Model.Objective(x); !check.Same(got, period) {
			t.Errorf("%s: objective %g, want %g", f.Name, got, period)
		}
		if got, want := program.Hint(x).Away, []bool{false, true, false, false}; !cmp.Equal(got, want) {
			t.Errorf("%s: away %v, want %v", f.Name, got, want)
		}
	}
}

func TestUnfit(t *testing.T) {
	one := ilptest.Network(0, [4]float64{1, 1, 0, 1})
	good := platform.Platform{Memory: 2, Bandwidth: 1}
	for name, x := range map[string]struct {
		c *chain.Chain
		p platform.Platform
	}{
		"nil":          {nil, good},
		"empty":        {ilptest.Network(0), good},
		"memory":       {one, platform.Platform{Memory: math.NaN(), Bandwidth: 1}},
		"bandwidth":    {one, platform.Platform{Memory: 2}},
		"no time":      {ilptest.Network(0, [4]float64{0, 0, 0, 1}), good},
		"infinite":     {one, platform.Platform{Memory: math.Inf(1), Bandwidth: 1}},
		"no link":      {one, platform.Platform{Memory: 2, Bandwidth: -1}},
		"infinite one": {one, platform.Platform{Memory: 2, Bandwidth: math.Inf(1)}},
	} {
		for _, f := range weightFormulations() {
			if _, err := f.Build(x.c, x.p); !errors.Is(err, formulation.ErrInstance) {
				t.Errorf("%s, %s: error %v, want %v", name, f.Name, err, formulation.ErrInstance)
			}
		}
	}
	for why, x := range map[string]struct {
		c      *chain.Chain
		memory float64
		least  float64
	}{
		"B_1 needs its weight, its gradient": {one, 1.5, 2},
		"F_2 needs its weight":               {ilptest.Network(1, [4]float64{1, 1, 1, 0}, [4]float64{1, 1, 7, 0}), 5, 9},
		"must be there before B_2 releases":  {ilptest.Network(0, [4]float64{1, 1, 1, 5}, [4]float64{1, 1, 9, 0}), 12, 15},
	} {
		for _, f := range weightFormulations() {
			_, err := f.Build(x.c, platform.Platform{Memory: x.memory, Bandwidth: 1})
			var infeasible *plan.Infeasible
			if why == "F_2 needs its weight" {
				why = "needs its weight"
			}
			if !errors.As(err, &infeasible) || infeasible.Memory != x.least || !strings.Contains(infeasible.Why, why) {
				t.Errorf("%s, %s: %v", why, f.Name, err)
			}
		}
	}
	long := uniform(ExactLayers+1, 16, 100, 10)
	endless := &chain.Chain{Layers: slices.Repeat(long.Layers[:1], MostLayers+1)}
	for _, f := range weightFormulations() {
		if _, err := f.Build(endless, at(endless, 0.5, 12e9)); !errors.Is(err, formulation.ErrTooLong) {
			t.Errorf("%s: error %v, want %v", f.Name, err, formulation.ErrTooLong)
		}
	}
	if _, err := Exact(long, at(long, 0.5, 12e9)); !errors.Is(err, formulation.ErrTooLong) {
		t.Errorf("error %v, want %v", err, formulation.ErrTooLong)
	}
	if _, _, err := SolveExact(t.Context(), highs.New(), long, at(long, 0.5, 12e9), nil, solvers.Options{}); !errors.Is(err, formulation.ErrTooLong) {
		t.Errorf("error %v, want %v", err, formulation.ErrTooLong)
	}
	if _, err := check.Run(t.Context(), formulation.Formulation{Problem: "remat"}, nil, check.Options{}); !errors.Is(err, formulation.ErrInstance) {
		t.Errorf("error %v, want %v", err, formulation.ErrInstance)
	}
	if _, err := check.Run(t.Context(), Formulations()[0], nil, check.Options{Layers: 9}); !errors.Is(err, formulation.ErrInstance) {
		t.Errorf("error %v, want %v", err, formulation.ErrInstance)
	}
}

// The exact MILP finds a verified plan, of a period that no bound exceeds.
func TestSolveWeightExact(t *testing.T) {
	c := uniform(4, 32, 320, 35.95)
	for _, x := range []struct{ fraction, beta float64 }{{0.2, 12e9}, {0.2, 2e9}, {0.5, 2e9}} {
		p := at(c, x.fraction, x.beta)
		best, bound, err := SolveExact(t.Context(), highs.New(), c, p, nil, solvers.Options{})
		if err != nil {
			t.Fatal(err)
		}
		r, err := plan.Verify(c, best)
		if err != nil {
			t.Fatal(err)
		}
		if !r.Valid() || len(r.ClaimErrors) > 0 {
			t.Errorf("%v: %v %v", x, r.Violations, r.ClaimErrors)
		}
		if bound.Value > *best.Period || !check.Same(bound.Value, *best.Period) {
			t.Errorf("%v: plan %g, bound %g by %s", x, *best.Period, bound.Value, bound.By)
		}
		again, _, err := SolveExact(t.Context(), highs.New(), c, p, best, solvers.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if !check.Same(*again.Period, *best.Period) {
			t.Errorf("%v: %g from its own plan, %g before", x, *again.Period, *best.Period)
		}
	}
}

// Searching all subsets gives the same least sum.
func TestLeastWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := rapid.SliceOfN(rapid.SampledFrom([]float64{0, 0.25, 0.375, 1}), 1, 9).Draw(t, "w")
		own := rapid.IntRange(0, len(w)-1).Draw(t, "own")
		need := rapid.Float64Range(-1, 8).Draw(t, "need")
		want := math.Inf(1)
		for set := range 1 << len(w) {
			sum := 0.0
			for k, x := range w {
				if set>>k&1 == 1 && k != own {
					sum += x
				}
			}
			if sum >= need-1e-9 {
				want = min(want, max(sum, need, 0))
			}
		}
		if got := leastWhole(w, own, need); math.Abs(got-want) > 1e-8 && got != want {
			t.Fatalf("leastWhole(%v, %d, %g) = %g, want %g", w, own, need, got, want)
		}
	})
	many := make([]float64, 60)
	for k := range many {
		many[k] = 1 + float64(k)/100
	}
	if got := leastWhole(many, 0, 7.123); got != 7.123 {
		t.Errorf("sixty sizes: %g, want no rounding", got)
	}
}

func BenchmarkBuild(b *testing.B) {
	c := uniform(144, 16, 9090./144, 13.6)
	p := at(c, 0.3, 12e9)
	for _, f := range weightFormulations() {
		if f.Promise == formulation.Equal {
			continue // too long for it
		}
		b.Run(f.Name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				ilptest.Must(b, f.Build, c, p)
			}
		})
	}
}

// BenchmarkSolve solves rows of [001] Table 1 at 30 % of the memory range.
func BenchmarkSolve(b *testing.B) {
	for _, x := range []struct {
		layers, batch int
		u, transfer   float64
		beta          float64
	}{
		{74, 64, 47421. / 74, 35.95, 12e9},
		{74, 16, 11612. / 74, 35.95, 12e9},
		{144, 16, 9090. / 144, 13.6, 12e9},
		{74, 16, 11612. / 74, 35.95, 1e9},
	} {
		c := uniform(x.layers, x.batch, x.u, x.transfer)
		b.Run(fmt.Sprintf("%s-%gGBps", c.Name, x.beta/1e9), func(b *testing.B) {
			for b.Loop() {
				ilptest.Optimum(b, highs.New(), ilptest.Must(b, Nested, c, at(c, 0.3, x.beta)).Model)
			}
		})
	}
}
