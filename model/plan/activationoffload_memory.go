package plan

import "workbench/model/platform"

// A memoryPoint is the memory in use at an instant at which it may be at its
// most: when a computation or a prefetch has just started, or, late, right
// before something happens while a prefetch runs.
type memoryPoint struct {
	op   int // that started; late: the prefetch
	time float64
	late bool
	use  MemoryParts
}

// inUse returns what is stored, coming, and needed by what runs.
func (v *offloadReplay) inUse() MemoryParts {
	m := v.parts()
	m.Activations += v.running[activations]
	m.Saved += v.running[saved]
	m.Gradients += v.running[gradients]
	m.Overhead = v.overhead
	return m
}

// point notes the memory in use now.
func (v *offloadReplay) point(k int, late bool) {
	t := v.now
	if start := v.plan.Ops[k].Start; !late && Finite(start) {
		t = start
	}
	v.points = append(v.points, memoryPoint{op: k, time: t, late: late, use: v.inUse()})
}

// note adds a step of the memory profile.
func (v *offloadReplay) note(k int, start, end float64) {
	use := v.inUse()
	v.steps = append(v.steps, MemoryStep{Op: k, Start: start, End: end, During: use, After: use})
}

// recordFinal notes what is in use after the last step.
func (v *offloadReplay) recordFinal() {
	if v.record && len(v.steps) > 0 {
		v.steps[len(v.steps)-1].After = v.inUse()
	}
}

// judgeMemory finds the peak, and the starts at which memory exceeds the limit;
// in the model of fractional communications also prefetches that go over it
// while they run, each once.
func (v *offloadReplay) judgeMemory() {
	var flying []*flight // that run at the point
	next := 0            // flight that has not started
	blamed := -1         // prefetch
	limit := v.limit
	if v.fractional { // what of a tensor has come is a real number, computed from times
		limit += Tolerance * v.limit
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
				use.add(f.part, -v.elsewhere(f, i))
				flying[n] = f
				n++
			}
			flying = flying[:n]
		}
		total := use.Total()
		if r := v.report; total > r.PeakMemory {
			r.PeakMemory, r.PeakOp, r.PeakTime = total, p.op, p.time
		}
		if platform.Fits(total, limit) || p.late && p.op == blamed {
			continue
		}
		what := "the start of"
		if p.late {
			what, blamed = "what has come of", p.op
		}
		q := v.plan
		v.broken(RuleMemory, p.op, q.Unit.Bytes(total-v.limit),
			"memory reaches %s of %s with %s %s: %s for a, %s for ā, %s for gradients, %s of overhead",
			q.Size(total), q.Size(v.limit), what, &q.Ops[p.op], q.Size(use.Activations), q.Size(use.Saved), q.Size(use.Gradients),
			q.Size(use.Overhead))
		v.report.Violations[len(v.report.Violations)-1].Time = p.time
	}
}

// elsewhere returns what of a tensor in flight does not count at point i: of a
// prefetch what has not come, of an offload what has been sent, unless the
// tensor is still used.
func (v *offloadReplay) elsewhere(f *flight, i int) float64 {
	o := &v.plan.Ops[f.op]
	part := (v.points[i].time - o.Start) / (o.End - o.Start)
	if !(part >= 0) { // by rounding, or a number too large
		part = 0
	}
	part = min(part, 1)
	switch {
	case o.Op == OpP:
		return f.size * (1 - part)
	case i < f.held:
		return 0
	}
	return f.size * part
}
