package race

import (
	"encoding/binary"
	"slices"
)

// Memory are the ways of a race: to each places those of which none is as early as another everywhere. Times are packed,
// three in a word, each with a bit above it, so that three are compared at once. The next race uses the memory again:
// 40 to 100 bytes a way.
type Memory struct {
	ways   []arrived
	words  []uint64 // of all ways
	fronts []front
	table  []int32 // open addressing: number of a front plus 1
	queue  []int32 // by how far behind: the way that came last
	lowest int     // nothing is before it
	again  bool    // a way came back, earlier
	beyond bool    // a time is out of range

	start uint32 // of the way that arrives: its words, their number, and its front
	size  int
	at    int32
}

// An arrived way is of a front.
type arrived struct {
	words  uint32 // the first of its times
	front  int32
	from   int32
	next   int32  // of the front
	queued int32  // next in its place of the queue
	beaten bool   // another is no later
	open   uint16 // by mini-batch: what it has begun last may not be over when something else begins there
}

// A front is the list of ways to the same places.
type front struct {
	places
	inside int32
	first  int32
	beaten bool
}

// none is no way, and no front.
const none = -1

const (
	laneBits  = 21 // of a time: the highest is free
	laneMost  = 1 << (laneBits - 1)
	leastTime = -laneMost / 2
	laneGuard = laneMost<<(2*laneBits) | laneMost<<laneBits | laneMost
	// Ways are queued by how far behind they are, in so many places of so many units.
	queuePlaces, queueWidth = 1 << 14, Grain / 512
)

// reset is before each race.
func (w *Memory) reset() {
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
func (w *Memory) pack(x *runner) bool {
	start, word, shift := len(w.words), uint64(0), 0
	for _, t := range x.times {
		lane := uint64(int64(t) - leastTime)
		if lane >= laneMost {
			w.words = w.words[:start]
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
func (w *Memory) time(words uint32, k int) int32 {
	return int32(w.words[int(words)+k/3]>>(laneBits*(k%3))&(laneMost-1)) + leastTime
}

// arrive packs x and reports whether no way to its places is no later; else add has to follow. O(front).
func (w *Memory) arrive(x *runner) bool {
	w.start = uint32(len(w.words))
	if !w.pack(x) {
		w.beyond = true
		return false
	}
	w.at, w.size = w.find(x), len(w.words)-int(w.start)
	here := &w.fronts[w.at]
	for before, i := int32(none), here.first; i != none; before, i = i, w.ways[i].next {
		y := &w.ways[i]
		if !w.noLater(y.words, w.start, w.size) {
			continue
		}
		if before != none { // it is asked first from now on
			w.ways[before].next, y.next, here.first = y.next, here.first, i
		}
		w.words = w.words[:w.start]
		return false
	}
	return true
}

// forget is instead of add.
func (w *Memory) forget() { w.words = w.words[:w.start] }

// add queues x, which comes of another way and has arrived, and drops those to its places that are no earlier.
func (w *Memory) add(x *runner, from, behind int32) {
	here := &w.fronts[w.at]
	w.prune(here, func(y uint32) bool { return w.noLater(w.start, y, w.size) })
	for i := from; here.beaten && i != none && !w.again; i = w.ways[i].from {
		w.again = w.ways[i].front == w.at && w.earlier(w.start, w.ways[i].words, len(x.times))
	}
	id, place := int32(len(w.ways)), min(max(0, queuePlaces/4+behind/queueWidth), queuePlaces-1)
	w.ways = append(w.ways, arrived{words: w.start, front: w.at, from: from, next: here.first, queued: w.queue[place], open: x.open})
	here.first, w.queue[place] = id, id
	w.lowest = min(w.lowest, int(place))
}

// noLater reports whether no time of way x, so many words, is later than that of y.
func (w *Memory) noLater(x, y uint32, n int) bool {
	other := w.words[y:]
	for i, t := range w.words[x:][:n] {
		if ((other[i]|laneGuard)-t)&laneGuard != laneGuard {
			return false
		}
	}
	return true
}

// earlier reports whether all of so many times of way x are earlier than those of y.
func (w *Memory) earlier(x, y uint32, times int) bool {
	for k := range times {
		if w.time(x, k) >= w.time(y, k) {
			return false
		}
	}
	return true
}

// find returns the front of the places of x, a new one if there is none.
func (w *Memory) find(x *runner) int32 {
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
		w.fronts = append(w.fronts, front{x.places, int32(x.inside), none, false})
		w.table[slot] = int32(len(w.fronts))
	}
	return w.table[slot] - 1
}

// slot is where the table has a place, or room for it.
func (w *Memory) slot(p *places) int {
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
func (w *Memory) pop(procs int, x *runner) bool {
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

// outrun reports whether a way to the places of x is no later, in which what m has begun last is over.
func (w *Memory) outrun(x *runner, m int) bool {
	f := w.table[w.slot(&x.places)] - 1
	if f < 0 {
		return false
	}
	start, found := uint32(len(w.words)), false
	if w.pack(x) {
		n := len(w.words) - int(start)
		for i := w.fronts[f].first; i != none && !found; i = w.ways[i].next {
			found = w.ways[i].open>>m&1 == 0 && w.noLater(w.ways[i].words, start, n)
		}
	}
	w.words = w.words[:start]
	return found
}

// drop drops the ways to the places of x that are no earlier, and whose time m or free is no earlier than ready.
func (w *Memory) drop(x *runner, m, free int, ready int32) {
	f := w.table[w.slot(&x.places)] - 1
	if f < 0 {
		return
	}
	if start := uint32(len(w.words)); w.pack(x) {
		n := len(w.words) - int(start)
		w.prune(&w.fronts[f], func(y uint32) bool {
			return w.noLater(start, y, n) && max(w.time(y, m), w.time(y, free)) >= ready
		})
		w.words = w.words[:start]
	}
}

// prune drops ways of a front.
func (w *Memory) prune(f *front, beaten func(words uint32) bool) {
	for link := &f.first; *link != none; {
		y := &w.ways[*link]
		if y.beaten = beaten(y.words); y.beaten {
			*link, f.beaten = y.next, true
			continue
		}
		link = &y.next
	}
}
