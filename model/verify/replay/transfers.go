package replay

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"workbench/model/plan"
)

// What the replays of plans have in common whose transfers run beside the
// computations, of activations as of swapping.

// allowTransfers prepares r for such a plan: transfers do not make it longer, nor the
// tolerance larger. What moves needs a link to move on.
func (r *Replay) AllowTransfers(computes, moves func(o *plan.Op) bool) error {
	r.Report.Makespan = 0
	for k := range r.Plan.Ops {
		if o := &r.Plan.Ops[k]; computes(o) && plan.Finite(o.End) {
			r.Report.Makespan = max(r.Report.Makespan, o.End)
		}
	}
	r.eps = plan.Tolerance * r.Report.Makespan
	beta := r.Plan.Platform.Bandwidth
	if !(beta >= 0) || math.IsInf(beta, 0) {
		return fmt.Errorf("%w: platform.bandwidth is %g; it must be a number of bytes per second, 0 if nothing is transferred",
			plan.ErrUnreadable, beta)
	}
	for k := range r.Plan.Ops {
		if o := &r.Plan.Ops[k]; beta == 0 && moves(o) {
			return fmt.Errorf("%w: platform.bandwidth is 0; it must be a positive number of bytes per second for %s", plan.ErrUnreadable, o)
		}
	}
	return nil
}

// CheckLink checks that the transfers of a link, "in " if there are several, run
// one at a time; takes says for how long operation k uses it, if it does. Like
// the operations of the device they must not gain time by a million roundings.
func (r *Replay) CheckLink(link string, takes func(k int) (seconds float64, uses bool)) {
	var ops []int
	var busy Sum
	for k := range r.Plan.Ops {
		o := &r.Plan.Ops[k]
		if seconds, uses := takes(k); uses && plan.Finite(o.Start) && plan.Finite(o.End) {
			ops = append(ops, k)
			busy.Add(seconds)
		}
	}
	slices.SortStableFunc(ops, func(a, b int) int { return cmp.Compare(r.Plan.Ops[a].Start, r.Plan.Ops[b].Start) })
	last, end := -1, 0.0
	for _, k := range ops {
		o := &r.Plan.Ops[k]
		if last >= 0 && o.Start < end-r.eps {
			r.Broken(plan.RuleLinkOverlap, k, end-o.Start, "%s starts %.10g s before %s ends; the %slink carries one transfer at a time",
				o, end-o.Start, &r.Plan.Ops[last], link)
		}
		if last < 0 || o.End > end {
			last, end = k, o.End
		}
	}
	if gain := busy.Value() - end; gain > r.eps && !r.mistimed() {
		r.AtEnd(plan.RuleDuration, gain, "the %stransfers take %.10g s together and end at %.10g s", link, busy.Value(), end)
	}
}

// A timing is when an operation takes place.
type Timing struct {
	Meant      bool // it means something
	Start, End int  // instants
}

// An edge is the start or the end of an operation.
type Event struct {
	Time    float64
	Op      int
	Side    int8 // 0: start, 1: end
	Phase   int8
	Instant int
}

// Phases of an instant.
const (
	Ending   int8 = iota // of what began at an earlier instant
	Starting             // and what begins and ends at this one
	Fetching             // of prefetches that take time
)

// Events returns the starts and ends of what means something, in the order in
// which they happen, and notes the timings. Runs of times each within eps of the
// next are one instant. What has no finite time comes after the last operation
// before it that is clocked; what takes time starts in the phase that begins
// says. O(operations · log operations).
func (r *Replay) Events(timings func(k int) *Timing, clocked func(o *plan.Op) bool, begins func(o *plan.Op) int8) []Event {
	es := make([]Event, 0, 2*len(r.Plan.Ops))
	clock := 0.0
	for k := range r.Plan.Ops {
		if !timings(k).Meant {
			continue
		}
		o := &r.Plan.Ops[k]
		start, end := o.Start, o.End
		if !plan.Finite(start) || !plan.Finite(end) {
			start, end = clock, clock
		}
		end = max(start, end)
		if clocked(o) {
			clock = end
		}
		es = append(es, Event{Time: start, Op: k}, Event{Time: end, Op: k, Side: 1})
	}
	slices.SortFunc(es, func(a, b Event) int { return cmp.Compare(a.Time, b.Time) })
	instant := 0
	for i := range es {
		if i > 0 && es[i].Time-es[i-1].Time > r.eps {
			instant++
		}
		e := &es[i]
		e.Instant = instant
		if x := timings(e.Op); e.Side == 0 {
			x.Start = instant
		} else {
			x.End = instant
		}
	}
	for i := range es {
		e := &es[i]
		switch x := timings(e.Op); {
		case x.End == x.Start:
			e.Phase = Starting
		case e.Side == 1:
			e.Phase = Ending
		default:
			e.Phase = begins(&r.Plan.Ops[e.Op])
		}
	}
	slices.SortFunc(es, func(a, b Event) int {
		return cmp.Or(cmp.Compare(a.Instant, b.Instant), cmp.Compare(a.Phase, b.Phase), cmp.Compare(a.Op, b.Op), cmp.Compare(a.Side, b.Side))
	})
	return es
}

// Blocks receives the blocks of memory that a replay takes and gives back, in the order in which that happens.
type Blocks interface {
	// Allocate takes a block of the given number of units for a tensor and returns its number, -1 for a block of no bytes.
	Allocate(time, units float64, tensor string, layer int) int32
	// Free gives a block back, unless it is -1, and sets it to -1.
	Free(time float64, block *int32)
}

// NoBlocks ignores them.
type NoBlocks struct{}

// Allocate implements [Blocks].
func (NoBlocks) Allocate(float64, float64, string, int) int32 { return -1 }

// Free implements [Blocks].
func (NoBlocks) Free(float64, *int32) {}
