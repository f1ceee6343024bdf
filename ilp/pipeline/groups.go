package pipeline

import (
	"fmt"

	"workbench/model/milp"
)

// equivalence adds (6.1) in all three rotations: findings 15.
func (f *pipelineILP) equivalence() {
	g := f.m.Group("same resource", "[004] (6.1), findings 15")
	for t := range f.hosts {
		for u := t + 1; u < f.hosts; u++ {
			for x := u + 1; x < f.hosts; x++ {
				tu, tx, ux := f.z.pair(t, u), f.z.pair(t, x), f.z.pair(u, x)
				g.AtLeast(f.e.Reset().Add(1, ux).Add(-1, tu).Add(-1, tx), -1)
				g.AtLeast(f.e.Reset().Add(1, tx).Add(-1, tu).Add(-1, ux), -1)
				g.AtLeast(f.e.Reset().Add(1, tu).Add(-1, tx).Add(-1, ux), -1)
			}
		}
	}
}

// processors adds (6.2) and (6.3): at most P tasks are the first of their processor.
func (f *pipelineILP) processors() {
	g := f.m.Group("first of its resource", "[004] (6.2)")
	for t := range f.hosts {
		f.e.Reset().Add(1, f.f.At(t))
		for u := range t {
			f.e.Add(1, f.z.pair(u, t))
		}
		g.AtLeast(&f.e, 1)
	}
	f.e.Reset()
	for t := range f.hosts {
		f.e.Add(1, f.f.At(t))
	}
	f.m.Group("resources", "[004] (6.3)").AtMost(&f.e, float64(f.platform.Processors))
}

// colocated adds (6.4): F and B of a stage are on one processor.
func (f *pipelineILP) colocated() {
	g := f.m.Group("F and B together", "[004] (6.4)")
	for s := range f.n {
		g.Equal(f.e.Reset().Add(1, f.z.pair(s, 2*f.n-1-s)), 1)
	}
}

// order adds (6.5)–(6.7): tasks of a processor do not overlap.
func (f *pipelineILP) order() {
	before := f.m.Group("before", "[004] (6.5)")
	after := f.m.Group("after", "[004] (6.6)")
	here := f.m.Group("order on one resource", "[004] (6.7)")
	for t := range f.d {
		for u := range f.d {
			if t == u {
				continue
			}
			w, z := f.w.At(t, u), f.z.pair(t, u)
			before.AtLeast(f.e.Reset().Add(1, f.tau.At(t)).Add(-1, f.tau.At(u)).Add(-f.k, z).Add(f.k, w), f.d[u]-f.k)
			after.AtLeast(f.e.Reset().Add(1, f.tau.At(u)).Add(-1, f.tau.At(t)).Add(-f.k, z).Add(-f.k, w), f.d[t]-2*f.k)
			here.AtMost(f.e.Reset().Add(1, w).Add(-1, z), 0)
		}
	}
}

// links adds (6.8)–(6.13): which communications share a link.
func (f *pipelineILP) links() {
	along := f.m.Group("same link", "[004] (6.8)")
	against := f.m.Group("same link, against", "[004] (6.9)")
	sent := f.m.Group("sent", "[004] (6.10)")
	other := f.m.Group("other sent", "[004] (6.11)")
	from := f.m.Group("one end", "[004] (6.12)")
	to := f.m.Group("other end", "[004] (6.13)")
	coms := 2*f.n - 1
	if f.folded() {
		coms = f.n - 1 // cuts
	}
	for t := range coms {
		for u := range coms {
			if t == u {
				continue
			}
			zt := f.zt.pair(t, u)
			f.e.Reset().Add(1, zt).Add(1, f.z.pair(t, t+1))
			f.same(-1, t, u)
			f.same(-1, t+1, u+1)
			along.AtLeast(&f.e, -1)
			f.e.Reset().Add(1, zt).Add(1, f.z.pair(t, t+1))
			f.same(-1, t, u+1)
			f.same(-1, t+1, u)
			against.AtLeast(&f.e, -1)
			sent.AtMost(f.e.Reset().Add(1, zt).Add(1, f.z.pair(t, t+1)), 1)
			other.AtMost(f.e.Reset().Add(1, zt).Add(1, f.z.pair(u, u+1)), 1)
			f.e.Reset().Add(1, zt)
			f.same(-1, t, u)
			f.same(-1, t+1, u)
			from.AtMost(&f.e, 0)
			f.e.Reset().Add(1, zt)
			f.same(-1, t, u+1)
			f.same(-1, t+1, u+1)
			to.AtMost(&f.e, 0)
		}
	}
}

