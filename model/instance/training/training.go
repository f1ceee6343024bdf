// Package training holds training steps as tracers see them: nodes that read and
// write storages, several each, forward and backward alike. It is what graph/v2
// files hold; docs/graph.md has the rules of plans on them.
package training

import (
	"fmt"
	"iter"

	"workbench/model/instance/graph"
	"workbench/model/platform"
	"workbench/model/strictjson"
)

// Format names the file format written by this package.
const Format = "workbench.graph/v2"

// Phases of a step. No rule depends on them.
const (
	Forward   = "forward"
	Loss      = "loss"
	Backward  = "backward"
	Optimizer = "optimizer"
)

// Kinds of storage, by what it holds. No rule depends on them.
const (
	Value          = "value"
	Parameter      = "parameter"
	Gradient       = "gradient"
	OptimizerState = "optimizer"
	Buffer         = "buffer"
	Input          = "input"
	LossValue      = "loss"
)

// Graph is one training step: nodes in one valid order, and the storages that
// they read and write. Times are in seconds, sizes are whole numbers of Unit,
// which is the byte unless a file has decimals.
type Graph struct {
	Name    string
	Samples int // mini-batch size; 0: unknown
	// Input counts in every peak and belongs to no storage: graphs that were
	// files of graph/v1 have it.
	Input    float64
	Storages []Storage
	Nodes    []Node
	Unit     platform.Unit      // of all sizes
	Source   map[string]any     // where the numbers come from; free form
	Extra    []strictjson.Extra // the user's own fields ("x-…")
}

// Storage is a piece of device memory that is made, used and freed as a whole.
// One that is not resident is written by exactly one node.
type Storage struct {
	ID    string // unique among storages
	Bytes float64
	Kind  string // Value, Parameter, …
	// Resident storages are on the device from the start to the end and counted
	// apart from the memory of a plan. No node writes them.
	Resident bool
	// Result storages are on the device when the step ends.
	Result bool
	// NoOffload forbids sending it to the host.
	NoOffload bool
}

// Node is one operation. It needs what it reads on the device, makes all that it
// writes, and takes Workspace more while it runs.
type Node struct {
	ID        string // unique among nodes
	Operation string
	Phase     string // Forward, Loss, Backward or Optimizer
	Time      float64
	Reads     []int // indices of Storages, as are Writes and Mutates
	Writes    []int
	Workspace float64
	// Mutates are resident storages that the first run changes; later runs leave
	// them alone.
	Mutates []int
	Once    bool   // it may not run again
	Random  bool   // it draws random numbers
	Layer   string // the block of the network that it belongs to; empty: none
}

// Len returns the number of nodes.
func (g *Graph) Len() int { return len(g.Nodes) }

// TotalTime returns the time of running every node once.
func (g *Graph) TotalTime() float64 {
	t := 0.0
	for v := range g.Nodes {
		t += g.Nodes[v].Time
	}
	return t
}

// Writers returns for every storage the node that writes it, -1 of resident
// ones. The graph must be valid. O(storages + writes).
func (g *Graph) Writers() []int {
	writer := make([]int, len(g.Storages))
	for s := range writer {
		writer[s] = -1
	}
	for v := range g.Nodes {
		for _, s := range g.Nodes[v].Writes {
			writer[s] = v
		}
	}
	return writer
}

// Sizes yields every size of g with a function that names its field.
func (g *Graph) Sizes() iter.Seq2[*float64, func() string] {
	return func(yield func(*float64, func() string) bool) {
		if !yield(&g.Input, func() string { return "input" }) {
			return
		}
		for s := range g.Storages {
			if !yield(&g.Storages[s].Bytes, func() string { return fmt.Sprintf("storages[%d].bytes", s) }) {
				return
			}
		}
		for v := range g.Nodes {
			if !yield(&g.Nodes[v].Workspace, func() string { return fmt.Sprintf("nodes[%d].workspace", v) }) {
				return
			}
		}
	}
}

// FromGraph returns the training step that a graph/v1 means: every plan of g is one of
// it, D of a node's value being D of the storage with its id, with the same
// memory at every operation, and the other way round. g must be valid. O(nodes +
// edges·log(edges)).
//
// Storage v is the value of node v; weights, if there are any, follow as
// resident ones.
func FromGraph(g *graph.Graph) *Graph {
	t := &Graph{Name: g.Name, Samples: g.Samples, Input: g.Input, Unit: g.Unit, Source: g.Source}
	pred, _ := g.Adjacency()
	taken := make(map[string]bool, g.Len())
	for v := range g.Nodes {
		n := &g.Nodes[v]
		taken[n.ID] = true
		t.Storages = append(t.Storages, Storage{ID: n.ID, Bytes: n.Memory, Kind: Value})
		t.Nodes = append(t.Nodes, Node{
			ID: n.ID, Operation: n.Name, Phase: n.Kind, // the names of kinds are those of phases
			Time: n.Time, Reads: pred[v], Writes: []int{v}, Workspace: n.Overhead, Once: n.Kind != graph.Forward,
		})
	}
	for v := range g.Nodes {
		if n := &g.Nodes[v]; n.Weight > 0 {
			id := "weight of " + n.ID
			for taken[id] {
				id += "'"
			}
			taken[id] = true
			t.Nodes[v].Reads = append(t.Nodes[v].Reads, len(t.Storages))
			t.Storages = append(t.Storages, Storage{ID: id, Bytes: n.Weight, Kind: Parameter, Resident: true})
		}
	}
	return t
}
