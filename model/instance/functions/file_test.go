package functions_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"workbench/model/instance/functions"
	"workbench/model/platform"
	"workbench/model/strictjson"
	"workbench/model/testfile"
)

const small = `{
  "format": "workbench.functions/v1",
  "name": "small",
  "samples": 32,
  "variables": [
    {"id": "x", "size": 10, "initial": "device"},
    {"id": "w", "size": 4, "initial": "host"},
    {"id": "y", "size": 2.5}
  ],
  "functions": [
    {"name": "conv 3x3", "kind": "forward", "time": 0.5, "uses": ["x", "w", "y"], "writes": ["y"], "last": []},
    {"time": 0, "uses": []},
    {"name": "back", "time": 1, "uses": ["y", "w"], "last": ["y", "w"]},
    {"name": "end", "time": 0, "uses": ["x"], "writes": []}
  ],
  "source": {"kind": "measured", "device": "V100-16GB"}
}
`

func smallSequence() *functions.Sequence {
	return &functions.Sequence{
		Name: "small", Samples: 32,
		Variables: []functions.Variable{
			{ID: "x", Size: 100, Initial: functions.Device},
			{ID: "w", Size: 40, Initial: functions.Host},
			{ID: "y", Size: 25},
		},
		Unit: 1, // y has 2.5 bytes
		Functions: []functions.Function{
			{Name: "conv 3x3", Kind: functions.Forward, Time: 0.5, Uses: []int{0, 1, 2}, Writes: []int{2}},
			{Uses: []int{}, Writes: []int{}},
			{Name: "back", Time: 1, Uses: []int{2, 1}, Writes: []int{2, 1}},
			{Name: "end", Uses: []int{0}, Writes: []int{}},
		},
		Source: map[string]any{"kind": "measured", "device": "V100-16GB"},
	}
}

// numbered is small with numbers for ids.
var numbered = strings.NewReplacer(`"x"`, `7`, `"w"`, `0`, `"y"`, `12`).Replace(small)

var format = testfile.Format[*functions.Sequence]{
	Name: "functions", Read: functions.Read, Good: []string{small, numbered, own}, Bad: bad,
	Parts: func(s *functions.Sequence) (*[]strictjson.Extra, *map[string]any) { return &s.Extra, &s.Source },
}

func read(s string) (*functions.Sequence, error) { return format.Parse(s) }

