package strictjson

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
)

// FieldError is a value that a format does not allow, found by whoever checks
// what a document means. [Locate] adds where it stands.
type FieldError struct {
	Path string // "layers[3].saved"
	Msg  string
}

func (e *FieldError) Error() string { return e.Path + ": " + e.Msg }

// Locate turns a *FieldError about the document data into an *Error with its
// line, and returns any other error as it is.
func Locate(data []byte, name string, err error) error {
	var field *FieldError
	if errors.As(err, &field) {
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

// Writer writes a document that is an object, piece by piece, a line for each
// of its fields, and keeps the first error for Close.
type Writer struct {
	w      *bufio.Writer
	err    error
	inside bool // a field has been written
}

// NewWriter returns a Writer to w.
func NewWriter(w io.Writer) *Writer { return &Writer{w: bufio.NewWriter(w)} }

// Key begins a field of the document; its value follows.
func (o *Writer) Key(key string) {
	if o.inside {
		o.Text(",\n ")
	} else {
		o.Text("{\n ")
	}
	o.inside = true
	o.Value(key)
	o.Text(": ")
}

// Member writes a field of the document.
func (o *Writer) Member(key string, v any) {
	o.Key(key)
	o.Value(v)
}

// List writes a field whose value is a list of n elements, one a line.
func (o *Writer) List(key string, n int, element func(k int)) {
	o.Key(key)
	o.Text("[")
	for k := range n {
		if k > 0 {
			o.Text(",")
		}
		o.Text("\n  ")
		element(k)
	}
	if n > 0 {
		o.Text("\n ")
	}
	o.Text("]")
}

// Text writes s as it is.
func (o *Writer) Text(s string) {
	if o.err == nil {
		_, o.err = o.w.WriteString(s)
	}
}

// Value writes v as encoding/json does.
func (o *Writer) Value(v any) { o.Text(string(o.marshal(v))) }

// Object writes v, a struct with fields, with the user's own at its end.
func (o *Writer) Object(v any, extra []Extra) {
	o.Text(strings.TrimSuffix(string(o.marshal(v)), "}"))
	for _, e := range extra {
		o.Text(",")
		o.Value(e.Key)
		o.Text(":")
		o.Value(e.Value)
	}
	o.Text("}")
}

func (o *Writer) marshal(v any) []byte {
	data, err := json.Marshal(v)
	if o.err == nil {
		o.err = err
	}
	return data
}

// Close ends the document and returns the first error.
func (o *Writer) Close() error {
	o.Text("\n}\n")
	if o.err != nil {
		return o.err
	}
	return o.w.Flush()
}
