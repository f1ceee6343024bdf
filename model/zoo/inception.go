package zoo

// inception is Inception v3 of Szegedy et al., as in torchvision: blocks of
// parallel branches whose channels are joined. The auxiliary head is a second
// classifier behind Mixed_6e, whose loss is added to that of the first.
type inception struct{ auxiliary bool }

// unit is a convolution followed by normalization and relu.
type unit struct {
	name string
	convolution
}

// one, same and half are units: 1×1; of a kernel that keeps the size of the
// image; 3×3 that halves it.
func one(name string, out int) unit {
	return unit{name, convolution{out: out, kernel: 1, stride: 1}}
}

func same(name string, out, kernel int, a axes) unit {
	return unit{name, convolution{out: out, kernel: kernel, stride: 1, padding: kernel / 2, axes: a}}
}

func half3x3(name string, out int) unit {
	return unit{name, convolution{out: out, kernel: 3, stride: 2}}
}

// units adds units one after the other.
func (n *net) units(prefix string, x tensor, units ...unit) tensor {
	for _, u := range units {
		if n.err != nil {
			break
		}
		name := prefix + u.name
		x = n.relu(name+".relu", n.batchNorm(name+".bn", n.conv(name+".conv", x, u.convolution)))
	}
	return x
}

func (c inception) add(n *net, batch, image, classes int) {
	x := n.input(int(n.precision), batch, 3, image, image)
	x = n.units("", x,
		half3x3("Conv2d_1a_3x3", 32),
		unit{"Conv2d_2a_3x3", convolution{out: 32, kernel: 3, stride: 1}},
		same("Conv2d_2b_3x3", 64, 3, square))
	x = n.maxPool("maxpool1", x, 3, 2, 0)
	x = n.units("", x,
		one("Conv2d_3b_1x1", 80),
		unit{"Conv2d_4a_3x3", convolution{out: 192, kernel: 3, stride: 1}})
	x = n.maxPool("maxpool2", x, 3, 2, 0)
	x = c.blockA(n, "Mixed_5b", x, 32)
	x = c.blockA(n, "Mixed_5c", x, 64)
	x = c.blockA(n, "Mixed_5d", x, 64)
	x = c.blockB(n, "Mixed_6a", x)
	x = c.blockC(n, "Mixed_6b", x, 128)
	x = c.blockC(n, "Mixed_6c", x, 160)
	x = c.blockC(n, "Mixed_6d", x, 160)
	x = c.blockC(n, "Mixed_6e", x, 192)
	var loss tensor
	if c.auxiliary {
		loss = c.head(n, x, batch, classes)
	}
	x = c.blockD(n, "Mixed_7a", x)
	x = c.blockE(n, "Mixed_7b", x)
	x = c.blockE(n, "Mixed_7c", x)
	x = n.averagePool("avgpool", x, 1)
	x = n.dropout("dropout", n.view(x, batch, 2048))
	x = n.linear("fc", x, dense{out: classes, bias: true})
	if c.auxiliary {
		n.weightedSum("loss", n.crossEntropy("fc.loss", x), loss)
	} else {
		n.crossEntropy("loss", x)
	}
}

// head is the auxiliary classifier with its loss.
func (inception) head(n *net, x tensor, batch, classes int) tensor {
	x = n.averageWindow("AuxLogits.pool", x, 5, 3, 0)
	x = n.units("AuxLogits.", x, one("conv0", 128), unit{"conv1", convolution{out: 768, kernel: 5, stride: 1}})
	x = n.averagePool("AuxLogits.avgpool", x, 1)
	x = n.linear("AuxLogits.fc", n.view(x, batch, 768), dense{out: classes, bias: true})
	return n.crossEntropy("AuxLogits.loss", x)
}

// join ends a block.
func (inception) join(n *net, name string, branches ...tensor) tensor {
	x := n.concat(name+".concat", branches...)
	n.end(1, name)
	return x
}

// pool is the branch of the blocks A, C and E that averages first.
func (inception) pool(n *net, name string, x tensor, out int) tensor {
	return n.units(name+".", n.averageWindow(name+".pool", x, 3, 1, 1), one("branch_pool", out))
}

func (c inception) blockA(n *net, name string, x tensor, pool int) tensor {
	p := name + "."
	return c.join(n, name,
		n.units(p, x, one("branch1x1", 64)),
		n.units(p, x, one("branch5x5_1", 48), same("branch5x5_2", 64, 5, square)),
		n.units(p, x, one("branch3x3dbl_1", 64), same("branch3x3dbl_2", 96, 3, square), same("branch3x3dbl_3", 96, 3, square)),
		c.pool(n, name, x, pool))
}

func (c inception) blockB(n *net, name string, x tensor) tensor {
	p := name + "."
	return c.join(n, name,
		n.units(p, x, half3x3("branch3x3", 384)),
		n.units(p, x, one("branch3x3dbl_1", 64), same("branch3x3dbl_2", 96, 3, square), half3x3("branch3x3dbl_3", 96)),
		n.maxPool(p+"pool", x, 3, 2, 0))
}

func (c inception) blockC(n *net, name string, x tensor, inner int) tensor {
	p := name + "."
	return c.join(n, name,
		n.units(p, x, one("branch1x1", 192)),
		n.units(p, x, one("branch7x7_1", inner), same("branch7x7_2", inner, 7, wide), same("branch7x7_3", 192, 7, high)),
		n.units(p, x, one("branch7x7dbl_1", inner),
			same("branch7x7dbl_2", inner, 7, high), same("branch7x7dbl_3", inner, 7, wide),
			same("branch7x7dbl_4", inner, 7, high), same("branch7x7dbl_5", 192, 7, wide)),
		c.pool(n, name, x, 192))
}

func (c inception) blockD(n *net, name string, x tensor) tensor {
	p := name + "."
	return c.join(n, name,
		n.units(p, x, one("branch3x3_1", 192), half3x3("branch3x3_2", 320)),
		n.units(p, x, one("branch7x7x3_1", 192), same("branch7x7x3_2", 192, 7, wide), same("branch7x7x3_3", 192, 7, high),
			half3x3("branch7x7x3_4", 192)),
		n.maxPool(p+"pool", x, 3, 2, 0))
}

func (c inception) blockE(n *net, name string, x tensor) tensor {
	p := name + "."
	split := func(name string, x tensor, a, b string) tensor {
		return n.concat(p+name+".concat", n.units(p, x, same(a, 384, 3, wide)), n.units(p, x, same(b, 384, 3, high)))
	}
	b1 := n.units(p, x, one("branch1x1", 320))
	b3 := n.units(p, x, one("branch3x3_1", 384))
	b3 = split("branch3x3", b3, "branch3x3_2a", "branch3x3_2b")
	d3 := n.units(p, x, one("branch3x3dbl_1", 448), same("branch3x3dbl_2", 384, 3, square))
	d3 = split("branch3x3dbl", d3, "branch3x3dbl_3a", "branch3x3dbl_3b")
	return c.join(n, name, b1, b3, d3, c.pool(n, name, x, 192))
}
