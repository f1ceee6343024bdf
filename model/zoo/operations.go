package zoo

// The operations. Each says its arithmetic, the memory it moves, its
// parameters, and what PyTorch's autograd keeps for its backward
// (derivatives.yaml). Images are N×C×H×W, texts N×S×C.

// product returns forward and backward of a product (convolution or matrix
// multiplication): the backward is one such product for each operand that
// needs a gradient.
func product(multiplyAdds, bytes float64, gradients int) (forward, backward work) {
	forward = work{2 * multiplyAdds, bytes, 1}
	backward = work{2 * multiplyAdds * float64(gradients), bytes * float64(gradients), gradients}
	return forward, backward
}

func (n *net) hasGradient(x tensor) int {
	if n.tensors[x].gradient {
		return 1
	}
	return 0
}

// convolution describes a two-dimensional convolution.
type convolution struct {
	out, kernel, stride, padding int
	groups                       int // 0: 1
	bias                         bool
}

// conv saves its input.
func (n *net) conv(name string, x tensor, c convolution) tensor {
	s := n.shape(x)
	groups := max(1, c.groups)
	h, w := window(s[2], c.kernel, c.stride, c.padding), window(s[3], c.kernel, c.stride, c.padding)
	perOutput := float64(s[1] / groups * c.kernel * c.kernel)
	weights := perOutput * float64(c.out)
	parameters := weights
	if c.bias {
		parameters += float64(c.out)
	}
	shape := []int{s[0], c.out, h, w}
	bytes := n.bytes(x) + (count(shape)+parameters)*float64(n.precision)
	op := operation{kind: "conv", name: name, in: []tensor{x}, parameters: parameters}
	op.forward, op.backward = product(count(shape)*perOutput, bytes, 1+n.hasGradient(x))
	y := n.add(op, shape...)
	n.save(0, x)
	return y
}

// window returns how many positions a sliding window has.
func window(size, kernel, stride, padding int) int {
	if size+2*padding < kernel {
		return 0
	}
	return (size+2*padding-kernel)/stride + 1
}

// batchNorm saves its input and two vectors in single precision, mean and
// inverse deviation.
func (n *net) batchNorm(name string, x tensor) tensor {
	s := n.shape(x)
	size := n.bytes(x)
	y := n.add(operation{
		kind: "batch-norm", name: name, in: []tensor{x}, parameters: 2 * float64(s[1]),
		forward:  work{5 * n.elements(x), 3 * size, 2}, // statistics, then normalization
		backward: work{8 * n.elements(x), 5 * size, 2},
	}, s...)
	n.save(2*4*float64(s[1]), x)
	return y
}

// relu works in place and saves its output.
func (n *net) relu(name string, x tensor) tensor {
	y := n.add(operation{
		kind: "relu", name: name, in: []tensor{x}, inPlace: true,
		forward:  work{n.elements(x), 2 * n.bytes(x), 1},
		backward: work{n.elements(x), 3 * n.bytes(x), 1},
	}, n.shape(x)...)
	n.save(0, y)
	return y
}

// maxPool saves its input and the indices of the maxima, eight bytes each.
func (n *net) maxPool(name string, x tensor, kernel, stride, padding int) tensor {
	s := n.shape(x)
	shape := []int{s[0], s[1], window(s[2], kernel, stride, padding), window(s[3], kernel, stride, padding)}
	out := count(shape)
	moved := n.bytes(x) + out*(float64(n.precision)+8)
	y := n.add(operation{
		kind: "max-pool", name: name, in: []tensor{x},
		forward:  work{out * float64(kernel*kernel), moved, 1},
		backward: work{out, moved, 1},
	}, shape...)
	n.save(8*out, x)
	return y
}

// averagePool averages to size×size. It saves its input, except that a mean
// over everything (size 1) needs nothing.
func (n *net) averagePool(name string, x tensor, size int) tensor {
	s := n.shape(x)
	shape := []int{s[0], s[1], size, size}
	moved := n.bytes(x) + count(shape)*float64(n.precision)
	y := n.add(operation{
		kind: "average-pool", name: name, in: []tensor{x},
		forward:  work{n.elements(x), moved, 1},
		backward: work{n.elements(x), moved, 1},
	}, shape...)
	if size > 1 {
		n.save(0, x)
	}
	return y
}

// sum adds y to x in place and saves nothing.
func (n *net) sum(name string, x, y tensor) tensor {
	return n.add(operation{
		kind: "add", name: name, in: []tensor{x, y}, inPlace: true,
		forward: work{n.elements(x), 3 * n.bytes(x), 1},
		// Both gradients are the one that comes in; nothing moves.
	}, n.shape(x)...)
}

// dense describes a product with a weight matrix over the last axis.
type dense struct {
	out  int
	bias bool
	tied bool // the matrix is another operation's, so it is resident here but not trained twice
}

