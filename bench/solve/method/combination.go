package method

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"workbench/bench/solve"
	"workbench/ilp/formulation"
	"workbench/model/plan"
	"workbench/solvers"
)

// A combination is a method made of others, no worse than each of them alone with
// the same limit but for what they take from each other of the machine:
//
//   - quick methods come first, one after the other, until one meets the bound;
//   - then the search runs until it ends by itself, and to the end of the limit again
//     and again, with other seeds or finer grids. Nothing that a proof does shortens it;
//   - beside it, once the first round has ended or a quarter of the time is over, comes
//     the proof, from the best plan by then, and with every better one that the search
//     has at the end of a round.
//
// When plan and bound meet, all of it ends. The proof has the backend's threads, in
// a process of its own; the search has one.
type combination struct {
	name  string
	bound func(*solve.Instance, solve.Setting) solve.Bound // of the problem, in closed form
	quick []*solve.Method
	// search is round 0, 1, … of the search; it reports whether there is another
	// round to come.
	search func(j *joint, round int) (more bool)
	// prove takes what it finds, and returns the error of a proof that could not be
	// built or solved.
	prove func(j *joint) error
	// always says that prove looks for plans, too, of a kind that the bound which was
	// met does not bind: it runs all the same, with the joint's context at its end once
	// plan and bound have met, so that it may go on looking for these and proves no more.
	always bool
	// rounds is how many there are at most where no limit is set, those but the first
	// after the proof; 0: one.
	rounds int
}

// unlimited is the time before proofs where there is no limit.
const unlimited = time.Minute

// headStart is the part of the limit after which the proof does not wait for the
// search any more.
const headStart = 0.25

// run is the method's.
func (c *combination) run(ctx context.Context, in *solve.Instance, s solve.Setting) (*solve.Outcome, error) {
	j := newJoint(ctx, in, s, c.bound(in, s).Value)
	defer j.stop()
	start := time.Now()
	for _, m := range c.quick {
		before := j.Best()
		if before != nil && j.finished() {
			break // else the first may have a plan all the same
		}
		out, err := m.Run(j.ctx, in, j.s.WithDefaults(m))
		if out != nil {
			out.Note, out.Bounds = "", nil // those of Problem.Bound, if any
		}
		if j.addOutcome(m.Name, out, err); j.infeasible() != nil {
			return nil, j.infeasible()
		}
		if best := j.Best(); best != before {
			reportProgress(&j.s, start, m.Name, best, math.Inf(-1), 0)
		}
	}
	if j.Best() == nil || !j.finished() || s.Document {
		c.runConcurrently(j) // after the limit, too: the search begins with what is there at once
	}
	return j.outcome(ctx, c.name)
}

// runConcurrently runs search and proof beside each other.
func (c *combination) runConcurrently(j *joint) {
	_, limited := j.ctx.Deadline()
	first, proved, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		more := c.search(j, 0)
		j.end()
		close(first)
		if !limited {
			<-proved
		}
		for round := 1; more && !j.finished() && (limited || round < c.rounds); round++ {
			more = c.search(j, round)
			j.end()
		}
	}()
	if j.wait(first); c.always || j.unproved() {
		j.fail("no MILP bound", c.prove(j))
	}
	j.document()
	close(proved)
	<-ended
}

// joint is what the parts of a combination know together. Its methods may be called
// from several goroutines.
type joint struct {
	ctx  context.Context // ends with the limit, or when plan and bound have met
	stop context.CancelFunc
	in   *solve.Instance
	s    solve.Setting

	lock   sync.Mutex
	out    *solve.Outcome
	errs   []error // of parts that found nothing; those of a proof are in the note
	closed float64 // what the problem's closed forms prove
	shown  solve.Progress
	wanted bool // a proof is asked for, whatever is known, and not there yet
}

