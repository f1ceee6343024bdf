package chain_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"workbench/model/instance/chain"
	"workbench/model/platform"
	"workbench/model/strictjson"
	"workbench/model/testfile"
)

const small = `{
  "format": "workbench.chain/v1",
  "name": "small",
  "samples": 32,
  "input": {"activation": 5, "gradient": 6},
  "layers": [
    {"name": "conv", "forward_time": 0.5, "backward_time": 1, "activation": 10, "saved": 30,
     "gradient": 11, "forward_overhead": 1, "backward_overhead": 2, "weight": 100},
    {"name": "loss", "forward_time": 0, "backward_time": 0, "activation": 4}
  ],
  "source": {"kind": "measured", "device": "V100-16GB"}
}
`

func smallChain() *chain.Chain {
	return &chain.Chain{
		Name: "small", Samples: 32, Input: chain.Input{Activation: 5, Gradient: 6},
		Layers: []chain.Layer{
			{
				Name: "conv", ForwardTime: 0.5, BackwardTime: 1, Activation: 10, Saved: 30,
				Gradient: 11, ForwardOverhead: 1, BackwardOverhead: 2, Weight: 100,
			},
			{Name: "loss", Activation: 4, Saved: 4, Gradient: 4},
		},
		Source: map[string]any{"kind": "measured", "device": "V100-16GB"},
	}
}

var format = testfile.Format[*chain.Chain]{
	Name: "chain", Read: chain.Read, Good: []string{small, own}, Bad: bad,
	Parts: func(c *chain.Chain) (*[]strictjson.Extra, *map[string]any) { return &c.Extra, &c.Source },
}

func read(s string) (*chain.Chain, error) { return format.Parse(s) }

func TestRead(t *testing.T) {
	c, err := read(small)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(smallChain(), c); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if n, total := c.Len(), c.TotalTime(); n != 2 || total != 1.5 {
		t.Errorf("%d layers, %g s; want 2, 1.5 s", n, total)
	}
	want := chain.Totals{ForwardTime: 0.5, BackwardTime: 1, Activation: 14, Saved: 34, Weight: 100}
	if got := c.Totals(); got != want {
		t.Errorf("totals %+v, want %+v", got, want)
	}
}

