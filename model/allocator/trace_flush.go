package allocator

import (
	"fmt"
	"slices"

	"workbench/model/instance/chain"
	"workbench/model/instance/stages"
	"workbench/model/plan"
	"workbench/model/verify/layout"
)

// OfLayout is the [Tracer] of layouts: that of the schedules of their stages.
func OfLayout(in plan.Instance, p *plan.Plan, unit int64) ([]*Trace, error) {
	cut, q, err := layout.Schedule(plan.As[*chain.Chain](in), p)
	if err != nil {
		return nil, err
	}
	return OfFlush(cut, q, unit)
}

// OfFlush is the [Tracer] of synchronous pipeline schedules. On each GPU it allocates the weights of its stages
// and the largest of their overheads permanently. For each micro-batch and stage, the memory that B frees is
// allocated from F to the end of B, and the memory that W frees until the end of W. Offloaded memory, first that
// which B frees, is on the host from the end of O to the start of P. A B that allocates memory for its W does so
// at its start, unless it is fused with a following W. GPUs run one operation at a time, in the order of the plan.
func OfFlush(in plan.Instance, p *plan.Plan, _ int64) ([]*Trace, error) {
	x := plan.As[*stages.Partition](in)
	gpus := make([]*tracer, p.Platform.Processors)
	at := make(map[string]*tracer, len(gpus))
	for g := range gpus {
		gpus[g] = &tracer{unit: x.Unit}
		gpus[g].t.Device = fmt.Sprintf("gpu%d", g)
		at[gpus[g].t.Device], at[fmt.Sprintf("link%d", g)] = gpus[g], gpus[g]
	}
	type held struct{ b, w, sentB, sentW, kept int32 }
	blocks := map[[2]int]*held{}
	weighed, overhead := make([]bool, len(x.Stages)), map[string]float64{}
	for k := range p.Ops { // weights are resident before the first operation
		o := &p.Ops[k]
		if s := o.Stage - 1; !weighed[s] { // the first is an F
			weighed[s] = true
			at[o.Resource].Allocate(0, x.Stages[s].Weight, plan.TensorW, o.Stage)
			overhead[o.Resource] = max(overhead[o.Resource], x.Stages[s].Overhead)
		}
	}
	for _, b := range gpus {
		b.Allocate(0, overhead[b.t.Device], plan.TensorA, 0)
	}
	fused := func(k int) bool { // in PyTorch's runtime: W is the next operation of its GPU
		o := &p.Ops[k]
		next := slices.IndexFunc(p.Ops[k+1:], func(y plan.Op) bool { return y.Resource == o.Resource })
		if x.Runtime != stages.Torch || next < 0 {
			return false
		}
		y := &p.Ops[k+1+next]
		return y.Op == plan.OpW && y.Stage == o.Stage && y.MicroBatch == o.MicroBatch
	}
	for k := range p.Ops {
		o, b := &p.Ops[k], at[p.Ops[k].Resource]
		s, name := &x.Stages[o.Stage-1], [2]int{o.Stage, o.MicroBatch}
		sentB := min(s.OffloadMemory, max(0, -s.BackwardMemory))
		sentW := s.OffloadMemory - sentB
		take := func(h *held) {
			h.sentB, h.sentW = b.Allocate(o.Start, sentB, plan.TensorAbar, o.Stage), b.Allocate(o.Start, sentW, plan.TensorA, o.Stage)
		}
		switch o.Op {
		case plan.OpF:
			h := &held{
				b: b.Allocate(o.Start, -s.BackwardMemory-sentB, plan.TensorAbar, o.Stage),
				w: b.Allocate(o.Start, -s.WeightMemory-max(0, s.BackwardMemory)-sentW, plan.TensorA, o.Stage), kept: none,
			}
			take(h)
			blocks[name] = h
		case plan.OpO:
			b.Free(o.End, &blocks[name].sentB)
			b.Free(o.End, &blocks[name].sentW)
		case plan.OpP:
			take(blocks[name])
		case plan.OpB:
			if !fused(k) {
				blocks[name].kept = b.Allocate(o.Start, s.BackwardMemory, plan.TensorDelta, o.Stage)
			}
			b.Free(o.End, &blocks[name].b)
			b.Free(o.End, &blocks[name].sentB)
		case plan.OpW:
			b.Free(o.End, &blocks[name].w)
			b.Free(o.End, &blocks[name].kept)
			b.Free(o.End, &blocks[name].sentW)
		}
	}
	traces := make([]*Trace, len(gpus))
	for g, b := range gpus {
		t, err := b.trace()
		if err != nil {
			return nil, err
		}
		traces[g] = t
	}
	return traces, nil
}
