package pipeline

import (
	"cmp"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	view "workbench/model/problem/pipeline"
	"workbench/model/testfile"
	verifypipeline "workbench/model/verify/pipeline"
)

// pipeDreams is the period of PipeDream's optimizer with replication, by its recursion
// (optimizer_graph_hierarchical.py): layers 1..j on m machines.
func pipeDreams(in *instance, procs int) float64 {
	beta := in.Platform.Bandwidth
	stage := func(i, j, m int) float64 {
		weight := 0.0
		for l := i; l <= j; l++ {
			weight += in.W[l]
		}
		return (in.Time(i, j) + 4*float64(m-1)*weight/(beta*float64(m))) / float64(m)
	}
	known := map[[2]int]float64{}
	var best func(j, m int) float64
	best = func(j, m int) float64 {
		if x, ok := known[[2]int{j, m}]; ok {
			return x
		}
		period := stage(1, j, m)
		for k := 1; k < j; k++ {
			for last := 1; last < m; last++ {
				x := max(best(k, m-last), stage(k+1, j, last), 2*in.A[k]/(beta*float64(last)))
				if j < in.N {
					x = max(x, 2*in.A[j]/(beta*float64(last)))
				}
				period = min(period, x)
			}
		}
		known[[2]int{j, m}] = period
		return period
	}
	period := math.Inf(1) // PipeDream uses all machines; fewer may be better
	for m := 1; m <= procs; m++ {
		period = min(period, best(in.N, m))
	}
	return period
}

// Without limits of memory PipeDream's periods are met or beaten; always plans are what
// the verifier and an unrolled replay find, and the best of all stages with all numbers of
// replicas by the same schedule.
func TestReplicated(t *testing.T) {
	t.Parallel()
	met, beaten, tight, several, limited := 0, 0, 0, 0, 0
	for seed := range uint64(testfile.Cases(300)) {
		r := rand.New(rand.NewPCG(seed, 31))
		c, p := randomChain(r, 1+r.IntN(5), false), randomPlatform(r)
		for l := range c.Layers { // as PipeDream has it
			c.Layers[l].Gradient = c.Layers[l].Activation
		}
		p.Replicas, p.Processors = true, 2+r.IntN(4)
		free := seed%2 == 0
		if free {
			p.Memory = 1e9
		}
		model := models[r.IntN(2)]
		in, err := newInstance(c, p, Options{Model: model})
		if err != nil {
			continue // nothing fits
		}
		want := leastReplicated(in, math.MaxInt)
		found, err := PipeDream(c, p, Options{Model: model})
		if err != nil {
			if !errors.Is(err, plan.ErrNoPlan) || !math.IsInf(want, 1) {
				t.Fatalf("seed %d: %v, there is a period of %g", seed, err, want)
			}
			limited++
			continue
		}
		period := verified(t, c, found)
		unrolled(t, c, found)
		if math.Abs(period-want) > 1e-8*want {
			t.Fatalf("seed %d: %g, the best is %g: %+v %+v", seed, period, want, found.Allocation, p)
		}
		if slices.ContainsFunc(found.Allocation, func(s plan.Stage) bool { return s.Replicas > 1 }) {
			several++
		}
		if theirs := pipeDreams(in, p.Processors); free {
			switch {
			case period > theirs*(1+plan.Tolerance):
				t.Fatalf("seed %d: %g, PipeDream has %g: %+v", seed, period, theirs, p)
			case period < theirs*(1-plan.Tolerance):
				beaten++
			default:
				met++
			}
		} else {
			tight++
		}
	}
	t.Logf("PipeDream's periods met %d times, beaten %d; %d with limited memory, %d without a plan; %d with replicas", met, beaten, tight,
		limited, several)
	if met < testfile.Cases(50) || tight < testfile.Cases(50) || several < testfile.Cases(50) {
		t.Errorf("%d met, %d with limited memory, %d with replicas", met, tight, several)
	}
}

// leastReplicated is the shortest period of all contiguous stages with all numbers of replicas
// of at most such a common multiple, by the schedule of replicated; +Inf: none fits.
func leastReplicated(in *instance, most int) float64 {
	want := math.Inf(1)
	x := newReplicator(in)
	replicatedStages(in.N, in.Platform.Processors, func(stages []plan.Stage) {
		items := in.Items(stages)
		low, high := 0.0, in.Latest()
		if x.gaps(items, high) == nil || view.Alike(stages, items, make([]float64, len(items)), make([]float64, len(items)), 1, most) == nil {
			return
		}
		for range 50 {
			if middle := (low + high) / 2; x.gaps(items, middle) != nil {
				high = middle
			} else {
				low = middle
			}
		}
		want = min(want, high)
	})
	return want
}

