package timeline

import (
	"bytes"
	"encoding/xml"
	"slices"
	"strings"
	"testing"

	"workbench/bench/render/picture"
	"workbench/model/instance/lifetimes"
	"workbench/model/instance/stages"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/testfile"
	"workbench/model/verify/flush"
)

// twoStages is one micro-batch after the other on two GPUs: the first holds a weight of 3,
// an overhead of 1, and 2 of each micro-batch until its backward.
func twoStages() (*stages.Partition, *plan.Plan) {
	in := &stages.Partition{Name: "two", Stages: []stages.Stage{
		{ForwardTime: 1, BackwardTime: 2, ForwardMemory: 2, BackwardMemory: -2, Weight: 3, Overhead: 1},
		{ForwardTime: 1, BackwardTime: 1, WeightTime: 1, ForwardMemory: 4, BackwardMemory: -1, WeightMemory: -3},
	}}
	p := plan.New(plan.Flush, "by hand", in, platform.Platform{Memory: 9, Processors: 2, MicroBatches: 2, Placement: plan.Straight})
	for j := range 2 {
		at := 6 * float64(j)
		for _, o := range []plan.Op{
			{Op: plan.OpF, Stage: 1, Start: 0, End: 1},
			{Op: plan.OpF, Stage: 2, Start: 1, End: 2},
			{Op: plan.OpB, Stage: 2, Start: 2, End: 3},
			{Op: plan.OpW, Stage: 2, Start: 3, End: 4},
			{Op: plan.OpB, Stage: 1, Start: 3, End: 5},
		} {
			o.Start, o.End, o.MicroBatch, o.Resource = o.Start+at, o.End+at, j+1, []string{"gpu0", "gpu1"}[o.Stage-1]
			p.Ops = append(p.Ops, o)
		}
	}
	return in, p
}

// Below the lanes stands what each GPU holds: at most what the verifier says, from before its
// first operation on.
func TestFlushShowsMemoryOfEachGPU(t *testing.T) {
	in, p := twoStages()
	s, err := flush.Summarize(in, p)
	if err != nil || s.Violations > 0 {
		t.Fatal(s, err)
	}
	steps, err := flush.Profile(in, p)
	if err != nil {
		t.Fatal(err)
	}
	devices := flushMemory(steps, 2)
	for g, want := range [][]level{
		{{0, [4]float64{4}}, {0, [4]float64{4, 2}}, {5, [4]float64{4}}},
		{{}, {1, [4]float64{0, 4}}, {3, [4]float64{0, 3}}, {4, [4]float64{}}},
	} {
		got := devices[g].levels
		if len(got) < len(want) || !slices.Equal(got[:len(want)], want) {
			t.Errorf("gpu%d holds %v, want %v first", g, got, want)
		}
		most := slices.MaxFunc(got, func(a, b level) int { return int(a.total(2) - b.total(2)) })
		if most.total(2) != s.GPUs[g].Memory {
			t.Errorf("gpu%d is drawn with at most %g, and holds %g", g, most.total(2), s.GPUs[g].Memory)
		}
	}
	drawn := pictured(t, Flushes(), in, p)
	for _, want := range []string{
		">memory (B)<", "weights, overhead of gpu0", "activations of gpu1", ">limit<", "limit: 9 B",
		">backward (weights)<",
	} {
		if !strings.Contains(drawn, want) {
			t.Errorf("the picture does not say %q", want)
		}
	}
}

// copiedOut is two micro-batches on two GPUs, half of what the first holds of each sent to the host and back;
// the second F runs while the first copy does.
func copiedOut() (*stages.Partition, *plan.Plan) {
	in, p := twoStages()
	in.Stages[0].OffloadMemory, in.Stages[0].OffloadTime = 1, 0.5
	p.Claims = plan.Claims{Makespan: 8, PeakMemory: 8}
	p.Ops = []plan.Op{
		{Op: plan.OpF, Stage: 1, MicroBatch: 1, Resource: "gpu0", Start: 0, End: 1},
		{Op: plan.OpF, Stage: 1, MicroBatch: 2, Resource: "gpu0", Start: 1, End: 2},
		{Op: plan.OpO, Stage: 1, MicroBatch: 1, Resource: "link0", Start: 1, End: 1.5},
		{Op: plan.OpO, Stage: 1, MicroBatch: 2, Resource: "link0", Start: 2, End: 2.5},
		{Op: plan.OpP, Stage: 1, MicroBatch: 1, Resource: "link0", Start: 2.5, End: 3},
		{Op: plan.OpB, Stage: 1, MicroBatch: 1, Resource: "gpu0", Start: 3, End: 5},
		{Op: plan.OpP, Stage: 1, MicroBatch: 2, Resource: "link0", Start: 5, End: 5.5},
		{Op: plan.OpB, Stage: 1, MicroBatch: 2, Resource: "gpu0", Start: 6, End: 8},
		{Op: plan.OpF, Stage: 2, MicroBatch: 1, Resource: "gpu1", Start: 1, End: 2},
		{Op: plan.OpB, Stage: 2, MicroBatch: 1, Resource: "gpu1", Start: 2, End: 3},
		{Op: plan.OpW, Stage: 2, MicroBatch: 1, Resource: "gpu1", Start: 3, End: 4},
		{Op: plan.OpF, Stage: 2, MicroBatch: 2, Resource: "gpu1", Start: 4, End: 5},
		{Op: plan.OpB, Stage: 2, MicroBatch: 2, Resource: "gpu1", Start: 5, End: 6},
		{Op: plan.OpW, Stage: 2, MicroBatch: 2, Resource: "gpu1", Start: 6, End: 7},
	}
	return in, p
}

