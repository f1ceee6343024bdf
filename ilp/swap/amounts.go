// Package swap has the formulation of out-of-core swapping.
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

// swap is a MILP of our own that bounds out-of-core execution ([003]) from below,
// for the fixed order of the functions: the model of offload for variables with
// many uses. It looks at some functions, c_0..c_{m−1}: all if there are few.
//
// Instant 2a+1 is the start of c_a, instant 2a+2 its end, instant 0 the start and
// 2m+1 the end of the plan. Interval t begins at instant t: interval 2a+1 lasts
// u_{c_a}, interval 2a, between functions that are looked at, the functions in it
// and idle_a.
//
// A gap g = (v,p,q) is the time between two functions f_p and f_q that use v, one
// after the other; p = 0 before the first use of a v that exists before. An epoch
// e of v begins when a function writes or makes v (or at time 0, if v is on the
// device then) and ends with the next write: in all its gaps v has the same
// value.
//
// # Why it is a lower bound
//
// Take a valid plan. Let, where the columns exist,
//
//   - sent{e,t} be the part of v that the first out of epoch e has carried by
//     instant t;
//   - moves_g say that v comes in in gap g, and back{g,t} be the part that the last
//     in of the gap has carried by instant t;
//   - whole_{g,t} = 1 if moves_g, the first out of the epoch has ended at instant t
//     and the last in of the gap has not begun. Of gaps without epoch, in which the host
//     holds v from the start, there is no out to end.
//
// Then
//
//   - the makespan is the sum of the intervals;
//   - an out of epoch e starts after the function that begins it has ended: v may
//     not be sent while it is written. An in of gap g starts when v has left the
//     GPU, so after f_p has ended, and ends before f_q starts. Each link carries one
//     transfer at a time, so in each interval no more than it is long ("out link",
//     "in link");
//   - where whole is 1 the columns are as in "whole";
//   - if v is not on the GPU nor coming at instant t of gap g, then whole_{g,t} = 1:
//     the host holds its value, so an out of the epoch has ended, and v has to come
//     in later in the gap. At the start and at the end of c_a what c_a uses is on
//     the GPU, so at least what does not fit beside it is away ("memory");
//   - a variable that is on the host at the start has to come before its first use.
//
// What the model leaves out: transfers may be interrupted, and change places within
// an interval; an out does not make v leave; memory between the functions looked
// at, and what the ins there take.
type swap struct {
	*swapInstance
	m     *milp.Model
	e     milp.Expr         // scratch
	cover formulation.Cover // scratch

	points []int // c_0..c_{m−1}
	rank   []int // rank[k]: how many points are before f_k; of n, all

	idle milp.List
	// By gap and by epoch; of instants, see span.
	moves       []milp.Var
	back, sent  []formulation.Span
	whole       []formulation.Span // by 2·(number of the point) + 0 at its start, + 1 at its end
	begin, stop []int              // of gaps: the first point in it and the one after the last
}

// swapCells is the most gaps at points, together, in a model; of larger instances
// it looks at fewer functions.
const swapCells = 1500

// Amounts builds a MILP of our own, in the spirit of [001] §6, whose optimum is a lower bound on the makespan of
// swapping. For each function that is looked at and each variable that may be
// away then: six columns, two of them binary, and eight rows; at most swapCells
// such pairs. The error wraps ErrInstance or is a *plan.Infeasible.
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

// buildSwap builds the model with at most so many cells.
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

// pointsFor returns the functions that are looked at: all, or of as many blocks
// as it takes to have so many cells the one that exceeds the memory most in each.
func (in *swapInstance) pointsFor(cells int) []int {
	spans := make([]int, in.N+1) // gaps at f_k
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

// firstInterval returns the first interval in which something can be that starts after
// the end of f_k, k = −1: from the start. to returns the last one in which
// something can be that ends before the start of f_k.
func (f *swap) firstInterval(k int) int { return 2 * f.rank[k+1] }
func (f *swap) lastInterval(k int) int  { return 2 * f.rank[k] }

// columns adds the columns. Of a gap without points in it, and without need to
// fetch, there are none.
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
		// At the instants before the last interval; at the end of that it is moves.
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

// tight reports whether something must be away at the start, or the end, of a
// point: the places of span whole.
func (f *swap) tight(at int) bool { return f.excess[f.points[at/2]] > 0 }

// part adds what the transfer with these cumulated parts carries in interval t,
// in all of it at its last instant.
func (f *swap) part(s formulation.Span, coefficient float64, t int) {
	if v, ok := s.Column(t + 1); ok {
		f.e.Add(coefficient, v)
	}
	if v, ok := s.Column(t); ok {
		f.e.Add(-coefficient, v)
	}
}

// links says that the transfers of a kind in an interval take no longer than it.
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

// addCapacity adds the row that the scratch expression is at most interval t.
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

// between returns the time of the functions between points a−1 and a, rounded up:
// so much of the transfers costs nothing.
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

// order says that parts grow from instant to instant, those that come back up to
// moves.
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

// wholes says what it takes to be away as a whole.
func (f *swap) wholes() {
	g := f.m.Group("whole", "the rules")
	for i, s := range f.whole {
		for j := range s.Cols.Len() {
			w, t := s.Cols.At(j), s.From+j+1 // instant
			if !f.tight(s.From + j) {
				continue
			}
			// whole ≤ moves − back: it comes back later in the gap.
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

// memory says that what does not fit beside what a function uses is away, at its
// start and at its end.
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

// start gives every column its value in a plan.
func (f *swap) start(p *plan.Plan) ([]float64, error) {
	if p == nil || p.Problem != plan.Swap {
		return nil, fmt.Errorf("%w: no plan of swapping", formulation.ErrStart)
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

// swapTimes are the times of a plan in units.
type swapTimes struct {
	instants []float64
	out      [][2]float64 // of each epoch the first out; +Inf: none
	in       [][2]float64 // of each gap the last in
	moves    []bool
	near     float64 // how much apart two events can be at one instant
}

// times reads a plan.
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
