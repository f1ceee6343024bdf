package pipeline

import (
	"fmt"
	"math"
	"slices"

	"workbench/ilp/formulation"
	"workbench/model/chain"
	"workbench/model/milp"
	view "workbench/model/pipeline"
	"workbench/model/plan"
	"workbench/model/platform"
)

// pipelineAllocation is a MILP of our own: which processor computes which
// layers, without a pattern. Given that the period is at most limit, what every
// pattern must store is known from the allocation alone, so that its optimum is
// a lower bound on the periods up to limit: if T is a period, T ≥ min(limit,
// optimum). As limit decreases, more must be stored, and the model proves more.
//
// A 1-periodic pattern can be stretched to every longer period: times grow, and
// what runs before what, and with it what is stored, stays. So let its period be
// t = limit.
//
// # Delays
//
// Let D_ℓ be the time from the start of F_ℓ to the end of B_ℓ, and V that
// between them. Since the two do not overlap modulo t, D_ℓ ≥ V ⊕ U_ℓ of [004]
// 7.1.2: let x ≥ V be the time from the end of F_ℓ to the start of B_ℓ and h =
// ⌈V/t⌉. If V + U_ℓ > h·t, then x ≥ h·t; else x > (h−1)·t, and x ≤ h·t − U_ℓ as
// B_ℓ ends before F_ℓ begins again, a contradiction. The same holds for the two
// communications of a cut, which are on one link. V ⊕ u grows with V, so it may
// be used along the chain, from the last layer on.
//
// A run i..j is a sequence of layers on one processor whose neighbours are on
// others. What lies behind it counts only by V_j, the delay from the end of F_j
// to the start of B_j. So there is a node for each cut and value of V that the
// runs behind it may lead to, and a run is an arc from a node behind layer j to
// one behind layer i−1. Values within 1/levelSteps of limit share a node, of the
// least of them. An allocation is a path through the nodes, and a processor for
// each of its arcs: column s[i,j,r,q], with q the node.
//
// # What must be stored
//
// Of a_{ℓ-1}:
//
//   - on average over time D_ℓ/t (Little's law). Memory is no more between
//     operations than during the next;
//   - at any time, ⌈D_ℓ/t⌉ − 1 at least;
//   - while B_j runs, for ℓ ≤ j of its processor, ⌈X/t⌉ at least, X from the start
//     of F_ℓ to the end of B_j: so many F_ℓ of this and later mini-batches begin
//     before B_j ends; none of them overlaps B_j, so they end before it begins;
//     and B_ℓ follows B_j;
//   - while F_j runs, for ℓ ≤ j of its processor, ⌈X/t⌉ at least, X from the start
//     of F_j to the end of B_ℓ: so many B_ℓ of this and earlier mini-batches are
//     still to come.
//
// The last two hold of a processor without layer j, too: when B_j ends as many F_ℓ
// have begun, and what one that still runs reads is stored; when F_j starts as many B_ℓ
// have not ended.
//
// By the stage model all layers are at their most, ⌈D_ℓ/t⌉, at once.
//
// With k mini-batches a period all this holds for t ≥ Σd + Σd~ only: then ⊕ is
// +, the averages are Little's law for every pattern, and that a mini-batch in
// flight is stored needs no proof.
type pipelineAllocation struct {
	*pipelineInstance
	limit float64 // T is at most this, units of time
	// orLonger: that there is no allocation for such a period is a solution, too,
	// of period limit.
	orLonger bool

	uF, uB []float64   // suffix sums: Σ_{m≥ℓ}, at ℓ = 0..n, layers from 0
	back   []float64   // back[m]: δ_m/β
	send   []float64   // send[m]: (a_m + δ_m)/β of the cut behind layer m; n−1: none
	least  []float64   // least[ℓ]: the least D_ℓ of all runs
	nodes  [][]float64 // nodes[j]: the values of V behind layer j, rising

	m      *milp.Model
	e      milp.Expr
	period milp.Var
	beyond milp.Var // the period is limit or longer
	runs   []allocationRun
	of     [][]int // of[r]: the runs of processor r
}

// An allocationRun is a column: layers i..j, from 0, on a processor, from node
// from behind layer j to node to behind layer i−1.
type allocationRun struct {
	i, j, processor int
	from, to        int
	delay           []float64 // D_ℓ for ℓ = i..j
	column          milp.Var
}

