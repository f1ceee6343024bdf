package flush

import (
	"cmp"
	"context"
	"slices"

	"workbench/model/plan"
	"workbench/model/problem/flush"
)

// Interleaved is 1F1B of GPUs with several stages each, round robin (Narayanan et al.,
// Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM, 2021,
// §2.2): P micro-batches through the first stage of a GPU, the same through the second, and
// so on, 2(P − g − 1) + (v − 1)P of them before the first pair of F and B. Megatron asks
// for a multiple of P micro-batches; here the last group may be smaller, and where that
// comes to a halt there is no order. O(operations).
func Interleaved(_ context.Context, v *flush.Instance) flush.Order {
	if v.Platform.Placement != plan.Interleaved {
		return nil
	}
	o, chunks := make(flush.Order, v.GPUs), v.Stages/v.GPUs
	for g := range o {
		var forward, backward []int // stages
		for left := v.Jobs; left > 0; left -= v.GPUs {
			for c := range chunks {
				for range min(left, v.GPUs) {
					forward, backward = append(forward, v.On[g][c]), append(backward, v.On[g][chunks-1-c])
				}
			}
		}
		warm := min(len(forward), 2*(v.GPUs-g-1)+(chunks-1)*v.GPUs)
		if v.Jobs == v.GPUs {
			warm = len(forward) // as in Megatron
		}
		for _, s := range forward[:warm] {
			o[g] = append(o[g], flush.OperationOf(s, flush.F))
		}
		for i, s := range backward {
			if warm+i < len(forward) {
				o[g] = append(o[g], flush.OperationOf(forward[warm+i], flush.F))
			}
			o[g] = append(o[g], flush.OperationOf(s, flush.B))
			if v.Split[s] {
				o[g] = append(o[g], flush.OperationOf(s, flush.W))
			}
		}
	}
	return o
}

// LoopedBFS runs all micro-batches through the first stage of a GPU, all through the second and so on, and the backwards in
// reverse (Lamy-Poirier,
// Breadth-First Pipeline Parallelism, 2023), for every placement. O(operations).
func LoopedBFS(_ context.Context, v *flush.Instance) flush.Order {
	o := make(flush.Order, v.GPUs)
	for g, on := range v.On {
		for _, s := range on {
			for range v.Jobs {
				o[g] = append(o[g], flush.OperationOf(s, flush.F))
			}
		}
		for _, s := range slices.Backward(on) {
			for range v.Jobs {
				if o[g] = append(o[g], flush.OperationOf(s, flush.B)); v.Split[s] {
					o[g] = append(o[g], flush.OperationOf(s, flush.W))
				}
			}
		}
	}
	return o
}

// period is the number of slots of a building block on a GPU: F, B and W of two stages.
const period = 6

// block is a building block of the placement V: the start slots of the operations of a micro-batch
// if each takes one slot.
type block struct {
	down, up, back, home int // offsets between consecutive Fs and Bs: F down, F up, B back, B home
	turns                [3]int
}

// starts returns the slots of F and B of the first and of F and B of the second stage of
// GPU g.
func (b *block) starts(gpus, g int) (f0, f1, b1, b0 int) {
	last := gpus - 1
	f0 = g * b.down
	f1 = last*b.down + b.turns[0] + (last-g)*b.up
	b1 = last*b.down + b.turns[0] + last*b.up + b.turns[1] + g*b.back
	b0 = last*(b.down+b.up+b.back) + b.turns[0] + b.turns[1] + b.turns[2] + (last-g)*b.home
	return f0, f1, b1, b0
}

// free reports whether no two of these share a slot on any GPU when the block is
// repeated.
func (b *block) free(gpus int) bool {
	for g := range min(gpus, period) { // slots repeat after this many GPUs
		f0, f1, b1, b0 := b.starts(gpus, g)
		used := 0
		for _, at := range [...]int{f0, f1, b1, b0} {
			if used&(1<<(at%period)) != 0 {
				return false
			}
			used |= 1 << (at % period)
		}
	}
	return true
}

// order repeats a block, W in the first slot that is free after its B.
func (b *block) order(v *flush.Instance) flush.Order {
	type slot struct {
		at int
		op flush.Operation
	}
	o := make(flush.Order, v.GPUs)
	for g := range o {
		s0, s1 := v.On[g][0], v.On[g][1]
		f0, f1, b1, b0 := b.starts(v.GPUs, g)
		slots := []slot{
			{f0, flush.OperationOf(s0, flush.F)},
			{f1, flush.OperationOf(s1, flush.F)},
			{b1, flush.OperationOf(s1, flush.B)},
			{b0, flush.OperationOf(s0, flush.B)},
		}
		used := 0
		for _, x := range slots {
			used |= 1 << (x.at % period)
		}
		for _, x := range [2]slot{{b1, flush.OperationOf(s1, flush.W)}, {b0, flush.OperationOf(s0, flush.W)}} {
			for used&(1<<(x.at%period)) != 0 {
				x.at++
			}
			if used |= 1 << (x.at % period); v.Split[x.op.Stage()] {
				slots = append(slots, x)
			}
		}
		var all []slot
		for j := range v.Jobs {
			for _, x := range slots {
				all = append(all, slot{x.at + period*j, x.op})
			}
		}
		slices.SortStableFunc(all, func(a, b slot) int { return cmp.Compare(a.at, b.at) })
		for _, x := range all {
			o[g] = append(o[g], x.op)
		}
	}
	return o
}

