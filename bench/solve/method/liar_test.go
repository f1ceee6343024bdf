package method

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"workbench/bench/solve"
	"workbench/bench/solve/backends"
	"workbench/ilp/formulation"
	"workbench/model/plan"
	"workbench/model/platform"
)

// A wrong plan costs itself only: whichever part of a combination returns one that
// claims half of the time and misses its first operation, the answer is the one
// without it, and says whose plan was refused.
func TestLiarsCostThemselvesOnly(t *testing.T) {
	backend, err := backends.New("highs", false)
	if err != nil {
		t.Fatal(err)
	}
	remat, weights, offload, combined, swap := RematMethods(), WeightMethods(), OffloadMethods(), CombinedMethods(), SwapMethods()
	var one *plan.Plan
	for _, x := range []struct {
		problem *solve.Problem
		spec    string
		made    func() *combination
	}{
		{Remat(), tinyChain, func() *combination { return chainMILP(remat) }},
		{Remat(), tinyGraph, checkmateCombination},
		{WeightOffload(), tinyPipeline, weightsMILP(weights)},
		{ActivationOffload(), tinyChain, func() *combination { return offloadOptimum(offload) }},
		{ActivationOffload(), tinyChain, func() *combination { return offloadMILP(offload) }},
		{RematOffload(), tinyChain, func() *combination { return combinedMILP(combined) }},
		{Swap(), Swap().Tiny["functions"], func() *combination { return swapMILP(swap) }},
		{Pipeline(), tinyPipeline, func() *combination { return pipelineCombination(t.Context(), &one) }},
	} {
		in := load(t, x.spec)
		low, _ := x.problem.Range(in, solve.Setting{})
		s := solve.Setting{Backend: backend, Time: time.Minute, Threads: 1, Platform: platform.Platform{
			Memory: low, Bandwidth: 1, Processors: 2, WeightCopies: 2,
		}}
		honest := runAs(t, x.problem, in, s, x.made())
		if honest.Objective == nil {
			t.Fatalf("%s: %s", x.made().name, honest.Error)
		}
		liar := *honest.Plan
		liar.Method, liar.Ops = "liar", liar.Ops[1:]
		liar.Claims.Makespan /= 2
		for part, spoil := range map[string]func(c *combination){
			"a quick one": func(c *combination) {
				lie := heuristic("liar", "", "", "", func(context.Context, *solve.Instance, solve.Setting) (*plan.Plan, error) { return &liar, nil })
				c.quick = append([]*solve.Method{lie}, c.quick...)
			},
			"the search": func(c *combination) {
				search := c.search
				c.search = func(j *joint, round int) bool {
					j.UpdateIncumbent(&liar)
					j.addOutcome("liar", &solve.Outcome{Plan: &liar}, nil)
					return search(j, round)
				}
				c.quick = nil
			},
			"the proof": func(c *combination) {
				c.always = true
				prove := c.prove
				c.prove = func(j *joint) error {
					return errors.Join(j.solved(&formulation.Result{Plan: &liar}, nil), prove(j))
				}
				c.quick = nil
			},
		} {
			c := x.made()
			spoil(c)
			r := runAs(t, x.problem, in, s, c)
			switch {
			case r.Objective == nil || platform.Gap(*r.Objective, *honest.Objective) > solve.Exactness || r.Status != honest.Status:
				t.Errorf("%s, %s lies: %s %v %s, without it %s %v", c.name, part, r.Status, r.Objective, r.Error, honest.Status, *honest.Objective)
			case !strings.Contains(r.Note, "the plan of liar breaks"):
				t.Errorf("%s, %s lies: nobody is told: %q", c.name, part, r.Note)
			}
		}
	}
}

// load reads an instance of the zoo, or what a file would say.
func load(t *testing.T, spec string) *solve.Instance {
	t.Helper()
	from := spec
	if !strings.HasPrefix(spec, "zoo:") {
		from = "-"
	}
	in, err := solve.Load(from, strings.NewReader(spec))
	if err != nil {
		t.Fatal(err)
	}
	return in
}

// runAs runs a combination.
func runAs(t *testing.T, p *solve.Problem, in *solve.Instance, s solve.Setting, c *combination) *solve.Result {
	t.Helper()
	return solve.Run(t.Context(), p, &solve.Method{Name: c.name, Kind: solve.Exact, Run: c.run}, in, s)
}
