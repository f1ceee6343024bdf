// Package flush finds the optimum of tiny pipelines that flush, by trying every order.
package flush

import (
	"fmt"
	"math"
	"slices"

	"workbench/model/exhaustive"
	"workbench/model/instance/stages"
	"workbench/model/plan"
	"workbench/model/platform"
)

// Most is how many pairs of a stage and a micro-batch [Search] takes.
const Most = 9

// Search returns the least objective of a pipeline that flushes on up to three GPUs, and
// a plan that has it. limit is the most states to visit. The errors are
// [exhaustive.ErrInfeasible] where nothing fits, [exhaustive.ErrLimit] and [exhaustive.ErrTooHard].
//
// It tries every order of every GPU, micro-batches in any order, but for the first
// GPU's first forwards: micro-batches are named by them. With the orders of some GPUs fixed
// and the others free to do everything at once, the longest paths say whether it is
// worth going on.
//
// A GPU and its link to the host have one order, that of the instants at which their operations change
// what is held: so it says when an F or P has room, behind all that has given memory back before. Of
// two neighbours that both take memory, or both give some back, the order means nothing unless the same runs
// them, and one of both is tried.
func Search(in *stages.Partition, p platform.Platform, limit int) (float64, *plan.Plan, error) {
	x := &flushing{in: in, p: p, limit: limit, best: math.Inf(1), stageCount: len(in.Stages), jobs: p.MicroBatches}
	if x.stageCount*x.jobs > Most || p.Processors > 3 {
		return 0, nil, fmt.Errorf("%w: %d stages, %d micro-batches, %d GPUs; there can be %d operations forward and 3 GPUs",
			exhaustive.ErrTooHard, x.stageCount, x.jobs, p.Processors, Most)
	}
	x.make()
	x.search(0)
	switch {
	case x.limit < 0:
		return 0, nil, fmt.Errorf("%w: more than %d", exhaustive.ErrLimit, limit)
	case math.IsInf(x.best, 1):
		return 0, nil, exhaustive.ErrInfeasible
	}
	return x.best, x.plan(), nil
}

type flushing struct {
	in               *stages.Partition
	p                platform.Platform
	limit            int
	stageCount, jobs int
	ops              []flushOp
	after            [][]flushArc // by operation: what it needs, with the delay
	gpu              [][]int      // operations of each
	order            [][]int      // of each GPU, as far as it is fixed
	placed           []bool
	held             []float64
	named            int // micro-batches whose first forward is placed
	best             float64
	bestOrder        [][]int
	bestFused        []bool
	at               []float64 // scratch
	partner          []int     // by operation: the W of a B in the runtime of PyTorch, else -1
	fused            []bool    // by operation: a B that is one operation with its W, which follows it
}

type flushOp struct {
	op           string
	stage, job   int
	gpu          int
	time, change float64
	lane         int // 0: the GPU, 1: its link to the host
}

// takes reports whether it takes memory, at its start; others give some back, at their end.
func (o *flushOp) takes() bool { return o.op == plan.OpF || o.op == plan.OpP }

type flushArc struct {
	from  int
	delay float64
}

