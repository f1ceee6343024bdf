package zoo

import (
	"fmt"
	"slices"
	"strings"

	"workbench/model/instance/chain"
	"workbench/model/instance/graph"
	"workbench/model/instance/join"
)

// generator is an entry and its constructors: an architecture priced by the cost model, or a chain; and a join,
// for networks of branches.
type generator struct {
	Entry
	build func(n *net, v values)
	chain func(v values) (*chain.Chain, error)
	join  func(v values) *join.Join
}

// label names an instance after its network and the parameters that determine its size: resnet50-i224-b32.
func (g *generator) label(v values, form string) string {
	var b strings.Builder
	b.WriteString(g.Name)
	for _, x := range [][2]string{
		{"layers", "l"},
		{"length", "l"},
		{"hidden", "h"},
		{"seq", "s"},
		{"image", "i"},
		{"width", "w"},
		{"depth", "d"},
		{"batch", "b"},
	} {
		if slices.ContainsFunc(g.Parameters, func(p Param) bool { return p.Name == x[0] && p.appliesTo(form) }) {
			b.WriteString("-" + x[1] + v.text(x[0]))
		}
	}
	return b.String()
}

func number(name, def string, least, most int, description string) Param {
	return Param{Name: name, Default: def, Description: description, Min: least, Max: most}
}

// only restricts a parameter to some forms.
func only(p Param, forms ...string) Param {
	p.Forms = forms
	return p
}

func choice(name, description string, choices ...string) Param {
	return Param{Name: name, Default: choices[0], Description: description, Choices: choices}
}

// costParameters returns the parameters of every network priced by the cost model.
func costParameters() []Param {
	return []Param{
		choice("device", "the GPU whose rates are taken", deviceNames()...),
		choice("dtype", "of activations and weights", "fp32", "fp16", "bf16"),
		only(choice("checkpoint", "keep only the input of each layer; the backward recomputes the rest", "false", "true"), FormChain),
		number("optimizer", "1", 1, 16, "bytes that live and move with a weight, in multiples of the weight itself: 1 is weights only, 3 "+
			"with Adam's moments"),
	}
}

// chains are the forms of networks that are cut into chains.
var chains = []string{FormChain, FormGraph, FormTraining, FormFunctions}

