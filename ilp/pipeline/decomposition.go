package pipeline

import (
	"cmp"
	"slices"

	"workbench/ilp/formulation"
	"workbench/model/chain"
	"workbench/model/plan"
	"workbench/model/platform"
)

// Decomposition makes the programs of a decomposition, logic-based Benders
// (Hooker and Ottosson, 2003): one of allocations without patterns, of which an
// allocation comes that stores what a period asks for; one of the patterns of an
// allocation, [pipelineOrder]; and where there is no pattern, cuts that tell the
// first one so.
type Decomposition struct {
	in   *pipelineInstance
	cuts []*pipelineCut // of all questions
}

// Allocation is which processor computes which layers, or a part of that.
type Allocation []placedRun

// Decompose reads an instance. memoryModel is plan.StageModel or plan.TaskModel,
// the latter if empty. The error is as that of Allocations.
func Decompose(c *chain.Chain, p platform.Platform, memoryModel string) (*Decomposition, error) {
	in, err := newWholePipeline(c, p, memoryModel)
	if err != nil {
		return nil, err
	}
	return &Decomposition{in: in}, nil
}

// Horizon is a period that is always enough, seconds.
func (d *Decomposition) Horizon() float64 { return d.in.horizon * d.in.time }

// Question is whether there is an allocation for 1-periodic patterns of a period
// of at most some seconds, of which nothing that is known excludes a pattern.
type Question struct {
	of      *Decomposition
	f       *pipelineAllocation
	program formulation.Program
	cuts    int  // in f
	skipped bool // some of them are without proof
}

// Ask returns the question about periods of at most limit seconds.
func (d *Decomposition) Ask(limit float64) (*Question, error) {
	o := AllocationOptions{MemoryOption: MemoryOption{d.in.model}, Limit: limit, Question: true}
	f, program, err := allocations(d.in, o)
	if err != nil {
		return nil, err
	}
	q := &Question{of: d, f: f, program: *program}
	for _, c := range d.cuts {
		if c.limit >= f.limit {
			q.cut(c)
		}
	}
	return q, nil
}

func (q *Question) cut(c *pipelineCut) {
	q.f.cut(c)
	q.cuts++
}

// Program is the model of the question, with the cuts that are known by now: its
// objective is the limit if there is no such allocation, so that no 1-periodic
// pattern has a shorter period, and 0 otherwise.
func (q *Question) Program() *formulation.Program {
	p := q.program
	p.Model = q.f.m.Clone()
	if q.cuts > 0 { // no options make them again
		p.Formulation, p.Options = "", nil
	}
	if q.skipped {
		p.Promise = formulation.Nothing
	}
	return &p
}

// Allocation reads the answer off a solution; ok is false if it is that there is
// none.
func (q *Question) Allocation(x []float64) (a Allocation, ok bool) {
	a = q.f.allocation(x)
	return a, len(a) > 0
}

// Processors returns the parts of an allocation that are on one processor each.
func (q *Question) Processors(a Allocation) (parts []Allocation) {
	for r := range q.f.platform.Processors {
		if part := a.but(func(x placedRun) bool { return x.processor != r }); len(part) > 0 {
			parts = append(parts, part)
		}
	}
	return parts
}

// Uninterrupted is the model of the patterns of an allocation, of a period of at
// most the limit, in which no other task interrupts a run, [004] 7.2: much smaller
// than that of all, and most patterns are of it.
func (q *Question) Uninterrupted(a Allocation) (*formulation.Program, error) {
	stages, one := make([]plan.Stage, len(a)), make([]placedRun, len(a))
	for k, x := range a {
		stages[k] = plan.Stage{Processor: x.processor, From: x.i + 1, To: x.j + 1}
		one[k] = placedRun{i: k, j: k, processor: x.processor}
	}
	in, err := staged(q.f.view, stages)
	if err != nil {
		return nil, err
	}
	return newPipelineOrder(in, one, make([]float64, len(a)), q.f.limit).program(true), nil
}

