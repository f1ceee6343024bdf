package activationoffload

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"workbench/model/exhaustive"
	optimumactivationoffload "workbench/model/exhaustive/activationoffload"
	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	view "workbench/model/problem/activationoffload"
	"workbench/model/testcase/random"
	"workbench/model/testfile"
	"workbench/model/zoo"
)

// optimumCase is a random instance: of few sizes or many, smooth or not, and often
// one in which a prefetch may have to precede an offload: because of finding 17, or
// because long computations leave time to exchange what is away.
func optimumCase(r *rand.Rand, layers int) (*chain.Chain, platform.Platform) {
	c := random.Chain(r, layers)
	p := device(r, c)
	switch r.IntN(6) {
	case 0:
		smooth(r, c)
	case 1:
		sizes := [...]float64{1 + float64(r.IntN(5)), 1 + float64(r.IntN(5))}
		c.Input.Activation = sizes[0]
		for i := range c.Layers {
			l := &c.Layers[i]
			l.Saved = sizes[r.IntN(2)]
			l.Activation = min(l.Activation, l.Saved)
			l.ClampOverhead()
		}
	case 2:
		c, p.Memory, p.Bandwidth = random.Offload(r, max(3, layers))
	case 3, 4:
		c = random.Chain(r, layers)
		for i := range c.Layers {
			l := &c.Layers[i]
			l.Saved, l.ForwardOverhead, l.BackwardOverhead = 1+9*r.Float64(), 0, 0
			l.Activation, l.Gradient = 0, 0
			l.ForwardTime, l.BackwardTime = 3*r.Float64(), r.Float64()
			if r.IntN(2) == 0 {
				l.ForwardTime, l.BackwardTime = 10*l.BackwardTime, l.ForwardTime
			}
			if r.IntN(3) == 0 {
				l.ForwardOverhead = 10 * r.Float64()
			}
			if r.IntN(3) == 0 {
				l.BackwardOverhead = 10 * r.Float64()
			}
		}
		c.Input.Activation, c.Input.Gradient = 10*r.Float64(), 0
		longSizes(c)
		p.Bandwidth *= 1000
	}
	if low, _ := view.Range(c); p.Memory < low || r.IntN(2) == 0 {
		p.Memory = between(r, c)
	}
	return c, p
}

// Optimum is the least makespan of all plans, as exhaustive search says, and no
// bound is above it. Neither is a bound on what is left of a plan above what is.
func TestOptimumIsExhaustive(t *testing.T) {
	r := testfile.Random(t, 21, 21)
	mixed := 0
	for k := range testfile.Cases(12000) {
		c, p := optimumCase(r, 1+r.IntN(6))
		want, _, err := optimumactivationoffload.Search(c, p.Memory, p.Bandwidth, 1<<16)
		if errors.Is(err, exhaustive.ErrLimit) {
			continue
		}
		if err != nil {
			t.Fatal(k, err)
		}
		got, err := Optimum(context.Background(), c, p, nil, 0)
		if err != nil {
			t.Fatal(k, err)
		}
		verify(t, c, got.Plan)
		if !got.Proved || !close9(got.Value, want) || !close9(got.Plan.Claims.Makespan, want) {
			t.Fatalf("case %d: %+v of %v, exhaustive search %v\n%+v %+v", k, got, got.Plan.Claims.Makespan, want, c, p)
		}
		bounds, err := view.Bounds(c, p)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range bounds {
			if b.Value > want*(1+1e-9) {
				t.Fatalf("case %d: bounds %+v, optimum %v\n%+v %+v", k, bounds, want, c, p)
			}
		}
		if mixes(got.Plan) {
			mixed++
		}
	}
	if mixed < testfile.Cases(20) {
		t.Errorf("a prefetch precedes an offload in %d optima only", mixed)
	}
}

// mixes reports whether a prefetch precedes an offload.
func mixes(p *plan.Plan) bool {
	fetched := false
	for i := range p.Ops {
		switch p.Ops[i].Op {
		case plan.OpP:
			fetched = true
		case plan.OpO:
			if fetched {
				return true
			}
		}
	}
	return false
}

