package rematgraph

import (
	"context"
	"fmt"
	"iter"
	"math"
	"slices"

	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/problem/rematgraph"
)

// Chen returns the fastest plan that fits of the method of Chen et al., "Training deep nets with
// sublinear memory cost" (2016). Some articulation tensors of the forward graph are kept. The nodes
// between two of them are recomputed when the first backward needs any of them, and kept until
// their last use. Values after the last checkpoint are kept.
//
// Segmentations are those of their Algorithm 3, which closes a segment when its values exceed a
// budget, for every budget that matters (at most chenBudgets), and those with equally many layers,
// √n among them. It returns the best so far when ctx ends. O(budgets·n³/64) in the worst case.
func Chen(ctx context.Context, v *rematgraph.View, p platform.Platform) (*plan.Plan, error) {
	if err := v.Fits(p.Memory); err != nil {
		return nil, err
	}
	all, err := chen(ctx, v)
	if err != nil {
		return nil, err
	}
	var best *rematgraph.Schedule
	time, lowest := math.Inf(1), math.Inf(1)
	for s := range all {
		peak, _, _ := s.Peak()
		lowest = min(lowest, peak)
		if cost := s.Cost(); platform.Fits(peak, p.Memory) && cost < time {
			best, time = s, cost
		}
	}
	if best == nil {
		if math.IsInf(lowest, 1) {
			return nil, fmt.Errorf("chen: %w: no segmentation fits, or the time was too short", plan.ErrNoPlan)
		}
		return nil, fmt.Errorf("chen: %w: its segmentations need at least %s, %s are available", plan.ErrNoPlan,
			v.Graph.Unit.Exactly(lowest), v.Graph.Unit.Exactly(p.Memory))
	}
	return fit("chen", best, p)
}

// chenBudgets is the maximum number of budgets.
const chenBudgets = 64

// chen yields the schedules of all segmentations, one at a time: together those of a large
// graph take gigabytes.
func chen(ctx context.Context, v *rematgraph.View) (iter.Seq[*rematgraph.Schedule], error) {
	s, err := cut("chen", v)
	if err != nil {
		return nil, err
	}
	size := make([]float64, len(s.last)) // of each layer, less its checkpoint
	for l := range size {
		for j := s.first(l); j < s.last[l]; j++ {
			size[l] += v.Written[j]
		}
	}
	all := [][]int{nil}
	for _, budget := range budgets(size) {
		all = append(all, byBudget(size, budget))
	}
	for k := 1; k <= min(len(size), chenBudgets+1); k++ {
		all = append(all, equally(len(size), k))
	}
	return func(yield func(*rematgraph.Schedule) bool) {
		seen := map[string]bool{}
		for _, ends := range all {
			if key := fmt.Sprint(ends); !seen[key] {
				seen[key] = true
				if ctx.Err() != nil || !yield(s.keepOnly(ends)) {
					return
				}
			}
		}
	}, nil
}

// budgets returns the sizes of runs of layers, ascending, thinned out to
// chenBudgets.
func budgets(size []float64) []float64 {
	var all []float64
	for i := range size {
		sum := 0.0
		for _, x := range size[i:] {
			sum += x
			all = append(all, sum)
		}
		if len(all) > 1<<20 {
			break
		}
	}
	slices.Sort(all)
	all = slices.Compact(all)
	if len(all) <= chenBudgets {
		return all
	}
	for k := range chenBudgets {
		all[k] = all[k*(len(all)-1)/(chenBudgets-1)]
	}
	return all[:chenBudgets]
}

// byBudget returns the last layers of segments, each the longest that the
// budget allows.
func byBudget(size []float64, budget float64) (ends []int) {
	sum := 0.0
	for l, x := range size {
		if sum+x > budget && l > 0 {
			ends = append(ends, l-1)
			sum = 0
		}
		sum += x
	}
	return ends
}

// equally returns the last layers of k segments of equally many layers.
func equally(layers, k int) (ends []int) {
	for j := 1; j < k; j++ {
		if l := j*layers/k - 1; l >= 0 && (len(ends) == 0 || l > ends[len(ends)-1]) {
			ends = append(ends, l)
		}
	}
	return ends
}

// keepOnly returns the schedule with checkpoints after the layers of ends. The layers after the
// last one are kept.
func (s *segments) keepOnly(ends []int) *rematgraph.Schedule {
	v := s.v
	out := v.New()
	retain := func(i, after, until int) { // while stages after+1..until run
		for t := after + 1; t <= until; t++ {
			out.Retain(t, i, true)
		}
	}
	from := 0
	for _, l := range ends {
		checkpoint := s.last[l]
		again := v.N // the first node after the forward part that reads the segment
		for j := from; j < checkpoint; j++ {
			for _, i := range v.Writes[j] {
				again = min(again, s.firstBehind(i))
			}
		}
		for j := from; j < checkpoint; j++ {
			for _, i := range v.Writes[j] {
				retain(i, j, s.lastForward(i))
				if again < v.N {
					retain(i, again, v.End(i))
				}
			}
		}
		for _, i := range v.Writes[checkpoint] {
			retain(i, checkpoint, v.End(i))
		}
		from = checkpoint + 1
	}
	for j := from; j < v.N; j++ {
		for _, i := range v.Writes[j] {
			retain(i, j, v.End(i))
		}
	}
	out.Complete()
	return out
}