// Patterns is the model of all patterns of an allocation of a period of at most
// the limit. Of a part of one it is a relaxation: if it has no solution, nor has
// any allocation with that part a pattern.
func (q *Question) Patterns(a Allocation) *formulation.Program {
	return newPipelineOrder(q.f.pipelineInstance, a, q.f.delays(a), q.f.limit).program(a.whole(q.f.n))
}

// Skip excludes one allocation from this question, without a proof: that there is
// no other then bounds nothing.
func (q *Question) Skip(a Allocation) {
	q.skipped = true
	q.cut(&pipelineCut{limit: q.f.limit, runs: a})
}

// Exclude excludes all allocations with a part of which it is known that no
// pattern has it, from this and all later questions: for as little of the part as
// impossible still calls so. It leaves out processors, then runs, the lightest
// first; what is known of delays; and ends of runs.
func (q *Question) Exclude(a Allocation, impossible func(Allocation) (bool, error)) error {
	var err error
	try := func(less Allocation) bool {
		if err != nil || len(less) == 0 {
			return false
		}
		var is bool
		if is, err = impossible(less); is {
			a = less
		}
		return is
	}
	change := func(k int, to func(*placedRun)) bool {
		less := slices.Clone(a)
		if to(&less[k]); less[k] == a[k] {
			return false
		}
		return try(less)
	}
	for r := range q.f.platform.Processors {
		if less := a.but(func(x placedRun) bool { return x.processor == r }); len(less) < len(a) {
			try(less)
		}
	}
	light := slices.Clone(a)
	slices.SortFunc(light, func(x, y placedRun) int { return cmp.Compare(q.f.load(x.i, x.j), q.f.load(y.i, y.j)) })
	for _, y := range light {
		try(a.but(func(x placedRun) bool { return x == y }))
	}
	for k := range a {
		change(k, func(x *placedRun) { x.behind = 0 })
		if change(k, func(x *placedRun) { x.openBack = x.j < q.f.n-1; x.behind = 0 }) {
			for change(k, func(x *placedRun) { x.j = (x.i + x.j) / 2 }) {
			}
			for change(k, func(x *placedRun) { x.j = max(x.i, x.j-1) }) {
			}
		}
		if change(k, func(x *placedRun) { x.openFront = x.i > 0 }) {
			for change(k, func(x *placedRun) { x.i = (x.i + x.j + 1) / 2 }) {
			}
			for change(k, func(x *placedRun) { x.i = min(x.i+1, x.j) }) {
			}
		}
	}
	c := &pipelineCut{limit: q.f.limit, runs: a}
	q.of.cuts = append(q.of.cuts, c)
	q.cut(c)
	return err
}

// but returns the allocation without some runs.
func (a Allocation) but(some func(placedRun) bool) Allocation {
	return slices.DeleteFunc(slices.Clone(a), some)
}

// whole reports whether a has all of n layers.
func (a Allocation) whole(n int) bool {
	next := 0
	for _, x := range a {
		if x.i != next || x.openFront || x.openBack {
			return false
		}
		next = x.j + 1
	}
	return next == n
}

// program is what the driver needs of the model; whole says that it is of an
// allocation, so that its solutions are patterns. Any will do: there is nothing to
// minimise, and no bound.
func (f *pipelineOrder) program(whole bool) *formulation.Program {
	p := &formulation.Program{Model: f.m, Promise: formulation.Nothing, Unit: f.time}
	if whole {
		p.Plan = func(x []float64) (*plan.Plan, error) { return f.pattern(x).plan(f.m.Name()) }
	}
	return p
}

// nothing are the values of the answer that there is no allocation.
func (f *pipelineAllocation) nothing(*plan.Plan) ([]float64, error) {
	x := make([]float64, f.m.NumCols())
	x[f.period.Index()], x[f.beyond.Index()] = f.limit, 1
	return x, nil
}
