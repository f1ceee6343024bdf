package pipeline

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"workbench/model/exhaustive"
	optimum "workbench/model/exhaustive/pipeline"
	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	view "workbench/model/problem/pipeline"
	"workbench/model/testfile"
	"workbench/model/zoo"
)

// excludes reports whether what holds for any k excludes an allocation, layer by layer, at a period.
func excludes(t *testing.T, c *chain.Chain, p platform.Platform, model string, stages []plan.Stage, period float64) bool {
	t.Helper()
	in, err := newInstance(c, p, Options{Model: model})
	if err != nil {
		t.Fatal(err)
	}
	e := newEnumeration(in, period, true, true, 1<<20, func() bool { return false })
	used := 0
	for _, s := range stages {
		used = max(used, s.Processor+1)
		for l := s.From; l <= s.To; l++ {
			if _, why := e.place(l, s.Processor); why.kind != noArgument || e.bound(l, used).kind != noArgument {
				return true
			}
		}
	}
	set, _, _ := e.nogoods.exclude(&e.partialAllocation, used, e.budget)
	return set != 0
}

// No allocation is excluded at the shortest period of its 1-, 2- and 3-periodic patterns,
// however tight the memory; many are a hundredth below.
func TestBoundsHoldForAnyK(t *testing.T) {
	t.Parallel()
	total, close, several := 0, 0, 0
	for seed := range uint64(testfile.Cases(100)) {
		r := rand.New(rand.NewPCG(seed, 31))
		c, p := randomChain(r, 3+r.IntN(3), false), randomPlatform(r)
		p.Processors = 2 + r.IntN(2)
		stages, used := make([]plan.Stage, c.Len()), 0
		for l := range stages {
			x := min(r.IntN(used+1), p.Processors-1)
			stages[l] = plan.Stage{Processor: x, From: l + 1, To: l + 1}
			used = max(used, x+1)
		}
		stages = view.Merged(stages)
		for _, model := range models {
			p := p
			for p.Memory = 1e6; ; { // with less and less, as long as anything fits
				best, peak := math.Inf(1), 0.0
				for k := 1; k <= 3; k++ {
					x, found, err := optimum.SearchAllocation(c, p, stages, model, k, 1<<10)
					if errors.Is(err, exhaustive.ErrLimit) {
						continue
					}
					if err != nil {
						break
					}
					if k > 1 && x < best*(1-1e-3) && !math.IsInf(best, 1) {
						several++
					}
					if x < best {
						best, peak = x, found.Claims.PeakMemory
					}
				}
				if math.IsInf(best, 1) || peak == 0 {
					break
				}
				if excludes(t, c, p, model, stages, best*(1+2*optimum.Closeness)) {
					t.Fatalf("seed %d, %s: excluded at %v, the period of a pattern: %v %+v %+v", seed, model, best, stages, c, p)
				}
				total++
				if excludes(t, c, p, model, stages, best*0.99) {
					close++
				}
				p.Memory = peak - 1
			}
		}
	}
	t.Logf("of %d allocations %d are excluded a hundredth below, %d are faster with several mini-batches", total, close, several)
	if total < testfile.Cases(300) || close < total/2 || several < testfile.Cases(100)/20 {
		t.Errorf("of %d allocations %d are excluded a hundredth below, %d are faster with several mini-batches", total, close, several)
	}
}

