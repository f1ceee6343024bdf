// Package random draws small instances for tests: of each kind some that refute a wrong
// method, with sizes of one magnitude or of many.
package random

import (
	"fmt"
	"math/rand/v2"

	"workbench/model/instance/chain"
	"workbench/model/instance/graph"
	"workbench/model/instance/join"
)

// Chain returns a chain of the given number of layers, at least one, with small
// integers. What the numbers are drawn from varies from chain to chain, for
// what refutes a method depends on it: equal sizes or not, ā = a or more,
// δ = a or any, backwards of no time, overheads nowhere, anywhere, or on
// forwards in the middle, where [004] (2.6) overlooks them.
func Chain(r *rand.Rand, layers int) *chain.Chain {
	layers = max(1, layers)
	var (
		sizes     = 1 + r.IntN(3)  // largest size
		times     = 1 + r.IntN(3)  // largest time
		saved     = r.IntN(3)      // most that ā exceeds a by
		gradients = r.IntN(4) == 0 // δ on its own
		backward  = r.IntN(3) > 0  // they take time
		overheads = r.IntN(4)      // 0, 1: none, 2: anywhere, 3: of forwards in the middle
	)
	number := func(largest int) float64 { return float64(r.IntN(largest + 1)) }
	c := &chain.Chain{Name: fmt.Sprintf("random-%d", layers)}
	c.Input.Activation = number(sizes)
	c.Input.Gradient = c.Input.Activation
	if gradients {
		c.Input.Gradient = number(sizes)
	}
	for i := range layers {
		l := chain.Layer{Name: fmt.Sprintf("layer%d", i+1), ForwardTime: number(times), Activation: number(sizes)}
		if backward {
			l.BackwardTime = number(times)
		}
		l.Saved = l.Activation + number(saved)
		l.Gradient = l.Activation
		if gradients {
			l.Gradient = number(sizes)
		}
		switch {
		case overheads == 2 && r.IntN(2) == 0:
			l.ForwardOverhead, l.BackwardOverhead = number(3), number(3)
			l.CheckpointOverhead = l.ForwardOverhead + min(l.Saved-l.Activation, l.BackwardOverhead)
		case overheads == 3 && i > 0 && i < layers-1:
			l.ForwardOverhead = number(3)
		}
		c.Layers = append(c.Layers, l)
	}
	return c
}

// Graph returns the training step of a network with the given number of forward nodes,
// at least one: F1.., loss, ..B1, with small integers. Each forward but the
// first reads one to three before it; the loss reads those that no forward
// reads. B_v reads the gradients that the consumers of v made, and what v read,
// v's own output, or both, as autograd would have it.
func Graph(r *rand.Rand, forward int) *graph.Graph {
	n := max(1, forward)
	g := &graph.Graph{Name: fmt.Sprintf("random-%d", n)}
	if r.IntN(3) == 0 {
		g.Input = float64(r.IntN(3))
	}
	var (
		sizes     = 1 + r.IntN(3)
		times     = 1 + r.IntN(3)
		overheads = r.IntN(3) == 0
		wide      = r.IntN(2) == 0 // inputs from anywhere, or mostly the node before
		light     = r.IntN(3) > 0  // gradients are small, so that values count
	)
	add := func(id, kind string) {
		v := graph.Node{ID: id, Name: id, Kind: kind, Time: float64(r.IntN(times + 1)), Memory: float64(r.IntN(sizes + 1))}
		if light && kind != graph.Forward {
			v.Memory = float64(r.IntN(2))
		}
		if overheads && r.IntN(2) == 0 {
			v.Overhead = float64(r.IntN(4))
		}
		g.Nodes = append(g.Nodes, v)
	}
	edge := func(from, to int) { g.Edges = append(g.Edges, graph.Edge{From: from, To: to}) }
	reads, consumers := make([][]int, n), make([][]int, n)
	for v := range n {
		add(fmt.Sprintf("F%d", v+1), graph.Forward)
		if v == 0 {
			continue
		}
		used := make([]bool, v)
		for k := range 1 + r.IntN(min(v, 3)) {
			u := r.IntN(v)
			if k == 0 && !wide {
				u = v - 1
			}
			used[u] = true
		}
		for u := range v {
			if used[u] {
				reads[v], consumers[u] = append(reads[v], u), append(consumers[u], v)
				edge(u, v)
			}
		}
	}
	add("loss", graph.Loss)
	for v := range n {
		if len(consumers[v]) == 0 {
			edge(v, n)
		}
	}
	gradient := func(v int) int { return 2*n - v }
	for v := n - 1; v >= 0; v-- {
		add(fmt.Sprintf("B%d", v+1), graph.Backward)
		how := r.IntN(3) // 0: inputs, 1: output, 2: both
		if how != 1 {
			for _, u := range reads[v] {
				edge(u, gradient(v))
			}
		}
		if how != 0 {
			edge(v, gradient(v))
		}
		if len(consumers[v]) == 0 {
			edge(n, gradient(v))
		}
		for k := len(consumers[v]) - 1; k >= 0; k-- {
			edge(gradient(consumers[v][k]), gradient(v))
		}
	}
	return g
}

