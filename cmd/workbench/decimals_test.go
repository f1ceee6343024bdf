package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"workbench/model/testfile"
)

// Instances whose sizes are written with %[1]s behind them: "" for bytes, "e-1" for
// tenths of them.
const (
	tenthsChain = `{"format": "workbench.chain/v1", "input": {"activation": 1%[1]s}, "layers": [
		{"forward_time": 1, "backward_time": 2, "activation": 2%[1]s, "saved": 3%[1]s, "weight": 4%[1]s},
		{"forward_time": 2, "backward_time": 2, "activation": 1%[1]s, "forward_overhead": 1%[1]s, "weight": 2%[1]s},
		{"forward_time": 1, "backward_time": 1, "activation": 2%[1]s, "saved": 2%[1]s, "weight": 3%[1]s}]}`
	tenthsGraph = `{"format": "workbench.graph/v1", "name": "x", "input": 1%[1]s, "nodes": [
		{"id": "a", "time": 1, "memory": 2%[1]s}, {"id": "b", "time": 2, "memory": 3%[1]s, "overhead": 1%[1]s},
		{"id": "l", "kind": "loss", "time": 1, "memory": 1%[1]s}, {"id": "gb", "kind": "backward", "time": 2, "memory": 2%[1]s},
		{"id": "ga", "kind": "backward", "time": 1, "memory": 1%[1]s}],
		"edges": [["a", "b"], ["b", "l"], ["l", "gb"], ["a", "gb"], ["b", "gb"], ["gb", "ga"], ["a", "ga"]]}`
	tenthsFunctions = `{"format": "workbench.functions/v1", "name": "x",
		"variables": [{"id": "x", "size": 3%[1]s}, {"id": "y", "size": 2%[1]s}, {"id": "z", "size": 4%[1]s}],
		"functions": [{"name": "f", "time": 1, "uses": ["x", "y"]}, {"name": "g", "time": 1, "uses": ["y", "z"]}, {"name": "h", "time": 1, "uses": ["y", "x"]}]}`
)

// Commands on an instance in tenths of bytes say the same as on the one in bytes,
// with a tenth of all sizes; limits are rounded down to the unit.
func TestTenthsInCommands(t *testing.T) {
	type subject struct{ problem, document, formulation string }
	for _, x := range testfile.Few(1, []subject{
		{"remat", tenthsChain, "chain-milp-bound"},
		{"activation-offload", tenthsChain, "offload"},
		{"remat-offload", tenthsChain, "remat-offload"},
		{"weight-offload", tenthsChain, "weights-nested"},
		{"remat", tenthsGraph, "checkmate-strong"},
		{"swap", tenthsFunctions, "swap"},
	}...) {
		in := func(suffix, bandwidth string) func(format string) any {
			folder := t.TempDir()
			file, plan := filepath.Join(folder, "instance.json"), filepath.Join(folder, "plan.json")
			if err := os.WriteFile(file, fmt.Appendf(nil, x.document, suffix), 0o600); err != nil {
				t.Fatal(err)
			}
			return func(command string) any {
				t.Helper()
				command = strings.NewReplacer("FILE", file, "PLAN", plan, "LINK", bandwidth, "PROBLEM", x.problem, "MODEL",
					x.formulation).Replace(command)
				var out, failed bytes.Buffer
				if code := runApp(t.Context(), strings.Fields("workbench "+command), strings.NewReader(""), &out, &failed); code != 0 {
					t.Fatalf("%s: exit status %d: %s", command, code, &failed)
				}
				if i := strings.Index(command, ".trace.json"); i > 0 {
					out.Reset()
					trace, err := os.ReadFile(plan + ".trace.json")
					if err != nil {
						t.Fatal(err)
					}
					out.Write(trace)
				}
				var answer any
				if err := json.Unmarshal(out.Bytes(), &answer); err != nil {
					t.Fatalf("%s: %v: %s", command, err, &out)
				}
				return answer
			}
		}
		link := func(rate string) string {
			if x.problem == "remat" {
				return ""
			}
			return "--bandwidth " + rate
		}
		whole, tenth := in("", link("2")), in("e-1", link("0.2"))
		for _, command := range []string{
			"solve --problem PROBLEM FILE --range 33.3% LINK --plan PLAN --format json",
			"verify FILE PLAN --format json",
			"show PLAN --instance FILE --format json",
			"show PLAN --instance FILE --timeline PLAN.trace.json",
			"compare --problem PROBLEM FILE --range 67% LINK --time-limit 10s --format json",
			"curve --problem PROBLEM FILE --points 5 LINK --time-limit 10s --format json",
			"formulation stats MODEL FILE --range 67% LINK --format json",
		} {
			if at, a, b := tenfold("", whole(command), tenth(command)); at != "" {
				t.Errorf("%s of a %.30s: %s: %s is %v, in tenths %v", x.problem, x.document, command, at, a, b)
			}
		}
	}
}

