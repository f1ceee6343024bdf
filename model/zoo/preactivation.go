package zoo

import "fmt"

// preactivation describes a ResNet of He et al., "Identity Mappings in Deep Residual Networks" (2016): bottleneck
// blocks per stage, each of which normalizes and rectifies before its convolutions, and a first width.
//
// With four stages it is for ImageNet, with the 7×7 stem and the max-pool of other ResNets. With three stages it
// is for CIFAR, with a 3×3 stem that keeps the size of the image.
type preactivation struct {
	blocks []int
	width  int
}

func (r preactivation) add(n *net, batch, image, classes int) {
	x := n.input(int(n.precision), batch, 3, image, image)
	small := len(r.blocks) == 3
	if small {
		x = n.conv("conv1", x, convolution{out: r.width, kernel: 3, stride: 1, padding: 1})
	} else {
		x = n.conv("conv1", x, convolution{out: r.width, kernel: 7, stride: 2, padding: 3})
		x = n.relu("relu1", n.batchNorm("bn1", x))
		x = n.maxPool("maxpool", x, 3, 2, 1)
	}
	for stage, blocks := range r.blocks {
		for b := range blocks {
			stride := 1
			if stage > 0 && b == 0 {
				stride = 2
			}
			active := stage == 0 && b == 0 && !small // normalized and rectified by the stem
			x = r.block(n, fmt.Sprintf("layer%d.%d", stage+1, b), x, r.width<<stage, stride, active)
		}
	}
	x = n.relu("relu", n.batchNorm("bn", x))
	x = n.averagePool("avgpool", x, 1)
	x = n.view(x, batch, n.shape(x)[1])
	x = n.linear("fc", x, dense{out: classes, bias: true})
	n.crossEntropy("loss", x)
}

// block adds one block. Where the shape changes, the shortcut is a 1×1 convolution of the normalized and rectified
// input; elsewhere it is the input itself. An active input is normalized and rectified already.
func (r preactivation) block(n *net, name string, x tensor, channels, stride int, active bool) tensor {
	if n.err != nil {
		return x
	}
	y := x
	if !active {
		y = n.relu(name+".relu1", n.batchNorm(name+".bn1", x))
	}
	if stride != 1 || n.shape(x)[1] != 4*channels {
		x = n.conv(name+".shortcut", y, convolution{out: 4 * channels, kernel: 1, stride: stride})
	}
	y = n.conv(name+".conv1", y, convolution{out: channels, kernel: 1, stride: 1})
	y = n.relu(name+".relu2", n.batchNorm(name+".bn2", y))
	y = n.conv(name+".conv2", y, convolution{out: channels, kernel: 3, stride: stride, padding: 1})
	y = n.relu(name+".relu3", n.batchNorm(name+".bn3", y))
	y = n.conv(name+".conv3", y, convolution{out: 4 * channels, kernel: 1, stride: 1})
	y = n.sum(name+".add", y, x)
	n.end(1, name)
	return y
}
