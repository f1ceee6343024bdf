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
	flag                 string // one of them, if the user gave one
}

var placements = []string{plan.Straight, plan.Interleaved, plan.VShaped}

func (f *scheduleFlags) flags() []cli.Flag {
	return []cli.Flag{
		&cli.IntFlag{
			Name: "micro-batches", Usage: "`M` micro-batches pass through a pipeline that flushes", DefaultText: "8",
			Destination: &f.microBatches, Category: "instance", Action: note[int](f, "--micro-batches"),
		},
		&cli.StringFlag{
			Name: "placement", Usage: "`WHERE` its stages are: straight (one on each GPU), interleaved (round robin), v (down " +
				"and up again), or the GPU of each, as 0,1,1,0", DefaultText: plan.Straight, Destination: &f.placement, Category: "instance",
			Action: note[string](f, "--placement"),
		},
		&cli.StringFlag{
			Name: "objective", Usage: "`WHAT` is minimised: of a pipeline that flushes span (a GPU's time from its first start " +
				"to its last end) or makespan, of a placement height (the sum over pools), largest-height or penalty",
			DefaultText: "span; what the lifetimes say", Destination: &f.objective, Category: "instance", Action: note[string](f, "--objective"),
		},
	}
}

// note is the action of a flag that sees that it is given.
func note[T any](f *scheduleFlags, flag string) func(*cli.Context, T) error {
	return func(*cli.Context, T) error {
		f.flag = flag
		return nil
	}
}

// set sets what a pipeline that flushes needs, and refuses it of other problems. What
// is not given follows from the instance.
func (f *scheduleFlags) set(p *solve.Problem, m *platform.Platform, processors bool, n int) error {
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
	case !p.Scheduled && f.flag != "" && (f.flag != "--objective" || p.Objectives == nil):
		return usagef("%s: %s has no micro-batches; --problem %s has", f.flag, p.Name, plan.Flush)
	case !p.Scheduled:
		return nil
	case f.flag == "--micro-batches" && f.microBatches < 1 || f.microBatches > stages.MostMicroBatches:
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
