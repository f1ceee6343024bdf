package knapsack

import (
	"workbench/ilp/formulation"
	"workbench/model/milp"
	"workbench/model/training"
)

// Layers is the outer LP of torchtitan's two-level solver (graph_trainer,
// auto_sac_offload_solver.py) without a link, so that nothing is offloaded. Of a layer l that
// saves a_l a part k_l is kept and r_l computed again:
//
//	min Σ_l r_l·time,  k_l + r_l = 1,  must_l / a_l ≤ k_l,  0 ≤ k_l, r_l
//	Σ_{i<l} k_i a_i + a_l           ≤ budget  forward peak of each l
//	Σ_{i<l} k_i a_i + a_l + temp_l  ≤ budget  backward peak of each l
//	Σ_i k_i a_i + loss              ≤ budget
//
// with rest, what layers do not keep, on the left of all three. Column l is k_l. time is one for all layers,
// the mean, as there. It promises nothing about plans: see rematgraph.ByLayers. Two columns
// and three rows a layer, O(layers²) nonzeros.
func Layers(b *training.Blocks, budget float64) (*formulation.Program, error) {
	m := milp.New("layers-lp")
	n := len(b.Saved)
	keep, again := m.List("keep", n, milp.Continuous, 0, 1), m.List("again", n, milp.Continuous, 0, 1)
	size, cost := milp.PowerOfTwo(max(budget, b.Whole()), about), milp.PowerOfTwo(b.Time, about)
	parts := m.Group("parts", "torchtitan")
	forward, backward := m.Group("fwd_peak", "torchtitan"), m.Group("bwd_peak", "torchtitan")
	var objective, before, e milp.Expr
	before.AddConst(size * b.Rest)
	for l, a := range b.Saved {
		k, r := keep.At(l), again.At(l)
		if a > 0 {
			m.SetBounds(k, min(1, b.Must[l]/a), 1)
		} else {
			m.Fix(k, 1)
		}
		objective.Add(cost*b.Time, r)
		parts.Equal(e.Reset().Add(1, k).Add(1, r), 1)
		forward.AtMost(e.Reset().AddExpr(1, &before).AddConst(size*a), size*budget)
		backward.AtMost(e.Reset().AddExpr(1, &before).AddConst(size*(a+b.Temp[l])), size*budget)
		before.Add(size*a, k)
	}
	m.Minimize(&objective)
	m.Group("loss_peak", "torchtitan").AtMost(before.AddConst(size*b.Loss), size*budget)
	return &formulation.Program{Model: m, Promise: formulation.Nothing, Unit: 1 / cost}, m.Err()
}