// Join returns a join of the given numbers of branches and forwards in
// total. In one join of two every cost is 1. The number of slots is left open.
func Join(r *rand.Rand, branches, total int) *join.Join {
	k := max(1, branches)
	j := &join.Join{
		Name:     fmt.Sprintf("random-%d-%d", k, total),
		Branches: make([]int, k), Keep: make([]bool, k),
		ForwardTime: 1, BackwardTime: 1, LossTime: 1,
	}
	// In half of the joins empty branches come about by chance only.
	first := 0
	if total >= k && r.IntN(2) == 0 {
		for ; first < k; first++ {
			j.Branches[first]++
		}
	}
	for range total - first {
		j.Branches[r.IntN(k)]++
	}
	for i := range j.Keep {
		j.Keep[i] = r.IntN(2) == 0
	}
	if r.IntN(2) == 0 {
		j.ForwardTime, j.BackwardTime, j.LossTime = float64(r.IntN(4)), float64(r.IntN(4)), float64(r.IntN(4))
	}
	return j
}

// Offload returns a random chain with a memory and a bandwidth for
// offloading. Mostly it is a [Chain], with memory between the least for
// which there is a plan and the least that needs no transfer, sometimes one less
// or more. Of five layers or more, one in four is near the chain of finding 17,
// where a plan must fetch a tensor before it offloads another: by chance that is
// so for one chain in some thousand. Transfers take whole times.
func Offload(r *rand.Rand, layers int) (c *chain.Chain, memory, bandwidth float64) {
	if layers >= 5 && r.IntN(4) == 0 {
		return randomMixed(r, layers)
	}
	c = Chain(r, layers)
	low, high := OffloadLeastMemory(c), OffloadPeak(c)
	memory = max(0, low-1+float64(r.IntN(int(high-low)+3)))
	return c, memory, []float64{1, 1, 0.5}[r.IntN(3)]
}

// randomMixed returns a chain like that of finding 17: a_0 goes during F_1 for the
// overhead of F_2, comes back while there is time, and ā_k, which is larger, goes
// instead for that of F_N. One number is changed, maybe.
func randomMixed(r *rand.Rand, layers int) (c *chain.Chain, memory, bandwidth float64) {
	c = &chain.Chain{Name: fmt.Sprintf("random-mixed-%d", layers), Layers: make([]chain.Layer, layers)}
	x := float64(1 + r.IntN(2))
	y := x + float64(1+r.IntN(2))
	k := 3 + r.IntN(layers-4)
	l := c.Layers
	c.Input.Activation = x
	l[0].ForwardTime, l[2].ForwardTime, l[k].ForwardTime = x, x, y
	l[1].ForwardOverhead, l[layers-1].ForwardOverhead = x+y, y
	l[k-1].Activation = y
	if r.IntN(2) == 0 {
		for i := range l {
			l[i].BackwardTime = float64(r.IntN(2))
		}
	}
	if i := r.IntN(layers); r.IntN(2) == 0 {
		n := []*float64{&l[i].ForwardTime, &l[i].BackwardTime, &l[i].ForwardOverhead, &l[i].BackwardOverhead, &l[i].Activation}[r.IntN(5)]
		*n++
	}
	for i := range l {
		l[i].Name = fmt.Sprintf("layer%d", i+1)
		l[i].Saved = l[i].Activation
	}
	return c, max(x+y, OffloadLeastMemory(c)), 1
}

// OffloadLeastMemory returns the least memory in which activation offloading has
// a plan, if the bandwidth is positive: nothing but what a computation needs is
// on the device while it runs. O(layers).
func OffloadLeastMemory(c *chain.Chain) float64 {
	most := 0.0
	in, deltaIn := c.Input.Activation, c.Input.Gradient
	for i := range c.Layers {
		l := &c.Layers[i]
		most = max(most, in+l.Saved+max(l.ForwardOverhead, deltaIn+l.Gradient+l.BackwardOverhead))
		in, deltaIn = l.Saved, l.Gradient
	}
	return most
}

// OffloadPeak returns the memory that activation offloading needs without any
// transfer ([004] (3.3)). O(layers).
func OffloadPeak(c *chain.Chain) float64 {
	most := 0.0
	before, deltaIn := c.Input.Activation, c.Input.Gradient // Σ ā_k, k < ℓ
	for i := range c.Layers {
		l := &c.Layers[i]
		most = max(most, before+l.Saved+max(l.ForwardOverhead, deltaIn+l.Gradient+l.BackwardOverhead))
		before, deltaIn = before+l.Saved, l.Gradient
	}
	return most
}
