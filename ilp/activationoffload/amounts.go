// Package activationoffload has the formulations of activation offloading.
package activationoffload

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"workbench/ilp/formulation"
	"workbench/model/instance/chain"
	"workbench/model/milp"
	"workbench/model/plan"
	"workbench/model/platform"
	view "workbench/model/problem/activationoffload"
)

// offload is our own MILP that bounds activation offloading from below, similar to the bound of
// [001] §6: amounts transferred per interval, idle times as columns, binaries for tensors that are
// completely on the host.
//
// Event 2k is the start of computation k, event 2k+1 its end. Interval t starts at event t:
// interval 2k lasts u_k, interval 2k+1 lasts idle_k.
//
// # Why it is a lower bound
//
// Take a valid plan. It can be brought into normal form without taking longer:
//
//   - F_1 starts at 0: ā_0 is stored until it has ended, ā_1 from its start on, and nothing
//     else before F_2, so memory is maximum at F_1 until then.
//   - Each ā_i is offloaded at most once and prefetched at most once: of its transfers before
//     B_{i+1}, keep the first offload and the last prefetch. Nothing between them uses ā_i, so
//     it can remain on the host. Later transfers are useless
//     (exhaustive/activationoffload.Search, 1).
//   - Of tensors of one size, those with the smallest indices are moved, the smallest offloaded
//     first and prefetched last ("equal tensors"). Let the q-th smallest tensor of the size have
//     the q-th offload and the prefetch that is q-th from the end, or neither if that prefetch
//     comes first. The first q offloads were of q tensors, the largest index of which is at
//     least the q-th smallest; so F has produced it by then, and likewise no prefetch comes too
//     late. At each time at least as many offloads, with the forward that follows, have ended as
//     before; and dropping a prefetch and a later offload leaves at least as much on the host.
//   - A forward that fits together with everything alive starts when the previous one ends, and
//     such a backward ends when the next one starts ("no idle"): starting a forward earlier, or
//     a backward later, changes the memory in use only where everything fits, and lets transfers
//     start earlier and end later.
//
// Let O_{i,t} and P_{i,t} be the parts of ā_i that its transfers carry in interval t, gone{i,t} =
// Σ_{s<t} O_{i,s} − P_{i,s}, idle_k the idle time after computation k, moves_i = 1 if ā_i is moved,
// and whole_{i,t} = 1 if all of ā_i is on the host at event t: its offload has ended and its
// prefetch has not started. Then
//
//   - Σ_k u_k + idle_k is the makespan;
//   - the link carries one transfer at a time, so at most its length in each interval ("link");
//   - if whole is 1, gone is 1, and so is moves ("whole");
//   - memory holds complete tensors: all of ā_i unless whole_{i,t} = 1. At the start of each
//     computation and right before its end (what is on the host at its end is so while it runs)
//     at least what does not fit is on the host ("memory").
//
// The model omits that transfers may not be interrupted, and two that follow each other within one
// interval count as if at its ends.
type offload struct {
	*instance
	m     *milp.Model
	e     milp.Expr         // scratch
	cover formulation.Cover // scratch

	idle  milp.List // after computation k, for k < 2N−1
	moves milp.List // by tensor

	// By tensor; transfers by interval, the others by event.
	O, P, gone []formulation.Span
	whole      []formulation.Span
}

// Amounts builds a MILP of our own, in the spirit of [001] §6, whose optimum is a
// lower bound on the makespan of activation offloading; the proof is at offload. 8N² columns, 2N² of them binary, and 7N² rows. The
// error wraps ErrInstance or is a *plan.Infeasible.
func Amounts(c *chain.Chain, p platform.Platform) (*formulation.Program, error) {
	in, err := newInstance(c, p)
	if err != nil {
		return nil, err
	}
	return buildOffload(in).program(), nil
}

func (f *offload) program() *formulation.Program {
	return &formulation.Program{
		Model: f.m, Promise: formulation.LowerBound, Formulation: f.m.Name(), Unit: f.unit, Start: f.start, Plan: f.plan,
	}
}

// buildOffload builds the model.
func buildOffload(in *instance) *offload {
	f := &offload{instance: in, m: milp.New("offload")}
	f.columns()
	f.e.Reset().AddConst(in.computing())
	for k := range f.idle.Len() {
		f.e.Add(1, f.idle.At(k))
	}
	f.m.Minimize(&f.e)
	f.link()
	f.amounts()
	f.wholes()
	f.memory()
	f.equalTensors()
	f.noIdle()
	return f
}

// instants returns the first and the last event at which it is useful that ā_i is on the host.
func (f *offload) instants(i int) (from, to int) { return 2 * f.first(i), 2*f.last(i) + 1 }

