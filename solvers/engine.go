package solvers

import (
	"context"
	"io"
	"time"

	"workbench/model/milp"
)

// Engine is the part of a backend that differs between libraries: convert the
// problem, call the library, report what it said. [New] makes a [Backend] of
// it. An engine validates nothing, decides nothing about trust, and may assume
// everything that [Problem] promises.
type Engine interface {
	// Name is the library and its version: "highs 1.10.0".
	Name() string
	// Can says which fields of Problem are honoured. Fields it does not claim
	// always have their neutral value.
	Can() Features
	// Run solves p and reports the raw facts. It is called on a goroutine of
	// its own, concurrently with other calls, and may lock its OS thread for
	// good: the thread ends with the call. It must not change p or keep it
	// after returning, and should return as soon as the library allows once
	// ctx ends; ctx ends at the time limit too. An engine that is late is
	// abandoned ([New]), so the library must work on a copy of the arrays.
	//
	// An error means that the library failed (it should wrap ErrSolver and
	// name the call) or is not there (ErrMissing). Limits, infeasibility and
	// cancellation are answers.
	Run(ctx context.Context, p *Problem) (*Answer, error)
}

// Problem is a validated model and resolved options. Beyond what [milp.Data]
// promises of Model:
//
//   - there is at least one column and one row, and no NaN anywhere;
//   - an infinite bound or side is ±Inf, never a large number, and a lower one
//     is never +Inf, an upper one never −Inf;
//   - Lower ≤ Upper and RowLower ≤ RowUpper; bounds of integer columns are
//     integral or infinite;
//   - entries have magnitudes in [1e-9, 1e15]; rows without entries are
//     satisfied, but may occur, and so may free rows.
type Problem struct {
	Model milp.Data

	// Time is what is left of the time limit and of ctx's deadline, whichever
	// is the earlier; 0: none. To be given to the library besides watching
	// ctx, because libraries look at their own clock more often.
	Time time.Duration
	// RelGap and AbsGap ≥ 0: the search may end when either is reached. To be
	// set in the library even if 0, because its defaults differ.
	RelGap, AbsGap float64
	Threads        int   // ≥ 1
	Seed           int   // ≥ 0
	Nodes          int64 // < 0: no limit
	Memory         int64 // bytes; 0: no limit
	// Start gives values of integer columns, integral and within the bounds;
	// NaN where unknown and for continuous columns. Nil: none.
	Start []float64
	// Raw options, verbatim, by the library's own names. One that the library
	// does not know or refuses is ErrOption.
	Raw map[string]string
	// Attempt is 1 when the answer of attempt 0 failed its check: an engine
	// that CanRetry then takes another way (presolve flipped, another seed).
	Attempt int
	// OnProgress is never nil and never panics. Call it, from any goroutine,
	// for every incumbent, X being a copy that the receiver keeps; and for
	// bounds and counts at most every 100 ms. Unknown objective or bound: NaN.
	// Elapsed and Gap need not be set.
	OnProgress func(Progress)
	// Log receives the library's log; nil: not wanted. It never fails.
	Log io.Writer
}

// Answer is what a library said, unchecked.
type Answer struct {
	Status Status // as claimed
	Stop   Stop   // as claimed; NotStopped if the library ran to its end
	X      []float64
	// Bound is the claimed proven bound in the user's sense; NaN or infinite:
	// none (0 is a bound). For a continuous model solved to optimality it is
	// the objective. Not read where nothing was bounded: Infeasible,
	// InfeasibleOrUnbounded, Unbounded and Numerical.
	Bound   float64
	BoundBy string // "" for "branch and bound"

	Nodes, Iterations int64
	Dual              *Duals // nil: none
	StartAccepted     bool   // whether the library took Problem.Start
	Raw               string // the library's own status
	Note              string
}

// New makes a backend of an engine. Everything that all libraries need and
// none does well is here, once:
//
// Before the call: models with mistakes are refused (ErrModel), options are
// checked (ErrOption) and those that the engine does not claim are refused by
// name (ErrUnsupported); trivial models are answered without the library;
// a context that has ended is not started.
//
// During it: progress is serialised, checked and made monotone; a panic of a
// callback is carried to the caller of Solve; an engine that has not returned
// one second after its context ended is left behind, and the best incumbent
// it streamed is returned.
//
// After it: integers are rounded, rows and objective recomputed from the
// original data, and the status recomputed from these. A point that fails is
// repaired by solving for the continuous columns with the integers fixed; if
// that fails too, an engine that CanRetry is asked a second time, once. A
// result that still fails is Imprecise.
func New(e Engine) Backend { return &backend{e} }
