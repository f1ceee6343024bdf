// Package swap holds the formulation of out-of-core swapping.
package swap

import (
	"fmt"
	"math"
	"slices"

	"workbench/ilp/formulation"
	"workbench/model/instance/functions"
	"workbench/model/milp"
	"workbench/model/plan"
	"workbench/model/platform"
)

// swap is a MILP of this project. It bounds out-of-core execution ([003]) from below, for the fixed order of the
// functions. It is the model of activation offloading for variables with many uses. It covers the functions
// c_0..c_{m−1}: all functions if there are few.
//
// Event 2a+1 is the start of c_a, event 2a+2 its end, event 0 the start and 2m+1 the end of the plan. Interval t
// begins at event t: interval 2a+1 lasts u_{c_a}. Interval 2a lies between covered functions and lasts as long as
// the other functions in it plus idle_a.
//
// A gap g = (v,p,q) is the time between two consecutive functions f_p and f_q that use v; p = 0 before the first
// use of a v that exists at the start. An epoch e of v begins when a function writes or creates v (or at time 0,
// if v is on the device then) and ends with the next write: v has the same value in all its gaps.
//
// # Why it is a lower bound
//
// Take a valid plan. Where the columns exist, let
//
//   - sent{e,t} be the fraction of v that the first out of epoch e has transferred by event t;
//   - moves_g be 1 if v comes in during gap g, and back{g,t} the fraction that the last in of the gap has
//     transferred by event t;
//   - whole_{g,t} be 1 if moves_g is, the first out of the epoch has ended at event t and the last in of the
//     gap has not begun. A gap without epoch has no out that must end, since the host holds v from the start.
//
// Then
//
//   - the makespan is the sum of the intervals;
//   - an out of epoch e starts after the function that begins the epoch has ended, since v may not be sent
//     while it is written. An in of gap g starts when v has left the GPU, so after f_p has ended, and ends
//     before f_q starts. Each link carries one transfer at a time, so the transfers of an interval take no
//     longer than the interval ("out link", "in link");
//   - where whole is 1 the columns satisfy "whole";
//   - if v is neither on the GPU nor being fetched at event t of gap g, then whole_{g,t} = 1: the host holds
//     its value, so an out of the epoch has ended, and v must come in later in the gap. At the start and at the
//     end of c_a the variables that c_a uses are on the GPU, so at least the bytes that do not fit with them
//     are on the host ("memory");
//   - a variable that is on the host at the start must come in before its first use.
//
// The model relaxes the problem in four points. Transfers may be interrupted and reordered within an interval. An
// out does not evict v. Memory between the covered functions is not limited, and ins there take none.
type swap struct {
	*swapInstance
	m     *milp.Model
	e     milp.Expr         // scratch
	cover formulation.Cover // scratch

	points []int // c_0..c_{m−1}
	rank   []int // rank[k]: number of points before f_k; of n, all

	idle milp.List
	// By gap and by epoch; for the events, see span.
	moves       []milp.Var
	back, sent  []formulation.Span
	whole       []formulation.Span // at 2·(number of the point) + 0 at its start, + 1 at its end
	begin, stop []int              // of gaps: the first point in the gap and the one after the last
}

// swapCells limits the pairs of a point and a gap in a model; larger instances cover fewer functions.
const swapCells = 1500

// Amounts builds a MILP of this project, in the spirit of [001] §6, whose optimum is a lower bound on the makespan
// of swapping. For each pair of a covered function and a variable that may be on the host then, it has six
// columns, two of them binary, and eight rows. There are at most swapCells such pairs. The error wraps ErrInstance
// or is a *plan.Infeasible.
func Amounts(s *functions.Sequence, p platform.Platform) (*formulation.Program, error) {
	in, err := newSwapInstance(s, p)
	if err != nil {
		return nil, err
	}
	return buildSwap(in, swapCells).program(), nil
}

func (f *swap) program() *formulation.Program {
	return &formulation.Program{
		Model: f.m, Promise: formulation.LowerBound, Formulation: f.m.Name(), Unit: f.unit, Start: f.start,
	}
}

