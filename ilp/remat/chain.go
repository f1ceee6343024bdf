// Package remat has the formulations of rematerialization on chains.
package remat

import (
	"fmt"
	"math"

	"workbench/ilp/formulation"
	"workbench/model/chain"
	"workbench/model/milp"
	"workbench/model/plan"
	"workbench/model/platform"
)

// ChainLayers is the length of the longest chain that MILP takes: its 2N²
// binaries are too many for more.
const ChainLayers = 200

// chainMILP is a MILP of rematerialization on chains that knows a from ā, of our
// own.
//
// A stage is a sweep of forwards in ascending order, each layer at most once.
// One stage or more lead up to each backward; the last of them ends with it:
// stages k = 0, 1, … have the backwards N, N−1, …, one, or sweeps of them, each.
// What a stage finds stored is in the columns a and ā, which forwards it runs in
// all (F_all) and ck (F_ck or F_none). Of a value it is asked only whether the
// next stage finds it, too: if not, it is discarded right after the forward that
// reads it, and F_ck becomes F_none where that can be. So the memory during each
// forward is known exactly: of the layers before its input what the next stage
// finds, of those after its output what this stage found.
//
// No large constants are needed: where a forward does not run, its memory row
// holds all the same, for what is stored then.
//
// # What it promises
//
// Every solution is a plan. Every plan in which forwards ascend from backward to
// backward is a solution with one sweep. Others can be better, if memory during
// forwards is so tight and gradients so uneven that a value must be computed
// early, but after later layers: the smallest example has three layers, see the
// tests. So chains of up to shortChain layers have chainSweeps, which was enough
// on every chain tried, but is not proven to be.
//
// Without memory of forwards (bound), one sweep is enough: the optimum is a
// lower bound on the makespan of any plan. The proof is in docs/formulations.
type chainMILP struct {
	c      *chain.Chain
	p      platform.Platform
	n      int
	sweeps int
	bound  bool
	spare  bool    // minimise the memory that is missing instead of the time
	unit   float64 // of the objective, in seconds

	uF, uB                 []float64 // seconds
	a, abar, delta, oF, oB []float64 // thousandths of the memory
	memory                 float64   // 1000

	m *milp.Model
	e milp.Expr // scratch

	// By stage and kind: a@t of layers 0..t−1, ck@t of layers 1..t−1, abar@t and
	// all@t of layers 1..t.
	cols [][4][]milp.Var
	more milp.Var // if spare: what is added to the memory
}

// Kinds of columns of a stage.
const (
	foundA = iota
	foundAbar
	runAll
	runCk
)

// Chains of up to shortChain layers have chainSweeps sweeps to each backward,
// longer ones have one.
const (
	shortChain  = 6
	chainSweeps = 3
)

// MILP builds the MILP whose optimum is the least makespan of plans with at
// most three sweeps of forwards to each backward, for chains of up to six layers
// (none is known that needs more), and with one sweep for longer ones. 2N²
// columns, 3N² rows of O(N) entries, times the sweeps. The error wraps
// ErrInstance or ErrTooLong.
func MILP(c *chain.Chain, p platform.Platform) (*formulation.Program, error) {
	f, err := newChainMILP(c, p, false)
	if err != nil {
		return nil, err
	}
	return f.program(), nil
}

// Bound builds the same MILP without the memory of forwards. Its optimum
// is a lower bound on the makespan of any plan.
func Bound(c *chain.Chain, p platform.Platform) (*formulation.Program, error) {
	f, err := newChainMILP(c, p, true)
	if err != nil {
		return nil, err
	}
	return &formulation.Program{Model: f.m}, nil
}

func newChainMILP(c *chain.Chain, p platform.Platform, bound bool) (*chainMILP, error) {
	switch {
	case c == nil:
		return nil, fmt.Errorf("%w: there is no chain", formulation.ErrInstance)
	case !(p.Memory > 0) || math.IsInf(p.Memory, 0):
		return nil, fmt.Errorf("%w: memory is %v bytes, it must be positive and finite", formulation.ErrInstance, p.Memory)
	case c.Len() > ChainLayers:
		return nil, fmt.Errorf("%w: %d layers, chain-milp takes %d at most", formulation.ErrTooLong, c.Len(), ChainLayers)
	}
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("%w: %w", formulation.ErrInstance, err)
	}
	sweeps := 1
	if c.Len() <= shortChain && !bound {
		sweeps = chainSweeps
	}
	f := &chainMILP{c: c, p: p, unit: 1}
	f.build(sweeps, bound)
	return f, nil
}

