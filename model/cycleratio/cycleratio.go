// Package cycleratio finds the minimum period of a cyclic schedule with fixed orders: the maximum cycle ratio of a
// graph of precedences.
//
// All rules of such a schedule are precedences between two events, of the form
//
//	t[To] + Turns·T − t[From] ≥ Wait:
//
// event To comes at least Wait after event From of Turns cycles before. A cycle of precedences with turns K and
// waits C requires K·T ≥ C, so the minimum period is the largest C/K. A cycle with C > 0 and K ≤ 0 makes every
// period infeasible.
//
// It is found by Newton's method on the period. Start at a lower bound, look for a cycle that is positive at T,
// raise T to its ratio, and repeat. The search runs the passes of Bellman and Ford, stopped as soon as the edges
// that determine the times have a cycle. See A. Dasdan, "Experimental analysis of the fastest optimum cycle ratio
// and mean algorithms", 2004 (there: Burns' and Lawler's families). There are two differences. Passes visit the
// events in an order given by the caller, that of an approximate schedule, so that few passes suffice. And the
// largest ratio among all cycles of a pass is used.
package cycleratio

import (
	"errors"
	"math"
)

// Tolerance is the amount, relative to the period, by which a precedence may be violated. It covers the rounding
// of a sum of waits around a cycle, and is far below the tolerance of plan verifiers.
const Tolerance = 1e-13

// ErrContradiction is returned if no period satisfies the precedences.
var ErrContradiction = errors.New("precedences contradict each other: no period satisfies them")

// ErrCutoff is returned if the minimum period exceeds the cut-off.
var ErrCutoff = errors.New("the least period exceeds the cut-off")

// Precedence is t[To] + Turns·T − t[From] ≥ Wait.
type Precedence struct {
	From, To int
	Wait     float64
	Turns    int
}

type edge struct {
	from, to int32
	turns    int32
	wait     float64
}

// Graph is a set of precedences between events 0..n-1. It is reused for the
// next set by Reset, so that a search allocates nothing.
type Graph struct {
	raw   []edge
	edges []edge  // raw, sorted by target
	first []int32 // first[v]..first[v+1] are the edges into v
	order []int32 // events in the order of passes
	x     []float64
	via   []int32 // edge that determines x, -1: none
	mark  []int32

	critical []int
}

// Reset empties the graph and sets its number of events to n. O(n).
func (g *Graph) Reset(n int) {
	g.raw, g.order = g.raw[:0], g.order[:0]
	if cap(g.x) < n {
		g.first = make([]int32, n+1)
		g.x, g.via, g.mark = make([]float64, n), make([]int32, n), make([]int32, n)
	}
	g.first, g.x, g.via, g.mark = g.first[:n+1], g.x[:n], g.via[:n], g.mark[:n]
}

// Add adds a precedence.
func (g *Graph) Add(p Precedence) {
	g.raw = append(g.raw, edge{int32(p.From), int32(p.To), int32(p.Turns), p.Wait})
}

// Order appends v to the order in which passes visit events. Events that are never appended are not in the graph;
// if none is, all are, by number.
func (g *Graph) Order(v int) { g.order = append(g.order, int32(v)) }

// Least returns the minimum period, of at least from, for which event times exist that satisfy all precedences, up
// to Tolerance and to rounding in the period itself. It returns ErrCutoff if that exceeds cutoff, and
// ErrContradiction if no period suffices. Then, and whenever the period is above from, Critical is a cycle that
// requires it.
//
// A pass is O(events + precedences) and a few dozen are usual; each round of Newton's method takes at most as many
// passes as there are events.
func (g *Graph) Least(from, cutoff float64) (period float64, err error) {
	g.sort()
	T := from
	for {
		ratio, ok := g.pass(T)
		switch {
		case !ok:
			return 0, ErrContradiction
		case ratio == 0:
			return T, nil
		case ratio <= T: // positive only by rounding
			ratio = T * (1 + 1e-12)
		}
		if T = ratio; T > cutoff {
			return 0, ErrCutoff
		}
	}
}

