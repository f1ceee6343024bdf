package pipeline

import (
	"workbench/model/milp"
	"workbench/model/plan"
	view "workbench/model/problem/pipeline"
)

// foldPairs creates the shared columns z and zt of a strong model, one for each pair of stages and of cuts. The
// communications that follow F_ℓ and B_{ℓ+1} cross the same cut. They therefore share their link with the same
// others, and with each other if anything is sent. Between F_N and B_N nothing is sent.
func (f *pipelineILP) foldPairs() {
	n := f.n
	f.z, f.zt = newPairs(f.m, "z", n), newPairs(f.m, "zt", n)
	f.z.fold, f.zt.fold = f.stage, func(t int) int { return min(t, 2*n-2-t) }
	one := f.m.Var("one", milp.Binary, 1, 1)
	f.z.equal = make([]milp.Var, n)
	sent := f.m.List("sent", n, milp.Binary, 0, 1)
	for s := range n {
		f.z.equal[s] = one
		f.zt.equal = append(f.zt.equal, sent.At(s))
		if s < n-1 {
			f.m.Fix(f.zt.pair(s, n-1), 0)
		}
	}
	f.m.Fix(sent.At(n-1), 0)
}

// build builds [Strong].
//
// Start and end times lie in narrow windows, by (6.17) and (6.18). With L the upper limit of T, c = d~, and s = c
// or, where nothing is sent, 0,
//
//	−d_t ≤ τ_t,  0 ≤ τ_t + d_t ≤ T ≤ L   and   −c_t ≤ τ~_t,  0 ≤ τ~_t + s_t ≤ T.
//
// The constants below follow from these windows; some are a single duration.
func (f *strongILP) build() {
	f.equivalence()
	f.processors()
	f.tightOrder()
	g := f.m.Group("sent or together", "[004] (6.10)")
	for l := range f.n - 1 {
		g.Equal(f.e.Reset().Add(1, f.zt.pair(l, 2*f.n-2-l)).Add(1, f.z.pair(l, l+1)), 1)
	}
	f.links()
	f.tightLinkOrder()
	f.tightPeriod()
	f.tightShifts()
	f.turns()
	if f.model == plan.StageModel {
		f.stageMemory()
	} else {
		f.waiting()
		f.storedInputs(f.mostCopies)
		f.buffers()
		f.memoryRows()
	}
	f.strengthen()
}

// tightOrder adds (6.5)–(6.7). As w_{t,u} + w_{u,t} = z_{t,u}, (6.6) is (6.5) for the opposite order: if w_{u,t}
// is 1, τ_t − τ_u ≥ d_u. Otherwise τ_u + d_u − τ_t ≤ T on one processor by (6.20), and ≤ T + d_t on two.
func (f *strongILP) tightOrder() {
	g := f.m.Group("before", "[004] (6.5), (6.6)")
	for t, d := range f.d {
		for u := range f.d {
			if t == u {
				continue
			}
			on, apart := f.longest, d
			f.e.Reset().Add(1, f.tau.At(t)).Add(-1, f.tau.At(u)).Add(-on, f.w.At(u, t))
			f.same(-apart, t, u)
			g.AtLeast(&f.e, f.d[u]-on-apart)
		}
	}
	f.instants()
}

// tightLinkOrder adds (6.14)–(6.16) in the same way. On two links, or where one of the two is not sent, τ~_u + c_u
// − τ~_t ≤ T + c_u + c_t.
func (f *strongILP) tightLinkOrder() {
	g := f.m.Group("sent before", "[004] (6.14), (6.15)")
	here := f.m.Group("order on one link", "[004] (6.16)")
	for t := range 2*f.n - 1 {
		for u := range 2*f.n - 1 {
			if t == u {
				continue
			}
			z := f.zt.pair(t, u)
			on, apart := f.longest, f.comm[t]+f.comm[u]
			g.AtLeast(f.e.Reset().Add(1, f.comT.At(t)).Add(-1, f.comT.At(u)).Add(-on, f.wt.At(u, t)).Add(-apart, z), f.comm[u]-on-apart)
			if t < u {
				here.Equal(f.e.Reset().Add(1, f.wt.At(t, u)).Add(1, f.wt.At(u, t)).Add(-1, z), 0)
			}
		}
	}
}

