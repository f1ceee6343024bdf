package testfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"workbench/model/strictjson"
)

// An Instance is what the documents of a format stand for.
type Instance interface {
	Validate() error
	Write(io.Writer) error
	Digest() (string, error)
}

// A Format is a format of instances, and documents of it. Its methods are the
// tests that every format has to pass.
type Format[T Instance] struct {
	Name    string // "graph": of graph/v1
	Version int    // of the format; 0: the first
	Read    func(r io.Reader, name string) (T, error)
	// Parts are the users' own fields and the source of an instance.
	Parts func(T) (extra *[]strictjson.Extra, source *map[string]any)
	Good  []string // documents
	Bad   []Bad    // what spoils the first of them
}

// Bad is a replacement that spoils a document, and the beginning of the error,
// from the line on. It is without a name of its own, so that tables can leave
// out those of its fields.
type Bad = struct {
	Name, Old, New, Want string
	Semantic             bool // it is wrong for what a schema cannot say
}

// Parse reads a document.
func (f *Format[T]) Parse(document string) (T, error) {
	return f.Read(strings.NewReader(document), f.Name+".json")
}

func (f *Format[T]) parse(t rapid.TB, document string) T {
	t.Helper()
	x, err := f.Parse(document)
	if err != nil {
		t.Fatalf("%v\n%s", err, document)
	}
	return x
}

// Text returns the document that x is written as.
func Text(t rapid.TB, x interface{ Write(w io.Writer) error }) string {
	t.Helper()
	var b bytes.Buffer
	if err := x.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// Digest returns the digest of x.
func Digest(t rapid.TB, x interface{ Digest() (string, error) }) string {
	t.Helper()
	d, err := x.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func (f *Format[T]) schema(t testing.TB) func(document string) error {
	t.Helper()
	return Schema(t, fmt.Sprintf("%s-v%d.json", f.Name, max(1, f.Version)))
}

func (f *Format[T]) spoil(x *Bad) string { return strings.Replace(f.Good[0], x.Old, x.New, 1) }

// errBroken is that of failing, which can be neither read nor written.
var errBroken = errors.New("broken")

type failing struct{}

func (failing) Read([]byte) (int, error)  { return 0, errBroken }
func (failing) Write([]byte) (int, error) { return 0, errBroken }

// ReadErrors checks the errors of bad documents, and of one that cannot be read.
func (f *Format[T]) ReadErrors(t *testing.T) {
	for _, x := range f.Bad {
		t.Run(x.Name, func(t *testing.T) { f.readError(t, &x) })
	}
	if _, err := f.Read(failing{}, "file"); !errors.Is(err, errBroken) || !strings.HasPrefix(err.Error(), "file cannot be read") {
		t.Errorf("unreadable: %v", err)
	}
}

func (f *Format[T]) readError(t testing.TB, x *Bad) {
	t.Helper()
	s := f.spoil(x)
	if s == f.Good[0] {
		t.Fatal("the replacement changes nothing")
	}
	_, err := f.Parse(s)
	var located *strictjson.Error
	if want := f.Name + ".json:" + x.Want; !errors.As(err, &located) || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("error %v\nwant  %s…", err, want)
	}
}

// Schema checks that the schema refuses what Read refuses, up to what a schema
// cannot say.
func (f *Format[T]) Schema(t testing.TB) { f.agrees(t, f.schema(t)) }

func (f *Format[T]) agrees(t testing.TB, validate func(string) error) {
	t.Helper()
	for _, s := range f.Good {
		if err := validate(s); err != nil {
			t.Error(err)
		}
	}
	for i := range f.Bad {
		x := &f.Bad[i]
		if err := validate(f.spoil(x)); (err == nil) != x.Semantic {
			t.Errorf("%s: error %v", x.Name, err)
		}
	}
}

// OwnFields checks that a document has fields of the user's own, each "path key
// value", and is like want without them.
func (f *Format[T]) OwnFields(t testing.TB, document string, want T, fields ...string) {
	t.Helper()
	x := f.parse(t, document)
	if diff := cmp.Diff(fields, f.strip(t, x)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, x); diff != "" {
		t.Errorf("the rest (-want +got):\n%s", diff)
	}
}

// WriteGolden compares a document, written again, with testdata/name.
func (f *Format[T]) WriteGolden(t testing.TB, name, document string) {
	t.Helper()
	x := f.parse(t, document)
	Golden(t, name, Text(t, x))
	f.survives(t, x, f.schema(t))
}

// WriteErrors checks the errors of an instance that is written where nothing can
// be, and of a bad one of the same name, "graph small: …".
func (f *Format[T]) WriteErrors(t testing.TB, good, bad T, want string) {
	t.Helper()
	instance, _, _ := strings.Cut(want, ": ")
	if err := good.Write(failing{}); !errors.Is(err, errBroken) || !strings.HasPrefix(err.Error(), instance+": ") {
		t.Errorf("unwritable: %v", err)
	}
	if err := bad.Write(io.Discard); err == nil || err.Error() != want {
		t.Errorf("error %v\nwant  %s", err, want)
	}
	if _, err := bad.Digest(); err == nil || err.Error() != want {
		t.Errorf("digest: error %v\nwant  %s", err, want)
	}
}

// Validate checks that instances that are made and not read are checked all the
// same: good as it is, and with the changes that give errors beginning so.
func (f *Format[T]) Validate(t testing.TB, good func() T, changes map[string]func(T)) {
	t.Helper()
	if err := good().Validate(); err != nil {
		t.Fatal(err)
	}
	for want, change := range changes {
		x := good()
		change(x)
		err := x.Validate()
		var field *strictjson.FieldError
		if !errors.As(err, &field) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("error %v, want %s…", err, want)
		}
	}
}

