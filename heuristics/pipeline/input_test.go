package pipeline

import (
	"errors"
	"math"
	"strings"
	"testing"

	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	view "workbench/model/problem/pipeline"
)

func unitChain(n int) *chain.Chain {
	c := &chain.Chain{Name: "unit", Input: chain.Input{Activation: 1, Gradient: 1}}
	for range n {
		c.Layers = append(c.Layers, chain.Layer{Name: "l", ForwardTime: 1, BackwardTime: 1, Activation: 1, Saved: 1, Gradient: 1, Weight: 1})
	}
	return c
}

func TestBadInput(t *testing.T) {
	t.Parallel()
	good := platform.Platform{Memory: 100, Bandwidth: 1, Processors: 2, WeightCopies: 3}
	with := func(f func(*platform.Platform)) platform.Platform {
		p := good
		f(&p)
		return p
	}
	still := unitChain(2)
	for i := range still.Layers {
		still.Layers[i].ForwardTime, still.Layers[i].BackwardTime = 0, 0
	}
	nan := unitChain(2)
	nan.Layers[1].BackwardTime = math.NaN()
	for _, x := range []struct {
		c    *chain.Chain
		p    platform.Platform
		o    Options
		is   error
		says string
	}{
		{nil, good, Options{}, view.ErrChain, "no layers"},
		{&chain.Chain{}, good, Options{}, view.ErrChain, "no layers"},
		{still, good, Options{}, view.ErrChain, "a period would be 0"},
		{nan, good, Options{}, view.ErrChain, "layer 2"},
		{unitChain(2), with(func(p *platform.Platform) { p.Processors = 0 }), Options{}, view.ErrPlatform, "0 processors"},
		{unitChain(2), with(func(p *platform.Platform) { p.Processors = -1 }), Options{}, view.ErrPlatform, "-1 processors"},
		{unitChain(2), with(func(p *platform.Platform) { p.Memory = 0 }), Options{}, view.ErrPlatform, "memory"},
		{unitChain(2), with(func(p *platform.Platform) { p.Bandwidth = 0 }), Options{}, view.ErrPlatform, "bandwidth is 0"},
		{unitChain(2), with(func(p *platform.Platform) { p.WeightCopies = -1 }), Options{}, view.ErrPlatform, "copies"},
		{unitChain(2), good, Options{Model: "other"}, view.ErrModel, "other"},
	} {
		for name, method := range methods {
			if _, err := method(x.c, x.p, x.o); !errors.Is(err, x.is) || !strings.Contains(err.Error(), x.says) {
				t.Errorf("%s: %v, want %q", name, err, x.says)
			}
		}
		if _, err := boundsOf(x.c, x.p, x.o); !errors.Is(err, x.is) {
			t.Errorf("bounds: %v", err)
		}
	}
}

// More processors than layers are idle; one processor needs no bandwidth.
func TestUnusualPlatforms(t *testing.T) {
	t.Parallel()
	for name, method := range methods {
		p, err := method(unitChain(2), platform.Platform{Memory: 100, Bandwidth: 1e9, Processors: 1000, WeightCopies: 3}, Options{})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := verified(t, unitChain(2), p); name != "gpipe" && math.Abs(got-2) > 1e-6 {
			t.Errorf("%s: period %v", name, got)
		}
		p, err = method(unitChain(3), platform.Platform{Memory: 100, Processors: 1, WeightCopies: 3}, Options{})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := verified(t, unitChain(3), p); got != 6 {
			t.Errorf("%s: period %v on one processor", name, got)
		}
	}
}

// A layer that fits nowhere is named, with the memory it needs: that of its run
// of layers that needs the minimum. Here layer 2 alone: 3·10 of weights, 2+2 of
// buffers, and its input (stage) or δ_2 + δ_1 beside it (task).
func TestFitsNowhere(t *testing.T) {
	t.Parallel()
	c := unitChain(3)
	c.Layers[1].Name, c.Layers[1].Weight = "heavy", 10
	for model, need := range map[string]float64{plan.StageModel: 35, plan.TaskModel: 37} {

		for name, method := range methods {
			_, err := method(c, platform.Platform{Memory: need - 0.5, Bandwidth: 1, Processors: 3, WeightCopies: 3}, Options{Model: model})
			var proved *plan.Infeasible
			if !errors.As(err, &proved) || proved.Memory != need || !strings.Contains(proved.Why, "layer 2 (heavy)") {
				t.Errorf("%s, %s: %v, want %v bytes for layer 2", name, model, err, need)
			}
		}
		if _, err := OneFOneBStar(c, platform.Platform{Memory: need, Bandwidth: 1, Processors: 3, WeightCopies: 3},
			Options{Model: model}); err != nil {
			t.Errorf("%s with enough memory: %v", model, err)
		}
	}
}

