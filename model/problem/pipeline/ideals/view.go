// Package ideals is the model of pipelines on graphs: the forward operations of a training step
// with their backward twins, and the lattice of their ideals. An ideal is a set of operations that
// contains, with each operation, everything it reads. A stage of a pipeline is the difference of
// two ideals, as in Narayanan et al., PipeDream, SOSP 2019, §3.1 (which identifies an ideal by its
// antichain of last operations), and Tarnawski, Phanishayee, Devanur, Mahajan and Nina Paravecino,
// Efficient Algorithms for Device Placement of DNN Graph Operators, NeurIPS 2020, §5.
//
// Stages determine an order of the operations, and a graph in a given order is a chain
// ([View.Chain]), to which methods for chains apply. The values of an ideal that are read outside
// cross its cut, each sent once.
package ideals

import (
	"errors"
	"fmt"
	"slices"

	"workbench/model/instance/chain"
	"workbench/model/instance/graph"
	"workbench/model/plan"
)

// ErrGraph reports graphs that cannot be pipelined.
var ErrGraph = errors.New("graph unfit for pipelining")

// View is the forward part of a graph: layers 0..N-1 in file order; the last one is the loss.
type View struct {
	Graph      *graph.Graph
	N          int
	Node       []int     // layer → node of the graph
	F, B       []float64 // durations of a layer and its twin, seconds
	Out        []float64 // the value it writes
	Weight     []float64
	Pred, Succ [][]int // layers whose values it reads, that read its value
	kept       [][]int // by layer: the layers whose values its twin reads
	// Stopped, if not nil, reports whether searches must end. They then prove less.
	Stopped func() bool
}

// stopped reports whether Stopped ends the searches.
func (v *View) stopped() bool { return v.Stopped != nil && v.Stopped() }

// New returns the view of a graph whose k-th forward operation has the k-th backward operation from
// the end as its twin, which reads the twins of all its readers. The loss may have a twin, the
// first backward operation. The error wraps ErrGraph. O(nodes + edges·log(edges)).
func New(g *graph.Graph) (*View, error) {
	v := &View{Graph: g}
	var backward []int
	loss := -1
	for i := range g.Nodes {
		switch g.Nodes[i].Kind {
		case graph.Forward:
			v.Node = append(v.Node, i)
		case graph.Backward:
			backward = append(backward, i)
		default:
			if loss >= 0 {
				return nil, fmt.Errorf("%w: %q and %q are both losses", ErrGraph, g.Nodes[loss].ID, g.Nodes[i].ID)
			}
			loss = i
		}
	}
	n, twins := len(v.Node), len(backward)
	if loss < 0 {
		return nil, fmt.Errorf("%w: %q has no loss", ErrGraph, g.Name)
	}
	if n == 0 || twins != n && twins != n+1 {
		return nil, fmt.Errorf("%w: %q has %d forward operations and %d backward operations; every forward operation needs its backward",
			ErrGraph, g.Name, n, twins)
	}
	v.Node, v.N = append(v.Node, loss), n+1
	layer, twin := map[int]int{}, map[int]int{} // of nodes
	for l, x := range v.Node {
		layer[x] = l
		v.F, v.B = append(v.F, g.Nodes[x].Time), append(v.B, 0)
		v.Out, v.Weight = append(v.Out, g.Nodes[x].Memory), append(v.Weight, g.Nodes[x].Weight)
		if k := twins - 1 - l; k >= 0 {
			twin[backward[k]] = l
			v.B[l] = g.Nodes[backward[k]].Time
		}
	}
	v.Out[n] = 0 // a gradient
	pred, _ := g.Adjacency()
	v.Pred, v.Succ, v.kept = make([][]int, v.N), make([][]int, v.N), make([][]int, v.N)
	for l, x := range v.Node {
		for _, y := range pred[x] {
			v.Pred[l] = append(v.Pred[l], layer[y])
			v.Succ[layer[y]] = append(v.Succ[layer[y]], l)
		}
	}
	for b, l := range twin {
		for _, y := range pred[b] {
			if u, forward := layer[y]; forward && u < n { // the loss writes a gradient
				v.kept[l] = append(v.kept[l], u)
			}
		}
		slices.Sort(v.kept[l])
		for _, r := range v.Succ[l] {
			if b2 := twins - 1 - r; b2 >= 0 && !slices.Contains(pred[b], backward[b2]) {
				return nil, fmt.Errorf("%w: %q reads %q, and the backward of the latter, %q, does not read that of the former, %q; a pipeline runs "+
					"backwards in the opposite order", ErrGraph, g.Nodes[v.Node[r]].ID, g.Nodes[v.Node[l]].ID, g.Nodes[b].ID, g.Nodes[backward[b2]].ID)
			}
		}
	}
	return v, nil
}

