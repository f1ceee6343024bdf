package checkmate

import (
	"encoding/json"

	"workbench/ilp/formulation"
	"workbench/model/graph"
	"workbench/model/milp"
	"workbench/model/platform"
)

// besideOptions say at which node the model of Beside looks.
type besideOptions struct {
	Node int `json:"node"`
}

// Beside builds the small model behind stages.View.TimeBound, at the node that it
// names: a bound on all plans, in one binary or two for a forward value. With
// kept and again for each value f that the node depends on,
//
//	min Σ_v time_v + Σ_f time_f again_f
//	kept_f + again_f ≥ 1            f is read after the node
//	kept_g + again_g ≥ again_f      f reads g
//	Σ_f size_f kept_f ≤ room        beside what is in memory during the node
//
// for what is not kept during the node, and read after it, is computed again
// after it, from what it reads.
func Beside(g *graph.Graph, p platform.Platform) (*formulation.Program, error) {
	in, err := newInstance(g, p)
	if err != nil {
		return nil, err
	}
	return in.beside(max(0, in.TimeBound(p.Memory).Node)), nil
}

// beside builds the model at node x.
func (in *instance) beside(x int) *formulation.Program {
	m, choice := milp.New(besideName), in.View.Beside(x, in.platform.Memory)
	ids := make([]string, 0, len(choice.Values))
	place := make(map[int]int, len(choice.Values))
	for k, f := range choice.Values {
		ids, place[f] = append(ids, in.Graph.Nodes[f].ID), k
	}
	if len(ids) == 0 {
		ids = []string{"nothing"} // solvers want a column
	}
	var kept, again []milp.Var
	for _, x := range milp.Vars(m, "kept", ids, milp.Binary, 0, 1).All() {
		kept = append(kept, x)
	}
	for _, x := range milp.Vars(m, "again", ids, milp.Binary, 0, 1).All() {
		again = append(again, x)
	}
	var e milp.Expr
	e.AddConst(milp.Down.Sum(in.cost...))
	read, source := m.Group("read after the node", "ours"), m.Group("computed again from", "ours")
	row := &memoryRow{room: choice.Room, place: map[milp.Var]int{}}
	for k, f := range choice.Values {
		e.Add(in.cost[f], again[k])
		row.add(in.Memory[f], kept[k])
	}
	m.Minimize(&e)
	for k, f := range choice.Values {
		if choice.Needed[k] {
			read.AtLeast(e.Reset().Add(1, kept[k]).Add(1, again[k]), 1)
		}
		for _, g := range in.Pred[f] {
			if q, ok := place[g]; ok {
				source.AtLeast(e.Reset().Add(1, kept[q]).Add(1, again[q]).Add(-1, again[k]), 0)
			}
		}
	}
	memoryRows(m, memoryGroups{m.Group("room", "ours"), m.Group("larger than the room", "ours")}, row, true, in.Graph.Nodes[x].ID)
	options, _ := json.Marshal(besideOptions{x})
	return &formulation.Program{
		Model: m, Promise: formulation.LowerBound, Formulation: besideName, Options: options, Unit: in.unit,
	}
}
