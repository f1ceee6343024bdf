package exhaustive

import (
	"fmt"
	"math"
	"math/bits"

	"workbench/model/instance/training"
	"workbench/model/plan"
	"workbench/model/platform"
)

// MostTraining is what the nodes and the storages that are not resident of a
// training step that [Training] searches add up to at most.
const MostTraining = 63

// Training returns the least makespan of the rematerialization of a training
// step within so much memory, and a plan that has it: nodes run in any order and
// as often as they may, see docs/graph.md. limit is the most states to visit.
// The errors are [ErrInfeasible], [ErrLimit] and [ErrTooHard].
//
// It is Dijkstra's algorithm over which storages are on the device and which
// nodes have run. Two kinds of steps are left out, and a plan that has them is no
// worse without: running a node again when all that it writes is there, and
// keeping a storage that nothing to come can need, which D frees at no cost.
func Training(g *training.Graph, memory float64, limit int) (float64, *plan.Plan, error) {
	d, err := newSteps(g, memory)
	if err != nil {
		return 0, nil, err
	}
	makespan, path, err := d.search(&shortest{memory: memory, limit: limit})
	if err != nil {
		return 0, nil, err
	}
	return makespan, d.plan(memory, path), nil
}

// TrainingLeastMemory returns the least memory within which there is a plan of a
// training step. There always is one. The errors are [ErrLimit] and [ErrTooHard].
func TrainingLeastMemory(g *training.Graph, limit int) (float64, error) {
	d, err := newSteps(g, math.Inf(1))
	if err != nil {
		return 0, err
	}
	peak, _, err := d.search(&shortest{memory: math.Inf(1), peak: true, limit: limit})
	return peak, err
}

// steps is a training step with sets as bits: of a state the lower ones are
// storages that are not resident, the upper ones nodes that have run.
type steps struct {
	g       *training.Graph
	n       int   // nodes
	value   []int // storages that are not resident
	size    []float64
	reads   []uint64 // by node: of values
	writes  []uint64
	results uint64
	// before[v] must have run when v runs at all, and after[v] must not: who
	// changes what v reads. first[v] must have run when v runs for the first time.
	before, after, first []uint64
}

func newSteps(g *training.Graph, memory float64) (*steps, error) {
	if err := g.Validate(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrTooHard, err)
	}
	if !(memory >= 0) {
		return nil, fmt.Errorf("%w: memory is %v bytes, it must not be negative", ErrTooHard, memory)
	}
	n := g.Len()
	d := &steps{g: g, n: n}
	index := make([]int, len(g.Storages))
	for s := range g.Storages {
		x := &g.Storages[s]
		if x.Resident {
			continue
		}
		index[s] = len(d.value)
		if x.Result && len(d.value) < 64 {
			d.results |= 1 << len(d.value)
		}
		d.value, d.size = append(d.value, s), append(d.size, x.Bytes)
	}
	if n+len(d.value) > MostTraining {
		return nil, fmt.Errorf("%w: %d nodes and %d storages, there can be %d together", ErrTooHard, n, len(d.value), MostTraining)
	}
	flat := make([]uint64, 5*n)
	d.reads, d.writes, d.before, d.after, d.first = flat[:n], flat[n:2*n], flat[2*n:3*n], flat[3*n:4*n], flat[4*n:]
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
		d.reads[v], d.writes[v] = values(x.Reads), values(x.Writes)
		for u := range g.Nodes {
			bit := uint64(1) << (len(d.value) + u)
			switch y := &g.Nodes[u]; {
			case meet(x.Reads, y.Mutates) && u < v:
				d.before[v] |= bit
			case meet(x.Reads, y.Mutates):
				d.after[v] |= bit
			case u < v && (x.Random && y.Random || meet(x.Mutates, y.Mutates)):
				d.first[v] |= bit
			}
		}
	}
	return d, nil
}

