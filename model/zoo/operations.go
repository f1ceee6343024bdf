package zoo

import "slices"

// The operations. Each defines its arithmetic, its memory traffic, its parameters, and what PyTorch's autograd
// saves for its backward (derivatives.yaml). Images are N×C×H×W, texts N×S×C.

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
	axes                         axes
	groups                       int // 0: 1
	bias                         bool
	shared                       bool // the weights belong to another operation, which counts them
}

// axes selects the axes over which a window is kernel long and padded; it has length one over the other.
type axes int

const (
	square axes = iota
	high
	wide
)

// conv saves its input. With one group per channel it is a depthwise convolution.
func (n *net) conv(name string, x tensor, c convolution) tensor {
	s := n.shape(x)
	groups := max(1, c.groups)
	h, w := window(s[2], c.kernel, c.stride, c.padding), window(s[3], c.kernel, c.stride, c.padding)
	perOutput := float64(s[1] / groups * c.kernel * c.kernel)
	switch c.axes {
	case high:
		w, perOutput = window(s[3], 1, c.stride, 0), float64(s[1]/groups*c.kernel)
	case wide:
		h, perOutput = window(s[2], 1, c.stride, 0), float64(s[1]/groups*c.kernel)
	}
	weights := perOutput * float64(c.out)
	parameters := weights
	if c.bias {
		parameters += float64(c.out)
	}
	shape := []int{s[0], c.out, h, w}
	bytes := n.bytes(x) + (count(shape)+parameters)*float64(n.precision)
	op := operation{kind: "conv", name: name, in: []tensor{x}, parameters: parameters}
	if groups > 1 && groups == s[1] {
		op.kind = "depthwise-conv"
	}
	if c.shared {
		op.parameters, op.shared = 0, true
	}
	op.forward, op.backward = product(count(shape)*perOutput, bytes, 1+n.hasGradient(x))
	y := n.add(op, shape...)
	n.save(0, x)
	return y
}

// convTranspose is the transposed convolution with bias, which enlarges an
// image stride times if the kernel is as large as the stride. It saves its
// input.
func (n *net) convTranspose(name string, x tensor, out, kernel, stride int) tensor {
	s := n.shape(x)
	perInput := float64(out * kernel * kernel)
	parameters := float64(s[1])*perInput + float64(out)
	shape := []int{s[0], out, (s[2]-1)*stride + kernel, (s[3]-1)*stride + kernel}
	bytes := n.bytes(x) + (count(shape)+parameters)*float64(n.precision)
	op := operation{kind: "transposed-conv", name: name, in: []tensor{x}, parameters: parameters}
	op.forward, op.backward = product(n.elements(x)*perInput, bytes, 1+n.hasGradient(x))
	y := n.add(op, shape...)
	n.save(0, x)
	return y
}

// window returns the number of positions of a sliding window.
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

// averageWindow averages over a sliding window. It saves its input.
func (n *net) averageWindow(name string, x tensor, kernel, stride, padding int) tensor {
	s := n.shape(x)
	shape := []int{s[0], s[1], window(s[2], kernel, stride, padding), window(s[3], kernel, stride, padding)}
	out := count(shape)
	moved := n.bytes(x) + out*float64(n.precision)
	y := n.add(operation{
		kind: "average-pool", name: name, in: []tensor{x},
		forward:  work{out * float64(kernel*kernel), moved, 1},
		backward: work{out * float64(kernel*kernel), moved, 1},
	}, shape...)
	n.save(0, x)
	return y
}

// concat concatenates channels into a new tensor and saves nothing; its backward copies the parts of the gradient.
func (n *net) concat(name string, xs ...tensor) tensor {
	shape := slices.Clone(n.shape(xs[0]))
	for _, x := range xs[1:] {
		s := n.shape(x)
		if n.err == nil && !slices.Equal(s[2:], shape[2:]) {
			n.fail("%s (concat) joins images of %v and %v", name, shape[2:], s[2:])
		}
		shape[1] += s[1]
	}
	moved := 2 * count(shape) * float64(n.precision)
	return n.add(operation{
		kind: "concat", name: name, in: xs,
		forward:  work{0, moved, 1},
		backward: work{0, moved, len(xs)},
	}, shape...)
}

// pad pads an image with zeros, in a new tensor, and saves nothing.
func (n *net) pad(name string, x tensor, height, width int) tensor {
	s := n.shape(x)
	moved := n.bytes(x) + count([]int{s[0], s[1], height, width})*float64(n.precision)
	return n.add(operation{
		kind: "pad", name: name, in: []tensor{x},
		forward:  work{0, moved, 1},
		backward: work{0, 2 * n.bytes(x), 1},
	}, s[0], s[1], height, width)
}

// sum adds y to x in place and saves nothing.
func (n *net) sum(name string, x, y tensor) tensor {
	return n.add(operation{
		kind: "add", name: name, in: []tensor{x, y}, inPlace: true,
		forward: work{n.elements(x), 3 * n.bytes(x), 1},
		// Both gradients equal the incoming one; nothing is moved.
	}, n.shape(x)...)
}

