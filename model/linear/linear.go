// Package linear turns directed acyclic graphs into chains: it cuts a graph at
// the tensors that no edge jumps over, so that what lies between two cuts
// becomes one layer.
//
// Both the built-in networks and the imported profiles are cut here, so that
// the same network gives the same layers whichever way it comes.
package linear

import (
	"container/heap"
	"fmt"
	"slices"
)

// Input as Edge.From is the chain's own input, which is no node.
const Input = -1

// Edge says that node To reads what node From writes.
type Edge struct{ From, To int }

// Graph is a directed acyclic graph of the nodes 0..Nodes-1. A node without
// predecessors reads the chain's input.
type Graph struct {
	Nodes int
	Edges []Edge
	// Idle marks nodes that take no time; nil: none. An idle node that nobody
	// reads (one part of a tuple, a shape) stays with what it is made from
	// and prevents no cut.
	Idle []bool
	// Keep marks nodes behind which the chain may not be cut; nil: none.
	Keep []bool
}

// CycleError says that a graph has a cycle.
type CycleError struct {
	Nodes []int // of one cycle, each an input of the next and the last of the first
}

func (e *CycleError) Error() string { return fmt.Sprintf("linear: the nodes %v form a cycle", e.Nodes) }

// Layer is what lies between two cuts.
type Layer struct {
	// Nodes are its nodes in a topological order that prefers small numbers,
	// idle ones that nobody reads last.
	Nodes []int
	// Out is the node at the right cut: every path from the chain's input to
	// a node that nobody reads passes it (idle ones aside), and only what it
	// writes crosses the cut. In the last layer, the last node.
	Out int
}

// Layers returns the layers of g. The error is a *CycleError, or about an edge
// to no node. O((nodes + edges)·log(nodes)).
func Layers(g *Graph) ([]Layer, error) {
	succ, indegree, err := adjacency(g)
	if err != nil {
		return nil, err
	}
	order := Order(succ)
	if len(order) < g.Nodes {
		return nil, &CycleError{Cycle(succ)}
	}
	loose := idleEnds(g, succ, order)
	position := make([]int, g.Nodes)
	trunk := make([]int, 0, g.Nodes) // order without the loose ends
	for _, v := range order {
		if !loose[v] {
			position[v] = len(trunk)
			trunk = append(trunk, v)
		}
	}

	// A position is a cut if no edge from before it leads past it. Nodes that
	// nobody reads lead to the end, nodes that read nothing come from before
	// the first.
	furthest := -1
	for _, e := range g.Edges {
		if e.From == Input && !loose[e.To] {
			furthest = max(furthest, position[e.To])
		}
	}
	for v, d := range indegree {
		if d == 0 && !loose[v] {
			furthest = max(furthest, position[v])
		}
	}
	layer := make([]int, g.Nodes)
	count := 0
	for p, v := range trunk {
		layer[v] = count
		if p == len(trunk)-1 || furthest <= p && (g.Keep == nil || !g.Keep[v]) {
			count++
		}
		end := true
		for _, y := range succ[v] {
			if !loose[y] {
				furthest, end = max(furthest, position[y]), false
			}
		}
		if end {
			furthest = g.Nodes
		}
	}
	return collect(g, order, loose, layer, count), nil
}

// collect lists the layers: the trunk's nodes first, then loose ends, each in
// the latest layer it reads from.
func collect(g *Graph, order []int, loose []bool, layer []int, count int) []Layer {
	layers := make([]Layer, count)
	for _, v := range order {
		if !loose[v] {
			l := &layers[layer[v]]
			l.Nodes, l.Out = append(l.Nodes, v), v
		}
	}
	pred := make([][]int, g.Nodes)
	for _, e := range g.Edges {
		if e.From != Input {
			pred[e.To] = append(pred[e.To], e.From)
		}
	}
	for _, v := range order {
		if loose[v] {
			for _, x := range pred[v] {
				layer[v] = max(layer[v], layer[x])
			}
			layers[layer[v]].Nodes = append(layers[layer[v]].Nodes, v)
		}
	}
	return layers
}

func adjacency(g *Graph) (succ [][]int, indegree []int, err error) {
	succ, indegree = make([][]int, g.Nodes), make([]int, g.Nodes)
	for _, e := range g.Edges {
		if e.From < Input || e.From >= g.Nodes || e.To < 0 || e.To >= g.Nodes {
			return nil, nil, fmt.Errorf("linear: edge %d→%d leads outside the nodes 0 to %d", e.From, e.To, g.Nodes-1)
		}
		if e.From != Input {
			succ[e.From] = append(succ[e.From], e.To)
			indegree[e.To]++
		}
	}
	return succ, indegree, nil
}

// Order returns the nodes of a graph in a topological order that prefers small
// numbers: of those whose predecessors are all listed, the smallest is next. Nodes
// on cycles and behind them are missing. O((nodes + edges)·log(nodes)).
func Order(succ [][]int) []int {
	missing := make([]int, len(succ)) // predecessors that are not listed
	for _, next := range succ {
		for _, v := range next {
			missing[v]++
		}
	}
	var ready ints
	for v, n := range missing {
		if n == 0 {
			ready = append(ready, v) // ascending, which is a heap
		}
	}
	order := make([]int, 0, len(succ))
	for len(ready) > 0 {
		v := heap.Pop(&ready).(int)
		order = append(order, v)
		for _, w := range succ[v] {
			if missing[w]--; missing[w] == 0 {
				heap.Push(&ready, w)
			}
		}
	}
	return order
}

// idleEnds marks the idle nodes from which only idle nodes are reached. If
// that were every node, none is marked: then there is a chain of them.
func idleEnds(g *Graph, succ [][]int, order []int) []bool {
	loose := make([]bool, g.Nodes)
	if g.Idle == nil {
		return loose
	}
	count := 0
	for k := len(order) - 1; k >= 0; k-- {
		v := order[k]
		loose[v] = g.Idle[v]
		for _, y := range succ[v] {
			loose[v] = loose[v] && loose[y]
		}
		if loose[v] {
			count++
		}
	}
	if count == g.Nodes {
		return make([]bool, g.Nodes)
	}
	return loose
}

// Cycle returns the nodes of a cycle, each an input of the next and the last of
// the first; nil: there is none. It walks on from each node in turn, to successors
// in their order, until it meets a node of the walk. O(nodes + edges).
func Cycle(succ [][]int) []int {
	next := make([]int, len(succ)) // how many successors have been taken
	on := make([]bool, len(succ))  // whether the walk goes through the node
	for start := range next {
		walk := []int{start}
		for len(walk) > 0 {
			v := walk[len(walk)-1]
			on[v] = true
			if next[v] == len(succ[v]) {
				on[v] = false
				walk = walk[:len(walk)-1]
				continue
			}
			w := succ[v][next[v]]
			next[v]++
			switch {
			case on[w]:
				return walk[slices.Index(walk, w):]
			case next[w] < len(succ[w]): // else nothing new is behind it
				walk = append(walk, w)
			}
		}
	}
	return nil
}

// ints is a heap of node numbers.
type ints []int

func (h ints) Len() int           { return len(h) }
func (h ints) Less(i, j int) bool { return h[i] < h[j] }
func (h ints) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *ints) Push(x any)        { *h = append(*h, x.(int)) }
func (h *ints) Pop() any {
	old := *h
	v := old[len(old)-1]
	*h = old[:len(old)-1]
	return v
}
