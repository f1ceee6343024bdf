package ilp

import (
	"fmt"
	"math"

	"workbench/model/chain"
	"workbench/model/milp"
	"workbench/model/plan"
	"workbench/model/platform"
)

// pipelineAllocation is a MILP of our own: which processor computes which
// layers, without a pattern. Given that the period is at most limit, what every
// pattern must store is known from the allocation alone, so that its optimum is
// a lower bound on the periods up to limit: if T is a period, T ≥ min(limit,
// optimum). As limit decreases, more must be stored, and the model proves more.
//
// A run i..j is a sequence of layers on one processor whose neighbours are on
// others. Its column is s[i,j,q] of processor r, where q is the level of
//
//	Q_j = Σ (a_m + δ_m)/β over the cuts m ≥ j,
//
// rounded down: what is sent between F_j and B_j. The runs are a path through
// the chain, so that weights, buffers and loads are exact in the relaxation.
//
// # What must be stored
//
// Of layer ℓ in the run, a_{ℓ-1} of a mini-batch is stored for at least R_ℓ =
// U(ℓ,N) + Q_j, from F_ℓ to the end of B_ℓ. With period T:
//
//   - on average over time, R_ℓ/T are (Little's law; for every pattern). Memory
//     is no more between operations than during the next;
//   - at any time, ⌊R_ℓ/T⌋ at least (1-periodic patterns);
//   - while B_j runs, ⌈V/T⌉ at least, V = UF(ℓ,N) + UB(j+1,N) + Q_j being the
//     least time from F_ℓ to B_j: F_ℓ of so many later mini-batches has run;
//   - while F_j runs, ⌈V/T⌉ at least, V = UF(j,N) + UB(ℓ,N) + Q_j being the
//     least time from F_j to the end of B_ℓ: so many earlier ones remain.
//
// By the stage model all layers are at their most, ⌈R_ℓ/T⌉, at once (for every
// pattern).
type pipelineAllocation struct {
	*pipelineInstance
	limit float64 // T is at most this, units of time

	uF, uB []float64 // suffix sums: Σ_{m≥ℓ}, at ℓ = 0..n, layers from 0
	send   []float64 // send[m]: (a_m + δ_m)/β of the cut behind layer m; n−1: none
	most   []float64 // most[j]: the largest Q_j

	m      *milp.Model
	e      milp.Expr
	period milp.Var
	runs   []allocationRun
}

// An allocationRun is a column: layers i..j, from 0, on a processor, with Q_j
// in [low, high].
type allocationRun struct {
	i, j, processor int
	low, high       float64
	column          milp.Var
}

// levelSteps is how finely Q is divided, steps for each limit, and levelWorth
// the part of the memory from which a level is worth a column.
const (
	levelSteps = 8
	levelWorth = 0.01
)

// PipelineAllocation builds the MILP of allocations without patterns, for
// periods as long as they may be: its optimum is a lower bound on the period of
// every k-periodic pattern. [SolvePipeline] builds it for shorter ones, which
// proves more.
func PipelineAllocation(c *chain.Chain, p platform.Platform) (*Program, error) {
	if c == nil {
		return nil, fmt.Errorf("%w: there is no chain", ErrInstance)
	}
	in, err := newPipelineInstance(c, p, singleLayers(c), plan.TaskModel)
	if err != nil {
		return nil, err
	}
	if err := in.fits(); err != nil {
		return nil, err
	}
	return &Program{Model: newPipelineAllocation(in, in.horizon).m}, nil
}

func newPipelineAllocation(in *pipelineInstance, limit float64) *pipelineAllocation {
	f := &pipelineAllocation{pipelineInstance: in, limit: limit}
	n := in.n
	f.uF, f.uB = make([]float64, n+1), make([]float64, n+1)
	f.send, f.most = make([]float64, n), make([]float64, n)
	for l := n - 1; l >= 0; l-- {
		f.uF[l] = f.uF[l+1] + in.d[l]
		f.uB[l] = f.uB[l+1] + in.d[2*n-1-l]
		if l < n-1 {
			f.send[l] = in.comm[l] + in.comm[2*n-2-l]
			f.most[l] = f.most[l+1]
			if f.mayCut(l) {
				f.most[l] += f.send[l]
			}
		}
	}
	f.build()
	return f
}

// mayCut reports whether there may be a cut behind layer l.
func (f *pipelineAllocation) mayCut(l int) bool {
	return l == f.n-1 || f.send[l] <= f.limit*(1+1e-9) && f.platform.Processors > 1
}

func (f *pipelineAllocation) build() {
	f.m = milp.New("pipeline-allocation")
	f.period = f.m.Var("T", milp.Continuous, 0, f.limit*(1+1e-9))
	f.m.Minimize(f.e.Reset().Add(f.time, f.period))
	f.columns()
	f.path()
	f.loads()
	f.linkLoads()
	f.levels()
	f.memories()
	f.symmetry()
}

