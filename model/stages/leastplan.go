package stages

import (
	"slices"

	"workbench/model/training"
)

// Least is what is known of the least memory in which there is a plan, in units of
// the graph: no plan takes less than Low, because of Why, and the one that computes
// Order takes High.
type Least struct {
	Low, High float64
	Why       string
	Order     []int32
}

// Limits of the searches of [View.Least]: the product of nodes and states of each,
// its states, the nodes of a graph that is searched, and the product of nodes and
// sweeps of each.
const (
	leastWork   = 1 << 24
	leastStates = 100_000
	leastNodes  = 4096
	leastSweeps = 1 << 28
)

// Least returns the least memory in which there is a plan, which is both Low and
// High if its searches come to their ends. The answer is always the same; it takes
// some seconds at most.
//
// Low is the bound of LeastBound, or that of a search in a graph with fewer nodes,
// of which every plan of this one makes a plan that takes no more (see contracted).
// High is that of Frugal or of an eager search; where it is more than Low, a
// complete one decides. See leastSearch.
func (v *View) Least() Least { return v.bounds().searched() }

func (b *bounds) searchLeast() Least {
	v := b.v
	x := Least{Low: b.least, Why: b.why, High: b.frugal(), Order: v.Frugal().Order()}
	if x.Low == x.High || v.N > leastNodes {
		return x
	}
	states := min(leastWork/v.N, leastStates)
	raise := func(low float64) {
		if low > x.Low {
			x.Low, x.Why = low, "the least peak of any plan"
		}
	}
	for _, part := range [...]float64{0.1, 0.05, 0.2} {
		if x.Low == x.High {
			return x
		}
		low, _, _ := newBounds(v.contracted(part*b.least)).search(x.Low, x.High, false, states)
		raise(low)
	}
	take := func(order []int32) bool {
		if order == nil || !v.allowed(order) {
			return false
		}
		x.High, x.Order = v.peak(order), order
		return true
	}
	for _, from := range [...]float64{x.Low, x.Low + (x.High-x.Low)/16, x.Low + (x.High-x.Low)/4} {
		if _, order, done := b.search(from, x.High, true, states); take(order) || done {
			break
		}
	}
	if x.Low < x.High {
		low, order, _ := b.search(x.Low, x.High, false, states)
		raise(low)
		take(order)
	}
	return x
}

// contracted returns a relaxation of v: the value of a node that may be computed
// again and reads one value of such a node alone is one with it, if neither node
// writes anything else, neither is a result, and the two take at most so much.
//
// A plan of v makes one of the relaxation that takes no more. The common value, of
// the smallest of their sizes, is in memory while any of them is. Before the first
// of them is there it is computed, as the one that the others come from, which is
// computed then; another one is computed beside the one that it comes from.
func (v *View) contracted(most float64) *View {
	c := &View{Graph: &training.Graph{Input: v.Graph.Input}}
	at := make([]int, v.M) // of the values of v
	for j := range v.N {
		if i := v.alone(j, most); i >= 0 {
			p := v.Pred[j][0]
			at[i] = at[p]
			c.Memory[at[i]] = min(c.Memory[at[i]], v.Memory[i])
			continue
		}
		var pred, writes []int
		for _, p := range v.Pred[j] {
			pred = append(pred, at[p])
		}
		slices.Sort(pred)
		for _, i := range v.Writes[j] {
			at[i] = c.M
			writes = append(writes, c.M)
			c.M++
			c.Memory, c.Writer, c.Result = append(c.Memory, v.Memory[i]), append(c.Writer, c.N), append(c.Result, v.Result[i])
		}
		c.N++
		c.Overhead, c.Once = append(c.Overhead, v.Overhead[j]), append(c.Once, v.Once[j])
		c.Pred, c.Writes = append(c.Pred, slices.Compact(pred)), append(c.Writes, writes)
	}
	c.Words, c.ValueWords, c.Succ = (c.N+63)/64, (c.M+63)/64, make([][]int, c.M)
	c.Written = make([]float64, c.N)
	for j := range c.N {
		for _, i := range c.Writes[j] {
			c.Written[j] += c.Memory[i]
		}
		for _, p := range c.Pred[j] {
			c.Succ[p] = append(c.Succ[p], j)
		}
	}
	return c
}

// alone returns the value of node j if it is one with the value that it reads, see
// contracted; else -1.
func (v *View) alone(j int, most float64) int {
	if v.Once[j] || len(v.Pred[j]) != 1 || len(v.Writes[j]) != 1 {
		return -1
	}
	i, p := v.Writes[j][0], v.Pred[j][0]
	if w := v.Writer[p]; v.Once[w] || len(v.Writes[w]) != 1 || v.Result[i] || v.Result[p] || v.Memory[i]+v.Memory[p] > most {
		return -1
	}
	return i
}

// Order returns the computations of a schedule, as nodes.
func (s *Schedule) Order() []int32 {
	var order []int32
	for t := range s.v.N {
		s.walk(t, func(i int) { order = append(order, int32(i)) }, func(int) {})
	}
	return order
}

// allowed reports whether the graph allows an order of computations in which each
// has what it reads: when nodes change what others read, and draw random numbers.
func (v *View) allowed(order []int32) bool {
	g := v.Graph
	due := make([][]int, len(g.Storages)) // the nodes that are still to change a storage
	var draws []int
	before := make([][]int, v.N) // how many changes of what a node reads come before it
	for j := range g.Nodes {
		for _, s := range g.Nodes[j].Reads {
			before[j] = append(before[j], len(due[s]))
		}
		for _, s := range g.Nodes[j].Mutates {
			due[s] = append(due[s], j)
		}
		if g.Nodes[j].Random {
			draws = append(draws, j)
		}
	}
	changes := make([]int, len(g.Storages))
	run := make([]bool, v.N)
	for _, j := range order {
		x := &g.Nodes[j]
		for k, s := range x.Reads {
			if changes[s] != before[j][k] {
				return false
			}
		}
		if run[j] {
			continue
		}
		run[j] = true
		for _, s := range x.Mutates {
			if due[s][changes[s]] != int(j) {
				return false
			}
			changes[s]++
		}
		if x.Random {
			if draws[0] != int(j) {
				return false
			}
			draws = draws[1:]
		}
	}
	return true
}

// replay calls compute for each computation of order, and then free for the values
// that nothing reads any more before they are computed again.
func (v *View) replay(order []int32, compute, free func(i int)) {
	var last []int // of each value of each computation, the last one that reads it
	at := make([]int, v.M)
	for k, j := range order {
		for _, p := range v.Pred[j] {
			last[at[p]] = k
		}
		for _, i := range v.Writes[j] {
			at[i] = len(last)
			last = append(last, k)
		}
	}
	for i, is := range v.Result {
		if is {
			last[at[i]] = len(order)
		}
	}
	made := 0
	for k, j := range order {
		compute(int(j))
		for _, p := range v.Pred[j] {
			if last[at[p]] == k {
				free(p)
			}
		}
		for _, i := range v.Writes[j] {
			if at[i] = made; last[made] == k {
				free(i)
			}
			made++
		}
	}
}

// peak returns the memory that a plan with such an order takes.
func (v *View) peak(order []int32) (bytes float64) {
	use := v.Graph.Input
	v.replay(order, func(j int) {
		use += v.Written[j]
		bytes = max(bytes, use+v.Overhead[j])
	}, func(i int) { use -= v.Memory[i] })
	return bytes
}
