package rematgraph

import (
	"fmt"
	"math"

	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/proof"
)

// LinkedFits is [View.Fits] with a link to a host, over which all but pinned values can be
// offloaded. Each node needs its inputs, outputs and workspace in memory, together with pinned
// values that cannot be recomputed; all results are in memory at the end. Without pinned values
// this is sufficient, since everything not needed at once can be offloaded.
func (v *View) LinkedFits(memory float64) error {
	if bytes, why := v.LinkedLeast(); !platform.Fits(bytes, memory) {
		return &plan.Infeasible{Problem: plan.RematOffload, Memory: bytes, Given: memory, Why: why}
	}
	return nil
}

// LinkedLeast returns a proven lower bound on the memory of any plan with a link, in bytes, and the
// reason. O(n²·n/64).
func (v *View) LinkedLeast() (bytes float64, why string) {
	b := v.bounds()
	sure := make([]bool, v.M)
	for x := range v.N {
		if here := b.during(x, sure, true); here > bytes || x == 0 {
			bytes, why = here, fmt.Sprintf("%s with its inputs and the values that can be neither offloaded nor recomputed", v.Graph.Nodes[x].ID)
		}
	}
	end := v.Graph.Input
	for i, is := range v.Result {
		if is {
			end += v.Memory[i]
		}
	}
	if end > bytes {
		bytes, why = end, "all results are in memory at the end"
	}
	return bytes, why
}

// LinkedBound returns a proven lower bound on the makespan of any plan with the given memory in
// bytes and a link with the given bandwidth in bytes per second in each direction.
//
// It extends [View.TimeBound] by a third choice. Let τ be the time when node x first starts. Each
// value that existed before τ and is needed later is in memory at τ, possibly while being
// transferred; or its writer is recomputed after τ; or it is fetched after τ, and then its offload
// ended before τ. Let q be the bytes of the third kind. The link out is busy for q/β before τ, and
// the link in for q/β after it. The device computes the ancestors of x before τ, and x, its
// descendants and all recomputation after τ. Let lost(s) be the minimum recomputation time if s
// bytes are available. Then
//
//	T ≥ total + lost(room+q), T ≥ q/β + after + lost(room+q), T ≥ before + q/β, T ≥ 2q/β.
//
// The cut of a price p per byte proves lost(s) ≥ cut − p·s for every s (see relaxed). So T lies
// above lines in q. The minimum of their upper envelope is a bound, and the q where it is attained
// is where the next lines are sought (a cutting-plane method).
//
// O(n·(n + values)) for the selection of nodes, and linkedRounds·linkedMost times the minimum cuts
// of a price.
func (v *View) LinkedBound(memory, bandwidth float64) TimeBound {
	return v.bounds().remember([2]float64{memory, bandwidth}, func() TimeBound { return v.linkedBound(memory, bandwidth) })
}

func (v *View) linkedBound(memory, bandwidth float64) TimeBound {
	if v.LinkedFits(memory) != nil {
		_, why := v.LinkedLeast()
		return TimeBound{Seconds: math.Inf(1), Why: why, Node: -1}
	}
	b := v.bounds()
	l := &linked{bounds: b, choice: newChoice(b), bandwidth: bandwidth}
	for _, t := range b.time {
		l.total += t
	}
	all := b.mostExpensive(linkedMost, func(x int) (time int64, ok bool) {
		before, after := l.around(x)
		if !l.choice.load(x, memory) {
			return 0, false
		}
		l.choice.room += min(b.seconds(l.total-after), b.seconds(l.total-before)) * bandwidth // estimate of what can be offloaded
		time, _ = l.choice.fractional()
		return time, time > 0 || l.choice.room < 0
	})
	out := TimeBound{Node: -1, Why: proof.SumOfComputations, Seconds: b.seconds(l.total)}
	for _, p := range all {
		if bound := plan.RoundDown(l.boundAt(p.node, memory), linkedRoundings); bound > out.Seconds {
			out.Seconds, out.Node = bound, p.node
			out.Why = fmt.Sprintf("values that do not fit in memory during %s are offloaded or recomputed", v.Graph.Nodes[p.node].ID)
		}
	}
	return out
}

// Limits of LinkedBound: the number of nodes at which it is solved, the number of rounds of lines
// at each, and the number of rounding errors on the way to a bound.
const (
	linkedMost      = 12
	linkedRounds    = 6
	linkedRoundings = 32
)

// linked holds the data of LinkedBound.
type linked struct {
	*bounds
	choice    *choice
	bandwidth float64
	total     int64 // quanta, of all nodes
}

// seconds converts quanta to seconds.
func (b *bounds) seconds(quanta int64) float64 { return float64(quanta) * b.quantum }

// around returns the time, in quanta, of the ancestors of x, and that of x and its descendants.
func (l *linked) around(x int) (before, after int64) {
	for j := range each(l.row(l.before, x)) {
		before += l.time[j]
	}
	after = l.time[x]
	for j := range each(l.row(l.after, x)) {
		after += l.time[j]
	}
	return before, after
}

// line is the inequality T ≥ level + slope·q.
type line struct{ level, slope float64 }

// boundAt returns the bound of node x, in seconds.
func (l *linked) boundAt(x int, memory float64) float64 {
	l.choice.load(x, memory)
	room := l.choice.room
	least := max(0, -room) // minimum q
	b, a := l.around(x)
	total, before, after := l.seconds(l.total), l.seconds(b), l.seconds(a)
	lines := []line{{total, 0}, {after, 1 / l.bandwidth}, {before, 1 / l.bandwidth}, {0, 2 / l.bandwidth}}
	best, q := lowest(lines, least)
	r := &relaxed{choice: l.choice}
	for range linkedRounds {
		r.tangents = r.tangents[:0]
		if l.choice.room = room + q; l.choice.size > 0 {
			r.solve(0)
		}
		for _, t := range r.tangents {
			again, slope := l.seconds(t.cut)-t.price*l.quantum*room, -t.price*l.quantum
			lines = append(lines, line{total + again, slope}, line{after + again, slope + 1/l.bandwidth})
		}
		bound, next := lowest(lines, least)
		if bound <= best*(1+1e-9) {
			return max(best, bound)
		}
		best, q = bound, next
	}
	return best
}

// lowest returns the minimum over q ≥ least of the upper envelope of lines, and its q.
func lowest(lines []line, least float64) (t, q float64) {
	t, q = math.Inf(-1), least
	for _, f := range lines {
		if at := f.level + f.slope*least; f.slope >= 0 && at > t {
			t, q = at, least
		}
		for _, g := range lines {
			if f.slope >= 0 || g.slope <= 0 {
				continue
			}
			at := (f.level*g.slope - g.level*f.slope) / (g.slope - f.slope)
			meet := (f.level - g.level) / (g.slope - f.slope)
			if meet > least && at > t {
				t, q = at, meet
			}
		}
	}
	return t, q
}
