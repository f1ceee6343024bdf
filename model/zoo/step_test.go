package zoo

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"workbench/model/instance/graph"
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
		if err := g.Validate(); err != nil {
			t.Errorf("%s: %v", spec, err)
		}
		var b bytes.Buffer
		if err := g.Write(&b); err != nil {
			t.Fatal(err)
		}
		back, err := graph.Read(&b, spec)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(g, back); d != "" {
			t.Errorf("%s changes in its file:\n%s", spec, d)
		}
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
		seen := map[graph.Edge]bool{}
		for _, x := range g.Edges {
			if x.From < 0 || x.From >= x.To || x.To >= len(g.Nodes) || seen[x] {
				t.Errorf("%s: edge %v", spec, x)
			}
			seen[x] = true
		}
		if e.join != nil {
			continue
		}
		c := load(t, spec)
		totals := c.Totals()
		resident, _ := c.Source["resident"].(float64)
		for _, x := range [][2]float64{
			{forward, totals.ForwardTime},
			{backward, totals.BackwardTime},
			{weight, totals.Weight},
			{g.Input, c.Input.Activation + resident},
		} {
			if math.Abs(x[0]-x[1]) > 1e-9*x[1] {
				t.Errorf("%s: graph %v, chain %v", spec, x[0], x[1])
			}
		}
		if g.Name != c.Name || g.Samples != c.Samples || g.Source["parameters"] != c.Source["parameters"] {
			t.Errorf("%s: graph %s of %d, chain %s of %d", spec, g.Name, g.Samples, c.Name, c.Samples)
		}
	}
}

