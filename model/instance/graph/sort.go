package graph

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"workbench/model/linear"
	"workbench/model/strictjson"
)

// Sort lists the nodes of g in a topological order, as importers of files
// without one need: of the nodes whose predecessors are all listed, the one
// that came first in g is next, so a graph that is in order stays as it is. The
// error, a *strictjson.FieldError, names a cycle if there is one; g is then unchanged.
// Edges must be between nodes of g. O((nodes + edges) log nodes).
func Sort(g *Graph) error {
	_, succ := g.Adjacency()
	order := linear.Order(succ)
	if len(order) < g.Len() {
		return strictjson.Wrong("edges", "the graph has a cycle: %s", g.path(linear.Cycle(succ)))
	}
	place := make([]int, g.Len()) // of each node in the new order
	nodes := make([]Node, 0, g.Len())
	for i, v := range order {
		place[v] = i
		nodes = append(nodes, g.Nodes[v])
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
