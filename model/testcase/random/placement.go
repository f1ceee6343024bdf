package random

import (
	"fmt"
	"math"
	"math/rand/v2"

	"workbench/model/instance/lifetimes"
)

// Lifetimes returns the given number of buffers of small integer sizes and lifetimes.
func Lifetimes(r *rand.Rand, buffers int) *lifetimes.Lifetimes {
	l := &lifetimes.Lifetimes{Name: "random"}
	instants := int64(2 + r.IntN(buffers+2))
	for i := range buffers {
		from := r.Int64N(instants)
		l.Buffers = append(l.Buffers, lifetimes.Buffer{
			ID: fmt.Sprint(i), Lower: from, Upper: from + 1 + r.Int64N(instants-from), Size: float64(r.IntN(8)),
		})
	}
	return l
}

// AboveLoad returns the eight buffers of load 8 and least height 9 that random ones
// led to, fewer were never above their load; mirrored in time or not, times some
// number, and half of the times one size differs by one.
func AboveLoad(r *rand.Rand) *lifetimes.Lifetimes {
	l := &lifetimes.Lifetimes{Name: "above its load"}
	factor, mirrored := float64(1+r.IntN(5)), r.IntN(2) == 0
	for i, x := range [...][3]int64{{5, 7, 1}, {3, 5, 3}, {4, 7, 3}, {4, 6, 1}, {4, 6, 1}, {1, 4, 5}, {6, 8, 3}, {7, 8, 5}} {
		b := lifetimes.Buffer{ID: fmt.Sprint(i), Lower: x[0], Upper: x[1], Size: factor * float64(x[2])}
		if mirrored {
			b.Lower, b.Upper = 9-x[1], 9-x[0]
		}
		l.Buffers = append(l.Buffers, b)
	}
	if r.IntN(2) == 0 {
		l.Buffers[r.IntN(len(l.Buffers))].Size += float64(1 - 2*r.IntN(2))
	}
	r.Shuffle(len(l.Buffers), func(i, j int) { l.Buffers[i], l.Buffers[j] = l.Buffers[j], l.Buffers[i] })
	return l
}

// Structured returns at most the given number of buffers in one or two pools with every rule of
// lifetimes/v2, each with some probability, and often too little capacity.
func Structured(r *rand.Rand, buffers int) *lifetimes.Lifetimes {
	for {
		l := Lifetimes(r, 1+r.IntN(buffers))
		l.Name, l.Align = "structured", [...]int64{0, 0, 2}[r.IntN(3)]
		l.Objective = [...]string{"", lifetimes.LargestHeight, lifetimes.TotalPenalty, lifetimes.TotalPenalty}[r.IntN(4)]
		some := func(n int) bool { return r.IntN(n) == 0 }
		total := 0.0
		for i := range l.Buffers {
			b := &l.Buffers[i]
			b.Size = min(b.Size, 6)
			if l.Objective == lifetimes.TotalPenalty { // short lives, so that many share addresses
				b.Size, b.Upper = max(b.Size, 1), min(b.Upper, b.Lower+2)
			}
			total += b.Size
		}
		for k := range 1 + r.IntN(2) {
			p := lifetimes.Pool{ID: fmt.Sprint("pool", k), Capacity: math.Inf(1)}
			if l.Objective == lifetimes.TotalPenalty || some(3) {
				p.Capacity = math.Floor(total * (0.3 + 0.7*r.Float64()))
			}
			if some(3) {
				begin := float64(r.IntN(8))
				p.Reserved = append(p.Reserved, lifetimes.Range{Begin: begin, End: begin + 1 + float64(r.IntN(4))})
			}
			l.Pools = append(l.Pools, p)
		}
		for i := range l.Buffers {
			b := &l.Buffers[i]
			b.Pool = r.IntN(len(l.Pools))
			if some(4) {
				b.Align = int64(1 + r.IntN(4))
			}
			if some(3) && b.Upper-b.Lower > 2 {
				b.Gaps = []lifetimes.Interval{{Lower: b.Lower + 1, Upper: b.Lower + 2 + r.Int64N(b.Upper-b.Lower-2)}}
			}
			if some(6) {
				grid := max(1, l.Align, b.Align)
				if b.Align > 0 {
					grid = b.Align
				}
				b.Pinned, b.Offset, b.Exclusive = true, float64(grid*r.Int64N(5)), some(3)
			}
		}
		pair := func() lifetimes.Pair {
			return lifetimes.Pair{First: r.IntN(len(l.Buffers)), Second: r.IntN(len(l.Buffers))}
		}
		for range r.IntN(3) {
			l.Separations = append(l.Separations, pair())
		}
		for range r.IntN(3) {
			l.Exclusions = append(l.Exclusions, pair())
		}
		for range r.IntN(4 * buffers) {
			l.Penalties = append(l.Penalties, lifetimes.Penalty{Pair: pair(), Cost: int64(r.IntN(4))})
		}
		if some(3) {
			c := pair()
			l.Buffers[c.Second].Size, l.Buffers[c.Second].Pool = l.Buffers[c.First].Size, l.Buffers[c.First].Pool
			l.Colocations = append(l.Colocations, c)
		}
		if l.Validate() == nil {
			return l
		}
	}
}
