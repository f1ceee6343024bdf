package remat

import (
	"context"
	"encoding/json"
	"fmt"

	"workbench/ilp/formulation"
	"workbench/model/instance/chain"
	"workbench/model/milp"
	"workbench/model/platform"
	model "workbench/model/problem/remat"
)

// Layers is the maximum length of a chain for MILP: its 2N² binaries are too many for more.
const Layers = 200

// Names of the formulations.
const (
	nameMILP  = "chain-milp"
	nameBound = "chain-milp-bound"
)

// chainMILP is our own MILP of rematerialization on chains that distinguishes a from ā.
//
// A stage is a sweep of forwards in ascending order, each layer at most once. One or more stages
// precede each backward, and the last of them ends with it: stages k = 0, 1, … have the backwards
// N, N−1, …, one each, or sweeps of them. What a stage finds stored is in the columns a and ā, the
// forwards it runs in all (F_all) and ck (F_ck or F_none). Of a value only whether the next stage
// finds it matters: if not, it is discarded right after the forward that reads it, and F_ck becomes
// F_none if possible. So the memory during each forward is known exactly: of the layers before its
// input what the next stage finds, of those after its output what this stage found.
//
// No large constants are needed: if a forward does not run, its memory row still holds for what is
// stored then.
//
// # Relation to the problem
//
// Every solution is a plan. Every plan in which forwards ascend from backward to backward is a
// solution with one sweep. Others can be better, if memory during forwards is so tight and
// gradients so uneven that a value must be computed early, but after later layers: the smallest
// example has three layers, see the tests. So chains of up to shortChain layers have chainSweeps,
// which sufficed on every chain tried, but is not proven to.
//
// Without memory of forwards (bound), one sweep suffices: the optimum is a lower bound on the
// makespan of any plan. The proof is in docs/formulations.
//
// Sizes and times are scaled by powers of two, so the rows are those of the problem in exact
// arithmetic; see memory.go for floating point.
type chainMILP struct {
	c      *chain.Chain
	p      platform.Platform
	v      *model.View
	sweeps int
	bound  bool
	time   float64 // of the objective, for a second: a power of two
	covers []Cover

	m *milp.Model
	e milp.Expr // scratch

	// By stage and kind: a@t of layers 0..t−1, ck@t of layers 1..t−1, abar@t and
	// all@t of layers 1..t.
	cols [][4][]milp.Var
	rows []memoryRow
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

// scaled is about the objective of a good plan and the largest number of a memory row, since
// tolerances of solvers are absolute.
const scaled = 1 << 10

// MILP builds our own MILP whose optimum is the minimum makespan of plans with at most three sweeps
// of forwards to each backward, for chains of up to six layers (none is known that needs more), and
// with one sweep for longer ones. So its optimum is that of a plan, and no bound. 2N² columns, 3N²
// rows of O(N) entries, times the sweeps. The error wraps formulation.ErrInstance or
// formulation.ErrTooLong, or is a *plan.Infeasible.
func MILP(c *chain.Chain, p platform.Platform, o Options) (*formulation.Program, error) {
	return build(c, p, false, o)
}

// Bound builds the same MILP without the memory of forwards. Its optimum is a
// lower bound on the makespan of any plan.
func Bound(c *chain.Chain, p platform.Platform, o Options) (*formulation.Program, error) {
	return build(c, p, true, o)
}

// Options are what a model has beyond its instance.
type Options struct {
	Covers []Cover `json:"covers,omitempty"`
}

// build builds either. Covers are checked.
func build(c *chain.Chain, p platform.Platform, bound bool, o Options) (*formulation.Program, error) {
	f, err := newChainMILP(c, p, bound)
	if err != nil {
		return nil, err
	}
	if err := f.build(context.Background(), o.Covers); err != nil {
		return nil, err
	}
	program := f.program()
	if f.bound { // its solutions are plans, but need not fit during forwards
		program.Start, program.Plan = nil, nil
	}
	return program, nil
}

// newChainMILP checks the instance.
func newChainMILP(c *chain.Chain, p platform.Platform, bound bool) (*chainMILP, error) {
	if c != nil && c.Len() > Layers {
		return nil, fmt.Errorf("%w: %d layers, %s takes %d at most", formulation.ErrTooLong, c.Len(), nameMILP, Layers)
	}
	v, err := model.New(c, p.Memory)
	if err != nil {
		return nil, formulation.Unfit(err)
	}
	sweeps := 1
	if v.N <= shortChain && !bound {
		sweeps = chainSweeps
	}
	total := 0.0
	for l := 1; l <= v.N; l++ {
		total += v.UF[l] + v.UB[l]
	}
	return &chainMILP{c: c, p: p, v: v, sweeps: sweeps, bound: bound, time: milp.PowerOfTwo(total, scaled)}, nil
}

// build builds the model with the given covers, or a part of it if ctx ends.
func (f *chainMILP) build(ctx context.Context, covers []Cover) error {
	f.m, f.cols, f.rows, f.covers = milp.New(f.name()), nil, nil, covers
	f.columns()
	f.objective()
	f.reads()
	f.oneCopy()
	f.keeps()
	f.backwards()
	if !f.bound {
		f.forwardMemory(ctx)
	}
	f.stays()
	f.useful()
	if f.bound {
		f.oneSweep()
	}
	return f.cover()
}

func (f *chainMILP) name() string {
	if f.bound {
		return nameBound
	}
	return nameMILP
}

// program returns the model with its data. The plans of MILP have few sweeps: enough in all tests
// up to shortChain layers, which is no proof, so it proves no bounds.
func (f *chainMILP) program() *formulation.Program {
	p := &formulation.Program{
		Model: f.m, Promise: formulation.Restriction, Formulation: f.name(), Unit: 1 / f.time,
		Start: f.start, Plan: f.plan,
	}
	if f.bound {
		p.Promise = formulation.LowerBound
	}
	if len(f.covers) > 0 {
		p.Options, _ = json.Marshal(Options{f.covers}) // numbers can be written
	}
	return p
}

func (f *chainMILP) stages() int { return f.v.N * f.sweeps }

// top returns the layer whose backward stage k ends with or leads up to.
func (f *chainMILP) top(k int) int { return f.v.N - k/f.sweeps }

// ends says whether stage k ends with its backward.
func (f *chainMILP) ends(k int) bool { return k%f.sweeps == f.sweeps-1 }

func (f *chainMILP) columns() {
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
	for i := range f.v.N {
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

// objective sets the makespan as objective. Its constant is the only rounded number.
func (f *chainMILP) objective() {
	f.e.Reset()
	f.e.AddConst(milp.Down.Sum(f.v.UB[1:]...) * f.time)
	for k := range f.cols {
		for l := 1; l <= f.v.N; l++ {
			f.runs(f.v.UF[l]*f.time, k, l)
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

// oneCopy adds that nothing is computed of a layer of which something is stored, and that a and ā
// are not both stored: what is read in a can be read in ā, and what is not read need not be stored.
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
	input := f.m.Group("input of B", "[004] Table 2.1")
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
		f.backwardMemory(k)
	}
}

// stays adds that an ā is kept until its backward, since otherwise an a would do and need no more
// memory: [004] Lemma 4, which does not require persistence. So F_all runs once for each layer.
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
