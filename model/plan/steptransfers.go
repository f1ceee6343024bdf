package plan

// RuleTravels is a rule of training steps with a link: a node must not make what is on
// its way.
const RuleTravels = "travels"

// transfers is what the replay of a training step with a link knows beside: O copies a
// storage to the host, P back to the device, bytes/bandwidth long, one at a time in either
// direction. O frees nothing, D does when the copy is there; the host keeps what it has. A
// storage on its way to the device takes its memory from the start of P, and can be used
// from the end.
//
// Computations stand in the plan in the order in which they run; what happens at one
// instant happens as in [VerifyOffload], but that no operation waits for another: what
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
	timing
	of   int
	runs bool
}

// withLink carries out the operations by their times, noting the memory in use if record.
func (v *trainingReplay) withLink(record bool) error {
	n := len(v.graph.Storages)
	counts := make([]int, 4*n)
	v.transfers = transfers{
		actions: make([]stepAction, len(v.plan.Ops)), host: make([]bool, n),
		leaving: counts[:n], coming: counts[n : 2*n], users: counts[2*n : 3*n], writers: counts[3*n:],
	}
	if err := v.allowTransfers(func(*Op) bool { return true }, func(o *Op) bool {
		s, is := v.storages[o.Storage]
		return is && (o.Op == OpO || o.Op == OpP) && v.graph.Storages[s].Bytes > 0
	}); err != nil {
		return err
	}
	for k := range v.plan.Ops {
		v.read(k)
	}
	v.checkLink("out ", v.link(OpO))
	v.checkLink("in ", v.link(OpP))
	es := v.edges(
		func(k int) *timing { return &v.actions[k].timing },
		func(o *Op) bool { return o.Op == OpC },
		func(o *Op) int8 {
			if o.Op == OpP {
				return fetching
			}
			return starting
		})
	for i := range es {
		e := &es[i]
		begins := e.side == 0
		if begins {
			v.starts(e.op)
		} else {
			v.ends(e.op)
		}
		next := e
		if i+1 < len(es) {
			next = &es[i+1]
		}
		if op := v.plan.Ops[e.op].Op; record && (next.instant > e.instant || begins && (op == OpC || op == OpP)) {
			use := v.inUse()
			v.steps = append(v.steps, MemoryStep{Op: e.op, Start: e.time, End: max(e.time, next.time), During: use, After: use})
		}
	}
	return nil
}

// inUse returns what is stored or coming, and what runs takes.
func (v *trainingReplay) inUse() MemoryParts {
	m := v.parts()
	for part, size := range v.running {
		m.add(part, size)
	}
	m.Overhead = v.workspace
	return m
}

// read checks what operation k is and how long it takes.
func (v *trainingReplay) read(k int) {
	o, x := &v.plan.Ops[k], &v.actions[k]
	switch o.Op {
	case OpC:
		if x.of, x.meant = v.node(k); x.meant {
			v.time(k, v.graph.Nodes[x.of].Time)
		}
	case OpD, OpO, OpP:
		if x.of, x.meant = v.storage(k); !x.meant {
			return
		}
		seconds, _ := v.link(o.Op)(k)
		v.span(k, seconds)
		if s := &v.graph.Storages[x.of]; s.Resident || s.NoOffload && o.Op != OpD {
			v.broken(RuleNotStored, k, v.graph.Unit.Bytes(s.Bytes), "%s of %s, which is not to be moved", o.Op, s.ID)
			x.meant = false
		}
	default:
		v.broken(RuleUnknownOp, k, 0, "operation %q is unknown; there are %s, %s, %s and %s", o.Op, OpC, OpD, OpO, OpP)
	}
}

// link returns for how long an operation uses the link of transfers of one kind.
func (v *trainingReplay) link(kind string) func(k int) (seconds float64, uses bool) {
	return func(k int) (float64, bool) {
		x := &v.actions[k]
		if v.plan.Ops[k].Op != kind || kind == OpD || !x.meant {
			return 0, false
		}
		size := v.graph.Storages[x.of].Bytes
		if size == 0 {
			return 0, false
		}
		return size / v.plan.Platform.Bandwidth, true
	}
}

func (v *trainingReplay) starts(k int) {
	x := &v.actions[k]
	if v.plan.Ops[k].Op == OpC {
		v.startsNode(k)
		return
	}
	s := x.of
	id, size := v.graph.Storages[s].ID, v.graph.Storages[s].Bytes
	x.runs = true
	switch v.plan.Ops[k].Op {
	case OpD:
		if v.users[s]+v.leaving[s] > 0 {
			v.broken(RuleDiscardUsed, k, v.graph.Unit.Bytes(size), "D discards %s, which is being used or sent", id)
		}
		v.frees(k, s)
	case OpO:
		if !v.stored[s] {
			v.broken(RuleNotStored, k, v.graph.Unit.Bytes(size), "O offloads %s, which is not stored", id)
		}
		v.travels(k, v.writers[s] > 0, s)
		v.leaving[s]++
	case OpP:
		if !v.host[s] {
			v.broken(RuleHostAbsent, k, v.graph.Unit.Bytes(size), "P fetches %s, which the host does not hold", id)
		}
		if v.stored[s] || v.coming[s] > 0 {
			v.broken(RulePrefetch, k, v.graph.Unit.Bytes(size), "P fetches %s, which is on the device already", id)
		}
		v.travels(k, v.writers[s] > 0, s)
		v.coming[s]++
		v.held[v.part[s]] += size
		v.peak(k)
	}
}

// travels reports that operation k has storage s made while it is on its way.
func (v *trainingReplay) travels(k int, is bool, s int) {
	if is {
		v.broken(RuleTravels, k, v.graph.Unit.Bytes(v.graph.Storages[s].Bytes), "%s while %s travels and is made, which must not be at once",
			&v.plan.Ops[k], v.graph.Storages[s].ID)
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
	v.during(k, activations, v.running[activations]+v.running[saved]+v.running[gradients], v.workspace)
}

func (v *trainingReplay) ends(k int) {
	x := &v.actions[k]
	if !x.runs {
		return
	}
	x.runs = false
	switch s := x.of; v.plan.Ops[k].Op {
	case OpC:
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
	case OpO:
		v.leaving[s]--
		v.host[s] = true
	case OpP:
		v.coming[s]--
		v.held[v.part[s]] -= v.graph.Storages[s].Bytes
		v.store(&v.stored[s], v.part[s], v.graph.Storages[s].Bytes)
	}
}