// levelSteps is how finely V is divided: nodes for each limit.
const levelSteps = 16

// AllocationOptions say which MILP of allocations to build.
type AllocationOptions struct {
	MemoryOption
	// Limit is the longest period in seconds of the patterns that the model is
	// about, 0: as long as need be. The shorter it is, the more they store, and
	// the more the model proves, of 1-periodic ones: its optimum is the limit if
	// that is less than what such patterns have.
	Limit float64 `json:"limit,omitempty"`
	// Question asks no more than whether there is an allocation for such patterns:
	// the optimum is the limit if there is none, else 0.
	Question bool `json:"question,omitempty"`
}

// Allocations builds a MILP of our own, of allocations without patterns: its optimum
// is a lower bound on the period of every pattern, of every 1-periodic one if there is
// a limit; the proof is at pipelineAllocation. A column for each run of layers,
// processor and node, O(n²·P·nodes), of which there are 16 a limit behind each layer.
func Allocations(c *chain.Chain, p platform.Platform, o AllocationOptions) (*formulation.Program, error) {
	in, err := newWholePipeline(c, p, o.MemoryModel)
	if err != nil {
		return nil, err
	}
	o.MemoryModel = in.model
	_, program, err := allocations(in, o)
	return program, err
}

func allocations(in *pipelineInstance, o AllocationOptions) (*pipelineAllocation, *formulation.Program, error) {
	program := &formulation.Program{Promise: formulation.LowerBound, Formulation: allocationName, Unit: in.time}
	limit := in.horizon
	if o.Limit > 0 && o.Limit/in.time < limit {
		limit = o.Limit / in.time
		program.Assumptions = []string{plan.OnePeriodic}
	}
	var err error
	if program.Options, err = options(allocationName, o); err != nil {
		return nil, nil, err
	}
	f := &pipelineAllocation{pipelineInstance: in, limit: in.up(limit), orLonger: o.Question || limit < in.horizon}
	f.build()
	if o.Question {
		f.m.Minimize(f.e.Reset().Add(f.limit, f.beyond))
	}
	if f.orLonger {
		program.Start = f.nothing
	}
	program.Model = f.m
	return f, program, nil
}

// sums fills in the suffix sums and the times of cuts.
func (f *pipelineAllocation) sums() {
	in, n := f.pipelineInstance, f.n
	f.uF, f.uB, f.back, f.send = make([]float64, n+1), make([]float64, n+1), make([]float64, n), make([]float64, n)
	for l := n - 1; l >= 0; l-- {
		f.uF[l] = f.uF[l+1] + in.d[l]
		f.uB[l] = f.uB[l+1] + in.d[2*n-1-l]
		if l < n-1 {
			f.back[l] = in.comm[2*n-2-l]
			f.send[l] = in.comm[l] + f.back[l]
		}
	}
}

// mayCut reports whether there may be a cut behind layer l.
func (f *pipelineAllocation) mayCut(l int) bool {
	return l == f.n-1 || f.send[l] <= f.limit && f.platform.Processors > 1
}

func (f *pipelineAllocation) build() {
	f.sums()
	f.m = milp.New(allocationName)
	f.period = f.m.Var("T", milp.Continuous, 0, f.limit)
	f.m.Minimize(f.e.Reset().Add(1, f.period))
	f.columns()
	f.path()
	f.loads()
	f.pieces()
	f.linkLoads()
	f.memories()
	f.symmetry()
}

// plus is x ⊕ u of [004] 7.1.2 for the period limit, rounded down. With times on
// the grid nothing but the number of periods has to be rounded.
func (f *pipelineAllocation) plus(x, u float64) float64 { return view.Plus(x, u, f.limit) }

// columns finds the nodes from the last layer to the first, and with them the
// runs that can be, and makes a column for each and each processor.
func (f *pipelineAllocation) columns() {
	f.nodes = make([][]float64, f.n)
	f.nodes[f.n-1] = []float64{0}
	f.least = make([]float64, f.n)
	for l := range f.least {
		f.least[l] = math.Inf(1)
	}
	var found []allocationRun
	ways := make([][]float64, f.n) // values of V that runs lead to
	for j := f.n - 1; j >= 0; j-- {
		if j < f.n-1 {
			f.nodes[j] = f.joined(ways[j])
		}
		for q, v := range f.nodes[j] {
			for _, x := range f.runsFrom(j, q, v) {
				found = append(found, x)
				for k, d := range x.delay {
					f.least[x.i+k] = min(f.least[x.i+k], d)
				}
				if x.i > 0 {
					ways[x.i-1] = append(ways[x.i-1], f.plus(x.delay[0], f.send[x.i-1]))
				}
			}
		}
	}
	f.place(found)
}

