package main

import (
	"fmt"
	"os"

	"workbench/bench/solve"
	"workbench/model/plan"
	"workbench/model/platform"
)

// replicas compares the best straight pipelines of stages in a row, by 1F1B*, of instances,
// INSTANCE…, with PipeDream's of which stages may be on several GPUs: milliseconds a
// mini-batch on links of 10 GB/s, beside the load, below which none is.
func (m *measurer) replicas(specs []string) error {
	if err := m.about(plan.Pipeline); err != nil {
		return err
	}
	fmt.Println("| instance | P | straight | with replicas | load |")
	fmt.Println("|---|--:|--:|--:|--:|")
	for _, spec := range specs {
		in, err := solve.Load(spec, os.Stdin)
		if err != nil {
			return err
		}
		for _, processors := range []int{4, 8} {
			fmt.Printf("| %s | %d |", in.Name, processors)
			for _, method := range []string{"1f1b-star", "pipedream"} {
				s := m.setting
				s.Platform = platform.Platform{Memory: 64 << 30, Bandwidth: 10e9, Processors: processors, WeightCopies: platform.DefaultWeightCopies, Replicas: method == "pipedream"}
				r := solve.Run(m.ctx, m.problem, m.method(method), in, s)
				if r.Objective == nil {
					return fmt.Errorf("%s on %d GPUs: %w", in.Name, processors, r.Err)
				}
				fmt.Printf(" %.2f |", 1e3**r.Objective)
			}
			fmt.Printf(" %.2f |\n", 1e3*in.Compute()/float64(processors))
		}
	}
	return nil
}