// inThousandths rebuilds the model with the objective in thousandths of Σu, for
// solvers: they treat costs below 1e-7 as nothing, and forwards take 1e-5 s.
func (f *chainMILP) inThousandths() *chainMILP {
	if total := f.c.TotalTime(); total > 0 {
		f.unit = total / 1000
	}
	f.build(f.sweeps, f.bound)
	return f
}

// build builds the model. Sizes are in thousandths of the memory: solvers leave
// some 1e-6 undone, plans are verified to 1e-9 of the memory.
func (f *chainMILP) build(sweeps int, bound bool) {
	name := "chain-milp"
	if bound {
		name = "chain-milp-bound"
	}
	f.n, f.sweeps, f.bound, f.memory, f.m = f.c.Len(), sweeps, bound, 1000, milp.New(name)
	f.read()
	f.columns()
	f.objective()
	f.reads()
	f.oneCopy()
	f.keeps()
	f.backwards()
	if !bound {
		f.forwardMemory()
	}
	f.stays()
	f.useful()
	if !f.spare {
		f.room()
	}
	if bound {
		f.oneSweep()
	}
}

func (f *chainMILP) program() *formulation.Program {
	return &formulation.Program{Model: f.m, Start: f.start, Plan: f.plan}
}

// read copies the chain.
func (f *chainMILP) read() {
	for _, x := range []*[]float64{&f.uF, &f.uB, &f.a, &f.abar, &f.delta, &f.oF, &f.oB} {
		*x = make([]float64, f.n+1)
	}
	scale := f.memory / f.p.Memory
	f.a[0], f.abar[0], f.delta[0] = f.c.Input.Activation*scale, f.c.Input.Activation*scale, f.c.Input.Gradient*scale
	for i := range f.c.Layers {
		l := &f.c.Layers[i]
		f.uF[i+1], f.uB[i+1] = l.ForwardTime, l.BackwardTime
		f.a[i+1], f.abar[i+1], f.delta[i+1] = l.Activation*scale, l.Saved*scale, l.Gradient*scale
		f.oF[i+1], f.oB[i+1] = l.ForwardOverhead*scale, l.BackwardOverhead*scale
	}
}

func (f *chainMILP) stages() int { return f.n * f.sweeps }

// top is the layer whose backward stage k ends with or leads up to.
func (f *chainMILP) top(k int) int { return f.n - k/f.sweeps }

// ends says whether stage k ends with its backward.
func (f *chainMILP) ends(k int) bool { return k%f.sweeps == f.sweeps-1 }

func (f *chainMILP) columns() {
	if f.spare {
		f.more = f.m.Var("more", milp.Continuous, 0, math.Inf(1))
	}
	f.cols = make([][4][]milp.Var, f.stages())
	for k := range f.cols {
		t := f.top(k)
		at := fmt.Sprintf("%d", t)
		if f.sweeps > 1 {
			at = fmt.Sprintf("%d.%d", t, k%f.sweeps+1)
		}
		for kind, layers := range [4][2]int{{0, t - 1}, {1, t}, {1, t}, {1, t - 1}} {
			keys := make([]int, 0, t)
			for i := layers[0]; i <= layers[1]; i++ {
				keys = append(keys, i)
			}
			name := [4]string{"a", "abar", "all", "ck"}[kind]
			for _, v := range milp.Vars(f.m, name+"@"+at, keys, milp.Binary, 0, 1).All() {
				f.cols[k][kind] = append(f.cols[k][kind], v)
			}
		}
	}
	for i := range f.n {
		v, _ := f.column(foundA, 0, i)
		f.m.Fix(v, 0)
		v, _ = f.column(foundAbar, 0, i+1)
		f.m.Fix(v, 0)
	}
	v, _ := f.column(foundA, 0, 0)
	f.m.Fix(v, 1)
}

// column returns the column of layer i at stage k, false if there is none.
func (f *chainMILP) column(kind, k, i int) (v milp.Var, ok bool) {
	if k >= len(f.cols) {
		return v, false
	}
	if kind != foundA {
		i--
	}
	if i < 0 || i >= len(f.cols[k][kind]) {
		return v, false
	}
	return f.cols[k][kind][i], true
}

