// Package pipeline has the formulations of pipelined model parallelism, [004] chapter 6.
package pipeline

import (
	"fmt"
	"math"

	"workbench/ilp/formulation"
	"workbench/model/chain"
	"workbench/model/milp"
	"workbench/model/plan"
	"workbench/model/platform"
)

// pipelineILP is the ILP of [004] chapter 6: an allocation of layers to
// processors and a 1-periodic pattern of least period T that fits by the task
// model of memory.
//
// Names are those of the thesis, except that tasks are counted from 0. Its
// columns are
//
//	T        the period
//	z        z[t,u]: tasks t < u are on the same processor
//	f        task t is the first one of its processor
//	tau      start of task t; ends lie in [0,T], so starts may be negative
//	w        w[t,u]: t before u on the same processor
//	comm     τ~, zt, wt: the same of the communication behind task t
//	o        o[t,u]: the output of u waits on its processor for u+1 while t runs
//	v, v2    v, v' of (6.23)–(6.30): how many periods lie between t and the
//	vt, vt2  communication behind it, and between that and t+1
//	sigma    sigma[t,s]: inputs of stage s that the processor of t stores when
//	         its period begins
//	b        b[t,u]: the processor of t has a buffer for the output of u
//
// Two corrections to the printed equations, both left out if printed is set:
// (6.1) is demanded in all three rotations, without which z is no equivalence
// relation, and the time of a communication is multiplied by 1 − z_{ℓ,ℓ+1},
// without which a value is sent that stays where it is. K is a little larger
// than printed, too: (6.24) needs the period and a communication.
//
// If allocation is set the stages know their processors and z is fixed.
//
// If strong is set the ILP is [Strong]: see pipeline_cuts.go.
type pipelineILP struct {
	*pipelineInstance
	printed bool
	strong  bool
	loose   bool    // of strong: K as it is
	longest float64 // upper limit of T
	k       float64 // K
	// hosts is how many tasks have z, f, sigma and b of their own: all, or of
	// strong the forwards, with which the backwards are.
	hosts int

	m *milp.Model
	e milp.Expr // scratch

	period    milp.Var
	f         milp.List
	tau, comT milp.List
	z, zt     pairs // t < u
	w, wt, o  milp.Grid
	v, v2     milp.List
	vt, vt2   milp.List
	sigma, b  milp.Grid
	mean      milp.Grid // of strong: see averageMemory
	nca       milp.Grid // of the stage model: nca[r,s], activations of stage s at most on the processor of stage r
}

// pairs are columns of unordered pairs.
type pairs struct {
	n    int
	vars []milp.Var
	// Of strong a pair of tasks or communications has the column of their stages
	// or cuts, or if that is the same one the column equal.
	fold  func(t int) int
	equal []milp.Var
}

func newPairs(m *milp.Model, name string, n int) pairs {
	keys := make([][2]int, 0, n*(n-1)/2)
	for t := range n {
		for u := t + 1; u < n; u++ {
			keys = append(keys, [2]int{t, u})
		}
	}
	p := pairs{n: n, vars: make([]milp.Var, 0, len(keys))}
	for _, v := range milp.Vars(m, name, keys, milp.Binary, 0, 1).All() {
		p.vars = append(p.vars, v)
	}
	return p
}

// at returns the column of the pair {t, u}, t ≠ u.
func (p pairs) at(t, u int) milp.Var {
	if p.fold != nil {
		t, u = p.fold(t), p.fold(u)
		if t == u {
			return p.equal[t]
		}
	}
	if t > u {
		t, u = u, t
	}
	return p.vars[t*(2*p.n-t-1)/2+u-t-1]
}

// Patterns builds the ILP of [004] chapter 6, corrected: its optimum is the
// least period of a 1-periodic pattern, over all allocations, that fits by the
// task model. 10 N³ rows. The error wraps ErrInstance or ErrTooLong, or is a
// *plan.Infeasible if some layer fits nowhere.
func Patterns(c *chain.Chain, p platform.Platform) (*formulation.Program, error) {
	f, err := newPipelineILP(c, p, plan.TaskModel, false)
	if err != nil {
		return nil, err
	}
	return f.program(), nil
}

// Printed builds the ILP of [004] chapter 6 as printed. Its optimum
// proves nothing, and its solutions need not be patterns.
func Printed(c *chain.Chain, p platform.Platform) (*formulation.Program, error) {
	f, err := newPipelineILP(c, p, plan.TaskModel, true)
	if err != nil {
		return nil, err
	}
	return &formulation.Program{Model: f.m}, nil
}

