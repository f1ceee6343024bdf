package rematgraph

import (
	"math"
	"slices"

	"workbench/model/instance/training"
)

// Least holds bounds on the minimum memory of a plan, in bytes. No plan needs less than Low, for
// the reason Why; the plan that computes Order needs High. A nil Order stands for that of
// [View.Frugal], which is long.
type Least struct {
	Low, High float64
	Why       string
	Order     []int32
}

// Computations returns the length of the plan that needs x.High.
func (x *Least) Computations(v *View) int {
	if x.Order == nil {
		return v.Frugal().Computations()
	}
	return len(x.Order)
}

// Limits of the searches of [View.Least]: nodes times states of each search, states of each search,
// nodes of a graph that is searched, and nodes times sweeps of each search.
const (
	leastWork   = 1 << 25
	leastStates = 100_000
	leastNodes  = 4096
	leastSweeps = 1 << 28
)

// Least returns bounds on the minimum memory of a plan. Low equals High if its searches finish. The
// answer is deterministic unless v.Stopped ends a search; it takes a few seconds at most and is
// cached.
//
// Low is LeastBound or the optimum of a relaxation with fewer nodes (see contracted). High is the
// peak of Frugal or of an eager search; +Inf if v.Stopped ends that of a graph of more than leastNodes
// nodes, which is not cached. If High exceeds Low, a complete search decides. See
// leastSearch.
func (v *View) Least() Least {
	b := v.bounds()
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if b.known == nil && v.N > leastNodes {
		high := v.frugalPeak(v.stopped) // a second of 10,000 nodes
		if math.IsInf(high, 1) {
			return Least{Low: b.least, Why: b.why, High: high}
		}
		b.known = &Least{Low: b.least, Why: b.why, High: high}
	} else if b.known == nil {
		b.known = &Least{Low: b.least, Why: b.why, High: b.frugal()}
	}
	if !b.over {
		b.narrow(b.known)
		b.over = !v.stopped()
	}
	return *b.known
}

// frugalPeak returns the peak of Frugal, +Inf if stop ends it. O(n³/64) in the worst case, as Complete.
func (v *View) frugalPeak(stop func() bool) (peak float64) {
	s := v.frugal()
	for t := v.N - 1; t >= 0; t-- {
		s.CompleteStage(t)
		bytes, _ := s.StagePeak(t)
		peak = max(peak, bytes)
		if t%256 == 0 && stop() {
			return math.Inf(1)
		}
	}
	return peak
}

// stopped reports whether Stopped ends the searches.
func (v *View) stopped() bool { return v.Stopped != nil && v.Stopped() }

// narrow raises Low and lowers High by search.
func (b *bounds) narrow(x *Least) {
	v := b.v
	if v.N > leastNodes {
		return
	}
	states := func(v *View) int { return min(leastWork/v.N, leastStates) }
	raise := func(low float64) {
		if low > x.Low {
			x.Low, x.Why = low, "the least peak of any plan"
		}
	}
	take := func(order []int32) {
		if order != nil && v.allowed(order) {
			x.High, x.Order = v.peak(order), order
		}
	}
	eager := true // until an eager search has finished
	for k, part := range [...]float64{0.1, 0.005, 0.0005} {
		if x.Low < x.High {
			c := v.contracted(part * b.least)
			low, _, _ := newBounds(c).search(x.Low, x.High, false, states(c))
			raise(low)
		}
		if x.Low < x.High && k > 0 && eager {
			_, order, done := b.search(x.Low, x.High, true, states(v))
			take(order)
			eager = !done
		}
	}
	for _, part := range [...]float64{1. / 16, 1. / 4} {
		if x.Low < x.High && eager {
			_, order, done := b.search(x.Low+(x.High-x.Low)*part, x.High, true, states(v))
			take(order)
			eager = !done
		}
	}
	if x.Low < x.High {
		low, order, _ := b.search(x.Low, x.High, false, states(v))
		raise(low)
		take(order)
	}
}

