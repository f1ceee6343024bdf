package placement

import (
	"cmp"
	"context"
	"math"
	"slices"

	"workbench/model/problem/placement"
)

// Order is the order in which a greedy method places buffers.
type Order struct {
	Name    string
	Compare func(in *placement.Instance, i, j int) int
}

// Orders returns the usual orders, ties by number: by decreasing size (greedy by size in Pisarchyk and Lee,
// Efficient Memory Management for Deep Neural Net Inference, 2020, §5.2), by decreasing area, by decreasing
// lifetime, by start.
func Orders() []Order {
	length := func(in *placement.Instance, i int) float64 {
		l := &in.Lifetimes.Buffers[i]
		return float64(l.Upper) - float64(l.Lower)
	}
	falling := func(name string, key func(in *placement.Instance, i int) float64) Order {
		return Order{name, func(in *placement.Instance, i, j int) int { return cmp.Compare(key(in, j), key(in, i)) }}
	}
	return []Order{
		falling("size", func(in *placement.Instance, i int) float64 { return float64(in.Buffers[i].Size) }),
		falling("area", func(in *placement.Instance, i int) float64 { return float64(in.Buffers[i].Size) * length(in, i) }),
		falling("lifetime", length),
		falling("start", func(in *placement.Instance, i int) float64 { return -float64(in.Lifetimes.Buffers[i].Lower) }),
	}
}

// Sorted returns the buffers in an order.
func Sorted(in *placement.Instance, o Order) []int {
	order := make([]int, len(in.Buffers))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return o.Compare(in, i, j) })
	return order
}

// shelf holds placed buffers in the order of their offsets, in pieces of bounded length, so that an insertion does
// not move all of them.
type shelf struct{ pieces []piece }

// piece is a run of buffers with the range of sections that covers them.
type piece struct {
	first, last int
	on          []interval
}

type interval struct {
	low, top    int64
	first, last int32
}

// mostInPiece is the maximum length of a piece before it is cut in two.
const mostInPiece = 256

func (s *shelf) clear() { s.pieces = s.pieces[:0] }

// gap returns the minimum offset at which room is free in the sections from first to last.
// O(placed).
func (s *shelf) gap(first, last int, room int64) int64 {
	at := int64(0)
	for k := range s.pieces {
		p := &s.pieces[k]
		if p.first > last || p.last < first {
			continue
		}
		for i := range p.on {
			x := &p.on[i]
			if int(x.first) > last || int(x.last) < first || x.top <= at {
				continue
			}
			if x.low-at >= room {
				return at
			}
			at = x.top
		}
	}
	return at
}

// tightest returns the offset of the smallest gap with enough room, the lowest of equal ones; the
// space above everything counts as the largest gap. O(placed).
func (s *shelf) tightest(first, last int, room int64) int64 {
	at, best, width := int64(0), int64(-1), int64(0)
	for k := range s.pieces {
		p := &s.pieces[k]
		if p.first > last || p.last < first {
			continue
		}
		for i := range p.on {
			x := &p.on[i]
			if int(x.first) > last || int(x.last) < first {
				continue
			}
			if w := x.low - at; w >= room && (best < 0 || w < width) {
				best, width = at, w
			}
			at = max(at, x.top)
		}
	}
	if best >= 0 {
		return best
	}
	return at
}

// put adds a buffer. O(pieces + length of one).
func (s *shelf) put(b *placement.Buffer, at int64) {
	x := interval{at, at + b.Room, int32(b.First), int32(b.Last)}
	k, _ := slices.BinarySearchFunc(s.pieces, at, func(p piece, at int64) int { return cmp.Compare(p.on[len(p.on)-1].low, at) })
	if k == len(s.pieces) {
		if k--; k < 0 {
			s.pieces = append(s.pieces, piece{b.First, b.Last, []interval{x}})
			return
		}
	}
	p := &s.pieces[k]
	i, _ := slices.BinarySearchFunc(p.on, at, func(x interval, at int64) int { return cmp.Compare(x.low, at) })
	p.on = slices.Insert(p.on, i, x)
	p.first, p.last = min(p.first, b.First), max(p.last, b.Last)
	if len(p.on) < mostInPiece {
		return
	}
	half := slices.Clone(p.on[mostInPiece/2:])
	p.on = p.on[:mostInPiece/2]
	s.pieces = slices.Insert(s.pieces, k+1, extent(half))
	s.pieces[k] = extent(s.pieces[k].on)
}

