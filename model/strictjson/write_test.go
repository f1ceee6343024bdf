package strictjson_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"workbench/model/strictjson"
)

func TestWriter(t *testing.T) {
	var b bytes.Buffer
	own := func(path, key, value string) strictjson.Extra {
		return strictjson.Extra{Path: path, Key: key, Value: json.RawMessage(value)}
	}
	w := strictjson.NewWriter(&b, "a/v1", "a \"b\"", []strictjson.Extra{
		own("", "x-last", "2"), own("object", "x-note", `[1, null]`), own("objects[1]", "x-a", `"1"`), own("objects[1]", "x-b", "2"),
		own("objects[10]", "x-absent", "3"), own("list[0]", "x-absent", "4"),
	})
	type object struct {
		A int `json:"a"`
	}
	w.Count("left_out", 0)
	w.Count("written", -3)
	w.Key("object")
	w.Object(object{1})
	w.List("none", 0, nil)
	w.List("two", 2, func(k int) { w.Value(k) })
	w.List("objects", 2, func(k int) { w.Object(object{k}) })
	if err := w.Close(map[string]any{"device": "V100"}); err != nil {
		t.Fatal(err)
	}
	const want = `{
 "format": "a/v1",
 "name": "a \"b\"",
 "written": -3,
 "object": {"a":1,"x-note":[1,null]},
 "none": [],
 "two": [
  0,
  1
 ],
 "objects": [
  {"a":0},
  {"a":1,"x-a":"1","x-b":2}
 ],
 "source": {"device":"V100"},
 "x-last": 2
}
`
	if b.String() != want {
		t.Errorf("%s\nwant %s", b.String(), want)
	}
}

type unwritable struct{ err error }

func (f unwritable) Write([]byte) (int, error) { return 0, f.err }

// The first error is kept, of values as of the stream.
func TestWriterErrors(t *testing.T) {
	w := strictjson.NewWriter(&bytes.Buffer{}, "a/v1", "", nil)
	w.Member("a", math.NaN())
	w.Member("b", make(chan int))
	if err := w.Close(nil); err == nil || !strings.Contains(err.Error(), "NaN") {
		t.Errorf("NaN: %v", err)
	}
	broken := errors.New("broken")
	w = strictjson.NewWriter(unwritable{broken}, "a/v1", "", nil)
	w.Member("a", strings.Repeat("long", 10_000))
	if err := w.Close(nil); !errors.Is(err, broken) {
		t.Errorf("unwritable: %v", err)
	}
}

func TestLocate(t *testing.T) {
	const document = "{\n\"a\": [\n{\"b\": 1}]}"
	err := strictjson.Locate([]byte(document), "file", &strictjson.FieldError{Path: "a[0].b", Msg: "wrong"})
	if err == nil || err.Error() != "file:3: a[0].b: wrong" {
		t.Errorf("located: %v", err)
	}
	other := errors.New("other")
	if err := strictjson.Locate([]byte(document), "file", other); err != other {
		t.Errorf("another error: %v", err)
	}
}

func TestCheckSeconds(t *testing.T) {
	for x, want := range map[float64]string{
		0: "", 1.5: "", 1e-60: "", 1e60: "", math.Copysign(0, -1): "",
		-1: "p: -1 is negative", 1e-61: "p: 1e-61 s is out of range", 1e61: "p: 1e+61 s is out of range", math.Inf(1): "p: +Inf is not finite",
	} {
		got := ""
		if err := strictjson.CheckSeconds("p", x); err != nil {
			got = err.Error()
		}
		if got != want && !strings.HasPrefix(got, want+":") {
			t.Errorf("%v: %q, want %q", x, got, want)
		}
	}
}

func TestCheckAmount(t *testing.T) {
	for x, want := range map[float64]string{
		0: "", 1.5: "", math.MaxFloat64: "", math.Copysign(0, -1): "",
		-1e-300: "p: -1e-300 is negative", math.Inf(1): "p: +Inf is not finite", math.Inf(-1): "p: -Inf is not finite",
		math.NaN(): "p: NaN is not finite",
	} {
		got := ""
		if err := strictjson.CheckAmount("p", x); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%g: %q, want %q", x, got, want)
		}
	}
}
