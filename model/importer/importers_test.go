package importer_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"workbench/model/importer"
	"workbench/model/instance/chain"
	"workbench/model/instance/graph"
	"workbench/model/testfile"
)

func pipeDreamGraph(text string) (*graph.Graph, []string, error) {
	return importer.PipeDreamGraph([]byte(text), "graph.txt")
}

func checkGraphFile(t *testing.T, g *graph.Graph, golden string) {
	t.Helper()
	if err := g.Validate(); err != nil {
		t.Error(err)
	}
	var b strings.Builder
	if err := g.Write(&b); err != nil {
		t.Fatal(err)
	}
	testfile.Golden(t, golden, b.String())
}

// The same traps as for chains: see TestPipeDream.
func TestPipeDreamGraph(t *testing.T) {
	g, warnings, err := pipeDreamGraph(fixture(t, "traps.graph.txt"))
	if err != nil {
		t.Fatal(err)
	}
	checkGraphFile(t, g, "traps.graph.json")
	checkWarnings(t, warnings, []string{"node1 Input0: 0.6359 s of loading data", "node7 __getitem__ take no time and are not read"})
}

// Of two hundred ends that nobody reads a warning names five.
func TestWarningsAreShort(t *testing.T) {
	text := "a -- Linear -- forward_compute_time=1, backward_compute_time=1, activation_size=1, parameter_size=1\n" +
		"b -- Linear -- forward_compute_time=1, backward_compute_time=1, activation_size=1, parameter_size=1\n\ta -- b\n"
	for i := range 200 {
		text += fmt.Sprintf("x%d -- Part -- forward_compute_time=0, backward_compute_time=0, activation_size=1, parameter_size=0\n\ta -- x%d\n",
			i, i)
	}
	_, warnings, err := pipeDreamGraph(text)
	if err != nil {
		t.Fatal(err)
	}
	checkWarnings(t, warnings, []string{"x0 Part, x1 Part, x2 Part, x3 Part, x4 Part, 195 more take no time and are not read"})
}

// Two ends make one loss, that reads both; repeated edges count once; ids that
// clash with those of the loss and of backward nodes are changed.
func TestPipeDreamGraphEnds(t *testing.T) {
	node := func(id string, time, size float64) string {
		return fmt.Sprintf("%s -- Linear -- forward_compute_time=%g, backward_compute_time=1, activation_size=%g, parameter_size=1\n", id, time,
			size)
	}
	g, _, err := pipeDreamGraph(node("a", 1, 10) + node("loss", 2, 20) + node("a'", 3, 30) + "\ta -- loss\n\ta -- a'\n\ta -- loss\n")
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Validate(); err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, n := range g.Nodes {
		ids = append(ids, fmt.Sprintf("%s %s %g %g", n.ID, n.Kind, n.Time*1e3, n.Memory))
	}
	want := []string{
		"a forward 1 10", "loss_ forward 2 20", "a'_ forward 3 30", "loss loss 0 50",
		"a'_' backward 1 10", "loss_' backward 1 10", "a' backward 1 0",
	}
	if d := cmp.Diff(want, ids); d != "" {
		t.Error(d)
	}
	edges := []graph.Edge{
		{From: 0, To: 1},
		{From: 0, To: 2},
		{From: 1, To: 3},
		{From: 2, To: 3},
		{From: 0, To: 4},
		{From: 2, To: 4},
		{From: 3, To: 4},
		{From: 0, To: 5},
		{From: 1, To: 5},
		{From: 3, To: 5},
		{From: 0, To: 6},
		{From: 4, To: 6},
		{From: 5, To: 6},
	}
	if d := cmp.Diff(edges, g.Edges); d != "" {
		t.Error(d)
	}
}

