package graph_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"workbench/model/instance/graph"
	"workbench/model/platform"
	"workbench/model/strictjson"
	"workbench/model/testfile"
)

const small = `{
  "format": "workbench.graph/v1",
  "name": "small",
  "samples": 32,
  "input": 5,
  "nodes": [
    {"id": "conv", "name": "conv 3x3", "time": 0.5, "memory": 10, "overhead": 1, "weight": 100},
    {"id": "loss", "kind": "loss", "time": 0, "memory": 0},
    {"id": "dconv", "kind": "backward", "time": 1, "memory": 4}
  ],
  "edges": [
    ["conv", "loss"],
    ["loss", "dconv"],
    ["conv", "dconv"]
  ],
  "source": {"kind": "measured", "device": "V100-16GB"}
}
`

func smallGraph() *graph.Graph {
	return &graph.Graph{
		Name: "small", Samples: 32, Input: 5,
		Nodes: []graph.Node{
			{ID: "conv", Name: "conv 3x3", Kind: graph.Forward, Time: 0.5, Memory: 10, Overhead: 1, Weight: 100},
			{ID: "loss", Kind: graph.Loss},
			{ID: "dconv", Kind: graph.Backward, Time: 1, Memory: 4},
		},
		Edges:  []graph.Edge{{From: 0, To: 1}, {From: 1, To: 2}, {From: 0, To: 2}},
		Source: map[string]any{"kind": "measured", "device": "V100-16GB"},
	}
}

// numbered is small with numbers for ids.
var numbered = strings.NewReplacer(`"conv", "name"`, `7, "name"`, `["conv"`, `[7`, `"loss", "kind"`, `0, "kind"`, `"loss"]`, `0]`,
	`["loss"`, `[0`, `"dconv"`, `12`).Replace(small)

var format = testfile.Format[*graph.Graph]{
	Name: "graph", Read: graph.Read, Good: []string{small, numbered, own}, Bad: bad,
	Parts: func(g *graph.Graph) (*[]strictjson.Extra, *map[string]any) { return &g.Extra, &g.Source },
}

func read(s string) (*graph.Graph, error) { return format.Parse(s) }

func TestRead(t *testing.T) {
	g, err := read(small)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(smallGraph(), g); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if n, total := g.Len(), g.TotalTime(); n != 3 || total != 1.5 {
		t.Errorf("%d nodes, %g s; want 3, 1.5 s", n, total)
	}
}

// Ids are the same whether they are written as numbers or as texts of them.
func TestNumbersForIDs(t *testing.T) {
	g, err := read(numbered)
	if err != nil {
		t.Fatal(err)
	}
	if ids := [3]string{g.Nodes[0].ID, g.Nodes[1].ID, g.Nodes[2].ID}; ids != [3]string{"7", "0", "12"} {
		t.Errorf("ids %q", ids)
	}
	texts, err := read(strings.NewReplacer(` 7,`, ` "7",`, `[7`, `["7"`).Replace(numbered))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(g, texts); diff != "" {
		t.Errorf("(-numbers +texts):\n%s", diff)
	}
	if s := testfile.Text(t, g); !strings.Contains(s, `{"id":7,`) || !strings.Contains(s, `[7,0]`) {
		t.Errorf("numbers are written\n%s", s)
	}
	for _, other := range []string{"07", "-1", "1.0", "a", "1234567890123456", "٣"} {
		g.Nodes[2].ID = other
		if s := testfile.Text(t, g); !strings.Contains(s, `{"id":"7",`) || !strings.Contains(s, `["7","0"]`) {
			t.Errorf("numbers beside %q are written\n%s", other, s)
		}
	}
}