func (x *flushing) make() {
	x.gpu, x.order, x.held = make([][]int, x.p.Processors), make([][]int, x.p.Processors), make([]float64, x.p.Processors)
	listed, _ := plan.ListedRanks(x.p.Placement, len(x.in.Stages), x.p.Processors)
	where := func(s int) int {
		if listed != nil {
			return listed[s]
		}
		if x.p.Placement == plan.VShaped && s >= x.p.Processors {
			return 2*x.p.Processors - 1 - s
		}
		return s % x.p.Processors
	}
	type name struct {
		op         string
		stage, job int
	}
	index := map[name]int{}
	overhead := make([]float64, x.p.Processors)
	for s := range x.in.Stages {
		st, g := &x.in.Stages[s], where(s)
		x.held[g] += st.Weight + max(0, st.Overhead-overhead[g])
		overhead[g] = max(overhead[g], st.Overhead)
		for j := range x.jobs {
			kinds := []flushOp{{plan.OpF, s, j, g, st.ForwardTime, st.ForwardMemory, 0}, {plan.OpB, s, j, g, st.BackwardTime, st.BackwardMemory, 0}}
			if st.WeightTime > 0 || st.WeightMemory != 0 {
				kinds = append(kinds, flushOp{plan.OpW, s, j, g, st.WeightTime, st.WeightMemory, 0})
			}
			if st.OffloadMemory > 0 {
				kinds = append(kinds, flushOp{plan.OpO, s, j, g, st.OffloadTime, -st.OffloadMemory, 1},
					flushOp{plan.OpP, s, j, g, st.OffloadTime, st.OffloadMemory, 1})
			}
			for _, o := range kinds {
				index[name{o.op, s, j}] = len(x.ops)
				x.gpu[g] = append(x.gpu[g], len(x.ops))
				x.ops = append(x.ops, o)
			}
		}
	}
	x.after, x.placed, x.at = make([][]flushArc, len(x.ops)), make([]bool, len(x.ops)), make([]float64, len(x.ops))
	need := func(to, from name) {
		i, ok := index[to]
		k, there := index[from]
		if ok && there {
			a := flushArc{from: k}
			if x.ops[i].gpu != x.ops[k].gpu {
				a.delay = x.in.CommunicationTime
			}
			x.after[i] = append(x.after[i], a)
		}
	}
	x.partner, x.fused = slices.Repeat([]int{-1}, len(x.ops)), make([]bool, len(x.ops))
	for s := range x.stageCount {
		for j := range x.jobs {
			if w, split := index[name{plan.OpW, s, j}]; split && x.in.Runtime == stages.Torch {
				x.partner[index[name{plan.OpB, s, j}]] = w
			}
			need(name{plan.OpF, s, j}, name{plan.OpF, s - 1, j})
			need(name{plan.OpB, s, j}, name{plan.OpB, s + 1, j})
			need(name{plan.OpW, s, j}, name{plan.OpB, s, j})
			need(name{plan.OpO, s, j}, name{plan.OpF, s, j})
			need(name{plan.OpP, s, j}, name{plan.OpO, s, j})
			need(name{plan.OpB, s, j}, name{plan.OpP, s, j})
		}
	}
	for j := range x.jobs {
		need(name{plan.OpB, x.stageCount - 1, j}, name{plan.OpF, x.stageCount - 1, j})
	}
}

// search fixes the order of GPU g and of those after it.
func (x *flushing) search(g int) {
	if x.limit--; x.limit < 0 {
		return
	}
	if g == x.p.Processors {
		if t, ok := x.least(); ok && t < x.best*(1-1e-12) {
			x.best, x.bestOrder, x.bestFused = t, nil, slices.Clone(x.fused)
			for _, o := range x.order {
				x.bestOrder = append(x.bestOrder, append([]int(nil), o...))
			}
		}
		return
	}
	if len(x.order[g]) == len(x.gpu[g]) {
		if t, ok := x.least(); ok && t < x.best*(1-1e-12) {
			x.search(g + 1)
		}
		return
	}
	for _, i := range x.gpu[g] {
		o := &x.ops[i]
		if x.placed[i] || !x.ready(i) || x.swapped(g, o) {
			continue
		}
		if w := x.partner[i]; w >= 0 {
			x.pair(g, i, w)
		}
		if n := len(x.order[g]); n > 0 && x.partner[x.order[g][n-1]] == i {
			continue // it would be one operation with its B
		}
		during := x.held[g] + max(0, o.change)
		if !platform.Fits(during, x.p.Memory) {
			continue
		}
		first := o.op == plan.OpF && o.stage == 0
		if first && o.job != x.named {
			continue
		}
		if first {
			x.named++
		}
		x.placed[i], x.order[g], x.held[g] = true, append(x.order[g], i), x.held[g]+o.change
		x.search(g)
		x.placed[i], x.order[g], x.held[g] = false, x.order[g][:len(x.order[g])-1], x.held[g]-o.change
		if first {
			x.named--
		}
	}
}

// pair goes on with B and W of a stage and micro-batch as one operation, which takes no memory.
func (x *flushing) pair(g, b, w int) {
	change := x.ops[b].change + x.ops[w].change
	x.placed[b], x.placed[w], x.fused[b] = true, true, true
	x.order[g], x.held[g] = append(x.order[g], b, w), x.held[g]+change
	x.search(g)
	x.placed[b], x.placed[w], x.fused[b] = false, false, false
	x.order[g], x.held[g] = x.order[g][:len(x.order[g])-2], x.held[g]-change
}

// swapped reports whether an operation is tried before the last one of the GPU, too, which means the same.
func (x *flushing) swapped(g int, o *flushOp) bool {
	if n := len(x.order[g]); n > 0 {
		last := &x.ops[x.order[g][n-1]]
		return last.lane > o.lane && last.takes() == o.takes()
	}
	return false
}