// Beside a copy on its link a GPU computes: what it holds changes when F and P start and B, W and O end, one
// instant after the other, and only then.
func TestFlushShowsCopies(t *testing.T) {
	in, p := copiedOut()
	if r, err := flush.Verify(in, p); err != nil || !r.Valid() || len(r.ClaimErrors) > 0 {
		t.Fatal(r, err)
	}
	steps, err := flush.Profile(in, p)
	if err != nil {
		t.Fatal(err)
	}
	want := []flush.Step{
		{Held: 4},
		{Held: 6},
		{Time: 1, Held: 8},
		{Time: 1.5, Held: 7},
		{Time: 2.5, Held: 6},
		{Time: 2.5, Held: 7},
		{Time: 5, Held: 5},
		{Time: 5, Held: 6},
		{Time: 8, Held: 4},
	}
	if got := steps[:len(want)]; !slices.Equal(got, want) {
		t.Errorf("gpu0 holds %v, want %v", got, want)
	}
	testfile.Golden(t, "flush.svg", pictured(t, Flushes(), in, p))
	var trace bytes.Buffer
	if err := Flushes().Trace(&trace, in, p); err != nil {
		t.Fatal(err)
	}
	testfile.Golden(t, "flush.json", trace.String())
}

// The numbers of micro-batches have room in a picture that is as wide as they need.
func TestFlushIsAsWideAsItsNumbers(t *testing.T) {
	p := &plan.Plan{Platform: platform.Platform{MicroBatches: 16}}
	for j := range 200 {
		p.Ops = append(p.Ops, plan.Op{Op: plan.OpF, MicroBatch: 1 + j%16, Start: float64(j), End: float64(j + 1)})
	}
	width := flushWidth(p, 200)
	if room := (width - left - right) / 200; room < numberWidth(p) || room > numberWidth(p)+1 {
		t.Errorf("%g pixels leave %g for each of 200 operations; the number takes %g", width, room, numberWidth(p))
	}
}

// Every number stands in its box: turned where the largest one has no room, in smaller type where that is too narrow, too, and not
// at all where it could not be read.
func TestFlushNumbersEveryBox(t *testing.T) {
	for width, want := range map[float64]string{
		30: `<text x="15" y="16.5" text-anchor="middle" font-size="9.5">7<`,
		10: `<text x="8.5" y="13" text-anchor="middle" font-size="9.5" transform="rotate(-90 8.5 13)">7<`,
		7:  `<text x="6.08" y="13" text-anchor="middle" font-size="7" transform="rotate(-90 6.08 13)">7<`,
		5:  "",
	} {
		var b bytes.Buffer
		p := &plan.Plan{Platform: platform.Platform{MicroBatches: 32}}
		v := &view{Canvas: picture.SVG(&b, 1, 1), time: picture.Axis{High: 1, To: width}, unit: platform.TimeUnit(1)}
		flushNumber(v, 0, box{Op: &plan.Op{Op: plan.OpF, MicroBatch: 7, Stage: 1, End: 1}}, 4, numberWidth(p))
		if err := v.Close(); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(b.String(), want) || want == "" && strings.Contains(b.String(), ">7<") {
			t.Errorf("in a box of %g pixels: %q, not %q", width, b.String(), want)
		}
	}
}

// The dashed lines of a placement are named in the picture, equal ones together; a memory far
// above is not drawn.
func TestPlacementNamesItsLines(t *testing.T) {
	l := &lifetimes.Lifetimes{Name: "two", Buffers: []lifetimes.Buffer{
		{ID: "a", Lower: 0, Upper: 2, Size: 3},
		{ID: "b", Lower: 1, Upper: 3, Size: 4},
	}}
	for _, x := range []struct {
		memory, second float64
		names          []string
	}{
		{8, 3, []string{"load = height", "memory"}},
		{8, 4, []string{"load", "height = memory"}},
		{7, 3, []string{"load = height = memory"}},
		{100, 4, []string{"load", "height"}},
	} {
		p := plan.New(plan.Placement, "by hand", l, platform.Platform{Memory: x.memory})
		p.Offsets = []plan.Offset{{ID: "a", Offset: 0}, {ID: "b", Offset: x.second}}
		drawn := pictured(t, Placements(), l, p)
		for _, name := range []string{"load", "height", "memory", "load = height", "height = memory", "load = height = memory"} {
			if got, want := strings.Contains(drawn, ">"+name+"</text>"), slices.Contains(x.names, name); got != want {
				t.Errorf("memory %g, b at %g: %q is named: %v, want %v", x.memory, x.second, name, got, want)
			}
		}
	}
}

// pictured is the picture of a plan, which is well-formed.
func pictured(t *testing.T, d Drawer, in plan.Instance, p *plan.Plan) string {
	t.Helper()
	var b bytes.Buffer
	if err := d.SVG(&b, in, p, Options{}); err != nil {
		t.Fatal(err)
	}
	if err := xml.Unmarshal(b.Bytes(), new(struct{})); err != nil {
		t.Fatal(err)
	}
	return b.String()
}
