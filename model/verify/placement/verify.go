// Package placement has the verifier of placements: plans that give buffers addresses
// and have no operations.
package placement

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"workbench/model/instance/lifetimes"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/verify/replay"
)

// Verify checks p, a plan of [plan.Placement], on l. Every buffer has one offset: an integer
// of units from 0 on, a multiple of its alignment, its pin if it has one, within the
// capacity of its pool and outside of the reserved ranges. Buffers of a pool that are alive
// together and not excluded do not overlap, nor do separated ones and those beside an
// exclusive one at any time; colocated ones are at one offset. The sum of the heights of
// the pools, the peak, is within the memory. There are no operations. Of several buffers
// that overlap one, one is named, except in pools with exclusions.
// O(n log n + pairs) and the moves in a sorted list of what is alive; in pools with
// exclusions O(pairs that share an address).
func Verify(l *lifetimes.Lifetimes, p *plan.Plan) (*plan.Report, error) {
	v, err := newChecker(l, p)
	if err != nil {
		return nil, err
	}
	for i := range l.Buffers {
		v.buffer(i)
	}
	v.heights()
	v.overlaps()
	v.pairs()
	if peak := v.report.PeakMemory; !platform.Fits(peak, v.of.Platform.Memory) {
		v.broken(plan.RuleMemory, v.peakTime, l.Unit.Bytes(peak-v.of.Platform.Memory),
			"buffer %q reaches up to %s; there is memory for %s", v.peakBuffer, v.of.Size(peak), v.of.Size(v.of.Platform.Memory))
	}
	v.report.PeakTime = v.peakTime
	replay.SortViolations(v.report.Violations)
	v.report.ClaimErrors = replay.CompareClaims(v.of, v.report)
	return v.report.Converted(l.Unit, p.Unit), nil
}

// checker is a placement being checked.
type checker struct {
	l        *lifetimes.Lifetimes
	pools    []lifetimes.Pool
	of       *plan.Plan // in the unit of l
	report   *plan.Report
	at       []float64 // by buffer; NaN: it has no offset
	excluded map[lifetimes.Pair]bool

	peakTime   float64
	peakBuffer string
}

// newChecker reads the offsets.
func newChecker(l *lifetimes.Lifetimes, p *plan.Plan) (*checker, error) {
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
	objective := cmp.Or(p.Platform.Objective, l.Objective, lifetimes.Height)
	if !slices.Contains(lifetimes.Objectives(), objective) {
		return nil, fmt.Errorf("%w: platform.objective is %q; it is one of %q", plan.ErrUnreadable, objective, lifetimes.Objectives())
	}
	v := &checker{
		l: l, pools: l.PoolList(), of: p.Converted(l.Unit), report: &plan.Report{PeakOp: -1}, at: make([]float64, len(l.Buffers)),
		excluded: map[lifetimes.Pair]bool{},
	}
	v.report.Placement = &plan.PlacementReport{Objective: objective, Heights: make([]float64, len(v.pools))}
	for _, x := range l.Exclusions {
		v.excluded[x], v.excluded[lifetimes.Pair{First: x.Second, Second: x.First}] = true, true
	}
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
		case !math.IsNaN(v.at[i]):
			v.broken(plan.RuleTwice, 0, 0, "buffer %q has a second offset", o.ID)
		case !(o.Offset >= 0) || o.Offset != math.Trunc(o.Offset) || o.Offset >= 2*platform.MaxTotal:
			v.broken(plan.RuleOffset, 0, 0, "the offset of buffer %q is %g; it is an integer ≥ 0", o.ID, l.Unit.Bytes(o.Offset))
		default:
			v.at[i] = o.Offset
		}
	}
	return v, nil
}

func (v *checker) broken(rule string, time, amount float64, format string, args ...any) {
	v.report.Violations = append(v.report.Violations, plan.Violation{
		Rule: rule, Op: -1, Time: time, Amount: amount,
		Detail: fmt.Sprintf(format, args...),
	})
}

// top returns where a buffer ends.
func (v *checker) top(i int) float64 { return v.at[i] + v.l.Buffers[i].Size }

// placed reports whether a buffer takes addresses.
func (v *checker) placed(i int) bool { return !math.IsNaN(v.at[i]) && v.l.Buffers[i].Size > 0 }

// extent writes the addresses of a buffer.
func (v *checker) extent(i int) string {
	return fmt.Sprintf("[%s, %s)", v.of.Size(v.at[i]), v.of.Size(v.top(i)))
}

