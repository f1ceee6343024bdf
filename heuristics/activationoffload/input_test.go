package activationoffload

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	view "workbench/model/problem/activationoffload"
	"workbench/model/testcase/random"
	"workbench/model/testfile"
	"workbench/model/zoo"
)

// everyMethod is methods with those of which this file need not know more.
func everyMethod() []method {
	return append(methods(),
		method{"dynprog", DynProg},
		method{"search", func(ctx context.Context, c *chain.Chain, p platform.Platform) (*plan.Plan, error) {
			return Search(ctx, c, p, 1)
		}},
		method{"optimum", func(ctx context.Context, c *chain.Chain, p platform.Platform) (*plan.Plan, error) {
			r, err := Optimum(ctx, c, p, nil, 0)
			if err != nil {
				return nil, err
			}
			return r.Plan, nil
		}})
}

func chainOf(n int, l chain.Layer) *chain.Chain {
	c := &chain.Chain{Name: "same", Input: chain.Input{Activation: l.Activation, Gradient: l.Gradient}}
	for range n {
		c.Layers = append(c.Layers, l)
	}
	return c
}

func TestBadInput(t *testing.T) {
	fine := chainOf(3, chain.Layer{ForwardTime: 1, BackwardTime: 1, Activation: 1, Saved: 1, Gradient: 1})
	negative := chainOf(3, chain.Layer{ForwardTime: -1, Activation: 1, Saved: 1})
	huge := chainOf(3, chain.Layer{ForwardTime: 1, Activation: 1e308, Saved: 1e308})
	for _, x := range []struct {
		name string
		c    *chain.Chain
		p    platform.Platform
		want error
	}{
		{"no chain", nil, platform.Platform{Memory: 9, Bandwidth: 1}, view.ErrChain},
		{"no layers", &chain.Chain{}, platform.Platform{Memory: 9, Bandwidth: 1}, view.ErrChain},
		{"negative time", negative, platform.Platform{Memory: 9, Bandwidth: 1}, view.ErrChain},
		{"sums overflow", huge, platform.Platform{Memory: 1e308, Bandwidth: 1}, view.ErrChain},
		{"no bandwidth", fine, platform.Platform{Memory: 9}, view.ErrPlatform},
		{"infinite bandwidth", fine, platform.Platform{Memory: 9, Bandwidth: math.Inf(1)}, view.ErrPlatform},
		{"bandwidth no number", fine, platform.Platform{Memory: 9, Bandwidth: math.NaN()}, view.ErrPlatform},
		{"negative memory", fine, platform.Platform{Memory: -1, Bandwidth: 1}, view.ErrPlatform},
		{"memory no number", fine, platform.Platform{Memory: math.NaN(), Bandwidth: 1}, view.ErrPlatform},
	} {
		for _, m := range everyMethod() {
			if _, err := m.run(context.Background(), x.c, x.p); !errors.Is(err, x.want) {
				t.Errorf("%s: %s: %v", x.name, m.name, err)
			}
		}
		if _, err := view.Bounds(x.c, x.p); !errors.Is(err, x.want) {
			t.Errorf("%s: bounds: %v", x.name, err)
		}
		if _, err := view.Fractional(x.c, x.p); !errors.Is(err, x.want) {
			t.Errorf("%s: fractional: %v", x.name, err)
		}
		if _, err := view.Schedule(x.c, x.p, "test", view.Choice{}); !errors.Is(err, x.want) {
			t.Errorf("%s: schedule: %v", x.name, err)
		}
	}
}

func TestBadChoice(t *testing.T) {
	c := chainOf(3, chain.Layer{ForwardTime: 1, BackwardTime: 1, Activation: 1, Saved: 1, Gradient: 1})
	p := platform.Platform{Memory: 9, Bandwidth: 1}
	for _, ch := range []view.Choice{
		{Offload: []int{3}},
		{Offload: []int{-1}},
		{Offload: []int{0, 0}},
		{Offload: []int{0}, Prefetch: []int{}},
		{Offload: []int{0, 1}, Prefetch: []int{0, 0}},
		{Offload: []int{0}, Prefetch: []int{7}},
		{Prefetch: []int{0}},
	} {
		if _, err := view.Schedule(c, p, "test", ch); !errors.Is(err, view.ErrChoice) {
			t.Errorf("%+v: %v", ch, err)
		}
	}
}

