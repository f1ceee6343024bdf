package timeline

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"workbench/model/instance/chain"
	"workbench/model/instance/training"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/testfile"
)

// awayAndBack is a chain and a plan by hand that sends a_0 and ā_1 to the host
// and fetches them back; the memory is full, and the last computation waits.
func awayAndBack() (plan.Instance, *plan.Plan) {
	const gib = 1 << 30
	c := &chain.Chain{Name: "three & more", Input: chain.Input{Activation: gib, Gradient: gib}, Layers: []chain.Layer{
		{Name: "one", ForwardTime: 1, BackwardTime: 2, Activation: gib, Saved: 2 * gib, Gradient: gib},
		{Name: "two", ForwardTime: 2, BackwardTime: 2, Activation: gib, Saved: 2 * gib, Gradient: gib, BackwardOverhead: gib},
		{Name: "loss", ForwardTime: 1, BackwardTime: 1, Activation: gib, Saved: gib, Gradient: gib},
	}}
	return c, &plan.Plan{
		Format: plan.Format, Problem: plan.ActivationOffload, Method: "by hand", Instance: plan.InstanceRef{Name: "three & more"},
		Platform: platform.Platform{Memory: 7 * gib, Bandwidth: gib},
		Ops: []plan.Op{
			{Op: plan.OpFAll, Layer: 1, Start: 0, End: 1},
			{Op: plan.OpO, Tensor: plan.TensorAbar, Layer: 0, Start: 0, End: 1},
			{Op: plan.OpFAll, Layer: 2, Start: 1, End: 3},
			{Op: plan.OpO, Tensor: plan.TensorAbar, Layer: 1, Start: 1, End: 3},
			{Op: plan.OpFAll, Layer: 3, Start: 3, End: 4},
			{Op: plan.OpB, Layer: 3, Start: 4, End: 5},
			{Op: plan.OpP, Tensor: plan.TensorAbar, Layer: 1, Start: 4, End: 6},
			{Op: plan.OpB, Layer: 2, Start: 6, End: 8},
			{Op: plan.OpP, Tensor: plan.TensorAbar, Layer: 0, Start: 8, End: 9},
			{Op: plan.OpB, Layer: 1, Start: 9, End: 11},
		},
		Claims: plan.Claims{Makespan: 11, PeakMemory: 7 * gib},
	}
}

func TestOffloadExampleIsValid(t *testing.T) {
	in, p := awayAndBack()
	checkValid(t, in, p)
}

func TestOffloadGolden(t *testing.T) {
	in, p := awayAndBack()
	checkGolden(t, "offload", in, p)
}

// The same with what rematerialization adds: forwards that keep no ā, discards.
func TestOffloadWithRecomputation(t *testing.T) {
	in, p := awayAndBack()
	p.Problem = plan.RematOffload
	p.Ops = []plan.Op{
		{Op: plan.OpFCk, Layer: 1, Start: 0, End: 1},
		{Op: plan.OpO, Tensor: plan.TensorA, Layer: 0, Start: 0, End: 1},
		{Op: plan.OpFAll, Layer: 2, Start: 1, End: 3},
		{Op: plan.OpD, Tensor: plan.TensorA, Layer: 1, Start: 3, End: 3},
		{Op: plan.OpFAll, Layer: 3, Start: 3, End: 4},
		{Op: plan.OpP, Tensor: plan.TensorA, Layer: 0, Start: 3, End: 4},
		{Op: plan.OpB, Layer: 3, Start: 4, End: 5},
		{Op: plan.OpFAll, Layer: 1, Start: 5, End: 6},
		{Op: plan.OpB, Layer: 2, Start: 6, End: 8},
		{Op: plan.OpB, Layer: 1, Start: 8, End: 10},
	}
	var b bytes.Buffer
	if err := drawSVG(&b, in, p, Options{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		">forward (checkpoint)<", ">forward (saves for backward)<", ">recomputed forward<", "url(#recomputed)", ">discard<", ">offload<", ">prefetch<", "O a_0, 1 GiB: 0 to 1 s", "D a_1", ">link<",
		"step time 10 s", "limit",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the picture does not say %q", want)
		}
	}
}

