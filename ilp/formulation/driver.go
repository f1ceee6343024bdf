package formulation

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"workbench/model/certificate"
	"workbench/model/milp"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/proof"
	"workbench/solvers"
)

// Task holds the settings with which programs are solved.
type Task struct {
	Backend solvers.Backend
	// Options apply to every solve. The driver sets Time, Start, OnProgress and, where a phase requests another,
	// RelGap.
	Options solvers.Options
	// Start is the best verified plan known, or nil, and Bounds are bounds proved before any model
	// is solved.
	Start  *plan.Plan
	Bounds []proof.Bound
	// Document requests a solve even if plan and bounds already meet.
	Document bool
	// Verify replays a plan and returns its objective in seconds. The error describes the rule that the plan
	// violates.
	Verify func(*plan.Plan) (objective float64, err error)
	// Level is the level of certification. Certify returns a checked certificate that the objective of a program
	// is at least target seconds, or as near to target as ctx allows. With target +Inf it certifies infeasibility.
	Level   Level
	Certify func(ctx context.Context, p *Program, target float64, l Level) (*certificate.Certificate, error)
	// OnProgress, if not nil, receives objectives and bounds, in seconds; NaN: none.
	OnProgress func(objective, bound float64, nodes int64)
	// Others are the methods that work on the same instance concurrently; nil: none.
	Others Others
}

// Others are methods that run concurrently with a task and share plans with it. The task adopts the best plan
// before each phase, and ends a solve whose bound that plan attains.
type Others interface {
	UpdateIncumbent(*plan.Plan)
	Best() *plan.Plan // nil: none
}

// Phase is one program to solve.
type Phase struct {
	Program *Program
	Share   float64 // fraction of the remaining time; 0: all of it
	// Time is the time limit; 0: none.
	Time time.Duration
	Gap  float64 // relative gap at which the solve may end; 0: that of the task
	// Relax solves the LP relaxation, which yields a bound and no plan.
	Relax bool
	// Level is the maximum level of certification; "": that of the task.
	Level Level
}

// Next returns the next phase, given the results so far, and nil after the last one: a list of programs, or a
// generator of them.
type Next func(sofar *Result) (*Phase, error)

// Search solves a sequence of phases, each of which depends on earlier results: a decomposition. solve reports
// whether the result is in sofar; otherwise the task is over, and nothing was solved. Search returns the error of
// solve or its own.
type Search func(sofar *Result, solve func(*Phase) (bool, error)) error

// Result is the result of a task.
type Result struct {
	Plan      *plan.Plan // the best verified plan; nil: none
	Objective float64    // of Plan, seconds; +Inf: none
	Bounds    []proof.Bound
	Claims    []proof.Claim
	// Infeasible is the certificate that a program is infeasible under its assumptions. A plan that satisfies them
	// would refute the formulation.
	Infeasible *certificate.Certificate
	Supposing  []string
	Program    *Program        // the last one solved; nil: none
	X          []float64       // its solution, nil: none
	Solver     *solvers.Result // its result
	Nodes      int64           // of all phases
	Ended      proof.Ended
	// Refused is the start plan, if the verifier rejects it.
	Refused *plan.Plan
	Notes   []string // rejected results, and why
}

// Bound returns the best bound, −Inf: none.
func (r *Result) Bound() float64 {
	best := math.Inf(-1)
	for i := range r.Bounds {
		best = max(best, r.Bounds[i].Value)
	}
	return best
}

// Claimed returns the best lower bound, certified or uncertified, on all plans; −Inf: none.
func (r *Result) Claimed() float64 {
	best := r.Bound()
	for _, c := range r.Claims {
		best = max(best, c.Value)
	}
	return best
}

// Closed reports whether the best bound is within the relative gap of the plan, or equal to it up to the tolerance
// of objectives.
func (r *Result) Closed(gap float64) bool {
	return r.Plan != nil && platform.Closed(r.Objective, r.Claimed(), max(gap, plan.Tolerance))
}

// Phases returns a Next that lists the phases.
func Phases(list ...*Phase) Next {
	return func(*Result) (*Phase, error) {
		if len(list) == 0 {
			return nil, nil
		}
		x := list[0]
		list = list[1:]
		return x, nil
	}
}

