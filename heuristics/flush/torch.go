package flush

import (
	"context"

	"workbench/model/plan"
	"workbench/model/problem/flush"
)

// torchInterleaved returns the order of ScheduleInterleaved1F1B of torch.distributed.pipelining 2.15 or, with zero, of
// ScheduleInterleavedZeroBubble. In the latter a GPU runs fewer forwards first, and delays its Ws by as many backwards as GPUs are
// before it. Unlike in [Interleaved] the micro-batches pass in rounds of equal size, of at least one a GPU; nil where their number
// is no multiple of the number of rounds. O(operations).
func torchInterleaved(zero bool) Method {
	return func(_ context.Context, v *flush.Instance) flush.Order {
		rounds := max(1, v.Jobs/v.GPUs)
		if v.Platform.Placement != plan.Interleaved || v.Jobs%rounds != 0 {
			return nil
		}
		o, chunks, size := make(flush.Order, v.GPUs), v.Stages/v.GPUs, v.Jobs/rounds
		total := chunks * v.Jobs
		for g, on := range v.On {
			factor, late := 2, 0
			if zero {
				factor, late = 1, g
			}
			warm := min(total, (chunks-1)*size+factor*(v.GPUs-1-g))
			forward := func(k int) { o[g] = append(o[g], flush.OperationOf(on[k/size%chunks], flush.F)) }
			weight := func(k int) {
				if s := on[chunks-1-k/size%chunks]; v.Split[s] {
					o[g] = append(o[g], flush.OperationOf(s, flush.W))
				}
			}
			for k := range warm {
				forward(k)
			}
			for k := range total {
				if warm+k < total {
					forward(warm + k)
				}
				o[g] = append(o[g], flush.OperationOf(on[chunks-1-k/size%chunks], flush.B))
				if k >= late {
					weight(k - late)
				}
			}
			for k := max(0, total-late); k < total; k++ {
				weight(k)
			}
		}
		return o
	}
}

// DualPipeV returns the order of ScheduleDualPipeV of torch.distributed.pipelining 2.15, for a V: DualPipe (DeepSeek-V3 Technical
// Report, 2024) cut in half. What it overlaps runs one after the other. nil with fewer micro-batches than stages. O(operations).
func DualPipeV(_ context.Context, v *flush.Instance) flush.Order {
	if v.Platform.Placement != plan.VShaped || v.Jobs < v.Stages {
		return nil
	}
	o := make(flush.Order, v.GPUs)
	for g := range o {
		d := &dualPipe{v: v, down: v.On[g][0], up: v.On[g][1]}
		before, behind := g+1, v.GPUs-1-g
		d.times(2*behind, func(int) { d.forward(d.down) })
		d.times(before, func(int) { d.forward(d.down); d.forward(d.up) })
		d.times(behind, func(int) { d.input(d.up); d.weight(); d.forward(d.up) })
		d.times(v.Jobs-v.Stages+before, func(int) { d.forward(d.down); d.backward(d.up); d.forward(d.up); d.backward(d.down) })
		d.times(behind, func(int) { d.backward(d.up); d.forward(d.up); d.backward(d.down) })
		late := d.backward
		d.times(before, func(i int) {
			if i == before/2 && g%2 == 1 {
				late = d.input
			}
			late(d.up)
			if i == before/2 && g%2 == 0 {
				late = d.input
			}
			late(d.down)
		})
		d.times(behind, func(int) { d.weight(); late(d.down) })
		d.times(before, func(int) { d.weight() })
		o[g] = d.ops
	}
	return o
}

// dualPipe builds the order of one GPU.
type dualPipe struct {
	v        *flush.Instance
	down, up int // its stages
	ops      []flush.Operation
	waiting  []int // stages of Ws that have been put off, in order
}

func (d *dualPipe) times(n int, do func(i int)) {
	for i := range n {
		do(i)
	}
}

func (d *dualPipe) forward(stage int) { d.ops = append(d.ops, flush.OperationOf(stage, flush.F)) }

// input runs B and puts its W off.
func (d *dualPipe) input(stage int) {
	d.ops, d.waiting = append(d.ops, flush.OperationOf(stage, flush.B)), append(d.waiting, stage)
}

// weight runs the first W that has been put off, if there is one.
func (d *dualPipe) weight() {
	if len(d.waiting) == 0 {
		return
	}
	if s := d.waiting[0]; d.v.Split[s] {
		d.ops = append(d.ops, flush.OperationOf(s, flush.W))
	}
	d.waiting = d.waiting[1:]
}

// backward runs B and W.
func (d *dualPipe) backward(stage int) {
	d.ops = append(d.ops, flush.OperationOf(stage, flush.B))
	if d.v.Split[stage] {
		d.ops = append(d.ops, flush.OperationOf(stage, flush.W))
	}
}
