// Package placement has the verifier of placements: plans that give buffers addresses
// and have no operations.
package placement

import (
	"fmt"
	"math"
	"slices"

	"workbench/model/instance/lifetimes"
	"workbench/model/plan"
	"workbench/model/platform"
)

// Verify looks at p, a plan of [plan.Placement], on l: every buffer has one
// offset, a whole number of units from 0 on and a multiple of the instance's alignment, buffers alive together do not
// overlap, and what they reach up to, the peak, is within the memory. There are no
// operations. Of several buffers that are in the way of one, one is named.
// O(n log n) beside the moves in a sorted list of what is alive.
func Verify(l *lifetimes.Lifetimes, p *plan.Plan) (*plan.Report, error) {
	v, err := newReplay(l, p)
	if err != nil {
		return nil, err
	}
	v.sweep()
	if peak := v.report.PeakMemory; !platform.Fits(peak, v.of.Platform.Memory) {
		v.broken(plan.RuleMemory, v.peakTime, l.Unit.Bytes(peak-v.of.Platform.Memory),
			"buffer %q reaches up to %s; there is memory for %s", v.peakBuffer, v.of.Size(peak), v.of.Size(v.of.Platform.Memory))
	}
	v.report.PeakTime = v.peakTime
	plan.SortViolations(v.report.Violations)
	v.report.ClaimErrors = plan.CompareClaims(v.of, v.report)
	return v.report.In(l.Unit, p.Unit), nil
}

// replay is a placement being looked at.
type replay struct {
	l      *lifetimes.Lifetimes
	of     *plan.Plan // in the unit of l
	report *plan.Report
	at     []float64 // by buffer; NaN: it has no offset

	peakTime   float64
	peakBuffer string
}

// newReplay reads the offsets.
func newReplay(l *lifetimes.Lifetimes, p *plan.Plan) (*replay, error) {
	invalid := plan.ErrNoInstance
	if l != nil {
		invalid = l.Validate()
	}
	switch {
	case p == nil:
		return nil, fmt.Errorf("%w: no plan", plan.ErrUnreadable)
	case p.Problem != plan.Placement:
		return nil, fmt.Errorf("%w: problem is %q, not %q", plan.ErrUnreadable, p.Problem, plan.Placement)
	case invalid != nil:
		return nil, fmt.Errorf("%w: the instance is not valid: %w", plan.ErrUnreadable, invalid)
	case !(p.Platform.Memory >= 0):
		return nil, fmt.Errorf("%w: platform.memory is %g; it must be a number from 0 on", plan.ErrUnreadable, p.Platform.Memory)
	}
	v := &replay{l: l, of: p.In(l.Unit), report: &plan.Report{PeakOp: -1}, at: make([]float64, len(l.Buffers))}
	buffer := make(map[string]int, len(l.Buffers))
	for i := range l.Buffers {
		v.at[i], buffer[l.Buffers[i].ID] = math.NaN(), i
	}
	for k := range p.Ops {
		v.broken(plan.RuleUnknownOp, 0, 0, "ops[%d], %s: a placement has no operations", k, &p.Ops[k])
	}
	for _, o := range v.of.Offsets {
		i, ok := buffer[o.ID]
		switch {
		case !ok:
			v.broken(plan.RuleBuffer, 0, 0, "there is no buffer %q", o.ID)
			continue
		case !math.IsNaN(v.at[i]):
			v.broken(plan.RuleTwice, 0, 0, "buffer %q has a second offset", o.ID)
			continue
		case !(o.Offset >= 0) || o.Offset != math.Trunc(o.Offset) || o.Offset >= 2*platform.MaxTotal:
			v.broken(plan.RuleOffset, 0, 0, "the offset of buffer %q is %g; it is a whole number from 0 on", o.ID, l.Unit.Bytes(o.Offset))
			continue
		case math.Mod(o.Offset, float64(l.Grid())) != 0:
			v.broken(plan.RuleOffset, 0, 0, "the offset of buffer %q is %g; it is a multiple of %d bytes, the alignment", o.ID, l.Unit.Bytes(o.Offset), l.Align)
			continue
		}
		v.at[i] = o.Offset
	}
	for i := range l.Buffers {
		if math.IsNaN(v.at[i]) {
			v.broken(plan.RuleMissing, float64(l.Buffers[i].Lower), 0, "buffer %q has no offset", l.Buffers[i].ID)
		}
	}
	return v, nil
}