// Run solves phase after phase until there is no other, ctx ends, or plan and bound meet: see [Task.Search].
func (t *Task) Run(ctx context.Context, next Next) (*Result, error) {
	return t.Search(ctx, func(sofar *Result, solve func(*Phase) (bool, error)) error {
		for more := !t.finished(ctx, sofar); more; {
			x, err := next(sofar)
			if err != nil || x == nil {
				return err
			}
			if more, err = solve(x); err != nil {
				return err
			}
			more = more && !t.finished(ctx, sofar)
		}
		return nil
	})
}

// Search solves the phases that a search requests, until it returns. Once ctx has ended or plan and bound meet,
// nothing more is solved. No solver output is trusted: a plan counts once it is verified, a bound once it is
// certified. Any other result becomes a note or a claim, an uncertified bound. A rejected plan does not discard a
// bound, nor vice versa, and a failing solve costs its own result only. The error says that a model could not be
// built or solved; the result is valid with it.
func (t *Task) Search(ctx context.Context, search Search) (*Result, error) {
	r := &Result{Objective: math.Inf(1), Ended: proof.NoProof, Bounds: slices.Clone(t.Bounds)}
	if t.Start != nil {
		objective, err := t.Verify(t.Start)
		if err != nil {
			r.note(fmt.Sprintf("no start: the plan of the heuristics is refused: %v", err))
			r.Refused = t.Start
		} else {
			r.Plan, r.Objective = t.Start, objective
		}
	}
	err := search(r, func(x *Phase) (bool, error) {
		if t.finished(ctx, r) {
			return false, nil
		}
		return true, t.phase(ctx, x, r)
	})
	why, over := StopReason(ctx)
	switch {
	case err != nil:
		r.Ended = proof.Error
	case r.Closed(t.Options.RelGap.Value):
		r.Ended = proof.Closed
	case over:
		r.Ended = why
	}
	return r, err
}

// finished reports whether nothing more needs to be solved, given the plans of others.
func (t *Task) finished(ctx context.Context, r *Result) bool {
	t.listen(r)
	return ctx.Err() != nil || r.Closed(t.Options.RelGap.Value) && (r.Program != nil || !t.Document)
}

// StopReason reports whether ctx has ended, and why.
func StopReason(ctx context.Context) (proof.Ended, bool) {
	switch ctx.Err() {
	case nil:
		return "", false
	case context.DeadlineExceeded:
		return proof.TimeLimit, true
	default:
		return proof.Interrupted, true
	}
}

// certifying is the fraction of a phase's time that is reserved for certification. Without a limit certification
// may take as long as the solve, and at least atLeast.
const (
	certifying = 0.25
	atLeast    = time.Minute
)

// phase solves one program and certifies its bound as far as possible.
func (t *Task) phase(ctx context.Context, x *Phase, r *Result) error {
	most := x.Time
	if deadline, ok := ctx.Deadline(); ok && x.Share > 0 {
		if share := time.Duration(x.Share * float64(time.Until(deadline))); most == 0 || share < most {
			most = max(share, 1)
		}
	}
	if most > 0 {
		part, cancel := context.WithTimeout(ctx, most)
		defer cancel()
		ctx = part
	}
	p := x.Program
	solving, met := context.WithCancel(ctx)
	defer met()
	o := t.options(ctx, x, r, met)
	solved, err := t.Backend.Solve(solving, p.Model, o)
	if err != nil {
		return fmt.Errorf("%s: %w", p.Model.Name(), err)
	}
	r.Program, r.Solver, r.X = p, solved, nil
	r.Nodes += solved.Nodes
	t.addAnswer(x, r)
	t.certify(ctx, x, r)
	return nil
}

// listen adopts the plan of the others if it is better.
func (t *Task) listen(r *Result) {
	if t.Others == nil {
		return
	}
	p := t.Others.Best()
	if p == nil || p == r.Refused || r.Plan != nil && !(p.Claims.Makespan < r.Objective) {
		return
	}
	objective, err := t.Verify(p)
	switch {
	case err != nil:
		r.note(fmt.Sprintf("the plan of %s is refused: %v", p.Method, err))
		r.Refused = p
	case objective < r.Objective:
		r.Plan, r.Objective = p, objective
	}
}

