package timeline

import (
	"bytes"
	"encoding/xml"
	"slices"
	"strings"
	"testing"

	"workbench/model/lifetimes"
	"workbench/model/partition"
	"workbench/model/periodic"
	"workbench/model/plan"
	"workbench/model/platform"
)

// twoStages is one micro-batch after the other on two GPUs: the first holds a weight of 3,
// an overhead of 1, and 2 of each micro-batch until its backward.
func twoStages() (*partition.Partition, *plan.Plan) {
	in := &partition.Partition{Name: "two", Stages: []partition.Stage{
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
	s, err := periodic.SummarizeFlush(in, p)
	if err != nil || s.Violations > 0 {
		t.Fatal(s, err)
	}
	steps, err := periodic.ProfileFlush(in, p)
	if err != nil {
		t.Fatal(err)
	}
	m := (&drawing{plan: p}).flushPanels(steps, s)
	for g, want := range [][]periodic.Sample{
		{{Weights: 4}, {Time: 0, Weights: 4, Activations: 2}, {Time: 1, Weights: 4, Activations: 2}, {Time: 3, Weights: 4, Activations: 2}, {Time: 5, Weights: 4}},
		{{}, {Time: 1, Activations: 4}, {Time: 2, Activations: 4}, {Time: 2, Activations: 4}, {Time: 3, Activations: 3}, {Time: 3, Activations: 3}, {Time: 4}},
	} {
		got := m.list[g].samples
		if len(got) < len(want) || !slices.Equal(got[:len(want)], want) {
			t.Errorf("gpu%d holds %v, want %v first", g, got, want)
		}
		most := slices.MaxFunc(got, func(a, b periodic.Sample) int { return int(a.Total() - b.Total()) })
		if most.Total() != s.GPUs[g].Memory {
			t.Errorf("gpu%d is drawn with at most %g, and holds %g", g, most.Total(), s.GPUs[g].Memory)
		}
	}
	picture := pictured(t, Flushes(), in, p)
	for _, want := range []string{">memory (B)<", "weights, overhead of gpu0", "activations of gpu1", ">dashed: the limit", "limit: 9 B", ">backward (weights)<"} {
		if !strings.Contains(picture, want) {
			t.Errorf("the picture does not say %q", want)
		}
	}
}

// The dashed lines of a placement are named in the picture, equal ones together; a memory far
// above is not drawn.
func TestPlacementNamesItsLines(t *testing.T) {
	l := &lifetimes.Lifetimes{Name: "two", Buffers: []lifetimes.Buffer{{ID: "a", Lower: 0, Upper: 2, Size: 3}, {ID: "b", Lower: 1, Upper: 3, Size: 4}}}
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
		picture := pictured(t, Placements(), l, p)
		for _, name := range []string{"load", "height", "memory", "load = height", "height = memory", "load = height = memory"} {
			if got, want := strings.Contains(picture, ">"+name+"</text>"), slices.Contains(x.names, name); got != want {
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
