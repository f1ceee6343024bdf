// Package rematgraph has the verifier of the rematerialization of graphs and training steps,
// without a link to the host and with one.
package rematgraph

import (
	"workbench/model/instance/training"
	"workbench/model/plan"
	"workbench/model/verify/replay"
)

// Verify replays p, computations C of nodes and discards D of storages,
// on g, by the rules of docs/graph.md; a plan of [plan.RematOffload] has offloads O and
// prefetches P of storages beside them (steptransfers.go).
//
// Nothing but resident storages is on the device at the start. C v needs all that
// v reads there, and makes all that v writes. Every node runs at least once, one
// that may not run again exactly once. Memory during a computation is g.Input,
// the storages on the device before it that are not resident, all that it
// writes, also what is there already, and its workspace. D s frees a storage in
// no time. At the end the results are on the device.
//
// Whatever a node changes beside what it writes, it changes when it runs first:
// such first runs, and those of random nodes, follow the order of the graph, and
// a node that reads what is changed runs, also again, between the same changes as
// in that order. Times, broken rules and errors are as for remat.Verify.
// O(operations · what nodes list + size of the graph).
func Verify(g *training.Graph, p *plan.Plan) (*plan.Report, error) {
	return replay.Verdict(replayTraining(g, p, false))(p)
}

// Profile is for package verify.
func Profile(g *training.Graph, p *plan.Plan) ([]replay.MemoryStep, error) {
	return replay.StepsOf(replayTraining(g, p, true))
}

// trainingReplay is the replay of a training step: what is on the device.
type trainingReplay struct {
	*replay.Replay
	graph    *training.Graph
	values   bool           // discards name nodes
	nodes    map[string]int // by their ids
	storages map[string]int
	stored   []bool // by storage; of resident ones always
	part     []int  // by storage: where it counts
	run      []bool // by node: so far
	// changes[s] is how many first runs that mutate storage s there have been, and
	// seen the number that a reader must find: by node, in the order of its reads.
	changes []int
	seen    [][]int
	// turn[s] lists the nodes that mutate s, in the order of the graph, and draws
	// those that are random; drawn is how many of them have run.
	turn  [][]int
	draws []int
	drawn int

	transfers // of plans with a link
}

func replayTraining(g *training.Graph, p *plan.Plan, record bool) (*replay.Replay, error) {
	return replaySteps(g, p, record, false)
}

// replaySteps is stepReplay for who wants no more than other replays have.
func replaySteps(g *training.Graph, p *plan.Plan, record, values bool) (*replay.Replay, error) {
	v, err := stepReplay(g, p, record, values)
	if err != nil {
		return nil, err
	}
	return v.Replay, nil
}

// stepReplay replays p on g; values says that g is made of a graph/v1, of which D names
// a value by the node that writes it, storage v being that of node v.
func stepReplay(g *training.Graph, p *plan.Plan, record, values bool) (*trainingReplay, error) {
	invalid := plan.ErrNoInstance
	if g != nil {
		invalid, p = g.Validate(), p.Converted(g.Unit)
	}
	problem := problemOf(p)
	r, err := replay.New(p, problem, invalid, record && problem == plan.Remat)
	if err != nil {
		return nil, err
	}
	v := newTraining(r, g)
	v.values = values
	r.Fixed = g.Input
	r.CheckStart()
	if problem == plan.Remat {
		v.inOrder()
	} else if err := v.withLink(record); err != nil {
		return nil, err
	}
	for x := range g.Nodes {
		if n := &g.Nodes[x]; !v.run[x] {
			rule := plan.RuleMissing
			if n.Phase == training.Backward {
				rule = plan.RuleMissingBackward
			}
			r.AtEnd(rule, 0, "node %s is never computed", n.ID)
		}
	}
	for s := range g.Storages {
		if x := &g.Storages[s]; x.Result && !v.stored[s] {
			r.AtEnd(plan.RuleMissingOutput, g.Unit.Bytes(x.Bytes), "%s is a result, and is not stored at the end", x.ID)
		}
	}
	r.Finish() // its error is nil
	return v, nil
}

// inOrder carries out the operations one after the other.
func (v *trainingReplay) inOrder() {
	for k := range v.Plan.Ops {
		v.RecordDuring(k)
		switch o := &v.Plan.Ops[k]; o.Op {
		case plan.OpC:
			v.compute(k)
		case plan.OpD:
			v.discard(k)
		default:
			v.Broken(plan.RuleUnknownOp, k, 0, "operation %q is unknown; there are C and D", o.Op)
		}
		v.RecordAfter(k)
	}
}

func newTraining(r *replay.Replay, g *training.Graph) *trainingReplay {
	v := &trainingReplay{
		Replay: r, graph: g, nodes: make(map[string]int, g.Len()), storages: make(map[string]int, len(g.Storages)),
		stored: make([]bool, len(g.Storages)), part: make([]int, len(g.Storages)), run: make([]bool, g.Len()),
		changes: make([]int, len(g.Storages)), seen: make([][]int, g.Len()), turn: make([][]int, len(g.Storages)),
	}
	for s := range g.Storages {
		v.storages[g.Storages[s].ID] = s
		v.stored[s] = g.Storages[s].Resident
	}
	for x := range g.Nodes {
		n := &g.Nodes[x]
		v.nodes[n.ID] = x
		for _, s := range n.Reads {
			v.seen[x] = append(v.seen[x], len(v.turn[s]))
		}
		for _, s := range n.Writes {
			if v.part[s] = replay.Gradients; n.Phase == training.Forward {
				v.part[s] = replay.Activations
			}
		}
		for _, s := range n.Mutates {
			v.turn[s] = append(v.turn[s], x)
		}
		if n.Random {
			v.draws = append(v.draws, x)
		}
	}
	return v
}

