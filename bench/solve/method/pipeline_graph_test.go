package method_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"workbench/bench/solve"
	"workbench/bench/solve/method"
	"workbench/model/instance/graph"
	"workbench/model/platform"
)

// On a graph that is made coarser search is no worse than pipedream-star, however short the
// time: its other methods may take all of it to begin.
func TestSearchOfALargeGraphBeginsWithPipeDream(t *testing.T) {
	g := &graph.Graph{Name: "three chains"}
	const chains, length = 3, 30
	for i := range chains * length {
		g.Nodes = append(g.Nodes, graph.Node{ID: fmt.Sprint("f", i), Kind: graph.Forward, Time: 1 + float64(i%7), Memory: 1})
		if i%length > 0 {
			g.Edges = append(g.Edges, graph.Edge{From: i - 1, To: i})
		}
	}
	loss := len(g.Nodes)
	g.Nodes = append(g.Nodes, graph.Node{ID: "loss", Kind: graph.Loss})
	for i := loss - 1; i >= 0; i-- {
		g.Nodes = append(g.Nodes, graph.Node{ID: fmt.Sprint("b", i), Kind: graph.Backward, Time: 2})
		from := 2*loss - i - 1 // the backward of its only reader
		if i%length == length-1 {
			g.Edges = append(g.Edges, graph.Edge{From: i, To: loss})
			from = loss
		}
		g.Edges = append(g.Edges, graph.Edge{From: from, To: 2*loss - i})
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	s := solve.Setting{Platform: platform.Platform{Memory: 1 << 30, Bandwidth: 1, Processors: 4, WeightCopies: 3}, Threads: 1}
	period := func(name string) float64 {
		list := method.PipelineMethods()
		m := list[slices.IndexFunc(list, func(m *solve.Method) bool { return m.Name == name })]
		out, err := m.Run(over, &solve.Instance{Instance: g}, s)
		if err != nil || out.Plan == nil || !out.Stopped {
			t.Fatalf("%s: %+v, %v", name, out, err)
		}
		return out.Plan.Claims.Makespan
	}
	if star, found := period("pipedream-star"), period("search"); found > star {
		t.Errorf("search takes %g s, pipedream-star %g s", found, star)
	}
}
