package main

import (
	"fmt"
	"os"
	"time"

	split "workbench/heuristics/maxload"
	program "workbench/ilp/maxload"
	"workbench/model/importer"
	"workbench/model/maxload"
	"workbench/solvers"
)

// dnnPartitioning splits files of the dnn-partitioning data set by the dynamic program and
// by the integer programs of Tarnawski et al., NeurIPS 2020, with their costs and the
// files' own devices: TIME FILE…, the limit being that of an integer program.
func (m *measurer) dnnPartitioning(limit time.Duration, files []string) error {
	fmt.Println("| file | parts | accelerators | dynamic program | integer program, contiguous | bound | any split | bound |")
	fmt.Println("|---|--:|--:|--:|--:|--:|--:|--:|")
	for _, file := range files {
		in, err := maxLoad(file)
		if err != nil {
			return err
		}
		device, load, whole, err := split.Contiguous(in)
		if err != nil {
			return err
		}
		cell := fmt.Sprintf("%.10f", load)
		if !whole {
			cell += " (made coarser)"
		}
		row := fmt.Sprintf("| %s | %d | %d | %s |", in.Name, len(in.Parts), in.Accelerators, cell)
		for _, contiguous := range []bool{true, false} {
			cells, err := m.splitByProgram(limit, in, contiguous, device)
			if err != nil {
				return err
			}
			row += cells
		}
		fmt.Println(row)
	}
	return m.ctx.Err()
}

func maxLoad(file string) (*maxload.Instance, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return importer.DNNMaxLoad(f, file)
}

// splitByProgram returns the cells of an integer program: the judged load of its split,
// and what the solver says is a bound.
func (m *measurer) splitByProgram(limit time.Duration, in *maxload.Instance, contiguous bool, start []int) (string, error) {
	p, err := program.New(in, contiguous)
	if err != nil {
		return "", err
	}
	r, err := m.setting.Backend.Solve(m.ctx, p.Model, solvers.Options{Time: limit, Threads: solvers.Some(m.setting.Threads), Start: p.Start(start)})
	if err != nil {
		return "", err
	}
	x, ok := r.Solution()
	if !ok {
		return fmt.Sprintf(" %v | %.6f |", r.Status, r.Bound/p.Scale), nil
	}
	device := p.Split(x)
	load, err := in.MaxLoad(device)
	if err != nil {
		return "", fmt.Errorf("%s: the solver's split: %w", in.Name, err)
	}
	if contiguous && !in.Contiguous(device) {
		return "", fmt.Errorf("%s: the solver's split is not contiguous", in.Name)
	}
	return fmt.Sprintf(" %.10f | %.6f |", load, r.Bound/p.Scale), nil
}
