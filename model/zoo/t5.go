package zoo

import "fmt"

// t5 holds the sizes of T5 (Raffel et al., Exploring the Limits of Transfer Learning with a Unified Text-to-Text
// Transformer, JMLR 2020, §2.1 and §3.8): an encoder and a decoder of equal numbers of blocks, normalization by
// the root mean square before each part, and products without biases. Positions enter by a bias on the scores,
// with a table of 32 distances each for encoder and decoder. Both embeddings and the head share one matrix.
//
// Every block of the decoder reads the encoder's output. It is carried along the decoder: a cut between two blocks
// is crossed by both.
type t5 struct {
	transformer // seq is that of the encoder
	target      int
}

// distances is the number of distances between two positions that T5 distinguishes.
const distances = 32

func (t t5) add(n *net) {
	x := n.embedding("shared", n.input(8, t.batch, t.seq), t.vocab, t.hidden, false)
	x = n.dropout("encoder.drop", x)
	n.end(fullBlock, "embedding")
	for i := range t.layers {
		name := fmt.Sprintf("encoder.%d", i)
		x = t.attend(n, name+".self", x, n.constant(1), t.seq, t.seq, i == 0)
		n.end(halfBlock, name+".self")
		x = t.widen(n, name+".ff", x)
		n.end(fullBlock, name)
	}
	encoded := n.dropout("encoder.end_drop", n.rmsNorm("encoder.norm", x))
	n.carry(encoded)
	x = n.embedding("decoder.shared", n.constant(t.batch, t.target), t.vocab, t.hidden, true)
	x = n.dropout("decoder.drop", x)
	n.end(fullBlock, "decoder.embedding")
	for i := range t.layers {
		name := fmt.Sprintf("decoder.%d", i)
		x = t.attend(n, name+".self", x, n.constant(1), t.target, t.target, i == 0)
		n.end(halfBlock, name+".self")
		x = t.attend(n, name+".cross", x, encoded, t.target, t.seq, false)
		n.end(halfBlock, name+".cross")
		x = t.widen(n, name+".ff", x)
		n.end(fullBlock, name)
	}
	x = n.dropout("decoder.end_drop", n.rmsNorm("decoder.norm", x))
	x = n.linear("head", x, dense{out: t.vocab, tied: true})
	n.crossEntropy("loss", x)
	n.end(fullBlock, "head+loss")
}

// attend is attention from from to to positions: of x to itself, with the position bias, or, unless memory is a
// constant, to memory. table reports whether the bias table is counted here.
func (t t5) attend(n *net, name string, x, memory tensor, from, to int, table bool) tensor {
	b, h, a := t.batch, t.hidden, t.heads
	y := n.rmsNorm(name+".norm", x)
	self := n.tensors[memory].producer == fromConstant
	if self {
		memory = y
	}
	q := n.view(n.linear(name+".q", y, dense{out: h}), b, a, from, h/a)
	k := n.view(n.linear(name+".k", memory, dense{out: h}), b, a, to, h/a)
	v := n.view(n.linear(name+".v", memory, dense{out: h}), b, a, to, h/a)
	p := n.matmul(name+".scores", q, k, h/a, b, a, from, to)
	if self {
		p = n.positionBias(name+".bias", p, distances*a, !table)
	}
	p = n.dropout(name+".drop", n.softmax(name+".softmax", p))
	y = n.view(n.matmul(name+".context", p, v, to, b, a, from, h/a), b, from, h)
	y = n.dropout(name+".resid_drop", n.linear(name+".o", y, dense{out: h}))
	return n.sum(name+".add", y, x)
}

// widen is the feed-forward part, four times as wide inside.
func (t t5) widen(n *net, name string, x tensor) tensor {
	y := n.linear(name+".wi", n.rmsNorm(name+".norm", x), dense{out: 4 * t.hidden})
	y = n.dropout(name+".drop", n.relu(name+".relu", y))
	y = n.dropout(name+".resid_drop", n.linear(name+".wo", y, dense{out: t.hidden}))
	return n.sum(name+".add", y, x)
}

// encoderDecoder is an entry of T5.
func encoderDecoder(name, description, layers, hidden string) generator {
	parameters := []Param{
		number("layers", layers, 1, 100_000, "blocks of the encoder, and as many of the decoder; the chain has three layers more, both "+
			"embeddings and the head"),
		number("hidden", hidden, 1, 1<<20, "width"),
		number("heads", "hidden/64", 1, 1<<20, "attention heads, a divisor of hidden"),
		number("seq", "512", 1, 1<<24, "tokens a sequence that the encoder reads"),
		number("target", "128", 1, 1<<24, "tokens a sequence that the decoder writes"),
		number("batch", "8", 1, 1<<20, "pairs of sequences a step"),
		number("vocab", "32128", 1, 1<<26, "tokens there are"),
		granularity(),
	}
	return generator{
		Entry: Entry{name, description, chains, append(parameters, costParameters()...)},
		build: func(n *net, v values) {
			t := t5{transformer{
				v.numbers["layers"], v.numbers["hidden"], v.numbers["heads"], v.numbers["seq"], v.numbers["vocab"], 0,
				v.numbers["batch"],
			}, v.numbers["target"]}
			if t.hidden%t.heads != 0 {
				n.fail("heads: %d does not divide hidden, %d", t.heads, t.hidden)
				return
			}
			t.add(n)
		},
	}
}
