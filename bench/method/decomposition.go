package method

import (
	"context"
	"fmt"
	"time"

	"workbench/ilp/formulation"
	ilppipeline "workbench/ilp/pipeline"
	"workbench/model/chain"
	"workbench/model/platform"
	"workbench/solvers"
)

// decomposition looks for a 1-periodic pattern of least period and proves a lower
// bound, by logic-based Benders: allocations by one model, their patterns by
// another, cuts between.
//
// A pattern can be stretched to every longer period. So it asks for one period t
// after the other whether there is a pattern, and closes in on the least from both
// sides. An allocation that stores what is needed for t comes from one model, its
// pattern from another; where there is none, a cut tells the first model so. Where
// no allocation is left, t is a lower bound. Without a limit it ends with the least
// period of a 1-periodic pattern.
type decomposition struct {
	ctx    context.Context
	models *ilppipeline.Decomposition
	gap    float64 // relative, to be reached
	sofar  *formulation.Result
	ask    func(*formulation.Phase) (bool, error)
	ended  bool // the task is over
}

// Decompose runs the decomposition alone. memoryModel is plan.StageModel or
// plan.TaskModel, the latter if empty; gap is the relative one to be reached.
func Decompose(ctx context.Context, t *formulation.Task, c *chain.Chain, p platform.Platform, memoryModel string, gap float64) (*formulation.Result, error) {
	models, err := ilppipeline.Decompose(c, p, memoryModel)
	if err != nil {
		return nil, err
	}
	return t.Search(ctx, func(sofar *formulation.Result, solve func(*formulation.Phase) (bool, error)) error {
		return closeIn(ctx, models, gap, sofar, solve)
	})
}

// Steps of the search, relative to the period to beat.
const (
	// wanted is the gap that is asked for first: mostly that is all there is to
	// prove.
	wanted = 0.02
	// grain is the width of an interval that a round leaves open.
	grain = 5e-3
	// firstSlice is the part of the time that a probe of the first round gets.
	firstSlice = 0.08
)

// closeIn probes one period after the other until plan and bound meet to a
// relative gap. A round leaves open the periods that a slice of the time each does
// not decide; the next one has twice the slices.
func closeIn(ctx context.Context, models *ilppipeline.Decomposition, gap float64, sofar *formulation.Result, solve func(*formulation.Phase) (bool, error)) error {
	s := &decomposition{ctx: ctx, models: models, gap: gap, sofar: sofar, ask: solve}
	deadline, limited := ctx.Deadline()
	for slice := time.Duration(firstSlice * float64(time.Until(deadline))); !s.done(); slice *= 2 {
		if !limited {
			slice = 0
		}
		undecided, err := s.round(slice)
		if err != nil || !undecided || !limited {
			return err
		}
	}
	return nil
}

// low and high are what the least period of a 1-periodic pattern lies between, in
// seconds.
func (s *decomposition) low() float64 { return max(0, s.sofar.Claimed()) }

func (s *decomposition) high() float64 { return min(s.sofar.Objective, s.models.Horizon()) }

// done reports whether the gap is closed or the time is over.
func (s *decomposition) done() bool {
	return s.ended || s.high() <= s.low()*(1+s.gap) || soon(s.ctx)
}

// soon reports whether a context has ended, but for what is too short for a solve.
func soon(ctx context.Context) bool {
	deadline, limited := ctx.Deadline()
	return ctx.Err() != nil || limited && time.Until(deadline) < 10*time.Millisecond
}

// round reports whether it left periods open.
func (s *decomposition) round(slice time.Duration) (undecided bool, err error) {
	open := s.models.Horizon() * 2 // the least period that was not decided
	for !s.done() {
		low, high := s.low(), s.high()
		if open < high && open-low <= grain*high {
			return true, nil
		}
		limit := (low + min(open, high)) / 2
		if open >= high {
			for _, step := range [3]float64{wanted, grain, s.gap} {
				if limit = high / (1 + step); limit > low*(1+s.gap/2) {
					break
				}
			}
			if s.sofar.Plan == nil {
				limit = high
			}
		}
		decided, err := s.probe(limit, slice)
		if err != nil {
			return false, err
		}
		if !decided {
			if s.sofar.Plan == nil && limit >= high {
				return true, nil
			}
			open = limit
		}
	}
	return false, nil
}

