package exhaustive

import (
	"math/bits"

	"workbench/model/plan"
	"workbench/model/training"
)

// TrainingStages is [Stages] for a training step: the least makespan among plans
// that run nodes for the first time in the order of the graph and, between the
// first runs of two neighbours, others at most once and in that order. limit and
// errors are those of [Training].
func TrainingStages(g *training.Graph, memory float64, limit int) (float64, *plan.Plan, error) {
	d, err := newSteps(g, memory)
	if err != nil {
		return 0, nil, err
	}
	if len(d.value) > placeAt {
		return 0, nil, ErrTooHard
	}
	s := &shortest{memory: memory, limit: limit}
	goal := func(key uint64) bool { return int(key>>stageAt) == d.n && key&d.results == d.results }
	makespan, path, err := s.run(0, goal, func(key uint64) { d.leaveStage(key, s) })
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
	return makespan, d.plan(memory, path), nil
}

// Where a key has the stage, and the first node that may run next in it.
const (
	placeAt = 48
	stageAt = 56
)

// leaveStage takes every step out of a state of TrainingStages.
func (d *steps) leaveStage(key uint64, s *shortest) {
	stored := key & (1<<len(d.value) - 1)
	stage, place := int(key>>stageAt), int(key>>placeAt&0xff)
	for left := stored; left != 0; left &= left - 1 {
		s.reach(key&^(left&-left), uint32(bits.TrailingZeros64(left))|discard, 0, 0)
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
		s.reach(to, uint32(v), n.Time, d.stored(stored)+d.stored(d.writes[v])-d.g.Input+n.Workspace)
	}
}
