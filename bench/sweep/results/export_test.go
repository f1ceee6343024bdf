package results

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"

	"workbench/bench/sweep"
	"workbench/bench/sweep/results/resultstest"
	"workbench/model/testfile"
)

var fewRows = resultstest.Size{Instances: 6, Limits: 2, Repetitions: 2}

func exported(t testing.TB, n *Night, format string) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, n, format); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// What is written to Parquet is read back to the same, by parquet-go; of no rows, too.
func TestParquet(t *testing.T) {
	for _, n := range []*Night{madeNight(fewRows, "b", 2), madeNight(resultstest.Size{Instances: 1, Limits: 1, Repetitions: 1}, "b", 2), {}} {
		data := exported(t, n, "parquet")
		var flat []reflect.StructField
		for _, f := range columns() {
			flat = append(flat, reflect.StructField{Name: f.Name, Type: f.Type, Tag: f.Tag})
		}
		file := parquet.NewReader(bytes.NewReader(data))
		for k, want := range Records(n) {
			got := reflect.New(reflect.StructOf(flat))
			if err := file.Read(got.Interface()); err != nil {
				t.Fatal(err)
			}
			for i, f := range columns() {
				if diff := cmp.Diff(reflect.ValueOf(want).FieldByIndex(f.Index).Interface(), got.Elem().Field(i).Interface()); diff != "" {
					t.Errorf("row %d, %s (-written +read):\n%s", k, f.Name, diff)
				}
			}
		}
		if err := file.Read(reflect.New(reflect.StructOf(flat)).Interface()); !errors.Is(err, io.EOF) {
			t.Errorf("behind the last row: %v", err)
		}
	}
}

// The numbers of CSV are read back to the same, missing ones are empty, and
// every row is there once.
func TestCSV(t *testing.T) {
	n := madeNight(fewRows, "b", 2)
	lines, err := csv.NewReader(bytes.NewReader(exported(t, n, "csv"))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if len(lines) != len(n.Rows)+1 {
		t.Fatalf("%d lines for %d rows", len(lines), len(n.Rows))
	}
	column := func(name string) int { return slices.Index(lines[0], name) }
	byID := map[string][]string{}
	for _, l := range lines[1:] {
		byID[l[column("id")]] = l
	}
	failed := 0
	for _, r := range n.Rows {
		l := byID[r.ID]
		if l == nil {
			t.Fatalf("no line of %s", r.ID)
		}
		want := ""
		if x, ok := Objective(r); ok {
			want = strconv.FormatFloat(x, 'f', -1, 64)
		}
		if got := l[column("objective")]; got != want {
			t.Errorf("objective %q, want %q", got, want)
		}
		if got := l[column("command")]; got != Command(&r.Task) {
			t.Errorf("command %q", got)
		}
		if l[column("failed")] == "true" {
			failed++
			if l[column("reason")] == "" || l[column("detail")] == "" {
				t.Errorf("a failure without reason: %q", l)
			}
		}
	}
	if failed == 0 {
		t.Error("no failure among the rows")
	}
}

// flat returns the fields of a row's JSON by the names of columns.
func flat(t *testing.T, r *sweep.Row) map[string]string {
	t.Helper()
	data, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	fields := map[string]string{}
	var add func(name string, v any)
	add = func(name string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for key, x := range v {
				switch {
				case name == "task" && key == "gap":
					add("task_gap", x)
				case name == "" || name == "failure" || name == "result" && fields[key] == "" || name == "task":
					add(key, x)
				case key == "value":
					add(name, x)
				case name != "result":
					add(name+"_"+key, x)
				}
			}
		case float64:
			fields[name] = Digits(v)
		default:
			fields[name] = fmt.Sprint(v)
		}
	}
	var all map[string]any
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"task", "result", "failure"} { // the task's own where both have it
		if x, ok := all[part]; ok {
			add(part, x)
		}
		delete(all, part)
	}
	add("", all)
	return fields
}

