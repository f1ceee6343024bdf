package zoo

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"workbench/model/graph"
	"workbench/model/testfile"
)

func loadGraph(t *testing.T, spec string) *graph.Graph {
	t.Helper()
	g, err := LoadGraph(spec)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// priced lists the networks that the cost model prices.
func priced() []generator {
	return slices.DeleteFunc(generators(), func(g generator) bool { return g.build == nil })
}

// Every graph is in topological order, computes what the chain computes in the
// same time with the same weights, and has a backward node behind the loss for
// every forward node.
func TestGraphs(t *testing.T) {
	for _, e := range priced() {
		spec := Scheme + e.Name
		g := loadGraph(t, spec)
		loss := slices.IndexFunc(g.Nodes, func(v graph.Node) bool { return v.Kind == graph.Loss })
		if loss < 0 || len(g.Nodes) != 2*(loss+1) {
			t.Errorf("%s: %d nodes, the loss is node %d", spec, len(g.Nodes), loss)
		}
		ids := map[string]bool{}
		var forward, backward, weight float64
		for i, v := range g.Nodes {
			if ids[v.ID] || v.ID == "" || v.Name == "" {
				t.Errorf("%s: node %d is %+v", spec, i, v)
			}
			ids[v.ID] = true
			weight += v.Weight
			switch {
			case i < loss && v.Kind == graph.Forward, i == loss && v.ID == "loss":
				forward += v.Time
			case i > loss && v.Kind == graph.Backward && v.ID == g.Nodes[2*loss+1-i].ID+"/grad":
				backward += v.Time
			default:
				t.Errorf("%s: node %d is %+v, the loss is node %d", spec, i, v, loss)
			}
		}
		for i, x := range g.Edges {
			if x.From < 0 || x.From >= x.To || x.To >= len(g.Nodes) || slices.Contains(g.Edges[:i], x) {
				t.Errorf("%s: edge %v", spec, x)
			}
		}
		if e.join != nil {
			continue
		}
		c := load(t, spec)
		totals := c.Totals()
		resident, _ := c.Source["resident"].(float64)
		for _, x := range [][2]float64{{forward, totals.ForwardTime}, {backward, totals.BackwardTime}, {weight, totals.Weight}, {g.Input, c.Input.Activation + resident}} {
			if math.Abs(x[0]-x[1]) > 1e-9*x[1] {
				t.Errorf("%s: graph %v, chain %v", spec, x[0], x[1])
			}
		}
		if g.Name != c.Name || g.Samples != c.Samples || g.Source["parameters"] != c.Source["parameters"] {
			t.Errorf("%s: graph %s of %d, chain %s of %d", spec, g.Name, g.Samples, c.Name, c.Samples)
		}
	}
}

// conv → batch-norm → relu → conv, then a sum in place and the loss, as text.
func TestGraphOfABlock(t *testing.T) {
	n := &net{precision: single}
	x := n.input(4, 1, 2, 4, 4)
	x = n.conv("stem", x, convolution{out: 3, kernel: 1, stride: 1})
	y := n.relu("relu1", n.batchNorm("bn1", n.conv("conv1", x, convolution{out: 3, kernel: 1, stride: 1})))
	y = n.batchNorm("bn2", n.conv("conv2", y, convolution{out: 3, kernel: 1, stride: 1}))
	x = n.batchNorm("bn3", n.conv("shortcut", x, convolution{out: 3, kernel: 1, stride: 1}))
	y = n.relu("relu2", n.sum("add", y, x))
	n.crossEntropy("loss", n.maxPool("pool", y, 2, 2, 0))
	g, err := n.step(how{device: Devices()[0], optimizer: 1})
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "input %g\n", g.Input)
	pred, _ := g.Adjacency()
	for i, v := range g.Nodes {
		var reads []string
		for _, u := range pred[i] {
			reads = append(reads, g.Nodes[u].ID)
		}
		fmt.Fprintf(&b, "%-8s %-13s %-20s holds %4g weighs %3g reads %s\n", v.Kind, v.ID, v.Name, v.Memory, v.Weight, strings.Join(reads, " "))
	}
	testfile.Golden(t, "block.graph", b.String())
}
