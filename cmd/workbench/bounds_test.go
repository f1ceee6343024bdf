package main

import (
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"workbench/ilp"
)

// computed are the files in which a bound's name is no constant, and what it may be then, with
// an ellipsis for numbers and nodes.
var computed = map[string][]string{
	"bench/solve/method/remat.go": {"values that do not fit in memory during … are recomputed"},
	"bench/solve/method/flush.go": {
		"load", "warm-up", "cool-down", "warm-up and cool-down", "little", "round-trips", "packing", "gaps",
	},
	"bench/solve/method/rematoffload_graph.go": {"values that do not fit in memory during … are offloaded or recomputed"},
	"bench/solve/method/placement.go": {
		"the load: what is alive together", "cliques of buffers that may not overlap",
		"cliques of conflicts and penalties (Turán)",
	},
	"bench/solve/method/pipeline.go": {"branch and bound (… allocations, … decisions about patterns)"},
	"model/proof/optimum.go":         {"the search for the optimum (… states)", "the search for the optimum (… labels)"},
	"ilp/rematgraph/solve.go":        {"values that do not fit in memory during … are recomputed"},
	"bench/solve/method/layout.go": {
		"load", "load and occupancy", "bottleneck of all cuts", "pairs of runs of all cuts", "enumeration of all layouts",
	},
}

// docs/bounds.md names every bound that some method may print, and every formulation.
func TestBoundsAreOnThePage(t *testing.T) {
	text, err := os.ReadFile("../../docs/bounds.md")
	if err != nil {
		t.Fatal(err)
	}
	page, constants, names := string(text), map[string]string{}, map[string][]ast.Expr{}
	for _, room := range []string{"model", "heuristics", "ilp", "bench", "cmd"} {
		err := filepath.WalkDir("../../"+room, func(file string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
				return err
			}
			f, err := parser.ParseFile(gotoken.NewFileSet(), file, nil, 0)
			if err != nil {
				return err
			}
			ast.Inspect(f, func(n ast.Node) bool {
				switch x := n.(type) {
				case *ast.ValueSpec:
					for i, v := range x.Values {
						if s, ok := quoted(v); ok {
							constants[filepath.Dir(file)+x.Names[i].Name] = s
						}
					}
				case *ast.CallExpr:
					if nameOf(x.Fun) == "BySearch" && len(x.Args) == 2 {
						names[strings.TrimPrefix(file, "../../")] = append(names[strings.TrimPrefix(file, "../../")], x.Args[1])
					}
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	on := func(file, name string) {
		if !strings.Contains(page, "`"+name+"`") {
			t.Errorf("%s has a bound `%s`, docs/bounds.md does not say what it proves", file, name)
		}
	}
	found := 0
	for file, list := range names {
		for _, x := range list {
			found++
			name, ok := quoted(x)
			if !ok {
				dir := "../../" + filepath.Dir(file)
				if s, elsewhere := x.(*ast.SelectorExpr); elsewhere {
					dir = "../../model/" + nameOf(s.X)
				}
				name, ok = constants[dir+nameOf(x)]
			}
			if ok {
				on(file, name)
			} else if computed[file] == nil {
				t.Errorf("%s makes the name of a bound: which ones are there?", file)
			}
		}
	}
	for file, list := range computed {
		if names[file] == nil {
			t.Errorf("%s has no bounds any more", file)
		}
		for _, name := range list {
			on(file, name)
		}
	}
	if found < 30 {
		t.Errorf("only %d bounds", found)
	}
	for _, f := range ilp.Formulations() {
		if !strings.Contains(page, f.Name) {
			t.Errorf("docs/bounds.md does not say what %s proves", f.Name)
		}
	}
}

func quoted(x ast.Expr) (string, bool) {
	l, ok := x.(*ast.BasicLit)
	if !ok || l.Kind != gotoken.STRING {
		return "", false
	}
	s, err := strconv.Unquote(l.Value)
	return s, err == nil
}
