// Package placement is the view of offline dynamic storage allocation: buffers of
// known lifetimes get offsets, buffers alive together must not overlap, and the
// height, what all of them reach up to, is to be small. In strip packing it is the
// question that remains when the abscissae are known, the "y-check" of Côté,
// Dell'Amico and Iori, Combinatorial Benders' Cuts for the Strip Packing Problem,
// Operations Research 62(3), 2014; it is NP-complete in the strong sense.
package placement

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"workbench/model/instance/lifetimes"
	"workbench/model/plan"
	"workbench/model/platform"
)

// Problem is the name of the problem.
const Problem = plan.Placement

// Instance is the buffers in whole units, and what methods ask of them.
//
// Offsets are multiples of Align, the grid of the lifetimes. So a buffer keeps others away from Room, its
// size rounded up to that, and only what is on top reaches Size.
//
// Sections are the maximal sets of buffers alive together, in order of time,
// numbered from 0: two buffers are alive together if and only if they share one
// (intervals have the Helly property), and those of a buffer are consecutive. There
// are at most as many as buffers.
type Instance struct {
	Lifetimes *lifetimes.Lifetimes
	Align     int64
	Buffers   []Buffer // as in Lifetimes
	Sections  int
}

// Buffer is one buffer, alive in the sections First to Last.
type Buffer struct {
	Size, Room  int64
	First, Last int
}

// Meets reports whether the lifetimes of two buffers intersect.
func (b *Buffer) Meets(c *Buffer) bool { return b.First <= c.Last && c.First <= b.Last }

// New returns the instance of valid lifetimes. O(n log n).
func New(l *lifetimes.Lifetimes) *Instance {
	align := l.Grid()
	in := &Instance{Lifetimes: l, Align: align, Buffers: make([]Buffer, len(l.Buffers))}
	type edge struct {
		at     int64
		begins int // 0: ends; ends come first in a tie
		buffer int
	}
	edges := make([]edge, 0, 2*len(l.Buffers))
	for i := range l.Buffers {
		x := &l.Buffers[i]
		size := int64(x.Size)
		in.Buffers[i] = Buffer{Size: size, Room: (size + align - 1) / align * align}
		edges = append(edges, edge{x.Lower, 1, i}, edge{x.Upper, 0, i})
	}
	slices.SortFunc(edges, func(a, b edge) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.begins, b.begins), cmp.Compare(a.buffer, b.buffer))
	})
	grown := false // whether a buffer has started since the last section
	for _, e := range edges {
		if e.begins == 1 {
			in.Buffers[e.buffer].First, grown = in.Sections, true
			continue
		}
		if grown {
			in.Sections, grown = in.Sections+1, false
		}
		in.Buffers[e.buffer].Last = in.Sections - 1
	}
	return in
}

// Loads returns for each section a lower bound on the height: the rooms of all its buffers, but
// only the size of the topmost one. O(n + sections).
func (in *Instance) Loads() []int64 {
	rooms := make([]int64, in.Sections+1)
	for i := range in.Buffers {
		b := &in.Buffers[i]
		rooms[b.First] += b.Room
		rooms[b.Last+1] -= b.Room
	}
	var now int64
	for s := range rooms {
		now += rooms[s]
		rooms[s] = now
	}
	rooms = rooms[:in.Sections]
	if in.Align > 1 {
		for s, spare := range in.spares() {
			rooms[s] -= spare
		}
	}
	return rooms
}

// spares returns for each section the maximum by which the room of one of its buffers exceeds its
// size. O(n log n + sections).
func (in *Instance) spares() []int64 {
	order := make([]int, len(in.Buffers))
	for i := range order {
		order[i] = i
	}
	spare := func(i int) int64 { return in.Buffers[i].Room - in.Buffers[i].Size }
	slices.SortFunc(order, func(i, j int) int { return cmp.Compare(spare(j), spare(i)) })
	most, next := make([]int64, in.Sections), make([]int, in.Sections+1) // next: the first unpainted section
	for s := range next {
		next[s] = s
	}
	find := func(s int) int {
		root := s
		for next[root] != root {
			root = next[root]
		}
		for next[s] != root {
			s, next[s] = next[s], root
		}
		return root
	}
	for _, i := range order {
		b := &in.Buffers[i]
		for s := find(b.First); s <= b.Last; s = find(s) {
			most[s], next[s] = spare(i), s+1
		}
	}
	return most
}

