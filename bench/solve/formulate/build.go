package formulate

import (
	"errors"
	"slices"
	"strings"

	"workbench/bench/solve"
	"workbench/bench/solve/method"
	"workbench/ilp/formulation"
	"workbench/model/plan"
	"workbench/model/platform"
)

// Build builds a formulation for an instance and a platform in bytes, without the named groups, separated by
// commas. User errors wrap solve.ErrInput. An unknown group is reported before a memory in which nothing fits, by
// the model of the upper end of the memory range.
func Build(p *solve.Problem, f formulation.Formulation, in *solve.Instance, on platform.Platform,
	without string,
) (*formulation.Program, error) {
	program, err := method.Build(f, in, on)
	if without == "" {
		return program, err
	}
	groups := strings.Split(without, ",")
	infeasible := err
	if errors.As(err, new(*plan.Infeasible)) {
		// Known groups may have no row in that model, as covers of a memory.
		groups = slices.DeleteFunc(groups, func(g string) bool { return slices.Contains(f.Extra, g) })
		_, on.Memory = p.Range(in, solve.Setting{Platform: on})
		program, err = method.Build(f, in, on)
	}
	if err != nil {
		return nil, err
	}
	if program.Model, err = program.Model.Without(groups...); err != nil {
		return nil, solve.InputError(err)
	}
	if infeasible != nil {
		return nil, infeasible
	}
	return program, nil
}
