// Package pipelinegraph plans pipelined model parallelism on graphs: programs over the
// lattice of ideals choose stages of which several values may cross a cut, an order of
// the operations follows from them, and methods for chains ([heuristics/pipeline]) plan
// the graph in that order.
//
// The idea of states that are ideals is that of PipeDream (Narayanan et al., SOSP 2019,
// §3.1) and of Tarnawski et al., NeurIPS 2020; that of the memory and the schedule is
// 1F1B* of [004] 7.1 (Beaumont, Eyraud-Dubois and Shilova), of which this is the form
// for graphs. Ours is to hand the order on to methods that know no graphs.
package pipelinegraph

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"workbench/heuristics/pipeline"
	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	view "workbench/model/problem/pipeline"
	"workbench/model/problem/pipeline/ideals"
)

// MostIdeals is how many ideals the programs look at: more, and the graph is made
// coarser. Half a second on two processors.
const MostIdeals = 4000

// A Method plans a chain.
type Method func(*chain.Chain, platform.Platform, pipeline.Options) (*plan.Plan, error)

// runs is how many runs of each method [Plan] takes at most for an order.
const runs = 7

// Plan returns the best plan that methods for chains find for the graph in some orders.
// Each method tries every order, beginning with the stages that come with it, and then
// those that methods before it found best there, so that it is no worse than they are.
// t is nil where there are too many ideals: the order of the file remains. The error wraps
// [plan.ErrNoPlan], or is of the input; that nothing fits in some orders proves nothing.
// cut says that the time of one of them was over before it had done all that it would.
//
// The first of several methods is to be a quick one: it has half of the time that ctx has, and
// tries each order as soon as that is found, those that take long to find after the others, so
// that a short limit cuts off these and not the plans. The other methods have equal parts of
// what is left. It takes as long as [runs] of each method an order, and as [Star].
func Plan(ctx context.Context, v *ideals.View, t *ideals.Lattice, p platform.Platform, o pipeline.Options,
	methods ...Method,
) (best *plan.Plan, cut bool, err error) {
	s := &tries{View: v, t: t, p: p, o: o}
	if err := s.first(ctx, methods); err != nil {
		return nil, s.cut, err
	}
	for k, method := range methods[1:] {
		part, cancel := plan.Portion(ctx, 1/float64(len(methods)-1-k))
		err := s.each(part, method)
		cancel()
		if err != nil {
			return nil, s.cut, err
		}
	}
	if best = s.best(); best == nil {
		return nil, s.cut, fmt.Errorf("%w in %s of the operations; in the last: %v", plan.ErrNoPlan,
			platform.Count(int64(len(s.orders)), "order"), s.why)
	}
	return best, s.cut, nil
}

// first finds the orders, and tries the first of some methods on each, in half of what is
// left of its time. The error is of the input.
func (s *tries) first(ctx context.Context, methods []Method) error {
	if len(methods) > 1 {
		half, cancel := plan.Portion(ctx, 0.5)
		defer cancel()
		ctx = half
	}
	find := []func(plan.Stop) error{s.file}
	if s.t != nil {
		find = []func(plan.Stop) error{s.least, s.balanced, s.file, s.star}
		if s.p.Replicas {
			find = slices.Insert(find, 2, s.replicated)
		}
	}
	for _, order := range find {
		half, cancel := plan.Portion(ctx, 0.5)
		defer cancel()
		known := len(s.orders)
		err := order(half.Done())
		if err == nil && len(s.orders) > known {
			err = s.try(half, 1, s.orders[known], methods[0])
		}
		if s.cut = s.cut || half.Err() != nil; err != nil {
			return err
		}
	}
	return nil
}

// tries are the orders that are tried, and what is known of them.
type tries struct {
	*ideals.View
	t      *ideals.Lattice
	p      platform.Platform
	o      pipeline.Options
	orders []*order
	why    error // there is no plan in the last one without
	cut    bool  // the time of some was over
	begun  bool  // a method was tried
}

// An order is one of the layers, with the best plan in it, nil: none is known.
type order struct {
	layers []int
	best   *plan.Plan
}

// best is that of all orders, the first of equals.
func (s *tries) best() (best *plan.Plan) {
	for _, x := range s.orders {
		if shorter(x.best, best) {
			best = x.best
		}
	}
	return best
}

// each tries a method on the orders, each of which has its share of the time. The error is
// of the input.
func (s *tries) each(ctx context.Context, method Method) error {
	for k, x := range s.orders {
		if err := s.try(ctx, 1/float64(len(s.orders)-k), x, method); err != nil {
			return err
		}
	}
	return nil
}

