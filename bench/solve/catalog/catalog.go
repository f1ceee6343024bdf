// Package catalog is the table of problems and methods. The command line, sweeps,
// reports and documentation are made from it.
package catalog

import (
	"fmt"
	"slices"
	"strings"

	"workbench/bench/solve"
	"workbench/bench/solve/method"
	"workbench/model/nearest"
)

// DefaultProblem is what commands work on without --problem.
const DefaultProblem = "weight-offload"

// Problems returns the table of problems.
func Problems() []*solve.Problem {
	all := []*solve.Problem{method.Remat(), method.Join(), method.ActivationOffload(), method.RematOffload(), method.Swap(), method.Pipeline(), method.WeightOffload(), method.Flush(), method.Placement()}
	for i := range all {
		all[i] = all[i].InBytes()
	}
	return all
}

// MethodsFor returns the methods of p that work on in.
func MethodsFor(p *solve.Problem, in *solve.Instance) (list []*solve.Method) {
	for _, m := range p.Methods() {
		if m.Accepts(in) {
			list = append(list, m)
		}
	}
	return list
}

// DefaultMethod returns the method used where none is named.
func DefaultMethod(p *solve.Problem, in *solve.Instance) string {
	for _, name := range p.Defaults {
		if m, err := FindMethod(p, name); err == nil && m.Accepts(in) {
			return name
		}
	}
	return p.Defaults[0]
}

// FindProblem returns the problem of that name. An unknown name is an error that
// suggests the problems that others call so, those that have a method of that name,
// or the nearest.
func FindProblem(name string) (*solve.Problem, error) {
	var names, called, having []string
	for _, p := range Problems() {
		if p.Name == name {
			return p, nil
		}
		names = append(names, p.Name)
		if slices.Contains(p.Also, strings.ToLower(name)) {
			called = append(called, p.Name)
		}
		if _, err := FindMethod(p, name); err == nil {
			having = append(having, p.Name)
		}
	}
	hint := nearest.Hint(name, names)
	switch {
	case len(called) > 0:
		hint = "did you mean " + strings.Join(called, " or ") + "?"
	case len(having) > 0:
		hint = "it is a method of " + strings.Join(having, ", ")
	}
	return nil, solve.InputError(fmt.Errorf("unknown problem %q: %s", name, hint))
}

// FindMethod returns the method of p of that name. An unknown name is an error
// that suggests the nearest.
func FindMethod(p *solve.Problem, name string) (*solve.Method, error) {
	var names []string
	for _, m := range p.Methods() {
		if m.Name == name {
			return m, nil
		}
		names = append(names, m.Name)
	}
	return nil, solve.InputError(fmt.Errorf("unknown method %q of %s: %s", name, p.Name, nearest.Hint(name, names)))
}
