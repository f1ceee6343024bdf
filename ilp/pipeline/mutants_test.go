package pipeline

import (
	"encoding/json"
	"math"
	"testing"

	"workbench/ilp/check"
	"workbench/ilp/formulation"
	"workbench/ilp/ilptest"
	"workbench/model/chain"
	"workbench/model/milp"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/subject"
)

// wrong reports whether the check sees that a formulation is built by another function.
func wrong(t *testing.T, name string, o check.Options, build func(*pipelineInstance) (*formulation.Program, error)) bool {
	t.Helper()
	f := ilptest.Formulation(t, Formulations(), name)
	f.Build = func(x plan.Instance, p platform.Platform, _ json.RawMessage) (*formulation.Program, error) {
		in, err := newWholePipeline(x.(*chain.Chain), p, plan.TaskModel)
		if err != nil {
			return nil, err
		}
		return build(in)
	}
	return ilptest.Fails(t, f, subject.Pipeline(), o)
}

// Models that are wrong on purpose are caught by the check of formulations.
func TestMutants(t *testing.T) {
	t.Parallel()
	builds := map[string]func(*pipelineInstance) (*formulation.Program, error){
		allocationName: func(in *pipelineInstance) (*formulation.Program, error) {
			_, program, err := allocations(in, AllocationOptions{})
			return program, err
		},
		patternsName: func(in *pipelineInstance) (*formulation.Program, error) {
			f := newColumns(patternsName, in, in.horizon, in.late(in.horizon), 2*in.n)
			f.corrected()
			return f.program(patternsName), nil
		},
	}
	if !testing.Short() {
		builds[strongName] = func(in *pipelineInstance) (*formulation.Program, error) {
			f := newColumns(strongName, in, in.horizon, in.late(in.horizon), in.n)
			f.buildStrong()
			return f.program(strongName), nil
		}
	} else {
		delete(builds, patternsName)
	}
	last := func(x []float64) *float64 { return &x[len(x)-1] }
	for what, spoil := range map[string]func(in *pipelineInstance){
		"computations take 1.2 times as long":       func(in *pipelineInstance) { scaled(in.d, 1.2) },
		"a backward of another layer":               func(in *pipelineInstance) { in.d[in.n] += in.d[0] },
		"communications take twice as long":         func(in *pipelineInstance) { scaled(in.comm, 2) },
		"a tenth of the memory is missing":          func(in *pipelineInstance) { in.memory *= 0.9 },
		"inputs are those of the next layer":        func(in *pipelineInstance) { copy(in.stored, in.stored[1:]); *last(in.stored) += 1 << 8 },
		"weights are there once more":               func(in *pipelineInstance) { scaled(in.weight, 2) },
		"outputs are twice as large, buffers, too":  func(in *pipelineInstance) { scaled(in.out, 2) },
		"what tasks need while they run is doubled": func(in *pipelineInstance) { scaled(in.run, 2) },
	} {
		for name, build := range builds {
			if !wrong(t, name, check.Options{Seed: 5, Cases: 60, Layers: 2}, func(in *pipelineInstance) (*formulation.Program, error) {
				spoil(in)
				return build(in)
			}) {
				t.Errorf("%s: nobody sees that %s", name, what)
			}
		}
	}
}

func scaled(x []float64, by float64) {
	for i := range x {
		x[i] *= by
	}
}

// Rows that are wrong, too: a load without the last layer's sign, one of another
// processor, and a count of pieces that is one too low from four layers on.
func TestMutantRows(t *testing.T) {
	t.Parallel()
	spoilt := func(group string, least int, spoil func(d *milp.Data, row int)) func(*pipelineInstance) (*formulation.Program, error) {
		return func(in *pipelineInstance) (*formulation.Program, error) {
			_, program, err := allocations(in, AllocationOptions{})
			if err != nil || in.n < least {
				return program, err
			}
			d := program.Model.Data()
			for i, g := range d.RowGroup {
				if d.Groups[g].Name == group {
					spoil(&d, i)
				}
			}
			program.Model, program.Start = milp.FromData(d), nil
			return program, program.Model.Err()
		}
	}
	copied := func(x []float64) []float64 { return append([]float64(nil), x...) }
	for what, x := range map[string]struct {
		group string
		least int
		spoil func(d *milp.Data, row int)
	}{
		"loads have another sign": {"load", 1, func(d *milp.Data, row int) {
			d.Val = copied(d.Val)
			for k := d.Start[row]; k < d.Start[row+1]; k++ {
				if v := d.Val[k]; v > 0 {
					d.Val[k] = 0.5 * v
				}
			}
		}},
		"a cut takes a unit longer": {"cut", 1, func(d *milp.Data, row int) {
			d.RowLower = copied(d.RowLower)
			d.RowLower[row]++
		}},
		"all loads of one processor less": {"all loads", 1, func(d *milp.Data, row int) {
			d.Val = copied(d.Val)
			for k := d.Start[row]; k < d.Start[row+1]; k++ {
				d.Val[k] = math.Max(1, d.Val[k]-1)
			}
		}},
		"one run less is a way through four layers": {"path", 4, func(d *milp.Data, row int) {
			if d.RowLower[row] == 1 {
				d.RowLower, d.RowUpper = copied(d.RowLower), copied(d.RowUpper)
				d.RowLower[row], d.RowUpper[row] = 2, 2
			}
		}},
	} {
		if !wrong(t, allocationName, check.Options{Seed: 5, Cases: 80, Layers: max(2, x.least)}, spoilt(x.group, x.least, x.spoil)) {
			t.Errorf("nobody sees that %s", what)
		}
	}
}
