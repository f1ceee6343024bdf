package placement

import (
	"workbench/ilp/formulation"
	"workbench/model/instance/lifetimes"
	"workbench/model/milp"
	"workbench/model/platform"
)

// Load returns the lower bound that needs no search: the height is at least the total size of the buffers alive
// together,
//
//	min h,  h ≥ Σ_{i alive in s} w_i  of each section s.
//
// It has one column, and its certificate is a sum. Instances with more rules use cliques of conflicts and
// penalties in place of sections: [structured].
func Load(l *lifetimes.Lifetimes, p platform.Platform) (*formulation.Program, error) {
	if y, plain, err := layout(l, p); err != nil {
		return nil, err
	} else if plain == nil {
		return structuredLoad(y, p)
	}
	in, err := newInstance(l, p)
	if err != nil {
		return nil, err
	}
	m := milp.New("placement-load")
	h := m.Var("h", milp.Continuous, 0, in.units(in.most))
	g := m.Group("load", "buffers alive together")
	for _, x := range in.Loads() {
		g.AtLeast(new(milp.Expr).Add(1, h), in.units(x))
	}
	m.Minimize(new(milp.Expr).Add(1, h))
	return &formulation.Program{Model: m, Promise: formulation.LowerBound, Formulation: m.Name(), Unit: 1 / in.scale}, m.Err()
}
