package importer

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	training "workbench/model/instance/graph"
	"workbench/model/linear"
)

// mostNames is how many names a warning has.
const mostNames = 5

// someOf names the first of a list, and says how many more there are.
func someOf(names []string) string {
	if more := len(names) - mostNames; more > 1 {
		names = append(slices.Clone(names[:mostNames]), fmt.Sprintf("%d more", more))
	}
	return strings.Join(names, ", ")
}

// PipeDreamGraph reads graph.txt of the PipeDream profiler, as [PipeDream]
// does, as the graph of a training step: the forward nodes, one loss, and a
// backward node for each forward node.
//
// The value of a forward node is what the file lists as its activation. Inputs
// are no nodes: their bytes are resident all the time. The loss takes no time
// and reads all nodes that nobody reads; of those, the ones that take no time
// and are read by nobody who counts (one part of a tuple, a shape) are left
// out, with a warning. The backward of v reads what v read, v's own value and
// the backwards of v's readers, and writes the gradients of what v read; so the
// loss writes those of what it read.
func PipeDreamGraph(data []byte, name string) (*training.Graph, []string, error) {
	g, err := readPipeDream(string(data), name)
	if err != nil {
		return nil, nil, err
	}
	warnings := g.warnings
	// What cannot be a chain, because of cycles or edges to inputs, cannot be
	// a graph either.
	if _, err := g.linearize(); err != nil {
		return nil, nil, err
	}
	g.warnings = warnings
	out, err := g.training()
	if err != nil {
		return nil, nil, err
	}
	g.warnings = append(g.warnings, wholeBytes(out.Sizes())...)
	if err := out.Validate(); err != nil { // sums beyond all numbers
		return nil, nil, g.fail(1, "%v", err)
	}
	out.Source = map[string]any{
		"kind": "measured", "profiler": "pipedream", "device": "not recorded", "batch": "not recorded",
		"nodes": float64(len(g.nodes)), "edges": float64(len(g.edges)),
	}
	return out, g.warnings, nil
}

// training makes the graph of a training step of the forward graph g, which
// has no cycle.
func (g *graph) training() (*training.Graph, error) {
	out := &training.Graph{Name: chainName(g.file)}
	order, succ, err := g.forwards()
	if err != nil {
		return nil, g.fail(1, "%v", err)
	}
	pred := make([][]int, len(g.nodes))
	place := make([]int, len(g.nodes)) // in out
	id := g.names()
	for k, v := range order {
		n := &g.nodes[v]
		place[v] = k
		out.Nodes = append(out.Nodes, training.Node{
			ID: id[v], Name: n.name, Kind: training.Forward, Time: n.forward, Memory: n.output, Weight: n.weight,
		})
		for _, y := range succ[v] {
			pred[y] = append(pred[y], v)
		}
	}
	edge := func(from, to int) { out.Edges = append(out.Edges, training.Edge{From: from, To: to}) }
	for _, v := range order {
		for _, u := range pred[v] {
			edge(place[u], place[v])
		}
	}
	loss := len(order)
	gradients := 0.0 // of what the loss reads
	for _, v := range order {
		if len(succ[v]) == 0 {
			edge(place[v], loss)
			gradients += g.nodes[v].output
		}
	}
	out.Nodes = append(out.Nodes, training.Node{ID: "loss", Name: "loss", Kind: training.Loss, Memory: gradients})
	backward := func(v int) int { return 2*loss - place[v] }
	for _, v := range slices.Backward(order) {
		n := &g.nodes[v]
		b := training.Node{ID: id[v] + "'", Name: "backward of " + n.name, Kind: training.Backward, Time: n.backward}
		for _, u := range pred[v] {
			edge(place[u], backward(v))
			b.Memory += g.nodes[u].output
		}
		edge(place[v], backward(v))
		if len(succ[v]) == 0 {
			edge(loss, backward(v))
		}
		for _, y := range slices.Backward(succ[v]) {
			edge(backward(y), backward(v))
		}
		out.Nodes = append(out.Nodes, b)
	}
	for v := range g.nodes {
		if g.nodes[v].input {
			out.Input += g.nodes[v].output
		}
	}
	return out, nil
}

// forwards returns the nodes of the graph of a training step in a topological
// order, and of each its readers in that order. Inputs, empty nodes and idle
// ends are not among them.
func (g *graph) forwards() (order []int, succ [][]int, err error) {
	empty := g.empties()
	number := make([]int, len(g.nodes))
	lg := &linear.Graph{}
	var back []int
	for v := range g.nodes {
		n := &g.nodes[v]
		number[v] = -1
		if !n.input && !empty[v] {
			number[v] = len(back)
			back = append(back, v)
			lg.Idle = append(lg.Idle, n.forward == 0 && n.backward == 0 && n.weight == 0)
		}
	}
	if len(back) == 0 {
		return nil, nil, errors.New("no node takes time or writes anything; there is nothing to compute")
	}
	lg.Nodes = len(back)
	readers := make([][]int, lg.Nodes)
	for _, e := range g.edges {
		if from, to := number[e.From], number[e.To]; from >= 0 && to >= 0 && !slices.Contains(readers[from], to) {
			lg.Edges = append(lg.Edges, linear.Edge{From: from, To: to})
			readers[from] = append(readers[from], to)
		}
	}
	layers, err := linear.Layers(lg)
	if err != nil {
		return nil, nil, err
	}
	var all []int
	for _, l := range layers {
		all = append(all, l.Nodes...)
	}
	loose := idleEnds(lg, readers, all)
	position := make([]int, lg.Nodes)
	var left []string
	for k, v := range all {
		position[v] = k
		if loose[v] {
			left = append(left, g.nodes[back[v]].name)
		} else {
			order = append(order, back[v])
		}
	}
	if len(left) > 0 {
		g.warn("%s take no time and are not read, so that they are left out", someOf(left))
	}
	succ = make([][]int, len(g.nodes))
	for v, ys := range readers {
		slices.SortFunc(ys, func(a, b int) int { return position[a] - position[b] })
		for _, y := range ys {
			if !loose[v] && !loose[y] {
				succ[back[v]] = append(succ[back[v]], back[y])
			}
		}
	}
	return order, succ, nil
}

// idleEnds marks the idle nodes that only such nodes read, none if that were
// all. Order is topological.
func idleEnds(g *linear.Graph, readers [][]int, order []int) []bool {
	loose := make([]bool, g.Nodes)
	all := true
	for _, v := range slices.Backward(order) {
		loose[v] = g.Idle[v]
		for _, y := range readers[v] {
			loose[v] = loose[v] && loose[y]
		}
		all = all && loose[v]
	}
	if all {
		return make([]bool, g.Nodes)
	}
	return loose
}

// names returns an id for each node: the file's, with as many underscores as
// keep it apart from "loss" and the ids of backward nodes.
func (g *graph) names() []string {
	id := make([]string, len(g.nodes))
	taken := map[string]bool{"loss": true}
	for v := range g.nodes {
		id[v] = g.nodes[v].id
		for taken[id[v]] || taken[id[v]+"'"] {
			id[v] += "_"
		}
		taken[id[v]], taken[id[v]+"'"] = true, true
	}
	return id
}