// columns makes a column for each run, processor and level that can be.
func (f *pipelineAllocation) columns() {
	processors := min(f.platform.Processors, f.n)
	for i := range f.n {
		if i > 0 && !f.mayCut(i-1) {
			continue
		}
		for j := i; j < f.n; j++ {
			if f.uF[i]-f.uF[j+1]+f.uB[i]-f.uB[j+1] > f.limit*(1+1e-9) {
				break
			}
			if !f.mayCut(j) {
				continue
			}
			levels, end := f.levelsOf(i, j)
			// Processors are numbered by their first layers.
			for r := range min(processors, i+1) {
				for q, low := range levels {
					high := end
					if q+1 < len(levels) {
						high = levels[q+1]
					}
					f.runs = append(f.runs, allocationRun{i: i, j: j, processor: r, low: low, high: high})
				}
			}
		}
	}
	keys := make([][4]int, len(f.runs))
	for k, x := range f.runs {
		keys[k] = [4]int{x.i + 1, x.j + 1, x.processor, k}
	}
	k := 0
	for _, v := range milp.Vars(f.m, "s", keys, milp.Binary, 0, 1).All() {
		f.runs[k].column = v
		k++
	}
}

// levelsOf returns the levels of Q_j for the run i..j that fit, from the least
// on, as far as they differ in what must be stored, and the end of the last.
func (f *pipelineAllocation) levelsOf(i, j int) (levels []float64, end float64) {
	last := math.Inf(-1)
	for q := f.send[j]; ; q += f.limit / levelSteps {
		x := allocationRun{i: i, j: j, low: q}
		need := f.fixed(x) + f.own(x)
		if need > f.memory*(1+1e-9) {
			return levels, min(q, f.most[j])
		}
		if need > last+levelWorth*f.memory || len(levels) == 0 {
			levels, last = append(levels, q), need
		}
		if q > f.most[j] {
			return levels, f.most[j]
		}
	}
}

// fixed is what a run stores all the time: weights and buffers.
func (f *pipelineAllocation) fixed(x allocationRun) float64 {
	sum := 0.0
	for l := x.i; l <= x.j; l++ {
		sum += f.weight[l]
	}
	for _, cut := range [2]int{x.i - 1, x.j} {
		if cut >= 0 && cut < f.n-1 {
			sum += f.out[cut] + f.out[2*f.n-2-cut]
		}
	}
	return sum
}

// copies returns Σ a_{ℓ-1}·count(ℓ) of a run.
func (f *pipelineAllocation) copies(x allocationRun, count func(l int) float64) float64 {
	sum := 0.0
	for l := x.i; l <= x.j; l++ {
		sum += f.stored[l] * count(l)
	}
	return sum
}

// Rounding up or down with a little less, so that nothing is cut off.
func atLeast(x float64) float64 { return math.Max(1, math.Ceil(x-1e-7)) }

func lessThan(x float64) float64 {
	return math.Floor(math.Max(0, x) * (1 - 1e-9))
}

// average is what a run's inputs need on average over time.
func (f *pipelineAllocation) average(x allocationRun) float64 {
	sum := f.copies(x, func(l int) float64 { return (f.uF[l] + f.uB[l] + x.low) / f.limit })
	for l := x.i; l <= x.j; l++ {
		b := 2*f.n - 1 - l
		sum += (f.d[l]*f.out[l] + f.d[b]*f.run[b]) / f.limit
	}
	return sum
}

// always is what a run's inputs need at any time; of the stage model, at most.
func (f *pipelineAllocation) always(x allocationRun) float64 {
	return f.copies(x, func(l int) float64 {
		r := (f.uF[l] + f.uB[l] + x.low) / f.limit
		if f.model == plan.StageModel {
			return atLeast(r)
		}
		return lessThan(r)
	})
}

// whileB is what the run x needs while B_j runs, j being the last layer of the
// processor up to there: x holds it, or ends before, or starts behind it.
func (f *pipelineAllocation) whileB(x allocationRun, j int) float64 {
	holds := x.i <= j && j <= x.j
	sum := f.copies(x, func(l int) float64 {
		any := lessThan((f.uF[l] + f.uB[l] + x.low) / f.limit)
		if l > j {
			return any // B_ℓ may be over for more mini-batches than this one
		}
		delay := f.uF[l] + f.uB[j+1] // from F_ℓ to B_j
		switch {
		case j <= x.j:
			delay += x.low
		case x.j < f.n-1:
			delay += f.comm[x.j] // it is sent on at least
		}
		return math.Max(atLeast(delay/f.limit), any)
	})
	if holds {
		sum += f.run[2*f.n-1-j]
	}
	return sum
}

// whileF is what the run x needs while F_j runs, likewise.
func (f *pipelineAllocation) whileF(x allocationRun, j int) float64 {
	holds := x.i <= j && j <= x.j
	sum := f.copies(x, func(l int) float64 {
		any := lessThan((f.uF[l] + f.uB[l] + x.low) / f.limit)
		if l > j {
			return any
		}
		delay := f.uF[j] + f.uB[l] // from F_j to the end of B_ℓ
		switch {
		case j <= x.j:
			delay += x.low
		case x.j < f.n-1:
			delay += f.comm[2*f.n-2-x.j]
		}
		return math.Max(atLeast(delay/f.limit), any)
	})
	if holds {
		sum += f.out[j]
	}
	return sum
}

