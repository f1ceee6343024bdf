package zoo

import "fmt"

// vgg is the number of 3×3 convolutions in each of the five stages of a network of Simonyan and Zisserman, as in
// torchvision: convolutions with bias, max-pools, three linear layers.
type vgg [5]int

func (g vgg) add(n *net, batch, image, classes int) {
	x := n.input(int(n.precision), batch, 3, image, image)
	index := 0
	for stage, channels := range [5]int{64, 128, 256, 512, 512} {
		for range g[stage] {
			x = n.conv(fmt.Sprintf("features.%d", index), x, convolution{out: channels, kernel: 3, stride: 1, padding: 1, bias: true})
			x = n.relu(fmt.Sprintf("features.%d", index+1), x)
			index += 2
		}
		x = n.maxPool(fmt.Sprintf("features.%d", index), x, 2, 2, 0)
		index++
	}
	x = n.averagePool("avgpool", x, 7)
	x = n.view(x, batch, 512*7*7)
	for i := range 2 {
		x = n.linear(fmt.Sprintf("classifier.%d", 3*i), x, dense{out: 4096, bias: true})
		x = n.relu(fmt.Sprintf("classifier.%d", 3*i+1), x)
		x = n.dropout(fmt.Sprintf("classifier.%d", 3*i+2), x)
	}
	x = n.linear("classifier.6", x, dense{out: classes, bias: true})
	n.crossEntropy("loss", x)
}

// residual describes a ResNet of He et al., as in torchvision: blocks per stage, and whether they are bottlenecks
// (1×1, 3×3, 1×1 with four times the channels) or basic (two 3×3).
type residual struct {
	blocks     [4]int
	bottleneck bool
}

func (r residual) add(n *net, batch, image, classes int) {
	x := n.input(int(n.precision), batch, 3, image, image)
	x = n.conv("conv1", x, convolution{out: 64, kernel: 7, stride: 2, padding: 3})
	x = n.relu("relu", n.batchNorm("bn1", x))
	x = n.maxPool("maxpool", x, 3, 2, 1)
	for stage, blocks := range r.blocks {
		for b := range blocks {
			stride := 1
			if stage > 0 && b == 0 {
				stride = 2
			}
			x = r.block(n, fmt.Sprintf("layer%d.%d", stage+1, b), x, 64<<stage, stride)
		}
	}
	x = n.averagePool("avgpool", x, 1)
	s := n.shape(x)
	x = n.view(x, batch, s[1])
	x = n.linear("fc", x, dense{out: classes, bias: true})
	n.crossEntropy("loss", x)
}

// block adds one residual block; stride 2 or a change of channels puts a 1×1
// convolution on the shortcut.
func (r residual) block(n *net, name string, x tensor, channels, stride int) tensor {
	if n.err != nil {
		return x
	}
	out := channels
	y := x
	unit := func(k int, c convolution) tensor {
		y := n.conv(fmt.Sprintf("%s.conv%d", name, k), y, c)
		return n.batchNorm(fmt.Sprintf("%s.bn%d", name, k), y)
	}
	if r.bottleneck {
		out = 4 * channels
		y = n.relu(name+".relu1", unit(1, convolution{out: channels, kernel: 1, stride: 1}))
		y = n.relu(name+".relu2", unit(2, convolution{out: channels, kernel: 3, stride: stride, padding: 1}))
		y = unit(3, convolution{out: out, kernel: 1, stride: 1})
	} else {
		y = n.relu(name+".relu1", unit(1, convolution{out: channels, kernel: 3, stride: stride, padding: 1}))
		y = unit(2, convolution{out: channels, kernel: 3, stride: 1, padding: 1})
	}
	if stride != 1 || n.shape(x)[1] != out {
		x = n.conv(name+".downsample.0", x, convolution{out: out, kernel: 1, stride: stride})
		x = n.batchNorm(name+".downsample.1", x)
	}
	y = n.relu(name+".relu", n.sum(name+".add", y, x))
	n.end(1, name)
	return y
}
