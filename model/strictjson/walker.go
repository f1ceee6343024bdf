package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"
)

// walker compares a document with a Go type. The syntax has been checked
// before, so it only needs to find where values begin and end. Path is a
// buffer that grows and shrinks with the depth; nothing is allocated for
// values that are as they should be.
type walker struct {
	data    []byte
	name    string
	foreign bool   // pass over unknown fields
	want    string // path to locate; empty: none
	found   int    // its line

	at     int // where reading goes on
	path   []byte
	types  map[reflect.Type]*fields
	extras []Extra
}

// decode checks data against *v and stores it there.
func (w *walker) decode(v any) error {
	if err := w.text(); err != nil {
		return err
	}
	decoded := json.Unmarshal(w.data, v)
	var syntax *json.SyntaxError
	if errors.As(decoded, &syntax) {
		return w.syntax(syntax)
	}
	if err := w.value(reflect.TypeOf(v).Elem()); err != nil {
		return err
	}
	var kind *json.UnmarshalTypeError
	switch {
	case decoded == nil:
		return nil
	case errors.As(decoded, &kind):
		return &Error{w.name, w.line(int(kind.Offset)), kind.Field, kind.Value + " does not fit"}
	}
	return &Error{w.name, 1, "", decoded.Error()}
}

// text refuses what encoding/json would read as something else.
func (w *walker) text() error {
	switch {
	case len(bytes.TrimSpace(w.data)) == 0:
		return &Error{w.name, 1, "", "the file is empty"}
	case bytes.HasPrefix(w.data, []byte("\xef\xbb\xbf")):
		return &Error{w.name, 1, "", "the file begins with a byte order mark; save it as UTF-8 without one"}
	case !utf8.Valid(w.data):
		at := 0
		for at < len(w.data) {
			r, size := utf8.DecodeRune(w.data[at:])
			if r == utf8.RuneError && size == 1 {
				break
			}
			at += size
		}
		return &Error{w.name, w.line(at), "", "the text is not UTF-8"}
	}
	return nil
}

func (w *walker) syntax(s *json.SyntaxError) error {
	text := s.Error()
	switch {
	case strings.Contains(text, "unexpected end"):
		return &Error{w.name, w.line(len(w.data)), pathOfError(w.data), "the file ends in the middle of the document"}
	case strings.Contains(text, "after top-level value"):
		text = "data after the end of the document"
	case strings.Contains(text, "max depth"):
		text = "lists and objects are nested too deeply"
	default:
		text = "not JSON: " + text + " (numbers are finite, names are in double quotes)"
	}
	return &Error{w.name, w.line(int(s.Offset) - 1), pathOfError(w.data), text}
}

// pathOfError returns the path of the value in which a document stops being
// JSON. It reads token by token up to there.
func pathOfError(data []byte) string {
	type container struct {
		list    bool
		count   int    // values begun, of a list
		key     string // last name read, of an object
		holding bool   // the name's value has not been read yet
	}
	var open []container
	decoder := json.NewDecoder(bytes.NewReader(data))
	for {
		token, err := decoder.Token()
		if err != nil {
			break
		}
		delim, _ := token.(json.Delim)
		if delim == '}' || delim == ']' {
			open = open[:len(open)-1]
			continue
		}
		if len(open) > 0 {
			in := &open[len(open)-1]
			if in.list {
				in.count++
			} else if in.holding = !in.holding; in.holding {
				in.key, _ = token.(string)
				continue
			}
		}
		if delim != 0 {
			open = append(open, container{list: delim == '['})
		}
	}
	path := ""
	for k, in := range open {
		inside := k < len(open)-1
		switch {
		case in.list && inside:
			path += fmt.Sprintf("[%d]", in.count-1)
		case in.list:
			path += fmt.Sprintf("[%d]", in.count)
		case (inside || in.holding) && path == "":
			path = in.key
		case inside || in.holding:
			path += "." + in.key
		}
	}
	return path
}

// line returns the line of an offset.
func (w *walker) line(offset int) int {
	offset = min(max(offset, 0), len(w.data))
	return 1 + bytes.Count(w.data[:offset], []byte{'\n'})
}

// fail is an error about the value that begins at offset.
func (w *walker) fail(offset int, format string, args ...any) error {
	return &Error{w.name, w.line(offset), string(w.path), fmt.Sprintf(format, args...)}
}

// next returns the next byte that is no white space.
func (w *walker) next() byte {
	for w.at < len(w.data) {
		switch c := w.data[w.at]; c {
		case ' ', '\t', '\r', '\n':
			w.at++
		default:
			return c
		}
	}
	return 0
}

// value checks the next value against t.
func (w *walker) value(t reflect.Type) error {
	c := w.next()
	begin := w.at
	if w.want != "" && string(w.path) == w.want {
		w.found = w.line(begin)
	}
	pointer := t.Kind() == reflect.Pointer
	if pointer {
		t = t.Elem()
	}
	switch c {
	case '{':
		return w.object(begin, t)
	case '[':
		return w.array(begin, t)
	case '"':
		w.quoted()
		return w.scalar(begin, t, "a text", reflect.String)
	case 't':
		w.at += len("true")
		return w.scalar(begin, t, "true", reflect.Bool)
	case 'f':
		w.at += len("false")
		return w.scalar(begin, t, "false", reflect.Bool)
	case 'n':
		w.at += len("null")
		if pointer || t.Kind() == reflect.Interface || t.Kind() == reflect.Map || t == rawMessage {
			return nil
		}
		return w.fail(begin, "null where %s is needed", kindName(t))
	}
	for w.at < len(w.data) && strings.IndexByte("+-.0123456789eE", w.data[w.at]) >= 0 {
		w.at++
	}
	return w.number(begin, t)
}