// What is away may change while a long computation runs, and has to: ā_1, which is
// smaller, in place of ā_0, which could go at once. A bound that takes one set
// for all of a computation says 50.
func TestOptimumExchanges(t *testing.T) {
	const long, short = 20, 1e-3
	for name, times := range map[string][2][3]float64{
		"during F_3":                {{long, short, long}, {short, short, short}},
		"during B_3":                {{long, short, short}, {short, short, long}},
		"during B_3, then reversed": {{short, short, short}, {short, long, long}},
	} {
		c := chainOf(3, chain.Layer{})
		c.Input.Activation = 10
		c.Layers[0].Activation, c.Layers[0].Saved = 6, 6
		for i := range c.Layers {
			c.Layers[i].ForwardTime, c.Layers[i].BackwardTime = times[0][i], times[1][i]
		}
		if times[0][2] == long {
			c.Layers[2].ForwardOverhead = 40
		} else {
			c.Layers[2].BackwardOverhead = 40
		}
		p := platform.Platform{Memory: 10 + 40, Bandwidth: 1}
		r, err := Optimum(context.Background(), c, p, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		verify(t, c, r.Plan)
		if got := r.Plan.Claims.Makespan; !r.Proved || got > 46.01 {
			t.Errorf("%s: %v, proved %v, want 46", name, got, r.Proved)
		}
		bounds, err := view.Bounds(c, p)
		if err != nil {
			t.Fatal(err)
		}
		if bounds[0].Value > 46.01 {
			t.Errorf("%s: %+v is above the optimum", name, bounds[0])
		}
	}
}

// A prefetch waits for computations that need what it brings to be away, and does
// not start between two computations where what is alive would not fit.
func TestFetchWaits(t *testing.T) {
	c := chainOf(4, chain.Layer{ForwardTime: 1, BackwardTime: 1, Activation: 2, Saved: 2})
	c.Layers[1].ForwardOverhead = 1 // F_2 needs ā_0 away, F_1 and what is between do not
	s := mustSpace(t, c, platform.Platform{Memory: 6, Bandwidth: 2})
	for _, x := range []struct {
		name                     string
		m                        int
		away                     set
		computed, carried, start float64
		ok                       bool
	}{
		{"F_2 needs ā_0 away", 2, 1, 3, 1, 3, true},
		{"the link is busy for longer", 2, 1, 3, 4, 4, true},
		{"ā_0 is enough for F_3", 3, 2, 4, 3, 3, true},
		{"after F_3 nothing has room", 3, 1, 4, 3, 0, false},
	} {
		l := label{away: x.away, bytes: 2 * float64(x.away), computed: x.computed, carried: x.carried}
		got, ok := s.fetch(x.m, &l, &s.sizes[0])
		if ok != x.ok || ok && got.start != x.start {
			t.Errorf("%s: %v at %v, want %v at %v", x.name, ok, got.start, x.ok, x.start)
		}
	}
}

// A search that is stopped keeps its start, and a bound that holds; one that may
// miss by a gap says so.
func TestOptimumStopped(t *testing.T) {
	testfile.Long(t)
	c, err := zoo.Load("zoo:resnet50")
	if err != nil {
		t.Fatal(err)
	}
	low, high := view.Range(c)
	p := platform.Platform{Memory: low + 0.3*(high-low), Bandwidth: 12e9}
	best, err := Optimum(context.Background(), c, p, nil, 0)
	if err != nil || !best.Proved {
		t.Fatal(best, err)
	}
	verify(t, c, best.Plan)
	stopped, cancel := context.WithCancel(context.Background())
	cancel()
	first, err := Greedy(context.Background(), c, p)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Optimum(stopped, c, p, first, 0)
	if err != nil || got.Plan != first || got.Proved || got.Value > best.Value {
		t.Errorf("stopped at once: %+v, %v; optimum %v", got, err, best.Value)
	}
	got, err = Optimum(context.Background(), c, p, first, 0.05)
	if err != nil || !got.Proved || got.Value > best.Value*(1+1e-9) || got.Value < 0.95*got.Plan.Claims.Makespan {
		t.Errorf("within 5 %%: %+v, %v; optimum %v", got, err, best.Value)
	}
	if got.States >= best.States {
		t.Errorf("within 5 %%: %d labels, exactly %d", got.States, best.States)
	}
	w := &walk{space: mustSpace(t, c, p), limit: 100}
	if _, finished := w.run(context.Background(), first.Claims.Makespan); finished || len(w.steps) > 200 {
		t.Errorf("with 100 steps: finished %v after %d", finished, len(w.steps))
	}
}

func mustSpace(t testing.TB, c *chain.Chain, p platform.Platform) *space {
	t.Helper()
	in, err := newInstance(c, p)
	if err != nil {
		t.Fatal(err)
	}
	s, ok := newSpace(in)
	if !ok {
		t.Fatal("sizes do not fit")
	}
	return s
}

// A start for something else is refused, and a gap that is none.
func TestOptimumBadChoice(t *testing.T) {
	c := chainOf(3, chain.Layer{ForwardTime: 1, BackwardTime: 1, Activation: 1, Saved: 1})
	_, high := view.Range(c)
	p := platform.Platform{Memory: high, Bandwidth: 1}
	start, err := Greedy(context.Background(), c, p)
	if err != nil {
		t.Fatal(err)
	}
	for _, gap := range []float64{-0.1, 1, math.NaN(), math.Inf(1)} {
		if _, err := Optimum(context.Background(), c, p, start, gap); !errors.Is(err, view.ErrChoice) {
			t.Errorf("gap %v: %v", gap, err)
		}
	}
	p.Memory++
	if _, err := Optimum(context.Background(), c, p, start, 0); !errors.Is(err, view.ErrChoice) {
		t.Errorf("a start for another device: %v", err)
	}
}

// Chains of too many sizes for 64 bits get their start and a bound.
func TestOptimumOfManySizes(t *testing.T) {
	c := chainOf(70, chain.Layer{ForwardTime: 1, BackwardTime: 1})
	for i := range c.Layers {
		c.Layers[i].Activation = float64(100 + i)
		c.Layers[i].Saved = float64(100 + i)
	}
	low, high := view.Range(c)
	p := platform.Platform{Memory: (low + high) / 2, Bandwidth: 100}
	r, err := Optimum(context.Background(), c, p, nil, 0)
	if err != nil || r.States != 0 || r.Plan.Method != "greedy" || !(r.Value > 0) {
		t.Errorf("%+v, %v", r, err)
	}
}

func BenchmarkOptimum(b *testing.B) {
	for _, name := range [...]string{"resnet50", "resnet101"} {
		b.Run(name, func(b *testing.B) {
			c, err := zoo.Load("zoo:" + name)
			if err != nil {
				b.Fatal(err)
			}
			low, high := view.Range(c)
			p := platform.Platform{Memory: low + 0.3*(high-low), Bandwidth: 12e9}
			start, err := Search(context.Background(), c, p, 0)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				r, err := Optimum(context.Background(), c, p, start, 0)
				if err != nil || !r.Proved {
					b.Fatal(r, err)
				}
			}
		})
	}
}
