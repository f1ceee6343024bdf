package plan

import (
	"workbench/model/chain"
	"workbench/model/functions"
	"workbench/model/graph"
	"workbench/model/join"
	"workbench/model/platform"
)

// Instance is what a plan is for: exactly one of its fields is set.
type Instance struct {
	Chain *chain.Chain
	Graph *graph.Graph
	Join  *join.Join

	Functions *functions.Sequence
}

// Kind names what is set: "chain", "graph", "join" or "functions".
func (in Instance) Kind() string {
	switch {
	case in.Chain != nil:
		return "chain"
	case in.Graph != nil:
		return "graph"
	case in.Join != nil:
		return "join"
	case in.Functions != nil:
		return "functions"
	}
	return "nothing"
}

// Unit returns the unit of its sizes.
func (in Instance) Unit() platform.Unit {
	switch {
	case in.Chain != nil:
		return in.Chain.Unit
	case in.Graph != nil:
		return in.Graph.Unit
	case in.Functions != nil:
		return in.Functions.Unit
	}
	return platform.Byte // of a join: slots
}

// VerifyOn replays p on an instance of any kind. The error says why there was
// nothing to replay; broken rules are in the report.
func VerifyOn(in Instance, p *Plan) (*Report, error) {
	if in.Chain != nil && p != nil && (p.Problem == WeightOffload || p.Problem == Pipeline || offloads(in, p)) {
		return Verify(in.Chain, p)
	}
	if swaps(in, p) {
		return VerifySwap(in.Functions, p)
	}
	return verdict(replayOn(in, p, false))(p)
}
