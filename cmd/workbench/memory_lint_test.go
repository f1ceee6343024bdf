package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// Memory is exact: what fits is decided by platform.Fits, on whole numbers. So no
// size, limit or peak is multiplied by nearly 1, moved by something tiny, or
// nudged to the next float64. What does so all the same is listed with its
// reason.
var lenient = map[string]string{
	"heuristics/activationoffload/dynprog_search.go": "states are merged when there are too many, at a loss that the bound accounts for; " +
		"what fits is not decided there",
	"model/verify/rematoffload/memory.go": "the model of fractional communications, whose amounts are real numbers and whose " +
		"plans are no plans",
}

func TestMemoryHasNoTolerance(t *testing.T) {
	used := map[string]bool{}
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		found, err := tolerances(path, text)
		name, _ := filepath.Rel(root, path)
		if lenient[name] != "" {
			used[name] = len(found) > 0
			return err
		}
		for _, f := range found {
			t.Errorf("%s: a tolerance on memory; use platform.Fits", strings.TrimPrefix(f, root+string(filepath.Separator)))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for name := range lenient {
		if !used[name] {
			t.Errorf("%s is listed, and has no tolerance on memory", name)
		}
	}
}

// The lint finds what it is for, and nothing else.
func TestTolerances(t *testing.T) {
	for expression, want := range map[string]bool{
		"peak <= memory*(1+1e-9)":                     true,
		"p.Memory * (1 - plan.Tolerance)":             true,
		"(1 + slack) * in.limit":                      true,
		"peak > memory + 1e-6":                        true,
		"peak - 1e-12 > memory":                       true,
		"math.Nextafter(memory, 0)":                   true,
		"used - limit > Tolerance*limit":              true,
		"math.Abs(peak - memory) < 1e-9*memory":       true,
		"memory * (1 + share)":                        false,
		"memory + 1":                                  false,
		"memory * 0.5":                                false,
		"makespan * (1 + 1e-9)":                       false,
		"math.Abs(a - makespan) < Tolerance*makespan": false,
	} {
		text := "package p\nvar x = " + expression + "\n"
		found, err := tolerances("p.go", []byte(text))
		if err != nil || (len(found) > 0) != want {
			t.Errorf("%s: found %q, %v", expression, found, err)
		}
	}
}

// tolerances returns where a file is lenient with memory.
func tolerances(path string, text []byte) (found []string, err error) {
	files := gotoken.NewFileSet()
	f, err := parser.ParseFile(files, path, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	ast.Inspect(f, func(n ast.Node) bool {
		bad := false
		switch x := n.(type) {
		case *ast.BinaryExpr:
			a, b := bare(x.X), bare(x.Y)
			switch x.Op {
			case gotoken.MUL:
				bad = isMemory(a) && (nearOne(b) || isTolerance(b)) || isMemory(b) && (nearOne(a) || isTolerance(a))
			case gotoken.ADD, gotoken.SUB:
				bad = isMemory(a) && isTolerance(b) || isMemory(b) && isTolerance(a)
			}
		case *ast.CallExpr:
			if s, ok := x.Fun.(*ast.SelectorExpr); ok && s.Sel.Name == "Nextafter" && len(x.Args) > 0 {
				bad = isMemory(bare(x.Args[0]))
			}
		}
		if bad {
			at := files.Position(n.Pos())
			found = append(found, fmt.Sprintf("%s:%d", at.Filename, at.Line))
		}
		return true
	})
	return found, nil
}

func bare(x ast.Expr) ast.Expr {
	for {
		p, ok := x.(*ast.ParenExpr)
		if !ok {
			return x
		}
		x = p.X
	}
}

// words of memory and of tolerances, as names have them.
var (
	memoryWords    = regexp.MustCompile(`(?i)^(memory|peak|peakmemory|limit|limitbytes|room|capacity|budget|given|used|need|needs|least|leastmemory|m)$`)
	toleranceWords = regexp.MustCompile(`(?i)^(tolerance|eps|epsilon|tiny|slack|rounding|closeness)$`)
)

func nameOf(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.Ident:
		return x.Name
	case *ast.SelectorExpr:
		return x.Sel.Name
	}
	return ""
}

func isMemory(x ast.Expr) bool { return memoryWords.MatchString(nameOf(x)) }

// isTolerance reports a tolerance: a literal of at most 1e-5, or one by name.
func isTolerance(x ast.Expr) bool {
	if l, ok := x.(*ast.BasicLit); ok && l.Kind == gotoken.FLOAT {
		v, err := strconv.ParseFloat(l.Value, 64)
		return err == nil && v != 0 && v <= 1e-5
	}
	return toleranceWords.MatchString(nameOf(x))
}

// nearOne reports 1 ± a tolerance.
func nearOne(x ast.Expr) bool {
	b, ok := x.(*ast.BinaryExpr)
	if !ok || b.Op != gotoken.ADD && b.Op != gotoken.SUB {
		return false
	}
	one := func(x ast.Expr) bool {
		l, ok := x.(*ast.BasicLit)
		return ok && l.Value == "1"
	}
	return one(b.X) && isTolerance(bare(b.Y)) || one(b.Y) && isTolerance(bare(b.X))
}
