package solve_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"workbench/bench/solve"
	"workbench/model/plan"
)

// A plan finds its instance where it was, or beside itself under either name, and
// takes no other.
func TestLoadOf(t *testing.T) {
	text, err := os.ReadFile("../../testdata/examples/small.json")
	if err != nil {
		t.Fatal(err)
	}
	other, err := os.ReadFile("../../testdata/examples/five.json")
	if err != nil {
		t.Fatal(err)
	}
	write := func(folder, name string, text []byte) string {
		t.Helper()
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	made, err := solve.Load("../../testdata/examples/small.json", nil)
	if err != nil {
		t.Fatal(err)
	}
	p := &plan.Plan{Instance: plan.InstanceRef{Name: "small", SHA256: made.SHA256, Source: "nowhere/mine.json"}}
	for _, name := range []string{"mine.json", "small.json"} {
		folder := t.TempDir()
		write(folder, name, text)
		in, err := solve.LoadOf(p, filepath.Join(folder, "plan.json"), "", nil)
		if err != nil || in.SHA256 != made.SHA256 {
			t.Errorf("%s beside the plan: %v", name, err)
		}
	}
	folder := t.TempDir()
	write(folder, "small.json", other)
	if _, err := solve.LoadOf(p, filepath.Join(folder, "plan.json"), "", nil); err == nil ||
		!strings.Contains(err.Error(), "--instance FILE") {
		t.Errorf("another network beside the plan: %v", err)
	}
	if _, err := solve.LoadOf(p, "plan.json", filepath.Join(folder, "small.json"), nil); err == nil ||
		!strings.Contains(err.Error(), "is not the instance of this plan") {
		t.Errorf("another network by name: %v", err)
	}
}
