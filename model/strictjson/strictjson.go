// Package strictjson decodes JSON files that people write by hand: nothing is
// guessed or passed over, and every error says where.
//
// It is encoding/json with a check before it. Unknown and repeated fields,
// data after the document, numbers out of range and values of the wrong kind
// are errors with the file, the line and the path of the field. Fields whose
// names begin with "x-" are free for users and are skipped.
package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"
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

// Read reads all of r, at most limit bytes. Name is for errors.
func Read(r io.Reader, name string, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, fmt.Errorf("%s cannot be read: %w", name, err)
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("%s: more than %d bytes, which no such file needs", name, limit)
	}
	return data, nil
}

// Decode stores the one JSON document in data into v, a pointer. O(len(data)).
// Errors are of type *Error.
func Decode(data []byte, name string, v any) error {
	w := &walker{data: data, name: name, dec: json.NewDecoder(bytes.NewReader(data))}
	w.dec.UseNumber()
	if err := w.value("", reflect.TypeOf(v).Elem()); err != nil {
		return err
	}
	switch _, err := w.dec.Token(); {
	case errors.Is(err, io.EOF):
	case err != nil:
		return w.syntax("", err)
	default:
		return w.fail("", "data after the end of the document")
	}
	if err := json.Unmarshal(data, v); err != nil {
		return &Error{Name: name, Line: 1, Msg: err.Error()}
	}
	return nil
}

// Format returns the value of the top-level field "format", which says how to
// read the rest, or "" if there is none.
func Format(data []byte) string {
	dec := json.NewDecoder(bytes.NewReader(data))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return ""
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return ""
		}
		var raw json.RawMessage
		if dec.Decode(&raw) != nil {
			return ""
		}
		if key == "format" {
			var s string
			if json.Unmarshal(raw, &s) != nil {
				return ""
			}
			return s
		}
	}
	return ""
}

// CheckFormat is an error unless the document says it is of the format want.
func CheckFormat(data []byte, name, want string) error {
	switch got := Format(data); {
	case got == want:
		return nil
	case got != "":
		return &Error{name, Line(data, "format"), "format", fmt.Sprintf("%q is not understood here; it must be %q", got, want)}
	}
	// Not an object, no such field, or not JSON at all: the latter says more.
	var any map[string]json.RawMessage
	if err := Decode(data, name, &any); err != nil {
		return err
	}
	return &Error{name, 1, "format", fmt.Sprintf("missing; it must be %q", want)}
}

// Line returns the line on which the value at path begins, 1 if there is no
// such path. It reads the document again, so it is for errors only.
func Line(data []byte, path string) int {
	w := &walker{data: data, dec: json.NewDecoder(bytes.NewReader(data)), want: path}
	w.dec.UseNumber()
	var any any
	_ = w.value("", reflect.TypeOf(&any).Elem()) // a broken document still locates what precedes the break
	return max(1, w.found)
}

// walker checks a token stream against a Go type.
type walker struct {
	data  []byte
	name  string
	dec   *json.Decoder
	want  string // path to locate
	found int    // its line

	line, upTo int // line number at offset upTo, counted so far
}

// lineAt returns the line of an offset; offsets must not decrease much, since
// counting starts again from the top if they do.
func (w *walker) lineAt(offset int) int {
	offset = min(offset, len(w.data))
	if offset < w.upTo || w.line == 0 {
		w.line, w.upTo = 1, 0
	}
	w.line += bytes.Count(w.data[w.upTo:offset], []byte{'\n'})
	w.upTo = offset
	return w.line
}

// begin returns the offset where the next token begins.
func (w *walker) begin() int {
	o := int(w.dec.InputOffset())
	for o < len(w.data) && strings.IndexByte(" \t\r\n,:", w.data[o]) >= 0 {
		o++
	}
	return o
}

func (w *walker) fail(path, format string, args ...any) error {
	return &Error{w.name, w.lineAt(int(w.dec.InputOffset())), path, fmt.Sprintf(format, args...)}
}

func (w *walker) syntax(path string, err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return &Error{w.name, w.lineAt(len(w.data)), path, "the file ends in the middle of the document"}
	}
	offset := int(w.dec.InputOffset())
	var s *json.SyntaxError
	if errors.As(err, &s) {
		offset = max(offset, int(s.Offset))
	}
	return &Error{w.name, w.lineAt(offset), path, "not JSON: " + err.Error() + " (numbers are finite, names are in double quotes)"}
}

