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
	"unicode/utf8"

	"workbench/model/platform"
)

// walker compares a document with a Go type. The syntax has been checked
// before, so it only needs to find where values begin and end. Path is a
// buffer that grows and shrinks with the depth; nothing is allocated for
// values that are as they should be.
type walker struct {
	data    []byte
	name    string
	foreign bool // pass over unknown fields

	at     int // where reading goes on
	path   []byte
	seen   []bool // fields met, of all structs that are being read
	types  map[reflect.Type]*fields
	extras []Extra
	unit   platform.Unit // that the sizes so far need
}

// decode checks data against *v and stores it there.
func (w *walker) decode(v any) error {
	if err := w.text(); err != nil {
		return err
	}
	decoded := json.Unmarshal(w.data, v)
	if syntax, ok := errors.AsType[*json.SyntaxError](decoded); ok {
		return w.syntax(syntax)
	}
	if err := w.value(reflect.TypeOf(v).Elem(), false); err != nil {
		return err
	}
	var kind *json.UnmarshalTypeError
	switch {
	case decoded == nil:
		return nil
	case errors.As(decoded, &kind):
		return &Error{w.name, lineOf(w.data, int(kind.Offset)), kind.Field, kind.Value + " does not fit"}
	}
	return &Error{w.name, 1, "", decoded.Error()}
}

// text refuses what encoding/json would read as something else.
func (w *walker) text() error {
	switch {
	case len(bytes.TrimSpace(w.data)) == 0:
		return &Error{w.name, 1, "", "the file is empty"}
	case !utf8.Valid(w.data):
		at := 0
		for at < len(w.data) {
			r, size := utf8.DecodeRune(w.data[at:])
			if r == utf8.RuneError && size == 1 {
				break
			}
			at += size
		}
		return &Error{w.name, lineOf(w.data, at), "", "the text is not UTF-8"}
	}
	return nil
}

// syntax says what stops the document from being JSON.
func (w *walker) syntax(s *json.SyntaxError) error {
	// Unlike Unmarshal, a Decoder tells the ways to stop apart.
	dec := json.NewDecoder(bytes.NewReader(w.data))
	var document json.RawMessage
	switch err := dec.Decode(&document); {
	case err == nil:
		at := space(w.data, int(dec.InputOffset()))
		return &Error{w.name, lineOf(w.data, at), "", "data after the end of the document"}
	case errors.Is(err, io.ErrUnexpectedEOF):
		path, _ := pathAt(w.data)
		end := len(bytes.TrimSuffix(w.data, []byte("\n")))
		return &Error{w.name, lineOf(w.data, end), path, "the file ends in the middle of the document"}
	}
	at := max(0, int(s.Offset)-1) // Offset is behind the byte at fault
	path, depth := pathAt(w.data[:at])
	msg := "not JSON: " + s.Error() + " (numbers are finite, names are in double quotes)"
	if depth >= maxDepth {
		msg = fmt.Sprintf("lists and objects are nested more than %d deep", maxDepth)
	}
	return &Error{w.name, lineOf(w.data, at), path, msg}
}

// maxDepth is how deep encoding/json follows nested lists and objects.
const maxDepth = 10_000

// fail is an error about the value that begins at offset.
func (w *walker) fail(offset int, format string, args ...any) error {
	return &Error{w.name, lineOf(w.data, offset), printable(string(w.path)), fmt.Sprintf(format, args...)}
}

// next returns the next byte that is no white space.
func (w *walker) next() byte {
	w.at = space(w.data, w.at)
	return w.data[w.at]
}

// nullable reports whether encoding/json writes some values of t as null.
// Slices are not among them: a list without elements is [].
func nullable(t reflect.Type) bool {
	return t.Kind() == reflect.Pointer || t.Kind() == reflect.Interface || t.Kind() == reflect.Map || t == rawMessage
}

