package testcase

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	optimum "workbench/model/exhaustive/pipeline"
	"workbench/model/instance/chain"
	"workbench/model/instance/graph"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/testcase/random"
)

// Pipeline is the subject of chains for pipelines, with the search over 1-periodic patterns.
func Pipeline() *Subject {
	return &Subject{
		Kind: chain.Kind, Units: "layers", Usual: 3, Most: 6, Random: randomPattern, Draw: drawPattern, Searched: drawn / 100,
		Search: func(t *Trial, states int) (float64, *plan.Plan, error) {
			return optimum.Search(t.Chain(), t.Platform, plan.TaskModel, states)
		},
		Covers:  func(_ *Trial, p *plan.Plan) bool { return p != nil && p.K <= 1 },
		Smaller: smallerPattern, Text: patternText,
	}
}

// GraphPipeline is the subject of graphs for pipelines, with the search over 1-periodic patterns of all orders.
func GraphPipeline() *Subject {
	return &Subject{
		Kind: graph.Kind, Units: "forward nodes", Usual: 2, Most: 3, Random: randomGraphPattern, Draw: drawGraphPattern, Searched: drawn / 100,
		Search: func(t *Trial, states int) (float64, *plan.Plan, error) {
			return optimum.SearchGraph(t.Graph(), t.Platform, plan.TaskModel, 1, states)
		},
		Covers:  func(_ *Trial, p *plan.Plan) bool { return p != nil && p.K <= 1 },
		Smaller: smallerGraphPattern,
		Text:    func(t *Trial, _ *plan.Plan) string { return fmt.Sprintf("%+v\n%s", t.Platform, graphText(t)) },
	}
}

// randomGraphPattern returns a training step of small integers on up to three processors.
func randomGraphPattern(r *rand.Rand, forward int) (*Trial, error) {
	g := random.Graph(r, forward)
	total := 1.0
	for i := range g.Nodes {
		x := &g.Nodes[i]
		x.Overhead = 0 // pipelines have none
		if x.Kind == graph.Forward {
			x.Time++
			x.Weight = float64(r.IntN(2))
		}
		total += x.Memory + x.Weight
	}
	p := platform.Platform{
		Memory:    1 + float64(r.IntN(int(2*total)+1)),
		Bandwidth: []float64{0.5, 1, 4}[r.IntN(3)], Processors: 1 + r.IntN(3), WeightCopies: 1 + r.IntN(2),
	}
	return &Trial{In: g, Platform: p, Pace: 1}, nil
}

// drawGraphPattern returns a training step of any magnitudes. Its memory is near what some of its layers need, and
// some transfers over its links take about as long as a layer.
func drawGraphPattern(r *rand.Rand) *Trial {
	g := MixedGraph(r, 1+r.IntN(3))
	p := platform.Platform{Memory: g.Input, Processors: 1 + r.IntN(3), WeightCopies: 1 + r.IntN(3)}
	if g.TotalTime() == 0 {
		g.Nodes[0].Time = 1
	}
	most := 1.0
	for i := range g.Nodes {
		x := &g.Nodes[i]
		x.Overhead = 0 // pipelines have none
		if x.Kind == graph.Forward {
			x.Weight = float64(r.IntN(3))*x.Memory + float64(r.IntN(2))
		}
		if r.IntN(2) == 0 {
			p.Memory += float64(1+r.IntN(2))*x.Memory + float64(p.WeightCopies)*x.Weight
		}
		most = max(most, x.Memory)
	}
	p.Memory = max(1, nearBreakpoint(r, p.Memory))
	p.Bandwidth = []float64{0.5, 1, 4}[r.IntN(3)] * most / g.TotalTime()
	return &Trial{In: g, Platform: p, Pace: 1}
}

// smallerGraphPattern reduces numbers; operations stay, as each forward has its backward.
func smallerGraphPattern(x *Trial) []*Trial {
	s := &shrinker{x: x}
	s.change(func(y *Trial) { y.Platform.Processors-- })
	for i := range x.Graph().Nodes {
		s.number(func(y *Trial) *float64 { return &y.Graph().Nodes[i].Weight })
		s.size(func(y *Trial) *float64 { return &y.Graph().Nodes[i].Memory })
		s.number(func(y *Trial) *float64 { return &y.Graph().Nodes[i].Time })
	}
	s.number(func(y *Trial) *float64 { return &y.Platform.Memory })
	return slices.DeleteFunc(s.all, func(y *Trial) bool {
		return y.Graph().Validate() != nil || y.Graph().TotalTime() == 0 || y.Platform.Memory <= 0 || y.Platform.Processors < 1
	})
}

