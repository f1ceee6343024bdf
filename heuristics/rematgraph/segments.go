package rematgraph

import (
	"fmt"

	"workbench/model/instance/training"
	"workbench/model/linear"
	"workbench/model/plan"
	"workbench/model/problem/rematgraph"
)

// segments is the forward part of a graph cut at its articulation nodes: later forwards read only
// the output of the last node of an earlier layer.
type segments struct {
	v        *rematgraph.View
	forwards int   // nodes 0..forwards-1 are forwards, no later ones are
	last     []int // last node of each layer; they follow each other
}

// cut finds the layers. The error wraps plan.ErrNoPlan if forwards come after
// other nodes, so that there is no forward part. O(n log n).
func cut(method string, v *rematgraph.View) (*segments, error) {
	s := &segments{v: v}
	forward := func(j int) bool { return v.Graph.Nodes[j].Phase == training.Forward }
	for s.forwards < v.N && forward(s.forwards) {
		s.forwards++
	}
	for j := s.forwards; j < v.N; j++ {
		if forward(j) {
			return nil, fmt.Errorf("%s: %w: forward node %q comes after %q, which is no forward; all forwards must come first", method,
				plan.ErrNoPlan, v.Graph.Nodes[j].ID, v.Graph.Nodes[s.forwards].ID)
		}
	}
	g := &linear.Graph{Nodes: s.forwards}
	for j := range s.forwards {
		for _, i := range v.Pred[j] {
			g.Edges = append(g.Edges, linear.Edge{From: v.Writer[i], To: j})
		}
	}
	layers, err := linear.Layers(g)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", method, err)
	}
	for _, l := range layers {
		s.last = append(s.last, l.Out)
	}
	return s, nil
}

// first returns the first node of a layer.
func (s *segments) first(l int) int {
	if l == 0 {
		return 0
	}
	return s.last[l-1] + 1
}

// lastForward returns the last forward that reads value i, its writer if there is
// none.
func (s *segments) lastForward(i int) int {
	last := s.v.Writer[i]
	for _, j := range s.v.Succ[i] {
		if j < s.forwards {
			last = max(last, j)
		}
	}
	return last
}

// firstBehind returns the first node after the forward part that reads value i, N if there is none.
func (s *segments) firstBehind(i int) int {
	for _, j := range s.v.Succ[i] {
		if j >= s.forwards {
			return j
		}
	}
	return s.v.N
}
