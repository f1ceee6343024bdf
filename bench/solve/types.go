// Package solve runs one method on one instance, from the loading of the instance to
// a result that is verified and judged: problems, methods and results as they are
// seen by everything that runs them.
package solve

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"workbench/bench/render/timeline"
	"workbench/ilp/formulation"
	"workbench/model/allocator"
	"workbench/model/certificate"
	"workbench/model/instance/chain"
	"workbench/model/instance/lifetimes"
	"workbench/model/milp"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/proof"
	"workbench/model/testcase"
	"workbench/model/zoo"
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

// Problem describes a problem: one value each, in package method, from which the
// commands, sweeps, pictures and reports take all they need to know of it.
type Problem struct {
	Name      string   // as on the command line
	Aliases   []string // other names that the command line takes
	Title     string
	Source    string   // "[001]"
	Objective string   // what is minimised, with its unit
	Defaults  []string // solve without --method uses the first that takes the instance
	Example   string   // instance used by solve without INSTANCE
	// Takes are the kinds of instance there are methods for.
	Takes []string
	// Objective's word in tables: "period" or "makespan".
	Word string
	// Slots says that memory is counted in slots of unit size, not in bytes.
	Slots bool
	// Parallel says that there are several GPUs, and what a pipeline needs
	// beside: weight copies and a memory model.
	Parallel bool
	// Models says that plans of chains count what platform.Model says.
	Models bool
	// Scheduled says that micro-batches pass through stages: there are numbers of them,
	// placements and objectives.
	Scheduled bool
	// Objectives are what may be minimised, the default first; nil: there is no choice.
	Objectives []string
	// Moved returns the bytes that a plan sends to the host as part of all
	// activations that could leave; what is sent twice counts twice. nil: nothing
	// is sent.
	Moved func(*Instance, *plan.Plan) float64
	// Memory and Bandwidth are the defaults of the flags, as a user would
	// write them; no Bandwidth: nothing is transferred.
	Memory, Bandwidth string
	// OwnMemory is the limit that an instance comes with, written like Memory; "": it
	// comes with none. nil: no instance does.
	OwnMemory func(*Instance) string
	// Range returns the least memory for which a plan exists and the memory
	// beyond which more does not help, in bytes: what percentages refer to.
	Range func(*Instance) (low, high float64)
	// Holds says what takes the low end of Range where less may do; nil: below it nothing
	// fits, and methods say why.
	Holds func(*Instance) string
	// Apart says that memory is that of activations, as in the papers: weights and
	// what goes with them are resident and counted apart, see Budget.
	Apart bool
	// Fit reports an instance or platform on which no method can work, as an
	// error of the user's. Below the least memory is no such case.
	Fit func(*Instance, platform.Platform) error
	// Meets reports whether a plan is one of those that a bound under an assumption
	// binds, and whether the assumption is known; nil: plan.Plan.Meets.
	Meets func(in *Instance, p *plan.Plan, assumption string) (meets, known bool)
	// Bound returns the closed-form bounds, the best first; never empty.
	Bound func(*Instance, Setting) Bound
	// Methods returns the table of methods, in the order in which reports list
	// them.
	Methods func() []*Method
	// Does says what a plan does, by its operations: "12 computations, 3 offloads".
	// Times says where the time of a verified plan goes.
	Does  func(*plan.Plan) string
	Times func(*Instance, *Result) []Line
	// Timeline draws plans, Tensors says what they take and give back in memory.
	Timeline timeline.Drawer
	Tensors  allocator.Tracer
	// Subjects are random instances with the truth about them, for the checks of
	// formulations and methods, and Tiny by kind of instance one small enough to read
	// every row of its models: as on the command line, or a file's text.
	Subjects []*testcase.Subject
	Tiny     map[string]string
	// Late says that plans may give memory back later than they do.
	Late bool
}

// Method is one entry of the catalogue of methods.
type Method struct {
	Name        string
	Kind        Kind
	Source      string // in the papers
	Summary     string // one line
	Complexity  string
	Assumptions []string
	Solver      bool // needs a MILP backend
	// Parts are the methods of the same problem that it is made of: its plan and bound
	// are never worse than those of each of them alone within the same limit.
	Parts []string
	// Unverified says that plans may break the memory limit, because the
	// source's do: such a plan is reported as what it is.
	Unverified bool
	// Replicas says that it plans stages of pipelines that are on several processors.
	Replicas bool
	// Slots is into how many slots it divides the memory where the setting does
	// not say; 0: into none.
	Slots int
	// Takes are the kinds of instance it works on; nil: all of the problem's.
	Takes []string
	Run   func(context.Context, *Instance, Setting) (*Outcome, error)
	// Curve makes the whole trade-off from one run, up to so many bytes; nil:
	// the method has to be run for each memory limit.
	Curve func(ctx context.Context, in *Instance, s Setting, most float64) (Tradeoff, error)
}

