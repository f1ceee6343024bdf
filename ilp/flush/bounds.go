package flush

import (
	"workbench/ilp/formulation"
	"workbench/model/instance/stages"
	"workbench/model/milp"
	"workbench/model/platform"
)

// Bounds are the bounds in closed form, by name:
//
//	min T,  T ≥ b  for each of flush.Instance.Bounds.
//
// It has one column; whoever checks a certificate of it computes them again.
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

// closed adds that T is no less than the bounds in closed form.
func (x *instance) closed(m *milp.Model, T milp.Var) {
	g := m.Group("closed", "flush.Instance.Bounds")
	for _, b := range x.bounds {
		g.AtLeast(new(milp.Expr).Add(1, T), x.seconds(b.Value))
	}
}
