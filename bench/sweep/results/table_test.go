package results

import (
	"errors"
	"strings"
	"testing"

	"workbench/bench/solve"
	"workbench/model/testfile"
)

// Every table of a night made up: what is not asked for is empty, what has no row
// says so.
func TestTables(t *testing.T) {
	r := NewReport(madeNight(small, "b", 2), nil)
	var b strings.Builder
	for _, name := range Tables() {
		if err := r.WriteTable(&b, Table{Cells: name}); err != nil {
			t.Fatal(err)
		}
		b.WriteByte('\n')
	}
	for _, x := range []Table{
		{"ratio", "network", ""},
		{"ratio", "memory", "persistent"},
		{"proof", "bandwidth", ""},
		{"time", "processors", ""},
	} {
		if err := r.WriteTable(&b, x); err != nil {
			t.Fatal(err)
		}
		b.WriteByte('\n')
	}
	testfile.Golden(t, "tables.md", b.String())
	for _, x := range []Table{{Cells: "gaps"}, {"gap", "machine", ""}, {"ratio", "", "persistant"}} {
		if err := r.WriteTable(&b, x); !errors.Is(err, solve.ErrInput) {
			t.Errorf("%v: %v, want an error of the user's", x, err)
		}
	}
}
