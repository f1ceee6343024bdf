package zoo

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"workbench/model/instance/chain"
	"workbench/model/instance/join"
)

func load(t *testing.T, spec string) *chain.Chain {
	t.Helper()
	c, err := Load(spec)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// What the layers keep, with the input, is within 2 % of what PyTorch's autograd was measured to keep.
func TestSavedBytes(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "saved.json"))
	if err != nil {
		t.Fatal(err)
	}
	var measured struct {
		Networks map[string]float64 `json:"networks"`
	}
	if err := json.Unmarshal(text, &measured); err != nil {
		t.Fatal(err)
	}
	for name, want := range measured.Networks {
		c := load(t, Scheme+name)
		got := c.Input.Activation
		for _, l := range c.Layers {
			got += l.Saved
		}
		if off := got/want - 1; math.Abs(off) > 0.02 {
			t.Errorf("%s keeps %.0f bytes, PyTorch %.0f: %+.2f %%", name, got, want, 100*off)
		} else {
			t.Logf("%s: %+.3f %%", name, 100*off)
		}
	}
	if len(measured.Networks) < 5 {
		t.Errorf("only %d networks", len(measured.Networks))
	}
}

// Published numbers: torchvision for the vision networks, Hugging Face
// Transformers for GPT-2, T5 and BERT (BertModel with pooler, BertForMaskedLM).
// DeepLabv3+ and Pix2PixHD are added up by hand from the layers that pix2pixHD
// and deepLab list, k²·in·out weights a convolution, out biases or 2·out of a
// norm: that the layers have these sizes, not that the papers' code has.
func TestParameters(t *testing.T) {
	for spec, want := range map[string]float64{
		"zoo:vgg16":               138_357_544,
		"zoo:vgg19":               143_667_240,
		"zoo:resnet18":            11_689_512,
		"zoo:resnet34":            21_797_672,
		"zoo:resnet50":            25_557_032,
		"zoo:resnet101":           44_549_160,
		"zoo:resnet152":           60_192_808,
		"zoo:densenet121":         7_978_856,
		"zoo:densenet161":         28_681_000,
		"zoo:densenet169":         14_149_480,
		"zoo:densenet201":         20_013_928,
		"zoo:inception":           23_834_568,
		"zoo:inception?aux=true":  27_161_264,
		"zoo:mobilenet":           4_231_976,
		"zoo:unet":                31_031_685,
		"zoo:gpt2":                124_439_808,
		"zoo:gpt2-medium":         354_823_168,
		"zoo:gpt2-large":          774_030_080,
		"zoo:gpt2-xl":             1_557_611_200,
		"zoo:llama3-8b":           8_030_261_248,
		"zoo:llama3-70b":          70_553_706_496,
		"zoo:mixtral-8x7b":        46_702_792_704,
		"zoo:vit-l16":             304_326_632,
		"zoo:convnext-tiny":       28_589_128,
		"zoo:convnext-base":       88_591_464,
		"zoo:dit-xl2":             675_129_632 - 256*1152, // without its fixed table of positions
		"zoo:bert":                109_482_240,
		"zoo:bert-large":          335_141_888,
		"zoo:bert?head=mlm":       109_514_298,
		"zoo:bert-large?head=mlm": 335_174_458,
		"zoo:t5":                  222_903_552,
		"zoo:t5-large":            737_668_096,
		"zoo:deeplabv3plus":       42_500_160 + 16_844_149,   // the ResNet-101 of torchvision without its head, and the rest
		"zoo:pix2pixhd":           182_546_755 + 2*2_801_601, // the generator and the discriminators at two scales
	} {
		c := load(t, spec)
		if got := c.Source["parameters"]; got != want {
			t.Errorf("%s has %v parameters, want %v", spec, got, want)
		}
		// Four bytes each, or two; a tied head holds the embedding's matrix again.
		var tied float64
		switch {
		case strings.HasPrefix(spec, "zoo:gpt2"):
			tied = 50257 * c.Source["hidden"].(float64)
		case strings.HasPrefix(spec, "zoo:t5"): // and the decoder's embedding
			tied = 2 * 32128 * c.Source["hidden"].(float64)
		case strings.Contains(spec, "mlm"):
			tied = 30522 * c.Source["hidden"].(float64)
		}
		size := map[any]float64{"fp32": 4, "bf16": 2}[c.Source["dtype"]]
		if got := c.Totals().Weight; got != size*(want+tied) {
			t.Errorf("%s weighs %v bytes, want %v · (%v + %v)", spec, got, size, want, tied)
		}
	}
}