// Times returns the event times at the period that Least returned, the earliest nonnegative ones that satisfy the
// precedences. They are valid until the next use of g.
func (g *Graph) Times() []float64 { return g.x }

// Critical returns the events of the last positive cycle found, possibly before Reset: a search for better orders
// starts there. It is valid until the next use of g.
func (g *Graph) Critical() []int { return g.critical }

// sort sorts the edges by target.
func (g *Graph) sort() {
	clear(g.first)
	for i := range g.raw {
		g.first[g.raw[i].to+1]++
	}
	for v := 1; v < len(g.first); v++ {
		g.first[v] += g.first[v-1]
	}
	if cap(g.edges) < len(g.raw) {
		g.edges = make([]edge, 2*len(g.raw))
	}
	g.edges = g.edges[:len(g.raw)]
	for i := range g.raw {
		e := &g.raw[i]
		g.edges[g.first[e.to]] = *e
		g.first[e.to]++
	}
	copy(g.first[1:], g.first)
	g.first[0] = 0
	if len(g.order) == 0 {
		for v := range g.x {
			g.order = append(g.order, int32(v))
		}
	}
}

// pass finds the earliest times at period T and returns 0, or returns the largest ratio of the positive cycles
// that it finds. ok is false if some cycle is positive at every T.
func (g *Graph) pass(T float64) (ratio float64, ok bool) {
	for _, v := range g.order {
		g.x[v] = 0
		g.via[v] = -1
	}
	slack := Tolerance * T
	for round := 0; ; round++ {
		changed := false
		for _, v := range g.order {
			x := g.x[v]
			for i := g.first[v]; i < g.first[v+1]; i++ {
				e := &g.edges[i]
				if t := g.x[e.from] + e.wait - float64(e.turns)*T; t > x+slack {
					x = t
					g.via[v] = i
					changed = true
				}
			}
			g.x[v] = x
		}
		if !changed {
			return 0, true
		}
		if round == 0 {
			continue
		}
		if ratio, ok = g.cycles(); !ok || ratio > 0 {
			return ratio, ok
		}
	}
}

// cycles returns the largest ratio of the cycles of the edges via, 0 if there is none, and keeps the events of
// that cycle. It returns false if a cycle has no ratio.
func (g *Graph) cycles() (float64, bool) {
	for _, v := range g.order {
		g.mark[v] = 0
	}
	best := math.Inf(-1)
	for i, v := range g.order {
		id := int32(i + 1)
		for u := v; g.mark[u] == 0 && g.via[u] >= 0; u = g.edges[g.via[u]].from {
			g.mark[u] = id
			w := g.edges[g.via[u]].from
			if g.mark[w] != id {
				continue
			}
			ratio, ok := g.ratio(w)
			if ratio > best || !ok {
				best = ratio
				g.keep(w)
			}
			if !ok {
				return 0, false
			}
		}
	}
	return max(best, 0), true
}

// ratio returns the ratio of the cycle of via that contains w; false if it has none.
func (g *Graph) ratio(w int32) (float64, bool) {
	wait, turns := 0.0, int32(0)
	for y := w; ; {
		e := &g.edges[g.via[y]]
		wait += e.wait
		turns += e.turns
		if y = e.from; y == w {
			break
		}
	}
	return wait / float64(turns), turns > 0
}

// keep stores the cycle of via that contains w as the critical one.
func (g *Graph) keep(w int32) {
	g.critical = g.critical[:0]
	for y := w; ; {
		g.critical = append(g.critical, int(y))
		if y = g.edges[g.via[y]].from; y == w {
			return
		}
	}
}

// Least returns the minimum period, of at least from, for precedences between n events, and the earliest
// nonnegative times for them. The error is ErrContradiction if no period suffices.
func Least(n int, precedences []Precedence, from float64) (period float64, times []float64, err error) {
	var g Graph
	g.Reset(n)
	for _, p := range precedences {
		g.Add(p)
	}
	if period, err = g.Least(from, math.Inf(1)); err != nil {
		return 0, nil, err
	}
	return period, g.Times(), nil
}