// joined returns the nodes for values of V. No node joins values that differ in
// their number of periods.
func (f *pipelineAllocation) joined(values []float64) (nodes []float64) {
	slices.Sort(values)
	next := math.Inf(-1)
	for _, v := range values {
		if v < next {
			continue
		}
		nodes = append(nodes, v)
		turn := f.limit * (math.Floor(v/f.limit+view.Rounding) + 1)
		next = min(v+f.limit/levelSteps, turn)
	}
	return nodes
}

// runsFrom returns the runs that end at layer j with V_j = v and fit.
func (f *pipelineAllocation) runsFrom(j, q int, v float64) (runs []allocationRun) {
	var back []float64 // D_j, D_{j−1}, …
	for i := j; i >= 0 && f.load(i, j) <= f.limit; i-- {
		v = f.plus(v, f.work(i))
		back = append(back, v)
		if i > 0 && !f.mayCut(i-1) {
			continue
		}
		x := allocationRun{i: i, j: j, from: q, delay: slices.Clone(back)}
		slices.Reverse(x.delay)
		if platform.Fits(f.standing(x.i, x.j)+f.own(x), f.memory) {
			runs = append(runs, x)
		}
	}
	return runs
}

// work is the time of F_ℓ and B_ℓ, and load that of all layers i..j.
func (f *pipelineAllocation) work(l int) float64 { return f.d[l] + f.d[2*f.n-1-l] }

func (f *pipelineAllocation) load(i, j int) float64 {
	return f.uF[i] - f.uF[j+1] + f.uB[i] - f.uB[j+1]
}

// place makes the columns. Processors are numbered by their first layers.
func (f *pipelineAllocation) place(found []allocationRun) {
	processors := min(f.platform.Processors, f.n)
	f.of = make([][]int, processors)
	var keys [][4]int
	for _, x := range found {
		if x.i > 0 {
			v := f.plus(x.delay[0], f.send[x.i-1])
			at, exact := slices.BinarySearch(f.nodes[x.i-1], v)
			if !exact {
				at--
			}
			x.to = at
		}
		for r := range min(processors, x.i+1) {
			x.processor = r
			f.of[r] = append(f.of[r], len(f.runs))
			f.runs = append(f.runs, x)
			keys = append(keys, [4]int{x.i + 1, x.j + 1, r, x.from})
		}
	}
	k := 0
	for _, v := range milp.Vars(f.m, "s", keys, milp.Binary, 0, 1).All() {
		f.runs[k].column = v
		k++
	}
}

// copies returns Σ a_{ℓ-1}·count(ℓ) of a run.
func (f *pipelineAllocation) copies(x allocationRun, count func(l int) float64) float64 {
	sum := 0.0
	for l := x.i; l <= x.j; l++ {
		sum += f.stored[l] * count(l)
	}
	return sum
}

// atLeast is ⌈x⌉ of a number of periods, at least 1, rounded down.
func atLeast(x float64) float64 { return math.Max(1, math.Ceil(x-view.Rounding)) }

// in is D_ℓ of a layer of the run.
func (x allocationRun) in(l int) float64 { return x.delay[l-x.i] }

// average is what a run's inputs need on average over time, rounded down.
func (f *pipelineAllocation) average(x allocationRun) float64 {
	sum := f.copies(x, func(l int) float64 { return x.in(l) / f.limit })
	for l := x.i; l <= x.j; l++ {
		b := 2*f.n - 1 - l
		sum += (f.d[l]*f.out[l] + f.d[b]*f.run[b]) / f.limit
	}
	return sum * less
}

// always is what a run's inputs need at any time; of the stage model, at most.
func (f *pipelineAllocation) always(x allocationRun) float64 {
	return f.copies(x, func(l int) float64 {
		count := atLeast(x.in(l) / f.limit)
		if f.model == plan.TaskModel {
			count--
		}
		return count
	})
}

// whileB is how much more than always the run x needs while B_j runs on its
// processor: x holds layer j, or ends before, or starts behind it.
func (f *pipelineAllocation) whileB(x allocationRun, j int) float64 {
	return f.whileRuns(x, j, f.uF, f.comm, f.run[2*f.n-1-j])
}

