package pipeline

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"workbench/model/exhaustive"
	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/testfile"
	"workbench/model/verify"
	verifypipeline "workbench/model/verify/pipeline"
)

const decisions = 1 << 20

// costs returns a chain of layers {uF, uB, a, W} with δ = a, from a_0 on.
func costs(input float64, layers ...[4]float64) *chain.Chain {
	c := &chain.Chain{Name: "costs", Input: chain.Input{Activation: input, Gradient: input}}
	for _, x := range layers {
		c.Layers = append(c.Layers, chain.Layer{
			ForwardTime: x[0], BackwardTime: x[1], Activation: x[2], Saved: x[2], Gradient: x[2],
			Weight: x[3],
		})
	}
	return c
}

type failing interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
}

// mustPattern checks a result: its plan is valid and has the period.
func mustPattern(t failing, c *chain.Chain, period float64, p *plan.Plan, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	r, err := verify.Replay(c, p)
	if err != nil {
		t.Fatal(err)
	}
	if !r.Valid() || r.Makespan != period || len(r.ClaimErrors) > 0 {
		t.Fatalf("period %g, verified %g: %+v %v\n%+v", period, r.Makespan, r.Violations, r.ClaimErrors, p)
	}
}

func near(a, b float64) bool { return math.Abs(a-b) <= 2*Closeness*b }

// singles is the allocation of one layer to each processor.
func singles(n int) (stages []plan.Stage) {
	for l := range n {
		stages = append(stages, plan.Stage{Processor: l, From: l + 1, To: l + 1})
	}
	return stages
}

// [004] Theorem 15 does not hold for layers inside a stage.
func TestInsideStages(t *testing.T) {
	c := costs(1, [4]float64{1, 1, 1}, [4]float64{1, 1, 1}, [4]float64{1, 1, 1})
	m := platform.Platform{Processors: 2, Bandwidth: 1e20, Memory: 3 + 2}
	stages := []plan.Stage{{Processor: 0, From: 1, To: 2}, {Processor: 1, From: 3, To: 3}}
	period, p, err := SearchAllocation(c, m, stages, plan.StageModel, 1, decisions)
	mustPattern(t, c, period, p, err)
	if !near(period, 4) {
		t.Errorf("period %g, want 4", period)
	}
	m.Memory--
	period, p, err = SearchAllocation(c, m, stages, plan.StageModel, 1, decisions)
	mustPattern(t, c, period, p, err)
	if !near(period, 6) {
		t.Errorf("with less memory: period %g, want 6", period)
	}
	m.Memory--
	if _, _, err := SearchAllocation(c, m, stages, plan.StageModel, 1, decisions); !errors.Is(err, exhaustive.ErrInfeasible) {
		t.Errorf("with too little memory: %v", err)
	}
}

// Whole numbers do not give whole periods: layers 1 and 4 share a processor,
// and three periods have to hold what takes 16.
func TestFractionalPeriod(t *testing.T) {
	c := costs(1, [4]float64{0, 3, 0}, [4]float64{0, 5, 0}, [4]float64{0, 5, 2}, [4]float64{0, 1, 0})
	m := platform.Platform{Processors: 3, Bandwidth: 1, Memory: 10}
	period, p, err := SearchAllocation(c, m, stagesOf([]int{0, 1, 2, 0}), plan.StageModel, 1, decisions)
	mustPattern(t, c, period, p, err)
	if !near(period, 16.0/3) {
		t.Errorf("period %g, want 16/3", period)
	}
}

// theorem16 is the family for k, with the memory of the buffers that the
// theorem does not count.
func theorem16(k int) (*chain.Chain, platform.Platform) {
	c := costs(1)
	for l := range k + 1 {
		w := float64(max(1, l))
		if l == 0 || l == k {
			w += 2
		}
		c.Layers = append(c.Layers, chain.Layer{ForwardTime: 1, BackwardTime: 1, Activation: 1, Saved: 1, Gradient: 1, Weight: w})
	}
	return c, platform.Platform{Processors: k + 1, Bandwidth: 1e20, Memory: float64(k+1) + 4, WeightCopies: 1}
}

// [004] Theorem 16: j-periodic patterns reach 2(1 + 1/j), j ≤ k, and no more.
func TestTheorem16(t *testing.T) {
	for _, x := range []struct{ k, j int }{{1, 1}, {2, 1}, {2, 2}, {3, 1}, {3, 2}, {3, 3}, {4, 3}, {4, 4}, {5, 4}, {5, 5}} {
		c, m := theorem16(x.k)
		period, p, err := SearchAllocation(c, m, singles(x.k+1), plan.StageModel, x.j, decisions)
		mustPattern(t, c, period, p, err)
		if want := 2 * (1 + 1/float64(x.j)); !near(period, want) {
			t.Errorf("k = %d: the best %d-periodic pattern has period %g, want %g", x.k, x.j, period, want)
		}
	}
}

