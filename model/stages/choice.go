package stages

import (
	"cmp"
	"math/bits"
	"slices"
)

// choice is what [View.TimeBound] chooses at one node x: which values to keep beside
// it, and which to compute again.
type choice struct {
	b     *bounds
	room  float64 // bytes beside what is in memory for sure
	sure  []bool
	item  []int // f → its place among value, -1: none
	value []int // the values of the choice, in topological order
	needs []bool
	size  float64 // Σ Memory of those that are needed

	again []int // what the last knapsack computes again
}

func newChoice(b *bounds) *choice {
	return &choice{b: b, sure: make([]bool, b.v.N), item: make([]int, b.v.N), needs: make([]bool, b.v.N)}
}

// Beside is what is left to choose at a node x that is computed once: which
// values to keep during it, and which to compute again after it. See
// [View.TimeBound].
type Beside struct {
	Room   float64 // beside what is in memory during x for sure
	Values []int   // forward values that x depends on, in the order of the graph
	Needed []bool  // of each of them, whether it is read after x for sure
}

// Beside returns the choice at x in so much memory.
func (v *View) Beside(x int, memory float64) Beside {
	c := newChoice(v.bounds())
	c.load(x, memory)
	out := Beside{Room: c.room, Values: c.value}
	for _, f := range c.value {
		out.Needed = append(out.Needed, c.needs[f])
	}
	return out
}

// load sets up the choice at x; false if everything can be kept.
func (k *choice) load(x int, memory float64) bool {
	v, b := k.b.v, k.b
	k.room = memory - b.during(x, k.sure)
	k.value, k.size = k.value[:0], 0
	after := b.row(b.after, x)
	for i := range k.item {
		k.item[i], k.needs[i] = -1, false
	}
	for q, set := range b.row(b.before, x) {
		for ; set != 0; set &= set - 1 {
			f := q<<6 + bits.TrailingZeros64(set)
			if v.Once[f] || k.sure[f] {
				continue
			}
			k.item[f] = len(k.value)
			k.value = append(k.value, f)
			if meets(b.row(b.readersOnce, f), after) {
				k.needs[f] = true
				k.size += v.Memory[f]
			}
		}
	}
	return k.size > k.room
}

// items lists the needed values that take memory, those that are cheap to
// compute again for their size first.
func (k *choice) items() []int {
	v := k.b.v
	var items []int
	for _, f := range k.value {
		if k.needs[f] && v.Memory[f] > 0 {
			items = append(items, f)
		}
	}
	time := func(f int) float64 { return float64(k.b.time[f]) }
	slices.SortStableFunc(items, func(f, g int) int { return cmp.Compare(time(f)*v.Memory[g], time(g)*v.Memory[f]) })
	return items
}

// fractional returns the least time of computing parts of needed values again
// such that the rest fits, precedences aside, rounded down, and that time with
// the last value computed as a whole, which is an upper bound for whole values.
func (k *choice) fractional() (time, whole int64) {
	excess := k.size - k.room
	for _, f := range k.items() {
		if excess <= 0 {
			break
		}
		size, again := k.b.v.Memory[f], k.b.time[f]
		time = whole + again
		if excess < size {
			time = whole + int64(float64(again)*(excess/size)*(1-1e-15))
		}
		whole += again
		excess -= size
	}
	return time, whole
}

// front is a state of the knapsack: so many bytes kept, so many quanta of time
// computed again. from is the state before, among those of the item before.
type front struct {
	kept  float64
	lost  int64
	from  int32
	again bool
}

// statesMost is the most states of a knapsack, of all items together.
const statesMost = 1 << 21

// knapsack returns the least time of computing needed values again such that
// the others fit, precedences aside, or less: where there are too many states
// two become one that is better than both. It returns 0 if it cannot exceed
// enough. The states are those of Nemhauser and Ullmann; O(statesMost).
func (k *choice) knapsack(enough int64) int64 {
	v := k.b.v
	k.again = k.again[:0]
	items := k.items()
	_, most := k.fractional()
	if most <= enough {
		return 0
	}
	width := max(64, statesMost/(len(items)+1))
	all := [][]front{{{}}}
	for _, f := range items {
		now := all[len(all)-1]
		next := make([]front, 0, 2*len(now))
		i, j := 0, 0 // of the states that keep f, and of those that do not
		for i < len(now) || j < len(now) {
			var s front
			if j == len(now) || i < len(now) && now[i].kept+v.Memory[f] < now[j].kept {
				s = front{now[i].kept + v.Memory[f], now[i].lost, int32(i), false}
				i++
			} else {
				s = front{now[j].kept, now[j].lost + k.b.time[f], int32(j), true}
				j++
			}
			if s.kept > k.room || s.lost > most {
				continue
			}
			for len(next) > 0 && next[len(next)-1].kept == s.kept && next[len(next)-1].lost >= s.lost {
				next = next[:len(next)-1]
			}
			if len(next) == 0 || s.lost < next[len(next)-1].lost {
				next = append(next, s)
			}
		}
		all = append(all, thin(next, width))
	}
	last := all[len(all)-1]
	at := int32(len(last) - 1) // the most kept, the least lost
	least := last[at].lost
	for i := len(items) - 1; i >= 0; i-- {
		s := all[i+1][at]
		if s.again {
			k.again = append(k.again, items[i])
		}
		at = s.from
	}
	return least
}

// thin merges neighbours, of ascending kept and descending lost, until there
// are at most so many.
func thin(states []front, most int) []front {
	for len(states) > most {
		out := states[:0]
		for i := 0; i < len(states); i += 2 {
			s := states[i]
			if i+1 < len(states) {
				s.lost = states[i+1].lost
			}
			out = append(out, s)
		}
		states = out
	}
	return states
}
