package periodic_test

import (
	"testing"

	"workbench/model/exhaustive"
	"workbench/model/partition"
	"workbench/model/periodic"
	"workbench/model/plan"
	"workbench/model/platform"
)

// Of four stages in a V, gpu0 has the first and the last. In 4 units beside the weights it cannot
// hold a micro-batch in both; where everything takes no time, or next to none beside one forward, each
// operation could be at the instant of what it waits for, in an order in which none can begin.
func TestOperationsThatWaitForEachOther(t *testing.T) {
	for _, long := range []float64{0, 1e6} {
		for _, short := range []float64{0, 1e-12} {
			in := &partition.Partition{Name: "v", Stages: make([]partition.Stage, 4)}
			for i := range in.Stages {
				in.Stages[i] = partition.Stage{ForwardTime: short, BackwardTime: short, ForwardMemory: 4, BackwardMemory: -4}
			}
			in.Stages[1].ForwardTime += long
			p := platform.Platform{Memory: 4, Processors: 2, MicroBatches: 1, Placement: plan.VShaped, Objective: plan.SpanObjective}
			if least, _, err := exhaustive.Flush(in, p, 1<<20); err == nil {
				t.Errorf("exhaustive search has a plan of %v s", least)
			}
			p.Memory = 8
			_, best, err := exhaustive.Flush(in, p, 1<<20)
			if err != nil {
				t.Fatal(err)
			}
			if r, err := periodic.VerifyFlush(in, best); err != nil || !r.Valid() {
				t.Fatalf("%v, %+v", err, r)
			}
			bad := plan.New(plan.Flush, "none", in, p)
			bad.Platform.Memory = 4
			add := func(op string, stage int, gpu string, at float64) {
				s := &in.Stages[stage-1]
				length := s.BackwardTime
				if op == plan.OpF {
					length = s.ForwardTime
				}
				bad.Ops = append(bad.Ops, plan.Op{Op: op, Stage: stage, MicroBatch: 1, Resource: gpu, Start: at, End: at + length})
			}
			end := short + in.Stages[1].ForwardTime
			add(plan.OpF, 1, "gpu0", 0)
			add(plan.OpB, 1, "gpu0", end)
			add(plan.OpF, 4, "gpu0", end)
			add(plan.OpB, 4, "gpu0", end)
			add(plan.OpF, 2, "gpu1", short)
			add(plan.OpB, 2, "gpu1", end)
			add(plan.OpF, 3, "gpu1", end)
			add(plan.OpB, 3, "gpu1", end)
			r, err := periodic.VerifyFlush(in, bad)
			if err != nil {
				t.Fatal(err)
			}
			if r.Valid() {
				t.Errorf("a plan whose operations wait for each other is valid, with times of %v and %v s", long, short)
			}
		}
	}
}
