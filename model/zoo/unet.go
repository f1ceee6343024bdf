package zoo

import "fmt"

// unet is U-Net of Ronneberger et al. in the padded form of the common Keras implementation (zhixuhao/unet:
// 31,031,685 parameters with one channel in and one map out). It has pairs of 3×3 convolutions, four downward
// steps by max-pools and four upward ones by transposed 2×2 convolutions (there: repeated pixels and a 2×2
// convolution, with as many parameters). The tensors of the downward path are concatenated on the upward path, and
// there is a loss at every pixel. Where a size is odd, the upward tensor lacks a row and a column and is padded,
// as in other implementations.
func unet(n *net, batch, image, channels, classes int) {
	const stages = 5
	pair := func(name string, x tensor, out int) tensor {
		for i := range 2 {
			unit := fmt.Sprintf("%s.conv%d", name, i+1)
			x = n.relu(unit+".relu", n.conv(unit, x, convolution{out: out, kernel: 3, stride: 1, padding: 1, bias: true}))
		}
		return x
	}
	x := n.input(int(n.precision), batch, channels, image, image)
	var down [stages]tensor
	for i := range stages {
		name := fmt.Sprintf("down%d", i+1)
		x = pair(name, x, 64<<i)
		if i >= stages-2 {
			x = n.dropout(name+".drop", x)
		}
		down[i] = x
		if i < stages-1 {
			x = n.maxPool(name+".pool", x, 2, 2, 0)
		}
	}
	for i := stages - 2; i >= 0 && n.err == nil; i-- {
		name := fmt.Sprintf("up%d", i+1)
		x = n.relu(name+".up.relu", n.convTranspose(name+".up", x, 64<<i, 2, 2))
		if s := n.shape(down[i]); n.err == nil && s[2] != n.shape(x)[2] {
			x = n.pad(name+".pad", x, s[2], s[3])
		}
		x = pair(name, n.concat(name+".concat", down[i], x), 64<<i)
	}
	x = n.relu("head.relu", n.conv("head", x, convolution{out: 2, kernel: 3, stride: 1, padding: 1, bias: true}))
	x = n.conv("maps", x, convolution{out: classes, kernel: 1, stride: 1, bias: true})
	n.binaryCrossEntropy("loss", x)
}