func generators() []generator {
	gpt2 := func(t transformer, n *net, _ values) { t.gpt2(n) }
	bert := func(t transformer, n *net, v values) { t.bert(n, v.words["head"]) }
	heads := []Param{choice("head", "what the loss reads: the pooled first position, or with a masked-language head (tied to the "+
		"embedding) every position", "pooler", "mlm")}
	return []generator{
		text("gpt2", "GPT-2 (124 M parameters; Megatron sizes by layers, hidden, heads)", "12", "768", "50257", "1024", "1024", nil, gpt2),
		text("gpt2-medium", "GPT-2 medium (355 M parameters)", "24", "1024", "50257", "1024", "1024", nil, gpt2),
		text("gpt2-large", "GPT-2 large (774 M parameters)", "36", "1280", "50257", "1024", "1024", nil, gpt2),
		text("gpt2-xl", "GPT-2 XL (1.56 G parameters)", "48", "1600", "50257", "1024", "1024", nil, gpt2),
		gpt3(gpt2),
		decoders("llama3-8b", "Llama 3 8B (8.03 G parameters)", "32", "4096", "32", "8", "14336", "128256", "8192", 1, 1),
		decoders("llama3-70b", "Llama 3 70B (70.6 G parameters)", "80", "8192", "64", "8", "28672", "128256", "8192", 1, 1),
		decoders("mixtral-8x7b", "Mixtral 8x7B (46.7 G parameters), two of eight experts a token, evenly loaded", "32", "4096", "32", "8",
			"14336", "32000", "8192", 8, 2),
		text("bert", "BERT base (109 M parameters; Megatron sizes by layers, hidden, heads)", "12", "768", "30522", "512", "512", heads, bert),
		text("bert-large", "BERT large (335 M parameters)", "24", "1024", "30522", "512", "512", heads, bert),
		encoderDecoder("t5", "T5 base (223 M parameters), encoder and decoder", "12", "768"),
		encoderDecoder("t5-large", "T5 large (738 M parameters)", "24", "1024"),
		imagenet("vgg16", "VGG-16 (138 M parameters)", vgg{2, 2, 3, 3, 3}.add),
		imagenet("vgg19", "VGG-19 (144 M parameters)", vgg{2, 2, 4, 4, 4}.add),
		imagenet("resnet18", "ResNet-18 (11.7 M parameters)", residual{[4]int{2, 2, 2, 2}, false}.add),
		imagenet("resnet34", "ResNet-34 (21.8 M parameters)", residual{[4]int{3, 4, 6, 3}, false}.add),
		imagenet("resnet50", "ResNet-50 (25.6 M parameters)", residual{[4]int{3, 4, 6, 3}, true}.add),
		imagenet("resnet101", "ResNet-101 (44.5 M parameters)", residual{[4]int{3, 4, 23, 3}, true}.add),
		imagenet("resnet152", "ResNet-152 (60.2 M parameters)", residual{[4]int{3, 8, 36, 3}, true}.add),
		imagenet("resnet200", "ResNet-200 with identity mappings (64.7 M parameters)", preactivation{[]int{3, 24, 36, 3}, 64}.add),
		vision("resnet1001", "ResNet-1001 with identity mappings: three stages of 111 blocks, the first at full resolution. Width 64 is that "+
			"of [002] (164 M parameters), 16 that of He et al. (10.3 M with classes=10)", "224",
			[]Param{number("width", "64", 1, 1<<12, "channels of the first convolution")},
			func(n *net, batch, image, classes int, v values) {
				preactivation{[]int{111, 111, 111}, v.numbers["width"]}.add(n, batch, image, classes)
			}),
		modern(imagenet("convnext-tiny", "ConvNeXt tiny (28.6 M parameters)", convNeXt{[4]int{3, 3, 9, 3}, [4]int{96, 192, 384, 768}}.add)),
		modern(imagenet("convnext-base", "ConvNeXt base (88.6 M parameters)", convNeXt{[4]int{3, 3, 27, 3}, [4]int{128, 256, 512, 1024}}.add)),
		patched("vit-l16", "ViT-L/16 (304 M parameters)", "224", 24, 1024, 16, 16, patches.vit),
		patched("dit-xl2", "DiT-XL/2 (675 M parameters), a diffusion transformer on latents of an eighth of the image", "256", 28, 1152, 16, 2,
			patches.dit),
		imagenet("densenet121", "DenseNet-121 (8.0 M parameters)", densenet{[4]int{6, 12, 24, 16}, 32, 64}.add),
		imagenet("densenet161", "DenseNet-161 (28.7 M parameters)", densenet{[4]int{6, 12, 36, 24}, 48, 96}.add),
		imagenet("densenet169", "DenseNet-169 (14.1 M parameters)", densenet{[4]int{6, 12, 32, 32}, 32, 64}.add),
		imagenet("densenet201", "DenseNet-201 (20.0 M parameters)", densenet{[4]int{6, 12, 48, 32}, 32, 64}.add),
		vision("inception", "Inception v3 (23.8 M parameters, 27.2 M with the auxiliary head)", "299",
			[]Param{choice("aux", "train the auxiliary head too", "false", "true")},
			func(n *net, batch, image, classes int, v values) {
				inception{v.words["aux"] == "true"}.add(n, batch, image, classes)
			}),
		imagenet("mobilenet", "MobileNet v1 (4.2 M parameters)", mobilenet),
		unets(),
		deepLabs(),
		pix2pixHDs(),
		rnn(),
		joined("siamese", "Siamese network of [004] 1.4: three branches of 2·length layers that share their weights, and a triplet loss",
			siamese),
		joined("cross-modal", "cross-modal network of [004] 1.4: branches of length and 5·length layers", crossModal),
		table1GPT2(),
		table1BERT(),
	}
}

