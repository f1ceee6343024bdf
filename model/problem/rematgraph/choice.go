package rematgraph

import (
	"cmp"
	"slices"
)

// choice is the knapsack with precedences that [View.TimeBound] relaxes at one node x: which values
// to keep during x, and which nodes to compute after it.
type choice struct {
	b     *bounds
	room  float64 // bytes that remain next to the values certainly in memory
	sure  []bool  // by value: it is certainly in memory during x
	value []int   // the values to choose from, in graph order
	item  []int   // value → its index in value, -1: none
	needs []bool  // value → it is read after x, or a result
	size  float64 // ΣMemory of the needed values

	node  []int  // the nodes that write them, in graph order
	place []int  // node → its index in node, -1: none
	free  []bool // node → it may be computed for the first time after x, at no extra cost

	again []int // the nodes that the last knapsack recomputes
}

func newChoice(b *bounds) *choice {
	n, m := b.v.N, b.v.M
	return &choice{
		b: b, sure: make([]bool, m), item: make([]int, m), needs: make([]bool, m), place: make([]int, n), free: make([]bool, n),
	}
}

// KeepChoice describes the choice at the first computation of a node x: which values to keep during
// it, and which nodes to compute after it. See [View.TimeBound].
type KeepChoice struct {
	Room   float64 // bytes that remain next to the values certainly in memory during x
	Values []int   // that can be kept, in graph order
	Needed []bool  // by Values: it is certainly needed after x
	Nodes  []int   // that write Values, in graph order
	Free   []bool  // by Nodes: it may be computed for the first time after x
	Before []int   // the nodes that x depends on
	After  []int   // x, and the nodes that depend on it
}

// ChoiceAt returns the choice at node x with the given memory in bytes.
func (v *View) ChoiceAt(x int, memory float64) KeepChoice {
	c := newChoice(v.bounds())
	c.load(x, memory)
	out := KeepChoice{
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

// load sets up the choice at x. It reports false if everything needed fits.
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
		// A node that is independent of x matters only for its results.
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

// item is a knapsack item: a node computed before x, and the size of those of its values that are
// needed after x.
type item struct {
	node int
	size float64
}

// items returns the nodes whose needed values occupy memory, by ascending recomputation time per
// byte, and the size of all of them.
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

// fractional returns the optimum of the fractional knapsack relaxation, in quanta: the minimum time
// to recompute fractions of nodes such that the remaining needed values fit, without precedences
// and rounded down. integer is the value of the greedy integer solution, an upper bound on the
// knapsack without precedences.
func (k *choice) fractional() (time, integer int64) {
	items, excess := k.items()
	excess -= k.room
	for _, x := range items {
		if excess <= 0 {
			break
		}
		again := k.b.time[x.node]
		time = integer + again
		if excess < x.size {
			time = integer + int64(float64(again)*(excess/x.size)*(1-1e-15))
		}
		integer += again
		excess -= x.size
	}
	return time, integer
}

// front is a nondominated state of the knapsack: bytes kept and quanta of recomputation. from is
// the index of its predecessor among the states of the previous item.
type front struct {
	kept  float64
	lost  int64
	from  int32
	again bool
}

// statesMost is the maximum number of knapsack states of all items together.
const statesMost = 1 << 21

// knapsack returns a lower bound, in quanta, on the minimum time to recompute nodes such that the
// needed values of the other nodes fit, without precedences. It is exact unless there are too many
// states; then neighbours are merged into one that dominates both. It returns 0 if the result
// cannot exceed enough. The algorithm is the dynamic program over nondominated states of Nemhauser
// and Ullmann (1969). O(statesMost).
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
		i, j := 0, 0 // of the states that keep the item, and of those that do not
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
	at := int32(len(last) - 1) // the most kept, the minimum recomputation
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

// thin merges neighbouring states, in order of ascending kept and descending lost, until at most
// most remain.
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
