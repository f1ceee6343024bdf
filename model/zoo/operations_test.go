package zoo

import (
	"slices"
	"strings"
	"testing"
)

// what an operation costs and keeps, on a 2×8×6×6 image or a 2×5×8 text in
// single precision.
type cost struct {
	shape      []int
	parameters float64
	flops      float64 // of the forward
	// saved lists what is kept besides tensors of the graph, and kept which of
	// those are: x the input, y the output.
	saved float64
	kept  string
}

func TestOperations(t *testing.T) {
	const image, text = 2 * 8 * 6 * 6, 2 * 5 * 8
	for _, x := range []struct {
		name  string
		input []int
		add   func(n *net, x tensor) tensor
		want  cost
	}{
		{"convolution", []int{2, 8, 6, 6}, func(n *net, x tensor) tensor {
			return n.conv("c", x, convolution{out: 16, kernel: 3, stride: 2, padding: 1, bias: true})
		}, cost{[]int{2, 16, 3, 3}, 16*8*9 + 16, 2 * (2 * 16 * 9) * (8 * 9), 0, "x"}},
		{"grouped convolution", []int{2, 8, 6, 6}, func(n *net, x tensor) tensor {
			return n.conv("c", x, convolution{out: 8, kernel: 3, stride: 1, padding: 1, groups: 8})
		}, cost{[]int{2, 8, 6, 6}, 8 * 9, 2 * image * 9, 0, "x"}},
		{"transposed convolution", []int{2, 8, 6, 6}, func(n *net, x tensor) tensor {
			return n.convTranspose("c", x, 4, 2, 2)
		}, cost{[]int{2, 4, 12, 12}, 8*4*4 + 4, 2 * image * 16, 0, "x"}},
		{"convolution of seven columns", []int{2, 8, 6, 6}, func(n *net, x tensor) tensor {
			return n.conv("c", x, convolution{out: 4, kernel: 7, stride: 1, padding: 3, axes: wide})
		}, cost{[]int{2, 4, 6, 6}, 4 * 8 * 7, 2 * (2 * 4 * 36) * (8 * 7), 0, "x"}},
		{"convolution of seven rows", []int{2, 8, 9, 6}, func(n *net, x tensor) tensor {
			return n.conv("c", x, convolution{out: 4, kernel: 7, stride: 1, axes: high})
		}, cost{[]int{2, 4, 3, 6}, 4 * 8 * 7, 2 * (2 * 4 * 18) * (8 * 7), 0, "x"}},
		{"convolution with another's weights", []int{2, 8, 6, 6}, func(n *net, x tensor) tensor {
			return n.conv("c", x, convolution{out: 8, kernel: 1, stride: 1, shared: true})
		}, cost{[]int{2, 8, 6, 6}, 0, 2 * image * 8, 0, "x"}},
		{
			"batch-norm",
			[]int{2, 8, 6, 6},
			func(n *net, x tensor) tensor { return n.batchNorm("b", x) },
			cost{[]int{2, 8, 6, 6}, 16, 5 * image, 2 * 4 * 8, "x"},
		},
		{
			"relu",
			[]int{2, 8, 6, 6},
			func(n *net, x tensor) tensor { return n.relu("r", x) },
			cost{[]int{2, 8, 6, 6}, 0, image, 0, "xy"},
		}, // in place: input and output are one
		{
			"max-pool",
			[]int{2, 8, 6, 6},
			func(n *net, x tensor) tensor { return n.maxPool("m", x, 3, 2, 1) },
			cost{[]int{2, 8, 3, 3}, 0, 144 * 9, 144 * 8, "x"},
		},
		{
			"average-pool",
			[]int{2, 8, 6, 6},
			func(n *net, x tensor) tensor { return n.averagePool("a", x, 2) },
			cost{[]int{2, 8, 2, 2}, 0, image, 0, "x"},
		},
		{
			"average-pool with a window",
			[]int{2, 8, 6, 6},
			func(n *net, x tensor) tensor { return n.averageWindow("a", x, 3, 1, 1) },
			cost{[]int{2, 8, 6, 6}, 0, image * 9, 0, "x"},
		},
		{
			"average-pool with a stride",
			[]int{2, 8, 7, 7},
			func(n *net, x tensor) tensor { return n.averageWindow("a", x, 5, 3, 0) },
			cost{[]int{2, 8, 1, 1}, 0, 2 * 8 * 25, 0, "x"},
		},
		{
			"concat",
			[]int{2, 8, 6, 6},
			func(n *net, x tensor) tensor { return n.concat("c", x, n.constant(2, 3, 6, 6), x) },
			cost{[]int{2, 19, 6, 6}, 0, 0, 0, ""},
		},
		{
			"pad",
			[]int{2, 8, 6, 6},
			func(n *net, x tensor) tensor { return n.pad("p", x, 7, 8) },
			cost{[]int{2, 8, 7, 8}, 0, 0, 0, ""},
		},
		{
			"mean over everything",
			[]int{2, 8, 6, 6},
			func(n *net, x tensor) tensor { return n.averagePool("a", x, 1) },
			cost{[]int{2, 8, 1, 1}, 0, image, 0, ""},
		},
		{
			"linear",
			[]int{2, 5, 8},
			func(n *net, x tensor) tensor { return n.linear("l", x, dense{out: 3, bias: true}) },
			cost{[]int{2, 5, 3}, 8*3 + 3, 2 * 10 * 8 * 3, 0, "x"},
		},
		{
			"tied linear",
			[]int{2, 5, 8},
			func(n *net, x tensor) tensor { return n.linear("l", x, dense{out: 3, bias: true, tied: true}) },
			cost{[]int{2, 5, 3}, 3, 2 * 10 * 8 * 3, 0, "x"},
		},
		{
			"matmul",
			[]int{2, 5, 8},
			func(n *net, x tensor) tensor { return n.matmul("m", x, x, 8, 2, 5, 5) },
			cost{[]int{2, 5, 5}, 0, 2 * 50 * 8, 0, "x"},
		},
		{
			"softmax",
			[]int{2, 5, 8},
			func(n *net, x tensor) tensor { return n.softmax("s", x) },
			cost{[]int{2, 5, 8}, 0, 5 * text, 0, "xy"},
		},
		{
			"dropout",
			[]int{2, 5, 8},
			func(n *net, x tensor) tensor { return n.dropout("d", x) },
			cost{[]int{2, 5, 8}, 0, 2 * text, text, ""},
		},
		{
			"layer-norm",
			[]int{2, 5, 8},
			func(n *net, x tensor) tensor { return n.layerNorm("n", x) },
			cost{[]int{2, 5, 8}, 16, 8 * text, 2 * 4 * 10, "x"},
		},
		{
			"gelu",
			[]int{2, 5, 8},
			func(n *net, x tensor) tensor { return n.gelu("g", x) },
			cost{[]int{2, 5, 8}, 0, 8 * text, 0, "x"},
		},
		{
			"tanh",
			[]int{2, 5, 8},
			func(n *net, x tensor) tensor { return n.tanh("t", x) },
			cost{[]int{2, 5, 8}, 0, 8 * text, 0, "y"},
		},
		{
			"sum",
			[]int{2, 5, 8},
			func(n *net, x tensor) tensor { return n.sum("s", x, n.constant(2, 5, 8)) },
			cost{[]int{2, 5, 8}, 0, text, 0, ""},
		},
		{
			"broadcast",
			[]int{2, 5, 8},
			func(n *net, x tensor) tensor { return n.broadcast("b", x, n.constant(5, 8)) },
			cost{[]int{2, 5, 8}, 0, text, 0, ""},
		},
		{
			"embedding",
			[]int{2, 5},
			func(n *net, x tensor) tensor { return n.embedding("e", x, 100, 8, false) },
			cost{[]int{2, 5, 8}, 800, 0, 0, "x"},
		},
		{
			"cross-entropy",
			[]int{10, 8},
			func(n *net, x tensor) tensor { return n.crossEntropy("c", x) },
			cost{[]int{1}, 0, 6 * text, 4*text + 8*10, ""},
		},
		{
			"binary cross-entropy",
			[]int{2, 5, 8},
			func(n *net, x tensor) tensor { return n.binaryCrossEntropy("c", x) },
			cost{[]int{1}, 0, 12 * text, 4 * text, "x"},
		},
		{
			"mean square",
			[]int{2, 5, 8},
			func(n *net, x tensor) tensor { return n.meanSquare("m", x, n.constant(2, 5, 8)) },
			cost{[]int{1}, 0, 3 * text, 0, "x"},
		},
		{
			"triplet", // differences, and the length of each
			[]int{2, 5, 8},
			func(n *net, x tensor) tensor { return n.triplet("t", x, n.constant(2, 5, 8), n.constant(2, 5, 8)) },
			cost{[]int{1}, 0, 6 * text, 2*4*text + 2*4*2, ""},
		},
		{
			"sum of losses",
			[]int{1},
			func(n *net, x tensor) tensor { return n.weightedSum("s", x, n.constant(1)) },
			cost{[]int{1}, 0, 2, 0, ""},
		},
		{
			"lstm", // state 2×5×8, vectors of 3; products, then gates
			[]int{2, 5, 8},
			func(n *net, x tensor) tensor { return n.lstm("l", x, n.data(5, 3), false) },
			cost{[]int{2, 5, 8}, 4*8*(3+8) + 8*8, 2*5*4*8*(3+8) + 8*5*4*8, 3 * 4 * 5 * 4 * 8, "xy"},
		},
		{
			"lstm with another's weights",
			[]int{2, 5, 8},
			func(n *net, x tensor) tensor { return n.lstm("l", x, n.data(5, 3), true) },
			cost{[]int{2, 5, 8}, 0, 2*5*4*8*(3+8) + 8*5*4*8, 3 * 4 * 5 * 4 * 8, "xy"},
		},
	} {
		t.Run(x.name, func(t *testing.T) {
			n := &net{precision: single}
			in := n.input(4, x.input...)
			out := x.add(n, in)
			if n.err != nil {
				t.Fatal(n.err)
			}
			op := n.operations[len(n.operations)-1]
			got := cost{shape: n.shape(out), parameters: op.parameters, flops: op.forward.flops}
			for _, s := range op.saved {
				is := ""
				if s == n.tensors[in].storage {
					is += "x"
				}
				if s == n.tensors[out].storage {
					is += "y"
				}
				if is == "" {
					got.saved += n.storages[s]
				} else if !strings.Contains(got.kept, is) {
					got.kept += is
				}
			}
			if !slices.Equal(got.shape, x.want.shape) || got.parameters != x.want.parameters || got.flops != x.want.flops ||
				got.saved != x.want.saved || got.kept != x.want.kept {
				t.Errorf("got %+v, want %+v", got, x.want)
			}
			if op.forward.bytes <= 0 || op.forward.kernels <= 0 {
				t.Errorf("the forward moves nothing: %+v", op.forward)
			}
		})
	}
}

