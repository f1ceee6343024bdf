package pipeline

import (
	"errors"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"workbench/model/instance/chain"
	"workbench/model/periodic"
	"workbench/model/plan"
	"workbench/model/platform"
	view "workbench/model/problem/pipeline"
	"workbench/model/problem/pipeline/pipelinetest"
	"workbench/model/testfile"
)

// Search with replicas is no worse than what it starts from. It finds what contiguous stages
// with replicas reach that run all mini-batches alike, or better, and without limits of memory
// the least load of all allocations, with few exceptions.
func TestSearchReplicated(t *testing.T) {
	t.Parallel()
	met, contiguous, balanced, free, gained := 0, 0, 0, 0, 0
	testfile.Property(t, func(rt *rapid.T) {
		x := pipelinetest.Draw(rt, 5)
		p := x.Platform
		p.Processors = rapid.IntRange(2, 4).Draw(rt, "processors")
		unlimited := rapid.Bool().Draw(rt, "unlimited")
		if unlimited {
			p.Memory = 1e15
		}
		o := Options{Model: x.Model}
		period := func(method func(*chain.Chain, platform.Platform, Options) (*plan.Plan, error), p platform.Platform) float64 {
			found, err := method(x.Chain, p, o)
			if errors.Is(err, plan.ErrNoPlan) || errors.As(err, new(*plan.Infeasible)) {
				return math.Inf(1)
			}
			if err != nil {
				rt.Fatal(err)
			}
			r, err := periodic.VerifyPipeline(x.Chain, found)
			if err != nil || !r.Valid() || len(r.ClaimErrors) > 0 {
				rt.Fatalf("%v, violations %v, claims %v: %+v\n%s", err, r.Violations, r.ClaimErrors, x, dump(found))
			}
			return r.Makespan
		}
		straight := period(Search, p)
		p.Replicas = true
		got, program := period(Search, p), period(PipeDream, p)
		if got > min(straight, program)*(1+view.Rounding) {
			rt.Fatalf("%g, but %g without replicas and %g of contiguous stages: %+v %+v", got, straight, program, x, p)
		}
		in, err := readInstance(x.Chain, p, o)
		if err != nil {
			rt.Fatal(err)
		}
		want := in.leastAlike()
		if math.IsInf(min(got, want), 1) {
			return
		}
		contiguous++
		if got <= want*(1+1e-4) { // to which periods are bracketed
			met++
		}
		if got < min(straight, program)*(1-1e-6) {
			gained++
		}
		if !unlimited {
			return
		}
		free++
		least := in.leastLoad()
		if got < least*(1-1e-9) {
			rt.Fatalf("%g is less than all loads, %g: %+v %+v", got, least, x, p)
		}
		if got <= least*(1+1e-4) {
			balanced++
		}
	})
	t.Logf("%d of %d as contiguous stages or better, %d of %d with the least load, %d better than both starts", met, contiguous, balanced, free, gained)
	if met < contiguous*49/50 || balanced < free*9/10 || free == 0 {
		t.Errorf("%d of %d as contiguous stages or better, %d of %d with the least load", met, contiguous, balanced, free)
	}
}

