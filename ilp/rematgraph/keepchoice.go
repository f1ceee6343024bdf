package rematgraph

import (
	"encoding/json"
	"fmt"

	"workbench/ilp/formulation"
	"workbench/model/milp"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/problem/rematgraph"
)

// besideOptions select the node of the model of TimeBound; nil: that of rematgraph.View.TimeBound.
type besideOptions struct {
	Node *int `json:"node"`
}

// TimeBound builds the small model of rematgraph.View.TimeBound, at the node of the options: a bound on all plans,
// with two binaries for a value and its writer. With kept for each value f that the node depends on, and again for
// the nodes that write them,
//
//	min Σ_v time_v + Σ_j time_j again_j
//	kept_f + again_j ≥ 1            j writes f, which is needed after the node
//	kept_g + again_i ≥ again_j      j reads g, which i writes
//	Σ_f size_f kept_f ≤ room        next to what is in memory during the node
//
// A value that is needed after the node and is not kept during it is recomputed after the node from the inputs of
// its writer. A first computation after the node costs nothing.
func TimeBound(g plan.Instance, p platform.Platform, o besideOptions) (*formulation.Program, error) {
	in, err := newGraphInstance(g, p)
	switch {
	case err != nil:
		return nil, err
	case o.Node == nil:
		return in.timeBound(max(0, in.TimeBound(p.Memory).Node)), nil
	case *o.Node < 0 || *o.Node >= in.n:
		return nil, fmt.Errorf("%w: options of %s: there is no node %d", formulation.ErrInstance, besideName, *o.Node)
	}
	return in.timeBound(*o.Node), nil
}

// binaries returns a family of binaries, one for each of ids.
func binaries(m *milp.Model, name string, ids []string) (x []milp.Var) {
	if len(ids) == 0 {
		ids = []string{"nothing"} // solvers require a column
	}
	for _, v := range milp.Vars(m, name, ids, milp.Binary, 0, 1).All() {
		x = append(x, v)
	}
	return x
}

// timeBound builds the model at node x.
func (in *instance) timeBound(x int) *formulation.Program {
	m, choice := milp.New(besideName), in.View.ChoiceAt(x, in.platform.Memory)
	row, again := besideRows(m, in.View, &choice, choice.Room)
	var e milp.Expr
	e.AddConst(milp.Down.Sum(in.cost...))
	addAgain(&e, 1, in.cost, &choice, again)
	m.Minimize(&e)
	memoryRows(m, memoryGroups{m.Group("room", "ours"), m.Group("larger than the room", "ours")}, row, true, in.Graph.Nodes[x].ID)
	options, _ := json.Marshal(besideOptions{&x})
	return &formulation.Program{
		Model: m, Promise: formulation.LowerBound, Formulation: besideName, Options: options, Unit: in.unit,
	}
}

// addAgain adds the recomputation time to e; a node that may be computed for the first time after x costs nothing.
func addAgain(e *milp.Expr, sign float64, cost []float64, choice *rematgraph.KeepChoice, again []milp.Var) {
	for k, j := range choice.Nodes {
		if !choice.Free[k] {
			e.Add(sign*cost[j], again[k])
		}
	}
}

// besideRows adds the binaries of a choice and the rows of its requirements. It returns the memory row of the kept
// values and the binaries of the nodes.
func besideRows(m *milp.Model, v *rematgraph.View, choice *rematgraph.KeepChoice, room float64) (row *memoryRow, again []milp.Var) {
	var values, nodes []string
	value, node := make(map[int]int, len(choice.Values)), make(map[int]int, len(choice.Nodes))
	for k, f := range choice.Values {
		values, value[f] = append(values, v.ID(f)), k
	}
	for k, j := range choice.Nodes {
		nodes, node[j] = append(nodes, v.Graph.Nodes[j].ID), k
	}
	kept := binaries(m, "kept", values)
	again = binaries(m, "again", nodes)
	read, source := m.Group("read after the node", "ours"), m.Group("computed again from", "ours")
	row = &memoryRow{room: room, place: map[milp.Var]int{}}
	var e milp.Expr
	there := func(k int) *milp.Expr { // value k of the choice is kept or recomputed
		return e.Reset().Add(1, kept[k]).Add(1, again[node[v.Writer[choice.Values[k]]]])
	}
	for k, f := range choice.Values {
		row.add(v.Memory[f], kept[k])
		if choice.Needed[k] {
			read.AtLeast(there(k), 1)
		}
	}
	for k, j := range choice.Nodes {
		for _, g := range v.Pred[j] {
			if q, ok := value[g]; ok {
				source.AtLeast(there(q).Add(-1, again[k]), 0)
			}
		}
	}
	return row, again
}
