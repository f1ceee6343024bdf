package rematgraph

import (
	"workbench/model/instance/graph"
	"workbench/model/instance/training"
	"workbench/model/plan"
	"workbench/model/verify/replay"
)

// VerifyGraph replays p, computations C and discards D of nodes, on g.
//
// Nothing but g.Input is stored from the start. C v needs the values of all
// predecessors of v and adds its own. Forward nodes are computed at least once,
// the loss and backward nodes once: they add to the gradients of weights. D v
// discards a stored value in no time. What is stored is a set: a value that is
// computed again while it is stored takes its space twice until the computation
// ends.
//
// Memory during a computation is g.Input, everything stored before it, its
// value and its overhead. The first computations need not follow the order of
// the nodes, which is the business of methods. Times, broken rules and errors
// are as for remat.Verify. O(operations + their inputs + size of the graph).
func VerifyGraph(g *graph.Graph, p *plan.Plan) (*plan.Report, error) {
	return replay.Verdict(replayGraph(g, p, false))(p)
}

// ProfileGraph returns the memory in use over time, in the unit of the instance: see package
// verify.
func ProfileGraph(g *graph.Graph, p *plan.Plan) ([]replay.MemoryStep, error) {
	return replay.StepsOf(replayGraph(g, p, true))
}

// replayGraph replays p on the training step that g means, in which the value of a node
// is a storage.
func replayGraph(g *graph.Graph, p *plan.Plan, record bool) (*replay.Replay, error) {
	if g == nil {
		return replay.New(p, plan.Remat, plan.ErrNoInstance, record)
	}
	if err := g.Validate(); err != nil {
		return replay.New(p, plan.Remat, err, record)
	}
	return replaySteps(training.FromGraph(g), p, record, true)
}

// SummarizeGraph replays p, a plan of [plan.Remat], and sums it up. The error is that of [VerifyGraph].
func SummarizeGraph(g *graph.Graph, p *plan.Plan) (*replay.Summary, error) {
	r, err := replayGraph(g, p, false)
	if err != nil {
		return nil, err
	}
	return replay.Summarize(g, g.Len(), p, r), nil
}
