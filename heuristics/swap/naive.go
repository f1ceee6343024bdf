package swap

import (
	"context"
	"fmt"
	"math"

	"workbench/model/instance/functions"
	"workbench/model/plan"
	"workbench/model/platform"
)

// Naive returns the plan of the strategy from which [003] §1 starts: everything a function uses is
// fetched right before it and transferred out right after it, without overlap. What no later
// function uses is not transferred out. Variables that are initially on the device are evicted
// before the first function that does not use them. It finds a plan whenever one exists. O(uses).
func Naive(ctx context.Context, s *functions.Sequence, p platform.Platform) (*plan.Plan, error) {
	in, err := newInstance(s, p)
	if err != nil {
		return nil, err
	}
	m, list := newMachine(in), in.naive(nil)
	m.issued = true
	if math.IsInf(m.run(list), 1) {
		return nil, m.explain("naive", list)
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("naive: %w: %w", plan.ErrNoPlan, err)
	}
	return m.plan("naive"), nil
}

// naive appends the list of Naive to list.
func (in *instance) naive(list []int) []int {
	for v, where := range in.Initial {
		if where == functions.Device && in.Size[v] > 0 && in.First[v] > 0 {
			list = append(list, in.evictEvent(v))
		}
	}
	list = append(list, in.barrier())
	for i := range in.N {
		for _, v := range in.Use[in.At[i]:in.At[i+1]] {
			list = append(list, in.come(v)) // of what is there, or not yet made: nothing
		}
		list = append(list, in.barrier(), i)
		for k := in.At[i]; k < in.At[i+1]; k++ {
			if in.Next[k] < in.N {
				list = append(list, in.evictEvent(in.Use[k]))
			}
		}
		list = append(list, in.barrier())
	}
	return list
}
