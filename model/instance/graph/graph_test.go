package graph_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"workbench/model/instance/chain"
	"workbench/model/instance/graph"
)

func TestAdjacency(t *testing.T) {
	g := smallGraph()
	g.Edges = append(g.Edges, graph.Edge{From: 0, To: 2}) // twice
	slices.Reverse(g.Edges)
	pred, succ := g.Adjacency()
	if diff := cmp.Diff([][]int{nil, {0}, {0, 1}}, pred); diff != "" {
		t.Errorf("predecessors (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([][]int{{1, 2}, {2}, nil}, succ); diff != "" {
		t.Errorf("successors (-want +got):\n%s", diff)
	}
}

func TestOf(t *testing.T) {
	c := &chain.Chain{
		Name: "c", Samples: 8, Input: chain.Input{Activation: 1, Gradient: 2}, Source: map[string]any{"kind": "test"},
		Layers: []chain.Layer{
			{
				Name: "conv", ForwardTime: 1, BackwardTime: 2, Activation: 3, Saved: 4, Gradient: 5, ForwardOverhead: 6, BackwardOverhead: 7,
				Weight: 8,
			},
			{Name: "relu", ForwardTime: 9, BackwardTime: 10, Activation: 11, Saved: 12, Gradient: 13},
			{Name: "loss", ForwardTime: 14, BackwardTime: 15, Activation: 16, Saved: 17, Gradient: 18, ForwardOverhead: 19, BackwardOverhead: 20},
		},
	}
	want := &graph.Graph{
		Name: "c", Samples: 8, Input: 1 + 18, Source: map[string]any{"kind": "test"},
		Nodes: []graph.Node{
			{ID: "F1", Name: "conv", Kind: graph.Forward, Time: 1, Memory: 4, Overhead: 6, Weight: 8},
			{ID: "F2", Name: "relu", Kind: graph.Forward, Time: 9, Memory: 12},
			{ID: "F3", Name: "loss", Kind: graph.Loss, Time: 14, Memory: 17, Overhead: 19},
			{ID: "B3", Name: "loss", Kind: graph.Backward, Time: 15, Memory: 13, Overhead: 20},
			{ID: "B2", Name: "relu", Kind: graph.Backward, Time: 10, Memory: 5},
			{ID: "B1", Name: "conv", Kind: graph.Backward, Time: 2, Memory: 2, Overhead: 7},
		},
	}
	g := graph.FromChain(c)
	wantEdges := []string{"F1 → F2", "F2 → F3", "F2 → B3", "F3 → B3", "F1 → B2", "F2 → B2", "B3 → B2", "F1 → B1", "B2 → B1"}
	if diff := cmp.Diff(wantEdges, edges(g)); diff != "" {
		t.Errorf("edges (-want +got):\n%s", diff)
	}
	g.Edges = nil
	if diff := cmp.Diff(want, g); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}

	one := graph.FromChain(&chain.Chain{Layers: c.Layers[2:]})
	if err := one.Validate(); err != nil || one.Len() != 2 || len(one.Edges) != 1 {
		t.Errorf("one layer: %+v, %v", one, err)
	}
	if none := graph.FromChain(&chain.Chain{}); none.Len() != 0 {
		t.Errorf("no layers: %+v", none)
	}
}
