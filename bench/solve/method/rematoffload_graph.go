package method

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"workbench/bench/solve"
	"workbench/heuristics/rematgraph"
	"workbench/heuristics/rematoffloadgraph"
	"workbench/ilp/formulation"
	"workbench/ilp/knapsack"
	ilprematgraph "workbench/ilp/rematgraph"
	"workbench/model/instance/training"
	"workbench/model/plan"
	"workbench/model/platform"
	problemrematgraph "workbench/model/problem/rematgraph"
	combinedview "workbench/model/problem/rematoffload"
	"workbench/model/proof"
	verifyrematgraph "workbench/model/verify/rematgraph"
)

// Rematerialization with offloading of training steps: the methods of rematerialization,
// whose plans move nothing, and those that move.

// isStep reports whether an instance is a training step (graph/v2).
func isStep(in *solve.Instance) bool { return in.Kind() == training.Kind }

// combinedRange is what percentages of memory refer to: of a step, that of
// rematerialization, so that a percentage is the same memory with a link and without.
func combinedRange(in *solve.Instance, s solve.Setting) (low, high float64) {
	if isStep(in) {
		return rematRange(in, s)
	}
	return combinedview.Range(in.Chain())
}

// combinedHolds says what takes the low end of that.
func combinedHolds(in *solve.Instance) string {
	if !isStep(in) {
		return combinedview.MinMemoryReason(in.Chain())
	}
	v, err := graphView(in)
	if err != nil {
		return "" // stepFit says why
	}
	return v.Least().Why
}

// stepFit checks that a step is not too large and that one can calculate with it.
func stepFit(in *solve.Instance, p platform.Platform) error {
	v, err := graphView(in)
	if err != nil {
		return solve.InputError(err)
	}
	sizes := 0.0
	for _, x := range v.Memory {
		sizes += x
	}
	return calculable(in, ofStep(in), quantity{"sending all values takes %g s", sizes / p.Bandwidth},
		quantity{"keeping everything takes %g bytes", keepingAll(in)}, ofMemory(p), ofLink(p))
}

// linkedBounds are the bounds of a training step with a link.
func linkedBounds(in *solve.Instance, s solve.Setting) ([]solve.Bound, error) {
	if unlinked(&s) {
		return rematBounds(in, s)
	}
	v, err := graphView(in)
	if err != nil {
		return nil, err
	}
	b := v.LinkedBound(s.Platform.Memory, s.Platform.Bandwidth)
	return []solve.Bound{proof.BySearch(b.Seconds, b.Why)}, nil
}

// certifiedStep makes a method one that begins, where a certificate is asked for, with that of the
// bound on training steps beside a link: the search may take all the time there is. Where
// the model is refused the method says why, or goes without.
func certifiedStep(work worker) worker {
	return func(ctx context.Context, in *solve.Instance, s solve.Setting) (*solve.Outcome, error) {
		if !s.Document || !isStep(in) || unlinked(&s) {
			return work(ctx, in, s)
		}
		bounds, refused := certifiedRoot(ctx, in, s, func() (*formulation.Program, error) {
			return ilprematgraph.LinkedBound(plan.As[*training.Graph](in.Instance), s.Platform)
		})
		out, err := work(ctx, in, s)
		if out == nil {
			return nil, err
		}
		if out.Bounds = append(out.Bounds, bounds...); refused != nil {
			out.Remark("no certified bound: " + refused.Error())
		}
		return out, err
	}
}

// stepMoved is what a plan of a training step sends to the host as part of all values.
func stepMoved(in *solve.Instance, p *plan.Plan) float64 {
	s, err := verifyrematgraph.SummarizeOffload(plan.As[*training.Graph](in.Instance), p)
	if err != nil {
		return math.NaN()
	}
	return s.OffloadShare
}

// linkedMethods is the table of methods for training steps that chains do not have.
func linkedMethods() []*solve.Method {
	var methods []*solve.Method
	for _, m := range slices.Concat(RematMethods()[:1], GraphMethods()) {
		switch m.Name {
		case "search": // see pureRemat
		case "layers-lp":
			methods = append(methods, layersBeside(m))
		default:
			methods = append(methods, withoutTransfers(m))
		}
	}
	return methods
}

