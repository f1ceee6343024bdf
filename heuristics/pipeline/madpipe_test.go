package pipeline

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	view "workbench/model/problem/pipeline"
	"workbench/model/testfile"
)

// admits reports whether a chain has an allocation with loads of at most T̂ that
// fits by MadPipe's estimates, by trying every partition and, stage by stage
// from the end, both kinds of processor.
func admits(d *madPipeDP, period float64) bool {
	in := d.in
	var place func(j, p, t, m int, v float64) bool
	place = func(j, p, t, m int, v float64) bool {
		if j == 0 {
			return true
		}
		for i := j; i >= 1; i-- {
			u := in.Time(i, j)
			if u > period*(1+view.Rounding) || in.Cut[i-1] > period*(1+view.Rounding) {
				continue
			}
			g := max(1, view.Periods(v+u, period))
			before := d.delayBefore(i, v, u, period)
			if p > 0 && in.Fits(in.Needs(i, j, g)) && place(i-1, p-1, t, m, before) {
				return true
			}
			t2, m2 := t+steps(u, d.time), m+d.memorySteps(d.special(i, j, g))
			if float64(t2)*d.time <= period*(1+view.Rounding) && m2 < d.grid.Memory && place(i-1, p, t2, m2, before) {
				return true
			}
		}
		return false
	}
	return place(in.N, in.Procs-1, 0, 0, 0)
}

// MadPipe-DP finds an allocation exactly where there is one, with every
// discretisation, and whatever it finds a larger T̂ allows as well.
func TestMadPipeDPExhaustively(t *testing.T) {
	t.Parallel()
	yes, no := 0, 0
	eachSmall(t, func(c *chain.Chain, p platform.Platform) {
		for _, model := range models {
			in, err := readInstance(c, p, Options{Model: model})
			if err != nil {
				t.Fatal(err)
			}
			for _, g := range testfile.Few(2, PaperGrid, Grid{Time: 7, Memory: 5, Delay: 9}, FineGrid) {
				d := newMadPipe(in, g)
				for _, d.safe = range []bool{false, true} {
					before := false
					for k := range 8 {
						period := in.Latest() * float64(k+1) / 8
						stages := d.allocationAt(period)
						if got, want := stages != nil, admits(d, period); got != want {
							t.Fatalf("%s, %+v, T̂ = %v: found %v, exists %v: %+v %+v", model, g, period, got, want, c, p)
						}
						if before && stages == nil {
							t.Fatalf("%s, %+v: T̂ = %v has no allocation, a smaller one has: %+v %+v", model, g, period, c, p)
						}
						if stages == nil {
							no++
							continue
						}
						yes++
						before = true
						if err := in.checkAllocation(stages); err != nil {
							t.Fatal(err)
						}
					}
				}
			}
		}
	})
	if yes < testfile.Cases(100) || no < testfile.Cases(100) {
		t.Errorf("%d allocations, %d without", yes, no)
	}
}

// A pattern that has been retimed keeps its allocation's memory and never gets
// a longer period.
func TestRetime(t *testing.T) {
	t.Parallel()
	shorter := 0
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 10))
		c, p := randomChain(r, 2+r.IntN(4), false), randomPlatform(r)
		p.Memory = 1e6
		in, err := readInstance(c, p, Options{})
		if err != nil {
			t.Fatal(err)
		}
		stages, _ := in.partition(0)
		s := in.oneFOneBStar(stages, in.Items(stages), longest(in.Items(stages))*(1+r.Float64()))
		// Period and starts as they are, but later by a tenth of each.
		slow := *s
		slow.Period *= 1.1
		slow.F, slow.B = nil, nil
		for i := range s.F {
			slow.F, slow.B = append(slow.F, s.F[i]*1.1), append(slow.B, s.B[i]*1.1)
		}
		peak := slow.Peak(in.Instance)
		was := slow.Period
		if !slow.Retime() {
			t.Fatalf("seed %d: not retimed", seed)
		}
		if slow.Period > was*(1+1e-9) || slow.Peak(in.Instance) > peak*(1+1e-9) {
			t.Fatalf("seed %d: period %v from %v, memory %v from %v", seed, slow.Period, was, slow.Peak(in.Instance), peak)
		}
		if slow.Period < was*(1-1e-9) {
			shorter++
		}
		verified(t, c, slow.Plan(in.Instance, "retimed"))
	}
	if shorter < 50 {
		t.Errorf("only %d became shorter", shorter)
	}
}

