package flush

import (
	"workbench/ilp/formulation"
	"workbench/model/instance/stages"
	"workbench/model/milp"
	"workbench/model/platform"
)

// Places returns the model of [Orders] with three families of rows. First, the rows of a single machine (Queyranne
// and Schulz, Polyhedral Approaches to Machine Scheduling, 1994, §3): the operations that precede b fit between
// the first start on the GPU and b, and those that follow fit after b,
//
//	t_b ≥ t_first + Σ_a d_a [a before b]
//	last ≥ t_b + d_b + Σ_a d_a [b before a]
//
// Second, the closed-form bounds, so that its relaxation is no weaker than they are. Third, monotonicity of equal
// operations: if the i-th a precedes the j-th b, then so does the (i−1)-th a, and the i-th a precedes the (j+1)-th
// b.
func Places(in *stages.Partition, p platform.Platform) (*formulation.Program, error) {
	o, err := newOrders("flush-places", in, p)
	if err != nil {
		return nil, err
	}
	o.closed(o.m, o.T)
	o.places()
	o.monotone()
	return o.program()
}

// places adds the single-machine rows.
func (o *orders) places() {
	// Sums of the constants are rounded: the slack weakens the rows by more than the rounding error.
	slack := o.seconds(o.horizon) * 0x1p-44
	before, after := o.m.Group("before", "Queyranne and Schulz 1994"), o.m.Group("after", "Queyranne and Schulz 1994")
	for g, ops := range o.ops {
		first := o.first(g)
		for _, b := range ops {
			if b == first || b.letter.Copies() {
				continue
			}
			low := new(milp.Expr).Add(1, o.startVar(b)).Add(-1, o.startVar(first))
			high := new(milp.Expr).Add(1, o.last.At(g)).Add(-1, o.startVar(b))
			for _, a := range ops {
				if a != b && !a.letter.Copies() {
					o.addOrder(low, -o.time(a), a, b)
					o.addOrder(high, -o.time(a), b, a)
				}
			}
			before.AtLeast(low, -slack)
			after.AtLeast(high, o.time(b)-slack)
		}
	}
}

// monotone adds the monotonicity rows: equal operations follow the order of their micro-batches.
func (o *orders) monotone() {
	group := o.m.Group("monotone", "orders")
	for _, q := range o.pairs {
		for _, x := range [2]pair{{op{q.a.letter, q.a.job - 1}, q.b}, {q.a, op{q.b.letter, q.b.job + 1}}} {
			if x.a.job < 0 || x.b.job >= o.Jobs {
				continue
			}
			if _, open := o.y.At(x); !open {
				continue // the order is fixed
			}
			e := new(milp.Expr)
			o.addOrder(e, 1, x.a, x.b)
			o.addOrder(e, -1, q.a, q.b)
			group.AtLeast(e, 0)
		}
	}
}
