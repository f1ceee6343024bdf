package zoo

import (
	"fmt"
	"slices"
	"strings"

	"workbench/model/chain"
	"workbench/model/graph"
)

// generator is an entry and how to make it: an architecture that the cost
// model prices, or else a chain.
type generator struct {
	Entry
	build func(n *net, v values)
	chain func(v values) (*chain.Chain, error)
}

// label names a chain after its network and what sets its size:
// resnet50-i224-b32.
func (g *generator) label(v values) string {
	var b strings.Builder
	b.WriteString(g.Name)
	for _, x := range [][2]string{{"layers", "l"}, {"hidden", "h"}, {"seq", "s"}, {"image", "i"}, {"depth", "d"}, {"batch", "b"}} {
		if slices.ContainsFunc(g.Parameters, func(p Param) bool { return p.Name == x[0] }) {
			b.WriteString("-" + x[1] + v.text(x[0]))
		}
	}
	return b.String()
}

func number(name, def string, least, most int, description string) Param {
	return Param{Name: name, Default: def, Description: description, Min: least, Max: most}
}

func choice(name, description string, choices ...string) Param {
	return Param{Name: name, Default: choices[0], Description: description, Choices: choices}
}

// costParameters are those of every network priced by the cost model.
func costParameters() []Param {
	return []Param{
		choice("device", "the GPU whose rates are taken", deviceNames()...),
		choice("dtype", "of activations and weights", "fp32", "fp16"),
		choice("checkpoint", "keep only the input of each layer; the backward recomputes the rest", "false", "true"),
		number("optimizer", "1", 1, 16, "bytes that live and move with a weight, in multiples of the weight itself: 1 is weights only, 3 with Adam's moments"),
	}
}

func generators() []generator {
	vision := func(name, description string, build func(n *net, batch, image, classes int)) generator {
		parameters := []Param{
			number("batch", "32", 1, 1<<20, "images a step"),
			number("image", "224", 1, 1<<14, "height and width"),
			number("classes", "1000", 1, 1<<24, "outputs of the last layer"),
		}
		return generator{
			Entry: Entry{name, description, append(parameters, costParameters()...)},
			build: func(n *net, v values) {
				build(n, v.numbers["batch"], v.numbers["image"], v.numbers["classes"])
			},
		}
	}
	text := func(name, description, layers, hidden, vocab, positions, seq string, extra []Param, build func(t transformer, n *net, v values)) generator {
		parameters := []Param{
			number("layers", layers, 1, 100_000, "transformer blocks; the chain has two layers more, embedding and head"),
			number("hidden", hidden, 1, 1<<20, "width"),
			number("heads", "hidden/64", 1, 1<<20, "attention heads, a divisor of hidden"),
			number("seq", seq, 1, 1<<24, "tokens a sequence"),
			number("batch", "8", 1, 1<<20, "sequences a step"),
			number("vocab", vocab, 1, 1<<26, "tokens there are"),
			number("positions", positions, 1, 1<<24, "positions that are learned, at least seq"),
			choice("granularity", "what a layer of the chain is: a block, half a block (attention, MLP), or as little as can be cut", "layer", "split", "op"),
		}
		return generator{
			Entry: Entry{name, description, append(append(parameters, extra...), costParameters()...)},
			build: func(n *net, v values) {
				t := transformer{v.numbers["layers"], v.numbers["hidden"], v.numbers["heads"], v.numbers["seq"], v.numbers["vocab"], v.numbers["positions"], v.numbers["batch"]}
				switch {
				case t.hidden%t.heads != 0:
					n.fail("heads: %d does not divide hidden, %d", t.heads, t.hidden)
				case t.seq > t.positions:
					n.fail("seq: %d is more than the %d positions; give positions=%d too", t.seq, t.positions, t.seq)
				default:
					build(t, n, v)
				}
			},
		}
	}
	gpt2 := func(t transformer, n *net, _ values) { t.gpt2(n) }
	bert := func(t transformer, n *net, v values) { t.bert(n, v.words["head"]) }
	heads := []Param{choice("head", "what the loss reads: the pooled first position, or with a masked-language head (tied to the embedding) every position", "pooler", "mlm")}
	return []generator{
		text("gpt2", "GPT-2 (124 M parameters; Megatron sizes by layers, hidden, heads)", "12", "768", "50257", "1024", "1024", nil, gpt2),
		text("gpt2-medium", "GPT-2 medium (355 M parameters)", "24", "1024", "50257", "1024", "1024", nil, gpt2),
		text("gpt2-large", "GPT-2 large (774 M parameters)", "36", "1280", "50257", "1024", "1024", nil, gpt2),
		text("gpt2-xl", "GPT-2 XL (1.56 G parameters)", "48", "1600", "50257", "1024", "1024", nil, gpt2),
		text("bert", "BERT base (109 M parameters; Megatron sizes by layers, hidden, heads)", "12", "768", "30522", "512", "512", heads, bert),
		text("bert-large", "BERT large (335 M parameters)", "24", "1024", "30522", "512", "512", heads, bert),
		vision("vgg16", "VGG-16 (138 M parameters)", vgg16),
		vision("resnet18", "ResNet-18 (11.7 M parameters)", residual{[4]int{2, 2, 2, 2}, false}.add),
		vision("resnet50", "ResNet-50 (25.6 M parameters)", residual{[4]int{3, 4, 6, 3}, true}.add),
		vision("resnet101", "ResNet-101 (44.5 M parameters)", residual{[4]int{3, 4, 23, 3}, true}.add),
		table1GPT2(),
		table1BERT(),
	}
}