// value checks the next value against t. Paths are built only for containers'
// children, as strings: the cost is proportional to the document.
func (w *walker) value(path string, t reflect.Type) error {
	if w.want != "" && path == w.want {
		w.found = w.lineAt(w.begin())
	}
	tok, err := w.dec.Token()
	if err != nil {
		return w.syntax(path, err)
	}
	for t.Kind() == reflect.Pointer {
		if tok == nil {
			return nil
		}
		t = t.Elem()
	}
	switch tok := tok.(type) {
	case json.Delim:
		if tok == '{' {
			return w.object(path, t)
		}
		return w.array(path, t)
	case string:
		return w.scalar(path, t, "a text", reflect.String)
	case bool:
		return w.scalar(path, t, "true or false", reflect.Bool)
	case json.Number:
		return w.number(path, t, tok)
	}
	if t.Kind() == reflect.Interface || t.Kind() == reflect.Map {
		return nil
	}
	return w.fail(path, "null where %s is needed", kindName(t))
}

func (w *walker) scalar(path string, t reflect.Type, is string, k reflect.Kind) error {
	if t.Kind() == k || t.Kind() == reflect.Interface || t == rawMessage {
		return nil
	}
	return w.fail(path, "%s where %s is needed", is, kindName(t))
}

func (w *walker) number(path string, t reflect.Type, n json.Number) error {
	var err error
	switch t.Kind() {
	case reflect.Float64:
		_, err = strconv.ParseFloat(string(n), 64)
	case reflect.Int, reflect.Int64:
		_, err = strconv.ParseInt(string(n), 10, 64)
		if err != nil && !errors.Is(err, strconv.ErrRange) {
			return w.fail(path, "%s is not a whole number", n)
		}
	case reflect.Interface:
		_, err = strconv.ParseFloat(string(n), 64)
	default:
		if t == rawMessage {
			return nil
		}
		return w.fail(path, "a number where %s is needed", kindName(t))
	}
	if err != nil {
		return w.fail(path, "%s is out of range", n)
	}
	return nil
}

func (w *walker) array(path string, t reflect.Type) error {
	elem := t
	switch t.Kind() {
	case reflect.Slice:
		elem = t.Elem()
		if t == rawMessage {
			elem = anything
		}
	case reflect.Interface:
	default:
		return w.fail(path, "a list where %s is needed", kindName(t))
	}
	for i := 0; w.dec.More(); i++ {
		if err := w.value(path+"["+strconv.Itoa(i)+"]", elem); err != nil {
			return err
		}
	}
	if _, err := w.dec.Token(); err != nil {
		return w.syntax(path, err)
	}
	return nil
}

func (w *walker) object(path string, t reflect.Type) error {
	var fields map[string]reflect.Type
	var names []string
	switch {
	case t.Kind() == reflect.Struct:
		fields, names = fieldsOf(t)
	case t.Kind() == reflect.Map || t.Kind() == reflect.Interface || t == rawMessage:
	default:
		return w.fail(path, "an object where %s is needed", kindName(t))
	}
	seen := map[string]bool{}
	for w.dec.More() {
		tok, err := w.dec.Token()
		if err != nil {
			return w.syntax(path, err)
		}
		key, _ := tok.(string)
		at := key
		if path != "" {
			at = path + "." + key
		}
		if seen[key] {
			return w.fail(at, "the field stands twice")
		}
		seen[key] = true
		ft := anything
		if t.Kind() == reflect.Map {
			ft = t.Elem()
		}
		if fields != nil && !strings.HasPrefix(key, "x-") {
			known, ok := fields[key]
			if !ok {
				return w.fail(at, "unknown field; known are %s, and names of your own that begin with x-", strings.Join(names, ", "))
			}
			ft = known
		}
		if err := w.value(at, ft); err != nil {
			return err
		}
	}
	if _, err := w.dec.Token(); err != nil {
		return w.syntax(path, err)
	}
	return nil
}

var (
	anything   = reflect.TypeFor[any]()
	rawMessage = reflect.TypeFor[json.RawMessage]()
)

// fieldsOf returns the JSON fields of a struct and their names in order.
func fieldsOf(t reflect.Type) (fields map[string]reflect.Type, names []string) {
	fields = make(map[string]reflect.Type, t.NumField())
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		if name == "-" || !t.Field(i).IsExported() {
			continue
		}
		if name == "" {
			name = t.Field(i).Name
		}
		fields[name], names = t.Field(i).Type, append(names, name)
	}
	return fields, names
}

func kindName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Float64:
		return "a number"
	case reflect.Int, reflect.Int64:
		return "a whole number"
	case reflect.String:
		return "a text"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice:
		return "a list"
	}
	return "an object"
}
