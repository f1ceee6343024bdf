package zoo

import "fmt"

// patches are networks that read images as sequences of patches: ViT (Dosovitskiy et al. 2021), as in
// torchvision, and the diffusion transformer DiT (Peebles and Xie 2023).
type patches struct {
	layers, hidden, heads, patch, batch, image int
	eager                                      bool
}

// attention is self-attention with biases.
func (p patches) attention(n *net, name string, x tensor) tensor {
	b, s, h, a := p.batch, n.shape(x)[1], p.hidden, p.heads
	qkv := n.linear(name+".qkv", x, dense{out: 3 * h, bias: true})
	q, k, v := n.view(qkv, b, a, s, h/a), n.view(qkv, b, a, s, h/a), n.view(qkv, b, a, s, h/a)
	var y tensor
	if p.eager {
		y = n.matmul(name+".context", n.softmax(name+".softmax", n.matmul(name+".scores", q, k, h/a, b, a, s, s)), v, s, b, a, s, h/a)
	} else {
		y = n.flashAttention(name+".attention", q, k, v, false)
	}
	return n.linear(name+".proj", n.view(y, b, s, h), dense{out: h, bias: true})
}

// mlp is the feed-forward part with an inner width of four times the hidden size.
func (p patches) mlp(n *net, name string, x tensor) tensor {
	x = n.gelu(name+".gelu", n.linear(name+".fc1", x, dense{out: 4 * p.hidden, bias: true}))
	return n.linear(name+".fc2", x, dense{out: p.hidden, bias: true})
}

// vit has learned positions of the 224-pixel grid, interpolated for other images, and a class token.
func (p patches) vit(n *net, classes int) {
	x := n.conv("patch", n.input(int(n.precision), p.batch, 3, p.image, p.image),
		convolution{out: p.hidden, kernel: p.patch, stride: p.patch, bias: true})
	if n.err != nil {
		return
	}
	side, grid := n.shape(x)[2], 224/p.patch
	x = n.positions("embed", x, (grid*grid+2)*p.hidden, p.batch, side*side+1, p.hidden)
	n.end(fullBlock, "embedding")
	for i := range p.layers {
		name := fmt.Sprintf("layers.%d", i)
		x = n.sum(name+".add1", p.attention(n, name+".attn", n.layerNorm(name+".ln1", x)), x)
		n.end(halfBlock, name+".attn")
		x = n.sum(name+".add2", p.mlp(n, name+".mlp", n.layerNorm(name+".ln2", x)), x)
		n.end(fullBlock, name)
	}
	x = n.view(n.layerNorm("ln", x), p.batch, p.hidden)
	n.crossEntropy("loss", n.linear("head", x, dense{out: classes, bias: true}))
	n.end(fullBlock, "head+loss")
}

// dit reads latents of an eighth of the image in four channels, with a diffusion step and a class. Every block
// computes scales, shifts and gates from their embedding.
func (p patches) dit(n *net, classes int) {
	latent := p.image / 8
	x := n.conv("x_embedder", n.input(int(n.precision), p.batch, 4, latent, latent),
		convolution{out: p.hidden, kernel: p.patch, stride: p.patch, bias: true})
	if n.err != nil {
		return
	}
	side := n.shape(x)[2]
	step := n.silu("t_embedder.silu", n.linear("t_embedder.0", n.constant(p.batch, 256), dense{out: p.hidden, bias: true}))
	step = n.linear("t_embedder.2", step, dense{out: p.hidden, bias: true})
	condition := n.sum("condition", step, n.embedding("y_embedder", n.constant(p.batch), classes+1, p.hidden, false))
	condition = n.silu("condition.silu", condition)
	n.carry(condition)
	x = n.positions("embed", x, 0, p.batch, side*side, p.hidden)
	n.end(fullBlock, "embedding")
	for i := range p.layers {
		name := fmt.Sprintf("blocks.%d", i)
		vectors := n.linear(name+".adaLN", condition, dense{out: 6 * p.hidden, bias: true})
		y := p.attention(n, name+".attn", n.modulate(name+".mod1", n.plainNorm(name+".norm1", x), vectors))
		x = n.sum(name+".add1", n.modulate(name+".gate1", y, vectors), x)
		y = p.mlp(n, name+".mlp", n.modulate(name+".mod2", n.plainNorm(name+".norm2", x), vectors))
		x = n.sum(name+".add2", n.modulate(name+".gate2", y, vectors), x)
		n.end(fullBlock, name)
	}
	vectors := n.linear("final.adaLN", condition, dense{out: 2 * p.hidden, bias: true})
	x = n.linear("final.linear", n.modulate("final.mod", n.plainNorm("final.norm", x), vectors), dense{out: 8 * p.patch * p.patch, bias: true})
	n.meanSquare("loss", x, n.constant(n.shape(x)...))
	n.end(fullBlock, "head+loss")
}

