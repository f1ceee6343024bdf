package report

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"testing"

	"workbench/bench/compare"
	"workbench/bench/report/rowstest"
)

func TestTry(t *testing.T) {
	n := rowstest.Night(rowstest.Size{Instances: 14, Limits: 6, Repetitions: 2}, "b", 2)
	old := rowstest.Night(rowstest.Size{Instances: 14, Limits: 6, Repetitions: 2}, "a", 1)
	for _, r := range n.Rows {
		if r.Task.Method == "persistent" && r.Result != nil && r.Result.Instance.Name == "net004" {
			*r.Result.Objective *= 1.02
		}
		if r.Task.Method == "floating" && r.Result != nil {
			r.Result.WallTime *= 1.2
		}
	}
	c, err := compare.Nights(old, n, compare.Defaults())
	if err != nil {
		t.Fatal(err)
	}
	r := New(n, c)
	dir := os.Getenv("H2OUT")
	if dir == "" {
		dir = t.TempDir()
	}
	if err := r.WriteFolder(dir); err != nil {
		t.Fatal(err)
	}
	_ = filepath.Join
	_ = math.Inf
	_ = bytes.NewReader
}
