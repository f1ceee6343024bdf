package weightoffload

import (
	"context"
	"errors"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/problem/weightoffload"
	"workbench/model/testfile"
)

func TestSearch(t *testing.T) {
	testfile.Property(t, func(t *rapid.T) {
		draw := tiny
		if rapid.Bool().Draw(t, "smooth") {
			draw = smooth
		}
		c := draw(t, rapid.SampledFrom([]int{3, 5, 12}).Draw(t, "size"))
		p := device(t, c)
		o := Options{Moves: 100, Seed: rapid.Uint64().Draw(t, "seed")}
		calls, last := 0, math.Inf(1)
		o.OnBetter = func(p *plan.Plan) {
			verify(t, c, p)
			if *p.Period >= last {
				t.Fatalf("not better: %g after %g", *p.Period, last)
			}
			calls, last = calls+1, *p.Period
		}
		got, err := Search(context.Background(), c, p, o)
		if err != nil {
			t.Fatal(err)
		}
		verify(t, c, got)
		if calls == 0 || last != *got.Period {
			t.Fatalf("%d calls, the last with %g, the plan has %g", calls, last, *got.Period)
		}
		in, err := weightoffload.New(c, p)
		if err != nil {
			t.Fatal(err)
		}
		bounds := in.Bounds()
		if len(bounds) == 0 || bounds[0].Value > *got.Period*(1+1e-9) {
			t.Fatalf("bounds %v, plan %g", bounds, *got.Period)
		}
		for i := 1; i < len(bounds); i++ {
			if bounds[i].Value > bounds[0].Value {
				t.Fatalf("the best bound is not the first: %v", bounds)
			}
		}
		for _, m := range methods() {
			if other, err := m.run(c, p); err == nil && *other.Period < *got.Period*(1-1e-9) {
				t.Fatalf("search has %g, %s %g", *got.Period, m.name, *other.Period)
			}
		}
		// The same again, and from its own plan, also with more memory.
		o.OnBetter = nil
		again, err := Search(context.Background(), c, p, o)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(got, again); d != "" {
			t.Fatalf("not deterministic:\n%s", d)
		}
		p.Memory = math.Floor(p.Memory * 1.1)
		more, err := Search(context.Background(), c, p, Options{Moves: 1, Start: got})
		if err != nil {
			t.Fatal(err)
		}
		verify(t, c, more)
		if *more.Period > *got.Period*(1+1e-9) {
			t.Fatalf("%g with more memory, started from %g", *more.Period, *got.Period)
		}
	})
}

// Scaling by powers of two is exact, so plans are the same but for the scale.
func TestScaling(t *testing.T) {
	scale := func(c *chain.Chain, seconds, bytes float64) *chain.Chain {
		d := &chain.Chain{Name: c.Name, Input: chain.Input{Activation: c.Input.Activation * bytes}}
		for _, l := range c.Layers {
			d.Layers = append(d.Layers, chain.Layer{
				ForwardTime: l.ForwardTime * seconds, BackwardTime: l.BackwardTime * seconds,
				Activation: l.Activation * bytes, Weight: l.Weight * bytes,
			})
		}
		return d
	}
	all := append(methods(), method{"search", func(c *chain.Chain, p platform.Platform) (*plan.Plan, error) {
		return Search(context.Background(), c, p, Options{Moves: 100})
	}})
	testfile.Property(t, func(t *rapid.T) {
		c := smooth(t, 8)
		p := device(t, c)
		seconds := rapid.SampledFrom([]float64{1, 4, 0.125}).Draw(t, "seconds")
		bytes := rapid.SampledFrom([]float64{1, 8, 1024}).Draw(t, "bytes")
		q := platform.Platform{Memory: p.Memory * bytes, Bandwidth: p.Bandwidth * bytes / seconds, Model: p.Model}
		for _, m := range all {
			a, errA := m.run(c, p)
			b, errB := m.run(scale(c, seconds, bytes), q)
			if (errA == nil) != (errB == nil) {
				t.Fatalf("%s: %v, scaled: %v", m.name, errA, errB)
			}
			if errA != nil {
				continue
			}
			for i := range a.Ops {
				a.Ops[i].Start *= seconds
				a.Ops[i].End *= seconds
			}
			if d := cmp.Diff(a.Ops, b.Ops); d != "" {
				t.Fatalf("%s differs when scaled:\n%s", m.name, d)
			}
		}
	})
}

func TestCancelledSearchKeepsAPlan(t *testing.T) {
	r := table1[6]
	c, p := r.chain(), r.device(0.1, 1e9)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	got, err := Search(ctx, c, p, Options{})
	if err != nil {
		t.Fatal(err)
	}
	verify(t, c, got)
}

func TestSearchTakesChoices(t *testing.T) {
	r := table1[8]
	c, p := r.chain(), r.device(0.25, 12e9)
	first, err := Search(context.Background(), c, p, Options{})
	if err != nil {
		t.Fatal(err)
	}
	away := make([]bool, 2*c.Len())
	for _, o := range first.Ops {
		if o.Op == plan.OpP {
			away[2*(o.Layer-1)] = true
			away[2*(o.Layer-1)+1] = true
		}
	}
	got, err := Search(context.Background(), c, p, Options{Away: away, Start: first})
	if err != nil {
		t.Fatal(err)
	}
	verify(t, c, got)
	if *got.Period > *first.Period {
		t.Errorf("%g, the start had %g", *got.Period, *first.Period)
	}
}

