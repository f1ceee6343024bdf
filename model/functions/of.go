package functions

import (
	"fmt"

	"workbench/model/chain"
	"workbench/model/graph"
)

// End is the name of the function, of no time, with which a training step ends:
// it uses all weights, so that they are on the device again as at the start.
const End = "end"

// Of returns the training step of a chain as functions F1..FN, BN..B1, under the
// rules of activation offloading ([004] chapter 3), and with its weights ([001]
// §3). A layer's name follows that of its functions.
//
//	a0            initially on the device, read by F1 and B1
//	abarℓ         ā_ℓ: written by Fℓ, read by Fℓ+1, Bℓ+1 and Bℓ
//	deltaℓ        δ_ℓ: written by Bℓ+1 (δ_N: made by BN), read by Bℓ
//	wℓ            initially on the device, read by Fℓ, written by Bℓ, read by End
//	dwℓ           the weight's gradient, as large: of Bℓ alone
//	oFℓ, oBℓ      overheads: of Fℓ, of Bℓ alone
//
// Variables of no bytes are left out; without weights there is no End. With the
// weights left out of the chain the memory in use without transfers is that of
// [004] (3.3). O(layers).
func Of(c *chain.Chain) *Sequence {
	n := c.Len()
	b := &builder{s: &Sequence{Name: c.Name, Samples: c.Samples, Source: c.Source}}
	abar, delta, w := make([]int, n+1), make([]int, n+1), make([]int, n+1)
	abar[0] = b.variable("a0", c.Input.Activation, Device)
	delta[0] = b.variable("delta0", c.Input.Gradient, Nowhere)
	for l := 1; l <= n; l++ {
		x := &c.Layers[l-1]
		abar[l] = b.variable(fmt.Sprintf("abar%d", l), x.Saved, Nowhere)
		delta[l] = b.variable(fmt.Sprintf("delta%d", l), x.Gradient, Nowhere)
		w[l] = b.weight(fmt.Sprintf("w%d", l), x.Weight)
	}
	name := func(kind string, l int) string {
		if layer := c.Layers[l-1].Name; layer != "" {
			return fmt.Sprintf("%s%d %s", kind, l, layer)
		}
		return fmt.Sprintf("%s%d", kind, l)
	}
	for l := 1; l <= n; l++ {
		x := &c.Layers[l-1]
		kind := Forward
		if l == n {
			kind = Loss
		}
		b.function(name("F", l), kind, x.ForwardTime)
		b.reads(abar[l-1], w[l])
		b.writes(abar[l], b.variable(fmt.Sprintf("oF%d", l), x.ForwardOverhead, Nowhere))
	}
	for l := n; l >= 1; l-- {
		x := &c.Layers[l-1]
		b.function(name("B", l), Backward, x.BackwardTime)
		b.reads(abar[l-1], abar[l], delta[l])
		b.writes(delta[l-1], w[l], b.variable(fmt.Sprintf("dw%d", l), x.Weight, Nowhere),
			b.variable(fmt.Sprintf("oB%d", l), x.BackwardOverhead, Nowhere))
	}
	return b.end()
}

// OfGraph returns the nodes of a graph as functions in their order. The value of
// a node is a variable of the node's id, written by it and read by its
// successors: a skip connection is a value with many. The others are
//
//	input           what is resident all the time: every function reads it
//	ID/weight       initially on the device, read by node ID, written by node
//	                ID/grad if there is one, read by End
//	ID/weight/grad  the weight's gradient, as large: of node ID/grad alone
//	ID/overhead     of node ID alone
//
// Variables of no bytes are left out; without weights there is no End.
// O(nodes + edges).
func OfGraph(g *graph.Graph) *Sequence {
	b := &builder{s: &Sequence{Name: g.Name, Samples: g.Samples, Source: g.Source}, taken: make(map[string]bool, len(g.Nodes))}
	index := make(map[string]int, len(g.Nodes))
	for v := range g.Nodes {
		index[g.Nodes[v].ID] = v
	}
	for v := range g.Nodes { // so these ids are as they are
		b.taken[g.Nodes[v].ID] = g.Nodes[v].Memory > 0
	}
	input := b.variable(b.free("input"), g.Input, Device)
	value, trains := make([]int, len(g.Nodes)), make([]int, len(g.Nodes))
	for v := range trains {
		trains[v] = -1
	}
	weight := make([]int, len(g.Nodes))
	for v := range g.Nodes {
		x := &g.Nodes[v]
		value[v] = b.variable(x.ID, x.Memory, Nowhere)
		weight[v] = b.weight(b.free(x.ID+"/weight"), x.Weight)
		if u, ok := index[x.ID+"/grad"]; ok && u > v {
			trains[u] = v
		}
	}
	pred, _ := g.Adjacency()
	for v := range g.Nodes {
		x := &g.Nodes[v]
		b.function(x.ID, x.Kind, x.Time)
		b.reads(input)
		for _, u := range pred[v] {
			b.reads(value[u])
		}
		b.reads(weight[v])
		b.writes(value[v], b.variable(b.free(x.ID+"/overhead"), x.Overhead, Nowhere))
		if u := trains[v]; u >= 0 {
			b.writes(weight[u], b.variable(b.free(g.Nodes[u].ID+"/weight/grad"), g.Nodes[u].Weight, Nowhere))
		}
	}
	return b.end()
}

// A builder puts a sequence together.
type builder struct {
	s       *Sequence
	weights []int
	taken   map[string]bool // ids
}

// free returns an id that is not taken, id itself if it can be, and takes it.
func (b *builder) free(id string) string {
	for b.taken[id] {
		id += "'"
	}
	b.taken[id] = true
	return id
}

// variable adds a variable and returns its index, -1 if it has no bytes.
func (b *builder) variable(id string, size float64, initial string) int {
	if size == 0 {
		return -1
	}
	b.s.Variables = append(b.s.Variables, Variable{ID: id, Size: size, Initial: initial})
	return len(b.s.Variables) - 1
}

// weight adds a weight.
func (b *builder) weight(id string, size float64) int {
	v := b.variable(id, size, Device)
	if v >= 0 {
		b.weights = append(b.weights, v)
	}
	return v
}

// function adds a function; what it reads and writes is added next.
func (b *builder) function(name, kind string, time float64) {
	b.s.Functions = append(b.s.Functions, Function{Name: name, Kind: kind, Time: time, Uses: []int{}, Writes: []int{}})
}

// reads and writes say what the last function uses. What is -1 is nothing.
func (b *builder) reads(variables ...int) {
	f := &b.s.Functions[len(b.s.Functions)-1]
	for _, v := range variables {
		if v >= 0 {
			f.Uses = append(f.Uses, v)
		}
	}
}

func (b *builder) writes(variables ...int) {
	b.reads(variables...)
	f := &b.s.Functions[len(b.s.Functions)-1]
	for _, v := range variables {
		if v >= 0 {
			f.Writes = append(f.Writes, v)
		}
	}
}

// end ends the step and returns the sequence.
func (b *builder) end() *Sequence {
	if len(b.weights) > 0 {
		b.function(End, Backward, 0)
		b.reads(b.weights...)
	}
	return b.s
}
