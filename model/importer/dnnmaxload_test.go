package importer_test

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"workbench/model/importer"
	"workbench/model/maxload"
)

const maxLoadFile = `{"maxSizePerFPGA": 100, "maxFPGAs": 2, "maxCPUs": 1,
"nodes": [
 {"id": 7, "name": "a", "supportedOnFpga": 1, "cpuLatency": 10, "fpgaLatency": 1, "isBackwardNode": 0, "colorClass": 1, "size": 3},
 {"id": 5, "name": "b", "supportedOnFpga": 0, "cpuLatency": 20, "fpgaLatency": 2, "isBackwardNode": 0},
 {"id": 3, "name": "b'", "supportedOnFpga": 1, "cpuLatency": 5, "fpgaLatency": 4, "isBackwardNode": 1, "colorClass": 9},
 {"id": 1, "name": "a'", "supportedOnFpga": true, "cpuLatency": 30, "fpgaLatency": 3, "isBackwardNode": true, "colorClass": 1, "size": 2}],
"edges": [
 {"sourceId": 7, "destId": 5, "cost": 0.5},
 {"sourceId": 7, "destId": 1, "cost": 0.5},
 {"sourceId": 5, "destId": 3, "cost": 0.25},
 {"sourceId": 3, "destId": 1, "cost": 0.125}]}`

// Twins are one part; what is read in its own part crosses nothing; a backward without a
// forward comes where the mirror image of its edges has it.
func TestDNNMaxLoad(t *testing.T) {
	in, err := importer.DNNMaxLoad(strings.NewReader(maxLoadFile), "x.json")
	if err != nil {
		t.Fatal(err)
	}
	want := &maxload.Instance{
		Name: "x", Accelerators: 2, CPUs: 1, Memory: 100,
		Parts: []maxload.Part{
			{Name: "a", Accelerator: 4, CPU: 40, Size: 5}, {Name: "b", Accelerator: math.Inf(1), CPU: 20}, {Name: "b'", Accelerator: 4, CPU: 5},
		},
		Values: []maxload.Value{{Cost: 0.5, Parts: []int{0, 1}}, {Cost: 0.25, Parts: []int{1, 2}}, {Cost: 0.125, Parts: []int{2, 0}}},
		Before: [][2]int{{0, 1}, {0, 2}},
	}
	if diff := cmp.Diff(want, in); diff != "" {
		t.Error(diff)
	}
}

func TestDNNMaxLoadErrors(t *testing.T) {
	for _, x := range []struct{ old, new, want string }{
		{`"maxFPGAs": 2`, `"maxFPGAs": -2`, "x.json:1: maxFPGAs: a number of accelerators from 0"},
		{`, "maxCPUs": 1`, ``, "maxCPUs: a number of CPUs from 0"},
		{`"maxFPGAs": 2, "maxCPUs": 1`, `"maxFPGAs": 0, "maxCPUs": 0`, "there is no device"},
		{`"maxSizePerFPGA": 100, `, ``, "the memory of an accelerator is needed"},
		{`"cpuLatency": 10, `, ``, "x.json:3: nodes[0]: cpuLatency is missing"},
		{`"supportedOnFpga": 0`, `"supportedOnFpga": 2`, "x.json:4: nodes[1].supportedOnFpga: 2 is neither"},
		{`"destId": 1, "cost": 0.5`, `"destId": 1, "cost": 0.75`, "x.json:9: edges[1].cost: another edge from node 7 costs 0.5"},
		{`"cost": 0.25`, `"size": 4`, "x.json:10: edges[2]: cost is missing"},
		{`"destId": 3`, `"destId": 4`, "there is no node 4"},
	} {
		text := strings.Replace(maxLoadFile, x.old, x.new, 1)
		if text == maxLoadFile {
			t.Fatalf("the edit of %s changes nothing", x.old)
		}
		if _, err := importer.DNNMaxLoad(strings.NewReader(text), "x.json"); err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("error %v\nwant %s", err, x.want)
		}
	}
}