// StageILP builds the ILP of [004] 7.2: the least period of a 1-periodic
// pattern of an allocation, which need not be contiguous. The layers of a stage
// are computed without interruption; to let them be interrupted, give each
// layer as a stage. model is a memory model, task if empty.
func StageILP(c *chain.Chain, p platform.Platform, allocation []plan.Stage, model string) (*formulation.Program, error) {
	f, err := newStageILP(c, p, allocation, model, math.Inf(1))
	if err != nil {
		return nil, err
	}
	return f.program(), nil
}

// newWholePipeline reads the chain, of single layers.
func newWholePipeline(c *chain.Chain, p platform.Platform, model string) (*pipelineInstance, error) {
	if c == nil {
		return nil, fmt.Errorf("%w: there is no chain", formulation.ErrInstance)
	}
	in, err := newPipelineInstance(c, p, singleLayers(c), model)
	if err != nil {
		return nil, err
	}
	return in, in.fits()
}

func newPipelineILP(c *chain.Chain, p platform.Platform, model string, printed bool) (*pipelineILP, error) {
	in, err := newWholePipeline(c, p, model)
	if err != nil {
		return nil, err
	}
	name := "pipeline"
	if printed {
		name = "pipeline-printed"
	}
	f := &pipelineILP{pipelineInstance: in, printed: printed, longest: in.horizon}
	f.build(name)
	return f, nil
}

// newStageILP builds the ILP for periods of at most longest seconds.
func newStageILP(c *chain.Chain, p platform.Platform, allocation []plan.Stage, model string, longest float64) (*pipelineILP, error) {
	if c == nil {
		return nil, fmt.Errorf("%w: there is no chain", formulation.ErrInstance)
	}
	in, err := newPipelineInstance(c, p, allocation, model)
	if err != nil {
		return nil, err
	}
	for i, s := range allocation {
		if s.Processor < 0 {
			return nil, fmt.Errorf("%w: stage %d is on processor %d; there are processors 0 to %d", formulation.ErrInstance, i+1, s.Processor, p.Processors-1)
		}
	}
	f := &pipelineILP{pipelineInstance: in, longest: min(longest/in.time, in.horizon)}
	f.build("pipeline-stages")
	f.fixAllocation()
	return f, nil
}

func (f *pipelineILP) program() *formulation.Program {
	return &formulation.Program{Model: f.m, Start: f.start, Plan: f.plan}
}

// build builds the model, equation by equation.
func (f *pipelineILP) build(name string) {
	f.m = milp.New(name)
	f.k = f.late(f.longest)
	if f.printed {
		f.k = f.horizon
	}
	f.hosts = 2 * f.n
	if f.strong {
		f.hosts = f.n
	}
	f.columns()
	f.m.Minimize(f.e.Reset().Add(f.time, f.period))
	if f.strong {
		f.buildStrong()
		return
	}
	f.resources()
	f.order()
	f.links()
	f.linkOrder()
	f.periodLength()
	f.shifts()
	if !f.printed {
		f.turns()
	}
	f.stores()
}

// stores are the rows of memory.
func (f *pipelineILP) stores() {
	if f.model == plan.StageModel {
		f.stageMemory()
		return
	}
	f.waiting()
	f.storedInputs()
	f.buffers()
	f.memoryRows()
}

func (f *pipelineILP) columns() {
	tasks := 2 * f.n
	f.period = f.m.Var("T", milp.Continuous, 0, f.longest)
	f.tau = f.m.List("tau", tasks, milp.Continuous, -f.k, f.longest)
	f.comT = f.m.List("comm", tasks-1, milp.Continuous, -f.k, f.longest)
	f.f = f.m.List("f", f.hosts, milp.Binary, 0, 1)
	f.w = f.grid("w", tasks, tasks)
	if f.strong {
		f.foldPairs()
	} else {
		f.z, f.zt = newPairs(f.m, "z", tasks), newPairs(f.m, "zt", tasks-1)
	}
	f.wt = f.grid("wt", tasks-1, tasks-1)
	f.v = f.m.List("v", tasks-1, milp.Binary, 0, 1)
	f.v2 = f.m.List("v2", tasks-1, milp.Binary, 0, 1)
	f.vt = f.m.List("vt", tasks-1, milp.Binary, 0, 1)
	f.vt2 = f.m.List("vt2", tasks-1, milp.Binary, 0, 1)
	if f.model == plan.StageModel {
		f.nca = f.m.Grid("nca", f.n, f.n, milp.Integer, 0, 8*float64(f.n))
		f.b = f.m.Grid("b", f.n, tasks-1, milp.Binary, 0, 1)
		return
	}
	f.o = f.m.Grid("o", tasks, tasks-1, milp.Binary, 0, 1)
	f.sigma = f.m.Grid("sigma", f.hosts, f.n, milp.Integer, 0, 8*float64(f.n))
	f.b = f.m.Grid("b", f.hosts, tasks-1, milp.Binary, 0, 1)
}

