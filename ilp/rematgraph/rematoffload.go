package rematgraph

import (
	"encoding/json"
	"fmt"
	"math"

	"workbench/ilp/formulation"
	"workbench/model/instance/training"
	"workbench/model/milp"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/problem/rematgraph"
)

// linkedFormulation returns the table entry of Linked.
func linkedFormulation() formulation.Formulation {
	return formulation.Formulation{
		Name: linkedName, Problem: plan.RematOffload, Promise: formulation.LowerBound,
		Title: "values that do not fit in memory during one node are offloaded or recomputed", Source: "ours",
		Kind: training.Kind, Build: formulation.WithOptions(Linked),
	}
}

// Linked builds the small model of rematgraph.View.LinkedBound, at the node of the options; nil: that of the
// bound. It extends TimeBound: kept values need not be in memory. away ≥ 0 is the total size of those that were
// offloaded before the time τ at which the node first starts and are fetched after it. With β bytes per second,
//
//	min T
//	T ≥ Σ_v time_v + Σ_j time_j again_j
//	T ≥ away/β + Σ_{v: the node, or after it} time_v + Σ_j time_j again_j
//	T ≥ Σ_{v before the node} time_v + away/β
//	T ≥ 2 away/β
//	Σ_f size_f kept_f ≤ room + away
//
// The link in is busy for away/β after τ, the link out for as long before τ, and the device computed the ancestors
// of the node before τ. With sizes and transfer times rounded down it remains a relaxation.
func Linked(g *training.Graph, p platform.Platform, o besideOptions) (*formulation.Program, error) {
	v, err := view(g)
	if err != nil {
		return nil, err
	}
	if err := v.LinkedFits(p.Memory); err != nil {
		return nil, err
	}
	switch {
	case !(p.Bandwidth > 0):
		return nil, fmt.Errorf("%w: %s needs a bandwidth", formulation.ErrInstance, linkedName)
	case o.Node == nil:
		return linked(v, p, max(0, v.LinkedBound(p.Memory, p.Bandwidth).Node)), nil
	case *o.Node < 0 || *o.Node >= v.N:
		return nil, fmt.Errorf("%w: options of %s: there is no node %d", formulation.ErrInstance, linkedName, *o.Node)
	}
	return linked(v, p, *o.Node), nil
}

// LinkedBound builds the model of Linked at the node of the bound.
func LinkedBound(g *training.Graph, p platform.Platform) (*formulation.Program, error) {
	return Linked(g, p, besideOptions{})
}

// linked builds the model at node x.
func linked(v *rematgraph.View, p platform.Platform, x int) *formulation.Program {
	m, choice := milp.New(linkedName), v.ChoiceAt(x, p.Memory)
	row, again := besideRows(m, v, &choice, choice.Room)
	unit := 1 / milp.PowerOfTwo(v.Graph.TotalTime(), about)
	cost := make([]float64, v.N)
	for j := range cost {
		cost[j] = v.Time[j] / unit
	}
	sum := func(nodes []int) float64 {
		times := make([]float64, len(nodes))
		for k, j := range nodes {
			times[k] = cost[j]
		}
		return milp.Down.Sum(times...)
	}
	span := m.Var("T", milp.Continuous, 0, math.Inf(1))
	away, bytes := row.addRow(m, m.Group("room", "ours"))
	travel := milp.Down.Quo(milp.Down.Quo(bytes, p.Bandwidth), unit)
	if travel < 1e-9 { // the link is so fast that solvers ignore the term: still a relaxation
		travel = 0
	}

	work, in, out := m.Group("all computations", "ours"), m.Group("then fetched", "ours"), m.Group("sent before", "ours")
	var e milp.Expr
	addAgain(e.Add(1, span), -1, cost, &choice, again)
	work.AtLeast(&e, milp.Down.Sum(cost...))
	addAgain(e.Reset().Add(1, span).Add(-travel, away), -1, cost, &choice, again)
	in.AtLeast(&e, sum(choice.After))
	out.AtLeast(e.Reset().Add(1, span).Add(-travel, away), sum(choice.Before))
	m.Group("there and back", "ours").AtLeast(e.Reset().Add(1, span).Add(-2*travel, away), 0)
	m.Minimize(e.Reset().Add(1, span))
	options, _ := json.Marshal(besideOptions{&x})
	return &formulation.Program{
		Model: m, Promise: formulation.LowerBound, Formulation: linkedName, Options: options, Unit: unit,
	}
}

// addRow adds the row, with a column for the bytes that are not in memory, to a group. It returns the column and
// the bytes per unit of it. Sizes are rounded down to a unit such that the total is at most base units. The total bounds
// what must be on the host.
func (r *memoryRow) addRow(m *milp.Model, g milp.Group) (away milp.Var, bytes float64) {
	total := max(0, -r.room)
	for _, size := range r.sizes {
		total += size
	}
	size, _ := grain(max(total, 1), r.sizes)
	scale := milp.PowerOfTwo(max(total/size, 1), about)
	away = m.Var("away", milp.Continuous, 0, 4*about)
	var e milp.Expr
	for k, x := range r.vars {
		e.Add(scale*math.Floor(r.sizes[k]/size), x)
	}
	g.AtMost(e.Add(-1, away), milp.Up.Mul(scale, milp.Up.Quo(r.room, size))+loose)
	return away, size / scale
}
