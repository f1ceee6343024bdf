package race

import (
	"encoding/binary"
	"math"
	"slices"
)

// Memory holds the ways of a race. Of those to the same places, none is as early as another in every time. Times are packed,
// three in a word, each with a bit above it, so that three are compared at once, and ways to the same places lie together: 60 to 200
// bytes a way. The next race uses the memory again.
type Memory struct {
	ways   []arrived
	words  []uint64 // times of all ways
	fronts []front
	blocks []uint64 // of fronts
	table  []uint64 // open addressing: the high half is that of the hash, the low one the number of a front plus 1
	some   []uint64 // bits by hash: whether there may be a front, in less memory than the table
	queue  []int32  // by how far behind: the way that came last
	lowest int      // nothing is before it
	again  bool     // a way came back, earlier
	beyond bool     // a time is out of range

	start int // of the way that arrives: its words, and its front
	at    int32
}

// An arrived way is of a front.
type arrived struct {
	words  uint32 // the first of its times
	front  int32
	from   int32
	queued int32 // next in its place of the queue
	beaten bool  // another is no later
}

// A front has the ways to the same places of which none is as early as another everywhere: in a block, word by word, and last their marks.
type front struct {
	places
	inside, size int32 // mini-batches, and words of a way
	count, room  int32 // ways there are, and may be in the block
	block        uint32
	beaten       bool
}

// A mark is the number of a way, and above it by mini-batch: what it has begun last may not be over when something else begins there.
type mark uint64

func newMark(way int32, open uint16) mark { return mark(open)<<32 | mark(way) }

func (k mark) way() int32   { return int32(uint32(k)) }
func (k mark) open() uint16 { return uint16(k >> 32) }

// none is no way, and no front.
const none = -1

const (
	laneBits  = 21 // of a time: the highest is free
	laneMost  = 1 << (laneBits - 1)
	leastTime = -laneMost / 2
	laneGuard = laneMost<<(2*laneBits) | laneMost<<laneBits | laneMost
	// Ways are queued by how far behind they are, in so many places of so many units.
	queuePlaces, queueWidth = 1 << 14, Grain / 512
	// leastTable is the number of entries of the smallest table. For each entry there are two bits of some.
	leastTable = 1 << 10
)

// reset is before each race.
func (w *Memory) reset() {
	if w.queue == nil {
		w.queue, w.table, w.some = make([]int32, queuePlaces), make([]uint64, leastTable), make([]uint64, leastTable/32)
	}
	w.ways, w.words, w.fronts, w.blocks = w.ways[:0], w.words[:0], w.fronts[:0], w.blocks[:0]
	w.again, w.beyond, w.lowest = false, false, queuePlaces
	w.table, w.some = w.table[:leastTable], w.some[:leastTable/32]
	clear(w.table)
	clear(w.some)
	for i := range w.queue {
		w.queue[i] = none
	}
}