// tightPeriod adds (6.17)–(6.21). On two processors τ_t + d_t − τ_u ≤ T + d_u, on two links τ~_t + c_t − τ~_u ≤ T
// + c_t + c_u.
func (f *strongILP) tightPeriod() {
	f.ends()
	g := f.m.Group("one period", "[004] (6.20)")
	for t := range f.d {
		for u := range f.d {
			if t != u {
				k := f.d[u]
				f.e.Reset().Add(1, f.period).Add(-1, f.tau.At(t)).Add(1, f.tau.At(u))
				f.same(-k, t, u)
				g.AtLeast(&f.e, f.d[t]-k)
			}
		}
	}
	g = f.m.Group("one period of a link", "[004] (6.21)")
	for t := range 2*f.n - 1 {
		for u := range 2*f.n - 1 {
			if t != u {
				k := f.comm[t] + f.comm[u]
				g.AtLeast(f.e.Reset().Add(1, f.period).Add(-1, f.comT.At(t)).Add(1, f.comT.At(u)).Add(-k, f.zt.pair(t, u)), f.comm[t]-k)
			}
		}
	}
}

// tightShifts adds (6.23)–(6.30). A shift by more than a period includes one by less, so v' ≤ v: the constants of
// the thesis imply this, these do not. Where a row is switched off:
//
//	(6.23) τ~ − τ − d ≤ L            (6.24) τ + d − τ~ ≤ T, with v' ≤ T + c
//	(6.27) τ~ + T − τ − d ≤ 2L       (6.28) τ + d − τ~ − T ≤ c
//	(6.25) τ⁺ − τ~ − s ≤ L           (6.26) τ~ + s − τ⁺ ≤ T, with v~' ≤ T + d⁺
//	(6.29) τ⁺ + T − τ~ − s ≤ 2L      (6.30) τ~ + s − τ⁺ − T ≤ d⁺
//
// where τ⁺ is the start of task t+1 and d⁺ its duration.
func (f *strongILP) tightShifts() {
	late, notLate := f.m.Group("late", "[004] (6.23)"), f.m.Group("not late", "[004] (6.24)")
	sentLate, notSentLate := f.m.Group("sent late", "[004] (6.25)"), f.m.Group("not sent late", "[004] (6.26)")
	later, notLater := f.m.Group("later", "[004] (6.27)"), f.m.Group("not later", "[004] (6.28)")
	sentLater, notSentLater := f.m.Group("sent later", "[004] (6.29)"), f.m.Group("not sent later", "[004] (6.30)")
	both := f.m.Group("later is late", "[004] (6.23)–(6.30)")
	long := f.longest
	for t := range 2*f.n - 1 {
		start, comm, next := f.tau.At(t), f.comT.At(t), f.tau.At(t+1)
		v, v2, vt, vt2 := f.v.At(t), f.v2.At(t), f.vt.At(t), f.vt2.At(t)
		d, c, after := f.d[t], f.comm[t], f.d[t+1]
		late.AtLeast(f.e.Reset().Add(1, start).Add(-1, comm).Add(-long, v), -d-long)
		notLate.AtLeast(f.e.Reset().Add(1, comm).Add(-1, start).Add(long, v).Add(c, v2), d)
		later.AtLeast(f.e.Reset().Add(1, start).Add(-1, comm).Add(-1, f.period).Add(-2*long, v2), -d-2*long)
		notLater.AtLeast(f.e.Reset().Add(1, comm).Add(1, f.period).Add(-1, start).Add(c, v2), d)
		sent := func(sign float64) *milp.Expr {
			f.e.Reset().Add(sign, comm).Add(-sign, next)
			f.sending(sign, t)
			return &f.e
		}
		sentLate.AtLeast(sent(1).Add(-long, vt), -long)
		notSentLate.AtLeast(sent(-1).Add(long, vt).Add(after, vt2), 0)
		sentLater.AtLeast(sent(1).Add(-1, f.period).Add(-2*long, vt2), -2*long)
		notSentLater.AtLeast(sent(-1).Add(1, f.period).Add(after, vt2), 0)
		both.AtLeast(f.e.Reset().Add(1, v).Add(-1, v2), 0)
		both.AtLeast(f.e.Reset().Add(1, vt).Add(-1, vt2), 0)
	}
}

// mostCopies returns the maximum number of mini-batches in flight at stage s when the period begins: all of them
// are stored while B_s runs, by (6.36).
func (f *strongILP) mostCopies(s int) float64 {
	most := 8 * float64(f.n)
	room := f.memory - f.weight[s] - f.run[2*f.n-1-s]
	return max(0, min(most, view.Count(room, f.stored[s])))
}
