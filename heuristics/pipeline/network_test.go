package pipeline

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	view "workbench/model/problem/pipeline"

	"workbench/model/plan"
	"workbench/model/testfile"
)

// drawnPattern is a pattern of k mini-batches in a random cyclic order, of the shortest period of it; nil where
// an operation found no place. Each takes the first place, or now and then a later one.
func drawnPattern(r *rand.Rand, in *instance, stages []plan.Stage, k int) *view.Pattern {
	c := newScheduler(in, stages)
	n := len(c.items)
	c.period = slices.Max(c.loads()) * float64(k) * (1 + []float64{0.3, 1, 3}[r.IntN(3)]*r.Float64())
	s := &view.Pattern{Period: c.period, K: k, Stages: stages, Items: c.items, F: make([]float64, n*k), B: make([]float64, n*k)}
	lazy := []float64{0, 0.1, 0.5}[r.IntN(3)]
	for step := range 2 * n * k {
		m, i := step/(2*n), step%(2*n)
		start, length := s.F, 0.0
		if i < n {
			length = c.items[i].F
		} else {
			i = 2*n - 1 - i
			start, length = s.B, c.items[i].B
		}
		ready := float64(m) * c.period / float64(k)
		if step%(2*n) > 0 {
			ready = c.places[0]
		}
		spans, at := c.busy[c.resource[i]], math.Inf(1)
		ends := []float64{ready}
		for _, x := range spans {
			ends = append(ends, x.start+x.length+math.Ceil((ready-x.start-x.length)/c.period-view.Rounding)*c.period)
		}
		for _, t := range ends {
			if t < at && c.free(c.resource[i], t, length) && (math.IsInf(at, 1) || r.Float64() > lazy) {
				at = t
			}
		}
		if math.IsInf(at, 1) {
			return nil
		}
		c.busy[c.resource[i]] = append(spans, span{at, length})
		start[m*n+i], c.places = at, []float64{at + length}
	}
	if !s.Retime() {
		return nil
	}
	return s
}

// allocated is an allocation of single layers, nil if loads do not allow it.
func allocated(in *instance, stages []plan.Stage, period float64, exactLayers bool) *partialAllocation {
	stop := func() bool { return false }
	a := newPartialAllocation(newRelaxation(in, period, exactLayers, true, stop))
	for _, s := range stages {
		for l := s.From; l <= s.To; l++ {
			if a.negligible[l] {
				a.skip(l)
			} else if _, why := a.place(l, s.Processor); why.kind != noArgument {
				return nil
			}
		}
	}
	return &a
}

// verdicts returns by width how the label-setting search of an allocation of single layers ends, and how those of some
// processors do, up to the end of each run of theirs.
func verdicts(in *instance, stages []plan.Stage, period float64, exactLayers bool) (list []verdict) {
	a := allocated(in, stages, period, exactLayers)
	if a == nil {
		return nil
	}
	search := func(n int, set processors, width, most int) {
		c := labelSearch{network: a.network(n, set, width), store: &labelStore{}, stop: func() bool { return false }}
		list = append(list, c.run(most))
	}
	for _, width := range []int{64, 6, 3, 2, 1} {
		search(in.N, allProcessors, width, 1<<11)
	}
	for set := processors(1); set < 1<<in.Procs-1; set++ {
		for n := a.lastOf(set, in.N); n > 0; n = a.lastOf(set, a.runBefore(n)) {
			search(n, set, 64, 1<<9)
		}
	}
	return list
}

// Of 6 to 10 layers in rows, where steps are of several layers, no label-setting search of any width excludes the period
// of a 1-, 2- or 3-periodic pattern whose GPUs are all full to the byte; some exclude one a fiftieth below.
func TestLabelSettingHoldsInFullMemory(t *testing.T) {
	t.Parallel()
	patterns, excluded := 0, 0
	for seed := range uint64(testfile.Cases(100)) {
		r := rand.New(rand.NewPCG(seed, 41))
		n, procs := 6+r.IntN(5), 2+r.IntN(3)
		c := randomChain(r, n, r.IntN(4) == 0)
		for l := range c.Layers { // some hardly count, some are no whole units
			if x := &c.Layers[l]; r.IntN(4) == 0 {
				x.ForwardTime, x.BackwardTime = x.ForwardTime*r.Float64(), x.BackwardTime*1e-4
			}
		}
		stages, used := make([]plan.Stage, n), 1
		for l := range stages {
			on := 0
			if l > 0 {
				if on = stages[l-1].Processor; r.IntN(3) == 0 {
					on = min(r.IntN(used+1), procs-1)
				}
			}
			used = max(used, on+1)
			stages[l] = plan.Stage{Processor: on, From: l + 1, To: l + 1}
		}
		p := randomPlatform(r)
		p.Memory, p.Processors, p.WeightCopies = 1e9, procs, 1
		if seed%2 == 0 { // the longest cut takes longer than the work of a processor
			longest := 0.0
			for l := range n - 1 {
				longest = max(longest, c.Layers[l].Activation+c.Layers[l].Gradient)
			}
			work := 0.0
			for _, x := range c.Layers {
				work += x.ForwardTime + x.BackwardTime
			}
			p.Bandwidth = max(longest, 1) / work * float64(procs) * (0.2 + 0.4*r.Float64())
		}
		o := Options{Model: models[r.IntN(2)]}
		in, err := newInstance(c, p, o)
		if err != nil {
			t.Fatal(err)
		}
		for range 6 {
			s := drawnPattern(r, in, stages, 1+r.IntN(3))
			if s == nil || s.Peak(in.Instance) == 0 {
				continue
			}
			full, held := *c, s.Memory(in.Instance)
			full.Layers, p.Memory = slices.Clone(c.Layers), slices.Max(held)
			for on := range used {
				first := slices.IndexFunc(stages, func(s plan.Stage) bool { return s.Processor == on })
				full.Layers[first].Weight += p.Memory - held[on]
			}
			tight, err := newInstance(&full, p, o)
			if err != nil {
				t.Fatal(err)
			}
			verified(t, &full, s.Plan(tight.Instance, "drawn"))
			patterns++
			for _, exactLayers := range []bool{true, false} {
				// Two roundings of a proof are what a bound stays below.
				ends := verdicts(tight, stages, s.Rate()*(1+2*safe), exactLayers)
				if ends == nil || slices.Contains(ends, infeasible) {
					t.Fatalf("seed %d, %s, exact layers %v: searches at %v, a pattern of %d, end with %v: %v %+v %+v", seed, o.Model, exactLayers,
						s.Rate(), s.K, ends, stages, full, p)
				}
			}
			if slices.Contains(verdicts(tight, stages, s.Rate()*0.98, true), infeasible) {
				excluded++
			}
		}
	}
	if patterns < testfile.Cases(200) || excluded < testfile.Cases(100)/10 {
		t.Errorf("of %d patterns %d are excluded a fiftieth below", patterns, excluded)
	}
}
