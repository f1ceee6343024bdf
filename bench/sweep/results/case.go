package results

import (
	"fmt"
	"strconv"

	"workbench/bench/solve"
	"workbench/bench/solve/catalog"
	"workbench/bench/sweep"
	"workbench/model/platform"
)

// CaseOf returns the case of a task: its instance and limits, which all methods that are compared with each other are given. A bound
// that one proves holds for all.
func CaseOf(t *sweep.Task) sweep.Task {
	c := *t
	c.Format, c.Instance, c.MemoryName, c.Method, c.Backend, c.Version = "", "", "", "", "", ""
	c.Slots, c.Threads, c.Seed, c.Repetition, c.TaskMemory, c.TimeLimit, c.Gap = 0, 0, 0, 0, 0, 0, 0
	if c.Model == platform.PaperModel {
		c.Model = ""
	}
	return c
}

// Limits writes the limits for a person: "range 40% (1.5 GiB), 12 GB/s, 4 GPUs".
func Limits(t *sweep.Task) string {
	s := Memory(t)
	if t.MemoryName != "" && t.MemoryName[len(t.MemoryName)-1] == '%' {
		s = t.MemoryName + " (" + s + ")"
	}
	if t.Bandwidth > 0 {
		s += ", " + platform.FormatRate(t.Bandwidth)
	}
	if t.Processors > 0 {
		s += ", " + platform.Count(t.Processors, "GPU")
	}
	if t.Replicas {
		s += ", replicas"
	}
	if t.MemoryModel != "" {
		s += ", " + t.MemoryModel + " model"
	}
	if t.MicroBatches > 0 {
		s += ", " + platform.Count(t.MicroBatches, "micro-batch")
	}
	for _, word := range []string{t.Placement, t.Minimised} {
		if word != "" {
			s += ", " + word
		}
	}
	p, err := catalog.FindProblem(t.Problem)
	switch {
	case err != nil:
	case p.Models && t.Model == platform.SavedModel:
		s += ", all that is saved counts"
	case p.Models:
		s += ", outputs alone count"
	case p.HasRuntime():
		s += ", runtime " + t.Runtime()
	}
	if err == nil && p.Parallel && t.WeightCopies != platform.DefaultWeightCopies {
		s += ", " + platform.Count(t.WeightCopies, "weight copy")
	}
	return s
}

// Memory writes the memory limit in the problem's unit.
func Memory(t *sweep.Task) string {
	if p, err := catalog.FindProblem(t.Problem); err == nil && p.Slots {
		return strconv.FormatFloat(t.Memory, 'g', -1, 64) + " slots"
	}
	return platform.FormatBytes(t.Memory)
}

// Contradiction is a case of which rows cannot all be true: a plan faster than
// what a bound allows, or a plan where there is said to be none.
type Contradiction struct {
	Plan    *sweep.Row
	Against *sweep.Row // the bound, or the proof of infeasibility
	Detail  string
}

// tolerance is the relative difference of a plan and a bound that rounding
// explains, as in package bench.
const tolerance = 1e-6

// caseFacts are the best of a case.
type caseFacts struct {
	fastest, infeasible *sweep.Row
	// bound is the largest without assumptions; assuming are the rows with others.
	bound    *sweep.Row
	assuming []*sweep.Row
}

// Facts are what all rows of the same case have proved together.
type Facts map[sweep.Task]*caseFacts

// FactsOf reads the rows of one night, or of several. O(rows).
func FactsOf(all ...[]*sweep.Row) Facts {
	facts := Facts{}
	for _, list := range all {
		for _, r := range list {
			facts.add(r)
		}
	}
	return facts
}

func (f Facts) add(r *sweep.Row) {
	key := CaseOf(&r.Task)
	c := f[key]
	if c == nil {
		c = &caseFacts{}
		f[key] = c
	}
	// Of equals the first by name counts, so that the order of rows does not.
	if x, ok := Objective(r); ok && (c.fastest == nil || x < *c.fastest.Result.Objective || x == *c.fastest.Result.Objective &&
		r.ID < c.fastest.ID) {
		c.fastest = r
	}
	if r.Failure == nil && r.Result != nil && r.Result.Status == solve.Infeasible && (c.infeasible == nil || r.ID < c.infeasible.ID) {
		c.infeasible = r
	}
	b, ok := Bound(r)
	switch {
	case !ok:
	case len(b.Assumptions) > 0:
		c.assuming = append(c.assuming, r)
	case c.bound == nil || stronger(r, c.bound):
		c.bound = r
	}
}

// stronger reports whether r's bound counts rather than other's: the larger, of
// equals the first by name.
func stronger(r, other *sweep.Row) bool {
	a, b := r.Result.Bound.Value, other.Result.Bound.Value
	return a > b || a == b && r.ID < other.ID
}

// Fastest returns the row with the best plan of the case, nil if there is none.
func (f Facts) Fastest(c sweep.Task) *sweep.Row {
	if facts := f[c]; facts != nil {
		return facts.fastest
	}
	return nil
}

// Bound returns the best bound proved for a case and its row; nil: none. A bound
// under assumptions counts unless a plan beats it: then the plan is one of those
// that the assumptions leave out.
func (f Facts) Bound(c sweep.Task) *sweep.Row {
	facts := f[c]
	if facts == nil {
		return nil
	}
	best := facts.bound
	for _, r := range facts.assuming {
		if (best == nil || stronger(r, best)) && !facts.beats(r) {
			best = r
		}
	}
	return best
}

// beats reports whether the fastest plan is faster than the bound of r.
func (c *caseFacts) beats(r *sweep.Row) bool {
	return c.fastest != nil && platform.Excess(*c.fastest.Result.Objective, r.Result.Bound.Value) < -tolerance
}

// Contradiction returns why not all rows of the case can be true, nil if they
// can.
func (f Facts) Contradiction(c sweep.Task) *Contradiction {
	facts := f[c]
	if facts == nil || facts.fastest == nil {
		return nil
	}
	plan := facts.fastest
	switch {
	case facts.infeasible != nil:
		return &Contradiction{plan, facts.infeasible, fmt.Sprintf("%s has a verified plan (%s) where %s says that there is none",
			plan.Task.Method, platform.FormatSeconds(*plan.Result.Objective), facts.infeasible.Task.Method)}
	case facts.bound != nil && facts.beats(facts.bound):
		b := facts.bound.Result.Bound
		return &Contradiction{plan, facts.bound, fmt.Sprintf(
			"the verified plan of %s (%v s) beats the bound of %s (%v s, %s): the bound is wrong", plan.Task.Method, *plan.Result.Objective,
			facts.bound.Task.Method, b.Value, b.By)}
	}
	return nil
}
