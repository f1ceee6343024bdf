// Package pipegraph plans pipelined model parallelism on graphs: programs over the
// lattice of ideals choose stages of which several values may cross a cut, an order of
// the operations follows from them, and methods for chains ([heuristics/pipeline]) plan
// the graph in that order.
//
// The idea of states that are ideals is that of PipeDream (Narayanan et al., SOSP 2019,
// §3.1) and of Tarnawski et al., NeurIPS 2020; that of the memory and the schedule is
// 1F1B* of [004] 7.1 (Beaumont, Eyraud-Dubois and Shilova), of which this is the form
// for graphs. Ours is to hand the order on to methods that know no graphs.
package pipegraph

import (
	"errors"
	"fmt"
	"slices"

	"workbench/heuristics/pipeline"
	"workbench/model/chain"
	"workbench/model/ideals"
	view "workbench/model/pipeline"
	"workbench/model/plan"
	"workbench/model/platform"
)

// MostIdeals is how many ideals the programs look at: more, and the graph is made
// coarser. Half a second on two processors.
const MostIdeals = 4000

// A Method plans a chain.
type Method func(*chain.Chain, platform.Platform, pipeline.Options) (*plan.Plan, error)

// Runs is how many runs of each method [On] takes at most for an order.
const Runs = 5

// On returns the best plan that methods for chains find for the graph in some orders.
// Each method tries every order, beginning with the stages that come with it, and then
// those that methods before it found best there, so that it is no worse than they are. The error wraps [plan.ErrNoPlan], or is of the
// input; that nothing fits in some orders proves nothing. It takes as long as [Runs] of
// each method an order.
func On(v *ideals.View, p platform.Platform, o pipeline.Options, orders []Order, methods ...Method) (*plan.Plan, error) {
	found := make([]*plan.Plan, len(orders))
	var best *plan.Plan
	var why error
	for k, order := range orders {
		if found[k] = order.First; shorter(order.First, best) {
			best = order.First
		}
	}
	for _, method := range methods {
		for k, order := range orders {
			w := &ordered{View: v, p: p, o: o, order: order.Layers, method: method}
			if err := w.plan(found[k]); err != nil {
				return nil, err
			}
			if w.why != nil {
				why = w.why
			}
			if shorter(w.best, found[k]) {
				found[k] = w.best
			}
			if shorter(w.best, best) {
				best = w.best
			}
		}
	}
	if best == nil {
		return nil, fmt.Errorf("%w in the %d orders of the operations that were tried; of the last: %v", plan.ErrNoPlan, len(orders), why)
	}
	return best, nil
}

// shorter reports whether p is a plan and better than q, if that is one.
func shorter(p, q *plan.Plan) bool {
	return p != nil && (q == nil || p.Claims.Makespan < q.Claims.Makespan)
}

// ordered is a graph in an order, and a method that plans it.
type ordered struct {
	*ideals.View
	p      platform.Platform
	o      pipeline.Options
	order  []int
	method Method
	tried  [][]float64 // what layers kept so far
	best   *plan.Plan
	why    error // there was none
}

// plan looks for the best plan. What a layer keeps depends on the stages that it looks for, so
// it is tried with what layers keep in the stages of another plan, if there is one;
// with layers that keep what nobody before them does, which may be less than they keep in
// the stages found: what then does not fit is dropped; else with layers that keep all
// that their backwards read, which is more; and then, while that helps, with what they
// keep in the best stages so far. The error is of the input.
func (w *ordered) plan(other *plan.Plan) error {
	better := false
	try := func(keeping ideals.Keeping, stages []plan.Stage) error {
		found, err := w.try(keeping, stages)
		better = better || found
		return err
	}
	if other != nil {
		if err := try(ideals.Stages, other.Allocation); err != nil {
			return err
		}
	}
	fits, err := w.try(ideals.Once, nil)
	if better = better || fits; err == nil && !fits {
		err = try(ideals.Each, nil)
	}
	for run := 3; err == nil && better && run < Runs; run++ {
		better = false
		err = try(ideals.Stages, w.best.Allocation)
	}
	return err
}

// try reports whether the method has found a better plan that fits.
func (w *ordered) try(keeping ideals.Keeping, stages []plan.Stage) (bool, error) {
	c := w.Chain(w.order, keeping, stages)
	if slices.ContainsFunc(w.tried, func(kept []float64) bool { return slices.Equal(kept, c.Kept) }) {
		return false, nil // all else is of the order
	}
	w.tried = append(w.tried, c.Kept)
	found, err := w.method(c, w.p, w.o)
	if err != nil {
		if !errors.Is(err, plan.ErrNoPlan) && !errors.As(err, new(*plan.Infeasible)) {
			return false, err
		}
		w.why = err
		return false, nil
	}
	fits, err := finish(w.View, w.order, found)
	if err != nil || !fits || !shorter(found, w.best) {
		return false, err
	}
	w.best = found
	return true, nil
}

// finish makes a plan of a chain one of the graph, and reports whether it fits.
func finish(v *ideals.View, order []int, p *plan.Plan) (bool, error) {
	p.Order = v.IDs(order)
	peak, err := view.Peak(v.Chain(order, ideals.Stages, p.Allocation), p)
	p.Claims.PeakMemory = peak
	return err == nil && platform.Fits(peak, p.Platform.Memory), err
}

// An Order is one of the layers, and a plan to begin with there, nil: none.
type Order struct {
	Layers []int
	First  *plan.Plan
}

// Orders returns the orders that are worth a try: that of the file, and those of the
// stages that programs over the ideals choose, with memory and without. The
// first is that of the stages that need least, with the plan of one mini-batch
// at a time, in more memory, too, so that no method is worse there: wherever contiguous stages fit in some order there is a plan, unless the
// lattice leaves ideals out. The error is of the input.
func Orders(v *ideals.View, t *ideals.Lattice, p platform.Platform, o pipeline.Options) ([]Order, error) {
	orders := []Order{{Layers: v.Order()}}
	if t == nil {
		return orders, nil
	}
	add := func(x Order) {
		if !slices.ContainsFunc(orders, func(y Order) bool { return slices.Equal(x.Layers, y.Layers) && y.First == x.First }) {
			orders = append(orders, x)
		}
	}
	if chosen := Star(t, p, o); chosen != nil {
		add(Order{Layers: t.Order(chosen)})
	}
	balanced, _ := Balanced(t, p)
	add(Order{Layers: t.Order(balanced)})
	if p.Replicas {
		replicated, _ := Replicated(t, p)
		add(Order{Layers: t.Order(replicated)})
	}
	slices.Reverse(orders) // the file's last: what is as good with it keeps the others' cuts
	first, err := least(t, p, o)
	if first != nil {
		orders = append([]Order{*first}, orders...)
	}
	return orders, err
}

// least returns the order of the stages that need least memory with one mini-batch at a
// time and that plan, nil if it does not fit.
func least(t *ideals.Lattice, p platform.Platform, o pipeline.Options) (*Order, error) {
	order, stages := t.LeastContiguous(p, o.Model)
	if order == nil {
		return nil, nil // not found in time
	}
	in, err := view.New(t.View.Chain(order, ideals.Stages, stages), p, o.Model)
	if err != nil {
		return nil, err
	}
	one := in.OneByOne(stages).Plan(in, "one-at-a-time")
	fits, err := finish(t.View, order, one)
	if err != nil || !fits {
		return nil, err
	}
	return &Order{Layers: order, First: one}, nil
}
