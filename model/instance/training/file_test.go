package training_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"workbench/model/instance/training"
	"workbench/model/platform"
	"workbench/model/strictjson"
	"workbench/model/testfile"
)

const small = `{
  "format": "workbench.graph/v2",
  "name": "small",
  "samples": 32,
  "input": 5,
  "storages": [
    {"id": "w", "bytes": 100, "kind": "parameter", "resident": true},
    {"id": "h", "bytes": 11},
    {"id": "mask", "bytes": 2, "offload": false},
    {"id": "dw", "bytes": 100, "kind": "gradient", "result": true}
  ],
  "nodes": [
    {"id": "conv", "operation": "aten.convolution", "time": 0.5, "reads": ["w"], "writes": ["h", "mask"], "workspace": 1, "random": true, "layer": "b0"},
    {"id": "dconv", "phase": "backward", "time": 1, "reads": ["h", "mask"], "writes": ["dw"]},
    {"id": "step", "phase": "optimizer", "time": 0, "reads": ["dw"], "mutates": ["w"], "recompute": false}
  ],
  "source": {"kind": "measured", "device": "V100-16GB"}
}
`

func smallGraph() *training.Graph {
	return &training.Graph{
		Name: "small", Samples: 32, Input: 5,
		Storages: []training.Storage{
			{ID: "w", Bytes: 100, Kind: training.Parameter, Resident: true},
			{ID: "h", Bytes: 11, Kind: training.Value},
			{ID: "mask", Bytes: 2, Kind: training.Value, NoOffload: true},
			{ID: "dw", Bytes: 100, Kind: training.Gradient, Result: true},
		},
		Nodes: []training.Node{
			{
				ID: "conv", Operation: "aten.convolution", Phase: training.Forward, Time: 0.5, Reads: []int{0}, Writes: []int{1, 2}, Workspace: 1,
				Random: true, Layer: "b0",
			},
			{ID: "dconv", Phase: training.Backward, Time: 1, Reads: []int{1, 2}, Writes: []int{3}},
			{ID: "step", Phase: training.Optimizer, Reads: []int{3}, Mutates: []int{0}, Once: true},
		},
		Source: map[string]any{"kind": "measured", "device": "V100-16GB"},
	}
}

// own is small with fields of the user's own everywhere.
var own = strings.NewReplacer(
	`"name": "small"`, `"name": "small", "x-note": ["any", {"thing": null}]`,
	`"id": "h"`, `"x-shape": [5, 2], "id": "h"`,
	`"id": "step"`, `"id": "step", "x-op": "sgd"`,
).Replace(small)

// numbered is small with numbers for ids.
var numbered = strings.NewReplacer(`"w"`, `0`, `"h"`, `1`, `"mask"`, `2`, `"dw"`, `3`, `"conv"`, `0`, `"dconv"`, `1`, `"step"`, `7`, `"b0"`,
	`0`).Replace(small)

var format = testfile.Format[*training.Graph]{
	Name: "graph", Version: 2, Read: training.Read, Good: []string{small, numbered, own}, Bad: bad,
	Parts: func(g *training.Graph) (*[]strictjson.Extra, *map[string]any) { return &g.Extra, &g.Source },
}

