package pipeline

import (
	"workbench/ilp/formulation"
	"workbench/model/milp"
	"workbench/model/plan"
)

// pipelineILP is the ILP of [004] chapter 6: an allocation of layers to processors and a 1-periodic pattern of
// minimum period T that fits in memory under the task model.
//
// Names are those of the thesis, except that tasks are counted from 0. Its columns are
//
//	T        the period
//	z        z[t,u]: tasks t < u are on the same processor
//	f        task t is the first one of its processor
//	tau      start of task t; ends lie in [0,T], so starts may be negative
//	w        w[t,u]: t precedes u on the same processor
//	comm     τ~, zt, wt: the same of the communication that follows task t
//	o        o[t,u]: the output of u waits on its processor for u+1 while t runs
//	v, v2    v, v' of (6.23)–(6.30): the number of periods between t and the
//	vt, vt2  communication that follows it, and between that and t+1
//	sigma    sigma[t,s]: inputs of stage s that the processor of t stores when
//	         its period begins
//	b        b[t,u]: the processor of t has a buffer for the output of u
//
// The functions that build the models (Printed, Patterns, StageILP and Strong) say which rows each has.
type pipelineILP struct {
	*pipelineInstance
	longest float64 // upper limit of T
	k       float64 // K
	// hosts is the number of tasks with columns z, f, sigma and b of their own: all tasks, or only the forwards,
	// whose columns the backwards share.
	hosts int
	// alwaysSent: a communication takes its full duration even where both tasks are on one processor.
	alwaysSent bool

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
	carries   [][]carry
	nca       milp.Grid // of the stage model: nca[r,s] bounds the activations of stage s on the processor of stage r
}

// pairs holds columns of unordered pairs.
type pairs struct {
	n    int
	vars []milp.Var
	// If fold is not nil, a pair of tasks or communications uses the column of their stages or cuts. The column
	// equal[s] stands for a pair within one of them.
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

// pair returns the column of the pair {t, u}, t ≠ u.
func (p pairs) pair(t, u int) milp.Var {
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

// newColumns returns a model with the columns of a pattern that minimises the period. longest is the maximum
// period, in units, and k the constant K. hosts is 2n, or n where F_s and B_s share their columns.
func newColumns(name string, in *pipelineInstance, longest, k float64, hosts int) *pipelineILP {
	f := &pipelineILP{pipelineInstance: in, m: milp.New(name), longest: longest, k: k, hosts: hosts}
	f.columns()
	f.m.Minimize(f.e.Reset().Add(1, f.period))
	return f
}

// folded reports whether F_s and B_s share their columns.
func (f *pipelineILP) folded() bool { return f.hosts == f.n }

// program returns the model with its conversions from and to plans. T is in units of time. name is the name in the
// table of formulations, "" if the table does not contain it.
func (f *pipelineILP) program(name string) *formulation.Program {
	p := &formulation.Program{
		Model: f.m, Promise: formulation.Equal, Assumptions: []string{plan.OnePeriodic}, Formulation: name,
		Unit: f.time, Start: patternIO{f}.start, Plan: patternIO{f}.plan,
	}
	if name != "" {
		p.Options = memoryOptions(f.model)
	}
	return p
}

func (f *pipelineILP) columns() {
	tasks := 2 * f.n
	f.period = f.m.Var("T", milp.Continuous, 0, f.longest)
	f.tau = f.m.List("tau", tasks, milp.Continuous, -f.k, f.longest)
	f.comT = f.m.List("comm", tasks-1, milp.Continuous, -f.k, f.longest)
	f.f = f.m.List("f", f.hosts, milp.Binary, 0, 1)
	f.w = f.grid("w", tasks, tasks)
	if f.folded() {
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

// grid returns binaries of ordered pairs; those of equal indices are fixed to 0.
func (f *pipelineILP) grid(name string, n0, n1 int) milp.Grid {
	g := f.m.Grid(name, n0, n1, milp.Binary, 0, 1)
	for t := range min(n0, n1) {
		f.m.Fix(g.At(t, t), 0)
	}
	return g
}

// same adds c·z_{t,u} to f.e; z_{t,t} is 1.
func (f *pipelineILP) same(c float64, t, u int) {
	if t == u || f.folded() && f.stage(t) == f.stage(u) {
		f.e.AddConst(c)
	} else {
		f.e.Add(c, f.z.pair(t, u))
	}
}

// sending adds c·d~_t to f.e. The term is 0 if t+1 is on the same processor, unless alwaysSent is set, as printed.
func (f *pipelineILP) sending(c float64, t int) {
	f.e.AddConst(c * f.comm[t])
	if !f.alwaysSent {
		f.same(-c*f.comm[t], t, t+1)
	}
}