// What PyTorch's autograd keeps of a whole forward and loss, counted with
// torch.autograd.graph.saved_tensors_hooks (each storage once, without
// parameters, buffers and indices of 0 dimensions; PyTorch 1.13, torchvision
// 0.14 where it has the network, else the same layers written down; two
// images). Three things of its processor version are taken out: masks of
// dropout are floats there (bytes on a GPU), cross-entropy keeps a sum of
// weights of four bytes, and a mean over everything keeps its input (before
// PyTorch 2).
func TestSavedAsInPyTorch(t *testing.T) {
	const sum = 4
	masks := func(elements float64) float64 { return 3 * elements }
	for spec, want := range map[string]float64{
		"vgg16":     146_718_548 - sum - masks(2*2*4096),
		"vgg19":     157_155_156 - sum - masks(2*2*4096),
		"resnet18":  44_406_100 - sum,
		"resnet34":  64_506_196 - sum,
		"resnet50":  172_039_508 - sum,
		"resnet101": 254_135_636 - sum,
		"resnet152": 355_474_772 - sum,
		"resnet200": 497_640_788 - sum,
		"resnet1001?width=16&image=32&classes=10": 307_004_388 - sum,
		"densenet121":        261_065_300 - sum,
		"densenet161":        486_433_492 - sum,
		"densenet169":        315_258_452 - sum,
		"densenet201":        406_863_444 - sum,
		"inception":          197_555_628 - sum - masks(2*2048) - 2*2048*8*8*4,
		"inception?aux=true": 197_794_040 - 2*sum - masks(2*2048) - 2*2048*8*8*4 + 2*8 - 8, // targets of both losses, the factor of one
		"mobilenet":          81_990_996 - sum,
		"unet":               502_267_904, // written with masks of bytes
	} {
		name, p, err := Parse(Scheme + spec)
		if err != nil {
			t.Fatal(err)
		}
		p["batch"] = "2"
		g, v, err := find(name, p, FormGraph)
		if err != nil {
			t.Fatal(err)
		}
		n, _, err := g.net(v)
		if err != nil {
			t.Fatal(err)
		}
		kept, total := map[int]bool{}, 0.0
		for _, op := range n.operations {
			for _, s := range op.saved {
				if !kept[s] {
					kept[s] = true
					total += n.storages[s]
				}
			}
		}
		if total != want {
			t.Errorf("%s keeps %.0f bytes, PyTorch %.0f", spec, total, want)
		}
	}
}

