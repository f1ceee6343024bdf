package flush

import (
	"workbench/ilp/formulation"
	"workbench/model/instance/stages"
	"workbench/model/milp"
	"workbench/model/platform"
)

// Bounds returns the program whose optimum is the best closed-form lower bound on the step time, in seconds:
//
//	min T,  T ≥ b  for each of flush.Instance.Bounds.
//
// The model has one column. A checker of its certificate recomputes the bounds.
func Bounds(in *stages.Partition, p platform.Platform) (*formulation.Program, error) {
	x, err := newInstance(in, p)
	if err != nil {
		return nil, err
	}
	m := milp.New("flush-bounds")
	T := m.Var("T", milp.Continuous, 0, x.seconds(x.horizon))
	x.closed(m, T)
	m.Minimize(new(milp.Expr).Add(1, T))
	return &formulation.Program{Model: m, Promise: formulation.LowerBound, Formulation: m.Name(), Unit: 1 / x.scale}, m.Err()
}

// closed adds the rows T ≥ b, one for each closed-form bound b.
func (x *instance) closed(m *milp.Model, T milp.Var) {
	g := m.Group("closed", "flush.Instance.Bounds")
	for _, b := range x.bounds {
		g.AtLeast(new(milp.Expr).Add(1, T), x.seconds(b.Value))
	}
}
