// Package run runs one method on one instance, from the loading of the instance to
// a result that is verified and judged: problems, methods and results as they are
// seen by everything that runs them.
package run

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"workbench/ilp/formulation"
	"workbench/model/certificate"
	"workbench/model/proof"

	"workbench/model/milp"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/solvers"
)

// DefaultSlots is S where the user does not say: the 500 of [004] 2.4.2.
const DefaultSlots = 500

// Kind says what a method promises.
type Kind string

const (
	Heuristic Kind = "heuristic" // a plan, no promise
	Exact     Kind = "exact"     // a plan and, given time, the proof that it is optimal
	Relaxed   Kind = "bound"     // a proven bound only
)

// Problem is one entry of the catalogue of problems.
type Problem struct {
	Name      string // as on the command line
	Title     string
	Source    string   // "[001]"
	Objective string   // what is minimised, with its unit
	Defaults  []string // solve without --method uses the first that takes the instance
	Example   string   // instance used by solve without INSTANCE
	// Takes are the kinds of instance there are methods for.
	Takes []Form
	// Objective's word in tables: "period" or "makespan".
	Word string
	// Slots says that memory is counted in slots of unit size, not in bytes.
	Slots bool
	// Parallel says that there are several GPUs, and what a pipeline needs
	// beside: weight copies and a memory model.
	Parallel bool
	// Moves says that activations go to the host.
	Moves bool
	// Memory and Bandwidth are the defaults of the flags, as a user would
	// write them; no Bandwidth: nothing is transferred.
	Memory, Bandwidth string
	// Range returns the least memory for which a plan exists and the memory
	// beyond which more does not help, in bytes: what percentages refer to.
	Range func(*Instance) (low, high float64)
	// Fit reports an instance or platform on which no method can work, as an
	// error of the user's. Below the least memory is no such case.
	Fit func(*Instance, platform.Platform) error
	// Meets reports whether a plan is one of those that a bound under an assumption
	// binds, and whether the assumption is known; nil: plan.Plan.Meets.
	Meets func(in *Instance, p *plan.Plan, assumption string) (meets, known bool)
	// Bound returns the closed-form bounds, the best first; never empty.
	Bound func(*Instance, Setting) Bound
}

// Method is one entry of the catalogue of methods.
type Method struct {
	Problem     string
	Name        string
	Kind        Kind
	Source      string // in the papers
	Summary     string // one line
	Complexity  string
	Assumptions []string
	Solver      bool // needs a MILP backend
	// Unverified says that plans may break the memory limit, because the
	// source's do: such a plan is reported as what it is.
	Unverified bool
	// Slots is into how many slots it divides the memory where the setting does
	// not say; 0: into none.
	Slots int
	// Takes are the kinds of instance it works on; nil: all of the problem's.
	Takes []Form
	Run   func(context.Context, *Instance, Setting) (*Outcome, error)
	// Curve makes the whole trade-off from one run, up to so many bytes; nil:
	// the method has to be run for each memory limit.
	Curve func(ctx context.Context, in *Instance, s Setting, most float64) (Tradeoff, error)
	// Model builds the MILP of the method, nil if it has none.
	Model func(*Instance, platform.Platform) (*milp.Model, error)
}

// Setting is everything a method is given beside the instance.
type Setting struct {
	Platform platform.Platform
	// Time limit of the method; 0: none. Methods stop at it and return what
	// they have.
	Time time.Duration
	// Gap is the relative gap at which a proof counts as closed.
	Gap     float64
	Seed    int
	Threads int
	// MemoryModel is the model in which a pipeline has to fit: plan.StageModel
	// or plan.TaskModel; "": the latter.
	MemoryModel string
	// Slots is S, into how many slots methods that count in slots divide the
	// memory; 0: the method's own number.
	Slots int
	// Backend solves the MILPs of methods that need one.
	Backend solvers.Backend
	// OnProgress hears of every better plan or bound, from one goroutine at a
	// time.
	OnProgress func(Progress)
	// Certify says how much of a solver's word is checked; "": all of it.
	Certify formulation.Level
	// Document asks for a certificate even where a search has proved the bound.
	Document bool
	problem  string // that Run runs
	// Relax asks for the LP relaxation.
	Relax bool
	// Log receives the backend's own log.
	Log io.Writer
}

