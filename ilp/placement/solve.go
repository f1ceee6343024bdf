package placement

import (
	"workbench/ilp/formulation"
	"workbench/model/instance/lifetimes"
	"workbench/model/platform"
)

// Phases returns the phases of a solve: first the load, which has one column and suffices where a placement
// attains it, then the MILP with cliques.
func Phases(l *lifetimes.Lifetimes, p platform.Platform) formulation.Next {
	solved := 0
	return func(*formulation.Result) (*formulation.Phase, error) {
		solved++
		switch solved {
		case 1:
			program, err := Load(l, p)
			return &formulation.Phase{Program: program, Relax: true}, err
		case 2:
			program, err := Cliques(l, p)
			return &formulation.Phase{Program: program}, err
		}
		return nil, nil
	}
}