// bad are documents made from small that are refused. Those marked are refused
// for what a schema cannot say.
var bad = []testfile.Bad{
	{"empty", small, "", "1: the file is empty", false},
	{"truncated", small[strings.Index(small, "10, \"over"):], "", "7: nodes[0].memory: the file ends in the middle of the document", false},
	{"trailing data", "}\n}\n", "}\n}\n{}", "18: data after the end of the document", false},
	{"version", "graph/v1", "graph/v2", `2: format: "workbench.graph/v2" is not understood here; it must be "workbench.graph/v1"`, false},
	{"no format", `"format": "workbench.graph/v1",`, ``, `1: format: missing`, false},
	{"unknown field", `"weight"`, `"weigth"`, "7: nodes[0].weigth: unknown field; known are id, name, kind, time, memory, overhead, " +
		"weight, and", false},
	{"unknown field above", `"samples"`, `"batch"`, "4: batch: unknown field; known are format, name, samples, input, nodes, edges, " +
		"source, and", false},
	{"field twice", `"weight": 100`, `"weight": 100, "weight": 100`, "7: nodes[0].weight: the field stands twice", true},
	{"negative samples", `"samples": 32`, `"samples": -32`, "4: samples: -32 is negative", false},
	{"negative input", `"input": 5`, `"input": -5`, "5: input: -5 is negative", false},
	{
		"no nodes", small[strings.Index(small, ` "nodes"`):strings.Index(small, ` "edges"`)], ``, "1: nodes: a graph needs at least one node",
		false,
	},
	{
		"empty", small[strings.Index(small, `[`):strings.Index(small, ` "source"`)], `[], "edges": [],`,
		"6: nodes: a graph needs at least one node", false,
	},
	{
		"no edges", small[strings.Index(small, ` "edges"`):strings.Index(small, ` "source"`)], ``, "1: edges: missing; it lists [from, to]",
		false,
	},
	{"null edges", `"edges": [`, `"edges": null, "x-edges": [`, "11: edges: null where a list is needed", false},
	{"no id", `"id": "loss", `, ``, "8: nodes[1]: id is missing", false},
	{"empty id", `"id": "loss"`, `"id": ""`, "8: nodes[1].id: the id is empty", false},
	{"null id", `"id": "loss"`, `"id": null`, "8: nodes[1].id: an id is a text or an integer ≥ 0", false},
	{"negative id", `"id": "loss"`, `"id": -1`, "8: nodes[1].id: an id is a text or an integer ≥ 0", false},
	{"half an id", `"id": "loss"`, `"id": 0.5`, "8: nodes[1].id: an id is a text or an integer ≥ 0", false},
	{
		"long id", `"id": "loss"`, `"id": 1234567890123456`, "8: nodes[1].id: an id is a text or an integer ≥ 0 of at most 15 digits",
		false,
	},
	{"id with exponent", `"id": "loss"`, `"id": 1e3`, "8: nodes[1].id: an id is a text or an integer ≥ 0", true},
	{"list for an id", `"id": "loss"`, `"id": [1]`, "8: nodes[1].id: an id is a text or an integer ≥ 0", false},
	{"id twice", `"id": "dconv"`, `"id": "conv"`, `9: nodes[2].id: "conv" is the id of nodes[0] already`, true},
	{
		"number and text twice", `"nodes": [`, `"nodes": [{"id": 7, "time": 0, "memory": 0}, {"id": "7", "time": 0, "memory": 0},`,
		`6: nodes[1].id: "7" is the id of nodes[0] already`, true,
	},
	{
		"unknown kind", `"kind": "loss"`, `"kind": "optimizer"`,
		`8: nodes[1].kind: "optimizer" is unknown; node "loss" is "forward", "loss" or "backward"`, false,
	},
	{"empty kind", `"kind": "loss"`, `"kind": ""`, `8: nodes[1].kind: "" is unknown`, false},
	{"null kind", `"kind": "loss"`, `"kind": null`, `8: nodes[1].kind: null where a text is needed`, false},
	{"no time", `"time": 1, `, ``, `9: nodes[2]: time is missing; node "dconv" needs a cost`, false},
	{"no memory", `, "memory": 4`, ``, `9: nodes[2]: memory is missing; node "dconv" needs a size`, false},
	{"null time", `"time": 1`, `"time": null`, "9: nodes[2].time: null where a number is needed", false},
	{"negative time", `"time": 1`, `"time": -1`, "9: nodes[2].time: -1 is negative", false},
	{"negative memory", `"memory": 4`, `"memory": -4`, "9: nodes[2].memory: -4 is negative", false},
	{"13 decimals", `"overhead": 1`, `"overhead": 1e-13`, "7: nodes[0].overhead: 1e-13 bytes are not exact", true},
	{"negative overhead", `"overhead": 1`, `"overhead": -1`, "7: nodes[0].overhead: -1 is negative", false},
	{"negative weight", `"weight": 100`, `"weight": -100`, "7: nodes[0].weight: -100 is negative", false},
	{"NaN", `"time": 1`, `"time": NaN`, "9: nodes[2].time: not JSON", false},
	{"out of range", `"time": 1`, `"time": 1e999`, "9: nodes[2].time: 1e999 is out of range", false},
	{"text for a number", `"time": 1`, `"time": "1s"`, "9: nodes[2].time: a text where a number is needed", false},
	{"edge of one", `["loss", "dconv"]`, `["loss"]`, "13: edges[1]: 1 ids where two are needed, [from, to]", false},
	{"edge of three", `["loss", "dconv"]`, `["loss", "dconv", 1]`, "13: edges[1]: 3 ids where two are needed, [from, to]", false},
	{"edge of another form", `["loss", "dconv"]`, `{"from": "loss"}`, "13: edges[1]: an object where a list is needed", false},
	{"null in an edge", `["loss", "dconv"]`, `["loss", null]`, "13: edges[1][1]: an id is a text or an integer", false},
	{"edge to nothing", `["loss", "dconv"]`, `["loss", "dcov"]`, `13: edges[1][1]: there is no node with id "dcov"`, true},
	{"edge from nothing", `["loss", "dconv"]`, `[3, "dconv"]`, `13: edges[1][0]: there is no node with id "3"`, true},
	{"self loop", `["loss", "dconv"]`, `["loss", "loss"]`, `13: edges[1]: node "loss" reads itself`, true},
	{
		"backwards", `["conv", "loss"]`, `["loss", "conv"]`,
		`12: edges[0]: the edge from "loss" to "conv" goes backwards; nodes must be listed in a topological order, "loss" before "conv"`, true,
	},
	{"cycle", `["conv", "dconv"]`, `["dconv", "conv"]`, `11: edges: the graph has a cycle: conv → loss → dconv → conv`, true},
	{"cycle of two", `["conv", "dconv"]`, `["dconv", "loss"]`, `11: edges: the graph has a cycle: loss → dconv → loss`, true},
}

