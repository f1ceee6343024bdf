package rematgraph

import (
	"cmp"
	"slices"
)

// choice is what [View.TimeBound] chooses at one node x: which values to keep beside
// it, and which nodes to compute after it.
type choice struct {
	b     *bounds
	room  float64 // bytes beside what is in memory for sure
	sure  []bool  // by value
	value []int   // the values of the choice, in the order of the graph
	item  []int   // value → its place among value, -1: none
	needs []bool  // value → it is read after x, or a result
	size  float64 // Σ Memory of those that are needed

	node  []int  // the nodes that write them, in the order of the graph
	place []int  // node → its place among node, -1: none
	free  []bool // node → it may not have been computed yet when x is, so that to compute it after x costs nothing

	again []int // the nodes that the last knapsack computes again
}

func newChoice(b *bounds) *choice {
	n, m := b.v.N, b.v.M
	return &choice{
		b: b, sure: make([]bool, m), item: make([]int, m), needs: make([]bool, m), place: make([]int, n), free: make([]bool, n),
	}
}

// Beside is what is left to choose at the first computation of a node x: which
// values to keep during it, and which nodes to compute after it. See
// [View.TimeBound].
type Beside struct {
	Room   float64 // beside what is in memory during x for sure
	Values []int   // that can be kept, in the order of the graph
	Needed []bool  // of each of them, whether it is needed after x for sure
	Nodes  []int   // that write them, in the order of the graph
	Free   []bool  // of each of these, whether it may not have been computed before x
	Before []int   // the nodes that x depends on
	After  []int   // x, and the nodes that depend on it
}

// ChoiceAt returns the choice at x in so much memory.
func (v *View) ChoiceAt(x int, memory float64) Beside {
	c := newChoice(v.bounds())
	c.load(x, memory)
	out := Beside{
		Room: c.room, Values: c.value, Nodes: c.node, Before: slices.Collect(each(c.b.row(c.b.before, x))),
		After: append([]int{x}, slices.Collect(each(c.b.row(c.b.after, x)))...),
	}
	for _, f := range c.value {
		out.Needed = append(out.Needed, c.needs[f])
	}
	for _, j := range c.node {
		out.Free = append(out.Free, c.free[j])
	}
	return out
}

// load sets up the choice at x; false if everything can be kept.
func (k *choice) load(x int, memory float64) bool {
	v, b := k.b.v, k.b
	k.room = memory - b.during(x, k.sure, false)
	k.value, k.node, k.size = k.value[:0], k.node[:0], 0
	before, after := b.row(b.before, x), b.row(b.after, x)
	for j := range v.N {
		k.place[j], k.free[j] = -1, !has(before, j)
		for _, f := range v.Writes[j] {
			k.item[f], k.needs[f] = -1, false
		}
		// What neither depends on x nor the other way round matters for its results.
		if j == x || has(after, j) || k.free[j] && !b.results || !k.free[j] && !b.mayRecompute(j, x) {
			continue
		}
		for _, f := range v.Writes[j] {
			if k.sure[f] {
				continue
			}
			k.item[f] = len(k.value)
			k.value = append(k.value, f)
			if v.Result[f] || b.readIn(f, after) {
				k.needs[f] = true
				k.size += v.Memory[f]
			}
			if k.place[j] < 0 {
				k.place[j] = len(k.node)
				k.node = append(k.node, j)
			}
		}
	}
	return k.size > k.room
}

// An item of a knapsack is a node that has been computed before x, and the size
// of those of its values that are needed after.
type item struct {
	node int
	size float64
}

// items lists the nodes with needed values that take memory, those that are cheap
// to compute again for their size first, and the size of all of them.
func (k *choice) items() (items []item, size float64) {
	v := k.b.v
	for _, j := range k.node {
		if k.free[j] {
			continue
		}
		x := item{node: j}
		for _, f := range v.Writes[j] {
			if k.needs[f] && !k.sure[f] {
				x.size += v.Memory[f]
			}
		}
		if x.size > 0 {
			items, size = append(items, x), size+x.size
		}
	}
	time := func(x item) float64 { return float64(k.b.time[x.node]) }
	slices.SortStableFunc(items, func(x, y item) int { return cmp.Compare(time(x)*y.size, time(y)*x.size) })
	return items, size
}

// fractional returns the least time of computing parts of nodes again such that
// the rest of what is needed fits, precedences aside, rounded down, and that time
// with the last node computed as a whole, which is an upper bound for whole nodes.
func (k *choice) fractional() (time, whole int64) {
	items, excess := k.items()
	excess -= k.room
	for _, x := range items {
		if excess <= 0 {
			break
		}
		again := k.b.time[x.node]
		time = whole + again
		if excess < x.size {
			time = whole + int64(float64(again)*(excess/x.size)*(1-1e-15))
		}
		whole += again
		excess -= x.size
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

// knapsack returns the least time of computing nodes again such that the needed
// values of the others fit, precedences aside, or less: where there are too many states
// two become one that is better than both. It returns 0 if it cannot exceed
// enough. The states are those of Nemhauser and Ullmann; O(statesMost).
func (k *choice) knapsack(enough int64) int64 {
	k.again = k.again[:0]
	items, _ := k.items()
	_, most := k.fractional()
	if most <= enough {
		return 0
	}
	width := max(64, statesMost/(len(items)+1))
	all := [][]front{{{}}}
	for _, x := range items {
		now := all[len(all)-1]
		next := make([]front, 0, 2*len(now))
		i, j := 0, 0 // of the states that keep it, and of those that do not
		for i < len(now) || j < len(now) {
			var s front
			if j == len(now) || i < len(now) && now[i].kept+x.size < now[j].kept {
				s = front{now[i].kept + x.size, now[i].lost, int32(i), false}
				i++
			} else {
				s = front{now[j].kept, now[j].lost + k.b.time[x.node], int32(j), true}
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
			k.again = append(k.again, items[i].node)
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
