package zoo

import "fmt"

// deepLab is DeepLabv3+ of Chen et al. with a ResNet-101 and output stride 16, as trained in [003]. The last stage
// is dilated instead of strided. Spatial pyramid pooling has a 1×1 convolution, 3×3 ones at rates 6, 12 and 18,
// and the image's mean, 256 channels each. Its output, enlarged four times, is joined with the first stage's,
// reduced to 48 channels. Two 3×3 convolutions and a loss at every pixel of the enlarged maps follow. A dilated
// convolution has the shapes, the arithmetic and the memory of an undilated one.
func deepLab(n *net, batch, image, classes int) {
	x := n.input(int(n.precision), batch, 3, image, image)
	x = n.conv("conv1", x, convolution{out: 64, kernel: 7, stride: 2, padding: 3})
	x = n.relu("relu", n.batchNorm("bn1", x))
	x = n.maxPool("maxpool", x, 3, 2, 1)
	r := residual{[4]int{3, 4, 23, 3}, true}
	var low tensor
	for stage, blocks := range r.blocks {
		for b := range blocks {
			stride := 1
			if b == 0 && (stage == 1 || stage == 2) {
				stride = 2
			}
			x = r.block(n, fmt.Sprintf("layer%d.%d", stage+1, b), x, 64<<stage, stride)
		}
		if stage == 0 {
			low = x
		}
	}
	unit := func(name string, x tensor, out, kernel int) tensor {
		x = n.conv(name, x, convolution{out: out, kernel: kernel, stride: 1, padding: kernel / 2})
		return n.relu(name+".relu", n.batchNorm(name+".bn", x))
	}
	if n.err != nil {
		return
	}
	deep, shallow := n.shape(x), n.shape(low)
	branches := []tensor{unit("aspp.0", x, 256, 1)}
	for i := range 3 {
		branches = append(branches, unit(fmt.Sprintf("aspp.%d", i+1), x, 256, 3))
	}
	mean := unit("aspp.pool.conv", n.averagePool("aspp.pool", x, 1), 256, 1)
	branches = append(branches, n.upsample("aspp.pool.up", mean, deep[2], deep[3]))
	x = n.dropout("aspp.drop", unit("aspp.project", n.concat("aspp.concat", branches...), 256, 1))
	x = n.upsample("up", x, shallow[2], shallow[3])
	x = n.concat("concat", unit("low", low, 48, 1), x)
	x = unit("head.1", unit("head.0", x, 256, 3), 256, 3)
	x = n.conv("maps", x, convolution{out: classes, kernel: 1, stride: 1, bias: true})
	x = n.upsample("maps.up", x, image, image)
	n.crossEntropy("loss", n.view(x, batch*image*image, classes))
}

// upsample interpolates an image to another size, in a new tensor, and saves
// nothing.
func (n *net) upsample(name string, x tensor, height, width int) tensor {
	s := n.shape(x)
	if n.err != nil {
		return x
	}
	out := count([]int{s[0], s[1], height, width})
	moved := n.bytes(x) + out*float64(n.precision)
	return n.add(operation{
		kind: "upsample", name: name, in: []tensor{x},
		forward:  work{7 * out, moved, 1},
		backward: work{7 * out, moved, 1},
	}, s[0], s[1], height, width)
}
