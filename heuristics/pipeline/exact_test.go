package pipeline

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"workbench/model/exhaustive"
	optimumpipeline "workbench/model/exhaustive/pipeline"
	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/proof"
	"workbench/model/testfile"
	"workbench/model/zoo"
)

// Exact equals exhaustive search over all allocations and patterns, from
// nothing and from the optimum itself.
func TestExactEqualsExhaustive(t *testing.T) {
	t.Parallel()
	closed, total := 0, 0
	for seed := range uint64(testfile.Cases(250)) {
		r := rand.New(rand.NewPCG(seed, 11))
		c, p := randomChain(r, 2+r.IntN(4), seed%4 == 3), randomPlatform(r)
		if seed%3 == 1 { // some layers hardly count
			const unit = 512
			for l := range c.Layers {
				x := &c.Layers[l]
				if r.IntN(2) == 0 {
					x.ForwardTime, x.BackwardTime = x.ForwardTime/4096, x.BackwardTime/4096
					continue
				}
				x.Activation, x.Saved, x.Gradient, x.Weight = unit*x.Activation, unit*x.Saved, unit*x.Gradient, unit*x.Weight
			}
			c.Input.Activation, c.Input.Gradient = unit*c.Input.Activation, unit*c.Input.Gradient
			p.Memory, p.Bandwidth = unit*p.Memory, unit*p.Bandwidth
			if c.TotalTime() == 0 {
				continue
			}
		}
		p.Processors = 1 + r.IntN(3)
		for _, model := range models {
			o := Options{Model: model}
			best, found, err := optimumpipeline.Search(c, p, model, 1<<18)
			if errors.Is(err, exhaustive.ErrLimit) {
				continue
			}
			nothing := errors.Is(err, exhaustive.ErrInfeasible)
			p := p
			if !nothing && seed%2 == 1 && found.Claims.PeakMemory > 0 {
				p.Memory = found.Claims.PeakMemory // the same with no memory to spare
			}
			for _, above := range []float64{math.Inf(1), best} {
				if nothing && !math.IsInf(above, 1) {
					continue
				}
				ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // milliseconds are enough
				x, err := Exact(ctx, c, p, o, above, 0)
				cancel()
				var proved *plan.Infeasible
				if errors.As(err, &proved) && nothing {
					continue
				}
				if err != nil {
					t.Fatalf("seed %d, %s: %v: %+v %+v", seed, model, err, c, p)
				}
				if !nothing && x.OnePeriodic.Period > best*(1+2*optimumpipeline.Closeness) {
					t.Fatalf("seed %d, %s: bound %v above the optimum %v: %+v %+v", seed, model, x.OnePeriodic.Period, best, c, p)
				}
				period := above
				if x.Plan != nil {
					period = verified(t, c, x.Plan)
					if nothing || period < best*(1-2*optimumpipeline.Closeness) {
						t.Fatalf("seed %d, %s: period %v, optimum %v: %+v %+v", seed, model, period, best, c, p)
					}
				}
				for _, b := range []DualBound{x.OnePeriodic, x.AnyK} {
					if sum := parts(b.Why); len(b.Why) > 0 && math.Abs(sum-1) > 1e-9 {
						t.Fatalf("seed %d, %s: arguments exclude %v of the allocations, not all: %v", seed, model, sum, b.Why)
					}
				}
				total++
				if x.OnePeriodic.Period >= period*(1-3e-6) {
					closed++
				}
			}
		}
	}
	if closed < total*99/100 {
		t.Errorf("closed %d of %d", closed, total)
	}
	t.Logf("%d of %d closed", closed, total)
}

// parts sums up the parts of the allocations that arguments excluded.
func parts(list []proof.Share) (sum float64) {
	for _, x := range list {
		sum += x.Part
	}
	return sum
}

// The same with more layers, where several have to share processors.
func TestExactEqualsExhaustiveLonger(t *testing.T) {
	t.Parallel()
	solved := 0
	for seed := range uint64(testfile.Cases(30)) {
		r := rand.New(rand.NewPCG(seed, 12))
		c, p := randomChain(r, 6+r.IntN(2), false), randomPlatform(r)
		p.Processors = 2 + r.IntN(2)
		best, _, err := optimumpipeline.Search(c, p, plan.TaskModel, 1<<17)
		if err != nil {
			continue
		}
		x, err := Exact(t.Context(), c, p, Options{}, math.Inf(1), 0)
		if err != nil {
			t.Fatalf("seed %d: %v: %+v %+v", seed, err, c, p)
		}
		period := verified(t, c, x.Plan)
		if math.Abs(period-best) > 3*optimumpipeline.Closeness*best || x.OnePeriodic.Period > best*(1+2*optimumpipeline.Closeness) ||
			x.OnePeriodic.Period < best*(1-3e-6) {
			t.Fatalf("seed %d: %v to %v, optimum %v: %+v %+v", seed, x.OnePeriodic.Period, period, best, c, p)
		}
		solved++
	}
	if solved == 0 {
		t.Error("nothing solved")
	}
	t.Logf("%d solved", solved)
}

