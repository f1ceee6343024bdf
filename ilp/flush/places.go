package flush

import (
	"workbench/ilp/formulation"
	"workbench/model/instance/stages"
	"workbench/model/milp"
	"workbench/model/platform"
)

// Places is [Orders] with what a GPU that runs one operation at a time adds: between its
// first start and each operation there is time for all that come before, and behind
// it for all that come after,
//
//	t_b ≥ t_first + Σ_a d_a [a before b]
//	last ≥ t_b + d_b + Σ_a d_a [b before a]
//
// the rows of one machine (Queyranne and Schulz, Polyhedral Approaches to Machine
// Scheduling, 1994, §3); with the bounds in closed form; and that of equal operations
// each keeps the order of those before and behind it: if the i-th a is before the j-th b,
// so is the (i−1)-th, and it is before the (j+1)-th. Its relaxation is at the closed
// form, at least.
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

// places adds the time before and after each operation.
func (o *orders) places() {
	// Sums of known times are rounded; so much less is weaker.
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

// monotone adds that equal operations are in the order of their micro-batches.
func (o *orders) monotone() {
	group := o.m.Group("monotone", "orders")
	for _, q := range o.pairs {
		for _, x := range [2]pair{{op{q.a.letter, q.a.job - 1}, q.b}, {q.a, op{q.b.letter, q.b.job + 1}}} {
			if x.a.job < 0 || x.b.job >= o.Jobs {
				continue
			}
			if _, open := o.y.At(x); !open {
				continue // known
			}
			e := new(milp.Expr)
			o.addOrder(e, 1, x.a, x.b)
			o.addOrder(e, -1, q.a, q.b)
			group.AtLeast(e, 0)
		}
	}
}