// linkOrder adds (6.14)–(6.16): communications on a link do not overlap. Two that share a link both take their
// full duration.
func (f *pipelineILP) linkOrder() {
	before := f.m.Group("sent before", "[004] (6.14)")
	after := f.m.Group("sent after", "[004] (6.15)")
	here := f.m.Group("order on one link", "[004] (6.16)")
	coms := 2*f.n - 1
	for t := range coms {
		for u := range coms {
			if t == u {
				continue
			}
			w, z := f.wt.At(t, u), f.zt.pair(t, u)
			before.AtLeast(f.e.Reset().Add(1, f.comT.At(t)).Add(-1, f.comT.At(u)).Add(-f.k, z).Add(f.k, w), f.comm[u]-f.k)
			after.AtLeast(f.e.Reset().Add(1, f.comT.At(u)).Add(-1, f.comT.At(t)).Add(-f.k, z).Add(-f.k, w), f.comm[t]-2*f.k)
			here.AtMost(f.e.Reset().Add(1, w).Add(-1, z), 0)
		}
	}
}

// ends adds (6.17)–(6.19).
func (f *pipelineILP) ends() {
	g := f.m.Group("ends in the period", "[004] (6.17)")
	for t, d := range f.d {
		f.m.SetBounds(f.tau.At(t), -d, f.longest)
		g.AtMost(f.e.Reset().Add(1, f.tau.At(t)).Add(-1, f.period), -d)
	}
	g = f.m.Group("sent in the period", "[004] (6.18)")
	for t := range f.comm[:len(f.d)-1] {
		f.e.Reset().Add(1, f.comT.At(t))
		f.sending(1, t)
		g.AtLeast(&f.e, 0)
		g.AtMost(f.e.Keep().Add(-1, f.period), 0)
	}
	f.m.Group("origin", "[004] (6.19)").Equal(f.e.Reset().Add(1, f.tau.At(0)), 0)
}

// spans adds (6.20) and (6.21).
func (f *pipelineILP) spans() {
	g := f.m.Group("one period", "[004] (6.20)")
	for t := range f.d {
		for u := range f.d {
			if t != u {
				g.AtLeast(f.e.Reset().Add(1, f.period).Add(-1, f.tau.At(t)).Add(1, f.tau.At(u)).Add(-f.k, f.z.pair(t, u)), f.d[t]-f.k)
			}
		}
	}
	g = f.m.Group("one period of a link", "[004] (6.21)")
	for t := range 2*f.n - 1 {
		for u := range 2*f.n - 1 {
			if t != u {
				g.AtLeast(f.e.Reset().Add(1, f.period).Add(-1, f.comT.At(t)).Add(1, f.comT.At(u)).Add(-f.k, f.zt.pair(t, u)), f.comm[t]-f.k)
			}
		}
	}
}

// shifts adds (6.23)–(6.30): v is 1 if the communication starts before its task has ended, v' if it does so by
// more than a period.
func (f *pipelineILP) shifts() {
	var g [8]milp.Group
	for i := range g {
		name := [8]string{"late", "not late", "sent late", "not sent late", "later", "not later", "sent later", "not sent later"}[i]
		g[i] = f.m.Group(name, fmt.Sprintf("[004] (6.%d)", 23+i))
	}
	for t := range 2*f.n - 1 {
		d := f.d[t]
		start, comm, next := f.tau.At(t), f.comT.At(t), f.tau.At(t+1)
		// The difference of the end of t and the start of its communication, and of the end of the communication
		// and the start of t+1.
		g[0].AtLeast(f.e.Reset().Add(1, start).Add(-1, comm).Add(-f.k, f.v.At(t)), -d-f.k)
		g[1].AtLeast(f.e.Reset().Add(1, comm).Add(-1, start).Add(f.k, f.v.At(t)), d)
		g[4].AtLeast(f.e.Reset().Add(1, start).Add(-1, comm).Add(-1, f.period).Add(-2*f.k, f.v2.At(t)), -d-2*f.k)
		g[5].AtLeast(f.e.Reset().Add(1, comm).Add(1, f.period).Add(-1, start).Add(2*f.k, f.v2.At(t)), d)
		sent := func(sign float64) *milp.Expr {
			f.e.Reset().Add(sign, comm).Add(-sign, next)
			f.sending(sign, t)
			return &f.e
		}
		g[2].AtLeast(sent(1).Add(-f.k, f.vt.At(t)), -f.k)
		g[3].AtLeast(sent(-1).Add(f.k, f.vt.At(t)), 0)
		g[6].AtLeast(sent(1).Add(-1, f.period).Add(-2*f.k, f.vt2.At(t)), -2*f.k)
		g[7].AtLeast(sent(-1).Add(1, f.period).Add(2*f.k, f.vt2.At(t)), 0)
	}
}

