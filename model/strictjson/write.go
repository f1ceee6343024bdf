package strictjson

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"workbench/model/platform"
)

// FieldError is a value that a format does not allow, found by whoever checks
// what a document means. [Locate] adds where it stands.
type FieldError struct {
	Path string // "layers[3].saved"
	Msg  string
}

func (e *FieldError) Error() string { return e.Path + ": " + e.Msg }

// Wrong returns a *FieldError about the value at path.
func Wrong(path, format string, args ...any) error {
	return &FieldError{path, fmt.Sprintf(format, args...)}
}

// Locate turns a *FieldError about the document data into an *Error with its
// line, and returns any other error as it is.
func Locate(data []byte, name string, err error) error {
	if field, ok := errors.AsType[*FieldError](err); ok {
		return &Error{Name: name, Line: Line(data, field.Path), Path: field.Path, Msg: field.Msg}
	}
	return err
}

// CheckAmount is an error, about the field at path, unless x is a finite number
// from 0 on.
func CheckAmount(path string, x float64) error {
	switch {
	case math.IsNaN(x) || math.IsInf(x, 0):
		return &FieldError{path, fmt.Sprintf("%v is not finite", x)}
	case x < 0:
		return &FieldError{path, fmt.Sprintf("%v is negative", x)}
	}
	return nil
}

// CheckSeconds is an error, about the field at path, unless x is 0 or between
// [platform.MinTime] and [platform.MaxTime], the range of every time in an instance.
func CheckSeconds(path string, x float64) error {
	if err := CheckAmount(path, x); err != nil {
		return err
	}
	if x != 0 && !(x >= platform.MinTime && x <= platform.MaxTime) {
		return &FieldError{path, fmt.Sprintf("%v s is out of range: times are 0 or from %g to %g s; choose other units", x, platform.MinTime,
			platform.MaxTime)}
	}
	return nil
}

// CheckTime is [CheckSeconds] of a field of element k of a list; it formats the path only
// for an error, because instances have millions of times.
func CheckTime(list string, k int, field string, x float64) error {
	if x == 0 || x >= platform.MinTime && x <= platform.MaxTime {
		return nil
	}
	return CheckSeconds(fmt.Sprintf("%s[%d].%s", list, k, field), x)
}

// Writer writes a document of a format, piece by piece, a line for each of its
// fields, and keeps the first error for Close.
type Writer struct {
	w     *bufio.Writer
	title string // for errors: "graph resnet18"
	err   error
	extra map[string][]Extra // the user's own fields by their paths
	path  string             // of the value that is being written
}

// NewWriter returns a Writer to w, of a document with a format, a name, and
// fields of the user's own.
func NewWriter(w io.Writer, format, name string, extra []Extra) *Writer {
	o := &Writer{w: bufio.NewWriter(w), title: Title(format, name), extra: map[string][]Extra{}}
	for _, e := range extra {
		o.extra[e.Path] = append(o.extra[e.Path], e)
	}
	o.text("{\n \"format\": ")
	o.Value(format)
	o.Member("name", name)
	return o
}

// Key begins a field of the document; its value follows.
func (o *Writer) Key(key string) {
	o.text(",\n ")
	o.Value(key)
	o.text(": ")
	o.path = key
}

// Member writes a field of the document.
func (o *Writer) Member(key string, v any) {
	o.Key(key)
	o.Value(v)
}

// Count writes a field that is left out if it is 0.
func (o *Writer) Count(key string, n int) {
	if n != 0 {
		o.Member(key, n)
	}
}

// List writes a field whose value is a list of n elements, one a line.
func (o *Writer) List(key string, n int, element func(k int)) {
	o.Key(key)
	o.text("[")
	for k := range n {
		if k > 0 {
			o.text(",")
		}
		o.text("\n  ")
		o.path = key + "[" + strconv.Itoa(k) + "]"
		element(k)
	}
	if n > 0 {
		o.text("\n ")
	}
	o.text("]")
}

// text writes s as it is.
func (o *Writer) text(s string) {
	if o.err == nil {
		_, o.err = o.w.WriteString(s)
	}
}

// Value writes v as encoding/json does.
func (o *Writer) Value(v any) { o.text(string(o.marshal(v))) }

// Object writes v, a struct with fields, with the user's own at its end.
func (o *Writer) Object(v any) {
	o.text(strings.TrimSuffix(string(o.marshal(v)), "}"))
	for _, e := range o.extra[o.path] {
		o.text(",")
		o.Value(e.Key)
		o.text(":")
		o.Value(e.Value)
	}
	o.text("}")
}

func (o *Writer) marshal(v any) []byte {
	data, err := json.Marshal(v)
	if o.err == nil {
		o.err = err
	}
	return data
}

// Close writes where the numbers come from, if that is known, and the user's own
// fields, ends the document and returns the first error.
func (o *Writer) Close(source map[string]any) error {
	if len(source) > 0 {
		o.Member("source", source)
	}
	for _, e := range o.extra[""] {
		o.Member(e.Key, e.Value)
	}
	o.text("\n}\n")
	if o.err == nil {
		o.err = o.w.Flush()
	}
	if o.err != nil {
		return fmt.Errorf("%s: %w", o.title, o.err)
	}
	return nil
}

// Title is how errors name a document: "graph resnet18" of one of workbench.graph/v1.
func Title(format, name string) string {
	kind, _, _ := strings.Cut(strings.TrimPrefix(format, "workbench."), "/")
	return kind + " " + name
}
