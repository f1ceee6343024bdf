package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// goPackage is what the rules below need of go list.
type goPackage struct {
	ImportPath string
	Doc        string
	Imports    []string
}

func listPackages(t *testing.T) []goPackage {
	t.Helper()
	out, err := exec.Command("go", "list", "-json=ImportPath,Doc,Imports", "workbench/...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var all []goPackage
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p goPackage
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

// floors are the layers of the house, from the ground up: a package may import
// its own layer and those below, except that methods do not import each other.
var floors = map[string]int{"model": 0, "solvers": 1, "ilp": 2, "heuristics": 2, "bench": 3, "cmd": 4}

func layer(importPath string) string {
	rest, ok := strings.CutPrefix(importPath, "workbench/")
	if !ok {
		return ""
	}
	top, _, _ := strings.Cut(rest, "/")
	return top
}

func TestImportsGoDownwards(t *testing.T) {
	packages := listPackages(t)
	if len(packages) < 15 {
		t.Fatalf("go list sees only %d packages", len(packages))
	}
	for _, p := range packages {
		from := layer(p.ImportPath)
		if _, known := floors[from]; !known {
			t.Errorf("%s is on no floor of the house: known are model solvers ilp heuristics bench cmd", p.ImportPath)
		}
		for _, imp := range p.Imports {
			to := layer(imp)
			switch {
			case to == "" || to == from:
			case floors[to] > floors[from]:
				t.Errorf("%s imports %s: imports go downwards", p.ImportPath, imp)
			case floors[to] == floors[from]:
				t.Errorf("%s imports %s: formulations and heuristics do not import each other", p.ImportPath, imp)
			}
		}
	}
}

// Verifiers and the exhaustive search judge methods, so they may share nothing
// with them, not even the formulas of an instance.
func TestJudgesShareNothingWithMethods(t *testing.T) {
	judges := []string{"workbench/model/plan", "workbench/model/exhaustive"}
	forbidden := []string{"workbench/model/cycle", "workbench/model/milp"}
	seen := 0
	for _, p := range listPackages(t) {
		if !slices.Contains(judges, p.ImportPath) {
			continue
		}
		seen++
		for _, imp := range p.Imports {
			if slices.Contains(forbidden, imp) {
				t.Errorf("%s imports %s", p.ImportPath, imp)
			}
		}
	}
	if seen != len(judges) {
		t.Errorf("found %d of %d judges", seen, len(judges))
	}
}

// Exhaustive search is for tests and formulation checks.
func TestMethodsDoNotSearchExhaustively(t *testing.T) {
	for _, p := range listPackages(t) {
		if strings.HasPrefix(p.ImportPath, "workbench/heuristics/") && slices.Contains(p.Imports, "workbench/model/exhaustive") {
			t.Errorf("%s imports the exhaustive search", p.ImportPath)
		}
	}
}

func TestEveryPackageHasADocComment(t *testing.T) {
	for _, p := range listPackages(t) {
		if p.Doc == "" {
			t.Errorf("%s has no package comment", p.ImportPath)
		}
	}
}