// contracted returns a relaxation of v with fewer nodes: every plan of v yields a plan of it that
// needs no more memory. A group of values is replaced by one of the minimum size. The memory of a
// node that this does not account for is added to its workspace, so that computing it needs as much
// as in v.
//
// Chains. A value whose node may be recomputed and reads a single value of such a node is merged
// with that value, if both nodes write nothing else, neither value is a result, and their sizes
// differ by at most most. The merged value is in memory while any of the group is. Before the first
// of a group is in memory, the first value of its chain is computed, and the merged value with it;
// any other is computed while its input is in memory.
//
// Late values. A value whose node may postpone one of its inputs (see late) is merged with that
// input. The input is in memory until the node is computed and the value from then on, so the
// merged value is in memory from the computation of the input on.
func (v *View) contracted(most float64) *View {
	c := &View{Graph: &training.Graph{Input: v.Graph.Input}, Stopped: v.Stopped}
	late := v.late()
	at := make([]int, v.M) // value of v → value of c
	for j := range v.N {
		p := v.alone(j, most)
		if p < 0 {
			p = late[j]
		}
		if p >= 0 {
			i := v.Writes[j][0]
			at[i] = at[p]
			c.Memory[at[i]] = min(c.Memory[at[i]], v.Memory[i])
			continue
		}
		var pred, writes []int
		has := v.Overhead[j] + v.Written[j] // memory while it is computed
		for _, p := range v.Pred[j] {
			pred = append(pred, at[p])
			has += v.Memory[p]
		}
		slices.Sort(pred)
		for _, i := range v.Writes[j] {
			at[i] = c.M
			writes = append(writes, c.M)
			c.M++
			c.Memory, c.Writer, c.Result = append(c.Memory, v.Memory[i]), append(c.Writer, c.N), append(c.Result, v.Result[i])
		}
		c.N++
		c.Overhead, c.Once = append(c.Overhead, has), append(c.Once, v.Once[j])
		c.Pred, c.Writes = append(c.Pred, slices.Compact(pred)), append(c.Writes, writes)
	}
	c.Words, c.ValueWords, c.Succ = (c.N+63)/64, (c.M+63)/64, make([][]int, c.M)
	c.Written = make([]float64, c.N)
	for j := range c.N {
		for _, i := range c.Writes[j] {
			c.Written[j] += c.Memory[i]
		}
		c.Overhead[j] -= c.Written[j]
		for _, p := range c.Pred[j] {
			c.Succ[p] = append(c.Succ[p], j)
			c.Overhead[j] -= c.Memory[p]
		}
	}
	return c
}

// alone returns the value that node j reads if its own value is merged with it as a chain (see
// contracted), else -1.
func (v *View) alone(j int, most float64) int {
	if v.Once[j] || len(v.Pred[j]) != 1 || len(v.Writes[j]) != 1 {
		return -1
	}
	i, p := v.Writes[j][0], v.Pred[j][0]
	if w := v.Writer[p]; v.Once[w] || len(v.Writes[w]) != 1 || v.Result[i] || v.Result[p] || math.Abs(v.Memory[i]-v.Memory[p]) > most {
		return -1
	}
	return p
}

// late returns, for each node that may postpone a value p that it reads, that value, else -1. Such
// a node is computed once, as is the writer of p, and reads no other value of a node computed once.
// Of several nodes that read p it is the one whose own value is read last, provided that all the
// others could have been computed by then. A plan may make p wait for the node, or compute the node
// at once and make its value wait. An example are the gradients of keys and values in each decoder
// layer of T5, which are accumulated at the end of the encoder.
func (v *View) late() []int {
	late := slices.Repeat([]int{-1}, v.N)
	for p, w := range v.Writer {
		if !v.onceAlone(w) || late[w] >= 0 || len(v.Succ[p]) < 2 {
			continue
		}
		j, when := -1, slices.Max(v.Succ[p])
		for _, r := range v.Succ[p] {
			other := func(q int) bool { return q != p && v.Once[v.Writer[q]] }
			if !v.onceAlone(r) || slices.ContainsFunc(v.Pred[r], other) {
				continue
			}
			first := v.N // its first reader
			if next := v.Succ[v.Writes[r][0]]; len(next) > 0 {
				first = next[0]
			}
			if first > when {
				j, when = r, first
			}
		}
		if j >= 0 {
			late[j] = p
		}
	}
	return late
}

// onceAlone reports whether node j is computed once and writes a single value, which is no result.
func (v *View) onceAlone(j int) bool {
	return v.Once[j] && len(v.Writes[j]) == 1 && !v.Result[v.Writes[j][0]]
}

// Order returns the computations of a schedule, as nodes.
func (s *Schedule) Order() []int32 {
	var order []int32
	for t := range s.v.N {
		s.walk(t, func(i int) { order = append(order, int32(i)) }, func(int) {})
	}
	return order
}

// allowed reports whether an order of computations, each of which has its inputs, respects the
// mutations and the random number draws of the graph.
func (v *View) allowed(order []int32) bool {
	g := v.Graph
	due := make([][]int, len(g.Storages)) // by storage: the nodes that still have to mutate it
	var draws []int
	before := make([][]int, v.N) // by node and read: the number of mutations that precede it
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

// replay calls compute for each computation of order, and then free for each value that is not read
// again before it is recomputed.
func (v *View) replay(order []int32, compute, free func(i int)) {
	var last []int // by value of each computation: its last reader
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

// peak returns the memory that a plan with the given order needs.
func (v *View) peak(order []int32) (bytes float64) {
	use := v.Graph.Input
	v.replay(order, func(j int) {
		use += v.Written[j]
		bytes = max(bytes, use+v.Overhead[j])
	}, func(i int) { use -= v.Memory[i] })
	return bytes
}
