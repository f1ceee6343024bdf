package main

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"

	"workbench/bench/solve"
	"workbench/model/instance/chain"
	"workbench/model/instance/graph"
	"workbench/model/plan"
	"workbench/model/testcase"
)

// A trial is an instance of a problem with a platform.
type trial struct {
	testcase.Trial
	problem *solve.Problem
	about   *testcase.Subject
	threads int
}

// mostThreads is how many threads a run has at most: what several find out together has to hold as well.
const mostThreads = 3

func source(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

// draw returns a trial on any of the subjects of a problem.
func draw(p *solve.Problem, r *rand.Rand) trial {
	var subjects []*testcase.Subject
	for _, s := range p.Subjects {
		if s.Draw != nil {
			subjects = append(subjects, s)
		}
	}
	s := subjects[r.IntN(len(subjects))]
	return trial{Trial: *s.Draw(r), problem: p, about: s, threads: 1 + r.IntN(mostThreads)}
}

// truth is the least objective by exhaustive search and a plan that has it, an
// error that wraps [exhaustive.ErrInfeasible] where there is no plan, and one
// that does not where the search does not answer.
func (t *trial) truth() (float64, *plan.Plan, error) {
	return t.about.Search(&t.Trial, t.about.Searched)
}

// searched reports whether exhaustive search looks at plans like p.
func (t *trial) searched(p *plan.Plan) bool {
	return t.about.Covers == nil || t.about.Covers(&t.Trial, p)
}

// write writes the instance to a file.
func (t *trial) write(file string) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	return errors.Join(t.In.Write(f), f.Close())
}

// flags are those of solve for the platform.
func (t *trial) flags(backend string) string {
	number := func(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }
	s := " --memory " + number(t.Platform.Memory)
	if t.Platform.Bandwidth > 0 {
		s += " --bandwidth " + number(t.Platform.Bandwidth)
	}
	if t.problem.Parallel {
		s += fmt.Sprintf(" --processors %d --weight-copies %d", t.Platform.Processors, t.Platform.WeightCopies)
	}
	if p := t.Platform; t.problem.Scheduled {
		s += fmt.Sprintf(" --micro-batches %d --placement %s --objective %s", p.MicroBatches, p.Placement, p.Objective)
		if t.problem.Parallel {
			s += fmt.Sprintf(" --split %g --latency %g --runtime %s", p.Split, p.Latency, cmp.Or(p.Runtime, "paper"))
		}
	}
	if backend != "" {
		s += " --backend " + backend
	}
	return s + " --threads " + strconv.Itoa(t.threads)
}

// smaller yields trials with less in them: a layer or node left out, a number 0.
func (t *trial) smaller(yield func(trial) bool) {
	switch in := t.In.(type) {
	case *chain.Chain:
		for i := range in.Layers {
			d := *in
			if d.Layers = slices.Delete(slices.Clone(in.Layers), i, i+1); len(d.Layers) > 0 && !yield(t.withInstance(&d)) {
				return
			}
		}
		for k := range numbers(in) {
			d := *in
			d.Layers = slices.Clone(in.Layers)
			if x := numbers(&d)[k]; *x != 0 {
				*x = 0
				if d.Validate() == nil && !yield(t.withInstance(&d)) {
					return
				}
			}
		}
	case *graph.Graph:
		for k := range 3 * len(in.Nodes) {
			d := *in
			d.Nodes = slices.Clone(in.Nodes)
			n := &d.Nodes[k/3]
			if x := [...]*float64{&n.Time, &n.Memory, &n.Overhead}[k%3]; *x != 0 {
				*x = 0
				if !yield(t.withInstance(&d)) {
					return
				}
			}
		}
	}
}

func (t *trial) withInstance(in plan.Instance) trial {
	u := *t
	u.In = in
	return u
}

// numbers are those of a chain.
func numbers(c *chain.Chain) (all []*float64) {
	for x := range c.Sizes() {
		all = append(all, x)
	}
	for i := range c.Layers {
		all = append(all, &c.Layers[i].ForwardTime, &c.Layers[i].BackwardTime)
	}
	return all
}