// whileF is the same while F_j runs. What comes to pass between F_j and B_ℓ is
// the mirror of F_ℓ to B_j.
func (f *pipelineAllocation) whileF(x allocationRun, j int) float64 {
	return f.whileRuns(x, j, f.uB, f.back, f.out[j])
}

func (f *pipelineAllocation) whileRuns(x allocationRun, j int, u, comm []float64, own float64) float64 {
	if x.i > j {
		return 0
	}
	delay := f.least[j]
	if j <= x.j {
		delay = x.in(j)
	} else {
		delay += comm[x.j] // it is sent on at least
		own = 0
	}
	return own + f.copies(x, func(l int) float64 {
		if l > j {
			return 0
		}
		return max(0, atLeast((delay+u[l]-u[j])/f.limit)-atLeast(x.in(l)/f.limit)+1)
	})
}

// own is the most of all that a run of its own must store beside fixed.
func (f *pipelineAllocation) own(x allocationRun) float64 {
	always := f.always(x)
	if f.model == plan.StageModel {
		return always
	}
	most := f.average(x)
	for j := x.i; j <= x.j; j++ {
		most = max(most, always+f.whileB(x, j), always+f.whileF(x, j))
	}
	return most
}

// path makes the runs a path from the last layer to the first.
func (f *pipelineAllocation) path() {
	g := f.m.Group("path", "ours")
	if f.orLonger {
		f.beyond = f.m.Var("longer", milp.Binary, 0, 1)
		f.m.Group("longer", "ours").AtLeast(f.e.Reset().Add(1, f.period).Add(-f.limit, f.beyond), 0)
	}
	rows := make([][]milp.Expr, f.n)
	for j := range rows {
		rows[j] = make([]milp.Expr, len(f.nodes[j]))
	}
	for _, x := range f.runs {
		rows[x.j][x.from].Add(1, x.column)
		if x.i > 0 {
			rows[x.i-1][x.to].Add(-1, x.column)
		}
	}
	for j := range rows {
		for q := range rows[j] {
			side := 0.0
			if j == f.n-1 {
				side = 1
				if f.orLonger {
					rows[j][q].Add(1, f.beyond)
				}
			}
			g.Equal(&rows[j][q], side)
		}
	}
	g = f.m.Group("another processor", "ours")
	for l := range f.n - 1 {
		for r := range f.platform.Processors {
			f.e.Reset()
			for _, x := range f.runs {
				if x.processor == r && (x.j == l || x.i == l+1) {
					f.e.Add(1, x.column)
				}
			}
			if len(f.e.Terms) > 0 {
				g.AtMost(&f.e, 1)
			}
		}
	}
}

// loads: a period is as long as what a processor computes.
func (f *pipelineAllocation) loads() {
	g := f.m.Group("load", "[004] 5.1.1")
	for r := range min(f.platform.Processors, f.n) {
		f.e.Reset().Add(1, f.period)
		for _, x := range f.runs {
			if x.processor == r {
				f.e.Add(-f.load(x.i, x.j), x.column)
			}
		}
		g.AtLeast(&f.e, 0)
	}
	sent := f.m.Group("cut", "[004] 6.2.3")
	for l := range f.n - 1 {
		f.e.Reset().Add(1, f.period)
		for _, x := range f.runs {
			if x.j == l {
				f.e.Add(-f.send[l], x.column)
			}
		}
		if len(f.e.Terms) > 1 {
			sent.AtLeast(&f.e, 0)
		}
	}
	if f.limit*float64(f.platform.Processors) < f.uF[0]+f.uB[0] {
		return // the period is longer
	}
	all := f.m.Group("all loads", "[004] 5.1.1")
	all.AtLeast(f.e.Reset().Add(float64(f.platform.Processors), f.period), f.uF[0]+f.uB[0])
}

