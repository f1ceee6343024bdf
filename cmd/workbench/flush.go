package main

import (
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"workbench/bench/solve"
	"workbench/model/instance/stages"
	"workbench/model/nearest"
	"workbench/model/plan"
	"workbench/model/platform"
)

// scheduleFlags are the flags of pipelines that flush.
type scheduleFlags struct {
	microBatches         int
	placement, objective string
}

var placements = []string{plan.Straight, plan.Interleaved, plan.VShaped}

func (f *scheduleFlags) flags() []cli.Flag {
	return []cli.Flag{
		intFlag("instance", "micro-batches", &f.microBatches, 0, "`M` micro-batches of a synchronous pipeline schedule", "8"),
		stringFlag("instance", "placement", &f.placement, "",
			"`WHERE` its stages are: straight (one on each GPU), interleaved (round robin), v (down and up again), or the GPU of each, "+
				"as 0,1,1,0", plan.Straight),
		stringFlag("instance", "objective", &f.objective, "",
			"`WHAT` is minimised: for a synchronous pipeline schedule span (a GPU's time from its first start to its last end) or makespan, of a "+
				"placement height (the sum over pools), largest-height or penalty", "span; what the lifetimes say"),
	}
}

// set sets the options of a synchronous pipeline schedule, and rejects them for other problems. What
// is not given follows from the instance.
func (f *scheduleFlags) set(c *cli.Context, p *solve.Problem, m *platform.Platform, n int) error {
	flag, processors := given(c, "micro-batches", "placement", "objective"), c.IsSet("processors")
	oneOf := func(flag, word string, known []string) error {
		if word != "" && !slices.Contains(known, word) {
			return usagef("%s %q: %s", flag, word, nearest.Hint(word, known))
		}
		return nil
	}
	if f.objective != "" && p.Objectives != nil {
		if err := oneOf("--objective", f.objective, p.Objectives); err != nil {
			return err
		}
		m.Objective, p.Word = f.objective, f.objective
	}
	switch {
	case !p.Scheduled && flag != "" && (flag != "--objective" || p.Objectives == nil):
		return usagef("%s: %s has no micro-batches; --problem %s has", flag, p.Name, plan.Flush)
	case !p.Scheduled:
		return nil
	case flag == "--micro-batches" && f.microBatches < 1 || f.microBatches > stages.MostMicroBatches:
		return usagef("--micro-batches %d: from 1 to %d", f.microBatches, stages.MostMicroBatches)
	case processors && (n < 1 || n > mostProcessors):
		return usagef("--processors %d: from 1 to %d", n, mostProcessors)
	}
	listed := placements
	if strings.Contains(f.placement, ",") {
		listed = append(listed, f.placement) // the instance says whether it is right
	}
	if err := oneOf("--placement", f.placement, listed); err != nil {
		return err
	}
	m.MicroBatches, m.Placement = f.microBatches, f.placement
	if processors {
		m.Processors = n
	}
	return nil
}
