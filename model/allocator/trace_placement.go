package allocator

import (
	"cmp"
	"slices"

	"workbench/model/instance/lifetimes"
	"workbench/model/plan"
)

// OfPlacement is the [Tracer] of placements: the live buffers, regardless of their offsets. A time step is one
// second.
func OfPlacement(in plan.Instance, _ *plan.Plan, _ int64) ([]*Trace, error) {
	return one(in, func(b *tracer) error {
		l := plan.As[*lifetimes.Lifetimes](in)
		type edge struct {
			at     int64
			begins int
			buffer int
		}
		var edges []edge
		for i := range l.Buffers {
			edges = append(edges, edge{l.Buffers[i].Lower, 1, i}, edge{l.Buffers[i].Upper, 0, i})
		}
		slices.SortFunc(edges, func(a, b edge) int {
			return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.begins, b.begins), cmp.Compare(a.buffer, b.buffer))
		})
		held := vacant(len(l.Buffers))
		for _, e := range edges {
			if x := &l.Buffers[e.buffer]; e.begins == 1 {
				held[e.buffer] = b.Allocate(float64(e.at), x.Size, x.ID, -1)
			} else {
				b.Free(float64(e.at), &held[e.buffer])
			}
		}
		return nil
	})
}
