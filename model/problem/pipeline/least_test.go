package pipeline_test

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	view "workbench/model/problem/pipeline"
	"workbench/model/problem/pipeline/pipelinetest"
	"workbench/model/testfile"
)

// Prices prove no more than what all allocations need, after any number of rounds, and
// with searches bounded by them as much.
func TestPricesEqualEnumeration(t *testing.T) {
	t.Parallel()
	short := 0
	testfile.Property(t, func(t *rapid.T) {
		x := pipelinetest.Draw(t, 8)
		x.Platform.Processors = rapid.IntRange(1, 4).Draw(t, "processors")
		for l := 1; l < len(x.Chain.Layers); l++ { // stretches of layers that are alike
			if rapid.Bool().Draw(t, "alike") {
				x.Chain.Layers[l] = x.Chain.Layers[l-1]
			}
		}
		if x.Chain.TotalTime() == 0 { // the one layer that took time was replaced
			x.Chain.Layers[0].BackwardTime = 1
		}
		in, err := view.New(x.Chain, x.Platform, x.Model)
		if err != nil {
			t.Fatal(err)
		}
		want := in.OneAtATime([]plan.Stage{{From: 1, To: in.N}})
		eachAllocation(in.N, x.Platform.Processors, func(stages []plan.Stage) { want = min(want, in.OneAtATime(stages)) })
		for _, rounds := range []int{1, 3, 50} {
			if low := in.RaisedByPrices(want, rounds); low > want {
				t.Fatalf("after %d rounds %v is proved, an allocation needs %v", rounds, low, want)
			}
		}
		switch least := in.LeastByPrices(); {
		case least.Low != want || least.High != want:
			t.Fatalf("from %v to %v, it is %v", least.Low, least.High, want)
		case in.OneAtATime(least.Allocation) != want:
			t.Fatalf("%v needs %v, not %v", least.Allocation, in.OneAtATime(least.Allocation), want)
		}
		if in.Least().Low != want {
			t.Fatalf("%v, it is %v", in.Least(), want)
		}
		if in.RaisedByPrices(want-1, 50) == want {
			short++
		}
	})
	if short == 0 {
		t.Error("prices alone never prove it")
	}
}

// Of layers that are alike no allocation that needs less is left out: stretches with
// small buffers, so that processors have pieces here and there.
func TestStretchesEqualEnumeration(t *testing.T) {
	t.Parallel()
	r := testfile.Random(t, 3, 13)
	apart := 0
	for range testfile.Cases(2000) {
		c := &chain.Chain{Name: "stretches"}
		c.Input.Activation = float64(r.IntN(40))
		for len(c.Layers) < 7 {
			x := chain.Layer{ForwardTime: 1, Activation: float64(r.IntN(3)), Gradient: float64(r.IntN(2)), Weight: float64(r.IntN(40))}
			for range 1 + r.IntN(5) {
				c.Layers = append(c.Layers, x)
			}
			c.Layers[len(c.Layers)-1].Activation = float64(r.IntN(40)) // behind a stretch
		}
		c.Layers = c.Layers[:7]
		p := platform.Platform{Memory: 1, Bandwidth: 1, Processors: 2 + r.IntN(3), WeightCopies: 1}
		in, err := view.New(c, p, []string{plan.StageModel, plan.TaskModel}[r.IntN(2)])
		if err != nil {
			t.Fatal(err)
		}
		want := math.Inf(1)
		eachAllocation(in.N, p.Processors, func(stages []plan.Stage) { want = min(want, in.OneAtATime(stages)) })
		if least := in.LeastByPrices(); least.Low != want || least.High != want {
			t.Fatalf("from %v to %v, it is %v: %+v", least.Low, least.High, want, c)
		}
		if want < in.LeastContiguous() {
			apart++
		}
	}
	if apart < testfile.Cases(200) {
		t.Errorf("%d need less if they are not contiguous", apart)
	}
}