// The ResNet-1001 of He et al., for CIFAR, has 10.2 M parameters by their
// table; the exact number is that of the same layers in PyTorch, as for
// ResNet-200.
func TestParametersOfIdentityMappings(t *testing.T) {
	for spec, want := range map[string]float64{
		"zoo:resnet1001?width=16&image=32&classes=10": 10_327_706,
		"zoo:resnet200": 64_666_152,
	} {
		if got := load(t, spec).Source["parameters"]; got != want {
			t.Errorf("%s has %v parameters, want %v", spec, got, want)
		}
	}
}

// [002] §5 estimates 225 GiB for storing everything of ResNet-1001 with eight
// images of 224×224, and 1.1 images a second on a V100.
func TestResNet1001IsThatOfThePaper(t *testing.T) {
	c := load(t, "zoo:resnet1001?batch=8")
	if saved := c.Totals().Saved / (1 << 30); math.Abs(saved/225-1) > 0.02 {
		t.Errorf("keeps %.1f GiB", saved)
	}
	if rate := 8 / c.TotalTime(); rate < 1 || rate > 1.6 {
		t.Errorf("%.2f images a second", rate)
	}
}

// Layers of the chains: what lies between two tensors that no other tensor
// jumps over. ResNet-1001 has 339 in [002], which counts the modules of a
// sequence: stem, 333 blocks, normalization, relu, pool, flattening, linear.
// Here relu works in place and flattening is a view, but the loss is a layer
// and so is the activation of the three blocks whose shortcut reads it.
func TestChainLengths(t *testing.T) {
	for spec, want := range map[string]int{
		"vgg16": 13 + 5 + 1 + 5 + 1, "vgg19": 16 + 5 + 1 + 5 + 1,
		"resnet18": 3 + 8 + 3, "resnet34": 3 + 16 + 3, "resnet50": 3 + 16 + 3, "resnet101": 3 + 33 + 3, "resnet152": 3 + 50 + 3,
		"resnet200": 3 + 66 + 3 + 4, "resnet1001": 1 + 333 + 3 + 4,
		"densenet121": 3 + 58 + 9 + 4, "densenet161": 3 + 78 + 9 + 4, "densenet169": 3 + 82 + 9 + 4, "densenet201": 3 + 98 + 9 + 4,
		"inception": 12 + 11 + 4, "inception?aux=true": 12 + 8 + 1, // from Mixed_6e on two branches
		"mobilenet": 27*2 + 3,
		"unet":      3 + 1 + 4, // up to the first tensor that is joined later; all until that; then head, maps, loss
		"rnn":       102, "rnn?seq=7": 9,
		"gpt2": 14, "gpt2-medium": 26, "gpt2-large": 38, "gpt2-xl": 50, "bert": 14, "bert-large": 26, "t5": 27, "t5-large": 51,
		"llama3-8b": 34, "llama3-8b?granularity=split": 66, "llama3-70b": 82, "mixtral-8x7b": 34, "gpt3-13b": 42, "vit-l16": 26, "dit-xl2": 30,
		// stem, blocks, three times norm and convolution, pool, norm, head, loss
		"convnext-tiny": 2 + 18 + 6 + 4, "convnext-base": 2 + 36 + 6 + 4,
		"table1-gpt2": 38, "table1-bert": 96,
	} {
		if got := load(t, Scheme+spec).Len(); got != want {
			t.Errorf("%s has %d layers, want %d", spec, got, want)
		}
	}
}

