package zoo

import (
	"workbench/model/chain"
	"workbench/model/linear"
)

// how says how a net becomes a chain.
type how struct {
	device     Device
	level      int     // cut only where a block of at least this level ends
	checkpoint bool    // keep only what crosses cuts; backward recomputes the rest
	optimizer  float64 // bytes held with a weight, in multiples of its own size
}

// chain cuts n at its articulation tensors and prices the layers. In-place
// operations stay with what they overwrite. The loss must be the last
// operation.
func (n *net) chain(h how) (*chain.Chain, error) {
	if n.err != nil {
		return nil, n.err
	}
	layers, err := linear.Layers(n.cuts(h.level))
	if err != nil {
		return nil, err
	}
	c := &chain.Chain{Layers: make([]chain.Layer, len(layers))}
	for _, x := range n.inputs { // δ_0 stays 0: no operation computes a gradient of the data
		c.Input.Activation += n.storages[n.tensors[x].storage]
	}
	before := map[int]bool{} // storages that crossed the cut before the layer
	for _, x := range n.inputs {
		before[n.tensors[x].storage] = true
	}
	for i := range layers {
		c.Layers[i] = n.layer(&layers[i], before, h)
		out := n.operations[layers[i].Out].out
		before = map[int]bool{n.tensors[out].storage: true}
	}
	return c, nil
}

// cuts is n for linear.Layers.
func (n *net) cuts(level int) *linear.Graph {
	g := &linear.Graph{Nodes: len(n.operations), Keep: make([]bool, len(n.operations))}
	for i := range n.operations {
		op := &n.operations[i]
		g.Keep[i] = g.Keep[i] || op.level < level
		for _, x := range op.in {
			if p := n.tensors[x].producer; p != fromConstant {
				g.Edges = append(g.Edges, linear.Edge{From: p, To: i}) // fromInput is linear.Input
			}
		}
		if p := n.tensors[op.in[0]].producer; op.inPlace && p >= 0 {
			g.Keep[p] = true
		}
	}
	return g
}

// layer prices the operations of one layer; before are the storages that
// cross the cut on its left.
func (n *net) layer(cut *linear.Layer, before map[int]bool, h how) chain.Layer {
	ops, last := cut.Nodes, &n.operations[cut.Out]
	out := n.tensors[last.out].storage
	l := chain.Layer{Name: last.block, Activation: n.storages[out], Gradient: n.storages[out]}
	if l.Name == "" {
		l.Name = n.operations[ops[0]].name
	}
	saved := map[int]bool{out: true}
	l.Saved = n.storages[out]
	for _, k := range ops {
		op := &n.operations[k]
		l.ForwardTime += h.device.time(op.forward, n.precision)
		l.BackwardTime += h.device.time(op.backward, n.precision)
		l.Weight += op.held * float64(n.precision) * h.optimizer
		for _, s := range op.saved {
			if !saved[s] && !before[s] {
				saved[s] = true
				l.Saved += n.storages[s]
			}
		}
	}
	interior := func(s int) bool { return s != out && !before[s] }
	l.ForwardOverhead = n.forwardPeak(ops, func(s int) bool { return interior(s) && !saved[s] })
	l.BackwardOverhead = n.gradientPeak(ops, interior)
	if h.checkpoint {
		l.ForwardOverhead = n.forwardPeak(ops, interior)
		l.BackwardTime += l.ForwardTime
		l.BackwardOverhead += l.Saved - l.Activation
		l.Saved = l.Activation
	}
	return l
}

// forwardPeak returns the most bytes that storages chosen by counted hold at
// once while the operations run, each from the operation that first writes it
// to the last one that reads it.
func (n *net) forwardPeak(ops []int, counted func(storage int) bool) float64 {
	last := map[int]int{}
	for p, k := range ops {
		op := &n.operations[k]
		for _, x := range op.in {
			last[n.tensors[x].storage] = p
		}
		last[n.tensors[op.out].storage] = p
	}
	live := map[int]bool{}
	now, peak := 0.0, 0.0
	for p, k := range ops {
		op := &n.operations[k]
		if s := n.tensors[op.out].storage; counted(s) && !live[s] {
			live[s] = true
			now += n.storages[s]
		}
		peak = max(peak, now)
		for _, x := range append([]tensor{op.out}, op.in...) {
			if s := n.tensors[x].storage; live[s] && last[s] == p {
				delete(live, s)
				now -= n.storages[s]
			}
		}
	}
	return peak
}

// gradientPeak returns the most bytes that gradients of interior tensors hold
// at once while the backward of the operations runs: each from the backward of
// the last reader to that of the writer. Gradients of one storage share one.
func (n *net) gradientPeak(ops []int, interior func(storage int) bool) float64 {
	writer := map[int]int{} // position of the first writer of each storage
	for p, k := range ops {
		if s := n.tensors[n.operations[k].out].storage; interior(s) {
			if _, ok := writer[s]; !ok {
				writer[s] = p
			}
		}
	}
	live := map[int]bool{}
	now, peak := 0.0, 0.0
	for p := len(ops) - 1; p >= 0; p-- {
		op := &n.operations[ops[p]]
		for _, x := range op.in {
			s := n.tensors[x].storage
			if _, ok := writer[s]; ok && n.tensors[x].gradient && !live[s] {
				live[s] = true
				now += n.storages[s]
			}
		}
		peak = max(peak, now)
		if s := n.tensors[op.out].storage; live[s] && writer[s] == p {
			delete(live, s)
			now -= n.storages[s]
		}
	}
	return peak
}
