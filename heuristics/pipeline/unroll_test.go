package pipeline

import (
	"math/rand/v2"
	"testing"

	"workbench/heuristics/pipeline/sprint"
	"workbench/model/exhaustive"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/testfile"
	"workbench/model/zoo"
)

// What a sprint finds of random allocations is a plan, none of up to three mini-batches is faster than
// the fastest there is, and mostly it is that.
func TestUnrolled(t *testing.T) {
	t.Parallel()
	total, reached, several := 0, 0, 0
	for seed := range uint64(testfile.Cases(120)) {
		r := rand.New(rand.NewPCG(seed, 44))
		c, p := randomChain(r, 2+r.IntN(3), seed%4 == 3), randomPlatform(r)
		p.Processors = 2 + r.IntN(2)
		var stages []plan.Stage
		for l := 1; l <= c.Len(); l++ {
			stages = append(stages, plan.Stage{Processor: r.IntN(p.Processors), From: l, To: l})
		}
		for _, model := range models {
			least, closed, one := 0.0, true, 0.0
			for k := 1; k <= 3; k++ {
				best, _, err := exhaustive.PipelineOn(c, p, stages, model, k, 1<<14)
				closed = closed && err == nil
				if k == 1 {
					one, least = best, best
				}
				least = min(least, best)
			}
			in, err := newInstance(c, p, Options{Model: model})
			if err != nil || !closed {
				continue
			}
			total++
			s := sprint.Run(in.Instance, stages, sprint.Options{Period: least, Late: 1, Most: 3, Below: 10 * one, Ways: new(1 << 20)})
			if s == nil {
				continue
			}
			got := verified(t, c, s.Plan(in.Instance, "sprint"))
			if got < least*(1-2*exhaustive.Closeness) || s.K > 3 {
				t.Fatalf("seed %d, %s: %v of %d, the fastest takes %v: %+v %+v", seed, model, got, s.K, least, c, p)
			}
			if got <= least*(1+2*exhaustive.Closeness) {
				if reached++; least < one*(1-1e-3) {
					several++
				}
			}
		}
	}
	t.Logf("of %d allocations %d, %d of which several mini-batches are faster", total, reached, several)
	if total < testfile.Cases(50) || reached < total*3/4 {
		t.Errorf("of %d allocations %d", total, reached)
	}
}

// The allocation of the best plan known of ResNet-101 on four GPUs of 6 GiB: with each stage as a
// whole no list schedule takes less than 354.45 ms.
func TestUnrolledResNet101(t *testing.T) {
	t.Parallel()
	c, err := zoo.Load("zoo:resnet101?image=1000&batch=8")
	if err != nil {
		t.Fatal(err)
	}
	p := platform.Platform{Memory: 6 << 30, Bandwidth: 12e9, Processors: 4, WeightCopies: 3}
	stages := []plan.Stage{{Processor: 0, From: 1, To: 3}, {Processor: 1, From: 4, To: 6}, {Processor: 2, From: 7, To: 11}, {Processor: 3, From: 12, To: 25}, {Processor: 0, From: 26, To: 39}}
	q, err := Schedule(c, p, stages, Options{})
	if err != nil {
		t.Fatal(err)
	}
	in, err := newInstance(c, p, Options{})
	if err != nil {
		t.Fatal(err)
	}
	whole := q.Claims.Makespan
	if whole < 0.3544 {
		t.Errorf("the stages as wholes take %v", whole)
	}
	period := 0.96 * whole
	s := sprint.Run(in.Instance, stages, sprint.Options{Period: period, Together: 0.15 * period, Late: 0.25, Most: 1, Below: whole, Ways: new(1 << 20)})
	if s == nil {
		t.Fatal("a sprint finds nothing")
	}
	if best := verified(t, c, s.Plan(in.Instance, "sprint")); best > 0.3502 {
		t.Errorf("a sprint takes %v, want 0.3501", best)
	}
}
