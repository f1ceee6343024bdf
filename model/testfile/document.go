package testfile

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Document says how one format is read and written, for [Document.Holds].
type Document[T any] struct {
	Validate func(document string) error // against the schema
	Read     func(document string) (T, error)
	Write    func(T) string
	// Strip removes what is not compared: the user's own fields, which it
	// counts, and an empty source, which is not written.
	Strip func(T) (own int)
}

// Holds checks any document: it is refused in one line, or it is of the schema,
// and written and read it is the same.
func (d *Document[T]) Holds(t testing.TB, data string) {
	t.Helper()
	x, err := d.Read(data)
	if err != nil {
		if strings.Contains(err.Error(), "\n") {
			t.Fatalf("error of several lines: %q", err)
		}
		return
	}
	s := d.Write(x)
	for _, document := range []string{strings.TrimPrefix(data, "\ufeff"), s} {
		if err := d.Validate(document); err != nil {
			t.Fatal(err)
		}
	}
	again, err := d.Read(s)
	if err != nil {
		t.Fatalf("%v\n%s", err, s)
	}
	if a, b := d.Strip(x), d.Strip(again); a != b {
		t.Fatalf("%d fields of the user's own became %d", a, b)
	}
	if diff := cmp.Diff(x, again); diff != "" {
		t.Fatalf("(-written +read):\n%s", diff)
	}
}
