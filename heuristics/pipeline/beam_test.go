package pipeline

import (
	"context"
	"math/rand/v2"
	"testing"

	"workbench/model/platform"
	"workbench/model/testfile"
	"workbench/model/zoo"
)

// A beam search leaves nothing placed, finds no more than it was asked for, and
// is as good whether or not others went before.
func TestBeam(t *testing.T) {
	t.Parallel()
	found := 0
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 41))
		c, p := randomChain(r, 4+r.IntN(6), seed%3 == 0), randomPlatform(r)
		p.Processors = 2 + r.IntN(3)
		in, err := newInstance(c, p, Options{Model: models[seed%2]})
		if err != nil {
			continue
		}
		start := in.bestContiguous(0)
		if start == nil {
			continue
		}
		a := newEnumeration(in, start.Period, false, false, beamPatterns, in.stopped)
		a.pespBudget = beamDecisions
		a.beam(beamWidth)
		for q := range in.Procs {
			if a.load[q] != 0 || a.fixed[q] != 0 || len(a.on[q]) > 0 {
				t.Fatalf("seed %d: processor %d still has layers %v, %v s, %v bytes", seed, q, a.on[q], a.load[q], a.fixed[q])
			}
		}
		for _, x := range a.links {
			if x != 0 {
				t.Fatalf("seed %d: a link still carries %v s", seed, x)
			}
		}
		if a.found == nil {
			continue
		}
		found++
		if period := verified(t, c, a.found.Plan(in.Instance, "beam")); period > start.Period*(1+1e-9) {
			t.Errorf("seed %d: period %v, asked for %v", seed, period, start.Period)
		}
	}
	if found < 30 {
		t.Errorf("only %d patterns found", found)
	}
}

// ResNet-50 of [004] 6.5 on four GPUs of 8 GB: the best 1-periodic pattern has
// two stages on every GPU, which neither MadPipe nor moves from its plan find.
func TestSearchFindsTwoStagesEach(t *testing.T) {
	testfile.Long(t)
	t.Parallel()
	c, err := zoo.Load("zoo:resnet50?image=1000&batch=8")
	if err != nil {
		t.Fatal(err)
	}
	p := platform.Platform{Memory: 8e9, Bandwidth: 12e9, Processors: 4, WeightCopies: 3}
	q, err := SearchOnePeriodic(c, p, Options{})
	if err != nil {
		t.Fatal(err)
	}
	period := verified(t, c, q)
	ctx, cancel := context.WithCancel(t.Context()) // the bound for any k takes longer
	defer cancel()
	enough := func(_, bound float64, _ int64) {
		if bound >= period*0.99 {
			cancel()
		}
	}
	x, err := Exact(ctx, c, p, Options{Progress: enough}, period, 0.01)
	if err != nil {
		t.Fatal(err)
	}
	if x.OnePeriodic.Period < period*0.99 {
		t.Errorf("period %v, at least %v is needed", period, x.OnePeriodic.Period)
	}
	count := map[int]int{}
	for _, s := range q.Allocation {
		count[s.Processor]++
	}
	for i := range p.Processors {
		if count[i] < 2 {
			t.Errorf("GPU %d has %d stages: %v", i, count[i], q.Allocation)
		}
	}
}
