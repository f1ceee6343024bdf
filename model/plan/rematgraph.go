package plan

import (
	"workbench/model/graph"
)

// VerifyGraph replays p, computations C and discards D of nodes, on g.
//
// Nothing but g.Input is stored from the start. C v needs the values of all
// predecessors of v and adds its own. Forward nodes are computed at least once,
// the loss and backward nodes once: they add to the gradients of weights. D v
// discards a stored value in no time. What is stored is a set: a value that is
// computed again while it is stored takes its space twice until the computation
// ends.
//
// Memory during a computation is g.Input, everything stored before it, its
// value and its overhead. The first computations need not follow the order of
// the nodes, which is the business of methods. Times, broken rules and errors
// are as for [VerifyRemat]. O(operations + their inputs + size of the graph).
func VerifyGraph(g *graph.Graph, p *Plan) (*Report, error) {
	return verdict(replayGraph(g, p, false))(p)
}

// ProfileGraph returns the memory in use over time, in the unit of the instance: see package
// verify.
func ProfileGraph(g *graph.Graph, p *Plan) ([]MemoryStep, error) {
	return stepsOf(replayGraph(g, p, true))
}

// graphReplay is the replay of a graph: what is stored of each node.
type graphReplay struct {
	*replay
	graph  *graph.Graph
	index  map[string]int // of ids
	pred   [][]int
	stored []bool
	run    []bool // computed so far
}

func replayGraph(g *graph.Graph, p *Plan, record bool) (*replay, error) {
	invalid := ErrNoInstance
	if g != nil {
		invalid, p = g.Validate(), p.In(g.Unit)
	}
	r, err := newReplay(p, Remat, invalid, record)
	if err != nil {
		return nil, err
	}
	v := &graphReplay{
		replay: r, graph: g, index: make(map[string]int, g.Len()),
		stored: make([]bool, g.Len()), run: make([]bool, g.Len()),
	}
	for x := range g.Nodes {
		v.index[g.Nodes[x].ID] = x
	}
	v.pred, _ = g.Adjacency()
	r.fixed = g.Input
	r.begin()
	for k := range p.Ops {
		r.enter(k)
		switch o := &p.Ops[k]; o.Op {
		case OpC:
			v.compute(k)
		case OpD:
			v.discard(k)
		default:
			r.broken(RuleUnknownOp, k, 0, "operation %q is unknown; there are C and D", o.Op)
		}
		r.leave(k)
	}
	for x := range g.Nodes {
		n := &g.Nodes[x]
		switch {
		case v.run[x]:
		case n.Kind == graph.Backward:
			r.atEnd(RuleMissingBackward, 0, "node %s is never computed", n.ID)
		default:
			r.atEnd(RuleMissing, 0, "node %s is never computed", n.ID)
		}
	}
	return r.finish()
}

// node returns the node of operation k.
func (v *graphReplay) node(k int) (x int, ok bool) {
	if !v.plain(k, false, true, nil) {
		return 0, false
	}
	o := &v.plan.Ops[k]
	x, ok = v.index[o.Node]
	if !ok {
		v.broken(RuleNode, k, 0, "%s is of a node that the graph does not have: %q", o.Op, o.Node)
	}
	return x, ok
}

// part is where the value of a node counts.
func (v *graphReplay) part(x int) int {
	if v.graph.Nodes[x].Kind == graph.Forward {
		return activations
	}
	return gradients
}

func (v *graphReplay) compute(k int) {
	x, ok := v.node(k)
	if !ok {
		return
	}
	n := &v.graph.Nodes[x]
	v.time(k, n.Time)
	if v.run[x] && n.Kind != graph.Forward {
		v.broken(RuleTwice, k, n.Time, "C %s runs a second time; a %s node runs once", n.ID, n.Kind)
		return
	}
	v.run[x] = true
	if n.Kind == graph.Loss && v.atLoss == nil {
		v.atLoss = &Checkpoints{Activations: v.forwardValues()}
	}
	for _, u := range v.pred[x] {
		if !v.stored[u] {
			v.broken(RuleMissingInput, k, v.graph.Nodes[u].Memory, "C %s needs %s, which is not stored", n.ID, v.graph.Nodes[u].ID)
		}
	}
	v.during(k, v.part(x), n.Memory, n.Overhead)
	v.store(&v.stored[x], v.part(x), n.Memory)
}

func (v *graphReplay) discard(k int) {
	x, ok := v.node(k)
	if !ok {
		return
	}
	n := &v.graph.Nodes[x]
	v.time(k, 0)
	if !v.stored[x] {
		v.broken(RuleNotStored, k, n.Memory, "D discards %s, which is not stored", n.ID)
	}
	v.free(&v.stored[x], v.part(x), n.Memory)
}

// forwardValues returns how many values of forward nodes are stored.
func (v *graphReplay) forwardValues() (n int) {
	for x, stored := range v.stored {
		if stored && v.graph.Nodes[x].Kind == graph.Forward {
			n++
		}
	}
	return n
}