// buildSwap builds the model with at most the given number of cells.
func buildSwap(in *swapInstance, cells int) *swap {
	f := &swap{swapInstance: in, m: milp.New("swap"), points: in.pointsFor(cells)}
	f.rank = make([]int, in.N+1)
	for k := range in.N {
		f.rank[k+1] = f.rank[k]
		if f.rank[k] < len(f.points) && f.points[f.rank[k]] == k {
			f.rank[k+1]++
		}
	}
	f.columns()
	f.e.Reset().AddConst(milp.Down.Sum(f.u...))
	for a := range f.idle.Len() {
		f.e.Add(1, f.idle.At(a))
	}
	f.m.Minimize(&f.e)
	f.links()
	f.order()
	f.wholes()
	f.memory()
	return f
}

// pointsFor returns the covered functions: all of them, or one per block, the one that exceeds the memory most.
// The number of blocks is reduced until the points have at most the given number of cells.
func (in *swapInstance) pointsFor(cells int) []int {
	spans := make([]int, in.N+1) // number of gaps at f_k
	for i := range in.gaps {
		spans[in.gaps[i].after+1]++
		spans[in.gaps[i].use]--
	}
	for k := 1; k <= in.N; k++ {
		spans[k] += spans[k-1]
	}
	for blocks := in.N; ; blocks = blocks * 9 / 10 {
		points, count := make([]int, 0, blocks), 0
		for b := range blocks {
			most := b * in.N / blocks
			for k := most; k < (b+1)*in.N/blocks; k++ {
				if in.excess[k] > in.excess[most] {
					most = k
				}
			}
			points = append(points, most)
			count += spans[most]
		}
		if count <= cells || blocks <= 1 {
			return points
		}
	}
}

// firstInterval returns the first interval of events that start after the end of f_k; k = −1 stands for the start
// of the plan. lastInterval returns the last interval of events that end before the start of f_k.
func (f *swap) firstInterval(k int) int { return 2 * f.rank[k+1] }
func (f *swap) lastInterval(k int) int  { return 2 * f.rank[k] }

// columns adds the columns. A gap that contains no point and needs no fetch has none.
func (f *swap) columns() {
	list := func(name string, i, from, to int, k milp.Kind) formulation.Span {
		return formulation.Span{From: from, Cols: f.m.List(fmt.Sprintf("%s_%d", name, i), max(0, to-from+1), k, 0, 1)}
	}
	f.idle = f.m.List("idle", len(f.points)+1, milp.Continuous, 0, math.Inf(1))
	gaps := len(f.gaps)
	f.moves = make([]milp.Var, gaps)
	f.back, f.whole = make([]formulation.Span, gaps), make([]formulation.Span, gaps)
	f.begin, f.stop = make([]int, gaps), make([]int, gaps)
	f.sent = make([]formulation.Span, len(f.epochs))
	useful := make([]int, len(f.epochs)) // the point after the last of the epoch's gaps
	for i := range f.gaps {
		g := &f.gaps[i]
		f.begin[i], f.stop[i] = f.rank[g.after+1], f.rank[g.use]
		if !f.counts(i) {
			continue
		}
		f.moves[i] = f.m.Var(fmt.Sprintf("moves_%d", i), milp.Binary, 0, 1)
		if g.fetched {
			f.m.Fix(f.moves[i], 1)
		}
		// At the events before the last interval; at its end it equals moves.
		f.back[i] = list("back", i, f.firstInterval(g.after)+1, f.lastInterval(g.use), milp.Continuous)
		f.whole[i] = list("whole", i, 2*f.begin[i], 2*f.stop[i]-1, milp.Binary)
		for j := range f.whole[i].Cols.Len() {
			if !f.tight(f.whole[i].From + j) {
				f.m.Fix(f.whole[i].Cols.At(j), 0)
			}
		}
		if g.epoch >= 0 {
			useful[g.epoch] = max(useful[g.epoch], f.stop[i])
		}
	}
	for i := range f.epochs {
		if useful[i] > 0 {
			f.sent[i] = list("sent", i, f.firstInterval(f.epochs[i].write)+1, 2*useful[i], milp.Continuous)
		}
	}
}

// counts reports whether gap i has columns.
func (f *swap) counts(i int) bool { return f.stop[i] > f.begin[i] || f.gaps[i].fetched }

// tight reports whether some variable must be on the host at the start, or the end, of a point; at indexes span
// whole.
func (f *swap) tight(at int) bool { return f.excess[f.points[at/2]] > 0 }

// part adds the increase of these cumulative fractions over interval t; a missing column counts as 0.
func (f *swap) part(s formulation.Span, coefficient float64, t int) {
	if v, ok := s.Column(t + 1); ok {
		f.e.Add(coefficient, v)
	}
	if v, ok := s.Column(t); ok {
		f.e.Add(-coefficient, v)
	}
}

