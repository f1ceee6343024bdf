package main

import (
	"fmt"
	"os"
	"path/filepath"

	"workbench/bench/render/plots"
	"workbench/bench/solve"
	"workbench/bench/solve/catalog"
	"workbench/bench/solve/curve"
	"workbench/model/plan"
)

// rates are the bandwidths of [004] Figure 3.6 in GB/s: what was measured, two and
// three times that.
var rates = []float64{12, 24, 36}

// offloadBandwidths draws [004] Figure 3.6 of each instance into a folder: the
// throughput of offloading alone (dynprog) over the memory limit at each of the
// rates, beside that of rematerialization alone (persistent).
func (m *measurer) offloadBandwidths(args []string) error {
	folder, specs := args[0], args[1:]
	if err := m.about(plan.Remat); err != nil {
		return err
	}
	offload, err := catalog.FindProblem(plan.ActivationOffload)
	if err != nil {
		return err
	}
	for _, spec := range specs {
		in, err := solve.Load(spec, os.Stdin)
		if err != nil {
			return err
		}
		f, err := m.throughput(m.problem, "persistent", in)
		if err != nil {
			return err
		}
		f.Title = in.Name + ": offloading or computing again"
		f.Bound = nil // of rematerialization only
		for _, rate := range rates {
			m.setting.Platform.Bandwidth = rate * 1e9
			alone, err := m.throughput(offload, "dynprog", in)
			if err != nil {
				return err
			}
			s := alone.Series[0]
			s.Name = fmt.Sprintf("offloading, %g GB/s", rate)
			f.Series = append(f.Series, s)
		}
		f.Series[0].Name = "rematerialization"
		name := filepath.Join(folder, "offload-bandwidths-"+in.Name+".svg")
		if err := draw(f, name); err != nil {
			return err
		}
		fmt.Println(name)
	}
	return nil
}

// throughput is the figure of a method over its range of memory.
func (m *measurer) throughput(p *solve.Problem, method string, in *solve.Instance) (*plots.Figure, error) {
	found, err := catalog.FindMethod(p, method)
	if err != nil {
		return nil, err
	}
	c := curve.RunCurve(m.ctx, p, []*solve.Method{found}, in, m.setting, curve.OverMemory, curve.Limits(p, in, 31))
	if err := c.Err(); err != nil {
		return nil, err
	}
	return plots.Curve(c, p, curve.Throughput), nil
}
