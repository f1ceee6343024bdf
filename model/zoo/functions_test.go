package zoo

import (
	"bytes"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"workbench/model/instance/functions"
	"workbench/model/testfile"
)

func loadFunctions(t *testing.T, spec string) *functions.Sequence {
	t.Helper()
	s, err := LoadFunctions(spec)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Every sequence is valid, takes the time of the graph with the weights of the
// graph, and needs no more memory than the nodes of the graph, which hold theirs
// as one (but the gradient of a tensor is whole even if only a part of it is read,
// as of the state of the RNN); and it is the same in its file.
func TestFunctions(t *testing.T) {
	for _, e := range testfile.Few(4, priced()...) {
		spec := Scheme + e.Name
		s, g := loadFunctions(t, spec), loadGraph(t, spec)
		if err := s.Validate(); err != nil {
			t.Errorf("%s: %v", spec, err)
		}
		var b bytes.Buffer
		if err := s.Write(&b); err != nil {
			t.Fatal(err)
		}
		back, err := functions.Read(&b, spec)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(s, back) { // quicker than to look for a difference
			t.Errorf("%s changes in its file:\n%s", spec, cmp.Diff(s, back))
		}
		if d := s.TotalTime() - g.TotalTime(); math.Abs(d) > 1e-9*g.TotalTime() {
			t.Errorf("%s takes %g s, its graph %g s", spec, s.TotalTime(), g.TotalTime())
		}
		weights, want := 0.0, 0.0
		for _, v := range s.Variables {
			if strings.HasSuffix(v.ID, "/weight") && v.Initial == functions.Device {
				weights += v.Size
			}
		}
		for _, v := range g.Nodes {
			want += v.Weight
		}
		if weights != want {
			t.Errorf("%s has %g bytes of weights, its graph %g", spec, weights, want)
		}
		if loss := slices.IndexFunc(s.Functions, func(f functions.Function) bool { return f.Kind == functions.Loss }); loss < 0 ||
			s.Functions[loss].Name != "loss" {
			t.Errorf("%s: function %d is the loss", spec, loss)
		}
	}
}

// A residual block: what each operation reads and, after the arrow, writes.
func TestFunctionsByHand(t *testing.T) {
	n := &net{precision: single}
	x := n.input(4, 2, 3, 8, 8)
	c := convolution{out: 3, kernel: 3, stride: 1, padding: 1}
	x = n.relu("a.relu", n.conv("a", x, c))
	y := n.batchNorm("bn", n.conv("b", x, c))
	x = n.relu("add.relu", n.sum("add", y, x))
	n.meanSquare("loss", x, n.constant(n.shape(x)...))
	s, err := n.functions(how{device: Devices()[0], optimizer: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Validate(); err != nil {
		t.Fatal(err)
	}
	var got []string
	for i := range s.Functions {
		f := &s.Functions[i]
		line := f.Name + ":"
		for _, v := range f.Uses {
			if !slices.Contains(f.Writes, v) {
				line += " " + s.Variables[v].ID
			}
		}
		line += " →"
		for _, v := range f.Writes {
			line += " " + s.Variables[v].ID
		}
		got = append(got, line)
	}
	want := []string{
		"a: input a/weight → a",
		"a.relu: → a",
		"b: a b/weight → b",
		"bn: b bn/weight → bn bn/saved",
		"add: a → bn",
		"add.relu: → bn",
		"loss: bn → loss",
		"loss/grad: bn loss/grad → bn/grad",
		"add.relu/grad: bn → bn/grad",
		"add/grad: → bn/grad a/grad",
		"bn/grad: b bn/saved bn/grad → b/grad bn/weight bn/weight/grad",
		"b/grad: a b/grad → a/grad b/weight b/weight/grad",
		"a.relu/grad: a → a/grad",
		"a/grad: input a/grad → a/weight a/weight/grad",
		"end: a/weight b/weight bn/weight →",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	for _, v := range s.Variables {
		size := 4. * 2 * 3 * 8 * 8
		switch {
		case strings.HasPrefix(v.ID, "loss"):
			size = 4
		case v.ID == "bn/saved":
			size = 2 * 4 * 3
		case strings.HasPrefix(v.ID, "bn/weight"):
			size = 4 * 6
		case strings.Contains(v.ID, "weight"):
			size = 4 * 81
		}
		onDevice := v.ID == "input" || strings.HasSuffix(v.ID, "/weight")
		if v.Size != size || onDevice != (v.Initial == functions.Device) {
			t.Errorf("%+v, want %g bytes", v, size)
		}
	}
}

// Skip connections are variables with many uses.
func TestFunctionsSkip(t *testing.T) {
	s := loadFunctions(t, "zoo:unet")
	for _, x := range []struct {
		id   string
		want []string
	}{
		// Written and overwritten, read by the pool and by the concatenation on the
		// way up; then saved for the backwards of the pool and of the relu.
		{"down1.conv2", []string{"down1.conv2", "down1.conv2.relu", "down1.pool", "up1.concat", "down1.pool/grad", "down1.conv2.relu/grad"}},
		{"down1.conv2/grad", []string{"up1.concat/grad", "down1.pool/grad", "down1.conv2.relu/grad", "down1.conv2/grad"}},
	} {
		v := slices.IndexFunc(s.Variables, func(v functions.Variable) bool { return v.ID == x.id })
		if v < 0 {
			t.Fatalf("there is no variable %s", x.id)
		}
		var got []string
		for i := range s.Functions {
			if slices.Contains(s.Functions[i].Uses, v) {
				got = append(got, s.Functions[i].Name)
			}
		}
		if d := cmp.Diff(x.want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", x.id, d)
		}
	}
}

// [003] Table 1: ResNet-50 at 224×224 fits on 16 GB without swapping up to batch
// 190, and with swapping in variable sizes up to 1440. By these sequences nothing
// leaves the device up to 183, and no function needs more than there is up to 1660:
// three tensors of 256 channels at 56×56.
func TestFunctionsLargestBatch(t *testing.T) {
	const memory = 16e9
	largest := func(least int, needs func(*functions.Sequence) float64) int {
		most := 1 << 13
		for least+1 < most {
			batch := (least + most) / 2
			s, err := Functions("resnet50", Params{"batch": strconv.Itoa(batch)})
			if err != nil {
				t.Fatal(err)
			}
			if needs(s) <= memory {
				least = batch
			} else {
				most = batch
			}
		}
		return least
	}
	full, least := largest(1, (*functions.Sequence).FullMemory), largest(1, (*functions.Sequence).LeastMemory)
	if full != 183 || least != 1660 {
		t.Errorf("batches of %d and %d", full, least)
	}
}

// Any batch, and the parameters of other forms.
func TestFunctionsParameters(t *testing.T) {
	one, many := loadFunctions(t, "zoo:resnet18?batch=1"), loadFunctions(t, "zoo:resnet18?batch=999&device=H100-80GB")
	if one.Name != "resnet18-i224-b1" || many.Samples != 999 || many.Source["device"] != "H100-80GB" {
		t.Errorf("%s; %d samples, %v", one.Name, many.Samples, many.Source)
	}
	a, b := one.Variables[0].Size, many.Variables[0].Size
	if b != 999*a {
		t.Errorf("inputs of %g and %g bytes", a, b)
	}
	if s := loadFunctions(t, "zoo:table1-gpt2?depth=38"); s.Functions[0].Name[:2] != "F1" {
		t.Errorf("%+v", s.Functions[0])
	}
	if form, rest := Form("zoo:vgg16?as=functions&batch=2"); form != FormFunctions || rest != "zoo:vgg16?batch=2" {
		t.Errorf("%s of %s", form, rest)
	}
	for spec, want := range map[string]string{
		"zoo:gpt2?checkpoint=true": `checkpoint is a parameter for as=chain, not for as=functions`,
		"zoo:siamese?slots=3":      `slots is a parameter for as=join, not for as=functions`,
		"zoo:vgg17":                `zoo:vgg17: no such network; did you mean`,
		"zoo:vgg16?image=16":       `its input is too small`,
		"vgg16":                    `"vgg16" is no built-in network`,
	} {
		if s, err := LoadFunctions(spec); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, error %v\nwant …%s…", spec, s, err, want)
		}
	}
}
