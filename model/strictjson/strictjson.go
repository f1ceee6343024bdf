// Package strictjson decodes JSON files that people write by hand: nothing is
// guessed or passed over, and every error says where.
//
// It is encoding/json with a check beside it. Unknown and repeated fields,
// data after the document, text that is not UTF-8, numbers out of range and
// values of the wrong kind are errors with the file, the line and the path of
// the field. Capitals count in names. null is taken only where encoding/json
// writes it: in place of a pointer, map or interface without "omitempty".
// Fields whose names begin with "x-" are free for users: Decode skips them,
// DecodeExtras returns them.
//
// What is decoded into is made of structs without embedded ones, slices, maps
// of strings, pointers, interfaces, string, bool, int, int64, float64, [Size]
// and [json.RawMessage].
package strictjson

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"workbench/model/platform"
)

// Error is a mistake in a document.
type Error struct {
	Name string // of the file
	Line int    // 1-based
	Path string // "layers[3].saved"; empty: the document as a whole
	Msg  string
}

func (e *Error) Error() string {
	s := fmt.Sprintf("%s:%d: ", e.Name, e.Line)
	if e.Path != "" {
		s += e.Path + ": "
	}
	return s + e.Msg
}

// MostBytes is the most that a file of an instance may have: a wrong file is refused
// before it fills the memory.
const MostBytes = 256 << 20

// Read reads all of r, at most limit bytes, without the byte order mark that
// some editors put first. Name is for errors.
func Read(r io.Reader, name string, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, fmt.Errorf("%s cannot be read: %w", name, err)
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("%s: more than %d bytes, which no such file needs", name, limit)
	}
	return bytes.TrimPrefix(data, []byte("\ufeff")), nil
}

// Extra is a user's own field, whose name begins with "x-".
type Extra struct {
	Path  string // of the object it stands in: "", "layers[3]"
	Key   string
	Value json.RawMessage
}

// Decode stores the one JSON document in data into v, a pointer, whose fields
// are left in an unspecified state on errors. Errors are of type *Error.
// O(len(data)).
func Decode(data []byte, name string, v any) error {
	_, err := DecodeExtras(data, name, v)
	return err
}

// DecodeExtras decodes as Decode does and returns the users' own fields of
// objects that are structs in v, in the order of the document.
func DecodeExtras(data []byte, name string, v any) ([]Extra, error) {
	w := &walker{data: data, name: name}
	err := w.decode(v)
	return w.extras, err
}

// DecodeForeign decodes a document of somebody else's format: fields that v
// does not have are passed over. Otherwise it is as strict as Decode.
func DecodeForeign(data []byte, name string, v any) error {
	w := &walker{data: data, name: name, foreign: true}
	return w.decode(v)
}

// Format returns the value of the top-level field "format", which says how to
// read the rest, or "" if there is none.
func Format(data []byte) string {
	at, ok := find(data, "format")
	if !ok || data[at] != '"' {
		return ""
	}
	end, closed := stringEnd(data, at)
	if !closed {
		return ""
	}
	return text(data[at:end])
}

// CheckFormat is an error unless the document says it is of the format want.
func CheckFormat(data []byte, name, want string) error {
	got := Format(data)
	if got == want {
		return nil
	}
	if got != "" {
		return &Error{name, Line(data, "format"), "format", fmt.Sprintf("%q is not understood here; it must be %q", got, want)}
	}
	// Not JSON, no object, no such field, or no text in it.
	var fields map[string]json.RawMessage
	if err := Decode(data, name, &fields); err != nil {
		return err
	}
	if _, ok := fields["format"]; ok {
		return &Error{name, Line(data, "format"), "format", fmt.Sprintf("it must be the text %q", want)}
	}
	return &Error{name, Line(data, ""), "format", fmt.Sprintf("missing; it must be %q", want)}
}

// ReadFormat reads a document of a format, at most limit bytes, into an F, and
// returns what value makes of it and of the users' own fields. Name is for
// errors; a *FieldError of value becomes an *Error. O(size of the file) and
// value.
func ReadFormat[F, T any](r io.Reader, name, format string, limit int64, value func(*F, []Extra) (*T, error)) (*T, error) {
	return ReadSizes(r, name, format, limit, func(f *F, extra []Extra, _ platform.Unit) (*T, error) { return value(f, extra) })
}

// ReadSizes is [ReadFormat] of documents with fields of type [Size]; value is
// told the largest unit of which all of them are whole numbers.
func ReadSizes[F, T any](r io.Reader, name, format string, limit int64, value func(*F, []Extra, platform.Unit) (*T, error)) (*T, error) {
	data, err := Read(r, name, limit)
	if err != nil {
		return nil, err
	}
	if err := CheckFormat(data, name, format); err != nil {
		return nil, err
	}
	f := new(F)
	w := &walker{data: data, name: name}
	if err := w.decode(f); err != nil {
		return nil, err
	}
	v, err := value(f, w.extras, w.unit)
	if err != nil {
		return nil, Locate(data, name, err)
	}
	return v, nil
}

// Line returns the line on which the value at path begins or, if there is no
// such value, the innermost one around it that is there. It searches the
// document from the start, so it is for errors. O(len(data)).
func Line(data []byte, path string) int {
	at, _ := find(data, path)
	return lineOf(data, at)
}