// grid returns binaries of ordered pairs; those of equal indices are 0.
func (f *pipelineILP) grid(name string, n0, n1 int) milp.Grid {
	g := f.m.Grid(name, n0, n1, milp.Binary, 0, 1)
	for t := range min(n0, n1) {
		f.m.Fix(g.At(t, t), 0)
	}
	return g
}

// same adds c·z_{t,u} to f.e; z_{t,t} is 1.
func (f *pipelineILP) same(c float64, t, u int) {
	if t == u || f.strong && f.stage(t) == f.stage(u) {
		f.e.AddConst(c)
	} else {
		f.e.Add(c, f.z.at(t, u))
	}
}

// sending adds c·d~_t to f.e: nothing if t+1 is on the same processor.
func (f *pipelineILP) sending(c float64, t int) {
	f.e.AddConst(c * f.comm[t])
	if !f.printed {
		f.same(-c*f.comm[t], t, t+1)
	}
}

// resources are (6.1)–(6.4): at most P processors.
func (f *pipelineILP) resources() {
	g := f.m.Group("same resource", "[004] (6.1), findings 8")
	tasks := f.hosts
	for t := range tasks {
		for u := t + 1; u < tasks; u++ {
			for x := u + 1; x < tasks; x++ {
				tu, tx, ux := f.z.at(t, u), f.z.at(t, x), f.z.at(u, x)
				g.AtLeast(f.e.Reset().Add(1, ux).Add(-1, tu).Add(-1, tx), -1)
				if !f.printed {
					g.AtLeast(f.e.Reset().Add(1, tx).Add(-1, tu).Add(-1, ux), -1)
					g.AtLeast(f.e.Reset().Add(1, tu).Add(-1, tx).Add(-1, ux), -1)
				}
			}
		}
	}
	g = f.m.Group("first of its resource", "[004] (6.2)")
	for t := range tasks {
		f.e.Reset().Add(1, f.f.At(t))
		for u := range t {
			f.e.Add(1, f.z.at(u, t))
		}
		g.AtLeast(&f.e, 1)
	}
	f.e.Reset()
	for t := range tasks {
		f.e.Add(1, f.f.At(t))
	}
	f.m.Group("resources", "[004] (6.3)").AtMost(&f.e, float64(f.platform.Processors))
	if f.strong {
		return // one column for both
	}
	g = f.m.Group("F and B together", "[004] (6.4)")
	for s := range f.n {
		g.Equal(f.e.Reset().Add(1, f.z.at(s, tasks-1-s)), 1)
	}
}

// order are (6.5)–(6.7): tasks of a processor do not overlap.
func (f *pipelineILP) order() {
	before := f.m.Group("before", "[004] (6.5)")
	after := f.m.Group("after", "[004] (6.6)")
	here := f.m.Group("order on one resource", "[004] (6.7)")
	for t := range f.d {
		for u := range f.d {
			if t == u {
				continue
			}
			w, z := f.w.At(t, u), f.z.at(t, u)
			before.AtLeast(f.e.Reset().Add(1, f.tau.At(t)).Add(-1, f.tau.At(u)).Add(-f.k, z).Add(f.k, w), f.d[u]-f.k)
			after.AtLeast(f.e.Reset().Add(1, f.tau.At(u)).Add(-1, f.tau.At(t)).Add(-f.k, z).Add(-f.k, w), f.d[t]-2*f.k)
			here.AtMost(f.e.Reset().Add(1, w).Add(-1, z), 0)
		}
	}
	if !f.printed {
		f.instants()
	}
}

