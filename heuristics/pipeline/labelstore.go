package pipeline

import "slices"

// label is a partial schedule. Times are relative to the deadline of the newest mini-batch: of the latest start, 0;
// when the first layer of what each processor started last ends, 1+p; when each mini-batch can start its next step,
// 1+P+m.
type label struct {
	position
	inside int
	id     int32 // in the store
	times  []int32
}

// position has the number of steps that each mini-batch inside has started, the newest first.
type position [16]uint8

// labelStore has the labels of a search. Those at the same position form a bucket, in which none
// dominates another one in every time. Times are packed, three in a word, each with a free bit
// above it, so that three are compared at once. The next search reuses the memory.
type labelStore struct {
	procs    int
	labels   []storedLabel
	words    []uint64 // times of all labels
	buckets  []bucket
	index    map[position]int32
	queue    []int32 // by priority: the label that came last
	lowest   int     // no label has a lower priority
	repeated bool    // a label came back to the position of an ancestor, earlier
	overflow bool    // a time is out of range
}

type storedLabel struct {
	words     uint32 // where its times begin
	bucket    int32
	from      int32
	queued    int32 // next of its priority
	dominated bool
}

type bucket struct {
	position
	inside, size int32 // mini-batches, and words of a label
	ids          []int32
	dominated    bool // one of its labels was
}

// noLabel is the id of no label.
const noLabel = -1

const (
	laneBits  = 21 // of a time: the highest is free
	laneMost  = 1 << (laneBits - 1)
	leastTime = -laneMost / 2
	laneGuard = laneMost<<(2*laneBits) | laneMost<<laneBits | laneMost
	// The priority queue has queueSlots slots of queueWidth units.
	queueSlots, queueWidth = 1 << 14, gridUnits / 512
)

// reset empties the store, for labels of that number of processors.
func (w *labelStore) reset(procs int) {
	if w.queue == nil {
		w.queue, w.index = make([]int32, queueSlots), map[position]int32{}
	}
	clear(w.index)
	w.procs, w.labels, w.words, w.buckets = procs, w.labels[:0], w.words[:0], w.buckets[:0]
	w.repeated, w.overflow, w.lowest = false, false, queueSlots
	for i := range w.queue {
		w.queue[i] = noLabel
	}
}

// pack appends the times of x to the words and returns them. It reports false if one is out of range.
func (w *labelStore) pack(x *label) (packed []uint64, ok bool) {
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

// timeAt returns the k-th of the packed times.
func timeAt(packed []uint64, k int) int32 {
	return int32(packed[k/3]>>(laneBits*(k%3))&(laneMost-1)) + leastTime
}

// noLater reports whether no time of x is later than that of y. The mini-batches in the middle, which differ most, are
// compared early.
func noLater(x, y []uint64) bool {
	for i := len(x) - 1; i >= 0; i-- {
		if ((y[i]|laneGuard)-x[i])&laneGuard != laneGuard {
			return false
		}
	}
	return true
}

// insert adds x, which extends another label, unless it is dominated, and removes the labels that it dominates.
// O(bucket).
func (w *labelStore) insert(x *label, from, behind int32) {
	start := len(w.words)
	packed, ok := w.pack(x)
	if !ok {
		w.overflow = true
		return
	}
	at := w.bucketOf(x, len(packed))
	b := &w.buckets[at]
	kept := 0
	for k, id := range b.ids {
		y := w.words[w.labels[id].words:][:b.size]
		if noLater(y, packed) { // so that x removes none
			b.ids[k], b.ids[k/2] = b.ids[k/2], id // compared earlier from now on
			w.words = w.words[:start]
			return
		}
		if noLater(packed, y) {
			w.labels[id].dominated, b.dominated = true, true
			continue
		}
		b.ids[kept] = id
		kept++
	}
	b.ids = b.ids[:kept]
	for i := from; b.dominated && i != noLabel && !w.repeated; i = w.labels[i].from {
		w.repeated = w.labels[i].bucket == at && earlier(packed, w.words[w.labels[i].words:], len(x.times))
	}
	id, slot := int32(len(w.labels)), min(max(0, queueSlots/4+behind/queueWidth), queueSlots-1)
	w.labels = append(w.labels, storedLabel{words: uint32(start), bucket: at, from: from, queued: w.queue[slot]})
	w.queue[slot], w.lowest = id, min(w.lowest, int(slot))
	b.ids = append(b.ids, id)
}

// earlier reports whether each of the first times of x is earlier than that of y.
func earlier(x, y []uint64, times int) bool {
	for k := range times {
		if timeAt(x, k) >= timeAt(y, k) {
			return false
		}
	}
	return true
}

// bucketOf returns the bucket of the position of x, a new one if there is none, for labels of that many words.
func (w *labelStore) bucketOf(x *label, size int) int32 {
	at, known := w.index[x.position]
	if !known {
		at = int32(len(w.buckets))
		w.index[x.position] = at
		if len(w.buckets) < cap(w.buckets) {
			w.buckets = w.buckets[:at+1]
		} else {
			w.buckets = append(w.buckets, bucket{})
		}
		b := &w.buckets[at]
		*b = bucket{position: x.position, inside: int32(x.inside), size: int32(size), ids: b.ids[:0]}
	}
	return at
}

// pop sets x to a label with the smallest lateness. It reports false if none is left.
func (w *labelStore) pop(x *label) bool {
	for ; w.lowest < queueSlots; w.lowest++ {
		for i := w.queue[w.lowest]; i != noLabel; i = w.queue[w.lowest] {
			y := &w.labels[i]
			w.queue[w.lowest] = y.queued
			if y.dominated {
				continue
			}
			b := &w.buckets[y.bucket]
			x.id, x.position, x.inside = i, b.position, int(b.inside)
			x.times = slices.Grow(x.times[:0], 1+w.procs+x.inside)
			for k := range 1 + w.procs + x.inside {
				x.times = append(x.times, timeAt(w.words[y.words:], k))
			}
			return true
		}
	}
	return false
}