// options returns the options of one solve; met ends the solve.
func (t *Task) options(ctx context.Context, x *Phase, r *Result, met func()) solvers.Options {
	p, o := x.Program, t.Options
	o.Relax = x.Relax
	if x.Gap > 0 {
		o.RelGap = solvers.Some(x.Gap)
	}
	if deadline, ok := ctx.Deadline(); ok {
		o.Time = time.Until(deadline)
		if t.certifies(p) && (t.level(x) == Full || t.Level == Root) {
			o.Time = time.Duration((1 - certifying) * float64(o.Time))
		}
		o.Time = max(o.Time, time.Millisecond)
	}
	o.Start = nil
	if r.Plan != nil && p.Start != nil && !x.Relax && t.Backend.Can()&solvers.CanStart != 0 {
		start, err := p.Start(r.Plan)
		if err != nil {
			// A plan may violate a restriction or a normal form.
			r.note(fmt.Sprintf("%s starts cold: %v", p.Model.Name(), err))
		}
		o.Start = start
	}
	o.OnProgress = nil
	if t.Backend.Can()&solvers.CanProgress != 0 {
		o.OnProgress = func(s solvers.Progress) {
			if s.X != nil && p.Plan != nil && !x.Relax {
				t.updateIncumbent(p, s.X, r)
			}
			if t.listen(r); p.bounds() && !x.Relax && r.Plan != nil &&
				r.Objective-p.Objective(s.Bound) <= t.Options.RelGap.Value*math.Abs(r.Objective) {
				met()
			}
			if t.OnProgress != nil {
				objective := math.NaN()
				if r.Plan != nil {
					objective = r.Objective
				}
				bound := r.Claimed()
				if p.bounds() {
					bound = max(bound, p.Objective(s.Bound))
				}
				t.OnProgress(objective, bound, s.Nodes)
			}
		}
	}
	return o
}

// updateIncumbent verifies the plan of a solution and keeps it if it is better. It returns the reason if there is
// no valid plan.
func (t *Task) updateIncumbent(p *Program, x []float64, r *Result) error {
	found, err := p.Plan(x)
	if err != nil {
		return err
	}
	objective, err := t.Verify(found)
	if err != nil {
		return err
	}
	if objective < r.Objective {
		r.Plan, r.Objective = found, objective
		if t.Others != nil {
			t.Others.UpdateIncumbent(found)
		}
	}
	return nil
}

// addAnswer records a solver's result: its solution, and its bound as an uncertified bound (claim).
func (t *Task) addAnswer(x *Phase, r *Result) {
	p, s := x.Program, r.Solver
	by := fmt.Sprintf("%s (%s, %s)", p.Model.Name(), s.BoundBy, s.Backend)
	switch s.Status {
	case solvers.Infeasible:
		if !p.bounds() {
			return // and yields no bound on other plans
		}
		if r.Plan != nil && len(p.Assumptions) == 0 {
			r.note(fmt.Sprintf("%s calls %s infeasible, but a plan exists", s.Backend, p.Model.Name()))
			return
		}
		r.Claims = append(r.Claims, proof.Claim{By: by, Value: math.Inf(-1), Status: s.Status.String()})
		return
	case solvers.Unbounded, solvers.InfeasibleOrUnbounded, solvers.Numerical, solvers.Imprecise:
		r.note(fmt.Sprintf("%s calls %s %v", s.Backend, p.Model.Name(), s.Status))
		return
	}
	if solution, ok := s.Solution(); ok && !x.Relax {
		r.X = solution
		if p.Plan != nil {
			if err := t.updateIncumbent(p, solution, r); err != nil {
				r.note(fmt.Sprintf("a solution of %s makes no plan: %v", p.Model.Name(), err))
			}
		}
	}
	if p.bounds() {
		if bound := p.Objective(s.Bound); !math.IsInf(bound, 0) && !math.IsNaN(bound) {
			// Only the best of several bounds from the same source is kept.
			r.Claims = slices.DeleteFunc(r.Claims, func(c proof.Claim) bool { return c.By == by && c.Value <= bound && !math.IsInf(c.Value, 0) })
			r.Claims = append(r.Claims, proof.Claim{By: by, Value: bound, Status: s.Status.String(), Assumptions: p.Assumptions})
		}
	}
}