func (w *walker) scalar(begin int, t reflect.Type, is string, k reflect.Kind) error {
	if t.Kind() == k || t.Kind() == reflect.Interface || t == rawMessage {
		return nil
	}
	return w.fail(begin, "%s where %s is needed", is, kindName(t))
}

// number checks the number at w.data[begin:w.at].
func (w *walker) number(begin int, t reflect.Type) error {
	text := w.data[begin:w.at]
	var err error
	switch {
	case t == rawMessage || w.want != "":
		return nil
	case t.Kind() == reflect.Float64 || t.Kind() == reflect.Interface:
		if len(text) < 18 && bytes.IndexByte(text, 'e') < 0 && bytes.IndexByte(text, 'E') < 0 {
			return nil // too short to be out of range
		}
		_, err = strconv.ParseFloat(string(text), 64)
	case t.Kind() == reflect.Int || t.Kind() == reflect.Int64:
		_, err = strconv.ParseInt(string(text), 10, 64)
		if err != nil && !errors.Is(err, strconv.ErrRange) {
			return w.fail(begin, "%s is not a whole number", text)
		}
	default:
		return w.fail(begin, "a number where %s is needed", kindName(t))
	}
	if err != nil {
		return w.fail(begin, "%s is out of range", text)
	}
	return nil
}

// quoted returns the next string with its escapes, without its quotes.
func (w *walker) quoted() []byte {
	w.at++
	begin := w.at
	for w.data[w.at] != '"' {
		if w.data[w.at] == '\\' {
			w.at++
		}
		w.at++
	}
	w.at++
	return w.data[begin : w.at-1]
}

func (w *walker) array(begin int, t reflect.Type) error {
	element := anything
	switch {
	case t == rawMessage || t.Kind() == reflect.Interface:
	case t.Kind() == reflect.Slice:
		element = t.Elem()
	default:
		return w.fail(begin, "a list where %s is needed", kindName(t))
	}
	w.at++
	depth := len(w.path)
	for i := 0; w.next() != ']'; i++ {
		if w.data[w.at] == ',' {
			w.at++
		}
		w.path = append(w.path[:depth], '[')
		w.path = append(strconv.AppendInt(w.path, int64(i), 10), ']')
		if err := w.value(element); err != nil {
			return err
		}
	}
	w.path = w.path[:depth]
	w.at++
	return nil
}

func (w *walker) object(begin int, t reflect.Type) error {
	var f *fields
	element := anything
	switch {
	case t == rawMessage || t.Kind() == reflect.Interface:
	case t.Kind() == reflect.Map:
		element = t.Elem()
	case t.Kind() == reflect.Struct:
		f = w.fieldsOf(t)
	default:
		return w.fail(begin, "an object where %s is needed", kindName(t))
	}
	w.at++
	depth := len(w.path)
	var seen uint64            // fields of f
	var others map[string]bool // names that are no fields
	for w.next() != '}' {
		if w.data[w.at] == ',' {
			w.at++
			w.next()
		}
		keyAt := w.at
		key := w.quoted()
		if bytes.IndexByte(key, '\\') >= 0 {
			var s string
			if json.Unmarshal(w.data[keyAt:w.at], &s) == nil {
				key = []byte(s)
			}
		}
		w.path = w.path[:depth]
		if depth > 0 {
			w.path = append(w.path, '.')
		}
		w.path = append(w.path, key...)
		w.next()
		w.at++ // the colon

		valueType, known := element, false
		if f != nil {
			var k int
			if k, known = f.index[string(key)]; known {
				if valueType = f.types[k]; seen&(1<<k) != 0 {
					return w.fail(keyAt, "the field stands twice")
				}
				seen |= 1 << k
			}
		}
		if !known {
			if others[string(key)] {
				return w.fail(keyAt, "the field stands twice")
			}
			if others == nil {
				others = map[string]bool{}
			}
			others[string(key)] = true
		}
		own := f != nil && !known && bytes.HasPrefix(key, []byte("x-"))
		if f != nil && !known && !own && !w.foreign {
			return w.fail(keyAt, "unknown field; known are %s, and names of your own that begin with x-", strings.Join(f.names, ", "))
		}
		if f != nil && !known {
			valueType = rawMessage
			if name := f.folded(string(key)); name != "" {
				return w.fail(keyAt, "the field is written %s", name)
			}
		}
		w.next()
		valueAt := w.at
		if err := w.value(valueType); err != nil {
			return err
		}
		if own {
			w.extras = append(w.extras, Extra{string(w.path[:depth]), string(key), append(json.RawMessage(nil), w.data[valueAt:w.at]...)})
		}
	}
	w.path = w.path[:depth]
	w.at++
	return nil
}

var (
	anything   = reflect.TypeFor[any]()
	rawMessage = reflect.TypeFor[json.RawMessage]()
)

// fields are the JSON fields of a struct, at most 64.
type fields struct {
	index map[string]int
	types []reflect.Type
	names []string
}

func (w *walker) fieldsOf(t reflect.Type) *fields {
	if f, ok := w.types[t]; ok {
		return f
	}
	f := &fields{index: make(map[string]int, t.NumField())}
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		if name == "-" || !t.Field(i).IsExported() {
			continue
		}
		if name == "" {
			name = t.Field(i).Name
		}
		f.index[name] = len(f.types)
		f.types, f.names = append(f.types, t.Field(i).Type), append(f.names, name)
	}
	if w.types == nil {
		w.types = map[reflect.Type]*fields{}
	}
	w.types[t] = f
	return f
}

// folded returns the field that differs from key in case only, which
// encoding/json would take it for.
func (f *fields) folded(key string) string {
	for _, name := range f.names {
		if strings.EqualFold(name, key) {
			return name
		}
	}
	return ""
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
