// Package lpsolve solves models with lp_solve 5.5 (https://lpsolve.sourceforge.net), a small branch-and-bound code
// without cuts. It suits models of fewer than a hundred binary columns, and gives a second opinion on HiGHS.
//
// The library is loaded at first use, from WORKBENCH_LPSOLVE or from the usual locations. The program builds and
// starts without it. Where it is missing every call returns [solvers.ErrMissing], which names the command that
// installs it.
//
// lp_solve is not safe for concurrent use: parts of its factorisation use static variables. Solves of one process
// therefore run one at a time, and waiting counts against the time limit. To solve several models concurrently,
// use processes, or package isolate.
//
// Its limitations are handled as follows:
//
//   - It accepts no starting point. A start is completed by solving with the integers fixed, and then serves as a
//     cutoff.
//   - It reports no bound before the proof. The bound of an unfinished search is that of the linear relaxation.
//   - Its own gaps do not work. Searches are ended here when the gap is attained.
package lpsolve

import "workbench/solvers"

// Engine runs lp_solve. The zero value is ready.
type Engine struct{}

// New returns the checked backend.
func New() solvers.Backend { return solvers.New(Engine{}) }

// Can implements [solvers.Engine]. It does not depend on whether lp_solve is present, so that a missing library is
// reported as such.
func (Engine) Can() solvers.Features {
	return solvers.CanInteger | solvers.CanRelGap | solvers.CanAbsGap | solvers.CanNodes | solvers.CanStart |
		solvers.CanProgress | solvers.CanLog | solvers.CanDuals | solvers.CanRetry | solvers.CanLarge
}
