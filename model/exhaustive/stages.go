package exhaustive

import (
	"fmt"
	"math"

	"workbench/model/graph"
	"workbench/model/plan"
)

// Stages returns the least makespan of the rematerialization of a graph among
// the schedules of Checkmate, and a plan that has it: nodes are computed for
// the first time in the order of the graph; between the first computations of
// two neighbours, a stage, forward nodes before them may be computed again,
// each once at most and in that order, too. [Graph] may find better plans. The
// order of the nodes must be topological. limit and errors are those of Graph.
//
// It is Dijkstra's algorithm over the stage, the place in it and which values
// are stored. As in Graph, what no computation to come can read is discarded
// at once.
func Stages(g *graph.Graph, memory float64, limit int) (float64, *plan.Plan, error) {
	d, err := newStaged(g, memory)
	if err != nil {
		return 0, nil, err
	}
	makespan, path, err := d.search(&shortest{memory: memory, limit: limit})
	if err != nil {
		return 0, nil, err
	}
	return makespan, d.plan(memory, path), nil
}

// StagesLeastMemory returns the least memory within which there is a schedule
// of Checkmate. There always is one. The errors are [ErrLimit] and
// [ErrTooHard].
func StagesLeastMemory(g *graph.Graph, limit int) (float64, error) {
	d, err := newStaged(g, math.Inf(1))
	if err != nil {
		return 0, err
	}
	peak, _, err := d.search(&shortest{memory: math.Inf(1), peak: true, limit: limit})
	return peak, err
}

// staged is a dag whose nodes are in a topological order.
type staged struct{ *dag }

func newStaged(g *graph.Graph, memory float64) (staged, error) {
	d, err := newDAG(g, memory)
	if err != nil {
		return staged{}, err
	}
	for _, e := range g.Edges {
		if e.From >= e.To {
			return staged{}, fmt.Errorf("%w: the edge from node %d to node %d is against the order of the nodes", ErrTooHard, e.From, e.To)
		}
	}
	return staged{d}, nil
}

// staging is a state: which values are stored, the stage, and the next node
// that may be computed in it.
type staging struct {
	stored      uint32
	stage, next int
}

func (x staging) key() uint64 { return uint64(x.stored) | uint64(x.stage)<<32 | uint64(x.next)<<40 }

func stagingOf(key uint64) staging {
	return staging{uint32(key), int(key >> 32 & 0xff), int(key >> 40)}
}

// search finds the best way from nothing stored past the last stage.
func (d staged) search(s *shortest) (float64, []reached, error) {
	goal := func(key uint64) bool { return stagingOf(key).stage == len(d.pred) }
	return s.run(staging{}.key(), goal, func(key uint64) { d.leave(stagingOf(key), s) })
}

// leave takes every step out of x: a discard, passing over the next node, its
// computation. The first two are one to plan, for passing over discards nothing.
func (d staged) leave(x staging, s *shortest) {
	for left := x.stored; left != 0; left &= left - 1 {
		y := x
		y.stored &^= left & -left
		s.reach(y.key(), discard, 0, 0)
	}
	v := x.next
	bit := uint32(1) << v
	if v < x.stage {
		y := x
		y.next++
		s.reach(y.key(), discard, 0, 0)
		if d.forward&bit == 0 || x.stored&bit != 0 {
			return
		}
	}
	if d.pred[v]&^x.stored != 0 {
		return
	}
	y := staging{stored: x.stored | bit, stage: x.stage, next: v + 1}
	if v == x.stage {
		y.stage, y.next = v+1, 0
	}
	y.stored &= d.readable(d.tracked & (1<<y.stage - 1))
	n := &d.g.Nodes[v]
	s.reach(y.key(), uint32(v), n.Time, d.size(set{stored: x.stored})+n.Memory+n.Overhead)
}