func TestPipeDreamGraphErrors(t *testing.T) {
	good := fixture(t, "traps.graph.txt")
	for _, x := range []struct{ old, new, want string }{
		{
			"\tnode9 -- node10\n", "\tnode9 -- node10\n\tnode10 -- node9\n",
			"graph.txt:21: the edges node9 Add → node10 Linear → node9 Add form a cycle",
		},
		{"\tnode1 -- node3", "\tnode3 -- node1", "graph.txt:12: node1 Input0 is an input, but node3 Conv2d leads to it"},
		{good, "", "graph.txt:1: there is no node"},
		{
			good, "a -- View -- forward_compute_time=0, backward_compute_time=0, activation_size=0, parameter_size=0\n",
			"graph.txt:1: no node takes time or writes anything",
		},
		{good, strings.ReplaceAll("a -- X -- M\nb -- X -- M\n\ta -- b\nc -- X -- M\n\ta -- c\n\tb -- c\n", "M",
			"forward_compute_time=1, backward_compute_time=0, activation_size=1.7e308, parameter_size=0"), "graph.txt:1: nodes[4].memory"},
	} {
		_, _, err := pipeDreamGraph(strings.Replace(good, x.old, x.new, 1))
		if err == nil || !strings.HasPrefix(err.Error(), x.want) {
			t.Errorf("error %v\nwant  %s…", err, x.want)
		}
	}
}

// Graphs and chains of the published profiles agree on times, weights, inputs
// and, but for parts of tuples that nobody reads, on activations.
func TestMeasuredPipeDreamGraph(t *testing.T) {
	for name, nodes := range map[string]int{"vgg16": 81, "alexnet": 45, "resnet18": 141, "resnet50": 353, "gnmt": 65} {
		f := measured(t, "pipedream/"+name+"/graph.txt")
		g, _, err := importer.PipeDreamGraph(f, "pipedream/"+name+"/graph.txt")
		if err != nil {
			t.Fatal(err)
		}
		if err := g.Validate(); err != nil {
			t.Error(err)
		}
		c, _, err := importer.PipeDream(f, "pipedream/"+name+"/graph.txt")
		if err != nil {
			t.Fatal(err)
		}
		weight, activations := 0.0, 0.0
		for _, n := range g.Nodes {
			weight += n.Weight
			if n.Kind == graph.Forward {
				activations += n.Memory
			}
		}
		all := c.Totals()
		if g.Name != name || g.Len() != nodes || math.Abs(g.TotalTime()-c.TotalTime()) > 1e-9 || weight != all.Weight ||
			g.Input != c.Input.Activation {
			t.Errorf("%s: %d nodes, %g s, weights %g, input %g; want %d, %g, %g, %g",
				g.Name, g.Len(), g.TotalTime(), weight, g.Input, nodes, c.TotalTime(), all.Weight, c.Input.Activation)
		}
		if activations > all.Saved || activations < 0.9*all.Saved {
			t.Errorf("%s: activations of %g bytes, in the chain %g", name, activations, all.Saved)
		}
	}
}

func checkmateGraph(text string) (*graph.Graph, []string, error) {
	return importer.CheckmateGraph([]byte(text), "net.json", importer.CheckmateOptions{CostUnit: "us"})
}