// The image sizes of [002] §5 work for every network that reads images, as
// chain and as graph; more pixels take longer and hold more, the weights stay.
func TestImageSizes(t *testing.T) {
	for _, e := range priced() {
		if e.join != nil || !slices.ContainsFunc(e.Parameters, func(p Param) bool { return p.Name == "image" }) {
			continue
		}
		var before chain.Totals
		for _, image := range []string{"224", "500", "1000"} {
			spec := Scheme + e.Name + "?batch=2&image=" + image
			c, g := load(t, spec), loadGraph(t, spec)
			if err := c.Validate(); err != nil {
				t.Errorf("%s: %v", spec, err)
			}
			if err := g.Validate(); err != nil {
				t.Errorf("%s: %v", spec, err)
			}
			now := c.Totals()
			if now.ForwardTime <= before.ForwardTime || now.BackwardTime <= before.BackwardTime || now.Saved <= before.Saved || before.Weight > 0 &&
				now.Weight != before.Weight {
				t.Errorf("%s: %+v after %+v", spec, now, before)
			}
			before = now
		}
	}
}

// Multiplications and additions of a forward pass per image at 224×224, in
// 10⁹ pairs, as torchvision publishes them (convolutions and linear layers).
func TestArithmetic(t *testing.T) {
	for name, x := range map[string]struct {
		build func(n *net, batch, image, classes int)
		want  float64
	}{
		"vgg16":     {vgg{2, 2, 3, 3, 3}.add, 15.47},
		"resnet18":  {residual{[4]int{2, 2, 2, 2}, false}.add, 1.81},
		"resnet50":  {residual{[4]int{3, 4, 6, 3}, true}.add, 4.09},
		"resnet101": {residual{[4]int{3, 4, 23, 3}, true}.add, 7.80},
	} {
		n := &net{precision: single}
		x.build(n, 1, 224, 1000)
		flops := 0.0
		for _, op := range n.operations {
			if op.kind == "conv" || op.kind == "linear" {
				flops += op.forward.flops
			}
		}
		if got := flops / 2e9; math.Abs(got-x.want) > 0.006 {
			t.Errorf("%s: %.3f·10⁹, published is %v", name, got, x.want)
		}
	}
}

// Every entry generates a valid chain that survives its file, with all
// defaults and on every device, in both precisions and with checkpointing.
func TestEntries(t *testing.T) {
	for _, e := range List() {
		if e.Forms[0] != FormChain {
			continue
		}
		specs := []string{Scheme + e.Name}
		if !strings.HasPrefix(e.Name, "table1") {
			specs = append(specs, Scheme+e.Name+"?dtype=fp16&checkpoint=true&batch=3&device=A100-80GB",
				Scheme+e.Name+"?batch=1&optimizer=3&device=T4")
		}
		for _, spec := range specs {
			c := load(t, spec)
			if err := c.Validate(); err != nil {
				t.Errorf("%s: %v", spec, err)
			}
			var b bytes.Buffer
			if err := c.Write(&b); err != nil {
				t.Fatal(err)
			}
			back, err := chain.Read(&b, spec)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(c, back); d != "" {
				t.Errorf("%s changes in its file:\n%s", spec, d)
			}
			for i := range c.Layers {
				if l := &c.Layers[i]; l.Name == "" || l.Activation <= 0 {
					t.Errorf("%s: layer %d is %+v", spec, i, *l)
				}
			}
			if last := c.Layers[c.Len()-1]; !strings.Contains(last.Name, "loss") || last.Activation != 4 && last.Activation != 2 {
				t.Errorf("%s: the last layer %+v is not the loss", spec, last)
			}
		}
		if e.Description == "" || len(e.Parameters) == 0 {
			t.Errorf("%s says nothing of itself", e.Name)
		}
		for _, p := range e.Parameters {
			if p.Name == "" || p.Default == "" || p.Description == "" {
				t.Errorf("%s: parameter %+v says nothing of itself", e.Name, p)
			}
		}
	}
}

