package report

import (
	"strings"
	"testing"

	"workbench/bench/report/rowstest"
	"workbench/model/testfile"
)

// Every table of a night made up: what is not asked for is empty, what has no row
// says so.
func TestTables(t *testing.T) {
	r := New(rowstest.Night(small, "b", 2), nil)
	var b strings.Builder
	for _, name := range Tables() {
		if err := r.WriteTable(&b, name); err != nil {
			t.Fatal(err)
		}
		b.WriteByte('\n')
	}
	testfile.Golden(t, "tables.md", b.String())
	if err := r.WriteTable(&b, "gaps"); err == nil {
		t.Error("there is no table of gaps")
	}
}