func TestCheckmateGraph(t *testing.T) {
	text := fixture(t, "checkmate.json")
	g, warnings, err := checkmateGraph(text)
	if err != nil {
		t.Fatal(err)
	}
	checkGraphFile(t, g, "checkmate.graph.json")
	checkWarnings(t, warnings, nil)

	// The same in other words.
	for name, x := range map[string]struct {
		pairs    []string // old, new, …
		warnings []string
	}{
		"edges": {[]string{
			`"args": {"1": [0], "2": [1, 0], "3": [2], "4": [3, 2], "5": [4, 1, 2], "6": [5, 4, 0, 1]}`,
			`"edges": [[0,1], [0,2], [1,2], [2,3], [3,4], [2,4], [4,5], [1,5], [2,5], [5,6], [4,6], [0,6], [0,6], [1,6]]`,
		}, nil},
		"deps":         {[]string{`"args"`, `"deps"`}, nil},
		"vback, vloss": {[]string{`"backward_nodes": [3, 4, 5, 6]`, `"vback": [4, 5, 6], "vloss": 3`}, nil},
		"vbwd":         {[]string{`"backward_nodes"`, `"vbwd"`}, nil},
		"vfwd":         {[]string{`"backward_nodes": [3, 4, 5, 6]`, `"vfwd": [0, 1, 2]`}, nil},
		"vfwd_map":     {[]string{`"backward_nodes": [3, 4, 5, 6]`, `"vfwd_map": {"0": 6, "1": 5, "2": 4}`}, nil},
		"lists": {
			[]string{`{"0": 100, "1": 250.5, "2": 40, "3": 0, "4": 80, "5": 501, "6": 200}`, `[100, 250.5, 40, 0, 80, 501, 200]`},
			nil,
		},
		"without v":      {[]string{`"v": [0, 1, 2, 3, 4, 5, 6],`, ``}, nil},
		"not in order":   {[]string{`"v": [0, 1, 2, 3, 4, 5, 6]`, `"v": [6, 5, 4, 3, 2, 1, 0]`}, []string{"not in a topological order"}},
		"unknown fields": {[]string{`"v":`, `"cost_ram_fixed": 3000, "articulation_points": [1], "v":`}, nil},
	} {
		same, warnings, err := checkmateGraph(strings.NewReplacer(x.pairs...).Replace(text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if name == "not in order" { // edges are listed by the node that reads, in the order of the file
			if err := same.Validate(); err != nil || same.TotalTime() != g.TotalTime() || len(same.Edges) != len(g.Edges) {
				t.Errorf("%s: %v\n%+v", name, err, same)
			}
		} else if d := cmp.Diff(g, same); d != "" {
			t.Errorf("%s: %s", name, d)
		}
		checkWarnings(t, warnings, x.warnings)
	}

	_, warnings, err = importer.CheckmateGraph([]byte(
		`{"args": {"2": [1]}, "cost_cpu": {"1": 1, "2": 2}, "cost_ram": {"1": 1, "2": 2}}`), "net.json", importer.CheckmateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	checkWarnings(t, warnings, []string{"microseconds", "every node is treated as a forward node", "no node is the loss"})
}

func TestCheckmateGraphErrors(t *testing.T) {
	good := fixture(t, "checkmate.json")
	for _, x := range []struct{ old, new, want string }{
		{good, "", "net.json:1: the file is empty"},
		{good, "\x80\x04\x95", "net.json: this is a Python pickle"},
		{good, "\x93NUMPY\x01\x00", "net.json: this is a NumPy table of costs"},
		{good, "{}", "net.json:1: v: there is no node"},
		{`"v": [0, 1,`, `"v": [1, 1,`, "net.json:1: v[1]: nodes are distinct integers ≥ 0; 1 is not"},
		{`"v": [0, 1,`, `"v": [-1, 1,`, "net.json:1: v[0]: nodes are distinct integers ≥ 0; -1 is not"},
		{`"v": [0, `, `"v": [`, "net.json:4: cost_cpu.0: there is no node 0"},
		{`"1": [0]`, `"1": [9]`, "net.json:2: args.1[0]: there is no node 9"},
		{`"1": [0]`, `"9": [0]`, "net.json:2: args.9[0]: there is no node 9"},
		{`"1": [0]`, `"01": [0]`, "net.json:2: args.01: the name of a list is the number of a node"},
		{`"1": [0]`, `"1": [1]`, "net.json:2: args.1[0]: node 1 reads itself"},
		{`"1": [0]`, `"1": [2]`, "net.json:1: edges: the graph has a cycle"},
		{`"args"`, `"arguments"`, "net.json:1: one of args, deps, edges and edge_list is needed to say what reads what; there are 0"},
		{`"args"`, `"edges": [], "args"`, "net.json:1: one of args, deps, edges and edge_list is needed to say what reads what; there are 2"},
		{`[3, 4, 5, 6]`, `[3, 4, 5, 8]`, "net.json:3: backward_nodes[3]: there is no node 8"},
		{`"6": 200}`, `"6": -200}`, "net.json:4: cost_cpu.6: -200 is not a number from 0 on"},
		{`"6": 200}`, `"6": "x"}`, "net.json:4: cost_cpu.6: x is not a number from 0 on"},
		{`, "6": 200}`, `}`, "net.json:4: cost_cpu: node 6 has none"},
		{`"cost_ram":`, `"ram":`, "net.json:1: cost_ram: it is missing; every node needs one"},
		{`"cost_ram": {`, `"cost_ram": [1], "x": {`, "net.json:5: cost_ram: there are 1 for 7 nodes"},
		{`"cost_ram": {`, `"cost_ram": 7, "x": {`, "net.json:5: cost_ram: an object by node, or a list, is needed"},
		{`"conv1"`, `1`, "net.json:6: node_names.0: 1 is not a text"},
		{`1500`, `-1`, "net.json:7: cost_ram_parameters: -1 is not a size"},
		{`1500`, `1500, "vloss": 8`, "net.json:7: vloss: there is no node 8"},
		{`1500`, `1500, "edge_list": [[0,1,2]]`, "net.json:7: edge_list[0]: 3 nodes where two are needed"},
	} {
		text := strings.Replace(good, x.old, x.new, 1)
		_, _, err := checkmateGraph(text)
		if err == nil || !strings.HasPrefix(err.Error(), x.want) {
			t.Errorf("%s → %s: error %v\nwant  %s…", x.old, x.new, err, x.want)
		}
	}
	if _, _, err := importer.CheckmateGraph([]byte(good), "net.json", importer.CheckmateOptions{CostUnit: "h"}); err == nil ||
		err.Error() != `cost unit "h": us, ms or s is needed` {
		t.Errorf("error %v", err)
	}
}

// npy writes an .npy file as NumPy's format description has it: the header is
// padded so that the data begin at a multiple of 64 bytes.
func npy(version byte, kind, shape string, values ...float64) string {
	header := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': %s, }", kind, shape)
	return npyWith(version, header, kind, values...)
}

func npyWith(version byte, header, kind string, values ...float64) string {
	fixed := 10 + 2*int(version-1)
	header += strings.Repeat(" ", 63-(fixed+len(header))%64) + "\n"
	b := []byte("\x93NUMPY")
	b = append(b, version, 0)
	if version == 1 {
		b = binary.LittleEndian.AppendUint16(b, uint16(len(header)))
	} else {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(header)))
	}
	b = append(b, header...)
	for _, x := range values {
		if kind == "<f4" {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(x)))
		} else {
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(x))
		}
	}
	return string(b)
}