// [004] Theorem 17: a chain for which the best contiguous period is more than
// 2 - 1/k times that of an allocation of period k.
func TestTheorem17(t *testing.T) {
	for _, k := range []int{2, 3} {
		n := float64(2*k + 1)
		c := costs(0)
		// Scaled by 2k+1, so that ε = 1.
		var scaled []float64
		for range k {
			scaled = append(scaled, float64(k)*n, 1, float64(k-1)*n, 1)
		}
		scaled = append(scaled, float64(k)*n)
		for range (k-2)*(2*k+1) + 1 {
			scaled = append(scaled, 1)
		}
		scaled = append(scaled, n)
		for _, x := range scaled {
			c.Layers = append(c.Layers, chain.Layer{ForwardTime: x})
		}
		// k+1 processors have a layer of cost k, one has a layer of cost k-1 and
		// the last, k-1 have a layer of cost k-1 and 2k+1 layers of cost ε.
		var stages []plan.Stage
		whole, part, tiny := 0, 0, 0
		for l, x := range scaled {
			s := plan.Stage{From: l + 1, To: l + 1}
			switch x {
			case float64(k) * n:
				s.Processor = whole
				whole++
			case 1:
				s.Processor = k + 2 + tiny/(2*k+1)
				tiny++
			default:
				s.Processor = k + 1 + part
				if l == len(scaled)-1 {
					s.Processor = k + 1
				}
				part++
			}
			stages = append(stages, s)
		}
		m := platform.Platform{Processors: 2*k + 1, Bandwidth: 1, Memory: 1}
		if k == 2 { // the search is for small chains
			period, p, err := SearchAllocation(c, m, stages, plan.TaskModel, 1, decisions)
			mustPattern(t, c, period, p, err)
			if !near(period, float64(k)*n) {
				t.Errorf("k = %d: period %g, want %g", k, period, float64(k)*n)
			}
		}
		load := make([]float64, m.Processors)
		for l, s := range stages {
			load[s.Processor] += scaled[l]
		}
		for i, x := range load {
			if x != float64(k)*n {
				t.Errorf("k = %d: processor %d has load %g, want %g", k, i, x, float64(k)*n)
			}
		}
		if got, least := contiguous(scaled, m.Processors), float64(2*k-1)*n; !(got > least) {
			t.Errorf("k = %d: contiguous period %g, want more than %g", k, got, least)
		}
	}
}

// contiguous returns the least largest load of so many parts in a row.
func contiguous(costs []float64, parts int) float64 {
	best := make([]float64, len(costs)+1) // of the first layers
	for l, x := range costs {
		best[l+1] = best[l] + x
	}
	for range parts - 1 {
		next := make([]float64, len(costs)+1)
		for to := range next {
			next[to] = best[to]
			load := 0.0
			for from := to - 1; from >= 0; from-- {
				load += costs[from]
				next[to] = min(next[to], max(best[from], load))
			}
		}
		best = next
	}
	return best[len(costs)]
}

// eachContiguous calls do for each contiguous allocation on all processors.
func eachContiguous(n, processors int, do func([]plan.Stage)) {
	var place func(from int, stages []plan.Stage)
	place = func(from int, stages []plan.Stage) {
		if from > n {
			do(stages)
			return
		}
		for to := from; to <= n && len(stages) < processors; to++ {
			place(to+1, append(stages[:len(stages):len(stages)], plan.Stage{Processor: len(stages), From: from, To: to}))
		}
	}
	place(1, nil)
}

// bestContiguous returns the least period of a contiguous allocation.
func bestContiguous(t *testing.T, c *chain.Chain, m platform.Platform, model string) float64 {
	t.Helper()
	best := math.Inf(1)
	eachContiguous(c.Len(), m.Processors, func(stages []plan.Stage) {
		period, p, err := SearchAllocation(c, m, stages, model, 1, decisions)
		if errors.Is(err, exhaustive.ErrInfeasible) {
			return
		}
		mustPattern(t, c, period, p, err)
		best = min(best, period)
	})
	return best
}