// buffer checks the offset of a buffer alone.
func (v *checker) buffer(i int) {
	x := &v.l.Buffers[i]
	time, pool := float64(x.Lower), &v.pools[x.Pool]
	if math.IsNaN(v.at[i]) {
		v.broken(plan.RuleMissing, time, 0, "buffer %q has no offset", x.ID)
		return
	}
	align := max(1, v.l.Align)
	if x.Align > 0 {
		align = x.Align
	}
	if grid := float64(align) * v.l.Unit.PerByte(); (x.Align > 0 || v.l.Align > 0) && math.Mod(v.at[i], grid) != 0 {
		v.broken(plan.RuleOffset, time, 0, "the offset of buffer %q is %s; it is a multiple of %d bytes, the alignment", x.ID, v.of.Size(v.at[i]),
			align)
	}
	if x.Pinned && v.at[i] != x.Offset {
		v.broken(plan.RulePin, time, v.l.Unit.Bytes(math.Abs(v.at[i]-x.Offset)), "buffer %q is at %s and is pinned to %s", x.ID,
			v.of.Size(v.at[i]), v.of.Size(x.Offset))
	}
	if x.Size == 0 {
		return
	}
	if over := v.top(i) - pool.Capacity; over > 0 {
		v.broken(plan.RuleCapacity, time, v.l.Unit.Bytes(over), "buffer %q reaches up to %s; pool %q has %s", x.ID, v.of.Size(v.top(i)), pool.ID,
			v.of.Size(pool.Capacity))
	}
	for _, r := range pool.Reserved {
		if shared := min(v.top(i), r.End) - max(v.at[i], r.Begin); shared > 0 {
			v.broken(plan.RuleReserved, time, v.l.Unit.Bytes(shared), "buffer %q is at %s, and [%s, %s) is reserved", x.ID, v.extent(i),
				v.of.Size(r.Begin), v.of.Size(r.End))
		}
	}
}

// heights finds what each pool reaches up to, and the buffer that reaches highest in all.
func (v *checker) heights() {
	heights, highest := v.report.Placement.Heights, 0.0
	for i := range v.l.Buffers {
		if !v.placed(i) {
			continue
		}
		x := &v.l.Buffers[i]
		heights[x.Pool] = max(heights[x.Pool], v.top(i))
		if t := float64(x.Lower); v.top(i) > highest || v.top(i) == highest && t < v.peakTime {
			highest, v.peakTime, v.peakBuffer = v.top(i), t, x.ID
		}
	}
	for _, h := range heights {
		v.report.PeakMemory += h
	}
}

// overlaps checks buffers that are alive together, pool by pool.
func (v *checker) overlaps() {
	branches := make([]bool, len(v.pools))
	for _, x := range v.l.Exclusions {
		branches[v.l.Buffers[x.First].Pool] = true
	}
	in := make([][]int, len(v.pools))
	for i := range v.l.Buffers {
		if v.placed(i) {
			in[v.l.Buffers[i].Pool] = append(in[v.l.Buffers[i].Pool], i)
		}
	}
	for pool, buffers := range in {
		if branches[pool] {
			v.compare(buffers)
		} else {
			v.sweep(buffers)
		}
	}
}

// shared records that two buffers overlap at a time.
func (v *checker) shared(i, j int, time float64) {
	from := max(v.at[i], v.at[j])
	v.broken(plan.RuleOverlap, time, v.l.Unit.Bytes(min(v.top(i), v.top(j))-from),
		"buffers %q and %q are alive at %g and both there from %s on", v.l.Buffers[i].ID, v.l.Buffers[j].ID, time, v.of.Size(from))
}

// compare looks at every two buffers that share an address.
func (v *checker) compare(buffers []int) {
	slices.SortStableFunc(buffers, func(i, j int) int { return cmp.Compare(v.at[i], v.at[j]) })
	for k, i := range buffers {
		for _, j := range buffers[k+1:] {
			if v.at[j] >= v.top(i) {
				break
			}
			if t, both := v.meet(i, j); both && !v.excluded[lifetimes.Pair{First: i, Second: j}] {
				v.shared(i, j, float64(t))
			}
		}
	}
}

// meet returns the first instant at which two buffers are alive.
func (v *checker) meet(i, j int) (int64, bool) {
	for _, p := range v.l.Buffers[i].Intervals() {
		for _, q := range v.l.Buffers[j].Intervals() {
			if t := max(p.Lower, q.Lower); t < min(p.Upper, q.Upper) {
				return t, true
			}
		}
	}
	return 0, false
}

// sweep goes through the time with the buffers that are alive in the order of their
// offsets: a new one overlaps one of its two neighbours if it overlaps any.
func (v *checker) sweep(buffers []int) {
	type edge struct {
		time   int64
		begins int
		buffer int
	}
	var edges []edge
	for _, i := range buffers {
		for _, x := range v.l.Buffers[i].Intervals() {
			edges = append(edges, edge{x.Lower, 1, i}, edge{x.Upper, 0, i})
		}
	}
	slices.SortFunc(edges, func(a, b edge) int {
		return cmp.Or(cmp.Compare(a.time, b.time), cmp.Compare(a.begins, b.begins), cmp.Compare(a.buffer, b.buffer))
	})
	var alive []int
	for _, e := range edges {
		i := e.buffer
		k, found := slices.BinarySearchFunc(alive, v.at[i], func(j int, at float64) int { return cmp.Compare(v.at[j], at) })
		if e.begins == 0 {
			if found && alive[k] == i {
				alive = slices.Delete(alive, k, k+1)
			}
			continue
		}
		switch {
		case k > 0 && v.top(alive[k-1]) > v.at[i]:
			v.shared(alive[k-1], i, float64(e.time))
		case k < len(alive) && v.at[alive[k]] < v.top(i):
			v.shared(alive[k], i, float64(e.time))
		default:
			alive = slices.Insert(alive, k, i)
		}
	}
}

