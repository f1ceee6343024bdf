package rematoffload

import (
	"context"
	"errors"
	"slices"

	"workbench/heuristics/remat"
	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	view "workbench/model/problem/rematoffload"
)

// floatingLayers is how many layers a chain may have for PureRemat to try the
// floating program, which takes about N⁴ steps.
const floatingLayers = 40

// PureRemat is rematerialization alone: the best of remat.Persistent and, on at
// most 40 layers, remat.Floating, both exact, as a plan without transfers. Where the
// first does not end, on long chains, it is remat.Periodic. It is what there is without a
// link. An error is a *plan.Infeasible only without a link. Complexity as of these.
func PureRemat(ctx context.Context, c *chain.Chain, p platform.Platform) (*plan.Plan, error) {
	return planned(ctx, "pure-remat", c, p, (*instance).pureRemat)
}

// Periodic is remat.Periodic as a plan without transfers: at once there for chains of
// any length. The errors are those of PureRemat. O(N²).
func Periodic(ctx context.Context, c *chain.Chain, p platform.Platform) (*plan.Plan, error) {
	return planned(ctx, "periodic", c, p, func(in *instance, ctx context.Context) (*view.Schedule, error) {
		found, err := remat.Periodic(ctx, in.gradientLate(), platform.Platform{Memory: in.Platform.Memory})
		if err != nil {
			return nil, in.fromRemat(err)
		}
		return in.scheduled(found)
	})
}

// WithoutLink is the fastest plan where there is no link, and a lower bound on those of
// all plans: remat.Optimum, as nothing can move. The errors are those of PureRemat.
func WithoutLink(ctx context.Context, c *chain.Chain, p platform.Platform) (*plan.Plan, float64, error) {
	in, err := newInstance(c, p)
	if err != nil {
		return nil, 0, err
	}
	late, memory := in.gradientLate(), platform.Platform{Memory: p.Memory}
	first, err := remat.Persistent(ctx, late, memory)
	if err != nil {
		first = nil // a limit, or no persistent plan fits
	}
	r, err := remat.Optimum(ctx, late, memory, first)
	if err != nil {
		return nil, 0, in.fromRemat(err)
	}
	s, err := in.scheduled(r.Plan)
	if err != nil {
		return nil, 0, err
	}
	out, err := s.Plan("search")
	return out, r.Value, err
}

func (in *instance) pureRemat(ctx context.Context) (*view.Schedule, error) {
	c, memory := in.gradientLate(), platform.Platform{Memory: in.Platform.Memory}
	found, err := remat.Periodic(ctx, c, memory) // if there is no time for the best
	if q, err2 := remat.Persistent(ctx, c, memory); err2 == nil || found == nil {
		found, err = q, err2
	}
	if in.N <= floatingLayers {
		if f, err2 := remat.Floating(ctx, c, memory); err2 == nil && (found == nil || f.Claims.Makespan < found.Claims.Makespan) {
			found, err = f, nil
		}
	}
	if err != nil {
		return nil, in.fromRemat(err)
	}
	return in.scheduled(found)
}

// scheduled is a plan of rematerialization as a schedule without transfers.
func (in *instance) scheduled(found *plan.Plan) (*view.Schedule, error) {
	r, ok := view.NewProfile(in.Instance, view.StepsOf(found.Ops))
	if !ok {
		return nil, in.fromRemat(plan.ErrNoPlan)
	}
	s, ok := view.Retime(r, nil)
	if !ok {
		return nil, in.fromRemat(plan.ErrNoPlan)
	}
	return s, nil
}

// gradientLate is the chain for rematerialization: δ_N counts while B_N runs,
// not from the start.
func (in *instance) gradientLate() *chain.Chain {
	c := *in.Chain
	c.Layers = slices.Clone(c.Layers)
	last := &c.Layers[in.N-1]
	last.BackwardOverhead += last.Gradient
	last.Gradient = 0
	return &c
}

// fromRemat makes an error of rematerialization one of this problem: what does
// not fit without transfers may fit with them.
func (in *instance) fromRemat(err error) error {
	var infeasible *plan.Infeasible
	if !errors.As(err, &infeasible) {
		return err
	}
	if in.Bandwidth > 0 {
		return errors.Join(plan.ErrNoPlan, errors.New("remat-offload: without transfers: "+infeasible.Error()))
	}
	x := *infeasible
	x.Problem, x.Given = view.Problem, in.Platform.Memory
	return &x
}