func TestDefaults(t *testing.T) {
	c, err := read(`{"format": "workbench.chain/v1", "input": {"activation": 7},
		"layers": [{"forward_time": 1, "backward_time": 2, "activation": 3}]}`)
	if err != nil {
		t.Fatal(err)
	}
	want := &chain.Chain{
		Input:  chain.Input{Activation: 7, Gradient: 7},
		Layers: []chain.Layer{{ForwardTime: 1, BackwardTime: 2, Activation: 3, Saved: 3, Gradient: 3}},
	}
	if diff := cmp.Diff(want, c); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// bad are documents made from small that are refused. Those marked are refused
// for what a schema cannot say.
var bad = []testfile.Bad{
	{"empty", small, "", "1: the file is empty", false},
	{
		"truncated", small[strings.Index(small, "10, \"saved"):], "", "7: layers[0].activation: the file ends in the middle of the document",
		false,
	},
	{"trailing data", "}\n}\n", "}\n}\n{}", "13: data after the end of the document", false},
	{"not an object", small, "[]", "1: a list where an object is needed", false},
	{"version", "chain/v1", "chain/v2", `2: format: "workbench.chain/v2" is not understood here; it must be "workbench.chain/v1"`, false},
	{"other format", "chain/v1", "plan/v1", `2: format: "workbench.plan/v1" is not understood here; it must be "workbench.chain/v1"`, false},
	{"no format", `"format": "workbench.chain/v1",`, ``, `1: format: missing; it must be "workbench.chain/v1"`, false},
	{"NaN", `"activation": 10`, `"activation": NaN`, "7: layers[0].activation: not JSON: invalid character 'N'", false},
	{"infinite", `"activation": 10`, `"activation": Infinity`, "7: layers[0].activation: not JSON: invalid character 'I'", false},
	{"out of range", `"weight": 100`, `"weight": 1e999`, "8: layers[0].weight: 1e999 is out of range", false},
	{"negative", `"weight": 100`, `"weight": -100`, "8: layers[0].weight: -100 is negative", false},
	{"negative time", `"backward_time": 1`, `"backward_time": -1`, "7: layers[0].backward_time: -1 is negative", false},
	{"negative overhead", `"forward_overhead": 1`, `"forward_overhead": -1e-9`, "8: layers[0].forward_overhead: -1e-09 is negative", false},
	{"negative default", `"activation": 4`, `"activation": -4`, "9: layers[1].activation: -4 is negative", false},
	{"negative input", `"activation": 5`, `"activation": -5`, "5: input.activation: -5 is negative", false},
	{"negative gradient of the input", `"gradient": 6`, `"gradient": -6`, "5: input.gradient: -6 is negative", false},
	{
		"13 decimals", `"weight": 100`, `"weight": 0.0000000000016`,
		"8: layers[0].weight: 0.0000000000016 bytes are not exact: sizes have at most 15 digits, at most 12 of them decimals; the nearest " +
			"such size is 0.000000000002", true,
	},
	{
		"a third", `"weight": 100`, `"weight": 1333.3333333333333`,
		"8: layers[0].weight: 1333.3333333333333 bytes are not exact: sizes have at most 15 digits, at most 12 of them decimals; the nearest " +
			"such size is 1333.33333333333", true,
	},
	{
		"two units in the last place", `"weight": 100`, `"weight": 431400000.0000001`,
		"8: layers[0].weight: 431400000.0000001 bytes are not exact: sizes have at most 15 digits, at most 12 of them decimals; the nearest " +
			"such size is 431400000", true,
	},
	{"too large a sum", `"weight": 100`, `"weight": 1e15`, "6: layers: all sizes together are 1.0000000000000", true},
	{
		"too large a sum for its decimals", `"weight": 100`, `"weight": 1e3, "checkpoint_overhead": 0.000000000001`,
		"6: layers: all sizes together are 1077.000000000001 bytes; they are added exactly below 1000 bytes", true,
	},
	{"negative samples", `"samples": 32`, `"samples": -32`, "4: samples: -32 is negative; leave it out if it is unknown", false},
	{
		"saved below activation", `"saved": 30`, `"saved": 9.5`, "7: layers[0].saved: 9.5 is below activation 10: saved includes the activation",
		true,
	},
	{"unknown field", `"weight"`, `"weigth"`, "8: layers[0].weigth: unknown field; known are name, forward_time, backward_time, " +
		"activation, saved, gradient, forward_overhead, checkpoint_overhead, backward_overhead, weight, input_gradient_time", false},
	{
		"checkpoint_overhead too small", `"backward_overhead": 2`, `"checkpoint_overhead": 0.5, "backward_overhead": 2`,
		"8: layers[0].checkpoint_overhead: 0.5 is not between forward_overhead 1 and forward_overhead + saved - activation 21: ", true,
	},
	{
		"checkpoint_overhead too large", `"backward_overhead": 2`, `"checkpoint_overhead": 22, "backward_overhead": 2`,
		"8: layers[0].checkpoint_overhead: 22 is not between forward_overhead 1 and forward_overhead + saved - activation 21: ", true,
	},
	{
		"unknown field above", `"samples"`, `"batch"`, "4: batch: unknown field; known are format, name, samples, input, layers, source, and",
		false,
	},
	{"unknown field of the input", `"gradient": 6`, `"grad": 6`, "5: input.grad: unknown field; known are activation, gradient, and", false},
	{"capitals", `"weight"`, `"Weight"`, "8: layers[0].Weight: the field is written weight", false},
	{"field twice", `"weight": 100`, `"weight": 100, "weight": 100`, "8: layers[0].weight: the field stands twice", true},
	{
		"no layers", small[strings.Index(small, ` "layers"`):strings.Index(small, ` "source"`)], ``,
		"1: layers: a chain needs at least one layer, the last one being the loss", false,
	},
	{
		"empty chain", small[strings.Index(small, `[`):strings.Index(small, `,`+"\n"+`  "source"`)], `[]`,
		"6: layers: a chain needs at least one layer, the last one being the loss", false,
	},
	{"no forward time", `"forward_time": 0, `, ``, "9: layers[1]: forward_time is missing", false},
	{"no backward time", `"backward_time": 1, `, ``, "7: layers[0]: backward_time is missing", false},
	{"no activation", `, "activation": 4`, ``, "9: layers[1]: activation is missing", false},
	{"no activation of the input", `"activation": 5, `, ``, "5: input: activation is missing", false},
	{"null", `"activation": 4`, `"activation": null`, "9: layers[1].activation: null where a number is needed", false},
	{"null for a default", `"saved": 30`, `"saved": null`, "7: layers[0].saved: null where a number is needed", false},
	{"null for the input", `{"activation": 5, "gradient": 6}`, `null`, "5: input: null where an object is needed", false},
	{"null for the source", `{"kind": "measured", "device": "V100-16GB"}`, `null`, "11: source: null where an object is needed", false},
	{"null for a layer", `"layers": [`, `"layers": [null,`, "6: layers[0]: null where an object is needed", false},
	{"text for a number", `"weight": 100`, `"weight": "100MB"`, "8: layers[0].weight: a text where a number is needed", false},
	{"number for a text", `"name": "loss"`, `"name": 2`, "9: layers[1].name: a number where a text is needed", false},
	{"fraction of a sample", `"samples": 32`, `"samples": 0.5`, "4: samples: 0.5 where an integer is needed", false},
	{"object for layers", `"layers": [`, `"layers": {}, "x-layers": [`, "6: layers: an object where a list is needed", false},
	{"list for a layer", `"layers": [`, `"layers": [[1, 2],`, "6: layers[0]: a list where an object is needed", false},
	{"text for the source", `{"kind": "measured", "device": "V100-16GB"}`, `"a paper"`, "11: source: a text where an object is needed", false},
}

func TestReadErrors(t *testing.T) { format.ReadErrors(t) }

// own is small with fields of the user's own everywhere.
var own = strings.NewReplacer(
	`"name": "small"`, `"name": "small", "x-note": ["any", {"thing": null}]`,
	`"gradient": 6`, `"gradient": 6, "x-": 1`,
	`"name": "loss"`, `"x-kind": "softmax", "name": "loss"`,
).Replace(small)

func TestOwnFields(t *testing.T) {
	format.OwnFields(t, own, smallChain(), ` x-note ["any",{"thing":null}]`, "input x- 1", `layers[1] x-kind "softmax"`)
}

func TestWriteGolden(t *testing.T) { format.WriteGolden(t, "small.json", own) }

func TestWriteErrors(t *testing.T) {
	c := smallChain()
	c.Layers[1].Weight = math.Inf(1)
	format.WriteErrors(t, smallChain(), c, "chain small: json: unsupported value: +Inf")
}

func TestValidate(t *testing.T) {
	format.Validate(t, smallChain, map[string]func(*chain.Chain){
		"layers: a chain needs":               func(c *chain.Chain) { c.Layers = nil },
		"samples: -1 is negative":             func(c *chain.Chain) { c.Samples = -1 },
		"input.activation: NaN is not finite": func(c *chain.Chain) { c.Input.Activation = math.NaN() },
		"input.gradient: +Inf is not finite":  func(c *chain.Chain) { c.Input.Gradient = math.Inf(1) },
		"layers[0].forward_time: NaN is not finite": func(
			c *chain.Chain,
		) {
			c.Layers[0].ForwardTime = math.NaN()
		},
		"layers[0].backward_time: -Inf is not finite": func(
			c *chain.Chain,
		) {
			c.Layers[0].BackwardTime = math.Inf(-1)
		},
		"layers[1].activation: -1 is negative":       func(c *chain.Chain) { c.Layers[1].Activation = -1 },
		"layers[1].gradient: -1 is negative":         func(c *chain.Chain) { c.Layers[1].Gradient = -1 },
		"layers[1].forward_overhead: -1 is negative": func(c *chain.Chain) { c.Layers[1].ForwardOverhead = -1 },
		"layers[1].backward_overhead: +Inf is not finite": func(
			c *chain.Chain,
		) {
			c.Layers[1].BackwardOverhead = math.Inf(1)
		},
		"layers[1].weight: NaN is not finite":                                             func(c *chain.Chain) { c.Layers[1].Weight = math.NaN() },
		"layers[1].saved: 3 is below activation 4":                                        func(c *chain.Chain) { c.Layers[1].Saved = 3 },
		"layers[1].weight: 0.5 is not an integer":                                         func(c *chain.Chain) { c.Layers[1].Weight = 0.5 },
		"input.gradient: 6.5 is not an integer multiple of the unit of sizes, 0.01 bytes": func(c *chain.Chain) { c.Input.Gradient, c.Unit = 6.5, 2 },
		"layers: all sizes together are 1.00":                                             func(c *chain.Chain) { c.Layers[0].Weight = 1e15 },
	})
}

// chains generates valid chains.
func chains() *rapid.Generator[*chain.Chain] {
	number := testfile.Seconds()
	size := rapid.Map(rapid.Int64Range(0, 3e13), func(n int64) float64 { return float64(n) })
	text := rapid.Custom(func(t *rapid.T) string { return strings.ToValidUTF8(rapid.String().Draw(t, "text"), "?") })
	return rapid.Custom(func(t *rapid.T) *chain.Chain {
		c := &chain.Chain{
			Name: text.Draw(t, "name"), Samples: rapid.IntRange(0, math.MaxInt).Draw(t, "samples"),
			Input: chain.Input{Activation: size.Draw(t, "input"), Gradient: size.Draw(t, "input gradient")},
			Unit:  platform.Unit(rapid.IntRange(0, int(platform.FinestUnit)).Draw(t, "unit")),
		}
		if c.Unit > platform.Byte && int64(c.Input.Gradient)%10 == 0 {
			c.Input.Gradient++ // so that no larger unit would do
		}
		for range rapid.IntRange(1, 5).Draw(t, "layers") {
			activation := size.Draw(t, "activation")
			c.Layers = append(c.Layers, chain.Layer{
				Name: text.Draw(t, "layer"), ForwardTime: number.Draw(t, "forward"), BackwardTime: number.Draw(t, "backward"),
				Activation: activation, Saved: max(activation, size.Draw(t, "saved")), Gradient: size.Draw(t, "gradient"),
				ForwardOverhead: size.Draw(t, "forward overhead"), BackwardOverhead: size.Draw(t, "backward overhead"),
				Weight: size.Draw(t, "weight"),
			})
		}
		if rapid.Bool().Draw(t, "with source") {
			c.Source = map[string]any{text.Draw(t, "key"): text.Draw(t, "value")}
		}
		return c
	})
}

func TestRoundTrip(t *testing.T) { format.RoundTrip(t, chains()) }

func TestDigest(t *testing.T) {
	format.Digests(t, "3f98d48ba529a3b2d529e5c5a020d9c715184625c6abc2f2e9b496ff8279bc76", map[string]string{
		"other source":    strings.Replace(small, "measured", "guessed", 1),
		"no source":       small[:strings.Index(small, ",\n  \"source\"")] + "}",
		"own fields":      own,
		"defaults":        strings.Replace(small, `"activation": 4`, `"activation": 4, "saved": 4, "gradient": 4, "weight": 0`, 1),
		"numbers written": strings.Replace(strings.Replace(small, `100`, `1.0E+2`, 1), `"forward_time": 0,`, `"forward_time": -0.0,`, 1),
		"order":           strings.Replace(strings.Replace(small, `"samples": 32,`, ``, 1), `"source"`, `"samples": 32, "source"`, 1),
	}, [][2]string{{`"small"`, `"other"`}, {`"loss"`, `"last"`}, {`32`, `33`}, {`"gradient": 6`, `"gradient": 7`}, {`100`, `100.000000001`}})
}

// Sizes with decimals are whole numbers of the largest power of ten that does,
// read exactly; whole numbers may be written in any way.
func TestDecimals(t *testing.T) {
	for text, want := range map[string]struct {
		unit   platform.Unit
		weight float64
		input  float64
	}{
		"1e2": {0, 100, 5}, "1.5e9": {0, 1.5e9, 5}, "150.0": {0, 150, 5}, "1200e-2": {0, 12, 5},
		"0.3": {1, 3, 50}, "100.10": {1, 1001, 50}, "12e-2": {2, 12, 500}, "0.000000001": {9, 1, 5e9}, "1e-12": {12, 1, 5e12},
		// One unit in the last place beside such a number is that number.
		"431400000.00000006": {0, 431400000, 5}, "431399999.99999994": {0, 431400000, 5}, "100.00000000000000001": {0, 100, 5},
		"0.30000000000000004": {1, 3, 50}, "0.29999999999999993": {1, 3, 50}, "4.35e0": {2, 435, 500},
		"123456.123456789": {9, 123456123456789, 5e9},
	} {
		c, err := read(strings.Replace(small, `"weight": 100`, `"weight": `+text, 1))
		if err != nil {
			t.Error(err)
			continue
		}
		if c.Unit != want.unit || c.Layers[0].Weight != want.weight || c.Input.Activation != want.input {
			t.Errorf("%s: %v of 1e-%d bytes, input %v; want %+v", text, c.Layers[0].Weight, c.Unit, c.Input.Activation, want)
		}
		if s := testfile.Text(t, c); !strings.Contains(s, `"input": {"activation":5,`) {
			t.Errorf("%s is written\n%s", text, s)
		}
	}
}

func TestSchema(t *testing.T) { format.Schema(t) }

func FuzzRead(f *testing.F) { format.Fuzz(f) }

// BenchmarkRead100k reads a chain of 100,000 layers with all their fields.
func BenchmarkRead100k(b *testing.B) {
	c := &chain.Chain{Name: "long", Input: chain.Input{Activation: 1 << 20, Gradient: 1 << 20}}
	for i := range 100_000 {
		a := 1e6 + float64(i)
		c.Layers = append(c.Layers, chain.Layer{
			Name: fmt.Sprintf("block%d.attention", i), ForwardTime: 1e-3 + a*1e-12, BackwardTime: 2e-3 + a*1e-12,
			Activation: a, Saved: 3 * a, Gradient: a, Weight: 4 * a,
		})
	}
	format.Benchmark(b, c)
}
