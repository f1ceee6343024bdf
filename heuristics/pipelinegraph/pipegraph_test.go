package pipelinegraph_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"workbench/heuristics/pipeline"
	"workbench/heuristics/pipelinegraph"
	"workbench/model/exhaustive"
	optimum "workbench/model/exhaustive/pipeline"
	"workbench/model/importer"
	"workbench/model/instance/chain"
	"workbench/model/instance/graph"
	"workbench/model/plan"
	"workbench/model/platform"
	view "workbench/model/problem/pipeline"
	"workbench/model/problem/pipeline/ideals"
	"workbench/model/testcase"
	"workbench/model/testcase/random"
	"workbench/model/testfile"
	"workbench/model/verify"
)

// Plans are plans of the graph, and nothing is better than what exhaustive search over
// all orders finds; mostly nothing is worse, either.
func TestAgainstExhaustive(t *testing.T) {
	r := testfile.Random(t, 3, 18)
	trials := testcase.GraphPipeline()
	plans, optimal, infeasible := 0, 0, 0
	for range testfile.Cases(400) {
		x, err := trials.Random(r, 1+r.IntN(3))
		if err != nil {
			t.Fatal(err)
		}
		want, _, err := optimum.SearchGraph(x.Graph(), x.Platform, plan.TaskModel, 1, 20000)
		if errors.Is(err, exhaustive.ErrLimit) {
			continue
		}
		v, failed := ideals.New(x.Graph())
		if failed != nil {
			t.Fatal(failed)
		}
		lattice, failed := v.Lattice(pipelinegraph.MostIdeals)
		if failed != nil {
			t.Fatal(failed)
		}
		if known := v.Infeasible(x.Platform, plan.TaskModel, lattice); known != nil && err == nil {
			t.Fatalf("%v, and there is a plan\n%s", known, trials.Text(x, nil))
		}
		if v.Infeasible(x.Platform, plan.TaskModel, lattice) != nil {
			infeasible++
		}
		if err == nil && v.Largest() > want {
			t.Fatalf("the largest layer takes %g, there is a period of %g", v.Largest(), want)
		}
		o := pipeline.Options{}
		if runs := lattice.Runs(x.Platform); err == nil && runs > want {
			t.Fatalf("runs take %g, there is a period of %g\n%s", runs, want, trials.Text(x, nil))
		}
		p, _, failed := pipelinegraph.Plan(t.Context(), v, lattice, x.Platform, o, pipeline.SearchOnePeriodic)
		if failed != nil {
			if !errors.Is(failed, plan.ErrNoPlan) {
				t.Fatal(failed)
			}
			continue
		}
		report, failed := verify.Replay(x.Graph(), p)
		if failed != nil || !report.Valid() || len(report.ClaimErrors) > 0 {
			t.Fatalf("%v %+v\n%s", failed, report, trials.Text(x, nil))
		}
		if err != nil || report.Makespan < want*(1-plan.Tolerance) {
			t.Fatalf("a plan of %g, exhaustive search has %g (%v)\n%s", report.Makespan, want, err, trials.Text(x, nil))
		}
		plans++
		if report.Makespan <= want*(1+plan.Tolerance) {
			optimal++
		}
	}
	t.Logf("%d of %d plans are optimal, %d instances are known to have none", optimal, plans, infeasible)
	if plans < testfile.Cases(100) || optimal < plans*9/10 || infeasible < testfile.Cases(10) {
		t.Errorf("%d of %d plans are optimal, %d instances are known to have none", optimal, plans, infeasible)
	}
}

