// Package pipelinegraph plans asynchronous pipelined model parallelism on graphs. Programs over the lattice of
// ideals choose stages, where several values may cross a cut, an order of the operations follows from them, and
// methods for chains ([heuristics/pipeline]) plan the graph in that order.
//
// Ideals as states are the idea of PipeDream (Narayanan et al., SOSP 2019, §3.1) and of Tarnawski et al., NeurIPS
// 2020. Memory and schedule are those of 1F1B* of [004] 7.1 (Beaumont, Eyraud-Dubois and Shilova), in a form for
// graphs. Passing the order on to methods for chains is the idea of this project.
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

// MostIdeals limits the ideals of the programs; graphs with more are coarsened. Half a second on two processors.
const MostIdeals = 4000

// Method plans a chain.
type Method func(*chain.Chain, platform.Platform, pipeline.Options) (*plan.Plan, error)

// runs limits the runs of each method that [Plan] makes for an order.
const runs = 7

// Plan returns the best plan that methods for chains find for the graph in some orders. Each method tries every
// order, first with the stages that come with it, and then with those that previous methods found best there, so
// that it is no worse than they are. t is nil where there are too many ideals: only the order of the file remains.
// The error wraps [plan.ErrNoPlan], or is of the input; infeasibility in some orders proves nothing. cut reports
// that the time of one of them ended before it was done.
//
// The first of several methods should be a fast one. It has half of the remaining time of ctx, and tries each
// order as soon as that is found, slowly found orders last, so that a short limit drops these and not the plans.
// The other methods share the rest equally. It takes as long as [runs] of each method for each order, plus [Star].
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
		return nil, s.cut, fmt.Errorf("%w in %s of the operations; for the last: %v", plan.ErrNoPlan,
			platform.Count(int64(len(s.orders)), "order"), s.why)
	}
	return best, s.cut, nil
}

// first finds the orders, and tries the first of some methods on each, in half of its remaining time. The error is
// of the input.
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

// tries holds the orders and the best plans so far.
type tries struct {
	*ideals.View
	t      *ideals.Lattice
	p      platform.Platform
	o      pipeline.Options
	orders []*order
	why    error // why the last order without a plan has none
	cut    bool  // the time of some order ended
	begun  bool  // a method was tried
}

// order is one of the layers, with the best plan in it, nil: none is known.
type order struct {
	layers []int
	best   *plan.Plan
}

// best returns the best plan of all orders, the first at a tie.
func (s *tries) best() (best *plan.Plan) {
	for _, x := range s.orders {
		if shorter(x.best, best) {
			best = x.best
		}
	}
	return best
}

// each tries a method on the orders, each with its share of the time. The error is of the input.
func (s *tries) each(ctx context.Context, method Method) error {
	for k, x := range s.orders {
		if err := s.try(ctx, 1/float64(len(s.orders)-k), x, method); err != nil {
			return err
		}
	}
	return nil
}

// try tries a method on one order, the first one always, however short the time.
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

// shorter reports whether p is a plan and better than q, if q is one.
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
	known  bool        // a plan in this order exists
	tried  [][]float64 // what layers kept so far
	best   *plan.Plan
	missed []plan.Stage // of the last plan that did not fit
	why    error        // why the last run found none
}

// plan searches for the best plan. What a layer keeps depends on the stages, which are unknown before the search,
// so it tries several assumptions:
//
//   - layers keep what they keep in the stages of another plan, if there is one;
//   - layers keep only what no layer before them keeps, which may be less than they keep in the stages found. If
//     the result does not fit, it is dropped, and the method is run once more with what they keep in those stages;
//   - otherwise, layers keep everything that their backwards read, which is more;
//   - finally, while that helps, layers keep what they keep in the best stages so far.
//
// The error is of the input.
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

// try reports whether the method has found a better plan that fits. It does not run again if a plan exists and the
// time is over: starting takes up to a second on thousands of layers.
func (w *ordered) try(keeping ideals.Keeping, stages []plan.Stage) (bool, error) {
	if len(w.tried) > 0 && (w.known || w.best != nil) && w.o.Stop.Given() {
		return false, nil
	}
	c := w.Chain(w.order, keeping, stages)
	if slices.ContainsFunc(w.tried, func(kept []float64) bool { return slices.Equal(kept, c.Kept) }) {
		return false, nil // any other error concerns the order
	}
	w.tried = append(w.tried, c.Kept)
	found, err := w.method(c, w.p, w.o)
	if err != nil {
		if !errors.Is(err, plan.ErrNoPlan) && !errors.As(err, new(*plan.Infeasible)) {
			return false, err
		}
		if keeping != ideals.Each { // which may keep more than necessary
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

// finish converts a plan of a chain to one of the graph, and reports whether it fits.
func finish(v *ideals.View, order []int, p *plan.Plan) (bool, error) {
	p.Order = v.IDs(order)
	peak, err := view.Peak(v.Chain(order, ideals.Stages, p.Allocation), p)
	p.Claims.PeakMemory = peak
	return err == nil && platform.Fits(peak, p.Platform.Memory), err
}

// add adds an order, unless it is known and has no first plan.
func (s *tries) add(layers []int, first *plan.Plan) {
	if !slices.ContainsFunc(s.orders, func(y *order) bool { return slices.Equal(layers, y.layers) && y.best == first }) {
		s.orders = append(s.orders, &order{layers, first})
	}
}

// least adds the order of the stages that need minimum memory with one mini-batch at a time, with that plan, if it
// is found in time and fits. It does so in larger memory, too, so that no method is worse there: wherever
// contiguous stages fit in some order there is a plan, unless the lattice omits ideals. The error is of the input.
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

// balanced adds the order of PipeDream's stages.
func (s *tries) balanced(stop plan.Stop) error {
	s.choose(stop, func(t *ideals.Lattice) []int {
		chosen, _ := Balanced(t, s.p)
		return chosen
	})
	return nil
}

// replicated adds the order of PipeDream's stages on several processors, unless that is too much work.
func (s *tries) replicated(stop plan.Stop) error {
	s.choose(stop, func(t *ideals.Lattice) []int {
		chosen, _ := Replicated(t, s.p)
		return chosen
	})
	return nil
}

// choose adds the order of the ideals that among chooses from the lattice. If the lattice omits some, it chooses
// from a second one, which is finer where the first choice cuts the graph.
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

// star adds the order of the stages that Star chooses. Stages up to a quarter slower than the best plan are still
// useful, as Star estimates their memory.
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
