package flush

import (
	"testing"

	"workbench/ilp/formulation"
	"workbench/ilp/ilptest"
	optimum "workbench/model/exhaustive/flush"
	"workbench/model/instance/stages"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/testcase"
	"workbench/model/testfile"
	"workbench/solvers"
	"workbench/solvers/highs"
	"workbench/solvers/lpsolve"
)

// The first stage sends in no time, and its F takes none: without places, orders of one instant
// are a circle of cost 21, which no plan meets.
func TestNoCircles(t *testing.T) {
	in := &stages.Partition{Name: "circle", Stages: []stages.Stage{
		{BackwardTime: 2, ForwardMemory: 2, BackwardMemory: -2, Weight: 2, OffloadMemory: 2},
		{
			ForwardTime: 2, BackwardTime: 4, WeightTime: 1, ForwardMemory: 7, BackwardMemory: -5, WeightMemory: -2,
			OffloadMemory: 4, OffloadTime: 1,
		},
	}}
	p := platform.Platform{Memory: 9, Processors: 1, MicroBatches: 2, Placement: plan.Interleaved}
	want, best, err := optimum.Search(in, p, testcase.States)
	if err != nil || want != 22 {
		t.Fatalf("%g is the least: %v", want, err)
	}
	for _, build := range []formulation.Builder[*stages.Partition]{Orders, Places} {
		program := ilptest.Must(t, build, in, p)
		ilptest.Starts(t, program, best, want)
		for _, b := range testfile.Few[solvers.Backend](1, highs.New(), lpsolve.New()) {
			if got := program.Objective(ilptest.Optimum(t, b, program.Model)); got < want*(1-plan.Tolerance) || got > want*(1+plan.Tolerance) {
				t.Errorf("%s by %s: %g, not %g", program.Formulation, b.Name(), got, want)
			}
		}
	}
}
