package check

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"workbench/ilp/formulation"
	"workbench/model/chain"
	"workbench/model/cycle"
	"workbench/model/exhaustive"
	"workbench/model/functions"
	"workbench/model/graph"
	"workbench/model/plan"
	"workbench/model/platform"
)

// Counterexample is an instance on which a formulation fails.
type Counterexample struct {
	Problem string
	Chain   *chain.Chain // or
	Graph   *graph.Graph // or
	// Functions; the other two are nil.
	Functions *functions.Sequence
	Platform  platform.Platform
	Optimum   float64    // by exhaustive search, seconds; +Inf: there is no plan
	Plan      *plan.Plan // that has the optimum; nil: there is none
	Detail    string
}

// String prints the instance, one layer or node a line, and what is wrong.
func (x *Counterexample) String() string {
	var b strings.Builder
	switch {
	case x.Graph != nil:
		x.printGraph(&b)
	case x.Functions != nil:
		x.printSwap(&b)
	case x.Problem == plan.Remat:
		x.printRemat(&b)
	case x.Problem == plan.Pipeline:
		x.printPattern(&b)
	case x.Problem == plan.ActivationOffload, x.Problem == plan.RematOffload:
		x.printOffload(&b)
	default:
		x.printWeights(&b)
	}
	if (x.Problem == plan.Remat || x.Problem == plan.RematOffload) && x.Plan != nil {
		fmt.Fprintf(&b, "best plan:%s\n", operations(x.Plan))
	}
	if math.IsInf(x.Optimum, 1) {
		fmt.Fprintf(&b, "no plan; %s", x.Detail)
	} else {
		fmt.Fprintf(&b, "optimum %g; %s", x.Optimum, x.Detail)
	}
	return b.String()
}

func (x *Counterexample) printWeights(b *strings.Builder) {
	fmt.Fprintf(b, "memory %g, bandwidth %g, |a_0| = %g\n", x.Platform.Memory, x.Platform.Bandwidth, x.Chain.Input.Activation)
	for i := range x.Chain.Layers {
		l := &x.Chain.Layers[i]
		fmt.Fprintf(b, "layer %d: u_F = %g, u_B = %g, |a| = %g, |w| = %g\n", i+1, l.ForwardTime, l.BackwardTime, l.Activation, l.Weight)
	}
}

func (x *Counterexample) printRemat(b *strings.Builder) {
	fmt.Fprintf(b, "memory %g, |a_0| = %g, |δ_0| = %g\n", x.Platform.Memory, x.Chain.Input.Activation, x.Chain.Input.Gradient)
	for i := range x.Chain.Layers {
		l := &x.Chain.Layers[i]
		fmt.Fprintf(b, "layer %d: u_F = %g, u_B = %g, |a| = %g, |ā| = %g, |δ| = %g, o_F = %g, o_B = %g\n",
			i+1, l.ForwardTime, l.BackwardTime, l.Activation, l.Saved, l.Gradient, l.ForwardOverhead, l.BackwardOverhead)
	}
}