func checkmateCosts(costs, sizes string) (*chain.Chain, []string, error) {
	return importer.CheckmateCosts([]byte(costs), "b32_p100.npy", []byte(sizes), "sizes")
}

func TestCheckmateCosts(t *testing.T) {
	layers := []chain.Layer{
		{Name: "layer1", ForwardTime: 10e-6, BackwardTime: 60e-6, Activation: 800, Saved: 800, Gradient: 800},
		{Name: "layer2", ForwardTime: 20e-6, BackwardTime: 50e-6, Activation: 400, Saved: 400, Gradient: 400},
	}
	loss := chain.Layer{Name: "loss", ForwardTime: 5e-6}
	for name, x := range map[string]struct {
		costs, sizes string
		input        float64
		loss         bool
		warnings     []string
	}{
		"even": {
			npy(1, "<f8", "(2, 4)", 10, 20, 50, 60, 1, 2, 3, 4), "[800, 400]", 0, false,
			[]string{"sizes has no size of the input"},
		},
		"odd, float32, version 2": {npy(2, "<f4", "(2, 5)", 10, 20, 5, 50, 60, 1, 2, 0.5, 3, 4), "[300, 800, 400]", 300, true, nil},
		"without deviations":      {npy(1, "<f8", "(4,)", 10, 20, 50, 60), npy(1, "<f8", "(3,)", 300, 800, 400), 300, false, nil},
		"other order of the header": {
			npyWith(1, `{"shape": (2,4), "fortran_order": False , 'descr':"<f8"}`, "<f8", 10, 20, 50, 60, 1, 2, 3, 4),
			npy(2, "<f4", "(3,)", 300, 800, 400), 300, false, nil,
		},
	} {
		c, warnings, err := checkmateCosts(x.costs, x.sizes)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		want := layers
		if x.loss {
			want = append(want[:2:2], loss)
		}
		checkLayers(t, c, want)
		checkWarnings(t, warnings, x.warnings)
		if c.Name != "b32_p100" || c.Input != (chain.Input{Activation: x.input, Gradient: x.input}) {
			t.Errorf("%s: %s, input %+v", name, c.Name, c.Input)
		}
	}
}

