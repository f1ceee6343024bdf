// Package solvers is the seam between models and MILP libraries.
//
// A [Backend] takes a model and options as plain data and returns a [Result]
// as plain data. The three things people confuse are three separate facts:
// the verdict ([Status]), why the search ended ([Stop]), and whether there is
// a solution ([Result.Solution]). Infeasibility, limits and cancellation are
// results, never errors; an error means that no answer can be trusted.
//
// Validation of the model before, and of the answer after, sits here, above
// the libraries, because the C libraries call nonsense optimal: see [New].
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

// Backend solves models. Solve must be safe for concurrent use, must not keep
// or change the model, and must return within a short grace after ctx ends.
// A deadline of ctx counts as a time limit, whichever is the earlier.
type Backend interface {
	// Name is the backend and its library's version: "highs 1.10.0".
	Name() string
	// Can says which options are honoured. Asking for another one is refused
	// with ErrUnsupported naming it.
	Can() Features
	Solve(ctx context.Context, m *milp.Model, o Options) (*Result, error)
}

// Features is a set of things a backend honours.
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
	CanLarge                         // models that cannot be enumerated: integers without bounds, or many
)

// Sentinel errors.
var (
	ErrUnsupported = errors.New("not supported by this backend")
	ErrModel       = errors.New("model refused") // mistakes of the model, see milp.Model.Err
	ErrOption      = errors.New("option refused")
	ErrSolver      = errors.New("solver failed")    // the library failed or answered nonsense
	ErrMissing     = errors.New("backend not here") // not built in, or its library is not found
)

// Opt is an option that may be unset where zero is a legal value.
type Opt[T any] struct {
	Value T
	Set   bool
}

// Some returns a set option.
func Some[T any](v T) Opt[T] { return Opt[T]{v, true} }

// Options of one solve. The zero value solves to proven optimality, on one
// thread, without a limit, in silence.
type Options struct {
	// Time limit of wall time; 0: none. Time{0} cannot be asked for: use a
	// context that has ended.
	Time time.Duration
	// RelGap is the relative gap |objective − bound| / |objective| at which a
	// solution counts as optimal, a fraction ≥ 0; unset: 0. AbsGap likewise
	// absolute, in units of the objective; unset: 0.
	RelGap, AbsGap Opt[float64]
	// Threads ≥ 1; unset: 1.
	Threads Opt[int]
	// Seed of the library's random choices, ≥ 0; unset: 0.
	Seed Opt[int]
	// Nodes limits the branch-and-bound nodes, ≥ 0; unset: none.
	Nodes Opt[int64]
	// Memory limits the solver's memory in bytes; 0: none. Only isolated
	// backends honour it.
	Memory int64
	// Start is a starting solution by column, NaN where not given; nil: none.
	// Only its integer columns are used: the solver completes the rest. A
	// start that proves infeasible is ignored and reported in
	// Result.Start.
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

// Status is the verdict on a model: the library's, as far as its point, its bound and
// simple checks do not contradict it. It proves nothing by itself, see [Result.Proof]:
// libraries have called wrong points optimal and models with solutions infeasible
// ([Probes]). Package certify proves verdicts.
type Status uint8

const (
	// NoSolution: stopped early without a solution; proves nothing; Stop says
	// why.
	NoSolution Status = iota
	// Optimal: has a checked solution, and the library's bound is within the gap asked for.
	Optimal
	// Feasible: stopped early with a checked incumbent; Stop says why.
	Feasible
	// Infeasible: the library finds that there is no solution.
	Infeasible
	// Unbounded: solutions are as good as one likes.
	Unbounded
	// InfeasibleOrUnbounded: one of the two. Solve again with a zero objective to tell
	// which.
	InfeasibleOrUnbounded
	// Imprecise: the solver claims a verdict, our check of its point at
	// tolerance says otherwise; the point is kept, marked.
	Imprecise
	// Numerical: the solver gave up; nothing to trust.
	Numerical
)

// Stop says why a search ended before its proof.
type Stop uint8

const (
	NotStopped Stop = iota // ran to its end
	Time                   // time limit or deadline
	Nodes                  // Options.Nodes, or a limit set in Options.Raw
	Iterations             // a limit set in Options.Raw
	Solutions              // a limit set in Options.Raw
	Objective              // a limit set in Options.Raw
	Cancelled              // context cancelled
	Memory                 // Options.Memory, or no more to be had
	Unknown                // the library does not say, or says nothing credible
)

// StartUse says what became of Options.Start.
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
	// Proof says what proves Status without the library's word: "column bounds", the
	// contradiction found before the library was asked; "": nothing does.
	Proof string
	// Bound is what the library claims to prove, in floating point: a bound on the
	// objective, below it for Minimize, above it for Maximize. As the library has
	// it: it may be beyond Obj by 1e-6, relative to that or, below 1, absolute; one
	// further beyond is refused. ∓Inf: none.
	Bound float64
	// BoundBy says who proved it: "branch and bound", "LP relaxation", "".
	BoundBy string
	// Start says what became of Options.Start.
	Start      StartUse
	Nodes      int64
	Iterations int64
	Wall       time.Duration
	Backend    string // Backend.Name()
	Raw        string // the library's own status, for logs
	Note       string // anything a reader should know: a retry, a repaired status

	X    []float64 // see Solution; set, too, if Imprecise
	Obj  float64   // of X, see Objective; NaN without
	Dual *Duals    // continuous models only, from backends that CanDuals
}

// Duals of a continuous model at its optimum. Row[i] is the derivative of the
// optimal objective with respect to the active side of row i; Reduced[j] the
// reduced cost of column j. Both in the user's sense.
type Duals struct{ Row, Reduced []float64 }

// Solution returns the values by column, integers exactly rounded, and
// whether there are any.
func (r *Result) Solution() (x []float64, ok bool) {
	if r.Status == Imprecise {
		return nil, false
	}
	return r.X, r.X != nil
}

// Objective returns the objective of the solution, recomputed from the
// original data, and whether there is one.
func (r *Result) Objective() (float64, bool) {
	_, ok := r.Solution()
	return r.Obj, ok
}

// Gap returns the size of [platform.Gap], NaN without a solution.
func (r *Result) Gap() float64 {
	obj, ok := r.Objective()
	if !ok {
		return math.NaN()
	}
	return math.Abs(platform.Gap(obj, r.Bound))
}