// add adds a column to the scratch expression, if it exists.
func (f *chainMILP) add(coefficient float64, kind, k, i int) {
	if v, ok := f.column(kind, k, i); ok && coefficient != 0 {
		f.e.Add(coefficient, v)
	}
}

// runs adds whether stage k runs F_l.
func (f *chainMILP) runs(coefficient float64, k, l int) {
	f.add(coefficient, runAll, k, l)
	f.add(coefficient, runCk, k, l)
}

// has adds whether layer i is there for who reads it in stage k, times the size
// if it is a and if it is ā.
func (f *chainMILP) has(a, abar float64, k, i int) {
	f.add(a, foundA, k, i)
	f.add(a, runCk, k, i)
	f.add(abar, foundAbar, k, i)
	f.add(abar, runAll, k, i)
}

// found adds the size of what stage k finds of layer i.
func (f *chainMILP) found(k, i int) {
	f.add(f.a[i], foundA, k, i)
	f.add(f.abar[i], foundAbar, k, i)
}

// objective is the makespan in units; if spare, the memory that is missing.
func (f *chainMILP) objective() {
	f.e.Reset()
	if f.spare {
		f.m.Minimize(f.e.Add(1, f.more))
		return
	}
	for l := 1; l <= f.n; l++ {
		f.e.AddConst(f.uB[l] / f.unit)
		for k := range f.cols {
			f.runs(f.uF[l]/f.unit, k, l)
		}
	}
	f.m.Minimize(&f.e)
}

// reads says that a forward needs its input.
func (f *chainMILP) reads() {
	g := f.m.Group("input of F", "[004] Table 2.1")
	for k := range f.cols {
		for l := 1; l <= f.top(k); l++ {
			f.e.Reset()
			f.runs(1, k, l)
			f.has(-1, -1, k, l-1)
			g.AtMost(&f.e, 0)
		}
	}
}

// oneCopy says that nothing is computed of a layer of which something is
// stored, and that a and ā are not both stored: what is read there can be read
// in ā, and what is not read need not be stored.
func (f *chainMILP) oneCopy() {
	g := f.m.Group("one copy", "normal form")
	for k := range f.cols {
		for i := range f.top(k) + 1 {
			f.e.Reset()
			f.has(1, 1, k, i)
			g.AtMost(&f.e, 1)
		}
	}
}

// keeps says that what a stage finds, the one before found or computed.
func (f *chainMILP) keeps() {
	g := f.m.Group("kept", "the rules")
	for k := range f.cols {
		for i := range f.top(k) + 1 {
			if _, ok := f.column(foundA, k+1, i); ok {
				f.e.Reset()
				f.add(1, foundA, k+1, i)
				f.has(-1, 0, k, i)
				g.AtMost(&f.e, 0)
			}
			if _, ok := f.column(foundAbar, k+1, i); ok {
				f.e.Reset()
				f.add(1, foundAbar, k+1, i)
				f.has(0, -1, k, i)
				g.AtMost(&f.e, 0)
			}
		}
	}
}

// backwards says that B_t finds ā_t and a_{t-1} or ā_{t-1}, and its memory.
func (f *chainMILP) backwards() {
	input, memory := f.m.Group("input of B", "[004] Table 2.1"), f.m.Group("memory of B", "the rules")
	for k := range f.cols {
		if !f.ends(k) {
			continue
		}
		t := f.top(k)
		f.e.Reset()
		f.has(0, 1, k, t)
		input.Equal(&f.e, 1)
		f.e.Reset()
		f.has(1, 1, k, t-1)
		input.Equal(&f.e, 1)

		f.e.Reset()
		f.has(f.a[t-1], f.abar[t-1], k, t-1)
		for i := range t - 1 {
			f.found(k+1, i)
		}
		f.limit(memory, f.beside(t))
	}
}

// limit adds that what is stored and so much else fit.
func (f *chainMILP) limit(g milp.Group, beside float64) {
	if f.spare {
		f.e.Add(-1, f.more)
	}
	g.AtMost(&f.e, f.memory-beside)
}

// beside is what B_t needs beside its input and what is kept.
func (f *chainMILP) beside(t int) float64 {
	return f.abar[t] + f.delta[t] + f.delta[t-1] + f.oB[t]
}

