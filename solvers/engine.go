package solvers

import (
	"context"
	"io"
	"time"

	"workbench/model/milp"
)

// Engine is the part of a backend that differs between libraries: convert the problem, call the library, report
// its results. [New] wraps it in a [Backend]. An engine validates nothing, trusts nothing by its own decision, and
// may rely on everything that [Problem] promises.
type Engine interface {
	// Name returns the library and its version: "highs 1.15.1".
	Name() string
	// Can returns the fields of Problem that the engine honours. All others have their neutral value.
	Can() Features
	// Run solves p and reports the raw results. It is called on a goroutine of its own, concurrently with other
	// calls, and may lock its OS thread permanently: the thread ends with the call. It must not change p or keep
	// it after returning, and must return as soon as the library allows once ctx ends; ctx also ends at the time
	// limit. An engine that does not return in time is abandoned ([New]), so the library must work on a copy of
	// the arrays.
	//
	// The error says that the library failed (it should wrap ErrSolver and name the call) or is missing
	// (ErrMissing). Limits, infeasibility and cancellation are answers.
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

	// Time is the remaining time until the time limit or the deadline of ctx, whichever is earlier; 0: none. Pass
	// it to the library in addition to watching ctx, because libraries check their own clock more often.
	Time time.Duration
	// RelGap and AbsGap are ≥ 0: the search may end when either is attained. Set them in the library even if 0,
	// because its defaults differ.
	RelGap, AbsGap float64
	Threads        int   // ≥ 1
	Seed           int   // ≥ 0
	Nodes          int64 // < 0: no limit
	Memory         int64 // bytes; 0: no limit
	// Start holds values of integer columns, integral and within the bounds; NaN where unknown and for continuous
	// columns. Nil: none.
	Start []float64
	// Raw holds options, verbatim, by the library's own names. An option that the library does not know or rejects
	// is ErrOption.
	Raw map[string]string
	// Attempt is 1 when the answer of attempt 0 failed its check: an engine that CanRetry then solves differently
	// (presolve flipped, another seed).
	Attempt int
	// OnProgress is never nil and never panics. Call it, from any goroutine, for every incumbent, with a copy in X
	// that the receiver keeps; and for bounds and counts at most every 100 ms. Unknown objective or bound: NaN.
	// Elapsed and Gap need not be set.
	OnProgress func(Progress)
	// Log receives the library's log; nil: none. Its writes never fail.
	Log io.Writer
}

// Answer is the unchecked result of a library.
type Answer struct {
	Status Status // as reported
	Stop   Stop   // as reported; NotStopped if the library ran to its end
	X      []float64
	// Bound is the reported lower (or upper) bound in the user's sense; NaN or infinite: none (0 is a bound). For
	// a continuous model solved to optimality it is the objective. It is ignored for Infeasible,
	// InfeasibleOrUnbounded, Unbounded and Numerical.
	Bound   float64
	BoundBy string // "" for "branch and bound"

	Nodes, Iterations int64
	Dual              *Duals // nil: none
	StartAccepted     bool   // whether the library took Problem.Start
	Raw               string // the library's own status
	Note              string
}

// New returns a backend for an engine. It does what all libraries need and none does well:
//
// Before the call, invalid models are rejected (ErrModel), and options are checked (ErrOption). Options that the
// engine lacks are rejected by name (ErrUnsupported). Trivial models are solved without the library, and no solve
// starts in a context that has ended.
//
// During the call, progress is serialised, checked and made monotone, and a panic of a callback is passed to the
// caller of Solve. An engine that has not returned one second after its context ended is abandoned, and the best
// incumbent that it streamed is returned.
//
// After the call, integers are rounded, and rows, objective and status are recomputed from the original data. A
// point that fails is repaired by solving for the continuous columns with the integers fixed. If that fails too,
// an engine that CanRetry is called once more. A result that still fails is Imprecise.
func New(e Engine) Backend { return &backend{e} }