// layersBeside makes torchtitan's layers those beside a link, where there is one.
func layersBeside(m *solve.Method) *solve.Method {
	alone := withoutTransfers(m)
	beside := *alone
	solved(&beside, func(ctx context.Context, in *solve.Instance, v *problemrematgraph.View, s solve.Setting, out *solve.Outcome) (*plan.Plan,
		error,
	) {
		return rematoffloadgraph.ByLayers(ctx, "layers-lp", v, s.Platform, layers(ctx, in, s, out), shares(ctx, in, s, out))
	})
	n := beside
	n.Source, n.Summary = "torchtitan, auto_sac_offload_solver",
		"an LP says which parts of what a layer saves are kept and sent, all layers taking the same time, and a MILP which nodes; the best "+
			"of 101 budgets by replay"
	n.Run = func(ctx context.Context, in *solve.Instance, s solve.Setting) (*solve.Outcome, error) {
		if unlinked(&s) {
			return alone.Run(ctx, in, s)
		}
		return beside.Run(ctx, in, s)
	}
	return &n
}

// shares solves the inner program of torchtitan's layers.
func shares(ctx context.Context, in *solve.Instance, s solve.Setting, out *solve.Outcome) rematgraph.Shares {
	return func(memory, time []float64, sendable []bool, keep, send float64) (kept, sent []bool, err error) {
		program, err := knapsack.Shares(memory, time, sendable, keep, send, s.Platform.Bandwidth)
		if err != nil {
			return nil, nil, err
		}
		x, err := choice(ctx, in, s, out, program, scipyGap)
		if err != nil {
			return nil, nil, err
		}
		n := len(memory)
		for i := range n {
			kept, sent = append(kept, x[i] > 0.5), append(sent, x[2*n+i] > 0.5)
		}
		return kept, sent, nil
	}
}

// withoutTransfers makes a method of rematerialization one of training steps with a link,
// in which no plan without transfers is no proof that there is none.
func withoutTransfers(m *solve.Method) *solve.Method {
	n := *m
	n.Takes = []string{training.Kind}
	n.Run = func(ctx context.Context, in *solve.Instance, s solve.Setting) (*solve.Outcome, error) {
		at := s.Platform
		s.Platform.Bandwidth = 0
		out, err := m.Run(ctx, in, s)
		if out != nil && out.Plan != nil {
			out.Plan.Problem, out.Plan.Platform = plan.RematOffload, at
		}
		s.Platform = at
		return out, ofLinkedStep(in, &s, err)
	}
	return &n
}

// ofLinkedStep is what a proof that no plan of rematerialization fits says where there is
// a link.
func ofLinkedStep(in *solve.Instance, s *solve.Setting, err error) error {
	var infeasible *plan.Infeasible
	if !errors.As(err, &infeasible) {
		return err
	}
	infeasible.Problem = plan.RematOffload
	if unlinked(s) {
		return infeasible
	}
	v, bad := graphView(in)
	if bad != nil {
		return bad
	}
	if err := v.LinkedFits(s.Platform.Memory); err != nil {
		return err
	}
	return fmt.Errorf("%w without transfers, which needs %.15g bytes", plan.ErrNoPlan, infeasible.Memory)
}

// stepAlone is pure-remat of training steps: the plan of the search of rematerialization,
// which moves nothing.
func stepAlone(ctx context.Context, in *solve.Instance, s solve.Setting) (*plan.Plan, error) {
	p, err := seededView(rematgraph.Search)(ctx, in, s)
	if err != nil {
		return nil, ofLinkedStep(in, &s, err)
	}
	p.Problem, p.Platform, p.Method = plan.RematOffload, s.Platform, "pure-remat"
	return p, nil
}

// either is a planner of chains and another of training steps.
func either(ofChain, ofStep planner) planner {
	return func(ctx context.Context, in *solve.Instance, s solve.Setting) (*plan.Plan, error) {
		if isStep(in) {
			return ofStep(ctx, in, s)
		}
		return ofChain(ctx, in, s)
	}
}

// stepSearch is the search of training steps with a link.
func stepSearch(ctx context.Context, in *solve.Instance, s solve.Setting) (*plan.Plan, error) {
	if unlinked(&s) {
		p, err := stepAlone(ctx, in, s)
		if p != nil {
			p.Method = "search"
		}
		return p, err
	}
	return seededView(rematoffloadgraph.Search)(ctx, in, s)
}
