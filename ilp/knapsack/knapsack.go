// Package knapsack holds the programs of PyTorch's activation_memory_budget and sac_ilp and of torchtitan's
// layers. They select under a budget and are no formulations of a problem of this project.
package knapsack

import (
	"fmt"

	"workbench/ilp/formulation"
	"workbench/model/milp"
)

// about is the approximate magnitude of the largest coefficients.
const about = 1 << 10

// Program is ilp_knapsack of PyTorch (torch/_functorch/_activation_checkpointing/knapsack.py):
//
//	min Σ_i time_i (1 − save_i),  Σ_i memory_i save_i ≤ budget,  save_i ∈ {0, 1}
//
// memory_i is a fraction of the budget range, and column i belongs to item i. The optimum is a saving of time,
// which is no bound on a plan. PyTorch maximises the time of saved items, which is equivalent. It treats save_i as
// 0 unless it is exactly 1 in float64; here it is rounded. The program has one column per item and one row.
func Program(memory, time []float64, budget float64) (*formulation.Program, error) {
	m := milp.New("knapsack-ilp")
	most, total := budget, 0.0
	for i := range memory {
		most, total = max(most, memory[i]), total+time[i]
	}
	size, cost := milp.PowerOfTwo(most, about), milp.PowerOfTwo(total, about)
	var objective, used milp.Expr
	for i := range memory {
		save := m.Var(fmt.Sprintf("save%d", i), milp.Binary, 0, 1)
		objective.AddConst(cost*time[i]).Add(-cost*time[i], save)
		used.Add(size*memory[i], save)
	}
	m.Minimize(&objective)
	m.Group("budget", "PyTorch").AtMost(&used, size*budget)
	return &formulation.Program{Model: m, Promise: formulation.Nothing, Unit: 1 / cost}, m.Err()
}