// Korthikanti et al., "Reducing Activation Recomputation in Large Transformer
// Models" (2022), (1): a transformer layer in half precision keeps
// s·b·h·(34 + 5·a·s/h) bytes, statistics of normalizations neglected.
func TestTransformerKeepsWhatIsPublished(t *testing.T) {
	const layers, s, b, h, a = 3, 64, 2, 256, 4
	c := load(t, "zoo:gpt2?layers=3&hidden=256&heads=4&seq=64&batch=2&dtype=fp16")
	want := float64(34*s*b*h + 5*a*s*s*b)
	statistics := float64(2 * 2 * 4 * s * b)
	for i := 1; i <= layers; i++ {
		// The input of a layer is kept by the one before, and each keeps its
		// output, of the same size.
		if got := c.Layers[i].Saved; got != want+statistics {
			t.Errorf("layer %d keeps %v bytes, want %v + %v", i, got, want, statistics)
		}
	}
}

// The backward of a product is two products, of the first layer one: nobody
// asks for the gradient of the data.
func TestBackwardOfProducts(t *testing.T) {
	n := &net{precision: single}
	x := n.input(4, 1, 3, 8, 8)
	x = n.conv("first", x, convolution{out: 4, kernel: 3, stride: 1, padding: 1})
	n.conv("second", x, convolution{out: 4, kernel: 3, stride: 1, padding: 1})
	for i, products := range []float64{1, 2} {
		op := n.operations[i]
		update := 2 * op.parameters
		if got := op.backward.flops; got != products*op.forward.flops+update {
			t.Errorf("%s: backward %v, forward %v", op.name, got, op.forward.flops)
		}
	}
}

