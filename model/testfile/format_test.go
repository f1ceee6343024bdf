package testfile

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"workbench/model/strictjson"
)

// list is an instance of a format with a fault, "" for none.
type list struct {
	Words  []string
	Extra  []strictjson.Extra
	Source map[string]any
	Fault  string
}

type listFile struct {
	Format string         `json:"format"`
	Name   string         `json:"name"`
	Words  []string       `json:"words"`
	Source map[string]any `json:"source,omitempty"`
}

func (l *list) Validate() error {
	k := slices.Index(l.Words, "")
	switch {
	case k < 0 || l.Fault == "nothing is wrong":
		return nil
	case l.Fault == "an error without a field":
		return fmt.Errorf("words[%d]: empty", k)
	}
	return &strictjson.FieldError{Path: fmt.Sprintf("words[%d]", k), Msg: "empty"}
}

func (l *list) Write(w io.Writer) error {
	if err := l.Validate(); err != nil {
		return fmt.Errorf("list: %w", err)
	}
	words, extra := l.Words, l.Extra
	switch l.Fault {
	case "a word is lost":
		words = words[1:]
	case "own fields are lost":
		extra = nil
	}
	out := strictjson.NewWriter(w, "list/v1", "", extra)
	out.Member("words", words)
	if err := out.Close(l.Source); err != nil && l.Fault != "all writes succeed" {
		return fmt.Errorf("list: %w", err)
	}
	return nil
}

func (l *list) Digest() (string, error) {
	if err := l.Validate(); err != nil {
		return "", fmt.Errorf("list: %w", err)
	}
	switch l.Fault {
	case "one digest for all":
		return "a,b", nil
	case "the source counts":
		return fmt.Sprint(strings.Join(l.Words, ","), l.Source), nil
	}
	return strings.Join(l.Words, ","), nil
}

const (
	ab    = "{\n \"format\": \"list/v1\",\n \"words\": [\"a\", \"b\"]\n}"
	ownAB = `{"format": "list/v1", "words": ["a", "b"], "x-1": {"c": 1e9}, "source": {"from": "here"}}`
)

func lists(fault string) *Format[*list] {
	return &Format[*list]{
		Name: "list",
		Read: func(r io.Reader, name string) (*list, error) {
			l, err := strictjson.ReadFormat(r, name, "list/v1", 1000, func(f *listFile, extra []strictjson.Extra) (*list, error) {
				l := &list{f.Words, extra, f.Source, fault}
				return l, l.Validate()
			})
			switch {
			case err != nil && fault == "an error of two lines":
				err = errors.New(strings.ReplaceAll(err.Error(), ": ", ":\n"))
			case err != nil && fault == "an error on another line":
				err = errors.New(strings.ReplaceAll(err.Error(), ":3:", ":4:"))
			}
			return l, err
		},
		Parts: func(l *list) (*[]strictjson.Extra, *map[string]any) { return &l.Extra, &l.Source },
		Good:  []string{ab, ownAB},
		Bad: []Bad{
			{"empty word", `"b"`, `""`, "3: words[1]: empty", false},
			{"twice", `"words"`, `"words": [], "words"`, "3: words: the field stands twice", true},
		},
	}
}

// Each check finds the faults that it is for, and no others.
func TestFormat(t *testing.T) {
	noEmptyWords := func(s string) error {
		if strings.Contains(s, `""]`) {
			return errors.New("an empty word")
		}
		return nil
	}
	checks := []struct {
		name  string
		check func(t testing.TB, f *Format[*list])
	}{
		{"readError", func(t testing.TB, f *Format[*list]) { f.readError(t, &f.Bad[0]) }},
		{"agrees", func(t testing.TB, f *Format[*list]) { f.agrees(t, noEmptyWords) }},
		{"OwnFields", func(t testing.TB, f *Format[*list]) {
			want := f.parse(t, ab)
			want.Source = map[string]any{"from": "here"}
			f.OwnFields(t, ownAB, want, ` x-1 {"c":1e9}`)
		}},
		{"WriteErrors", func(t testing.TB, f *Format[*list]) {
			good := f.parse(t, ab)
			bad := *good
			bad.Words = []string{""}
			f.WriteErrors(t, good, &bad, "list: words[0]: empty")
		}},
		{"Validate", func(t testing.TB, f *Format[*list]) {
			f.Validate(t, func() *list { return f.parse(t, ab) }, map[string]func(*list){
				"words[1]: empty": func(l *list) { l.Words[1] = "" },
			})
		}},
		{"Digests", func(t testing.TB, f *Format[*list]) {
			f.Digests(t, "a,b", map[string]string{"own fields": ownAB}, [][2]string{{`"a"`, `"c"`}})
		}},
		{"good holds", func(t testing.TB, f *Format[*list]) { f.check(t, ownAB, noEmptyWords) }},
		{"bad holds", func(t testing.TB, f *Format[*list]) { f.check(t, f.spoil(&f.Bad[0]), noEmptyWords) }},
	}
	for fault, want := range map[string][]string{
		"":                         nil,
		"nothing is wrong":         {"readError", "WriteErrors", "Validate", "bad holds"},
		"an error without a field": {"readError", "Validate"},
		"an error of two lines":    {"readError", "bad holds"},
		"an error on another line": {"readError"},
		"a word is lost":           {"good holds"},
		"own fields are lost":      {"good holds"},
		"all writes succeed":       {"WriteErrors"},
		"one digest for all":       {"Digests"},
		"the source counts":        {"Digests"},
	} {
		var failed []string
		for _, x := range checks {
			if fails(t, func(t testing.TB) { x.check(t, lists(fault)) }) {
				failed = append(failed, x.name)
			}
		}
		if diff := cmp.Diff(want, failed); diff != "" {
			t.Errorf("fault %q: failed checks (-want +got):\n%s", fault, diff)
		}
	}
	for name, spoil := range map[string]func(f *Format[*list]){
		"a replacement of nothing": func(f *Format[*list]) { f.Bad[0].Old = "z" },
		"another error":            func(f *Format[*list]) { f.Bad[0].Want = "3: words[0]: empty" },
	} {
		f := lists("")
		if spoil(f); !fails(t, func(t testing.TB) { f.readError(t, &f.Bad[0]) }) {
			t.Errorf("%s passes", name)
		}
	}
	for name, spoil := range map[string]func(f *Format[*list]){
		"marked, but the schema refuses it":   func(f *Format[*list]) { f.Bad[0].Semantic = true },
		"not marked, but the schema takes it": func(f *Format[*list]) { f.Bad[1].Semantic = false },
		"a good document not of the schema":   func(f *Format[*list]) { f.Good = append(f.Good, f.spoil(&f.Bad[0])) },
	} {
		f := lists("")
		if spoil(f); !fails(t, func(t testing.TB) { f.agrees(t, noEmptyWords) }) {
			t.Errorf("%s passes", name)
		}
	}
	for name, f := range map[string]func(t testing.TB){
		"another own field": func(t testing.TB) { lists("").OwnFields(t, ownAB, lists("").parse(t, ab), ` x-1 {"c":2}`) },
		"another instance":  func(t testing.TB) { lists("").OwnFields(t, ab, &list{Words: []string{"a"}}) },
		"an own field more": func(t testing.TB) { lists("").OwnFields(t, ownAB, lists("").parse(t, ab)) },
	} {
		if !fails(t, f) {
			t.Errorf("%s passes", name)
		}
	}
}
