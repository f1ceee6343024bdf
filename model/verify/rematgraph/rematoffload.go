package rematgraph

import (
	"workbench/model/instance/training"
	"workbench/model/plan"
	"workbench/model/verify/replay"
)

// transfers is what the replay of a training step with a link knows beside: O copies a
// storage to the host, P back to the device, bytes/bandwidth long, one at a time in either
// direction. O frees nothing, D does when the copy is there; the host keeps what it has. A
// storage on its way to the device takes its memory from the start of P, and can be used
// from the end.
//
// Computations stand in the plan in the order in which they run; what happens at one
// instant happens as in rematoffload.Verify, but that no operation waits for another: what
// began before ends, then operations start in the order of the plan, prefetches that take
// time last. The makespan is the end of the last operation.
type transfers struct {
	actions   []stepAction
	host      []bool // by storage: the host has a copy
	leaving   []int  // offloads of it that run
	coming    []int  // prefetches
	users     []int  // nodes that run and read or write it
	writers   []int  // of these the ones that write it
	running   [3]float64
	workspace float64 // of what runs
}

// A stepAction is what the replay knows of an operation: when it takes place, the node or
// the storage that it is of, and whether it has begun.
type stepAction struct {
	replay.Timing
	of   int
	runs bool
}

// withLink carries out the operations by their times, noting the memory in use if record.
func (v *trainingReplay) withLink(record bool) error {
	n := len(v.graph.Storages)
	counts := make([]int, 4*n)
	v.transfers = transfers{
		actions: make([]stepAction, len(v.Plan.Ops)), host: make([]bool, n),
		leaving: counts[:n], coming: counts[n : 2*n], users: counts[2*n : 3*n], writers: counts[3*n:],
	}
	if err := v.AllowTransfers(func(*plan.Op) bool { return true }, func(o *plan.Op) bool {
		s, is := v.storages[o.Storage]
		return is && (o.Op == plan.OpO || o.Op == plan.OpP) && v.graph.Storages[s].Bytes > 0
	}); err != nil {
		return err
	}
	for k := range v.Plan.Ops {
		v.read(k)
	}
	v.CheckLink("out ", v.link(plan.OpO))
	v.CheckLink("in ", v.link(plan.OpP))
	es := v.Events(
		func(k int) *replay.Timing { return &v.actions[k].Timing },
		func(o *plan.Op) bool { return o.Op == plan.OpC },
		func(o *plan.Op) int8 {
			if o.Op == plan.OpP {
				return replay.Fetching
			}
			return replay.Starting
		})
	for i := range es {
		e := &es[i]
		begins := e.Side == 0
		if begins {
			v.starts(e.Op)
		} else {
			v.ends(e.Op)
		}
		next := e
		if i+1 < len(es) {
			next = &es[i+1]
		}
		if op := v.Plan.Ops[e.Op].Op; record && (next.Instant > e.Instant || begins && (op == plan.OpC || op == plan.OpP)) {
			use := v.inUse()
			v.Steps = append(v.Steps, replay.MemoryStep{Op: e.Op, Start: e.Time, End: max(e.Time, next.Time), During: use, After: use})
		}
	}
	return nil
}

// inUse returns what is stored or coming, and what runs takes.
func (v *trainingReplay) inUse() replay.MemoryParts {
	m := v.Parts()
	for part, size := range v.running {
		m.Add(part, size)
	}
	m.Overhead = v.workspace
	return m
}

// read checks what operation k is and how long it takes.
func (v *trainingReplay) read(k int) {
	o, x := &v.Plan.Ops[k], &v.actions[k]
	switch o.Op {
	case plan.OpC:
		if x.of, x.Meant = v.node(k); x.Meant {
			v.CheckTime(k, v.graph.Nodes[x.of].Time)
		}
	case plan.OpD, plan.OpO, plan.OpP:
		if x.of, x.Meant = v.storage(k); !x.Meant {
			return
		}
		seconds, _ := v.link(o.Op)(k)
		v.CheckSpan(k, seconds)
		if s := &v.graph.Storages[x.of]; s.Resident || s.NoOffload && o.Op != plan.OpD {
			v.Broken(plan.RuleNotStored, k, v.graph.Unit.Bytes(s.Bytes), "%s of %s, which is not to be moved", o.Op, s.ID)
			x.Meant = false
		}
	default:
		v.Broken(plan.RuleUnknownOp, k, 0, "operation %q is unknown; there are %s, %s, %s and %s", o.Op, plan.OpC, plan.OpD, plan.OpO, plan.OpP)
	}
}

// link returns for how long an operation uses the link of transfers of one kind.
func (v *trainingReplay) link(kind string) func(k int) (seconds float64, uses bool) {
	return func(k int) (float64, bool) {
		x := &v.actions[k]
		if v.Plan.Ops[k].Op != kind || kind == plan.OpD || !x.Meant {
			return 0, false
		}
		size := v.graph.Storages[x.of].Bytes
		if size == 0 {
			return 0, false
		}
		return size / v.Plan.Platform.Bandwidth, true
	}
}

