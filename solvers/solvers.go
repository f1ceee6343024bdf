// Package solvers is the seam between models and MILP libraries.
//
// A [Backend] takes a model and options as plain data and returns a [Result] as plain data. Three facts are
// separate: the verdict ([Status]), why the search ended ([Stop]), and whether there is a solution
// ([Result.Solution]). Infeasibility, limits and cancellation are results, never errors; an error means that no
// answer can be trusted.
//
// This package validates the model before the call and the answer after it, for all libraries, because the C
// libraries report wrong points as optimal: see [New].
package solvers

import (
	"context"
	"errors"
	"io"
	"math"
	"time"

	"workbench/model/milp"
	"workbench/model/platform"
)

// Backend solves models. Solve must be safe for concurrent use, must not keep or change the model, and must return
// shortly after ctx ends. A deadline of ctx counts as a time limit, whichever is earlier.
type Backend interface {
	// Name returns the backend and its library's version: "highs 1.15.1".
	Name() string
	// Can returns the options that are honoured. Others are rejected with an ErrUnsupported that names them.
	Can() Features
	Solve(ctx context.Context, m *milp.Model, o Options) (*Result, error)
}

// Features is a set of capabilities of a backend.
type Features uint32

const (
	CanInteger  Features = 1 << iota // integer columns
	CanRelGap                        // Options.RelGap
	CanAbsGap                        // Options.AbsGap
	CanThreads                       // Options.Threads above 1
	CanSeed                          // Options.Seed
	CanNodes                         // Options.Nodes
	CanStart                         // Options.Start
	CanProgress                      // Options.OnProgress
	CanLog                           // Options.Log
	CanDuals                         // Result.Duals for continuous models
	CanRaw                           // Options.Raw
	CanMemory                        // Options.Memory
	CanRetry                         // Problem.Attempt; for New only
	CanLarge                         // models that cannot be enumerated: with unbounded or many integers
)

// Sentinel errors.
var (
	ErrUnsupported = errors.New("not supported by this backend")
	ErrModel       = errors.New("invalid model") // an invalid model, see milp.Model.Err
	ErrOption      = errors.New("invalid option")
	ErrSolver      = errors.New("solver failed")         // the library failed or its answer was inconsistent
	ErrMissing     = errors.New("backend not available") // not built in, or its library is not found
)

// Opt is an option that may be unset where zero is a legal value.
type Opt[T any] struct {
	Value T
	Set   bool
}

// Some returns a set option.
func Some[T any](v T) Opt[T] { return Opt[T]{v, true} }

// Options of one solve. The zero value solves to proven optimality, on one thread, without a limit or output.
type Options struct {
	// Time limits the wall time; 0: no limit. For a limit of zero, use a context that has ended.
	Time time.Duration
	// RelGap is the relative gap |objective − bound| / |objective| at which a solution counts as optimal, a
	// fraction ≥ 0; unset: 0. AbsGap is the absolute gap, in units of the objective; unset: 0.
	RelGap, AbsGap Opt[float64]
	// Threads is the number of threads, ≥ 1; unset: 1.
	Threads Opt[int]
	// Seed seeds the library's random choices, ≥ 0; unset: 0.
	Seed Opt[int]
	// Nodes limits the branch-and-bound nodes, ≥ 0; unset: none.
	Nodes Opt[int64]
	// Memory limits the solver's memory in bytes; 0: none. Only isolated
	// backends honour it.
	Memory int64
	// Start is a starting solution by column, NaN where not given; nil: none. Only its integer columns are used:
	// the solver completes the others. A start that proves infeasible is ignored and reported in Result.Start.
	Start []float64
	// Relax solves the LP relaxation: integer columns become continuous.
	Relax bool
	// OnProgress is called from one goroutine at a time, for every incumbent
	// and regularly in between. It must be quick.
	OnProgress func(Progress)
	// Log receives the library's own log.
	Log io.Writer
	// Raw options are passed to the library verbatim, by its own names.
	Raw map[string]string
}

