package pipeline

import (
	"math"

	"workbench/ilp/formulation"
	"workbench/model/instance/chain"
	"workbench/model/milp"
	"workbench/model/plan"
	"workbench/model/platform"
	view "workbench/model/problem/pipeline"
)

// pipelineCuts are the groups of [Strong] beyond [004].
var pipelineCuts = []string{
	"load", "all loads", "load of a link", "pigeonhole", "first only", "not sent", "no cycle",
	"periods on the way", "copies while it runs", "memory on average", "memory of all", "memory cover",
}

// Strong builds the strengthened ILP of [004] chapter 6. Its optimum is
// that of [Patterns]; so are its solutions, but for columns that differ
// without any difference to the pattern.
//
// F_ℓ and B_ℓ share their columns z, f, σ and b, the communications over a cut
// theirs of the link; nothing in z tells one processor from another, so that
// there is no symmetry of processors, and what freedom f and the shifts had is
// gone ("first only", "not sent"). Every switched row has a constant of its own
// (tight.go). The other groups are valid inequalities, each of which
// can be left out.
//
// Some 17 N² columns and 5 N³ rows, half of them "no cycle", and some 20 N².
func Strong(c *chain.Chain, p platform.Platform, o MemoryOption) (*formulation.Program, error) {
	f, err := newPipelineStrong(c, p, o.MemoryModel)
	if err != nil {
		return nil, err
	}
	return f.program(strongName), nil
}

func newPipelineStrong(c *chain.Chain, p platform.Platform, model string) (*pipelineILP, error) {
	in, err := newWholePipeline(c, p, model)
	if err != nil {
		return nil, err
	}
	f := newColumns(strongName, in, in.horizon, in.late(in.horizon), in.n)
	f.buildStrong()
	return f, nil
}

// strengthen adds the groups pipelineCuts.
func (f *pipelineILP) strengthen() {
	f.loads()
	f.linkLoads()
	f.pigeonholes()
	f.firsts()
	f.unsent()
	f.cycles()
	f.onTheWay()
	f.copiesStored()
	f.averageMemory()
	f.memoryOfAll()
	f.memoryCovers()
}

// work is the time of F_s and B_s.
func (f *pipelineILP) work(s int) float64 { return f.d[s] + f.d[2*f.n-1-s] }

// path is the time of tasks t to u, u included.
func (f *pipelineILP) path(t, u int) (sum float64) {
	for m := t; m <= u; m++ {
		sum += f.d[m]
	}
	return sum
}

// shortest is a lower bound on T: the average load of the processors and the
// load of a layer.
func (f *pipelineILP) shortest() float64 {
	least := f.path(0, 2*f.n-1) / float64(min(f.platform.Processors, f.n)) * less
	for s := range f.n {
		least = max(least, f.work(s))
	}
	return least
}

// rates returns points T_0 at which 1/T, a convex function of T, is replaced by
// its tangent: 1/T ≥ 2/T_0 − T/T_0².
func (f *pipelineILP) rates() []float64 {
	low := f.shortest()
	high := max(low, f.longest)
	points := []float64{low}
	for _, grow := range [2]float64{1.3, 1.9} {
		if low*grow < high {
			points = append(points, low*grow)
		}
	}
	return points
}

// less is what positive numbers that were computed are multiplied by, or divided,
// so that no rounding of theirs makes a row stronger than it is. Rows whose
// constants are counts have as much less on their side.
const less = 1 - 0x1p-40

// rate adds c times the tangent of 1/T at t0, or a little less than that, to f.e.
func (f *pipelineILP) rate(c, t0 float64) {
	f.e.AddConst(2*c/t0*less).Add(-c/(t0*t0)/less, f.period)
}

// worth reports whether a tangent of c/T is more than solvers drop.
func worth(c, t0 float64) bool { return c/(t0*t0) >= 0x1p-26 }

// times returns ⌈x/L⌉ less rounding: how often the longest period has begun
// within x. It is at most ⌈x/T⌉.
func (f *pipelineILP) times(x float64) float64 {
	return math.Max(0, math.Ceil(x/f.longest-view.Rounding))
}