// A mini-batch may wait between two layers in a row, which ⊕ counts as a delay. By weights one GPU has layers 1, 2 and 4; a
// bound that took all that ⊕ adds for time on other GPUs was above the optimum.
func TestWaitsBetweenLayersInARow(t *testing.T) {
	t.Parallel()
	layer := func(f, b, a, weight float64) chain.Layer {
		return chain.Layer{ForwardTime: f, BackwardTime: b, Activation: a, Saved: a, Weight: weight}
	}
	c := &chain.Chain{Name: "waits", Input: chain.Input{Activation: 2, Gradient: 2}, Layers: []chain.Layer{
		layer(5, 1, 0, 10000007), layer(4, 2, 12, 2000000), layer(1, 1, 3, 4000000), layer(4, 3, 8, 8000000), layer(3, 3, 2, 16000000),
	}}
	p := platform.Platform{Memory: 20000045, Bandwidth: 30, Processors: 2, WeightCopies: 1}
	best, _, err := optimumpipeline.Search(c, p, plan.TaskModel, 1<<18)
	if err != nil {
		t.Fatal(err)
	}
	x, err := Exact(t.Context(), c, p, Options{}, best*1.021, 0)
	if err != nil || x.OnePeriodic.Period > best*(1+2*optimumpipeline.Closeness) {
		t.Errorf("bound %v, optimum %v: %v", x.OnePeriodic.Period, best, err)
	}
}

// allocationsOf calls with each allocation of n layers to at most procs
// processors, numbered by their first layers.
func allocationsOf(n, procs int, with func([]plan.Stage)) {
	stages := make([]plan.Stage, n)
	var place func(l, used int)
	place = func(l, used int) {
		if l > n {
			with(slices.Clone(stages))
			return
		}
		for r := range min(used+1, procs) {
			stages[l-1] = plan.Stage{Processor: r, From: l, To: l}
			place(l+1, max(used, r+1))
		}
	}
	place(1, 0)
}

// No 1- or 2-periodic pattern of any allocation is faster than the bound for any k, where there is a little less memory
// than the best 1-periodic one takes; and that bound is no weaker than those in closed form.
func TestAnyKBoundsKPeriodic(t *testing.T) {
	t.Parallel()
	tight, beaten, total := 0, 0, 0
	for seed := range uint64(testfile.Cases(120)) {
		r := rand.New(rand.NewPCG(seed, 21))
		c, p := randomChain(r, 2+r.IntN(3), false), randomPlatform(r)
		p.Processors = 2 + r.IntN(2)
		for _, model := range models {
			o, p := Options{Model: model}, p
			_, found, err := optimumpipeline.Search(c, p, model, 1<<16)
			if err != nil {
				continue
			}
			p.Memory = found.Claims.PeakMemory - 1
			var best [2]float64
			for k := range best {
				best[k] = math.Inf(1)
				allocationsOf(c.Len(), p.Processors, func(stages []plan.Stage) {
					if x, _, err := optimumpipeline.SearchAllocation(c, p, stages, model, k+1, 1<<12); err == nil {
						best[k] = min(best[k], x)
					}
				})
			}
			least := min(best[0], best[1])
			if math.IsInf(least, 1) {
				continue
			}
			x, err := Exact(t.Context(), c, p, o, math.Inf(1), 0)
			if err != nil {
				t.Fatalf("seed %d, %s: %v: %+v %+v", seed, model, err, c, p)
			}
			if x.AnyK.Period > least*(1+2*optimumpipeline.Closeness) {
				t.Fatalf("seed %d, %s: %v for every pattern, but there are %v: %+v %+v", seed, model, x.AnyK.Period, best, c, p)
			}
			bounds, err := boundsOf(c, p, o)
			if err != nil {
				t.Fatal(err)
			}
			if bounds[0].Assumes != nil || x.AnyK.Period < bounds[0].Value*(1-1e-7) {
				t.Fatalf("seed %d, %s: %v, in closed form %+v", seed, model, x.AnyK.Period, bounds[0])
			}
			total++
			if x.AnyK.Period > least*(1-1e-3) {
				tight++
			}
			if best[1] < best[0]*(1-1e-3) {
				beaten++
			}
		}
	}
	t.Logf("of %d instances %d have a faster pattern with k > 1, and %d bounds are met", total, beaten, tight)
	if total < testfile.Cases(100) || beaten < testfile.Cases(10) || tight < total/4 {
		t.Errorf("of %d instances %d have a faster pattern with k > 1, and %d bounds are met", total, beaten, tight)
	}
}

// The ResNets of [004] 6.5 from nothing to the proof.
func BenchmarkExact(b *testing.B) {
	for _, name := range []string{"resnet18", "resnet34"} {
		b.Run(name, func(b *testing.B) {
			c, err := zoo.Load("zoo:" + name + "?image=1000&batch=8")
			if err != nil {
				b.Fatal(err)
			}
			p := platform.Platform{Memory: 8e9, Bandwidth: 12e9, Processors: 4, WeightCopies: 3}
			for b.Loop() {
				x, err := Exact(b.Context(), c, p, Options{}, math.Inf(1), 0)
				if err != nil || x.Plan == nil || x.OnePeriodic.Period < x.Plan.Claims.Makespan*(1-2*leastGap) {
					b.Fatal(x, err)
				}
			}
		})
	}
}