// inFlight adds c·Σ (v + v' + v~ + v~') of tasks m = s..2n−2−s to f.e: the number of mini-batches that have passed
// F_s but not B_s when a period begins (Lemma 17).
func (f *pipelineILP) inFlight(c float64, s int) {
	for m := s; m <= 2*f.n-2-s; m++ {
		f.e.Add(c, f.v.At(m)).Add(c, f.v2.At(m)).Add(c, f.vt.At(m)).Add(c, f.vt2.At(m))
	}
}

// allCopies returns the constant of (6.31) and (6.32) as printed: at most four periods lie between two consecutive
// tasks.
func (f *pipelineILP) allCopies(int) float64 { return 8 * float64(f.n) }

// waiting adds (6.22): the output of u waits on the processor of t for u+1.
func (f *pipelineILP) waiting() {
	g := f.m.Group("waits", "[004] (6.22)")
	for t := range f.d {
		for u := range 2*f.n - 1 {
			if t == u || t == u+1 {
				f.m.Fix(f.o.At(t, u), 0) // the output or the input of t
				continue
			}
			g.AtLeast(f.e.Reset().Add(1, f.o.At(t, u)).Add(-1, f.w.At(u, t)).Add(-1, f.w.At(t, u+1)).Add(-1, f.w.At(u+1, u)), -1)
		}
	}
}

// storedInputs adds (6.31) and (6.32). The constant of each stage is the maximum number of its inputs that can be
// stored.
func (f *pipelineILP) storedInputs(mostCopies func(stage int) float64) {
	here := f.m.Group("inputs stored here", "[004] (6.31)")
	count := f.m.Group("inputs stored", "[004] (6.32)")
	for t := range f.hosts {
		for s := range f.n {
			most := mostCopies(s)
			f.e.Reset().Add(1, f.sigma.At(t, s))
			f.same(-most, t, s)
			here.AtMost(&f.e, 0)
			f.e.Reset().Add(1, f.sigma.At(t, s))
			f.inFlight(-1, s)
			f.same(-most, t, s)
			count.AtLeast(&f.e, -most)
		}
	}
}

// buffers adds (6.34) and (6.35).
func (f *pipelineILP) buffers() {
	out := f.m.Group("buffer of what is sent", "[004] (6.34)")
	in := f.m.Group("buffer of what is received", "[004] (6.35)")
	n0, coms := f.b.Dims()
	for t := range n0 {
		for u := range coms {
			b := f.b.At(t, u)
			f.e.Reset().Add(1, b)
			f.same(-1, t, u)
			f.same(1, t, u+1)
			out.AtLeast(&f.e, 0)
			f.e.Reset().Add(1, b)
			f.same(-1, t, u+1)
			f.same(1, t, u)
			in.AtLeast(&f.e, 0)
		}
	}
}

// memoryRows adds (6.36) with (6.33): the memory in use while each task runs.
func (f *pipelineILP) memoryRows() {
	g := f.m.Group("memory", "[004] (6.33), (6.36)").Label(f.memoryRow)
	for t := range f.d {
		f.e.Reset()
		host := t
		if f.folded() {
			host = f.stage(t)
		}
		for s := range f.n {
			f.same(f.weight[s], t, s)
			a := f.stored[s]
			f.e.Add(a, f.sigma.At(host, s))
			if s != t {
				f.e.Add(a, f.w.At(s, t))
			}
			if r := 2*f.n - 1 - s; r != t {
				f.e.Add(-a, f.w.At(r, t))
			}
		}
		for u := range 2*f.n - 1 {
			f.e.Add(f.out[u], f.o.At(t, u)).Add(f.out[u], f.b.At(host, u))
		}
		f.carries = append(f.carries, f.withinMemory(f.m, g, &f.e, f.memory-f.run[t]))
	}
}

// stageMemory adds the rows of the stage model of 7.1.1, which replace (6.22)–(6.36). For each stage of a
// processor they count the maximum that it stores at any time. This is the number of mini-batches in flight when
// its period begins, plus one if F_s precedes B_s.
func (f *pipelineILP) stageMemory() {
	most := 8*float64(f.n) + 1
	g := f.m.Group("activations", "[004] 4.3, (6.32)")
	for r := range f.n {
		for s := range f.n {
			f.e.Reset().Add(1, f.nca.At(r, s)).Add(-1, f.w.At(s, 2*f.n-1-s))
			f.inFlight(-1, s)
			f.same(-most, r, s)
			g.AtLeast(&f.e, -most)
		}
	}
	f.buffers()
	g = f.m.Group("memory", "[004] 7.1.1").Label(f.memoryRow)
	for r := range f.n {
		f.e.Reset()
		for s := range f.n {
			f.same(f.weight[s], r, s)
			f.e.Add(f.stored[s], f.nca.At(r, s))
		}
		for u := range 2*f.n - 1 {
			f.e.Add(f.out[u], f.b.At(r, u))
		}
		f.carries = append(f.carries, f.withinMemory(f.m, g, &f.e, f.memory))
	}
}
