package pipeline

import (
	"encoding/binary"
	"slices"
)

// raceWays are the ways of a race: to each places those of which none is as early as another everywhere. Times are packed,
// three in a word, each with a bit above it, so that three are compared at once. The next race uses the memory again:
// 40 to 100 bytes a way.
type raceWays struct {
	ways   []arrived
	words  []uint64 // of all ways
	fronts []front
	table  []int32 // open addressing: number of a front plus 1
	queue  []int32 // by how far behind: the way that came last
	lowest int     // nothing is before it
	again  bool    // a way came back, earlier
	beyond bool    // a time is out of range
}

// An arrived way is of a front.
type arrived struct {
	words  uint32 // the first of its times
	front  int32
	from   int32
	next   int32 // of the front
	queued int32 // next in its place of the queue
	beaten bool  // another is no later
}

// A front is the list of ways to the same places.
type front struct {
	places
	inside int32
	first  int32
}

const (
	laneBits  = 21 // of a time: the highest is free
	laneMost  = 1 << (laneBits - 1)
	laneGuard = laneMost<<(2*laneBits) | laneMost<<laneBits | laneMost
	// Ways are queued by how far behind they are, in so many places of so many units.
	queuePlaces, queueWidth = 1 << 14, 4
)

// reset is before each race.
func (w *raceWays) reset() {
	if w.queue == nil {
		w.queue, w.table = make([]int32, queuePlaces), make([]int32, 1<<10)
	}
	w.ways, w.words, w.fronts = w.ways[:0], w.words[:0], w.fronts[:0]
	w.again, w.beyond, w.lowest = false, false, queuePlaces
	w.table = w.table[:1<<10]
	clear(w.table)
	for i := range w.queue {
		w.queue[i] = none
	}
}

// pack appends the times of x to the words. It reports false if one is out of range.
func (w *raceWays) pack(x *runner) bool {
	word, shift := uint64(0), 0
	for _, t := range x.times {
		lane := uint64(t) + laneMost/2
		if lane >= laneMost {
			return false
		}
		word |= lane << shift
		if shift += laneBits; shift == 3*laneBits {
			w.words = append(w.words, word)
			word, shift = 0, 0
		}
	}
	if shift > 0 {
		w.words = append(w.words, word)
	}
	return true
}

// time is the k-th time of a way.
func (w *raceWays) time(words uint32, k int) int32 {
	return int32(w.words[int(words)+k/3]>>(laneBits*(k%3))&(laneMost-1)) - laneMost/2
}

// arrive queues x, which comes of another way, unless one is there that is no later. O(front).
func (w *raceWays) arrive(x *runner, from, behind int32) {
	start := uint32(len(w.words))
	if !w.pack(x) {
		w.beyond = true
		return
	}
	n, f := len(w.words)-int(start), w.find(x)
	here := &w.fronts[f]
	for before, i := int32(none), here.first; i != none; before, i = i, w.ways[i].next {
		y := &w.ways[i]
		if !w.noLater(y.words, start, n) {
			continue
		}
		if before != none { // it is asked first from now on
			w.ways[before].next, y.next, here.first = y.next, here.first, i
		}
		w.words = w.words[:start]
		return
	}
	beats := false
	for link := &here.first; *link != none; {
		y := &w.ways[*link]
		if y.beaten = w.noLater(start, y.words, n); y.beaten {
			*link, beats = y.next, true
			continue
		}
		link = &y.next
	}
	for i := from; beats && i != none && !w.again; i = w.ways[i].from {
		w.again = w.ways[i].front == f && w.earlier(start, w.ways[i].words, len(x.times))
	}
	id, place := int32(len(w.ways)), min(max(0, queuePlaces/4+behind/queueWidth), queuePlaces-1)
	w.ways = append(w.ways, arrived{words: start, front: f, from: from, next: here.first, queued: w.queue[place]})
	here.first, w.queue[place] = id, id
	w.lowest = min(w.lowest, int(place))
}

// noLater reports whether no time of way x, so many words, is later than that of y.
func (w *raceWays) noLater(x, y uint32, n int) bool {
	other := w.words[y:]
	for i, t := range w.words[x:][:n] {
		if ((other[i]|laneGuard)-t)&laneGuard != laneGuard {
			return false
		}
	}
	return true
}

// earlier reports whether all of so many times of way x are earlier than those of y.
func (w *raceWays) earlier(x, y uint32, times int) bool {
	for k := range times {
		if w.time(x, k) >= w.time(y, k) {
			return false
		}
	}
	return true
}

// find returns the front of the places of x, a new one if there is none.
func (w *raceWays) find(x *runner) int32 {
	if 2*len(w.fronts) >= len(w.table) {
		n := 4 * len(w.table)
		w.table = slices.Grow(w.table[:0], n)[:n]
		clear(w.table)
		for f := range w.fronts {
			w.table[w.slot(&w.fronts[f].places)] = int32(f) + 1
		}
	}
	slot := w.slot(&x.places)
	if w.table[slot] == 0 {
		w.fronts = append(w.fronts, front{x.places, int32(x.inside), none})
		w.table[slot] = int32(len(w.fronts))
	}
	return w.table[slot] - 1
}

// slot is where the table has a place, or room for it.
func (w *raceWays) slot(p *places) int {
	const odd = 0x9e3779b97f4a7c15
	h := (binary.LittleEndian.Uint64(p[:8])*odd ^ uint64(binary.LittleEndian.Uint32(p[8:]))) * odd
	mask := len(w.table) - 1
	for i := int(h>>32) & mask; ; i = (i + 1) & mask {
		if f := w.table[i]; f == 0 || w.fronts[f-1].places == *p {
			return i
		}
	}
}

// pop makes x a way that is least behind. It reports false if there is none left.
func (w *raceWays) pop(procs int, x *runner) bool {
	for ; w.lowest < queuePlaces; w.lowest++ {
		for i := w.queue[w.lowest]; i != none; i = w.queue[w.lowest] {
			y := &w.ways[i]
			w.queue[w.lowest] = y.queued
			if y.beaten {
				continue
			}
			f := &w.fronts[y.front]
			x.id, x.places, x.inside, x.times = i, f.places, int(f.inside), x.times[:0]
			for k := range 1 + procs + x.inside {
				x.times = append(x.times, w.time(y.words, k))
			}
			return true
		}
	}
	return false
}