// The default instance is near what [001] §7 says of its GPT-2: 0.161 s a
// layer, 431 MB (35.95 ms at 12 GB/s), about 20 MB kept.
func TestDefault(t *testing.T) {
	c := load(t, Default)
	if c.Len() != 38 || c.Samples != 16 || c.Name != "gpt2-l36-h3072-s128-b16" {
		t.Fatalf("%s has %d layers, batch %d", c.Name, c.Len(), c.Samples)
	}
	block := c.Layers[1]
	for _, x := range []struct {
		what               string
		got, paper, within float64
	}{
		{"time", block.ForwardTime + block.BackwardTime, 0.1613, 0.05},
		{"weight", block.Weight, 431.4e6, 0.06},
		{"activation", block.Activation, 20e6, 0.3},
	} {
		if math.Abs(x.got/x.paper-1) > x.within {
			t.Errorf("%s of a layer is %v, [001] has %v", x.what, x.got, x.paper)
		}
	}
	if r := block.BackwardTime / block.ForwardTime; math.Abs(r-3) > 0.05 {
		t.Errorf("backward is %.3f times forward; with recomputation it is about 3", r)
	}
	for i := 2; i < 37; i++ {
		if l := c.Layers[i]; l.ForwardTime != block.ForwardTime || l.Weight != block.Weight {
			t.Errorf("layer %d differs from layer 1", i)
		}
	}
}

// table is [001] Table 1: depth, batch, Σu and L2L in milliseconds.
var table = []struct {
	network      string
	depth, batch int
	compute, l2l float64
}{
	{"gpt2", 74, 64, 47421, 52707},
	{"gpt2", 56, 64, 35553, 39542},
	{"gpt2", 38, 64, 23694, 26387},
	{"gpt2", 74, 32, 23697, 28983},
	{"gpt2", 56, 32, 17762, 21751},
	{"gpt2", 38, 32, 11840, 14533},
	{"gpt2", 74, 16, 11612, 16898},
	{"gpt2", 56, 16, 8697, 12686},
	{"gpt2", 38, 16, 5794, 8487},
	{"bert", 144, 64, 34486, 38379},
	{"bert", 96, 64, 22965, 25577},
	{"bert", 144, 32, 17443, 21336},
	{"bert", 96, 32, 11617, 14230},
	{"bert", 144, 16, 9090, 12983},
	{"bert", 96, 16, 6058, 8670},
}

func TestTable1(t *testing.T) {
	for _, row := range table {
		c := load(t, fmt.Sprintf("zoo:table1-%s?depth=%d&batch=%d", row.network, row.depth, row.batch))
		if c.Len() != row.depth || c.Samples != row.batch {
			t.Fatalf("%+v: %d layers, batch %d", row, c.Len(), c.Samples)
		}
		compute := 1e3 * c.TotalTime()
		if math.Abs(compute/row.compute-1) > 0.01 {
			t.Errorf("%+v: Σu = %.0f ms", row, compute)
		}
		transfer := 1e3 * c.Layers[0].Weight / 12e9
		if l2l := compute + float64(2*row.depth-1)*transfer; math.Abs(l2l/row.l2l-1) > 0.005 {
			t.Errorf("%+v: Σu + (2L−1)·t_w = %.0f ms", row, l2l)
		}
		for i, l := range c.Layers {
			if l.Weight != c.Layers[0].Weight || math.Abs(l.BackwardTime-3*l.ForwardTime) > 1e-12 {
				t.Errorf("%+v: layer %d is %+v", row, i, l)
			}
			if want := 20e6 * float64(row.batch) / 16; l.Activation != want && i < row.depth-1 {
				t.Errorf("%+v: layer %d keeps %v, want %v", row, i, l.Activation, want)
			}
		}
		if note, _ := c.Source["how"].(string); c.Source["from"] != "[001] Table 1" || !strings.Contains(note, "backward = 3 · forward") {
			t.Errorf("%+v does not say where it is from: %v", row, c.Source)
		}
	}
}

// With a checkpoint a layer keeps its output only, runs its forward twice, and
// holds during the backward what it would have kept.
func TestCheckpoint(t *testing.T) {
	kept, dropped := load(t, "zoo:gpt2"), load(t, "zoo:gpt2?checkpoint=true")
	for i := range kept.Layers {
		k, d := kept.Layers[i], dropped.Layers[i]
		if d.Saved != d.Activation || d.Activation != k.Activation || d.ForwardTime != k.ForwardTime || d.Weight != k.Weight {
			t.Errorf("layer %d: %+v, without checkpoint %+v", i, d, k)
		}
		if want := k.BackwardTime + k.ForwardTime; d.BackwardTime != want {
			t.Errorf("layer %d: backward %v, want %v", i, d.BackwardTime, want)
		}
		if want := k.BackwardOverhead + k.Saved - k.Activation; d.BackwardOverhead != want {
			t.Errorf("layer %d: backward overhead %v, want %v", i, d.BackwardOverhead, want)
		}
		if d.ForwardOverhead < k.ForwardOverhead {
			t.Errorf("layer %d: forward overhead %v, without checkpoint %v", i, d.ForwardOverhead, k.ForwardOverhead)
		}
	}
}

