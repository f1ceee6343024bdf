package main

import (
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// inTicks finds what documents put between backticks on one line.
var inTicks = regexp.MustCompile("`([^`\n]+)`")

// goName is package.Name, and perhaps .Field; goFile a path that ends in .go.
var (
	goName = regexp.MustCompile(`^([a-z][a-z0-9]*)\.([A-Z]\w*)(?:\.([A-Z]\w*))?(?:\(.*\))?$`)
	goFile = regexp.MustCompile(`^[a-z0-9_./-]+\.go$`)
)

// Every Go file, and every package.Name, that a document names in backticks exists.
func TestNamesInDocuments(t *testing.T) {
	names, packages, files := declared(t)
	for _, page := range pages(t) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range inTicks.FindAllStringSubmatch(string(text), -1) {
			word := m[1]
			if goFile.MatchString(word) && !endsOne(files, word) {
				t.Errorf("%s: there is no file %s", filepath.Base(page), word)
			}
			n := goName.FindStringSubmatch(word)
			if n == nil || !packages[n[1]] {
				continue
			}
			if !names[n[1]+"."+n[2]] || n[3] != "" && !names[n[3]] {
				t.Errorf("%s: nothing is named %s", filepath.Base(page), word)
			}
		}
	}
}

// pages returns the paths of all documents.
func pages(t *testing.T) (list []string) {
	t.Helper()
	for _, pattern := range []string{"../../docs/*.md", "../../docs/formulations/*.md", "../../*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, found...)
	}
	return list
}

// endsOne reports whether a path in a document, often only its end, is that of one of the files.
func endsOne(files []string, path string) bool {
	for _, f := range files {
		if strings.HasSuffix("/"+f, "/"+strings.TrimLeft(path, "./")) {
			return true
		}
	}
	return false
}

// declared returns "package.Name" of all that is declared outside of tests, and the names alone of methods and fields; the names of
// the packages; and the paths of the Go files.
func declared(t *testing.T) (names, packages map[string]bool, files []string) {
	t.Helper()
	names, packages = map[string]bool{}, map[string]bool{}
	goFiles(t, func(path string, text []byte) {
		files = append(files, filepath.ToSlash(path))
		if strings.HasSuffix(path, "_test.go") || strings.Contains(path, "testdata") {
			return
		}
		f, err := parser.ParseFile(gotoken.NewFileSet(), path, text, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		packages[f.Name.Name] = true
		add := func(id *ast.Ident) { names[id.Name], names[f.Name.Name+"."+id.Name] = true, true }
		ast.Inspect(f, func(n ast.Node) bool {
			switch x := n.(type) {
			case *ast.FuncDecl:
				add(x.Name)
			case *ast.TypeSpec:
				add(x.Name)
			case *ast.ValueSpec:
				for _, id := range x.Names {
					add(id)
				}
			case *ast.Field:
				for _, id := range x.Names {
					names[id.Name] = true
				}
			}
			return true
		})
	})
	return names, packages, files
}

// goFiles calls read with every Go file of the project.
func goFiles(t *testing.T, read func(path string, text []byte)) {
	t.Helper()
	err := filepath.WalkDir("../..", func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".go" {
			return err
		}
		text, err := os.ReadFile(path)
		if err == nil {
			read(strings.TrimPrefix(path, "../../"), text)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A finding that a comment names by its number is one of docs/findings.md.
func TestFindingsInComments(t *testing.T) {
	text, err := os.ReadFile("../../docs/findings.md")
	if err != nil {
		t.Fatal(err)
	}
	number := regexp.MustCompile(`(?i)\b(findings?|errata|erratum)(?:\.md)? (\d+)`)
	goFiles(t, func(path string, source []byte) {
		for _, m := range number.FindAllStringSubmatch(string(source), -1) {
			if !strings.HasPrefix(strings.ToLower(m[1]), "finding") || !strings.Contains(string(text), "\n## "+m[2]+". ") {
				t.Errorf("%s: %q is no entry of docs/findings.md (write finding N)", path, m[0])
			}
		}
	})
}

// A comment that says what something does begins with its name, so that it does not keep an older one.
func TestCommentsBeginWithTheName(t *testing.T) {
	says := regexp.MustCompile(`^([a-zA-Z]\w*) (returns|reports|is|are|has|makes|adds|writes|reads|checks|computes|sets|runs|builds|finds|lists` +
		`|draws|compares|counts|solves|prints|takes|gives|puts|moves|keeps|describes|raises|executes|names|holds)\b`)
	others := map[string]bool{"It": true, "This": true, "That": true, "What": true, "There": true, "Which": true, "Kind": true}
	goFiles(t, func(path string, text []byte) {
		if strings.HasSuffix(path, "_test.go") {
			return
		}
		f, err := parser.ParseFile(gotoken.NewFileSet(), path, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Doc == nil {
				continue
			}
			if m := says.FindStringSubmatch(fn.Doc.Text()); m != nil && m[1] != fn.Name.Name && !others[m[1]] {
				t.Errorf("%s: the comment of %s begins with %q; begin with the name", path, fn.Name.Name, m[1])
			}
		}
	})
}
