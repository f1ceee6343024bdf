// Package solve runs one method on one instance, from the loading of the instance to a verified and judged result.
// It defines problems, methods and results for all packages that run them.
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

// DefaultSlots is the default of S: the 500 of [004] 2.4.2.
const DefaultSlots = 500

// Kind is the guarantee of a method.
type Kind string

const (
	Heuristic Kind = "heuristic" // a plan without a guarantee
	Exact     Kind = "exact"     // a plan and, given time, the proof that it is optimal
	Relaxed   Kind = "bound"     // a proven bound only
)

// Problem describes a problem. Package method has one value for each; commands, sweeps, pictures and reports take
// from it all they need.
type Problem struct {
	Name      string   // as on the command line
	Aliases   []string // other names accepted on the command line
	Title     string
	Source    string   // "[001]"
	Objective string   // the minimised quantity, with its unit
	Defaults  []string // solve without --method uses the first that supports the instance
	Example   string   // instance used by solve without INSTANCE
	// Takes are the kinds of instance that its methods support.
	Takes []string
	// Word is the name of the objective in tables: "period" or "makespan".
	Word string
	// Slots reports that memory is counted in slots of unit size, not in bytes.
	Slots bool
	// Parallel reports that there are several GPUs, so that a pipeline also needs weight copies and a memory
	// model.
	Parallel bool
	// Models reports that plans of chains depend on platform.Model.
	Models bool
	// Scheduled reports that micro-batches pass through stages: it has numbers of micro-batches, placements and
	// objectives.
	Scheduled bool
	// Objectives lists the possible objectives, the default first; nil: there is no choice.
	Objectives []string
	// Moved returns the bytes that a plan offloads, as a fraction of all activations that can be offloaded;
	// repeated transfers count repeatedly. nil: there are no transfers.
	Moved func(*Instance, *plan.Plan) float64
	// Memory and Bandwidth are the defaults of the flags, in the user's notation; no Bandwidth: there are no
	// transfers.
	Memory, Bandwidth string
	// OwnMemory returns the limit that an instance declares, in the notation of Memory; "": it declares none. nil:
	// no instance does.
	OwnMemory func(*Instance) string
	// Range returns the minimum memory for which a plan exists and the memory beyond which more does not help, in
	// bytes, on the platform of a setting, whose memory it ignores; a zero setting stands for the defaults of the
	// problem. Percentages refer to it.
	Range func(*Instance, Setting) (low, high float64)
	// Holds describes what needs the low end of Range where less may suffice; nil: below it nothing fits, and
	// methods say why.
	Holds func(*Instance) string
	// Apart reports that memory counts only activations, as in the papers: weights and related state are resident
	// and counted separately, see Budget.
	Apart bool
	// Fit returns a user error for an instance or platform that no method supports. Too little memory is no such
	// case.
	Fit func(*Instance, platform.Platform) error
	// Meets reports whether a plan satisfies an assumption of a bound, and whether the assumption is known; nil:
	// plan.Plan.Meets.
	Meets func(in *Instance, p *plan.Plan, assumption string) (meets, known bool)
	// Bound returns the best closed-form bound.
	Bound func(*Instance, Setting) Bound
	// Methods returns the table of methods, in the order in which reports list
	// them.
	Methods func() []*Method
	// Does describes a plan by its operations: "12 computations, 3 offloads". Times splits the step time of a
	// verified plan.
	Does  func(*plan.Plan) string
	Times func(*Instance, *Result) []Line
	// Timeline draws plans, Tensors lists their allocations.
	Timeline timeline.Drawer
	Tensors  allocator.Tracer
	// Subjects are generators of random instances with exhaustive search, for the checks of formulations and
	// methods. Tiny has, by kind of instance, one whose models are small enough to read: a name as on the command
	// line, or the text of a file.
	Subjects []*testcase.Subject
	Tiny     map[string]string
	// Late reports that plans may free memory later than they do.
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
	Solver      bool // requires a MILP backend
	// Parts lists the methods of the same problem that it runs: its plan and bound are never worse than those of
	// each of them alone within the same limit.
	Parts []string
	// Unverified reports that plans may exceed the memory limit, as those of the source do. Such a plan is
	// reported with its violation.
	Unverified bool
	// Replicas reports that it plans pipeline stages that are replicated on several processors.
	Replicas bool
	// Slots is the number of slots into which it divides the memory by default; 0: none.
	Slots int
	// Takes lists the kinds of instance that it supports; nil: all of the problem's.
	Takes []string
	Run   func(context.Context, *Instance, Setting) (*Outcome, error)
	// Curve computes the whole trade-off in one run, up to most bytes; nil: the method is run for each memory
	// limit.
	Curve func(ctx context.Context, in *Instance, s Setting, most float64) (Tradeoff, error)
}