func (v *replay) broken(rule string, time, amount float64, format string, args ...any) {
	v.report.Violations = append(v.report.Violations, plan.Violation{Rule: rule, Op: -1, Time: time, Amount: amount, Detail: fmt.Sprintf(format, args...)})
}

// sweep goes through the time with the buffers that are alive in the order of their
// offsets: a new one overlaps one of its two neighbours if it overlaps any.
func (v *replay) sweep() {
	type edge struct {
		time   int64
		begins bool
		buffer int
	}
	var edges []edge
	for i := range v.l.Buffers {
		if x := &v.l.Buffers[i]; !math.IsNaN(v.at[i]) && x.Size > 0 {
			edges = append(edges, edge{x.Lower, true, i}, edge{x.Upper, false, i})
		}
	}
	slices.SortFunc(edges, func(a, b edge) int {
		switch {
		case a.time != b.time && a.time < b.time, a.time == b.time && !a.begins && b.begins:
			return -1
		case a.time != b.time || a.begins != b.begins:
			return 1
		}
		return a.buffer - b.buffer
	})
	top := func(i int) float64 { return v.at[i] + v.l.Buffers[i].Size }
	var alive []int
	find := func(i int) (int, bool) {
		return slices.BinarySearchFunc(alive, v.at[i], func(j int, at float64) int {
			switch {
			case v.at[j] < at:
				return -1
			case v.at[j] > at:
				return 1
			}
			return 0
		})
	}
	for _, e := range edges {
		i := e.buffer
		k, found := find(i)
		if !e.begins {
			if found && alive[k] == i {
				alive = slices.Delete(alive, k, k+1)
			}
			continue
		}
		if top(i) > v.report.PeakMemory {
			v.report.PeakMemory, v.peakTime, v.peakBuffer = top(i), float64(e.time), v.l.Buffers[i].ID
		}
		clash := -1
		if k > 0 && top(alive[k-1]) > v.at[i] {
			clash = alive[k-1]
		} else if k < len(alive) && v.at[alive[k]] < top(i) {
			clash = alive[k]
		}
		if clash < 0 {
			alive = slices.Insert(alive, k, i)
			continue
		}
		v.broken(plan.RuleOverlap, float64(e.time), v.l.Unit.Bytes(min(top(i), top(clash))-max(v.at[i], v.at[clash])),
			"buffers %q and %q are alive at %d and both there from %s on", v.l.Buffers[clash].ID, v.l.Buffers[i].ID, e.time, v.of.Size(max(v.at[i], v.at[clash])))
	}
}

// Summary is what one wants to know of a placement at a glance. Sizes are
// in bytes.
type Summary struct {
	plan.About
	Buffers    int     `json:"buffers"`
	Height     float64 `json:"height"`
	Load       float64 `json:"load"` // the most that is alive at a time
	Memory     float64 `json:"memory"`
	Violations int     `json:"violations"` // broken rules
}

// Summarize sums up p, a plan of [plan.Placement]. The error is that of
// [Verify].
func Summarize(l *lifetimes.Lifetimes, p *plan.Plan) (*Summary, error) {
	r, err := Verify(l, p)
	if err != nil {
		return nil, err
	}
	return &Summary{
		About: p.About(), Buffers: len(l.Buffers),
		Height: p.Unit.Bytes(r.PeakMemory), Load: l.Unit.Bytes(loadOf(l)), Memory: p.Unit.Bytes(p.Platform.Memory), Violations: len(r.Violations),
	}, nil
}

// loadOf returns the largest sum of the sizes of buffers alive together.
func loadOf(l *lifetimes.Lifetimes) float64 {
	change := map[int64]float64{}
	for i := range l.Buffers {
		x := &l.Buffers[i]
		change[x.Lower] += x.Size
		change[x.Upper] -= x.Size
	}
	times := make([]int64, 0, len(change))
	for t := range change {
		times = append(times, t)
	}
	slices.Sort(times)
	now, most := 0.0, 0.0
	for _, t := range times {
		now += change[t]
		most = max(most, now)
	}
	return most
}

// String returns the summary as lines of text.
func (s *Summary) String() string {
	var b plan.Sheet
	b.Title(&s.About, "buffers")
	b.Line("height", "%s of %s for %s", platform.FormatBytes(s.Height), platform.FormatBytes(s.Memory), platform.Count(s.Buffers, "buffer"))
	b.Line("load", "%s, the most that is alive at a time; the height is %.3f %% above it", platform.FormatBytes(s.Load), 100*(s.Height-s.Load)/max(s.Load, 1))
	return b.End(s.Violations)
}