// eachAllocation calls do for every allocation of n layers, up to the numbers of
// processors.
func eachAllocation(n, processors int, do func([]plan.Stage)) {
	var place func(stages []plan.Stage, l, used int)
	place = func(stages []plan.Stage, l, used int) {
		if l > n {
			do(stages)
			return
		}
		for p := range min(used+1, processors) {
			if k := len(stages) - 1; k >= 0 && stages[k].Processor == p {
				stages[k].To = l
				place(stages, l+1, used)
				stages[k].To = l - 1
				continue
			}
			place(append(stages, plan.Stage{Processor: p, From: l, To: l}), l+1, max(used, p+1))
		}
	}
	place(nil, 1, 0)
}

// A search that is stopped says no more than it knows: the least memory is between what
// it proves and what it has an allocation for.
func TestStoppedLeast(t *testing.T) {
	t.Parallel()
	stop := make(chan struct{})
	close(stop)
	stopped := func(t interface{ Fatal(...any) }, c *chain.Chain, p platform.Platform, model string) *view.Instance {
		in, err := view.New(c, p, model)
		if err != nil {
			t.Fatal(err)
		}
		in.Stop = stop
		return in
	}
	c := &chain.Chain{Name: "apart"} // on two processors 6, that of 3 and 3; contiguously 7
	for _, w := range []float64{3, 2, 3, 2, 2} {
		c.Layers = append(c.Layers, chain.Layer{ForwardTime: 1, BackwardTime: 1, Weight: w})
	}
	p := platform.Platform{Memory: 6, Bandwidth: 1, Processors: 2, WeightCopies: 1}
	if got := stopped(t, c, p, plan.TaskModel).Least(); got.Low != 6 || got.High != 7 {
		t.Errorf("stopped: from %v to %v, not from 6 to 7", got.Low, got.High)
	}
	testfile.Property(t, func(t *rapid.T) {
		x := pipelinetest.Draw(t, 8)
		whole, err := view.New(x.Chain, x.Platform, x.Model)
		if err != nil {
			t.Fatal(err)
		}
		want := whole.Least()
		in := stopped(t, x.Chain, x.Platform, x.Model)
		got := in.Least()
		if got.Low > want.Low || got.High < want.High || in.OneAtATime(got.Allocation) != got.High {
			t.Fatalf("stopped: from %v to %v, it is from %v to %v", got.Low, got.High, want.Low, want.High)
		}
		x.Platform.Memory = want.High
		if err := stopped(t, x.Chain, x.Platform, x.Model).Infeasible(); err != nil {
			t.Fatalf("%v, and an allocation needs %v", err, want.High)
		}
	})
}

// Of many unlike layers an interval is left: a unit below it nothing fits, at its upper end
// its allocation does.
func TestLeastOfUnlikeLayers(t *testing.T) {
	testfile.Long(t)
	t.Parallel()
	r := testfile.Random(t, 5, 150)
	size := func() float64 { return float64(1 + r.IntN(100<<20)) }
	c := &chain.Chain{Name: "unlike"}
	for range 150 {
		c.Layers = append(c.Layers, chain.Layer{ForwardTime: 1, BackwardTime: 2, Activation: size(), Gradient: size(), Weight: size()})
	}
	at := func(memory float64) *view.Instance {
		in, err := view.New(c, platform.Platform{Memory: memory, Bandwidth: 1, Processors: 2, WeightCopies: 3}, plan.TaskModel)
		if err != nil {
			t.Fatal(err)
		}
		return in
	}
	in := at(1)
	least := in.Least()
	if least.Low >= least.High || in.OneAtATime(least.Allocation) != least.High {
		t.Fatalf("from %v to %v, the allocation needs %v", least.Low, least.High, in.OneAtATime(least.Allocation))
	}
	if err := at(least.Low - 1).Infeasible(); err == nil {
		t.Errorf("%v is not too little, and %v is the least", least.Low-1, least.Low)
	}
	for _, memory := range []float64{least.Low, least.High} {
		if err := at(memory).Infeasible(); err != nil {
			t.Errorf("with %v, from %v to %v: %v", memory, least.Low, least.High, err)
		}
	}
}
