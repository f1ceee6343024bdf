package rematgraph

import "math"

// KnapsackDP is dp_knapsack of PyTorch
// (torch/_functorch/_activation_checkpointing/knapsack.py), its default: the dynamic
// program over budgets in parts of 1/10000 to which memories are rounded, half to even,
// so that what it saves may exceed the budget by half a part an item; times are
// float32. The table of budget 1 is that of every other; of it bits are kept.
// O(10000·items) time and bits.
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