// levels are the cuts by the words of granularity; networks without that
// parameter are cut anywhere.
var levels = map[string]int{"layer": fullBlock, "split": halfBlock, "op": anywhere}

// net builds the architecture and says on what and how it runs.
func (g *generator) net(v values) (*net, how, error) {
	n := &net{precision: single}
	if v.words["dtype"] == "fp16" {
		n.precision = half
	}
	g.build(n, v)
	if n.err != nil {
		return nil, how{}, n.err
	}
	device, err := DeviceNamed(v.words["device"])
	return n, how{device, levels[v.words["granularity"]], v.words["checkpoint"] == "true", float64(v.numbers["optimizer"])}, err
}

// generate makes the chain of v.
func (g *generator) generate(v values) (*chain.Chain, error) {
	if g.chain != nil {
		return g.chain(v)
	}
	n, h, err := g.net(v)
	if err != nil {
		return nil, err
	}
	c, err := n.chain(h)
	if err != nil {
		return nil, err
	}
	c.Samples, c.Source = v.numbers["batch"], g.source(n, v)
	return c, nil
}

// generateGraph makes the graph of v.
func (g *generator) generateGraph(v values) (*graph.Graph, error) {
	if g.chain != nil {
		c, err := g.chain(v)
		if err != nil {
			return nil, err
		}
		of := graph.Of(c)
		of.Samples, of.Source = c.Samples, c.Source
		return of, nil
	}
	n, h, err := g.net(v)
	if err != nil {
		return nil, err
	}
	step, err := n.step(h)
	if err != nil {
		return nil, err
	}
	step.Samples, step.Source = v.numbers["batch"], g.source(n, v)
	return step, nil
}

// source says where the numbers of n come from.
func (g *generator) source(n *net, v values) map[string]any {
	source := map[string]any{"kind": "analytic", "model": g.Name, "parameters": n.parameters()}
	for key, x := range v.numbers {
		source[key] = float64(x)
	}
	for key, word := range v.words {
		source[key] = word
	}
	if held := n.held(); held > n.parameters() {
		source["tied"] = fmt.Sprintf("the head needs the embedding's matrix, so %g weights are counted at both", held-n.parameters())
	}
	return source
}
