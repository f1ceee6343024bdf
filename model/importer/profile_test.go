package importer_test

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"workbench/model/importer"
	"workbench/model/instance/chain"
	"workbench/model/problem/pipeline/ideals"
	"workbench/model/strictjson"
	"workbench/model/testfile"
	"workbench/model/zoo"
)

func fixture(t testing.TB, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func pipeDream(text string) (*chain.Chain, []string, error) {
	return importer.PipeDream([]byte(text), "graph.txt")
}

func dnn(text, unit string) (*chain.Chain, []string, error) {
	return importer.DNNPartitioning([]byte(text), "graph.json", importer.DNNOptions{CostUnit: unit})
}

func checkLayers(t *testing.T, got *chain.Chain, want []chain.Layer) {
	t.Helper()
	if d := cmp.Diff(want, got.Layers, cmpopts.EquateApprox(1e-12, 0)); d != "" {
		t.Error(d)
	}
	if err := got.Validate(); err != nil {
		t.Error(err)
	}
}

func checkWarnings(t *testing.T, got, want []string) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("warnings %q, want %q", got, want)
		return
	}
	for i := range want {
		if !strings.Contains(got[i], want[i]) {
			t.Errorf("warning %q, want …%s…", got[i], want[i])
		}
	}
}

// Every trap of the format: ids out of order, descriptions with commas and
// equals signs, tuples, parts of tuples that nobody reads, inputs with times,
// inputs and hidden states that are empty and read late, blank lines, stages.
func TestPipeDream(t *testing.T) {
	c, warnings, err := pipeDream(fixture(t, "traps.graph.txt"))
	if err != nil {
		t.Fatal(err)
	}
	checkLayers(t, c, []chain.Layer{
		{Name: "node3 Conv2d", ForwardTime: 2e-3, BackwardTime: 4e-3, Activation: 800, Saved: 800, Gradient: 800, Weight: 896},
		{Name: "node4 ReLU", ForwardTime: 0.5e-3, BackwardTime: 0.25e-3, Activation: 800, Saved: 800, Gradient: 800},
		// node7 and the empty node8 are read by nobody who counts.
		{
			Name: "node5 EmuLSTM … node9 Add", ForwardTime: 1.125e-3, BackwardTime: 3e-3, Activation: 400, Saved: 432 + 400 + 16 + 400,
			Gradient: 400, Weight: 64,
		},
		{Name: "node10 Linear", ForwardTime: 0.25e-3, BackwardTime: 0.5e-3, Activation: 80, Saved: 80, Gradient: 80, Weight: 72},
	})
	if c.Input != (chain.Input{Activation: 300, Gradient: 300}) {
		t.Errorf("input %+v", c.Input)
	}
	checkWarnings(t, warnings, []string{"node1 Input0: 0.6359 s of loading data are left out"})
	if c.Source["kind"] != "measured" || c.Source["nodes"] != 10.0 || c.Source["edges"] != 10.0 {
		t.Errorf("source %v", c.Source)
	}
}

