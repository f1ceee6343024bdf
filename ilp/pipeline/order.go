package pipeline

import (
	"math"
	"slices"

	"workbench/model/milp"
	"workbench/model/plan"
)

// pipelineOrder is the question whether an allocation has a 1-periodic pattern
// of a given period t, or of less, which can be stretched to t: a MILP of our
// own with no constant K and no product.
//
// Let x_o be when operation o runs for mini-batch 0; it runs again after each
// period. Two operations o and p of one resource do not overlap if and only if,
// for an integer q_{o,p},
//
//	x_o + d_o + q_{o,p}·t ≤ x_p  and  x_p + d_p ≤ x_o + (q_{o,p} + 1)·t:
//
// the last o before p is of the q_{o,p}-th later mini-batch. Then q_{p,o} is
// −q_{o,p} − 1, and q_{o,o} is −1.
//
// Each operation follows the one before it on the way of a mini-batch; it begins
// within a period of that one's end, or else the rest of the way could be a
// period earlier, which stores less. Memory is counted in the q: while o runs,
// a_{ℓ-1} of q_{F_ℓ,o} − q_{B_ℓ,o} mini-batches is stored, and the output of u
// waits for task u+1 on its processor q_{u,o} − q_{u+1,o} times.
//
// With some runs of the allocation only it is a relaxation: of the other layers
// nothing is known but that they take their time.
type pipelineOrder struct {
	*pipelineInstance
	period float64 // t, units of time
	runs   []placedRun
	items  []orderItem

	m   *milp.Model
	e   milp.Expr
	x   milp.List
	q   milp.Family[[2]int]
	of  [][]int // operations of each resource, rising
	res []int   // resource of each item
}

// A placedRun is a part of an allocation: layers i..j, from 0, on a processor.
// The layers beside them are on others, but at an open end nothing is known.
type placedRun struct {
	i, j, processor     int
	openFront, openBack bool    // before i, behind j
	behind              float64 // V_j is at least this
}

// An orderItem is a layer, or the communications of the cut behind it. Its
// forward is operation k, its backward 2m−1−k, of m items.
type orderItem struct {
	layer      int
	cut        bool
	f, b       float64 // durations
	gapF, gapB float64 // what lies between it and the next item: time,
	skipped    int     // and operations one way that may wait
	delay      float64 // the least from the start of the forward to the end of the backward
}

// newPipelineOrder builds the model of runs, which are in the order of the
// chain; delay[ℓ] is a lower bound on D_ℓ for the period.
func newPipelineOrder(in *pipelineInstance, runs []placedRun, delay []float64, period float64) *pipelineOrder {
	f := &pipelineOrder{pipelineInstance: in, period: in.up(period), runs: runs}
	f.list(delay)
	f.m = milp.New("pipeline-order")
	f.columns()
	f.way()
	f.apart()
	if in.model == plan.StageModel {
		f.stageMemory()
	} else {
		f.memoryRows()
	}
	return f
}

// list lists the items: layers of the runs, and cuts between two of them.
func (f *pipelineOrder) list(delay []float64) {
	n := f.n
	owner := make([]int, n)
	for l := range owner {
		owner[l] = -1
	}
	for _, x := range f.runs {
		for l := x.i; l <= x.j; l++ {
			owner[l] = x.processor
		}
	}
	ends := make([]bool, n) // there is a cut behind the layer
	for _, x := range f.runs {
		ends[x.j] = ends[x.j] || !x.openBack
		if x.i > 0 {
			ends[x.i-1] = ends[x.i-1] || !x.openFront
		}
	}
	for l := range n - 1 {
		ends[l] = ends[l] || owner[l] >= 0 && owner[l+1] >= 0 && owner[l] != owner[l+1]
	}
	links := map[[2]int]int{}
	pass := func(a, b float64) {
		if k := len(f.items) - 1; k >= 0 {
			f.items[k].gapF += a
			f.items[k].gapB += b
			f.items[k].skipped++
		}
	}
	for l := range n {
		if owner[l] >= 0 {
			f.items = append(f.items, orderItem{layer: l, f: f.d[l], b: f.d[2*n-1-l], delay: delay[l]})
			f.res = append(f.res, owner[l])
		} else {
			pass(f.d[l], f.d[2*n-1-l])
		}
		if l == n-1 || !ends[l] && owner[l] >= 0 && owner[l] == owner[l+1] {
			continue
		}
		a, b := f.comm[l], f.comm[2*n-2-l]
		switch {
		case ends[l] && owner[l] >= 0 && owner[l+1] >= 0:
			ends := [2]int{min(owner[l], owner[l+1]), max(owner[l], owner[l+1])}
			link, ok := links[ends]
			if !ok {
				link = f.platform.Processors + len(links)
				links[ends] = link
			}
			f.items = append(f.items, orderItem{layer: l, cut: true, f: a, b: b})
			f.res = append(f.res, link)
		case ends[l]:
			pass(a, b)
		default: // two layers of which it is not known: perhaps a cut
			pass(0, 0)
			if k := len(f.items) - 1; k >= 0 {
				f.items[k].skipped++
			}
		}
	}
	f.of = make([][]int, f.platform.Processors+len(links))
	for o := range 2 * len(f.items) {
		f.of[f.resource(o)] = append(f.of[f.resource(o)], o)
	}
}