func TestStartNonsense(t *testing.T) {
	r := table1[8]
	c, p := r.chain(), r.device(0.25, 12e9)
	T := 1.0
	for _, start := range []*plan.Plan{
		{},
		{Problem: Problem},
		{Problem: Problem, Period: &T},
		{Problem: Problem, Period: &T, Ops: []plan.Op{{Op: "F", Layer: 0}}},
		{Problem: Problem, Period: &T, Ops: []plan.Op{{Op: "F", Layer: 1, Start: math.NaN()}}},
	} {
		got, err := Search(context.Background(), c, p, Options{Start: start, Away: []bool{true}, Moves: 1})
		if err != nil {
			t.Fatal(err)
		}
		verify(t, c, got)
	}
}

func TestEdges(t *testing.T) {
	layer := func(uF, uB, a, w float64) chain.Layer {
		return chain.Layer{ForwardTime: uF, BackwardTime: uB, Activation: a, Weight: w}
	}
	for _, x := range []struct {
		name   string
		layers []chain.Layer
		beta   float64
	}{
		{"one layer", []chain.Layer{layer(1, 2, 1, 1)}, 1},
		{"no weights", []chain.Layer{layer(1, 2, 1, 0), layer(1, 2, 1, 0)}, 1},
		{"one weight", []chain.Layer{layer(1, 2, 1, 0), layer(1, 2, 1, 5), layer(1, 1, 1, 0)}, 1},
		{"no activations", []chain.Layer{layer(1, 2, 0, 2), layer(1, 2, 0, 3), layer(1, 2, 0, 1)}, 1},
		{"no time", []chain.Layer{layer(0, 0, 1, 2), layer(0, 0, 1, 3), layer(0, 0, 1, 1)}, 1},
		{"a giant", []chain.Layer{layer(1, 2, 1, 1), layer(1, 2, 1, 1e6), layer(1, 2, 1, 1), layer(1, 2, 1, 1)}, 1},
		{"tiny bandwidth", []chain.Layer{layer(1, 2, 1, 1), layer(1, 2, 1, 1), layer(1, 2, 1, 1)}, 1e-9},
		{"huge bandwidth", []chain.Layer{layer(1, 2, 1, 1), layer(1, 2, 1, 1), layer(1, 2, 1, 1)}, 1e12},
		{"shrinking activations", []chain.Layer{layer(1, 2, 0, 1), layer(1, 2, 9, 1), layer(1, 2, 9, 1)}, 1},
	} {
		t.Run(x.name, func(t *testing.T) {
			c := &chain.Chain{Name: x.name, Layers: x.layers}
			low, high := weightoffload.FromChain(c).Range()
			for _, m := range []float64{low, math.Floor((low + high) / 2), high} {
				p := platform.Platform{Memory: m, Bandwidth: x.beta}
				got, err := Search(context.Background(), c, p, Options{Moves: 300})
				if err != nil {
					t.Fatal(err)
				}
				if *got.Period > 0 {
					verify(t, c, got)
				}
				if m == high && *got.Period != c.TotalTime() {
					t.Errorf("all weights fit, yet it takes %g and not %g", *got.Period, c.TotalTime())
				}
				l2l, err := L2L(c, p)
				if err != nil {
					t.Fatal(err)
				}
				if *l2l.Period > 0 {
					verify(t, c, l2l)
				}
			}
			if low == 0 {
				return
			}
			p := platform.Platform{Memory: low - 1, Bandwidth: x.beta}
			for _, m := range methods() {
				var e *plan.Infeasible
				if _, err := m.run(c, p); !errors.As(err, &e) || e.Memory != low || e.Why == "" {
					t.Errorf("%s below the least memory: %v", m.name, err)
				}
			}
		})
	}
}

func TestBadInput(t *testing.T) {
	good := &chain.Chain{Layers: []chain.Layer{{ForwardTime: 1, BackwardTime: 1, Weight: 1}}}
	for _, x := range []struct {
		name string
		c    *chain.Chain
		p    platform.Platform
		want error
	}{
		{"no layers", &chain.Chain{}, platform.Platform{Memory: 1, Bandwidth: 1}, weightoffload.ErrInstance},
		{
			"not a number", &chain.Chain{Layers: []chain.Layer{{Weight: math.NaN()}}},
			platform.Platform{Memory: 1, Bandwidth: 1},
			weightoffload.ErrInstance,
		},
		{
			"negative", &chain.Chain{Layers: []chain.Layer{{ForwardTime: -1}}},
			platform.Platform{Memory: 1, Bandwidth: 1},
			weightoffload.ErrInstance,
		},
		{
			"infinite", &chain.Chain{Layers: []chain.Layer{{BackwardTime: math.Inf(1)}}},
			platform.Platform{Memory: 1, Bandwidth: 1},
			weightoffload.ErrInstance,
		},
		{"no memory", good, platform.Platform{Bandwidth: 1}, weightoffload.ErrInstance},
		{"no bandwidth", good, platform.Platform{Memory: 9}, weightoffload.ErrInstance},
		{"infinite bandwidth", good, platform.Platform{Memory: 9, Bandwidth: math.Inf(1)}, weightoffload.ErrInstance},
	} {
		t.Run(x.name, func(t *testing.T) {
			if _, err := Search(context.Background(), x.c, x.p, Options{}); !errors.Is(err, x.want) {
				t.Errorf("search: %v, want %v", err, x.want)
			}
			for _, m := range methods() {
				if _, err := m.run(x.c, x.p); !errors.Is(err, x.want) {
					t.Errorf("%s: %v, want %v", m.name, err, x.want)
				}
			}
		})
	}
}
