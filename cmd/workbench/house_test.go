package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"io"
	"io/fs"
	"iter"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"workbench/bench/solve"
	"workbench/bench/solve/catalog"
)

// goPackage is what the rules below need of go list.
type goPackage struct {
	ImportPath string
	Doc        string
	Imports    []string
	Dir        string
	GoFiles    []string
}

func listPackages(t *testing.T) []goPackage {
	t.Helper()
	out, err := exec.Command("go", "list", "-json=ImportPath,Doc,Imports,Dir,GoFiles", "workbench/...").Output()
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

// judges judge methods, so they share nothing with them: not the views of
// problems, not even the formulas of an instance. Each may import the types of
// files, and what it is listed with.
var judges = map[string][]string{
	"workbench/model/plan":          nil,
	"workbench/model/verify/replay": {"workbench/model/plan"},                               // the kernel
	"workbench/model/exhaustive":    nil,                                                    // the engine
	"workbench/model/certificate":   {"workbench/model/milp", "workbench/model/strictjson"}, // the model that is proved about
}

// searches are what exhaustive searches may import in addition to the types of files.
var searches = []string{
	"workbench/model/plan", "workbench/model/exhaustive", "workbench/model/exhaustive/remat", "workbench/model/exhaustive/rematgraph",
	"workbench/model/exhaustive/flush", "workbench/model/verify/layout", "workbench/model/verify/pipeline", "workbench/model/verify/rematgraph",
}

// fileTypes are the packages of instances, platforms and how they are read: those of
// all the instances that problems are checked on.
func fileTypes() []string {
	list := []string{"workbench/model/platform", "workbench/model/strictjson"}
	for _, p := range catalog.Problems() {
		for _, s := range p.Subjects {
			if s.Draw != nil {
				list = append(list, reflect.TypeOf(s.Draw(rand.New(rand.NewPCG(1, 1))).In).Elem().PkgPath())
			}
		}
	}
	return list
}

func TestJudgesShareNothingWithMethods(t *testing.T) {
	seen, types := 0, fileTypes()
	for _, p := range listPackages(t) {
		own, judge := judges[p.ImportPath]
		switch {
		case judge:
			seen++
		case strings.HasPrefix(p.ImportPath, "workbench/model/exhaustive/"):
			own = searches // for the plans that it returns, which some replay
		case strings.HasPrefix(p.ImportPath, "workbench/model/verify"):
			own = []string{"workbench/model/plan", "workbench/model/verify/replay", "workbench/model/verify/flush"} // layouts are schedules
		default:
			continue
		}
		for _, imp := range p.Imports {
			if p.ImportPath == "workbench/model/verify" && strings.HasPrefix(imp, p.ImportPath) {
				continue // the table
			}
			if strings.HasPrefix(imp, "workbench/") && !slices.Contains(types, imp) && !slices.Contains(own, imp) {
				t.Errorf("%s imports %s: judges know the types of files only", p.ImportPath, imp)
			}
		}
	}
	if seen != len(judges) {
		t.Errorf("found %d of %d judges", seen, len(judges))
	}
}

// What the judges import knows nothing of problems either: the types of files
// import each other only.
func TestFileTypesShareNothingWithMethods(t *testing.T) {
	types := fileTypes()
	allowed := append([]string{"workbench/model/linear"}, types...) // what orders the nodes of a file
	for _, p := range listPackages(t) {
		for _, imp := range p.Imports {
			if slices.Contains(types, p.ImportPath) && strings.HasPrefix(imp, "workbench/") && !slices.Contains(allowed, imp) {
				t.Errorf("%s imports %s", p.ImportPath, imp)
			}
		}
	}
}

// Exhaustive search is for tests and formulation checks.
func TestMethodsDoNotSearchExhaustively(t *testing.T) {
	for _, p := range listPackages(t) {
		for _, imp := range p.Imports {
			if strings.HasPrefix(p.ImportPath, "workbench/heuristics/") && strings.HasPrefix(imp, "workbench/model/exhaustive") {
				t.Errorf("%s imports an exhaustive search", p.ImportPath)
			}
		}
	}
}

// files yields the files of some patterns below the root of the project, and their texts.
func files(t *testing.T, patterns ...string) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		root := os.DirFS("../..")
		for _, pattern := range patterns {
			names, err := fs.Glob(root, pattern)
			if err != nil || len(names) == 0 {
				t.Fatalf("%s: %d files, %v", pattern, len(names), err)
			}
			for _, name := range names {
				text, err := fs.ReadFile(root, name)
				if err != nil {
					t.Fatal(err)
				}
				if !yield(name, string(text)) {
					return
				}
			}
		}
	}
}

