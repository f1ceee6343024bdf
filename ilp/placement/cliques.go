package placement

import (
	"workbench/ilp/formulation"
	"workbench/model/instance/lifetimes"
	"workbench/model/milp"
	"workbench/model/platform"
)

// mostTriples limits the transitivity rows of a model; branching enforces the rest.
const mostTriples = 50_000

// Cliques returns the model of [Orders] with rows for buffers that are all alive together. In a section s they lie
// one above the other, so that for each buffer i
//
//	x_i ≥ Σ_{j in s} w_j y_ji                 those below it
//	x_i + w_i + Σ_{j in s} w_j y_ij ≤ h       those above it
//	h ≥ Σ_{j in s} w_j                        the load
//	y_ij + y_jk + y_ki ≤ 2                    no cycle among three
//
// The first two are the rows of a single machine (Queyranne and Schulz, Polyhedral Approaches to Machine
// Scheduling, 1994, §3), with memory as time. Of two buffers with equal lifetimes and sizes, the one with the
// smaller number is below. The relaxation is at least the load. There are at most mostTriples cycle rows.
func Cliques(l *lifetimes.Lifetimes, p platform.Platform) (*formulation.Program, error) {
	if y, plain, err := layout(l, p); err != nil {
		return nil, err
	} else if plain == nil {
		return structuredOrders("placement-cliques", y, p, true)
	}
	o, err := newOrders("placement-cliques", l, p)
	if err != nil {
		return nil, err
	}
	o.stack()
	o.cycles()
	o.twins()
	return o.program()
}

// addBelow adds c·y_ij, or c·(1 − y_ji) if the model has that column.
func (o *orders) addBelow(e *milp.Expr, c float64, i, j int) {
	if y, ok := o.y.At(pair{i, j}); ok {
		e.Add(c, y)
	} else if y, ok := o.y.At(pair{j, i}); ok {
		e.Add(-c, y).AddConst(c)
	}
}

// alive returns the buffers of each section.
func (o *orders) alive() [][]int {
	alive := make([][]int, o.Sections)
	for i := range o.Buffers {
		b := &o.Buffers[i]
		for s := b.First; s <= b.Last && b.Room > 0; s++ {
			alive[s] = append(alive[s], i)
		}
	}
	return alive
}

// stack adds the rows of each section.
func (o *orders) stack() {
	load, under, over := o.m.Group("load", "alive together"), o.m.Group("under", "Queyranne and Schulz 1994"),
		o.m.Group("over", "Queyranne and Schulz 1994")
	loads := o.Loads()
	for s, alive := range o.alive() {
		load.AtLeast(new(milp.Expr).Add(1, o.h), o.units(loads[s]))
		for _, i := range alive {
			low, high := new(milp.Expr).Add(-1, o.x.At(i)), new(milp.Expr).Add(1, o.x.At(i)).Add(-1, o.h)
			for _, j := range alive {
				if j != i {
					o.addBelow(low, o.units(o.Buffers[j].Room), j, i)
					o.addBelow(high, o.units(o.Buffers[j].Size), i, j)
				}
			}
			under.AtMost(low, 0)
			over.AtMost(high, -o.units(o.Buffers[i].Size))
		}
	}
}

// cycles adds that no buffer is above itself.
func (o *orders) cycles() {
	group := o.m.Group("cycles", "linear orders")
	left := mostTriples
	for i := range o.Buffers {
		for j := i + 1; j < len(o.Buffers); j++ {
			if _, ok := o.y.At(pair{i, j}); !ok {
				continue
			}
			for k := j + 1; k < len(o.Buffers); k++ {
				_, ik := o.y.At(pair{i, k})
				_, jk := o.y.At(pair{j, k})
				if !ik || !jk {
					continue
				}
				if left -= 2; left < 0 {
					return
				}
				e := new(milp.Expr)
				o.addBelow(e, 1, i, j)
				o.addBelow(e, 1, j, k)
				o.addBelow(e, 1, k, i)
				group.Between(1, e, 2)
			}
		}
	}
}

// twins orders interchangeable buffers.
func (o *orders) twins() {
	group := o.m.Group("twins", "equal lifetimes and sizes")
	for _, q := range o.pairs {
		a, b := &o.Buffers[q.i], &o.Buffers[q.j]
		if a.First == b.First && a.Last == b.Last && a.Size == b.Size {
			y, _ := o.y.At(q)
			group.AtLeast(new(milp.Expr).Add(1, y), 1)
		}
	}
}