// loads: a processor does all its work in each period, T ≥ Σ_s z_{r,s} U_s; and
// P processors do all the work there is, P·T ≥ Σ_s U_s.
func (f *pipelineILP) loads() {
	g := f.m.Group("load", "[004] 5.1.1")
	for r := range f.n {
		f.e.Reset().Add(1, f.period)
		for s := range f.n {
			f.same(-f.work(s), r, s)
		}
		g.AtLeast(&f.e, 0)
	}
	g = f.m.Group("all loads", "[004] 5.1.1")
	g.AtLeast(f.e.Reset().Add(1, f.period), f.shortest())
}

// linkLoads: a link carries all its communications in each period. z~ of a
// communication and itself is whether it is sent.
func (f *pipelineILP) linkLoads() {
	g := f.m.Group("load of a link", "[004] 6.2.3")
	for l := range f.n - 1 {
		f.e.Reset().Add(1, f.period)
		for t := range 2*f.n - 1 {
			if t != f.n-1 {
				f.e.Add(-f.comm[t], f.zt.at(l, t))
			}
		}
		g.AtLeast(&f.e, 0)
	}
}

// pigeonholes: of P+1 stages two are on one processor. Of all N stages, at
// least so many pairs are together as when they are spread evenly (Turán). And
// if there are two processors, both have a buffer at every cut.
//
// Subsets of P+1 stages are left out where there are more than N³.
func (f *pipelineILP) pigeonholes() {
	g := f.m.Group("pigeonhole", "ours")
	n, p := f.n, f.platform.Processors
	together := func(stages []int) {
		f.e.Reset()
		for i, s := range stages {
			for _, r := range stages[:i] {
				f.e.Add(1, f.z.at(r, s))
			}
		}
	}
	all := make([]int, n)
	for s := range all {
		all[s] = s
	}
	q, rest := n/p, n%p
	if pairs := rest*(q+1)*q/2 + (p-rest)*q*(q-1)/2; pairs > 1 {
		together(all)
		g.AtLeast(&f.e, float64(pairs))
	}
	count := 1.0
	for i := range p + 1 {
		count *= float64(n-i) / float64(i+1)
	}
	if p < n && count <= float64(n*n*n) {
		subset := make([]int, 0, p+1)
		var grow func(next int)
		grow = func(next int) {
			if len(subset) == p+1 {
				together(subset)
				g.AtLeast(&f.e, 1)
				return
			}
			for s := next; s < n; s++ {
				subset = append(subset, s)
				grow(s + 1)
				subset = subset[:len(subset)-1]
			}
		}
		grow(0)
	}
	if p == 2 {
		for r := range n {
			for u := range 2*n - 1 {
				if u != n-1 {
					g.AtLeast(f.e.Reset().Add(1, f.b.At(r, u)).Add(-1, f.zt.at(u, u)), 0)
				}
			}
		}
	}
}

// firsts: f_s is 1 only for the first stage of its processor, which (6.2) and
// (6.3) leave open where there are processors to spare.
func (f *pipelineILP) firsts() {
	g := f.m.Group("first only", "ours")
	for s := range f.n {
		for r := range s {
			g.AtMost(f.e.Reset().Add(1, f.f.At(s)).Add(1, f.z.at(r, s)), 1)
		}
	}
}

// unsent: where t and t+1 are on one processor, it is open when nothing is sent
// between them. Let it be at the end of t; then v_t = v'_t = 0. By (6.20) t+1 is
// not more than a period late, so v~'_t = 0; and it is late just if it comes
// first: v~_t = w_{t+1,t}, of which ≥ is "later than before". Nor can τ~ + T be
// before the end of t if the communication takes no time: v'_t = 0.
func (f *pipelineILP) unsent() {
	g := f.m.Group("not sent", "ours")
	for t := range 2*f.n - 1 {
		for _, v := range [3]milp.Var{f.v.At(t), f.v2.At(t), f.vt2.At(t)} {
			f.e.Reset().Add(1, v)
			f.same(1, t, t+1)
			g.AtMost(&f.e, 1)
		}
		g.AtMost(f.e.Reset().Add(1, f.vt.At(t)).Add(1, f.w.At(t, t+1)), 1)
		if f.comm[t] == 0 {
			g.AtMost(f.e.Reset().Add(1, f.v2.At(t)), 0)
		}
	}
}

