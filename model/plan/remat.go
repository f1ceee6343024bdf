package plan

import (
	"workbench/model/chain"
	"workbench/model/graph"
	"workbench/model/join"
)

// Names of problems whose verifiers replay operations on one device.
const (
	Remat = "remat" // on chains and on graphs
	Join  = "join"
)

// VerifyRemat replays p on a chain.
func VerifyRemat(c *chain.Chain, p *Plan) (*Report, error) { return nil, ErrProblem }

// VerifyGraph replays p on a graph.
func VerifyGraph(g *graph.Graph, p *Plan) (*Report, error) { return nil, ErrProblem }

// VerifyJoin replays p on a join.
func VerifyJoin(j *join.Join, p *Plan) (*Report, error) { return nil, ErrProblem }