func TestPipeDreamErrors(t *testing.T) {
	good := fixture(t, "traps.graph.txt")
	for _, x := range []struct{ name, old, new, want string }{
		{"empty", good, "", "graph.txt:1: there is no node"},
		{"another format", good, "{\"nodes\": []}\n", `graph.txt:1: "{\"nodes\": []}" is no node`},
		{"duplicate id", "node2 -- Input1", "node1 -- Input1", "graph.txt:3: node node1 stands on line 2 already"},
		{"missing node", "\tnode1 -- node3", "\tnode0 -- node3", "graph.txt:12: there is no node node0"},
		{"missing destination", "\tnode9 -- node10", "\tnode9 -- node11", "graph.txt:21: there is no node node11"},
		{"truncated edge", "\tnode9 -- node10\n", "\tnode9 -- ", `graph.txt:21: "\tnode9 -- " is no edge`},
		{"half an edge", "\tnode9 -- node10\n", "\tnode9", `graph.txt:21: "\tnode9" is no edge`},
		{"last edge lost", "\tnode9 -- node10\n", "", "graph.txt:11: no edge leads to or from node10 Linear: has the file lost its end?"},
		{"truncated node", good[strings.Index(good, ", parameter_size=64.000"):], "", "graph.txt:6: node5: parameter_size is missing"},
		{"node without metadata", " -- forward_compute_time=0.500, backward_compute_time=0.250, activation_size=800.0, parameter_size=0.000 " +
			"-- stage_id=0", "", "graph.txt:4: "},
		{"bad number", "=4.000", "=4.0.0", `graph.txt:1: node3: backward_compute_time: "4.0.0" is not a finite number`},
		{"negative", "=4.000", "=-4.000", `graph.txt:1: node3: backward_compute_time: "-4.000" is not a finite number of at least 0`},
		{"NaN", "=4.000", "=nan", `graph.txt:1: node3: backward_compute_time: "nan"`},
		{"infinite", "=4.000", "=1e999", `graph.txt:1: node3: backward_compute_time: "1e999"`},
		{
			"open list", "[400.0; 16.0; 16.0]", "[400.0; 16.0; 16.0",
			`graph.txt:6: node5: activation_size: "[400.0; 16.0; 16.0" lacks its closing bracket`,
		},
		{"bad list", "[400.0; 16.0; 16.0]", "[400.0; x]", `graph.txt:6: node5: activation_size: "[400.0; x]" is not`},
		{"key twice", "backward_compute_time=4.000", "forward_compute_time=4.000", "graph.txt:1: node3: forward_compute_time stands twice"},
		{"no key", "backward_compute_time=4.000", "4.000", `graph.txt:1: node3: "4.000" is not key=value`},
		{
			"cycle", "\tnode9 -- node10\n", "\tnode9 -- node10\n\tnode10 -- node9\n",
			"graph.txt:21: the edges node9 Add → node10 Linear → node9 Add form a cycle",
		},
		{"self", "\tnode9 -- node10\n", "\tnode9 -- node10\n\tnode9 -- node9\n", "graph.txt:22: the edges node9 Add → node9 Add form a cycle"},
		{"into an input", "\tnode1 -- node3", "\tnode3 -- node1", "graph.txt:12: node1 Input0 is an input, but node3 Conv2d leads to it"},
		{
			"only inputs", good, "a -- Input0 -- forward_compute_time=0.0, backward_compute_time=0.0, activation_size=1.0, parameter_size=0.0\n",
			"graph.txt:1: every node is an input",
		},
		{"no id", "node1 -- Input0", " -- Input0", "graph.txt:2: the id of the node is missing"},
	} {
		t.Run(x.name, func(t *testing.T) {
			text := strings.Replace(good, x.old, x.new, 1)
			if text == good {
				t.Fatal("the edit changes nothing")
			}
			_, _, err := pipeDream(text)
			var located *importer.Error
			if !errors.As(err, &located) || !strings.HasPrefix(err.Error(), x.want) {
				t.Errorf("error %v\nwant  %s…", err, x.want)
			}
		})
	}
}

// A training graph of layers: ids out of order, an input with a time, an empty
// one that is read late, 0 and false, a missing size of a node and of an edge,
// part of a tuple at the end, backward twins.
func TestLayerGraph(t *testing.T) {
	c, warnings, err := dnn(fixture(t, "layers.json"), "s")
	if err != nil {
		t.Fatal(err)
	}
	checkLayers(t, c, []chain.Layer{
		{Name: "node3", ForwardTime: 2e-3, BackwardTime: 4e-3, Activation: 800, Saved: 800, Gradient: 800, Weight: 896},
		{Name: "node4", ForwardTime: 1e-3, BackwardTime: 3e-3, Activation: 400, Saved: 400 + 16, Gradient: 400, Weight: 64},
		{Name: "node6", ForwardTime: 0.5e-3, Weight: 72},
	})
	if c.Input != (chain.Input{Activation: 300, Gradient: 300}) {
		t.Errorf("input %+v", c.Input)
	}
	checkWarnings(t, warnings, []string{
		"size and cost of 1 edges disagree by more than twice (edge 31→11: 300 bytes",
		"1 edge without a size: it is taken from the cost",
		"node1: 0.018 s of loading data are left out",
		"no node reads node6, so that its output is unknown: its 72 bytes are treated as weights",
	})
}

// A training graph of operators: weights as nodes, one of them shared, handles
// of an eighth of a byte, an operation that saves more than it writes, backward
// nodes by colour and without twin.
func TestOperatorGraph(t *testing.T) {
	c, warnings, err := dnn(fixture(t, "operators.json"), "ms")
	if err != nil {
		t.Fatal(err)
	}
	checkLayers(t, c, []chain.Layer{
		{Name: "Conv", ForwardTime: 4e-3, BackwardTime: 8e-3, Activation: 4096, Saved: 4096, Gradient: 4096, Weight: 1024},
		// The sum of gradients reads MatMul's backward, which reads BatchNorm.
		{Name: "BatchNorm … BatchNorm_out", ForwardTime: 1e-3, Activation: 4096, Saved: 64 + 4096, Gradient: 4096},
		{Name: "MatMul", ForwardTime: 0.5e-3, BackwardTime: (1 + 0.125) * 1e-3, Activation: 2048, Saved: 2048, Gradient: 2048, Weight: 2048},
		{Name: "Softmax", ForwardTime: 0.25e-3, BackwardTime: 0.0625e-3, Activation: 512, Saved: 512, Gradient: 512},
	})
	checkWarnings(t, warnings, []string{"2 nodes backward without a forward twin by name or colour class"})
}

