//go:build cgo && unix

package lpsolve

import "workbench/solvers"

// claim is the meaning of a return code of lp_solve.
type claim struct {
	name   string // as in lp_lib.h
	status solvers.Status
	stop   solvers.Stop // why the search ended early
	failed bool         // no usable answer
}

// claims are all codes of lp_lib.h. Those from 10 to 24 should stay inside the
// library.
var claims = map[int]claim{
	-5: {name: "UNKNOWNERROR", failed: true},
	-4: {name: "DATAIGNORED", failed: true},
	-3: {name: "NOBFP", failed: true},
	-2: {name: "NOMEMORY", stop: solvers.Memory},
	-1: {name: "NOTRUN", failed: true}, // also: no columns; solvers handles such models
	0:  {name: "OPTIMAL", status: solvers.Optimal},
	1:  {name: "SUBOPTIMAL", status: solvers.Feasible, stop: solvers.Unknown}, // stopped with an incumbent
	2:  {name: "INFEASIBLE", status: solvers.Infeasible},
	3:  {name: "UNBOUNDED", status: solvers.Unbounded},
	4:  {name: "DEGENERATE", status: solvers.Imprecise},
	5:  {name: "NUMFAILURE", status: solvers.Numerical},
	6:  {name: "USERABORT", stop: solvers.Unknown}, // stopped without
	7:  {name: "TIMEOUT", stop: solvers.Time},
	8:  {name: "RUNNING", failed: true},
	9:  {name: "PRESOLVED", failed: true}, // presolve is off
	10: {name: "PROCFAIL", failed: true},
	11: {name: "PROCBREAK", failed: true},
	12: {name: "FEASFOUND", failed: true},
	13: {name: "NOFEASFOUND", failed: true},
	14: {name: "FATHOMED", failed: true},
	20: {name: "SWITCH_TO_PRIMAL", failed: true},
	21: {name: "SWITCH_TO_DUAL", failed: true},
	22: {name: "SINGULAR_BASIS", failed: true},
	23: {name: "LOSTFEAS", failed: true},
	24: {name: "MATRIXERROR", failed: true},
	25: {name: "ACCURACYERROR", status: solvers.Imprecise},
}

// claimOf returns what lp_solve reports with a code, given the reason for which this package ended its search, if
// any. It returns false for a code without information. A search that was ended proves nothing, whatever the code.
func claimOf(code int, reason stopReason) (claim, bool) {
	c, ok := claims[code]
	if !ok || c.failed {
		return claim{name: c.name}, false
	}
	if reason == notStopped || c.stop == solvers.Memory || c.status == solvers.Numerical {
		return c, true
	}
	switch c.status {
	case solvers.Optimal, solvers.Imprecise:
		c.status = solvers.Feasible
	case solvers.Infeasible, solvers.Unbounded:
		c.status = solvers.NoSolution
	}
	c.stop = map[stopReason]solvers.Stop{
		stoppedCancelled: solvers.Cancelled, stoppedTime: solvers.Time, stoppedNodes: solvers.Nodes,
	}[reason]
	if reason == stoppedClosed {
		c.stop = solvers.Unknown // irrelevant: the gap is closed
	}
	return c, true
}
