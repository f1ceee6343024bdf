// Package rematgraph finds optimal plans for the rematerialization of tiny graphs by
// exhaustive search.
package rematgraph

import (
	"fmt"
	"math"
	"math/bits"

	"workbench/model/exhaustive"
	"workbench/model/instance/graph"
	"workbench/model/instance/training"
	"workbench/model/plan"
	"workbench/model/platform"
)

// MaxBits is the largest sum of the nodes and the storages that are not resident.
const MaxBits = 63

// Search returns the least makespan of the rematerialization of a graph or a training step
// within the memory, and a plan that has it: nodes run in any order and as often as they
// may, see docs/graph.md. limit is the most states to visit; random graphs of eleven nodes
// have some hundreds to a few thousand. The errors are [exhaustive.ErrInfeasible],
// [exhaustive.ErrLimit] and [exhaustive.ErrTooHard].
//
// It is Dijkstra's algorithm over which storages are on the device and which nodes have
// run. The second matters only for nodes that [Model.track] lists. Two kinds of steps are
// left out, and a plan that has them is no worse without: running a node again when all
// that it writes is there, and keeping a storage that nothing to come can need, which D
// frees at no cost.
func Search(in plan.Instance, memory float64, limit int) (float64, *plan.Plan, error) {
	return best(in, memory, (*Model).search, limit)
}

// LeastMemory returns the least memory within which there is a plan. There always is one.
// The errors are [exhaustive.ErrLimit] and [exhaustive.ErrTooHard].
func LeastMemory(in plan.Instance, limit int) (float64, error) {
	return least(in, (*Model).search, limit)
}

type (
	none   = struct{}
	engine = exhaustive.Search[uint64, none]
	label  = exhaustive.Label[uint64, none]
)

func best(in plan.Instance, memory float64, search func(*Model, *engine) (int32, error), limit int) (float64, *plan.Plan, error) {
	m, err := NewModel(in, memory)
	if err != nil {
		return 0, nil, err
	}
	s := newEngine(memory, false, limit)
	last, err := search(m, s)
	if err != nil {
		return 0, nil, err
	}
	return s.Labels[last].Cost, m.plan(in, memory, s.Path(last)), nil
}

func least(in plan.Instance, search func(*Model, *engine) (int32, error), limit int) (float64, error) {
	m, err := NewModel(in, math.Inf(1))
	if err != nil {
		return 0, err
	}
	s := newEngine(math.Inf(1), true, limit)
	last, err := search(m, s)
	if err != nil {
		return 0, err
	}
	return s.Labels[last].Cost, nil
}

func newEngine(memory float64, peak bool, limit int) *engine {
	return &engine{Memory: memory, Peak: peak, Limit: limit, Hash: func(x uint64) uint64 { return x }}
}

// A Model is a training step with sets as bits: of a state the lower ones are storages that
// are not resident, the upper ones nodes that have run.
type Model struct {
	Graph   *training.Graph
	Values  []int // storages that are not resident
	Size    []float64
	Reads   []uint64 // by node: of values
	Writes  []uint64
	Results uint64
	tracked uint64 // the nodes of which states say whether they have run
	// before[v] must have run when v runs at all, and after[v] must not: who
	// changes what v reads. first[v] must have run when v runs for the first time.
	before, after, first []uint64
}

// NewModel returns the model of a graph or a training step, in which all nodes are tracked.
func NewModel(in plan.Instance, memory float64) (*Model, error) {
	if in == nil {
		return nil, fmt.Errorf("%w: no instance", exhaustive.ErrTooHard)
	}
	if err := in.Validate(); err != nil {
		return nil, fmt.Errorf("%w: %w", exhaustive.ErrTooHard, err)
	}
	if !(memory >= 0) {
		return nil, fmt.Errorf("%w: memory is %v bytes, it must not be negative", exhaustive.ErrTooHard, memory)
	}
	g := plan.As[*training.Graph](in)
	if x := plan.As[*graph.Graph](in); x != nil {
		g = training.FromGraph(x)
	}
	n := g.Len()
	m := &Model{Graph: g}
	index := make([]int, len(g.Storages))
	for s := range g.Storages {
		x := &g.Storages[s]
		if x.Resident {
			continue
		}
		index[s] = len(m.Values)
		if x.Result && len(m.Values) < 64 {
			m.Results |= 1 << len(m.Values)
		}
		m.Values, m.Size = append(m.Values, s), append(m.Size, x.Bytes)
	}
	if n+len(m.Values) > MaxBits {
		return nil, fmt.Errorf("%w: %d nodes and %d storages, there can be %d together", exhaustive.ErrTooHard, n, len(m.Values), MaxBits)
	}
	m.tracked = uint64(1)<<(len(m.Values)+n) - uint64(1)<<len(m.Values)
	flat := make([]uint64, 5*n)
	m.Reads, m.Writes, m.before, m.after, m.first = flat[:n], flat[n:2*n], flat[2*n:3*n], flat[3*n:4*n], flat[4*n:]
	values := func(list []int) (set uint64) {
		for _, s := range list {
			if !g.Storages[s].Resident {
				set |= 1 << index[s]
			}
		}
		return set
	}
	for v := range g.Nodes {
		x := &g.Nodes[v]
		m.Reads[v], m.Writes[v] = values(x.Reads), values(x.Writes)
		for u := range g.Nodes {
			switch y := &g.Nodes[u]; {
			case intersect(x.Reads, y.Mutates) && u < v:
				m.before[v] |= m.bit(u)
			case intersect(x.Reads, y.Mutates):
				m.after[v] |= m.bit(u)
			case u < v && (x.Random && y.Random || intersect(x.Mutates, y.Mutates)):
				m.first[v] |= m.bit(u)
			}
		}
	}
	return m, nil
}

