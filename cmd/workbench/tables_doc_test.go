package main

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// documentTable is a table of a document between markers, in one of three kinds:
//
//	<!-- table NAME: COMMAND -->           made again by every test
//	<!-- measured NAME DATE: COMMAND -->   made again by hand: it takes long, or says times
//	<!-- pasted NAME: SOURCE -->           printed by others, or put together from many runs
//
//	…
//
//	<!-- end -->
//
// Commands are run by a shell at the root of the repository, workbench is this program,
// sweeps are kept in the folder $SWEEPS. With -update the tables that -run selects are
// made again, whatever their kind:
//
//	go test ./cmd/workbench -run 'TestTablesInDocuments/^(chains|growth)$' -update -timeout 1h
var documentTable = regexp.MustCompile(`(?s)<!-- (table|measured|pasted) ([\w-]+)(?: (\d{4}-\d\d-\d\d))?: ([^\n]*) -->\n\n(.*?)\n<!-- end -->`)

// marker begins a table, whatever follows.
var marker = regexp.MustCompile(`<!-- (?:table|measured|pasted) `)

// documents are the pages with tables.
func documents(t *testing.T) (files []string) {
	t.Helper()
	for _, pattern := range []string{"docs/*.md", "docs/formulations/*.md", "README.md"} {
		some, err := filepath.Glob(filepath.Join("../..", pattern))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, some...)
	}
	if len(files) < 3 {
		t.Fatal("there are no documents")
	}
	return files
}

// Tables between markers say what their command prints.
func TestTablesInDocuments(t *testing.T) {
	if testing.Short() {
		t.Skip("sweeps of some seconds")
	}
	update := flag.Lookup("update").Value.String() == "true"
	path := workbenchOnPath(t) + string(os.PathListSeparator) + os.Getenv("PATH")
	sweeps := t.TempDir()
	if update {
		sweeps = filepath.Join("../..", "sweeps") // may be gone on with
	}
	sweeps, err := filepath.Abs(sweeps)
	if err != nil {
		t.Fatal(err)
	}
	made := func(t *testing.T, command string) string {
		cmd := exec.Command("bash", "-c", command)
		cmd.Dir = filepath.Join("..", "..")
		cmd.Env = append(os.Environ(), "PATH="+path, "SWEEPS="+sweeps)
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v", command, err)
		}
		return strings.TrimSpace(string(out))
	}
	for _, file := range documents(t) {
		for _, m := range tablesOf(t, file) {
			kind, name, command, table := m[1], m[2], m[4], m[5]
			if kind != "table" && (kind != "measured" || !update) {
				continue
			}
			t.Run(name, func(t *testing.T) {
				got := made(t, command)
				if update {
					replace(t, file, m, got)
				} else if diff := cmp.Diff(strings.TrimSpace(table), got); diff != "" {
					t.Errorf("%s, which make tables ARGS=%s writes again: (-document +command)\n%s", filepath.Base(file), name, diff)
				}
			})
		}
	}
}

// tablesOf returns the matches of documentTable in a file.
func tablesOf(t *testing.T, file string) [][]string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	all := documentTable.FindAllStringSubmatch(string(text), -1)
	if begun := len(marker.FindAllString(string(text), -1)); begun != len(all) {
		t.Errorf("%s: of %d tables that begin some do not end, or have no command", filepath.Base(file), begun)
	}
	return all
}

// replace writes what a command printed into the document, and today's date if that says one.
func replace(t *testing.T, file string, m []string, table string) {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	head, _, _ := strings.Cut(m[0], "\n")
	if m[3] != "" {
		head = strings.Replace(head, m[3], time.Now().UTC().Format(time.DateOnly), 1)
	}
	changed := strings.Replace(string(text), m[0], head+"\n\n"+table+"\n\n<!-- end -->", 1)
	if err := os.WriteFile(file, []byte(changed), 0o644); err != nil {
		t.Fatal(err)
	}
}

// numeric is a cell with a number and, at most, its unit.
var numeric = regexp.MustCompile(`^[^\pL\d]*\d[^\pL]*(\pL{1,3}\W*)?$`)

// ofNumbers reports whether a third of a table are numbers, some with decimals: it was
// measured.
func ofNumbers(table string) bool {
	numbers, all, decimals := 0, 0, false
	for cell := range strings.SplitSeq(table, "|") {
		if cell = strings.TrimSpace(cell); strings.Trim(cell, ":-") == "" {
			continue
		}
		if all++; numeric.MatchString(cell) {
			numbers++
			decimals = decimals || strings.Contains(cell, ".")
		}
	}
	return decimals && 3*numbers >= all
}

// sweepOf is the sweep that a command prints a table of.
var sweepOf = regexp.MustCompile(`scripts/table\.sh (?:--[\w=-]+ )*([\w-]+)`)

// Tables of benchmarks.md, and those of numbers elsewhere, stand between markers, each under
// a name of its own.
func TestTablesAreBetweenMarkers(t *testing.T) {
	var names []string
	used := map[string]bool{} // specifications
	for _, file := range documents(t) {
		for _, m := range tablesOf(t, file) {
			if sweep := sweepOf.FindStringSubmatch(m[4]); sweep != nil {
				used[sweep[1]+".yaml"] = true
			}
			if names = append(names, m[2]); (m[1] == "measured") != (m[3] != "") {
				t.Errorf("%s: table %s: those that are measured have a date, others have none", filepath.Base(file), m[2])
			}
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, table := range regexp.MustCompile(`(?m)(^ *\|.*\n)+`).FindAllString(documentTable.ReplaceAllString(string(text), ""), -1) {
			if filepath.Base(file) == "benchmarks.md" || ofNumbers(table) {
				t.Errorf("%s: a table without markers: %s", filepath.Base(file), strings.TrimSpace(strings.SplitN(table, "\n", 2)[0]))
			}
		}
	}
	specs, err := os.ReadDir("../../bench/sweep/specification/tables")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range specs {
		if !used[s.Name()] {
			t.Errorf("no table is of the sweep %s", s.Name())
		}
		delete(used, s.Name())
	}
	for name := range used {
		t.Errorf("there is no sweep %s", name)
	}
	slices.Sort(names)
	for i := 1; i < len(names); i++ {
		if names[i] == names[i-1] {
			t.Errorf("two tables are called %s", names[i])
		}
	}
}