func meet(a, b []int) bool {
	for _, x := range a {
		for _, y := range b {
			if x == y {
				return true
			}
		}
	}
	return false
}

// ran is the bit of a node.
func (d *steps) ran(v int) uint64 { return 1 << (len(d.value) + v) }

// search finds the best way from nothing stored to everything done.
func (d *steps) search(s *shortest) (float64, []reached, error) {
	all := uint64(1)<<(len(d.value)+d.n) - uint64(1)<<len(d.value) | d.results
	goal := func(key uint64) bool { return key&all == all }
	return s.run(0, goal, func(key uint64) { d.expand(key, s) })
}

// stored returns the memory in use between computations.
func (d *steps) stored(state uint64) float64 {
	sum := d.g.Input
	for left := state & (1<<len(d.value) - 1); left != 0; left &= left - 1 {
		sum += d.size[bits.TrailingZeros64(left)]
	}
	return sum
}

// needed returns the values that may be needed from a state on: results, and
// what nodes read that have not run or can run again and write such values. An
// order of the nodes that is valid lets one pass from the last do.
func (d *steps) needed(state uint64) uint64 {
	need := d.results
	for v := d.n - 1; v >= 0; v-- {
		ran := state&d.ran(v) != 0
		if !ran || !d.g.Nodes[v].Once && d.writes[v]&need != 0 {
			need |= d.reads[v]
		}
	}
	return need
}

// expand takes every step out of a state: a node runs, or a storage is discarded.
func (d *steps) expand(state uint64, s *shortest) {
	size := d.stored(state)
	for k := range d.value {
		if bit := uint64(1) << k; state&bit != 0 {
			s.relax(state&^bit, uint32(k)|discard, 0, 0)
		}
	}
	for v := range d.n {
		if !d.canRun(state, v) {
			continue
		}
		n := &d.g.Nodes[v]
		written := 0.0
		for left := d.writes[v]; left != 0; left &= left - 1 {
			written += d.size[bits.TrailingZeros64(left)]
		}
		y := state | d.writes[v] | d.ran(v)
		y &= d.needed(y) | ^uint64(1<<len(d.value)-1)
		s.relax(y, uint32(v), n.Time, size+written+n.Workspace)
	}
}

// canRun reports whether node v can run in a state, and may, and need.
func (d *steps) canRun(state uint64, v int) bool {
	ran := state&d.ran(v) != 0
	switch {
	case d.reads[v]&^state != 0 || d.before[v]&^state != 0:
		return false // it cannot run yet
	case ran && (d.g.Nodes[v].Once || d.after[v]&state != 0):
		return false // it must not run again
	case !ran && (d.first[v]&^state != 0 || d.after[v]&state&^d.ran(v) != 0):
		return false // it must not run first
	}
	return !ran || d.writes[v]&^state != 0 // else it need not run again
}

// plan writes a way through the states as a plan.
func (d *steps) plan(memory float64, path []reached) *plan.Plan {
	p := plan.New(plan.Remat, "exhaustive", d.g, platform.Platform{Memory: memory})
	var state uint64
	time, peak := 0.0, d.g.Input
	for _, to := range path {
		gone := state &^ to.key
		if to.step&discard == 0 {
			v := int(to.step)
			n := &d.g.Nodes[v]
			peak = max(peak, d.stored(state)+d.stored(d.writes[v])-d.g.Input+n.Workspace)
			p.Ops = append(p.Ops, plan.Op{Op: plan.OpC, Node: n.ID, Start: time, End: time + n.Time})
			time += n.Time
			gone = (state | d.writes[v]) &^ to.key
		}
		for ; gone != 0; gone &= gone - 1 {
			id := d.g.Storages[d.value[bits.TrailingZeros64(gone)]].ID
			p.Ops = append(p.Ops, plan.Op{Op: plan.OpD, Storage: id, Start: time, End: time})
		}
		state = to.key
	}
	p.Claims = plan.Claims{Makespan: time, PeakMemory: peak}
	return p
}
