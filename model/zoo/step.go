package zoo

import (
	"fmt"
	"slices"

	"workbench/model/instance/graph"
)

// step is the training step of n as a graph. A node has one value, so all that it holds has one lifetime: an
// output with its mask, the gradients of both operands of a sum. Where PyTorch frees one before the other, the
// graph holds more. Buffers inside an operation (of a convolution, of a loss) are not modelled.
type step struct {
	n      *net
	h      how
	graph  *graph.Graph
	groups []group
	of     []int // group of each operation
	writer []int // group that writes each storage, or one of the constants below
}

const (
	always = -1 // a permanent storage: data, constants
	extra  = -2 // a storage that is no tensor: masks, indices, statistics
)

// group is a node of the forward: an operation and those that work in place
// on its output.
type group struct {
	operations []int // ascending
	backward   bool  // a gradient passes
}

// last returns the operation whose output others read.
func (g *group) last() int { return g.operations[len(g.operations)-1] }

// step returns the training step of n: the groups of operations in the order of their last ones, the very last of
// which is the loss, then the backward of each in reverse order.
func (n *net) step(h how) (*graph.Graph, error) {
	if n.err != nil {
		return nil, n.err
	}
	s := &step{n: n, h: h, graph: &graph.Graph{Input: n.resident}}
	s.group()
	if err := s.check(); err != nil {
		return nil, err
	}
	s.owners()
	for _, x := range n.inputs {
		s.graph.Input += n.storages[n.tensors[x].storage]
	}
	for k := range s.groups {
		s.forward(k)
	}
	s.backward()
	return s.graph, nil
}

// group groups operations that work in place with the operation that they overwrite.
func (s *step) group() {
	n := s.n
	s.of = make([]int, len(n.operations))
	for i := range n.operations {
		op := &n.operations[i]
		k := len(s.groups)
		if p := n.tensors[op.in[0]].producer; op.inPlace && p >= 0 {
			k = s.of[p]
		} else {
			s.groups = append(s.groups, group{})
		}
		s.of[i] = k
		g := &s.groups[k]
		g.operations = append(g.operations, i)
		g.backward = g.backward || n.tensors[op.out].gradient
	}
	slices.SortFunc(s.groups, func(a, b group) int { return a.last() - b.last() })
	for k := range s.groups {
		for _, i := range s.groups[k].operations {
			s.of[i] = k
		}
	}
}

// check returns an error if an operation reads a storage that was overwritten, which autograd rejects too. The
// groups are then in a topological order.
func (s *step) check() error {
	n := s.n
	for i := range n.operations {
		for _, x := range n.operations[i].in {
			p := n.tensors[x].producer
			if p < 0 || s.of[p] == s.of[i] {
				continue
			}
			if last := s.groups[s.of[p]].last(); p != last {
				return fmt.Errorf("%s reads %s, which %s overwrites", n.operations[i].name, n.operations[p].name, n.operations[last].name)
			}
		}
	}
	return nil
}

// owners sets the group that writes each storage.
func (s *step) owners() {
	s.writer = make([]int, len(s.n.storages))
	for i := range s.writer {
		s.writer[i] = extra
	}
	for i := range s.n.tensors {
		if t := &s.n.tensors[i]; t.producer >= 0 {
			s.writer[t.storage] = s.of[t.producer]
		} else {
			s.writer[t.storage] = always
		}
	}
}

// forward adds the node of group k. It holds the group's storage and the storages that only its backward reads.
func (s *step) forward(k int) {
	n, g := s.n, &s.groups[k]
	v := graph.Node{ID: n.operations[g.operations[0]].name, Kind: graph.Forward}
	if k == len(s.groups)-1 {
		v.Kind = graph.Loss
	}
	var reads []int
	for _, i := range g.operations {
		op := &n.operations[i]
		if v.Name != "" {
			v.Name += "+"
		}
		v.Name += op.kind
		v.Time += s.h.device.time(op.forward, n.precision)
		v.Weight += op.held * float64(n.precision) * s.h.optimizer
		for _, x := range op.in {
			if w := s.writer[n.tensors[x].storage]; w >= 0 && w != k {
				reads = append(reads, w)
			}
		}
		for _, x := range op.saved {
			if s.writer[x] == extra {
				v.Memory += n.storages[x]
			}
		}
	}
	v.Memory += n.storages[n.tensors[n.operations[g.last()].out].storage]
	s.add(v, reads)
}

// backward adds the backward nodes. That of a group reads the storages that its operations saved and the backward
// nodes of those that read its output, and holds a gradient for each tensor that the group read and that needs
// one. Inside a group gradients share one storage.
func (s *step) backward() {
	n := s.n
	readers := make([][]int, len(s.groups)) // backward nodes
	for k := len(s.groups) - 1; k >= 0; k-- {
		g := &s.groups[k]
		if !g.backward {
			continue
		}
		forward := &s.graph.Nodes[k]
		v := graph.Node{ID: forward.ID + "/grad", Name: forward.Name, Kind: graph.Backward}
		reads := readers[k]
		var wanted []tensor
		for _, i := range g.operations {
			op := &n.operations[i]
			v.Time += s.h.device.time(op.backward, n.precision)
			for _, x := range op.saved {
				switch w := s.writer[x]; w {
				case extra:
					reads = append(reads, k)
				case always:
				default:
					reads = append(reads, w)
				}
			}
			for _, x := range op.in {
				t := &n.tensors[x]
				w := s.writer[t.storage]
				if t.gradient && w != k && !slices.Contains(wanted, x) {
					wanted = append(wanted, x)
					v.Memory += n.bytes(x)
					readers[w] = append(readers[w], len(s.graph.Nodes))
				}
			}
		}
		s.add(v, reads)
	}
}

// add appends a node that reads the given ones, which may repeat.
func (s *step) add(v graph.Node, reads []int) {
	to := len(s.graph.Nodes)
	s.graph.Nodes = append(s.graph.Nodes, v)
	slices.Sort(reads)
	for _, from := range slices.Compact(reads) {
		s.graph.Edges = append(s.graph.Edges, graph.Edge{From: from, To: to})
	}
}