// cycles: of three tasks on one processor, w_{t,u} + w_{u,x} + w_{x,t} is 1 or 2,
// since it orders them. If just two of them are together it is at most 1, and
// otherwise 0. So it is at most 1 + z of any of the pairs.
func (f *pipelineILP) cycles() {
	g := f.m.Group("no cycle", "ours")
	for t := range f.d {
		for u := t + 1; u < len(f.d); u++ {
			for x := u + 1; x < len(f.d); x++ {
				for _, c := range [2][3]int{{t, u, x}, {t, x, u}} {
					f.e.Reset().Add(1, f.w.At(c[0], c[1])).Add(1, f.w.At(c[1], c[2])).Add(1, f.w.At(c[2], c[0]))
					f.same(-1, t, u)
					g.AtMost(&f.e, 1)
				}
			}
		}
	}
}

// shifted adds c·Σ (v + v' + v~ + v~') of m = t..u−1: by how many periods u is
// later than t in the mini-batches of a period.
func (f *pipelineILP) shifted(c float64, t, u int) {
	for m := t; m < u; m++ {
		f.e.Add(c, f.v.At(m)).Add(c, f.v2.At(m)).Add(c, f.vt.At(m)).Add(c, f.vt2.At(m))
	}
}

// onTheWay: let S be the shift from task t to u > t, D the time of t..u, and C
// what is sent between them. A mini-batch passes t..u one after another, so
//
//	τ_u + S·T ≥ τ_t + D − d_u + C.
//
// On one processor, τ_u + d_u ≤ τ_t + w_{t,u}·T, by (6.20) or since u ends
// before t begins. So S + w_{t,u} ≥ (D + C)/T. On two, τ_u + d_u − τ_t ≤ T + d_t,
// so S ≥ (D − d_t + C)/T − 1, which is less by 1 + d_t/T at most.
//
// D/T is at least its tangents, C/T at least C/L. And S is a whole number: it
// is at least ⌈D/L⌉ − w_{t,u}, or ⌈(D − d_t)/L⌉ − 1.
func (f *pipelineILP) onTheWay() {
	g := f.m.Group("periods on the way", "ours")
	low := f.shortest()
	for t := range f.d {
		d := f.d[t]
		for u := t + 1; u < len(f.d); u++ {
			d += f.d[u]
			row := func() {
				f.e.Reset().Add(1, f.w.At(t, u))
				f.shifted(1, t, u)
			}
			for _, t0 := range f.rates() {
				if !worth(d, t0) {
					break
				}
				slack := 1 + f.d[t]/low/less
				row()
				for m := t; m < u; m++ {
					f.sending(-less/f.longest, m)
				}
				f.rate(-d, t0)
				f.same(-slack, t, u)
				g.AtLeast(&f.e, -slack/less)
				if f.stage(t) != f.stage(u) {
					break
				}
			}
			on, apart := f.times(d), math.Max(0, f.times(d-f.d[t])-1)
			if on > 1 {
				row()
				f.same(apart-on, t, u)
				g.AtLeast(&f.e, apart)
			}
		}
	}
}

