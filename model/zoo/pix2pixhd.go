package zoo

import "fmt"

// pix2pixHD is the global generator of Wang et al. (182,546,755 parameters) with their discriminators at two
// scales, as trained in [003]. The input is maps of 35 labels and an edge map; the output is an image of height ×
// 2·height, which the discriminators judge together with the input. Layers: 7×7 convolutions, four of stride 2,
// nine residual blocks of 1024 channels, four transposed ones of stride 2 and one 7×7, each but the last with an
// instance norm. The output is cropped where the height is no multiple of 16. The loss is the mean square of each
// discriminator's outputs. Their pass over the real image, their feature loss, and that of a VGG are omitted.
func pix2pixHD(n *net, batch, height int) {
	const maps = 36
	labels := n.input(int(n.precision), batch, maps, height, 2*height)
	unit := func(name string, x tensor, out, kernel, stride int) tensor {
		c := convolution{out: out, kernel: kernel, stride: stride, bias: true, padding: kernel / 2}
		if name != "first" && stride == 1 { // reflection padding is an operation of its own; that of the labels needs no backward
			x, c.padding = n.frame(name+".pad", x, kernel/2), 0
		}
		return n.instanceNorm(name+".norm", n.conv(name, x, c))
	}
	x := n.relu("first.relu", unit("first", labels, 64, 7, 1))
	for i := range 4 {
		name := fmt.Sprintf("down%d", i+1)
		x = n.relu(name+".relu", unit(name, x, 128<<i, 3, 2))
	}
	for b := range 9 {
		name := fmt.Sprintf("block%d", b+1)
		y := n.relu(name+".relu", unit(name+".conv1", x, 1024, 3, 1))
		x = n.sum(name+".add", unit(name+".conv2", y, 1024, 3, 1), x)
	}
	for i := range 4 {
		name := fmt.Sprintf("up%d", i+1)
		x = n.relu(name+".relu", n.instanceNorm(name+".norm", n.convDouble(name, x, 512>>i)))
	}
	x = n.conv("last", n.frame("last.pad", x, 3), convolution{out: 3, kernel: 7, stride: 1, bias: true})
	x = n.concat("pair", labels, n.view(n.tanh("image", x), batch, 3, height, 2*height))
	one := n.discriminator("judge1", x)
	two := n.discriminator("judge2", n.averageWindow("pair.half", x, 3, 2, 1))
	n.weightedSum("loss", one, two)
	n.end(1, "judges+loss")
}

// discriminator judges patches of an image: 4×4 convolutions, of stride 2, 2, 2,
// 1 and 1.
func (n *net) discriminator(name string, x tensor) tensor {
	for i, out := range []int{64, 128, 256, 512, 1} {
		layer := fmt.Sprintf("%s.%d", name, i)
		c := convolution{out: out, kernel: 4, stride: 2, padding: 2, bias: true}
		if i >= 3 {
			c.stride = 1
		}
		x = n.conv(layer, x, c)
		if i > 0 && i < 4 {
			x = n.instanceNorm(layer+".norm", x)
		}
		if i < 4 {
			x = n.relu(layer+".relu", x) // leaky, at the same cost
		}
	}
	return n.meanSquare(name+".loss", x, n.constant(n.shape(x)...))
}

// frame pads an image by the given number of rows and columns on each side.
func (n *net) frame(name string, x tensor, width int) tensor {
	s := n.shape(x)
	if n.err != nil {
		return x
	}
	return n.pad(name, x, s[2]+2*width, s[3]+2*width)
}

// instanceNorm normalizes each channel of each image, without parameters. It
// saves its input and, in single precision, mean and inverse deviation.
func (n *net) instanceNorm(name string, x tensor) tensor {
	s := n.shape(x)
	if n.err != nil {
		return x
	}
	size := n.bytes(x)
	y := n.add(operation{
		kind: "instance-norm", name: name, in: []tensor{x},
		forward:  work{5 * n.elements(x), 3 * size, 2},
		backward: work{8 * n.elements(x), 5 * size, 2},
	}, s...)
	n.save(2*4*float64(s[0]*s[1]), x)
	return y
}

// convDouble is the transposed 3×3 convolution of stride 2 with bias that doubles
// an image. It saves its input.
func (n *net) convDouble(name string, x tensor, out int) tensor {
	s := n.shape(x)
	if n.err != nil {
		return x
	}
	perInput := float64(out * 9)
	parameters := float64(s[1])*perInput + float64(out)
	shape := []int{s[0], out, 2 * s[2], 2 * s[3]}
	op := operation{kind: "transposed-conv", name: name, in: []tensor{x}, parameters: parameters}
	op.forward, op.backward = product(n.elements(x)*perInput, n.bytes(x)+(count(shape)+parameters)*float64(n.precision), 1+n.hasGradient(x))
	y := n.add(op, shape...)
	n.save(0, x)
	return y
}