// Below the least memory every method says so and names the operation; at it a
// plan exists, unless nothing may wait for memory.
func TestLeastMemory(t *testing.T) {
	r := testfile.Random(t, 9, 9)
	for range testfile.Cases(200) {
		c := random.Chain(r, 1+r.IntN(6))
		low, high := view.Range(c)
		if low > high {
			t.Fatalf("range %v to %v\n%+v", low, high, c)
		}
		for _, m := range everyMethod() {
			got, err := m.run(context.Background(), c, platform.Platform{Memory: low, Bandwidth: 1})
			switch {
			case err == nil:
				verify(t, c, got)
			case m.name != "tflms" || !errors.Is(err, plan.ErrNoPlan):
				t.Fatalf("%s at the least memory %v: %v\n%+v", m.name, low, err, c)
			}
			if low == 0 {
				continue
			}
			var none *plan.Infeasible
			_, err = m.run(context.Background(), c, platform.Platform{Memory: low - 0.5, Bandwidth: 1})
			if !errors.As(err, &none) || none.Memory != low || !strings.Contains(none.Why, "_") {
				t.Fatalf("%s below the least memory %v: %v", m.name, low, err)
			}
		}
		got, err := Greedy(context.Background(), c, platform.Platform{Memory: high, Bandwidth: 1})
		if err != nil || len(got.Ops) != 2*c.Len() || got.Claims.Makespan != c.TotalTime() {
			t.Fatalf("at M_peak: %+v, %v", got, err)
		}
	}
}

// What Schedule says of choices that do not fit.
func TestUnfit(t *testing.T) {
	c := chainOf(4, chain.Layer{ForwardTime: 1, BackwardTime: 1, Activation: 1, Saved: 1})
	p := platform.Platform{Memory: 3, Bandwidth: 1} // of 5
	for _, x := range []struct {
		ch   view.Choice
		want view.Unfit
	}{
		{view.Choice{}, view.Unfit{Op: "F_3", Short: 1, Waits: -1}},
		{view.Choice{Offload: []int{0}}, view.Unfit{Op: "F_4", Short: 1, Waits: -1}},
		{view.Choice{Offload: []int{3, 0, 1}}, view.Unfit{Op: "F_3", Short: 1, Waits: 3}},
		{view.Choice{Offload: []int{2, 1, 0}}, view.Unfit{Op: "B_3", Short: 1, Waits: 2}},
		{view.Choice{Offload: []int{0, 1}, Prefetch: []int{0, 1}}, view.Unfit{}},
		{view.Choice{Offload: []int{0, 1, 2}, Prefetch: []int{1, 0, 2}}, view.Unfit{Op: "B_3", Short: 1, Waits: 2}},
	} {
		got, err := view.Schedule(c, p, "test", x.ch)
		var unfit *view.Unfit
		switch {
		case x.want == view.Unfit{}:
			if err != nil {
				t.Errorf("%+v: %v", x.ch, err)
				continue
			}
			verify(t, c, got)
		case !errors.As(err, &unfit) || unfit.Op != x.want.Op || unfit.Waits != x.want.Waits || math.Abs(unfit.Short-x.want.Short) > 1e-9:
			t.Errorf("%+v: %v, want %+v", x.ch, err, x.want)
		case !errors.Is(err, plan.ErrNoPlan):
			t.Errorf("%v does not wrap plan.ErrNoPlan", err)
		}
	}
}

