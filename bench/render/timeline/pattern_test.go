package timeline

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"workbench/bench/render/picture"
	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/testfile"
)

// twoGPUs is a pattern by hand: a large layer on one GPU, twenty small ones on
// the other, whose backward computations run past the period.
func twoGPUs() (plan.Instance, *plan.Plan) {
	c := &chain.Chain{Name: "two", Layers: []chain.Layer{{Name: "one", ForwardTime: 2, BackwardTime: 3, Activation: 2, Saved: 2, Gradient: 2}}}
	for range 20 {
		c.Layers = append(c.Layers, chain.Layer{ForwardTime: 0.1, BackwardTime: 0.15})
	}
	period := 6.0
	p := &plan.Plan{
		Problem: plan.Pipeline, Method: "hand", Period: &period, Platform: platform.Platform{Memory: 10, Bandwidth: 1, Processors: 3},
		Allocation: []plan.Stage{{Processor: 0, From: 1, To: 1}, {Processor: 1, From: 2, To: 21}},
		Claims:     plan.Claims{Makespan: 6, PeakMemory: 8},
		Ops: []plan.Op{
			{Op: plan.OpF, Layer: 1, Resource: "gpu0", Start: -0.05, End: 1.95, Shift: 2},
			{Op: plan.OpB, Layer: 1, Resource: "gpu0", Start: 2, End: 5},
			{Op: plan.OpCF, Layer: 1, Resource: "link0-1", Start: 1.95, End: 3.95, Shift: 2},
			{Op: plan.OpCB, Layer: 1, Resource: "link0-1", Start: 4, End: 6, Shift: 1},
		},
	}
	for l := 2; l <= 21; l++ {
		f, b := 3.95+0.1*float64(l-2), 5.95+0.15*float64(21-l)
		p.Ops = append(
			p.Ops,
			plan.Op{Op: plan.OpF, Layer: l, Resource: "gpu1", Start: f, End: f + 0.1, Shift: 2},
			plan.Op{Op: plan.OpB, Layer: l, Resource: "gpu1", Start: b, End: b + 0.15, Shift: 2},
		)
	}
	return c, p
}

func TestPatternGolden(t *testing.T) {
	in, p := twoGPUs()
	checkValid(t, in, p)
	checkGolden(t, "pattern", in, p)
}

// All-reduces of replicated stages are drawn as such, not as gradients of a layer that are
// sent.
func TestPatternAllReduce(t *testing.T) {
	in, p := twoGPUs()
	draw := func() string {
		var b bytes.Buffer
		if err := drawSVG(&b, in, p, Options{}); err != nil {
			t.Fatal(err)
		}
		checkPicture(t, b.String())
		return b.String()
	}
	if strings.Contains(draw(), "all-reduce") {
		t.Error("all-reduce in the legend of stages on one GPU each")
	}
	p.Ops = append(p.Ops, plan.Op{Op: plan.OpAR, Layer: 1, Resource: "gpu2", Start: 1, End: 3})
	if picture := draw(); !strings.Contains(picture, "all-reduce") || !strings.Contains(picture, ">AR<tspan") ||
		strings.Count(picture, gradientColour) < 3 {
		t.Error("no all-reduce in legend, label and colour")
	}
}

// drawn is what a picture says, by its groups and labels.
type drawn struct {
	Width  float64 `xml:"width,attr"`
	Titles []struct {
		Title string `xml:"title"`
	} `xml:"g"`
	Texts []struct {
		X      float64 `xml:"x,attr"`
		Y      float64 `xml:"y,attr"`
		Stroke string  `xml:"stroke,attr"` // labels of patterns have one
		Layers string  `xml:",chardata"`
		Shift  string  `xml:"tspan"`
	} `xml:"text"`
}