// The least memory of contiguous stages is that with which exhaustive search over all
// orders finds a plan of such stages, there is one in it, and one unit below there is at
// most one that gives a processor several stages.
func TestLeastContiguous(t *testing.T) {
	r := testfile.Random(t, 7, 18)
	trials := testcase.GraphPipeline()
	judged, reordered, apart := 0, 0, 0
	for range max(100, testfile.Cases(400)) {
		x, err := trials.Random(r, 1+r.IntN(3))
		if err != nil {
			t.Fatal(err)
		}
		v, err := ideals.New(x.Graph())
		if err != nil {
			t.Fatal(err)
		}
		lattice, err := v.Lattice(pipelinegraph.MostIdeals)
		if err != nil {
			t.Fatal(err)
		}
		model := []string{plan.TaskModel, plan.StageModel}[r.IntN(2)]
		p, o := x.Platform, pipeline.Options{Model: model}
		need := func(order []int, stages []plan.Stage) float64 {
			in, err := view.New(v.Chain(order, ideals.Stages, stages), p, model)
			if err != nil {
				t.Fatal(err)
			}
			return in.OneAtATime(stages)
		}
		least := need(lattice.LeastContiguous(p, model, nil))
		if least < 2 {
			continue
		}
		p.Memory = least
		found, _, err := pipelinegraph.Plan(t.Context(), v, lattice, p, o, pipeline.OneFOneBStar)
		if err != nil {
			t.Fatalf("%v at the least memory\n%s", err, trials.Text(x, nil))
		}
		if report, err := verify.Replay(x.Graph(), found); err != nil || !report.Valid() || len(report.ClaimErrors) > 0 {
			t.Fatalf("%v %+v\n%s", err, report, trials.Text(x, nil))
		}
		inFile, err := view.New(v.Chain(v.Order(), ideals.Each, nil), p, model)
		if err != nil {
			t.Fatal(err)
		}
		if old := inFile.LeastContiguous(); old < least {
			t.Fatalf("%g, in the order of the file %g", least, old)
		} else if old > least {
			reordered++
		}
		p.Memory--
		_, below, err := optimum.SearchGraph(x.Graph(), p, model, 1, 20000)
		if errors.Is(err, exhaustive.ErrLimit) {
			continue
		}
		judged++
		if err == nil {
			on := map[int]bool{}
			for k, s := range below.Allocation {
				if k > 0 && on[s.Processor] {
					apart++
					break
				}
				on[s.Processor] = true
				if k == len(below.Allocation)-1 {
					t.Fatalf("%g is the least, contiguous stages in %g: %+v\n%s", least, p.Memory, below, trials.Text(x, nil))
				}
			}
		}
	}
	t.Logf("%d judged, %d need more in the order of the file, %d less where a processor has several stages", judged, reordered, apart)
	if judged < testfile.Cases(300) || reordered < testfile.Cases(50) {
		t.Errorf("%d judged, %d need more in the order of the file", judged, reordered)
	}
}

// No pattern of one to three mini-batches a period, in any order, is faster than what is
// held allows, where there is hardly more memory than the best 1-periodic pattern needs or
// less; and often it is what bounds it.
func TestHeldBoundsKPeriodic(t *testing.T) {
	r := testfile.Random(t, 5, 18)
	trials := testcase.GraphPipeline()
	judged, binds, near := [4]int{}, 0, 0
	for range testfile.Cases(120) {
		x, err := trials.Random(r, 1+r.IntN(3))
		if err != nil {
			t.Fatal(err)
		}
		model := []string{plan.TaskModel, plan.StageModel}[r.IntN(2)]
		p := x.Platform
		p.Processors = 2 + r.IntN(2)
		p.Memory = 1e6
		_, free, err := optimum.SearchGraph(x.Graph(), p, model, 1, 4000)
		if err != nil {
			continue
		}
		p.Memory = free.Claims.PeakMemory - float64(r.IntN(3))
		v, err := ideals.New(x.Graph())
		if err != nil {
			t.Fatal(err)
		}
		whole, err := v.Lattice(pipelinegraph.MostIdeals)
		if err != nil {
			t.Fatal(err)
		}
		held := whole.Held(p, model == plan.TaskModel)
		apart := 0.0 // with a lattice that leaves ideals out
		if coarse, err := v.Lattice(max(2, whole.Len()-1)); err == nil {
			apart = coarse.Held(p, model == plan.TaskModel)
		}
		for k := 1; k <= 3; k++ {
			best, _, err := optimum.SearchGraph(x.Graph(), p, model, k, []int{0, 4000, 4000, 2000}[k])
			if err != nil {
				continue
			}
			judged[k]++
			if limit := best * (1 + 2*optimum.Closeness); held > limit || apart > limit {
				t.Fatalf("%s model, %d a period: %g, by a coarse lattice %g; there is a pattern of %g\n%+v\n%s", model, k, held, apart, best, p,
					trials.Text(x, nil))
			}
			if k == 1 && held > max(v.Largest(), x.Graph().TotalTime()/float64(p.Processors))*(1+1e-9) {
				binds++
				if held > 0.95*best {
					near++
				}
			}
		}
	}
	t.Logf("%v judged by k, %d bound by what is held, %d of these within 5 %%", judged, binds, near)
	if judged[1] < testfile.Cases(60) || judged[2] < testfile.Cases(40) || judged[3] < testfile.Cases(30) || binds < testfile.Cases(20) {
		t.Errorf("%v judged by k, %d bound by what is held", judged, binds)
	}
}

