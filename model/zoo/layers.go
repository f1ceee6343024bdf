package zoo

import (
	"slices"

	"workbench/model/instance/chain"
	"workbench/model/linear"
)

// how describes the conversion of a net to a chain.
type how struct {
	device     Device
	level      int     // cut only where a block of at least this level ends
	checkpoint bool    // keep only what crosses cuts; backward recomputes the rest
	optimizer  float64 // resident bytes per byte of weights; 1: the weights alone
}

// chain cuts n at its articulation tensors and prices the layers. In-place operations stay with the operation that
// they overwrite. The loss must be the last operation.
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
		behind := n.crossing(layers[i].Out)
		c.Layers[i] = n.layer(&layers[i], before, behind, h)
		before = behind
	}
	return c, nil
}

// crossing returns the storages that cross the cut after an operation: its output, and carried tensors.
func (n *net) crossing(cut int) map[int]bool {
	across := map[int]bool{n.tensors[n.operations[cut].out].storage: true}
	for _, x := range n.carried {
		if n.tensors[x].producer > cut {
			continue
		}
		for i := cut + 1; i < len(n.operations); i++ {
			if slices.Contains(n.operations[i].in, x) {
				across[n.tensors[x].storage] = true
			}
		}
	}
	return across
}

// cuts returns n as input of linear.Layers. A carried tensor is read by the end of its own block, and elsewhere
// arrives with the previous block; so does an operation that reads only permanent data.
func (n *net) cuts(level int) *linear.Graph {
	g := &linear.Graph{Nodes: len(n.operations), Keep: make([]bool, len(n.operations))}
	ended := linear.Input // the last operation of the previous block
	for i := range n.operations {
		op := &n.operations[i]
		g.Keep[i] = g.Keep[i] || op.level < level
		read := false
		for _, x := range op.in {
			p := n.tensors[x].producer
			if p == fromConstant {
				continue
			}
			if slices.Contains(n.carried, x) && p < ended {
				p = ended
			}
			g.Edges = append(g.Edges, linear.Edge{From: p, To: i}) // fromInput is linear.Input
			read = true
		}
		if !read {
			g.Edges = append(g.Edges, linear.Edge{From: ended, To: i})
		}
		if p := n.tensors[op.in[0]].producer; op.inPlace && p >= 0 {
			g.Keep[p] = true
		}
		if op.level == anywhere {
			continue
		}
		for _, x := range n.carried {
			if p := n.tensors[x].producer; p > ended && p < i {
				g.Edges = append(g.Edges, linear.Edge{From: p, To: i})
			}
		}
		ended = i
	}
	return g
}

// layer prices the operations of one layer; before and behind are the storages that cross the cuts on its left and
// right. Tensors carried from the one to the other are in the activations of both, and are saved with the first.
func (n *net) layer(cut *linear.Layer, before, behind map[int]bool, h how) chain.Layer {
	ops, last := cut.Nodes, &n.operations[cut.Out]
	l := chain.Layer{Name: last.block}
	if l.Name == "" {
		l.Name = n.operations[ops[0]].name
	}
	saved := map[int]bool{}
	for s := range behind {
		l.Activation += n.storages[s]
		if saved[s] = true; !before[s] {
			l.Saved += n.storages[s]
		}
	}
	l.Gradient = l.Activation
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
	l.Saved = max(l.Saved, l.Activation)
	interior := func(s int) bool { return !behind[s] && !before[s] }
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

// forwardPeak returns the maximum total of bytes of the storages chosen by counted while the operations run, each
// from the operation that first writes it to the last one that reads it.
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

// gradientPeak returns the maximum total of bytes of the gradients of interior tensors while the backward of the
// operations runs: each from the backward of the last reader to that of the writer. Gradients of one storage share
// one.
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