// As a graph the file has the times and weights that it has as a chain, and is one that
// pipelines take.
func TestDNNGraph(t *testing.T) {
	for file, unit := range map[string]string{"operators.json": "ms", "layers.json": "s"} {
		c, _, err := dnn(fixture(t, file), unit)
		if err != nil {
			t.Fatal(err)
		}
		g, warnings, err := importer.DNNPartitioningGraph([]byte(fixture(t, file)), "graph.json", importer.DNNOptions{CostUnit: unit})
		if err != nil {
			t.Fatal(err)
		}
		weight := 0.0
		for i := range g.Nodes {
			weight += g.Nodes[i].Weight
		}
		if want := c.Totals(); math.Abs(g.TotalTime()-c.TotalTime()) > 1e-12 || weight != want.Weight {
			t.Errorf("%s: %g s and %g bytes of weights, as a chain %g s and %g", file, g.TotalTime(), weight, c.TotalTime(), want.Weight)
		}
		if _, err := ideals.New(g); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		if len(warnings) == 0 && file == "operators.json" {
			t.Error("nothing is said of backward nodes without twin")
		}
	}
}

// The unit of costs is told apart by the sizes, with a warning; one that
// disagrees is another warning.
func TestCostUnit(t *testing.T) {
	for _, x := range []struct {
		file, unit string
		want       []string
	}{
		{"operators.json", "", []string{"costs of edges are taken to be in ms"}},
		{"operators.json", "ms", nil},
		{"operators.json", "s", []string{"with costs in s, size and cost of 13 edges disagree by more than twice (edge 0→2: 1024 bytes, " +
			"0.000476837158203125 s"}},
		{"layers.json", "", []string{"costs of edges are taken to be in s"}},
		{"layers.json", "ms", []string{"with costs in ms, size and cost of 5 edges disagree"}},
	} {
		_, warnings, err := dnn(fixture(t, x.file), x.unit)
		if err != nil {
			t.Fatal(err)
		}
		got := slices.DeleteFunc(warnings, func(w string) bool {
			return !strings.Contains(w, "costs") || strings.Contains(w, "of 1 edges")
		})
		checkWarnings(t, got, x.want)
	}
	if _, _, err := dnn(fixture(t, "layers.json"), "minutes"); err == nil ||
		!strings.Contains(err.Error(), `cost unit "minutes": s or ms is needed`) {
		t.Errorf("minutes: error %v", err)
	}
}