// gpt3 is GPT-3 13B (Brown et al. 2020, table 2.1), with heads of 128 channels.
func gpt3(build func(t transformer, n *net, v values)) generator {
	g := modern(text("gpt3-13b", "GPT-3 13B (12.9 G parameters)", "40", "5120", "50257", "2048", "2048", nil, build))
	for k := range g.Parameters {
		switch g.Parameters[k].Name {
		case "heads":
			g.Parameters[k].Default = "hidden/128"
		case "batch":
			g.Parameters[k].Default = "1"
		}
	}
	return g
}

func unets() generator {
	return generator{
		Entry: Entry{"unet", "U-Net, padded (31.0 M parameters)", chains, append([]Param{
			number("batch", "8", 1, 1<<20, "images a step"),
			number("image", "256", 1, 1<<14, "height and width"),
			number("channels", "1", 1, 1<<12, "of an image"),
			number("classes", "1", 1, 1<<12, "maps that come out, each judged by yes or no"),
		}, costParameters()...)},
		build: func(n *net, v values) {
			unet(n, v.numbers["batch"], v.numbers["image"], v.numbers["channels"], v.numbers["classes"])
		},
	}
}

func deepLabs() generator {
	return generator{
		Entry: Entry{"deeplabv3plus", "DeepLabv3+ with a ResNet-101, output stride 16 (59.3 M parameters)", chains, append([]Param{
			number("batch", "6", 1, 1<<20, "images a step"),
			number("image", "513", 1, 1<<14, "height and width"),
			number("classes", "21", 1, 1<<12, "maps that come out, of which each pixel has one"),
		}, costParameters()...)},
		build: func(n *net, v values) { deepLab(n, v.numbers["batch"], v.numbers["image"], v.numbers["classes"]) },
	}
}

func pix2pixHDs() generator {
	return generator{
		Entry: Entry{
			"pix2pixhd", "Pix2PixHD, global generator (182.5 M parameters) and discriminators at two scales (5.6 M)", chains,
			append([]Param{
				number("batch", "1", 1, 1<<20, "images a step"),
				number("image", "512", 1, 1<<14, "height; they are twice as wide"),
			}, costParameters()...),
		},
		build: func(n *net, v values) { pix2pixHD(n, v.numbers["batch"], v.numbers["image"]) },
	}
}

func rnn() generator {
	return generator{
		Entry: Entry{"rnn", "LSTM of one layer, unrolled over a sequence of vectors that it classifies; the chain has two layers more than " +
			"steps, head and loss", chains, append([]Param{
			number("hidden", "1024", 1, 1<<20, "width of the state"),
			number("seq", "100", 1, 100_000, "steps"),
			number("inputs", "1024", 1, 1<<20, "width of the vectors"),
			number("batch", "32", 1, 1<<20, "sequences a step"),
			number("classes", "1000", 1, 1<<24, "outputs of the last layer"),
		}, costParameters()...)},
		build: func(n *net, v values) {
			recurrent{v.numbers["seq"], v.numbers["hidden"], v.numbers["inputs"], v.numbers["batch"], v.numbers["classes"]}.add(n)
		},
	}
}

// joined is a network of branches. Its join has unit costs, as in [004]; sizes and times belong to its graph only.
func joined(name, description string, of func(length int) branches) generator {
	parameters := []Param{
		number("length", "10", 1, 10_000, "L, the unit of the lengths of branches"),
		only(number("slots", "0", 0, 1<<30, "m, the values that memory holds; 0: given elsewhere"), FormJoin),
		only(choice("keep", "the branches whose δ_0 must stay at the end (b)", "none", "all"), FormJoin),
		only(number("batch", "8", 1, 1<<20, "samples a step"), FormGraph, FormTraining, FormFunctions),
		only(number("image", "56", 1, 1<<14, "height and width of the 64 channels of a layer"), FormGraph, FormTraining, FormFunctions),
	}
	for _, p := range costParameters() {
		if p.appliesTo(FormGraph) {
			parameters = append(parameters, only(p, FormGraph, FormTraining, FormFunctions))
		}
	}
	return generator{
		Entry: Entry{name, description, []string{FormJoin, FormGraph, FormTraining, FormFunctions}, parameters},
		build: func(n *net, v values) { of(v.numbers["length"]).add(n, v.numbers["batch"], v.numbers["image"]) },
		join: func(v values) *join.Join {
			return of(v.numbers["length"]).join(v.numbers["slots"], v.words["keep"] == "all")
		},
	}
}

