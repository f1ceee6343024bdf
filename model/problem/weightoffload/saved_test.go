package weightoffload_test

import (
	"testing"

	"workbench/model/platform"
	"workbench/model/problem/weightoffload"
	"workbench/model/zoo"
)

// What autograd saves of gpt2 is eighteen times its outputs: the memory with all weights resident, and with one at a time.
func TestSavedTensors(t *testing.T) {
	c, err := zoo.Load("zoo:gpt2?batch=8")
	if err != nil {
		t.Fatal(err)
	}
	const gib = 1 << 30
	for _, x := range []struct {
		model       string
		least, most float64
	}{{platform.PaperModel, 0.5923, 1.0559}, {platform.SavedModel, 18.222, 18.685}} {
		least, most := weightoffload.FromChain(c.Count(x.model)).Range()
		if d := least/gib - x.least; d < -1e-3 || d > 1e-3 {
			t.Errorf("%s: least %.4f GiB, want %.4f", x.model, least/gib, x.least)
		}
		if d := most/gib - x.most; d < -1e-3 || d > 1e-3 {
			t.Errorf("%s: all resident %.4f GiB, want %.4f", x.model, most/gib, x.most)
		}
	}
}
