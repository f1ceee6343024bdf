package pipeline

import (
	"cmp"
	"slices"

	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/verify/replay"
)

// checkMemory follows each processor once around the period, finds its peaks
// by both models and judges them by the one that the plan names.
func (v *pattern) checkMemory() {
	r := v.report.Pattern
	peakOps := make([]int, len(r.TaskMemory))
	for i := range r.TaskMemory {
		peakOps[i] = v.follow(i)
	}
	peaks := r.TaskMemory
	if v.plan.MemoryModel == plan.StageModel {
		peaks = r.StageMemory
	}
	limit := v.plan.Platform.Memory
	for i, peak := range peaks {
		op, time := -1, 0.0
		if v.plan.MemoryModel != plan.StageModel && peakOps[i] >= 0 {
			op = peakOps[i]
			time = v.plan.Ops[op].Start
		}
		if peak > v.report.PeakMemory {
			v.report.PeakMemory, v.report.PeakOp, v.report.PeakTime = peak, op, time
		}
		if platform.Fits(peak, limit) {
			continue
		}
		p, by := v.plan, "by the stage model"
		if op >= 0 {
			by = "while " + v.name(op) + " runs"
		}
		v.broken(plan.RuleMemory, op, p.Unit.Bytes(peak-limit), "%s needs %s of %s bytes %s", gpuName(i), p.Size(peak), p.Size(limit), by)
	}
}

// Profile returns the memory of each processor over the period by the task
// model: steps in order of time, the first at time 0, the last one going on to the
// period. Weights are all that is stored at all times, buffers of links included. It
// is nil for plans in which operations are missing, more than there should be, or of
// no processor. The error is that of [Verify]. O(n log n) in the number of
// operations.
func Profile(in plan.Instance, p *plan.Plan) ([][]replay.Sample, error) {
	v, err := readPattern(in, p)
	if err != nil {
		return nil, err
	}
	if !v.checkSteps() || slices.Contains(v.owner, -1) {
		return nil, nil
	}
	list := make([][]replay.Sample, p.Platform.Processors)
	for i := range list {
		v.samples = []replay.Sample{}
		v.follow(i)
		list[i] = v.samples
		for k := range list[i] {
			x := &list[i][k]
			x.Weights, x.Activations = v.chain.Unit.Bytes(x.Weights), v.chain.Unit.Bytes(x.Activations)
		}
	}
	return list, nil
}

// sample notes the memory of the processor that is followed from a time on, if a
// profile is wanted: the last value counts of those at one time.
func (v *pattern) sample(time, fixed, stored float64) {
	if v.samples == nil {
		return
	}
	if n := len(v.samples); n > 0 && v.samples[n-1].Time >= time {
		v.samples = v.samples[:n-1]
	}
	v.samples = append(v.samples, replay.Sample{Time: time, Weights: fixed, Activations: stored})
}

// A task is a turn of an F or a B.
type task struct {
	turn
	step int
}

// follow fills in the peaks of processor i and the NCA of its layers, and
// returns the operation at the task model's peak, -1 if there is none.
func (v *pattern) follow(i int) (peakOp int) {
	r := v.report.Pattern
	fixed := v.fixed(i)
	order := v.order(i)

	// What is stored when the period begins: before the first operation of the
	// order, those of the last period have processed shift - k.
	stored := 0.0 // of mini-batches between F_ℓ and B_ℓ, and waiting outputs
	count := make([]int, v.chain.Len())
	ahead := func(s int) (sum int) {
		for _, t := range v.turnsOn(&v.steps[s], i) {
			sum += t.shift
		}
		return sum
	}
	forward := make([]int, v.chain.Len()) // step of F_ℓ, at ℓ-1
	for s := range v.steps {
		x := &v.steps[s]
		if !v.computes(s, i) {
			continue
		}
		switch x.op {
		case plan.OpF:
			forward[x.layer-1] = s
		case plan.OpB:
			count[x.layer-1] = (ahead(forward[x.layer-1]) - ahead(s)) / v.k
			stored += float64(count[x.layer-1]) * v.chain.KeptBy(x.layer)
		}
		if v.waits(s) {
			stored += float64((ahead(s)-ahead(s+1))/v.k) * x.output
		}
	}

	nca := make([]int, v.chain.Len())
	peakOp = -1
	v.sample(0, fixed, stored)
	atEnd := stored // when what runs over the end of the period has ended
	var during float64
	for k, c := range order {
		x := &v.steps[c.step]
		if c.step > 0 && v.waits(c.step-1) {
			stored -= v.steps[c.step-1].output // it is the input now
		}
		input := v.chain.KeptBy(x.layer)
		if x.op == plan.OpB {
			input = v.chain.Delta(x.layer)
		}
		over, backward := v.chain.Overheads(x.layer)
		if x.op == plan.OpB {
			over = backward
		}
		during = input + x.output + over + stored
		v.sample(c.Start, fixed, during)
		if m := fixed + during; m > r.TaskMemory[i] || peakOp < 0 {
			r.TaskMemory[i], peakOp = m, c.Op
		}
		if x.op == plan.OpF {
			count[x.layer-1]++
			nca[x.layer-1] = max(nca[x.layer-1], count[x.layer-1])
			stored += v.chain.KeptBy(x.layer)
		} else {
			count[x.layer-1]--
			stored -= v.chain.KeptBy(x.layer)
		}
		if v.waits(c.step) {
			stored += x.output
		}
		if k+1 < len(order) || c.End < v.Period-v.Eps {
			v.sample(c.End, fixed, stored)
		}
	}
	if n := len(order); v.samples != nil && n > 0 && order[n-1].End > v.Period+v.Eps {
		v.wrapped(order[n-1].End-v.Period, fixed, during, atEnd)
	}

	stage := fixed
	for l := range v.owner {
		stage += float64(nca[l]) * v.chain.KeptBy(l+1)
		r.NCA[l] = max(r.NCA[l], nca[l])
	}
	r.StageMemory[i] = stage
	return peakOp
}

