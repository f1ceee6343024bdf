package rematgraph

import (
	"fmt"

	"workbench/model/linear"
	"workbench/model/plan"
	"workbench/model/stages"
)

// segments is the forward part of a graph cut at its articulation tensors: all
// that leads from one layer to later forwards is what its last node writes.
type segments struct {
	v        *stages.View
	forwards int   // nodes 0..forwards-1 are forwards, the others are computed once
	last     []int // last node of each layer; they follow each other
}

// cut finds the layers. The error wraps plan.ErrNoPlan if forwards come after
// nodes that are computed once, so that there is no forward part. O(n log n).
func cut(method string, v *stages.View) (*segments, error) {
	s := &segments{v: v}
	for s.forwards < v.N && !v.Once[s.forwards] {
		s.forwards++
	}
	for i := s.forwards; i < v.N; i++ {
		if !v.Once[i] {
			return nil, fmt.Errorf("%s: %w: node %q is a forward and comes after %q, which is computed once; it needs all forwards first", method, plan.ErrNoPlan, v.Graph.Nodes[i].ID, v.Graph.Nodes[s.forwards].ID)
		}
	}
	g := &linear.Graph{Nodes: s.forwards}
	for i := range s.forwards {
		for _, p := range v.Pred[i] {
			g.Edges = append(g.Edges, linear.Edge{From: p, To: i})
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

// lastForward returns the last forward that reads i, i itself if there is none.
func (s *segments) lastForward(i int) int {
	last := i
	for _, j := range s.v.Succ[i] {
		if j < s.forwards {
			last = max(last, j)
		}
	}
	return last
}

// firstOnce returns the first node computed once that reads i, N if there is
// none.
func (s *segments) firstOnce(i int) int {
	for _, j := range s.v.Succ[i] {
		if j >= s.forwards {
			return j
		}
	}
	return s.v.N
}

// lastReader returns the last node that reads i, i itself if there is none.
func (s *segments) lastReader(i int) int {
	if k := len(s.v.Succ[i]); k > 0 {
		return s.v.Succ[i][k-1]
	}
	return i
}
