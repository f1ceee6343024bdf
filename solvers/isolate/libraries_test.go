//go:build unix

package isolate_test

import (
	"slices"
	"strings"
	"testing"

	"workbench/model/testfile"
	"workbench/solvers"
	"workbench/solvers/highs"
	"workbench/solvers/isolate"
	"workbench/solvers/lpsolve"
	"workbench/solvers/solvertest"
)

// libraries are the engines that isolation is for.
func libraries() map[string]solvers.Engine {
	return map[string]solvers.Engine{"highs": highs.Engine{}, "lpsolve": lpsolve.Engine{}}
}

// TestLibraries holds the libraries to those parts of the contract that
// isolation could break. Their own packages test the rest.
func TestLibraries(t *testing.T) {
	testfile.Long(t)
	available := map[string]func() error{"highs": highs.Available, "lpsolve": lpsolve.Available}
	names := slices.DeleteFunc(solvertest.Names(), func(name string) bool {
		theme, _, _ := strings.Cut(name, "/")
		return !slices.Contains([]string{"status", "limit", "callback", "start"}, theme)
	})
	for name, e := range libraries() {
		t.Run(name, func(t *testing.T) {
			if err := available[name](); err != nil {
				t.Logf("not tested: %v", err)
				return
			}
			for _, f := range solvertest.Check(t.Context(), isolate.New(e, name), names...) {
				t.Errorf("%s: %v", f.Case, f.Err)
			}
		})
	}
}