// conv → batch-norm → relu → conv, by hand: the first convolution's output is
// kept for the normalization, the normalization's for relu and the second
// convolution; relu overwrites, so there is no cut before it.
func TestLayers(t *testing.T) {
	n := &net{precision: single}
	x := n.input(4, 1, 2, 4, 4)
	x = n.conv("conv1", x, convolution{out: 3, kernel: 1, stride: 1})
	x = n.relu("relu", n.batchNorm("bn", x))
	n.conv("conv2", x, convolution{out: 5, kernel: 1, stride: 1})
	c, err := n.chain(how{device: Device{Single: 1, Half: 1, Bandwidth: 1e30, SingleEfficiency: 1, BandwidthEfficiency: 1}, optimizer: 1})
	if err != nil {
		t.Fatal(err)
	}
	type row struct {
		name                             string
		forward, activation, saved, mass float64
	}
	want := []row{
		{"conv1", 2 * 48 * 2, 4 * 48, 4 * 48, 4 * 6},
		{"bn", 5*48 + 48, 4 * 48, 4*48 + 2*4*3, 4 * 6},
		{"conv2", 2 * 80 * 3, 4 * 80, 4 * 80, 4 * 15},
	}
	for i, l := range c.Layers {
		got := row{l.Name, l.ForwardTime, l.Activation, l.Saved, l.Weight}
		if i >= len(want) || got != want[i] {
			t.Errorf("layer %d is %+v, want %+v", i, got, want)
		}
		if l.ForwardOverhead != 0 || l.BackwardOverhead != 0 {
			t.Errorf("layer %d needs %v and %v besides", i, l.ForwardOverhead, l.BackwardOverhead)
		}
	}
	if len(c.Layers) != 3 || c.Input.Activation != 4*32 {
		t.Errorf("%d layers, input %v", len(c.Layers), c.Input.Activation)
	}
}