// docs/contents.md, which is also the navigation of the site, links every document.
func TestContentsLinkEveryDocument(t *testing.T) {
	contents, err := os.ReadFile("../../docs/contents.md")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for file := range files(t, "docs/*.md", "docs/formulations/*.md") {
		name := strings.TrimPrefix(file, "docs/")
		if found++; name != "contents.md" && !strings.Contains(string(contents), "("+name+")") {
			t.Errorf("docs/contents.md has no link to %s", name)
		}
	}
	if found < 15 {
		t.Errorf("only %d documents", found)
	}
}

func TestEveryPackageHasADocComment(t *testing.T) {
	for _, p := range listPackages(t) {
		if p.Doc == "" {
			t.Errorf("%s has no package comment", p.ImportPath)
		}
	}
}

// paper is a sentence that names one.
var paper = regexp.MustCompile(`(\[00\d\]) is [^"]*"[^"]+"`)

// The papers that comments cite by a number are named, once each: "[00N] is …".
func TestPapersAreNamedOnce(t *testing.T) {
	where := map[string][]string{}
	for file, text := range files(t, "model/problem/*/*.go") {
		doc, _, _ := strings.Cut(text, "\npackage ")
		for _, m := range paper.FindAllStringSubmatch(strings.ReplaceAll(doc, "\n// ", " "), -1) {
			where[m[1]] = append(where[m[1]], file)
		}
	}
	for n := range 5 {
		if in := where[fmt.Sprintf("[00%d]", n)]; len(in) != 1 {
			t.Errorf("the package comments of %v name [00%d], one should", in, n)
		}
	}
}

// Limits of a type that a person can hold, and the types that are still larger: their numbers can only shrink.
const (
	mostFields  = 25
	mostMethods = 40
)

var largeTypes = map[string]int{
	"bench/solve.Result": 40, "bench/solve.Problem": 32, "cmd/workbench.solveOptions": 28,
	"heuristics/flush/lcg.Solver": 31, "heuristics/placement.tree": 28, "model/milp.Model": 81,
	"model/problem/flush.Instance": 47, "model/problem/pipeline.Instance": 41, "model/verify/rematoffload.offloadReplay": 47, "model/zoo.net": 71,
}

func TestTypesAreSmall(t *testing.T) {
	size := map[string]int{}
	for _, p := range listPackages(t) {
		dir := strings.TrimPrefix(p.ImportPath, "workbench/")
		methods := map[string]int{}
		for _, name := range p.GoFiles {
			f, err := parser.ParseFile(gotoken.NewFileSet(), filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(f, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.FuncDecl:
					if n.Recv != nil {
						methods[receiver(n)]++
					}
				case *ast.TypeSpec:
					if s, ok := n.Type.(*ast.StructType); ok && s.Fields.NumFields() > mostFields {
						size[dir+"."+n.Name.Name] = s.Fields.NumFields()
					}
				}
				return true
			})
		}
		for name, n := range methods {
			if n > mostMethods {
				size[dir+"."+name] = max(size[dir+"."+name], n)
			}
		}
	}
	for name, n := range size {
		if n > largeTypes[name] {
			t.Errorf("%s has %d fields or methods; %d fields and %d methods are the most: which part of it is a type of its own?", name, n,
				mostFields, mostMethods)
		}
	}
	for name := range largeTypes {
		if size[name] == 0 {
			t.Errorf("%s is within the limits: remove it from the exceptions", name)
		}
	}
}

// receiver returns the name of the type that a method is of.
func receiver(d *ast.FuncDecl) string {
	x := d.Recv.List[0].Type
	if s, ok := x.(*ast.StarExpr); ok {
		x = s.X
	}
	if g, ok := x.(*ast.IndexExpr); ok {
		x = g.X
	}
	if id, ok := x.(*ast.Ident); ok {
		return id.Name
	}
	return ""
}