func TestCheckmateCostsErrors(t *testing.T) {
	good := npy(1, "<f8", "(2, 4)", 10, 20, 50, 60, 1, 2, 3, 4)
	header := func(h string) string { return npyWith(1, h, "<f8", 10, 20, 50, 60, 1, 2, 3, 4) }
	const sizes = "[300, 800, 400]"
	for _, x := range []struct{ name, costs, sizes, want string }{
		{"empty", "", sizes, "b32_p100.npy: no .npy file"},
		{"JSON", `{"cost_cpu": [1]}`, sizes, "b32_p100.npy: no .npy file"},
		{"version 3", "\x93NUMPY\x03\x00" + good[8:], sizes, "b32_p100.npy: version 3.0 of .npy is not understood"},
		{"cut header", good[:40], sizes, "b32_p100.npy: the file ends in the header"},
		{"cut data", good[:len(good)-1], sizes, "b32_p100.npy: 63 bytes of data do not make an array of shape [2 4] and type <f8"},
		{"more data", good + "\x00", sizes, "b32_p100.npy: 65 bytes of data"},
		{"wrong shape", npy(1, "<f8", "(4, 2)", 1, 2, 3, 4, 5, 6, 7, 8), sizes, "b32_p100.npy: an array of shape [4 2]; (2, L) is needed"},
		{"scalar", npy(1, "<f8", "()", 1), sizes, "b32_p100.npy: an array of shape []"},
		{"huge shape", npy(1, "<f8", "(2, 2147483647, 2147483647, 2147483647)"), sizes, "b32_p100.npy: 0 bytes of data do not make"},
		{"one cost", npy(1, "<f8", "(2, 1)", 1, 2), sizes, "b32_p100.npy: 1 costs; one of a forward and one of a backward"},
		{"negative", npy(1, "<f8", "(2,)", 1, -2), sizes, "b32_p100.npy: cost 1 is -2"},
		{"NaN", npy(1, "<f8", "(2,)", 1, math.NaN()), sizes, "b32_p100.npy: entry 1 is NaN"},
		{"objects", npy(1, "|O", "(2,)", 1, 2), sizes, `b32_p100.npy: header: entries of type "|O" are not supported`},
		{"big-endian", npy(1, ">f8", "(2,)", 1, 2), sizes, `b32_p100.npy: header: entries of type ">f8" are not supported`},
		{
			"Fortran", header("{'descr': '<f8', 'fortran_order': True, 'shape': (2, 4), }"), sizes,
			"b32_p100.npy: header: the array is in Fortran order",
		},
		{
			"order", header("{'descr': '<f8', 'fortran_order': 0, 'shape': (2, 4), }"), sizes,
			`b32_p100.npy: header: fortran_order is neither True nor False: "0"`,
		},
		{"no tuple", header("{'descr': '<f8', 'fortran_order': False, 'shape': (8), }"), sizes, "b32_p100.npy: header: the shape is not a tuple"},
		{"no comma", header("{'descr': '<f8', 'fortran_order': False, 'shape': (2 4), }"), sizes, "b32_p100.npy: header: the shape is not a tuple"},
		{
			"negative shape", header("{'descr': '<f8', 'fortran_order': False, 'shape': (-2, 4), }"), sizes,
			"b32_p100.npy: header: the shape is not a tuple",
		},
		{"twice", header("{'descr': '<f8', 'descr': '<f8', 'shape': (2, 4), }"), sizes, `b32_p100.npy: header: "{'descr': '<f8', 'descr': '<f8', 'shape': (2, 4), }" is not a dictionary of descr, fortran_order`},
		{"missing", header("{'descr': '<f8', 'shape': (2, 4), }"), sizes, `b32_p100.npy: header: "{'descr': '<f8', 'shape': (2, 4), }" is not a dictionary of descr, fortran_order and shape`},
		{"unknown", header("{'descr': '<f8', 'x': 1}"), sizes, `b32_p100.npy: header: "{'descr': '<f8', 'x': 1}" is not a dictionary of descr, fortran_order and shape`},
		{"no dictionary", header("()"), sizes, `b32_p100.npy: header: "()" is not a dictionary of descr, fortran_order and shape`},
		{
			"behind", header("{'descr': '<f8', 'fortran_order': False, 'shape': (2, 4)} x"), sizes,
			`b32_p100.npy: header: "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 4)} x" is not a dictionary`,
		},
		{"no colon", header("{'descr' '<f8'}"), sizes, `b32_p100.npy: header: "{'descr' '<f8'}" is not a dictionary of descr, fortran_order and shape`},
		{"no comma between", header("{'descr': '<f8' 'shape': (2, 4)}"), sizes, `b32_p100.npy: header: "{'descr': '<f8' 'shape': (2, 4)}" is not a dictionary of descr, fortran_order`},
		{"sizes of layers", good, "[1, 2, 3, 4]", "sizes: 4 sizes for the 2 forward layers of b32_p100.npy; 2 are needed, or 3 with the " +
			"input's first"},
		{"negative size", good, "[1, -2]", "sizes: size 1 is -2"},
		{"sizes", good, "{}", "sizes:1: an object where a list is needed"},
		{"sizes of two dimensions", good, good, "sizes: an array of shape [2 4]; sizes have one dimension"},
		{"broken sizes", good, good[:50], "sizes: the file ends in the header"},
	} {
		_, _, err := checkmateCosts(x.costs, x.sizes)
		if err == nil || !strings.HasPrefix(err.Error(), x.want) {
			t.Errorf("%s: error %v\nwant  %s…", x.name, err, x.want)
		}
	}
	_, _, err := importer.CheckmateCosts([]byte(good), "b32.npy", nil, "")
	if want := "b32.npy: a table of costs has no sizes; a second file is needed with the bytes that each of its 2 forward layers writes"; err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("error %v\nwant  %s…", err, want)
	}
}