func (x *Counterexample) printGraph(b *strings.Builder) {
	fmt.Fprintf(b, "memory %g, input %g\n", x.Platform.Memory, x.Graph.Input)
	pred, _ := x.Graph.Adjacency()
	for v := range x.Graph.Nodes {
		n := &x.Graph.Nodes[v]
		fmt.Fprintf(b, "node %s (%s): time %g, memory %g, overhead %g", n.ID, n.Kind, n.Time, n.Memory, n.Overhead)
		for i, u := range pred[v] {
			if i == 0 {
				b.WriteString(", reads")
			}
			b.WriteString(" " + x.Graph.Nodes[u].ID)
		}
		b.WriteByte('\n')
	}
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

// A subject is what a check needs to know of the instances of a problem.
type subject struct {
	unit string // what CheckOptions.Layers counts
	most int    // of these
	// random returns an instance of so many units.
	random func(r *rand.Rand, units int) (*Counterexample, error)
	// solve sets Optimum and Plan by exhaustive search.
	solve func(*Counterexample) error
	// smaller returns the instances that are a little smaller than one.
	smaller func(*Counterexample) []*Counterexample
}

// subjectOf returns the subject of a formulation, false if there is none.
func subjectOf(f formulation.Formulation) (*subject, bool) {
	switch {
	case f.Problem == plan.WeightOffload && f.Build != nil:
		return &subject{"layers", exhaustive.MaxLayers, randomWeights, solveWeights, smallerWeights}, true
	case f.Problem == plan.Remat && f.Build != nil:
		return &subject{"layers", 6, randomRemat, solveRemat, smallerRemat}, true
	case f.Problem == plan.Remat && f.BuildGraph != nil && f.Staged:
		return &subject{"forward nodes", 4, randomGraph, solveStages, smallerGraph}, true
	case f.Problem == plan.Remat && f.BuildGraph != nil:
		return &subject{"forward nodes", 5, randomGraph, solveGraph, smallerGraph}, true
	case f.Problem == plan.ActivationOffload && f.Build != nil:
		return &subject{"layers", 5, randomOffload, solveOffload, smallerOffload}, true
	case f.Problem == plan.RematOffload && f.Build != nil:
		return &subject{"layers", 4, RandomRematOffload, SolveRematOffload, smallerOffload}, true
	case f.Problem == plan.Swap && f.BuildFunctions != nil:
		return &subject{"functions", 6, randomSwap, solveSwap, smallerSwap}, true
	case f.Problem == plan.Pipeline && f.Build != nil:
		return &subject{"layers", 4, randomPattern, solvePattern, smallerPattern}, true
	}
	return nil, false
}

// largest is the largest number in random instances of weight offloading.
const largest = 3

func randomWeights(r *rand.Rand, layers int) (*Counterexample, error) {
	return RandomInstance(r, layers), nil
}

// RandomInstance returns an instance of small integers for which plans of
// weight offloading exist, of bandwidth 1. Computations take some time in total.
func RandomInstance(r *rand.Rand, layers int) *Counterexample {
	c := &chain.Chain{Name: "random", Input: chain.Input{Activation: float64(r.IntN(2))}}
	for range layers {
		c.Layers = append(c.Layers, chain.Layer{
			ForwardTime: float64(r.IntN(largest + 1)), BackwardTime: float64(r.IntN(largest + 1)),
			Activation: float64(r.IntN(largest)), Weight: float64(r.IntN(largest + 1)),
		})
	}
	c.Layers[r.IntN(layers)].BackwardTime++
	low, high := cycle.Of(c).Range()
	p := platform.Platform{Memory: max(1, low+float64(r.IntN(int(high-low)+1))), Bandwidth: 1}
	return &Counterexample{Problem: plan.WeightOffload, Chain: c, Platform: p}
}

func solveWeights(x *Counterexample) (err error) {
	x.Optimum, x.Plan, err = exhaustive.WeightOffload(x.Chain, x.Platform, States)
	return err
}

func smallerWeights(x *Counterexample) []*Counterexample {
	s := &shrinker{x: x}
	s.dropLayers()
	for i := range x.Chain.Layers {
		s.number(func(y *Counterexample) *float64 { return &y.Chain.Layers[i].Weight })
		s.number(func(y *Counterexample) *float64 { return &y.Chain.Layers[i].Activation })
		s.number(func(y *Counterexample) *float64 { return &y.Chain.Layers[i].ForwardTime })
		s.number(func(y *Counterexample) *float64 { return &y.Chain.Layers[i].BackwardTime })
	}
	s.number(func(y *Counterexample) *float64 { return &y.Chain.Input.Activation })
	s.number(func(y *Counterexample) *float64 { return &y.Platform.Memory })
	return slices.DeleteFunc(s.all, func(y *Counterexample) bool {
		low, _ := cycle.Of(y.Chain).Range()
		return y.Chain.Len() == 0 || y.Chain.TotalTime() == 0 || y.Platform.Memory < max(1, low)
	})
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

// randomRemat returns a chain of small integers with a memory.
func randomRemat(r *rand.Rand, layers int) (*Counterexample, error) {
	c := exhaustive.RandomChain(r, layers)
	least, err := exhaustive.RematLeastMemory(c, States)
	if err != nil {
		return nil, err
	}
	stored := c.Input.Activation + c.Layers[layers-1].Gradient
	most := 0.0 // beside what is stored
	for i := range c.Layers {
		l := &c.Layers[i]
		stored += l.Saved
		most = max(most, l.Gradient+l.BackwardOverhead, l.ForwardOverhead)
	}
	p := randomMemory(r, least, stored+max(most, c.Input.Gradient))
	return &Counterexample{Problem: plan.Remat, Chain: c, Platform: p}, nil
}

func solveRemat(x *Counterexample) (err error) {
	x.Optimum, x.Plan, err = exhaustive.Remat(x.Chain, x.Platform.Memory, States)
	return orNoPlan(x, err)
}

// orNoPlan makes of the proof that there is no plan an instance without one.
func orNoPlan(x *Counterexample, err error) error {
	if errors.Is(err, exhaustive.ErrInfeasible) {
		x.Optimum, x.Plan = math.Inf(1), nil
		return nil
	}
	return err
}

func smallerRemat(x *Counterexample) []*Counterexample {
	s := &shrinker{x: x}
	s.dropLayers()
	for i := range x.Chain.Layers {
		s.change(func(y *Counterexample) {
			y.Platform.Memory -= y.Chain.Layers[i].Saved
			y.Chain.Layers = slices.Delete(y.Chain.Layers, i, i+1)
		})
		s.size(func(y *Counterexample) *float64 { return &y.Chain.Layers[i].ForwardOverhead })
		s.size(func(y *Counterexample) *float64 { return &y.Chain.Layers[i].BackwardOverhead })
		s.size(func(y *Counterexample) *float64 { return &y.Chain.Layers[i].Saved })
		s.size(func(y *Counterexample) *float64 { return &y.Chain.Layers[i].Gradient })
		s.size(func(y *Counterexample) *float64 { return &y.Chain.Layers[i].Activation })
		s.number(func(y *Counterexample) *float64 { return &y.Chain.Layers[i].ForwardTime })
		s.number(func(y *Counterexample) *float64 { return &y.Chain.Layers[i].BackwardTime })
	}
	s.size(func(y *Counterexample) *float64 { return &y.Chain.Input.Gradient })
	s.size(func(y *Counterexample) *float64 { return &y.Chain.Input.Activation })
	s.number(func(y *Counterexample) *float64 { return &y.Platform.Memory })
	return slices.DeleteFunc(s.all, func(y *Counterexample) bool {
		return y.Chain.Validate() != nil || y.Platform.Memory <= 0
	})
}

// randomGraph returns a training step of small integers with a memory.
func randomGraph(r *rand.Rand, forward int) (*Counterexample, error) {
	g := exhaustive.RandomGraph(r, forward)
	least, err := exhaustive.GraphLeastMemory(g, States)
	if err != nil {
		return nil, err
	}
	stored, most := g.Input, 0.0
	for i := range g.Nodes {
		stored += g.Nodes[i].Memory
		most = max(most, g.Nodes[i].Overhead)
	}
	return &Counterexample{Problem: plan.Remat, Graph: g, Platform: randomMemory(r, least, stored+most)}, nil
}

func solveGraph(x *Counterexample) (err error) {
	x.Optimum, x.Plan, err = exhaustive.Graph(x.Graph, x.Platform.Memory, States)
	return orNoPlan(x, err)
}

// solveStages searches the schedules of Checkmate alone.
func solveStages(x *Counterexample) (err error) {
	x.Optimum, x.Plan, err = exhaustive.Stages(x.Graph, x.Platform.Memory, States)
	return orNoPlan(x, err)
}

// smallerGraph drops forward nodes together with their backward nodes, if they
// are called F… and B…, then single edges, and lessens numbers. The loss stays.
func smallerGraph(x *Counterexample) []*Counterexample {
	s := &shrinker{x: x}
	for v := range x.Graph.Nodes {
		if id, ok := strings.CutPrefix(x.Graph.Nodes[v].ID, "F"); ok {
			s.change(func(y *Counterexample) {
				y.Graph = without(y.Graph, func(n *graph.Node) bool { return n.ID == "F"+id || n.ID == "B"+id })
			})
		}
	}
	for k := range x.Graph.Edges {
		s.change(func(y *Counterexample) { y.Graph.Edges = slices.Delete(y.Graph.Edges, k, k+1) })
	}
	for v := range x.Graph.Nodes {
		s.size(func(y *Counterexample) *float64 { return &y.Graph.Nodes[v].Overhead })
		s.size(func(y *Counterexample) *float64 { return &y.Graph.Nodes[v].Memory })
		s.number(func(y *Counterexample) *float64 { return &y.Graph.Nodes[v].Time })
	}
	s.size(func(y *Counterexample) *float64 { return &y.Graph.Input })
	s.number(func(y *Counterexample) *float64 { return &y.Platform.Memory })
	return slices.DeleteFunc(s.all, func(y *Counterexample) bool {
		return y.Graph.Len() == 1 || y.Platform.Memory <= 0
	})
}

// without returns g without some nodes and their edges.
func without(g *graph.Graph, drop func(*graph.Node) bool) *graph.Graph {
	out := *g
	out.Nodes, out.Edges = nil, nil
	place := make([]int, g.Len())
	for v := range g.Nodes {
		place[v] = -1
		if !drop(&g.Nodes[v]) {
			place[v] = len(out.Nodes)
			out.Nodes = append(out.Nodes, g.Nodes[v])
		}
	}
	for _, e := range g.Edges {
		if from, to := place[e.From], place[e.To]; from >= 0 && to >= 0 {
			out.Edges = append(out.Edges, graph.Edge{From: from, To: to})
		}
	}
	return &out
}

// shrinker collects smaller copies of an instance.
type shrinker struct {
	x   *Counterexample
	all []*Counterexample
}

// change adds an edited copy.
func (s *shrinker) change(edit func(*Counterexample)) {
	y := &Counterexample{Problem: s.x.Problem, Platform: s.x.Platform}
	if s.x.Chain != nil {
		c := *s.x.Chain
		c.Layers = slices.Clone(c.Layers)
		y.Chain = &c
	}
	if s.x.Graph != nil {
		g := *s.x.Graph
		g.Nodes, g.Edges = slices.Clone(g.Nodes), slices.Clone(g.Edges)
		y.Graph = &g
	}
	if s.x.Functions != nil {
		y.Functions = cloneFunctions(s.x.Functions)
	}
	edit(y)
	s.all = append(s.all, y)
}

// dropLayers adds the chains without one layer.
func (s *shrinker) dropLayers() {
	for i := range s.x.Chain.Layers {
		s.change(func(y *Counterexample) { y.Chain.Layers = slices.Delete(y.Chain.Layers, i, i+1) })
	}
}

// number adds the copies with a number zero or one less.
func (s *shrinker) number(at func(*Counterexample) *float64) {
	if v := *at(s.x); v > 0 {
		s.change(func(y *Counterexample) { *at(y) = 0 })
		s.change(func(y *Counterexample) { *at(y) = max(0, v-1) })
	}
}

// size adds the copies with a size zero or one less, alone and with the memory
// less by as much.
func (s *shrinker) size(at func(*Counterexample) *float64) {
	s.number(at)
	if v := *at(s.x); v > 0 {
		for _, less := range []float64{v, 1} {
			s.change(func(y *Counterexample) {
				*at(y) = max(0, v-less)
				y.Platform.Memory -= min(v, less)
			})
		}
	}
}
