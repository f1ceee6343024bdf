package method

import (
	"fmt"
	"time"

	"workbench/bench/solve"
	"workbench/heuristics/activationoffload"
	ilpoffload "workbench/ilp/activationoffload"
	ilpweights "workbench/ilp/weightoffload"
	"workbench/model/plan"
)

// offloadOptimum is the search, and beside it the search for the optimum, which
// closes in on the least makespan from the best plan.
func offloadOptimum(methods []*solve.Method) *combination {
	return &combination{
		name: "optimum", bound: offloadBound(), quick: named(methods, "greedy", "vdnn", "autoswap"),
		search: searched("search", offloadSearch), prove: func(j *joint) error { return offloadLabels(j, 1) },
	}
}

// offloadMILP is the same, and then the MILP of activation offloading for what is left
// of the gap.
func offloadMILP(methods []*solve.Method) *combination {
	c := offloadOptimum(methods)
	c.name = "offload-milp"
	c.prove = func(j *joint) error {
		if err := offloadLabels(j, labelsShare); err != nil || !j.unproved() {
			return err
		}
		n := j.in.Chain().Len()
		if end, limited := j.ctx.Deadline(); limited && time.Until(end) < time.Duration(n*n)*squareOfLayers {
			return fmt.Errorf("the model of %d layers has some %.1g columns, too many for the time that is left", n, 8*float64(n)*float64(n))
		}
		t := j.task("milp")
		return j.solved(ilpoffload.Run(j.ctx, t, j.in.Chain(), j.s.Platform))
	}
	return c
}

// squareOfLayers is the time below which the MILP of a chain is not begun, by the square
// of its layers: ten times what it takes to build, which nothing interrupts.
const squareOfLayers = 40 * time.Microsecond

// offloadSearch is a round of search, each with another seed.
func offloadSearch(j *joint, round int) (*plan.Plan, error) {
	if err := atMost(j.in, "search", ilpweights.MostLayers, shorter); err != nil {
		return nil, err
	}
	p, err := activationoffload.Search(j.ctx, j.in.Chain(), j.s.Platform, uint64(j.s.Seed+round))
	return p, inputError(err)
}

// labelsShare is the part of the time that is left which the search for the optimum
// may take before a MILP.
const labelsShare = 0.5

// offloadLabels closes in on the least makespan from the best plan, in a share of the
// time that is left.
func offloadLabels(j *joint, share float64) error {
	if err := atMost(j.in, "optimum", ilpweights.MostLayers, shorter); err != nil {
		return err
	}
	start := time.Now()
	ctx, cancel := plan.Portion(j.ctx, share)
	defer cancel()
	r, err := activationoffload.Optimum(ctx, j.in.Chain(), j.s.Platform, j.Best(), j.s.Gap)
	if err != nil {
		return inputError(err)
	}
	reportProgress(&j.s, start, "labels", r.Plan, r.Value, int64(r.States))
	j.addOutcome("optimum", &solve.Outcome{Plan: r.Plan, Bounds: []solve.Bound{r.Bound}}, nil)
	return nil
}
