// Package knapsack has the programs of PyTorch's activation_memory_budget and sac_ilp and of
// torchtitan's layers, which are about a choice under a budget and no formulation of a problem of ours.
package knapsack

import (
	"fmt"

	"workbench/ilp/formulation"
	"workbench/model/milp"
)

// about is the size of the largest coefficients.
const about = 1 << 10

// Program is ilp_knapsack of PyTorch (torch/_functorch/_activation_checkpointing/knapsack.py):
//
//	min Σ_i time_i (1 − save_i),  Σ_i memory_i save_i ≤ budget,  save_i ∈ {0, 1}
//
// of items that take parts memory_i of the budget range, with column i for item i. What it
// promises there is time saved, which is nothing about a plan. It maximises the time of what
// is saved, which is the same, and takes save_i for 0 unless a float64 is exactly 1; here it
// is rounded. A column an item and one row.
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
