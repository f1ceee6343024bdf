package rematgraph

import "math"

// KnapsackDP returns dp_knapsack of PyTorch
// (torch/_functorch/_activation_checkpointing/knapsack.py), its default: the dynamic program over
// budgets in units of 1/10000. Memories are rounded to units, half to even, so what it saves may
// exceed the budget by half a unit for each item. Times are float32. The table of budget 1 contains
// that of every other budget; only decision bits are stored. O(10000·items) time and bits.
func KnapsackDP(memory, time []float64) func(budget float64) ([]bool, error) {
	const parts = 10000
	n, words := len(memory), parts/64+1
	weight := make([]int, n)
	taken := make([]uint64, n*words) // whether item i improves on those before it
	best := make([]float32, parts+1)
	for i := range n {
		weight[i] = int(math.RoundToEven(min(memory[i], 2) * parts))
		gain, row := float32(time[i]), taken[i*words:(i+1)*words]
		for j := parts; j >= weight[i]; j-- {
			if with := best[j-weight[i]] + gain; with > best[j] {
				best[j] = with
				row[j>>6] |= 1 << (j & 63)
			}
		}
	}
	return func(budget float64) ([]bool, error) {
		saved := make([]bool, n)
		j := int(math.RoundToEven(budget * parts))
		for i := n - 1; i >= 0; i-- {
			if has(taken[i*words:], j) {
				saved[i] = true
				j -= weight[i]
			}
		}
		return saved, nil
	}
}
