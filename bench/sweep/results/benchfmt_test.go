package results

import (
	"bytes"
	"strings"
	"testing"

	"golang.org/x/perf/benchfmt"

	"workbench/bench/sweep/results/resultstest"
)

// benchfmt's own reader takes every line, and finds the numbers and names.
func TestBenchfmt(t *testing.T) {
	n := madeNight(fewRows, "b", 2)
	r := benchfmt.NewReader(bytes.NewReader(exported(t, n, "benchfmt")), "night")
	results, names, timed, failed := 0, map[string]int{}, 0, 0
	for r.Scan() {
		switch x := r.Result().(type) {
		case *benchfmt.SyntaxError:
			t.Fatal(x)
		case *benchfmt.Result:
			results++
			names[string(x.Name.Full())]++
			if v, ok := x.Value("sec/op"); ok {
				timed++
				if v <= 0 || v >= 60 {
					t.Errorf("%s: %v sec/op", x.Name, v)
				}
			}
			if v, _ := x.Value("failed"); v == 1 {
				failed++
				if _, ok := x.Value("objective-sec"); ok {
					t.Errorf("%s failed and has an objective", x.Name)
				}
			}
		}
	}
	if err := r.Err(); err != nil {
		t.Fatal(err)
	}
	stopped, fails := 0, 0
	for _, row := range n.Rows {
		if Stopped(row) {
			stopped++
		}
		if reason, _ := Failure(row); reason != "" {
			fails++
		}
	}
	if results != len(n.Rows) || len(names)*2 != results || timed != results-stopped || failed != fails {
		t.Errorf("%d results of %d rows, %d names, %d timed, %d failed", results, len(n.Rows), len(names), timed, failed)
	}
}

// Words that would end a name, a line or a key do not.
func TestBenchfmtNames(t *testing.T) {
	n := madeNight(resultstest.Size{Instances: 1, Limits: 1, Repetitions: 1}, "b", 2)
	for _, row := range n.Rows {
		if row.Result != nil {
			row.Result.Instance.Name = "a b/c=d\n BenchmarkX 1 2 ns/op\u00a0-8"
		}
	}
	r := benchfmt.NewReader(bytes.NewReader(exported(t, n, "benchfmt")), "night")
	results := 0
	for r.Scan() {
		switch x := r.Result().(type) {
		case *benchfmt.SyntaxError:
			t.Fatal(x)
		case *benchfmt.Result:
			results++
			if !strings.HasPrefix(string(x.Name.Full()), "Solve/problem=remat/instance=a_b_c=d__BenchmarkX_1_2_ns_op_-8/sha256=") {
				t.Errorf("%q", x.Name)
			}
		}
	}
	if results != len(n.Rows) {
		t.Errorf("%d results of %d rows", results, len(n.Rows))
	}
}