// The load is that of the best chain of ideals.
func TestBalanced(t *testing.T) {
	r := testfile.Random(t, 4, 18)
	for range testfile.Cases(200) {
		g := random.Graph(r, 1+r.IntN(5))
		for i := range g.Nodes {
			g.Nodes[i].Time++
		}
		p := platform.Platform{Processors: 1 + r.IntN(3), Bandwidth: []float64{0.5, 1, 4}[r.IntN(3)]}
		v, err := ideals.New(g)
		if err != nil {
			t.Fatal(err)
		}
		lattice, err := v.Lattice(1 << 12)
		if err != nil {
			t.Fatal(err)
		}
		want := leastLoad(lattice, p, 0, p.Processors)
		if _, got := pipelinegraph.Balanced(lattice, p); math.Abs(got-want) > plan.Tolerance*want {
			t.Fatalf("%g, the best is %g", got, want)
		}
	}
}

// With replicas, too.
func TestReplicated(t *testing.T) {
	r := testfile.Random(t, 6, 18)
	several := 0
	for range testfile.Cases(200) {
		g := random.Graph(r, 1+r.IntN(4))
		for i := range g.Nodes {
			g.Nodes[i].Time++
			g.Nodes[i].Weight = float64(r.IntN(4))
		}
		p := platform.Platform{Processors: 2 + r.IntN(3), Bandwidth: []float64{0.5, 1, 4}[r.IntN(3)], Replicas: true}
		v, err := ideals.New(g)
		if err != nil {
			t.Fatal(err)
		}
		lattice, err := v.Lattice(1 << 12)
		if err != nil {
			t.Fatal(err)
		}
		want := leastReplicated(lattice, p, 0, p.Processors)
		chosen, got := pipelinegraph.Replicated(lattice, p)
		if math.Abs(got-want) > plan.Tolerance*want || len(chosen) == 0 || chosen[len(chosen)-1] != lattice.Len()-1 {
			t.Fatalf("%v %g, the best is %g", chosen, got, want)
		}
		if straight := leastLoad(lattice, p, 0, p.Processors); want < straight*(1-plan.Tolerance) {
			several++
		}
	}
	if several < testfile.Cases(40) {
		t.Errorf("replicas are of use in %d cases", several)
	}
}

// A second lattice, finer near the cuts of the first, never has a larger load, and often a
// smaller one.
func TestBalancedIsRefined(t *testing.T) {
	r := testfile.Random(t, 8, 18)
	better := 0
	for range testfile.Cases(300) {
		g := random.Graph(r, 5+r.IntN(5))
		for i := range g.Nodes {
			g.Nodes[i].Time++
		}
		p := platform.Platform{Processors: 2 + r.IntN(2), Bandwidth: []float64{0.5, 1, 4}[r.IntN(3)]}
		v, err := ideals.New(g)
		if err != nil {
			t.Fatal(err)
		}
		coarse, err := v.Lattice(6 + r.IntN(6))
		if err != nil {
			continue
		}
		chosen, load := pipelinegraph.Balanced(coarse, p)
		near := coarse.Near(chosen, 12, nil)
		if near == nil {
			continue
		}
		_, again := pipelinegraph.Balanced(near, p)
		if again > load*(1+plan.Tolerance) {
			t.Fatalf("%g, without the second lattice %g", again, load)
		}
		if again < load*(1-plan.Tolerance) {
			better++
		}
	}
	if better < testfile.Cases(20) {
		t.Errorf("better in %d cases", better)
	}
}

