package knapsack

import (
	"workbench/ilp/formulation"
	"workbench/model/instance/training"
	"workbench/model/milp"
)

// Layers is the outer LP of torchtitan's two-level solver (graph_trainer, auto_sac_offload_solver.py, plan_outer)
// on one GPU. Layer l saves a_l, of which the fraction k_l is kept, r_l is recomputed and o_l is offloaded to the
// host over a link of the given bandwidth in bytes per second. Nothing of the last layer is offloaded. With
// bandwidth 0 there is no o:
//
//	min Σ_l r_l·time,  k_l + r_l + o_l = 1,  must_l / a_l ≤ k_l,  0 ≤ k_l, r_l, o_l
//	Σ_{i<l} k_i a_i + a_l + o_{l−1} a_{l−1}           ≤ budget  forward peak of each l
//	Σ_{i<l} k_i a_i + a_l + o_{l−1} a_{l−1} + temp_l  ≤ budget  backward peak of each l
//	Σ_i k_i a_i + loss                                ≤ budget
//	o_l a_l ≤ bandwidth·time,  o_l a_l ≤ bandwidth·back
//
// The left side of all three peaks also contains rest, the memory that belongs to no layer. Columns l, n+l and
// 2n+l are k_l, r_l and o_l. As in torchtitan, time and back are means over the layers, offloading costs nothing
// (OFFLOAD_TIME_PRICE), and host memory is unlimited. The optimum is no bound on a plan: see rematgraph.ByLayers
// and rematoffloadgraph.ByLayers. The program has three columns and three rows per layer and O(layers²) nonzeros.
func Layers(b *training.Blocks, budget, bandwidth float64) (*formulation.Program, error) {
	m := milp.New("layers-lp")
	n := len(b.Saved)
	keep, again := m.List("keep", n, milp.Continuous, 0, 1), m.List("again", n, milp.Continuous, 0, 1)
	var sent milp.List
	if bandwidth > 0 {
		sent = m.List("sent", n, milp.Continuous, 0, 1)
	}
	size, cost := milp.PowerOfTwo(max(budget, b.Whole()), about), milp.PowerOfTwo(b.Time, about)
	parts := m.Group("parts", "torchtitan")
	forward, backward := m.Group("fwd_peak", "torchtitan"), m.Group("bwd_peak", "torchtitan")
	var objective, before, passing, e milp.Expr
	before.AddConst(size * b.Rest)
	for l, a := range b.Saved {
		k, r := keep.At(l), again.At(l)
		if a > 0 {
			m.SetBounds(k, min(1, b.Must[l]/a), 1)
		} else {
			m.Fix(k, 1)
		}
		objective.Add(cost*b.Time, r)
		forward.AtMost(e.Reset().AddExpr(1, &before).AddExpr(1, &passing).AddConst(size*a), size*budget)
		backward.AtMost(e.Reset().AddExpr(1, &before).AddExpr(1, &passing).AddConst(size*(a+b.Temp[l])), size*budget)
		before.Add(size*a, k)
		e.Reset().Add(1, k).Add(1, r)
		if passing.Reset(); bandwidth > 0 {
			o := sent.At(l)
			if a > 0 && l < n-1 {
				m.SetBounds(o, 0, min(1, bandwidth*min(b.Time, b.Back)/a))
			} else {
				m.Fix(o, 0)
			}
			e.Add(1, o)
			passing.Add(size*a, o)
		}
		parts.Equal(&e, 1)
	}
	m.Minimize(&objective)
	m.Group("loss_peak", "torchtitan").AtMost(before.AddConst(size*b.Loss), size*budget)
	return &formulation.Program{Model: m, Promise: formulation.Nothing, Unit: 1 / cost}, m.Err()
}

// Shares is the inner program with a link (build_inner_ilp of the same file) for one layer. Each item takes
// memory_i and is recomputed in time_i. Kept items take at most keep; offloaded items, which must be sendable,
// take at most send plus 5 %, and the excess costs its transfer time:
//
//	min Σ_i time_i again_i + over/bandwidth,  keep_i + again_i + sent_i = 1
//	Σ_i memory_i keep_i ≤ keep,  Σ_i memory_i sent_i ≤ send + over,  0 ≤ over ≤ send/20
//
// Columns i, n+i and 2n+i are keep_i, again_i and sent_i. As in torchtitan, the inputs from which an item is
// recomputed cost nothing. torchtitan lets kept items exceed keep by a relative 1e-6.
func Shares(memory, time []float64, sendable []bool, keep, send, bandwidth float64) (*formulation.Program, error) {
	m := milp.New("layers-lp-shares")
	n := len(memory)
	kept, again, sent := m.List("keep", n, milp.Binary, 0, 1), m.List("again", n, milp.Binary, 0, 1), m.List("sent", n, milp.Binary, 0, 1)
	most, total := max(keep, send), 0.0
	for i := range memory {
		most, total = max(most, memory[i]), total+time[i]
	}
	size, cost := milp.PowerOfTwo(most, about), milp.PowerOfTwo(total, about)
	over := m.Var("over", milp.Continuous, 0, size*send/20)
	choice := m.Group("choice", "torchtitan")
	var objective, here, away, e milp.Expr
	away.Add(-1, over)
	objective.Add(cost/(size*bandwidth), over)
	for i := range memory {
		if !sendable[i] {
			m.Fix(sent.At(i), 0)
		}
		choice.Equal(e.Reset().Add(1, kept.At(i)).Add(1, again.At(i)).Add(1, sent.At(i)), 1)
		objective.Add(cost*time[i], again.At(i))
		here.Add(size*memory[i], kept.At(i))
		away.Add(size*memory[i], sent.At(i))
	}
	m.Minimize(&objective)
	m.Group("keep", "torchtitan").AtMost(&here, size*keep)
	m.Group("send", "torchtitan").AtMost(&away, size*send)
	return &formulation.Program{Model: m, Promise: formulation.Nothing, Unit: 1 / cost}, m.Err()
}