// ready reports whether what an operation needs on its own GPU is placed.
func (x *flushing) ready(i int) bool {
	for _, a := range x.after[i] {
		if x.ops[a.from].gpu == x.ops[i].gpu && !x.placed[a.from] {
			return false
		}
	}
	return true
}

// earliest computes when the operations start at the earliest if only GPU's operation
// from starts anything at 0, all do where that is -1. Complete orders bind; false: they
// have a cycle.
func (x *flushing) earliest(from int) bool {
	for i := range x.at {
		x.at[i] = math.Inf(-1)
		if from < 0 || i == from {
			x.at[i] = 0
		}
	}
	return x.push()
}

// least returns the least objective that the GPUs with a complete order leave possible.
// The least span is the largest mean, over the GPUs of a cycle, of the longest
// path from the first operation of one to the end of the last one of the next.
func (x *flushing) least() (float64, bool) {
	if !x.earliest(-1) {
		return 0, false
	}
	if x.p.Objective == plan.MakespanObjective {
		t := 0.0
		for i := range x.ops {
			t = max(t, x.at[i]+x.ops[i].time)
		}
		return t, true
	}
	var d [3][3]float64
	n := 0
	for ; n < x.p.Processors && len(x.order[n]) == len(x.gpu[n]); n++ {
	}
	for g := range n {
		x.earliest(x.order[g][0])
		for h := range n {
			last := x.order[h][len(x.order[h])-1]
			d[g][h] = x.at[last] + x.ops[last].time
		}
	}
	t := 0.0
	for g := range n {
		t = max(t, d[g][g])
		for h := range n {
			if h != g {
				t = max(t, (d[g][h]+d[h][g])/2)
			}
		}
	}
	if n == 3 {
		t = max(t, (d[0][1]+d[1][2]+d[2][0])/3, (d[0][2]+d[2][1]+d[1][0])/3)
	}
	return t, true
}

// plan returns the best order with its times: of the span, GPUs start later as long as
// one has more than that.
func (x *flushing) plan() *plan.Plan {
	x.order, x.fused = x.bestOrder, x.bestFused
	x.earliest(-1)
	if x.p.Objective != plan.MakespanObjective {
		for again := true; again; {
			again = false
			for _, o := range x.order {
				last := o[len(o)-1]
				if t := x.at[last] + x.ops[last].time - x.best; t > x.at[o[0]]+1e-12*x.best {
					x.at[o[0]], again = t, true
				}
			}
			x.push()
		}
	}
	p := plan.New(plan.Flush, "exhaustive search", x.in, x.p)
	for g, o := range x.order {
		for _, i := range o {
			a := &x.ops[i]
			p.Ops = append(p.Ops, plan.Op{
				Op: a.op, Stage: a.stage + 1, MicroBatch: a.job + 1, Resource: fmt.Sprintf("gpu%d", g), Start: x.at[i], End: x.at[i] + a.time,
			})
			if a.lane == 1 {
				p.Ops[len(p.Ops)-1].Resource = fmt.Sprintf("link%d", g)
			}
		}
	}
	return p
}

// push moves operations behind what they come after, where that starts at all and in
// complete orders; false: these have a cycle. Times do not tell, since those of a cycle may
// be 0, or nothing beside others: the number of operations on a path does.
func (x *flushing) push() bool {
	steps := make([]int, len(x.ops))
	for moved := true; moved; {
		moved = false
		raise := func(i, k int, delay float64) {
			if t := x.at[k] + x.ops[k].time + delay; t > x.at[i] {
				x.at[i], moved = t, true
			}
			if steps[k] >= steps[i] && steps[i] <= len(x.ops) {
				steps[i], moved = steps[k]+1, true
			}
		}
		for i := range x.ops {
			for _, a := range x.after[i] {
				from := a.from
				if x.fused[from] && x.ops[from].stage != x.ops[i].stage {
					from = x.partner[from]
				}
				raise(i, from, a.delay)
			}
		}
		for g, o := range x.order {
			if len(o) < len(x.gpu[g]) {
				continue
			}
			last, given := [2]int{-1, -1}, [2]int{-1, -1} // by lane: before this one, and of those that give memory back
			for _, i := range o {
				a := &x.ops[i]
				for _, k := range [...]int{last[a.lane], given[1-a.lane]} {
					if k >= 0 && (k == last[a.lane] || a.takes()) {
						raise(i, k, 0)
					}
				}
				if last[a.lane] = i; !a.takes() {
					given[a.lane] = i
				}
			}
		}
		if slices.Max(steps) > len(x.ops) {
			return false
		}
	}
	return true
}