// pieces: layers that no cut may divide are a piece. Of the pieces of some size
// or more, a processor has at most as many as of the smallest of them take the
// limit together. Where the average processor has more, there is no allocation,
// which takes loads alone much branching to see.
func (f *pipelineAllocation) pieces() {
	sizes, piece := []float64{}, make([]int, f.n)
	for l := range f.n {
		if l == 0 || f.mayCut(l-1) {
			sizes = append(sizes, 0)
		}
		piece[l] = len(sizes) - 1
		sizes[piece[l]] += f.work(l)
	}
	sorted := slices.Clone(sizes)
	slices.Sort(sorted)
	g := f.m.Group("large pieces", "ours")
	last := 0
	for first, least := range sorted {
		if first > 0 && least == sorted[first-1] {
			continue
		}
		count, sum := 0, 0.0
		for _, u := range sorted[first:] {
			if sum += u; sum > f.limit {
				break
			}
			count++
		}
		if count == last || count == len(sorted)-first {
			continue // there is a row with more pieces, or nothing to say
		}
		last = count
		for r := range f.of {
			f.e.Reset()
			for _, k := range f.of[r] {
				x, large := &f.runs[k], 0
				for p := piece[x.i]; p <= piece[x.j]; p++ {
					if sizes[p] >= least {
						large++
					}
				}
				f.e.Add(float64(large), x.column)
			}
			g.AtMost(&f.e, float64(count))
		}
	}
}

// linkWorth is the part of the limit from which a communication is worth
// columns for its link.
const linkWorth = 1.0 / 6

// linkLoads: a period is as long as what a link carries.
func (f *pipelineAllocation) linkLoads() {
	processors := min(f.platform.Processors, f.n)
	var cuts []int
	for l := range f.n - 1 {
		if f.mayCut(l) && f.send[l] >= linkWorth*f.limit {
			cuts = append(cuts, l)
		}
	}
	if len(cuts) < 2 {
		return // rows "cut"
	}
	uses := f.m.Group("uses link", "ours")
	load := f.m.Group("load of a link", "[004] 6.2.3")
	keys := make([]int, len(cuts))
	for k, l := range cuts {
		keys[k] = l + 1
	}
	for r := range processors {
		for q := r + 1; q < processors; q++ {
			var total milp.Expr
			total.Add(-1, f.period)
			k := 0
			for _, v := range milp.Vars(f.m, fmt.Sprintf("link%d-%d", r, q), keys, milp.Continuous, 0, 1).All() {
				l := cuts[k]
				k++
				total.Add(f.send[l], v)
				for _, ends := range [2][2]int{{r, q}, {q, r}} {
					f.e.Reset().Add(1, v)
					for _, x := range f.runs {
						if x.processor == ends[0] && x.j == l || x.processor == ends[1] && x.i == l+1 {
							f.e.Add(-1, x.column)
						}
					}
					uses.AtLeast(&f.e, -1)
				}
			}
			load.AtMost(&total, 0)
		}
	}
}

// A pipelineCut says that no pattern of period limit, or less, has all of these
// runs, which are in the order of the chain. How processors are numbered does
// not matter.
type pipelineCut struct {
	limit float64
	runs  []placedRun
}

// cut adds the rows of a cut, for every way to number its processors. It must
// hold for the limit of f.
//
// The columns that may stand for one of its runs all have a layer in common, so
// that a path has one of them at most. A column whose node has V ≥ behind is
// one: so long is the delay at least. Such a cut holds for each shorter limit, too:
// a pattern with these delays can be stretched to one of period c.limit, with
// longer ones.
func (f *pipelineAllocation) cut(c *pipelineCut) {
	g := f.m.Group("no pattern", "ours")
	row := func(number map[int]int) {
		f.e.Reset()
		for _, x := range c.runs {
			some := false
			for _, k := range f.of[number[x.processor]] {
				if y := &f.runs[k]; x.includes(y.i, y.j) && f.nodes[y.j][y.from] >= x.behind {
					f.e.Add(1, y.column)
					some = true
				}
			}
			if !some {
				return
			}
		}
		g.AtMost(&f.e, float64(len(c.runs)-1))
	}
	rows := 0
	var choose func(k, covered int)
	number, taken := map[int]int{}, make([]bool, len(f.of))
	choose = func(k, covered int) {
		if k == len(c.runs) {
			row(number)
			rows++
			return
		}
		x := &c.runs[k]
		next := -1
		if covered == x.i && !x.openFront {
			next = x.j + 1
		}
		if _, ok := number[x.processor]; ok {
			choose(k+1, next)
			return
		}
		for d := range taken {
			r := (x.processor + d) % len(taken)
			if next > 0 {
				r = d // the first that is left, since all layers before have theirs
			}
			if taken[r] || rows >= mostNumberings {
				continue
			}
			taken[r], number[x.processor] = true, r
			choose(k+1, next)
			taken[r] = false
			delete(number, x.processor)
			if next > 0 {
				break
			}
		}
	}
	choose(0, 0)
}

