package zoo

import "fmt"

// mobilenet is MobileNet of Howard et al. at full width: a convolution, then
// thirteen pairs of a depthwise 3×3 and a 1×1 convolution.
func mobilenet(n *net, batch, image, classes int) {
	x := n.input(int(n.precision), batch, 3, image, image)
	x = n.conv("conv0", x, convolution{out: 32, kernel: 3, stride: 2, padding: 1})
	x = n.relu("relu0", n.batchNorm("bn0", x))
	for i, b := range []struct{ out, stride int }{
		{64, 1},
		{128, 2},
		{128, 1},
		{256, 2},
		{256, 1},
		{512, 2},
		{512, 1},
		{512, 1},
		{512, 1},
		{512, 1},
		{512, 1},
		{1024, 2},
		{1024, 1},
	} {
		if n.err != nil {
			return
		}
		name, in := fmt.Sprintf("block%d", i+1), n.shape(x)[1]
		x = n.conv(name+".depthwise", x, convolution{out: in, kernel: 3, stride: b.stride, padding: 1, groups: in})
		x = n.relu(name+".relu1", n.batchNorm(name+".bn1", x))
		x = n.conv(name+".pointwise", x, convolution{out: b.out, kernel: 1, stride: 1})
		x = n.relu(name+".relu2", n.batchNorm(name+".bn2", x))
	}
	x = n.averagePool("avgpool", x, 1)
	x = n.view(x, batch, 1024)
	x = n.linear("fc", x, dense{out: classes, bias: true})
	n.crossEntropy("loss", x)
}
