package zoo

import "fmt"

// precision is the size in bytes of an element of activations and weights.
type precision int

const (
	half   precision = 2
	single precision = 4
)

// tensor names a tensor of a net.
type tensor int

// tensorInfo is a tensor's shape and storage. In-place operations and views give several tensors one storage.
type tensorInfo struct {
	shape    []int
	storage  int
	producer int // operation; -1: the chain's input; -2: a constant
	gradient bool
}

const (
	fromInput    = -1
	fromConstant = -2
)

// work is the arithmetic and memory traffic of an operation.
type work struct {
	flops   float64 // a multiplication and an addition count as two
	bytes   float64 // read and written in device memory
	kernels int
}

func (w work) plus(v work) work {
	return work{w.flops + v.flops, w.bytes + v.bytes, w.kernels + v.kernels}
}

// operation is a node of a net.
type operation struct {
	kind, name        string
	in                []tensor
	out               tensor
	inPlace           bool // out overwrites the storage of in[0]
	forward, backward work
	parameters        float64 // trained here
	held              float64 // elements of weights that must be resident, tied ones included
	shared            bool    // trains parameters that another operation counts and holds
	saved             []int   // storages saved for backward, as by PyTorch's autograd

	level int    // of the block that ends here, 0: none
	block string // its name
}

// net is a network under construction: a list of operations in topological order with the tensors they read and
// write. Operation methods (conv, linear, …) append one operation each and return its output. The first error is
// kept in err, after which nothing is added.
type net struct {
	precision  precision
	tensors    []tensorInfo
	storages   []float64 // bytes
	operations []operation
	inputs     []tensor
	carried    []tensor
	resident   float64 // bytes of permanent data
	err        error
}

func (n *net) fail(format string, args ...any) {
	if n.err == nil {
		n.err = fmt.Errorf(format, args...)
	}
}

// store adds a storage of the given size.
func (n *net) store(bytes float64) int {
	n.storages = append(n.storages, bytes)
	return len(n.storages) - 1
}

func (n *net) tensor(t tensorInfo) tensor {
	n.tensors = append(n.tensors, t)
	return tensor(len(n.tensors) - 1)
}

// input adds an input of the network, with elements of the given size in bytes. It has no gradient.
func (n *net) input(elementBytes int, shape ...int) tensor {
	t := n.tensor(tensorInfo{shape, n.store(count(shape) * float64(elementBytes)), fromInput, false})
	n.inputs = append(n.inputs, t)
	return t
}

// constant adds a permanent tensor, such as positions and targets, that is not counted.
func (n *net) constant(shape ...int) tensor {
	return n.tensor(tensorInfo{shape, n.store(0), fromConstant, false})
}

// data adds data; each step of a sequence reads a part of it: it is permanent, and no input that a chain could
// discard.
func (n *net) data(shape ...int) tensor {
	n.resident += count(shape) * float64(n.precision)
	return n.constant(shape...)
}

// carry marks x, which many blocks read, as carried along with their outputs: cuts between its own block and the
// last that reads it are crossed by both.
func (n *net) carry(x tensor) { n.carried = append(n.carried, x) }

// view gives x another shape: no operation, the same storage.
func (n *net) view(x tensor, shape ...int) tensor {
	t := n.tensors[x]
	if count(shape) > count(t.shape) {
		n.fail("a view of %v as %v is larger than what it shows", t.shape, shape)
	}
	t.shape = shape
	return n.tensor(t)
}

func (n *net) shape(x tensor) []int { return n.tensors[x].shape }

// elements and bytes return the extent of x itself, not of its storage.
func (n *net) elements(x tensor) float64 { return count(n.tensors[x].shape) }
func (n *net) bytes(x tensor) float64    { return n.elements(x) * float64(n.precision) }

// add appends op; its output is a new tensor of the given shape, in the
// storage of its first input if it works in place.
func (n *net) add(op operation, shape ...int) tensor {
	if n.err != nil {
		return 0
	}
	for _, s := range shape {
		if s <= 0 {
			n.fail("%s (%s) has an output of shape %v: its input is too small", op.name, op.kind, shape)
			return 0
		}
	}
	t := tensorInfo{shape: shape, producer: len(n.operations), gradient: op.parameters > 0 || op.shared}
	for _, x := range op.in {
		t.gradient = t.gradient || n.tensors[x].gradient
	}
	if op.inPlace {
		t.storage = n.tensors[op.in[0]].storage
	} else {
		t.storage = n.store(count(shape) * float64(n.precision))
	}
	op.out = n.tensor(t)
	op.held = max(op.held, op.parameters)
	if !t.gradient {
		op.backward = work{}
	}
	if op.parameters > 0 {
		// The update: read weight and gradient, write weight ([001] §3 does
		// it within the backward).
		op.backward = op.backward.plus(work{2 * op.parameters, 3 * op.parameters * float64(n.precision), 1})
	}
	n.operations = append(n.operations, op)
	return op.out
}

// save saves tensors of the last operation for its backward, and an extra storage of the given size for data that
// is no tensor of the graph (statistics, masks).
func (n *net) save(extra float64, xs ...tensor) {
	if n.err != nil {
		return
	}
	op := &n.operations[len(n.operations)-1]
	for _, x := range xs {
		if n.tensors[x].producer != fromConstant {
			op.saved = append(op.saved, n.tensors[x].storage)
		}
	}
	if extra > 0 {
		op.saved = append(op.saved, n.store(extra))
	}
}

// end marks the end of a block of the given level.
func (n *net) end(level int, name string) {
	if n.err == nil && len(n.operations) > 0 {
		op := &n.operations[len(n.operations)-1]
		op.level, op.block = level, name
	}
}

// parameters returns the number of trained parameters.
func (n *net) parameters() float64 {
	total := 0.0
	for i := range n.operations {
		total += n.operations[i].parameters
	}
	return total
}

// held returns the number of weights that layers need, tied ones once per layer.
func (n *net) held() float64 {
	total := 0.0
	for i := range n.operations {
		total += n.operations[i].held
	}
	return total
}

// count multiplies the extents of a shape; exact below 2⁵³.
func count(shape []int) float64 {
	c := 1.0
	for _, s := range shape {
		c *= float64(s)
	}
	return c
}