func TestBadAllocations(t *testing.T) {
	t.Parallel()
	c, p := unitChain(3), platform.Platform{Memory: 100, Bandwidth: 1, Processors: 2}
	for _, x := range []struct {
		stages []plan.Stage
		says   string
	}{
		{nil, "ends at layer 0"},
		{[]plan.Stage{{Processor: 0, From: 2, To: 3}}, "begins at layer 2"},
		{[]plan.Stage{{Processor: 0, From: 1, To: 2}}, "ends at layer 2"},
		{[]plan.Stage{{Processor: 0, From: 1, To: 4}}, "ends at layer 4"},
		{[]plan.Stage{{Processor: 2, From: 1, To: 3}}, "processor 2"},
		{[]plan.Stage{{Processor: 0, From: 1, To: 1}, {Processor: 1, From: 2, To: 2}, {Processor: 0, From: 3, To: 3}}, "several stages"},
	} {
		if _, err := OneFOneBStarOn(c, p, x.stages, Options{}); !errors.Is(err, ErrAllocation) || !strings.Contains(err.Error(), x.says) {
			t.Errorf("%v, want %q", err, x.says)
		}
	}
	if _, err := OneFOneBStarAt(c, p, []plan.Stage{{Processor: 0, From: 1, To: 3}}, 1, Options{}); !errors.Is(err, plan.ErrNoPlan) {
		t.Errorf("too short a period: %v", err)
	}
	for _, g := range []Grid{{}, {Time: 2, Memory: 1}, {Time: 2, Memory: 2, Delay: 1}} {
		if _, err := MadPipeGrid(c, p, g, Options{}); !errors.Is(err, ErrOptions) {
			t.Errorf("%+v: %v", g, err)
		}
	}
}

// Times and sizes that span more than the floating-point numbers, or hardly
// less, are planned or refused, whatever the method.
func TestExtremeNumbers(t *testing.T) {
	t.Parallel()
	two := func(u, size, weight float64) *chain.Chain {
		l := chain.Layer{ForwardTime: u, BackwardTime: u, Activation: size, Saved: size, Gradient: size, Weight: weight}
		return &chain.Chain{Name: "two", Layers: []chain.Layer{l, l}}
	}
	buffer := two(1, 1, 1)
	buffer.Layers = append(buffer.Layers, buffer.Layers[0])
	buffer.Layers[0].Gradient = 1e25
	for _, x := range []struct {
		name    string
		c       *chain.Chain
		p       platform.Platform
		refused bool
	}{
		{"slow link", two(1, 1, 10), platform.Platform{Memory: 16, Bandwidth: 1e-17, Processors: 2, WeightCopies: 1}, false},
		{"large buffer", buffer, platform.Platform{Memory: 8, Bandwidth: 1e25, Processors: 2, WeightCopies: 1}, true},
		{"subnormal times", two(1e-320, 0, 0), platform.Platform{Memory: 40, Bandwidth: 1e50, Processors: 2}, true},
		{"endless communication", two(1, 1e10, 1e12), platform.Platform{Memory: 1.5e12, Bandwidth: 1e-296, Processors: 2, WeightCopies: 1}, true},
		{"endless computation", two(1e307, 0, 0), platform.Platform{Memory: 40, Bandwidth: 1, Processors: 2}, true},
	} {
		for name, method := range methods {
			for _, model := range models {
				q, err := method(x.c, x.p, Options{Model: model})
				if refused := errors.Is(err, view.ErrPlatform); refused != x.refused {
					t.Errorf("%s, %s: %v", x.name, name, err)
				}
				if err == nil {
					verified(t, x.c, q)
				}
			}
		}
	}
}

// Stages of 1e-5 s beside one of 1e4 s: two operations less than an instant
// apart stay in order though one of another resource lies between them.
func TestClaimsOfUnequalTimes(t *testing.T) {
	t.Parallel()
	c := &chain.Chain{Name: "unequal", Input: chain.Input{Activation: 4, Gradient: 6}, Layers: []chain.Layer{
		{ForwardTime: 1e-5, Activation: 5, Saved: 5, Gradient: 5, Weight: 5},
		{Activation: 6, Saved: 6, Gradient: 6, Weight: 6},
		{BackwardTime: 1e4, Weight: 3},
	}}
	q, err := Eager(c, platform.Platform{Memory: 49, Bandwidth: 1e10, Processors: 2, WeightCopies: 2}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	verified(t, c, q)
}