// Networks that are known as chains only give the graph of the chain.
func TestGraphOfTable1(t *testing.T) {
	c, g := load(t, "zoo:table1-bert?depth=9"), loadGraph(t, "zoo:table1-bert?depth=9")
	if g.Len() != 2*c.Len() || g.Name != c.Name || g.Samples != c.Samples || math.Abs(g.TotalTime()-c.TotalTime()) > 1e-9 {
		t.Errorf("graph %s: %d nodes, %v s; chain %s: %d layers, %v s", g.Name, g.Len(), g.TotalTime(), c.Name, c.Len(), c.TotalTime())
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

// Every backward reads all that autograd saved for its operations, and the
// gradient of every reader of its output, and nothing else. Told by names: the
// node of an operation is that of the operation whose storage it overwrites.
func TestBackwardReadsWhatForwardSaved(t *testing.T) {
	for _, e := range priced() {
		v, err := e.resolve(nil, FormGraph)
		if err != nil {
			t.Fatal(err)
		}
		n, h, err := e.net(v)
		if err != nil {
			t.Fatal(err)
		}
		g, err := n.step(h)
		if err != nil {
			t.Fatal(err)
		}
		got := map[[2]string]bool{}
		for _, x := range g.Edges {
			got[[2]string{g.Nodes[x.From].ID, g.Nodes[x.To].ID}] = true
		}

		node := make([]string, len(n.operations))
		of := map[int]string{} // node that writes a storage; "": data
		for i := range n.operations {
			op := &n.operations[i]
			node[i] = op.name
			if op.inPlace {
				node[i] = of[n.tensors[op.in[0]].storage]
			}
			of[n.tensors[op.out].storage] = node[i]
		}
		for i := range n.tensors {
			if x := &n.tensors[i]; x.producer < 0 {
				of[x.storage] = ""
			}
		}
		want := map[[2]string]bool{}
		for i := range n.operations {
			op := &n.operations[i]
			for _, x := range op.in {
				from := of[n.tensors[x].storage]
				if from == "" || from == node[i] {
					continue
				}
				want[[2]string{from, node[i]}] = true
				if n.tensors[x].gradient {
					want[[2]string{node[i] + "/grad", from + "/grad"}] = true
				}
			}
			for _, s := range op.saved {
				from, tensor := of[s]
				if !tensor { // a mask, indices, statistics
					from = node[i]
				}
				if from != "" {
					want[[2]string{from, node[i] + "/grad"}] = true
				}
			}
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", e.Name, d)
		}
	}
}

// Storing everything until its last reader, a graph holds at the loss what
// autograd saves, and besides it the outputs that share a node with a mask or
// with statistics. Its peak is no more than that of the chain, whose layers
// hold all that they saved until their backward ends, plus the largest node.
func TestStoreAll(t *testing.T) {
	for _, e := range priced() {
		if e.join != nil {
			continue
		}
		spec := Scheme + e.Name
		g, c := loadGraph(t, spec), load(t, spec)
		last := make([]int, g.Len())
		for v := range last {
			last[v] = v
		}
		for _, x := range g.Edges {
			last[x.From] = max(last[x.From], x.To)
		}
		now, peak, kept, largest := 0.0, 0.0, 0.0, 0.0
		free := make([]float64, g.Len())
		for v, node := range g.Nodes {
			now += node.Memory
			peak = max(peak, now+node.Overhead)
			free[last[v]] += node.Memory
			now -= free[v]
			largest = max(largest, node.Memory)
			if node.Kind == graph.Loss {
				kept = now
			}
		}
		v, err := e.resolve(nil, FormGraph)
		if err != nil {
			t.Fatal(err)
		}
		n, _, err := e.net(v)
		if err != nil {
			t.Fatal(err)
		}
		tensor, saved, want := make([]bool, len(n.storages)), make([]bool, len(n.storages)), 0.0
		for i := range n.tensors {
			tensor[n.tensors[i].storage] = true
			saved[n.tensors[i].storage] = n.tensors[i].producer < 0 // there all the time
		}
		save := func(s int) {
			if !saved[s] {
				saved[s] = true
				want += n.storages[s]
			}
		}
		for _, op := range n.operations {
			for _, s := range op.saved {
				save(s)
				if !tensor[s] {
					save(n.tensors[op.out].storage)
				}
			}
		}
		if math.Abs(kept-want) > 1e-12*want {
			t.Errorf("%s: at the loss the graph holds %.0f bytes, want %.0f", spec, kept, want)
		}
		most, stored := 0.0, c.Totals().Saved
		for i := len(c.Layers) - 1; i >= 0; i-- {
			l := &c.Layers[i]
			before := c.Input.Gradient
			if i > 0 {
				before = c.Layers[i-1].Gradient
			}
			most = max(most, stored+l.Gradient+before+l.BackwardOverhead)
			stored -= l.Saved
		}
		if peak < kept || peak > most+largest {
			t.Errorf("%s: the graph's peak is %.0f, the chain's %.0f, the largest node %.0f", spec, peak, most, largest)
		}
	}
}

// A storage that others still read may not be overwritten.
func TestOverwritten(t *testing.T) {
	n := &net{precision: single}
	x := n.input(4, 1, 2, 4, 4)
	x = n.conv("first", x, convolution{out: 3, kernel: 1, stride: 1})
	y := n.relu("relu", x)
	n.sum("add", y, n.conv("late", x, convolution{out: 3, kernel: 1, stride: 1}))
	if _, err := n.step(how{device: Devices()[0], optimizer: 1}); err == nil ||
		!strings.Contains(err.Error(), "late reads first, which add overwrites") {
		t.Errorf("error %v", err)
	}
}

// Branches that share weights train them all, but hold and count them once.
func TestSharedWeights(t *testing.T) {
	g := loadGraph(t, "zoo:siamese?length=2")
	count := 0
	for _, v := range g.Nodes {
		switch branch := strings.HasPrefix(v.ID, "branch1."); {
		case v.Kind == graph.Forward && (v.Weight > 0) != branch:
			t.Errorf("%s weighs %v", v.ID, v.Weight)
		case v.Kind == graph.Backward && v.Time <= 0:
			t.Errorf("%s takes no time", v.ID)
		case v.Kind == graph.Backward:
			count++
		}
	}
	if want := 3*4 + 1; count != want {
		t.Errorf("%d backward nodes, want %d", count, want)
	}
	if g.Source["shared"] == nil {
		t.Error("it does not say that weights are shared")
	}
}
