package flush

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"workbench/model/platform"
	"workbench/model/problem/flush"
	"workbench/model/proof"
)

// Exact improves the best order by [Search], then by [complete] where that applies, and then tries all others that bounds do not
// rule out: operations are added one after the other, each one that has all it needs.
//
// From the first operation of each GPU, and from time 0, the longest paths to the end of
// what has been added say all that matters for the rest: the span of an order is the
// largest mean of such paths around a cycle of GPUs. So a branch is cut if another one
// with the same operations has no longer path to any end that something still waits
// for; and if the path of a GPU to its own last operation, and what it has left to do, is
// no better than the best. If nothing is left the best is the optimum, but for the
// rounding of sums. Exponential: some hundred operations where the bound is not met by
// then are out of reach.
func Exact(ctx context.Context, v *flush.Instance, g Goal) Found {
	few := g
	if _, ok := commonUnit(v); ok && v.Ops() <= mostComplete && g.Steps == 0 {
		few.Steps = FewSteps
	}
	f := Improve(ctx, v, few)
	s := best(v, f.Order)
	closed := func() bool { return s == nil || platform.Closed(s.Objective, max(g.Bound, f.Bound), 3*rounding) }
	search := func(most int) {
		if g.Conflicts > 0 {
			most = g.Conflicts
		}
		var proved float64
		var why proof.Tally
		s, proved, why = complete(ctx, v, s, max(g.Bound, f.Bound), most, g.OnProgress)
		f.Order = s.Order
		if b := proved * (1 - rounding); b > max(g.Bound, f.Bound) { // otherwise the search has proved nothing new
			f.Bound, f.By, f.Why = b, "complete search of start times", why.Shares()
		}
	}
	if closed() {
		return f
	}
	if search(fewConflicts); g.Conflicts > 0 {
		return f
	}
	if !closed() && few.Steps != g.Steps {
		s = anneal(ctx, v, s, g)
	}
	if !closed() {
		search(math.MaxInt / 2)
	}
	takes := slices.ContainsFunc(v.Memory, func(m [flush.Kinds]int64) bool { return m[flush.B] > 0 })
	if closed() || ctx.Err() != nil || v.Fused || takes { // the branch and bound has no such rules
		return f
	}
	x := newBranching(v, s)
	x.report = g.OnProgress
	if x.branch(ctx); !x.stopped {
		f.Bound, f.By, f.Why = x.shortest*(1-rounding), "branch and bound", x.why.Shares()
	}
	f.Order = x.best
	return f
}

// fewConflicts is the conflict limit of the complete search before a better schedule is sought.
const fewConflicts = 4000

// rounding exceeds the error of sums of times and is below the tolerance of equality.
const rounding = 2e-9

// paths are longest paths to one event: from time 0 and from the first start of each
// GPU.
type paths []float64

// branching is a branch and bound over orders.
type branching struct {
	v        *flush.Instance
	count    []int     // by operation
	end      [][]paths // by operation and micro-batch
	free     []paths   // by GPU, then by link to the host: the end of its last operation
	given    []paths   // by GPU: when all that was freed is available
	held     []int64
	left     []float64 // by GPU: what it still has to compute
	order    flush.Order
	total    int
	best     flush.Order
	shortest float64
	seen     map[string][][]float64
	kept     int // numbers in seen
	nodes    int
	stopped  bool
	report   func(float64)
	why      proof.Tally // nodes that were excluded
}

// mostKept is the maximum number of stored numbers for dominance: 400 MB.
const mostKept = 50_000_000

func newBranching(v *flush.Instance, s *flush.Schedule) *branching {
	x := &branching{
		v: v, count: make([]int, flush.Kinds*v.Stages), end: make([][]paths, flush.Kinds*v.Stages), free: make([]paths, 2*v.GPUs),
		given: make([]paths, v.GPUs), held: make([]int64, v.GPUs),
		left: make([]float64, v.GPUs), order: make(flush.Order, v.GPUs), best: s.Order, shortest: s.Objective, seen: map[string][][]float64{},
		why: proof.Tally{},
	}
	for lane := range x.free {
		x.free[lane] = x.none()
		x.free[lane][0] = 0
	}
	for g := range x.given {
		x.given[g] = x.none()
	}
	for s, g := range v.GPU {
		x.left[g] += float64(v.Jobs) * (v.Time[s][flush.F] + v.Time[s][flush.B] + v.Time[s][flush.W])
	}
	return x
}

func (x *branching) none() paths {
	p := make(paths, x.v.GPUs+1)
	for i := range p {
		p[i] = math.Inf(-1)
	}
	return p
}