// linear saves its input.
func (n *net) linear(name string, x tensor, d dense) tensor {
	s := n.shape(x)
	in := s[len(s)-1]
	rows := n.elements(x) / float64(in)
	matrix := float64(in) * float64(d.out)
	held := matrix
	if d.bias {
		held += float64(d.out)
	}
	op := operation{kind: "linear", name: name, in: []tensor{x}, held: held, parameters: held}
	if d.tied {
		op.parameters -= matrix
	}
	shape := append(append([]int(nil), s[:len(s)-1]...), d.out)
	bytes := n.bytes(x) + (held+count(shape))*float64(n.precision)
	op.forward, op.backward = product(rows*matrix, bytes, 1+n.hasGradient(x))
	y := n.add(op, shape...)
	n.save(0, x)
	return y
}

// matmul multiplies two activations: rows × inner times inner × columns for
// each of batch pairs. It saves both operands.
func (n *net) matmul(name string, x, y tensor, inner int, shape ...int) tensor {
	bytes := n.bytes(x) + n.bytes(y) + count(shape)*float64(n.precision)
	op := operation{kind: "matmul", name: name, in: []tensor{x, y}}
	op.forward, op.backward = product(count(shape)*float64(inner), bytes, n.hasGradient(x)+n.hasGradient(y))
	z := n.add(op, shape...)
	n.save(0, x, y)
	return z
}

// softmax runs over the last axis, with scale and mask in the same kernel, and
// in place, as Megatron's fused one. It saves its output.
func (n *net) softmax(name string, x tensor) tensor {
	y := n.add(operation{
		kind: "softmax", name: name, in: []tensor{x}, inPlace: true,
		forward:  work{5 * n.elements(x), 2 * n.bytes(x), 1},
		backward: work{4 * n.elements(x), 3 * n.bytes(x), 1},
	}, n.shape(x)...)
	n.save(0, y)
	return y
}

// dropout saves its mask, a byte an element.
func (n *net) dropout(name string, x tensor) tensor {
	elements := n.elements(x)
	y := n.add(operation{
		kind: "dropout", name: name, in: []tensor{x},
		forward:  work{2 * elements, 2*n.bytes(x) + elements, 1},
		backward: work{elements, 2*n.bytes(x) + elements, 1},
	}, n.shape(x)...)
	n.save(elements)
	return y
}

// layerNorm normalizes the last axis. It saves its input and, in single
// precision, mean and inverse deviation of each row.
func (n *net) layerNorm(name string, x tensor) tensor {
	s := n.shape(x)
	width := float64(s[len(s)-1])
	y := n.add(operation{
		kind: "layer-norm", name: name, in: []tensor{x}, parameters: 2 * width,
		forward:  work{8 * n.elements(x), 2 * n.bytes(x), 1},
		backward: work{12 * n.elements(x), 4 * n.bytes(x), 2},
	}, s...)
	n.save(2*4*n.elements(x)/width, x)
	return y
}

// gelu saves its input.
func (n *net) gelu(name string, x tensor) tensor {
	y := n.add(operation{
		kind: "gelu", name: name, in: []tensor{x},
		forward:  work{8 * n.elements(x), 2 * n.bytes(x), 1},
		backward: work{14 * n.elements(x), 3 * n.bytes(x), 1},
	}, n.shape(x)...)
	n.save(0, x)
	return y
}

// tanh saves its output.
func (n *net) tanh(name string, x tensor) tensor {
	y := n.add(operation{
		kind: "tanh", name: name, in: []tensor{x},
		forward:  work{8 * n.elements(x), 2 * n.bytes(x), 1},
		backward: work{3 * n.elements(x), 3 * n.bytes(x), 1},
	}, n.shape(x)...)
	n.save(0, y)
	return y
}

// embedding looks up rows of a table of so many rows and columns. It saves the
// indices; its backward writes a dense gradient.
func (n *net) embedding(name string, indices tensor, rows, columns int) tensor {
	s := n.shape(indices)
	shape := append(append([]int(nil), s...), columns)
	table := float64(rows) * float64(columns)
	moved := count(s)*8 + 2*count(shape)*float64(n.precision)
	y := n.add(operation{
		kind: "embedding", name: name, in: []tensor{indices}, parameters: table,
		forward:  work{0, moved, 1},
		backward: work{count(shape), moved + table*float64(n.precision), 2},
	}, shape...)
	n.save(0, indices)
	return y
}

// broadcast adds y, which lacks the first axis of x, to x. It saves nothing.
func (n *net) broadcast(name string, x, y tensor) tensor {
	return n.add(operation{
		kind: "add", name: name, in: []tensor{x, y},
		forward:  work{n.elements(x), 2*n.bytes(x) + n.bytes(y), 1},
		backward: work{n.elements(x), n.bytes(x) + n.bytes(y), 1}, // the sum over the first axis
	}, n.shape(x)...)
}

// crossEntropy is the loss: log-softmax over the last axis and the mean of the
// targets' entries. It saves the logarithms and the targets, eight bytes each.
func (n *net) crossEntropy(name string, x tensor) tensor {
	s := n.shape(x)
	targets := n.elements(x) / float64(s[len(s)-1])
	y := n.add(operation{
		kind: "cross-entropy", name: name, in: []tensor{x},
		forward:  work{6 * n.elements(x), 3 * n.bytes(x), 2},
		backward: work{4 * n.elements(x), 3 * n.bytes(x), 2},
	}, 1)
	n.save(n.bytes(x) + 8*targets)
	return y
}
