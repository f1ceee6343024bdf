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

// floatingLayers limits the chains for which PureRemat runs the floating program, which takes about N⁴ steps.
const floatingLayers = 40

// PureRemat rematerializes only: it returns the best of remat.Persistent and, on at most 40 layers,
// remat.Floating, both exact, as a plan without transfers. Where the first does not finish, on long chains, it
// returns remat.Periodic. It needs no link. The error is a *plan.Infeasible only without a link. The complexity is
// that of these methods.
func PureRemat(ctx context.Context, c *chain.Chain, p platform.Platform) (*plan.Plan, error) {
	return planned(ctx, "pure-remat", c, p, (*instance).pureRemat)
}

// Periodic returns remat.Periodic as a plan without transfers: fast for chains of any length. The errors are those
// of PureRemat. O(N²).
func Periodic(ctx context.Context, c *chain.Chain, p platform.Platform) (*plan.Plan, error) {
	return planned(ctx, "periodic", c, p, func(in *instance, ctx context.Context) (*view.Schedule, error) {
		found, err := remat.Periodic(ctx, in.gradientLate(), platform.Platform{Memory: in.Platform.Memory})
		if err != nil {
			return nil, in.fromRemat(err)
		}
		return in.scheduled(found)
	})
}

// WithoutLink returns the fastest plan where there is no link, and a lower bound on all plans: remat.Optimum, as
// nothing can be transferred. The errors are those of PureRemat.
func WithoutLink(ctx context.Context, c *chain.Chain, p platform.Platform) (*plan.Plan, float64, error) {
	in, err := newInstance(c, p)
	if err != nil {
		return nil, 0, err
	}
	late, memory := in.gradientLate(), platform.Platform{Memory: p.Memory}
	first, err := remat.Persistent(ctx, late, memory)
	if err != nil {
		first = nil // a limit was reached, or no persistent plan fits
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
	found, err := remat.Periodic(ctx, c, memory) // the best one takes too long
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

// scheduled returns a plan of rematerialization as a schedule without transfers.
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

// gradientLate returns the chain for rematerialization: δ_N counts while B_N runs, not from the start.
func (in *instance) gradientLate() *chain.Chain {
	c := *in.Chain
	c.Layers = slices.Clone(c.Layers)
	last := &c.Layers[in.N-1]
	last.BackwardOverhead += last.Gradient
	last.Gradient = 0
	return &c
}

// fromRemat converts an error of rematerialization to one of this problem: an instance that is infeasible without
// transfers may be feasible with them.
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

// OffloadAll returns the plan of minimum memory, see rematoffload.Least: every activation is offloaded as soon as
// possible, and fetched for its backward. Where ā_ℓ is larger than a_ℓ both are offloaded, and F_ℓ runs twice:
// F_all ℓ and, when ā_ℓ has been freed, F_ck ℓ. It fails only without a link, wrapping plan.ErrNoPlan. O(N).
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

// nonEmptyGaps returns the gaps of tensors of positive size.
func nonEmptyGaps(r *view.Profile, gaps []view.Gap) []view.Gap {
	return slices.DeleteFunc(slices.Clone(gaps), func(g view.Gap) bool { return !(r.In.Size(g.Tensor) > 0) })
}

// PureOffload converts a plan of activation offloading, which recomputes nothing, to one of this problem.
// Transfers may move: here a tensor need not wait for F_{i+1} to be freed, so an offload that ends before it
// starts is delayed, as re-timing of the same set does. The error wraps plan.ErrNoPlan where the set does not fit.
// O(N log N).
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
	// The plan itself, if nothing is freed too early.
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
	return nil, errors.Join(plan.ErrNoPlan, errors.New("remat-offload: the offloaded activations do not free enough memory"))
}
