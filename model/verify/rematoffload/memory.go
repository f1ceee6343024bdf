package rematoffload

import (
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/verify/replay"
)

// A memoryPoint is the memory in use at an instant at which it may be at its
// most: when a computation or a prefetch has just started, or, late, right
// before something happens while a prefetch runs.
type memoryPoint struct {
	op   int // that started; late: the prefetch
	time float64
	late bool
	use  replay.MemoryParts
}

// inUse returns what is stored, coming, and needed by what runs.
func (v *offloadReplay) inUse() replay.MemoryParts {
	m := v.Parts()
	m.Activations += v.running[replay.Activations]
	m.Saved += v.running[replay.Saved]
	m.Gradients += v.running[replay.Gradients]
	m.Overhead = v.overhead
	return m
}

// point notes the memory in use now.
func (v *offloadReplay) point(k int, late bool) {
	t := v.now
	if start := v.Plan.Ops[k].Start; !late && plan.Finite(start) {
		t = start
	}
	v.points = append(v.points, memoryPoint{op: k, time: t, late: late, use: v.inUse()})
}

// note adds a step of the memory profile.
func (v *offloadReplay) note(k int, start, end float64) {
	use := v.inUse()
	v.Steps = append(v.Steps, replay.MemoryStep{Op: k, Start: start, End: end, During: use, After: use})
}

// recordFinal notes what is in use after the last step.
func (v *offloadReplay) recordFinal() {
	if v.Record && len(v.Steps) > 0 {
		v.Steps[len(v.Steps)-1].After = v.inUse()
	}
}

// judgeMemory finds the peak, and the starts at which memory exceeds the limit;
// in the model of fractional communications also prefetches that go over it
// while they run, each once.
func (v *offloadReplay) judgeMemory() {
	var flying []*flight // that run at the point
	next := 0            // flight that has not started
	blamed := -1         // prefetch
	limit := v.Limit
	if v.fractional { // what of a tensor has come is a real number, computed from times
		limit += plan.Tolerance * v.Limit
	}
	for i := range v.points {
		p := &v.points[i]
		if p.late && !v.fractional {
			continue // as at the last point, or less
		}
		use := p.use
		if v.fractional {
			for ; next < len(v.flights) && v.flights[next].from <= i; next++ {
				flying = append(flying, &v.flights[next])
			}
			n := 0
			for _, f := range flying {
				if f.until <= i {
					continue
				}
				use.Add(f.part, -v.elsewhere(f, i))
				flying[n] = f
				n++
			}
			flying = flying[:n]
		}
		total := use.Total()
		if r := v.Report; total > r.PeakMemory {
			r.PeakMemory, r.PeakOp, r.PeakTime = total, p.op, p.time
		}
		if platform.Fits(total, limit) || p.late && p.op == blamed {
			continue
		}
		what := "the start of"
		if p.late {
			what, blamed = "what has come of", p.op
		}
		q := v.Plan
		v.Broken(plan.RuleMemory, p.op, q.Unit.Bytes(total-v.Limit),
			"memory reaches %s of %s with %s %s: %s for a, %s for ā, %s for gradients, %s of overhead",
			q.Size(total), q.Size(v.Limit), what, &q.Ops[p.op], q.Size(use.Activations), q.Size(use.Saved), q.Size(use.Gradients),
			q.Size(use.Overhead))
		v.Report.Violations[len(v.Report.Violations)-1].Time = p.time
	}
}

// elsewhere returns what of a tensor in flight does not count at point i: of a
// prefetch what has not come, of an offload what has been sent, unless the
// tensor is still used.
func (v *offloadReplay) elsewhere(f *flight, i int) float64 {
	o := &v.Plan.Ops[f.op]
	part := (v.points[i].time - o.Start) / (o.End - o.Start)
	if !(part >= 0) { // by rounding, or a number too large
		part = 0
	}
	part = min(part, 1)
	switch {
	case o.Op == plan.OpP:
		return f.size * (1 - part)
	case i < f.held:
		return 0
	}
	return f.size * part
}