// wrapped notes that what runs last goes on in the next period until an instant.
func (v *pattern) wrapped(until, fixed, during, stored float64) {
	rest := v.samples
	v.samples = v.samples[:0:0]
	v.sample(0, fixed, during)
	v.sample(until, fixed, stored)
	for _, x := range rest {
		if x.Time >= until {
			v.sample(x.Time, x.Weights, x.Activations)
		}
	}
}

// computes reports whether step s is a forward or backward that processor i has.
func (v *pattern) computes(s, i int) bool {
	x := &v.steps[s]
	return (x.op == plan.OpF || x.op == plan.OpB) && v.has(x.layer, i)
}

// has reports whether processor i has layer l.
func (v *pattern) has(l, i int) bool {
	return v.owner[l-1] <= i && i < v.owner[l-1]+v.copies[l-1]
}

// waits reports whether the output of a step stays on its processor until the
// next step, which is there, too.
func (v *pattern) waits(s int) bool {
	return s+1 < len(v.steps) && v.steps[s+1].op != plan.OpAR && v.steps[s].resource == v.steps[s+1].resource &&
		!v.resources[v.steps[s].resource].link
}

// fixed returns what processor i stores all the time: weights and buffers.
func (v *pattern) fixed(i int) float64 {
	fixed := 0.0
	for l := range v.owner {
		here := v.has(l+1, i)
		if here {
			fixed += float64(v.plan.Platform.WeightCopies) * v.chain.Layers[l].Weight
		}
		if l > 0 && v.cut(l) && (here || v.has(l, i)) {
			fixed += v.chain.A(l)
			fixed += v.chain.Delta(l)
		}
	}
	return fixed
}

// order returns the computations of processor i in the order in which they run
// in a period.
func (v *pattern) order(i int) []task {
	var all []task
	for s := range v.steps {
		if !v.computes(s, i) {
			continue
		}
		for _, t := range v.turnsOn(&v.steps[s], i) {
			all = append(all, task{turn: t, step: s})
		}
	}
	slices.SortFunc(all, func(a, b task) int { return replay.ByStart(a.Arc, b.Arc) })
	for from := 0; from < len(all); {
		to := from + 1
		for to < len(all) && all[to].Start-all[to-1].Start <= v.Eps {
			to++
		}
		v.orderInstant(all[from:to])
		from = to
	}
	return all
}

// orderInstant puts in order computations that start at the same instant:
// those that take no time before one that does, and each time the first in the
// plan whose mini-batch has nothing to do before it. O(n·m) for n computations
// of m mini-batches.
func (v *pattern) orderInstant(all []task) {
	if len(all) < 2 {
		return
	}
	// Queues of one mini-batch each.
	slices.SortStableFunc(all, func(a, b task) int {
		if x, y := a.Length() > v.Eps, b.Length() > v.Eps; x || y {
			return cmp.Compare(truth(x), truth(y))
		}
		return cmp.Or(cmp.Compare(a.shift, b.shift), cmp.Compare(a.step, b.step), cmp.Compare(a.Op, b.Op))
	})
	var queues [][]task
	n := 0
	for ; n < len(all) && all[n].Length() <= v.Eps; n++ {
		if q := len(queues) - 1; n > 0 && all[n-1].shift == all[n].shift {
			queues[q] = append(queues[q], all[n])
		} else {
			queues = append(queues, []task{all[n]})
		}
	}
	for i := range n {
		next := -1
		for q := range queues {
			if len(queues[q]) > 0 && (next < 0 || queues[q][0].Op < queues[next][0].Op) {
				next = q
			}
		}
		all[i], queues[next] = queues[next][0], queues[next][1:]
	}
}

// truth returns 1 for true.
func truth(x bool) int {
	if x {
		return 1
	}
	return 0
}