// Where MadPipe finds nothing it says so, and claims no proof.
func TestMadPipeFindsNothing(t *testing.T) {
	t.Parallel()
	testfile.Long(t)
	nothing := 0
	for seed := uint64(0); seed < 200 && nothing < 2; seed++ {
		r := rand.New(rand.NewPCG(seed, 11))
		c, p := randomChain(r, 3+r.IntN(4), false), randomPlatform(r)
		in, err := readInstance(c, p, Options{})
		if err != nil {
			t.Fatal(err)
		}
		p.Memory = in.Least().High // with no memory to spare
		_, err = MadPipe(c, p, Options{})
		_, _, phase := MadPipeAllocation(c, p, FineGrid, Options{})
		var proved *plan.Infeasible
		switch {
		case errors.As(err, &proved):
		case errors.Is(phase, plan.ErrNoPlan) && err == nil:
			// Only the safe estimate may exceed that of the paper.
			t.Fatalf("seed %d: a plan, but no allocation: %v", seed, phase)
		case errors.Is(err, plan.ErrNoPlan):
			nothing++
		case err != nil:
			t.Fatal(err)
		}
	}
	if nothing == 0 {
		t.Error("it always finds something")
	}
}

// A choice is a way to place a chain in the model of MadPipe-DP ([004] 7.1): its
// stages, from the end, and which of them are on the special processor. It is
// computed from the chain alone, formula by formula.
type choice struct {
	c       *chain.Chain
	p       platform.Platform
	task    bool
	safe    bool
	grid    Grid
	period  float64 // T̂
	rounded bool    // sums are compared with a little more, as rounding may be
}

func (x *choice) limit(y float64) float64 {
	if x.rounded {
		return y * (1 + 1e-9)
	}
	return y
}

// tensor returns a_ℓ and δ_ℓ.
func (x *choice) tensor(l int) (a, d float64) {
	if l == 0 {
		return x.c.Input.Activation, x.c.Input.Gradient
	}
	return x.c.Layers[l-1].Activation, x.c.Layers[l-1].Gradient
}

// cut returns C(ℓ), 0 behind the last layer and before the first.
func (x *choice) cut(l int) float64 {
	if l == 0 || l == x.c.Len() || x.p.Processors == 1 {
		return 0
	}
	a, d := x.tensor(l)
	return (a + d) / x.p.Bandwidth
}

// all returns U(1,L) and ΣC.
func (x *choice) all() (u, cuts float64) {
	for l := 1; l <= x.c.Len(); l++ {
		u += x.c.Layers[l-1].ForwardTime + x.c.Layers[l-1].BackwardTime
		cuts += x.cut(l)
	}
	return u, cuts
}

// up rounds y up to an integer of steps of most/(values−1).
func up(y, most float64, values int) float64 {
	step := most / float64(values-1)
	return math.Ceil(y/step-1e-9) * step
}

// plus is ⊕.
func (x *choice) plus(v, y float64) float64 {
	groups := func(z float64) float64 { return math.Ceil(z/x.period - 1e-11) }
	if groups(v) == groups(v+y) {
		return v + y
	}
	return x.period*groups(v) + y
}

// memory returns what stage s(i,j) needs with g mini-batches in flight, alone on
// a processor, and what the special processor reckons with.
func (x *choice) memory(i, j int, g float64) (normal, special float64) {
	fixed, stored, peak := 0.0, 0.0, 0.0
	for l := i; l <= j; l++ {
		fixed += float64(x.p.WeightCopies) * x.c.Layers[l-1].Weight
		before, dBefore := x.tensor(l - 1)
		a, d := x.tensor(l)
		stored += before
		peak = max(peak, stored+a, stored+d+dBefore)
	}
	for _, l := range [2]int{i - 1, j} {
		if l > 0 && l < x.c.Len() {
			a, d := x.tensor(l)
			fixed += a + d
		}
	}
	if !x.task {
		return fixed + g*stored, fixed + g*stored
	}
	normal = fixed + (g-1)*stored + peak
	if x.safe {
		return normal, normal
	}
	return normal, fixed + (g-1)*stored
}

