package exhaustive

import (
	"fmt"
	"math"
	"math/bits"

	"workbench/model/instance/graph"
	"workbench/model/plan"
	"workbench/model/platform"
)

// MaxGraphNodes is the size of the largest graph that [Graph] searches.
const MaxGraphNodes = 20

// Graph returns the least makespan of the rematerialization of a graph within
// so much memory, and a plan that has it. Forward nodes are computed at least
// once, the loss and backward nodes exactly once, in any order in which what
// they read is stored. limit is the most states to visit; eleven nodes have
// some hundreds to a few thousand, fifteen some tens of thousands. The errors are [ErrInfeasible],
// [ErrLimit] and [ErrTooHard].
//
// It is Dijkstra's algorithm over which values are stored and which nodes are
// done. Done matters for nodes that may be computed once only, and for
// forwards that none of these is made from; the other forwards must be
// computed for their sake anyway. Two kinds of steps are left out, and a plan
// that has them is no worse without: computing a value that is stored, and
// keeping one that no computation to come can read, which D frees at no cost.
func Graph(g *graph.Graph, memory float64, limit int) (float64, *plan.Plan, error) {
	d, err := newDAG(g, memory)
	if err != nil {
		return 0, nil, err
	}
	makespan, path, err := d.search(&shortest{memory: memory, limit: limit})
	if err != nil {
		return 0, nil, err
	}
	return makespan, d.plan(memory, path), nil
}

// GraphLeastMemory returns the least memory within which there is a plan of a
// graph: the least peak of a way through the states of [Graph]. There always
// is one. The errors are [ErrLimit] and [ErrTooHard].
func GraphLeastMemory(g *graph.Graph, limit int) (float64, error) {
	d, err := newDAG(g, math.Inf(1))
	if err != nil {
		return 0, err
	}
	peak, _, err := d.search(&shortest{memory: math.Inf(1), peak: true, limit: limit})
	return peak, err
}

// dag is a graph with sets of nodes as bits.
type dag struct {
	g        *graph.Graph
	pred     []uint32
	succ     []uint32
	forward  uint32 // may be computed again
	tracked  uint32 // whether they are done matters
	topology []int  // predecessors first
}

// set is a state: which values are stored, and which of the tracked nodes are
// done.
type set struct{ stored, done uint32 }

func (x set) key() uint64 { return uint64(x.stored) | uint64(x.done)<<32 }

func setOf(key uint64) set { return set{uint32(key), uint32(key >> 32)} }

func newDAG(g *graph.Graph, memory float64) (*dag, error) {
	n := g.Len()
	if n == 0 || n > MaxGraphNodes {
		return nil, fmt.Errorf("%w: %d nodes, there can be 1 to %d", ErrTooHard, n, MaxGraphNodes)
	}
	if !(memory >= 0) {
		return nil, fmt.Errorf("%w: memory is %v bytes, it must not be negative", ErrTooHard, memory)
	}
	d := &dag{g: g, pred: make([]uint32, n), succ: make([]uint32, n)}
	for _, e := range g.Edges {
		if e.From < 0 || e.From >= n || e.To < 0 || e.To >= n {
			return nil, fmt.Errorf("%w: edge %d→%d leads outside the %d nodes", ErrTooHard, e.From, e.To, n)
		}
		d.pred[e.To] |= 1 << e.From
		d.succ[e.From] |= 1 << e.To
	}
	amounts := []float64{g.Input}
	for i := range g.Nodes {
		v := &g.Nodes[i]
		amounts = append(amounts, v.Time, v.Memory, v.Overhead)
		switch v.Kind {
		case graph.Forward:
			d.forward |= 1 << i
		case graph.Loss, graph.Backward:
			d.tracked |= 1 << i
		default:
			return nil, fmt.Errorf("%w: node %s is of kind %q", ErrTooHard, v.ID, v.Kind)
		}
	}
	for _, x := range amounts {
		if !(x >= 0) || math.IsInf(x, 1) {
			return nil, fmt.Errorf("%w: a time or size is %v, it must be finite and not negative", ErrTooHard, x)
		}
	}
	if !d.sort() {
		return nil, fmt.Errorf("%w: the edges form a cycle", ErrTooHard)
	}
	// made are the nodes that a loss or backward node is made from, and these.
	made := d.tracked
	for k := n - 1; k >= 0; k-- {
		if v := d.topology[k]; d.succ[v]&made != 0 {
			made |= 1 << v
		}
	}
	d.tracked |= d.forward &^ made
	return d, nil
}

