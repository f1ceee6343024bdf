package torchcsv_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"workbench/heuristics/flush"
	"workbench/model/importer/torchcsv"
	"workbench/model/instance/stages"
	"workbench/model/plan"
	view "workbench/model/problem/flush"
	verifyflush "workbench/model/verify/flush"
)

// The schedules of all classes of torch 2.15 are read and end when testdata/schedules.py says, and a search in the same memory is never
// slower.
func TestClassesOfPyTorch(t *testing.T) {
	t.Parallel()
	archive, err := txtar.ParseFile("testdata/torch-2.15.txtar")
	if err != nil {
		t.Fatal(err)
	}
	classes := map[string]int{}
	for _, file := range archive.Files {
		var class string
		var ranks, jobs int
		var makespan float64
		if _, err := fmt.Sscan(file.Name, &class, &ranks, &jobs, &makespan); err != nil {
			t.Fatal(err)
		}
		classes[class]++
		in := &stages.Partition{Name: class, CommunicationTime: 1}
		count := 2 * ranks
		if class == "GPipe" || class == "1F1B" {
			count = ranks
		}
		for range count {
			in.Stages = append(in.Stages, stages.Stage{
				ForwardTime: 10, BackwardTime: 12, WeightTime: 8, ForwardMemory: 1, BackwardMemory: 0, WeightMemory: -1,
			})
		}
		s, err := torchcsv.Read(strings.NewReader(string(file.Data)), file.Name)
		if err != nil {
			t.Fatal(err)
		}
		free, err := s.Step(in, false)
		if err != nil || free != makespan {
			t.Errorf("%s: %v, step takes %v with free links", file.Name, err, free)
		}
		if queued, err := s.Step(in, true); err != nil || queued < free {
			t.Errorf("%s: %v, step takes %v with queues, %v without", file.Name, err, queued, free)
		}
		p, err := s.Plan(in, file.Name)
		if err != nil {
			t.Errorf("%s: %v", file.Name, err)
			continue
		}
		report, err := verifyflush.Verify(in, p)
		if err != nil || !report.Valid() || report.Makespan != makespan {
			t.Errorf("%s: %v, makespan %v", file.Name, err, report)
		}
		p.Platform.Objective = plan.MakespanObjective
		v, err := view.New(in, p.Platform)
		if err != nil {
			t.Fatal(err)
		}
		o := flush.Improve(t.Context(), v, flush.Goal{Steps: 1, Unproved: true}).Order
		found, err := v.Schedule(o)
		if o == nil || err != nil || found.Objective > makespan {
			t.Errorf("%s: %v, search ends at %v in memory %v", file.Name, err, found, p.Platform.Memory)
		}
	}
	if len(classes) != 7 || classes["ZBVZeroBubble"] != 14 || classes["DualPipeV"] != 10 {
		t.Errorf("%v", classes)
	}
}