// Setting is the input of a method in addition to the instance.
type Setting struct {
	Platform platform.Platform
	// Budget is the division of a whole GPU, whose remainder is Platform.Memory; nil: the memory was given.
	Budget *Budget
	// Time limits the method; 0: no limit. Methods stop at it and return their results so far.
	Time time.Duration
	// Spent is the part of Time that passed before Run: reading the instance, its view and range. The method
	// always gets at least a tenth of Time.
	Spent time.Duration
	// Gap is the relative gap at which a proof counts as closed.
	Gap     float64
	Seed    int
	Threads int
	// MemoryModel is the memory model of a pipeline: plan.StageModel or plan.TaskModel; "": the latter.
	MemoryModel string
	// Slots is S, the number of slots into which slot-based methods divide the memory; 0: the method's default.
	Slots int
	// Backend solves the MILPs of methods that need one. LP solves the linear programs of their certificates where
	// Backend's library cannot keep them; nil: no certificates then.
	Backend, LP solvers.Backend
	// Missing says why the library of Backend is unavailable; nil: it is available.
	Missing error
	// OnProgress is called for every better plan or bound, from one goroutine at a time.
	OnProgress func(Progress)
	// Certify is the level of certification of solver bounds; "": full.
	Certify formulation.Level
	// Document requests a model, and a certificate of its bound, even where a search has proved the bound.
	Document bool
	problem  string // of Run
	// Relax solves the LP relaxation.
	Relax bool
	// Log receives the backend's own log.
	Log io.Writer
}

// Progress is a snapshot of a running method. NaN and ∓Inf stand for a missing plan or bound.
type Progress struct {
	Phase     string // the current phase: "greedy", "search", "milp"
	Elapsed   time.Duration
	Objective float64
	Bound     float64
	Nodes     int64
}

// WithDefaults returns the setting with the method's defaults where it has none.
func (s Setting) WithDefaults(m *Method) Setting {
	if s.Slots == 0 {
		s.Slots = m.Slots
	}
	return s
}

// Outcome is what a method found.
type Outcome struct {
	Plan      *plan.Plan // nil: none
	objective float64    // of a plan kept by UpdateIncumbent
	// Refused lists plans that UpdateIncumbent rejected because they violate a rule, one of each method.
	Refused []Refusal
	// Bounds are the lower bounds on the objective that the run produced, in any order. An uncertified solver
	// bound becomes a claim.
	Bounds []Bound
	// Claims are uncertified solver bounds.
	Claims []proof.Claim
	// Model is the last MILP solved, with the result Solver; nil: none was solved. It is what the result describes
	// and exports.
	Model  *milp.Model
	Solver *solvers.Result
	// Infeasible certifies that no plan exists that satisfies the assumptions in Supposing.
	Infeasible *certificate.Certificate
	Supposing  []string
	// Stopped reports that a limit or an interruption ended the method early.
	Stopped bool
	// Ended is the reason why the method ended, where it is more precise than Stopped.
	Ended proof.Ended
	Note  string
}

// Refusal is the reason why a plan of a method was rejected.
type Refusal struct {
	Method string
	Err    error
}

// Bound is a lower bound on the objective of an instance, with its origin and proof.
type Bound = proof.Bound

// Formulation describes the model that a backend solved, and its size.
type Formulation struct {
	Name        string `json:"name"`
	Version     string `json:"version"`
	Variables   int    `json:"variables"`
	Integers    int    `json:"integers"`
	Constraints int    `json:"constraints"`
	Nonzeros    int    `json:"nonzeros"`
}

// SubjectOf returns the test subject for a formulation of the problem, nil if there is none.
func (p *Problem) SubjectOf(f formulation.Formulation) *testcase.Subject {
	for _, s := range p.Subjects {
		if s.Kind == f.Kind && s.Staged == f.Staged {
			return s
		}
	}
	return nil
}

// HasRuntime reports whether plans follow the rules of a runtime, as those of layouts do.
func (p *Problem) HasRuntime() bool { return p.Parallel && p.Scheduled }

// Accepts returns a user error for an instance that no method of the problem supports.
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
	return InputError(fmt.Errorf("%s supports %s, but %s is a %s%s", p.Name, KindWords(p.Takes), in.Name, KindWord(in.Kind()), hint))
}

// Write formats a value of the objective, or a bound on it.
func (p *Problem) Write(objective float64) string {
	if p.Word == lifetimes.TotalPenalty {
		return strconv.FormatFloat(math.Round(1000*objective)/1000, 'f', -1, 64) // certified bounds may be a millionth below the value
	}
	if plan.MinimisesMemory(p.Name) {
		return platform.FormatBytes(objective)
	}
	return platform.FormatSeconds(objective)
}

// Unit returns the unit of the objective in files: s, B, or 1 for penalties and for costs without a unit.
func (p *Problem) Unit() string {
	switch {
	case p.Word == lifetimes.TotalPenalty || p.Slots:
		return "1"
	case plan.MinimisesMemory(p.Name):
		return "B"
	}
	return "s"
}

// DefaultMemory returns the default memory limit, in the user's notation: the instance's own, if it declares one.
func (p *Problem) DefaultMemory(in *Instance) string {
	if p.OwnMemory != nil {
		if own := p.OwnMemory(in); own != "" {
			return own
		}
	}
	return p.Memory
}

// Accepts reports whether the method supports this kind of instance.
func (m *Method) Accepts(in *Instance) bool {
	return m.Takes == nil || slices.Contains(m.Takes, in.Kind())
}

// Kinds returns the kinds of instance that the method supports.
func (m *Method) Kinds(p *Problem) []string {
	if m.Takes == nil {
		return p.Takes
	}
	return m.Takes
}

// Tradeoff is the whole curve of a method on an instance, from one run.
type Tradeoff struct {
	// Points are the breakpoints: Makespan is attained from Memory on. Memory increases, makespan decreases.
	Points []Breakpoint
	// Plan returns the plan for a memory limit.
	Plan func(memory float64) (*plan.Plan, error)
	// By names the proof that nothing is faster, at any limit; empty: none.
	By string
}

// Least returns the makespan attained within a memory, NaN if there is no plan. It is rounded down by the possible
// rounding error of one product and one sum for each kind of operation. O(breakpoints).
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