// tenfold compares two answers, the sizes of the first being ten times those of the
// second. It returns where they differ, "" if they do not.
func tenfold(at string, a, b any) (path string, x, y any) {
	switch a := a.(type) {
	case map[string]any:
		b, is := b.(map[string]any)
		if !is || len(a) != len(b) {
			return at + "{}", a, b
		}
		for key := range a {
			switch key {
			case "wall_time", "cpu_time", "sha256", "source": // of the run, of the file
				continue
			}
			if path, x, y := tenfold(at+"."+key, a[key], b[key]); path != "" {
				return path, x, y
			}
		}
	case []any:
		b, is := b.([]any)
		if !is || len(a) != len(b) {
			return at + "[]", a, b
		}
		for k := range a {
			if path, x, y := tenfold(fmt.Sprintf("%s[%d]", at, k), a[k], b[k]); path != "" {
				return path, x, y
			}
		}
	case float64:
		b, is := b.(float64)
		dot := strings.LastIndex(at, ".")
		switch key := at[dot+1:]; key {
		case "memory", "peak_memory", "low", "high", "at", "bandwidth", "bytes":
			a /= 10
		case "activations", "saved", "weights", "gradients", "overhead", "variables", "arriving":
			if strings.HasSuffix(at[:dot], ".args") { // of events
				a /= 10
			}
		}
		if !is || math.Abs(a-b) > 1e-12*math.Abs(a) {
			return at, a, b
		}
	case string:
		if b, is := b.(string); !is || sizeInWords.ReplaceAllString(a, "a size") != sizeInWords.ReplaceAllString(b, "a size") {
			return at, a, b
		}
	default:
		if !reflect.DeepEqual(a, b) {
			return at, a, b
		}
	}
	return "", nil, nil
}

// sizeInWords is a size as errors have it; the numbers of results are compared.
var sizeInWords = regexp.MustCompile(`[0-9.]+ bytes?\b`)

// A limit between two tenths is the lower one.
func TestLimitsAreRoundedDown(t *testing.T) {
	file := filepath.Join(t.TempDir(), "instance.json")
	if err := os.WriteFile(file, fmt.Appendf(nil, tenthsChain, "e-1"), 0o600); err != nil {
		t.Fatal(err)
	}
	for command, want := range map[string]string{
		"solve --problem remat FILE --memory 0.8999":                                "memory 0.8 B",
		"solve --problem remat FILE --range 66.6%":                                  "memory 0.8 B",
		"solve --problem remat FILE --memory 8.9999e-10GB":                          "memory 0.8 B",
		"solve --problem remat FILE --memory 7.7e-10GiB":                            "memory 0.8 B",
		"compare --problem remat FILE --memory 0.8999":                              "memory 0.8 B",
		"formulation stats chain-milp-bound FILE --memory 0.8999":                   "memory 0.8 B",
		"curve --problem remat FILE --at 0.8999":                                    "0.8 B",
		"solve --problem weight-offload FILE --memory 1.1999 --model paper --quiet": "no plan fits in 1.1 bytes: at least 1.2 bytes are needed",
	} {
		var out, failed bytes.Buffer
		runApp(t.Context(), strings.Fields("workbench "+strings.Replace(command, "FILE", file, 1)), strings.NewReader(""), &out, &failed)
		if !strings.Contains(out.String()+failed.String(), want) {
			t.Errorf("%s: no %q in\n%s%s", command, want, &out, &failed)
		}
	}
}