// Where periods may have few mini-batches only, those of all numbers of replicas with so small
// a common multiple are the best that exhaustive search finds, and valid.
func TestReplicatedOfFewMiniBatches(t *testing.T) {
	t.Parallel()
	tried := 0
	for seed := range uint64(testfile.Cases(150)) {
		r := rand.New(rand.NewPCG(seed, 47))
		c, p := randomChain(r, 1+r.IntN(4), false), randomPlatform(r)
		p.Replicas, p.Processors, p.Bandwidth = true, 5+r.IntN(4), 1e3
		if seed%2 == 0 {
			p.Memory = 1e9
		}
		in, err := newInstance(c, p, Options{Model: models[r.IntN(2)]})
		if err != nil {
			continue // nothing fits
		}
		most := 2 + r.IntN(12)
		found, want := in.replicatedOf(most, most), leastReplicated(in, most)
		if found == nil {
			if !math.IsInf(want, 1) {
				t.Fatalf("seed %d: none, there is a period of %g", seed, want)
			}
			continue
		}
		made := found.Plan(in.Instance, "replicated")
		verified(t, c, made)
		if found.K > most || math.Abs(found.Rate()-want) > 1e-8*want {
			t.Fatalf("seed %d: %g of %d, the best of %d is %g: %+v", seed, found.Rate(), found.K, most, want, found.Stages)
		}
		if want > leastReplicated(in, math.MaxInt)*(1+1e-8) {
			tried++
		}
	}
	t.Logf("%d have to do with fewer mini-batches than the best", tried)
	if tried < testfile.Cases(150)/6 {
		t.Errorf("%d have to do with fewer mini-batches than the best", tried)
	}
}

// The multiples that are tried are those of numbers with a sum, and none of them divides
// another; all divide one.
func TestMultiples(t *testing.T) {
	t.Parallel()
	for sum := 1; sum <= 14; sum++ {
		all := map[int]bool{}
		var add func(left, most, multiple int)
		add = func(left, most, multiple int) {
			all[multiple] = true
			for n := 1; n <= min(left, most); n++ {
				add(left-n, n, view.Multiple(multiple, n))
			}
		}
		add(sum, sum, 1)
		for most := 1; most < 100; most += 1 + most/8 {
			list := multiples(sum, most)
			for m := range all {
				divides := func(n int) bool { return n%m == 0 }
				if m <= most && !slices.ContainsFunc(list, divides) {
					t.Errorf("sum %d, at most %d: %d is not in %v", sum, most, m, list)
				}
			}
			for i, m := range list {
				divides := func(n int) bool { return n%m == 0 }
				if !all[m] || m > most || slices.ContainsFunc(list[i+1:], divides) || slices.ContainsFunc(list[:i], divides) {
					t.Errorf("sum %d, at most %d: %d in %v", sum, most, m, list)
				}
			}
		}
	}
}

// PipeDream's own periods are met on many processors, where the best numbers of replicas have
// a large common multiple, and the plans are valid.
func TestReplicatedOnMany(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		name       string
		processors int
		bandwidth  float64
	}{{"gnmt", 32, 25e9}, {"resnet18", 24, 1e9}, {"resnet18", 32, 1e9}, {"resnet18", 26, 10e9}, {"resnet50", 22, 1e9}, {"resnet50", 26, 1e9}} {
		c := profiled(t, x.name)
		p := platform.Platform{Memory: 64 << 30, Bandwidth: x.bandwidth, Processors: x.processors, WeightCopies: 3, Replicas: true}
		in, err := newInstance(c, p, Options{})
		if err != nil {
			t.Fatal(err)
		}
		found, err := PipeDream(c, p, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if period, theirs := verified(t, c, found), pipeDreams(in, x.processors); found.K <= view.FewTurns || period > theirs*(1+plan.Tolerance) {
			t.Errorf("%s on %d: %g with %d mini-batches a period, PipeDream has %g", x.name, x.processors, period, found.K, theirs)
		}
	}
}