// instants forbids what (6.5) and (6.6) allow to tasks that take no time: that
// neither of two is before the other, and that each of three at one instant is
// before the next, around.
func (f *pipelineILP) instants() {
	g := f.m.Group("order at an instant", "ours")
	for t := range f.d {
		for u := range t {
			g.Equal(f.e.Reset().Add(1, f.w.At(t, u)).Add(1, f.w.At(u, t)).Add(-1, f.z.at(t, u)), 0)
		}
		for u := range f.d {
			for x := range f.d {
				if t != u && u != x && x != t && t < u && t < x && f.d[t]+f.d[u]+f.d[x] == 0 {
					g.AtMost(f.e.Reset().Add(1, f.w.At(t, u)).Add(1, f.w.At(u, x)).Add(1, f.w.At(x, t)), 2)
				}
			}
		}
	}
}

// links are (6.8)–(6.13): which communications share a link.
func (f *pipelineILP) links() {
	along := f.m.Group("same link", "[004] (6.8)")
	against := f.m.Group("same link, against", "[004] (6.9)")
	sent := f.m.Group("sent", "[004] (6.10)")
	other := f.m.Group("other sent", "[004] (6.11)")
	from := f.m.Group("one end", "[004] (6.12)")
	to := f.m.Group("other end", "[004] (6.13)")
	coms := 2*f.n - 1
	if f.strong {
		coms = f.n - 1 // cuts
	}
	for t := range coms {
		for u := range coms {
			if t == u {
				continue
			}
			zt := f.zt.at(t, u)
			f.e.Reset().Add(1, zt).Add(1, f.z.at(t, t+1))
			f.same(-1, t, u)
			f.same(-1, t+1, u+1)
			along.AtLeast(&f.e, -1)
			f.e.Reset().Add(1, zt).Add(1, f.z.at(t, t+1))
			f.same(-1, t, u+1)
			f.same(-1, t+1, u)
			against.AtLeast(&f.e, -1)
			sent.AtMost(f.e.Reset().Add(1, zt).Add(1, f.z.at(t, t+1)), 1)
			other.AtMost(f.e.Reset().Add(1, zt).Add(1, f.z.at(u, u+1)), 1)
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

// linkOrder are (6.14)–(6.16): communications on a link do not overlap. Where
// they share one both take their whole time.
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
			w, z := f.wt.At(t, u), f.zt.at(t, u)
			before.AtLeast(f.e.Reset().Add(1, f.comT.At(t)).Add(-1, f.comT.At(u)).Add(-f.k, z).Add(f.k, w), f.comm[u]-f.k)
			after.AtLeast(f.e.Reset().Add(1, f.comT.At(u)).Add(-1, f.comT.At(t)).Add(-f.k, z).Add(-f.k, w), f.comm[t]-2*f.k)
			here.AtMost(f.e.Reset().Add(1, w).Add(-1, z), 0)
		}
	}
}

// periodLength are (6.17)–(6.21).
func (f *pipelineILP) periodLength() {
	f.ends()
	f.spans()
}

// ends are (6.17)–(6.19).
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
		g.AtMost(f.e.Add(-1, f.period), 0)
	}
	f.m.Group("origin", "[004] (6.19)").Equal(f.e.Reset().Add(1, f.tau.At(0)), 0)
}

// spans are (6.20) and (6.21).
func (f *pipelineILP) spans() {
	g := f.m.Group("one period", "[004] (6.20)")
	for t := range f.d {
		for u := range f.d {
			if t != u {
				g.AtLeast(f.e.Reset().Add(1, f.period).Add(-1, f.tau.At(t)).Add(1, f.tau.At(u)).Add(-f.k, f.z.at(t, u)), f.d[t]-f.k)
			}
		}
	}
	g = f.m.Group("one period of a link", "[004] (6.21)")
	for t := range 2*f.n - 1 {
		for u := range 2*f.n - 1 {
			if t != u {
				g.AtLeast(f.e.Reset().Add(1, f.period).Add(-1, f.comT.At(t)).Add(1, f.comT.At(u)).Add(-f.k, f.zt.at(t, u)), f.comm[t]-f.k)
			}
		}
	}
}