func rotor(text string) (*chain.Chain, []string, error) {
	return importer.Rotor([]byte(text), "net.json", importer.RotorOptions{TimeUnit: "ms"})
}

func TestRotor(t *testing.T) {
	text := fixture(t, "rotor.json")
	c, warnings, err := rotor(text)
	if err != nil {
		t.Fatal(err)
	}
	checkLayers(t, c, []chain.Layer{
		{
			Name: "layer1", ForwardTime: 1.5e-3, BackwardTime: 3e-3, Activation: 800, Saved: 1000, Gradient: 800, ForwardOverhead: 16,
			BackwardOverhead: 32,
		},
		{Name: "layer2", ForwardTime: 2.25e-3, BackwardTime: 4.5e-3, Activation: 400, Saved: 400, Gradient: 400, BackwardOverhead: 64},
		{Name: "layer3", ForwardTime: 0.5e-3, BackwardTime: 1.25e-3, Activation: 40, Saved: 40, Gradient: 40, ForwardOverhead: 8},
		{Name: "loss", BackwardTime: 0.125e-3, BackwardOverhead: 4},
	})
	if c.Name != "net" || c.Input != (chain.Input{Activation: 600, Gradient: 600}) {
		t.Errorf("%s, input %+v", c.Name, c.Input)
	}
	checkWarnings(t, warnings, []string{"layer 3 saves 30 bytes, less than the 40 of its output"})
	parts, warnings, err := rotor(strings.Replace(text, "800", "799.5", 1))
	if err != nil || parts.Layers[0].Activation != 800 {
		t.Errorf("799.5 bytes: %+v, %v", parts, err)
	}
	checkWarnings(t, warnings, []string{"layer 3 saves 30 bytes", "2 sizes not in whole bytes, rounded up"})
	for _, names := range [][]string{
		{"weigth", "weight"},
		{"fwd_tmp", "fwd_mem_tmp", "bwd_tmp", "bwd_mem_tmp"},
		{"cbweigth", "cbw", "cweigth", "cw", "bweigth", "bw", "fweigth", "fw", "fwd_tmp", "ftmp", "bwd_tmp", "btmp"},
	} {
		same, _, err := rotor(strings.NewReplacer(names...).Replace(text))
		if err != nil {
			t.Errorf("%q: %v", names, err)
		} else if d := cmp.Diff(c, same); d != "" {
			t.Errorf("%q: %s", names, d)
		}
	}
	if _, warnings, err = importer.Rotor([]byte(text), "net.json", importer.RotorOptions{}); err != nil {
		t.Fatal(err)
	}
	checkWarnings(t, warnings[:1], []string{"times are taken to be in milliseconds"})
}