// OffloadAll is the plan that needs the least memory of all, see rematoffload.Least:
// every activation goes to the host as soon as it may, and comes back for its
// backward. Where ā_ℓ is larger than a_ℓ both go, and F_ℓ runs twice for that:
// F_all ℓ and, when ā_ℓ has left, F_ck ℓ. It fails only without a link, wrapping
// plan.ErrNoPlan. O(N).
func OffloadAll(ctx context.Context, c *chain.Chain, p platform.Platform) (*plan.Plan, error) {
	return planned(ctx, "offload-all", c, p, func(in *instance, _ context.Context) (*view.Schedule, error) { return in.offloadAll() })
}

func (in *instance) offloadAll() (*view.Schedule, error) {
	if in.Bandwidth == 0 {
		return nil, errors.Join(plan.ErrNoPlan, errors.New("remat-offload: offload-all needs a link, bandwidth is 0"))
	}
	var steps []view.Step
	for l := 1; l <= in.N; l++ {
		steps = append(steps, view.Step{Kind: view.FAll, Layer: int32(l)})
		if l < in.N && in.Abar[l] > in.A[l] {
			steps = append(steps, view.Step{Kind: view.FCk, Layer: int32(l)})
		}
	}
	for l := in.N; l >= 1; l-- {
		steps = append(steps, view.Step{Kind: view.Backward, Layer: int32(l)})
	}
	if r, ok := view.NewProfile(in.Instance, steps); ok {
		if s, ok := view.Retime(r, nonEmptyGaps(r, r.Gaps)); ok {
			return s, nil
		}
	}
	return nil, errors.Join(plan.ErrNoPlan, errors.New("remat-offload: offload-all does not fit"))
}

// nonEmptyGaps is the gaps of tensors that take space.
func nonEmptyGaps(r *view.Profile, gaps []view.Gap) []view.Gap {
	return slices.DeleteFunc(slices.Clone(gaps), func(g view.Gap) bool { return !(r.In.Size(g.Tensor) > 0) })
}

// PureOffload makes a plan of activation offloading, which computes nothing
// again, one of this problem. The transfers may move: here a tensor does not wait
// for F_{i+1} to leave, so an offload that ends before it starts is put off, as
// re-timing of the same set does. The error wraps plan.ErrNoPlan where the set
// does not fit. O(N log N).
func PureOffload(c *chain.Chain, p platform.Platform, offload *plan.Plan) (*plan.Plan, error) {
	in, err := newInstance(c, p)
	if err != nil {
		return nil, err
	}
	away := make([]bool, 2*in.N+2)
	starts := make([]float64, in.N+1)
	for i := range offload.Ops {
		switch o := &offload.Ops[i]; o.Op {
		case plan.OpO:
			away[view.TensorOf(o.Layer, true)] = true
		case plan.OpFAll:
			starts[o.Layer] = o.Start
		}
	}
	r, _ := view.NewProfile(in.Instance, in.keepAll())
	gaps := slices.DeleteFunc(nonEmptyGaps(r, r.Gaps), func(g view.Gap) bool { return !away[g.Tensor] })
	s, ok := view.Retime(r, gaps)
	// The plan itself, if nothing leaves too early.
	same := plan.New(view.Problem, "pure-offload", c, p)
	same.Claims, same.Ops = offload.Claims, slices.Clone(offload.Ops)
	for i := range same.Ops {
		o := &same.Ops[i]
		if o.Op != plan.OpO && o.Op != plan.OpP {
			continue
		}
		if o.Layer == 0 {
			o.Tensor = plan.TensorA
		}
		if o.Op == plan.OpO && o.End <= starts[o.Layer+1]+2*plan.Tolerance*offload.Claims.Makespan {
			same = nil
			break
		}
	}
	switch {
	case same != nil && (!ok || same.Claims.Makespan <= s.Makespan):
		return same, nil
	case ok:
		return s.Plan("pure-offload")
	}
	return nil, errors.Join(plan.ErrNoPlan, errors.New("remat-offload: what is offloaded does not leave enough memory"))
}