// Setting is everything a method is given beside the instance.
type Setting struct {
	Platform platform.Platform
	// Budget is what a whole GPU goes to, of which Platform.Memory is left; nil: the
	// memory was given.
	Budget *Budget
	// Time limit of the method; 0: none. Methods stop at it and return what
	// they have.
	Time time.Duration
	// Spent is the part of Time that passed before Run: reading the instance, its view and
	// range. A tenth of Time is left to the method in any case.
	Spent time.Duration
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
	// Backend solves the MILPs of methods that need one, LP the linear programs behind their
	// certificates where Backend's library keeps none; nil: then there are no certificates.
	Backend, LP solvers.Backend
	// Missing is why the library of Backend is not there; nil: it is.
	Missing error
	// OnProgress hears of every better plan or bound, from one goroutine at a
	// time.
	OnProgress func(Progress)
	// Certify says how much of a solver's word is checked; "": all of it.
	Certify formulation.Level
	// Document asks for a model, and a certificate of its bound, even where a search
	// has proved the bound.
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
func (s Setting) WithDefaults(m *Method) Setting {
	if s.Slots == 0 {
		s.Slots = m.Slots
	}
	return s
}

// Outcome is what a method found.
type Outcome struct {
	Plan      *plan.Plan // nil: none
	objective float64    // of a plan that UpdateIncumbent has kept
	// Refused are plans that UpdateIncumbent has not kept because they break a rule, one of each
	// method.
	Refused []Refusal
	// Bounds are the lower bounds of the objective that the run produced, in any
	// order. One that has a solver's word only becomes a claim.
	Bounds []Bound
	// Claims are what solvers say and nobody checked.
	Claims []proof.Claim
	// Model is the MILP that Solver is the answer to, the last one; nil: none was
	// solved. It is what the result describes and what is exported.
	Model  *milp.Model
	Solver *solvers.Result
	// Infeasible certifies that the instance has no plan that keeps what it supposes.
	Infeasible *certificate.Certificate
	Supposing  []string
	// Stopped says that a limit or an interruption ended the method early.
	Stopped bool
	// Ended says why the method ended where it knows better than that.
	Ended proof.Ended
	Note  string
}

// Refusal says why a plan of a method was refused.
type Refusal struct {
	Method string
	Err    error
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

// SubjectOf returns the subject that a formulation of the problem is checked on, nil
// if there is none.
func (p *Problem) SubjectOf(f formulation.Formulation) *testcase.Subject {
	for _, s := range p.Subjects {
		if s.Kind == f.Kind && s.Staged == f.Staged {
			return s
		}
	}
	return nil
}

// Accepts reports an instance that the problem has no methods for as an error
// of the user's.
func (p *Problem) Accepts(in *Instance) error {
	if slices.Contains(p.Takes, in.Kind()) {
		return nil
	}
	hint, joint := "", "?"
	if strings.Contains(in.Source, "?") {
		joint = "&"
	}
	switch {
	case strings.HasPrefix(in.Source, zoo.Scheme) && !strings.Contains(in.Source, "as=") && p.Takes[0] != chain.Kind:
		hint = fmt.Sprintf("; %s%sas=%s is one", in.Source, joint, p.Takes[0])
	case p.Takes[0] == lifetimes.Kind:
		hint = "; workbench place PLAN places what a plan keeps, and zoo:NAME?as=lifetimes is a network's"
	}
	return InputError(fmt.Errorf("%s is about %s and %s is a %s%s", p.Name, KindWords(p.Takes), in.Name, KindWord(in.Kind()), hint))
}

// Write writes a value of the objective, or a bound on it, for a person.
func (p *Problem) Write(objective float64) string {
	if p.Word == lifetimes.TotalPenalty {
		return strconv.FormatFloat(math.Round(1000*objective)/1000, 'f', -1, 64) // certified bounds stop short of a millionth
	}
	if plan.MinimisesMemory(p.Name) {
		return platform.FormatBytes(objective)
	}
	return platform.FormatSeconds(objective)
}

// Unit returns the unit of the objective in files: s, B, or 1 for penalties and for costs that have none.
func (p *Problem) Unit() string {
	switch {
	case p.Word == lifetimes.TotalPenalty || p.Slots:
		return "1"
	case plan.MinimisesMemory(p.Name):
		return "B"
	}
	return "s"
}

// DefaultMemory returns the memory limit used where none is given, as a user
// would write it: the instance's own, if it has one.
func (p *Problem) DefaultMemory(in *Instance) string {
	if p.OwnMemory != nil {
		if own := p.OwnMemory(in); own != "" {
			return own
		}
	}
	return p.Memory
}

// Accepts reports whether the method works on this kind of instance.
func (m *Method) Accepts(in *Instance) bool {
	return m.Takes == nil || slices.Contains(m.Takes, in.Kind())
}

// Kinds returns the kinds of instance the method works on.
func (m *Method) Kinds(p *Problem) []string {
	if m.Takes == nil {
		return p.Takes
	}
	return m.Takes
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

// Least is the makespan that is reached within a memory, rounded down by what a product and a
// sum for each kind of operation may have been rounded up; NaN if there is no plan. O(breakpoints).
func (t *Tradeoff) Least(memory float64) float64 {
	best := math.NaN()
	for _, b := range t.Points {
		if platform.Fits(b.Memory, memory) {
			best = plan.RoundDown(b.Makespan, 8)
		}
	}
	return best
}

// Breakpoint is one step of a [Tradeoff].
type Breakpoint struct{ Memory, Makespan float64 }