// However a network is cut, times, weights and the tensors kept add up to the
// same: a tensor at a cut is kept by the layer on its left.
func TestGranularity(t *testing.T) {
	whole := load(t, "zoo:bert?layers=3")
	for granularity, layers := range map[string]int{"layer": 5, "split": 8, "op": 0} {
		c := load(t, "zoo:bert?layers=3&granularity="+granularity)
		if layers > 0 && c.Len() != layers || layers == 0 && c.Len() <= 8 {
			t.Errorf("%s: %d layers", granularity, c.Len())
		}
		a, b := c.Totals(), whole.Totals()
		for _, x := range [][2]float64{{a.ForwardTime, b.ForwardTime}, {a.BackwardTime, b.BackwardTime}, {a.Weight, b.Weight}} {
			if math.Abs(x[0]-x[1]) > 1e-9*x[1] {
				t.Errorf("%s: %+v, by layers %+v", granularity, a, b)
			}
		}
		// Cuts at tensors that no backward needs keep more, never less.
		if a.Saved < b.Saved*(1-1e-12) {
			t.Errorf("%s keeps %v, whole blocks %v", granularity, a.Saved, b.Saved)
		}
	}
	if a, b := load(t, "zoo:gpt2?granularity=split").Totals(), load(t, "zoo:gpt2").Totals(); a.Saved != b.Saved {
		t.Errorf("GPT-2 in halves keeps %v, whole %v; the tensor between them is kept for a normalization anyway", a.Saved, b.Saved)
	}
}

// Sizes are in proportion to the batch, times grow with it, faster devices are
// not slower.
func TestScaling(t *testing.T) {
	for _, name := range []string{"resnet50", "gpt2"} {
		one, four := load(t, Scheme+name+"?batch=1"), load(t, Scheme+name+"?batch=4")
		for i := range one.Layers {
			a, b := one.Layers[i], four.Layers[i]
			if b.Weight != a.Weight || b.ForwardTime < a.ForwardTime || b.BackwardTime < a.BackwardTime {
				t.Errorf("%s layer %d: batch 1 %+v, batch 4 %+v", name, i, a, b)
			}
			if i < one.Len()-1 && b.Activation != 4*a.Activation {
				t.Errorf("%s layer %d: batch 1 outputs %v, batch 4 %v", name, i, a.Activation, b.Activation)
			}
		}
		var before float64
		for k, device := range []string{"T4", "V100-16GB", "A100-40GB", "A100-80GB", "H100-80GB"} {
			now := load(t, Scheme+name+"?device="+device).TotalTime()
			if k > 0 && now > before {
				t.Errorf("%s takes %v on %s, less on the device before", name, now, device)
			}
			before = now
		}
	}
	if a, b := load(t, "zoo:gpt2?dtype=fp16"), load(t, "zoo:gpt2"); a.TotalTime() >= b.TotalTime() ||
		2*a.Totals().Weight != b.Totals().Weight {
		t.Error("half precision gains nothing")
	}
	if a, b := load(t, "zoo:gpt2?optimizer=3"), load(t, "zoo:gpt2"); a.Totals().Weight != 3*b.Totals().Weight {
		t.Error("the optimizer's factor does not reach the weights")
	}
}