// item returns the item of operation o, and resource what it runs on.
func (f *pipelineOrder) item(o int) *orderItem { return &f.items[f.at(o)] }

func (f *pipelineOrder) at(o int) int { return min(o, 2*len(f.items)-1-o) }

func (f *pipelineOrder) resource(o int) int { return f.res[f.at(o)] }

func (f *pipelineOrder) forward(o int) bool { return o < len(f.items) }

// takes is the duration of operation o.
func (f *pipelineOrder) takes(o int) float64 {
	if f.forward(o) {
		return f.item(o).f
	}
	return f.item(o).b
}

// gap is the least time between operation o and the next, and turns how many
// periods may pass on top.
func (f *pipelineOrder) gap(o int) (gap, turns float64) {
	m := len(f.items)
	switch {
	case o == m-1:
		x := &f.items[o]
		return x.gapF + x.gapB, float64(1 + 2*x.skipped)
	case o < m:
		return f.items[o].gapF, float64(1 + f.items[o].skipped)
	}
	x := &f.items[2*m-2-o]
	return x.gapB, float64(1 + x.skipped)
}

func (f *pipelineOrder) columns() {
	count := 2 * len(f.items)
	latest := make([]float64, count)
	for o := range count - 1 {
		gap, turns := f.gap(o)
		latest[o+1] = latest[o] + f.takes(o) + gap + turns*f.period
	}
	f.x = f.m.List("x", count, milp.Continuous, 0, latest[count-1])
	f.m.Fix(f.x.At(0), 0)
	var keys [][2]int
	for _, list := range f.of {
		for i, o := range list {
			for _, p := range list[i+1:] {
				keys = append(keys, [2]int{o, p})
			}
		}
	}
	f.q = milp.Vars(f.m, "q", keys, milp.Integer, 0, math.Ceil(latest[count-1]/f.period))
}

// between is q_{o,p}, o < p.
func (f *pipelineOrder) between(o, p int) milp.Var {
	v, _ := f.q.At([2]int{o, p})
	return v
}

// before adds c·q_{o,p} to f.e.
func (f *pipelineOrder) before(c float64, o, p int) {
	switch {
	case o == p:
		f.e.AddConst(-c)
	case o < p:
		f.e.Add(c, f.between(o, p))
	default:
		f.e.AddConst(-c).Add(-c, f.between(p, o))
	}
}

// way: one operation after another, and what is known of the delay of a layer.
func (f *pipelineOrder) way() {
	g := f.m.Group("way of a mini-batch", "ours")
	count := 2 * len(f.items)
	for o := range count - 1 {
		gap, turns := f.gap(o)
		least := f.takes(o) + gap
		// Later by a rounding of the durations, too.
		g.Between(least, f.e.Reset().Add(1, f.x.At(o+1)).Add(-1, f.x.At(o)), (least+turns*f.period)/less)
	}
	g = f.m.Group("delay", "[004] 7.1.2")
	for k := range f.items {
		if x := &f.items[k]; x.delay > 0 {
			g.AtLeast(f.e.Reset().Add(1, f.x.At(count-1-k)).Add(-1, f.x.At(k)), x.delay-x.b)
		}
	}
}

// apart: operations of a resource do not overlap. Of three, q_{o,p} + q_{p,s} is
// q_{o,s} or one less, which follows but for those that take no time.
func (f *pipelineOrder) apart() {
	g := f.m.Group("not at once", "[004] (6.5), (6.6), (6.14), (6.15)")
	three := f.m.Group("order of three", "ours")
	for _, list := range f.of {
		for i, o := range list {
			for k, p := range list[i+1:] {
				q := f.between(o, p)
				g.AtLeast(f.e.Reset().Add(1, f.x.At(p)).Add(-1, f.x.At(o)).Add(-f.period, q), f.takes(o))
				g.AtMost(f.e.Reset().Add(1, f.x.At(p)).Add(-1, f.x.At(o)).Add(-f.period, q), f.period-f.takes(p))
				for _, s := range list[i+1+k+1:] {
					f.e.Reset().Add(1, f.between(o, s)).Add(-1, q).Add(-1, f.between(p, s))
					three.Between(0, &f.e, 1)
				}
			}
		}
	}
}

