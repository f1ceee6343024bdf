package plots

import (
	"io"
	"math"
	"testing"

	"workbench/bench/solve/fragmentation"
	"workbench/model/allocator"
)

// What is drawn of a replay: the device that reserves most, one line for what is
// requested, and stuck memory where there is some.
func TestFragmentationFigure(t *testing.T) {
	run := func(device, name string, reserved, external int64) fragmentation.FragmentedRun {
		return fragmentation.FragmentedRun{Report: &allocator.Report{
			Device: device, Allocator: name, Reserved: reserved, External: external, Capacity: 4 << 30,
			Samples: []allocator.Sample{
				{Time: 0, Usage: allocator.Usage{Requested: 1 << 30, Used: 1 << 30, Reserved: reserved}},
				{Time: 2, Usage: allocator.Usage{Requested: 1 << 29, Used: 1 << 30, Reserved: reserved, Stuck: external}},
			},
		}}
	}
	f := Fragmentation(&fragmentation.Fragmentation{Problem: "swap", Method: "m", Runs: []fragmentation.FragmentedRun{
		run("gpu0", "best-fit", 1<<30, 0), run("gpu1", "best-fit", 3<<30, 1<<28), run("gpu1", "virtual 2 MiB", 2<<30, 0),
	}})
	var names []string
	for _, s := range f.Series {
		names = append(names, s.Name)
	}
	want := []string{"requested", "best-fit reserved", "best-fit stuck", "virtual 2 MiB reserved"}
	if len(names) != len(want) {
		t.Fatalf("series %q, want %q", names, want)
	}
	for k := range want {
		if names[k] != want[k] {
			t.Errorf("series %q, want %q", names, want)
		}
	}
	if f.Series[0].Y[1] != 0.5 || f.Series[1].Y[0] != 3 || f.Series[2].Y[1] != 0.25 || f.Bound.Y[0] != 4 || !f.Bound.Above {
		t.Errorf("%+v", f)
	}
	if err := f.Write(io.Discard, "svg"); err != nil {
		t.Error(err)
	}
	if f := Fragmentation(&fragmentation.Fragmentation{}); len(f.Series) != 0 {
		t.Errorf("of nothing %+v", f)
	}
}

// Batches that do not fit are gaps, not joined over.
func TestBatchFigure(t *testing.T) {
	point := func(method string, batch int, fits bool) *fragmentation.BatchPoint {
		return &fragmentation.BatchPoint{
			Method: method, Allocator: "best-fit", Batch: batch, Fits: fits, Throughput: float64(100 * batch),
			Reserved: int64(batch) << 30,
		}
	}
	points := []*fragmentation.BatchPoint{point("a", 1, true), point("a", 2, false), point("a", 3, true), point("b", 1, true)}
	speed, memory := Batches("t", points, BatchSpeed, 8<<30), Batches("t", points, BatchMemory, 8<<30)
	if len(speed.Series) != 2 || speed.Series[0].Name != "a, best-fit" || !math.IsNaN(speed.Series[0].Y[1]) || speed.Series[0].Y[2] != 300 {
		t.Errorf("speed %+v", speed.Series)
	}
	if !math.IsNaN(memory.Series[0].Y[1]) || memory.Series[0].Y[2] != 3 || memory.Bound.Y[0] != 8 || speed.Bound != nil {
		t.Errorf("memory %+v, bound %+v", memory.Series, memory.Bound)
	}
	if err := speed.Write(io.Discard, "svg"); err != nil {
		t.Error(err)
	}
	if err := memory.Write(io.Discard, "svg"); err != nil {
		t.Error(err)
	}
}
