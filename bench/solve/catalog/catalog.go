// Package catalog is the table of problems and methods, from which the command line, sweeps, reports and
// documentation are generated.
package catalog

import (
	"fmt"
	"slices"
	"strings"

	"workbench/bench/solve"
	"workbench/bench/solve/method"
	"workbench/model/nearest"
)

// Problems returns the table of problems.
func Problems() []*solve.Problem {
	all := []*solve.Problem{
		method.Remat(), method.Join(), method.ActivationOffload(), method.RematOffload(), method.Swap(), method.Pipeline(),
		method.WeightOffload(), method.Flush(), method.Layouts(), method.Placement(),
	}
	for i := range all {
		all[i] = all[i].InBytes()
	}
	return all
}

// MethodsFor returns the methods of p that support in.
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

// ProblemFor returns the default problem of commands: the first that supports the kind of the instance.
func ProblemFor(in *solve.Instance) (*solve.Problem, error) {
	for _, p := range Problems() {
		if slices.Contains(p.Takes, in.Kind()) {
			return p, nil
		}
	}
	return nil, solve.InputError(fmt.Errorf("no problem supports %s, a %s", in.Name, solve.KindWord(in.Kind())))
}

// FindProblem returns the problem of that name or alias. The error for an unknown name suggests the problems that
// have a method of that name, or the nearest name.
func FindProblem(name string) (*solve.Problem, error) {
	var names, having []string
	for _, p := range Problems() {
		if p.Name == name || slices.Contains(p.Aliases, strings.ToLower(name)) {
			return p, nil
		}
		names = append(names, p.Name)
		if _, err := FindMethod(p, name); err == nil {
			having = append(having, p.Name)
		}
	}
	hint := nearest.Hint(name, names)
	if len(having) > 0 {
		hint = "it is a method of " + strings.Join(having, ", ")
	}
	return nil, solve.InputError(fmt.Errorf("unknown problem %q: %s", name, hint))
}

// FindMethod returns the method of p of that name. The error for an unknown name suggests the nearest name.
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
