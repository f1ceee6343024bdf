package linear_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"workbench/model/linear"
	"workbench/model/testfile"
)

func TestLayers(t *testing.T) {
	edge := func(pairs ...int) []linear.Edge {
		var es []linear.Edge
		for i := 0; i < len(pairs); i += 2 {
			es = append(es, linear.Edge{From: pairs[i], To: pairs[i+1]})
		}
		return es
	}
	layer := func(out int, nodes ...int) linear.Layer { return linear.Layer{Nodes: nodes, Out: out} }
	for _, x := range []struct {
		name string
		g    linear.Graph
		want []linear.Layer
	}{
		{"nothing", linear.Graph{}, []linear.Layer{}},
		{"one node", linear.Graph{Nodes: 1}, []linear.Layer{layer(0, 0)}},
		{"chain", linear.Graph{Nodes: 3, Edges: edge(0, 1, 1, 2)}, []linear.Layer{layer(0, 0), layer(1, 1), layer(2, 2)}},
		{"chain numbered backwards", linear.Graph{Nodes: 3, Edges: edge(2, 1, 1, 0)}, []linear.Layer{layer(2, 2), layer(1, 1), layer(0, 0)}},
		{"shortcut", linear.Graph{Nodes: 4, Edges: edge(0, 1, 1, 2, 0, 2, 2, 3)}, []linear.Layer{layer(0, 0), layer(2, 1, 2), layer(3, 3)}},
		{"the same edge twice", linear.Graph{Nodes: 2, Edges: edge(0, 1, 0, 1)}, []linear.Layer{layer(0, 0), layer(1, 1)}},
		{"two ends", linear.Graph{Nodes: 3, Edges: edge(0, 1, 0, 2)}, []linear.Layer{layer(0, 0), layer(2, 1, 2)}},
		{"two beginnings", linear.Graph{Nodes: 4, Edges: edge(0, 2, 1, 2, 2, 3)}, []linear.Layer{layer(2, 0, 1, 2), layer(3, 3)}},
		{"input read late", linear.Graph{Nodes: 3, Edges: edge(0, 1, 1, 2, linear.Input, 1)}, []linear.Layer{layer(1, 0, 1), layer(2, 2)}},
		{
			"part of a tuple",
			linear.Graph{Nodes: 4, Edges: edge(0, 1, 0, 3, 3, 2), Idle: []bool{false, true, false, false}},
			[]linear.Layer{layer(0, 0, 1), layer(3, 3), layer(2, 2)},
		},
		{
			"idle end behind an idle end",
			linear.Graph{Nodes: 4, Edges: edge(0, 1, 0, 2, 2, 3), Idle: []bool{false, false, true, true}},
			[]linear.Layer{layer(0, 0, 2, 3), layer(1, 1)},
		},
		{
			"idle on the way",
			linear.Graph{Nodes: 3, Edges: edge(0, 1, 1, 2), Idle: []bool{false, true, false}},
			[]linear.Layer{layer(0, 0), layer(1, 1), layer(2, 2)},
		},
		{"all idle", linear.Graph{Nodes: 2, Edges: edge(0, 1), Idle: []bool{true, true}}, []linear.Layer{layer(0, 0), layer(1, 1)}},
		{
			"overwritten",
			linear.Graph{Nodes: 3, Edges: edge(0, 1, 1, 2), Keep: []bool{true, false, true}},
			[]linear.Layer{layer(1, 0, 1), layer(2, 2)},
		},
	} {
		t.Run(x.name, func(t *testing.T) {
			got, err := linear.Layers(&x.g)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(x.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestErrors(t *testing.T) {
	_, err := linear.Layers(&linear.Graph{Nodes: 5, Edges: []linear.Edge{
		{From: 0, To: 1},
		{From: 1, To: 2},
		{From: 2, To: 3},
		{From: 3, To: 1},
		{From: 3, To: 4},
	}})
	var cycle *linear.CycleError
	if !errors.As(err, &cycle) {
		t.Fatalf("error %v, want a *CycleError", err)
	}
	slices.Sort(cycle.Nodes)
	if !slices.Equal(cycle.Nodes, []int{1, 2, 3}) {
		t.Errorf("cycle %v, want 1 2 3", cycle.Nodes)
	}
	if _, err := linear.Layers(&linear.Graph{Nodes: 1, Edges: []linear.Edge{{From: 0, To: 0}}}); !errors.As(err, &cycle) {
		t.Errorf("a node that reads itself: error %v", err)
	}
	for _, e := range []linear.Edge{{From: 0, To: 2}, {From: 2, To: 0}, {From: -2, To: 0}, {From: 0, To: -1}} {
		if _, err := linear.Layers(&linear.Graph{Nodes: 2, Edges: []linear.Edge{e}}); err == nil {
			t.Errorf("edge %v of two nodes is accepted", e)
		}
	}
}

// The layers of a random graph are those that trying says: a node ends a layer
// exactly if without it nothing leads from the input to an end any more.
func TestCutsAreArticulations(t *testing.T) {
	testfile.Property(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 9).Draw(t, "nodes")
		g := &linear.Graph{Nodes: n}
		number := rapid.Permutation(upTo(n)).Draw(t, "numbers")
		for i := range n {
			for j := i + 1; j < n; j++ {
				if rapid.IntRange(0, 2).Draw(t, "edge") == 0 {
					g.Edges = append(g.Edges, linear.Edge{From: number[i], To: number[j]})
				}
			}
		}
		layers, err := linear.Layers(g)
		if err != nil {
			t.Fatal(err)
		}
		var outs, members []int
		for _, l := range layers {
			outs, members = append(outs, l.Out), append(members, l.Nodes...)
		}
		place := make([]int, n)
		for k, v := range members {
			place[v] = k
		}
		for _, e := range g.Edges {
			if place[e.From] >= place[e.To] {
				t.Fatalf("%v is not in order: %v", e, layers)
			}
		}
		for v := range n {
			last := v == layers[len(layers)-1].Out // closes the chain, whether it cuts or not
			if cut := !connectedWithout(g, v); cut != slices.Contains(outs, v) && !last {
				t.Fatalf("node %d: every path passes it: %v; layers %v", v, cut, layers)
			}
		}
		slices.Sort(members)
		if !slices.Equal(members, upTo(n)) {
			t.Fatalf("members %v of %d nodes", members, n)
		}
	})
}

// Of any graph, also with cycles: the order lists the smallest node whose
// predecessors are all listed as long as there is one, and what is left has a cycle.
func TestOrderOrCycle(t *testing.T) {
	testfile.Property(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 7).Draw(t, "nodes")
		succ := make([][]int, n)
		for v := range succ {
			succ[v] = rapid.SliceOfN(rapid.IntRange(0, n-1), 0, 2).Draw(t, "successors")
		}
		listed := make([]bool, n)
		ready := func(v int) bool {
			for u := range succ {
				if !listed[u] && slices.Contains(succ[u], v) {
					return false
				}
			}
			return !listed[v]
		}
		order := linear.Order(succ)
		for k, v := range order {
			if want := slices.IndexFunc(upTo(n), ready); v != want {
				t.Fatalf("%v: order %v has %d at %d, want %d", succ, order, v, k, want)
			}
			listed[v] = true
		}
		if v := slices.IndexFunc(upTo(n), ready); v >= 0 {
			t.Fatalf("%v: order %v ends before %d", succ, order, v)
		}
		cycle := linear.Cycle(succ)
		if (cycle == nil) != (len(order) == n) {
			t.Fatalf("%v: order %v, cycle %v", succ, order, cycle)
		}
		for k, v := range cycle {
			if next := cycle[(k+1)%len(cycle)]; !slices.Contains(succ[v], next) || slices.Index(cycle, v) != k {
				t.Fatalf("%v: %v is no cycle", succ, cycle)
			}
		}
	})
}

func upTo(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

// connectedWithout reports whether a node that reads nothing still leads to one
// that nobody reads when v is gone.
func connectedWithout(g *linear.Graph, v int) bool {
	begins, ends := make([]bool, g.Nodes), make([]bool, g.Nodes)
	for i := range begins {
		begins[i], ends[i] = true, true
	}
	for _, e := range g.Edges {
		ends[e.From], begins[e.To] = false, false
	}
	reached := make([]bool, g.Nodes)
	for i := range reached {
		reached[i] = begins[i] && i != v
	}
	for range g.Nodes {
		for _, e := range g.Edges {
			if reached[e.From] && e.To != v {
				reached[e.To] = true
			}
		}
	}
	for i := range reached {
		if reached[i] && ends[i] {
			return true
		}
	}
	return false
}
