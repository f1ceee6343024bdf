package rematgraph

import (
	"fmt"

	"workbench/model/exhaustive"
	"workbench/model/plan"
)

// SearchStages returns the least makespan of the rematerialization of a graph, of either
// format, among the schedules of Checkmate, and a plan that has it: nodes run for the first
// time in the order of the graph and, between the first runs of two neighbours, a stage,
// those before them that may run again do so once at most and in that order. [Search] may
// find better plans. limit and errors are those of Search.
//
// It is Dijkstra's algorithm over the stage, the place in it and which values are stored.
// As in Search, what nothing to come can need is discarded at once.
func SearchStages(in plan.Instance, memory float64, limit int) (float64, *plan.Plan, error) {
	return best(in, memory, (*Model).searchStages, limit)
}

// StagesLeastMemory returns the least memory within which there is a schedule of Checkmate.
// There always is one. The errors are [exhaustive.ErrLimit] and [exhaustive.ErrTooHard].
func StagesLeastMemory(in plan.Instance, limit int) (float64, error) {
	return least(in, (*Model).searchStages, limit)
}

// Where a key has the stage, and the first node that may run next in it.
const (
	placeAt = 48
	stageAt = 56
)

// searchStages finds the best way from nothing stored past the last stage.
func (m *Model) searchStages(s *engine) (int32, error) {
	n := len(m.Reads)
	if len(m.Values) > placeAt {
		return 0, fmt.Errorf("%w: %d storages, there can be %d", exhaustive.ErrTooHard, len(m.Values), placeAt)
	}
	goal := func(key uint64) bool { return int(key>>stageAt) == n && key&m.Results == m.Results }
	return s.Run(0, goal, func(x label) { m.expandStage(x.State, s) })
}

// expandStage adds every step out of a state of SearchStages.
func (m *Model) expandStage(key uint64, s *engine) {
	m.discards(key, s)
	stored, stage, place := m.Stored(key), int(key>>stageAt), int(key>>placeAt&0xff)
	if stage == len(m.Reads) {
		return
	}
	done := m.bit(stage) - m.bit(0)
	for v := place; v <= stage; v++ {
		if m.Reads[v]&^stored != 0 || v < stage && (m.Graph.Nodes[v].Once || m.after[v]&done != 0 || m.Writes[v]&^stored == 0) {
			continue
		}
		to := uint64(stage)<<stageAt | uint64(v+1)<<placeAt
		if v == stage {
			to, done = uint64(stage+1)<<stageAt, done|m.bit(v)
		}
		to |= (stored | m.Writes[v]) & m.Needed(stored|done)
		s.Add(to, uint32(v), m.Graph.Nodes[v].Time, m.During(stored, v))
	}
}