func drawPattern(t rapid.TB, in plan.Instance, p *plan.Plan, o Options) (d drawn) {
	t.Helper()
	var b bytes.Buffer
	if err := drawSVG(&b, in, p, o); err != nil {
		t.Fatal(err)
	}
	checkPicture(t, b.String())
	if err := xml.Unmarshal(b.Bytes(), &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// labelled are the labels of a picture, as "layers^shift".
func (d *drawn) labelled() (list []string) {
	for _, x := range d.Texts {
		if x.Stroke != "" {
			list = append(list, x.Layers+"^"+x.Shift)
		}
	}
	return list
}

func TestPattern(t *testing.T) {
	in, p := twoGPUs()
	if got := strings.Join(resources(p), " "); got != "gpu0 gpu1 link0-1" {
		t.Fatalf("lanes %s", got)
	}
	var b bytes.Buffer
	if err := drawSVG(&b, in, p, Options{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		">link0-1<", ">T = 6 s, 2 of 3 GPUs, peak 8 B of 10 B<", "B_1 (one) of mini-batch j: 2 to 5 s",
		"layer 5 of mini-batch j + 2 in period j",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the picture does not say %q", want)
		}
	}
	// What cannot be replayed is drawn all the same, without its measures.
	p.K, p.Allocation = 3, nil
	p.Ops[0].Layer = 77
	b.Reset()
	if err := drawSVG(&b, in, p, Options{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{">T = 6 s for 3 mini-batches<", "F_77 of mini-batch 3·j + 2: "} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the picture does not say %q", want)
		}
	}
}

func TestPatternsThatCannotBeDrawn(t *testing.T) {
	for name, spoil := range map[string]func(*plan.Instance, *plan.Plan){
		"no period":    func(_ *plan.Instance, p *plan.Plan) { p.Period = nil },
		"no resources": func(_ *plan.Instance, p *plan.Plan) { p.Ops = []plan.Op{{Op: plan.OpF, Layer: 1, End: 1}} },
		"no chain":     func(in *plan.Instance, _ *plan.Plan) { *in = nil },
	} {
		in, p := twoGPUs()
		spoil(&in, p)
		if err := drawSVG(io.Discard, in, p, Options{}); !errors.Is(err, plan.ErrUnreadable) {
			t.Errorf("%s: picture: %v", name, err)
		}
		if err := drawTrace(io.Discard, in, p); !errors.Is(err, plan.ErrUnreadable) {
			t.Errorf("%s: trace: %v", name, err)
		}
	}
}

// Small operations of one pass share a label; alone they have one of their own.
func TestPatternLabels(t *testing.T) {
	in, p := twoGPUs()
	d := drawPattern(t, in, p, Options{})
	got := strings.Join(d.labelled(), " ")
	// F_1 and B_21 are drawn on both sides of the period's end, where the shifts
	// are another mini-batch's. So are those of the B that start past it.
	want := "1^2 1^0 ^3 20^1 19^1 18^1 17^1 16^1 15^1 14^1 13^1 12^1 11^1 10^1 9^1 8^1 7^1 6^1 5^1 4^1 3^1 2^1 2–21^2 ^2 1^2 1^1"
	if got != want {
		t.Errorf("labels %s\n  want %s", got, want)
	}
	// With less room nothing but the shift is left, and nothing at all.
	for width, want := range map[int]string{250: "1^2 1^0 21–2^1 2–21^2 1^2 1^1", 130: "^2 ^0 ^1 ^2 ^2 ^1", 112: ""} {
		d := drawPattern(t, in, p, Options{Width: width})
		if got := strings.Join(d.labelled(), " "); got != want {
			t.Errorf("%d pixels: labels %s, want %s", width, got, want)
		}
	}
}

// A picture of many mini-batches is wider, up to a width at which it is divided into rows.
func TestPatternWidth(t *testing.T) {
	in, p := twoGPUs()
	for k, want := range map[int]struct {
		width float64
		rows  int
	}{3: {1000, 1}, 50: {50 * passWidth, 1}, 150: {mostWidth, 3}, 5000: {mostWidth, mostRows}} {
		p.K, *p.Period = k, float64(k)
		p.Ops = p.Ops[:0]
		for j := range k {
			p.Ops = append(p.Ops, plan.Op{Op: plan.OpF, Layer: 1, Resource: "gpu0", Start: float64(j), End: float64(j) + 1, Shift: j})
		}
		d := drawPattern(t, in, p, Options{})
		rows := 0
		for _, x := range d.Texts {
			if x.Layers == "gpu0" && x.X < left {
				rows++
			}
		}
		if d.Width != want.width || rows != want.rows {
			t.Errorf("%d mini-batches: %d rows of %g pixels, want %d of %g", k, rows, d.Width, want.rows, want.width)
		}
		if d := drawPattern(t, in, p, Options{Width: 700}); d.Width != 700 {
			t.Errorf("%g pixels, want 700", d.Width)
		}
	}
}

func TestLanesAreInOrder(t *testing.T) {
	period := 1.0
	p := &plan.Plan{Problem: plan.Pipeline, Period: &period}
	for _, name := range []string{"link10-11", "host", "link0-10", "gpu10", "link0-2", "gpu2", "link2-3"} {
		p.Ops = append(p.Ops, plan.Op{Op: plan.OpF, Layer: 1, Resource: name, End: 1})
	}
	if got, want := strings.Join(resources(p), " "), "gpu2 gpu10 link0-2 link0-10 link2-3 link10-11 host"; got != want {
		t.Errorf("lanes %s, want %s", got, want)
	}
}

// On a resource that does one thing at a time no label reaches over another, and
// every operation has a title.
func TestPatternLabelsKeepApart(t *testing.T) {
	testfile.Property(t, func(t *rapid.T) {
		period := 0.0
		p := &plan.Plan{Problem: plan.Pipeline, K: rapid.IntRange(0, 9).Draw(t, "k"), Period: &period}
		length := rapid.OneOf(rapid.Float64Range(0, 1e-3), rapid.Float64Range(0, 1), rapid.Just(0.0))
		for range rapid.IntRange(1, 40).Draw(t, "passes") {
			op := rapid.SampledFrom([]string{plan.OpF, plan.OpB, plan.OpCF}).Draw(t, "op")
			layer, shift := rapid.IntRange(1, 150).Draw(t, "layer"), rapid.IntRange(-3, 200).Draw(t, "shift")
			for range rapid.IntRange(1, 20).Draw(t, "layers") {
				end := period + length.Draw(t, "length")
				p.Ops = append(p.Ops, plan.Op{Op: op, Layer: layer, Shift: shift, Resource: "gpu0", Start: period, End: end})
				period = end
				if op == plan.OpB {
					layer--
				} else {
					layer++
				}
			}
			period += length.Draw(t, "gap")
		}
		if period == 0 {
			return
		}
		turn := period * rapid.Float64Range(0, 1).Draw(t, "turn")
		for k := range p.Ops {
			p.Ops[k].Start, p.Ops[k].End = p.Ops[k].Start+turn, p.Ops[k].End+turn
		}
		c := &chain.Chain{Layers: []chain.Layer{{Name: "<one>", ForwardTime: 1}}}
		d := drawPattern(t, c, p, Options{Width: rapid.SampledFrom([]int{0, 300, 1000, 3000}).Draw(t, "width")})
		reach := math.Inf(-1)
		for _, x := range d.Texts {
			if x.Stroke == "" {
				continue
			}
			half := (picture.TextWidth(x.Layers, picture.LabelSize) + picture.TextWidth(x.Shift, picture.RaisedSize)) / 2
			if x.X-half < reach {
				t.Fatalf("label %s^%s at %g begins before %g", x.Layers, x.Shift, x.X, reach)
			}
			reach = x.X + half
		}
		titles := 0
		for _, g := range d.Titles {
			if g.Title != "" {
				titles++
			}
		}
		if titles < len(p.Ops) || titles > len(p.Ops)+1 {
			t.Fatalf("%d titles of %d operations, one of which may run past the period", titles, len(p.Ops))
		}
	})
}

// The trace has a track for each resource, names with shifts, and no events of
// one track that overlap, whatever the plan.
func TestPatternTrace(t *testing.T) {
	in, p := twoGPUs()
	p.Ops[1].Start = 1 // before F_1 ends
	var b bytes.Buffer
	if err := drawTrace(&b, in, p); err != nil {
		t.Fatal(err)
	}
	var trace parsed
	if err := json.Unmarshal(b.Bytes(), &trace); err != nil {
		t.Fatal(err)
	}
	var names []string
	free := map[int]float64{}
	for _, e := range trace.TraceEvents {
		if e.Ph != "X" {
			continue
		}
		if e.Ts < free[e.Tid]-1e-4 {
			t.Errorf("%s begins at %g µs, before %g", e.Name, e.Ts, free[e.Tid])
		}
		free[e.Tid] = e.Ts + e.Dur
		if e.Tid == 1 {
			names = append(names, fmt.Sprint(e.Name, " ", e.Args["name"], " ", e.Args["shift"]))
		}
	}
	if got, want := strings.Join(names, ", "), "F_1^2 one 2, B_1^0 one 0, F_1^2 one 2"; got != want {
		t.Errorf("on gpu0 %s, want %s", got, want)
	}
}

// Below the lanes stands the memory of each GPU that computes something; of the stage
// model also what it counts.
func TestPatternShowsMemoryOfEachGPU(t *testing.T) {
	in, p := twoGPUs()
	for _, model := range []string{plan.TaskModel, plan.StageModel} {
		p.MemoryModel = model
		var b bytes.Buffer
		if err := drawSVG(&b, in, p, Options{}); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{">memory (B)<", "weights, buffers of gpu0", "activations of gpu1", ">limit<"} {
			if !strings.Contains(b.String(), want) {
				t.Errorf("the picture does not say %q", want)
			}
		}
		if strings.Contains(b.String(), "of gpu2") {
			t.Error("a GPU without layers has memory")
		}
		if got := strings.Contains(b.String(), "by the stage model"); got != (model == plan.StageModel) {
			t.Errorf("the stage model is drawn: %v, of a plan with the %s model", got, model)
		}
	}
}
