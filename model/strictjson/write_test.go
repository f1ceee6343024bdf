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
	w := strictjson.NewWriter(&b)
	w.Member("name", "a \"b\"")
	w.Key("object")
	w.Object(struct {
		A int `json:"a"`
	}{1}, []strictjson.Extra{{Key: "x-note", Value: json.RawMessage(`[1, null]`)}})
	w.List("none", 0, nil)
	w.List("two", 2, func(k int) { w.Value(k) })
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	const want = `{
 "name": "a \"b\"",
 "object": {"a":1,"x-note":[1,null]},
 "none": [],
 "two": [
  0,
  1
 ]
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
	w := strictjson.NewWriter(&bytes.Buffer{})
	w.Member("a", math.NaN())
	w.Member("b", make(chan int))
	if err := w.Close(); err == nil || !strings.Contains(err.Error(), "NaN") {
		t.Errorf("NaN: %v", err)
	}
	broken := errors.New("broken")
	w = strictjson.NewWriter(unwritable{broken})
	w.Member("a", strings.Repeat("long", 10_000))
	if err := w.Close(); !errors.Is(err, broken) {
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

func TestCheckAmount(t *testing.T) {
	for x, want := range map[float64]string{
		0: "", 1.5: "", math.MaxFloat64: "", math.Copysign(0, -1): "",
		-1e-300: "p: -1e-300 is negative", math.Inf(1): "p: +Inf is not finite", math.Inf(-1): "p: -Inf is not finite", math.NaN(): "p: NaN is not finite",
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
