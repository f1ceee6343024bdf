package placement

import (
	"fmt"

	"workbench/ilp/formulation"
	"workbench/model/instance/lifetimes"
	"workbench/model/milp"
	"workbench/model/plan"
	"workbench/model/platform"
)

// orders is the disjunctive model of buffers alive together: x_i is the offset of buffer i, h the height, and y_ij
// is 1 if i is below j.
type orders struct {
	*instance
	m *milp.Model
	h milp.Var
	x milp.List
	y milp.Family[pair]
}

// Orders returns the MILP of Sekiyama, Imai and Negishi, Profile-guided memory optimization for deep neural
// networks, 2018, (1) to (6):
//
//	min h
//	x_i + w_i ≤ h                       every buffer i
//	x_i + w_i ≤ x_j  if y_ij = 1        every pair i, j alive together
//	x_j + w_j ≤ x_i  if y_ij = 0        the same
//	0 ≤ x_i ≤ H − w_i, y binary
//
// H, the big-M constant of the paper, is the memory or the sum of all sizes, whichever is less. In the second and
// third rows w is rounded up to the alignment; the topmost buffer takes no more than its size. The relaxation has
// h = max w_i, because y = 1/2 relaxes the rows of a pair. The model has O(pairs) columns and rows.
func Orders(l *lifetimes.Lifetimes, p platform.Platform) (*formulation.Program, error) {
	if y, plain, err := layout(l, p); err != nil {
		return nil, err
	} else if plain == nil {
		return structuredOrders("placement-orders", y, p, false)
	}
	o, err := newOrders("placement-orders", l, p)
	if err != nil {
		return nil, err
	}
	return o.program()
}

func newOrders(name string, l *lifetimes.Lifetimes, p platform.Platform) (*orders, error) {
	in, err := newInstance(l, p)
	if err != nil {
		return nil, err
	}
	if err := in.pair(); err != nil {
		return nil, err
	}
	o := &orders{instance: in, m: milp.New(name)}
	most := in.units(in.most)
	o.h = o.m.Var("h", milp.Continuous, 0, most)
	o.x = o.m.List("x", len(in.Buffers), milp.Continuous, 0, most)
	o.y = milp.Vars(o.m, "y", in.pairs, milp.Binary, 0, 1)
	top := o.m.Group("height", "Sekiyama et al. 2018")
	for i := range in.Buffers {
		top.LessEqual(milp.Sum(o.x.At(i)).AddConst(in.units(in.Buffers[i].Size)), milp.Sum(o.h))
		o.m.SetBounds(o.x.At(i), 0, in.units(in.most-in.Buffers[i].Size))
	}
	apart := o.m.Group("apart", "Sekiyama et al. 2018")
	for _, q := range in.pairs {
		y, _ := o.y.At(q)
		a, b := &in.Buffers[q.i], &in.Buffers[q.j]
		apart.When(milp.Is(y)).LessEqual(milp.Sum(o.x.At(q.i)).AddConst(in.units(a.Room)), milp.Sum(o.x.At(q.j)))
		apart.When(milp.IsNot(y)).LessEqual(milp.Sum(o.x.At(q.j)).AddConst(in.units(b.Room)), milp.Sum(o.x.At(q.i)))
	}
	o.m.Minimize(milp.Sum(o.h))
	return o, nil
}

// program returns the model with its conversions from and to plans.
func (o *orders) program() (*formulation.Program, error) {
	return &formulation.Program{
		Model: o.m, Promise: formulation.Equal, Formulation: o.m.Name(), Unit: 1 / o.scale,
		Start: o.start,
		Plan: func(x []float64) (*plan.Plan, error) {
			return o.plan(o.m.Name(), func(i int) float64 { return o.x.At(i).Value(x) }), nil
		},
	}, o.m.Err()
}

// start returns the values of the variables for a placement.
func (o *orders) start(p *plan.Plan) ([]float64, error) {
	if p.Problem != plan.Placement {
		return nil, fmt.Errorf("%w: a plan of %s", formulation.ErrStart, p.Problem)
	}
	at, err := o.Offsets(p)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", formulation.ErrStart, err)
	}
	for i := range at {
		if o.Buffers[i].Room == 0 {
			at[i] = 0
		}
	}
	for _, q := range o.pairs { // twins in the order of their numbers
		if a, b := &o.Buffers[q.i], &o.Buffers[q.j]; at[q.i] > at[q.j] && a.First == b.First && a.Last == b.Last && a.Size == b.Size {
			at[q.i], at[q.j] = at[q.j], at[q.i]
		}
	}
	x := make([]float64, o.m.NumCols())
	x[o.h.Index()] = o.units(o.Height(at))
	for i := range at {
		x[o.x.At(i).Index()] = o.units(at[i])
	}
	for q, y := range o.y.All() {
		if at[q.i] < at[q.j] {
			x[y.Index()] = 1
		}
	}
	return x, nil
}