// Progress is a snapshot of a running method. NaN and ∓Inf say that there is
// no plan or no bound yet.
type Progress struct {
	Phase     string // what is going on: "greedy", "search", "milp"
	Elapsed   time.Duration
	Objective float64
	Bound     float64
	Nodes     int64
}

// of returns the setting with what the method says where it says nothing.
func (s Setting) Of(m *Method) Setting {
	if s.Slots == 0 {
		s.Slots = m.Slots
	}
	return s
}

// Outcome is what a method found.
type Outcome struct {
	Plan *plan.Plan // nil: none
	// Bounds are the lower bounds of the objective that the run produced, in any
	// order. One that has a solver's word only becomes a claim.
	Bounds []Bound
	// Claims are what solvers say and nobody checked.
	Claims      []proof.Claim
	Formulation *Formulation
	Solver      *solvers.Result
	// Infeasible certifies that the instance has no plan that keeps what it supposes.
	Infeasible *certificate.Certificate
	Supposing  []string
	// Stopped says that a limit or an interruption ended the method early.
	Stopped bool
	// Ended says why the method ended where it knows better than that.
	Ended proof.Ended
	Note  string
}

// Bound is a lower bound on the objective of an instance, with who proved it and
// how.
type Bound = proof.Bound

// Formulation says which model a backend was given, and its size.
type Formulation struct {
	Name        string `json:"name"`
	Version     string `json:"version"`
	Variables   int    `json:"variables"`
	Integers    int    `json:"integers"`
	Constraints int    `json:"constraints"`
	Nonzeros    int    `json:"nonzeros"`
}

// Accepts reports an instance that the problem has no methods for as an error
// of the user's.
func (p *Problem) Accepts(in *Instance) error {
	if slices.Contains(p.Takes, in.Form()) {
		return nil
	}
	return InputError(fmt.Errorf("%s is about %s and %s is a %s", p.Name, FormNames(p.Takes), in.Name, in.Form()))
}

// DefaultMemory returns the memory limit used where none is given, as a user
// would write it: the instance's own, if it has one.
func (p *Problem) DefaultMemory(in *Instance) string {
	if in.Join != nil && in.Join.Slots > 0 {
		return strconv.Itoa(in.Join.Slots)
	}
	return p.Memory
}

// Accepts reports whether the method works on this kind of instance.
func (m *Method) Accepts(in *Instance) bool {
	return m.Takes == nil || slices.Contains(m.Takes, in.Form())
}

// Forms returns the kinds of instance the method works on.
func (m *Method) Forms(p *Problem) []Form {
	if m.Takes == nil {
		return p.Takes
	}
	return m.Takes
}

// FormNames writes kinds of instance for a person: "chains and graphs".
func FormNames(list []Form) string {
	var s []string
	for _, f := range list {
		if f == AFunctions {
			s = append(s, "sequences of functions")
			continue
		}
		s = append(s, string(f)+"s")
	}
	return strings.Join(s, " and ")
}

// Tradeoff is the whole curve of a method on an instance, from one run.
type Tradeoff struct {
	// Points are the breakpoints: from Memory on, Makespan is reached. Memory
	// increases, makespan decreases.
	Points []Breakpoint
	// Plan makes the plan of a memory limit.
	Plan func(memory float64) (*plan.Plan, error)
	// By says who proves that nothing is faster, at any limit; empty: nobody.
	By string
}

// Breakpoint is one step of a [Tradeoff].
type Breakpoint struct{ Memory, Makespan float64 }
