package pipeline

import (
	"errors"
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
func TestSprint(t *testing.T) {
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
func TestSprintOfResNet101(t *testing.T) {
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

// Small chains with less and less memory: search has a plan as fast as the fastest of one, two
// and three mini-batches a period, and where those are faster than of one, mostly.
func TestSearchFindsSeveral(t *testing.T) {
	testfile.Long(t)
	t.Parallel()
	total, reached, faster, there := 0, 0, 0, 0
	for seed := range uint64(testfile.Cases(30)) {
		r := rand.New(rand.NewPCG(seed, 43))
		c, p := randomChain(r, 3+r.IntN(3), seed%4 == 3), randomPlatform(r)
		p.Processors = 2 + r.IntN(2)
		for range 4 {
			q, err := Search(c, p, Options{})
			if errors.Is(err, plan.ErrNoPlan) || errors.As(err, new(*plan.Infeasible)) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			got := verified(t, c, q)
			least, one := got, 0.0
			for k := 1; k <= 3; k++ {
				x, err := Exact(t.Context(), c, p, Options{}, k, 2*got, 0)
				if err != nil || x.Plan == nil {
					t.Fatalf("seed %d, k = %d: %v", seed, k, err)
				}
				best := verified(t, c, x.Plan)
				if k == 1 {
					one = best
				}
				if least = min(least, best); k%max(1, q.K) == 0 && got < x.Bound*(1-1e-6) {
					t.Fatalf("seed %d: search %v of %d, at least %v for %d: %+v %+v", seed, got, q.K, x.Bound, k, c, p)
				}
			}
			found := got <= least*(1+1e-6)
			if total++; found {
				reached++
			}
			if least < one*(1-1e-3) {
				if faster++; found {
					there++
				}
			}
			p.Memory = q.Claims.PeakMemory * (1 - 1e-6)
		}
	}
	t.Logf("of %d instances %d; of %d in which several are faster %d", total, reached, faster, there)
	if total < testfile.Cases(50) || reached < total*9/10 {
		t.Errorf("of %d instances %d", total, reached)
	}
}