func (v *trainingReplay) starts(k int) {
	x := &v.actions[k]
	if v.Plan.Ops[k].Op == plan.OpC {
		v.startsNode(k)
		return
	}
	s := x.of
	id, size := v.graph.Storages[s].ID, v.graph.Storages[s].Bytes
	x.runs = true
	switch v.Plan.Ops[k].Op {
	case plan.OpD:
		if v.users[s]+v.leaving[s] > 0 {
			v.Broken(plan.RuleDiscardUsed, k, v.graph.Unit.Bytes(size), "D discards %s, which is being used or sent", id)
		}
		v.frees(k, s)
	case plan.OpO:
		if !v.stored[s] {
			v.Broken(plan.RuleNotStored, k, v.graph.Unit.Bytes(size), "O offloads %s, which is not stored", id)
		}
		v.travels(k, v.writers[s] > 0, s)
		v.leaving[s]++
	case plan.OpP:
		if !v.host[s] {
			v.Broken(plan.RuleHostAbsent, k, v.graph.Unit.Bytes(size), "P fetches %s, which the host does not hold", id)
		}
		if v.stored[s] || v.coming[s] > 0 {
			v.Broken(plan.RulePrefetch, k, v.graph.Unit.Bytes(size), "P fetches %s, which is on the device already", id)
		}
		v.travels(k, v.writers[s] > 0, s)
		v.coming[s]++
		v.Held[v.part[s]] += size
		v.peak(k)
	}
}

// travels reports that operation k has storage s made while it is on its way.
func (v *trainingReplay) travels(k int, is bool, s int) {
	if is {
		v.Broken(plan.RuleTravels, k, v.graph.Unit.Bytes(v.graph.Storages[s].Bytes), "%s while %s travels and is made, which must not be at once",
			&v.Plan.Ops[k], v.graph.Storages[s].ID)
	}
}

func (v *trainingReplay) startsNode(k int) {
	x := &v.actions[k]
	n := &v.graph.Nodes[x.of]
	if x.runs = v.begins(k, x.of); !x.runs {
		return
	}
	for _, s := range n.Reads {
		v.users[s]++
	}
	for _, s := range n.Writes {
		v.travels(k, v.leaving[s]+v.coming[s] > 0, s)
		v.users[s]++
		v.writers[s]++
	}
	size, part := v.output(x.of)
	v.running[part] += size
	v.workspace += n.Workspace
	v.peak(k)
}

// peak notes the memory in use after operation k has begun.
func (v *trainingReplay) peak(k int) {
	v.CheckMemory(k, replay.Activations, v.running[replay.Activations]+v.running[replay.Saved]+v.running[replay.Gradients], v.workspace)
}

func (v *trainingReplay) ends(k int) {
	x := &v.actions[k]
	if !x.runs {
		return
	}
	x.runs = false
	switch s := x.of; v.Plan.Ops[k].Op {
	case plan.OpC:
		n := &v.graph.Nodes[x.of]
		size, part := v.output(x.of)
		v.running[part] -= size
		v.workspace -= n.Workspace
		v.makes(x.of)
		for _, s := range n.Reads {
			v.users[s]--
		}
		for _, s := range n.Writes {
			v.users[s]--
			v.writers[s]--
		}
	case plan.OpO:
		v.leaving[s]--
		v.host[s] = true
	case plan.OpP:
		v.coming[s]--
		v.Held[v.part[s]] -= v.graph.Storages[s].Bytes
		v.Store(&v.stored[s], v.part[s], v.graph.Storages[s].Bytes)
	}
}

// SummarizeStep sums up a plan of [plan.RematOffload] for a training step, of which all storages that are not resident
// are what can be sent. The error is that of [Verify].
func SummarizeOffload(g *training.Graph, p *plan.Plan) (*replay.OffloadSummary, error) {
	v, err := stepReplay(g, p, false, false)
	if err != nil {
		return nil, err
	}
	s := &replay.OffloadSummary{Summary: *replay.Summarize(g, g.Len(), p, v.Replay), Bandwidth: p.Unit.Bytes(p.Platform.Bandwidth)}
	all := 0.0
	for k := range g.Storages {
		if !g.Storages[k].Resident {
			all += g.Storages[k].Bytes
		}
	}
	s.AddTransfers(p, g.Unit.Bytes(all), func(k int) (bytes float64, meant bool) {
		if x := &v.actions[k]; x.Meant {
			return g.Unit.Bytes(g.Storages[x.of].Bytes), true
		}
		return 0, false
	})
	return s, nil
}

// problemOf returns the problem by whose rules p is replayed: with a link if it says so.
func problemOf(p *plan.Plan) string {
	if p != nil && p.Problem == plan.RematOffload {
		return plan.RematOffload
	}
	return plan.Remat
}
