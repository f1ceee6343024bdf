package fragmentation

import (
	"context"

	"workbench/bench/solve"
	"workbench/heuristics/placement"
	"workbench/model/allocator"
	"workbench/model/platform"
	view "workbench/model/problem/placement"
)

// granule is the alignment of addresses in a static placement, that of CUDA's allocator.
const granule = 512

// rounds limits the improvement of a placement; most attain the load at once. It is not a time, so that a report
// is the same on every machine.
const rounds = 3

// static returns the memory needed if every tensor has its address before the run: the height of a placement. All
// steps are equal.
func static(ctx context.Context, t *allocator.Trace, name string, capacity int64) (FragmentedRun, error) {
	if len(t.Blocks) == 0 {
		return FragmentedRun{Report: &allocator.Report{Device: t.Device, Allocator: Static}}, nil
	}
	l := t.Lifetimes(name, granule)
	if err := l.Validate(); err != nil {
		return FragmentedRun{}, solve.InputError(err)
	}
	f := placement.Least(ctx, view.New(l), placement.Goal{Rounds: rounds})
	replayed := allocator.Replay(t, allocator.NewVirtual(allocator.Unlimited, granule), allocator.Unlimited, 1, false)
	r := &allocator.Report{
		Device: t.Device, Allocator: Static, Requests: replayed.Requests, Most: replayed.Most,
		Reserved: f.Height, Used: replayed.Used, Requested: replayed.Requested, Internal: replayed.Internal,
		External: max(0, f.Height-replayed.Used),
	}
	if capacity < allocator.Unlimited {
		r.Capacity = capacity
	}
	if f.Height > capacity {
		r.Failure = &allocator.Failure{
			Step: 1, Block: platform.Count(len(t.Blocks), "buffer"), Size: f.Height,
			Fragmented: replayed.Requested <= capacity,
		}
	}
	return FragmentedRun{Report: r, Least: f.Height}, nil
}