func TestErrors(t *testing.T) {
	for spec, want := range map[string]string{
		"gpt2":                          `"gpt2" is no built-in network: write zoo:NAME`,
		"zoo:":                          `the name of the network is missing; known are gpt2,`,
		"zoo:gpt3":                      `zoo:gpt3: no such network; did you mean gpt2?`,
		"zoo:resnet19?batch=8":          `zoo:resnet19: no such network; did you mean resnet18?`,
		"zoo:ResNet50":                  `did you mean resnet50?`,
		"zoo:transformer-of-the-future": `no such network; the nearest known are table1-bert,`,
		"zoo:gpt2?hiden=8":              `zoo:gpt2: unknown parameter "hiden"; did you mean hidden?`,
		"zoo:gpt2?image=224":            `zoo:gpt2: unknown parameter "image"`,
		"zoo:gpt2?batch":                `"batch" is not key=value`,
		"zoo:gpt2?batch=":               `"batch=" is not key=value`,
		"zoo:gpt2?=1":                   `"=1" is not key=value`,
		"zoo:gpt2?batch=1&&seq=2":       `"" is not key=value`,
		"zoo:gpt2?batch=1&batch=2":      `batch is given twice`,
		"zoo:gpt2?batch=0":              `zoo:gpt2: batch: "0" is not an integer from 1 to 1048576`,
		"zoo:resnet50?batch=-3":         `batch: "-3" is not an integer from 1`,
		"zoo:gpt2?batch=1.5":            `batch: "1.5" is not an integer`,
		"zoo:gpt2?batch=1e3":            `batch: "1e3" is not an integer`,
		"zoo:gpt2?layers=9999999999999": `layers: "9999999999999" is not an integer from 1 to 100000`,
		"zoo:gpt2?heads=5":              `zoo:gpt2: heads: 5 does not divide hidden, 768`,
		"zoo:gpt2?seq=2048":             `seq: 2048 is more than the 1024 positions; give positions=2048 too`,
		"zoo:gpt2?device=V100":          `device: "V100" is not a choice; did you mean V100-16GB?`,
		"zoo:gpt2?device=V100-16gb":     `device: "V100-16gb" is not a choice; did you mean V100-16GB?`,
		"zoo:gpt2?dtype=bf61":           `dtype: "bf61" is not a choice; did you mean bf16?`,
		"zoo:gpt2?granularity=block":    `granularity: "block" is not a choice`,
		"zoo:gpt2?checkpoint=yes":       `checkpoint: "yes" is not a choice`,
		"zoo:vgg16?image=16":            `zoo:vgg16: features.30 (max-pool) has an output of shape [32 512 0 0]: its input is too small`,
		"zoo:table1-gpt2?depth=2":       `depth: "2" is not an integer from 3`,
		"zoo:table1-gpt2?batch=8":       `batch: "8" is not a choice; known are 16, 32, 64`,
		"zoo:table1-bert?device=T4":     `unknown parameter "device"; known are depth, batch`,
	} {
		c, err := Load(spec)
		if err == nil {
			t.Errorf("%s generates %s", spec, c.Name)
		} else if !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v\nwant …%s…", spec, err, want)
		}
	}
}

func TestNames(t *testing.T) {
	for spec, want := range map[string]string{
		"zoo:resnet50?image=128&batch=8":        "resnet50-i128-b8",
		"zoo:gpt2?hidden=1024":                  "gpt2-l12-h1024-s1024-b8",
		"zoo:table1-bert?depth=144&batch=64":    "table1-bert-d144-b64",
		"zoo:bert?":                             "bert-l12-h768-s512-b8",
		"zoo:gpt2?layers=36&hidden=3072&seq=64": "gpt2-l36-h3072-s64-b8",
	} {
		if got := load(t, spec).Name; got != want {
			t.Errorf("%s is named %s, want %s", spec, got, want)
		}
	}
	if heads := load(t, "zoo:gpt2?hidden=3072").Source["heads"]; heads != 48.0 {
		t.Errorf("hidden 3072 has %v heads without being told, want 48", heads)
	}
	if len(Names()) != len(List()) || Names()[0] != List()[0].Name {
		t.Error("Names and List differ")
	}
}