// own is the most of all that a run of its own must store beside fixed.
func (f *pipelineAllocation) own(x allocationRun) float64 {
	if f.model == plan.StageModel {
		return f.always(x)
	}
	most := f.average(x)
	for j := x.i; j <= x.j; j++ {
		most = max(most, f.whileB(x, j), f.whileF(x, j))
	}
	return most
}

// path makes the runs a path from layer 1 to layer N.
func (f *pipelineAllocation) path() {
	g := f.m.Group("path", "ours")
	for l := range f.n + 1 {
		f.e.Reset()
		for _, x := range f.runs {
			if x.i == l {
				f.e.Add(1, x.column)
			}
			if x.j == l-1 {
				f.e.Add(-1, x.column)
			}
		}
		switch l {
		case 0:
			g.Equal(&f.e, 1)
		case f.n:
			g.Equal(&f.e, -1)
		default:
			g.Equal(&f.e, 0)
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
				f.e.Add(-(f.uF[x.i]-f.uF[x.j+1])-(f.uB[x.i]-f.uB[x.j+1]), x.column)
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
	all := f.m.Group("all loads", "[004] 5.1.1")
	all.AtLeast(f.e.Reset().Add(float64(f.platform.Processors), f.period), (f.uF[0]+f.uB[0])*(1-1e-9))
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

// sendWeight is what a second of communication counts beside one of the period
// in an allocation that a pattern is to be made of.
const sendWeight = 0.05

// easy replaces the objective: of the allocations for periods up to the limit
// those that leave room and send little are the easiest to make patterns of.
func (f *pipelineAllocation) easy() {
	f.e.Reset().Add(1, f.period)
	for _, x := range f.runs {
		f.e.Add(sendWeight*f.send[x.j], x.column)
	}
	f.m.Minimize(&f.e)
}

// exclude forbids an allocation.
func (f *pipelineAllocation) exclude(stages []plan.Stage) {
	f.e.Reset()
	for _, x := range f.runs {
		for _, s := range stages {
			if s.Processor == x.processor && s.From == x.i+1 && s.To == x.j+1 {
				f.e.Add(1, x.column)
			}
		}
	}
	f.m.Group("tried", "ours").AtMost(&f.e, float64(len(stages)-1))
}

// levels: Q_j is at most the upper end of the level of the run that ends at j.
func (f *pipelineAllocation) levels() {
	g := f.m.Group("level", "ours")
	for j := range f.n - 1 {
		if f.most[j] == 0 {
			continue
		}
		f.e.Reset()
		several := false
		for _, x := range f.runs {
			if x.j >= j && x.j < f.n-1 {
				f.e.Add(f.send[x.j], x.column)
			}
			if x.j == j {
				f.e.Add(f.most[j]-x.high, x.column)
				several = several || x.high < f.most[j]
			}
		}
		if several {
			g.AtMost(&f.e, f.most[j]*(1+1e-9))
		}
	}
}

// memories: what a processor stores, on average and at its moments.
func (f *pipelineAllocation) memories() {
	row := func(g milp.Group, r int, need func(allocationRun) float64) {
		f.e.Reset()
		most := 0.0
		for _, x := range f.runs {
			if x.processor == r {
				v := f.fixed(x) + need(x)
				f.e.Add(v, x.column)
				most += v
			}
		}
		if most > f.memory {
			g.AtMost(&f.e, f.memory*(1+1e-9))
		}
	}
	processors := min(f.platform.Processors, f.n)
	if f.model == plan.StageModel {
		g := f.m.Group("memory", "[004] 7.1.1; ours")
		for r := range processors {
			row(g, r, f.always)
		}
		return
	}
	average := f.m.Group("memory on average", "ours")
	backward := f.m.Group("memory while B", "ours")
	forward := f.m.Group("memory while F", "ours")
	for r := range processors {
		row(average, r, f.average)
		for j := range f.n {
			row(backward, r, func(x allocationRun) float64 { return f.whileB(x, j) })
			row(forward, r, func(x allocationRun) float64 { return f.whileF(x, j) })
		}
	}
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

// allocation reads the stages off a solution.
func (f *pipelineAllocation) allocation(x []float64) []plan.Stage {
	stages := make([]plan.Stage, 0, f.n)
	for next := 0; next < f.n; {
		found := false
		for _, r := range f.runs {
			if r.i == next && x[r.column.Index()] > 0.5 {
				stages = append(stages, plan.Stage{Processor: r.processor, From: r.i + 1, To: r.j + 1})
				next, found = r.j+1, true
				break
			}
		}
		if !found {
			return nil
		}
	}
	return stages
}