func TestDNNErrors(t *testing.T) {
	good := fixture(t, "layers.json")
	for _, x := range []struct{ name, old, new, want string }{
		{"empty", good, "", "graph.json:1: the file is empty"},
		{"truncated", good[strings.Index(good, `, "size": 0.0}`):], "", "graph.json:18: edges[4].cost: the file ends in the middle"},
		{"another format", good, "[]", "graph.json:1: "},
		{"no nodes", `"nodes"`, `"knots"`, "graph.json:1: nodes: there is no node"},
		{"duplicate id", `"id": 10`, `"id": 30`, "graph.json:5: nodes[2].id: there is another node 30"},
		{"no id", `"id": 30, `, ``, "graph.json:3: nodes[0]: id is missing"},
		{"id is a text", `"id": 30`, `"id": "30"`, "graph.json:3: nodes[0].id: a text where an integer is needed"},
		{"no latency", `"fpgaLatency": 2.0, `, ``, "graph.json:3: nodes[0]: fpgaLatency is missing"},
		{"negative latency", `"fpgaLatency": 2.0`, `"fpgaLatency": -2.0`, "graph.json:3: nodes[0].fpgaLatency: -2 is negative"},
		{"NaN", `"fpgaLatency": 2.0`, `"fpgaLatency": NaN`, "graph.json:3: nodes[0].fpgaLatency: not JSON"},
		{"out of range", `"fpgaLatency": 2.0`, `"fpgaLatency": 1e999`, "graph.json:3: nodes[0].fpgaLatency: 1e999 is out of range"},
		{"negative size", `"size": 1696.0`, `"size": -1`, "graph.json:3: nodes[0].size: -1 is negative"},
		{
			"backward", `"isBackwardNode": 0`, `"isBackwardNode": 2`,
			"graph.json:3: nodes[0].isBackwardNode: 2 is neither true nor false nor 0 nor 1",
		},
		{"missing node", `"sourceId": 40`, `"sourceId": 44`, "graph.json:14: edges[0].sourceId: there is no node 44"},
		{"missing destination", `"destId": 60`, `"destId": 66`, "graph.json:14: edges[0].destId: there is no node 66"},
		{"no source", `"sourceId": 40, `, ``, "graph.json:14: edges[0]: sourceId is missing"},
		{"no destination", `"destId": 60, `, ``, "graph.json:14: edges[0]: destId is missing"},
		{"negative edge", `"size": 400.0`, `"size": -4`, "graph.json:14: edges[0].size: -4 is negative"},
		{"negative cost", `"cost": 1.8`, `"cost": -1.8`, "graph.json:14: edges[0].cost: -1.8"},
		{"neither size nor cost", `, "cost": 1.396983861923218e-07`, ``, "graph.json:17: edges[3]: cost and size are missing"},
		{"cycle", `"sourceId": 40, "destId": 70`, `"sourceId": 40, "destId": 30`, "graph.json:16: the edges node3 → node4 → node3 form a cycle"},
	} {
		t.Run(x.name, func(t *testing.T) {
			text := strings.Replace(good, x.old, x.new, 1)
			if text == good {
				t.Fatal("the edit changes nothing")
			}
			_, _, err := dnn(text, "s")
			var inFormat *strictjson.Error
			var inGraph *importer.Error
			if !errors.As(err, &inFormat) && !errors.As(err, &inGraph) || !strings.HasPrefix(err.Error(), x.want) {
				t.Errorf("error %v\nwant  %s…", err, x.want)
			}
		})
	}
}

// A chain is named after its file, or after the folder of a file that is called as
// all of its kind are.
func TestNames(t *testing.T) {
	text := fixture(t, "traps.graph.txt")
	for file, want := range map[string]string{
		"vgg16/graph.txt": "vgg16", `profiles\alexnet\graph.txt`: "alexnet", "graph.txt": "graph", "/graph.txt": "graph",
		"vgg16/gnmt.txt": "gnmt",
	} {
		c, _, err := importer.PipeDream([]byte(text), file)
		if err != nil || c.Name != want {
			t.Errorf("%s: %v, %v, want %s", file, c, err, want)
		}
	}
}