// bad are documents made from small that are refused. Those marked are refused
// for what a schema cannot say.
var bad = []testfile.Bad{
	{"empty", small, "", "1: the file is empty", false},
	{"version", "graph/v2", "graph/v1", `2: format: "workbench.graph/v1" is not understood here; it must be "workbench.graph/v2"`, false},
	{
		"unknown field", `"kind": "parameter"`, `"kinds": "parameter"`,
		"7: storages[0].kinds: unknown field; known are id, bytes, kind, resident, result, offload, and", false,
	},
	{
		"unknown field of a node", `"workspace"`, `"overhead"`,
		"13: nodes[0].overhead: unknown field; known are id, operation, phase, time, reads, writes, workspace, mutates, recompute, random, " +
			"layer, and", false,
	},
	{"field twice", `"bytes": 11`, `"bytes": 11, "bytes": 11`, "8: storages[1].bytes: the field stands twice", true},
	{"no storages", small[strings.Index(small, ` "storages"`):strings.Index(small, ` "nodes"`)], ``, "1: storages: missing", false},
	{"no nodes", small[strings.Index(small, ` "nodes"`):strings.Index(small, ` "source"`)], ``, "1: nodes: missing", false},
	{
		"empty nodes", small[strings.Index(small, ` "nodes"`):strings.Index(small, ` "source"`)], ` "nodes": [],`,
		"12: nodes: a graph needs at least one node", false,
	},
	{"negative samples", `"samples": 32`, `"samples": -1`, "4: samples: -1 is negative", false},
	{"negative input", `"input": 5`, `"input": -5`, "5: input: -5 is negative", false},
	{"no id", `"id": "h", `, ``, "8: storages[1]: id is missing", false},
	{"empty id", `"id": "h"`, `"id": ""`, "8: storages[1].id: the id is empty", false},
	{"id twice", `"id": "h"`, `"id": "w"`, `8: storages[1].id: "w" is the id of storages[0] already`, true},
	{"null id", `"id": "h"`, `"id": null`, "8: storages[1].id: an id is a text or an integer ≥ 0", false},
	{"no bytes", `, "bytes": 11`, ``, `8: storages[1]: bytes is missing; storage "h" needs a size`, false},
	{"negative bytes", `"bytes": 11`, `"bytes": -11`, "8: storages[1].bytes: -11 is negative", false},
	{
		"unknown kind", `"kind": "parameter"`, `"kind": "weight"`, `7: storages[0].kind: "weight" is unknown; there are value, parameter,`,
		false,
	},
	{"text for a flag", `"result": true`, `"result": "yes"`, "10: storages[3].result: a text where true or false is needed", false},
	{
		"resident result", `"resident": true`, `"resident": true, "result": true`,
		`7: storages[0].result: storage "w" is resident, so it is there at the end`, true,
	},
	{"node without id", `"id": "dconv", `, ``, "14: nodes[1]: id is missing", false},
	{"node twice", `"id": "dconv"`, `"id": "conv"`, `14: nodes[1].id: "conv" is the id of nodes[0] already`, true},
	{"no time", `"time": 1, `, ``, `14: nodes[1]: time is missing; node "dconv" needs a cost`, false},
	{"negative time", `"time": 1`, `"time": -1`, "14: nodes[1].time: -1 is negative", false},
	{
		"unknown phase", `"phase": "backward"`, `"phase": "back"`,
		`14: nodes[1].phase: "back" is unknown; there are forward, loss, backward, optimizer`, false,
	},
	{"negative workspace", `"workspace": 1`, `"workspace": -1`, "13: nodes[0].workspace: -1 is negative", false},
	{"empty layer", `"layer": "b0"`, `"layer": ""`, "13: nodes[0].layer: the id is empty", false},
	{"half a layer", `"layer": "b0"`, `"layer": 0.5`, "13: nodes[0].layer: an id is a text or an integer", false},
	{"reads nothing known", `"reads": ["w"]`, `"reads": ["v"]`, `13: nodes[0].reads[0]: there is no storage with id "v"`, true},
	{"reads an object", `"reads": ["w"]`, `"reads": [{}]`, `13: nodes[0].reads[0]: an id is a text or an integer`, false},
	{"reads twice", `"reads": ["w"]`, `"reads": ["w", "w"]`, `13: nodes[0].reads[1]: storage "w" stands twice in the list`, false},
	{
		"reads what comes later", `"reads": ["w"]`, `"reads": ["w", "dw"]`,
		`13: nodes[0].reads[1]: node "conv" reads storage "dw", which no earlier node writes`, true,
	},
	{
		"reads what it writes", `"reads": ["w"]`, `"reads": ["h"]`,
		`13: nodes[0].reads[0]: node "conv" reads storage "h", which no earlier node writes`, true,
	},
	{
		"writes a resident one", `"writes": ["dw"]`, `"writes": ["dw", "w"]`,
		`14: nodes[1].writes[1]: storage "w" is resident; what node "dconv" changes of it belongs in mutates`, true,
	},
	{
		"written twice", `"writes": ["dw"]`, `"writes": ["dw", "h"]`, `14: nodes[1].writes[1]: storage "h" is written by node "conv" already`,
		true,
	},
	{
		"never written", `"writes": ["h", "mask"]`, `"writes": ["h"]`,
		`14: nodes[1].reads[1]: node "dconv" reads storage "mask", which no earlier node writes`, true,
	},
	{"never written nor read", `"writes": ["dw"]},`, `"writes": []},`, `15: nodes[2].reads[0]: node "step" reads storage "dw", which`, true},
	{
		"mutates a value", `"mutates": ["w"]`, `"mutates": ["h"]`,
		`15: nodes[2].mutates[0]: storage "h" is not resident; merge node "step" with the one`, true,
	},
	{"null reads", `"reads": ["w"]`, `"reads": null`, "13: nodes[0].reads: null where a list is needed", false},
}

