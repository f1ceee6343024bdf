package random

import (
	"fmt"
	"math/rand/v2"

	"workbench/model/instance/training"
)

// Training returns a random training step with the given number of forward nodes, at
// least one, with small integers: their backward nodes, weights with gradients,
// second outputs that the backward reads, workspaces, and now and then running
// statistics, random numbers, nodes that run once only, gradients that are no
// results, and an optimizer that changes the weights and frees the gradients.
func Training(r *rand.Rand, forward int) *training.Graph {
	b := &stepBuilder{
		r: r, g: &training.Graph{Name: fmt.Sprintf("random-step-%d", max(1, forward))},
		sizes: 1 + r.IntN(3), times: 1 + r.IntN(3), workspaces: r.IntN(3) == 0,
	}
	if r.IntN(4) == 0 {
		b.g.Input = float64(r.IntN(3))
	}
	optimizer, statistics := r.IntN(3) == 0, -1
	if r.IntN(3) == 0 {
		statistics = b.resident("statistics", training.Buffer)
	}
	var weights []int
	saved := make([][]int, max(1, forward)) // what each backward reads
	last := b.resident("x", training.Input)
	for v := range saved {
		n := b.node(fmt.Sprintf("F%d", v+1), training.Forward)
		if v > 1 && r.IntN(3) == 0 { // a skip
			n.Reads = append(n.Reads, saved[v-2][0])
		}
		n.Reads = append(n.Reads, last)
		w := -1
		if r.IntN(2) == 0 {
			w = b.resident(fmt.Sprintf("w%d", v+1), training.Parameter)
			n.Reads = append(n.Reads, w)
		}
		weights = append(weights, w)
		out := b.write(n, fmt.Sprintf("f%d", v+1))
		saved[v] = []int{out}
		if r.IntN(3) == 0 {
			saved[v] = append(saved[v], b.write(n, fmt.Sprintf("mask%d", v+1)))
		}
		if v > 0 && r.IntN(2) == 0 {
			saved[v] = append(saved[v], last)
		}
		if statistics >= 0 && r.IntN(2) == 0 {
			n.Mutates = append(n.Mutates, statistics)
			if r.IntN(3) == 0 {
				n.Reads = append(n.Reads, statistics)
			}
		}
		n.Random = r.IntN(4) == 0
		n.Once = r.IntN(8) == 0
		last = out
	}
	n := b.node("loss", training.Loss)
	n.Reads = []int{last}
	b.g.Storages[b.write(n, "l")].Result = true
	delta := -1
	for v := len(saved) - 1; v >= 0; v-- {
		n := b.node(fmt.Sprintf("B%d", v+1), training.Backward)
		n.Reads = append(n.Reads, saved[v]...)
		if delta >= 0 {
			n.Reads = append(n.Reads, delta)
		}
		n.Once = r.IntN(8) == 0
		delta = b.write(n, fmt.Sprintf("d%d", v+1))
		if weights[v] < 0 {
			continue
		}
		if r.IntN(2) == 0 {
			n.Reads = append(n.Reads, weights[v])
		}
		gradient := b.write(n, fmt.Sprintf("dw%d", v+1))
		b.g.Storages[gradient].Kind = training.Gradient
		if b.g.Storages[gradient].Result = !optimizer || r.IntN(4) == 0; optimizer {
			step := b.node(fmt.Sprintf("S%d", v+1), training.Optimizer)
			step.Reads, step.Mutates = []int{gradient, weights[v]}, []int{weights[v]}
		}
	}
	b.g.Storages[delta].Result = r.IntN(2) == 0
	return b.g
}

// stepBuilder builds a training step node by node; the last one may be changed.
type stepBuilder struct {
	r            *rand.Rand
	g            *training.Graph
	sizes, times int
	workspaces   bool
}

func (b *stepBuilder) storage(id, kind string, resident bool) int {
	b.g.Storages = append(b.g.Storages, training.Storage{ID: id, Bytes: float64(b.r.IntN(b.sizes + 1)), Kind: kind, Resident: resident})
	return len(b.g.Storages) - 1
}

func (b *stepBuilder) resident(id, kind string) int { return b.storage(id, kind, true) }

func (b *stepBuilder) node(id, phase string) *training.Node {
	b.g.Nodes = append(b.g.Nodes, training.Node{ID: id, Phase: phase, Time: float64(b.r.IntN(b.times + 1))})
	n := &b.g.Nodes[len(b.g.Nodes)-1]
	if b.workspaces && b.r.IntN(2) == 0 {
		n.Workspace = float64(b.r.IntN(4))
	}
	return n
}

func (b *stepBuilder) write(n *training.Node, id string) int {
	s := b.storage(id, training.Value, false)
	n.Writes = append(n.Writes, s)
	return s
}