// note adds a note unless it exists.
func (r *Result) note(text string) {
	if !slices.Contains(r.Notes, text) {
		r.Notes = append(r.Notes, text)
	}
}

// certifies reports whether bounds of p can be certified.
func (t *Task) certifies(p *Program) bool {
	return t.Certify != nil && t.Level != Off && p.Formulation != "" && p.bounds()
}

// level returns the level of certification of a phase.
func (t *Task) level(x *Phase) Level {
	switch {
	case t.Level == Off || x.Level == Off:
		return Off
	case t.Level == Root || x.Level == Root || x.Relax:
		return Root
	}
	return Full
}

// margin is the relative amount by which a certified bound may remain below the uncertified solver bound. It is
// less than the 1e-6 within which a gap counts as closed, a tenth of which the solver uses.
const margin = 8e-7

// certify turns the uncertified bound of a program into a certified one as far as it can be proved, or certifies
// infeasibility.
func (t *Task) certify(ctx context.Context, x *Phase, r *Result) {
	if !t.certifies(x.Program) || t.level(x) == Off {
		return
	}
	p := x.Program
	// A plan disproves infeasibility, unless it may violate an assumption.
	infeasible := r.Solver.Status == solvers.Infeasible && (r.Plan == nil || len(p.Assumptions) > 0)
	target := math.Inf(1)
	if !infeasible {
		target = min(p.Objective(r.Solver.Bound), r.Objective)
		if math.IsNaN(target) || math.IsInf(target, 0) {
			target = r.Objective
		}
		target -= margin * math.Abs(target)
	}
	if r.certified(target, p.Assumptions) {
		return
	}
	if _, limited := ctx.Deadline(); !limited {
		part, cancel := context.WithTimeout(ctx, max(atLeast, r.Solver.Wall))
		defer cancel()
		ctx = part
	}
	c, err := t.Certify(ctx, p, target, t.level(x))
	switch {
	case err != nil:
		r.note(fmt.Sprintf("%s is not certified: %v", p.Model.Name(), err))
	case c.Infeasible && len(p.Assumptions) > 0:
		r.note(fmt.Sprintf("certified: %s has no solution, which is about plans that keep: %s", p.Model.Name(),
			strings.Join(p.Assumptions, ", ")))
		if r.Infeasible == nil || len(r.Supposing) > 0 {
			r.Infeasible, r.Supposing = c, p.Assumptions
		}
	case c.Infeasible:
		r.Infeasible, r.Supposing = c, nil
	default:
		t.confirm(r, c.Value())
		r.Bounds = append(r.Bounds, proof.Bound{
			Value: c.Value(), By: p.Model.Name(), Proof: proof.Certified,
			Assumptions: append([]string{}, p.Assumptions...), Certificate: c,
		})
	}
}

// certified reports whether a certified bound shows that the objective of plans that satisfy the
// assumptions is at least target.
func (r *Result) certified(target float64, assumptions []string) bool {
	return slices.ContainsFunc(r.Bounds, func(b proof.Bound) bool {
		return b.Proof == proof.Certified && b.Value >= target &&
			!slices.ContainsFunc(b.Assumptions, func(a string) bool { return !slices.Contains(assumptions, a) })
	})
}

// confirm drops the uncertified bounds that a certified bound makes superfluous: those that it attains within the
// margin. Claims of infeasibility stay.
func (t *Task) confirm(r *Result, bound float64) {
	r.Claims = slices.DeleteFunc(r.Claims, func(c proof.Claim) bool {
		return !math.IsInf(c.Value, 0) && c.Value-bound <= 2*margin*math.Abs(c.Value)
	})
}

// Model returns the model solved last; nil: none.
func (r *Result) Model() *milp.Model {
	if r.Program == nil {
		return nil
	}
	return r.Program.Model
}