// randomPattern returns an instance of pipelines: a chain of small integers on
// up to three processors. About one in five has no plan.
func randomPattern(r *rand.Rand, layers int) (*Trial, error) {
	c := random.Chain(r, layers)
	total := 1.0
	for i := range c.Layers {
		l := &c.Layers[i]
		l.Weight = float64(r.IntN(2))
		total += 2*l.Activation + l.Gradient + l.Weight
	}
	c.Layers[r.IntN(layers)].BackwardTime++
	p := platform.Platform{
		Memory:    1 + float64(r.IntN(int(2*total)+1)),
		Bandwidth: []float64{0.5, 1, 4}[r.IntN(3)], Processors: 1 + r.IntN(3), WeightCopies: 1 + r.IntN(2),
		Model: [...]string{platform.PaperModel, platform.SavedModel}[r.IntN(2)],
	}
	return &Trial{In: c, Platform: p, Pace: 1}, nil
}

func drawPattern(r *rand.Rand) *Trial {
	c := random.Chain(r, 1+r.IntN(4))
	model := [...]string{platform.PaperModel, platform.SavedModel}[r.IntN(2)]
	k := math.Pow(10, float64(3*r.IntN(5))) // a unit of memory, whose transfer takes a unit of time
	for x := range c.Sizes() {
		*x *= k
	}
	sum := 0.0
	for i := range c.Layers {
		l := &c.Layers[i]
		l.ForwardTime++
		l.Weight = float64(r.IntN(3))*k + float64(r.IntN(2))
		l.CheckpointOverhead = 0
		if model == platform.PaperModel {
			l.ForwardOverhead, l.BackwardOverhead = 0, 0
		}
		sum += l.Weight + l.Activation
	}
	p := platform.Platform{Bandwidth: k, Processors: 1 + r.IntN(3), WeightCopies: 1 + r.IntN(3), Model: model}
	p.Memory = nearBreakpoint(r, math.Round(sum*(0.5+2*r.Float64())/k)*k)
	x := pace(r)
	p.Bandwidth /= x
	return &Trial{In: random.Pace(c, x), Platform: p, Pace: x}
}

func smallerPattern(x *Trial) []*Trial {
	s := &shrinker{x: x}
	s.dropLayers()
	s.change(func(y *Trial) { y.Platform.Processors-- })
	for i := range x.Chain().Layers {
		s.number(func(y *Trial) *float64 { return &y.Chain().Layers[i].Weight })
		s.size(func(y *Trial) *float64 { return &y.Chain().Layers[i].Gradient })
		s.size(func(y *Trial) *float64 { return &y.Chain().Layers[i].Activation })
		s.number(func(y *Trial) *float64 { return &y.Chain().Layers[i].ForwardTime })
		s.number(func(y *Trial) *float64 { return &y.Chain().Layers[i].BackwardTime })
	}
	s.size(func(y *Trial) *float64 { return &y.Chain().Input.Gradient })
	s.size(func(y *Trial) *float64 { return &y.Chain().Input.Activation })
	s.number(func(y *Trial) *float64 { return &y.Platform.Memory })
	return slices.DeleteFunc(s.all, func(y *Trial) bool {
		return y.Chain().Validate() != nil || y.Chain().TotalTime() == 0 || y.Platform.Memory <= 0 || y.Platform.Processors < 1
	})
}

func patternText(x *Trial, _ *plan.Plan) string {
	var b strings.Builder
	fmt.Fprintf(&b, "processors %d of memory %g, bandwidth %g, copies of weights %d, |a_0| = %g, |δ_0| = %g\n",
		x.Platform.Processors, x.Platform.Memory, x.Platform.Bandwidth, x.Platform.WeightCopies, x.Chain().Input.Activation,
		x.Chain().Input.Gradient)
	for i := range x.Chain().Layers {
		l := &x.Chain().Layers[i]
		fmt.Fprintf(&b, "layer %d: u_F = %g, u_B = %g, |a| = %g, |δ| = %g, |w| = %g\n", i+1, l.ForwardTime, l.BackwardTime, l.Activation,
			l.Gradient, l.Weight)
	}
	return b.String()
}
