package bench

import (
	"fmt"

	"workbench/model/nearest"
)

// DefaultProblem is what commands work on without --problem.
const DefaultProblem = "weight-offload"

// Problems returns the table of problems.
func Problems() []*Problem { return []*Problem{weightOffload()} }

// Methods returns the table of methods of p, in the order in which reports
// list them.
func Methods(p *Problem) []*Method {
	switch p.Name {
	case "weight-offload":
		return weightMethods()
	}
	return nil
}

// FindProblem returns the problem of that name. An unknown name is an error
// that suggests the nearest.
func FindProblem(name string) (*Problem, error) {
	var names []string
	for _, p := range Problems() {
		if p.Name == name {
			return p, nil
		}
		names = append(names, p.Name)
	}
	return nil, InputError(fmt.Errorf("unknown problem %q: %s", name, nearest.Hint(name, names)))
}

// FindMethod returns the method of p of that name. An unknown name is an error
// that suggests the nearest.
func FindMethod(p *Problem, name string) (*Method, error) {
	var names []string
	for _, m := range Methods(p) {
		if m.Name == name {
			return m, nil
		}
		names = append(names, m.Name)
	}
	return nil, InputError(fmt.Errorf("unknown method %q of %s: %s", name, p.Name, nearest.Hint(name, names)))
}

// BestBound returns the largest bound that the results themselves proved or
// were given, nil if none has one.
func BestBound(results []*Result) *Bound {
	var best *Bound
	for _, r := range results {
		if r.Bound != nil && (best == nil || r.Bound.Value > best.Value) {
			best = r.Bound
		}
	}
	return best
}