// extent returns a piece of intervals.
func extent(on []interval) piece {
	p := piece{int(on[0].first), int(on[0].last), on}
	for i := range on {
		p.first, p.last = min(p.first, int(on[i].first)), max(p.last, int(on[i].last))
	}
	return p
}

// shelves has a shelf for each block of sections: of all of them, of an eighth and of a 64th; the
// blocks of a level overlap by half. A buffer that lives no longer than half a block lies in one,
// so buffers that were placed far away in time are not visited.
type shelves struct {
	step  []int // sections from a block of a level to the next, half its length
	on    [][]shelf
	fixed []fixedBuffer
}

// fixedBuffer is a buffer with a fixed offset.
type fixedBuffer struct {
	*placement.Buffer
	at int64
}

// leastStep is the minimum number of sections for which blocks pay off.
const leastStep = 8

func newShelves(sections int) *shelves {
	x := &shelves{}
	for step := sections; ; step = (step + 7) / 8 {
		x.step, x.on = append(x.step, step), append(x.on, make([]shelf, (sections+step-1)/step))
		if step < 8*leastStep || len(x.step) == 3 {
			return x
		}
	}
}

func (x *shelves) clear() {
	for _, level := range x.on {
		for k := range level {
			level[k].clear()
		}
	}
	for _, f := range x.fixed {
		x.put(f.Buffer, f.at)
	}
}

// near returns a shelf with all buffers that overlap b in time.
func (x *shelves) near(b *placement.Buffer) *shelf {
	level := len(x.step) - 1
	for level > 0 && b.Last-b.First >= x.step[level] {
		level--
	}
	return &x.on[level][b.First/x.step[level]]
}

// put adds a buffer to every block in which it lives.
func (x *shelves) put(b *placement.Buffer, at int64) {
	for level, step := range x.step {
		for k := max(0, b.First/step-1); k <= b.Last/step; k++ {
			x.on[level][k].put(b, at)
		}
	}
}

// FirstFit places buffers in an order, each as low as it fits. O(n²) if all are alive
// together, far less where lifetimes are short: 60,000 buffers take a second or two.
func FirstFit(in *placement.Instance, order []int) []int64 {
	offsets, s := make([]int64, len(in.Buffers)), newShelves(in.Sections)
	fill(in, order, offsets, s, math.MaxInt64)
	return offsets
}

// fill places buffers in an order up to the first that exceeds a limit, and returns the number placed.
func fill(in *placement.Instance, order []int, offsets []int64, s *shelves, limit int64) int {
	s.clear()
	for k, i := range order {
		b := &in.Buffers[i]
		offsets[i] = 0
		if b.Room > 0 {
			offsets[i] = s.near(b).gap(b.First, b.Last, b.Room)
			if offsets[i]+b.Size > limit {
				return k
			}
			s.put(b, offsets[i])
		}
	}
	return len(order)
}

// BestFit places buffers in an order, each in the smallest gap that is large enough. O(n²) at most, as [FirstFit].
func BestFit(in *placement.Instance, order []int) []int64 {
	offsets, s := make([]int64, len(in.Buffers)), newShelves(in.Sections)
	for _, i := range order {
		if b := &in.Buffers[i]; b.Room > 0 {
			offsets[i] = s.near(b).tightest(b.First, b.Last, b.Room)
			s.put(b, offsets[i])
		}
	}
	return offsets
}

// Greedy returns the lowest placement of a greedy method over the usual orders, or of the first
// order alone once ctx has ended. It stops at the load. O(n²) an order.
func Greedy(ctx context.Context, in *placement.Instance, place func(*placement.Instance, []int) []int64) []int64 {
	var best []int64
	load := in.Load()
	for _, o := range Orders() {
		if best != nil && (ctx.Err() != nil || in.Height(best) <= load) {
			break
		}
		if found := place(in, Sorted(in, o)); best == nil || in.Height(found) < in.Height(best) {
			best = found
		}
	}
	return best
}
