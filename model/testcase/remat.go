package testcase

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	optimumremat "workbench/model/exhaustive/remat"
	optimumrematgraph "workbench/model/exhaustive/rematgraph"
	"workbench/model/instance/chain"
	"workbench/model/instance/graph"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/testcase/random"
)

// Remat is the subject of chains for rematerialization.
func Remat() *Subject {
	return &Subject{
		Kind: chain.Kind, Units: "layers", Usual: 6, Most: 8, Random: randomRemat, Draw: drawRemat, Searched: drawn,
		Search: func(t *Trial, states int) (float64, *plan.Plan, error) {
			return optimumremat.Search(t.Chain(), t.Platform.Memory, states)
		},
		Smaller: smallerRemat,
		Text:    func(t *Trial, best *plan.Plan) string { return rematText(t) + bestPlan(best) },
	}
}

// Graphs is the subject of training steps for rematerialization.
func Graphs() *Subject {
	return &Subject{
		Kind: graph.Kind, Units: "forward nodes", Usual: 6, Most: 7, Random: randomGraph, Draw: drawGraph, Searched: drawn,
		Search: func(t *Trial, states int) (float64, *plan.Plan, error) {
			return optimumrematgraph.Search(t.Graph(), t.Platform.Memory, states)
		},
		Smaller: smallerGraph,
		Text:    func(t *Trial, best *plan.Plan) string { return graphText(t) + bestPlan(best) },
	}
}

// Stages is the same subject for the schedules of Checkmate only.
func Stages() *Subject {
	s := Graphs()
	s.Staged, s.Most, s.Draw, s.Searched = true, 6, nil, 0
	s.Search = func(t *Trial, states int) (float64, *plan.Plan, error) {
		return optimumrematgraph.SearchStages(t.Graph(), t.Platform.Memory, states)
	}
	return s
}

// randomRemat returns a chain of small integers with a memory.
func randomRemat(r *rand.Rand, layers int) (*Trial, error) {
	c := random.Chain(r, layers)
	least, err := optimumremat.LeastMemory(c, States)
	if err != nil {
		return nil, err
	}
	stored := c.Input.Activation + c.Layers[layers-1].Gradient
	most := 0.0 // nearBreakpoint what is stored
	for i := range c.Layers {
		l := &c.Layers[i]
		stored += l.Saved
		most = max(most, l.Gradient+l.BackwardOverhead, l.ForwardOverhead)
	}
	p := randomMemory(r, least, stored+max(most, c.Input.Gradient))
	return &Trial{In: c, Platform: p, Pace: 1}, nil
}

func drawRemat(r *rand.Rand) *Trial {
	c, memory := random.MixSizes(r, random.Chain(r, 1+r.IntN(5)))
	if least, err := optimumremat.LeastMemory(c, drawn); err == nil && r.IntN(2) == 0 {
		memory = nearBreakpoint(r, least)
	}
	x := pace(r)
	return &Trial{In: random.Pace(c, x), Platform: platform.Platform{Memory: memory}, Pace: x}
}

func smallerRemat(x *Trial) []*Trial {
	s := &shrinker{x: x}
	s.dropLayers()
	for i := range x.Chain().Layers {
		s.change(func(y *Trial) {
			y.Platform.Memory -= y.Chain().Layers[i].Saved
			y.Chain().Layers = slices.Delete(y.Chain().Layers, i, i+1)
		})
		s.size(func(y *Trial) *float64 { return &y.Chain().Layers[i].CheckpointOverhead })
		s.size(func(y *Trial) *float64 { return &y.Chain().Layers[i].ForwardOverhead })
		s.size(func(y *Trial) *float64 { return &y.Chain().Layers[i].BackwardOverhead })
		s.size(func(y *Trial) *float64 { return &y.Chain().Layers[i].Saved })
		s.size(func(y *Trial) *float64 { return &y.Chain().Layers[i].Gradient })
		s.size(func(y *Trial) *float64 { return &y.Chain().Layers[i].Activation })
		s.number(func(y *Trial) *float64 { return &y.Chain().Layers[i].ForwardTime })
		s.number(func(y *Trial) *float64 { return &y.Chain().Layers[i].BackwardTime })
	}
	s.size(func(y *Trial) *float64 { return &y.Chain().Input.Gradient })
	s.size(func(y *Trial) *float64 { return &y.Chain().Input.Activation })
	s.number(func(y *Trial) *float64 { return &y.Platform.Memory })
	return slices.DeleteFunc(s.all, func(y *Trial) bool {
		return y.Chain().Validate() != nil || y.Platform.Memory <= 0
	})
}