// Instances at the edge of what may be.
func TestExtremes(t *testing.T) {
	layer := chain.Layer{ForwardTime: 1, BackwardTime: 2, Activation: 4, Saved: 6, Gradient: 3, ForwardOverhead: 1, BackwardOverhead: 2}
	oneHuge := chainOf(8, layer)
	oneHuge.Layers[3].Saved = 1e9
	noTime := chainOf(8, chain.Layer{Activation: 4, Saved: 6, Gradient: 3})
	noSize := chainOf(8, chain.Layer{ForwardTime: 1, BackwardTime: 1})
	nothing := chainOf(8, chain.Layer{})
	empty := chainOf(8, layer)
	for i := range empty.Layers {
		if i%2 == 0 {
			empty.Layers[i].Saved, empty.Layers[i].Activation = 0, 0
		}
	}
	for name, c := range map[string]*chain.Chain{
		"one huge tensor": oneHuge, "zero-time layers": noTime, "no sizes": noSize, "nothing": nothing,
		"every other tensor empty": empty, "one layer": chainOf(1, layer), "two layers": chainOf(2, layer),
	} {
		low, high := view.Range(c)
		for _, memory := range []float64{low, (low + high) / 2, high, 2*high + 1} {
			for _, beta := range []float64{1e-3, 1, 1e12} {
				p := platform.Platform{Memory: memory, Bandwidth: beta}
				for _, m := range everyMethod() {
					got, err := m.run(context.Background(), c, p)
					if err != nil {
						if m.name != "tflms" || !errors.Is(err, plan.ErrNoPlan) {
							t.Fatalf("%s, %s at %v: %v", name, m.name, p, err)
						}
						continue
					}
					verify(t, c, got)
				}
			}
		}
	}
}

func benchmark(b *testing.B, run func(context.Context, *chain.Chain, platform.Platform) (*plan.Plan, error)) {
	c, err := zoo.Load("zoo:resnet1001")
	if err != nil {
		b.Fatal(err)
	}
	low, high := view.Range(c)
	p := platform.Platform{Memory: (low + high) / 2, Bandwidth: 12e9}
	for b.Loop() {
		if _, err := run(context.Background(), c, p); err != nil && !errors.Is(err, plan.ErrNoPlan) {
			b.Fatal(err)
		}
	}
}

// 341 layers; Greedy and VDNN are to take less than 10 ms.
func BenchmarkGreedy(b *testing.B) { benchmark(b, Greedy) }
func BenchmarkVDNN(b *testing.B)   { benchmark(b, VDNN) }
func BenchmarkTFLMS(b *testing.B)  { benchmark(b, TFLMS) }

func BenchmarkAutoSwap(b *testing.B) {
	benchmark(b, func(ctx context.Context, c *chain.Chain, p platform.Platform) (*plan.Plan, error) {
		return AutoSwap(ctx, c, p, 1)
	})
}

func BenchmarkBounds(b *testing.B) {
	benchmark(b, func(_ context.Context, c *chain.Chain, p platform.Platform) (*plan.Plan, error) {
		_, err := view.Bounds(c, p)
		return nil, err
	})
}

// BenchmarkEvaluate is one set on 341 layers.
func BenchmarkEvaluate(b *testing.B) {
	c, err := zoo.Load("zoo:resnet1001")
	if err != nil {
		b.Fatal(err)
	}
	low, high := view.Range(c)
	in, err := newInstance(c, platform.Platform{Memory: (low + high) / 2, Bandwidth: 12e9})
	if err != nil {
		b.Fatal(err)
	}
	s, away := view.NewNoWait(in.Instance), in.greedy()
	b.ReportAllocs()
	for b.Loop() {
		s.Choose(away)
		s.Evaluate()
	}
}

// BenchmarkDecode is one list of events on 341 layers.
func BenchmarkDecode(b *testing.B) {
	c, err := zoo.Load("zoo:resnet1001")
	if err != nil {
		b.Fatal(err)
	}
	low, high := view.Range(c)
	p := platform.Platform{Memory: (low + high) / 2, Bandwidth: 12e9}
	in, err := newInstance(c, p)
	if err != nil {
		b.Fatal(err)
	}
	greedy, err := Greedy(context.Background(), c, p)
	if err != nil {
		b.Fatal(err)
	}
	d, order := view.NewDecoder(in.Instance), in.OrderOf(greedy)
	b.ReportAllocs()
	for b.Loop() {
		d.Run(order, math.Inf(1))
	}
}