func TestRotorErrors(t *testing.T) {
	good := fixture(t, "rotor.json")
	for _, x := range []struct{ old, new, want string }{
		{good, "", "net.json:1: the file is empty"},
		{good, "[]", "net.json:1: a list where an object is needed"},
		{`"fweigth"`, `"x"`, "net.json:1: fweigth is missing"},
		{`"bwd_tmp"`, `"x"`, "net.json:1: bwd_tmp is missing"},
		{`, 0.125]`, `]`, "net.json:2: bweigth: 3 numbers; fweigth says that 4 are needed"},
		{`[16, 0, 8]`, `[16, 0, 8, 0]`, "net.json:5: fwd_tmp: 4 numbers; fweigth says that 3 are needed"},
		{`4.5`, `-4.5`, "net.json:2: bweigth[1]: -4.5 is negative"},
		{`"length": 3`, `"length": 4`, "net.json:7: length: it is 4, but fweigth has 3 numbers"},
		{`"length": 3`, `"bw": []`, "net.json:7: bw: bweigth stands for the same; one of them is needed"},
		{`4.5`, `"4.5"`, "net.json:2: bweigth[1]: a text where a number is needed"},
	} {
		_, _, err := rotor(strings.Replace(good, x.old, x.new, 1))
		if err == nil || !strings.HasPrefix(err.Error(), x.want) {
			t.Errorf("%s → %s: error %v\nwant  %s…", x.old, x.new, err, x.want)
		}
	}
	if _, _, err := importer.Rotor([]byte(good), "net.json", importer.RotorOptions{TimeUnit: "h"}); err == nil ||
		err.Error() != `time unit "h": us, ms or s is needed` {
		t.Errorf("error %v", err)
	}
}

func checkGraphOutcome(t *testing.T, g *graph.Graph, err error, prefix string) {
	if err != nil {
		if !strings.HasPrefix(err.Error(), prefix) {
			t.Errorf("error %q", err)
		}
		return
	}
	if err := g.Validate(); err != nil {
		t.Errorf("an invalid graph: %v", err)
	}
}

func FuzzPipeDreamGraph(f *testing.F) {
	f.Add(fixture(f, "traps.graph.txt"))
	f.Add("a -- ReLU -- forward_compute_time=1, backward_compute_time=1, activation_size=[1;2], parameter_size=0\n")
	f.Fuzz(func(t *testing.T, text string) {
		g, _, err := pipeDreamGraph(text)
		checkGraphOutcome(t, g, err, "graph.txt:")
	})
}

func FuzzCheckmateGraph(f *testing.F) {
	f.Add(fixture(f, "checkmate.json"))
	f.Add(`{"edges": [[1, 2]], "v": [2, 1], "cost_cpu": [1, 2], "cost_ram": {"1": 1, "2": 3}, "vfwd_map": {"1": 2}}`)
	f.Fuzz(func(t *testing.T, text string) {
		g, _, err := checkmateGraph(text)
		checkGraphOutcome(t, g, err, "net.json:")
	})
}

func FuzzCheckmateCosts(f *testing.F) {
	f.Add(npy(1, "<f8", "(2, 4)", 10, 20, 50, 60, 1, 2, 3, 4), "[1, 2]")
	f.Add(npy(2, "<f4", "(5,)", 10, 20, 5, 50, 60), npy(1, "<f4", "(3,)", 1, 2, 3))
	f.Fuzz(func(t *testing.T, costs, sizes string) {
		c, _, err := checkmateCosts(costs, sizes)
		if err != nil && strings.HasPrefix(err.Error(), "sizes:") {
			return
		}
		checkOutcome(t, c, err, "b32_p100.npy:")
	})
}

func FuzzRotor(f *testing.F) {
	f.Add(fixture(f, "rotor.json"))
	f.Add(`{"fw": [], "bw": [1], "cw": [1], "cbw": [1], "ftmp": [], "btmp": [0]}`)
	f.Fuzz(func(t *testing.T, text string) {
		c, _, err := rotor(text)
		checkOutcome(t, c, err, "net.json:")
	})
}