// probe asks whether there is a pattern of at most limit seconds: it ends with
// one, or with the bound at limit, or undecided after a slice of time, 0: none.
func (s *decomposition) probe(limit float64, slice time.Duration) (decided bool, err error) {
	ctx, cancel := s.ctx, context.CancelFunc(func() {})
	if slice > 0 {
		ctx, cancel = context.WithTimeout(ctx, slice)
	}
	defer cancel()
	question, err := s.models.Ask(limit)
	if err != nil {
		return false, err
	}
	q := &probe{decomposition: s, ctx: ctx, question: question, possible: map[string]bool{}}
	for !soon(ctx) {
		program := question.Program()
		if err := q.solve(program, 0); err != nil || s.ended {
			return false, err
		}
		x := s.sofar.X
		if s.sofar.Program != program || x == nil {
			return false, nil
		}
		allocation, ok := question.Allocation(x)
		if !ok {
			return s.sofar.Solver.Status == solvers.Optimal && !q.skipped, nil
		}
		if found, err := q.allocated(allocation); err != nil || found {
			return found, err
		}
	}
	return false, nil
}

// probe is a search for a pattern of at most one period.
type probe struct {
	*decomposition
	ctx      context.Context
	question *ilppipeline.Question
	skipped  bool // an allocation was excluded without proof
	// possible are the parts of one processor that alone have a pattern.
	possible map[string]bool
}

// solve solves a program within the time of the probe, or less if most is not 0.
func (q *probe) solve(p *formulation.Program, most time.Duration) error {
	x := &formulation.Phase{Program: p, Time: most}
	if deadline, ok := q.ctx.Deadline(); ok {
		if left := max(10*time.Millisecond, time.Until(deadline)); most == 0 || left < most {
			x.Time = left
		}
	}
	solved, err := q.ask(x)
	q.ended = q.ended || !solved
	return err
}

// impossible solves a program and reports whether the answer is that it has no
// solution.
func (q *probe) impossible(p *formulation.Program, most time.Duration) (bool, error) {
	err := q.solve(p, most)
	return !q.ended && err == nil && q.sofar.Solver.Status == solvers.Infeasible, err
}

// allocated makes a pattern of an allocation, or cuts.
func (q *probe) allocated(a ilppipeline.Allocation) (found bool, err error) {
	cut := false
	for _, part := range q.question.Processors(a) {
		key := fmt.Sprint(part)
		if q.possible[key] {
			continue
		}
		excluded, err := q.exclude(part)
		if err != nil || q.ended {
			return false, err
		}
		cut = cut || excluded
		q.possible[key] = !excluded
	}
	if cut {
		return false, nil
	}
	uninterrupted, err := q.question.Uninterrupted(a)
	if err != nil {
		return false, err
	}
	most, before := time.Duration(0), q.sofar.Objective
	if deadline, ok := q.ctx.Deadline(); ok {
		most = time.Until(deadline) / 2
	}
	if err := q.solve(uninterrupted, most); err != nil || q.ended || q.sofar.Objective < before {
		return q.sofar.Objective < before, err
	}
	excluded, err := q.exclude(a)
	if err != nil || q.ended || excluded || q.sofar.Objective < before {
		return q.sofar.Objective < before, err
	}
	q.skipped = true
	q.question.Skip(a)
	return false, nil
}

// exclude cuts an allocation, or a part of one, if it has no pattern, and what is
// like it. Each try of less of it may take about as long as the proof did. If it is
// a whole one and has a pattern, that is adopted.
func (q *probe) exclude(a ilppipeline.Allocation) (excluded bool, err error) {
	begin := time.Now()
	if excluded, err = q.impossible(q.question.Patterns(a), 0); err != nil || !excluded {
		return false, err
	}
	proof := time.Since(begin)
	return true, q.question.Exclude(a, func(less ilppipeline.Allocation) (bool, error) {
		return q.impossible(q.question.Patterns(less), 2*proof+100*time.Millisecond)
	})
}
