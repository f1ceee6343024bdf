package pipeline_test

import (
	"math"
	"testing"

	"workbench/model/platform"
	"workbench/model/problem/pipeline"
	"workbench/model/zoo"
)

// The stages of 1F1B* of gpt2 on four GPUs hold three copies of their weights and the saved tensors of 7, 5, 3 and 1
// mini-batches in flight.
func TestSavedTensors(t *testing.T) {
	c, err := zoo.Load("zoo:gpt2?batch=8")
	if err != nil {
		t.Fatal(err)
	}
	in, err := pipeline.New(c, platform.Platform{
		Memory: 64 << 30, Bandwidth: 12e9, Processors: 4, WeightCopies: 3,
		Model: platform.SavedModel,
	}, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		from, to, flight int
		want             float64
	}{{1, 5, 7, 35.255}, {6, 9, 5, 24.929}, {10, 13, 3, 15.084}, {14, 14, 1, 2.012}} {
		if got := (in.Weights[x.to] - in.Weights[x.from-1] + float64(x.flight)*in.Inputs(x.from, x.to)) / (1 << 30); math.Abs(got-x.want) > 2e-3 {
			t.Errorf("layers %d to %d: %.4f GiB, want %.3f", x.from, x.to, got, x.want)
		}
	}
}
