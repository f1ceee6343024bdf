package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// documentTable is a table in a document that a command makes again:
//
//	<!-- table NAME: command -->
//
//	…
//
//	<!-- end -->
var documentTable = regexp.MustCompile(`(?s)<!-- table ([\w-]+): ([^\n]*) -->\n\n(.*?)\n<!-- end -->`)

// Tables between markers say what their command prints.
func TestTablesInDocuments(t *testing.T) {
	if testing.Short() {
		t.Skip("sweeps of a quarter of a minute")
	}
	files, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	bin := workbenchOnPath(t)
	found := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if begun := strings.Count(string(text), "<!-- table "); begun != len(documentTable.FindAllString(string(text), -1)) {
			t.Errorf("%s: of %d tables that begin some do not end, or have no command", filepath.Base(file), begun)
		}
		for _, m := range documentTable.FindAllStringSubmatch(string(text), -1) {
			found++
			cmd := exec.Command("sh", "-c", m[2])
			cmd.Dir = t.TempDir()
			cmd.Env = append(os.Environ(), "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"))
			out, err := cmd.Output()
			if err != nil {
				t.Errorf("%s: %s: %v", filepath.Base(file), m[2], err)
				continue
			}
			if diff := cmp.Diff(strings.TrimSpace(m[3]), strings.TrimSpace(string(out))); diff != "" {
				t.Errorf("%s: table %s: (-document +command)\n%s", filepath.Base(file), m[1], diff)
			}
		}
	}
	if found == 0 {
		t.Error("no document has a table between markers")
	}
}