func TestRead(t *testing.T) {
	g, err := format.Parse(small)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(smallGraph(), g); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if n, total := g.Len(), g.TotalTime(); n != 3 || total != 1.5 {
		t.Errorf("%d nodes, %g s; want 3, 1.5 s", n, total)
	}
	if diff := cmp.Diff([]int{-1, 0, 0, 1}, g.Writers()); diff != "" {
		t.Errorf("writers (-want +got):\n%s", diff)
	}
}

func TestReadErrors(t *testing.T) { format.ReadErrors(t) }

func TestSchema(t *testing.T) { format.Schema(t) }

func TestOwnFields(t *testing.T) {
	format.OwnFields(t, own, smallGraph(), ` x-note ["any",{"thing":null}]`, `nodes[2] x-op "sgd"`, `storages[1] x-shape [5,2]`)
}

func TestWriteGolden(t *testing.T) { format.WriteGolden(t, "small.json", own) }

func TestWriteErrors(t *testing.T) {
	g := smallGraph()
	g.Storages[1].Bytes = math.Inf(1)
	format.WriteErrors(t, smallGraph(), g, "graph small: storages[1].bytes: +Inf is not finite")
}

func TestValidate(t *testing.T) {
	format.Validate(t, smallGraph, map[string]func(*training.Graph){
		"nodes: a graph needs":                     func(g *training.Graph) { g.Nodes = nil },
		"samples: -1 is negative":                  func(g *training.Graph) { g.Samples = -1 },
		"input: NaN is not finite":                 func(g *training.Graph) { g.Input = math.NaN() },
		"storages[1].id: the id is empty":          func(g *training.Graph) { g.Storages[1].ID = "" },
		`storages[1].kind: "" is unknown`:          func(g *training.Graph) { g.Storages[1].Kind = "" },
		"storages[1].bytes: 0.5 is not an integer": func(g *training.Graph) { g.Storages[1].Bytes = 0.5 },
		"storages: all sizes together are 1.00":    func(g *training.Graph) { g.Storages[1].Bytes = 1e15 },
		`storages[4]: no node writes storage "x"`: func(
			g *training.Graph,
		) {
			g.Storages = append(g.Storages, training.Storage{ID: "x", Kind: "value"})
		},
		`nodes[1].phase: "" is unknown`:                             func(g *training.Graph) { g.Nodes[1].Phase = "" },
		"nodes[0].time: +Inf is not finite":                         func(g *training.Graph) { g.Nodes[0].Time = math.Inf(1) },
		"nodes[0].workspace: NaN is not finite":                     func(g *training.Graph) { g.Nodes[0].Workspace = math.NaN() },
		"nodes[0].reads[0]: there is no storage 4; they are 0 to 3": func(g *training.Graph) { g.Nodes[0].Reads[0] = 4 },
		"nodes[0].writes[1]: there is no storage -1":                func(g *training.Graph) { g.Nodes[0].Writes[1] = -1 },
		`nodes[0].writes[1]: storage "h" stands twice in the list`:  func(g *training.Graph) { g.Nodes[0].Writes[1] = 1 },
	})
}

