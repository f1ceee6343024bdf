package main

import (
	"fmt"

	benchsolve "workbench/bench/solve"
	"workbench/heuristics/rematgraph"
	problemrematgraph "workbench/model/problem/rematgraph"
)

// budgets shows what PyTorch's activation_memory_budget is of training steps, INSTANCE…:
// what the forward keeps, the peak by replay and the time computed again, of budgets by its
// greedy and its dynamic program; and how often a larger budget has a smaller peak.
func (m *measurer) budgets(args []string) error {
	knapsacks := []struct {
		name  string
		solve rematgraph.Knapsack
	}{{"greedy", rematgraph.KnapsackGreedy}, {"dp", rematgraph.KnapsackDP}}
	fmt.Println("| step | knapsack | budget | kept | peak, MiB | computed again | steps of 0.01 to a smaller peak |")
	fmt.Println("|---|---|--:|--:|--:|--:|--:|")
	for _, spec := range args {
		in, err := benchsolve.Load(spec, nil)
		if err != nil {
			return err
		}
		v, err := problemrematgraph.Of(in.Instance)
		if err != nil {
			return err
		}
		for _, k := range knapsacks {
			all, err := rematgraph.Budgets(m.ctx, k.name, v, k.solve)
			if err != nil {
				return err
			}
			smaller, before := 0, 0.0
			for i := range all {
				b := &all[i]
				s := b.Schedule()
				peak, _, _ := s.Peak()
				if peak < before {
					smaller++
				}
				before = peak
				if i%20 == 0 || i == 5 || i == 10 {
					fmt.Printf("| %s | %s | %.2f | %.3f | %.1f | %.2f %% | %d |\n", v.Graph.Name, k.name, b.Part, b.Kept, v.Graph.Unit.Bytes(peak)/(1<<20), 100*(s.Cost()/v.Graph.TotalTime()-1), smaller)
				}
			}
		}
	}
	return nil
}
