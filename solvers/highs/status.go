//go:build cgo && !nohighs

package highs

import "workbench/solvers"

// claim is the meaning of a model status of HiGHS.
type claim struct {
	name   string // as in HighsModelStatus
	status solvers.Status
	stop   solvers.Stop // why the search ended early
	failed bool         // no usable answer
}

// claims is indexed by model status. Those from 18 on have no constant in the C
// interface but are returned by it.
var claims = [...]claim{
	0:  {name: "not set", failed: true}, // threads differ from the OS thread's first solve
	1:  {name: "load error", failed: true},
	2:  {name: "model error", failed: true},
	3:  {name: "presolve error", failed: true},
	4:  {name: "solve error", status: solvers.Numerical},
	5:  {name: "postsolve error", failed: true},
	6:  {name: "model empty", failed: true}, // solvers handles such models
	7:  {name: "optimal", status: solvers.Optimal},
	8:  {name: "infeasible", status: solvers.Infeasible},
	9:  {name: "primal infeasible or unbounded", status: solvers.InfeasibleOrUnbounded},
	10: {name: "unbounded", status: solvers.Unbounded},
	11: {name: "bound on objective reached", stop: solvers.Objective},
	12: {name: "target for objective reached", stop: solvers.Objective},
	13: {name: "time limit reached", stop: solvers.Time},
	14: {name: "iteration limit reached", stop: solvers.Iterations},
	15: {name: "unknown", status: solvers.Numerical},
	16: {name: "solution limit reached", stop: solvers.Solutions}, // or nodes
	17: {name: "interrupted by user", stop: solvers.Cancelled},
	18: {name: "memory limit reached", stop: solvers.Memory},
	19: {name: "interrupted by HiGHS", stop: solvers.Cancelled},
}

// facts are the facts on which a claim depends in addition to the model status.
type facts struct {
	point     bool  // HiGHS has a point
	feasible  bool  // and reports it as feasible
	nodes     int64 // explored
	nodeLimit int64 // < 0: none
}

// claimOf returns what HiGHS reports, and false for a status without information.
func claimOf(model int, f facts) (claim, bool) {
	if model < 0 || model >= len(claims) || claims[model].failed {
		return claim{}, false
	}
	c := claims[model]
	switch {
	case c.stop != solvers.NotStopped && f.feasible:
		c.status = solvers.Feasible
	case c.status == solvers.Unbounded && !f.feasible:
		c.status = solvers.InfeasibleOrUnbounded
	case c.name == "unknown" && f.point:
		c.status = solvers.Imprecise
	}
	// Node, leaf, stall and solution limits share one status.
	if c.stop == solvers.Solutions && f.nodeLimit >= 0 && f.nodes >= f.nodeLimit {
		c.stop = solvers.Nodes
	}
	return c, true
}