func TestReadErrors(t *testing.T) { format.ReadErrors(t) }

func TestSchema(t *testing.T) { format.Schema(t) }

// own is small with fields of the user's own everywhere.
var own = strings.NewReplacer(
	`"name": "small"`, `"name": "small", "x-note": ["any", {"thing": null}]`,
	`"kind": "loss"`, `"kind": "loss", "x-op": "softmax"`,
).Replace(small)

func TestOwnFields(t *testing.T) {
	format.OwnFields(t, own, smallGraph(), ` x-note ["any",{"thing":null}]`, `nodes[1] x-op "softmax"`)
}

func TestWriteGolden(t *testing.T) { format.WriteGolden(t, "small.json", own) }

func TestWriteErrors(t *testing.T) {
	g := smallGraph()
	g.Nodes[1].Memory = math.Inf(1)
	format.WriteErrors(t, smallGraph(), g, "graph small: nodes[1].memory: +Inf is not finite")
}

func TestValidate(t *testing.T) {
	format.Validate(t, smallGraph, map[string]func(*graph.Graph){
		"nodes: a graph needs":                                           func(g *graph.Graph) { g.Nodes = nil },
		"samples: -1 is negative":                                        func(g *graph.Graph) { g.Samples = -1 },
		"input: NaN is not finite":                                       func(g *graph.Graph) { g.Input = math.NaN() },
		"nodes[1].id: the id is empty":                                   func(g *graph.Graph) { g.Nodes[1].ID = "" },
		`nodes[2].id: "conv" is the id of nodes[0] already`:              func(g *graph.Graph) { g.Nodes[2].ID = "conv" },
		`nodes[1].kind: "" is unknown`:                                   func(g *graph.Graph) { g.Nodes[1].Kind = "" },
		"nodes[0].time: +Inf is not finite":                              func(g *graph.Graph) { g.Nodes[0].Time = math.Inf(1) },
		"nodes[0].memory: -1 is negative":                                func(g *graph.Graph) { g.Nodes[0].Memory = -1 },
		"nodes[0].overhead: NaN is not finite":                           func(g *graph.Graph) { g.Nodes[0].Overhead = math.NaN() },
		"nodes[0].weight: -1 is negative":                                func(g *graph.Graph) { g.Nodes[0].Weight = -1 },
		"edges[0]: leads from node 0 to node 3; there are nodes 0 to 2":  func(g *graph.Graph) { g.Edges[0].To = 3 },
		"edges[0]: leads from node -1 to node 1; there are nodes 0 to 2": func(g *graph.Graph) { g.Edges[0].From = -1 },
		"nodes[0].weight: 0.5 is not an integer":                         func(g *graph.Graph) { g.Nodes[0].Weight = 0.5 },
		"nodes: all sizes together are 1.00":                             func(g *graph.Graph) { g.Nodes[2].Overhead = 1e15 },
		`edges[0]: node "loss" reads itself`:                             func(g *graph.Graph) { g.Edges[0].From = 1 },
		`edges[0]: the edge from "loss" to "conv" goes backwards`:        func(g *graph.Graph) { g.Edges[0] = graph.Edge{From: 1, To: 0} },
		"edges: the graph has a cycle: conv → loss → dconv → conv":       func(g *graph.Graph) { g.Edges[2] = graph.Edge{From: 2, To: 0} },
	})
}

