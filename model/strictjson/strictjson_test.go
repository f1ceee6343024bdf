package strictjson_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"workbench/model/strictjson"
	"workbench/model/testfile"
)

// document has a field of every type that is decoded.
type document struct {
	Format string             `json:"format"`
	Count  int                `json:"count"`
	Nodes  int64              `json:"nodes"`
	Ratio  float64            `json:"ratio"`
	Sure   bool               `json:"sure"`
	Period *float64           `json:"period"`
	Saved  *float64           `json:"saved,omitempty"`
	Parts  []part             `json:"parts"`
	Inner  part               `json:"inner"`
	Source map[string]any     `json:"source,omitempty"`
	Sizes  map[string]float64 `json:"sizes"`
	Raw    json.RawMessage    `json:"raw,omitempty"`
	Any    any                `json:"any"`
	Untold int                `json:"-"`
}

type part struct {
	Name string `json:"name"`
	Size float64
	Next *part   `json:"next,omitempty"`
	More []*part `json:"more,omitempty"`
}

const fields = "format, count, nodes, ratio, sure, period, saved, parts, inner, source, sizes, raw, any"

func TestErrors(t *testing.T) {
	deep := func(n int) string { return strings.Repeat("[", n) }
	for _, x := range []struct{ name, data, want string }{
		{"empty", "", `f:1: the file is empty`},
		{"white space", " \n\n", `f:1: the file is empty`},
		{"not JSON", "hello", `f:1: not JSON: invalid character 'h' looking for beginning of value (numbers are finite, names are in double quotes)`},
		{"list", "\n[]", `f:2: a list where an object is needed`},
		{"null", "null", `f:1: null where an object is needed`},
		{"truncated", "{\"parts\": [\n {\"name\": \"a\"},\n {\"name\":\n", `f:3: parts[1].name: the file ends in the middle of the document`},
		{"truncated text", "{\n\"format\": \"work", `f:2: format: the file ends in the middle of the document`},
		{"truncated name", "{\n\"for", `f:2: the file ends in the middle of the document`},
		{"truncated word", "{\"sure\": tru", `f:1: sure: the file ends in the middle of the document`},
		{"trailing data", "{}\n\n{}", `f:3: data after the end of the document`},
		{"trailing bracket", "{}\n}", `f:2: data after the end of the document`},
		{"NaN", "{\n\"inner\": {\"Size\": NaN}}", `f:2: inner.Size: not JSON: invalid character 'N' looking for beginning of value (numbers are finite, names are in double quotes)`},
		{"single quotes", "{\n'count': 1}", `f:2: not JSON: invalid character '\'' looking for beginning of object key string (numbers are finite, names are in double quotes)`},
		{"comma", "{\"count\": 1,\n}", `f:2: not JSON: invalid character '}' looking for beginning of object key string (numbers are finite, names are in double quotes)`},
		{"missing comma", "{\"parts\": [{}\n{}]}", `f:2: parts[0]: not JSON: invalid character '{' after array element (numbers are finite, names are in double quotes)`},
		{"line feed in text", "{\"format\": \"a\nb\"}", `f:1: format: not JSON: invalid character '\n' in string literal (numbers are finite, names are in double quotes)`},
		{
			"unknown", "{\"count\": 1,\n \"parts\": [{},\n  {\"nam\": \"a\"}]}",
			`f:3: parts[1].nam: unknown field; known are name, Size, next, more, and names of your own that begin with x-`,
		},
		{"capitals", `{"Count": 1}`, `f:1: Count: the field is written count`},
		{"unknown at the top", "\r\n{\r\n\"z\": 1}\r\n", `f:3: z: unknown field; known are ` + fields +
			`, and names of your own that begin with x-`},
		{"name of Go", `{"Untold": 1}`, `f:1: Untold: unknown field; known are ` + fields + `, and names of your own that begin with x-`},
		{"unprintable name", `{"a\nb": 1}`, `f:1: "a\nb": unknown field; known are ` + fields + `, and names of your own that begin with x-`},
		{"twice", "{\"count\": 1,\n\"count\": 1}", `f:2: count: the field stands twice`},
		{"twice with an escape", "{\"count\": 1,\n\"c\\u006funt\": 1}", `f:2: count: the field stands twice`},
		{"twice inside", "{\"parts\":[{\"Size\":1}, {\"next\":\n{}, \"Size\":1, \"Size\":2}]}", `f:2: parts[1].Size: the field stands twice`},
		{"twice in a map", "{\"source\": {\"a\": 1,\n \"b\": 2, \"a\": 3}}", `f:2: source.a: the field stands twice`},
		{"twice of one's own", "{\"x-a\": 1,\n\"x-a\": 2}", `f:2: x-a: the field stands twice`},
		{"out of range", "{\"parts\": [{\"Size\": 1},\n{\"Size\": 1e999}]}", `f:2: parts[1].Size: 1e999 is out of range`},
		{"out of range, long", `{"ratio": 1` + strings.Repeat("0", 400) + `}`, `f:1: ratio: 1` + strings.Repeat("0", 39) + `… is out of range`},
		{"out of range, anything", `{"source": {"a": [0, -1e400]}}`, `f:1: source.a[1]: -1e400 is out of range`},
		{"out of range, whole", `{"count": 9223372036854775808}`, `f:1: count: 9223372036854775808 is out of range`},
		{"fraction", `{"count": 1.5}`, `f:1: count: 1.5 where an integer is needed, in digits only`},
		{"exponent", `{"nodes": 1e3}`, `f:1: nodes: 1e3 where an integer is needed, in digits only`},
		{"text for number", `{"ratio": "1"}`, `f:1: ratio: a text where a number is needed`},
		{"number for text", `{"format": 1}`, `f:1: format: a number where a text is needed`},
		{"true for number", `{"ratio": true}`, `f:1: ratio: true where a number is needed`},
		{"number for truth", `{"sure": 0}`, `f:1: sure: a number where true or false is needed`},
		{"object for number", `{"ratio": {}}`, `f:1: ratio: an object where a number is needed`},
		{"object for list", `{"parts": {}}`, `f:1: parts: an object where a list is needed`},
		{"number for map", `{"sizes": 1}`, `f:1: sizes: a number where an object is needed`},
		{"text in a map", `{"sizes": {"a": ""}}`, `f:1: sizes.a: a text where a number is needed`},
		{"null for number", `{"ratio": null}`, `f:1: ratio: null where a number is needed`},
		{"null for list", `{"parts": null}`, `f:1: parts: null where a list is needed`},
		{"null for what may be left out", `{"saved": null}`, `f:1: saved: null where a number is needed`},
		{"null for a map that may be left out", `{"source": null}`, `f:1: source: null where an object is needed`},
		{"not UTF-8", "{\"format\":\n\"\xe9\"}", `f:2: the text is not UTF-8`},
		{"UTF-16", "\xff\xfe{\x00}\x00", `f:1: the text is not UTF-8`},
		{"deep", `{"any":` + "\n" + deep(20000), `f:2: any` + strings.Repeat("[0]", 15) + `…: lists and objects are nested more than 10000 deep`},
		{
			"deep and whole", deep(20000) + strings.Repeat("]", 20000),
			`f:1: ` + strings.Repeat("[0]", 16) + `…: lists and objects are nested more than 10000 deep`,
		},
	} {
		t.Run(x.name, func(t *testing.T) {
			err := strictjson.Decode([]byte(x.data), "f", &document{})
			var located *strictjson.Error
			if !errors.As(err, &located) {
				t.Fatalf("error %v is no *Error", err)
			}
			if diff := cmp.Diff(x.want, err.Error()); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAccepted(t *testing.T) {
	for _, data := range []string{
		`{}`, " {\r\n} \n",
		`{"x-mine": {"a": 1e999, "b": [null]}, "inner": {"x-": 1, "x-a": null}}`,
		`{"period": null, "sizes": null, "any": null, "source": {"a": null}}`,
		`{"raw": null, "parts": [{"more": [null, {"name": "\ud83d\ude00 \"\\"}]}]}`,
		`{"raw": [1e999], "ratio": -0.5E-3}`,
		`{"\u0063ount": 1}`,
		`{"any": ` + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + `}`,
	} {
		if err := strictjson.Decode([]byte(data), "f", &document{}); err != nil {
			t.Errorf("%.60s: %v", data, err)
		}
	}
}

func TestExtras(t *testing.T) {
	data := []byte(`{"x-a": [1, 2], "parts": [{}, {"x-b": "c", "next": {"x-d": null}}], "source": {"x-e": 1}}`)
	got, err := strictjson.DecodeExtras(data, "f", &document{})
	if err != nil {
		t.Fatal(err)
	}
	want := []strictjson.Extra{
		{Path: "", Key: "x-a", Value: json.RawMessage(`[1, 2]`)},
		{Path: "parts[1]", Key: "x-b", Value: json.RawMessage(`"c"`)},
		{Path: "parts[1].next", Key: "x-d", Value: json.RawMessage(`null`)},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("extras (-want +got):\n%s", diff)
	}
}

func TestForeign(t *testing.T) {
	var d document
	if err := strictjson.DecodeForeign([]byte(`{"theirs": {"count": 1e999}, "count": 2}`), "f", &d); err != nil || d.Count != 2 {
		t.Errorf("count %d, error %v", d.Count, err)
	}
	for data, want := range map[string]string{
		`{"COUNT": 2}`:          `f:1: COUNT: the field is written count`,
		`{"count": "2"}`:        `f:1: count: a text where an integer is needed`,
		`{"other":1,"other":2}`: `f:1: other: the field stands twice`,
	} {
		if err := strictjson.DecodeForeign([]byte(data), "f", &document{}); err == nil || err.Error() != want {
			t.Errorf("%s: error %v, want %s", data, err, want)
		}
	}
}

func TestManyFields(t *testing.T) {
	// More fields than a word has bits.
	type ten struct{ A, B, C, D, E, F, G, H, I, J int }
	type many struct {
		T0, T1, T2, T3, T4, T5, T6, T7 ten
		A, B, C, D, E, F, G, H, I, J   int
		K, L, M, N, O, P, Q, R, S, T   int
		U, V, W, X, Y, Z, AA, AB, AC   int
		BA, BB, BC, BD, BE, BF, BG, BH int
		CA, CB, CC, CD, CE, CF, CG, CH int
		DA, DB, DC, DD, DE, DF, DG, DH int
		EA, EB, EC, ED, EE, EF, EG, EH int
	}
	err := strictjson.Decode([]byte(`{"EH": 1, "T7": {"J": 1}, "EG": 2, "EH": 3}`), "f", &many{})
	if err == nil || err.Error() != "f:1: EH: the field stands twice" {
		t.Error(err)
	}
}

// A type whose own decoding fails is located as well as encoding/json can.
func TestOtherTypes(t *testing.T) {
	var v struct{ Small []int8 }
	if err := strictjson.Decode([]byte("{\n\"Small\": \n[300]}"), "f", &v); err == nil || !strings.HasPrefix(err.Error(), "f:3: Small") {
		t.Error(err)
	}
}

func TestFormat(t *testing.T) {
	for _, x := range []struct{ data, format, err string }{
		{`{"format": "a/v1"}`, "a/v1", ""},
		{`{"layers": [{"format": "no"}, "}"], "format" : "a\/v1"}`, "a/v1", ""},
		{`{"format": "a/v2", `, "a/v2", `f:1: format: "a/v2" is not understood here; it must be "a/v1"`},
		{"{\"b\": 1,\n\"format\":\n\"b\"}", "b", `f:3: format: "b" is not understood here; it must be "a/v1"`},
		{"\n{}", "", `f:2: format: missing; it must be "a/v1"`},
		{"{\n\"format\": 1}", "", `f:2: format: it must be the text "a/v1"`},
		{`{"format": "a`, "", `f:1: format: the file ends in the middle of the document`},
		{`{"format"`, "", `f:1: format: the file ends in the middle of the document`},
		{`[1]`, "", `f:1: a list where an object is needed`},
		{``, "", `f:1: the file is empty`},
		{`format: a/v1`, "", `f:1: not JSON: invalid character 'o' in literal false (expecting 'a') (numbers are finite, names are in double quotes)`},
		{`{"a": ` + strings.Repeat("[", 1_000_000), "", `f:1: a` + strings.Repeat("[0]", 15) +
			`…: lists and objects are nested more than 10000 deep`},
	} {
		if got := strictjson.Format([]byte(x.data)); got != x.format {
			t.Errorf("%.60q: format %q, want %q", x.data, got, x.format)
		}
		err := strictjson.CheckFormat([]byte(x.data), "f", "a/v1")
		if got := fmt.Sprint(err); got != x.err && !(err == nil && x.err == "") {
			t.Errorf("%.60q: error %v\nwant %s", x.data, err, x.err)
		}
	}
}

func TestLine(t *testing.T) {
	data := []byte(`
{"format": "a",
 "layers": [
  {"name": "}]\"", "size": 1},
  {"name": "b",
   "size":
    2, "more": [[1, 2],
    [3,
     4]]}
 ],
 "x-a.b": {"c":
  5}
}`)
	for _, x := range []struct {
		path string
		want int
	}{
		{"", 2},
		{"format", 2},
		{"layers", 3},
		{"layers[0]", 4},
		{"layers[1]", 5},
		{"layers[1].size", 7},
		{"layers[1].more[1]", 8},
		{"layers[1].more[1][1]", 9},
		{"x-a.b", 11},
		{"x-a.b.c", 12},
		// Not there: the innermost that is.
		{"name", 2},
		{"form", 2},
		{"layers[2]", 3},
		{"layers[1].siz", 5},
		{"layers[1].name.first", 5},
		{"layers.name", 3},
		{"[0]", 2},
	} {
		if got := strictjson.Line(data, x.path); got != x.want {
			t.Errorf("%q is on line %d, want %d", x.path, got, x.want)
		}
		crlf := bytes.ReplaceAll(data, []byte("\n"), []byte("\r\n"))
		if got := strictjson.Line(crlf, x.path); got != x.want {
			t.Errorf("%q is on line %d of the file with CRLF, want %d", x.path, got, x.want)
		}
	}
}

func TestRead(t *testing.T) {
	data, err := strictjson.Read(strings.NewReader("\ufeff{}"), "f", 10)
	if err != nil || string(data) != "{}" {
		t.Errorf("with a byte order mark: %q, %v", data, err)
	}
	if _, err := strictjson.Read(strings.NewReader("12345"), "f", 4); err == nil ||
		err.Error() != "f: more than 4 bytes, which no such file needs" {
		t.Errorf("too long: %v", err)
	}
	if data, err := strictjson.Read(strings.NewReader("1234"), "f", 4); err != nil || len(data) != 4 {
		t.Errorf("as long as may be: %q, %v", data, err)
	}
	broken := errors.New("broken")
	if _, err := strictjson.Read(failing{broken}, "f", 4); !errors.Is(err, broken) {
		t.Errorf("unreadable: %v", err)
	}
}

// ReadFormat is Read, CheckFormat, DecodeExtras and Locate, each with its errors.
func TestReadFormat(t *testing.T) {
	sum := func(f *struct {
		Format string `json:"format"`
		A      []int  `json:"a"`
	}, extra []strictjson.Extra,
	) (*int, error) {
		n := len(extra)
		for k, a := range f.A {
			if a < 0 {
				return &n, &strictjson.FieldError{Path: fmt.Sprintf("a[%d]", k), Msg: "negative"}
			}
			n += a
		}
		return &n, nil
	}
	got, err := strictjson.ReadFormat(strings.NewReader(`{"format": "a/v1", "a": [3, 4], "x-a": 0}`), "f", "a/v1", 100, sum)
	if err != nil || *got != 3+4+1 {
		t.Errorf("%v, %v; want 8", got, err)
	}
	for data, want := range map[string]string{
		strings.Repeat(" ", 101):                  "f: more than 100 bytes, which no such file needs",
		`{"format": "a/v2"}`:                      `f:1: format: "a/v2" is not understood here; it must be "a/v1"`,
		`{"format": "a/v1", "b": 1}`:              "f:1: b: unknown field; known are format, a, and names of your own that begin with x-",
		"{\"format\": \"a/v1\", \"a\": [0,\n-1]}": "f:2: a[1]: negative",
	} {
		if got, err := strictjson.ReadFormat(strings.NewReader(data), "f", "a/v1", 100, sum); got != nil || err == nil || err.Error() != want {
			t.Errorf("%s: %v, error %v\nwant %s", data, got, err, want)
		}
	}
}

// IDs are numbers if all of them can be, and are read back to the same.
func TestIDs(t *testing.T) {
	for want, ids := range map[string][]string{
		"[7 0 999999999999999]":           {"7", "0", "999999999999999"},
		`["7" "07"]`:                      {"7", "07"},
		`["a" "7" "0"]`:                   {"a", "7", "0"},
		`["1000000000000000" "-1" "1.0"]`: {"1000000000000000", "-1", "1.0"},
		`["" "٣" "\""]`:                   {"", "٣", `"`},
		"[]":                              {},
	} {
		written := strictjson.IDs(len(ids), func(k int) string { return ids[k] })
		if got := fmt.Sprintf("%s", written); got != want {
			t.Errorf("%q are written %s, want %s", ids, got, want)
		}
		for k := range written {
			if got, err := strictjson.ReadID(written[k]); err != nil || got != ids[k] {
				t.Errorf("%s is read as %q, %v", written[k], got, err)
			}
		}
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// What encoding/json writes is read back, if lists are not nil.
func TestRoundTrip(t *testing.T) {
	text := rapid.Custom(func(t *rapid.T) string { return strings.ToValidUTF8(rapid.String().Draw(t, "text"), "?") })
	number := rapid.Float64Range(-math.MaxFloat64, math.MaxFloat64)
	var parts func(depth int) *rapid.Generator[part]
	parts = func(depth int) *rapid.Generator[part] {
		return rapid.Custom(func(t *rapid.T) part {
			p := part{Name: text.Draw(t, "name"), Size: number.Draw(t, "size")}
			if depth > 0 && rapid.Bool().Draw(t, "next") {
				next := parts(depth-1).Draw(t, "next")
				p.Next, p.More = &next, []*part{nil, &next}
			}
			return p
		})
	}
	value := rapid.OneOf(text.AsAny(), number.AsAny(), rapid.Bool().AsAny(), rapid.Just[any](nil))
	testfile.Property(t, func(t *rapid.T) {
		want := document{
			Format: text.Draw(t, "format"), Count: rapid.Int().Draw(t, "count"), Nodes: rapid.Int64().Draw(t, "nodes"),
			Ratio: number.Draw(t, "ratio"), Sure: rapid.Bool().Draw(t, "sure"),
			Period: rapid.Ptr(number, true).Draw(t, "period"), Saved: rapid.Ptr(number, true).Draw(t, "saved"),
			Parts: rapid.SliceOfN(parts(2), 0, 4).Draw(t, "parts"), Inner: parts(1).Draw(t, "inner"),
			Sizes: rapid.MapOfN(text, number, 0, 3).Draw(t, "sizes"), Any: value.Draw(t, "any"),
		}
		if m := rapid.MapOfN(text, value, 0, 3).Draw(t, "source"); len(m) > 0 {
			want.Source = m
		}
		data, err := json.Marshal(&want)
		if err != nil {
			t.Fatal(err)
		}
		if rapid.Bool().Draw(t, "indented") {
			var b bytes.Buffer
			if err := json.Indent(&b, data, "\r\n", "\t"); err != nil {
				t.Fatal(err)
			}
			data = b.Bytes()
		}
		var got document
		if err := strictjson.Decode(data, "f", &got); err != nil {
			t.Fatalf("%v\n%s", err, data)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
		// A document that ends early is not taken for another one.
		cut := rapid.IntRange(0, len(data)-1).Draw(t, "cut")
		if err := strictjson.Decode(data[:cut], "f", &document{}); err == nil {
			t.Fatalf("taken although cut: %s", data[:cut])
		}
	})
}

// FuzzDecode: nothing panics, and what is taken encoding/json takes, too.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{
		`{"format": "a", "count": 1, "ratio": 1e-3, "sure": true, "period": null, "x-a": {"b": [1]}}`,
		`{"parts": [{"name": "\u0041", "Size": 1, "more": [null, {}]}], "source": {"a": [1, {"b": null}]}}`,
		`{"count": 1, "count": 2}`, `{"Count": 1}`, "\xef\xbb\xbf{}", `{"a`, `[[[`, `{"inner": {"x-": `, `{"sizes":{"":1}}`, "{}x", "nul",
	} {
		f.Add([]byte(s), "parts[0].more[1]")
	}
	f.Fuzz(func(t *testing.T, data []byte, path string) {
		strictjson.Format(data)
		if n := strictjson.Line(data, path); n < 1 || n > 1+bytes.Count(data, []byte("\n")) {
			t.Fatalf("line %d", n)
		}
		var got document
		extras, err := strictjson.DecodeExtras(data, "f", &got)
		if err != nil {
			var located *strictjson.Error
			if !errors.As(err, &located) || located.Line < 1 || strings.Contains(err.Error(), "\n") {
				t.Fatalf("error %q", err)
			}
			return
		}
		dec := json.NewDecoder(bytes.NewReader(data))
		if len(extras) == 0 {
			dec.DisallowUnknownFields()
		}
		var want document
		if err := dec.Decode(&want); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatal(diff)
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	data := []byte(`{"parts": [` + strings.Repeat(`{"name": "block", "Size": 102760448.5},`+"\n", 100_000) + `{}]}`)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if err := strictjson.Decode(data, "f", &document{}); err != nil {
			b.Fatal(err)
		}
	}
}