// Load returns the maximum of [Instance.Loads], a lower bound on the height: the load of the
// literature if Align is 1.
func (in *Instance) Load() int64 { return slices.Max(in.Loads()) }

// Subset returns the instance of some of the buffers, in this order. O(n log n).
func (in *Instance) Subset(buffers []int) *Instance {
	l := &lifetimes.Lifetimes{Align: in.Lifetimes.Align, Unit: in.Lifetimes.Unit, Buffers: make([]lifetimes.Buffer, len(buffers))}
	for k, i := range buffers {
		l.Buffers[k] = in.Lifetimes.Buffers[i]
	}
	return New(l)
}

// Rises has the possible heights of placements in which every buffer lies on 0 or on another one,
// as in some optimal placement: the size of a buffer plus a multiple of the greatest common divisor
// of all rooms.
type Rises struct {
	step  int64
	rests []int64 // sizes modulo step, ascending
}

// Rises returns the possible heights. O(n log n).
func (in *Instance) Rises() Rises {
	r := Rises{}
	for i := range in.Buffers {
		for x := in.Buffers[i].Room; x != 0; {
			r.step, x = x, r.step%x
		}
	}
	r.step = max(r.step, 1)
	for i := range in.Buffers {
		if b := &in.Buffers[i]; b.Room > 0 {
			r.rests = append(r.rests, b.Size%r.step)
		}
	}
	slices.Sort(r.rests)
	r.rests = slices.Compact(r.rests)
	return r
}

// Up returns the minimum of these heights that is at least h.
func (r Rises) Up(h int64) int64 {
	if len(r.rests) == 0 {
		return h
	}
	whole := h / r.step * r.step
	k, _ := slices.BinarySearch(r.rests, h-whole)
	if k < len(r.rests) {
		return whole + r.rests[k]
	}
	return whole + r.step + r.rests[0]
}

// Height returns the maximum end of the buffers at these offsets.
func (in *Instance) Height(offsets []int64) int64 {
	var h int64
	for i, at := range offsets {
		h = max(h, at+in.Buffers[i].Size)
	}
	return h
}

// Fits returns why nothing fits in the given memory. It returns nil if the load fits, which does
// not prove that a placement does.
func (in *Instance) Fits(memory float64) error {
	if load := float64(in.Load()); !platform.Fits(load, memory) {
		return &plan.Infeasible{
			Problem: Problem, Memory: load, Given: memory, Unit: in.Lifetimes.Unit,
			Why: "buffers alive at one time take as much, wherever they lie",
		}
	}
	return nil
}

// Plan returns the plan of these offsets, with its claims.
func (in *Instance) Plan(method string, offsets []int64, m platform.Platform) *plan.Plan {
	p := plan.New(Problem, method, in.Lifetimes, m)
	p.Offsets = make([]plan.Offset, len(offsets))
	for i, at := range offsets {
		p.Offsets[i] = plan.Offset{ID: in.Lifetimes.Buffers[i].ID, Offset: float64(at)}
	}
	p.Claims.PeakMemory = float64(in.Height(offsets))
	return p
}

// Offsets returns the offsets of a plan by buffer. The error names a buffer without offset.
func (in *Instance) Offsets(p *plan.Plan) ([]int64, error) {
	at := make(map[string]float64, len(p.Offsets))
	for _, o := range p.Offsets {
		at[o.ID] = o.Offset
	}
	offsets := make([]int64, len(in.Buffers))
	for i := range offsets {
		x, ok := at[in.Lifetimes.Buffers[i].ID]
		if !ok || x != math.Trunc(x) {
			return nil, fmt.Errorf("buffer %q has no offset, or none in whole units", in.Lifetimes.Buffers[i].ID)
		}
		offsets[i] = int64(x)
	}
	return offsets, nil
}
