package zoo

// Operations of current transformers. Each saves what PyTorch's autograd saves.

// rotary rotates pairs of channels by angles of their position. The angles are constants, so it saves nothing.
func (n *net) rotary(name string, x tensor) tensor {
	return n.add(operation{
		kind: "rotary", name: name, in: []tensor{x},
		forward:  work{6 * n.elements(x), 2 * n.bytes(x), 1},
		backward: work{6 * n.elements(x), 2 * n.bytes(x), 1},
	}, n.shape(x)...)
}

// flashAttention is attention in one kernel that stores no scores (Dao 2024). x has the shape B×A×S×D of queries;
// keys and values may have fewer heads and another length. It saves them, its output and a logarithm in single
// precision per row; the backward recomputes the scores.
func (n *net) flashAttention(name string, x, keys, values tensor, causal bool) tensor {
	s := n.shape(x)
	pairs := n.elements(x) * float64(n.shape(keys)[2])
	if causal {
		pairs /= 2
	}
	moved := 2*n.bytes(x) + n.bytes(keys) + n.bytes(values)
	y := n.add(operation{
		kind: "flash-attention", name: name, in: []tensor{x, keys, values},
		forward:  work{4 * pairs, moved, 1},
		backward: work{10 * pairs, 3 * moved, 2},
	}, s...)
	n.save(4*n.elements(x)/float64(s[3]), x, keys, values, y)
	return y
}

// silu saves its input.
func (n *net) silu(name string, x tensor) tensor {
	y := n.add(operation{
		kind: "silu", name: name, in: []tensor{x},
		forward:  work{5 * n.elements(x), 2 * n.bytes(x), 1},
		backward: work{8 * n.elements(x), 3 * n.bytes(x), 1},
	}, n.shape(x)...)
	n.save(0, x)
	return y
}

// multiply multiplies elementwise and saves both factors.
func (n *net) multiply(name string, x, y tensor) tensor {
	z := n.add(operation{
		kind: "multiply", name: name, in: []tensor{x, y},
		forward:  work{n.elements(x), 2*n.bytes(x) + n.bytes(y), 1},
		backward: work{2 * n.elements(x), 3*n.bytes(x) + 2*n.bytes(y), 2},
	}, n.shape(x)...)
	n.save(0, x, y)
	return z
}

// gather copies rows of x to the experts that weights choose: rows × columns. It saves the indices,
// eight bytes each.
func (n *net) gather(name string, x, weights tensor, rows, columns int) tensor {
	shape := []int{rows, columns}
	moved := 2 * count(shape) * float64(n.precision)
	y := n.add(operation{
		kind: "gather", name: name, in: []tensor{x, weights},
		forward:  work{0, moved, 2},
		backward: work{count(shape), moved, 1},
	}, shape...)
	n.save(8 * float64(rows))
	return y
}

// experts multiplies each row with the matrix of its expert, as one grouped product. It saves its input.
func (n *net) experts(name string, x tensor, experts, out int) tensor {
	s := n.shape(x)
	matrix := float64(s[1]) * float64(out)
	held := float64(experts) * matrix
	op := operation{kind: "grouped-linear", name: name, in: []tensor{x}, parameters: held, held: held}
	bytes := n.bytes(x) + (held+float64(s[0])*float64(out))*float64(n.precision)
	op.forward, op.backward = product(float64(s[0])*matrix, bytes, 1+n.hasGradient(x))
	y := n.add(op, s[0], out)
	n.save(0, x)
	return y
}

// combine adds the rows of the experts of each token by the router's weights. It saves both.
func (n *net) combine(name string, x, weights tensor, shape ...int) tensor {
	y := n.add(operation{
		kind: "combine", name: name, in: []tensor{x, weights},
		forward:  work{2 * n.elements(x), n.bytes(x) + count(shape)*float64(n.precision), 2},
		backward: work{4 * n.elements(x), 3 * n.bytes(x), 2},
	}, shape...)
	n.save(0, x, weights)
	return y
}

// modulate returns x·(1 + scale) + shift with one scale and shift per sample (adaptive normalization, Peebles and
// Xie 2023). It saves x and the scales.
func (n *net) modulate(name string, x, vectors tensor) tensor {
	y := n.add(operation{
		kind: "multiply", name: name, in: []tensor{x, vectors},
		forward:  work{3 * n.elements(x), 4 * n.bytes(x), 2},
		backward: work{5 * n.elements(x), 6 * n.bytes(x), 3},
	}, n.shape(x)...)
	n.save(0, x, vectors)
	return y
}

// scaleChannels multiplies each channel by a parameter (layer scale). It saves x.
func (n *net) scaleChannels(name string, x tensor, channels int) tensor {
	y := n.add(operation{
		kind: "multiply", name: name, in: []tensor{x}, parameters: float64(channels),
		forward:  work{n.elements(x), 2 * n.bytes(x), 1},
		backward: work{3 * n.elements(x), 4 * n.bytes(x), 2},
	}, n.shape(x)...)
	n.save(0, x)
	return y
}

// positions adds an embedding of positions with the given number of parameters to x, and gives the result a shape,
// which may have an additional class token.
func (n *net) positions(name string, x tensor, parameters int, shape ...int) tensor {
	return n.add(operation{
		kind: "add", name: name, in: []tensor{x}, parameters: float64(parameters),
		forward:  work{count(shape), 3 * n.bytes(x), 2},
		backward: work{count(shape), 2 * n.bytes(x), 2},
	}, shape...)
}