// value checks the next value against t; null says whether it may be null.
func (w *walker) value(t reflect.Type, null bool) error {
	c := w.next()
	begin := w.at
	for t.Kind() == reflect.Pointer {
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
		if null {
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
	if t == sizeType {
		if err := w.size(begin, text); err != nil {
			return err
		}
	}
	switch {
	case t == rawMessage:
		return nil
	case t.Kind() == reflect.Float64 || t.Kind() == reflect.Interface:
		if len(text) < 300 && bytes.IndexByte(text, 'e') < 0 && bytes.IndexByte(text, 'E') < 0 {
			return nil // too short to be out of range without an exponent
		}
		_, err = strconv.ParseFloat(string(text), 64)
	case t.Kind() == reflect.Int || t.Kind() == reflect.Int64:
		_, err = strconv.ParseInt(string(text), 10, 64)
		if err != nil && !errors.Is(err, strconv.ErrRange) {
			return w.fail(begin, "%s where an integer is needed, in digits only", brief(text))
		}
	default:
		return w.fail(begin, "a number where %s is needed", kindName(t))
	}
	if err != nil {
		return w.fail(begin, "%s is out of range", brief(text))
	}
	return nil
}

// brief cuts a number that is too long for a message.
func brief(number []byte) string {
	if len(number) > 40 {
		return string(number[:40]) + "…"
	}
	return string(number)
}

// quoted passes the next string and returns it with its quotes and escapes.
func (w *walker) quoted() []byte {
	begin := w.at
	w.at, _ = stringEnd(w.data, begin)
	return w.data[begin:w.at]
}

func (w *walker) array(begin int, t reflect.Type) error {
	element := anything
	switch {
	case t == rawMessage:
		element = rawMessage
	case t.Kind() == reflect.Interface:
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
		if err := w.value(element, nullable(element)); err != nil {
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
	case t == rawMessage:
		element = rawMessage
	case t.Kind() == reflect.Interface:
	case t.Kind() == reflect.Map:
		element = t.Elem()
	case t.Kind() == reflect.Struct:
		f = w.fieldsOf(t)
	default:
		return w.fail(begin, "an object where %s is needed", kindName(t))
	}
	w.at++
	depth := len(w.path)
	base := len(w.seen)
	if f != nil {
		w.seen = append(w.seen, make([]bool, len(f.names))...)
	}
	var others map[string]bool // names that are no fields
	for w.next() != '}' {
		if w.data[w.at] == ',' {
			w.at++
			w.next()
		}
		keyAt := w.at
		key := w.key(depth)

		valueType, null, known := element, nullable(element), false
		if f != nil {
			var k int
			if k, known = f.index[string(key)]; known {
				valueType, null = f.types[k], f.null[k]
				if w.seen[base+k] {
					return w.fail(keyAt, "the field stands twice")
				}
				w.seen[base+k] = true
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
		if f != nil && !known {
			valueType, null = rawMessage, true
			if name := f.folded(string(key)); name != "" {
				return w.fail(keyAt, "the field is written %s", name)
			}
			if !own && !w.foreign {
				return w.fail(keyAt, "unknown field; known are %s, and names of your own that begin with x-", strings.Join(f.names, ", "))
			}
		}
		w.next()
		valueAt := w.at
		if err := w.value(valueType, null); err != nil {
			return err
		}
		if own {
			w.extras = append(w.extras, Extra{string(w.path[:depth]), string(key), append(json.RawMessage(nil), w.data[valueAt:w.at]...)})
		}
	}
	w.path, w.seen = w.path[:depth], w.seen[:base]
	w.at++
	return nil
}

// key reads a name and its colon, and has it at the end of the path, which is
// depth long before it.
func (w *walker) key(depth int) []byte {
	quoted := w.quoted()
	key := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(key, '\\') >= 0 {
		key = []byte(text(quoted))
	}
	w.path = w.path[:depth]
	if depth > 0 {
		w.path = append(w.path, '.')
	}
	w.path = append(w.path, key...)
	w.next()
	w.at++ // the colon
	return key
}

var (
	anything   = reflect.TypeFor[any]()
	rawMessage = reflect.TypeFor[json.RawMessage]()
	sizeType   = reflect.TypeFor[Size]()
)

// fields are the JSON fields of a struct.
type fields struct {
	index map[string]int
	names []string
	types []reflect.Type
	null  []bool // whether null may stand there
}

func (w *walker) fieldsOf(t reflect.Type) *fields {
	if f, ok := w.types[t]; ok {
		return f
	}
	f := &fields{index: make(map[string]int, t.NumField())}
	for i := range t.NumField() {
		name, options, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		if name == "-" || !t.Field(i).IsExported() {
			continue
		}
		if name == "" {
			name = t.Field(i).Name
		}
		f.index[name] = len(f.types)
		f.names, f.types = append(f.names, name), append(f.types, t.Field(i).Type)
		f.null = append(f.null, t.Field(i).Type == rawMessage || nullable(t.Field(i).Type) && !strings.Contains(options, "omitempty"))
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
		return "an integer"
	case reflect.String:
		return "a text"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice:
		return "a list"
	}
	return "an object"
}