func (v *trainingReplay) compute(k int) {
	x, ok := v.node(k)
	if !ok {
		return
	}
	n := &v.graph.Nodes[x]
	v.CheckTime(k, n.Time)
	if v.begins(k, x) {
		output, part := v.output(x)
		v.CheckMemory(k, part, output, n.Workspace)
		v.makes(x)
	}
}

// begins checks that node x can run, and does what only its first run does. It returns
// false if it must not.
func (v *trainingReplay) begins(k, x int) bool {
	n := &v.graph.Nodes[x]
	if v.run[x] && n.Once {
		v.Broken(plan.RuleTwice, k, n.Time, "C %s runs a second time; it may run once only", n.ID)
		return false
	}
	for i, s := range n.Reads {
		id := v.graph.Storages[s].ID
		switch {
		case !v.stored[s]:
			v.Broken(plan.RuleMissingInput, k, v.graph.Unit.Bytes(v.graph.Storages[s].Bytes), "C %s needs %s, which is not stored", n.ID, id)
		case v.changes[s] != v.seen[x][i]:
			v.Broken(plan.RuleChanged, k, 0, "C %s reads %s, which has been changed %d times where in the order of the graph it has been %d times",
				n.ID, id, v.changes[s], v.seen[x][i])
		}
	}
	if !v.run[x] {
		v.first(k, x)
	}
	return true
}

// output is the size of all that node x writes, and the part where it counts.
func (v *trainingReplay) output(x int) (size float64, part int) {
	for _, s := range v.graph.Nodes[x].Writes {
		size += v.graph.Storages[s].Bytes
		part = v.part[s]
	}
	return size, part
}

// makes stores what node x writes.
func (v *trainingReplay) makes(x int) {
	for _, s := range v.graph.Nodes[x].Writes {
		v.Store(&v.stored[s], v.part[s], v.graph.Storages[s].Bytes)
	}
}

// first is what only the first run of node x does.
func (v *trainingReplay) first(k, x int) {
	n := &v.graph.Nodes[x]
	v.run[x] = true
	if n.Phase == training.Loss && v.AtLoss == nil {
		v.AtLoss = v.forwardStorages()
	}
	for _, s := range n.Mutates {
		if due := v.turn[s][v.changes[s]]; due != x {
			v.Broken(plan.RuleChanged, k, 0, "C %s changes %s before node %s has, which comes before it in the graph", n.ID, v.graph.Storages[s].ID,
				v.graph.Nodes[due].ID)
		}
		v.changes[s]++
	}
	if n.Random {
		if due := v.draws[v.drawn]; due != x {
			v.Broken(plan.RuleChanged, k, 0, "C %s draws random numbers before node %s has, which comes before it in the graph", n.ID,
				v.graph.Nodes[due].ID)
		}
		v.drawn++
	}
}

// node returns the node of operation k.
func (v *trainingReplay) node(k int) (x int, ok bool) {
	if !v.CheckFields(k, false, true, nil) {
		return 0, false
	}
	o := &v.Plan.Ops[k]
	x, ok = v.nodes[o.Node]
	if !ok {
		v.Broken(plan.RuleNode, k, 0, "%s is of a node that the graph does not have: %q", o.Op, o.Node)
	}
	return x, ok
}

// storage returns the storage that operation k discards.
func (v *trainingReplay) storage(k int) (s int, ok bool) {
	o := &v.Plan.Ops[k]
	s, ok = v.storages[o.Storage]
	switch {
	case v.values:
		return v.node(k)
	case o.Node != "" || o.Tensor != "" || o.Branch != 0 || o.Layer != 0:
		v.Broken(plan.RuleUnknownOp, k, 0, "%s must name a storage and nothing else", o)
		return 0, false
	case !ok:
		v.Broken(plan.RuleNode, k, 0, "%s is of a storage that the graph does not have: %q", o.Op, o.Storage)
	}
	return s, ok
}

func (v *trainingReplay) discard(k int) {
	if s, ok := v.storage(k); ok {
		v.CheckTime(k, 0)
		v.frees(k, s)
	}
}

// frees takes storage s off the device.
func (v *trainingReplay) frees(k, s int) {
	x := &v.graph.Storages[s]
	switch {
	case x.Resident:
		v.Broken(plan.RuleNotStored, k, v.graph.Unit.Bytes(x.Bytes), "D discards %s, which is resident", x.ID)
		return
	case !v.stored[s]:
		v.Broken(plan.RuleNotStored, k, v.graph.Unit.Bytes(x.Bytes), "D discards %s, which is not stored", x.ID)
	}
	v.Free(&v.stored[s], v.part[s], x.Bytes)
}

// forwardStorages counts the storages that forward nodes write and that are stored, or on
// the host alone.
func (v *trainingReplay) forwardStorages() *replay.Checkpoints {
	c := &replay.Checkpoints{}
	for s := range v.stored {
		switch {
		case v.graph.Storages[s].Resident || v.part[s] != replay.Activations:
		case v.stored[s]:
			c.Activations++
		case v.host != nil && v.host[s]:
			c.Host++
		}
	}
	return c
}

// Summarize replays p, a plan of [plan.Remat], and sums it up. The error is that of [Verify].
func Summarize(g *training.Graph, p *plan.Plan) (*replay.Summary, error) {
	r, err := replayTraining(g, p, false)
	if err != nil {
		return nil, err
	}
	return replay.Summarize(g, g.Len(), p, r), nil
}
