package zoo

import "fmt"

// transformer holds the sizes of GPT-2 and BERT.
type transformer struct {
	layers, hidden, heads, seq, vocab, positions, batch int
}

// Levels at which transformers can be cut.
const (
	anywhere  = 0
	halfBlock = 1 // attention, MLP
	fullBlock = 2
)

// attention is multi-head self-attention with its output projection and
// dropout.
func (t transformer) attention(n *net, name string, x tensor) tensor {
	b, s, h, a := t.batch, t.seq, t.hidden, t.heads
	qkv := n.linear(name+".qkv", x, dense{out: 3 * h, bias: true})
	q, k, v := n.view(qkv, b, a, s, h/a), n.view(qkv, b, a, s, h/a), n.view(qkv, b, a, s, h/a)
	p := n.softmax(name+".softmax", n.matmul(name+".scores", q, k, h/a, b, a, s, s))
	p = n.dropout(name+".drop", p)
	x = n.view(n.matmul(name+".context", p, v, s, b, a, s, h/a), b, s, h)
	x = n.linear(name+".proj", x, dense{out: h, bias: true})
	return n.dropout(name+".resid_drop", x)
}

// mlp is the feed-forward part with an inner width of four times the hidden size.
func (t transformer) mlp(n *net, name string, x tensor) tensor {
	x = n.linear(name+".fc", x, dense{out: 4 * t.hidden, bias: true})
	x = n.gelu(name+".gelu", x)
	x = n.linear(name+".proj", x, dense{out: t.hidden, bias: true})
	return n.dropout(name+".drop", x)
}

// gpt2 is GPT-2: learned positions, normalization before each half block, the
// head tied to the embedding. Head and loss are one layer, so that a chain
// has layers+2: embedding, blocks, head.
func (t transformer) gpt2(n *net) {
	ids := n.input(8, t.batch, t.seq)
	x := n.embedding("wte", ids, t.vocab, t.hidden, false)
	x = n.broadcast("embed.add", x, n.embedding("wpe", n.constant(t.seq), t.positions, t.hidden, false))
	x = n.dropout("embed.drop", x)
	n.end(fullBlock, "embedding")
	for i := range t.layers {
		name := fmt.Sprintf("h.%d", i)
		x = n.sum(name+".add1", t.attention(n, name+".attn", n.layerNorm(name+".ln1", x)), x)
		n.end(halfBlock, name+".attn")
		x = n.sum(name+".add2", t.mlp(n, name+".mlp", n.layerNorm(name+".ln2", x)), x)
		n.end(fullBlock, name)
	}
	x = n.layerNorm("ln_f", x)
	x = n.linear("head", x, dense{out: t.vocab, tied: true})
	n.crossEntropy("loss", x)
	n.end(fullBlock, "head+loss")
}

// bert is BERT: learned positions and segments, normalization after each half
// block. The pooler reads the first position; the loss reads the pooler, or
// with a masked-language head every position.
func (t transformer) bert(n *net, head string) {
	ids := n.input(8, t.batch, t.seq)
	x := n.embedding("word", ids, t.vocab, t.hidden, false)
	x = n.broadcast("embed.add1", x, n.embedding("position", n.constant(t.seq), t.positions, t.hidden, false))
	x = n.broadcast("embed.add2", x, n.embedding("segment", n.constant(t.seq), 2, t.hidden, false))
	x = n.dropout("embed.drop", n.layerNorm("embed.ln", x))
	n.end(fullBlock, "embedding")
	for i := range t.layers {
		name := fmt.Sprintf("layer.%d", i)
		x = n.layerNorm(name+".ln1", n.sum(name+".add1", t.attention(n, name+".attn", x), x))
		n.end(halfBlock, name+".attn")
		x = n.layerNorm(name+".ln2", n.sum(name+".add2", t.mlp(n, name+".mlp", x), x))
		n.end(fullBlock, name)
	}
	if head == "mlm" {
		x = n.gelu("head.gelu", n.linear("head.dense", x, dense{out: t.hidden, bias: true}))
		x = n.linear("head.decoder", n.layerNorm("head.ln", x), dense{out: t.vocab, bias: true, tied: true})
	} else {
		first := n.view(x, t.batch, t.hidden)
		x = n.tanh("pooler.tanh", n.linear("pooler", first, dense{out: t.hidden, bias: true}))
	}
	n.crossEntropy("loss", x)
	n.end(fullBlock, "head+loss")
}
