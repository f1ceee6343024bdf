package placement

// mostFailed limits the remembered states: some 200 MB.
const mostFailed = 3_000_000

// node searches below a node whose unplaced items lie in the sections from lo up to hi, the latter excluded.
// Offsets remain set if it is complete.
func (t *tree) node(lo, hi int) verdict {
	if t.nodes++; t.nodes > t.most || t.nodes&255 == 0 && t.ctx.Err() != nil {
		return stopped
	}
	lo, hi, parts := t.trim(lo, hi)
	if parts == 0 {
		return complete
	}
	if parts > 1 {
		return t.split(lo, hi)
	}
	t.visits += int64(hi-lo) + int64(t.first[hi]-t.first[lo])
	key := t.state(lo, hi)
	if _, ok := t.failed[key]; ok {
		t.why["nogood: a state that failed before"]++
		return refuted
	}
	t.why["enumerated"]++
	for {
		if s := t.choose(lo, hi); s >= 0 {
			k := t.pick(s)
			mark := t.mark()
			if !t.place(k) {
				t.why["a buffer reaches above the height"]++
			} else if !t.propagate(lo, hi) {
				t.why["no room above the minimum offset of a section"]++
			} else if v := t.node(lo, hi); v != refuted {
				return v
			}
			t.undo(mark)
			t.exclude(k)
		}
		if !t.propagate(lo, hi) {
			if t.remembered < mostFailed {
				t.failed[key] = struct{}{}
				t.remembered++
			}
			return refuted
		}
	}
}

// trim narrows the sections to those with unplaced items, and counts the parts into which these divide.
func (t *tree) trim(lo, hi int) (from, to, parts int) {
	for lo < hi && t.section[lo].rest == 0 {
		lo++
	}
	for lo < hi && t.section[hi-1].rest == 0 {
		hi--
	}
	for s := lo; s < hi; s++ {
		if t.section[s].rest > 0 && (s == hi-1 || t.section[s].crossing == 0) {
			parts++
		}
	}
	return lo, hi, parts
}

// split searches the parts one after the other, short ones first: they are independent.
func (t *tree) split(lo, hi int) verdict {
	for length := 1; ; length *= 2 {
		left := false
		begin := lo
		for s := lo; s < hi; s++ {
			if s < hi-1 && t.section[s].crossing > 0 {
				continue
			}
			if t.section[s].rest == 0 { // no unplaced items
				begin = s + 1
				continue
			}
			if n := s + 1 - begin; n > length {
				left = true
			} else if n > length/2 {
				if v := t.node(begin, s+1); v != complete {
					return v
				}
			}
			begin = s + 1
		}
		if !left {
			return complete
		}
	}
}

// state returns a hash of everything that determines the subtree of a node: the unplaced items, the minimum low of
// each section, which determines the drops of items that are not excluded, and low and drop of those that are. Two
// states share 128 bits with probability 2^-128, negligible even for a million of a million states.
func (t *tree) state(lo, hi int) (key [2]uint64) {
	add := func(a, b uint64) {
		h := mix(a ^ mix(b))
		key[0] += h
		key[1] += mix(h ^ a)
	}
	for i := int(t.first[lo]); i < int(t.first[hi]); i++ {
		x := &t.items[i]
		if x.placed {
			continue
		}
		key[0] += t.key[i][0]
		key[1] += t.key[i][1]
		if x.low > x.drop {
			add(t.key[i][0]^uint64(x.low), uint64(x.drop))
		}
	}
	for s := lo; s < hi; s++ {
		add(uint64(s)<<1, uint64(t.section[s].low.value))
	}
	return key
}

// choose returns the ready section to branch on, -1: none is before the items are lifted further. One with the
// overall minimum low is ready if that cannot be lifted.
func (t *tree) choose(lo, hi int) int {
	best, least := -1, 0.0
	for s := lo; s < hi; s++ {
		x := &t.section[s]
		if x.rest == 0 {
			continue
		}
		choices := float64(x.count)
		slack := t.limit + t.spare[s] - x.rest
		if min(x.next, x.low.value+t.least[s]) <= slack {
			choices++ // none of them
		}
		slack -= x.low.value
		var score float64
		switch t.rule {
		case lowest:
			score = float64(x.low.value) + choices/1024
		case fewest:
			score = choices
		case failing:
			score = choices / (1 + t.fails[s])
		case tightest:
			score = choices * float64(slack+1)
		case lowTight:
			score = float64(slack + x.low.value)
		}
		if choices == 1 {
			score = -1
		}
		if (best < 0 || score < least) && t.ready(s) {
			best, least = s, score
		}
	}
	return best
}

// ready reports whether all items that share the minimum low of a section are ready.
func (t *tree) ready(s int) bool {
	low := t.section[s].low.value
	for _, i := range t.in0[s] {
		x := &t.items[i]
		if x.placed || x.low != low {
			continue
		}
		if x.drop != low {
			return false
		}
		for q := x.first; q <= x.last; q++ {
			if t.section[q].top.without(i) <= low {
				return false
			}
		}
	}
	return true
}

// pick returns the item of a ready section that is placed first.
func (t *tree) pick(s int) int32 {
	best := int32(-1)
	for _, i := range t.in0[s] {
		if x := &t.items[i]; !x.placed && x.low == t.section[s].low.value && (best < 0 || t.rank[i] > t.rank[best]) {
			best = i
		}
	}
	return best
}