// links adds that the transfers of each direction in an interval take no longer than the interval.
func (f *swap) links() {
	g := f.m.Group("out link", "[003], one transfer at a time")
	by := make([][]int, 2*len(f.points)+1) // epochs by interval
	for i := range f.sent {
		for t := f.sent[i].From - 1; t < f.sent[i].From+f.sent[i].Cols.Len()-1; t++ {
			by[t] = append(by[t], i)
		}
	}
	for t, list := range by {
		f.e.Reset()
		for _, i := range list {
			f.part(f.sent[i], f.move[f.epochs[i].v], t)
		}
		f.addCapacity(g, t)
	}
	g = f.m.Group("in link", "[003], one transfer at a time")
	clear(by)
	for i := range f.gaps {
		if f.counts(i) {
			for t := f.firstInterval(f.gaps[i].after); t <= f.lastInterval(f.gaps[i].use); t++ {
				by[t] = append(by[t], i)
			}
		}
	}
	for t, list := range by {
		f.e.Reset()
		for _, i := range list {
			move := f.move[f.gaps[i].v]
			f.part(f.back[i], move, t)
			if t == f.lastInterval(f.gaps[i].use) {
				f.e.Add(move, f.moves[i])
			}
		}
		f.addCapacity(g, t)
	}
}

// addCapacity adds the row that the scratch expression is at most the length of interval t.
func (f *swap) addCapacity(g milp.Group, t int) {
	if len(f.e.Terms) == 0 {
		return
	}
	if t%2 == 1 {
		g.AtMost(&f.e, f.u[f.points[t/2]])
		return
	}
	g.AtMost(f.e.Add(-1, f.idle.At(t/2)), f.between(t/2))
}

// between returns the total time of the functions between points a−1 and a, rounded up: transfers of this length
// cause no idle time.
func (f *swap) between(a int) float64 {
	from, to := 0, f.N
	if a > 0 {
		from = f.points[a-1] + 1
	}
	if a < len(f.points) {
		to = f.points[a]
	}
	return milp.Up.Sum(f.u[from:to]...)
}

// order adds that cumulative fractions do not decrease; those of ins are at most moves.
func (f *swap) order() {
	g := f.m.Group("in time", "parts carried by an instant")
	grows := func(s formulation.Span) {
		for t := s.From; t < s.From+s.Cols.Len()-1; t++ {
			f.e.Reset()
			f.part(s, -1, t)
			g.AtMost(&f.e, 0)
		}
	}
	for _, s := range f.sent {
		grows(s)
	}
	for i, s := range f.back {
		if n := s.Cols.Len(); f.counts(i) && n > 0 {
			grows(s)
			g.AtMost(f.e.Reset().Add(1, s.Cols.At(n-1)).Add(-1, f.moves[i]), 0)
		}
	}
}

// wholes adds the conditions under which a variable is on the host as a whole.
func (f *swap) wholes() {
	g := f.m.Group("whole", "the rules")
	for i, s := range f.whole {
		for j := range s.Cols.Len() {
			w, t := s.Cols.At(j), s.From+j+1 // event
			if !f.tight(s.From + j) {
				continue
			}
			// whole ≤ moves − back: the variable comes in later in the gap.
			f.e.Reset().Add(1, w).Add(-1, f.moves[i])
			if v, ok := f.back[i].Column(t); ok {
				f.e.Add(1, v)
			}
			g.AtMost(&f.e, 0)
			if e := f.gaps[i].epoch; e >= 0 {
				f.e.Reset().Add(1, w)
				if v, ok := f.sent[e].Column(t); ok {
					f.e.Add(-1, v)
				}
				g.AtMost(&f.e, 0)
			}
		}
	}
}

// memory adds that the bytes that do not fit with the variables of a function are on the host, at its start and at
// its end.
func (f *swap) memory() {
	g := f.m.Group("memory", "the rules")
	by := make([][]int, len(f.points))
	for i := range f.gaps {
		for a := f.begin[i]; a < f.stop[i]; a++ {
			by[a] = append(by[a], i)
		}
	}
	for a, list := range by {
		for side := range 2 {
			if !f.tight(2*a + side) {
				continue
			}
			f.cover.Reset()
			for _, i := range list {
				w, _ := f.whole[i].Column(2*a + side)
				f.cover.AddOffloaded(f.Size[f.gaps[i].v], w)
			}
			f.cover.AtLeast(g, f.excess[f.points[a]], 1)
		}
	}
}

