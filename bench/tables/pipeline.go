package main

import (
	"fmt"
	"os"
	"time"

	"workbench/bench/run"
	"workbench/model/platform"
)

// pipelines compares methods and proofs on the networks of [004] 6.5: images
// of 1000 pixels, batch 8, links of 12 GB/s, three weight copies, task model.
func (m *measurer) pipelines(limit time.Duration, nets []string) error {
	fmt.Println("| net | P | M, GB | pipedream | pipedream-star | 1f1b-star | contiguous-optimum | madpipe | search | branch-and-bound | bound | gap | s | for every k |")
	fmt.Println("|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|")
	within, rows := 0, 0
	err := m.thesisPipelines(nets, func(net string, in *run.Instance, p platform.Platform) error {
		s := m.setting
		s.Time = limit
		s.Platform = p
		best := run.Run(m.ctx, m.problem, m.method("branch-and-bound"), in, s)
		fmt.Printf("| %s | %d | %g |", net, p.Processors, p.Memory/1e9)
		for _, name := range []string{"pipedream", "pipedream-star", "1f1b-star", "contiguous-optimum", "madpipe", "search"} {
			r := run.Run(m.ctx, m.problem, m.method(name), in, s)
			fmt.Printf(" %s", cell(r))
			if r.Plan != nil && r.Plan.K > 1 {
				fmt.Print("²")
			}
			fmt.Print(" |")
		}
		bound, every := "–", best.Bound
		if best.Bound != nil {
			bound = ms(best.Bound.Value)
			if best.Conditional != nil {
				bound = ms(best.Conditional.Value) + "¹"
			}
		}
		fmt.Printf(" %s | %s | %s | %.1f |", cell(best), bound, gap(best), best.WallTime)
		if every == nil {
			fmt.Println(" – |")
		} else {
			fmt.Printf(" %s |\n", ms(every.Value))
		}
		rows++
		if best.Gap != nil && *best.Gap <= 0.02 {
			within++
		}
		return nil
	})
	if err != nil {
		return err
	}
	fmt.Printf("\n¹ for 1-periodic patterns. ² k-periodic, k > 1. Gap at most 2 %% on %d of %d.\n", within, rows)
	return nil
}

// thesisPipelines calls do with each network, those of [004] 6.5 if there are
// none, on each platform of the tables: 4 and 8 GPUs of 4, 8 and 16 GB.
func (m *measurer) thesisPipelines(nets []string, do func(net string, in *run.Instance, p platform.Platform) error) error {
	if len(nets) == 0 {
		nets = []string{"resnet18", "resnet34", "resnet50"}
	}
	for _, net := range nets {
		in, err := run.Load(fmt.Sprintf("zoo:%s?image=1000&batch=8", net), os.Stdin)
		if err != nil {
			return err
		}
		for _, processors := range []int{4, 8} {
			for _, memory := range []float64{4, 8, 16} {
				p := platform.Platform{Memory: memory * 1e9, Bandwidth: 12e9, Processors: processors, WeightCopies: platform.DefaultWeightCopies}
				if err := do(net, in, p); err != nil {
					return fmt.Errorf("%s on %d processors of %g GB: %w", net, processors, memory, err)
				}
				if m.ctx.Err() != nil {
					return m.ctx.Err()
				}
			}
		}
	}
	return nil
}