// A quantity has one name and one value in the JSON of rows and in CSV; what only CSV has follows from all rows.
func TestColumnsAreFieldsOfRows(t *testing.T) {
	derived := []string{
		"reason", "failed", "proved", "stopped", "gap", "best_bound", "best_gap", "time", "wall_time", "detail", "finished", "command",
	}
	inside := map[string]string{
		"task_gap": "gap", "bound_by": "by", "bound_proof": "proof", "units_objective": "units", "units_memory": "units", "units_time": "units",
	}
	n := madeNight(fewRows, "b", 2)
	for i, r := range n.Rows { // as the store keeps it
		data, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		n.Rows[i] = new(sweep.Row)
		if err := json.Unmarshal(data, n.Rows[i]); err != nil {
			t.Fatal(err)
		}
	}
	lines, err := csv.NewReader(bytes.NewReader(exported(t, n, "csv"))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	schema, err := os.ReadFile("../../../docs/schema/row-v1.json")
	if err != nil {
		t.Fatal(err)
	}
	byID := map[string]*sweep.Row{}
	for _, r := range n.Rows {
		byID[r.ID] = r
	}
	id := slices.Index(lines[0], "id")
	compared := 0
	for _, l := range lines[1:] {
		fields := flat(t, byID[l[id]])
		for k, name := range lines[0] {
			if slices.Contains(derived, name) {
				continue
			}
			field := name
			if inner, ok := inside[name]; ok {
				field = inner
			}
			if !strings.Contains(string(schema), `"`+field+`": {`) {
				t.Fatalf("column %s is no field of a row", name)
			}
			if want, ok := fields[name]; ok && name != "started" && want != l[k] {
				t.Errorf("%s: %s in CSV, %s in the row", name, l[k], want)
			} else if ok {
				compared++
			}
		}
	}
	if compared < 15*len(n.Rows) {
		t.Errorf("only %d values compared of %d rows", compared, len(n.Rows))
	}
}

// benchstat itself, built from the module of the reader above, compares two nights.
func TestBenchstat(t *testing.T) {
	testfile.Long(t)
	dir := t.TempDir()
	benchstat := filepath.Join(dir, "benchstat")
	if out, err := exec.Command("go", "build", "-o", benchstat, "golang.org/x/perf/cmd/benchstat").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	size := resultstest.Size{Instances: 6, Limits: 2, Repetitions: 6}
	for i, name := range []string{"old.txt", "new.txt"} {
		n := madeNight(size, name[:3], uint64(i))
		for _, r := range n.Rows {
			if i == 1 && r.Task.Method == "floating" {
				r.Result.CPUTime *= 1.5
			}
		}
		if err := os.WriteFile(filepath.Join(dir, name), exported(t, n, "benchfmt"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(benchstat, "-filter", "/method:floating .unit:(sec/op OR gap-pct)", "old.txt", "new.txt")
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"sec/op", "gap-pct", "method=floating", "vs base", "+5", "p=0.002 n=6"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("benchstat does not say %q:\n%s", want, out)
		}
	}
}

func TestExportsIgnoreTheOrderOfRows(t *testing.T) {
	n := madeNight(fewRows, "b", 2)
	for _, format := range Formats {
		want := exported(t, n, format)
		slices.Reverse(n.Rows)
		if !bytes.Equal(exported(t, n, format), want) {
			t.Errorf("%s depends on the order of rows", format)
		}
	}
	if err := Write(&bytes.Buffer{}, n, "xlsx"); err == nil {
		t.Error("a format that is not known was written")
	}
}

func BenchmarkExport10000(b *testing.B) {
	n := madeNight(resultstest.Size{Instances: 90, Limits: 10, Repetitions: 2}, "b", 2)
	for _, format := range Formats {
		b.Run(format, func(b *testing.B) {
			size := 0
			for b.Loop() {
				size = len(exported(b, n, format))
			}
			b.ReportMetric(float64(size), "file-B")
		})
	}
}
