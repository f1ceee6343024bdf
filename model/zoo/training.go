package zoo

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"workbench/model/instance/training"
)

// stepper builds the training step of a net as a graph whose nodes write several storages: an output and,
// separately, what only its backward reads, a gradient for each operand, and the gradients of the weights, which
// are results.
type stepper struct {
	*step
	out    *training.Graph
	values []int // storages of the graph by those of the net, -1: not yet created
	// gradients are those that readers have produced for each storage's tensor.
	gradients [][]int
	weights   []int // the weights of each group, -1: it has none
}

// training returns the training step of n: groups of operations as nodes, as in
// the graph of [net.step].
func (n *net) training(h how) (*training.Graph, error) {
	if n.err != nil {
		return nil, n.err
	}
	s := &stepper{step: &step{n: n, h: h}, out: &training.Graph{}}
	s.group()
	if err := s.check(); err != nil {
		return nil, err
	}
	s.owners()
	s.values, s.gradients = make([]int, len(n.storages)), make([][]int, len(s.groups))
	for i := range s.values {
		s.values[i] = -1
	}
	if n.resident > 0 {
		s.resident("constants", training.Buffer, n.resident)
	}
	for k, x := range n.inputs {
		id := "input"
		if k > 0 {
			id = fmt.Sprintf("input%d", k)
		}
		s.values[n.tensors[x].storage] = s.resident(id, training.Input, n.storages[n.tensors[x].storage])
	}
	for k := range s.groups {
		s.forwardNode(k)
	}
	for k := len(s.groups) - 1; k >= 0; k-- {
		if s.groups[k].backward {
			s.backwardNode(k)
		}
	}
	return s.out, nil
}

func (s *stepper) storage(id, kind string, bytes float64) int {
	s.out.Storages = append(s.out.Storages, training.Storage{ID: id, Kind: kind, Bytes: bytes})
	return len(s.out.Storages) - 1
}

func (s *stepper) resident(id, kind string, bytes float64) int {
	k := s.storage(id, kind, bytes)
	s.out.Storages[k].Resident = true
	return k
}

// name returns the name of the first operation of a group, kind the kinds of all.
func (s *stepper) name(k int) string { return s.n.operations[s.groups[k].operations[0]].name }

func (s *stepper) kind(k int) string {
	var kinds []string
	for _, i := range s.groups[k].operations {
		kind := s.n.operations[i].kind
		if name, is := aten[kind]; is {
			kind = "aten." + name + ".default"
		}
		kinds = append(kinds, kind)
	}
	return strings.Join(kinds, "+")
}

// aten maps kinds of operations to ATen names, by which PyTorch's partitioner recognises cheap ones. An LSTM's
// step is a product of matrices.
var aten = map[string]string{
	"add": "add", "average-pool": "avg_pool2d", "batch-norm": "native_batch_norm", "concat": "cat", "conv": "convolution",
	"depthwise-conv": "convolution", "dropout": "native_dropout", "embedding": "embedding", "gelu": "gelu",
	"instance-norm": "native_batch_norm", "layer-norm": "native_layer_norm", "linear": "addmm", "lstm": "addmm",
	"matmul": "bmm", "max-pool": "max_pool2d_with_indices", "pad": "constant_pad_nd", "relu": "relu", "softmax": "_softmax",
	"flash-attention": "_scaled_dot_product_flash_attention", "silu": "silu", "multiply": "mul", "rotary": "mul",
	"grouped-linear": "_grouped_mm", "gather": "index", "combine": "index_add",
	"tanh": "tanh", "transposed-conv": "convolution", "upsample": "upsample_bilinear2d",
}

// block matches the names of operations of numbered blocks: "h.0.attn.qkv" belongs to "h.0".
var block = regexp.MustCompile(`^([a-z0-9]+\.[0-9]+)\.`)

// layer returns the numbered block of group k, "" if there is none.
func (s *stepper) layer(k int) string {
	if of := block.FindStringSubmatch(s.name(k)); of != nil {
		return of[1]
	}
	return ""
}