// Progress is a snapshot of a running solve, in the user's sense and units.
type Progress struct {
	Elapsed    time.Duration
	Objective  float64 // best incumbent; NaN: none
	Bound      float64 // see Result.Bound
	Gap        float64 // see Result.Gap
	Nodes      int64
	Iterations int64
	// X is the incumbent when it has just improved, else nil. It belongs to
	// the receiver.
	X []float64
}

// Status is the verdict on a model: the library's, unless its point, its bound or simple checks contradict it. It
// proves nothing by itself, see [Result.Proof]: libraries have reported wrong points as optimal and feasible
// models as infeasible ([Probes]). Package certify proves verdicts.
type Status uint8

const (
	// NoSolution: stopped early without a solution; proves nothing; Stop says
	// why.
	NoSolution Status = iota
	// Optimal: has a checked solution, and the library's bound is within the requested gap.
	Optimal
	// Feasible: stopped early with a checked incumbent; Stop says why.
	Feasible
	// Infeasible: the library reports that no solution exists.
	Infeasible
	// Unbounded: the objective can be improved without limit.
	Unbounded
	// InfeasibleOrUnbounded: one of the two. Solve with a zero objective to distinguish them.
	InfeasibleOrUnbounded
	// Imprecise: the library reports a solution, but its point fails the check at tolerance. The point is kept and
	// marked.
	Imprecise
	// Numerical: the solver failed numerically; it has no usable result.
	Numerical
)

// Stop is the reason why a search ended before its proof.
type Stop uint8

const (
	NotStopped Stop = iota // ran to its end
	Time                   // time limit or deadline
	Nodes                  // Options.Nodes, or a limit set in Options.Raw
	Iterations             // a limit set in Options.Raw
	Solutions              // a limit set in Options.Raw
	Objective              // a limit set in Options.Raw
	Cancelled              // context cancelled
	Memory                 // Options.Memory, or no more available
	Unknown                // the library gives no credible reason
)

// StartUse reports how Options.Start was used.
type StartUse uint8

const (
	NoStart       StartUse = iota // none was given
	StartAccepted                 // feasible as given, or completed by the solver
	StartRejected                 // infeasible or useless
)

// Result of one solve, in the user's sense and units.
type Result struct {
	Status Status
	Stop   Stop
	// Proof names a proof of Status that does not depend on the library: "column bounds", or the contradiction
	// found before the call; "": none.
	Proof string
	// Bound is the library's uncertified bound on the objective, in floating point: from below for Minimize, from
	// above for Maximize. It may be better than Obj by 1e-6, relative to Obj or, below 1, absolute; a larger
	// excess is rejected. ∓Inf: none.
	Bound float64
	// BoundBy is the source of the bound: "branch and bound", "LP relaxation", "".
	BoundBy string
	// Start reports how Options.Start was used.
	Start      StartUse
	Nodes      int64
	Iterations int64
	Wall       time.Duration
	Backend    string // Backend.Name()
	Raw        string // the library's own status, for logs
	Note       string // remarks for the user: a retry, a repaired status

	X    []float64 // see Solution; also set if Imprecise
	Obj  float64   // of X, see Objective; NaN if there is none
	Dual *Duals    // continuous models only, from backends that CanDuals
}

// Duals of a continuous model at its optimum. Row[i] is the derivative of the optimal objective with respect to
// the active side of row i, and Reduced[j] the reduced cost of column j. Both are in the user's sense.
type Duals struct{ Row, Reduced []float64 }

// Solution returns the values by column, integers exactly rounded, and whether there is a solution.
func (r *Result) Solution() (x []float64, ok bool) {
	if r.Status == Imprecise {
		return nil, false
	}
	return r.X, r.X != nil
}

// Objective returns the objective of the solution, recomputed from the original data, and whether there is a
// solution.
func (r *Result) Objective() (float64, bool) {
	_, ok := r.Solution()
	return r.Obj, ok
}

// Gap returns the absolute value of [platform.Excess], NaN without a solution.
func (r *Result) Gap() float64 {
	obj, ok := r.Objective()
	if !ok {
		return math.NaN()
	}
	return math.Abs(platform.Excess(obj, r.Bound))
}