// shifts are (6.23)–(6.30): v is 1 if the communication starts before the task
// behind which it is has ended, v' if it does so by more than a period.
func (f *pipelineILP) shifts() {
	var g [8]milp.Group
	for i := range g {
		name := [8]string{"late", "not late", "sent late", "not sent late", "later", "not later", "sent later", "not sent later"}[i]
		g[i] = f.m.Group(name, fmt.Sprintf("[004] (6.%d)", 23+i))
	}
	for t := range 2*f.n - 1 {
		d := f.d[t]
		start, comm, next := f.tau.At(t), f.comT.At(t), f.tau.At(t+1)
		// end of t − start of its communication, and end of that − start of t+1
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

// turns makes a mini-batch that passes t before u do so a period later where u
// comes first: (6.23)–(6.30) leave it open for tasks at one instant.
func (f *pipelineILP) turns() {
	g := f.m.Group("later than before", "ours")
	for t := range f.d {
		for u := t + 1; u < len(f.d); u++ {
			f.e.Reset().Add(-1, f.w.At(u, t))
			for m := t; m < u; m++ {
				f.e.Add(1, f.v.At(m)).Add(1, f.v2.At(m)).Add(1, f.vt.At(m)).Add(1, f.vt2.At(m))
			}
			g.AtLeast(&f.e, 0)
		}
	}
}

// inFlight adds c·Σ (v + v' + v~ + v~') of tasks m = s..2n−2−s to f.e: how many
// mini-batches have passed F_s but not B_s when a period begins (Lemma 17).
func (f *pipelineILP) inFlight(c float64, s int) {
	for m := s; m <= 2*f.n-2-s; m++ {
		f.e.Add(c, f.v.At(m)).Add(c, f.v2.At(m)).Add(c, f.vt.At(m)).Add(c, f.vt2.At(m))
	}
}

// waiting are (6.22): the output of u waits on the processor of t for u+1.
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

// storedInputs are (6.31) and (6.32).
func (f *pipelineILP) storedInputs() {
	here := f.m.Group("inputs stored here", "[004] (6.31)")
	count := f.m.Group("inputs stored", "[004] (6.32)")
	for t := range f.hosts {
		for s := range f.n {
			most := 8 * float64(f.n)
			if f.strong {
				most = f.mostCopies(s)
			}
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

// buffers are (6.34) and (6.35).
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

// memoryRows are (6.36) with (6.33): what is stored while each task runs.
func (f *pipelineILP) memoryRows() {
	g := f.m.Group("memory", "[004] (6.33), (6.36)").Label(f.name)
	for t := range f.d {
		f.e.Reset()
		host := t
		if f.strong {
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
		g.AtMost(&f.e, f.memory-f.run[t])
	}
}

// stageMemory is the stage model of 7.1.1 in place of (6.22)–(6.36): of each
// stage of the processor all that it ever stores at once, which is what is in
// flight when its period begins, and one more if F_s comes before B_s in it.
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
	g = f.m.Group("memory", "[004] 7.1.1").Label(f.name)
	for r := range f.n {
		f.e.Reset()
		for s := range f.n {
			f.same(f.weight[s], r, s)
			f.e.Add(f.stored[s], f.nca.At(r, s))
		}
		for u := range 2*f.n - 1 {
			f.e.Add(f.out[u], f.b.At(r, u))
		}
		g.AtMost(&f.e, f.memory)
	}
}

// fixAllocation fixes z and f by the processors of the stages.
func (f *pipelineILP) fixAllocation() {
	seen := map[int]bool{}
	for t := range f.hosts {
		p := f.stages[f.stage(t)].Processor
		first := 0.0
		if !seen[p] {
			seen[p], first = true, 1
		}
		f.m.Fix(f.f.At(t), first)
		for u := range t {
			together := 0.0
			if f.stages[f.stage(u)].Processor == p {
				together = 1
			}
			f.m.Fix(f.z.at(u, t), together)
		}
	}
	f.m.SetBounds(f.period, f.leastPeriod(), f.longest)
}

// leastPeriod is the largest load of a processor or a link of the allocation,
// less what a solver may have rounded.
func (f *pipelineILP) leastPeriod() float64 {
	type link struct{ a, b int }
	compute, send := make([]float64, f.platform.Processors), map[link]float64{}
	least := 0.0
	for t, d := range f.d {
		p := f.stages[f.stage(t)].Processor
		compute[p] += d
		least = max(least, compute[p])
		if t+1 < len(f.d) {
			if q := f.stages[f.stage(t+1)].Processor; q != p {
				l := link{min(p, q), max(p, q)}
				send[l] += f.comm[t]
				least = max(least, send[l])
			}
		}
	}
	return least * (1 - 1e-9)
}
