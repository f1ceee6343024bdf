package main

import (
	"fmt"
	"os"
	"path/filepath"

	"workbench/bench/run"
	"workbench/model/profile"
)

// profiles compares all methods on the PipeDream profiles below the folders.
func (m *measurer) profiles(dirs []string) error {
	fmt.Println("| profile | layers | memory | Σu | bound | Greedy | Greedy* | L2L | first half | search | best | gap | s |")
	fmt.Println("|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|")
	for _, dir := range dirs {
		files, err := filepath.Glob(filepath.Join(dir, "*", "graph.txt"))
		if err != nil {
			return err
		}
		if len(files) == 0 {
			return fmt.Errorf("%s: no */graph.txt of the PipeDream profiler there", dir)
		}
		for _, file := range files {
			if err := m.profile(file); err != nil {
				return err
			}
		}
	}
	return nil
}

func (m *measurer) profile(file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	c, _, err := profile.PipeDream(f, file)
	if err != nil {
		return err
	}
	in, err := run.NewInstance(c)
	if err != nil {
		return err
	}
	low, high := m.problem.Range(in)
	for _, percent := range percents {
		s := m.setting
		s.Platform.Memory, s.Platform.Bandwidth = low+percent/100*(high-low), 12e9
		best := m.runs("milp", in, s)
		cells := make([]any, 0, 5)
		for _, method := range []string{"greedy", "greedy-nodiscount", "l2l", "first-half", "search"} {
			cells = append(cells, cell(m.runs(method, in, s)))
		}
		fmt.Printf("| %s | %d | %s | %s | %s |", c.Name, c.Len(), memory(percent, s), ms(c.TotalTime()), ms(best.Bound.Value))
		fmt.Printf(" %s | %s | %s | %s | %s |", cells...)
		fmt.Printf(" %s | %s | %.1f |\n", cell(best), gap(best), best.WallTime)
	}
	return nil
}
