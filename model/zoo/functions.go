package zoo

import (
	"fmt"

	"workbench/model/instance/functions"
	"workbench/model/instance/graph"
)

// LoadFunctions returns the sequence of functions of "zoo:NAME?key=value&…".
func LoadFunctions(spec string) (*functions.Sequence, error) {
	name, p, err := Parse(spec)
	if err != nil {
		return nil, err
	}
	return Functions(name, p)
}

// Functions generates the training step of a network as a sequence of functions: every operation forward, the last
// being the loss, then the backward functions of those that a gradient passes, in reverse order. Networks that
// exist only as chains yield the functions of the chain. Errors are those of Chain.
//
// The variables are pieces of memory as in PyTorch, finer than the nodes of [Graph]. An operation writes its
// output, or overwrites its input in place, and writes what it saves for its backward that is no tensor (masks,
// indices, statistics). Its backward reads what it saved, the gradient of its output and its weight. It writes the
// gradients of its inputs, the weight, and the weight's gradient, which nothing else uses: the update is part of
// it. A tensor has one gradient; where several operations read a tensor, the first of their backwards creates it,
// and the others add to it in place. An operation in place overwrites its gradient. Skip connections are therefore
// variables with many uses, forward and backward. Weights and the network's input are on the device before the
// step, the weights also after it ([functions.End]). Buffers inside an operation (of a convolution, of a loss) are
// not modelled.
func Functions(name string, p Params) (*functions.Sequence, error) {
	g, v, err := find(name, p, FormFunctions)
	if err != nil {
		return nil, err
	}
	s, err := g.generateFunctions(v)
	if err != nil {
		return nil, fmt.Errorf("%s%s: %w", Scheme, name, err)
	}
	s.Name = g.label(v, FormFunctions)
	return s, nil
}

// generateFunctions makes the sequence of v.
func (g *generator) generateFunctions(v values) (*functions.Sequence, error) {
	if g.chain != nil {
		c, err := g.chain(v)
		if err != nil {
			return nil, err
		}
		return functions.FromChain(c), nil
	}
	n, h, err := g.net(v)
	if err != nil {
		return nil, err
	}
	s, err := n.functions(h)
	if err != nil {
		return nil, err
	}
	s.Samples, s.Source = v.numbers["batch"], g.source(n, v)
	return s, nil
}

// sequence is the training step of n as functions.
type sequence struct {
	*functions.Builder
	n         *net
	h         how
	data      int   // permanent data
	storage   []int // variable of each storage; absent: not yet created
	names     []string
	gradients []int // and of its gradient
	weights   []int // of each operation
}

const absent = -2

func (n *net) functions(h how) (*functions.Sequence, error) {
	if n.err != nil {
		return nil, n.err
	}
	groups := &step{n: n, h: h, graph: &graph.Graph{}}
	groups.group()
	if err := groups.check(); err != nil {
		return nil, err
	}
	s := &sequence{
		Builder: functions.NewBuilder(""), n: n, h: h,
		storage: make([]int, len(n.storages)), names: make([]string, len(n.storages)), gradients: make([]int, len(n.storages)),
		weights: make([]int, len(n.operations)),
	}
	for i := range n.storages {
		s.storage[i], s.gradients[i] = absent, absent
	}
	for _, x := range n.inputs {
		s.variable(n.tensors[x].storage, "input", functions.Device)
	}
	s.data = s.Variable("data", n.resident, functions.Device)
	for i := range n.operations {
		s.forward(i)
	}
	for i := len(n.operations) - 1; i >= 0; i-- {
		if n.tensors[n.operations[i].out].gradient {
			s.backward(i)
		}
	}
	return s.End(), nil
}

// variable returns the variable of a storage, which it creates with the given id if needed.
func (s *sequence) variable(storage int, id, initial string) int {
	if s.storage[storage] == absent {
		s.storage[storage], s.names[storage] = s.Variable(id, s.n.storages[storage], initial), id
	}
	return s.storage[storage]
}

// gradient returns the variable of the gradient of a storage.
func (s *sequence) gradient(storage int) int {
	if s.gradients[storage] == absent {
		s.gradients[storage] = s.Variable(s.names[storage]+"/grad", s.n.storages[storage], functions.Nowhere)
	}
	return s.gradients[storage]
}

// forward adds operation i.
func (s *sequence) forward(i int) {
	n := s.n
	op := &n.operations[i]
	kind := functions.Forward
	if i == len(n.operations)-1 {
		kind = functions.Loss
	}
	s.Function(op.name, kind, s.h.device.time(op.forward, n.precision))
	s.Reads(s.data)
	for _, x := range op.in {
		s.Reads(s.variable(n.tensors[x].storage, "constant", functions.Device))
	}
	s.weights[i] = s.Weight(op.name+"/weight", op.held*float64(n.precision)*s.h.optimizer)
	s.Reads(s.weights[i])
	s.Writes(s.variable(n.tensors[op.out].storage, op.name, functions.Nowhere))
	for _, x := range op.saved {
		if s.storage[x] == absent {
			s.Writes(s.variable(x, op.name+"/saved", functions.Nowhere))
		}
	}
}

// backward adds the backward of operation i.
func (s *sequence) backward(i int) {
	n := s.n
	op := &n.operations[i]
	s.Function(op.name+"/grad", functions.Backward, s.h.device.time(op.backward, n.precision))
	s.Reads(s.data)
	for _, x := range op.saved {
		s.Reads(s.storage[x])
	}
	s.Reads(s.weights[i], s.gradient(n.tensors[op.out].storage))
	for _, x := range op.in {
		t := &n.tensors[x]
		if t.gradient {
			s.Writes(s.gradient(t.storage))
		}
	}
	if op.parameters > 0 {
		s.Writes(s.weights[i], s.Variable(op.name+"/weight/grad", op.parameters*float64(n.precision), functions.Nowhere))
	}
}
