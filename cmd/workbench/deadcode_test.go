package main

import (
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// unreached is what no program calls and stays all the same, with the reason: a
// package, or a function of one.
var unreached = map[string]string{
	"workbench/bench/solve/catalog/catalogtest":     "what tests of methods share",
	"workbench/bench/sweep/queue/queuetest":         "the contract of a queue, as a test of each",
	"workbench/bench/sweep/results/resultstest":     "a night made up, for tests of several packages",
	"workbench/ilp/ilptest":                         "what tests of formulations share",
	"workbench/model/testfile":                      "what tests of files share",
	"workbench/model/plan/plantest":                 "chains and plans of weight offloading, for tests of several packages",
	"workbench/model/problem/pipeline/pipelinetest": "instances of pipelines, for tests of several packages",
	"workbench/solvers/solvertest":                  "the contract of a backend, as a test of each",

	"workbench/model/vipr": "the checker of exported certificates, for tests",

	// Judges that tests of other packages ask.
	"workbench/model/problem/pipeline.Instance.ContiguousLoad": "a bound that pipelinetest checks",
	"workbench/heuristics/remat.PeriodicSegments":              "the plan of a number of segments, for tests of Periodic",
	"workbench/heuristics/placement.Placed.Value":              "the objective of a placement, for tests",
	"workbench/solvers/highs.name":                             "", "workbench/solvers/highs.represented": "",
	"workbench/model/exhaustive/rematgraph.StagesLeastMemory": "the least memory of Checkmate's schedules",
	"workbench/model/verify/rematoffload.VerifyFractional":    "the verifier of fractional transfers, which no method has in its plans",

	// For loops in a researcher's file (docs/researchers.md); examples run them.
	"workbench/solvers.NewSession": "", "workbench/solvers.Session.Close": "", "workbench/solvers.Session.Solve": "",
	"workbench/solvers.Session.anew": "", "workbench/solvers.Session.load": "", "workbench/solvers.Session.change": "",
	"workbench/model/milp.Dot": "", "workbench/solvers.Session.addCols": "", "workbench/solvers.Session.addRows": "",
	"workbench/solvers.Session.changeCoefs": "",

	// The libraries in this process; programs run them in one of their own.
	"workbench/solvers/highs.New":   "for tests, which need no isolation",
	"workbench/solvers/lpsolve.New": "for tests, which need no isolation",
	// Their readers judge what package milp writes.
	"workbench/solvers/highs.Read": "", "workbench/solvers/highs.read": "",
	"workbench/solvers/highs.instance.read": "", "workbench/solvers/highs.instance.model": "",
	"workbench/solvers/highs.instance.colName": "", "workbench/solvers/highs.instance.rowName": "",
	"workbench/solvers/highs.lastStatus": "",
	"workbench/solvers/lpsolve.Read":     "", "workbench/solvers/lpsolve.instance.data": "", "workbench/solvers/lpsolve.library.read": "",
	"workbench/solvers/lpsolve.instance.size": "", "workbench/solvers/lpsolve.instance.column": "",
	"workbench/solvers/lpsolve.instance.row": "",
	// Called from C.
	"workbench/solvers/highs.workbenchHighsEvent": "", "workbench/solvers/highs.progressOf": "",
	"workbench/solvers/highs.sink.log": "", "workbench/solvers/highs.sink.incumbent": "", "workbench/solvers/highs.sink.report": "",
	"workbench/solvers/lpsolve.workbenchLPSolveEvent": "", "workbench/solvers/lpsolve.search.closed": "",
	"workbench/solvers/lpsolve.search.log":     "",
	"workbench/solvers/lpsolve.search.relaxed": "", "workbench/solvers/lpsolve.search.incumbent": "",
	"workbench/solvers/lpsolve.search.report":     "",
	"workbench/solvers/lpsolve.tableau.objective": "", "workbench/solvers/lpsolve.roundUp": "",
}

// Nothing that nobody calls: what no main reaches is in the list above, and what
// is in the list is there and not reached.
func TestEverythingIsCalled(t *testing.T) {
	if testing.Short() {
		t.Skip("looks at the whole program for a minute: make lint")
	}
	cmd := exec.Command("go", "tool", "-modfile=tools/go.mod", "deadcode", "-json", "./...")
	cmd.Dir = "../.."
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("deadcode: %v", err)
	}
	var packages []struct {
		Path  string
		Funcs []struct{ Name string }
	}
	if err := json.Unmarshal(out, &packages); err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, p := range packages {
		for _, f := range p.Funcs {
			name := p.Path + "." + f.Name
			if _, ok := unreached[p.Path]; ok {
				name = p.Path
			}
			found = append(found, name)
			if _, ok := unreached[name]; !ok {
				t.Errorf("no program calls %s: call it, delete it, or move it to the tests", strings.TrimPrefix(name, "workbench/"))
			}
		}
	}
	for name := range unreached {
		if !slices.Contains(found, name) {
			t.Errorf("%s is called, or is no more: take it off the list", name)
		}
	}
}
