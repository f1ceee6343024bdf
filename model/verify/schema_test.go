package verify_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"workbench/model/plan"
	"workbench/model/plan/plantest"
	"workbench/model/testfile"
)

// What is written is of the schema.
func TestSchemaOfWritten(t *testing.T) {
	validate := testfile.Schema(t, "plan-v1.json")
	_, valid := plantest.TwoLayers()
	period := 2.5
	_, onGraph := fiveNodes()
	_, onJoin := twoBranches()
	_, onChain := threeLayers()
	_, onFunctions := fourFunctions()
	for name, p := range map[string]*plan.Plan{
		"two layers":    valid,
		"no period":     {Problem: "remat", Ops: valid.Ops},
		"a graph":       onGraph,
		"a join":        onJoin,
		"a chain":       onChain,
		"functions":     onFunctions,
		"no operations": {Problem: plan.WeightOffload, Period: &period},
	} {
		var b bytes.Buffer
		if err := p.Write(&b); err != nil {
			t.Fatal(err)
		}
		if err := validate(b.String()); err != nil {
			t.Errorf("%s: %v\n%s", name, err, b.String())
		}
		// Results hold plans as encoding/json writes them.
		p.Format = plan.Format
		if p.Ops == nil {
			p.Ops = []plan.Op{}
		}
		data, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		if err := validate(string(data)); err != nil {
			t.Errorf("%s, by encoding/json: %v", name, err)
		}
	}
}