// At the shortest period of the 1-periodic patterns of an allocation, in the memory of the pattern, no PESP is infeasible: of
// each processor, of all, layer by layer. Many are a hundredth below.
func TestPESPHolds(t *testing.T) {
	t.Parallel()
	total, close := 0, 0
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 32))
		c, p := randomChain(r, 2+r.IntN(3), seed%4 == 3), randomPlatform(r)
		p.Processors = 1 + r.IntN(2)
		stages, used := make([]plan.Stage, c.Len()), 0
		for l := range stages {
			x := min(r.IntN(used+1), p.Processors-1)
			stages[l] = plan.Stage{Processor: x, From: l + 1, To: l + 1}
			used = max(used, x+1)
		}
		model := models[seed%2]
		best, found, err := optimum.SearchAllocation(c, p, stages, model, 1, 1<<10)
		if err != nil || found.Claims.PeakMemory == 0 {
			continue
		}
		p.Memory = found.Claims.PeakMemory
		infeasibleAt := func(period float64) bool {
			in, err := newInstance(c, p, Options{Model: model})
			if err != nil {
				t.Fatal(err)
			}
			e := newEnumeration(in, period, true, false, 1<<30, func() bool { return false })
			e.pespBudget = 1 << 12
			for _, s := range stages {
				if _, why := e.place(s.From, s.Processor); why.kind != noArgument || e.bound(s.From, used).kind != noArgument {
					return true
				}
			}
			for only := noProcessor; only < used; only++ {
				if _, answer := e.solve(e.parts(only), e.fixed); answer == infeasible {
					return true
				}
			}
			return false
		}
		if infeasibleAt(best * (1 + 2*optimum.Closeness)) {
			t.Fatalf("seed %d, %s: infeasible at %v, the period of a pattern: %v %+v %+v", seed, model, best, stages, c, p)
		}
		total++
		if infeasibleAt(best * 0.99) {
			close++
		}
	}
	t.Logf("of %d allocations %d are infeasible a hundredth below", total, close)
	if total < 100 || close < total/2 {
		t.Errorf("of %d allocations %d are infeasible a hundredth below", total, close)
	}
}

// measuredAllocations are those of findings.md of networks of images of 1000, in batches of 8.
func measuredAllocations() []measuredAllocation {
	run := func(on, from, to int) plan.Stage { return plan.Stage{Processor: on, From: from, To: to} }
	return []measuredAllocation{
		{"resnet50", 4, []plan.Stage{run(0, 1, 3), run(1, 4, 5), run(2, 6, 6), run(3, 7, 22)}, 0, 0.002},
		{"densenet121", 6, []plan.Stage{run(1, 1, 4), run(0, 5, 7), run(2, 8, 12), run(0, 13, 20), run(3, 21, 74)}, 0, 0.01},
		{"resnet101", 6, []plan.Stage{run(0, 1, 3), run(1, 4, 6), run(2, 7, 11), run(3, 12, 25), run(0, 26, 39)}, 0.01, 0.04},
		{"resnet50", 4, []plan.Stage{run(0, 1, 3), run(1, 4, 5), run(2, 6, 6), run(3, 7, 12), run(1, 13, 22)}, 0.05, 0.1},
		{"resnet101", 6, []plan.Stage{run(0, 1, 3), run(1, 4, 5), run(2, 6, 7), run(3, 8, 18), run(1, 19, 27), run(0, 28, 39)}, 0.15, 0.25},
	}
}

type measuredAllocation struct {
	name      string
	memory    float64
	stages    []plan.Stage
	near, far float64 // the gap is between
}

// load returns it with its platform of four GPUs.
func (x *measuredAllocation) load(t testing.TB) (*chain.Chain, platform.Platform) {
	t.Helper()
	c, err := zoo.Load("zoo:" + x.name + "?image=1000&batch=8")
	if err != nil {
		t.Fatal(err)
	}
	return c, platform.Platform{Memory: x.memory * (1 << 30), Bandwidth: 12e9, Processors: 4, WeightCopies: 3}
}

// What is proved for any k is near what is found where memory is tight, whether GPUs have one stage or two; with more
// mini-batches inside, label-setting makes too many labels and it is far from it (docs/findings.md).
func TestBoundsOfAllocations(t *testing.T) {
	t.Parallel()
	for _, x := range measuredAllocations() {
		c, p := x.load(t)
		q, err := Schedule(c, p, x.stages, Options{})
		if err != nil {
			t.Fatal(err)
		}
		period := verified(t, c, q)
		low, high := period/3, period
		for high-low > max(2e-3, x.far/10)*period {
			if test := (low + high) / 2; excludes(t, c, p, plan.TaskModel, x.stages, test) {
				low = test
			} else {
				high = test
			}
		}
		gap := 1 - low/period
		t.Logf("%s, %g GiB, %d stages: %.2f ms to %.2f ms, %.1f %%", x.name, x.memory, len(x.stages), low*1e3, period*1e3, gap*100)
		if gap < x.near || gap > x.far {
			t.Errorf("%s, %g GiB, %v: %v to %v, gap %v, want from %v to %v", x.name, x.memory, x.stages, low, period, gap, x.near, x.far)
		}
	}
}
