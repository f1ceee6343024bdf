package plan

import (
	"workbench/model/chain"
	"workbench/model/graph"
	"workbench/model/join"
	"workbench/model/platform"
)

// Names of problems whose verifiers replay operations on one device.
const (
	Remat = "remat" // on chains and on graphs
	Join  = "join"
)

// NewGraph returns a plan without operations for the rematerialization of g.
func NewGraph(method string, g *graph.Graph, m platform.Platform) *Plan {
	return &Plan{Format: Format, Problem: Remat, Method: method, Instance: InstanceRef{Name: g.Name}, Platform: m}
}

// NewJoin returns a plan without operations for j. m.Memory is in slots.
func NewJoin(method string, j *join.Join, m platform.Platform) *Plan {
	return &Plan{Format: Format, Problem: Join, Method: method, Instance: InstanceRef{Name: j.Name}, Platform: m}
}

// VerifyRemat replays p on a chain.
func VerifyRemat(c *chain.Chain, p *Plan) (*Report, error) { return nil, ErrProblem }

// VerifyGraph replays p on a graph.
func VerifyGraph(g *graph.Graph, p *Plan) (*Report, error) { return nil, ErrProblem }

// VerifyJoin replays p on a join.
func VerifyJoin(j *join.Join, p *Plan) (*Report, error) { return nil, ErrProblem }
