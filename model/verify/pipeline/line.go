package pipeline

import (
	"fmt"
	"slices"

	"workbench/model/instance/chain"
	"workbench/model/instance/graph"
	"workbench/model/plan"
)

// Line returns the chain on which p, a pattern, is replayed: in itself, or a graph's
// forward operations in the order of p, each a layer with its twin, the backward
// operation that stands as far from the end as it does from the beginning; the last
// layer is the loss.
//
// a_ℓ is what crosses behind layer ℓ: the values of layers 1..ℓ that a later layer
// reads, each sent once over every cut that it crosses, as PipeDream sends them
// (Narayanan et al., SOSP 2019, §3.1), and δ_ℓ their gradients, as large. F_ℓ leaves for
// B_ℓ what that reads of the forward's values, each counted once in a run of layers of
// one processor, at the first that reads it. The input of the graph crosses nothing;
// the first layer of a run that reads nothing else keeps it.
//
// The error wraps [plan.ErrUnreadable]. O(edges of the graph).
func Line(in plan.Instance, p *plan.Plan) (*chain.Chain, error) {
	if c := plan.As[*chain.Chain](in); c != nil {
		if p != nil && p.Order != nil {
			return nil, fmt.Errorf("%w: the plan has an order of nodes, but the layers of a chain are already ordered", plan.ErrUnreadable)
		}
		if p != nil {
			c = c.Count(p.Platform.Model)
		}
		return c, nil
	}
	g := plan.As[*graph.Graph](in)
	if g == nil {
		return nil, fmt.Errorf("%w: %w", plan.ErrUnreadable, plan.ErrNoInstance)
	}
	if p == nil {
		return nil, fmt.Errorf("%w: no plan", plan.ErrUnreadable)
	}
	if err := g.Validate(); err != nil {
		return nil, fmt.Errorf("%w: the instance is not valid: %w", plan.ErrUnreadable, err)
	}
	l, err := newLine(g, p)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", plan.ErrUnreadable, err)
	}
	return l.chain(), nil
}

// A line is the forward operations and the loss of a graph in an order.
type line struct {
	graph *graph.Graph
	nodes []int // of the graph, by layer
	twins []int // the same; -1: a loss without backward
	layer []int // of a node, -1: none
	owner []int // processor of a layer, -1: none
	first []int // the first layer that is in a run with it
}

func newLine(g *graph.Graph, p *plan.Plan) (*line, error) {
	byKind := map[string][]int{}
	index := map[string]int{}
	for i := range g.Nodes {
		byKind[g.Nodes[i].Kind] = append(byKind[g.Nodes[i].Kind], i)
		index[g.Nodes[i].ID] = i
	}
	forward, loss, backward := byKind[graph.Forward], byKind[graph.Loss], byKind[graph.Backward]
	if len(loss) != 1 || len(forward) == 0 || len(backward) != len(forward) && len(backward) != len(forward)+1 {
		return nil, fmt.Errorf("the graph has %d forward operations, %d losses and %d backward operations; a pipeline is of forward "+
			"operations with a backward twin each, and one loss", len(forward), len(loss), len(backward))
	}
	l := &line{graph: g, layer: slices.Repeat([]int{-1}, g.Len())}
	twin := map[int]int{loss[0]: -1}
	for k, v := range append(slices.Clone(forward), loss[:len(backward)-len(forward)]...) {
		twin[v] = backward[len(backward)-1-k]
	}
	for _, id := range append(slices.Clone(p.Order), g.Nodes[loss[0]].ID) {
		v, known := index[id]
		switch {
		case !known:
			return nil, fmt.Errorf("the order has node %q, which is not in the graph", id)
		case g.Nodes[v].Kind == graph.Backward:
			return nil, fmt.Errorf("the order has node %q, which is a backward operation; its twin stands for it", id)
		case l.layer[v] >= 0:
			return nil, fmt.Errorf("the order has node %q twice; the loss is last and not in it", id)
		}
		l.layer[v] = len(l.nodes)
		l.nodes, l.twins = append(l.nodes, v), append(l.twins, twin[v])
	}
	if len(l.nodes) != len(forward)+1 {
		return nil, fmt.Errorf("the order has %d nodes; the graph has %d forward operations beside the loss", len(l.nodes)-1, len(forward))
	}
	for _, e := range g.Edges {
		if u, v := l.layer[e.From], l.layer[e.To]; u >= 0 && v >= 0 && u >= v {
			return nil, fmt.Errorf("the order has %q behind %q, which reads it", g.Nodes[e.From].ID, g.Nodes[e.To].ID)
		}
	}
	l.runs(p.Allocation)
	return l, nil
}

// runs finds the runs of layers of one processor. What is wrong with an allocation is
// for the replay to say.
func (l *line) runs(allocation []plan.Stage) {
	n := len(l.nodes)
	l.owner, l.first = slices.Repeat([]int{-1}, n), make([]int, n)
	for _, s := range allocation {
		for i := max(1, s.From); i <= min(s.To, n); i++ {
			l.owner[i-1] = s.Processor
		}
	}
	for i := 1; i < n; i++ {
		if l.first[i] = i; l.owner[i] == l.owner[i-1] {
			l.first[i] = l.first[i-1]
		}
	}
}

func (l *line) chain() *chain.Chain {
	g, n := l.graph, len(l.nodes)
	last := make([]int, n) // the last layer that reads the value of one; itself: none
	kept := make([]float64, n)
	for i := range last {
		last[i] = i
	}
	wanted := make([][]int, n) // layers whose value the backward of one reads
	reads := make([]bool, n)   // a value of the forward
	for _, e := range g.Edges {
		u, v := l.layer[e.From], l.layer[e.To]
		switch {
		case u >= 0 && v >= 0:
			last[u] = max(last[u], v)
			reads[v] = true
		case u >= 0 && u < n-1: // what the loss writes is a gradient
			if k := slices.Index(l.twins, e.To); k >= 0 && !slices.Contains(wanted[k], u) {
				wanted[k] = append(wanted[k], u)
			}
		}
	}
	counted := slices.Repeat([]int{-1}, n) // by value: the first layer of the last run that keeps it
	input := -1
	for i := range n {
		for _, u := range wanted[i] {
			if counted[u] != l.first[i] {
				counted[u] = l.first[i]
				kept[i] += g.Nodes[l.nodes[u]].Memory
			}
		}
		if !reads[i] && input != l.first[i] {
			input = l.first[i]
			kept[i] += g.Input
		}
	}
	c := &chain.Chain{Name: g.Name, Samples: g.Samples, Unit: g.Unit, Kept: kept}
	for i, v := range l.nodes {
		x := chain.Layer{Name: g.Nodes[v].ID, ForwardTime: g.Nodes[v].Time, Weight: g.Nodes[v].Weight}
		if t := l.twins[i]; t >= 0 {
			x.BackwardTime = g.Nodes[t].Time
		}
		for u := range i + 1 {
			if last[u] > i {
				x.Activation += g.Nodes[l.nodes[u]].Memory
			}
		}
		x.Saved, x.Gradient = x.Activation, x.Activation
		c.Layers = append(c.Layers, x)
	}
	return c
}
