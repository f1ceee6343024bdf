package main

import (
	"fmt"

	heuristic "workbench/heuristics/join"
	"workbench/model/instance/join"
)

// joins tests what [004] 1.4 says of joins at unit costs, by the curves of the dynamic
// program: how much longer a step takes than Span*, which computes nothing again, in half
// of the slots that this takes, in the least number and in two more.
func (m *measurer) joins([]string) error {
	fmt.Println("| network | L | m | of | makespan | / Span* | m_min | / Span* | m_min + 2: / Span* |")
	fmt.Println("|---|--:|--:|--:|--:|--:|--:|--:|--:|")
	for _, network := range []struct {
		name     string
		branches []int // in L
	}{{"cross-modal (L, 5L)", []int{1, 5}}, {"siamese (2L, 2L, 2L)", []int{2, 2, 2}}, {"one chain (6L)", []int{6}}} {
		for _, length := range []int{5, 10, 15} {
			j := &join.Join{Keep: make([]bool, len(network.branches)), ForwardTime: 1, BackwardTime: 1, LossTime: 1}
			for _, k := range network.branches {
				j.Branches = append(j.Branches, k*length)
			}
			c, err := heuristic.DPCurve(m.ctx, j)
			if err != nil {
				return err
			}
			points := c.Points()
			least, span := points[0].Slots, points[len(points)-1].Makespan
			all := heuristic.StoreAllSlots(j)
			at := func(slots int) float64 { return points[slots-least].Makespan }
			fmt.Printf("| %s | %d | %d | %d | %g | %.3f | %d | %.3f | %.3f |\n", network.name, length, all/2, all, at(all/2), at(all/2)/span, least, at(least)/span, at(least+2)/span)
		}
	}
	return nil
}