// levels maps the values of granularity to cut levels; networks without that parameter are cut anywhere.
var levels = map[string]int{"layer": fullBlock, "split": halfBlock, "op": anywhere}

// net builds the architecture and returns it with the device and options of its run.
func (g *generator) net(v values) (*net, how, error) {
	n := &net{precision: single}
	if v.words["dtype"] != "fp32" {
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
		of := graph.FromChain(c)
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

// source returns the origin of the numbers of n.
func (g *generator) source(n *net, v values) map[string]any {
	source := map[string]any{"kind": "analytic", "model": g.Name, "parameters": n.parameters()}
	for key, x := range v.numbers {
		source[key] = float64(x)
	}
	for key, word := range v.words {
		source[key] = word
	}
	if slices.ContainsFunc(n.operations, func(op operation) bool { return op.shared }) {
		source["shared"] = "weights that several operations share are counted at the first"
	}
	if n.resident > 0 {
		source["resident"] = n.resident
	}
	if held := n.held(); held > n.parameters() {
		source["tied"] = fmt.Sprintf("the head needs the embedding's matrix, so %g weights are counted at both", held-n.parameters())
	}
	return source
}

// vision is a network on images, with parameters of its own in addition to the common ones.
func vision(name, description, image string, extra []Param, build func(n *net, batch, image, classes int, v values)) generator {
	parameters := []Param{
		number("batch", "32", 1, 1<<20, "images a step"),
		number("image", image, 1, 1<<14, "height and width"),
		number("classes", "1000", 1, 1<<24, "outputs of the last layer"),
	}
	return generator{
		Entry: Entry{name, description, chains, append(append(parameters, extra...), costParameters()...)},
		build: func(n *net, v values) {
			build(n, v.numbers["batch"], v.numbers["image"], v.numbers["classes"], v)
		},
	}
}

// imagenet is a vision network on images of 224 pixels without parameters of its own.
func imagenet(name, description string, build func(n *net, batch, image, classes int)) generator {
	return vision(name, description, "224", nil, func(n *net, batch, image, classes int, _ values) { build(n, batch, image, classes) })
}

// granularity is the parameter of networks of blocks.
func granularity() Param {
	return only(choice("granularity", "what a layer of the chain is: a block, a part of one (attention, MLP), or as little as can be cut",
		"layer", "split", "op"), FormChain)
}

// text is a transformer, given the defaults of its parameters and its constructor.
func text(name, description, layers, hidden, vocab, positions, seq string, extra []Param,
	build func(t transformer, n *net, v values),
) generator {
	parameters := []Param{
		number("layers", layers, 1, 100_000, "transformer blocks; the chain has two layers more, embedding and head"),
		number("hidden", hidden, 1, 1<<20, "width"),
		number("heads", "hidden/64", 1, 1<<20, "attention heads, a divisor of hidden"),
		number("seq", seq, 1, 1<<24, "tokens a sequence"),
		number("batch", "8", 1, 1<<20, "sequences a step"),
		number("vocab", vocab, 1, 1<<26, "tokens there are"),
		number("positions", positions, 1, 1<<24, "positions that are learned, at least seq"),
		granularity(),
	}
	return generator{
		Entry: Entry{name, description, chains, append(append(parameters, extra...), costParameters()...)},
		build: func(n *net, v values) {
			t := transformer{
				v.numbers["layers"], v.numbers["hidden"], v.numbers["heads"], v.numbers["seq"], v.numbers["vocab"],
				v.numbers["positions"], v.numbers["batch"],
			}
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