// pairs checks separations, exclusive buffers and colocations, and adds up penalties.
func (v *checker) pairs() {
	both := func(i, j int) float64 { // addresses that two buffers share
		if !v.placed(i) || !v.placed(j) || v.l.Buffers[i].Pool != v.l.Buffers[j].Pool {
			return 0
		}
		return max(0, min(v.top(i), v.top(j))-max(v.at[i], v.at[j]))
	}
	apart := func(i, j int, why string) {
		if n := both(i, j); n > 0 {
			v.broken(plan.RuleSeparation, float64(v.l.Buffers[i].Lower), v.l.Unit.Bytes(n), "buffers %q and %q %s and are at %s and %s",
				v.l.Buffers[i].ID, v.l.Buffers[j].ID, why, v.extent(i), v.extent(j))
		}
	}
	for _, x := range v.l.Separations {
		apart(x.First, x.Second, "are separated")
	}
	for i := range v.l.Buffers {
		for j := 0; v.l.Buffers[i].Exclusive && j < len(v.l.Buffers); j++ {
			if i != j && (i < j || !v.l.Buffers[j].Exclusive) {
				apart(i, j, "may not share an address, the first being exclusive,")
			}
		}
	}
	for _, x := range v.l.Colocations {
		if a, b := v.at[x.First], v.at[x.Second]; a != b && !math.IsNaN(a) && !math.IsNaN(b) {
			v.broken(plan.RuleColocated, float64(v.l.Buffers[x.First].Lower), v.l.Unit.Bytes(math.Abs(a-b)),
				"buffers %q and %q are colocated and begin at %s and %s",
				v.l.Buffers[x.First].ID, v.l.Buffers[x.Second].ID, v.of.Size(a), v.of.Size(b))
		}
	}
	for _, x := range v.l.Penalties {
		if both(x.First, x.Second) > 0 {
			v.report.Placement.Penalty += float64(x.Cost)
		}
	}
}

// Summary is what one wants to know of a placement at a glance. Sizes are
// in bytes.
type Summary struct {
	replay.About
	Buffers    int     `json:"buffers"`
	Height     float64 `json:"height"`
	Load       float64 `json:"load"` // the most that is alive at a time
	Memory     float64 `json:"memory"`
	Violations int     `json:"violations"` // broken rules
	// Of several pools: the height of each. Of penalties: those that are charged.
	Heights []float64 `json:"heights,omitempty"`
	Penalty *float64  `json:"penalty,omitempty"`
}

// Summarize sums up p, a plan of [plan.Placement]. The error is that of
// [Verify].
func Summarize(l *lifetimes.Lifetimes, p *plan.Plan) (*Summary, error) {
	r, err := Verify(l, p)
	if err != nil {
		return nil, err
	}
	x := &Summary{
		About: replay.NewAbout(p), Buffers: len(l.Buffers),
		Height: p.Unit.Bytes(r.PeakMemory), Load: l.Unit.Bytes(loadOf(l)), Memory: p.Unit.Bytes(p.Platform.Memory), Violations: len(r.Violations),
	}
	if len(l.Pools) > 1 {
		for _, h := range r.Placement.Heights {
			x.Heights = append(x.Heights, p.Unit.Bytes(h))
		}
	}
	if len(l.Penalties) > 0 {
		x.Penalty = &r.Placement.Penalty
	}
	return x, nil
}

// loadOf returns the sum over all pools of the largest sum of the sizes of buffers alive
// together.
func loadOf(l *lifetimes.Lifetimes) float64 {
	sum := 0.0
	for pool := range l.PoolList() {
		change := map[int64]float64{}
		for i := range l.Buffers {
			if x := &l.Buffers[i]; x.Pool == pool {
				for _, v := range x.Intervals() {
					change[v.Lower] += x.Size
					change[v.Upper] -= x.Size
				}
			}
		}
		now, most := 0.0, 0.0
		for _, t := range slices.Sorted(maps.Keys(change)) {
			now += change[t]
			most = max(most, now)
		}
		sum += most
	}
	return sum
}

// String returns the summary as lines of text.
func (s *Summary) String() string {
	var b replay.Sheet
	b.Title(&s.About, "buffers")
	b.Line("height", "%s of %s for %s", platform.FormatBytes(s.Height), platform.FormatBytes(s.Memory), platform.Count(s.Buffers, "buffer"))
	b.Line("load", "%s, the most that is alive at a time; the height is %.3f %% above it", platform.FormatBytes(s.Load),
		100*(s.Height-s.Load)/max(s.Load, 1))
	for k, h := range s.Heights {
		b.Line("", "%s in pool %d", platform.FormatBytes(h), k+1)
	}
	if s.Penalty != nil {
		b.Line("penalty", "%g", *s.Penalty)
	}
	return b.End(s.Violations)
}