// Where PipeDream's stages on several processors are too much work to look for, they give no
// order: it used to be one without layers.
func TestTooManyToReplicate(t *testing.T) {
	g := &graph.Graph{Name: "three chains"}
	const chains, length = 3, 8
	for i := range chains * length {
		g.Nodes = append(g.Nodes, graph.Node{ID: fmt.Sprint("f", i), Kind: graph.Forward, Time: 1, Memory: 1})
		if i%length > 0 {
			g.Edges = append(g.Edges, graph.Edge{From: i - 1, To: i})
		}
	}
	loss := len(g.Nodes)
	g.Nodes = append(g.Nodes, graph.Node{ID: "loss", Kind: graph.Loss})
	for i := loss - 1; i >= 0; i-- {
		g.Nodes = append(g.Nodes, graph.Node{ID: fmt.Sprint("b", i), Kind: graph.Backward, Time: 2})
		from := 2*loss - i - 1 // the backward of its only reader
		if i%length == length-1 {
			g.Edges = append(g.Edges, graph.Edge{From: i, To: loss})
			from = loss
		}
		g.Edges = append(g.Edges, graph.Edge{From: from, To: 2*loss - i})
	}
	v, err := ideals.New(g)
	if err != nil {
		t.Fatal(err)
	}
	lattice, err := v.Lattice(pipelinegraph.MostIdeals)
	if err != nil {
		t.Fatal(err)
	}
	p := platform.Platform{Memory: 1 << 30, Bandwidth: 1, Processors: 128, WeightCopies: 3, Replicas: true}
	if chosen, _ := pipelinegraph.Replicated(lattice, p); chosen != nil {
		t.Fatal("it is not too much work: choose another example")
	}
	_, _, err = pipelinegraph.Plan(t.Context(), v, lattice, p, pipeline.Options{},
		func(c *chain.Chain, _ platform.Platform, _ pipeline.Options) (*plan.Plan, error) {
			for l := range c.Layers[:v.N-1] {
				if c.Layers[l].ForwardTime != 1 {
					t.Errorf("layer %d of an order takes %g s", l+1, c.Layers[l].ForwardTime)
				}
			}
			return nil, plan.ErrNoPlan
		})
	if err != nil { // one mini-batch at a time fits
		t.Error(err)
	}
}

// Where a method was stopped, or an order had no time, that is said, though time is left in
// the end; and nothing else is.
func TestCutIsSaid(t *testing.T) {
	x, err := testcase.GraphPipeline().Random(testfile.Random(t, 5, 18), 3)
	if err != nil {
		t.Fatal(err)
	}
	v, err := ideals.New(x.Graph())
	if err != nil {
		t.Fatal(err)
	}
	lattice, err := v.Lattice(pipelinegraph.MostIdeals)
	if err != nil {
		t.Fatal(err)
	}
	p := x.Platform
	p.Memory = 1 << 40
	slow := func(c *chain.Chain, p platform.Platform, o pipeline.Options) (*plan.Plan, error) {
		if o.Stop != nil {
			<-o.Stop
		}
		return pipeline.OneFOneBStar(c, p, pipeline.Options{})
	}
	for name, x := range map[string]struct {
		methods []pipelinegraph.Method
		limit   time.Duration
		cut     bool
	}{
		"a slow method":        {[]pipelinegraph.Method{slow}, 200 * time.Millisecond, true},
		"and a quick one":      {[]pipelinegraph.Method{slow, pipeline.OneFOneBStar}, 200 * time.Millisecond, true},
		"the slow one later":   {[]pipelinegraph.Method{pipeline.OneFOneBStar, slow, pipeline.OneFOneBStar}, 200 * time.Millisecond, true},
		"quick ones with time": {[]pipelinegraph.Method{pipeline.OneFOneBStar, pipeline.KPeriodic}, time.Hour, false},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), x.limit)
		found, cut, err := pipelinegraph.Plan(ctx, v, lattice, p, pipeline.Options{}, x.methods...)
		cancel()
		if err != nil || found == nil || cut != x.cut {
			t.Errorf("%s: plan %v, cut %v, want %v: %v", name, found != nil, cut, x.cut, err)
		}
	}
}