// One layer of linear (x → p), gelu (p → q), dropout (q → r), linear (r → y)
// with 10 numbers each. Forward: q is not kept and goes when r is there.
// Backward: r's and q's gradients live together, then q's and p's.
func TestOverheads(t *testing.T) {
	n := &net{precision: single}
	x := n.input(4, 1, 10)
	x = n.linear("first", x, dense{out: 10})
	x = n.linear("a", x, dense{out: 10})
	x = n.dropout("c", n.gelu("b", x))
	n.linear("d", x, dense{out: 10})
	n.end(1, "block")
	n.operations[0].level = 1
	c, err := n.chain(how{device: Devices()[0], level: 1, optimizer: 1})
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Layers) != 2 {
		t.Fatalf("%d layers", len(c.Layers))
	}
	l := c.Layers[1]
	// Kept: p for gelu, the mask, r for the second linear, y.
	if l.Saved != 4*10+10+4*10+4*10 || l.ForwardOverhead != 4*10 || l.BackwardOverhead != 2*4*10 {
		t.Errorf("%+v", l)
	}
}

func TestTooSmall(t *testing.T) {
	for name, add := range map[string]func(n *net, x tensor) tensor{
		"convolution": func(n *net, x tensor) tensor { return n.conv("c", x, convolution{out: 1, kernel: 5, stride: 1}) },
		"max-pool":    func(n *net, x tensor) tensor { return n.maxPool("m", x, 5, 1, 0) },
		"view":        func(n *net, x tensor) tensor { return n.view(x, 100) },
		"average":     func(n *net, x tensor) tensor { return n.averageWindow("a", x, 5, 3, 0) },
		"concat":      func(n *net, x tensor) tensor { return n.concat("c", x, n.constant(1, 1, 4, 3)) },
		"seven rows": func(n *net, x tensor) tensor {
			return n.conv("c", x, convolution{out: 1, kernel: 7, stride: 1, axes: high})
		},
	} {
		n := &net{precision: single}
		x := add(n, n.input(4, 1, 1, 4, 4))
		n.relu("after", x)
		if _, err := n.chain(how{device: Devices()[0], optimizer: 1}); err == nil {
			t.Errorf("%s of a 4×4 image succeeds", name)
		}
	}
}

// The roofline: the longer of arithmetic and traffic, and the launches.
func TestDeviceTime(t *testing.T) {
	d := Device{Single: 100, Half: 1000, Bandwidth: 10, SingleEfficiency: 0.5, HalfEfficiency: 0.1, BandwidthEfficiency: 0.5, Launch: 3}
	for _, x := range []struct {
		w    work
		p    precision
		want float64
	}{
		{work{500, 5, 1}, single, 10 + 3},
		{work{500, 5, 1}, half, 5 + 3},
		{work{500, 500, 2}, single, 100 + 6},
		{work{}, single, 0},
	} {
		if got := d.time(x.w, x.p); got != x.want {
			t.Errorf("%+v takes %v, want %v", x.w, got, x.want)
		}
	}
	if _, err := DeviceNamed("V101-16GB"); err == nil {
		t.Error("V101 is a device")
	}
}