// place places an item at its low. It reports whether all items that it raises stay under the limit.
func (t *tree) place(k int32) bool {
	x := &t.items[k]
	x.placed, t.low[k] = true, none
	t.placed = append(t.placed, k)
	for s := x.first; s <= x.last; s++ {
		t.section[s].rest -= x.room
		if s < x.last {
			t.section[s].crossing--
		}
	}
	t.invalidate(x)
	top := x.low + x.room
	for _, j := range t.meets[k] {
		y := &t.items[j]
		if y.placed || y.drop >= top {
			continue
		}
		t.items0 = append(t.items0, savedItem{j, y.drop, y.low})
		y.drop = top
		if y.low < top {
			t.invalidate(y)
			y.low, t.low[j] = top, top
			if top+y.size > t.limit {
				return false
			}
		}
	}
	return true
}

// invalidate marks the sections whose minima an item determines as outdated, when the item's low changes.
func (t *tree) invalidate(x *item) {
	for s := x.first; s <= x.last; s++ {
		if y := &t.section[s]; x.low <= y.next || x.low+x.room <= y.top.other {
			t.touch(s)
		}
	}
}

// exclude excludes an item, and its twins, from its drop. If one of several twins at one drop cannot lie there,
// none can, since they are interchangeable.
func (t *tree) exclude(k int32) {
	x := t.items[k]
	for i := int(t.first[x.first]); i < int(t.first[x.first+1]); i++ {
		y := &t.items[i]
		if y.placed || y.twin != x.twin || y.low != x.low || y.drop != x.drop {
			continue
		}
		t.items0 = append(t.items0, savedItem{int32(i), y.drop, y.low})
		t.invalidate(y)
		y.low++
		t.low[i] = y.low
	}
}

// mostLifts limits the rounds of propagate: two excluded items may lift each other in small steps.
const mostLifts = 3

// propagate applies the inference rules until nothing changes. It reports whether the node is still open.
func (t *tree) propagate(lo, hi int) bool {
	for round := 0; ; round++ {
		if !t.refresh() {
			return false
		}
		if round == mostLifts {
			return true
		}
		for i := int(t.first[lo]); i < int(t.first[hi]); i++ {
			if x := &t.items[i]; !x.placed && x.low > x.drop && !t.lift(int32(i)) {
				t.forget()
				return false
			}
		}
		if len(t.dirty) == 0 {
			return true
		}
	}
}

// lift raises the low of an excluded item to the minimum top of the items on which it may lie. It reports whether
// the node is still open.
func (t *tree) lift(i int32) bool {
	x := &t.items[i]
	low, top := int64(none), int64(none) // of the others
	for s := x.first; s <= x.last; s++ {
		low = min(low, t.section[s].low.without(i))
		top = min(top, t.section[s].top.without(i))
	}
	if low >= x.drop+x.room {
		return false // it would fall: dominated
	}
	if top > x.low {
		t.items0 = append(t.items0, savedItem{i, x.drop, x.low})
		t.invalidate(x)
		x.low, t.low[i] = top, top
		if top+x.size > t.limit {
			return false
		}
	}
	return true
}

// refresh recomputes the outdated sections, and reports whether the items of all of them fit.
func (t *tree) refresh() bool {
	for n, s := range t.dirty {
		t.isDirty[s] = false
		x := &t.section[s]
		t.sects0 = append(t.sects0, savedSection{s, *x})
		x.low, x.top = least{none, none, -1}, least{none, none, -1}
		x.next, x.count = none, 0
		for _, i := range t.in0[s] {
			low := t.low[i]
			switch {
			case low > x.low.value:
				x.next = min(x.next, low)
			case low < x.low.value:
				x.next, x.count = x.low.value, 1
			default:
				x.count++
			}
			x.low.add(low, i)
			x.top.add(low+t.room[i], i)
		}
		if x.rest > 0 && x.low.value+x.rest-t.spare[s] > t.limit {
			t.fails[s]++
			t.dirty = t.dirty[:copy(t.dirty, t.dirty[n+1:])]
			t.forget()
			return false
		}
	}
	t.dirty = t.dirty[:0]
	return true
}

// forget clears the marks: the node has failed.
func (t *tree) forget() {
	for _, s := range t.dirty {
		t.isDirty[s] = false
	}
	t.dirty = t.dirty[:0]
}

// mark is a state of the trails.
type mark struct{ items, sections, placed int }

func (t *tree) mark() mark { return mark{len(t.items0), len(t.sects0), len(t.placed)} }

// undo undoes all changes since m.
func (t *tree) undo(m mark) {
	t.forget()
	for _, k := range t.placed[m.placed:] {
		x := &t.items[k]
		x.placed, t.low[k] = false, x.low
		for s := x.first; s <= x.last; s++ {
			t.section[s].rest += x.room
			if s < x.last {
				t.section[s].crossing++
			}
		}
	}
	t.placed = t.placed[:m.placed]
	for i := len(t.items0) - 1; i >= m.items; i-- {
		old := &t.items0[i]
		x := &t.items[old.item]
		x.drop, x.low, t.low[old.item] = old.drop, old.low, old.low
	}
	t.items0 = t.items0[:m.items]
	for i := len(t.sects0) - 1; i >= m.sections; i-- {
		old := &t.sects0[i]
		x := &t.section[old.section]
		rest, crossing := x.rest, x.crossing
		*x = old.value
		x.rest, x.crossing = rest, crossing
	}
	t.sects0 = t.sects0[:m.sections]
}
