// Package graph holds the directed acyclic graphs of training steps: forward
// nodes, the loss and backward nodes, each with a time and the size of what it
// writes. Checkmate and its kin plan on these.
package graph

import (
	"workbench/model/chain"
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
// sizes in bytes.
type Graph struct {
	Name    string
	Samples int // mini-batch size; 0: unknown
	// Input is what is resident all the time and never counted by node: data,
	// targets.
	Input  float64
	Nodes  []Node
	Edges  []Edge
	Source map[string]any     // where the numbers come from; free form
	Extra  []strictjson.Extra // the user's own fields ("x-…")
}

// Node is one operation. Computing it needs the values of all its
// predecessors, writes its value of Memory bytes, and takes Overhead bytes more
// while it runs.
type Node struct {
	ID       string // unique
	Name     string
	Kind     string // Forward, Loss or Backward
	Time     float64
	Memory   float64
	Overhead float64
	Weight   float64 // bytes of parameters; planned around, not planned
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

// Adjacency returns for every node its predecessors and its successors,
// ascending and without repetition. O(nodes + edges).
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
		sortInts(pred[v])
		sortInts(succ[v])
	}
	return pred, succ
}

// Of returns the graph of a chain: F_1..F_N, B_N..B_1 with ids "F1".."B1".
// F_ℓ is F_all: it writes ā_ℓ. B_ℓ reads ā_ℓ, ā_{ℓ-1} and δ_ℓ and writes
// δ_{ℓ-1}; a_0 and δ_N are resident all the time. Every plan of the graph is
// one of the chain (not the other way: the graph knows no a apart from ā).
func Of(c *chain.Chain) *Graph { return of(c) }
