package testfile

import (
	"errors"
	"strings"
	"testing"
)

// fatal notes whether a check failed.
type fatal struct {
	testing.TB
	failed bool
}

func (f *fatal) Helper() {}

func (f *fatal) Fatal(...any) { f.stop() }

func (f *fatal) Fatalf(string, ...any) { f.stop() }

func (f *fatal) stop() {
	f.failed = true
	panic(f)
}

// fails reports whether Holds fails on data.
func fails(d *Document[[]string], data string) bool {
	f := &fatal{}
	func() {
		defer func() {
			if r := recover(); r != nil && r != any(f) {
				panic(r)
			}
		}()
		d.Holds(f, data)
	}()
	return f.failed
}

// The documents are words separated by commas.
func words() *Document[[]string] {
	return &Document[[]string]{
		Validate: func(string) error { return nil },
		Read: func(s string) ([]string, error) {
			if s == "" {
				return nil, errors.New("empty")
			}
			return strings.Split(s, ","), nil
		},
		Write: func(x []string) string { return strings.Join(x, ",") },
		Strip: func([]string) int { return 0 },
	}
}

func TestHolds(t *testing.T) {
	if d := words(); fails(d, "a,b") || fails(d, "") {
		t.Error("a sound format fails")
	}
	lost, refused, lines, counted := words(), words(), words(), words()
	lost.Write = func(x []string) string { return x[0] }
	refused.Validate = func(s string) error { return errors.New(s) }
	lines.Read = func(string) ([]string, error) { return nil, errors.New("two\nlines") }
	n := 0
	counted.Strip = func([]string) int { n++; return n }
	for name, d := range map[string]*Document[[]string]{"a word lost": lost, "not of the schema": refused, "an error of two lines": lines, "an own field lost": counted} {
		if !fails(d, "a,b") {
			t.Errorf("%s passes", name)
		}
	}
}