// forwardNode adds the node of group k, the last of which is the loss.
func (s *stepper) forwardNode(k int) {
	n, g := s.n, &s.groups[k]
	v := training.Node{ID: s.name(k), Operation: s.kind(k), Phase: training.Forward, Layer: s.layer(k)}
	output := n.tensors[n.operations[g.last()].out].storage
	s.values[output] = s.storage(v.ID, training.Value, n.storages[output])
	v.Writes = []int{s.values[output]}
	if k == len(s.groups)-1 {
		v.Phase = training.Loss
		s.out.Storages[s.values[output]].Kind, s.out.Storages[s.values[output]].Result = training.LossValue, true
	}
	held := 0.0
	for _, i := range g.operations {
		op := &n.operations[i]
		v.Time += s.h.device.time(op.forward, n.precision)
		v.Random = v.Random || op.kind == "dropout"
		held += op.held * float64(n.precision)
		for _, x := range op.in {
			s.reads(&v, k, n.tensors[x].storage)
		}
		for _, x := range op.saved {
			if s.writer[x] == extra && s.values[x] < 0 {
				s.values[x] = s.storage(fmt.Sprintf("%s/saved%d", v.ID, len(v.Writes)), training.Value, n.storages[x])
				v.Writes = append(v.Writes, s.values[x])
			}
		}
	}
	s.weights = append(s.weights, -1)
	if held > 0 {
		s.weights[k] = s.resident(v.ID+"/weight", training.Parameter, held)
		v.Reads = append(v.Reads, s.weights[k])
		if more := s.h.optimizer - 1; more > 0 {
			s.resident(v.ID+"/moments", training.OptimizerState, more*held)
		}
	}
	s.out.Nodes = append(s.out.Nodes, v)
}

// reads adds a storage of the net to the inputs of node v of group k, unless it is the group's own, or takes no
// memory of its own.
func (s *stepper) reads(v *training.Node, k, storage int) {
	x := s.values[storage]
	if s.writer[storage] == k && v.Phase != training.Backward || x < 0 || slices.Contains(v.Reads, x) {
		return
	}
	v.Reads = append(v.Reads, x)
}

// backwardNode adds the backward node of group k. It reads what its operations saved, the weights, and the
// gradients of its output that their readers produced. It writes one for each tensor that the group read and that
// needs one, and one for the weights. Inside a group gradients share one storage.
func (s *stepper) backwardNode(k int) {
	n, g := s.n, &s.groups[k]
	v := training.Node{
		ID: s.name(k) + "/grad", Operation: s.kind(k), Phase: training.Backward, Layer: s.layer(k),
		Reads: slices.Clone(s.gradients[k]),
	}
	var wanted []tensor
	trained := 0.0
	for _, i := range g.operations {
		op := &n.operations[i]
		v.Time += s.h.device.time(op.backward, n.precision)
		trained += op.parameters * float64(n.precision)
		for _, x := range op.saved {
			s.reads(&v, k, x)
		}
		for _, x := range op.in {
			t := &n.tensors[x]
			w := s.writer[t.storage]
			if !t.gradient || w == k || slices.Contains(wanted, x) {
				continue
			}
			wanted = append(wanted, x)
			made := s.storage(fmt.Sprintf("%s/%d", v.ID, len(wanted)), training.Value, n.bytes(x))
			v.Writes = append(v.Writes, made)
			if w >= 0 {
				s.gradients[w] = append(s.gradients[w], made)
			}
		}
	}
	if s.weights[k] >= 0 {
		v.Reads = append(v.Reads, s.weights[k])
	}
	if trained > 0 {
		made := s.storage(v.ID+"/weight", training.Gradient, trained)
		s.out.Storages[made].Result = true
		v.Writes = append(v.Writes, made)
	}
	s.out.Nodes = append(s.out.Nodes, v)
}

// LoadTraining returns the training step of "zoo:NAME?key=value&…".
func LoadTraining(spec string) (*training.Graph, error) {
	name, p, err := Parse(spec)
	if err != nil {
		return nil, err
	}
	return Training(name, p)
}

// Training generates a network as a training step whose nodes write several storages. It differs from [Graph] in
// that separate storages hold what only the backward reads (masks, indices, statistics), the gradient of each
// operand and that of the weights. The weights are resident, and their gradients and the loss are results. Any
// node may be recomputed. Errors are those of Chain.
func Training(name string, p Params) (*training.Graph, error) {
	g, v, err := find(name, p, FormTraining)
	if err != nil {
		return nil, err
	}
	step, err := g.generateTraining(v)
	if err != nil {
		return nil, fmt.Errorf("%s%s: %w", Scheme, name, err)
	}
	step.Name = g.label(v, FormTraining)
	return step, nil
}

// generateTraining generates the training step of v; for networks that exist only as chains, that of their graph.
func (g *generator) generateTraining(v values) (*training.Graph, error) {
	if g.chain != nil {
		of, err := g.generateGraph(v)
		if err != nil {
			return nil, err
		}
		return training.FromGraph(of), nil
	}
	n, h, err := g.net(v)
	if err != nil {
		return nil, err
	}
	step, err := n.training(h)
	if err != nil {
		return nil, err
	}
	step.Samples, step.Source = v.numbers["batch"], g.source(n, v)
	return step, nil
}
