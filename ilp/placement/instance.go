// Package placement holds the formulations of offline dynamic storage allocation: offsets for buffers of known
// lifetimes that minimise the height.
package placement

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"workbench/ilp/formulation"
	"workbench/model/instance/lifetimes"
	"workbench/model/milp"
	"workbench/model/plan"
	"workbench/model/platform"
	view "workbench/model/problem/placement"
)

// target is the scaled value of the load, within a factor of two.
const target = 0x1p10

// mostPairs limits the pairs of simultaneously alive buffers for which a model is built.
const mostPairs = 100_000

// pair is two buffers alive together, one of which is below the other; i < j.
type pair struct{ i, j int }

func (p pair) String() string { return fmt.Sprintf("%d,%d", p.i, p.j) } // for column names

// instance is an instance with what all formulations share: the scale, the pairs and the maximum height.
type instance struct {
	*view.Instance
	platform platform.Platform
	scale    float64 // a power of two: model units per unit of the instance
	load     int64
	pairs    []pair
	most     int64 // a height that some optimal placement does not exceed
}

// layout reads lifetimes by pool. plain is not nil if the instance has only lifetimes, sizes and an alignment. The
// error wraps formulation.ErrInstance or is a *plan.Infeasible.
func layout(l *lifetimes.Lifetimes, p platform.Platform) (y *view.Layout, plain *view.Instance, err error) {
	if err := l.Validate(); err != nil {
		return nil, nil, fmt.Errorf("%w: %w", formulation.ErrInstance, err)
	}
	if y, err = view.NewLayout(l, p.Objective); err != nil {
		if errors.Is(err, view.ErrTooLarge) {
			err = fmt.Errorf("%w: %w", formulation.ErrInstance, err)
		}
		return nil, nil, err
	}
	if y.Objective != lifetimes.TotalPenalty {
		plain = y.Plain()
	}
	return y, plain, nil
}

// newInstance reads lifetimes. The error wraps formulation.ErrInstance or is a *plan.Infeasible.
func newInstance(l *lifetimes.Lifetimes, p platform.Platform) (*instance, error) {
	if err := l.Validate(); err != nil {
		return nil, fmt.Errorf("%w: %w", formulation.ErrInstance, err)
	}
	v := view.New(l)
	if err := v.Fits(p.Memory); err != nil {
		return nil, err
	}
	in := &instance{Instance: v, platform: p, load: v.Load()}
	for i := range v.Buffers {
		in.most += v.Buffers[i].Room
	}
	in.most = int64(min(float64(in.most), p.Memory))
	in.scale = milp.PowerOfTwo(float64(max(in.load, 1)), target)
	return in, nil
}

// pair finds the pairs of buffers of positive size that are alive together.
func (in *instance) pair() error {
	order := make([]int, 0, len(in.Buffers))
	for i := range in.Buffers {
		if in.Buffers[i].Room > 0 {
			order = append(order, i)
		}
	}
	slices.SortFunc(order, func(i, j int) int {
		return cmp.Or(cmp.Compare(in.Buffers[i].First, in.Buffers[j].First), cmp.Compare(i, j))
	})
	for k, i := range order {
		for _, j := range order[k+1:] {
			if in.Buffers[j].First > in.Buffers[i].Last {
				break
			}
			if in.pairs = append(in.pairs, pair{min(i, j), max(i, j)}); len(in.pairs) > mostPairs {
				return fmt.Errorf("%w: more than %d pairs of buffers are alive together", formulation.ErrInstance, mostPairs)
			}
		}
	}
	slices.SortFunc(in.pairs, func(a, b pair) int { return cmp.Or(cmp.Compare(a.i, b.i), cmp.Compare(a.j, b.j)) })
	return nil
}

// units converts an amount from units of the instance to units of the model, exactly.
func (in *instance) units(x int64) float64 { return in.scale * float64(x) }

// plan returns the placement that drops the buffers in the order of the given offsets onto those already placed.
// If the offsets are a placement, the result is no higher, whatever rounding errors a solver left in them.
func (in *instance) plan(method string, at func(i int) float64) *plan.Plan {
	order := make([]int, 0, len(in.Buffers))
	for i := range in.Buffers {
		if in.Buffers[i].Room > 0 {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(at(i), at(j)) })
	offsets := make([]int64, len(in.Buffers))
	for k, i := range order {
		for _, j := range order[:k] {
			if b := &in.Buffers[j]; b.Meets(&in.Buffers[i]) {
				offsets[i] = max(offsets[i], offsets[j]+b.Room)
			}
		}
	}
	return in.Plan(method, offsets, in.platform)
}