func TestDigest(t *testing.T) {
	format.Digests(t, "4460318ee9ec4313ca4d5ec8f6f49e682d61f1399887db22da8578269f272fcc", map[string]string{
		"other source": strings.Replace(small, "measured", "guessed", 1),
		"own fields":   own,
		"defaults": strings.Replace(small, `"bytes": 11`,
			`"bytes": 1.1e1, "kind": "value", "resident": false, "result": false, "offload": true`, 1),
		"of a node": strings.Replace(small, `"phase": "backward"`,
			`"phase": "backward", "workspace": -0.0, "random": false, "recompute": true, "mutates": [], "operation": ""`, 1),
	}, [][2]string{
		{`"small"`, `"other"`},
		{`"input": 5`, `"input": 6`},
		{`"resident": true`, `"resident": true, "offload": false`},
		{`"result": true`, `"result": false`},
		{`"offload": false`, `"offload": true`},
		{`"random": true`, `"random": false`},
		{`"recompute": false`, `"recompute": true`},
		{`"mutates": ["w"], `, ``},
		{`"layer": "b0"`, `"layer": "b1"`},
		{`"workspace": 1`, `"workspace": 2`},
	})
}

// graphs generates valid graphs.
func graphs() *rapid.Generator[*training.Graph] {
	size := rapid.Map(rapid.Int64Range(0, 3e13), func(n int64) float64 { return float64(n) })
	text := rapid.Custom(func(t *rapid.T) string { return strings.ToValidUTF8(rapid.String().Draw(t, "text"), "?") })
	return rapid.Custom(func(t *rapid.T) *training.Graph {
		g := &training.Graph{
			Name: text.Draw(t, "name"), Samples: rapid.IntRange(0, math.MaxInt).Draw(t, "samples"), Input: size.Draw(t, "input"),
			Unit: platform.Unit(rapid.IntRange(0, int(platform.FinestUnit)).Draw(t, "unit")),
		}
		if g.Unit > platform.Byte && int64(g.Input)%10 == 0 {
			g.Input++ // so that no larger unit would do
		}
		prefix := text.Draw(t, "prefix")
		storage := func(resident bool) int {
			g.Storages = append(g.Storages, training.Storage{
				ID: prefix + fmt.Sprint(len(g.Storages)), Bytes: size.Draw(t, "bytes"), Resident: resident,
				Kind:   rapid.SampledFrom([]string{training.Value, training.Parameter, training.LossValue}).Draw(t, "kind"),
				Result: !resident && rapid.Bool().Draw(t, "result"), NoOffload: rapid.Bool().Draw(t, "pinned"),
			})
			return len(g.Storages) - 1
		}
		var resident []int
		for range rapid.IntRange(0, 3).Draw(t, "residents") {
			resident = append(resident, storage(true))
		}
		some := func(of []int, name string) (list []int) {
			for _, s := range of {
				if rapid.Bool().Draw(t, name) {
					list = append(list, s)
				}
			}
			return list
		}
		readable := append([]int(nil), resident...)
		for v := range rapid.IntRange(1, 6).Draw(t, "nodes") {
			n := training.Node{
				ID: prefix + fmt.Sprint(v), Operation: text.Draw(t, "operation"), Layer: text.Draw(t, "layer"),
				Phase: rapid.SampledFrom([]string{training.Forward, training.Loss, training.Backward, training.Optimizer}).Draw(t, "phase"),
				Time:  testfile.Seconds().Draw(t, "time"), Workspace: size.Draw(t, "workspace"),
				Once: rapid.Bool().Draw(t, "once"), Random: rapid.Bool().Draw(t, "random"),
				Reads: some(readable, "reads"), Mutates: some(resident, "mutates"),
			}
			for range rapid.IntRange(0, 3).Draw(t, "writes") {
				n.Writes = append(n.Writes, storage(false))
			}
			readable = append(readable, n.Writes...)
			g.Nodes = append(g.Nodes, n)
		}
		return g
	})
}

func TestRoundTrip(t *testing.T) { format.RoundTrip(t, graphs()) }

func FuzzRead(f *testing.F) { format.Fuzz(f) }