func FuzzLoad(f *testing.F) {
	for _, e := range List() {
		f.Add(Scheme + e.Name)
	}
	for _, s := range []string{
		Default, "zoo:gpt2?batch=0", "zoo:?", "zoo:vgg16?image=31", "zoo:resnet18?image=1&classes=1",
		"zoo:bert?layers=1&hidden=1&heads=1&seq=1&vocab=1&granularity=op", "zoo:gpt2?layers=100000000", "zoo:x?&=&",
		"zoo:siamese?as=join&length=2", "zoo:rnn?as=graph&as=chain&seq=3",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, spec string) {
		name, p, err := Parse(spec)
		if err != nil {
			return
		}
		if n := len(p["layers"]) + len(p["depth"]) + len(p["length"]); n > 2 || name == "rnn" && len(p["seq"]) > 2 {
			return // many layers only take long
		}
		if c, err := Chain(name, p); err == nil {
			if err := c.Validate(); err != nil {
				t.Errorf("%s: %v", spec, err)
			}
		}
		if g, err := Graph(name, p); err == nil {
			if g.Len() < 2 || math.IsNaN(g.TotalTime()) || math.IsInf(g.TotalTime(), 0) {
				t.Errorf("%s: %d nodes, %v s", spec, g.Len(), g.TotalTime())
			}
		}
		if f, err := Functions(name, p); err == nil {
			if err := f.Validate(); err != nil {
				t.Errorf("%s as functions: %v", spec, err)
			}
		}
		if j, err := Join(name, p); err == nil && j.K() < 2 {
			t.Errorf("%s: %d branches", spec, j.K())
		}
		if form, rest := Form(spec); !slices.Contains(forms, form) || len(rest) > len(spec) {
			t.Errorf("%s: form %q of %q", spec, form, rest)
		}
	})
}

func TestForms(t *testing.T) {
	for spec, want := range map[string][2]string{
		"zoo:vgg16":                           {"chain", "zoo:vgg16"},
		"zoo:vgg16?as=graph":                  {"graph", "zoo:vgg16"},
		"zoo:vgg16?as=graph&batch=32":         {"graph", "zoo:vgg16?batch=32"},
		"zoo:vgg16?image=500&as=chain&batch=": {"chain", "zoo:vgg16?image=500&batch="},
		"zoo:siamese":                         {"join", "zoo:siamese"},
		"zoo:siamese?length=3":                {"join", "zoo:siamese?length=3"},
		"zoo:siamese?length=3&as=graph":       {"graph", "zoo:siamese?length=3"},
		"zoo:vgg16?as=tree":                   {"chain", "zoo:vgg16?as=tree"},
		"zoo:nothing":                         {"chain", "zoo:nothing"},
		"file.json":                           {"chain", "file.json"},
		"":                                    {"chain", ""},
	} {
		if form, rest := Form(spec); form != want[0] || rest != want[1] {
			t.Errorf("%s is %s of %s, want %v", spec, form, rest, want)
		}
	}
	for spec, want := range map[string]string{
		"zoo:vgg16?as=tree":                     `as: "tree" is not a form, or given twice; known are chain, graph`,
		"zoo:siamese":                           `zoo:siamese is no chain; ask for as=join or as=graph`,
		"zoo:unet?image=15":                     `down4.pool (max-pool) has an output of shape [8 512 0 0]: its input is too small`,
		"zoo:inception?image=224&aux=true":      `AuxLogits.conv1.conv (conv) has an output of shape [32 768 0 0]`,
		"zoo:inception?image=60":                `its input is too small`,
		"zoo:vgg16?width=3":                     `unknown parameter "width"`,
		"zoo:resnet1001?width=0":                `width: "0" is not an integer from 1`,
		"zoo:rnn?seq=0":                         `seq: "0" is not an integer from 1`,
		"zoo:densenet121?image=20000&batch=-11": `is not an integer`,
	} {
		if c, err := Load(spec); err == nil {
			t.Errorf("%s generates %s", spec, c.Name)
		} else if !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v\nwant …%s…", spec, err, want)
		}
	}
	for spec, want := range map[string]string{
		"zoo:gpt2?checkpoint=true":   `zoo:gpt2: checkpoint is a parameter for as=chain, not for as=graph`,
		"zoo:gpt2?granularity=layer": `zoo:gpt2: granularity is a parameter for as=chain, not for as=graph`,
		"zoo:siamese?slots=3":        `zoo:siamese: slots is a parameter for as=join, not for as=graph`,
		"zoo:vgg17":                  `zoo:vgg17: no such network; did you mean`,
		"zoo:vgg16?image=16":         `its input is too small`,
		"vgg16":                      `"vgg16" is no built-in network`,
	} {
		if g, err := LoadGraph(spec); err == nil {
			t.Errorf("%s generates %s", spec, g.Name)
		} else if !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v\nwant …%s…", spec, err, want)
		}
	}
	for spec, want := range map[string]string{
		"zoo:vgg16":               `zoo:vgg16 is no join; ask for as=chain or as=graph`,
		"zoo:siamese?device=T4":   `zoo:siamese: device is a parameter for as=graph or as=training or as=functions, not for as=join`,
		"zoo:cross-modal?keep=no": `keep: "no" is not a choice; known are none, all`,
		"zoo:cross-modal?m=3":     `unknown parameter "m"`,
		"zoo:":                    `the name of the network is missing`,
	} {
		if j, err := LoadJoin(spec); err == nil {
			t.Errorf("%s generates %s", spec, j.Name)
		} else if !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v\nwant …%s…", spec, err, want)
		}
	}
}