// replicatedStages calls do for all contiguous stages on that many processors.
func replicatedStages(n, procs int, do func([]plan.Stage)) {
	var place func(from, left int, stages []plan.Stage)
	place = func(from, left int, stages []plan.Stage) {
		if from > n {
			do(slices.Clone(stages))
			return
		}
		for to := from; to <= n; to++ {
			for copies := 1; copies <= left; copies++ {
				place(to+1, left-copies, append(stages, plan.Stage{Processor: procs - left, From: from, To: to, Replicas: copies}))
			}
		}
	}
	place(1, procs, nil)
}

// unrolled executes a plan for some periods, from what its operations say alone, and
// compares: what runs at once, what a mini-batch waits for, and what is stored.
func unrolled(t *testing.T, c *chain.Chain, p *plan.Plan) {
	t.Helper()
	type event struct {
		op         string
		layer      int
		batch      int
		start, end float64
		resource   string
	}
	const rounds = 40
	eps := plan.Tolerance * *p.Period
	var all []event
	for j := range rounds {
		for _, o := range p.Ops {
			at := float64(j) * *p.Period
			all = append(all, event{o.Op, o.Layer, j*p.K + o.Shift, at + o.Start, at + o.End, o.Resource})
		}
	}
	slices.SortStableFunc(all, func(a, b event) int { return cmp.Compare(a.start, b.start) })
	until, home := map[string]float64{}, map[[2]int]string{}
	type key struct {
		op           string
		layer, batch int
	}
	ended := map[key]float64{}
	for _, e := range all {
		if e.end-e.start > eps { // what takes no time has a place between two
			if e.start < until[e.resource]-eps {
				t.Fatalf("%+v begins before %s is free", e, e.resource)
			}
			until[e.resource] = e.end
		}
		ended[key{e.op, e.layer, e.batch}] = e.end
		if e.op == plan.OpF || e.op == plan.OpB || e.op == plan.OpAR {
			stage := slices.IndexFunc(p.Allocation, func(s plan.Stage) bool { return s.From <= e.layer && e.layer <= s.To })
			if k := [2]int{stage, e.batch}; home[k] == "" {
				home[k] = e.resource
			} else if home[k] != e.resource {
				t.Fatalf("mini-batch %d of stage %d on %s and %s", e.batch, stage+1, home[k], e.resource)
			}
		}
	}
	middle := rounds / 2 * p.K
	for _, e := range all {
		before := key{plan.OpF, e.layer - 1, e.batch}
		switch e.op {
		case plan.OpB:
			if before.op, before.layer = plan.OpB, e.layer+1; e.layer == c.Len() {
				before.op, before.layer = plan.OpF, e.layer
			}
		case plan.OpCF:
			before.layer = e.layer
		case plan.OpCB:
			before.op, before.layer = plan.OpB, e.layer+1
		case plan.OpAR:
			before.op, before.layer = plan.OpB, e.layer
		}
		if end, known := ended[before]; e.batch > middle/2 && e.batch < middle && before.layer > 0 && (!known || end > e.start+eps) {
			t.Fatalf("%+v begins before %+v ends (%v, %g)", e, before, known, end)
		}
		if x := (key{map[string]string{plan.OpF: plan.OpCF}[e.op], e.layer - 1, e.batch}); e.op == plan.OpF {
			if end, cut := ended[x]; cut && end > e.start+eps {
				t.Fatalf("%+v begins before its input is there", e)
			}
		}
	}
	// What each layer has stored, counted at its forwards in the middle.
	r, err := verifypipeline.Verify(c, p)
	if err != nil {
		t.Fatal(err)
	}
	for l := 1; l <= c.Len(); l++ {
		most := 0
		for _, e := range all {
			if e.op != plan.OpF || e.layer != l || e.batch < middle || e.batch >= middle+p.K {
				continue
			}
			count := 0
			for _, f := range all {
				if f.op == plan.OpF && f.layer == l && f.resource == e.resource && f.start <= e.start &&
					ended[key{plan.OpB, l, f.batch}] > e.start+eps {
					count++
				}
			}
			most = max(most, count)
		}
		if most != r.Pattern.NCA[l-1] {
			t.Fatalf("layer %d is stored %d times, the verifier has %d", l, most, r.Pattern.NCA[l-1])
		}
	}
}
