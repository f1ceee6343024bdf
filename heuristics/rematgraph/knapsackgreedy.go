package rematgraph

import (
	"cmp"
	"slices"
)

// KnapsackGreedy returns greedy_knapsack of PyTorch
// (torch/_functorch/_activation_checkpointing/knapsack.py): items in order of decreasing time per
// memory, each saved if it fits with those before. PyTorch divides by 0 for an item without memory;
// here there are none. O(items·log(items)).
func KnapsackGreedy(memory, time []float64) func(budget float64) ([]bool, error) {
	order := make([]int, len(memory))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(time[b]/memory[b], time[a]/memory[a]) })
	return func(budget float64) ([]bool, error) {
		saved, total := make([]bool, len(memory)), 0.0
		for _, i := range order {
			if total+memory[i] <= budget {
				total += memory[i]
				saved[i] = true
			}
		}
		return saved, nil
	}
}
