// Package verify replays plans of every problem: a table of the verifiers, by problem
// and kind of instance, which are in the packages below it.
package verify

import (
	"fmt"
	"slices"

	"workbench/model/instance/chain"
	"workbench/model/instance/functions"
	"workbench/model/instance/graph"
	"workbench/model/instance/join"
	"workbench/model/instance/lifetimes"
	"workbench/model/instance/stages"
	"workbench/model/instance/training"
	"workbench/model/plan"
	"workbench/model/verify/flush"
	verifyjoin "workbench/model/verify/join"
	"workbench/model/verify/layout"
	"workbench/model/verify/pipeline"
	"workbench/model/verify/placement"
	"workbench/model/verify/remat"
	"workbench/model/verify/rematgraph"
	"workbench/model/verify/rematoffload"
	"workbench/model/verify/replay"
	"workbench/model/verify/swap"
	"workbench/model/verify/weightoffload"
)

// replaying is how plans of a problem are replayed on one kind of instance.
type replaying struct {
	problem, kind string
	verify        func(plan.Instance, *plan.Plan) (*plan.Report, error)
	summarize     func(plan.Instance, *plan.Plan) (fmt.Stringer, error)
	profile       func(plan.Instance, *plan.Plan) ([]replay.MemoryStep, error) // nil: there is none over time
}

// replays is the table of them.
var replays = []replaying{
	replayOn(plan.Remat, chain.Kind, remat.Verify, remat.Summarize, remat.Profile),
	replayOn(plan.Remat, graph.Kind, rematgraph.VerifyGraph, rematgraph.SummarizeGraph, rematgraph.ProfileGraph),
	replayOn(plan.Remat, training.Kind, rematgraph.Verify, rematgraph.Summarize, rematgraph.Profile),
	replayOn(plan.Join, join.Kind, verifyjoin.Verify, verifyjoin.Summarize, verifyjoin.Profile),
	replayOn(plan.ActivationOffload, chain.Kind, rematoffload.Verify, rematoffload.Summarize, rematoffload.Profile),
	replayOn(plan.RematOffload, chain.Kind, rematoffload.Verify, rematoffload.Summarize, rematoffload.Profile),
	replayOn(plan.RematOffload, training.Kind, rematgraph.Verify, rematgraph.SummarizeOffload, rematgraph.Profile),
	replayOn(plan.Swap, functions.Kind, swap.Verify, swap.Summarize, swap.Profile),
	replayOn(plan.Pipeline, chain.Kind, pipeline.Verify, pipeline.Summarize, nil),
	replayOn(plan.Pipeline, graph.Kind, pipeline.Verify, pipeline.Summarize, nil),
	replayOn(plan.Flush, stages.Kind, flush.Verify, flush.Summarize, nil),
	replayOn(plan.Layout, chain.Kind, layout.Verify, layout.Summarize, nil),
	replayOn(plan.Placement, lifetimes.Kind, placement.Verify, placement.Summarize, nil),
	replayOn(plan.WeightOffload, chain.Kind, weightoffload.Verify, weightoffload.Summarize, nil),
}

// replayOn returns the replay on instances of type T.
func replayOn[T plan.Instance, S fmt.Stringer](problem, kind string, verify func(T, *plan.Plan) (*plan.Report, error),
	summarize func(T, *plan.Plan) (S, error), profile func(T, *plan.Plan) ([]replay.MemoryStep, error),
) replaying {
	r := replaying{
		problem: problem, kind: kind,
		verify: func(in plan.Instance, p *plan.Plan) (*plan.Report, error) { return verify(plan.As[T](in), p) },
		summarize: func(in plan.Instance, p *plan.Plan) (fmt.Stringer, error) {
			s, err := summarize(plan.As[T](in), p)
			if err != nil {
				return nil, err // not a nil of type S
			}
			return s, nil
		},
	}
	if profile != nil {
		r.profile = func(in plan.Instance, p *plan.Plan) ([]replay.MemoryStep, error) { return profile(plan.As[T](in), p) }
	}
	return r
}

// replayFor returns how plans like p are replayed on in.
func replayFor(in plan.Instance, p *plan.Plan) (*replaying, error) {
	if p == nil {
		return nil, fmt.Errorf("%w: no plan", plan.ErrUnreadable)
	}
	kind := "nothing"
	if in != nil {
		kind = in.Kind()
	}
	k := slices.IndexFunc(replays, func(r replaying) bool { return r.problem == p.Problem && r.kind == kind })
	if k < 0 {
		return nil, fmt.Errorf("%w: %q on a %s", plan.ErrProblem, p.Problem, kind)
	}
	return &replays[k], nil
}

// On replays p on an instance by the rules of p.Problem. The error says why
// there was nothing to replay; broken rules are in the report.
func Replay(in plan.Instance, p *plan.Plan) (*plan.Report, error) {
	r, err := replayFor(in, p)
	if err != nil {
		return nil, err
	}
	return r.verify(in, p)
}

// Profile replays p, a plan of one device, and returns the memory in use
// over time, in bytes. Operations that mean nothing change nothing; whether the plan is
// valid is for [On] to say, whose errors these are.
//
// Of [Remat] and [Join] there is a step for each operation, in the order of the
// plan. O(operations + size of the instance).
//
// Of [ActivationOffload], [RematOffload] and [plan.Swap], where transfers run beside the
// computations, a step goes from one instant at which something starts or ends
// to the next, in order of time; Op is what starts or ends last at the first of
// the two. A computation that takes no time has a step of no length before
// that. The model is that of rematoffload.Verify or swap.Verify. O(operations · log
// operations + size of the instance).
func Profile(in plan.Instance, p *plan.Plan) ([]replay.MemoryStep, error) {
	r, err := replayFor(in, p)
	if err != nil {
		return nil, err
	}
	if r.profile == nil {
		return nil, fmt.Errorf("%w over time: %q on a %s", plan.ErrProblem, p.Problem, r.kind)
	}
	steps, err := r.profile(in, p)
	if err != nil {
		return nil, err
	}
	for k := range steps {
		for _, m := range []*replay.MemoryParts{&steps[k].During, &steps[k].After} {
			for _, x := range []*float64{&m.Fixed, &m.Activations, &m.Saved, &m.Gradients, &m.Overhead} {
				*x = in.Scale().Bytes(*x)
			}
		}
	}
	return steps, nil
}

// Summarize replays p and sums it up: a *Summary of its package, of plans with offloading a
// *[replay.OffloadSummary], of the other problems of one device a *[replay.Summary]. All
// have fields for JSON and lines of text. The error is that of [Replay].
func Summarize(in plan.Instance, p *plan.Plan) (fmt.Stringer, error) {
	r, err := replayFor(in, p)
	if err != nil {
		return nil, err
	}
	return r.summarize(in, p)
}
