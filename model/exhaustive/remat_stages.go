package exhaustive

import (
	"fmt"
	"math"
	"math/bits"

	"workbench/model/instance/graph"
	"workbench/model/instance/training"
	"workbench/model/plan"
)

// Stages returns the least makespan of the rematerialization of a graph, of either
// format, among the schedules of Checkmate, and a plan that has it: nodes run for the
// first time in the order of the graph and, between the first runs of two neighbours,
// a stage, those before them that may run again do so once at most and in that order.
// [Graph] and [Training] may find better plans. limit and errors are those of
// Training.
//
// It is Dijkstra's algorithm over the stage, the place in it and which values are
// stored. As in Training, what nothing to come can need is discarded at once.
func Stages(in plan.Instance, memory float64, limit int) (float64, *plan.Plan, error) {
	d, err := newStaged(in, memory)
	if err != nil {
		return 0, nil, err
	}
	makespan, path, err := d.stages(&shortest{memory: memory, limit: limit})
	if err != nil {
		return 0, nil, err
	}
	var state uint64
	for k := range path { // as states of Training
		if v := int(path[k].step); path[k].step&discard == 0 {
			state |= d.ran(v)
		}
		path[k].key = path[k].key&(1<<len(d.value)-1) | state
	}
	p := d.plan(memory, path)
	if g := plan.As[*graph.Graph](in); g != nil { // the value of a node has its id
		of := plan.NewGraph(p.Method, g, p.Platform)
		of.Ops, of.Claims, p = p.Ops, p.Claims, of
		for k := range p.Ops {
			if o := &p.Ops[k]; o.Op == plan.OpD {
				o.Node, o.Storage = o.Storage, ""
			}
		}
	}
	return makespan, p, nil
}

// StagesLeastMemory returns the least memory within which there is a schedule of
// Checkmate. There always is one. The errors are [ErrLimit] and [ErrTooHard].
func StagesLeastMemory(in plan.Instance, limit int) (float64, error) {
	d, err := newStaged(in, math.Inf(1))
	if err != nil {
		return 0, err
	}
	peak, _, err := d.stages(&shortest{memory: math.Inf(1), peak: true, limit: limit})
	return peak, err
}

func newStaged(in plan.Instance, memory float64) (*steps, error) {
	step := plan.As[*training.Graph](in)
	if g := plan.As[*graph.Graph](in); g != nil {
		if err := g.Validate(); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrTooHard, err)
		}
		step = training.FromGraph(g)
	}
	d, err := newSteps(step, memory)
	if err == nil && (len(d.value) > placeAt || d.n >= 1<<(64-stageAt)) {
		err = ErrTooHard
	}
	return d, err
}

// stages finds the best way from nothing stored past the last stage.
func (d *steps) stages(s *shortest) (float64, []reached, error) {
	goal := func(key uint64) bool { return int(key>>stageAt) == d.n && key&d.results == d.results }
	return s.run(0, goal, func(key uint64) { d.leaveStage(key, s) })
}

// Where a key has the stage, and the first node that may run next in it.
const (
	placeAt = 48
	stageAt = 56
)

// leaveStage takes every step out of a state of Stages.
func (d *steps) leaveStage(key uint64, s *shortest) {
	stored := key & (1<<len(d.value) - 1)
	stage, place := int(key>>stageAt), int(key>>placeAt&0xff)
	for left := stored; left != 0; left &= left - 1 {
		s.relax(key&^(left&-left), uint32(bits.TrailingZeros64(left))|discard, 0, 0)
	}
	if stage == d.n {
		return
	}
	done := uint64(1)<<(len(d.value)+stage) - uint64(1)<<len(d.value)
	for v := place; v <= stage; v++ {
		if d.reads[v]&^stored != 0 || v < stage && (d.g.Nodes[v].Once || d.after[v]&done != 0 || d.writes[v]&^stored == 0) {
			continue
		}
		n := &d.g.Nodes[v]
		to := uint64(stage)<<stageAt | uint64(v+1)<<placeAt
		if v == stage {
			to, done = uint64(stage+1)<<stageAt, done|d.ran(v)
		}
		to |= (stored | d.writes[v]) & d.needed(stored|done)
		s.relax(to, uint32(v), n.Time, d.stored(stored)+d.stored(d.writes[v])-d.g.Input+n.Workspace)
	}
}