// retiredNames are names of functions that say nothing to a reader: prepositions, adverbs and
// verbs of speech.
var retiredNames = regexp.MustCompile(`^(?i:at|of|in|on|by|to|from|again|before|after|beside|apart|but|worth|soon|so|as|with|within|above|below|behind|beyond|over|under|away|tell|told|hear|leave|offer|settle|take|reach|adopt|give|say|says|know|known|hold|holds)$`)

// retiredExceptions are names that Go itself gives to such functions: accessors of indexed families,
// and conversions as errors.As.
var retiredExceptions = []string{"model/milp/family.go: At", "model/plan/instance.go: As"}

func TestRetiredNames(t *testing.T) {
	var found []string
	for _, p := range listPackages(t) {
		for _, name := range p.GoFiles {
			f, err := parser.ParseFile(gotoken.NewFileSet(), filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range f.Decls {
				fn, ok := d.(*ast.FuncDecl)
				if !ok || !retiredNames.MatchString(fn.Name.Name) {
					continue
				}
				if id := strings.TrimPrefix(p.ImportPath, "workbench/") + "/" + name + ": " + fn.Name.Name; !slices.Contains(retiredExceptions, id) {
					found = append(found, id)
				}
			}
		}
	}
	if len(found) > 0 {
		t.Errorf("%d functions are named by a preposition or a retired verb:\n%s", len(found), strings.Join(found, "\n"))
	}
}

// No line of the program has over 140 characters.
func TestLinesAreShort(t *testing.T) {
	for _, p := range listPackages(t) {
		for _, name := range p.GoFiles {
			text, err := os.ReadFile(filepath.Join(p.Dir, name))
			if err != nil {
				t.Fatal(err)
			}
			for i, line := range strings.Split(string(text), "\n") {
				if n := utf8.RuneCountInString(line); n > 140 {
					t.Errorf("%s/%s:%d has %d characters", p.ImportPath, name, i+1, n)
				}
			}
		}
	}
}

// docs/architecture.md has every package that is neither a problem's own nor for
// tests.
func TestEveryRoomIsOnThePage(t *testing.T) {
	page, err := os.ReadFile("../../docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range listPackages(t) {
		dir, name := filepath.Split(strings.TrimPrefix(p.ImportPath, "workbench/"))
		switch {
		case dir == "heuristics/" || strings.HasSuffix(name, "test") || strings.Count(dir, "/") > 1: // a part of a room
		case dir == "ilp/" && !strings.Contains(string(page), "`"+name+"`") &&
			slices.ContainsFunc(catalog.Problems(), func(q *solve.Problem) bool { return isOwn(name, q.Name) }):
		case !strings.Contains(string(page), "`"+name+"`") && !strings.Contains(string(page), "/"+name+"`"):
			t.Errorf("docs/architecture.md does not say what %s is for", p.ImportPath)
		}
	}
}

// countsSeveral reports whether a line writes a number of several things; "this" is no such thing.
func countsSeveral(plural *regexp.Regexp, line string) bool {
	return plural.MatchString(strings.ReplaceAll(line, "in this", "now"))
}

// Counts that may be one are written by platform.Count: 1 column, 2 columns.
func TestCountsAreWrittenByCount(t *testing.T) {
	plural := regexp.MustCompile(`(["(]|, )%d [a-zA-Z -]*[a-tv-zA-Z]s\b`)
	for line, want := range map[string]bool{
		`Printf("%d rows, %d columns", m, n)`: true, `Sprintf(", %d GPUs", n)`: true,
		`Printf("%d of %d rows", m, n)`: false, `Printf("up to %d rows", n)`: false, `Printf(", %d in this run", n)`: false,
		`Printf("(%d continuous)", n)`: false,
	} {
		if countsSeveral(plural, line) != want {
			t.Errorf("%s: found %v", line, !want)
		}
	}
	printed := regexp.MustCompile(`(Sprintf|Fprintf|Line|warn)\(`) // what is no error
	for _, p := range listPackages(t) {
		for _, name := range p.GoFiles {
			text, err := os.ReadFile(filepath.Join(p.Dir, name))
			if err != nil {
				t.Fatal(err)
			}
			for i, line := range strings.Split(string(text), "\n") {
				if printed.MatchString(line) && !strings.Contains(line, "Wrong(") && countsSeveral(plural, line) {
					t.Errorf("%s:%d: %s: use platform.Count", filepath.Join(p.ImportPath, name), i+1, strings.TrimSpace(line))
				}
			}
		}
	}
}
