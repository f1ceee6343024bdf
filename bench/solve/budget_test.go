package solve

import (
	"testing"

	"pgregory.net/rapid"

	"workbench/model/instance/training"
	"workbench/model/testfile"
)

// The largest number is the one that trying all of them finds.
func TestLargest(t *testing.T) {
	testfile.Property(t, func(t *rapid.T) {
		start := rapid.IntRange(1, 100).Draw(t, "start")
		room := rapid.Float64Range(-10, 5000).Draw(t, "room")
		slope := rapid.Float64Range(0.5, 50).Draw(t, "slope")
		bend := rapid.Float64Range(0, 0.2).Draw(t, "bend")
		calls := 0
		left := func(n int) float64 {
			calls++
			return room - slope*float64(n) - bend*float64(n*n)
		}
		got := largest(start, left)
		if used := calls; used > 60 {
			t.Fatalf("%d values for %d", used, got)
		}
		if got > 0 && left(got) < 0 || left(got+1) >= 0 {
			t.Fatalf("%d: left are %g, and %g with one more", got, left(got), left(got+1))
		}
	})
}

// A larger mini-batch has larger values, inputs and workspaces, and the same weights.
func TestStepsGrowWithTheirBatch(t *testing.T) {
	g := &training.Graph{
		Samples: 2, Input: 3,
		Storages: []training.Storage{
			{Bytes: 10, Kind: training.Value},
			{Bytes: 20, Kind: training.Parameter},
			{Bytes: 30, Kind: training.Input},
			{Bytes: 40, Kind: training.Gradient},
			{Bytes: 4, Kind: training.LossValue},
		},
		Nodes: []training.Node{{Workspace: 5}},
	}
	d := scaleStep(g, 2)
	for s, want := range []float64{20, 20, 60, 40, 4} {
		if got := d.Storages[s].Bytes; got != want {
			t.Errorf("storage %d of kind %s has %g bytes, want %g", s, d.Storages[s].Kind, got, want)
		}
	}
	if d.Input != 6 || d.Nodes[0].Workspace != 10 || g.Storages[0].Bytes != 10 || g.Nodes[0].Workspace != 5 {
		t.Errorf("input %g, workspace %g, of the original %g and %g", d.Input, d.Nodes[0].Workspace, g.Storages[0].Bytes, g.Nodes[0].Workspace)
	}
}