func intersect(a, b []int) bool {
	for _, x := range a {
		for _, y := range b {
			if x == y {
				return true
			}
		}
	}
	return false
}

// track restricts the nodes of which states say whether they have run: those that run once,
// change something or have an order among first runs, and those that no result and no
// tracked node is made from. Every other node must run for the sake of such a one: until it
// has run, what it writes is needed and not there, and later it may run again.
func (m *Model) track() {
	need := m.Results
	for v := len(m.Reads) - 1; v >= 0; v-- {
		x := &m.Graph.Nodes[v]
		if !x.Once && !x.Random && len(x.Mutates) == 0 && m.first[v] == 0 && m.Writes[v]&need != 0 {
			m.tracked &^= m.bit(v)
		}
		need |= m.Reads[v]
	}
}

func (m *Model) bit(v int) uint64 { return 1 << (len(m.Values) + v) }

// Ran returns the bit of a node, 0 if it is not tracked.
func (m *Model) Ran(v int) uint64 { return m.bit(v) & m.tracked }

// Done reports whether all nodes have run and the results are there.
func (m *Model) Done(state uint64) bool {
	all := m.tracked | m.Results
	return state&all == all
}

// Stored returns the values of a state.
func (m *Model) Stored(state uint64) uint64 { return state & (1<<len(m.Values) - 1) }

// Bytes returns the size of the values of a state.
func (m *Model) Bytes(state uint64) (sum float64) {
	for left := m.Stored(state); left != 0; left &= left - 1 {
		sum += m.Size[bits.TrailingZeros64(left)]
	}
	return sum
}

// During returns the memory in use while node v runs in a state.
func (m *Model) During(state uint64, v int) float64 {
	return m.Graph.Input + m.Bytes(state) + m.Bytes(m.Writes[v]) + m.Graph.Nodes[v].Workspace
}

// Needed returns the values that may be needed from a state on: results, and what nodes
// read that have not run, or can run again and write such values. One pass from the last
// node is enough, as the order of the nodes is topological.
func (m *Model) Needed(state uint64) uint64 {
	need := m.Results
	for v := len(m.Reads) - 1; v >= 0; v-- {
		if !m.has(state, v) || !m.Graph.Nodes[v].Once && m.Writes[v]&need != 0 {
			need |= m.Reads[v]
		}
	}
	return need
}

// has reports whether node v has run, or is not tracked.
func (m *Model) has(state uint64, v int) bool { return (state|^m.tracked)&m.bit(v) != 0 }

// search finds the best way from nothing stored to everything done.
func (m *Model) search(s *engine) (int32, error) {
	m.track()
	return s.Run(0, m.Done, func(x label) { m.expand(x.State, s) })
}

// expand adds every step out of a state: a node runs, or a storage is discarded.
func (m *Model) expand(state uint64, s *engine) {
	m.discards(state, s)
	for v := range m.Reads {
		if m.CanRun(state, v) {
			s.Add(m.Successor(state, v), uint32(v), m.Graph.Nodes[v].Time, m.During(state, v))
		}
	}
}

func (m *Model) discards(state uint64, s *engine) {
	for left := m.Stored(state); left != 0; left &= left - 1 {
		s.Add(state&^(left&-left), uint32(bits.TrailingZeros64(left))|discard, 0, 0)
	}
}

// Successor returns the state after node v has run: what nothing to come needs is freed.
func (m *Model) Successor(state uint64, v int) uint64 {
	state |= m.Writes[v] | m.Ran(v)
	return state & (m.Needed(state) | ^m.Stored(math.MaxUint64))
}

// CanRun reports whether node v can run in a state, and may, and need.
func (m *Model) CanRun(state uint64, v int) bool {
	ran := m.has(state, v)
	switch {
	case m.Reads[v]&^state != 0 || m.before[v]&^state != 0:
		return false // it cannot run yet
	case ran && (m.Graph.Nodes[v].Once || m.after[v]&state != 0):
		return false // it must not run again
	case !ran && (m.first[v]&^state != 0 || m.after[v]&state&^m.bit(v) != 0):
		return false // it must not run first
	}
	return !ran || m.Writes[v]&^state != 0 // else it need not run again
}

const discard = 1 << 8

// plan writes a way through the states as a plan.
func (m *Model) plan(in plan.Instance, memory float64, path []label) *plan.Plan {
	p := plan.New(plan.Remat, "exhaustive", in, platform.Platform{Memory: memory})
	var state uint64
	time, peak := 0.0, m.Graph.Input
	for _, to := range path {
		if v := int(to.Step); to.Step&discard == 0 {
			n := &m.Graph.Nodes[v]
			peak = max(peak, m.During(state, v))
			p.Ops = append(p.Ops, plan.Op{Op: plan.OpC, Node: n.ID, Start: time, End: time + n.Time})
			time += n.Time
			state |= m.Writes[v]
		}
		for freed := m.Stored(state &^ to.State); freed != 0; freed &= freed - 1 {
			o := plan.Op{Op: plan.OpD, Storage: m.Graph.Storages[m.Values[bits.TrailingZeros64(freed)]].ID, Start: time, End: time}
			if in.Kind() == graph.Kind { // the value of a node has its id
				o.Node, o.Storage = o.Storage, ""
			}
			p.Ops = append(p.Ops, o)
		}
		state = to.State
	}
	p.Claims = plan.Claims{Makespan: time, PeakMemory: peak}
	return p
}
