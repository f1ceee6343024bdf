// Package testcase has what formulations and methods are checked on: for each problem
// random tiny instances, some with small whole numbers, some hard for arithmetic,
// and the truth about them by exhaustive search.
package testcase

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"workbench/model/instance/chain"
	"workbench/model/instance/functions"
	"workbench/model/instance/graph"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/testcase/random"
)

// A Trial is an instance with a platform.
type Trial struct {
	In       plan.Instance
	Platform platform.Platform
	Pace     float64 // seconds: durations are small multiples of it
}

// Chain, Graph and Functions return the instance, nil if it is another.
func (t *Trial) Chain() *chain.Chain            { return plan.As[*chain.Chain](t.In) }
func (t *Trial) Graph() *graph.Graph            { return plan.As[*graph.Graph](t.In) }
func (t *Trial) Functions() *functions.Sequence { return plan.As[*functions.Sequence](t.In) }

// A Subject is one kind of instance of a problem.
type Subject struct {
	Kind string // of instance
	// Staged says that Search looks at the schedules of Checkmate alone:
	// formulation.Formulation.Staged.
	Staged bool
	Units  string // what instances are counted in: "layers"
	// Most is how many of these exhaustive search takes, Usual how many it answers in
	// a moment.
	Usual, Most int
	// Random returns an instance of small whole numbers, of so many units at most.
	Random func(r *rand.Rand, units int) (*Trial, error)
	// Draw returns one that is hard for arithmetic; nil: there are none. Searched is
	// how many states exhaustive search visits of it at most.
	Draw     func(r *rand.Rand) *Trial
	Searched int
	// Search returns the least objective and a plan that has it, nil where the plan
	// is of another pace. The error wraps exhaustive.ErrInfeasible where there is no
	// plan, exhaustive.ErrLimit beyond so many states.
	Search func(t *Trial, states int) (float64, *plan.Plan, error)
	// Covers reports whether Search looks at plans like p, which may be nil; nil:
	// always.
	Covers func(t *Trial, p *plan.Plan) bool
	// Smaller returns trials that are a little smaller than one.
	Smaller func(*Trial) []*Trial
	// Text prints a trial, a layer or node a line, and its best plan, nil: none.
	Text func(t *Trial, best *plan.Plan) string
}

// States is how many states exhaustive search visits of a random instance at most.
const States = 1 << 20

// drawn is how many states exhaustive search visits of what is drawn: about a second.
const drawn = 300_000

func pace(r *rand.Rand) float64 { return random.Paces[r.IntN(len(random.Paces))] }

// nearBreakpoint returns a memory at, below or a few units above a breakpoint.
func nearBreakpoint(r *rand.Rand, memory float64) float64 {
	return max(0, memory+[...]float64{0, 0, -1, 1, 2, 7}[r.IntN(6)])
}

// randomMemory returns a memory between the least one for which there is a
// plan and one for which everything can be kept, more often a tight one. One in
// ten is too little.
func randomMemory(r *rand.Rand, least, all float64) platform.Platform {
	memory := least - 1
	if r.IntN(10) > 0 {
		n := int(max(0, all-least)) + 1
		memory = least + float64(min(r.IntN(n), r.IntN(n), r.IntN(n)))
	}
	return platform.Platform{Memory: max(1, memory)}
}

// bestPlan is a line with a plan, if there is one.
func bestPlan(p *plan.Plan) string {
	if p == nil {
		return ""
	}
	return fmt.Sprintf("best plan:%s\n", operations(p))
}

// operations writes a plan in a line: " F_all1 D(abar_1) B1", of graphs
// " F1 D(F1) B1".
func operations(p *plan.Plan) string {
	var b strings.Builder
	for i := range p.Ops {
		switch o := &p.Ops[i]; {
		case o.Op == plan.OpC:
			b.WriteString(" " + o.Node)
		case o.Op == plan.OpD && o.Node != "":
			fmt.Fprintf(&b, " D(%s)", o.Node)
		case o.Op == plan.OpD:
			fmt.Fprintf(&b, " D(%s_%d)", o.Tensor, o.Layer)
		default:
			fmt.Fprintf(&b, " %s%d", o.Op, o.Layer)
		}
	}
	return b.String()
}

// shrinker collects smaller copies of an instance.
type shrinker struct {
	x   *Trial
	all []*Trial
}

// change adds an edited copy.
func (s *shrinker) change(edit func(*Trial)) {
	y := &Trial{Platform: s.x.Platform, Pace: s.x.Pace}
	switch in := s.x.In.(type) {
	case *chain.Chain:
		c := *in
		c.Layers = slices.Clone(c.Layers)
		y.In = &c
	case *graph.Graph:
		g := *in
		g.Nodes, g.Edges = slices.Clone(g.Nodes), slices.Clone(g.Edges)
		y.In = &g
	case *functions.Sequence:
		y.In = cloneFunctions(in)
	}
	edit(y)
	s.all = append(s.all, y)
}

// dropLayers adds the chains without one layer.
func (s *shrinker) dropLayers() {
	for i := range s.x.Chain().Layers {
		s.change(func(y *Trial) { y.Chain().Layers = slices.Delete(y.Chain().Layers, i, i+1) })
	}
}

// number adds the copies with a number zero or one less.
func (s *shrinker) number(at func(*Trial) *float64) {
	if v := *at(s.x); v > 0 {
		s.change(func(y *Trial) { *at(y) = 0 })
		s.change(func(y *Trial) { *at(y) = max(0, v-1) })
	}
}

// size adds the copies with a size zero or one less, alone and with the memory
// less by as much.
func (s *shrinker) size(at func(*Trial) *float64) {
	s.number(at)
	if v := *at(s.x); v > 0 {
		for _, less := range []float64{v, 1} {
			s.change(func(y *Trial) {
				*at(y) = max(0, v-less)
				y.Platform.Memory -= min(v, less)
			})
		}
	}
}