// exists reports whether layers 1..j can be placed on so many normal processors
// and the special one, which has a time and a memory already, behind a delay v.
// It tries everything.
func (x *choice) exists(j, normal int, time, memory, v float64) bool {
	if j == 0 {
		return true
	}
	all, cuts := x.all()
	u := 0.0
	for i := j; i >= 1; i-- {
		u += x.c.Layers[i-1].ForwardTime + x.c.Layers[i-1].BackwardTime
		if u > x.limit(x.period) {
			return false
		}
		if x.cut(i-1) > x.limit(x.period) {
			continue
		}
		before := x.plus(v, u)
		if i > 1 {
			before = x.plus(before, x.cut(i-1))
		}
		if x.grid.Delay > 0 {
			before = up(before, all+cuts, x.grid.Delay)
		}
		g := max(1, math.Ceil((v+u)/x.period-1e-11))
		m, special := x.memory(i, j, g)
		if normal > 0 && m <= x.limit(x.p.Memory) && x.exists(i-1, normal-1, time, memory, before) {
			return true
		}
		t2, m2 := time+up(u, all, x.grid.Time), memory+up(special, x.p.Memory, x.grid.Memory)
		if t2 <= x.limit(x.period) && m2 <= x.limit(x.p.Memory) && x.exists(i-1, normal, t2, m2, before) {
			return true
		}
	}
	return false
}

// leastPeriod compares the minimum T̂ of MadPipe-DP with all choices: there is one
// at T̂ and none below, nor where it finds nothing. It returns the allocation.
func leastPeriod(t *testing.T, c *chain.Chain, p platform.Platform, model string, g Grid, safe bool) []plan.Stage {
	t.Helper()
	in, err := readInstance(c, p, Options{Model: model})
	if err != nil {
		t.Fatal(err)
	}
	d := newMadPipe(in, g)
	d.safe = safe
	x := &choice{c: c, p: p, task: model == plan.TaskModel, safe: safe, grid: g}
	exists := func(period float64, rounded bool) bool {
		x.period, x.rounded = period, rounded
		return x.exists(c.Len(), in.Procs-1, 0, 0, 0)
	}
	stages, period := d.allocation()
	if stages == nil {
		if exists(in.Latest(), false) {
			t.Fatalf("no allocation, but there is one at T̂ = %v: %+v %+v", in.Latest(), c, p)
		}
		return nil
	}
	if !exists(period, true) {
		t.Fatalf("T̂ = %v has no choice, %+v is none: %+v %+v", period, stages, c, p)
	}
	if low := period * (1 - 2e-4); exists(low, false) {
		t.Fatalf("T̂ = %v, but there is a choice at %v: %+v %+v", period, low, c, p)
	}
	if most := heaviest(c, stages); most > period*(1+1e-9) {
		t.Fatalf("T̂ = %v, a processor has %v: %+v", period, most, stages)
	}
	count := map[int]int{}
	for _, s := range stages {
		count[s.Processor]++
		if s.Processor < 0 || s.Processor >= p.Processors || s.Processor > 0 && count[s.Processor] > 1 {
			t.Fatalf("a normal processor has several stages, or is not there: %+v", stages)
		}
	}
	return stages
}

// At times that are no integers, in both models and with both estimates.
func TestMadPipeLeastPeriod(t *testing.T) {
	t.Parallel()
	found, special, nothing := 0, 0, 0
	for seed := range uint64(testfile.Cases(400)) {
		r := rand.New(rand.NewPCG(seed, 21))
		c := randomChain(r, 3+r.IntN(4), false)
		for i := range c.Layers {
			l := &c.Layers[i]
			l.ForwardTime *= 0.5 + r.Float64()
			l.BackwardTime *= 0.5 + r.Float64()
			l.Activation *= float64(50 + r.IntN(100))
			l.Gradient *= float64(50 + r.IntN(100))
			l.Weight *= 100
		}
		p := randomPlatform(r)
		p.Memory, p.Bandwidth = 100*p.Memory, 100*p.Bandwidth
		p.Processors = 2 + r.IntN(2)
		g := []Grid{PaperGrid, FineGrid, {Time: 9, Memory: 6, Delay: 9}, {Time: 30, Memory: 30}}[seed/2%4]
		stages := leastPeriod(t, c, p, models[seed%2], g, seed/8%2 == 0)
		if stages == nil {
			nothing++
			continue
		}
		found++
		own := 0
		for _, s := range stages {
			if s.Processor == 0 {
				own++
			}
		}
		if own > 1 {
			special++
		}
	}
	if found < testfile.Cases(150) || special < testfile.Cases(15) || nothing < testfile.Cases(10) {
		t.Errorf("%d allocations, %d with several stages on one processor, %d without", found, special, nothing)
	}
}