// start returns the values of the variables for a plan.
func (f *swap) start(p *plan.Plan) ([]float64, error) {
	if p == nil || p.Problem != plan.Swap {
		return nil, fmt.Errorf("%w: not a plan of swapping", formulation.ErrStart)
	}
	t, err := f.times(p)
	if err != nil {
		return nil, err
	}
	x := make([]float64, f.m.NumCols())
	for a := range f.idle.Len() {
		x[f.idle.At(a).Index()] = max(0, t.instants[2*a+1]-t.instants[2*a]-f.between(a))
	}
	fill := func(s formulation.Span, move [2]float64) {
		for j := range s.Cols.Len() {
			part := 0.0
			if at := t.instants[s.From+j]; at >= move[1]-t.near {
				part = 1
			} else if at > move[0] {
				part = (at - move[0]) / (move[1] - move[0])
			}
			x[s.Cols.At(j).Index()] = part
		}
	}
	for i := range f.epochs {
		fill(f.sent[i], t.out[i])
	}
	for i := range f.gaps {
		if !f.counts(i) || !t.moves[i] {
			continue
		}
		g := &f.gaps[i]
		x[f.moves[i].Index()] = 1
		in := t.in[i]
		fill(f.back[i], in)
		for j := range f.whole[i].Cols.Len() {
			at := t.instants[f.whole[i].From+j+1]
			if f.tight(f.whole[i].From+j) && in[0] >= at-t.near && (g.epoch < 0 || t.out[g.epoch][1] <= at+t.near) {
				x[f.whole[i].Cols.At(j).Index()] = 1
			}
		}
	}
	return x, nil
}

// swapTimes holds the times of a plan, in units.
type swapTimes struct {
	instants []float64
	out      [][2]float64 // of each epoch the first out; +Inf: none
	in       [][2]float64 // of each gap the last in
	moves    []bool
	near     float64 // maximum distance of two simultaneous events
}

// times reads the times of a plan.
func (f *swap) times(p *plan.Plan) (*swapTimes, error) {
	starts := slices.Repeat([]float64{math.NaN()}, f.N)
	index := make(map[string]int, len(f.move))
	for v := range f.Sequence.Variables {
		index[f.Sequence.Variables[v].ID] = v
	}
	outs, ins := make([][][2]float64, len(f.move)), make([][][2]float64, len(f.move))
	for k := range p.Ops {
		o := &p.Ops[k]
		times := [2]float64{o.Start / f.unit, o.End / f.unit}
		v, known := index[o.Variable]
		switch {
		case o.Op == plan.OpRun && o.Function >= 1 && o.Function <= f.N:
			starts[o.Function-1] = times[0]
		case o.Op == plan.OpIn && known:
			ins[v] = append(ins[v], times)
		case o.Op == plan.OpOut && known:
			outs[v] = append(outs[v], times)
		}
	}
	for i, s := range starts {
		if math.IsNaN(s) {
			return nil, fmt.Errorf("%w: f_%d is missing", formulation.ErrStart, i+1)
		}
	}
	end := func(k int) float64 {
		if k < 0 {
			return 0
		}
		return starts[k] + f.u[k]
	}
	t := &swapTimes{
		instants: []float64{0}, out: slices.Repeat([][2]float64{{math.Inf(1), math.Inf(1)}}, len(f.epochs)),
		in: make([][2]float64, len(f.gaps)), moves: make([]bool, len(f.gaps)),
		near: plan.Tolerance * p.Claims.Makespan / f.unit,
	}
	for _, k := range f.points {
		t.instants = append(t.instants, starts[k], end(k))
	}
	t.instants = append(t.instants, end(f.N-1))
	for i := range f.epochs {
		e := &f.epochs[i]
		for _, m := range outs[e.v] {
			if m[0] >= end(e.write)-t.near && m[0] < t.out[i][0] {
				t.out[i] = m
			}
		}
	}
	for i := range f.gaps {
		g := &f.gaps[i]
		for _, m := range ins[g.v] {
			if m[0] >= end(g.after)-t.near && m[1] <= starts[g.use]+t.near && (!t.moves[i] || m[0] > t.in[i][0]) {
				t.in[i], t.moves[i] = m, true
			}
		}
	}
	return t, nil
}
