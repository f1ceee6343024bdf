package rematgraph

import (
	"fmt"
	"math/bits"
	"slices"

	"workbench/model/instance/graph"
	"workbench/model/plan"
)

// Ops returns the operations of a completed schedule: in each stage the computations in graph
// order, each value discarded as soon as nothing reads it any more.
func (s *Schedule) Ops() []plan.Op {
	room := 0
	for t := range s.v.N {
		for k, x := range s.Nodes(t) {
			for ; x != 0; x &= x - 1 {
				room += s.v.room(k<<6 + bits.TrailingZeros64(x))
			}
		}
	}
	return s.v.ops(room, func(compute, free func(int)) {
		for t := range s.v.N {
			s.walk(t, compute, free)
		}
	})
}

// room returns the number of operations for a computation of node j and the discards of its values.
func (v *View) room(j int) int { return 1 + len(v.Writes[j]) }

// ops returns the operations of a walk, at most room. Preallocation matters: with millions of
// operations growing the slice took longer than filling it.
func (v *View) ops(room int, walk func(compute, free func(i int))) []plan.Op {
	ops := make([]plan.Op, 0, room)
	now := 0.0
	walk(func(j int) {
		ops = append(ops, plan.Op{Op: plan.OpC, Node: v.Graph.Nodes[j].ID, Start: now, End: now + v.Time[j]})
		now += v.Time[j]
	}, func(i int) {
		op := plan.Op{Op: plan.OpD, Storage: v.ID(i), Start: now, End: now}
		if v.Instance.Kind() == graph.Kind { // values have the ids of nodes
			op.Node, op.Storage = op.Storage, ""
		}
		ops = append(ops, op)
	})
	return ops
}

// Fill sets operations and claims of p from s, and returns p.
func (s *Schedule) Fill(p *plan.Plan) *plan.Plan {
	peak, _, _ := s.Peak()
	return fill(p, s.Ops(), peak)
}

// Fill sets operations and claims of p, a plan for v, to the plan that needs x.High, and returns p.
func (x *Least) Fill(p *plan.Plan, v *View) *plan.Plan {
	order := x.Order
	if order == nil {
		order = v.Frugal().Order()
	}
	room := 0
	for _, j := range order {
		room += v.room(int(j))
	}
	return fill(p, v.ops(room, func(compute, free func(int)) { v.replay(order, compute, free) }), x.High)
}

func fill(p *plan.Plan, ops []plan.Op, peak float64) *plan.Plan {
	p.Ops, p.Claims = ops, plan.Claims{PeakMemory: peak}
	for k := range ops {
		p.Claims.Makespan = max(p.Claims.Makespan, ops[k].End)
	}
	return p
}

// FromPlan returns the completed schedule that retains what the plan retains between first
// computations. It recomputes no more than the plan. Its peak may be higher if the plan computes a
// node twice between two first computations, or not in graph order. The error wraps ErrPlan if the
// plan is not valid or its first computations do not follow graph order.
func (v *View) FromPlan(p *plan.Plan) (*Schedule, error) {
	if p == nil {
		return nil, fmt.Errorf("%w: there is none", ErrPlan)
	}
	nodes, values := v.index()
	s := v.New()
	stored := make([]bool, v.M)
	t, begun := 0, true // the stage, and whether it has a computation or is the first
	for k := range p.Ops {
		if t == v.N {
			break // the rest is useless, or recomputes a result
		}
		op := &p.Ops[k]
		switch op.Op {
		case plan.OpD:
			i, ok := values[op.Node+op.Storage]
			if !ok {
				return nil, fmt.Errorf("%w: operation %d: there is no storage %q", ErrPlan, k, op.Node+op.Storage)
			}
			stored[i] = false
		case plan.OpC:
			j, ok := nodes[op.Node]
			if !ok {
				return nil, fmt.Errorf("%w: operation %d: no node %q", ErrPlan, k, op.Node)
			}
			if j > t {
				return nil, fmt.Errorf("%w: operation %d computes node %q before node %q has been computed, which is earlier in the graph", ErrPlan, k,
					op.Node, v.Graph.Nodes[t].ID)
			}
			if !begun { // earlier discards belong to the previous stage
				for i, is := range stored {
					if is {
						s.Retain(t, i, true)
					}
				}
			}
			begun = true
			for _, i := range v.Pred[j] {
				if !stored[i] {
					return nil, fmt.Errorf("%w: operation %d computes node %q without %q", ErrPlan, k, op.Node, v.ID(i))
				}
			}
			for _, i := range v.Writes[j] {
				stored[i] = true
			}
			if j == t {
				t, begun = t+1, false
			}
		default:
			return nil, fmt.Errorf("%w: operation %d is %q, plans of graphs have %q and %q", ErrPlan, k, op.Op, plan.OpC, plan.OpD)
		}
	}
	if t < v.N {
		return nil, fmt.Errorf("%w: node %q is never computed", ErrPlan, v.Graph.Nodes[t].ID)
	}
	s.Complete()
	return s, nil
}

// Assumptions of bounds on graphs: the plans for which they hold.
const (
	InGraphOrder = "nodes are computed for the first time in the order of the graph"
	InStages     = "between two first computations a node is computed at most once, in the order of the graph, and after the last none"
)

// Meets reports whether p, a plan of the graph, satisfies an assumption, that is, whether bounds
// under it hold for p. known is false if the assumption is none of the above. Computations after
// the last first computation recompute a result, which no stage does, or are useless.
// O(operations).
func (v *View) Meets(p *plan.Plan, assumption string) (meets, known bool) {
	if assumption != InGraphOrder && assumption != InStages {
		return false, false
	}
	index, _ := v.index()
	done := make([]bool, v.N)
	first, last := -1, -1 // the latest first computation, and the last computation of the stage
	left := v.N
	for k := range p.Ops {
		i, ok := index[p.Ops[k].Node]
		if p.Ops[k].Op != plan.OpC || !ok {
			continue
		}
		if left == 0 {
			if assumption == InStages && slices.Contains(v.Result, true) {
				return false, true
			}
			continue
		}
		if assumption == InStages && i <= last {
			return false, true
		}
		last = i
		if done[i] {
			continue
		}
		if assumption == InGraphOrder && i < first {
			return false, true
		}
		done[i], first, last = true, i, -1
		left--
	}
	return true, true
}

// index returns the numbers of nodes and values by their ids.
func (v *View) index() (nodes, values map[string]int) {
	nodes, values = make(map[string]int, v.N), make(map[string]int, v.M)
	for i := range v.Graph.Nodes {
		nodes[v.Graph.Nodes[i].ID] = i
	}
	for i := range v.M {
		values[v.ID(i)] = i
	}
	return nodes, values
}
