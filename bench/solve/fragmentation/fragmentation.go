// Package fragmentation replays the allocations of plans through simulated allocators, [003]: how much they
// reserve and the largest batch that fits.
package fragmentation

import (
	"context"
	"fmt"
	"math"

	"workbench/bench/solve"
	"workbench/model/allocator"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/verify"
)

// AllocatorChoice names an allocator of package allocator.
type AllocatorChoice struct {
	Chunk int64 // chunk size of virtual addressing in bytes; 0: a caching best fit
	Mixed bool  // small blocks use a best fit nevertheless
	// Static assigns every tensor its address before the run, without an allocator.
	Static bool
}

// Static is the name of static allocation.
const Static = "static"

// New returns the allocator of an empty device of that capacity in bytes.
func (a AllocatorChoice) New(capacity int64) allocator.Allocator {
	switch {
	case a.Chunk > 0 && a.Mixed:
		return allocator.NewMixed(capacity, a.Chunk)
	case a.Chunk > 0:
		return allocator.NewVirtual(capacity, a.Chunk)
	}
	return allocator.NewBestFit(capacity)
}

// Name returns the name of the allocator.
func (a AllocatorChoice) Name() string { return a.New(0).Name() }

// FragmentationOptions configure the replay of a plan's memory.
type FragmentationOptions struct {
	Allocators []AllocatorChoice
	Capacity   int64 // bytes of each device; allocator.Unlimited: no limit
	Steps      int   // number of runs of the plan with a persistent cache; at least 1
	Unit       int64 // bytes of a slot of a join
	Late       bool  // for plans of swapping: see allocator.Trace.Late
	Record     bool  // keep samples
}

// Formats of what fragmentation prints.
const (
	FragmentationFormat = "workbench.fragmentation/v1"
	BatchesFormat       = "workbench.batches/v1"
)

// Fragmentation is the memory that allocators reserve for a plan. Sizes are in bytes.
type Fragmentation struct {
	Format   string           `json:"format"`
	Problem  string           `json:"problem"`
	Method   string           `json:"method"`
	Instance plan.InstanceRef `json:"instance"`
	Memory   float64          `json:"memory"`      // limit of the plan; for a join, slots
	Peak     float64          `json:"peak_memory"` // of the plan by replay, in the unit of Memory
	Steps    int              `json:"steps"`
	Late     bool             `json:"late"`
	Runs     []FragmentedRun  `json:"runs"` // by device, then allocator
}

// FragmentedRun is a replay through one allocator, on one device.
type FragmentedRun struct {
	*allocator.Report
	// Least is the smallest device found on which the plan runs with this allocator, within one part in a
	// thousand.
	Least int64 `json:"least_capacity"`
}

// Fragment replays the memory of p, a plan of the problem, through each allocator. An invalid plan is an
// error of the user's. O(replays · operations · log).
func Fragment(ctx context.Context, problem *solve.Problem, in *solve.Instance, p *plan.Plan,
	o FragmentationOptions,
) (*Fragmentation, error) {
	traces, err := allocator.Traces(problem.Tensors, in.Instance, p, o.Unit)
	if err != nil {
		return nil, solve.InputError(err)
	}
	if o.Late {
		if err := allLate(problem, p, traces); err != nil {
			return nil, err
		}
	}
	report, err := verify.Replay(in.Instance, p)
	if err != nil {
		return nil, solve.InputError(err)
	}
	f := &Fragmentation{
		Format: FragmentationFormat, Problem: p.Problem, Method: p.Method, Instance: in.Ref(),
		Memory: p.Platform.Memory, Peak: report.PeakMemory, Steps: max(1, o.Steps), Late: o.Late,
	}
	for _, t := range traces {
		for _, a := range o.Allocators {
			if a.Static {
				r, err := static(ctx, t, in.Name, o.Capacity)
				if err != nil {
					return nil, err
				}
				f.Runs = append(f.Runs, r)
				continue
			}
			r := FragmentedRun{Report: allocator.Replay(t, a.New(o.Capacity), o.Capacity, f.Steps, o.Record)}
			enough := allocator.Replay(t, a.New(allocator.Unlimited), allocator.Unlimited, f.Steps, false).Reserved
			r.Least = allocator.LeastCapacity(t, f.Steps, enough, a.New)
			f.Runs = append(f.Runs, r)
		}
	}
	return f, nil
}

// allLate makes those traces of p late.
func allLate(problem *solve.Problem, p *plan.Plan, traces []*allocator.Trace) error {
	if !problem.Late {
		return solve.InputError(fmt.Errorf("a plan of %s: its memory cannot be freed late", problem.Name))
	}
	for i, t := range traces {
		traces[i] = t.Late(Capacity(p.Platform.Memory))
	}
	return nil
}

// Err returns an error wrapping plan.ErrNoPlan if some replay ran out of memory: the plan is valid, but does not
// run with the allocator.
func (f *Fragmentation) Err() error {
	for _, r := range f.Runs {
		if x := r.Failure; x != nil {
			where := ""
			if r.Device != "" {
				where = " on " + r.Device
			}
			size := func(n int64) string { return platform.FormatBytes(float64(n)) }
			return fmt.Errorf("%s%s: no memory for %s: %s requested, %s of %s in use, %s stuck: %w in this memory",
				r.Allocator, where, x.Block, size(x.Size), size(x.Usage.Used), size(r.Capacity), size(x.Usage.Stuck), plan.ErrNoPlan)
		}
	}
	return nil
}

// Capacity converts a size to the capacity of a device in bytes.
func Capacity(bytes float64) int64 {
	if !(bytes < float64(allocator.Unlimited)) {
		return allocator.Unlimited
	}
	return int64(math.Floor(bytes))
}
