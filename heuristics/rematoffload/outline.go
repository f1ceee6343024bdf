package rematoffload

import (
	"fmt"
	"slices"

	"workbench/model/plan"
	view "workbench/model/problem/rematoffload"
)

// level is one decision of the forward phase of a persistent plan with offloading: F_all s; or F_ck s, F_none s+1
// .. t, and inner, the steps that compute B_t .. B_s after the loss.
type level struct {
	s, t    int
	abar    bool // the input of layer s is ā_{s-1}, not a_{s-1}
	all     bool // F_all s; then t = s
	offload bool // the input of layer s is offloaded
	inner   []view.Step
}

// outline is the sequence of levels of layers 1..N; the last one is F_all N.
type outline struct {
	in     *instance
	levels []level
	claim  float64 // seconds in the model of 4.2; 0: unknown
}

// outline returns the decisions that lead to an end.
func (f *forwards) outline(e *end) *outline {
	o := &outline{in: f.in, claim: e.cost, levels: []level{{s: f.in.N, t: f.in.N, abar: e.x, all: true}}}
	s := f.in.N
	for z := e.state; z.from >= 0; {
		v := level{s: int(z.source), t: s - 1, abar: z.fromX, all: z.tail < 0, offload: z.offload}
		if !v.all {
			v.inner = f.d.append(nil, z.tail, v.s, v.t)
		}
		o.levels = append(o.levels, v)
		z, s = f.list(v.s, v.abar)[z.from], v.s
	}
	slices.Reverse(o.levels)
	return o
}

// steps returns the computations in order.
func (o *outline) steps() []view.Step {
	var steps []view.Step
	for i := range o.levels {
		if v := &o.levels[i]; v.all {
			steps = append(steps, view.Step{Kind: view.FAll, Layer: int32(v.s)})
		} else {
			steps = view.Segment(steps, v.s, v.t)
		}
	}
	for i := len(o.levels) - 1; i >= 0; i-- {
		if v := &o.levels[i]; v.all {
			steps = append(steps, view.Step{Kind: view.Backward, Layer: int32(v.s)})
		} else {
			steps = append(steps, v.inner...)
		}
	}
	return steps
}

// schedule times the outline in the integral model. Every outline that fits in the model of OR.5 fits in this one,
// with more idle time: neither phase needs an offloaded tensor between its two uses. All operations therefore fit
// once the preceding transfers (in the backward phase the following ones) have ended.
func (o *outline) schedule() (*view.Schedule, error) {
	r, ok := view.NewProfile(o.in.Instance, o.steps())
	if !ok {
		return nil, fmt.Errorf("remat-offload: the sequence of layers violates a rule: %w", plan.ErrNoPlan)
	}
	s, ok := view.Retime(r, o.gaps(r))
	if !ok {
		return nil, fmt.Errorf("remat-offload: the sequence needs more than the available %s in the integral model: %w",
			o.in.Chain.Unit.Exactly(o.in.Platform.Memory), plan.ErrNoPlan)
	}
	return s, nil
}

// gaps returns the gaps of the offloaded tensors.
func (o *outline) gaps(r *view.Profile) []view.Gap {
	away := make([]bool, 2*o.in.N+2)
	for i := range o.levels {
		v := &o.levels[i]
		if v.offload {
			away[view.TensorOf(v.s-1, v.abar)] = true
		}
	}
	var gaps []view.Gap
	for _, g := range r.Gaps {
		if away[g.Tensor] && o.in.Size(g.Tensor) > 0 {
			gaps = append(gaps, g)
		}
	}
	return gaps
}