func newJoint(ctx context.Context, in *solve.Instance, s solve.Setting, closed float64) *joint {
	j := &joint{
		in: in, s: s, out: &solve.Outcome{}, closed: closed, wanted: s.Document,
		shown: solve.Progress{Objective: math.NaN(), Bound: closed},
	}
	j.ctx, j.stop = context.WithCancel(ctx)
	if tell, start := s.OnProgress, time.Now(); tell != nil {
		j.s.OnProgress = func(p solve.Progress) {
			j.lock.Lock()
			defer j.lock.Unlock()
			p.Elapsed = time.Since(start)
			tell(j.shows(p))
		}
	}
	return j
}

// shows is what is to be said when one of the parts says p: the best of what any of
// them has said.
func (j *joint) shows(p solve.Progress) solve.Progress {
	if !(p.Objective >= j.shown.Objective) && !math.IsNaN(p.Objective) {
		j.shown.Objective = p.Objective
	}
	j.shown.Bound = max(j.shown.Bound, p.Bound)
	p.Objective, p.Bound = j.shown.Objective, j.shown.Bound
	return p
}

// wait returns when the first round of the search has ended, or the proof is to begin
// all the same.
func (j *joint) wait(first <-chan struct{}) {
	alone := unlimited
	if deadline, ok := j.ctx.Deadline(); ok {
		alone = time.Duration(headStart * float64(time.Until(deadline)))
	}
	select {
	case <-first:
	case <-time.After(alone):
	}
}

// addOutcome takes over what a part found, or why it found nothing.
func (j *joint) addOutcome(part string, out *solve.Outcome, err error) {
	if err != nil {
		j.fail(part, err)
	}
	if out == nil {
		return
	}
	j.UpdateIncumbent(out.Plan)
	j.lock.Lock()
	defer j.lock.Unlock()
	j.out.Bounds = append(j.out.Bounds, out.Bounds...)
	j.out.Claims = append(j.out.Claims, out.Claims...)
	j.out.Refused = append(j.out.Refused, out.Refused...)
	if out.Infeasible != nil {
		j.out.Infeasible, j.out.Supposing = out.Infeasible, out.Supposing
	}
	if out.Model != nil {
		j.out.Solver, j.out.Model = out.Solver, out.Model
	}
	if out.Note != "" {
		j.out.Remark(out.Note)
	}
}

// fail notes why a part found nothing.
func (j *joint) fail(part string, err error) {
	if err == nil {
		return
	}
	j.lock.Lock()
	defer j.lock.Unlock()
	if !errors.As(err, new(*plan.Infeasible)) { // which is nobody's in particular
		err = fmt.Errorf("%s: %w", part, err)
	}
	j.errs = append(j.errs, err)
}

// UpdateIncumbent keeps p if it replays and is the best plan; nil is none.
func (j *joint) UpdateIncumbent(p *plan.Plan) {
	j.lock.Lock()
	defer j.lock.Unlock()
	j.out.UpdateIncumbent(j.in, p)
}

// Best returns the best plan, nil if there is none.
func (j *joint) Best() *plan.Plan {
	j.lock.Lock()
	defer j.lock.Unlock()
	return j.out.Plan
}

// bounds returns what is proved of plans like the best one.
func (j *joint) bounds() []solve.Bound {
	j.lock.Lock()
	defer j.lock.Unlock()
	return slices.DeleteFunc(slices.Clone(j.out.Bounds), func(b solve.Bound) bool { return !j.binds(b.Assumptions) })
}

// claimed returns the best value that anybody proves or claims of plans like the best
// one.
func (j *joint) claimed() float64 {
	j.lock.Lock()
	defer j.lock.Unlock()
	best := j.closed
	for _, b := range j.out.Bounds {
		if j.binds(b.Assumptions) {
			best = max(best, b.Value)
		}
	}
	for _, c := range j.out.Claims {
		if j.binds(c.Assumptions) {
			best = max(best, c.Value)
		}
	}
	return best
}

// binds reports whether the best plan is known to keep assumptions, or may: what
// nobody can tell does not keep a search going.
func (j *joint) binds(assumptions []string) bool {
	return !slices.ContainsFunc(assumptions, func(a string) bool {
		meets, known := false, true
		if j.out.Plan != nil {
			meets, known = j.out.Plan.Meets(a)
		}
		return known && !meets
	})
}

