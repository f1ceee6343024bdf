// Package importer imports networks that other projects measured or exchange: as
// chains, and as graphs of training steps.
//
//	PipeDream        graph.txt of its profiler     chain, or graph: PipeDreamGraph
//	dnn-partitioning JSON graphs                   chain, or its own problem: DNNMaxLoad
//	Checkmate        DFGraph as JSON, tables .npy  graph; chain with sizes
//	rotor            Chain as JSON                 chain
//
// Profiles are graphs; package linear cuts them into layers. Times of a layer
// add up, its activation is the tensor at its right cut, its saved bytes are
// those of all tensors inside. The last layer stands for the loss, which no
// profile contains (tables of Checkmate may, and chains of rotor do). What an
// importer had to guess it says in its warnings.
package importer

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"path"
	"strings"

	"workbench/model/instance/chain"
	"workbench/model/linear"
	"workbench/model/platform"
)

// Error is a mistake in a profile.
type Error struct {
	Name string // of the file
	Line int    // 1-based
	Msg  string
}

func (e *Error) Error() string { return fmt.Sprintf("%s:%d: %s", e.Name, e.Line, e.Msg) }

// node is one operation of a profile, seconds and bytes.
type node struct {
	id                string // in the file, of formats that need it later
	name              string
	line              int
	forward, backward float64
	output            float64 // the tensors it writes
	saved             float64 // all that is kept of it for the backward
	weight            float64
	input             bool // no operation but data from the host
	// handle: what it writes is only a name for tensors that its readers
	// hold, so that here is no place to cut.
	handle bool
}

// graph is a profile that has been read.
type graph struct {
	file     string
	nodes    []node
	edges    []linear.Edge      // between nodes
	lines    func(edge int) int // on which an edge stands
	warnings []string
}

func (g *graph) warn(format string, args ...any) {
	g.warnings = append(g.warnings, fmt.Sprintf(format, args...))
}

func (g *graph) fail(line int, format string, args ...any) error {
	return &Error{g.file, line, fmt.Sprintf(format, args...)}
}

// layers is what chain makes of a graph: the layer of each node, -1 for
// inputs.
type layers struct {
	chain *chain.Chain
	of    []int
}

// linearize turns g into a chain. Inputs are no operations: the tensors they
// hold are the chain's input. What carries no bytes and takes no time, as
// empty inputs do, hinders no cut.
func (g *graph) linearize() (*layers, error) {
	if len(g.nodes) == 0 {
		return nil, g.fail(1, "there is no node")
	}
	empty := g.empties()
	number := make([]int, len(g.nodes)) // in lg, -1 for inputs
	var back []int
	for v := range g.nodes {
		number[v] = linear.Input
		if !g.nodes[v].input {
			number[v] = len(back)
			back = append(back, v)
		}
	}
	if len(back) == 0 {
		return nil, g.fail(g.nodes[0].line, "every node is an input; there is nothing to compute")
	}
	lg := &linear.Graph{Nodes: len(back), Idle: make([]bool, len(back)), Keep: make([]bool, len(back))}
	for k, v := range back {
		n := &g.nodes[v]
		lg.Keep[k] = n.handle
		lg.Idle[k] = n.forward == 0 && n.backward == 0 && n.weight == 0
	}
	for i, e := range g.edges {
		switch {
		case g.nodes[e.To].input:
			return nil, g.fail(g.lines(i), "%s is an input, but %s leads to it", g.nodes[e.To].name, g.nodes[e.From].name)
		case empty[e.From] && !empty[e.To]:
		default:
			lg.Edges = append(lg.Edges, linear.Edge{From: number[e.From], To: number[e.To]})
		}
	}
	cut, err := linear.Layers(lg)
	if cycle, ok := errors.AsType[*linear.CycleError](err); ok {
		return nil, g.cycle(cycle, back)
	}
	if err != nil {
		return nil, g.fail(1, "%v", err)
	}
	if len(cut) == 1 && len(back) > 1 {
		g.warn("no tensor separates the %d nodes, so that they are one layer", len(back))
	}
	return g.collect(cut, back), nil
}

// empties marks the nodes that carry nothing: no bytes, no time, and only such
// nodes before them.
func (g *graph) empties() []bool {
	empty := make([]bool, len(g.nodes))
	for v := range empty {
		n := &g.nodes[v]
		empty[v] = n.output == 0 && n.weight == 0 && n.forward == 0 && n.backward == 0
	}
	succ := make([][]int, len(g.nodes))
	for _, e := range g.edges {
		succ[e.From] = append(succ[e.From], e.To)
	}
	var full []int
	for v := range empty {
		if !empty[v] {
			full = append(full, v)
		}
	}
	for len(full) > 0 {
		v := full[len(full)-1]
		full = full[:len(full)-1]
		for _, y := range succ[v] {
			if empty[y] {
				empty[y] = false
				full = append(full, y)
			}
		}
	}
	return empty
}

func (g *graph) cycle(c *linear.CycleError, back []int) error {
	var names []string
	for _, k := range c.Nodes {
		names = append(names, g.nodes[back[k]].name)
	}
	line := 1
	for i, e := range g.edges {
		if e.From == back[c.Nodes[0]] && e.To == back[c.Nodes[1%len(c.Nodes)]] {
			line = g.lines(i)
		}
	}
	return g.fail(line, "the edges %s → %s form a cycle", strings.Join(names, " → "), names[0])
}

// collect adds up the layers.
func (g *graph) collect(cut []linear.Layer, back []int) *layers {
	out := &layers{&chain.Chain{Name: chainName(g.file), Layers: make([]chain.Layer, len(cut))}, make([]int, len(g.nodes))}
	c := out.chain
	for v := range g.nodes {
		if out.of[v] = -1; g.nodes[v].input {
			c.Input.Activation += g.nodes[v].output
		}
	}
	c.Input.Gradient = c.Input.Activation
	for i := range cut {
		l, right := &c.Layers[i], &g.nodes[back[cut[i].Out]]
		for _, k := range cut[i].Nodes {
			v := back[k]
			n := &g.nodes[v]
			out.of[v] = i
			l.ForwardTime += n.forward
			l.BackwardTime += n.backward
			l.Weight += n.weight
			l.Saved += max(n.saved, n.output)
		}
		l.Activation, l.Gradient = right.output, right.output
		l.Saved = max(l.Saved, l.Activation) // against rounding of the sum
		l.Name = right.name
		if first := &g.nodes[back[cut[i].Nodes[0]]]; first != right {
			l.Name = first.name + " … " + l.Name
		}
	}
	return out
}

// wholeBytes rounds sizes of profiles up to integers, since tensors have whole bytes,
// and returns a warning that counts those that were none, see [platform.Unit.Exact].
func wholeBytes(sizes iter.Seq2[*float64, func() string]) (warnings []string) {
	n := 0
	for x := range sizes {
		exact := platform.Byte.Exact(*x)
		if *x = math.Ceil(exact); *x != exact {
			n++
		}
	}
	if n > 0 {
		warnings = []string{platform.Count(n, "size") + " not in whole bytes, rounded up"}
	}
	return warnings
}

// chainName names a chain after its file, or after its folder if the file is
// called as all of its kind are.
func chainName(file string) string {
	file = strings.ReplaceAll(file, `\`, "/")
	base := path.Base(file)
	if dir := path.Base(path.Dir(file)); base == "graph.txt" && dir != "." && dir != "/" {
		return dir
	}
	return strings.TrimSuffix(base, path.Ext(base))
}