// columns adds the columns, of tensors that are not movable none but moves.
func (f *offload) columns() {
	n := f.tensors()
	f.idle = f.m.List("idle", 2*f.N-1, milp.Continuous, 0, math.Inf(1))
	f.moves = f.m.List("moves", n, milp.Binary, 0, 1)
	f.O, f.P, f.gone = make([]formulation.Span, n), make([]formulation.Span, n), make([]formulation.Span, n)
	f.whole = make([]formulation.Span, n)
	for i := range n {
		if !f.movable(i) {
			f.m.Fix(f.moves.At(i), 0)
			continue
		}
		list := func(name string, from, to int, k milp.Kind) formulation.Span {
			return formulation.Span{From: from, Cols: f.m.List(fmt.Sprintf("%s_%d", name, i), to-from+1, k, 0, 1)}
		}
		from, to := f.instants(i)
		f.O[i] = list("O", max(0, 2*i-1), to-1, milp.Continuous)
		f.P[i] = list("P", from, to, milp.Continuous)
		f.gone[i] = list("away", from, to, milp.Continuous)
		f.whole[i] = list("whole", from, to, milp.Binary)
		for t := from; t <= to; t++ {
			if !f.limited(t) {
				v, _ := f.whole[i].Column(t)
				f.m.Fix(v, 0)
			}
		}
	}
}

// limited reports whether the model limits memory at event t.
func (f *offload) limited(t int) bool { return f.excess[t/2] > 0 }

// link is [004] O.1: all transfers in an interval take no longer than it. An interval in
// which none takes a time that counts has no row.
func (f *offload) link() {
	g := f.m.Group("link", "[004] O.1")
	for t := range 4*f.N - 1 {
		f.e.Reset()
		for i := range f.O {
			time := formulation.Counts(f.move[i])
			for _, s := range [...]formulation.Span{f.O[i], f.P[i]} {
				if v, ok := s.Column(t); ok && time > 0 {
					f.e.Add(time, v)
				}
			}
		}
		if len(f.e.Terms) == 0 {
			continue
		}
		if t%2 == 0 {
			g.AtMost(&f.e, f.u[t/2])
		} else {
			g.AtMost(f.e.Add(-1, f.idle.At(t/2)), 0)
		}
	}
}

// amounts adds the definition of what is on the host, and that a moved tensor is offloaded and
// prefetched completely.
func (f *offload) amounts() {
	g := f.m.Group("away", "sums of amounts")
	for i := range f.O {
		from, to := f.instants(i)
		for t := f.O[i].From; t <= to && f.movable(i); t++ {
			if t < from {
				continue
			}
			v, _ := f.gone[i].Column(t)
			f.e.Reset().Add(1, v)
			if before, ok := f.gone[i].Column(t - 1); ok {
				f.e.Add(-1, before)
			}
			begin := t - 1
			if t == from {
				begin = f.O[i].From
			}
			for s := begin; s < t; s++ {
				f.part(f.O[i], -1, s)
				f.part(f.P[i], 1, s)
			}
			g.Equal(&f.e, 0)
		}
	}
	g = f.m.Group("as a whole", "moves")
	for i := range f.O {
		for _, s := range [...]formulation.Span{f.O[i], f.P[i]} {
			if !f.movable(i) {
				continue
			}
			f.e.Reset().Add(-1, f.moves.At(i))
			for t := s.From; t < s.From+s.Cols.Len(); t++ {
				f.part(s, 1, t)
			}
			g.Equal(&f.e, 0)
		}
	}
}

// part adds what a transfer carries in interval t.
func (f *offload) part(s formulation.Span, coefficient float64, t int) {
	if v, ok := s.Column(t); ok {
		f.e.Add(coefficient, v)
	}
}

// wholes adds that a tensor counts as completely on the host only if it is, and is moved.
func (f *offload) wholes() {
	g := f.m.Group("whole", "[004] O.7")
	for i := range f.O {
		from, to := f.instants(i)
		for t := from; t <= to && f.movable(i); t++ {
			if !f.limited(t) {
				continue
			}
			v, _ := f.whole[i].Column(t)
			away, _ := f.gone[i].Column(t)
			g.AtMost(f.e.Reset().Add(1, v).Add(-1, away), 0)
			g.AtMost(f.e.Reset().Add(1, v).Add(-1, f.moves.At(i)), 0)
		}
	}
}

// memory adds that what does not fit during a computation is completely on the host from its start
// to its end.
func (f *offload) memory() {
	g := f.m.Group("memory", "the rules")
	for t := range 4 * f.N {
		if !f.limited(t) {
			continue
		}
		f.cover.Reset()
		for i := range f.O {
			if v, ok := f.whole[i].Column(t); ok {
				f.cover.AddOffloaded(f.Abar[i], v)
			}
		}
		f.cover.AtLeast(g, f.excess[t/2], 1)
	}
}

