//go:build unix

package worker_test

import (
	"testing"

	"workbench/bench/sweep/specification"
	"workbench/bench/sweep/worker"
	"workbench/model/testfile"
)

// Methods that begin with some plan and look for a better one stop at the time
// limit of their task with the best they have, long before they would be killed.
func TestMethodsStopWithWhatTheyHave(t *testing.T) {
	testfile.Long(t)
	if err := backendThere(); err != nil {
		t.Skip(err)
	}
	s, err := specification.Parse("limits.yaml", "", []byte(`
name: limits
time_limit: 100ms
memory: range 40%
experiments:
  - {problem: remat, instances: [{zoo: resnet101}], methods: [chain-milp]}
  - {problem: remat, instances: [{zoo: resnet18, as: graph}], methods: [search, checkmate]}
  - {problem: activation-offload, instances: [{zoo: densenet121, image: 500, batch: 16}], methods: [autoswap, dynprog, search, offload-milp]}
  - {problem: remat-offload, instances: [{zoo: resnet50, image: 500, batch: 16}], methods: [search, remat-offload-milp]}
  - {problem: weight-offload, instances: [{zoo: table1-gpt2, depth: 74, batch: 16}], methods: [search, milp]}
  - {problem: swap, instances: [{zoo: resnet50, as: functions}], methods: [lms-tuned, search, swap-milp]}
  - {problem: pipeline, instances: [{zoo: resnet50, image: 1000, batch: 8}], memory: 10GiB, methods: [madpipe, search, madpipe-milp, branch-and-bound, pipeline-milp]}
`))
	if err != nil {
		t.Fatal(err)
	}
	x, err := s.Expand(t.Context(), "test")
	if err != nil {
		t.Fatal(err)
	}
	runner := &worker.InProcess{Instances: &worker.Folder{}}
	for _, task := range x.Tasks {
		r, plan, err := runner.Run(t.Context(), task)
		switch {
		case err != nil:
			t.Fatal(err)
		case r.Failure != nil:
			t.Errorf("%s %s: %+v", task.Problem, task.Method, r.Failure)
		case len(plan) == 0 || r.Result.Objective == nil:
			t.Errorf("%s %s has no plan: %s %s", task.Problem, task.Method, r.Result.Status, r.Result.Error)
		default:
			t.Logf("%s %s: %s after %.2f s", task.Problem, task.Method, r.Result.Status, r.Result.WallTime)
		}
	}
}