// [004] Lemma 10: three layers that fit on two processors only if the first and
// the last share one.
func TestLemma10(t *testing.T) {
	c := costs(0, [4]float64{1, 1, 0, 1}, [4]float64{1, 1, 0, 2}, [4]float64{1, 1, 0, 1})
	m := platform.Platform{Processors: 2, Bandwidth: 1, Memory: 2, WeightCopies: 1}
	for _, model := range []string{plan.StageModel, plan.TaskModel} {
		if got := bestContiguous(t, c, m, model); !math.IsInf(got, 1) {
			t.Errorf("%s: contiguous period %g", model, got)
		}
		period, p, err := Search(c, m, model, decisions)
		mustPattern(t, c, period, p, err)
		if !near(period, 4) || len(p.Allocation) != 3 {
			t.Errorf("%s: period %g on %v, want 4", model, period, p.Allocation)
		}
	}
}

// [004] Theorem 18, as corrected: period k against k(k-1).
func TestTheorem18(t *testing.T) {
	const k = 3
	memory := float64(k)
	c := costs(0)
	for range k {
		c.Layers = append(c.Layers, chain.Layer{ForwardTime: 1, Weight: memory - 1})
	}
	c.Layers = append(c.Layers, chain.Layer{ForwardTime: k, Weight: memory})
	for range k {
		c.Layers = append(c.Layers, chain.Layer{ForwardTime: k - 1, Weight: 1})
	}
	m := platform.Platform{Processors: k + 2, Bandwidth: 1, Memory: memory, WeightCopies: 1}
	period, p, err := Search(c, m, plan.TaskModel, decisions)
	mustPattern(t, c, period, p, err)
	if !near(period, k) {
		t.Errorf("period %g, want %d", period, k)
	}
	if got := bestContiguous(t, c, m, plan.TaskModel); !near(got, k*(k-1)) {
		t.Errorf("contiguous period %g, want %d", got, k*(k-1))
	}
}

// [004] Theorem 15 for one layer per stage and positive times: the smallest T
// at which 1F1B* fits is the smallest of all 1-periodic patterns.
func TestTheorem15(t *testing.T) {
	testfile.Property(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 3).Draw(t, "layers")
		whole := func(label string, low int) float64 { return float64(rapid.IntRange(low, 3).Draw(t, label)) }
		c := costs(whole("a_0", 0))
		for range n {
			a := whole("a", 1)
			c.Layers = append(c.Layers, chain.Layer{
				ForwardTime: whole("uF", 1), BackwardTime: whole("uB", 1), Activation: a, Saved: a, Gradient: a, Weight: whole("W", 0),
			})
		}
		m := platform.Platform{Processors: n, Bandwidth: 1, Memory: float64(rapid.IntRange(4, 24).Draw(t, "M")), WeightCopies: 1}
		want := oneForwardOneBackward(c, m)
		period, p, err := SearchAllocation(c, m, singles(n), plan.StageModel, 1, decisions)
		if errors.Is(err, exhaustive.ErrInfeasible) {
			if !math.IsInf(want, 1) {
				t.Fatalf("no pattern, 1F1B* has period %g", want)
			}
			return
		}
		mustPattern(t, c, period, p, err)
		if !near(period, want) {
			t.Fatalf("period %g, 1F1B* has %g", period, want)
		}
	})
}

// oneForwardOneBackward returns the smallest T at which the groups of [004]
// Algorithm 6 fit, one layer per stage, communications being stages.
func oneForwardOneBackward(c *chain.Chain, m platform.Platform) float64 {
	n := c.Len()
	var items, sums []float64 // layer 1, cut 1, layer 2, …
	for l := range c.Layers {
		x := &c.Layers[l]
		items = append(items, x.ForwardTime+x.BackwardTime)
		if l < n-1 {
			items = append(items, (x.Activation+x.Gradient)/m.Bandwidth)
		}
	}
	largest := 0.0
	for i := range items {
		largest = max(largest, items[i])
		sum := 0.0
		for _, x := range items[i:] {
			sum += x
			sums = append(sums, sum)
		}
	}
	best := math.Inf(1)
	for _, T := range sums {
		if T < largest || T >= best {
			continue
		}
		group, sum, fits := 1, 0.0, true
		for i := len(items) - 1; i >= 0; i-- {
			if sum+items[i] > T {
				group, sum = group+1, 0
			}
			sum += items[i]
			if i%2 != 0 {
				continue
			}
			l := i / 2
			a := c.Input.Activation
			bytes := float64(m.WeightCopies) * c.Layers[l].Weight
			if l > 0 {
				a = c.Layers[l-1].Activation
				bytes += 2 * a
			}
			if l < n-1 {
				bytes += 2 * c.Layers[l].Activation
			}
			fits = fits && bytes+float64(group)*a <= m.Memory
		}
		if fits {
			best = T
		}
	}
	return best
}