// Order returns the layers in file order, which is topological.
func (v *View) Order() []int {
	order := make([]int, v.N)
	for l := range order {
		order[l] = l
	}
	return order
}

// IDs returns the node ids of an order for plans, without the loss.
func (v *View) IDs(order []int) []string {
	ids := make([]string, 0, v.N-1)
	for _, l := range order[:v.N-1] {
		ids = append(ids, v.Graph.Nodes[v.Node[l]].ID)
	}
	return ids
}

// Keeping selects how the memory that layers of a chain keep for their backward operations is
// counted.
type Keeping int

const (
	// Each counts for each layer all that its twin reads: what fits so, fits with any stages.
	Each Keeping = iota
	// Once counts each value once, for the first layer that needs it, as if one processor had all
	// layers: what does not fit so, fits with no stages.
	Once
	// Stages counts each value once in a run of layers on one processor, as the verifier does.
	Stages
)

// Chain returns the chain of an order that ends with the loss. a_ℓ is the size of what crosses
// after layer ℓ, and δ_ℓ is as large. With keeping Stages, allocation assigns the layers to
// processors. The verifier has its own (verify/pipeline.Line). O(N² + edges).
func (v *View) Chain(order []int, keeping Keeping, allocation []plan.Stage) *chain.Chain {
	g := v.Graph
	c := &chain.Chain{Name: g.Name, Samples: g.Samples, Unit: g.Unit, Layers: make([]chain.Layer, v.N), Kept: make([]float64, v.N)}
	run := make([]int, v.N) // of layers that share what they keep
	for i := range run {
		if keeping == Each {
			run[i] = i
		}
	}
	if keeping == Stages {
		run = runs(allocation, v.N)
	}
	place := make([]int, v.N)
	for i, l := range order {
		place[l] = i
	}
	keeper := slices.Repeat([]int{-1}, v.N) // by value: the last run that keeps it
	input := -1
	for i, l := range order {
		x := &c.Layers[i]
		*x = chain.Layer{Name: g.Nodes[v.Node[l]].ID, ForwardTime: v.F[l], BackwardTime: v.B[l], Weight: v.Weight[l]}
		for _, u := range order[:i+1] {
			if slices.ContainsFunc(v.Succ[u], func(r int) bool { return place[r] > i }) {
				x.Activation += v.Out[u]
			}
		}
		x.Saved, x.Gradient = x.Activation, x.Activation
		for _, u := range v.kept[l] {
			if keeper[u] != run[i] {
				keeper[u] = run[i]
				c.Kept[i] += v.Out[u]
			}
		}
		if len(v.Pred[l]) == 0 && input != run[i] {
			input = run[i]
			c.Kept[i] += g.Input
		}
	}
	return c
}

// runs returns the number of the run of each layer.
func runs(allocation []plan.Stage, n int) []int {
	owner := slices.Repeat([]int{-1}, n)
	for _, s := range allocation {
		for l := s.From; l <= s.To; l++ {
			owner[l-1] = s.Processor
		}
	}
	run := make([]int, n)
	for i := 1; i < n; i++ {
		if run[i] = run[i-1]; owner[i] != owner[i-1] {
			run[i]++
		}
	}
	return run
}