// The trace has computations and transfers on tracks of their own, none
// overlapping another, and ends with no memory in use but the last gradient.
func TestOffloadTrace(t *testing.T) {
	in, p := awayAndBack()
	var b bytes.Buffer
	if err := drawTrace(&b, in, p); err != nil {
		t.Fatal(err)
	}
	var trace struct {
		TraceEvents []struct {
			Name, Ph, Cat string
			Ts, Dur       float64
			TID           int
			Args          map[string]any
		}
	}
	if err := json.Unmarshal(b.Bytes(), &trace); err != nil {
		t.Fatal(err)
	}
	kinds := map[int][]string{}
	free := map[int]float64{}
	var memory map[string]any
	for _, e := range trace.TraceEvents {
		switch e.Ph {
		case "X":
			if e.Ts < free[e.TID] {
				t.Errorf("%s starts at %g µs, before %g", e.Name, e.Ts, free[e.TID])
			}
			free[e.TID] = e.Ts + e.Dur
			kinds[e.TID] = append(kinds[e.TID], e.Cat)
		case "C":
			memory = e.Args
		}
	}
	if got := strings.Join(kinds[1], " "); got != "F_all F_all F_all B B B" {
		t.Errorf("computations %s", got)
	}
	if got := strings.Join(kinds[2], " "); got != "O O P P" {
		t.Errorf("transfers %s", got)
	}
	if memory["saved"] != 0.0 || memory["gradients"] != float64(1<<30) {
		t.Errorf("in the end memory is in use for %v", memory)
	}
}

// Whatever the plan, the picture is well-formed and everything in it has a
// finite place.
func TestOffloadSVGWellFormed(t *testing.T) {
	testfile.Property(t, func(t *rapid.T) {
		in, p := awayAndBack()
		p.Problem = rapid.SampledFrom([]string{plan.ActivationOffload, plan.RematOffload}).Draw(t, "problem")
		time := rapid.OneOf(rapid.Float64Range(-5, 20), rapid.SampledFrom([]float64{0, math.NaN(), math.Inf(1), math.Inf(-1)}))
		for range rapid.IntRange(0, 30).Draw(t, "ops") {
			o := plan.Op{
				Op:    rapid.SampledFrom([]string{"F_all", "F_ck", "F_none", "B", "P", "O", "D", "?"}).Draw(t, "op"),
				Layer: rapid.IntRange(-1, 5).Draw(t, "layer"), Start: time.Draw(t, "start"),
			}
			o.End = o.Start + rapid.Float64Range(-1, 9).Draw(t, "length")
			if strings.Contains("POD", o.Op) {
				o.Tensor = rapid.SampledFrom([]string{plan.TensorA, plan.TensorAbar, plan.TensorW}).Draw(t, "tensor")
			}
			p.Ops = slices.Insert(p.Ops, rapid.IntRange(0, len(p.Ops)).Draw(t, "place"), o)
		}
		var b bytes.Buffer
		if err := drawSVG(&b, in, p, Options{Width: rapid.IntRange(0, 3000).Draw(t, "width")}); err != nil {
			t.Fatal(err)
		}
		checkPicture(t, b.String())
		if err := drawTrace(io.Discard, in, p); err != nil {
			t.Fatal(err)
		}
	})
}

func TestOffloadOfNothing(t *testing.T) {
	in, p := awayAndBack()
	p.Ops = nil
	if err := drawSVG(io.Discard, in, p, Options{}); !errors.Is(err, plan.ErrUnreadable) {
		t.Errorf("error %v", err)
	}
}

// Plans that say layers and tensors of a step, which has none, are drawn as they are.
func TestOffloadOfLayersOfAStep(t *testing.T) {
	g := &training.Graph{Name: "step", Nodes: []training.Node{{ID: "f", Phase: training.Forward, Time: 1}}}
	p := plan.New(plan.RematOffload, "by hand", g, platform.Platform{Memory: 1, Bandwidth: 1})
	p.Ops = []plan.Op{
		{Op: plan.OpC, Node: "f", End: 1},
		{Op: plan.OpO, Storage: "s", Layer: 1, End: 1},
		{Op: plan.OpD, Tensor: plan.TensorA, Start: 1, End: 1},
	}
	if err := drawSVG(io.Discard, g, p, Options{}); err != nil {
		t.Errorf("picture: %v", err)
	}
	if err := Offloading().Trace(io.Discard, g, p); err != nil {
		t.Errorf("trace: %v", err)
	}
}