// drawPipeline draws a small chain with whole times, and an allocation.
func drawPipeline(t *rapid.T, layers, least int) (*chain.Chain, platform.Platform, []int) {
	whole := func(label string, low, high int) float64 { return float64(rapid.IntRange(low, high).Draw(t, label)) }
	a := whole("a_0", 0, 2)
	c := costs(a)
	n := rapid.IntRange(1, layers).Draw(t, "layers")
	for range n {
		a := whole("a", 0, 2)
		c.Layers = append(c.Layers, chain.Layer{
			ForwardTime: whole("uF", least, 2), BackwardTime: whole("uB", least, 2), Activation: a, Saved: a, Gradient: a, Weight: whole("W", 0, 1),
		})
	}
	if c.TotalTime() == 0 {
		c.Layers[0].ForwardTime = 1
	}
	m := platform.Platform{
		Processors: rapid.IntRange(1, 3).Draw(t, "P"), Bandwidth: rapid.SampledFrom([]float64{1, 2}).Draw(t, "beta"),
		WeightCopies: rapid.IntRange(0, 1).Draw(t, "C"),
	}
	owner := make([]int, n)
	for l := range owner {
		owner[l] = rapid.IntRange(0, m.Processors-1).Draw(t, "owner")
	}
	return c, m, owner
}

// Plans are valid, no less memory gives a smaller period, k-periodic patterns
// are no worse than 1-periodic ones, and the best allocation no worse than any.
func TestPipelines(t *testing.T) {
	testfile.Property(t, func(t *rapid.T) {
		c, m, owner := drawPipeline(t, 3, 0)
		model := rapid.SampledFrom([]string{plan.StageModel, plan.TaskModel}).Draw(t, "model")
		m.Memory = math.MaxFloat64
		free, p, err := SearchAllocation(c, m, stagesOf(owner), model, 1, decisions)
		mustPattern(t, c, free, p, err)
		s := newPatterns(c, m, nil, owner, model, 1, 0)
		load := map[string]float64{}
		for _, x := range s.steps {
			load[x.resource] += x.duration
		}
		for _, x := range load {
			if free < x*(1-Closeness) {
				t.Fatalf("period %g below a load of %g", free, x)
			}
		}
		last := free
		for m.Memory = p.Claims.PeakMemory; ; {
			period, p, err := SearchAllocation(c, m, stagesOf(owner), model, 1, decisions)
			if errors.Is(err, exhaustive.ErrInfeasible) {
				break
			}
			mustPattern(t, c, period, p, err)
			if period < last*(1-2*Closeness) {
				t.Fatalf("memory %g: period %g, with more memory %g", m.Memory, period, last)
			}
			last = period
			if k := rapid.IntRange(2, 3).Draw(t, "k"); c.Len() < 3 {
				periodic, q, err := SearchAllocation(c, m, stagesOf(owner), model, k, decisions)
				mustPattern(t, c, periodic, q, err)
				if periodic > period*(1+2*Closeness) {
					t.Fatalf("memory %g: a %d-periodic pattern has period %g, a 1-periodic one %g", m.Memory, k, periodic, period)
				}
			}
			best, q, err := Search(c, m, model, decisions)
			mustPattern(t, c, best, q, err)
			if best > period*(1+2*Closeness) {
				t.Fatalf("memory %g: best period %g, on %v %g", m.Memory, best, owner, period)
			}
			m.Memory = p.Claims.PeakMemory * (1 - 1e-6)
			if p.Claims.PeakMemory == 0 {
				break
			}
		}
	})
}

// Patterns on the grid of whole numbers, all of them, tell whether a whole
// number is below the least period: with whole durations the starts of a
// pattern can be whole.
func TestPipelineOnGrid(t *testing.T) {
	testfile.Property(t, func(t *rapid.T) {
		c, m, owner := drawPipeline(t, 2, 1)
		m.Bandwidth = 1
		model := rapid.SampledFrom([]string{plan.StageModel, plan.TaskModel}).Draw(t, "model")
		m.Memory = float64(rapid.IntRange(1, 20).Draw(t, "M"))
		period, p, err := SearchAllocation(c, m, stagesOf(owner), model, 1, decisions)
		if errors.Is(err, exhaustive.ErrInfeasible) {
			period = math.Inf(1)
		} else {
			mustPattern(t, c, period, p, err)
		}
		for T := 2; T <= 7; T++ {
			if got, want := onGrid(t, c, m, owner, model, T), float64(T) >= period*(1-2*Closeness); got != want {
				t.Fatalf("a pattern of period %d: %v; the least period is %g", T, got, period)
			}
		}
	})
}

