package main

import (
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"workbench/bench/solve/catalog"
)

// mostNamed is how many places may name a problem outside its own files. It may only go
// down: each is one that a new problem could have to be added to.
const mostNamed = 18

// isOwn reports whether a file is one of a problem's own: a word of its path, folders
// and name, is the problem's name without its hyphen, or that with "graph".
func isOwn(path, problem string) bool {
	words := strings.FieldsFunc(strings.TrimSuffix(path, ".go"), func(r rune) bool { return r == '/' || r == '_' })
	name := strings.ReplaceAll(problem, "-", "")
	return slices.Contains(words, name) || slices.Contains(words, name+"graph")
}

// A place is a line that has the constant of a problem's name, that of package plan or
// one named Problem, or a text with a hyphen that is the name.
func TestFewPlacesNameAProblem(t *testing.T) {
	names := map[string]string{} // of constants of package plan
	for _, p := range catalog.Problems() {
		names[p.Name] = p.Name
	}
	constants := map[string]string{} // "workbench/model/plan.Swap": "swap"
	files := map[string]*ast.File{}
	set := gotoken.NewFileSet()
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") ||
			strings.HasSuffix(filepath.Dir(path), "test") {
			return err
		}
		f, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		files[strings.TrimPrefix(filepath.ToSlash(path), "../../")] = f
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 400 {
		t.Fatalf("only %d files", len(files))
	}
	// Twice: constants of other packages are those of plan.
	for range 2 {
		for path, f := range files {
			for _, d := range f.Decls {
				if g, ok := d.(*ast.GenDecl); ok && g.Tok == gotoken.CONST {
					for _, s := range g.Specs {
						for k, v := range s.(*ast.ValueSpec).Values {
							name, dir := s.(*ast.ValueSpec).Names[k].Name, filepath.ToSlash(filepath.Dir(path))
							if p := named(f, v, names, constants, true); p != "" && (dir == "model/plan" || name == "Problem") {
								constants["workbench/"+dir+"."+name] = p
							}
						}
					}
				}
			}
		}
	}
	if len(constants) < 2*len(names)-4 {
		t.Fatalf("only %d constants: %v", len(constants), constants)
	}
	var places []string
	for path, f := range files {
		ast.Inspect(f, func(n ast.Node) bool {
			if x, ok := n.(ast.Expr); ok {
				if p := named(f, x, names, constants, false); p != "" && !isOwn(path, p) {
					places = append(places, set.Position(n.Pos()).String()+": "+p)
				}
			}
			return true
		})
	}
	slices.Sort(places)
	if len(places) > mostNamed {
		t.Errorf("%d places name a problem outside its own files, at most %d may:\n%s", len(places), mostNamed, strings.Join(places, "\n"))
	}
	if len(places) < mostNamed {
		t.Errorf("only %d places name a problem outside its own files: lower mostNamed", len(places))
	}
}

// named returns the problem that an expression names, "" for none; plain texts count
// only if they have a hyphen or all of them do.
func named(f *ast.File, x ast.Expr, names, constants map[string]string, all bool) string {
	switch x := x.(type) {
	case *ast.BasicLit:
		s, err := strconv.Unquote(x.Value)
		if x.Kind == gotoken.STRING && err == nil && (all || strings.Contains(s, "-")) {
			return names[s]
		}
	case *ast.SelectorExpr:
		pkg, ok := x.X.(*ast.Ident)
		if !ok {
			return ""
		}
		for _, i := range f.Imports {
			path, _ := strconv.Unquote(i.Path.Value) // the parser has let it pass
			if i.Name != nil && i.Name.Name == pkg.Name || i.Name == nil && path[strings.LastIndexByte(path, '/')+1:] == pkg.Name {
				return constants[path+"."+x.Sel.Name]
			}
		}
	}
	return ""
}