func TestRead(t *testing.T) {
	s, err := read(small)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(smallSequence(), s); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Ids are the same whether they are written as numbers or as texts of them.
func TestNumbersForIDs(t *testing.T) {
	s, err := read(numbered)
	if err != nil {
		t.Fatal(err)
	}
	texts, err := read(strings.NewReplacer(` 7`, ` "7"`, `[7`, `["7"`, `12`, `"12"`).Replace(numbered))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(s, texts); diff != "" {
		t.Errorf("(-numbers +texts):\n%s", diff)
	}
	if s := testfile.Text(t, s); !strings.Contains(s, `{"id":7,`) || !strings.Contains(s, `[7,0,12]`) {
		t.Errorf("numbers are written\n%s", s)
	}
	for _, other := range []string{"07", "-1", "a", "1234567890123456"} {
		s.Variables[1].ID = other
		if text := testfile.Text(t, s); !strings.Contains(text, `{"id":"7",`) || !strings.Contains(text, `"12"`) {
			t.Errorf("numbers beside %q are written\n%s", other, text)
		}
	}
}

// bad are documents made from small that are refused. Those marked are refused
// for what a schema cannot say.
var bad = []testfile.Bad{
	{"empty", small, "", "1: the file is empty", false},
	{"truncated", small[strings.Index(small, "10, \"init"):], "", "6: variables[0].size: the file ends in the middle of the document", false},
	{"trailing data", "}\n}\n", "}\n}\n{}", "18: data after the end of the document", false},
	{"version", "functions/v1", "functions/v2", `2: format: "workbench.functions/v2" is not understood here; it must be "workbench.functions/v1"`, false},
	{"no format", `"format": "workbench.functions/v1",`, ``, `1: format: missing`, false},
	{
		"unknown field", `"writes"`, `"write"`, "11: functions[0].write: unknown field; known are name, kind, time, uses, writes, last, and",
		false,
	},
	{
		"unknown field of a variable", `"initial"`, `"initally"`, "6: variables[0].initally: unknown field; known are id, size, initial, and",
		false,
	},
	{"unknown field above", `"samples"`, `"batch"`, "4: batch: unknown field; known are format, name, samples, variables, functions, " +
		"source, and", false},
	{"field twice", `"size": 4`, `"size": 4, "size": 4`, "7: variables[1].size: the field stands twice", true},
	{"negative samples", `"samples": 32`, `"samples": -32`, "4: samples: -32 is negative", false},
	{
		"no variables", small[strings.Index(small, `  "variables"`):strings.Index(small, `  "functions"`)], ``,
		"1: variables: missing; it lists what functions use", false,
	},
	{"null variables", `"variables": [`, `"variables": null, "x-variables": [`, "5: variables: null where a list is needed", false},
	{
		"no functions", small[strings.Index(small, `  "functions"`):strings.Index(small, `  "source"`)], ``,
		"1: functions: a sequence needs at least one function", false,
	},
	{"no id", `"id": "w", `, ``, "7: variables[1]: id is missing", false},
	{"empty id", `"id": "w"`, `"id": ""`, "7: variables[1].id: the id is empty", false},
	{"null id", `"id": "w"`, `"id": null`, "7: variables[1].id: an id is a text or an integer ≥ 0", false},
	{"half an id", `"id": "w"`, `"id": 0.5`, "7: variables[1].id: an id is a text or an integer ≥ 0 of at most 15 digits", false},
	{"id twice", `"id": "w"`, `"id": "x"`, `7: variables[1].id: "x" is the id of variables[0] already`, true},
	{"no size", `, "size": 4`, ``, `7: variables[1]: size is missing; variable "w" needs one, in bytes`, false},
	{"null size", `"size": 4`, `"size": null`, "7: variables[1].size: null where a number is needed", false},
	{"13 decimals", `"size": 4`, `"size": 40000000000e-23`, "7: variables[1].size: 40000000000e-23 bytes are not exact", true},
	{"negative size", `"size": 4`, `"size": -4`, "7: variables[1].size: -4 is negative", false},
	{"NaN", `"size": 4`, `"size": NaN`, "7: variables[1].size: not JSON", false},
	{"out of range", `"size": 4`, `"size": 1e999`, "7: variables[1].size: 1e999 is out of range", false},
	{"unknown place", `"host"`, `"disk"`, `7: variables[1].initial: "disk" is unknown; it is "host" or "device", or left out`, false},
	{"empty place", `"host"`, `""`, `7: variables[1].initial: "" is unknown`, false},
	{"null place", `"host"`, `null`, `7: variables[1].initial: null where a text is needed`, false},
	{
		"unknown kind", `"forward"`, `"update"`, `11: functions[0].kind: "update" is unknown; it is "forward", "loss" or "backward", or left out`,
		false,
	},
	{"null kind", `"forward"`, `null`, `11: functions[0].kind: null where a text is needed`, false},
	{"no time", `"time": 1, `, ``, `13: functions[2]: time is missing; a function needs one, in seconds`, false},
	{"negative time", `"time": 1`, `"time": -1`, "13: functions[2].time: -1 is negative", false},
	{"text for a number", `"time": 1`, `"time": "1s"`, "13: functions[2].time: a text where a number is needed", false},
	{"no uses", `"time": 0, "uses": []`, `"time": 0`, `12: functions[1]: uses is missing; it lists the ids of variables, and is [] if the function uses none`, false},
	{"null uses", `"uses": []`, `"uses": null`, `12: functions[1].uses: null where a list is needed`, false},
	{"null writes", `"writes": []`, `"writes": null`, `14: functions[3].writes: null where a list is needed`, false},
	{"null last", `"last": []`, `"last": null`, `11: functions[0].last: null where a list is needed`, false},
	{"text for a list", `"writes": []`, `"writes": "x"`, `14: functions[3].writes: a text where a list is needed`, false},
	{"null in a list", `["x"]`, `[null]`, `14: functions[3].uses[0]: an id is a text or an integer`, false},
	{"use of nothing", `["x"]`, `["v"]`, `14: functions[3].uses[0]: there is no variable with id "v"`, true},
	{"use of a number", `["x"]`, `[3]`, `14: functions[3].uses[0]: there is no variable with id "3"`, true},
	{"used twice", `["x"]`, `["x", "x"]`, `14: functions[3].uses[1]: "x" is listed twice`, true},
	{"write of nothing", `"writes": []`, `"writes": ["v"]`, `14: functions[3].writes[0]: there is no variable with id "v"`, true},
	{
		"write of what is not used", `"writes": []`, `"writes": ["y"]`, `14: functions[3].writes[0]: "y" is not among what the function uses`,
		true,
	},
	{"written twice", `"writes": []`, `"writes": ["x", "x"]`, `14: functions[3].writes[1]: "x" is listed twice`, true},
	{"last of nothing", `"last": []`, `"last": ["v"]`, `11: functions[0].last[0]: there is no variable with id "v"`, true},
	{"not the last", `"last": []`, `"last": ["x"]`, `11: functions[0].last[0]: the last use of "x" is in functions[3]`, true},
	{"last twice", `"last": ["y", "w"]`, `"last": ["y", "w", "y"]`, `13: functions[2].last[2]: "y" is listed twice`, true},
	{
		"last left out", `"last": ["y", "w"]`, `"last": ["y"]`,
		`13: functions[2].last: "w" is missing, which no later function uses; last may be left out as a whole`, true,
	},
	{"used by none", `"variables": [`, `"variables": [{"id": 1, "size": 0},`, `5: variables[0]: no function uses "1"; leave it out`, true},
}

func TestReadErrors(t *testing.T) { format.ReadErrors(t) }

func TestSchema(t *testing.T) { format.Schema(t) }

// own is small with fields of the user's own everywhere.
var own = strings.NewReplacer(
	`"name": "small"`, `"name": "small", "x-note": ["any", {"thing": null}]`,
	`"id": "w"`, `"id": "w", "x-layer": 3`,
	`"name": "back"`, `"name": "back", "x-op": "softmax"`,
).Replace(small)

func TestOwnFields(t *testing.T) {
	format.OwnFields(t, own, smallSequence(), ` x-note ["any",{"thing":null}]`, `functions[2] x-op "softmax"`, "variables[1] x-layer 3")
}

func TestWriteGolden(t *testing.T) { format.WriteGolden(t, "small.json", own) }

func TestWriteErrors(t *testing.T) {
	s := smallSequence()
	s.Variables[1].Size = math.Inf(1)
	format.WriteErrors(t, smallSequence(), s, "functions small: variables[1].size: +Inf is not finite")
}

func TestValidate(t *testing.T) {
	format.Validate(t, smallSequence, map[string]func(*functions.Sequence){
		"functions: a sequence needs":                                   func(s *functions.Sequence) { s.Functions = nil },
		"samples: -1 is negative":                                       func(s *functions.Sequence) { s.Samples = -1 },
		"variables[1].id: the id is empty":                              func(s *functions.Sequence) { s.Variables[1].ID = "" },
		`variables[2].id: "x" is the id of variables[0] already`:        func(s *functions.Sequence) { s.Variables[2].ID = "x" },
		`variables[2].initial: "gpu" is unknown`:                        func(s *functions.Sequence) { s.Variables[2].Initial = "gpu" },
		"variables[0].size: -0.1 is negative":                           func(s *functions.Sequence) { s.Variables[0].Size = -1 },
		"variables[0].size: 0.5 is not an integer":                      func(s *functions.Sequence) { s.Variables[0].Size = 0.5 },
		"variables: all sizes together are 1.0":                         func(s *functions.Sequence) { s.Variables[2].Size = 1e15 },
		`functions[1].kind: "F" is unknown`:                             func(s *functions.Sequence) { s.Functions[1].Kind = "F" },
		"functions[0].time: NaN is not finite":                          func(s *functions.Sequence) { s.Functions[0].Time = math.NaN() },
		"functions[3].uses[0]: is variable 3; there are variables 0":    func(s *functions.Sequence) { s.Functions[3].Uses[0] = 3 },
		"functions[3].uses[0]: is variable -1; there are variables 0":   func(s *functions.Sequence) { s.Functions[3].Uses[0] = -1 },
		`functions[2].uses[1]: "y" is listed twice`:                     func(s *functions.Sequence) { s.Functions[2].Uses[1] = 2 },
		"functions[0].writes[0]: is variable 3; there are variables 0":  func(s *functions.Sequence) { s.Functions[0].Writes[0] = 3 },
		"functions[0].writes[0]: is variable -2; there are variables 0": func(s *functions.Sequence) { s.Functions[0].Writes[0] = -2 },
		`functions[3].writes[0]: "y" is not among`:                      func(s *functions.Sequence) { s.Functions[3].Writes = []int{2} },
		`variables[0]: no function uses "x"`: func(s *functions.Sequence) {
			s.Functions[0].Uses,
				s.Functions[3].Uses = []int{1, 2}, nil
		},
	})
}

// sequences generates valid sequences.
func sequences() *rapid.Generator[*functions.Sequence] {
	number := testfile.Seconds()
	size := rapid.Map(rapid.Int64Range(0, 3e13), func(n int64) float64 { return float64(n) })
	text := rapid.Custom(func(t *rapid.T) string { return strings.ToValidUTF8(rapid.String().Draw(t, "text"), "?") })
	return rapid.Custom(func(t *rapid.T) *functions.Sequence {
		s := &functions.Sequence{
			Name: text.Draw(t, "name"), Samples: rapid.IntRange(0, math.MaxInt).Draw(t, "samples"),
			Variables: []functions.Variable{},
		}
		unit := platform.Unit(rapid.IntRange(0, int(platform.FinestUnit)).Draw(t, "unit"))
		prefix := text.Draw(t, "prefix")
		var all []int
		for v := range rapid.IntRange(0, 6).Draw(t, "variables") {
			all = append(all, v)
			s.Variables = append(s.Variables, functions.Variable{
				ID: prefix + fmt.Sprint(v), Size: size.Draw(t, "size"),
				Initial: rapid.SampledFrom([]string{functions.Nowhere, functions.Host, functions.Device}).Draw(t, "initial"),
			})
		}
		if len(s.Variables) > 0 && unit > platform.Byte {
			if s.Unit = unit; int64(s.Variables[0].Size)%10 == 0 {
				s.Variables[0].Size++ // so that no larger unit would do
			}
		}
		some := func(of []int, what string) []int {
			if len(of) == 0 {
				return []int{}
			}
			n := rapid.IntRange(0, len(of)).Draw(t, what)
			return append([]int{}, rapid.Permutation(of).Draw(t, what)[:n]...)
		}
		for range rapid.IntRange(0, 4).Draw(t, "functions") {
			f := functions.Function{
				Name: text.Draw(t, "function"), Time: number.Draw(t, "time"), Uses: some(all, "uses"),
				Kind: rapid.SampledFrom([]string{functions.Unknown, functions.Forward, functions.Loss, functions.Backward}).Draw(t, "kind"),
			}
			f.Writes = some(f.Uses, "writes")
			s.Functions = append(s.Functions, f)
		}
		s.Functions = append(s.Functions, functions.Function{Uses: append([]int{}, all...), Writes: []int{}})
		if rapid.Bool().Draw(t, "with source") {
			s.Source = map[string]any{text.Draw(t, "key"): text.Draw(t, "value")}
		}
		return s
	})
}

func TestRoundTrip(t *testing.T) { format.RoundTrip(t, sequences()) }

func TestDigest(t *testing.T) {
	format.Digests(t, "d8739c87215d96540c9890a72984b236249a4d45df8b57b4597a6dd2dfd3ea77", map[string]string{
		"other source": strings.Replace(small, "measured", "guessed", 1),
		"own fields":   own,
		"defaults":     strings.Replace(small, `"time": 0, "uses": []`, `"time": -0.0, "uses": [], "writes": [], "last": [], "name": ""`, 1),
		"no last":      strings.Replace(small, `, "last": []`, ``, 1),
		"all writes":   strings.Replace(small, `["y", "w"],`, `["y", "w"], "writes": ["y", "w"],`, 1),
		"written":      strings.Replace(small, `2.5`, `0.25E+1`, 1),
	}, [][2]string{
		{`"small"`, `"other"`},
		{`32`, `33`},
		{`2.5`, `2.500000001`},
		{`"initial": "host"`, `"initial": "device"`},
		{`conv 3x3`, `conv`},
		{`"forward"`, `"backward"`},
		{`0.5`, `0.25`},
		{`"writes": ["y"]`, `"writes": []`},
		{`["x"], "writes": []`, `["x"]`},
	})
}

func FuzzRead(f *testing.F) { format.Fuzz(f) }

// BenchmarkRead100k reads a sequence of 100,000 functions and as many variables.
func BenchmarkRead100k(b *testing.B) {
	s := &functions.Sequence{Name: "long"}
	for v := range 100_000 {
		s.Variables = append(s.Variables, functions.Variable{ID: fmt.Sprint("block", v), Size: 1e6 + float64(v)})
		s.Functions = append(s.Functions, functions.Function{
			Name: "attention", Time: 1e-3 + float64(v)*1e-9,
			Uses: []int{v, max(0, v-1)}[:1+min(v, 1)],
		})
	}
	format.Benchmark(b, s)
}
