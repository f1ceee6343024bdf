package main

import (
	"fmt"
	"time"

	"workbench/bench/run"
)

// backends solves the compact MILP with both backends on GPT-2 of growing
// depth, at a bandwidth at which it does not end at the sum of the
// computations.
func (m *measurer) backends() error {
	fmt.Println("| depth | columns | integers | rows | HiGHS | status | s | lp_solve | status | s |")
	fmt.Println("|--:|--:|--:|--:|--:|---|--:|--:|---|--:|")
	for _, depth := range []int{3, 4, 6, 8, 10, 12, 16, 20, 38, 74} {
		in, s, err := m.at(fmt.Sprintf("zoo:table1-gpt2?depth=%d&batch=16", depth), 25, 2e9)
		if err != nil {
			return err
		}
		s.Time = 20 * time.Second
		var cells []any
		var size *run.Formulation
		for _, name := range run.BackendNames() {
			if s.Backend, err = run.Backend(name, true); err != nil {
				return err
			}
			r := m.runs("nested-bound", in, s)
			if r.Err != nil {
				return r.Err
			}
			size = r.Formulation
			cells = append(cells, ms(r.OwnBound.Value), r.Status, fmt.Sprintf("%.2f", r.WallTime))
		}
		fmt.Printf("| %d | %d | %d | %d |", depth, size.Variables, size.Integers, size.Constraints)
		fmt.Printf(" %s | %s | %s | %s | %s | %s |\n", cells...)
	}
	return nil
}