// equalTensors adds that of two tensors of one size the one with the larger
// number moves only if the other one does, later and back sooner.
func (f *offload) equalTensors() {
	g := f.m.Group("equal tensors", "normal form")
	for i := range f.O {
		j := i + 1
		for j < len(f.O) && f.Abar[j] != f.Abar[i] {
			j++
		}
		if j == len(f.O) || !f.movable(i) {
			continue
		}
		g.AtMost(f.e.Reset().Add(1, f.moves.At(j)).Add(-1, f.moves.At(i)), 0)
		from, to := f.instants(j)
		for t := from; t <= to; t++ {
			if f.limited(t) {
				v, _ := f.whole[i].Column(t)
				w, _ := f.whole[j].Column(t)
				g.AtMost(f.e.Reset().Add(1, w).Add(-1, v), 0)
			}
		}
	}
}

// noIdle adds that there is no idle time before a forward, or after a backward, that fits together
// with everything alive.
func (f *offload) noIdle() {
	g := f.m.Group("no idle", "normal form")
	for k := range f.idle.Len() {
		if f.busy(k) {
			g.AtMost(f.e.Reset().Add(1, f.idle.At(k)), 0)
		}
	}
}

// busy says whether there is no idle time after computation k in normal form.
func (in *instance) busy(k int) bool {
	return k+1 < in.N && in.excess[k+1] == 0 || k >= in.N && k < 2*in.N-1 && in.excess[k] == 0
}

// start gives every column its value in the plan brought to normal form.
func (f *offload) start(p *plan.Plan) ([]float64, error) {
	t, err := f.times(p)
	if err != nil {
		return nil, err
	}
	return f.point(f.normal(t)), nil
}

// point gives the columns their values in times of normal form.
func (f *offload) point(t *offloadTimes) []float64 {
	x := make([]float64, f.m.NumCols())
	set := func(s formulation.Span, at int, value float64) {
		if v, ok := s.Column(at); ok {
			x[v.Index()] += value
		}
	}
	for k := range f.idle.Len() {
		if !f.busy(k) {
			x[f.idle.At(k).Index()] = max(0, t.s[k+1]-t.s[k]-f.u[k])
		}
	}
	for i := range f.O {
		m := &t.moves[i]
		if !m.is || !f.movable(i) {
			continue
		}
		x[f.moves.At(i).Index()] = 1
		from, to := f.instants(i)
		f.share(t, m.off, -t.near, f.O[i], func(t int, part float64) { set(f.O[i], t, part) })
		f.share(t, m.back, t.near, f.P[i], func(t int, part float64) { set(f.P[i], t, part) })
		away := 0.0
		for j := f.O[i].From; j <= to; j++ {
			set(f.gone[i], j, away)
			for sign, s := range [...]formulation.Span{f.O[i], f.P[i]} {
				if v, ok := s.Column(j); ok {
					away += float64(1-2*sign) * x[v.Index()]
				}
			}
		}
		for j := from; j <= to; j++ {
			at := t.instant(f.instance, j)
			if v, ok := f.whole[i].Column(j); ok && f.limited(j) && m.off[1] <= at+t.near && m.back[0] >= at-t.near {
				x[v.Index()] = 1
			}
		}
	}
	return x
}

// share splits a transfer over the intervals of a span, in parts of 1. If it starts or ends at an
// event up to rounding, it is shifted by that much to start or end at the event.
func (f *offload) share(t *offloadTimes, m [2]float64, shift float64, s formulation.Span, add func(t int, part float64)) {
	left := 1.0
	last := s.From + s.Cols.Len() - 1
	for j := s.From; j <= last; j++ {
		part := left
		if j < last && m[1] > m[0] {
			begin, end := m[0]+shift, min(m[1]+shift, t.instant(f.instance, j+1))
			if j > s.From {
				begin = max(begin, t.instant(f.instance, j))
			}
			part = min(left, max(0, (end-begin)/(m[1]-m[0])))
		}
		if part > 0 {
			add(j, part)
		}
		left -= part
	}
}

// plan reads the orders of the transfers off a solution, by the middle of the intervals that carry
// them, and times them without waiting. The model does not determine times within an interval, so
// they need not fit.
func (f *offload) plan(x []float64) (*plan.Plan, error) {
	when := func(s formulation.Span) float64 {
		t := 0.0
		for j := range s.Cols.Len() {
			t += float64(s.From+j) * x[s.Cols.At(j).Index()]
		}
		return t
	}
	var c view.Choice
	for i := range f.O {
		if f.movable(i) && x[f.moves.At(i).Index()] > 0.5 {
			c.Offload = append(c.Offload, i)
		}
	}
	c.Prefetch = slices.Clone(c.Offload)
	slices.SortStableFunc(c.Offload, func(i, j int) int { return cmp.Compare(when(f.O[i]), when(f.O[j])) })
	slices.SortStableFunc(c.Prefetch, func(i, j int) int { return cmp.Compare(when(f.P[i]), when(f.P[j])) })
	return f.Schedule(Method, c)
}