// plainNorm is layerNorm without parameters.
func (n *net) plainNorm(name string, x tensor) tensor {
	y := n.layerNorm(name, x)
	if n.err == nil {
		op := &n.operations[len(n.operations)-1]
		op.parameters, op.held = 0, 0
	}
	return y
}

// convNeXt is a network of Liu et al. 2022, as in torchvision: blocks and channels of its four stages.
type convNeXt struct{ blocks, channels [4]int }

func (c convNeXt) add(n *net, batch, image, classes int) {
	x := n.conv("stem.conv", n.input(int(n.precision), batch, 3, image, image),
		convolution{out: c.channels[0], kernel: 4, stride: 4, bias: true})
	x = n.channelNorm("stem.norm", x)
	for stage, blocks := range c.blocks {
		if stage > 0 {
			x = n.channelNorm(fmt.Sprintf("down%d.norm", stage), x)
			x = n.conv(fmt.Sprintf("down%d.conv", stage), x, convolution{out: c.channels[stage], kernel: 2, stride: 2, bias: true})
		}
		for b := range blocks {
			if n.err != nil {
				return
			}
			name, width := fmt.Sprintf("stage%d.%d", stage+1, b), c.channels[stage]
			y := n.conv(name+".dwconv", x, convolution{out: width, kernel: 7, stride: 1, padding: 3, groups: width, bias: true})
			s := n.shape(y)
			if n.err != nil {
				return
			}
			y = n.layerNorm(name+".norm", n.view(y, s[0], s[2]*s[3], s[1]))
			y = n.gelu(name+".gelu", n.linear(name+".pw1", y, dense{out: 4 * width, bias: true}))
			y = n.linear(name+".pw2", y, dense{out: width, bias: true})
			y = n.scaleChannels(name+".scale", n.view(y, s...), width)
			x = n.sum(name+".add", y, x)
			n.end(1, name)
		}
	}
	x = n.averagePool("avgpool", x, 1)
	x = n.layerNorm("norm", n.view(x, batch, c.channels[3]))
	n.crossEntropy("loss", n.linear("fc", x, dense{out: classes, bias: true}))
}

// channelNorm is layerNorm over the channels of images.
func (n *net) channelNorm(name string, x tensor) tensor {
	if n.err != nil {
		return x
	}
	s := n.shape(x)
	return n.view(n.layerNorm(name, n.view(x, s[0], s[2]*s[3], s[1])), s...)
}

// patched is the generator of a network of patches.
func patched(name, description, image string, layers, hidden, heads, patch int, build func(p patches, n *net, classes int)) generator {
	g := vision(name, description, image, []Param{granularity(), attentionKind()}, func(n *net, batch, image, classes int, v values) {
		build(patches{
			layers: layers, hidden: hidden, heads: heads, patch: patch, batch: batch, image: image,
			eager: v.words["attention"] == "eager",
		}, n, classes)
	})
	return modern(g)
}

// modern gives a network the cost parameters of current ones.
func modern(g generator) generator {
	costs := len(costParameters())
	g.Parameters = append(g.Parameters[:len(g.Parameters)-costs:len(g.Parameters)-costs], modernCosts()...)
	return g
}
