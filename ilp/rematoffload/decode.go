package rematoffload

import (
	"fmt"

	"workbench/model/plan"
	view "workbench/model/problem/rematoffload"
)

// Method is the name that plans from solutions carry.
const Method = "remat-offload-milp"

// plan returns the plan of a solution: its computations in their order, and its prefetches, with new times. The
// model limits memory only at its events and abstracts from what happens within a stage, so the plan need not fit.
func (f *rematOffload) plan(x []float64) (*plan.Plan, error) {
	d := &decoder{f: f, x: x, stored: make([]bool, 2*f.N+1), moves: make([]bool, 2*f.N+2)}
	d.stored[0] = true
	for j := range f.stages() {
		d.stage(j)
	}
	r, ok := view.NewProfile(f.Instance, d.steps)
	if !ok {
		return nil, fmt.Errorf("%s: %w: the order of a solution violates a rule", f.m.Name(), plan.ErrNoPlan)
	}
	var away []view.Gap
	for _, g := range r.Gaps {
		if d.moves[g.Tensor] {
			away = append(away, g)
		}
	}
	s, ok := view.Retime(r, away)
	if !ok {
		return nil, fmt.Errorf("%s: %w: the order of a solution does not fit", f.m.Name(), plan.ErrNoPlan)
	}
	return s.Plan(Method)
}

// decoder derives the steps from a solution. Offloaded tensors count as stored: the profile contains their gap.
type decoder struct {
	f      *rematOffload
	x      []float64
	steps  []view.Step
	stored []bool // by tensor of the model
	moves  []bool // by tensor of the view: on the host over the loss
}

func (d *decoder) is(g [][]column, j, v int) bool {
	return j < len(g) && g[j][v].ok && d.x[g[j][v].v.Index()] > 0.5
}

// stage adds the computations of stage j: the first computation, then the recomputations by layer, each followed
// by the discards after a last use.
func (d *decoder) stage(j int) {
	f := d.f
	if j >= f.N {
		l := f.top(j)
		d.steps = append(d.steps, view.Step{Kind: view.Backward, Layer: int32(l)})
		d.stored[f.abar(l)] = false
		if l-1 < f.N {
			d.stored[l-1] = false
		}
	} else {
		d.forward(j+1, d.x[f.first.At(j).Index()] > 0.5)
	}
	for v := range d.stored {
		if i, _ := f.layer(v); v != f.N && !d.reads(j, i) {
			d.evict(j, v)
		}
	}
	for l := 1; l <= f.N; l++ {
		if l < f.N && d.is(f.R, j, l) {
			d.forward(l, false)
		}
		if d.is(f.R, j, f.abar(l)) {
			d.forward(l, true)
		}
		for _, v := range f.tensors(l - 1) {
			d.evict(j, v)
		}
	}
}

// reads reports whether F_{i+1} runs again in stage j.
func (d *decoder) reads(j, i int) bool {
	f := d.f
	return i < f.N && (i+1 < f.N && d.is(f.R, j, i+1) || d.is(f.R, j, f.abar(i+1)))
}

// evict offloads or discards v if the solution no longer stores it.
func (d *decoder) evict(j, v int) {
	f := d.f
	if !d.stored[v] || d.is(f.S, j+1, v) {
		return
	}
	for k := j; k < f.stages(); k++ {
		if d.is(f.q, k, v) {
			i, saved := f.layer(v)
			d.moves[view.TensorOf(i, saved)] = true
			return
		}
		if k > j && d.is(f.R, k, v) {
			break
		}
	}
	i, saved := f.layer(v)
	step := view.Step{Kind: view.DiscardA, Layer: int32(i)}
	if saved {
		step.Kind = view.DiscardAbar
	}
	d.steps = append(d.steps, step)
	d.stored[v] = false
}

// forward adds F_all or F_ck of layer l. a_N has no reader and is discarded at once.
func (d *decoder) forward(l int, all bool) {
	f := d.f
	step, v := view.Step{Kind: view.FCk, Layer: int32(l)}, l
	if all {
		step.Kind, v = view.FAll, f.abar(l)
	}
	d.steps = append(d.steps, step)
	if v == f.N {
		d.steps = append(d.steps, view.Step{Kind: view.DiscardA, Layer: int32(l)})
		return
	}
	d.stored[v] = true
}
