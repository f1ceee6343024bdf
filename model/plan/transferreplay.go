package plan

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// What the replays of plans have in common whose transfers run beside the
// computations, of activations as of swapping.

// allowTransfers prepares r for such a plan: transfers do not make it longer, nor the
// tolerance larger. What moves needs a link to move on.
func (r *replay) allowTransfers(computes, moves func(o *Op) bool) error {
	r.report.Makespan = 0
	for k := range r.plan.Ops {
		if o := &r.plan.Ops[k]; computes(o) && Finite(o.End) {
			r.report.Makespan = max(r.report.Makespan, o.End)
		}
	}
	r.eps = Tolerance * r.report.Makespan
	beta := r.plan.Platform.Bandwidth
	if !(beta >= 0) || math.IsInf(beta, 0) {
		return fmt.Errorf("%w: platform.bandwidth is %g; it must be a number of bytes per second, 0 if nothing is transferred", ErrUnreadable,
			beta)
	}
	for k := range r.plan.Ops {
		if o := &r.plan.Ops[k]; beta == 0 && moves(o) {
			return fmt.Errorf("%w: platform.bandwidth is 0; it must be a positive number of bytes per second for %s", ErrUnreadable, o)
		}
	}
	return nil
}

// checkLink checks that the transfers of a link, "in " if there are several, run
// one at a time; takes says for how long operation k uses it, if it does. Like
// the operations of the device they must not gain time by a million roundings.
func (r *replay) checkLink(link string, takes func(k int) (seconds float64, uses bool)) {
	var ops []int
	var busy Sum
	for k := range r.plan.Ops {
		o := &r.plan.Ops[k]
		if seconds, uses := takes(k); uses && Finite(o.Start) && Finite(o.End) {
			ops = append(ops, k)
			busy.Add(seconds)
		}
	}
	slices.SortStableFunc(ops, func(a, b int) int { return cmp.Compare(r.plan.Ops[a].Start, r.plan.Ops[b].Start) })
	last, end := -1, 0.0
	for _, k := range ops {
		o := &r.plan.Ops[k]
		if last >= 0 && o.Start < end-r.eps {
			r.broken(RuleLinkOverlap, k, end-o.Start, "%s starts %.10g s before %s ends; the %slink carries one transfer at a time",
				o, end-o.Start, &r.plan.Ops[last], link)
		}
		if last < 0 || o.End > end {
			last, end = k, o.End
		}
	}
	if gain := busy.Value() - end; gain > r.eps && !r.mistimed() {
		r.atEnd(RuleDuration, gain, "the %stransfers take %.10g s together and end at %.10g s", link, busy.Value(), end)
	}
}

// A timing is when an operation takes place.
type timing struct {
	meant      bool // it means something
	start, end int  // instants
}

// An edge is the start or the end of an operation.
type edge struct {
	time    float64
	op      int
	side    int8 // 0: start, 1: end
	phase   int8
	instant int
}

// Phases of an instant.
const (
	ending   int8 = iota // of what began at an earlier instant
	starting             // and what begins and ends at this one
)

// edges returns the starts and ends of what means something, in the order in
// which they happen, and notes the timings. Runs of times each within eps of the
// next are one instant. What has no finite time comes after the last operation
// before it that is clocked; what takes time starts in the phase that begins
// says. O(operations · log operations).
func (r *replay) edges(timings func(k int) *timing, clocked func(o *Op) bool, begins func(o *Op) int8) []edge {
	es := make([]edge, 0, 2*len(r.plan.Ops))
	clock := 0.0
	for k := range r.plan.Ops {
		if !timings(k).meant {
			continue
		}
		o := &r.plan.Ops[k]
		start, end := o.Start, o.End
		if !Finite(start) || !Finite(end) {
			start, end = clock, clock
		}
		end = max(start, end)
		if clocked(o) {
			clock = end
		}
		es = append(es, edge{time: start, op: k}, edge{time: end, op: k, side: 1})
	}
	slices.SortFunc(es, func(a, b edge) int { return cmp.Compare(a.time, b.time) })
	instant := 0
	for i := range es {
		if i > 0 && es[i].time-es[i-1].time > r.eps {
			instant++
		}
		e := &es[i]
		e.instant = instant
		if x := timings(e.op); e.side == 0 {
			x.start = instant
		} else {
			x.end = instant
		}
	}
	for i := range es {
		e := &es[i]
		switch x := timings(e.op); {
		case x.end == x.start:
			e.phase = starting
		case e.side == 1:
			e.phase = ending
		default:
			e.phase = begins(&r.plan.Ops[e.op])
		}
	}
	slices.SortFunc(es, func(a, b edge) int {
		return cmp.Or(cmp.Compare(a.instant, b.instant), cmp.Compare(a.phase, b.phase), cmp.Compare(a.op, b.op), cmp.Compare(a.side, b.side))
	})
	return es
}