// dense describes a product with a weight matrix over the last axis.
type dense struct {
	out  int
	bias bool
	tied bool // the matrix belongs to another operation, so it is resident here but not trained twice
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

// dropout saves its mask, one byte per element.
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

// rmsNorm divides the last axis by its root mean square. It saves its input and, in
// single precision, the inverse of that of each row.
func (n *net) rmsNorm(name string, x tensor) tensor {
	s := n.shape(x)
	width := float64(s[len(s)-1])
	y := n.add(operation{
		kind: "rms-norm", name: name, in: []tensor{x}, parameters: width,
		forward:  work{4 * n.elements(x), 2 * n.bytes(x), 1},
		backward: work{8 * n.elements(x), 4 * n.bytes(x), 2},
	}, s...)
	n.save(4*n.elements(x)/width, x)
	return y
}

// positionBias adds to scores, in place, the entry of a table for the distance of two positions; table is its
// number of entries. It saves nothing. A shared table belongs to another operation, which counts it.
func (n *net) positionBias(name string, x tensor, table int, shared bool) tensor {
	op := operation{
		kind: "position-bias", name: name, in: []tensor{x}, inPlace: true, parameters: float64(table), shared: shared,
		forward:  work{n.elements(x), 2 * n.bytes(x), 1},
		backward: work{n.elements(x), n.bytes(x), 1}, // the sum over sequences and pairs of a distance
	}
	if shared {
		op.parameters = 0
	}
	return n.add(op, n.shape(x)...)
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

// embedding looks up rows of a table. It saves the indices; its backward writes a dense gradient. A tied table
// belongs to another operation, so it is resident here but not trained twice.
func (n *net) embedding(name string, indices tensor, rows, columns int, tied bool) tensor {
	s := n.shape(indices)
	shape := append(append([]int(nil), s...), columns)
	table := float64(rows) * float64(columns)
	moved := count(s)*8 + 2*count(shape)*float64(n.precision)
	op := operation{
		kind: "embedding", name: name, in: []tensor{indices}, parameters: table, held: table,
		forward:  work{0, moved, 1},
		backward: work{count(shape), moved + table*float64(n.precision), 2},
	}
	if tied {
		op.parameters, op.shared = 0, true
	}
	y := n.add(op, shape...)
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

// binaryCrossEntropy is the loss of independent binary outputs, including the sigmoid. It saves its input and the
// targets, of equal size.
func (n *net) binaryCrossEntropy(name string, x tensor) tensor {
	y := n.add(operation{
		kind: "binary-cross-entropy", name: name, in: []tensor{x},
		forward:  work{12 * n.elements(x), 3 * n.bytes(x), 2},
		backward: work{6 * n.elements(x), 3 * n.bytes(x), 1},
	}, 1)
	n.save(n.bytes(x), x)
	return y
}

// meanSquare is the loss of two embeddings that should be equal, the mean of
// squared differences. It saves both.
func (n *net) meanSquare(name string, x, y tensor) tensor {
	z := n.add(operation{
		kind: "mean-square", name: name, in: []tensor{x, y},
		forward:  work{3 * n.elements(x), 2 * n.bytes(x), 1},
		backward: work{4 * n.elements(x), 4 * n.bytes(x), 2},
	}, 1)
	n.save(0, x, y)
	return z
}

// triplet is the loss of an anchor that should be nearer to the positive example than to the negative one by a
// margin. It saves the two differences and their lengths.
func (n *net) triplet(name string, anchor, positive, negative tensor) tensor {
	size := n.bytes(anchor)
	y := n.add(operation{
		kind: "triplet", name: name, in: []tensor{anchor, positive, negative},
		forward:  work{6 * n.elements(anchor), 6 * size, 5},
		backward: work{6 * n.elements(anchor), 8 * size, 5},
	}, 1)
	n.save(2*size + 2*float64(n.shape(anchor)[0])*float64(n.precision))
	return y
}

// weightedSum adds losses and saves nothing.
func (n *net) weightedSum(name string, x, y tensor) tensor {
	return n.add(operation{
		kind: "weighted-sum", name: name, in: []tensor{x, y},
		forward:  work{2, 3 * float64(n.precision), 1},
		backward: work{1, 2 * float64(n.precision), 1},
	}, 1)
}

// lstm is a step of an LSTM as PyTorch's LSTMCell on a GPU: two products with the weights of the four gates, then
// one kernel for the rest. The state holds h and c, 2×N×hidden. It saves both states, both products and the gates
// (_thnn_fused_lstm_cell lists all of them in its derivative).
func (n *net) lstm(name string, state, x tensor, shared bool) tensor {
	s, in := n.shape(state), n.shape(x)[1]
	batch, hidden := float64(s[1]), float64(s[2])
	gates := 4 * batch * hidden
	wide := gates * float64(n.precision)
	fromInput, fromState := 4*hidden*float64(in), 4*hidden*hidden
	op := operation{kind: "lstm", name: name, in: []tensor{state, x}, parameters: fromInput + fromState + 8*hidden, shared: shared}
	if shared {
		op.parameters = 0
	}
	f1, b1 := product(batch*fromInput, n.bytes(x)+fromInput*float64(n.precision)+wide, 1+n.hasGradient(x))
	f2, b2 := product(batch*fromState, n.bytes(state)/2+fromState*float64(n.precision)+wide, 1+n.hasGradient(state))
	op.forward = f1.plus(f2).plus(work{8 * gates, 3*wide + 2*n.bytes(state), 1})
	op.backward = b1.plus(b2).plus(work{8 * gates, 2*wide + 3*n.bytes(state), 1})
	y := n.add(op, s...)
	n.save(3*wide, state, y)
	return y
}