// measured reads a profile made elsewhere. Not every checkout has them.
func measured(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(testfile.Shared(t, name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// Operations, edges and sums of the published profiles, as their README has them.
func TestMeasuredPipeDream(t *testing.T) {
	for _, x := range []struct {
		name                                 string
		nodes, edges                         float64
		forward, backward, activations, mass float64 // ms, ms, GB, MB
		layers                               int
	}{
		{"vgg16", 41, 41, 233.9, 438.6, 14.76, 553, 39},
		{"alexnet", 23, 23, 44.8, 40.5, 1.28, 244, 21},
		{"resnet18", 71, 79, 107.4, 152.3, 8.58, 47, 23},
		{"resnet50", 177, 193, 182.5, 260.9, 19.31, 102, 39},
		{"gnmt", 48, 58, 33.5, 55.9, 0.41, 775, 3},
	} {
		t.Run(x.name, func(t *testing.T) {
			f := measured(t, "pipedream/"+x.name+"/graph.txt")
			c, _, err := importer.PipeDream(f, "pipedream/"+x.name+"/graph.txt")
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Validate(); err != nil {
				t.Error(err)
			}
			all := c.Totals()
			for _, y := range []struct {
				what              string
				got, want, within float64
			}{
				{"nodes", c.Source["nodes"].(float64), x.nodes, 0},
				{"edges", c.Source["edges"].(float64), x.edges, 0},
				{"forward", all.ForwardTime * 1e3, x.forward, 0.05},
				{"backward", all.BackwardTime * 1e3, x.backward, 0.05},
				{"activations", (all.Saved + c.Input.Activation) / 1e9, x.activations, 0.005},
				{"parameters", all.Weight / 1e6, x.mass, 0.5},
				{"layers", float64(c.Len()), float64(x.layers), 0},
			} {
				if math.Abs(y.got-y.want) > y.within {
					t.Errorf("%s: %v, want %v", y.what, y.got, y.want)
				}
			}
			if c.Name != x.name {
				t.Errorf("name %s", c.Name)
			}
		})
	}
}

// Profiles and generated networks agree on what neither measures: parameters
// and the size of the input.
func TestMeasuredAgainstZoo(t *testing.T) {
	for name, batch := range map[string]string{"vgg16": "128", "resnet50": "128", "resnet18": "256"} {
		f := measured(t, "pipedream/"+name+"/graph.txt")
		c, _, err := importer.PipeDream(f, "pipedream/"+name+"/graph.txt")
		if err != nil {
			t.Fatal(err)
		}
		z, err := zoo.Load("zoo:" + name + "?batch=" + batch)
		if err != nil {
			t.Fatal(err)
		}
		if a, b := c.Totals().Weight, z.Totals().Weight; a != b {
			t.Errorf("%s weighs %v in the profile, %v in the zoo", name, a, b)
		}
		if c.Input.Activation != z.Input.Activation {
			t.Errorf("%s reads %v in the profile, %v in the zoo", name, c.Input.Activation, z.Input.Activation)
		}
	}
}

func TestMeasuredDNN(t *testing.T) {
	for _, x := range []struct {
		name, unit        string
		layers            int
		forward, backward float64 // ms, the sums over the file's nodes without inputs
	}{
		{"LayerGraphs-bert24_inference", "s", 26, 92.406, 0},
		{"LayerGraphs-bert24_training", "s", 26, 92.406, 125.407},
		{"LayerGraphs-resnet50_inference", "s", 39, 201.450 - 18.962, 0},
		{"OperatorGraphs-bert_l-3_inference", "ms", 1, 49.352568946342295, 0},
		{"OperatorGraphs-resnet50_inference", "ms", 40, 325.13198946094656, 0},
	} {
		t.Run(x.name, func(t *testing.T) {
			f := measured(t, "dnn-partitioning/"+x.name+".json")
			c, warnings, err := importer.DNNPartitioning(f, "dnn-partitioning/"+x.name+".json", importer.DNNOptions{CostUnit: x.unit})
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Validate(); err != nil {
				t.Error(err)
			}
			all := c.Totals()
			if c.Len() != x.layers || math.Abs(all.ForwardTime*1e3-x.forward) > 1e-6 || math.Abs(all.BackwardTime*1e3-x.backward) > 1e-6 {
				t.Errorf("%d layers, %v + %v ms; want %d, %v + %v", c.Len(), all.ForwardTime*1e3, all.BackwardTime*1e3, x.layers, x.forward, x.backward)
			}
			silent := all.BackwardTime > 0
			if slices.ContainsFunc(warnings, func(w string) bool { return strings.Contains(w, "no backward times") }) == silent {
				t.Errorf("warnings %q", warnings)
			}
		})
	}
	// The same network in three formats has the same weights.
	f := measured(t, "dnn-partitioning/OperatorGraphs-resnet50_inference.json")
	c, _, err := importer.DNNPartitioning(f, "dnn-partitioning/OperatorGraphs-resnet50_inference.json", importer.DNNOptions{CostUnit: "ms"})
	if err != nil {
		t.Fatal(err)
	}
	if want := 4 * 25_557_032.0; c.Totals().Weight != want {
		t.Errorf("ResNet-50 of operators weighs %v, want %v", c.Totals().Weight, want)
	}
}

func FuzzPipeDream(f *testing.F) {
	f.Add(fixture(f, "traps.graph.txt"))
	f.Add("a -- ReLU -- forward_compute_time=1, backward_compute_time=1, activation_size=[1;2], parameter_size=0\n")
	f.Add("\ta -- b\n")
	f.Fuzz(func(t *testing.T, text string) {
		c, _, err := pipeDream(text)
		checkOutcome(t, c, err, "graph.txt:")
	})
}

func FuzzDNNPartitioning(f *testing.F) {
	f.Add(fixture(f, "layers.json"))
	f.Add(fixture(f, "operators.json"))
	f.Add(`{"nodes":[{"id":1,"fpgaLatency":1}],"edges":[]}`)
	f.Add(`{"nodes":[{"id":1,"fpgaLatency":1,"isBackwardNode":1}],"edges":[{"sourceId":1,"destId":1,"cost":1}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		c, _, err := dnn(text, "")
		checkOutcome(t, c, err, "graph.json:")
	})
}

func checkOutcome(t *testing.T, c *chain.Chain, err error, prefix string) {
	if err != nil {
		if !strings.HasPrefix(err.Error(), prefix) {
			t.Errorf("error %q", err)
		}
		return
	}
	if err := c.Validate(); err != nil {
		t.Errorf("an invalid chain: %v", err)
	}
}
