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

// Runs is how many runs of its method [On] takes at most for an order.
const Runs = 4

// On returns the best plan that a method for chains finds for the graph in one of some
// orders. What a layer keeps depends on the stages that it looks for, so each order is
// tried with layers that keep what nobody before them does, which may be less than they
// keep in the stages found: what then does not fit is dropped; else with layers that
// keep all that their backwards read, which is more; and then, while that helps, with
// what they keep in the best stages so far. The error wraps [plan.ErrNoPlan], or is of
// the input; that nothing fits in some orders proves nothing. It takes as long as
// [Runs] of the method an order.
func On(v *ideals.View, p platform.Platform, o pipeline.Options, orders [][]int, method Method) (*plan.Plan, error) {
	var best *plan.Plan
	var why error
	for _, order := range orders {
		var here *plan.Plan // the best of this order
		// try reports whether it has found a better one.
		try := func(keeping ideals.Keeping, stages []plan.Stage) (bool, error) {
			found, err := method(v.Chain(order, keeping, stages), p, o)
			if err != nil {
				if !errors.Is(err, plan.ErrNoPlan) && !errors.As(err, new(*plan.Infeasible)) {
					return false, err
				}
				why = err
				return false, nil
			}
			fits, err := finish(v, order, found)
			if err != nil || !fits || here != nil && found.Claims.Makespan >= here.Claims.Makespan {
				return false, err
			}
			here = found
			return true, nil
		}
		better, err := try(ideals.Once, nil)
		if err != nil {
			return nil, err
		}
		if !better {
			if better, err = try(ideals.Each, nil); err != nil {
				return nil, err
			}
			for run := 2; better && run < Runs; run++ {
				if better, err = try(ideals.Stages, here.Allocation); err != nil {
					return nil, err
				}
			}
		}
		if here != nil && (best == nil || here.Claims.Makespan < best.Claims.Makespan) {
			best = here
		}
	}
	if best == nil {
		return nil, fmt.Errorf("%w in the %d orders of the operations that were tried; of the last: %v", plan.ErrNoPlan, len(orders), why)
	}
	return best, nil
}

// finish makes a plan of a chain one of the graph, and reports whether it fits.
func finish(v *ideals.View, order []int, p *plan.Plan) (bool, error) {
	p.Order = v.IDs(order)
	peak, err := view.Peak(v.Chain(order, ideals.Stages, p.Allocation), p)
	p.Claims.PeakMemory = peak
	return err == nil && platform.Fits(peak, p.Platform.Memory), err
}

// Orders returns the orders that are worth a try: that of the file, and those of the
// stages that programs over the ideals choose, with memory and without.
func Orders(v *ideals.View, t *ideals.Lattice, p platform.Platform, o pipeline.Options) [][]int {
	orders := [][]int{v.Order()}
	if t == nil {
		return orders
	}
	balanced, _ := Balanced(t, p)
	for _, chosen := range [][]int{Star(t, p, o), balanced} {
		if order := t.Order(chosen); chosen != nil && !slices.ContainsFunc(orders, func(x []int) bool { return slices.Equal(x, order) }) {
			orders = append(orders, order)
		}
	}
	slices.Reverse(orders) // the file's last: what is as good with it keeps the others' cuts
	return orders
}