// Long cycles are not written out in full.
func TestLongCycle(t *testing.T) {
	g := &graph.Graph{}
	const n = 100_000
	for v := range n {
		g.Nodes = append(g.Nodes, graph.Node{ID: fmt.Sprint(v), Kind: graph.Forward})
		g.Edges = append(g.Edges, graph.Edge{From: v, To: (v + 1) % n})
	}
	const want = "edges: the graph has a cycle: 0 → 1 → 2 → 3 → 4 → 5 → … (99988 more) … → 99994 → 99995 → 99996 → 99997 → 99998 → 99999 → 0"
	if err := g.Validate(); err == nil || err.Error() != want {
		t.Errorf("error %v\nwant  %s", err, want)
	}
	if err := graph.Sort(g); err == nil || err.Error() != want {
		t.Errorf("Sort: error %v\nwant  %s", err, want)
	}
}

// graphs generates valid graphs.
func graphs() *rapid.Generator[*graph.Graph] {
	number := testfile.Seconds()
	size := rapid.Map(rapid.Int64Range(0, 3e13), func(n int64) float64 { return float64(n) })
	text := rapid.Custom(func(t *rapid.T) string { return strings.ToValidUTF8(rapid.String().Draw(t, "text"), "?") })
	return rapid.Custom(func(t *rapid.T) *graph.Graph {
		g := &graph.Graph{
			Name: text.Draw(t, "name"), Samples: rapid.IntRange(0, math.MaxInt).Draw(t, "samples"), Input: size.Draw(t, "input"),
			Unit: platform.Unit(rapid.IntRange(0, int(platform.FinestUnit)).Draw(t, "unit")),
		}
		if g.Unit > platform.Byte && int64(g.Input)%10 == 0 {
			g.Input++ // so that no larger unit would do
		}
		prefix := text.Draw(t, "prefix")
		for v := range rapid.IntRange(1, 6).Draw(t, "nodes") {
			g.Nodes = append(g.Nodes, graph.Node{
				ID: prefix + fmt.Sprint(v), Name: text.Draw(t, "node"),
				Kind: rapid.SampledFrom([]string{graph.Forward, graph.Loss, graph.Backward}).Draw(t, "kind"),
				Time: number.Draw(t, "time"), Memory: size.Draw(t, "memory"),
				Overhead: size.Draw(t, "overhead"), Weight: size.Draw(t, "weight"),
			})
			for range rapid.IntRange(0, v).Draw(t, "edges") {
				g.Edges = append(g.Edges, graph.Edge{From: rapid.IntRange(0, v-1).Draw(t, "from"), To: v})
			}
		}
		if rapid.Bool().Draw(t, "with source") {
			g.Source = map[string]any{text.Draw(t, "key"): text.Draw(t, "value")}
		}
		return g
	})
}