// onGrid reports whether there is a 1-periodic pattern of period T whose starts
// are whole.
func onGrid(t failing, c *chain.Chain, m platform.Platform, owner []int, model string, T int) bool {
	t.Helper()
	s := newPatterns(c, m, stagesOf(owner), owner, model, 1, 0)
	n := len(s.steps)
	period := float64(T)
	p := plan.New(plan.Pipeline, "grid", c, m)
	p.Period, p.Allocation, p.MemoryModel = &period, stagesOf(owner), model
	p.Ops = make([]plan.Op, n)
	var place func(i int) bool
	// From B_1 back, each as late as it can be.
	place = func(i int) bool {
		if i < 0 {
			r, err := verifypipeline.Verify(c, p)
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range r.Violations {
				if v.Rule != plan.RuleMemory && v.Rule != plan.RulePeriod && v.Rule != plan.RuleComputeOverlap && v.Rule != plan.RuleLinkOverlap {
					t.Fatalf("%+v", v)
				}
			}
			return r.Valid()
		}
		x := s.steps[i]
		for at := range T {
			start := float64(at)
			free := true
			for j := i + 1; j < n; j++ {
				if s.steps[j].resource != x.resource {
					continue
				}
				for _, turn := range []float64{-period, 0, period} {
					if b := p.Ops[j].Start + turn; b < start+x.duration && b+s.steps[j].duration > start {
						free = false
					}
				}
			}
			if !free {
				continue
			}
			shift := 0
			if i < n-1 {
				next := p.Ops[i+1].Start - float64(p.Ops[i+1].Shift)*period // of mini-batch 0
				for start-float64(shift)*period+x.duration > next {
					shift++
				}
			}
			p.Ops[i] = plan.Op{Op: x.op, Layer: x.layer, Resource: x.resource, Start: start, End: start + x.duration, Shift: shift}
			if place(i - 1) {
				return true
			}
			if i == n-1 {
				return false // the circle can be turned
			}
		}
		return false
	}
	return place(n - 1)
}

func TestPipelineErrors(t *testing.T) {
	c := costs(1, [4]float64{1, 1, 1, 1}, [4]float64{1, 1, 1, 1})
	good := platform.Platform{Processors: 2, Bandwidth: 1, Memory: 100}
	for want, call := range map[string]func() error{
		"there are 0 processors": func() error {
			return pipelineError(c, platform.Platform{Bandwidth: 1}, singles(2), plan.TaskModel, 1, 9)
		},
		"bandwidth is 0": func() error {
			return pipelineError(c, platform.Platform{Processors: 2}, singles(2), plan.TaskModel, 1, 9)
		},
		"k is 0":               func() error { return pipelineError(c, good, singles(2), plan.TaskModel, 0, 9) },
		`memory model is ""`:   func() error { return pipelineError(c, good, singles(2), "", 1, 9) },
		"layer 2 is on no":     func() error { return pipelineError(c, good, singles(1), plan.TaskModel, 1, 9) },
		"layer 3 is not there": func() error { return pipelineError(c, good, singles(3), plan.TaskModel, 1, 9) },
		"more than 2":          func() error { return pipelineError(c, good, singles(2), plan.TaskModel, 1, 2) },
		"no layer takes time":  func() error { return pipelineError(costs(1, [4]float64{}), good, singles(1), plan.TaskModel, 1, 9) },
	} {
		if err := call(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
	if err := pipelineError(c, good, singles(2), plan.TaskModel, 1, 2); !errors.Is(err, exhaustive.ErrLimit) {
		t.Error(err)
	}
}

func pipelineError(c *chain.Chain, m platform.Platform, stages []plan.Stage, model string, k, limit int) error {
	_, _, err := SearchAllocation(c, m, stages, model, k, limit)
	return err
}

func BenchmarkPipeline(b *testing.B) {
	for _, n := range []int{3, 4, 5} {
		c := costs(2)
		for l := range n {
			c.Layers = append(c.Layers, chain.Layer{
				ForwardTime: float64(1 + l%3), BackwardTime: float64(1 + (2*l)%3), Activation: float64(1 + l%2),
				Saved: 2, Gradient: 1, Weight: 1,
			})
		}
		b.Run(fmt.Sprintf("L=%d/P=3", n), func(b *testing.B) {
			m := platform.Platform{Processors: 3, Bandwidth: 1, Memory: 18, WeightCopies: 1}
			for b.Loop() {
				period, p, err := Search(c, m, plan.TaskModel, 1<<30)
				mustPattern(b, c, period, p, err)
			}
		})
	}
}
