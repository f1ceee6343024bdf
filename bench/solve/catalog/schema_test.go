package catalog_test

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"workbench/bench/solve"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/proof"
	"workbench/model/strictjson"
	"workbench/model/testfile"
)

// full is a result with every field that is stored.
func full() *solve.Result {
	number := func(x float64) *float64 { return &x }
	nodes := int64(17)
	instance := plan.InstanceRef{Name: "one layer", SHA256: strings.Repeat("0f", 32), Source: "zoo:one"}
	machine := platform.Platform{Memory: 8 << 30, Bandwidth: 12e9, Processors: 1}
	return &solve.Result{
		Format: solve.ResultFormat, Problem: plan.WeightOffload, Method: "milp", Kind: solve.Exact,
		Instance: instance, Platform: machine,
		Budget:     &solve.Budget{GPU: 16, Weights: 1, Gradients: 1, Optimizer: 2, Inputs: 1, Reserve: 1, Memory: 10},
		Parameters: solve.Parameters{TimeLimit: 60, Gap: 1e-4, Threads: 2},
		Status:     solve.Optimal, Error: "none", Note: "for the test",
		Objective: number(2), Bound: &solve.Bound{Value: 1.5, By: "load", Proof: proof.Search, Assumptions: []string{}},
		Conditional: &solve.Bound{Value: 2, By: "weights", Proof: proof.Certified, Assumptions: []string{"[001] §6"}}, Gap: number(0.25),
		OptimalWithin: []string{"[001] §6"}, Claims: []proof.Claim{{By: "highs", Value: 2, Status: "optimal", Why: "not certified"}},
		Ended:    proof.NoProof,
		Makespan: number(2), PeakMemory: number(10), Span: number(1.5), GPUMemory: []float64{10, 8}, Throughput: number(16), WallTime: 0.5,
		CPUTime:     0.75,
		Backend:     &solve.BackendRef{Name: "highs", Version: "1.12.0"},
		Formulation: &solve.Formulation{Name: "weights", Version: "1", Variables: 5, Integers: 4, Constraints: 3, Nonzeros: 9},
		Nodes:       &nodes, Seed: -3,
		Plan: &plan.Plan{
			Format: plan.Format, Problem: plan.WeightOffload, Method: "milp", Instance: instance, Platform: machine, Period: number(2),
			Ops:    []plan.Op{{Op: plan.OpB, Layer: 1, Start: 0, End: 1}, {Op: plan.OpF, Layer: 1, Start: 1, End: 2}},
			Claims: plan.Claims{Makespan: 2, PeakMemory: 10},
		},
	}
}

func writeResult(t *testing.T, r *solve.Result) string {
	t.Helper()
	var b bytes.Buffer
	if err := r.WriteJSON(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// What is written is of the schema and read back to the same.
func TestResultSchema(t *testing.T) {
	validate := testfile.Schema(t, "result-v1.json")
	results := map[string]*solve.Result{"full": full()}
	for _, status := range []solve.Status{solve.Optimal, solve.Feasible, solve.Infeasible, solve.Limit, solve.Failed} {
		for _, kind := range []solve.Kind{solve.Heuristic, solve.Exact, solve.Relaxed} {
			results[string(status)+", "+string(kind)] = &solve.Result{
				Format: solve.ResultFormat, Problem: plan.WeightOffload, Method: "m", Kind: kind, Status: status,
			}
		}
	}
	for name, r := range results {
		s := writeResult(t, r)
		if err := validate(s); err != nil {
			t.Errorf("%s: %v\n%s", name, err, s)
		}
		var again solve.Result
		if err := strictjson.Decode([]byte(s), "result.json", &again); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(r, &again, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s (-written +read):\n%s", name, diff)
		}
	}
	r := full()
	*r.Gap = math.NaN()
	if err := r.WriteJSON(&bytes.Buffer{}); err == nil {
		t.Error("NaN was written")
	}
}

// Documents that are refused by the schema and, where they are of the wrong
// form and not of wrong meaning, by the decoder.
func TestBrokenResults(t *testing.T) {
	validate := testfile.Schema(t, "result-v1.json")
	document := writeResult(t, full())
	for _, x := range []struct {
		name, old, new string
		form           bool
	}{
		{"not an object", document, `[]`, true},
		{"truncated", document[len(document)/2:], ``, true},
		{"unknown field", `"wall_time"`, `"walltime"`, true},
		{"unknown field of the bound", `"assumptions"`, `"assuming"`, true},
		{"unknown field of the plan", `"claims"`, `"claim"`, true},
		{"text for a number", `"wall_time": 0.5`, `"wall_time": "0.5"`, true},
		{"null for a number", `"wall_time": 0.5`, `"wall_time": null`, true},
		{"null for what may be left out", `"nodes": 17`, `"nodes": null`, true},
		{"fraction of a node", `"nodes": 17`, `"nodes": 17.5`, true},
		{"list for parameters", `"parameters": {`, `"parameters": [], "x-parameters": {`, true},
		{"NaN", `"gap": 0.25,`, `"gap": NaN,`, true},

		{"version", `result/v1`, `result/v2`, false},
		{"version of the plan", `plan/v1`, `plan/v2`, false},
		{"no status", `"status": "optimal",`, ``, false},
		{"unknown status", `"optimal"`, `"best"`, false},
		{"unknown kind", `"exact"`, `"precise"`, false},
		{"no objective", `"objective": 2,`, ``, false},
		{"unknown proof", `"proof": "search"`, `"proof": "hearsay"`, false},
		{"bound by nobody", `"by": "load",`, ``, false},
		{"negative time", `"cpu_time": 0.75`, `"cpu_time": -0.75`, false},
	} {
		t.Run(x.name, func(t *testing.T) {
			s := strings.Replace(document, x.old, x.new, 1)
			if s == document {
				t.Fatal("the mutation changes nothing")
			}
			if err := validate(s); err == nil {
				t.Error("the schema takes it")
			}
			if err := strictjson.Decode([]byte(s), "result.json", &solve.Result{}); (err != nil) != x.form {
				t.Errorf("decoder: %v", err)
			}
		})
	}
}
