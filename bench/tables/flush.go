package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"workbench/bench/solve"
	"workbench/bench/solve/method"
	"workbench/model/instance/stages"
	"workbench/model/plan"
	"workbench/model/platform"
)

// A placedGroup is the methods of flush for stages that are placed alike; search comes last.
type placedGroup struct {
	placement string
	chunks    int    // stages a GPU
	again     string // stages that compute forward again, as in workbench stages --recompute
	methods   []string
}

var placedGroups = []placedGroup{
	{plan.Straight, 1, "none", []string{"1f1b", "zb-h1", "zb-h2", "zb-auto", "search"}},
	{plan.Interleaved, 2, "none", []string{"1f1b-interleaved", "search"}},
	{plan.VShaped, 2, "none", []string{"zb-v", "v-half", "v-min", "search"}},
	{plan.Straight, 1, "auto", []string{"search"}},
	{plan.VShaped, 2, "auto", []string{"search"}},
}

// transformers shows what placements and computing forward again are worth to chains, CHAIN…,
// through pipelines that flush of 4 and 8 GPUs and 4 micro-batches for each: spans in seconds,
// of search with the gap to its bound, or ✓ for proved, ✗ for proved impossible, and behind it
// the number of stages that compute forward again. The limit is that of a search.
func (m *measurer) transformers(limit time.Duration, specs []string) error {
	if err := m.about(plan.Flush); err != nil {
		return err
	}
	m.setting.Time = limit
	head, rule := "| network | GPUs | memory |", "|---|--:|--:|"
	for _, g := range placedGroups {
		for _, name := range g.methods {
			if name == "search" {
				name = "**" + g.placement + "**"
			}
			if g.again == "auto" {
				name = strings.TrimSuffix(name, "**") + ", again**"
			}
			head, rule = head+" "+name+" |", rule+"--:|"
		}
	}
	fmt.Printf("%s\n%s\n", head, rule)
	for _, spec := range specs {
		in, err := solve.Load(spec, os.Stdin)
		if err != nil {
			return err
		}
		for _, gpus := range []int{4, 8} {
			for _, memory := range []string{"40GB", "60GB", "80GB"} {
				fmt.Printf("| %s | %d | %s |", in.Name, gpus, memory)
				for _, g := range placedGroups {
					if err := m.placed(in, g, gpus, memory); err != nil {
						return fmt.Errorf("%s on %d GPUs of %s, %s: %w", in.Name, gpus, memory, g.placement, err)
					}
				}
				fmt.Println()
			}
		}
	}
	return nil
}

// placed prints the cells of a group: half of a backward is the gradient of the weights, of
// which there are eight copies, and links have 42 GB/s.
func (m *measurer) placed(in *solve.Instance, g placedGroup, gpus int, memory string) error {
	bytes, err := platform.ParseBytes(memory)
	if err != nil {
		return err
	}
	c := in.Chain()
	s := m.setting
	s.Platform = platform.Platform{Memory: bytes, Processors: gpus, MicroBatches: 4 * gpus, Placement: g.placement, Objective: plan.SpanObjective}
	cut := stages.Cutting{Stages: gpus * g.chunks, Copies: 8, Weight: 0.5, WeightMemory: 0.5, Bandwidth: c.Unit.Rate(42e9)}
	cutStages, _, err := method.Stages(m.ctx, c, cut, method.Choice{Recompute: g.again, Offload: "none", Memory: memory}, s.Platform)
	switch {
	case errors.Is(err, plan.ErrNoPlan):
		fmt.Print(" – |")
		return nil
	case err != nil:
		return err
	}
	twice := 0
	for i := range cutStages.Stages {
		if cutStages.Stages[i].RecomputeTime > 0 {
			twice++
		}
	}
	staged, err := solve.NewInstance(cutStages)
	if err != nil {
		return err
	}
	for _, name := range g.methods {
		r := solve.Run(m.ctx, m.problem, m.method(name), staged, s)
		cell := "–"
		switch {
		case r.Status == solve.Failed:
			return r.Err
		case r.Status == solve.Infeasible:
			cell = "✗"
		case r.Objective != nil:
			cell = fmt.Sprintf("%.3f", *r.Objective)
			if g.again == "auto" {
				cell += fmt.Sprintf(", %d", twice)
			}
			if name == "search" && r.Status == solve.Optimal {
				cell += " ✓"
			} else if name == "search" && r.Gap != nil {
				cell += fmt.Sprintf(" (%.1f %%)", 100**r.Gap)
			}
		}
		fmt.Printf(" %s |", cell)
	}
	return nil
}
