// Package testcase generates the instances on which formulations and methods are checked: for each problem random
// tiny instances, some with small integers, some numerically hard, with their optima by exhaustive search.
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

// Trial is an instance with a platform.
type Trial struct {
	In       plan.Instance
	Platform platform.Platform
	Pace     float64 // seconds: durations are small multiples of it
}

// Chain, Graph and Functions return the instance, nil if it is of another kind.
func (t *Trial) Chain() *chain.Chain            { return plan.As[*chain.Chain](t.In) }
func (t *Trial) Graph() *graph.Graph            { return plan.As[*graph.Graph](t.In) }
func (t *Trial) Functions() *functions.Sequence { return plan.As[*functions.Sequence](t.In) }

// Subject is one kind of instance of a problem.
type Subject struct {
	Kind string // of instance
	// Staged reports that Search covers only the schedules of Checkmate: formulation.Formulation.Staged.
	Staged bool
	Units  string // the size of instances: "layers"
	// Most is the maximum size for exhaustive search, Usual a size that it solves quickly.
	Usual, Most int
	// Random returns an instance of small integers, of at most the given size.
	Random func(r *rand.Rand, units int) (*Trial, error)
	// Draw returns a numerically hard instance; nil: there are none. Searched limits the states that exhaustive
	// search visits for it.
	Draw     func(r *rand.Rand) *Trial
	Searched int
	// Search returns the minimum objective and an optimal plan, nil where the plan is of another pace. The error
	// wraps exhaustive.ErrInfeasible if no plan exists, exhaustive.ErrLimit beyond the given number of states.
	Search func(t *Trial, states int) (float64, *plan.Plan, error)
	// Covers reports whether Search covers plans like p, which may be nil; nil: always.
	Covers func(t *Trial, p *plan.Plan) bool
	// Smaller returns trials that are slightly smaller than one.
	Smaller func(*Trial) []*Trial
	// Text returns a trial as text, one layer or node a line, and its best plan, nil: none.
	Text func(t *Trial, best *plan.Plan) string
}

// States limits the states that exhaustive search visits for a random instance.
const States = 1 << 20

// drawn limits the states that exhaustive search visits for a drawn instance: about a second.
const drawn = 300_000

func pace(r *rand.Rand) float64 { return random.Paces[r.IntN(len(random.Paces))] }

// nearBreakpoint returns a memory at, below or a few units above a breakpoint.
func nearBreakpoint(r *rand.Rand, memory float64) float64 {
	return max(0, memory+[...]float64{0, 0, -1, 1, 2, 7}[r.IntN(6)])
}

// randomMemory returns a memory between the minimum for which a plan exists and one for which everything can be
// kept, more often a tight one. One in ten is too small.
func randomMemory(r *rand.Rand, least, all float64) platform.Platform {
	memory := least - 1
	if r.IntN(10) > 0 {
		n := int(max(0, all-least)) + 1
		memory = least + float64(min(r.IntN(n), r.IntN(n), r.IntN(n)))
	}
	return platform.Platform{Memory: max(1, memory)}
}

// bestPlan returns a line with a plan, if there is one.
func bestPlan(p *plan.Plan) string {
	if p == nil {
		return ""
	}
	return fmt.Sprintf("best plan:%s\n", operations(p))
}

// operations returns a plan as a line: " F_all1 D(abar_1) B1", of graphs " F1 D(F1) B1".
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

// number adds the copies with a number set to zero or one less.
func (s *shrinker) number(at func(*Trial) *float64) {
	if v := *at(s.x); v > 0 {
		s.change(func(y *Trial) { *at(y) = 0 })
		s.change(func(y *Trial) { *at(y) = max(0, v-1) })
	}
}

// size adds the copies with a size set to zero or one less, alone and with the memory reduced by as much.
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
