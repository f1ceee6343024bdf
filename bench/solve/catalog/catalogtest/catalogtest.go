// Package catalogtest is what tests share that run methods of the catalogue.
package catalogtest

import (
	"testing"

	"workbench/bench/solve"
	"workbench/bench/solve/catalog"
	"workbench/model/platform"
)

// Find returns a problem and a method of it.
func Find(t testing.TB, problem, method string) (*solve.Problem, *solve.Method) {
	t.Helper()
	p, err := catalog.FindProblem(problem)
	if err != nil {
		t.Fatal(err)
	}
	m, err := catalog.FindMethod(p, method)
	if err != nil {
		t.Fatal(err)
	}
	return p, m
}

// Memory turns a limit as flags have it into bytes, or slots, for the instance.
func Memory(p *solve.Problem, in *solve.Instance, limit platform.MemorySpec) float64 {
	low, high := p.Range(in, solve.Setting{})
	return in.Resolve(limit, low, high)
}