// The joins of [004] 1.4 for L: 2L, 2L, 2L and L, 5L with unit costs.
func TestJoins(t *testing.T) {
	for spec, want := range map[string]join.Join{
		"zoo:siamese?length=4&keep=all&slots=9": {
			Name: "siamese-l4", Branches: []int{8, 8, 8}, Slots: 9, Keep: []bool{true, true, true},
			ForwardTime: 1, BackwardTime: 1, LossTime: 1,
		},
		"zoo:cross-modal?length=3": {
			Name: "cross-modal-l3", Branches: []int{3, 15}, Keep: []bool{false, false}, ForwardTime: 1,
			BackwardTime: 1, LossTime: 1,
		},
	} {
		j, err := LoadJoin(spec)
		if err != nil {
			t.Fatal(err)
		}
		if j.Source["from"] != "[004] 1.4" {
			t.Errorf("%s does not say where it is from: %v", spec, j.Source)
		}
		if err := j.Validate(); err != nil {
			t.Errorf("%s: %v", spec, err)
		}
		j.Source = nil
		if d := cmp.Diff(&want, j); d != "" {
			t.Errorf("%s:\n%s", spec, d)
		}
	}
}

func BenchmarkDefault(b *testing.B) {
	for b.Loop() {
		if _, err := Load(Default); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkResNet1001(b *testing.B) {
	b.Run("chain", func(b *testing.B) {
		for b.Loop() {
			if _, err := Load("zoo:resnet1001"); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("graph", func(b *testing.B) {
		for b.Loop() {
			if _, err := LoadGraph("zoo:resnet1001"); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// The encoder's output crosses every cut of T5 from the end of the encoder to the last
// block of the decoder, and is saved once. With the sequences of Aceso's measured
// profile (T5-770M, micro-batches of eight, half precision) the tensors at the cuts are
// those that it lists: 32 MiB in the encoder, 40 in the decoder.
func TestEncoderOutputIsCarried(t *testing.T) {
	const mib = 1 << 20
	c := load(t, "zoo:t5-large?seq=2048&target=512&dtype=fp16")
	for i := range c.Layers {
		want := 32.0 * mib
		switch {
		case i == c.Len()-1:
			want = 2
		case i == c.Len()-2:
			want = 8 * mib // nobody reads the encoder's output any more
		case i >= 1+24:
			want = 40 * mib
		}
		if l := &c.Layers[i]; l.Activation != want || l.Gradient != want {
			t.Errorf("%s: %v and %v bytes at its cut, want %v", l.Name, l.Activation, l.Gradient, want)
		}
	}
	// The middle blocks of the decoder save what three of them would save beside it.
	one, three := load(t, "zoo:t5?layers=4"), load(t, "zoo:t5?layers=6")
	encoder, decoder := one.Layers[2].Saved, one.Layers[7].Saved
	if got, want := three.Totals().Saved-one.Totals().Saved, 2*(encoder+decoder); got != want {
		t.Errorf("two blocks more on each side save %v, want %v", got, want)
	}
}
