package allocator

import (
	"workbench/model/instance/chain"
	"workbench/model/instance/graph"
	"workbench/model/instance/join"
	"workbench/model/instance/training"
	"workbench/model/plan"
)

// overhead is the content of blocks of temporary memory.
const overhead = "overhead"

// OfRemat is the [Tracer] of rematerialization, on chains and graphs, operation by operation ([004] Table 2.1).
func OfRemat(in plan.Instance, p *plan.Plan, _ int64) ([]*Trace, error) {
	return one(in, func(b *tracer) error {
		switch in := in.(type) {
		case *graph.Graph:
			b.graph(training.FromGraph(in), p)
		case *training.Graph:
			b.graph(in, p)
		default:
			b.remat(plan.As[*chain.Chain](in), p)
		}
		return nil
	})
}

// OfJoin is the [Tracer] of joins; in-place values keep their block.
func OfJoin(in plan.Instance, p *plan.Plan, unit int64) ([]*Trace, error) {
	return one(in, func(b *tracer) error {
		b.join(plan.As[*join.Join](in), p, float64(unit))
		return nil
	})
}

func (b *tracer) remat(c *chain.Chain, p *plan.Plan) {
	n := c.Len()
	a, abar, delta := vacant(n+1), vacant(n+1), vacant(n+1)
	a[0] = b.Allocate(0, c.A(0), plan.TensorA, 0)
	delta[n] = b.Allocate(0, c.Delta(n), plan.TensorDelta, n)
	for k := range p.Ops {
		o := &p.Ops[k]
		l := o.Layer
		switch o.Op {
		case plan.OpFAll, plan.OpFCk, plan.OpFNone:
			to, bytes, tensor := a, c.A(l), plan.TensorA
			if o.Op == plan.OpFAll {
				to, bytes, tensor = abar, c.Abar(l), plan.TensorAbar
			}
			out := b.Allocate(o.Start, bytes, tensor, l)
			temp := b.Allocate(o.Start, c.Layers[l-1].Overhead(o.Op == plan.OpFAll), overhead, l)
			b.Free(o.End, &temp)
			b.Free(o.End, &to[l]) // recomputed while it was stored
			to[l] = out
			if o.Op == plan.OpFNone {
				b.Free(o.End, &a[l-1])
			}
		case plan.OpB:
			delta[l-1] = b.Allocate(o.Start, c.Delta(l-1), plan.TensorDelta, l-1)
			temp := b.Allocate(o.Start, c.Layers[l-1].BackwardOverhead, overhead, l)
			b.Free(o.End, &temp)
			b.Free(o.End, &delta[l])
			b.Free(o.End, &abar[l])
			b.Free(o.End, &a[l-1])
		case plan.OpD:
			if o.Tensor == plan.TensorAbar {
				b.Free(o.Start, &abar[l])
			} else {
				b.Free(o.Start, &a[l])
			}
		}
	}
}

// graph records a valid plan of rematerialization of a training step, with a link or without; D of a graph/v1
// names the storage by its node.
func (b *tracer) graph(g *training.Graph, p *plan.Plan) {
	nodes, storages := make(map[string]int, g.Len()), make(map[string]int, len(g.Storages))
	for x := range g.Nodes {
		nodes[g.Nodes[x].ID] = x
	}
	for s := range g.Storages {
		storages[g.Storages[s].ID] = s
	}
	b.Allocate(0, g.Input, "input", -1)
	held := vacant(len(g.Storages))
	out, temp := make([][]int32, len(p.Ops)), vacant(len(p.Ops))
	for _, e := range edges(p) {
		o := &p.Ops[e.Op]
		switch {
		case o.Op == plan.OpC && e.Side == 0:
			node := &g.Nodes[nodes[o.Node]]
			for _, s := range node.Writes {
				out[e.Op] = append(out[e.Op], b.Allocate(e.Time, g.Storages[s].Bytes, g.Storages[s].ID, -1))
			}
			temp[e.Op] = b.Allocate(e.Time, node.Workspace, overhead+" of "+node.ID, -1)
		case o.Op == plan.OpC:
			b.Free(e.Time, &temp[e.Op])
			for i, s := range g.Nodes[nodes[o.Node]].Writes {
				b.Free(e.Time, &held[s]) // recomputed while it was stored
				held[s] = out[e.Op][i]
			}
		case o.Op == plan.OpD && e.Side == 0:
			b.Free(e.Time, &held[storages[o.Node+o.Storage]])
		case o.Op == plan.OpP && e.Side == 0:
			x := &g.Storages[storages[o.Storage]]
			held[storages[o.Storage]] = b.Allocate(e.Time, x.Bytes, x.ID, -1)
		}
	}
}

// join records a valid plan of [004] chapter 1; a slot is unit bytes.
func (b *tracer) join(j *join.Join, p *plan.Plan, unit float64) {
	first, values := make([]int, j.K()), 0
	for i, length := range j.Branches {
		first[i] = values
		values += length + 1
	}
	a := make([][]int32, values) // copies of a_ℓ
	delta := vacant(values)
	pop := func(x int) int32 {
		last := len(a[x]) - 1
		id := a[x][last]
		a[x] = a[x][:last]
		return id
	}
	for i := range j.Branches {
		a[first[i]] = append(a[first[i]], b.Allocate(0, unit, plan.TensorA, 0))
	}
	for k := range p.Ops {
		o := &p.Ops[k]
		x := o.Layer
		if o.Branch > 0 {
			x += first[o.Branch-1]
		}
		switch o.Op {
		case plan.OpF: // in place
			a[x] = append(a[x], pop(x-1))
		case plan.OpS:
			a[x] = append(a[x], b.Allocate(o.Start, unit, plan.TensorA, o.Layer))
		case plan.OpLoss: // in place
			for i, length := range j.Branches {
				delta[first[i]+length] = pop(first[i] + length)
			}
		case plan.OpB: // δ in place
			consumed := pop(x - 1)
			b.Free(o.End, &consumed)
			delta[x-1], delta[x] = delta[x], none
		case plan.OpD:
			if o.Tensor == plan.TensorDelta {
				b.Free(o.Start, &delta[x])
			} else {
				id := pop(x)
				b.Free(o.Start, &id)
			}
		}
	}
}