// sort finds the topological order, false if there is none.
func (d *dag) sort() bool {
	var before uint32
	for range d.pred {
		for v := range d.pred {
			if before>>v&1 == 0 && d.pred[v]&^before == 0 {
				before |= 1 << v
				d.topology = append(d.topology, v)
			}
		}
	}
	return len(d.topology) == len(d.pred)
}

// search finds the best way from nothing stored to everything done.
func (d *dag) search(s *shortest) (float64, []reached, error) {
	goal := func(key uint64) bool { return setOf(key).done == d.tracked }
	return s.run(0, goal, func(key uint64) { d.expand(setOf(key), s) })
}

// size returns the memory in use between computations.
func (d *dag) size(x set) float64 {
	sum := d.g.Input
	for left := x.stored; left != 0; left &= left - 1 {
		sum += d.g.Nodes[bits.TrailingZeros32(left)].Memory
	}
	return sum
}

// readable returns the values that computations to come can read: those of the
// predecessors of nodes that are tracked and not done, and of forwards whose
// values can be read.
func (d *dag) readable(done uint32) uint32 {
	var read uint32
	toCome := d.tracked &^ done
	for k := len(d.topology) - 1; k >= 0; k-- {
		v := d.topology[k]
		if d.forward&read>>v&1 != 0 {
			toCome |= 1 << v
		}
		if toCome>>v&1 != 0 {
			read |= d.pred[v]
		}
	}
	return read
}

// expand takes every step out of x. A step is the computation of a node, or the
// discard of a value: the node plus discards.
func (d *dag) expand(x set, s *shortest) {
	size, read := d.size(x), d.readable(x.done)
	for v := range d.pred {
		bit := uint32(1) << v
		switch {
		case x.stored&bit != 0:
			y := x
			y.stored &^= bit
			s.relax(y.key(), uint32(v)|discard, 0, 0)
			continue
		case d.pred[v]&^x.stored != 0:
			continue // it cannot be computed
		case d.forward&bit != 0 && read&bit == 0 && (d.tracked&^x.done)&bit == 0:
			continue // it need not be computed
		case d.forward&bit == 0 && x.done&bit != 0:
			continue // it must not be computed
		}
		n := &d.g.Nodes[v]
		y := set{stored: x.stored | bit, done: x.done | bit&d.tracked}
		y.stored &= d.readable(y.done)
		s.relax(y.key(), uint32(v), n.Time, size+n.Memory+n.Overhead)
	}
}

const discard = 1 << 8

// plan writes a way through the states as a plan.
func (d *dag) plan(memory float64, path []reached) *plan.Plan {
	p := plan.NewGraph("exhaustive", d.g, platform.Platform{Memory: memory})
	var x set
	time, peak := 0.0, d.size(x)
	free := func(values uint32) {
		for ; values != 0; values &= values - 1 {
			id := d.g.Nodes[bits.TrailingZeros32(values)].ID
			p.Ops = append(p.Ops, plan.Op{Op: plan.OpD, Node: id, Start: time, End: time})
		}
	}
	for _, to := range path {
		y := setOf(to.key)
		if to.step&discard == 0 {
			n := &d.g.Nodes[to.step]
			peak = max(peak, d.size(x)+n.Memory+n.Overhead)
			p.Ops = append(p.Ops, plan.Op{Op: plan.OpC, Node: n.ID, Start: time, End: time + n.Time})
			time += n.Time
			free((x.stored | 1<<to.step) &^ y.stored)
		} else {
			free(x.stored &^ y.stored)
		}
		x = y
	}
	p.Claims = plan.Claims{Makespan: time, PeakMemory: peak}
	return p
}