// The schema and Read take and refuse the same documents.
func TestSchemaAndRead(t *testing.T) {
	validate := testfile.Schema(t, "plan-v1.json")
	for _, x := range []struct {
		name, old, new string
		taken          bool
	}{
		{"as it is", ``, ``, true},
		{"no period", `"period": 2.5,`, ``, true},
		{"null period", `"period": 2.5`, `"period": null`, true},
		{"own fields", `"op":"B"`, `"x-note":{"a":[null]},"op":"B"`, true},
		{"own fields above", `"period"`, `"x-":1,"period"`, true},
		{"no method", `"method": "by hand",`, ``, true},
		{"negative start", `"start":0`, `"start":-1`, true},
		{"negative layer", `"layer":1,"start":0`, `"layer":-1,"start":0`, true},

		{"node for the layer", `"op":"B","layer":1`, `"op":"C","node":"v"`, true},
		{"node and layer", `"op":"B","layer":1`, `"op":"D","node":"v","layer":0`, true},
		{"loss", `"op":"B","layer":1`, `"op":"LOSS"`, true},
		{"function", `"op":"B","layer":1`, `"op":"run","function":1`, true},
		{"function 0", `"op":"B","layer":1`, `"op":"run","function":0`, true},
		{"variable", `"op":"B","layer":1`, `"op":"in","variable":"x"`, true},
		{"variable of a node", `"op":"B","layer":1`, `"op":"C","variable":"x"`, true},
		{"branch", `"op":"B","layer":1`, `"op":"S","layer":0,"branch":2`, true},

		{"k", `"period"`, `"k": 2, "period"`, true},
		{"allocation", `"period"`, `"allocation": [{"processor":0,"from":1,"to":2,"x-":0}], "period"`, true},
		{"no stages", `"period"`, `"allocation": [], "period"`, true},
		{"memory model", `"period"`, `"memory_model": "stage", "period"`, true},
		{"resource and shift", `"op":"B"`, `"resource":"link0-1","shift":-2,"op":"B"`, true},
		{"weight copies", `"memory"`, `"weight_copies": 3, "memory"`, true},

		{"no mini-batch", `"period"`, `"k": 0, "period"`, false},
		{"null k", `"period"`, `"k": null, "period"`, false},
		{"null allocation", `"period"`, `"allocation": null, "period"`, false},
		{"null stage", `"period"`, `"allocation": [null], "period"`, false},
		{"stage without processor", `"period"`, `"allocation": [{"from":1,"to":2}], "period"`, false},
		{"stage without from", `"period"`, `"allocation": [{"processor":0,"to":2}], "period"`, false},
		{"stage without to", `"period"`, `"allocation": [{"processor":0,"from":1}], "period"`, false},
		{"half a processor", `"period"`, `"allocation": [{"processor":0.5,"from":1,"to":2}], "period"`, false},
		{"unknown memory model", `"period"`, `"memory_model": "tasks", "period"`, false},
		{"null memory model", `"period"`, `"memory_model": null, "period"`, false},
		{"null shift", `"op":"B"`, `"shift":null,"op":"B"`, false},
		{"number for a resource", `"op":"B"`, `"resource":0,"op":"B"`, false},
		{"negative weight copies", `"memory"`, `"weight_copies": -1, "memory"`, false},
		{"computation of nothing", `"op":"B","layer":1`, `"op":"C"`, false},
		{"branch without layer", `"op":"B","layer":1`, `"op":"F","branch":1`, false},
		{"run of nothing", `"op":"B","layer":1`, `"op":"run"`, false},
		{"in of nothing", `"op":"B","layer":1`, `"op":"in"`, false},
		{"half a function", `"op":"B","layer":1`, `"op":"run","function":0.5`, false},
		{"null function", `"op":"B","layer":1`, `"op":"run","function":null`, false},
		{"empty variable", `"op":"B","layer":1`, `"op":"in","variable":""`, false},
		{"null variable", `"op":"B","layer":1`, `"op":"in","variable":null`, false},
		{"number for a variable", `"op":"B","layer":1`, `"op":"in","variable":1`, false},
		{"empty node", `"op":"B","layer":1`, `"op":"C","node":""`, false},
		{"null node", `"op":"B","layer":1`, `"op":"C","node":null`, false},
		{"null layer", `"op":"B","layer":1`, `"op":"C","node":"v","layer":null`, false},
		{"number for a node", `"op":"B","layer":1`, `"op":"C","node":1`, false},
		{"half a branch", `"op":"B","layer":1`, `"op":"S","layer":0,"branch":0.5`, false},
		{"version", `plan/v1`, `plan/v2`, false},
		{"no format", `"format": "workbench.plan/v1",`, ``, false},
		{"not an object", plantest.Small, `[]`, false},
		{"truncated", plantest.Small[len(plantest.Small)/2:], ``, false},
		{"trailing data", "}\n}\n", "}\n}{}", false},
		{"unknown field", `"tensor"`, `"tensr"`, false},
		{"unknown field above", `"method"`, `"methods"`, false},
		{"unknown field of the platform", `"bandwidth"`, `"bandwith"`, false},
		{"unknown field of the claims", `"peak_memory"`, `"peak"`, false},
		{"no problem", `"problem": "weight-offload",`, ``, false},
		{"empty problem", `"weight-offload"`, `""`, false},
		{"no platform", plantest.Small[strings.Index(plantest.Small, `"platform"`):strings.Index(plantest.Small, `"period"`)], ``, false},
		{"null platform", `"platform": {`, `"platform": null, "x-platform": {`, false},
		{"no operations", plantest.Small[strings.Index(plantest.Small, `"ops"`):strings.Index(plantest.Small, `"claims"`)], ``, false},
		{"null operations", `"ops": [`, `"ops": null, "x-ops": [`, false},
		{"null operation", `"ops": [`, `"ops": [null,`, false},
		{"operation without kind", `"op":"B",`, ``, false},
		{"operation of empty kind", `"op":"B"`, `"op":""`, false},
		{"operation without layer", `"op":"B","layer":1`, `"op":"B"`, false},
		{"operation without start", `"start":0,`, ``, false},
		{"operation without end", `,"end":1}`, `}`, false},
		{"null start", `"start":0`, `"start":null`, false},
		{"NaN", `"start":0`, `"start":NaN`, false},
		{"out of range", `"start":0`, `"start":-1e999`, false},
		{"half a layer", `"layer":1,"start":0`, `"layer":1.5,"start":0`, false},
		{"layer out of range", `"layer":1,"start":0`, `"layer":99999999999999999999,"start":0`, false},
		{"negative memory", `8589934592`, `-1`, false},
		{"negative bandwidth", `12000000000`, `-1`, false},
		{"negative processors", `"memory"`, `"processors": -1, "memory"`, false},
		{"null instance", `"instance": {`, `"instance": null, "x-instance": {`, false},
		{"number for a name", `"one <layer> & a loss"`, `1`, false},
		{"no time to repeat", `"period": 2.5`, `"period": 0`, false},
		{"text for a number", `"period": 2.5`, `"period": "2.5"`, false},
		{"text for a claim", `"makespan": 2.5`, `"makespan": "2.5"`, false},
		{"list for claims", `"claims": {`, `"claims": [], "x-claims": {`, false},
	} {
		t.Run(x.name, func(t *testing.T) {
			s := strings.Replace(plantest.Small, x.old, x.new, 1)
			if s == plantest.Small && x.old != "" {
				t.Fatal("the mutation changes nothing")
			}
			// What plans of the problem do not say is for TestUndeclared.
			s = strings.Replace(s, `"weight-offload"`, `"another"`, 1)
			if err := validate(s); (err == nil) != x.taken {
				t.Errorf("schema: %v", err)
			}
			if _, err := read(s); (err == nil) != x.taken {
				t.Errorf("Read: %v", err)
			}
		})
	}
}

func read(s string) (*plan.Plan, error) { return plan.Read(strings.NewReader(s), "plan.json") }