// controllable repeats building blocks of the placement V whose micro-batches spend sum slots per
// GPU between the Fs of the first stages and their Bs, and as many for the second stages. A GPU
// then holds sum/6 of the memory of the first GPU of 1F1B (Qi, Wan, Amar and Lin, Pipeline
// Parallelism with Controllable Memory, NeurIPS 2024, §3). All collision-free blocks are tried,
// with the shortest possible turns, and timed with the true durations. O(blocks·operations).
func controllable(ctx context.Context, v *flush.Instance, sum int) flush.Order {
	if v.Platform.Placement != plan.VShaped {
		return nil
	}
	var found flush.Order
	t, least := flush.NewTimer(v), never
	for total := 3; total <= 3*period; total++ {
		for down := 1; down < sum; down++ {
			for up := 1; up < sum; up++ {
				for a := 1; a <= period; a++ {
					for b := 1; b <= period; b++ {
						x := &block{down, up, sum - up, sum - down, [3]int{a, b, total - a - b}}
						if c := total - a - b; c < 1 || c > period || !x.free(v.GPUs) || found != nil && ctx.Err() != nil {
							continue
						}
						if o := x.order(v); v.KeepsMemory(o) && t.Run(o, nil) && t.Objective() < least {
							found, least = o, t.Objective()
						}
					}
				}
			}
		}
		if found != nil && total >= period {
			break
		}
	}
	return found
}

// VHalf and VMin are schedules of the placement V that hold about a half of what 1F1B's first
// GPU does, and about a third of it: [controllable].
func VHalf(ctx context.Context, v *flush.Instance) flush.Order { return controllable(ctx, v, 3) }
func VMin(ctx context.Context, v *flush.Instance) flush.Order  { return controllable(ctx, v, 2) }

// ZBV returns the schedule of the placement V in the memory of 1F1B (Qi et al., NeurIPS 2024): the
// better of [zbv], the order of its authors and PyTorch, which has no bubble if F, B and W take
// equal time, and [controllable], which repeats the building block that suits the true durations.
// O(blocks·operations).
func ZBV(ctx context.Context, v *flush.Instance) flush.Order {
	if v.Platform.Placement != plan.VShaped {
		return nil
	}
	repeated := controllable(ctx, v, 6)
	if s := best(v, zbv(v), repeated); s != nil {
		return s.Order
	}
	return repeated
}

// zbv returns the published order of ZB-V. GPU g of P runs 2(P − g) − 1 Fs of its first stage, then
// g times F of the second and of the first, and P − g times F, B and W of the second. Then it
// alternates F, B, W of the first and F, B, W of the second. When all Fs have run, it runs g times
// B of the first and of the second, P − g times B and W of the first, and the remaining Ws. The
// order is defined for at least 2P − 1 micro-batches; with fewer, the missing ones are omitted.
// O(operations).
func zbv(v *flush.Instance) flush.Order {
	o, most := make(flush.Order, v.GPUs), max(2*v.GPUs-1, v.Jobs)
	for g := range o {
		var n [2][3]int // by stage of the GPU and kind
		put := func(chunk int, kinds ...int) {
			for _, kind := range kinds {
				s := v.On[g][chunk]
				if n[chunk][kind] < v.Jobs && (kind != flush.W || v.Split[s]) {
					o[g] = append(o[g], flush.OperationOf(s, kind))
				}
				n[chunk][kind]++
			}
		}
		for range 2*(v.GPUs-g) - 1 {
			put(0, flush.F)
		}
		for range g {
			put(1, flush.F)
			put(0, flush.F)
		}
		for range v.GPUs - g {
			put(1, flush.F, flush.B, flush.W)
		}
		for n[1][flush.F] < most {
			if n[0][flush.F] < most {
				put(0, flush.F)
			}
			put(0, flush.B, flush.W)
			put(1, flush.F, flush.B, flush.W)
		}
		for range g {
			put(0, flush.B)
			put(1, flush.B)
		}
		for range v.GPUs - g {
			put(0, flush.B, flush.W)
		}
		for chunk := range 2 {
			for n[1-chunk][flush.W] < most {
				put(1-chunk, flush.W)
			}
		}
	}
	return o
}