// met reports whether plan and bound have met.
func (j *joint) met() bool {
	best := j.Best()
	return best != nil && best.Claims.Makespan-j.claimed() <= max(j.s.Gap, 2*solve.Tolerance)*best.Claims.Makespan
}

// finished reports whether there is nothing more to do but for a document.
func (j *joint) finished() bool { return j.ctx.Err() != nil || j.met() }

// unproved reports whether a proof has something to do.
func (j *joint) unproved() bool {
	j.lock.Lock()
	wanted := j.wanted
	j.lock.Unlock()
	return j.ctx.Err() == nil && (wanted || !j.met())
}

// end ends what runs beside once plan and bound have met, and the proof that was
// asked for is there.
func (j *joint) end() {
	if !j.unproved() {
		j.stop()
	}
}

// document says that the proof is there.
func (j *joint) document() {
	j.lock.Lock()
	j.wanted = false
	j.lock.Unlock()
	j.end()
}

// infeasible returns the proof that there is no plan, nil if there is none.
func (j *joint) infeasible() error {
	j.lock.Lock()
	defer j.lock.Unlock()
	for _, err := range j.errs {
		if errors.As(err, new(*plan.Infeasible)) {
			return err
		}
	}
	return nil
}

// outcome is what came of all parts. What failed is said beside a plan, and instead
// of one where there is none; but a proof that there is none, beside a plan, and a
// backend that is not there are errors.
func (j *joint) outcome(ctx context.Context, name string) (*solve.Outcome, error) {
	out, infeasible := j.out, j.infeasible()
	out.Stopped = ctx.Err() != nil
	switch {
	case infeasible != nil && out.Plan != nil:
		return nil, fmt.Errorf("a plan of %v s was found, but: %w", out.Plan.Claims.Makespan, infeasible)
	case infeasible != nil:
		return nil, infeasible
	}
	failed := ctx.Err()
	for _, err := range j.errs {
		switch {
		case errors.Is(err, solvers.ErrMissing):
			return nil, err
		case errors.Is(err, plan.ErrNoPlan), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
			failed = cmp.Or(failed, err)
			continue
		case out.Plan != nil, out.Infeasible != nil:
			out.Remark(err.Error())
			continue
		}
		return nil, err
	}
	if out.Plan == nil {
		if len(out.Bounds)+len(out.Claims)+len(out.Refused) == 0 && out.Infeasible == nil {
			return nil, failed
		}
		return out, nil
	}
	out.Plan.Method = name
	return out, nil
}

// task is what the proof's models are solved with, from the best plan.
func (j *joint) task(phase string) *formulation.Task {
	t := j.s.Task(j.in, phase, j.Best())
	t.Others = j
	return t
}

// solved takes over what came of a task.
func (j *joint) solved(r *formulation.Result, err error) error {
	if r == nil {
		return userError(err)
	}
	out := &solve.Outcome{}
	out.AddResult(r)
	j.addOutcome("", out, nil)
	return userError(err)
}

// searched makes a round of a combination of a method that finds one plan.
func searched(part string, work func(j *joint, round int) (*plan.Plan, error)) func(*joint, int) bool {
	return func(j *joint, round int) bool {
		start := time.Now()
		p, err := work(j, round)
		j.addOutcome(part, &solve.Outcome{Plan: p}, err)
		if p != nil {
			reportProgress(&j.s, start, part, p, math.Inf(-1), 0)
		}
		return err == nil
	}
}

// named returns the methods of a table with these names.
func named(methods []*solve.Method, names ...string) (found []*solve.Method) {
	for _, name := range names {
		found = append(found, methods[slices.IndexFunc(methods, func(m *solve.Method) bool { return m.Name == name })])
	}
	return found
}

// combine makes methods of a table run as combinations.
func combine(methods []*solve.Method, all ...*combination) {
	for _, c := range all {
		named(methods, c.name)[0].Run = c.run
	}
}