// RoundTrip checks that what is written is read back to the bit, has the same
// digest, and is of the schema.
func (f *Format[T]) RoundTrip(t testing.TB, instances *rapid.Generator[T]) {
	t.Helper()
	validate := f.schema(t)
	Property(t, func(t *rapid.T) { f.survives(t, instances.Draw(t, f.Name), validate) })
}

// survives checks a round trip of x, whose own fields it takes away.
func (f *Format[T]) survives(t rapid.TB, x T, validate func(string) error) {
	t.Helper()
	s := Text(t, x)
	if err := validate(s); err != nil {
		t.Fatal(err)
	}
	again := f.parse(t, s)
	if a, b := Digest(t, x), Digest(t, again); a != b {
		t.Fatalf("digest %s before, %s after", a, b)
	}
	if diff := cmp.Diff(f.strip(t, x), f.strip(t, again)); diff != "" {
		t.Fatalf("own fields (-written +read):\n%s", diff)
	}
	if diff := cmp.Diff(x, again); diff != "" {
		t.Fatalf("(-written +read):\n%s", diff)
	}
}

// strip takes away the users' own fields of x, which it returns in order, and
// an empty source, which is not written.
func (f *Format[T]) strip(t rapid.TB, x T) (own []string) {
	t.Helper()
	extra, source := f.Parts(x)
	for _, e := range *extra {
		d := json.NewDecoder(bytes.NewReader(e.Value))
		d.UseNumber()
		var v any
		if err := d.Decode(&v); err != nil {
			t.Fatal(err)
		}
		value, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		own = append(own, e.Path+" "+e.Key+" "+string(value))
	}
	slices.Sort(own)
	*extra = nil
	if len(*source) == 0 {
		*source = nil
	}
	return own
}

// Digests checks that the digest is of the numbers and names alone: the first
// good document has it however it is written, and so have those given, but not
// the document with one of the replacements. Plans that were stored refer to
// digests, so they must never change.
func (f *Format[T]) Digests(t testing.TB, want string, same map[string]string, replacements [][2]string) {
	t.Helper()
	small := f.Good[0]
	var compact bytes.Buffer
	if err := json.Compact(&compact, []byte(small)); err != nil {
		t.Fatal(err)
	}
	check := func(name, s string) {
		t.Helper()
		if got := Digest(t, f.parse(t, s)); got != want {
			t.Errorf("%s: digest %s, want %s", name, got, want)
		}
	}
	check("as it is", small)
	check("compact", compact.String())
	check("CRLF", strings.ReplaceAll(small, "\n", "\r\n"))
	check("byte order mark", "\ufeff"+small)
	for name, s := range same {
		check(name, s)
	}
	for _, x := range replacements {
		if Digest(t, f.parse(t, strings.Replace(small, x[0], x[1], 1))) == want {
			t.Errorf("%s instead of %s does not change the digest", x[1], x[0])
		}
	}
}

// Fuzz checks, of any document, that nothing panics, and that what is read is of
// the schema and written and read to the same.
func (f *Format[T]) Fuzz(fuzz *testing.F) {
	validate := f.schema(fuzz)
	for _, s := range f.Good {
		fuzz.Add([]byte(s))
	}
	for i := range f.Bad {
		fuzz.Add([]byte(f.spoil(&f.Bad[i])))
	}
	fuzz.Fuzz(func(t *testing.T, data []byte) { f.check(t, string(data), validate) })
}

// check checks a document: it is refused in one line, or it is of the schema and
// survives.
func (f *Format[T]) check(t testing.TB, document string, validate func(string) error) {
	t.Helper()
	x, err := f.Parse(document)
	if err != nil {
		if strings.Contains(err.Error(), "\n") {
			t.Fatalf("error of several lines: %q", err)
		}
		return
	}
	if err := validate(strings.TrimPrefix(document, "\ufeff")); err != nil {
		t.Fatal(err)
	}
	f.survives(t, x, validate)
}

// Benchmark reads x.
func (f *Format[T]) Benchmark(b *testing.B, x T) {
	document := Text(b, x)
	b.SetBytes(int64(len(document)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := f.Parse(document); err != nil {
			b.Fatal(err)
		}
	}
}
