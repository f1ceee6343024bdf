package zoo

import "fmt"

// decoder holds the sizes of a decoder-only transformer with normalization by the root mean square
// before each part, rotary positions, grouped-query attention, a gated feed-forward part (SwiGLU)
// and an untied head: Llama 3 (Grattafiori et al. 2024, table 3) and, where experts is not 1,
// Mixtral (Jiang et al. 2024), in which each token goes to the top experts of a router.
type decoder struct {
	layers, hidden, heads, keys, inner, vocab, seq, batch int
	experts, top                                          int
	eager                                                 bool
}

func (d decoder) add(n *net) {
	x := n.embedding("embed", n.input(8, d.batch, d.seq), d.vocab, d.hidden, false)
	n.end(fullBlock, "embedding")
	for i := range d.layers {
		name := fmt.Sprintf("layers.%d", i)
		y := n.rmsNorm(name+".attn_norm", x)
		x = n.sum(name+".add1", d.attention(n, name+".attn", y), x)
		n.end(halfBlock, name+".attn")
		y = n.rmsNorm(name+".ffn_norm", x)
		if d.experts > 1 {
			y = d.mixture(n, name+".moe", y)
		} else {
			y = d.gated(n, name+".ffn", y)
		}
		x = n.sum(name+".add2", y, x)
		n.end(fullBlock, name)
	}
	x = n.linear("head", n.rmsNorm("norm", x), dense{out: d.vocab})
	n.crossEntropy("loss", x)
	n.end(fullBlock, "head+loss")
}

// attention is causal self-attention in which several heads of queries share keys and values.
func (d decoder) attention(n *net, name string, x tensor) tensor {
	b, s, a, k, w := d.batch, d.seq, d.heads, d.keys, d.hidden/d.heads
	queries := n.rotary(name+".rope_q", n.view(n.linear(name+".q", x, dense{out: a * w}), b, a, s, w))
	keys := n.rotary(name+".rope_k", n.view(n.linear(name+".k", x, dense{out: k * w}), b, k, s, w))
	values := n.view(n.linear(name+".v", x, dense{out: k * w}), b, k, s, w)
	var y tensor
	if d.eager {
		p := n.softmax(name+".softmax", n.matmul(name+".scores", queries, keys, w, b, a, s, s))
		y = n.matmul(name+".context", p, values, s, b, a, s, w)
	} else {
		y = n.flashAttention(name+".attention", queries, keys, values, true)
	}
	return n.linear(name+".o", n.view(y, b, s, d.hidden), dense{out: d.hidden})
}

// gated is the feed-forward part: down(silu(gate(x)) · up(x)).
func (d decoder) gated(n *net, name string, x tensor) tensor {
	gate := n.silu(name+".silu", n.linear(name+".gate", x, dense{out: d.inner}))
	up := n.linear(name+".up", x, dense{out: d.inner})
	return n.linear(name+".down", n.multiply(name+".mul", gate, up), dense{out: d.hidden})
}

// mixture is the feed-forward part of a mixture of experts: each token is copied for each of its
// top experts, and their outputs are added by the router's weights.
func (d decoder) mixture(n *net, name string, x tensor) tensor {
	tokens := d.batch * d.seq
	weights := n.softmax(name+".softmax", n.linear(name+".router", x, dense{out: d.experts}))
	y := n.gather(name+".dispatch", x, weights, tokens*d.top, d.hidden)
	gate := n.silu(name+".silu", n.experts(name+".gate", y, d.experts, d.inner))
	up := n.experts(name+".up", y, d.experts, d.inner)
	y = n.experts(name+".down", n.multiply(name+".mul", gate, up), d.experts, d.hidden)
	return n.combine(name+".combine", y, weights, d.batch, d.seq, d.hidden)
}

// decoders is the generator of one such network.
func decoders(name, description string, layers, hidden, heads, keys, inner, vocab, seq string, experts, top int) generator {
	parameters := []Param{
		number("layers", layers, 1, 100_000, "transformer blocks; the chain has two layers more, embedding and head"),
		number("hidden", hidden, 1, 1<<20, "width"),
		number("heads", heads, 1, 1<<20, "attention heads, a divisor of hidden"),
		number("keys", keys, 1, 1<<20, "heads of keys and values, a divisor of heads"),
		number("inner", inner, 1, 1<<20, "width inside the feed-forward part"),
		number("seq", seq, 1, 1<<24, "tokens a sequence"),
		number("batch", "1", 1, 1<<20, "sequences a step"),
		number("vocab", vocab, 1, 1<<26, "tokens there are"),
		granularity(), attentionKind(),
	}
	return generator{
		Entry: Entry{name, description, chains, append(parameters, modernCosts()...)},
		build: func(n *net, v values) {
			d := decoder{
				layers: v.numbers["layers"], hidden: v.numbers["hidden"], heads: v.numbers["heads"], keys: v.numbers["keys"], inner: v.numbers["inner"],
				vocab: v.numbers["vocab"], seq: v.numbers["seq"], batch: v.numbers["batch"], experts: experts, top: top,
				eager: v.words["attention"] == "eager",
			}
			switch {
			case d.hidden%d.heads != 0:
				n.fail("heads: %d does not divide hidden, %d", d.heads, d.hidden)
			case d.heads%d.keys != 0:
				n.fail("keys: %d does not divide heads, %d", d.keys, d.heads)
			default:
				d.add(n)
			}
		},
	}
}

// attentionKind is the parameter that selects whether the scores of all pairs are stored.
func attentionKind() Param {
	return choice("attention", "flash: one kernel, the scores are not stored; eager: scores and their softmax are", "flash", "eager")
}

// modernCosts are the cost parameters of current networks: bfloat16 on an H100 by default.
func modernCosts() []Param {
	all := costParameters()
	for k := range all {
		switch all[k].Name {
		case "device":
			all[k].Default = "H100-80GB"
		case "dtype":
			all[k].Default = "bf16"
		}
	}
	return all
}
