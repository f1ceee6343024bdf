package plan

import (
	"workbench/model/instance/graph"
	"workbench/model/instance/training"
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
// are as for [VerifyRemat]. O(operations + their inputs + size of the graph).
func VerifyGraph(g *graph.Graph, p *Plan) (*Report, error) {
	return verdict(replayGraph(g, p, false))(p)
}

// ProfileGraph returns the memory in use over time, in the unit of the instance: see package
// verify.
func ProfileGraph(g *graph.Graph, p *Plan) ([]MemoryStep, error) {
	return stepsOf(replayGraph(g, p, true))
}

// replayGraph replays p on the training step that g means, in which the value of a node
// is a storage.
func replayGraph(g *graph.Graph, p *Plan, record bool) (*replay, error) {
	if g == nil {
		return newReplay(p, Remat, ErrNoInstance, record)
	}
	if err := g.Validate(); err != nil {
		return newReplay(p, Remat, err, record)
	}
	return replaySteps(training.FromGraph(g), p, record, true)
}
