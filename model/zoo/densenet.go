package zoo

import "fmt"

// densenet describes a DenseNet of Huang et al., as in torchvision: dense layers per block, channels that each
// adds, channels of the stem.
//
// A dense layer concatenates its input and the channels that it adds into a new tensor, as torchvision did until
// version 0.4 and as in [002], so that each of these tensors is a cut of the chain.
type densenet struct {
	blocks       [4]int
	growth, stem int
}

func (d densenet) add(n *net, batch, image, classes int) {
	x := n.input(int(n.precision), batch, 3, image, image)
	x = n.conv("conv0", x, convolution{out: d.stem, kernel: 7, stride: 2, padding: 3})
	x = n.relu("relu0", n.batchNorm("norm0", x))
	x = n.maxPool("pool0", x, 3, 2, 1)
	for i, layers := range d.blocks {
		for j := range layers {
			x = d.layer(n, fmt.Sprintf("denseblock%d.denselayer%d", i+1, j+1), x)
		}
		if i < 3 && n.err == nil {
			name := fmt.Sprintf("transition%d", i+1)
			half := n.shape(x)[1] / 2
			x = n.relu(name+".relu", n.batchNorm(name+".norm", x))
			x = n.conv(name+".conv", x, convolution{out: half, kernel: 1, stride: 1})
			x = n.averageWindow(name+".pool", x, 2, 2, 0)
		}
	}
	x = n.relu("relu5", n.batchNorm("norm5", x))
	x = n.averagePool("avgpool", x, 1)
	x = n.view(x, batch, n.shape(x)[1])
	x = n.linear("classifier", x, dense{out: classes, bias: true})
	n.crossEntropy("loss", x)
}

// layer adds one dense layer: a 1×1 convolution to four times the growth rate, then a 3×3 one.
func (d densenet) layer(n *net, name string, x tensor) tensor {
	if n.err != nil {
		return x
	}
	y := n.relu(name+".relu1", n.batchNorm(name+".norm1", x))
	y = n.conv(name+".conv1", y, convolution{out: 4 * d.growth, kernel: 1, stride: 1})
	y = n.relu(name+".relu2", n.batchNorm(name+".norm2", y))
	y = n.conv(name+".conv2", y, convolution{out: d.growth, kernel: 3, stride: 1, padding: 1})
	x = n.concat(name+".concat", x, y)
	n.end(1, name)
	return x
}