// whileRuns returns, for stages s and j of one processor, how long F_s..B_j take
// if forward is false, F_j..B_s otherwise, and by how much the copies of stage s
// that are stored while task B_j or F_j runs may be less than this over T. The
// copies are those that (6.36) counts, σ_{t,s} + w_{s,t} − w_{B_s,t}.
//
// Let S(t,u) be the shift. For s ≤ j, σ = S(F_s,B_j) + S(B_j,B_s). The second is
// w_{B_s,B_j} at least, the first D/T − w_{s,B_j} at least, as in onTheWay, with
// D the time of F_s..B_j. So D/T copies are stored while B_j runs.
//
// For F_j likewise, s < j: σ = S(F_s,F_j) + S(F_j,B_s), the first at least
// w_{F_j,F_s} = 1 − w_{s,j}, the second D/T − w_{F_j,B_s} at least, D of F_j..B_s:
// D/T copies. (6.36) leaves out w_{s,t} for t = s: D/T − 1.
//
// For s > j, B_s comes before B_j in the chain: σ = S(F_s,B_s), where it is
// B_s that is late by S(B_s,B_j) ≥ w_{B_j,B_s}. Nothing is gained there.
func (f *pipelineILP) whileRuns(s, j int, forward bool) (d, fewer float64) {
	switch {
	case s > j:
		return 0, 0
	case !forward:
		return f.path(s, 2*f.n-1-j), 0
	case s == j:
		return f.path(j, 2*f.n-1-s), 1
	}
	return f.path(j, 2*f.n-1-s), 0
}

// copiesStored: the copies of whileRuns, and of the stage model those that are
// ever stored at once, ⌈R_s/T⌉ with R_s the time of F_s..B_s. On two processors
// they are 0, which D/T exceeds by D over the least T at most.
func (f *pipelineILP) copiesStored() {
	g := f.m.Group("copies while it runs", "ours")
	low := f.shortest()
	row := func(count func(), d, fewer float64, r, s int) {
		for _, t0 := range f.rates()[:1] {
			if !worth(d, t0) {
				break
			}
			slack := max(0, (2*d/t0-d*low/(t0*t0))/less-fewer)
			count()
			f.rate(-d, t0)
			f.same(-slack, r, s)
			g.AtLeast(&f.e, (-fewer-slack)/less)
		}
		if whole := f.times(d) - fewer; whole > 0 {
			count()
			f.same(-whole, r, s)
			g.AtLeast(&f.e, 0)
		}
	}
	for j := range f.n {
		for s := range f.n {
			if f.model == plan.StageModel {
				row(func() { f.e.Reset().Add(1, f.nca.At(j, s)) }, f.path(s, 2*f.n-1-s), 0, j, s)
				continue
			}
			for _, forward := range [2]bool{false, true} {
				d, fewer := f.whileRuns(s, j, forward)
				if d == 0 || f.stored[s] == 0 {
					continue
				}
				t := 2*f.n - 1 - j
				if forward {
					t = j
				}
				row(func() {
					f.e.Reset().Add(1, f.sigma.At(j, s))
					if s != t {
						f.e.Add(1, f.w.At(s, t))
					}
					if r := 2*f.n - 1 - s; r != t {
						f.e.Add(-1, f.w.At(r, t))
					}
				}, d, fewer, j, s)
			}
		}
	}
}

// averageMemory: the average over time of what a processor stores. It is at
// most M: whenever no task of the processor runs, the next one needs all that is
// stored, since what leaves memory does so at the end of a task. An input of
// stage s is stored from the start of F_s to the end of B_s, R_s = Σ of the times
// of F_s..B_s at least, every T: R_s/T on average. Besides, F_s has its output
// for its time, B_s what it needs beside its input.
//
// mean[r,s] is this average of the inputs of s on the processor of r; on two
// processors it is 0, which R_s/T exceeds by R_s over the least T at most.
func (f *pipelineILP) averageMemory() {
	if f.model == plan.StageModel {
		return
	}
	f.mean = f.m.Grid("mean", f.n, f.n, milp.Continuous, 0, math.Inf(1))
	g := f.m.Group("memory on average", "ours")
	for r := range f.n {
		for s := range f.n {
			d, mean := coarse(f.kept(s)), f.mean.At(r, s)
			if d == 0 {
				continue
			}
			for _, t0 := range f.rates() {
				if !worth(d, t0) {
					break
				}
				slack := (2*d/t0 - d*f.shortest()/(t0*t0)) / less
				f.e.Reset().Add(1, mean)
				f.rate(-d, t0)
				f.same(-slack, r, s)
				g.AtLeast(&f.e, -slack/less)
			}
			f.e.Reset().Add(1, mean)
			f.same(-d/f.longest*less, r, s)
			g.AtLeast(&f.e, 0)
		}
		f.e.Reset()
		for s := range f.n {
			f.same(coarse(f.weight[s]), r, s)
			f.e.Add(1, f.mean.At(r, s))
		}
		for u := range 2*f.n - 1 {
			f.e.Add(coarse(f.out[u]), f.b.At(r, u))
		}
		g.AtMost(&f.e, f.memory+half*sizeGrain) // averages are real numbers
	}
}

