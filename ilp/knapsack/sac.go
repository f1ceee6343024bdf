package knapsack

import (
	"math"

	"workbench/ilp/formulation"
	"workbench/model/instance/training"
	"workbench/model/milp"
)

// SAC is sac_milp of PyTorch (torch/distributed/_tools/sac_ilp.py) on one GPU, where FSDP's p_i and max_p are 0.
// Module i is checkpointed if y_i = 1, and then discards the fraction r_i of ACM_i:
//
//	min Σ_i rct_i,  y_i ∈ {0, 1},  0 ≤ r_i ≤ 1,  0 ≤ d_i, a_i, m_i, rcp_i, rct_i, max_m
//	y_i = 0                                    where nothing can be checkpointed
//	d_i = ACM_i r_i − (ACM_i − IA_i) y_i       discarded activations
//	(ACM_i − IA_i)/ACM_i · y_i ≤ r_i ≤ y_i
//	a_i = TA_i + AG_i − Σ_{j before i} d_j     by the order in which forwards end
//	m_i = a_i + TG_i ≤ max_m ≤ budget          parameters are resident and count nowhere
//	rcp_i ≥ slope·r_i + intercept              of each segment
//	rct_i ≤ M y_i,  rct_i ≤ ACT_i rcp_i,  rct_i ≥ ACT_i rcp_i − M (1 − y_i)
//
// Column i is y_i, column n+i is r_i. As in PyTorch, M is the total time of the forwards. This is too small where
// ACT_i·rcp_i exceeds it: the module then cannot discard the whole fraction. Modules are children of the root
// here, so that the rows y_i + y_j ≤ 1 of nested ones are not needed. The optimum is no bound on a plan: see
// rematgraph.BySAC. The program has seven columns and nine rows per module and O(modules²) nonzeros.
func SAC(b *training.Modules, budget float64) (*formulation.Program, error) {
	m := milp.New("sac-ilp")
	n, inf := len(b.ACM), math.Inf(1)
	y, r := m.List("y", n, milp.Binary, 0, 1), m.List("r", n, milp.Continuous, 0, 1)
	d, a := m.List("d", n, milp.Continuous, 0, inf), m.List("a", n, milp.Continuous, 0, inf)
	mem := m.List("m", n, milp.Continuous, 0, inf)
	rcp, rct := m.List("rcp", n, milp.Continuous, 0, inf), m.List("rct", n, milp.Continuous, 0, inf)
	most := m.Var("max_m", milp.Continuous, 0, inf)
	size, cost := milp.PowerOfTwo(max(budget, b.Peak()), about), milp.PowerOfTwo(b.M, about)
	discarded, part := m.Group("discarded", "sac_milp"), m.Group("r", "sac_milp")
	total, memory, peak := m.Group("activations", "sac_milp"), m.Group("memory", "sac_milp"), m.Group("peak", "sac_milp")
	for i := range n {
		var e milp.Expr
		if acm := b.ACM[i]; acm > 0 {
			part.AtLeast(e.Reset().Add(1, r.At(i)).Add((b.IA[i]-acm)/acm, y.At(i)), 0)
		} else {
			m.Fix(y.At(i), 0)
		}
		part.AtMost(e.Reset().Add(1, r.At(i)).Add(-1, y.At(i)), 0)
		discarded.Equal(e.Reset().Add(1, d.At(i)).Add(-size*b.ACM[i], r.At(i)).Add(size*(b.ACM[i]-b.IA[i]), y.At(i)), 0)
		e.Reset().Add(1, a.At(i))
		last := i
		if i == 0 {
			last = n // the root's forward ends last
		}
		for j := 1; j < last; j++ {
			e.Add(1, d.At(j))
		}
		total.Equal(&e, size*(b.TA[i]+b.AG[i]))
		memory.Equal(e.Reset().Add(1, mem.At(i)).Add(-1, a.At(i)), size*b.TG[i])
		peak.AtLeast(e.Reset().Add(1, most).Add(-1, mem.At(i)), 0)
	}
	var e milp.Expr
	m.Group("budget", "sac_milp").AtMost(e.Add(1, most), size*budget)
	again, objective := m.Group("recomputation", "sac_milp"), milp.Expr{}
	for i := range n {
		for s, slope := range b.Slopes[i] {
			again.AtLeast(e.Reset().Add(1, rcp.At(i)).Add(-slope, r.At(i)), b.Intercepts[i][s])
		}
		again.AtMost(e.Reset().Add(1, rct.At(i)).Add(-cost*b.M, y.At(i)), 0)
		again.AtMost(e.Reset().Add(1, rct.At(i)).Add(-cost*b.ACT[i], rcp.At(i)), 0)
		again.AtLeast(e.Reset().Add(1, rct.At(i)).Add(-cost*b.ACT[i], rcp.At(i)).Add(-cost*b.M, y.At(i)), -cost*b.M)
		objective.Add(1, rct.At(i))
	}
	m.Minimize(&objective)
	return &formulation.Program{Model: m, Promise: formulation.Nothing, Unit: 1 / cost}, m.Err()
}