// pack appends the times of x to the words, and returns them. It reports false if one is out of range.
func (w *Memory) pack(x *runner) (packed []uint64, ok bool) {
	start, word, shift := len(w.words), uint64(0), 0
	for _, t := range x.times {
		lane := uint64(int64(t) - leastTime)
		if lane >= laneMost {
			w.words = w.words[:start]
			return nil, false
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
	return w.words[start:], true
}

// time is the k-th of times that are packed.
func time(packed []uint64, k int) int32 {
	return int32(packed[k/3]>>(laneBits*(k%3))&(laneMost-1)) + leastTime
}

// earlier reports whether all of so many times of x are earlier than those of y.
func earlier(x, y []uint64, times int) bool {
	for k := range times {
		if time(x, k) >= time(y, k) {
			return false
		}
	}
	return true
}

// telling is the word that is compared first: that of the mini-batches in the middle, which differ most.
func (f *front) telling() int32 { return f.size - 1 - f.inside/6 }

// column are the words of that number of the ways of a front. Behind the last is that of their marks.
func (w *Memory) column(f *front, i int32) []uint64 {
	at := f.block + uint32(i*f.room)
	return w.blocks[at:][:f.count]
}

// noLater returns the first way of a front, from k on, none of whose times is later than those; f.count if there is none.
func (w *Memory) noLater(f *front, k int32, packed []uint64) int32 {
	first := f.telling()
	column, most := w.column(f, first), packed[first]|laneGuard
	for ; int(k) < len(column); k++ {
		if (most-column[k])&laneGuard != laneGuard {
			continue
		}
		i, at := f.size-1, int(f.block)+int(k)
		for i >= 0 && ((packed[i]|laneGuard)-w.blocks[at+int(i*f.room)])&laneGuard == laneGuard {
			i--
		}
		if i < 0 {
			break
		}
	}
	return k
}

// noEarlier returns the first way of a front, from k on, none of whose times is earlier than those; f.count if there is none.
func (w *Memory) noEarlier(f *front, k int32, packed []uint64) int32 {
	first := f.telling()
	column, least := w.column(f, first), packed[first]
	for ; int(k) < len(column); k++ {
		if ((column[k]|laneGuard)-least)&laneGuard != laneGuard {
			continue
		}
		i, at := f.size-1, int(f.block)+int(k)
		for i >= 0 && ((w.blocks[at+int(i*f.room)]|laneGuard)-packed[i])&laneGuard == laneGuard {
			i--
		}
		if i < 0 {
			break
		}
	}
	return k
}

// arrive packs x and reports whether no way to its places is no later; else add has to follow. O(front).
func (w *Memory) arrive(x *runner) bool {
	w.start = len(w.words)
	packed, ok := w.pack(x)
	if !ok {
		w.beyond = true
		return false
	}
	w.at = w.find(x, len(packed))
	f := &w.fronts[w.at]
	if k := w.noLater(f, 0, packed); k < f.count {
		w.swap(f, k, k/2) // it is asked sooner from now on
		w.forget()
		return false
	}
	return true
}

// swap lets two ways of a front change places.
func (w *Memory) swap(f *front, j, k int32) {
	for i := range f.size + 1 {
		x := w.column(f, i)
		x[j], x[k] = x[k], x[j]
	}
}

// forget is instead of add.
func (w *Memory) forget() { w.words = w.words[:w.start] }

// add queues x, which comes of another way and has arrived, and drops those to its places that are no earlier.
func (w *Memory) add(x *runner, from, behind int32) {
	f, packed := &w.fronts[w.at], w.words[w.start:]
	for k := w.noEarlier(f, 0, packed); k < f.count; k = w.noEarlier(f, k, packed) {
		w.beat(f, k)
	}
	for i := from; f.beaten && i != none && !w.again; i = w.ways[i].from {
		w.again = w.ways[i].front == w.at && earlier(packed, w.words[w.ways[i].words:], len(x.times))
	}
	id, place := int32(len(w.ways)), min(max(0, queuePlaces/4+behind/queueWidth), queuePlaces-1)
	w.ways = append(w.ways, arrived{words: uint32(w.start), front: w.at, from: from, queued: w.queue[place]})
	w.queue[place], w.lowest = id, min(w.lowest, int(place))
	if f.count == f.room {
		w.widen(f)
	}
	f.count++
	for i, word := range packed {
		w.column(f, int32(i))[f.count-1] = word
	}
	w.column(f, f.size)[f.count-1] = uint64(newMark(id, x.open))
}

// beat drops the k-th way of a front; the last takes its place.
func (w *Memory) beat(f *front, k int32) {
	w.ways[mark(w.column(f, f.size)[k]).way()].beaten, f.beaten = true, true
	w.swap(f, k, f.count-1)
	f.count--
}

// widen gives a front a block for twice as many ways; the one before is not used again.
func (w *Memory) widen(f *front) {
	before, n := *f, len(w.blocks)
	f.room, f.block = max(2, 2*f.room), uint32(n)
	size := int((f.size + 1) * f.room)
	w.blocks = slices.Grow(w.blocks, size)[:n+size]
	for i := range f.size + 1 {
		copy(w.column(f, i), w.column(&before, i))
	}
}

// find returns the front of the places of x, a new one if there is none, for ways of so many words.
func (w *Memory) find(x *runner, size int) int32 {
	if 2*len(w.fronts) >= len(w.table) {
		w.grow()
	}
	h := hash(&x.places)
	slot := w.slot(&x.places, h)
	if w.table[slot] == 0 {
		w.fronts = append(w.fronts, front{places: x.places, inside: int32(x.inside), size: int32(size)})
		w.enter(slot, h&^math.MaxUint32|uint64(len(w.fronts)))
	}
	return int32(uint32(w.table[slot])) - 1
}

// known returns the front of places, none if there is none.
func (w *Memory) known(p *places) int32 {
	h := hash(p)
	if bit := w.bit(h); w.some[bit/64]>>(bit%64)&1 == 0 {
		return none
	}
	return int32(uint32(w.table[w.slot(p, h)])) - 1
}

// grow makes the table four times as large.
func (w *Memory) grow() {
	n := 4 * len(w.table)
	w.table, w.some = slices.Grow(w.table[:0], n)[:n], slices.Grow(w.some[:0], n/32)[:n/32]
	clear(w.table)
	clear(w.some)
	for f := range w.fronts {
		p := &w.fronts[f].places
		h := hash(p)
		w.enter(w.slot(p, h), h&^math.MaxUint32|uint64(f+1))
	}
}

// enter fills in a slot.
func (w *Memory) enter(slot int, e uint64) {
	bit := w.bit(e)
	w.table[slot] = e
	w.some[bit/64] |= 1 << (bit % 64)
}

// bit is that of a hash.
func (w *Memory) bit(h uint64) int { return int(h>>32) & (2*len(w.table) - 1) }

// hash is one of places.
func hash(p *places) uint64 {
	const odd = 0x9e3779b97f4a7c15
	return (binary.LittleEndian.Uint64(p[:8])*odd ^ binary.LittleEndian.Uint64(p[8:])) * odd
}

// slot is where the table has places of that hash, or room for them.
func (w *Memory) slot(p *places, h uint64) int {
	mask := len(w.table) - 1
	for i := int(h>>32) & mask; ; i = (i + 1) & mask {
		if e := w.table[i]; e == 0 || e>>32 == h>>32 && w.fronts[uint32(e)-1].places == *p {
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
				x.times = append(x.times, time(w.words[y.words:], k))
			}
			return true
		}
	}
	return false
}

// outrun reports whether a way to the places of x is no later, in which what m has begun last is over.
func (w *Memory) outrun(x *runner, m int) bool {
	n := w.known(&x.places)
	if n == none {
		return false
	}
	f, start, found := &w.fronts[n], len(w.words), false
	if packed, ok := w.pack(x); ok {
		marks := w.column(f, f.size)
		for k := w.noLater(f, 0, packed); k < f.count && !found; k = w.noLater(f, k+1, packed) {
			found = mark(marks[k]).open()>>m&1 == 0
		}
	}
	w.words = w.words[:start]
	return found
}

// drop drops the ways to the places of x that are no earlier, and whose time m or free is no earlier than ready.
func (w *Memory) drop(x *runner, m, free int, ready int32) {
	n := w.known(&x.places)
	if n == none {
		return
	}
	f, start := &w.fronts[n], len(w.words)
	if packed, ok := w.pack(x); ok {
		for k := w.noEarlier(f, 0, packed); k < f.count; k = w.noEarlier(f, k, packed) {
			if times := w.words[w.ways[mark(w.column(f, f.size)[k]).way()].words:]; max(time(times, m), time(times, free)) < ready {
				k++
				continue
			}
			w.beat(f, k)
		}
	}
	w.words = w.words[:start]
}

// left is the part of the ways that has not gone on. O(ways).
func (w *Memory) left() float64 {
	n := 0
	for _, first := range w.queue[w.lowest:] {
		for i := first; i != none; i = w.ways[i].queued {
			if !w.ways[i].beaten {
				n++
			}
		}
	}
	return float64(n) / float64(max(1, len(w.ways)))
}