// What replicas leave is on one processor, which no contiguous stages do: of three, one has
// the first and the last layer, whose weights are dear to add up.
func TestSearchReplicatedBesideSeveralStages(t *testing.T) {
	t.Parallel()
	c := &chain.Chain{Layers: []chain.Layer{
		{ForwardTime: 0.4, BackwardTime: 0.6, Activation: 1, Saved: 1, Gradient: 1, Weight: 100},
		{ForwardTime: 2, BackwardTime: 2, Activation: 1, Saved: 1, Gradient: 1},
		{ForwardTime: 0.4, BackwardTime: 0.6, Weight: 100},
	}}
	p := platform.Platform{Memory: 1e4, Bandwidth: 100, Processors: 3, WeightCopies: 3, Replicas: true}
	found, err := Search(c, p, Options{})
	if err != nil {
		t.Fatal(err)
	}
	unrolled(t, c, found)
	if period := verified(t, c, found); math.Abs(period-2) > 1e-9 {
		t.Errorf("%g with %+v; 2 is possible", period, found.Allocation)
	}
	first, err := PipeDream(c, p, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if period := verified(t, c, first); period < 2.4 {
		t.Errorf("contiguous stages have %g: %+v", period, first.Allocation)
	}
}

// leastAlike is the least period of all contiguous stages with all numbers of replicas whose
// mini-batches run alike, all as soon as may be.
func (in *instance) leastAlike() float64 {
	best := math.Inf(1)
	replicatedStages(in.N, in.Platform.Processors, func(stages []plan.Stage) {
		low, high := 0.0, min(best, in.Latest())
		items := in.Items(stages)
		if !in.alikeFits(items, high) {
			return
		}
		for range 50 {
			if middle := (low + high) / 2; in.alikeFits(items, middle) {
				high = middle
			} else {
				low = middle
			}
		}
		best = high
	})
	return best
}

// alikeFits reports whether items run so at a period. A link between stages of a and b
// replicas has a mini-batch in as many as are a multiple of both.
func (in *instance) alikeFits(items []view.Item, period float64) bool {
	v := 0.0
	for i := len(items) - 1; i >= 0; i-- {
		x := &items[i]
		turn := float64(max(1, x.Copies)) * period
		if x.Cut {
			turn = float64(meet(items[i-1].Copies, items[i+1].Copies)) * period
		}
		gap := between(v, x.F, x.B+x.Reduce, turn)
		v = x.F + gap + x.B
		if x.Time()+x.Reduce > turn*(1+view.Rounding) || !x.Cut && !in.Fits(in.Needs(x.From, x.To, 1+int(gap/turn+view.Rounding))) {
			return false
		}
	}
	return true
}

// meet is in how many mini-batches one is on the same replicas of two stages.
func meet(a, b int) int {
	for m := 1; ; m++ {
		if m%max(1, a) == 0 && m%max(1, b) == 0 {
			return m
		}
	}
}

// leastLoad is the least of the largest load of a processor or link, over all allocations:
// layer by layer in a stage with the one before, in a new one with replicas, or on a
// processor that has others.
func (in *instance) leastLoad() float64 {
	best := math.Inf(1)
	var place func(stages []plan.Stage, used int)
	place = func(stages []plan.Stage, used int) {
		last := &stages[len(stages)-1]
		if last.To == in.N {
			best = min(best, in.largestLoad(stages))
			return
		}
		longer := slices.Clone(stages)
		longer[len(longer)-1].To++
		place(longer, used)
		next := plan.Stage{From: last.To + 1, To: last.To + 1}
		for next.Replicas = 1; used+next.Replicas <= in.Platform.Processors; next.Replicas++ {
			next.Processor = used
			place(append(slices.Clone(stages), next), used+next.Replicas)
		}
		next.Replicas = 1
		for next.Processor = range used {
			if next.Processor != last.Processor && slices.ContainsFunc(stages, func(s plan.Stage) bool { return s.Processor == next.Processor && s.Replicas == 1 }) {
				place(append(slices.Clone(stages), next), used)
			}
		}
	}
	for copies := 1; copies <= in.Platform.Processors; copies++ {
		place([]plan.Stage{{From: 1, To: 1, Replicas: copies}}, copies)
	}
	return best
}

func (in *instance) largestLoad(stages []plan.Stage) float64 {
	loads := map[[2]int]float64{}
	for k, s := range stages {
		weight := 0.0
		for l := s.From; l <= s.To; l++ {
			weight += in.W[l]
		}
		r := float64(s.Replicas)
		loads[[2]int{s.Processor, s.Processor}] += (in.Time(s.From, s.To) + 4*(r-1)*weight/(r*in.Platform.Bandwidth)) / r
		if k > 0 {
			before := stages[k-1]
			loads[[2]int{min(s.Processor, before.Processor), max(s.Processor, before.Processor)}] += in.Cut[s.From-1] / float64(meet(before.Replicas, s.Replicas))
		}
	}
	most := 0.0
	for _, load := range loads {
		most = max(most, load)
	}
	return most
}