// However short the time, the first method is tried once; when there is a plan and no time,
// none is tried again.
func TestNothingIsBegunLate(t *testing.T) {
	x, err := testcase.GraphPipeline().Random(testfile.Random(t, 5, 18), 3)
	if err != nil {
		t.Fatal(err)
	}
	v, err := ideals.New(x.Graph())
	if err != nil {
		t.Fatal(err)
	}
	lattice, err := v.Lattice(pipelinegraph.MostIdeals)
	if err != nil {
		t.Fatal(err)
	}
	p := x.Platform
	p.Memory = 1 << 40
	var first, second int
	counted := func(n *int) pipelinegraph.Method {
		return func(c *chain.Chain, p platform.Platform, _ pipeline.Options) (*plan.Plan, error) {
			*n++
			return pipeline.OneFOneBStar(c, p, pipeline.Options{})
		}
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	found, cut, err := pipelinegraph.Plan(over, v, lattice, p, pipeline.Options{}, counted(&first), counted(&second))
	if err != nil || found == nil || !cut {
		t.Errorf("plan %v, cut %v: %v", found != nil, cut, err)
	}
	if first != 1 || second != 0 {
		t.Errorf("without time the first method was tried %d times, the second %d", first, second)
	}
}

// leastReplicated tries all stages that begin at an ideal, with all numbers of replicas.
func leastReplicated(t *ideals.Lattice, p platform.Platform, from, processors int) float64 {
	if from == t.Len()-1 {
		return 0
	}
	best := math.Inf(1)
	for j := from + 1; j < t.Len(); j++ {
		weight := 0.0
		inside := true
		for l := range t.View.N {
			inside = inside && (!t.Has(from, l) || t.Has(j, l))
			if t.Has(j, l) && !t.Has(from, l) {
				weight += t.View.Weight[l]
			}
		}
		for c := 1; inside && c <= processors; c++ {
			load := (t.Work[j] - t.Work[from] + 4*float64(c-1)*weight/(float64(c)*p.Bandwidth)) / float64(c)
			if from > 0 {
				load = max(load, 2*t.Cut[from]/p.Bandwidth/float64(c))
			}
			best = min(best, max(load, leastReplicated(t, p, j, processors-c)))
		}
	}
	return best
}

// leastLoad tries all stages that begin at an ideal.
func leastLoad(t *ideals.Lattice, p platform.Platform, from, stages int) float64 {
	if from == t.Len()-1 {
		return 0
	}
	best := math.Inf(1)
	for j := from + 1; j < t.Len() && stages > 0; j++ {
		inside := true
		for l := range t.View.N {
			inside = inside && (!t.Has(from, l) || t.Has(j, l))
		}
		if !inside {
			continue
		}
		load := t.Work[j] - t.Work[from]
		if j < t.Len()-1 {
			load = max(load, 2*t.Cut[j]/p.Bandwidth)
		}
		best = min(best, max(load, leastLoad(t, p, j, stages-1)))
	}
	return best
}

// pipeDreams returns one of PipeDream's own profiles as a graph, and its ideals.
func pipeDreams(t *testing.T, name string) (*graph.Graph, *ideals.Lattice) {
	t.Helper()
	data, err := os.ReadFile(testfile.Shared(t, filepath.Join("pipedream", name, "graph.txt")))
	if err != nil {
		t.Fatal(err)
	}
	g, _, err := importer.PipeDreamGraph(data, name)
	if err != nil {
		t.Fatal(err)
	}
	v, err := ideals.New(g)
	if err != nil {
		t.Fatal(err)
	}
	lattice, err := v.Lattice(pipelinegraph.MostIdeals)
	if err != nil {
		t.Fatal(err)
	}
	return g, lattice
}

// PipeDream's own periods on its own profiles, straight pipelines.
func TestPipeDreamsPeriods(t *testing.T) {
	for _, x := range []struct {
		name       string
		processors int
		bandwidth  float64
		want       float64
	}{
		{"vgg16", 4, 10e9, 0.23559}, {"vgg16", 8, 10e9, 0.23559}, {"vgg16", 4, 1e9, 0.411041792},
	} {
		_, lattice := pipeDreams(t, x.name)
		_, got := pipelinegraph.Balanced(lattice, platform.Platform{Processors: x.processors, Bandwidth: x.bandwidth})
		if math.Abs(got-x.want) > 1e-9 {
			t.Errorf("%s on %d GPUs at %g B/s: %.9f s, PipeDream has %.9f", x.name, x.processors, x.bandwidth, got, x.want)
		}
	}
}

// Where memory does not bind, plans with replicas meet PipeDream's periods with
// replication on its own profiles, as graphs.
func TestPipeDreamsReplicatedPeriods(t *testing.T) {
	for _, name := range testfile.Few(2, "vgg16", "alexnet", "resnet18", "resnet50", "gnmt") {
		g, lattice := pipeDreams(t, name)
		v := lattice.View
		for _, processors := range testfile.Few(1, 8, 4) {
			for _, bandwidth := range []float64{1e9, 10e9} {
				p := platform.Platform{Memory: 1 << 40, Processors: processors, Bandwidth: bandwidth, WeightCopies: 3, Replicas: true}
				_, want := pipelinegraph.Replicated(lattice, p)
				x, _, err := pipelinegraph.Plan(t.Context(), v, lattice, p, pipeline.Options{}, pipeline.PipeDream)
				if err != nil {
					t.Fatal(err)
				}
				report, err := verify.Replay(g, x)
				if err != nil || !report.Valid() || len(report.ClaimErrors) > 0 {
					t.Fatalf("%v %+v", err, report)
				}
				if report.Makespan > want*(1+1e-8) {
					t.Errorf("%s on %d GPUs at %g B/s: %.9f s, PipeDream has %.9f", name, processors, bandwidth, report.Makespan, want)
				}
			}
		}
	}
}