// Chains on which two states of MadPipe-DP differ by little in the delay and one
// of them is needed all the same, found among thousands by making the program
// forget states that are better by less than a tenth, or keep the first of two
// that need the same beside it.
func TestMadPipeSmallDelays(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		kind  int
		seeds []uint64
		grids [2]Grid
	}{
		{0, []uint64{121, 1127}, [2]Grid{{Time: 60, Memory: 15}, {Time: 30, Memory: 30}}},
		{1, []uint64{500, 1073}, [2]Grid{{Time: 60, Memory: 15}, {Time: 30, Memory: 30}}},
		{2, []uint64{282, 312, 443}, [2]Grid{{Time: 60, Memory: 15}, {Time: 30, Memory: 30}}},
		{2, []uint64{51, 813, 1811, 2471, 2651, 2655}, [2]Grid{{Time: 14, Memory: 6}, {Time: 12, Memory: 9}}},
	} {
		for _, seed := range x.seeds {
			c, p := unevenChain(seed, x.kind)
			if leastPeriod(t, c, p, models[seed%2], x.grids[seed/2%2], false) == nil {
				t.Errorf("kind %d, seed %d: no allocation", x.kind, seed)
			}
		}
	}
}

// The special processor takes the first layer and the last, which is tiny; the
// other processor is full. There is just enough time for the layers before.
func TestMadPipeFillsProcessors(t *testing.T) {
	t.Parallel()
	c := &chain.Chain{Name: "full", Layers: []chain.Layer{
		{ForwardTime: 0.5, BackwardTime: 0.46},
		{ForwardTime: 0.5, BackwardTime: 0.5},
		{ForwardTime: 0.01, BackwardTime: 0.01},
	}}
	p := platform.Platform{Memory: 1, Bandwidth: 1, Processors: 2}
	_, period, err := MadPipeAllocation(c, p, FineGrid, Options{})
	if err != nil || period > 1.001 {
		t.Errorf("T̂ = %v, %v; 1 is enough", period, err)
	}
	leastPeriod(t, c, p, plan.TaskModel, FineGrid, false)
}

// unevenChain returns a chain of 5 to 8 layers without weights whose numbers
// range over two orders of magnitude: all of them, sizes alone, or of kind 2
// activations, with weights and small gradients.
func unevenChain(seed uint64, kind int) (*chain.Chain, platform.Platform) {
	r := rand.New(rand.NewPCG(seed, 100+uint64(kind)))
	n := 5 + r.IntN(4)
	c := &chain.Chain{Name: "uneven"}
	wide := func() float64 { return math.Exp(4*r.Float64() - 2) }
	const unit = 1e6
	size := func() float64 { return math.Round(unit * wide()) }
	total := 0.0
	for range n {
		var l chain.Layer
		switch kind {
		case 0:
			l = chain.Layer{ForwardTime: wide(), BackwardTime: wide(), Activation: size(), Gradient: size()}
		case 1:
			l = chain.Layer{ForwardTime: 1 + r.Float64(), BackwardTime: 1 + r.Float64(), Activation: size(), Gradient: math.Floor(size() / 4)}
		default:
			l = chain.Layer{ForwardTime: wide(), BackwardTime: wide(), Activation: size(), Gradient: unit / 10, Weight: math.Floor(size() / 3)}
		}
		l.Saved = l.Activation
		total += l.Activation
		c.Layers = append(c.Layers, l)
	}
	c.Input.Activation = size()
	c.Input.Gradient = c.Input.Activation
	p := platform.Platform{Processors: 2 + r.IntN(3), Bandwidth: unit * []float64{0.5, 1, 3, 10}[r.IntN(4)], WeightCopies: 1}
	p.Memory = math.Floor(total * (0.6 + 1.5*r.Float64()))
	return c, p
}

// heaviest returns the largest load of a processor.
func heaviest(c *chain.Chain, stages []plan.Stage) (most float64) {
	load := map[int]float64{}
	for _, s := range stages {
		for l := s.From; l <= s.To; l++ {
			load[s.Processor] += c.Layers[l-1].ForwardTime + c.Layers[l-1].BackwardTime
		}
		most = max(most, load[s.Processor])
	}
	return most
}
