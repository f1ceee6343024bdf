package graph

import (
	"container/heap"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Sort lists the nodes of g in a topological order, as importers of files
// without one need: of the nodes whose predecessors are all listed, the one
// that came first in g is next, so a graph that is in order stays as it is. The
// error, a *FieldError, names a cycle if there is one; g is then unchanged.
// Edges must be between nodes of g. O((nodes + edges) log nodes).
func Sort(g *Graph) error {
	_, succ := g.Adjacency()
	missing := make([]int, g.Len()) // predecessors that are not listed
	for _, next := range succ {
		for _, v := range next {
			missing[v]++
		}
	}
	ready := &indices{}
	for v, n := range missing {
		if n == 0 {
			*ready = append(*ready, v) // ascending, so a heap
		}
	}
	place := make([]int, g.Len()) // of each node in the new order
	nodes := make([]Node, 0, g.Len())
	for ready.Len() > 0 {
		v := heap.Pop(ready).(int)
		place[v] = len(nodes)
		nodes = append(nodes, g.Nodes[v])
		for _, w := range succ[v] {
			if missing[w]--; missing[w] == 0 {
				heap.Push(ready, w)
			}
		}
	}
	if len(nodes) < g.Len() {
		return &FieldError{Path: "edges", Msg: "the graph has a cycle: " + g.path(g.cycle())}
	}
	g.Nodes = nodes
	g.Edges = slices.Clone(g.Edges)
	for k, e := range g.Edges {
		g.Edges[k] = Edge{place[e.From], place[e.To]}
	}
	g.Extra = slices.Clone(g.Extra)
	for k := range g.Extra {
		path := g.Extra[k].Path
		if v, err := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(path, "nodes["), "]")); err == nil && v >= 0 && v < len(place) {
			g.Extra[k].Path = fmt.Sprintf("nodes[%d]", place[v])
		}
	}
	return nil
}

// indices is a heap of the smallest first.
type indices []int

func (h indices) Len() int           { return len(h) }
func (h indices) Less(i, j int) bool { return h[i] < h[j] }
func (h indices) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *indices) Push(x any)        { *h = append(*h, x.(int)) }

func (h *indices) Pop() any {
	old := *h
	last := old[len(old)-1]
	*h = old[:len(old)-1]
	return last
}

// cycle returns the nodes of a cycle, or nil. It walks on from each node in
// turn, to successors in ascending order, until it meets a node of the walk.
// O(nodes + edges).
func (g *Graph) cycle() []int {
	_, succ := g.Adjacency()
	next := make([]int, g.Len()) // how many successors have been taken
	on := make([]bool, g.Len())  // whether the walk goes through the node
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

// shown is how many nodes of a cycle an error names at either end.
const shown = 6

// path writes a cycle as "a → b → c → a".
func (g *Graph) path(cycle []int) string {
	names := make([]string, 0, 2*shown+2)
	for k, v := range cycle {
		switch {
		case len(cycle) <= 2*shown || k < shown || k >= len(cycle)-shown:
			names = append(names, g.Nodes[v].ID)
		case k == shown:
			names = append(names, fmt.Sprintf("… (%d more) …", len(cycle)-2*shown))
		}
	}
	return strings.Join(append(names, g.Nodes[cycle[0]].ID), " → ")
}