// branch adds each operation that can be the next.
func (x *branching) branch(ctx context.Context) {
	if x.nodes++; x.nodes%1024 == 0 && ctx.Err() != nil {
		x.stopped = true
	}
	if x.stopped {
		return
	}
	if t, g := x.bound(); t >= x.shortest*(1-rounding) {
		x.why[fmt.Sprintf("path and load of GPU %d", g)]++
		return
	}
	if x.dominated() {
		x.why["dominated by another branch"]++
		return
	}
	x.why["enumerated"]++
	if x.total == x.v.Ops() {
		if s, err := x.v.Schedule(clone(x.order)); err == nil && s.Objective < x.shortest*(1-rounding) {
			x.best, x.shortest = s.Order, s.Objective
			if x.report != nil {
				x.report(x.shortest)
			}
		}
		return
	}
	type child struct {
		op  flush.Operation
		end paths
	}
	var children []child
	for s := range x.v.Stages {
		for _, kind := range x.v.Kinds(s) {
			if l := flush.OperationOf(s, kind); x.can(l) {
				children = append(children, child{l, x.pathsAfter(l)})
			}
		}
	}
	for len(children) > 0 { // the one that ends first, first
		k := 0
		for i := range children {
			if children[i].end[0] < children[k].end[0] {
				k = i
			}
		}
		c := children[k]
		children[k] = children[len(children)-1]
		children = children[:len(children)-1]
		x.add(ctx, c.op, c.end)
	}
}

// can reports whether an operation of its next micro-batch has what it needs, and memory.
func (x *branching) can(l flush.Operation) bool {
	from, _ := x.v.Needs(l)
	before := x.v.Predecessor(l)
	if x.count[l] == x.v.Jobs || from >= 0 && x.count[from] <= x.count[l] || before >= 0 && x.count[before] <= x.count[l] {
		return false
	}
	s := l.Stage()
	return !l.Takes() || x.held[x.v.GPU[s]]+x.v.Memory[s][l.Kind()] <= x.v.Room[x.v.GPU[s]]
}

// pathsAfter returns the paths to the end of an operation of its next micro-batch.
func (x *branching) pathsAfter(l flush.Operation) paths {
	g, time := x.v.GPU[l.Stage()], x.v.Time[l.Stage()][l.Kind()]
	p := slices.Clone(x.free[x.lane(l)])
	behind := func(q paths, delay float64) {
		for i, t := range q {
			p[i] = max(p[i], t+delay)
		}
	}
	if from, delay := x.v.Needs(l); from >= 0 {
		behind(x.end[from][x.count[l]], delay)
	}
	if x.v.Moves[g] {
		if from := x.v.Predecessor(l); from >= 0 {
			behind(x.end[from][x.count[l]], 0)
		}
		if l.Takes() {
			behind(x.given[g], 0)
		}
	}
	if len(x.order[g]) == 0 {
		p[g+1] = 0
	}
	for i := range p {
		p[i] += time
	}
	return p
}

// lane returns where in free an operation's GPU, or link, is.
func (x *branching) lane(l flush.Operation) int {
	if l.Copies() {
		return x.v.GPUs + x.v.GPU[l.Stage()]
	}
	return x.v.GPU[l.Stage()]
}

// add goes on with an operation that ends there.
func (x *branching) add(ctx context.Context, l flush.Operation, end paths) {
	s, g, lane := l.Stage(), x.v.GPU[l.Stage()], x.lane(l)
	before, given, work := x.free[lane], x.given[g], x.v.Time[s][l.Kind()]
	if x.free[lane] = end; !l.Takes() {
		x.given[g] = slices.Clone(given)
		for i, t := range end {
			x.given[g][i] = max(given[i], t)
		}
	}
	if l.Copies() {
		work = 0 // not of the GPU
	}
	x.count[l]++
	x.end[l] = append(x.end[l], end)
	x.order[g] = append(x.order[g], l)
	x.held[g] += x.v.Memory[s][l.Kind()]
	x.left[g] -= work
	x.total++
	x.branch(ctx)
	x.total--
	x.left[g] += work
	x.held[g] -= x.v.Memory[s][l.Kind()]
	x.order[g] = x.order[g][:len(x.order[g])-1]
	x.end[l] = x.end[l][:len(x.end[l])-1]
	x.count[l]--
	x.free[lane], x.given[g] = before, given
}

// bound returns a lower bound on the objective, and the GPU that attains it.
func (x *branching) bound() (t float64, gpu int) {
	for g := range x.given {
		from := 0
		if x.v.Span() {
			from = g + 1
		}
		if u := x.free[g][from] + x.left[g]; u > t {
			t, gpu = u, g
		}
	}
	return t, gpu
}

// dominated reports whether another branch with the same operations is as good, and
// notes this one.
func (x *branching) dominated() bool {
	key := make([]byte, 0, 3*len(x.count))
	var state []float64
	for l, n := range x.count {
		key = binary.AppendUvarint(key, uint64(n))
		from := n // ends that nothing waits for any more do not matter
		for next := range x.count {
			op := flush.Operation(next)
			need, _ := x.v.Needs(op)
			if (int(need) == l || int(x.v.Predecessor(op)) == l) && slices.Contains(x.v.Kinds(op.Stage()), op.Kind()) {
				from = min(from, x.count[next])
			}
		}
		for _, p := range x.end[l][from:] {
			state = append(state, p...)
		}
	}
	for _, p := range x.free {
		state = append(state, p...)
	}
	for g, p := range x.given {
		if x.v.Moves[g] {
			state = append(state, p...)
		}
	}
	for _, other := range x.seen[string(key)] {
		better := true
		for i := range state {
			if other[i] > state[i] {
				better = false
				break
			}
		}
		if better {
			return true
		}
	}
	if x.kept += len(state); x.kept < mostKept {
		x.seen[string(key)] = append(x.seen[string(key)], state)
	}
	return false
}