// randomGraph returns a training step of small integers with a memory.
func randomGraph(r *rand.Rand, forward int) (*Trial, error) {
	g := random.Graph(r, forward)
	least, err := optimumrematgraph.LeastMemory(g, States)
	if err != nil {
		return nil, err
	}
	stored, most := g.Input, 0.0
	for i := range g.Nodes {
		stored += g.Nodes[i].Memory
		most = max(most, g.Nodes[i].Overhead)
	}
	return &Trial{In: g, Platform: randomMemory(r, least, stored+most), Pace: 1}, nil
}

func drawGraph(r *rand.Rand) *Trial {
	g := MixedGraph(r, 1+r.IntN(3))
	memory := g.Input
	for v := range g.Nodes { // what a random half of the values takes
		if r.IntN(2) == 0 {
			memory += g.Nodes[v].Memory + float64(r.IntN(2))*g.Nodes[v].Overhead
		}
	}
	if least, err := optimumrematgraph.LeastMemory(g, drawn); err == nil {
		memory = max(memory, least)
	}
	return &Trial{In: g, Platform: platform.Platform{Memory: nearBreakpoint(r, memory)}, Pace: 1}
}

// smallerGraph drops forward nodes together with their backward nodes, if they are called F… and B…, then single
// edges, and reduces numbers. The loss stays.
func smallerGraph(x *Trial) []*Trial {
	s := &shrinker{x: x}
	for v := range x.Graph().Nodes {
		if id, ok := strings.CutPrefix(x.Graph().Nodes[v].ID, "F"); ok {
			s.change(func(y *Trial) {
				y.In = without(y.Graph(), func(n *graph.Node) bool { return n.ID == "F"+id || n.ID == "B"+id })
			})
		}
	}
	for k := range x.Graph().Edges {
		s.change(func(y *Trial) { y.Graph().Edges = slices.Delete(y.Graph().Edges, k, k+1) })
	}
	for v := range x.Graph().Nodes {
		s.size(func(y *Trial) *float64 { return &y.Graph().Nodes[v].Overhead })
		s.size(func(y *Trial) *float64 { return &y.Graph().Nodes[v].Memory })
		s.number(func(y *Trial) *float64 { return &y.Graph().Nodes[v].Time })
	}
	s.size(func(y *Trial) *float64 { return &y.Graph().Input })
	s.number(func(y *Trial) *float64 { return &y.Platform.Memory })
	return slices.DeleteFunc(s.all, func(y *Trial) bool {
		return y.Graph().Len() == 1 || y.Platform.Memory <= 0
	})
}

// without returns g without some nodes and their edges.
func without(g *graph.Graph, drop func(*graph.Node) bool) *graph.Graph {
	out := *g
	out.Nodes, out.Edges = nil, nil
	place := make([]int, g.Len())
	for v := range g.Nodes {
		place[v] = -1
		if !drop(&g.Nodes[v]) {
			place[v] = len(out.Nodes)
			out.Nodes = append(out.Nodes, g.Nodes[v])
		}
	}
	for _, e := range g.Edges {
		if from, to := place[e.From], place[e.To]; from >= 0 && to >= 0 {
			out.Edges = append(out.Edges, graph.Edge{From: from, To: to})
		}
	}
	return &out
}

func rematText(x *Trial) string {
	var b strings.Builder
	fmt.Fprintf(&b, "memory %g, |a_0| = %g, |δ_0| = %g\n", x.Platform.Memory, x.Chain().Input.Activation, x.Chain().Input.Gradient)
	for i := range x.Chain().Layers {
		l := &x.Chain().Layers[i]
		fmt.Fprintf(&b, "layer %d: u_F = %g, u_B = %g, |a| = %g, |ā| = %g, |δ| = %g, o_F = %g and %g, o_B = %g\n",
			i+1, l.ForwardTime, l.BackwardTime, l.Activation, l.Saved, l.Gradient, l.Overhead(true), l.Overhead(false), l.BackwardOverhead)
	}
	return b.String()
}

func graphText(x *Trial) string {
	var b strings.Builder
	fmt.Fprintf(&b, "memory %g, input %g\n", x.Platform.Memory, x.Graph().Input)
	pred, _ := x.Graph().Adjacency()
	for v := range x.Graph().Nodes {
		n := &x.Graph().Nodes[v]
		fmt.Fprintf(&b, "node %s (%s): time %g, memory %g, overhead %g", n.ID, n.Kind, n.Time, n.Memory, n.Overhead)
		for i, u := range pred[v] {
			if i == 0 {
				b.WriteString(", reads")
			}
			b.WriteString(" " + x.Graph().Nodes[u].ID)
		}
		b.WriteByte('\n')
	}
	return b.String()
}