// mostNumberings is how many rows a cut may have. With fewer it holds, too, the
// first is that of its own numbers.
const mostNumberings = 1000

// includes reports whether the run i..j may be the one that x is of.
func (x placedRun) includes(i, j int) bool {
	return (i == x.i || x.openFront && i < x.i) && (j == x.j || x.openBack && j > x.j)
}

// memories: what a processor stores, on average and at its moments. Column
// stored[r] is what it does at any time, of which the moments have more.
func (f *pipelineAllocation) memories() {
	processors := min(f.platform.Processors, f.n)
	if f.model == plan.StageModel {
		g := f.m.Group("memory", "[004] 7.1.1; ours")
		for r := range processors {
			g.AtMost(f.sum(r, func(x allocationRun) float64 { return f.standing(x.i, x.j) + f.always(x) }), f.coarseMemory())
		}
		return
	}
	always := f.m.Group("stored always", "ours")
	average := f.m.Group("memory on average", "ours")
	backward := f.m.Group("memory while B", "ours")
	forward := f.m.Group("memory while F", "ours")
	stored := f.m.List("stored", processors, milp.Continuous, 0, f.coarseMemory())
	for r := range processors {
		always.AtMost(f.sum(r, func(x allocationRun) float64 { return f.standing(x.i, x.j) + f.always(x) }).Add(-1, stored.At(r)), 0)
		average.AtMost(f.sum(r, func(x allocationRun) float64 { return milp.Down.Add(f.standing(x.i, x.j), f.average(x)) }), f.coarseMemory())
		for j := range f.n {
			backward.AtMost(f.sum(r, func(x allocationRun) float64 { return f.whileB(x, j) }).Add(1, stored.At(r)), f.coarseMemory())
			forward.AtMost(f.sum(r, func(x allocationRun) float64 { return f.whileF(x, j) }).Add(1, stored.At(r)), f.coarseMemory())
		}
	}
}

// sum is Σ need(x) over the runs of processor r, each to the grain: what is left
// out, the models of patterns know.
func (f *pipelineAllocation) sum(r int, need func(allocationRun) float64) *milp.Expr {
	f.e.Reset()
	for _, k := range f.of[r] {
		if v := coarse(need(f.runs[k])); v > 0 {
			f.e.Add(v, f.runs[k].column)
		}
	}
	return &f.e
}

// symmetry: a processor is used only where the one before it has a run that
// starts earlier.
func (f *pipelineAllocation) symmetry() {
	g := f.m.Group("numbers of processors", "ours")
	for r := 1; r < min(f.platform.Processors, f.n); r++ {
		for l := r; l < f.n; l++ {
			f.e.Reset()
			used := false
			for _, x := range f.runs {
				switch {
				case x.processor == r && x.i == l:
					f.e.Add(1, x.column)
					used = true
				case x.processor == r-1 && x.i < l:
					f.e.Add(-1, x.column)
				}
			}
			if used {
				g.AtMost(&f.e, 0)
			}
		}
	}
}

// allocation reads the runs off a solution, in the order of the chain.
func (f *pipelineAllocation) allocation(x []float64) (runs []placedRun) {
	for _, y := range f.runs {
		if x[y.column.Index()] > 0.5 {
			runs = append(runs, placedRun{i: y.i, j: y.j, processor: y.processor, behind: f.nodes[y.j][y.from]})
		}
	}
	slices.SortFunc(runs, func(x, y placedRun) int { return x.i - y.i })
	return runs
}

// delays returns what D_ℓ is at least, for every layer, if these runs are part of
// the allocation; they are in the order of the chain.
func (f *pipelineAllocation) delays(runs []placedRun) []float64 {
	delay := make([]float64, f.n)
	v, k := 0.0, len(runs)-1
	for l := f.n - 1; l >= 0; l-- {
		ends := k >= 0 && runs[k].j == l
		if l < f.n-1 && (ends && !runs[k].openBack || k+1 < len(runs) && runs[k+1].i == l+1 && !runs[k+1].openFront) {
			v = f.plus(v, f.send[l])
		}
		if ends {
			v = max(v, runs[k].behind)
		}
		v = max(f.plus(v, f.work(l)), f.least[l])
		delay[l] = v
		if k >= 0 && runs[k].i == l {
			k--
		}
	}
	return delay
}
