package bench

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"workbench/model/nearest"
	"workbench/model/plan"
)

// DefaultProblem is what commands work on without --problem.
const DefaultProblem = "weight-offload"

// Problems returns the table of problems.
func Problems() []*Problem {
	return []*Problem{rematerialization(), joinProblem(), activationOffload(), rematOffload(), swapping(), pipelines(), weightOffload()}
}

// Methods returns the table of methods of p, in the order in which reports
// list them.
func Methods(p *Problem) []*Method {
	switch p.Name {
	case plan.Remat:
		return withoutMemory(slices.Concat(rematMethods(), graphMethods(), checkmateMethods()))
	case plan.Join:
		return joinMethods()
	case plan.ActivationOffload:
		return offloadMethods()
	case plan.RematOffload:
		return combinedMethods()
	case plan.Swap:
		return swapMethods()
	case plan.Pipeline:
		return pipelineMethods()
	case plan.WeightOffload:
		return weightMethods()
	}
	return nil
}

// MethodsFor returns the methods of p that work on in.
func MethodsFor(p *Problem, in *Instance) (list []*Method) {
	for _, m := range Methods(p) {
		if m.Accepts(in) {
			list = append(list, m)
		}
	}
	return list
}

// Accepts reports an instance that the problem has no methods for as an error
// of the user's.
func (p *Problem) Accepts(in *Instance) error {
	if slices.Contains(p.Takes, in.Form()) {
		return nil
	}
	return InputError(fmt.Errorf("%s is about %s and %s is a %s", p.Name, FormNames(p.Takes), in.Name, in.Form()))
}

// DefaultMethod returns the method used where none is named.
func (p *Problem) DefaultMethod(in *Instance) string {
	for _, name := range p.Defaults {
		if m, err := FindMethod(p, name); err == nil && m.Accepts(in) {
			return name
		}
	}
	return p.Defaults[0]
}

// DefaultMemory returns the memory limit used where none is given, as a user
// would write it: the instance's own, if it has one.
func (p *Problem) DefaultMemory(in *Instance) string {
	if in.Join != nil && in.Join.Slots > 0 {
		return strconv.Itoa(in.Join.Slots)
	}
	return p.Memory
}

// Accepts reports whether the method works on this kind of instance.
func (m *Method) Accepts(in *Instance) bool {
	return m.Takes == nil || slices.Contains(m.Takes, in.Form())
}

// Forms returns the kinds of instance the method works on.
func (m *Method) Forms(p *Problem) []Form {
	if m.Takes == nil {
		return p.Takes
	}
	return m.Takes
}

// FormNames writes kinds of instance for a person: "chains and graphs".
func FormNames(list []Form) string {
	var s []string
	for _, f := range list {
		if f == AFunctions {
			s = append(s, "sequences of functions")
			continue
		}
		s = append(s, string(f)+"s")
	}
	return strings.Join(s, " and ")
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