func TestRoundTrip(t *testing.T) { format.RoundTrip(t, graphs()) }

// Sizes with decimals are whole numbers of the largest power of ten that does.
func TestDecimals(t *testing.T) {
	g, err := read(strings.Replace(small, `"overhead": 1`, `"overhead": 0.30`, 1))
	if err != nil {
		t.Fatal(err)
	}
	if g.Unit != 1 || g.Input != 50 || g.Nodes[0].Memory != 100 || g.Nodes[0].Overhead != 3 || g.Nodes[0].Weight != 1000 {
		t.Errorf("%+v", g)
	}
	if s := testfile.Text(t, g); !strings.Contains(s, `"memory":10,"overhead":0.3,"weight":100`) {
		t.Errorf("written %s", s)
	}
}

func TestDigest(t *testing.T) {
	format.Digests(t, "4b7994e6f1ec8d1636bda362c282b046541fdbe9942ec13cf5695e29fef23609", map[string]string{
		"other source": strings.Replace(small, "measured", "guessed", 1),
		"own fields":   own,
		"defaults":     strings.Replace(small, `"memory": 4`, `"memory": 4, "overhead": 0, "weight": -0.0, "name": ""`, 1),
		"kind":         strings.Replace(small, `"name": "conv`, `"kind": "forward", "name": "conv`, 1),
		"written":      strings.Replace(small, `100`, `1.0E+2`, 1),
	}, [][2]string{
		{`"small"`, `"other"`},
		{`32`, `33`},
		{`"input": 5`, `"input": 6`},
		{`conv 3x3`, `conv`},
		{`"kind": "loss"`, `"kind": "forward"`},
		{`100`, `100.000000001`},
		{`["conv", "loss"],`, ``},
		{`{"id": "loss"`, `{"id": 1, "time": 0, "memory": 0}, {"id": "loss"`},
	})
}

// Shuffled graphs are sorted: each edge leads forwards, and a graph in order
// stays as it is.
func TestSort(t *testing.T) {
	testfile.Property(t, func(t *rapid.T) {
		g := graphs().Draw(t, "graph")
		g.Extra = []strictjson.Extra{{Path: "", Key: "x-a"}}
		for v := range g.Nodes {
			g.Extra = append(g.Extra, strictjson.Extra{Path: fmt.Sprintf("nodes[%d]", v), Key: "x-" + g.Nodes[v].ID})
		}
		same := *g
		if err := graph.Sort(&same); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(g, &same); diff != "" {
			t.Fatalf("a graph in order (-before +after):\n%s", diff)
		}
		shuffled := shuffle(t, g)
		before := edges(shuffled)
		if err := graph.Sort(shuffled); err != nil {
			t.Fatal(err)
		}
		if err := shuffled.Validate(); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(before, edges(shuffled)); diff != "" {
			t.Fatalf("edges (-before +after):\n%s", diff)
		}
		for _, e := range shuffled.Extra[1:] {
			var v int
			if _, err := fmt.Sscanf(e.Path, "nodes[%d]", &v); err != nil || e.Key != "x-"+shuffled.Nodes[v].ID {
				t.Fatalf("field %s is now of %s", e.Key, e.Path)
			}
		}
		// Sorting what is sorted changes nothing.
		again := *shuffled
		if err := graph.Sort(&again); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(shuffled, &again); diff != "" {
			t.Fatalf("(-sorted +again):\n%s", diff)
		}
	})
}

