// Package graph holds the directed acyclic graphs of training steps: forward
// nodes, the loss and backward nodes, each with a time and the size of what it
// writes. Checkmate and its kin plan on these.
package graph

import (
	"fmt"
	"iter"
	"slices"

	"workbench/model/instance/chain"
	"workbench/model/platform"
	"workbench/model/strictjson"
)

// Format names the file format written by this package.
const Format = "workbench.graph/v1"

// Kinds of node.
const (
	Forward  = "forward"
	Loss     = "loss"
	Backward = "backward"
)

// Graph is a training step as nodes in a topological order, which methods
// keep: node v is first computed after nodes 0..v-1. Times are in seconds,
// sizes are whole numbers of Unit, which is the byte unless a file has decimals.
type Graph struct {
	Name    string
	Samples int // mini-batch size; 0: unknown
	// Input is what is resident all the time and never counted by node: data,
	// targets.
	Input  float64
	Nodes  []Node
	Edges  []Edge
	Unit   platform.Unit      // of all sizes
	Source map[string]any     // where the numbers come from; free form
	Extra  []strictjson.Extra // the user's own fields ("x-…")
}

// Node is one operation. Computing it needs the values of all its
// predecessors, writes its value of size Memory, and takes Overhead more
// while it runs.
type Node struct {
	ID       string // unique
	Name     string
	Kind     string // Forward, Loss or Backward
	Time     float64
	Memory   float64
	Overhead float64
	Weight   float64 // of parameters; planned around, not planned
}

// Edge says that node To reads the value of node From. Both are indices of
// Nodes; From < To.
type Edge struct{ From, To int }

// Len returns the number of nodes.
func (g *Graph) Len() int { return len(g.Nodes) }

// TotalTime returns the time of computing every node once.
func (g *Graph) TotalTime() float64 {
	t := 0.0
	for i := range g.Nodes {
		t += g.Nodes[i].Time
	}
	return t
}

// Sizes yields every size of g with a function that names its field.
func (g *Graph) Sizes() iter.Seq2[*float64, func() string] {
	return func(yield func(*float64, func() string) bool) {
		if !yield(&g.Input, func() string { return "input" }) {
			return
		}
		for v := range g.Nodes {
			n := &g.Nodes[v]
			for k, x := range [...]*float64{&n.Memory, &n.Overhead, &n.Weight} {
				if !yield(x, func() string { return fmt.Sprintf("nodes[%d].%s", v, sizeFields[k]) }) {
					return
				}
			}
		}
	}
}

// sizeFields names the sizes of a node in the order of Sizes.
var sizeFields = [...]string{"memory", "overhead", "weight"}

// Adjacency returns for every node its predecessors and its successors,
// ascending and without repetition. O(nodes + edges·log(edges)).
func (g *Graph) Adjacency() (pred, succ [][]int) {
	pred, succ = make([][]int, g.Len()), make([][]int, g.Len())
	seen := make(map[Edge]bool, len(g.Edges))
	for _, e := range g.Edges {
		if !seen[e] {
			seen[e] = true
			succ[e.From] = append(succ[e.From], e.To)
			pred[e.To] = append(pred[e.To], e.From)
		}
	}
	for v := range pred {
		slices.Sort(pred[v])
		slices.Sort(succ[v])
	}
	return pred, succ
}

// FromChain returns the graph of a chain: F_1..F_N, B_N..B_1 with ids "F1".."B1",
// F_N being the loss. F_ℓ is F_all: it reads ā_{ℓ-1} and writes ā_ℓ, with oF_ℓ
// beside it. B_ℓ reads ā_ℓ, ā_{ℓ-1} and δ_ℓ and writes δ_{ℓ-1}, with oB_ℓ
// beside it. a_0 and δ_N are resident all the time. O(N).
//
// A plan of the graph gives one of the chain that is as fast and needs no more
// memory. Not the other way, so the graph's optimum is a feasible but
// pessimistic makespan of the chain: the graph knows no a apart from the larger
// ā, never drops a_0, keeps δ_N after B_N, and may compute the loss only once
// (which is no loss: F_N is worth computing just before B_N alone).
func FromChain(c *chain.Chain) *Graph {
	n := c.Len()
	g := &Graph{
		Name: c.Name, Samples: c.Samples, Source: c.Source, Unit: c.Unit,
		Nodes: make([]Node, 0, 2*n), Edges: make([]Edge, 0, max(0, 4*n-3)),
	}
	g.Input = c.Input.Activation
	if n > 0 {
		g.Input += c.Layers[n-1].Gradient
	}
	for l := 1; l <= n; l++ {
		x := &c.Layers[l-1]
		node := Node{
			ID: fmt.Sprintf("F%d", l), Name: x.Name, Kind: Forward,
			Time: x.ForwardTime, Memory: x.Saved, Overhead: x.ForwardOverhead, Weight: x.Weight,
		}
		if l == n {
			node.Kind = Loss
		}
		if l > 1 {
			g.Edges = append(g.Edges, Edge{l - 2, l - 1})
		}
		g.Nodes = append(g.Nodes, node)
	}
	for l := n; l >= 1; l-- {
		x, delta := &c.Layers[l-1], c.Input.Gradient
		if l > 1 {
			delta = c.Layers[l-2].Gradient
		}
		b := len(g.Nodes)
		g.Nodes = append(g.Nodes, Node{
			ID: fmt.Sprintf("B%d", l), Name: x.Name, Kind: Backward,
			Time: x.BackwardTime, Memory: delta, Overhead: x.BackwardOverhead,
		})
		if l > 1 {
			g.Edges = append(g.Edges, Edge{l - 2, b}) // ā_{ℓ-1}; a_0 is resident
		}
		g.Edges = append(g.Edges, Edge{l - 1, b}) // ā_ℓ
		if l < n {
			g.Edges = append(g.Edges, Edge{b - 1, b}) // δ_ℓ
		}
	}
	return g
}
