package catalog_test

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"workbench/bench/backends"
	"workbench/bench/catalog"
	"workbench/bench/run"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/testfile"
	"workbench/model/verify"
)

// tenths is a chain whose sizes are written with %s behind them: "" for bytes,
// "e-1" for tenths of them.
const tenths = `{"format": "workbench.chain/v1", "input": {"activation": 1%[1]s}, "layers": [
	{"forward_time": 1, "backward_time": 2, "activation": 2%[1]s, "saved": 3%[1]s, "weight": 4%[1]s},
	{"forward_time": 2, "backward_time": 2, "activation": 1%[1]s, "forward_overhead": 1%[1]s, "weight": 2%[1]s},
	{"forward_time": 1, "backward_time": 1, "activation": 2%[1]s, "saved": 2%[1]s, "weight": 3%[1]s}]}`

// A chain in tenths of bytes has the plans of the same chain in bytes, at every
// memory from below the least to more than enough: what is printed and stored is
// in bytes, what is computed is exact.
func TestTenthsOfBytes(t *testing.T) {
	testfile.Long(t)
	whole, tenth := loadText(t, fmt.Sprintf(tenths, "")), loadText(t, fmt.Sprintf(tenths, "e-1"))
	for _, p := range catalog.Problems() {
		if p.Accepts(whole) != nil {
			continue
		}
		m, err := catalog.FindMethod(p, catalog.DefaultMethod(p, whole))
		if err != nil {
			t.Fatal(err)
		}
		low, high := p.Range(whole)
		if a, b := p.Range(tenth); math.Abs(10*a-low) > 1e-12*low || math.Abs(10*b-high) > 1e-12*high {
			t.Errorf("%s: range %v to %v, in tenths %v to %v", p.Name, low, high, a, b)
		}
		for _, memory := range []float64{low, low - 1, low + 1, low + 3, high} {
			at := platform.Platform{Memory: memory, Bandwidth: 2, Processors: 2, WeightCopies: 1}
			want := runOn(t, p, m, whole, at)
			at.Memory, at.Bandwidth = memory/10, at.Bandwidth/10
			got := runOn(t, p, m, tenth, at)
			switch {
			case got.Status != want.Status || (got.Makespan == nil) != (want.Makespan == nil):
				t.Errorf("%s with %v: %s %s, in tenths %s %s", p.Name, memory, want.Status, want.Error, got.Status, got.Error)
			case got.Makespan == nil:
				if !strings.Contains(got.Error, fmt.Sprint(memory/10)) {
					t.Errorf("%s with %v: %s", p.Name, memory/10, got.Error)
				}
			case math.Abs(*got.Makespan-*want.Makespan) > 1e-9**want.Makespan || *got.PeakMemory > at.Memory:
				t.Errorf("%s with %v: %v s, %v bytes, in tenths %v s, %v bytes", p.Name, memory, *want.Makespan, *want.PeakMemory, *got.Makespan, *got.PeakMemory)
			default:
				var b bytes.Buffer
				if err := got.Plan.Write(&b); err != nil {
					t.Fatal(err)
				}
				q, err := plan.Read(&b, "plan.json")
				if err != nil {
					t.Fatal(err)
				}
				if r, err := verify.On(tenth.Instance, q); err != nil || !r.Valid() || len(r.ClaimErrors) > 0 || q.Platform.Memory != at.Memory {
					t.Errorf("%s with %v: the plan's file: %+v %v", p.Name, memory, r, err)
				}
			}
		}
	}
}

func runOn(t *testing.T, p *run.Problem, m *run.Method, in *run.Instance, at platform.Platform) *run.Result {
	t.Helper()
	backend, err := backends.New("highs", false)
	if err != nil {
		t.Fatal(err)
	}
	return run.Run(context.Background(), p, m, in, run.Setting{Platform: at, Backend: backend, Threads: 1, Time: 20 * time.Second, MemoryModel: plan.TaskModel})
}

func loadText(t *testing.T, document string) *run.Instance {
	t.Helper()
	file := filepath.Join(t.TempDir(), "instance.json")
	if err := os.WriteFile(file, []byte(document), 0o600); err != nil {
		t.Fatal(err)
	}
	in, err := run.Load(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	return in
}
