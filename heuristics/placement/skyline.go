package placement

import (
	"slices"

	"workbench/model/problem/placement"
)

// Skyline returns the best fit of Burke, Kendall and Whitwell, A New Placement Heuristic for the Orthogonal
// Stock-Cutting Problem, Operations Research 52(4), 2004, applied to memory as in Sekiyama, Imai and Negishi,
// Profile-guided memory optimization for deep neural networks, 2018, §3.2. The skyline is the height of the placed
// buffers at each time. Its lowest stretch takes the first buffer of an order that lives within it; if there is
// none, it is raised to the lower of its neighbours. The paper's order is by lifetime; here the usual ones are
// used. Nothing is placed below the skyline. O(n·(n + stretches)).
func Skyline(in *placement.Instance, order []int) []int64 {
	offsets := make([]int64, len(in.Buffers))
	skylineAround(in, order, nil, offsets)
	return offsets
}

// skylineAround is [Skyline] of the buffers in order around fixed ones: a stretch rises at most to the lowest
// fixed buffer above it, and skips those that it has reached. O(n·(n + stretches)·fixed).
func skylineAround(in *placement.Instance, order []int, fixed []fixedBuffer, offsets []int64) {
	left := make([][]int, in.Sections) // by first section, in the order
	count := 0
	for _, i := range order {
		if b := &in.Buffers[i]; b.Room > 0 {
			left[b.First] = append(left[b.First], i)
			count++
		}
	}
	rank := make([]int, len(in.Buffers))
	for k, i := range order {
		rank[i] = k
	}
	line := []interval{{0, 0, 0, int32(in.Sections) - 1}} // low: its height
	for count > 0 {
		k := 0
		for j := range line {
			if line[j].low < line[k].low {
				k = j
			}
		}
		under, above, ceiling := around(fixed, line[k])
		if under != nil {
			line = raise(line, k, under)
			continue
		}
		i := firstFitting(in, left, rank, line[k], above)
		if i < 0 {
			line = lift(line, k, ceiling)
			continue
		}
		count--
		offsets[i] = line[k].low
		line = raise(line, k, &in.Buffers[i])
	}
}

// around returns, among the fixed buffers that live in a stretch, the part of one that covers its height, nil:
// none, and those above it with their lowest offset.
func around(fixed []fixedBuffer, x interval) (under *placement.Buffer, above []fixedBuffer, ceiling int64) {
	ceiling = none
	for _, f := range fixed {
		switch first, last := max(f.First, int(x.first)), min(f.Last, int(x.last)); {
		case first > last || f.at+f.Room <= x.low:
		case f.at <= x.low:
			return &placement.Buffer{First: first, Last: last, Room: f.at + f.Room - x.low}, nil, 0
		default:
			above, ceiling = append(above, f), min(ceiling, f.at)
		}
	}
	return nil, above, ceiling
}

// firstFitting returns the first buffer of the order that lives within a stretch and fits below the fixed ones
// above it, -1: none.
func firstFitting(in *placement.Instance, left [][]int, rank []int, x interval, above []fixedBuffer) int {
	best, at, place := -1, 0, 0
	for s := int(x.first); s <= int(x.last); s++ {
		for k, i := range left[s] {
			b := &in.Buffers[i]
			if b.Last <= int(x.last) && !slices.ContainsFunc(above, func(f fixedBuffer) bool { return f.at < x.low+b.Room && f.Meets(b) }) {
				if best < 0 || rank[i] < rank[best] {
					best, at, place = i, s, k
				}
				break // the others of this section come later
			}
		}
	}
	if best >= 0 {
		left[at] = append(left[at][:place], left[at][place+1:]...)
	}
	return best
}

// raise puts a buffer on stretch k, which is divided into up to three.
func raise(line []interval, k int, b *placement.Buffer) []interval {
	x := line[k]
	parts := make([]interval, 0, 3)
	if int(x.first) < b.First {
		parts = append(parts, interval{x.low, 0, x.first, int32(b.First) - 1})
	}
	parts = append(parts, interval{x.low + b.Room, 0, int32(b.First), int32(b.Last)})
	if b.Last < int(x.last) {
		parts = append(parts, interval{x.low, 0, int32(b.Last) + 1, x.last})
	}
	return join(append(line[:k:k], append(parts, line[k+1:]...)...), max(k-1, 0))
}

// lift raises the lowest stretch, k, to the minimum of its neighbours and a ceiling. One of them
// exists while buffers remain, since each of them lives within the complete range of time.
func lift(line []interval, k int, to int64) []interval {
	if k > 0 {
		to = min(to, line[k-1].low)
	}
	if k+1 < len(line) {
		to = min(to, line[k+1].low)
	}
	line[k].low = to
	return join(line, max(k-1, 0))
}

// join merges adjacent stretches of equal height, from stretch k on, up to four of them.
func join(line []interval, k int) []interval {
	for range 4 {
		if k+1 < len(line) && line[k].low == line[k+1].low {
			line[k].last = line[k+1].last
			line = append(line[:k+1], line[k+2:]...)
		} else {
			k++
		}
	}
	return line
}