// fixed is what the processor of the runs stores all the time.
func (f *pipelineOrder) fixed(processor int) (sum float64) {
	for _, x := range f.runs {
		if x.processor == processor {
			for l := x.i; l <= x.j; l++ {
				sum += f.weight[l]
			}
			if !x.openFront {
				sum += f.buffer(x.i - 1)
			}
			if !x.openBack {
				sum += f.buffer(x.j)
			}
		}
	}
	return sum
}

// memoryRows are (6.36): what is stored while each task runs.
func (f *pipelineOrder) memoryRows() {
	g := f.m.Group("memory", "[004] (6.36)")
	last := 2*len(f.items) - 1
	for o := range last + 1 {
		r := f.resource(o)
		if r >= f.platform.Processors {
			continue
		}
		t := f.task(o)
		f.e.Reset().AddConst(f.fixed(r) + f.run[t])
		for _, p := range f.of[r] {
			u := f.task(p)
			if f.forward(p) && f.stored[u] > 0 {
				f.before(f.stored[u], p, o)
				f.before(-f.stored[u], last-p, o)
			}
			// Next to each other on the processor: no cut between, nothing to skip.
			if p == last || p == o || f.resource(p+1) != r || f.task(p+1) != u+1 || f.out[u] == 0 {
				continue
			}
			f.before(f.out[u], p, o)
			f.before(-f.out[u], p+1, o)
			if p+1 == o {
				f.e.AddConst(-f.out[u]) // its input
			}
		}
		f.withinMemory(f.m, g, &f.e, f.memory)
	}
}

// stageMemory: all layers of a processor at their most, which is q_{F,B} + 1.
func (f *pipelineOrder) stageMemory() {
	g := f.m.Group("memory", "[004] 7.1.1")
	last := 2*len(f.items) - 1
	for r := range f.platform.Processors {
		f.e.Reset().AddConst(f.fixed(r))
		for _, p := range f.of[r] {
			if f.forward(p) {
				f.e.AddConst(f.stored[f.task(p)])
				f.before(f.stored[f.task(p)], p, last-p)
			}
		}
		if len(f.of[r]) > 0 {
			f.withinMemory(f.m, g, &f.e, f.memory)
		}
	}
}

// task is the number of operation o in the chain; of a communication, of the
// task before it.
func (f *pipelineOrder) task(o int) int {
	l := f.item(o).layer
	switch {
	case f.forward(o):
		return l
	case f.item(o).cut:
		return 2*f.n - 2 - l
	}
	return 2*f.n - 1 - l
}

// pattern reads the decisions off a solution of a whole allocation. Operations
// are moved by whole periods such that their ends lie in (0,t]; on each resource
// the first one of these, and the rest by the orders.
func (f *pipelineOrder) pattern(values []float64) *pipelinePattern {
	n, last := f.n, 2*len(f.items)-1
	q := &pipelinePattern{in: f.pipelineInstance, owner: make([]int, n), toComm: make([]int, 2*n), fromComm: make([]int, 2*n)}
	for _, x := range f.runs {
		for l := x.i; l <= x.j; l++ {
			q.owner[l] = x.processor
		}
	}
	turns := make([]int, last+1)
	q.order = make([][]int, f.platform.Processors)
	sends := map[[2]int][]int{}
	for r, list := range f.of {
		if len(list) == 0 {
			continue
		}
		first, least := 0, math.Inf(1)
		for _, o := range list {
			end := (values[f.x.At(o).Index()] + f.takes(o)) / f.period
			turns[o] = int(math.Ceil(end-1e-7)) - 1
			if at := end - float64(turns[o]); at < least {
				first, least = o, at
			}
		}
		count := func(o, p int) int { // q_{o,p}
			if o < p {
				return int(math.Round(values[f.between(o, p).Index()]))
			}
			return -int(math.Round(values[f.between(p, o).Index()])) - 1
		}
		for _, o := range list {
			if o != first {
				turns[o] = turns[first] + count(first, o)
			}
		}
		order := slices.Clone(list)
		slices.SortStableFunc(order, func(o, p int) int {
			switch {
			case o == p:
				return 0
			case turns[p]-turns[o] <= count(o, p): // o of this period is before p of this one
				return -1
			}
			return 1
		})
		for _, o := range order {
			if r < f.platform.Processors {
				q.order[r] = append(q.order[r], f.task(o))
			} else {
				t := f.task(o)
				a, b := q.ownerOf(t), q.ownerOf(t+1)
				link := [2]int{min(a, b), max(a, b)}
				sends[link] = append(sends[link], t)
			}
		}
	}
	q.findLinks()
	for k, link := range q.links {
		q.sends[k] = sends[link]
	}
	for o := range last {
		t := f.task(o)
		switch later := turns[o+1] - turns[o]; {
		case f.item(o).cut:
			q.fromComm[t] = later
		case f.item(o + 1).cut:
			q.toComm[t] = later
		default:
			q.fromComm[t] = later
		}
	}
	return q
}
