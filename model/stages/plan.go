package stages

import (
	"fmt"

	"workbench/model/plan"
)

// Ops returns the operations of a completed schedule: in each stage the
// computations in the order of the graph, every value discarded as soon as
// nothing reads it any more.
func (s *Schedule) Ops() []plan.Op {
	var ops []plan.Op
	now := 0.0
	id := func(i int) string { return s.v.Graph.Nodes[i].ID }
	for t := range s.v.N {
		s.walk(t, func(i int) {
			ops = append(ops, plan.Op{Op: plan.OpC, Node: id(i), Start: now, End: now + s.v.Time[i]})
			now += s.v.Time[i]
		}, func(i int) {
			ops = append(ops, plan.Op{Op: plan.OpD, Node: id(i), Start: now, End: now})
		})
	}
	return ops
}

// Fill sets operations and claims of a plan from s, and returns it.
func (s *Schedule) Fill(p *plan.Plan) *plan.Plan {
	p.Ops = s.Ops()
	p.Claims.Makespan = 0
	for _, op := range p.Ops {
		p.Claims.Makespan = max(p.Claims.Makespan, op.End)
	}
	p.Claims.PeakMemory, _, _ = s.Peak()
	return p
}

// FromPlan returns the schedule that retains what the plan does between first
// computations, completed. It recomputes no more than the plan; its peak
// memory may be larger where the plan computes the same node twice between two
// first computations, or in another order. The error wraps ErrPlan if the plan
// is not valid or its first computations do not follow the order of the graph.
func (v *View) FromPlan(p *plan.Plan) (*Schedule, error) {
	if p == nil {
		return nil, fmt.Errorf("%w: there is none", ErrPlan)
	}
	index := v.index()
	s := v.New()
	stored := make([]bool, v.N)
	t, begun := 0, true // the stage, and whether it has a computation or is the first
	for k := range p.Ops {
		if t == v.N {
			break // whatever follows serves nothing
		}
		op := &p.Ops[k]
		i, ok := index[op.Node]
		if !ok {
			return nil, fmt.Errorf("%w: operation %d: no node %q", ErrPlan, k, op.Node)
		}
		switch op.Op {
		case plan.OpD:
			stored[i] = false
		case plan.OpC:
			if i > t {
				return nil, fmt.Errorf("%w: operation %d computes node %q before node %q has been computed, which is earlier in the graph", ErrPlan, k, op.Node, v.Graph.Nodes[t].ID)
			}
			if !begun { // what is discarded before belongs to the stage before
				for j, is := range stored {
					if is {
						s.Retain(t, j, true)
					}
				}
			}
			begun = true
			for _, q := range v.Pred[i] {
				if !stored[q] {
					return nil, fmt.Errorf("%w: operation %d computes node %q without the value of node %q", ErrPlan, k, op.Node, v.Graph.Nodes[q].ID)
				}
			}
			stored[i] = true
			if i == t {
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

// Assumptions of bounds on graphs: which plans they bind.
const (
	InGraphOrder = "nodes are computed for the first time in the order of the graph"
	InStages     = "between two first computations a node is computed at most once, in the order of the graph"
)

// Meets reports whether p, a plan of the graph, is one of the plans that a bound
// under an assumption binds. Of an assumption that is not one of the above,
// known is false. What follows the last first computation serves nothing and
// does not matter. O(operations).
func (v *View) Meets(p *plan.Plan, assumption string) (meets, known bool) {
	if assumption != InGraphOrder && assumption != InStages {
		return false, false
	}
	index := v.index()
	done := make([]bool, v.N)
	first, last := -1, -1 // the latest first computation, and the last one of the stage
	left := v.N
	for k := range p.Ops {
		i, ok := index[p.Ops[k].Node]
		if left == 0 || p.Ops[k].Op != plan.OpC || !ok {
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

// index returns the number of every node by its name.
func (v *View) index() map[string]int {
	index := make(map[string]int, v.N)
	for i := range v.Graph.Nodes {
		index[v.Graph.Nodes[i].ID] = i
	}
	return index
}
