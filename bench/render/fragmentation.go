package render

import (
	"fmt"
	"io"

	"github.com/jedib0t/go-pretty/v6/table"

	"workbench/bench/solve/fragmentation"
	"workbench/model/allocator"
	"workbench/model/platform"
)

// Fragmentation prints the replays of a plan through allocators.
func Fragmentation(w io.Writer, f *fragmentation.Fragmentation, capacity int64) {
	size := func(x int64) string { return platform.FormatBytes(float64(x)) }
	on := "devices without limit"
	if capacity != allocator.Unlimited {
		on = "devices of " + size(capacity)
	}
	fmt.Fprintf(w, "%s plan for %s by %s, %s on %s%s\n\n", f.Problem, f.Instance.Name, f.Method, platform.Count(f.Steps, "step"), on,
		freedLate(f.Late))
	t := Table(w, table.Row{"device", "allocator", "requested", "reserved", "internal", "external", "blocks", "runs in"}, 3, 4, 5, 6, 7, 8)
	for _, r := range f.Runs {
		device := r.Device
		switch {
		case device == "":
			device = "gpu"
		case r.Requests == 0:
			continue // a GPU without layers
		}
		row := table.Row{device, r.Allocator, size(r.Requested), size(r.Reserved), size(r.Internal), size(r.External), r.Most, size(r.Least)}
		if r.Failure != nil {
			row[3] = "no room"
		}
		t.AppendRow(row)
	}
	t.Render()
	fmt.Fprint(w, "\npeaks; internal: in blocks in use beyond what was requested; external: free, but stuck in\n"+
		"segments in use; blocks: most at once; runs in: the smallest device found that is enough\n")
}

// freedLate says that memory is freed late.
func freedLate(late bool) string {
	if late {
		return ", freed late"
	}
	return ""
}

// Batches prints the batches that fit, several or the largest of each method.
func Batches(w io.Writer, several bool, b *fragmentation.Batcher, points []*fragmentation.BatchPoint) {
	size := func(x float64) string { return platform.FormatBytes(x) }
	what := "largest batch"
	if several {
		what = "batches"
	}
	fmt.Fprintf(w, "%s of %s that fit in %s: %s, %s%s\n\n", what, b.Network, size(float64(b.Capacity)), b.Problem.Name,
		platform.Count(b.Steps, "step"), freedLate(b.Late))
	t := Table(w, table.Row{"method", "allocator", "batch", "budget", "peak", "reserved", "internal", "external", "samples/s"}, 3, 4, 5, 6, 7,
		8, 9)
	for _, x := range points {
		row := table.Row{x.Method, x.Allocator, x.Batch, "-", "-", "-", "-", "-", "-"}
		if x.Fits {
			row = table.Row{
				x.Method, x.Allocator, x.Batch, fmt.Sprintf("%.0f %%", 100*x.Share), size(x.PeakMemory), size(float64(x.Reserved)),
				size(float64(x.Internal)), size(float64(x.External)), fmt.Sprintf("%.4g", x.Throughput),
			}
		}
		t.AppendRow(row)
	}
	t.Render()
	fmt.Fprint(w, "\nbudget: the largest share of the memory for which a plan's tensors find room; peak: of that plan;\n"+
		"reserved, internal, external: peaks of the allocator; -: does not fit\n")
}

// Placed prints the placement of a plan's tensors.
func Placed(w io.Writer, x *fragmentation.Placed) {
	size, height, p := platform.FormatBytes, *x.Objective, x.Of
	fmt.Fprintf(w, "%s: %s of the plan of %s by %s\n", x.Lifetimes.Name, platform.Count(len(x.Lifetimes.Buffers), "buffer"), p.Problem,
		p.Method)
	fmt.Fprintf(w, "  height      %s (%.0f bytes), %s above the load\n", size(height), height,
		Percent((height-x.Bound.Value)/max(x.Bound.Value, 1)))
	fmt.Fprintf(w, "  status      %s\n", x.Status)
	if x.Memory > 0 {
		word := "fits in"
		if height > x.Memory {
			word = "does not fit in"
		}
		fmt.Fprintf(w, "  memory      %s the %s of the plan\n", word, size(x.Memory))
	}
	if p.Platform.Memory < x.Memory {
		fmt.Fprintf(w, "  planned     anew for %s, in %s\n", size(p.Platform.Memory), platform.FormatSeconds(p.Claims.Makespan))
	}
}
