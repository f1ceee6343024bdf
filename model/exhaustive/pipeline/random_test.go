package pipeline

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"workbench/model/plan"
	"workbench/model/testfile"
	verifypipeline "workbench/model/verify/pipeline"
)

// No pattern is better than the best one: patterns with operations anywhere in
// the period, mini-batches ahead of what they need be, and overtaking each
// other, in the memory that they take.
func TestNoPatternBeatsIt(t *testing.T) {
	reached := 0
	testfile.Property(t, func(t *rapid.T) {
		c, m, owner := drawPipeline(t, 3, 0)
		model := rapid.SampledFrom([]string{plan.StageModel, plan.TaskModel}).Draw(t, "model")
		k := 1
		if c.Len() < 3 {
			k = rapid.IntRange(1, 3).Draw(t, "k")
		}
		m.Memory = math.MaxFloat64
		s := newPatterns(c, m, stagesOf(owner), owner, model, k, 0)
		p := drawTurns(t, s)
		r, err := verifypipeline.Verify(c, p)
		if err != nil {
			t.Fatal(err)
		}
		if !r.Valid() {
			t.Fatalf("%+v\n%+v", r.Violations, p)
		}
		m.Memory = r.PeakMemory
		period, q, err := SearchAllocation(c, m, stagesOf(owner), model, k, 1<<22)
		mustPattern(t, c, period, q, err)
		if period > r.Makespan*(1+2*Closeness) {
			t.Fatalf("period %g, a random pattern has %g: %+v", period, r.Makespan, p)
		}
		if period > r.Makespan*(1-2*Closeness) {
			reached++
		}
	})
	if reached == 0 {
		t.Error("no random pattern is as good as the best: they test nothing")
	}
}

// drawTurns draws a valid pattern: first when each operation runs on its
// resource, then for which mini-batch.
func drawTurns(t *rapid.T, s *patterns) *plan.Plan {
	load := map[string]float64{}
	T := 1.0
	for _, x := range s.steps {
		load[x.resource] += float64(s.k) * x.duration
		T = max(T, load[x.resource])
	}
	T += float64(rapid.IntRange(0, 2).Draw(t, "slack"))
	p := plan.New(plan.Pipeline, "random", s.chain, s.platform)
	p.Period, p.Allocation, p.MemoryModel, p.K = &T, s.allocation, s.model, s.k

	starts := make([][]float64, len(s.steps))
	var done []string
	for _, x := range s.steps {
		if slices.Contains(done, x.resource) {
			continue
		}
		done = append(done, x.resource)
		var work []int
		for i, y := range s.steps {
			if y.resource == x.resource {
				work = append(work, slices.Repeat([]int{i}, s.k)...)
			}
		}
		work = rapid.Permutation(work).Draw(t, "order")
		at := float64(rapid.IntRange(0, int(T)-1).Draw(t, "from"))
		idle := T - load[x.resource]
		for _, i := range work {
			gap := float64(rapid.IntRange(0, int(idle)).Draw(t, "gap"))
			idle -= gap
			at += gap
			starts[i] = append(starts[i], math.Mod(at, T))
			at += s.steps[i].duration
		}
	}
	// Back from B_1, each turn is for the mini-batch that some turn of the next
	// step is for, as many periods before as it takes or more.
	next := starts[len(starts)-1] // when mini-batch r runs, in any period
	slices.Sort(next)
	for i := len(s.steps) - 1; i >= 0; i-- {
		x := &s.steps[i]
		turns := rapid.Permutation(starts[i]).Draw(t, "turns")
		if i == len(s.steps)-1 {
			turns = next
		}
		now := make([]float64, s.k)
		for r, start := range turns {
			shift := 0
			if i < len(s.steps)-1 {
				shift = int(math.Ceil((start + x.duration - next[r]) / T))
				if rapid.IntRange(0, 5).Draw(t, "more") == 0 {
					shift++
				}
			}
			now[r] = start - float64(shift)*T
			p.Ops = append(p.Ops, plan.Op{
				Op: x.op, Layer: x.layer, Resource: x.resource, Start: start, End: start + x.duration,
				Shift: r + shift*s.k,
			})
		}
		next = now
	}
	return p
}
