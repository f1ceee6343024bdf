// Package pipelinetest draws small pipelines that are hard on arithmetic, for
// property tests against exhaustive search: sizes of mixed magnitude, memory at
// breakpoints and beside them, times in picoseconds to weeks.
package pipelinetest

import (
	"math"

	"pgregory.net/rapid"

	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	view "workbench/model/problem/pipeline"
)

// Instance is a pipeline of at most so many layers, with its memory model.
type Instance struct {
	Chain    *chain.Chain
	Platform platform.Platform
	Model    string
}

// Draw draws an instance. Its memory is what a stage needs with a few
// mini-batches in flight, or what the chain needs at least, up to a unit more or
// less.
func Draw(t *rapid.T, layers int) Instance {
	n := rapid.IntRange(1, layers).Draw(t, "layers")
	unit := math.Pow(10, float64(rapid.IntRange(-12, 6).Draw(t, "exponent of times")))
	mixed := rapid.Bool().Draw(t, "times of mixed magnitude")
	seconds := func(label string) float64 {
		x := float64(rapid.IntRange(0, 4).Draw(t, label)) * unit
		if mixed {
			x /= rapid.SampledFrom([]float64{1, 1, 1e3, 1e6}).Draw(t, label+" /")
		}
		return x
	}
	grain := rapid.SampledFrom([]int{0, 3, 6, 9, 12}).Draw(t, "exponent of sizes")
	size := func(label string) float64 {
		x := float64(rapid.IntRange(0, 4).Draw(t, label))
		if rapid.Bool().Draw(t, label+" large") {
			x = x*math.Pow(10, float64(grain)) + float64(rapid.IntRange(0, 2).Draw(t, label+" +"))
		}
		return x
	}
	c := &chain.Chain{Name: "drawn", Input: chain.Input{Activation: size("a0"), Gradient: size("d0")}}
	for range n {
		a := size("a")
		c.Layers = append(c.Layers, chain.Layer{
			ForwardTime: seconds("uF"), BackwardTime: seconds("uB"), Activation: a, Saved: a, Gradient: size("d"), Weight: size("w"),
		})
	}
	c.Layers[rapid.IntRange(0, n-1).Draw(t, "takes time")].BackwardTime += unit
	saved := platform.PaperModel
	if rapid.Bool().Draw(t, "saved") {
		saved = platform.SavedModel
		for i := range c.Layers {
			l := &c.Layers[i]
			l.Saved, l.ForwardOverhead, l.BackwardOverhead = l.Activation+size("saved"), size("oF"), size("oB")
		}
	}
	x := Instance{Chain: c, Model: rapid.SampledFrom([]string{plan.StageModel, plan.TaskModel}).Draw(t, "model")}
	x.Platform = platform.Platform{
		Memory:     1,
		Bandwidth:  math.Pow(10, float64(grain)) / unit * rapid.SampledFrom([]float64{0.7, 1, 4, 1e9}).Draw(t, "bandwidth"),
		Processors: rapid.IntRange(1, 3).Draw(t, "processors"), WeightCopies: rapid.IntRange(0, 3).Draw(t, "copies"), Model: saved,
	}
	in, err := view.New(c, x.Platform, x.Model)
	if err != nil {
		t.Fatal(err)
	}
	memory := in.Least().High
	if rapid.Bool().Draw(t, "memory of a stage") {
		i := rapid.IntRange(1, n).Draw(t, "from")
		memory = in.Needs(i, rapid.IntRange(i, n).Draw(t, "to"), rapid.IntRange(1, 3).Draw(t, "in flight"))
	}
	x.Platform.Memory = max(1, memory+float64(rapid.IntRange(-1, 1).Draw(t, "memory +")))
	return x
}

// Bound is a lower bound on T/k of patterns that keep assumptions.
type Bound struct {
	Value   float64
	By      string
	Assumes []string
}

// Bounds returns all bounds of an instance in closed form, those without
// assumptions first.
func Bounds(in *view.Instance) (list []Bound) {
	for _, b := range in.Bounds() {
		list = append(list, Bound{b.Value, b.By, nil})
	}
	one, contiguous := plan.OnePeriodic, plan.ContiguousAllocation
	return append(list,
		Bound{in.Runs(true, false), "runs-1-periodic", []string{one}},
		Bound{in.Runs(false, true), "runs-contiguous", []string{contiguous}},
		Bound{in.Runs(true, true), "runs-contiguous-1-periodic", []string{contiguous, one}},
		Bound{in.ContiguousLoad() * (1 - view.Rounding), "contiguous-load", []string{contiguous}},
	)
}