// try tries a method on one order, the first of all however short the time.
func (s *tries) try(ctx context.Context, share float64, x *order, method Method) error {
	ctx, cancel := plan.Portion(ctx, share)
	defer cancel()
	if s.begun && ctx.Err() != nil && s.best() != nil {
		s.cut = true
		return nil
	}
	s.begun = true
	w := &ordered{View: s.View, p: s.p, o: s.o, order: x.layers, method: method, known: x.best != nil}
	w.o.Stop = ctx.Done()
	err := w.plan(x.best)
	s.cut = s.cut || ctx.Err() != nil
	if w.why != nil {
		s.why = w.why
	}
	if shorter(w.best, x.best) {
		x.best = w.best
	}
	return err
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
	known  bool        // there is a plan in this order
	tried  [][]float64 // what layers kept so far
	best   *plan.Plan
	missed []plan.Stage // of the last plan that did not fit
	why    error        // there was none
}

// plan looks for the best plan. What a layer keeps depends on the stages that it looks for, so
// it is tried with what layers keep in the stages of another plan, if there is one;
// with layers that keep what nobody before them does, which may be less than they keep in
// the stages found: what then does not fit is dropped, and the method is tried again with what
// they keep in those; else with layers that keep all that their backwards read, which is more;
// and then, while that helps, with what they keep in the best stages so far. The error is of
// the input.
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
	for run := 3; err == nil && !fits && w.missed != nil && run < 5; run++ {
		missed := w.missed
		w.missed = nil
		fits, err = w.try(ideals.Stages, missed)
	}
	if better = better || fits; err == nil && !fits {
		err = try(ideals.Each, nil)
	}
	for run := 5; err == nil && better && run < runs; run++ {
		better = false
		err = try(ideals.Stages, w.best.Allocation)
	}
	return err
}

// try reports whether the method has found a better plan that fits. It is not tried again
// where there is a plan and no time: to begin takes up to a second on thousands of layers.
func (w *ordered) try(keeping ideals.Keeping, stages []plan.Stage) (bool, error) {
	if len(w.tried) > 0 && (w.known || w.best != nil) && w.o.Stop.Given() {
		return false, nil
	}
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
		if keeping != ideals.Each { // which may need more than there is need of
			w.why = err
		}
		return false, nil
	}
	fits, err := finish(w.View, w.order, found)
	if !fits {
		w.missed = found.Allocation
	}
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

// add adds an order, unless it is one of those with nothing to begin with.
func (s *tries) add(layers []int, first *plan.Plan) {
	if !slices.ContainsFunc(s.orders, func(y *order) bool { return slices.Equal(layers, y.layers) && y.best == first }) {
		s.orders = append(s.orders, &order{layers, first})
	}
}

// least adds the order of the stages that need least memory with one mini-batch at a time,
// with that plan, if it is found in time and fits; in more memory, too, so that no method is
// worse there: wherever contiguous stages fit in some order there is a plan, unless the
// lattice leaves ideals out. The error is of the input.
func (s *tries) least(stop plan.Stop) error {
	order, stages := s.t.LeastContiguous(s.p, s.o.Model, stop)
	if order == nil {
		return nil // not found in time
	}
	in, err := view.New(s.Chain(order, ideals.Stages, stages), s.p, s.o.Model)
	if err != nil {
		return err
	}
	one := in.OneByOne(stages).Plan(in, "one-at-a-time")
	fits, err := finish(s.View, order, one)
	if err == nil && fits {
		s.add(order, one)
	}
	return err
}

// file adds the order of the file.
func (s *tries) file(plan.Stop) error {
	s.add(s.Order(), nil)
	return nil
}

// balanced adds that of PipeDream's stages.
func (s *tries) balanced(stop plan.Stop) error {
	s.choose(stop, func(t *ideals.Lattice) []int {
		chosen, _ := Balanced(t, s.p)
		return chosen
	})
	return nil
}

// replicated adds that of PipeDream's stages on several processors, if that is not too much work.
func (s *tries) replicated(stop plan.Stop) error {
	s.choose(stop, func(t *ideals.Lattice) []int {
		chosen, _ := Replicated(t, s.p)
		return chosen
	})
	return nil
}

// choose adds the order of the ideals that are chosen of the lattice; if it leaves some out,
// of a second one, which is finer where the first choice cuts the graph.
func (s *tries) choose(stop plan.Stop, among func(*ideals.Lattice) []int) {
	t := s.t
	var order []int
	for range 2 {
		if t == nil || stop.Given() {
			break
		}
		chosen := among(t)
		if len(chosen) == 0 {
			break
		}
		order = t.Order(chosen)
		if len(t.Atoms) == s.N {
			break
		}
		t = t.Near(chosen, MostIdeals, stop)
	}
	if order != nil {
		s.add(order, nil)
	}
}

// star adds that of the stages that Star chooses. Stages that take a quarter longer than the
// best plan are still of use, as Star reckons what they need.
func (s *tries) star(stop plan.Stop) error {
	period := math.Inf(1)
	if best := s.best(); best != nil {
		period = 1.25 * best.Claims.Makespan
	}
	s.choose(stop, func(t *ideals.Lattice) []int {
		return Star(t, s.p, pipeline.Options{Model: s.o.Model, Stop: stop}, period)
	})
	return nil
}
