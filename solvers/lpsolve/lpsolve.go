// Package lpsolve solves models with lp_solve 5.5 (https://lpsolve.sourceforge.net),
// a small branch-and-bound code without cuts: good below a hundred binary
// columns, and a second opinion on HiGHS.
//
// The library is loaded when first needed, from where WORKBENCH_LPSOLVE says or
// from where systems put it; nothing of it is in the program, which therefore
// builds and starts without it. Where it is missing every call answers
// [solvers.ErrMissing], naming the command that installs it.
//
// lp_solve is not safe for concurrent use: parts of its factorisation work in
// static variables. Solves of one process therefore take turns, and a waiting
// one uses up its time limit. Run processes, or package isolate, to solve
// several models at once.
//
// Its limits and what is made of them: it takes no starting point, so a start is
// completed by solving with the integers fixed, and then serves as a cutoff; it
// tells no bound before the proof, so the bound of an unfinished search is that
// of the linear relaxation; and its own gaps do not work, so searches are ended
// here when the gap is reached.
package lpsolve

import "workbench/solvers"

// Engine runs lp_solve. The zero value is ready.
type Engine struct{}

// New returns the checked backend.
func New() solvers.Backend { return solvers.New(Engine{}) }

// Can implements [solvers.Engine]. It is the same where lp_solve is missing, so
// that a solve is refused for the reason that matters.
func (Engine) Can() solvers.Features {
	return solvers.CanInteger | solvers.CanRelGap | solvers.CanAbsGap | solvers.CanNodes | solvers.CanStart |
		solvers.CanProgress | solvers.CanLog | solvers.CanDuals | solvers.CanRetry | solvers.CanLarge
}
