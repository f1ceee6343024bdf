package allocator

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"workbench/model/instance/lifetimes"
)

// Each time a tensor is there is a buffer; what is not given back lives to the end.
func TestLifetimes(t *testing.T) {
	trace := &Trace{
		Blocks: []Block{{Size: 5, Tensor: "a", Layer: 1}, {Size: 7, Tensor: "w", Layer: -1}, {Size: 5, Tensor: "a", Layer: 1}},
		Events: []Event{{0, 0, false}, {0, 1, false}, {1, 0, true}, {1, 2, false}},
	}
	want := &lifetimes.Lifetimes{Name: "x", Align: 1, Buffers: []lifetimes.Buffer{
		{ID: "a_1", Lower: 0, Upper: 2, Size: 5}, {ID: "w", Lower: 1, Upper: 4, Size: 7}, {ID: "a_1#2", Lower: 3, Upper: 4, Size: 5},
	}}
	if diff := cmp.Diff(want, trace.Lifetimes("x", 1)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