// forwardMemory is the memory during F_l, or when it would run.
func (f *chainMILP) forwardMemory() {
	g := f.m.Group("memory of F", "the rules")
	for k := range f.cols {
		t := f.top(k)
		for l := 1; l <= t; l++ {
			f.e.Reset()
			for i := range l - 1 {
				f.found(k+1, i)
			}
			f.has(f.a[l-1], f.abar[l-1], k, l-1)
			for i := l; i <= t; i++ {
				f.found(k, i)
			}
			f.add(f.a[l]+f.oF[l], runCk, k, l)
			f.add(f.abar[l]+f.oF[l], runAll, k, l)
			f.limit(g, f.delta[t])
		}
	}
}

// stays adds that an ā stays until its backward, where an a would do as well
// and take no more memory: [004] Lemma 4, which needs no persistence. So F_all
// runs once for each layer.
func (f *chainMILP) stays() {
	g := f.m.Group("abar stays", "[004] Lemma 4")
	for k := range f.cols {
		for i := 1; i <= f.top(k); i++ {
			if _, ok := f.column(foundAbar, k+1, i); ok {
				f.e.Reset()
				f.has(0, 1, k, i)
				f.add(-1, foundAbar, k+1, i)
				g.AtMost(&f.e, 0)
			}
		}
	}
}

// useful adds that what is stored is read, by the next forward, or later.
func (f *chainMILP) useful() {
	g := f.m.Group("a is read", "normal form")
	for k := range f.cols {
		t := f.top(k)
		for i := range t {
			if f.ends(k) && i == t-1 {
				continue // by B_t
			}
			f.e.Reset()
			f.has(1, 0, k, i)
			f.runs(-1, k, i+1)
			f.add(-1, foundA, k+1, i)
			g.AtMost(&f.e, 0)
		}
	}
}

// room adds that what does not fit beside B_t and its smaller input is not kept
// there.
func (f *chainMILP) room() {
	g := f.m.Group("too large", "tightens memory of B")
	for k := range f.cols {
		if !f.ends(k) {
			continue
		}
		t := f.top(k)
		room := f.memory - f.beside(t) - f.a[t-1]
		for i := range t - 1 {
			for _, x := range [...]struct {
				kind int
				size float64
			}{{foundA, f.a[i]}, {foundAbar, f.abar[i]}} {
				if v, ok := f.column(x.kind, k+1, i); ok && x.size > room+1e-9*f.memory {
					f.e.Reset().Add(1, v)
					g.AtMost(&f.e, 0)
				}
			}
		}
	}
}

// oneSweep adds that all forwards of a phase lead up to ā_t, or to a_{t-1} if
// ā_t is stored. It holds of best plans if the memory of forwards is no limit.
func (f *chainMILP) oneSweep() {
	g := f.m.Group("one sweep", "canonical plans")
	for k := range f.cols {
		for l := 1; l < f.top(k)-1; l++ {
			f.e.Reset()
			f.runs(1, k, l)
			f.runs(-1, k, l+1)
			g.AtMost(&f.e, 0)
		}
	}
}

// plan makes a plan of a solution, with times and memory computed anew.
func (f *chainMILP) plan(x []float64) (*plan.Plan, error) {
	is := func(kind, k, i int) bool {
		v, ok := f.column(kind, k, i)
		return ok && x[v.Index()] > 0.5
	}
	w := newChainWriter(f.c)
	for k := range f.cols {
		t := f.top(k)
		for l := 1; l <= t; l++ {
			// Whether layer l−1 stays when the stage is over, and for B_t.
			stays := is(foundA, k+1, l-1) || is(foundAbar, k+1, l-1) || f.ends(k) && l == t
			switch {
			case is(runAll, k, l):
				w.all(l)
			case is(runCk, k, l) && !stays && w.a[l-1]:
				w.none(l)
			case is(runCk, k, l):
				w.checkpoint(l)
			}
			if !stays {
				w.discard(l - 1)
			}
		}
		if f.ends(k) {
			w.backward(t)
			if !is(foundAbar, k+1, t-1) {
				w.discard(t - 1)
			}
		} else if !is(foundAbar, k+1, t) {
			w.discard(t)
		}
	}
	p := plan.New(plan.Remat, f.m.Name(), f.c, f.p)
	p.Ops, p.Claims = w.ops, plan.Claims{Makespan: w.time, PeakMemory: w.peak}
	return p, w.err
}