// edges names the edges.
func edges(g *graph.Graph) (names []string) {
	for _, e := range g.Edges {
		names = append(names, g.Nodes[e.From].ID+" → "+g.Nodes[e.To].ID)
	}
	return names
}

// shuffle lists the nodes of g in another order.
func shuffle(t *rapid.T, g *graph.Graph) *graph.Graph {
	place := make([]int, g.Len()) // of each node
	for v := range place {
		place[v] = v
	}
	place = rapid.Permutation(place).Draw(t, "order")
	s := *g
	s.Nodes, s.Edges, s.Extra = make([]graph.Node, g.Len()), slices.Clone(g.Edges), slices.Clone(g.Extra)
	for v, w := range place {
		s.Nodes[w] = g.Nodes[v]
		s.Extra[1+v].Path = fmt.Sprintf("nodes[%d]", w)
	}
	for k, e := range g.Edges {
		s.Edges[k] = graph.Edge{From: place[e.From], To: place[e.To]}
	}
	return &s
}

// A cycle is found whatever else there is, and named by nodes that follow each
// other.
func TestCycle(t *testing.T) {
	testfile.Property(t, func(t *rapid.T) {
		g := graphs().Filter(func(g *graph.Graph) bool { return g.Len() > 1 }).Draw(t, "graph")
		for v := range g.Nodes {
			g.Nodes[v].ID = fmt.Sprint("v", v)
		}
		from := rapid.IntRange(0, g.Len()-2).Draw(t, "from")
		to := rapid.IntRange(from+1, g.Len()-1).Draw(t, "to")
		g.Edges = append(g.Edges, graph.Edge{From: from, To: to}, graph.Edge{From: to, To: from})
		nodes := slices.Clone(g.Nodes)
		err := graph.Sort(g)
		if err == nil || !slices.Equal(nodes, g.Nodes) {
			t.Fatalf("sorted: %v", err)
		}
		if other := g.Validate(); other == nil || other.Error() != err.Error() {
			t.Fatalf("Validate says %v, Sort %v", other, err)
		}
		names := strings.Split(strings.TrimPrefix(err.Error(), "edges: the graph has a cycle: "), " → ")
		if len(names) < 3 || names[0] != names[len(names)-1] {
			t.Fatal(err)
		}
		all := edges(g)
		for k := 1; k < len(names); k++ {
			if !slices.Contains(all, names[k-1]+" → "+names[k]) {
				t.Fatalf("%v: no edge to %s", err, names[k])
			}
		}
	})
}

func FuzzRead(f *testing.F) { format.Fuzz(f) }

// BenchmarkRead100k reads a graph of 100,000 nodes and as many edges.
func BenchmarkRead100k(b *testing.B) {
	g := &graph.Graph{Name: "long"}
	for v := range 100_000 {
		g.Nodes = append(g.Nodes, graph.Node{
			ID: fmt.Sprint("block", v), Name: "attention", Kind: graph.Forward,
			Time: 1e-3 + float64(v)*1e-9, Memory: 1e6 + float64(v),
		})
		if v > 0 {
			g.Edges = append(g.Edges, graph.Edge{From: v - 1, To: v})
		}
	}
	format.Benchmark(b, g)
}
