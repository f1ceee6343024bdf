package pipeline

import (
	"encoding/json"
	"testing"

	"workbench/ilp/check"
	"workbench/ilp/formulation"
	"workbench/ilp/ilptest"
	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/testcase"
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
	return ilptest.Fails(t, f, testcase.Pipeline(), o)
}

// Models that are wrong on purpose are caught by the check of formulations.
func TestMutants(t *testing.T) {
	t.Parallel()
	builds := map[string]func(*pipelineInstance) (*formulation.Program, error){
		patternsName: func(in *pipelineInstance) (*formulation.Program, error) {
			f := newColumns(patternsName, in, in.horizon, in.late(in.horizon), 2*in.n)
			f.corrected()
			return f.program(patternsName), nil
		},
	}
	if !testing.Short() {
		builds[strongName] = func(in *pipelineInstance) (*formulation.Program, error) {
			return newStrong(in).program(strongName), nil
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
