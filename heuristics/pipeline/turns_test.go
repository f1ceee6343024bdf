package pipeline

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"workbench/model/chain"
	"workbench/model/exhaustive"
	view "workbench/model/pipeline"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/testfile"
)

// pruned reports whether what holds for every k excludes an allocation, layer by layer, at
// a period.
func pruned(t *testing.T, c *chain.Chain, p platform.Platform, model string, stages []plan.Stage, period float64) bool {
	t.Helper()
	in, err := newInstance(c, p, Options{Model: model})
	if err != nil {
		t.Fatal(err)
	}
	a := newAllocations(in, period, true, true, func() bool { return false })
	a.owner[0] = none
	used := 0
	for _, s := range stages {
		used = max(used, s.Processor+1)
		for l := s.From; l <= s.To; l++ {
			if _, ok := a.put(l, s.Processor); !ok || !a.mayFit(l, used) {
				return true
			}
		}
	}
	return false
}

// No allocation is excluded at the least period of its 1-, 2- and 3-periodic patterns,
// however tight the memory; many are a hundredth below.
func TestTurnsHoldForEveryK(t *testing.T) {
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
					x, found, err := exhaustive.PipelineOn(c, p, stages, model, k, 1<<10)
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
				if pruned(t, c, p, model, stages, best*(1+2*exhaustive.Closeness)) {
					t.Fatalf("seed %d, %s: excluded at %v, the period of a pattern: %v %+v %+v", seed, model, best, stages, c, p)
				}
				total++
				if pruned(t, c, p, model, stages, best*0.99) {
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