// kept is what a mini-batch keeps of stage s, times how long, if it is as short
// as can be.
func (f *pipelineILP) kept(s int) float64 {
	b := 2*f.n - 1 - s
	return f.stored[s]*f.path(s, b) + f.d[s]*f.out[s] + f.d[b]*f.run[b]
}

// memoryOfAll: the same, summed over the processors: P·M ≥ ΣW + the buffers, two
// for what is sent, + Σ kept/T + Σ a_{s−1}·C_s/L, with C_s what is sent between
// F_s and B_s.
func (f *pipelineILP) memoryOfAll() {
	if f.model == plan.StageModel {
		return
	}
	g := f.m.Group("memory of all", "ours")
	all, stored := 0.0, 0.0
	var fixed milp.Expr
	for s := range f.n {
		fixed.AddConst(f.weight[s])
		all += f.kept(s)
		stored += f.stored[s]
		if s < f.n-1 {
			back := 2*f.n - 2 - s
			fixed.Add(coarse(2*(f.out[s]+f.out[back])+stored*(f.comm[s]+f.comm[back])/f.longest*less), f.zt.at(s, s))
		}
	}
	for _, t0 := range f.rates() {
		if !worth(all, t0) {
			break
		}
		f.e.Reset().AddExpr(1, &fixed)
		f.rate(all, t0)
		g.AtMost(&f.e, float64(min(f.n, f.platform.Processors))*f.memory)
	}
}

// together returns what some stages need on one processor, in units: while B_j
// of one of them runs, ⌈D/L⌉ copies of each stage s ≤ j of them are stored, at
// least one, with D the time of F_s..B_j (whileRuns); by the stage model those
// are at once what each ever needs.
func (f *pipelineILP) together(stages ...int) float64 {
	weights, most := 0.0, 0.0
	for _, s := range stages {
		weights += f.weight[s]
	}
	for _, j := range stages {
		b, sum := 2*f.n-1-j, 0.0
		for _, s := range stages {
			switch {
			case f.model == plan.StageModel:
				sum += f.stored[s] * max(1, f.times(f.path(s, 2*f.n-1-s)))
			case s <= j:
				sum += f.stored[s] * max(1, f.times(f.path(s, b)))
			}
		}
		if f.model == plan.TaskModel {
			sum += f.run[b]
		}
		most = max(most, sum)
	}
	return weights + most
}

// memoryCovers: two stages that together need more than the memory are apart.
// Of three that do, no two pairs are together, since then all three were. And
// all that is known to be stored while B_j runs is a knapsack, of which solvers
// make covers of their own.
func (f *pipelineILP) memoryCovers() {
	g := f.m.Group("memory cover", "ours")
	for s := range f.n {
		for r := range s {
			if !platform.Fits(f.together(r, s), f.memory) {
				g.AtMost(f.e.Reset().Add(1, f.z.at(r, s)), 0)
				continue
			}
			for q := range r {
				if !platform.Fits(f.together(q, r, s), f.memory) {
					g.AtMost(f.e.Reset().Add(1, f.z.at(q, r)).Add(1, f.z.at(q, s)).Add(1, f.z.at(r, s)), 1)
				}
			}
		}
	}
	if f.model == plan.StageModel {
		return
	}
	for j := range f.n {
		b := 2*f.n - 1 - j
		f.e.Reset()
		for s := range f.n {
			need := f.weight[s]
			if s <= j {
				need += f.stored[s] * max(1, f.times(f.path(s, b)))
			}
			f.same(coarse(need), j, s)
		}
		for u := range 2*f.n - 1 {
			f.e.Add(coarse(f.out[u]), f.b.At(j, u))
		}
		g.AtMost(&f.e, f.coarseMemory()-coarse(f.run[b]))
	}
}
