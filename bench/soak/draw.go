package main

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"

	"workbench/model/chain"
	"workbench/model/exhaustive"
	"workbench/model/functions"
	"workbench/model/plan"
	"workbench/model/platform"
)

// A trial is an instance with a platform.
type trial struct {
	problem  string
	in       plan.Instance
	platform platform.Platform
	pace     float64 // seconds: durations are small multiples of it
}

// A draw makes the trials of one problem.
type draw struct {
	problem string
	draw    func(*rand.Rand) trial
}

var draws = []draw{
	{plan.Remat, drawRemat},
	{plan.Join, drawJoin},
	{plan.ActivationOffload, func(r *rand.Rand) trial { return drawOffload(r, 1+r.IntN(5)) }},
	{plan.RematOffload, func(r *rand.Rand) trial { return drawOffload(r, 1+r.IntN(3)) }},
	{plan.Swap, drawSwap},
	{plan.Pipeline, drawPipeline},
	{plan.WeightOffload, drawWeights},
}

func source(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

func pace(r *rand.Rand) float64 { return exhaustive.Paces[r.IntN(len(exhaustive.Paces))] }

// beside returns a memory at, below or a few units above a breakpoint.
func beside(r *rand.Rand, memory float64) float64 {
	return max(0, memory+[...]float64{0, 0, -1, 1, 2, 7}[r.IntN(6)])
}

// drawRemat is a chain or, one time in three, a graph.
func drawRemat(r *rand.Rand) trial {
	if r.IntN(3) == 0 {
		g := exhaustive.MixedGraph(r, 1+r.IntN(3))
		memory := g.Input
		for v := range g.Nodes { // what a random half of the values takes
			if r.IntN(2) == 0 {
				memory += g.Nodes[v].Memory + float64(r.IntN(2))*g.Nodes[v].Overhead
			}
		}
		if least, err := exhaustive.GraphLeastMemory(g, mostStates); err == nil {
			memory = max(memory, least)
		}
		return trial{in: plan.Instance{Graph: g}, platform: platform.Platform{Memory: beside(r, memory)}, pace: 1}
	}
	c, memory := exhaustive.MixSizes(r, exhaustive.RandomChain(r, 1+r.IntN(5)))
	if least, err := exhaustive.RematLeastMemory(c, mostStates); err == nil && r.IntN(2) == 0 {
		memory = beside(r, least)
	}
	x := pace(r)
	return trial{in: plan.Instance{Chain: exhaustive.Pace(c, x)}, platform: platform.Platform{Memory: memory}, pace: x}
}

func drawJoin(r *rand.Rand) trial {
	j := exhaustive.RandomJoin(r, 1+r.IntN(3), r.IntN(7))
	least, _ := exhaustive.JoinLeastSlots(j, mostStates) // 0 where it is not known
	return trial{in: plan.Instance{Join: j}, platform: platform.Platform{Memory: float64(max(1, least-1+r.IntN(4)))}, pace: 1}
}

func drawOffload(r *rand.Rand, layers int) trial {
	c, memory, bandwidth := exhaustive.RandomOffload(r, layers)
	c, memory, bandwidth = exhaustive.Magnify(r, c, memory, bandwidth)
	x := pace(r)
	return trial{in: plan.Instance{Chain: exhaustive.Pace(c, x)}, platform: platform.Platform{Memory: memory, Bandwidth: bandwidth / x}, pace: x}
}

func drawSwap(r *rand.Rand) trial {
	s, memory, bandwidth := exhaustive.RandomSwap(r, 5, 5)
	s, memory, bandwidth = exhaustive.MagnifySequence(r, s, memory, bandwidth)
	x := pace(r)
	return trial{in: plan.Instance{Functions: exhaustive.PaceSequence(s, x)}, platform: platform.Platform{Memory: memory, Bandwidth: bandwidth / x}, pace: x}
}

func drawPipeline(r *rand.Rand) trial {
	c := exhaustive.RandomChain(r, 1+r.IntN(4))
	k := math.Pow(10, float64(3*r.IntN(5))) // a unit of memory, a transfer of which takes a unit of time
	for x := range c.Sizes() {
		*x *= k
	}
	sum := 0.0
	for i := range c.Layers {
		l := &c.Layers[i]
		l.ForwardTime++
		l.Weight = float64(r.IntN(3))*k + float64(r.IntN(2))
		l.ForwardOverhead, l.BackwardOverhead = 0, 0
		sum += l.Weight + l.Activation
	}
	p := platform.Platform{Bandwidth: k, Processors: 1 + r.IntN(3), WeightCopies: 1 + r.IntN(3)}
	p.Memory = beside(r, math.Round(sum*(0.5+2*r.Float64())/k)*k)
	x := pace(r)
	p.Bandwidth /= x
	return trial{in: plan.Instance{Chain: exhaustive.Pace(c, x)}, platform: p, pace: x}
}

func drawWeights(r *rand.Rand) trial {
	c, p := exhaustive.RandomWeights(r, 1+r.IntN(3))
	for i := range c.Layers { // of no other problem
		l := &c.Layers[i]
		l.Saved, l.Gradient = l.Activation, l.Activation
	}
	c.Input.Gradient = c.Input.Activation
	x := pace(r)
	c, p = exhaustive.InUnits(c, p, x)
	return trial{in: plan.Instance{Chain: c}, platform: p, pace: x}
}

// mostStates bounds exhaustive search: a second, for instances of this size.
const mostStates = 300_000

// truth is the least objective by exhaustive search and a plan that has it, an
// error that wraps [exhaustive.ErrInfeasible] where there is no plan, and one
// that does not where the search does not answer. Of a pipeline it is that of
// 1-periodic patterns.
func (t *trial) truth() (float64, *plan.Plan, error) {
	p := t.platform
	switch c := t.in.Chain; {
	case t.in.Graph != nil:
		return exhaustive.Graph(t.in.Graph, p.Memory, mostStates)
	case t.in.Join != nil:
		return exhaustive.Join(t.in.Join, int(p.Memory), mostStates)
	case t.in.Functions != nil:
		return exhaustive.Swap(t.in.Functions, p.Memory, p.Bandwidth, t.pace, mostStates)
	case t.problem == plan.Remat:
		return exhaustive.Remat(c, p.Memory, mostStates)
	case t.problem == plan.ActivationOffload:
		return exhaustive.Offload(c, p.Memory, p.Bandwidth, mostStates)
	case t.problem == plan.Pipeline:
		return exhaustive.Pipeline(c, p, plan.TaskModel, mostStates/100)
	}
	// The others count seconds.
	whole := exhaustive.Pace(t.in.Chain, 1)
	for i := range whole.Layers {
		l := &whole.Layers[i]
		l.ForwardTime, l.BackwardTime = math.Round(l.ForwardTime/t.pace), math.Round(l.BackwardTime/t.pace)
	}
	p.Bandwidth = math.Round(2*p.Bandwidth*t.pace) / 2
	search := exhaustive.WeightOffload
	if t.problem == plan.RematOffload {
		search = func(c *chain.Chain, p platform.Platform, most int) (float64, *plan.Plan, error) {
			return exhaustive.RematOffload(c, p.Memory, p.Bandwidth, most)
		}
	}
	least, _, err := search(whole, p, mostStates)
	return least * t.pace, nil, err
}

// searched reports whether exhaustive search looks at plans like p: of pipelines
// those that are 1-periodic, of swapping those on the grid of its durations,
// which are enough if every function writes what it uses.
func (t *trial) searched(p *plan.Plan) bool {
	switch {
	case t.problem == plan.Pipeline:
		return p != nil && p.K <= 1
	case t.in.Functions != nil:
		return !slices.ContainsFunc(t.in.Functions.Functions, func(f functions.Function) bool { return len(f.Written()) < len(f.Uses) })
	}
	return true
}

// write writes the instance to a file.
func (t *trial) write(file string) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	switch {
	case t.in.Graph != nil:
		err = t.in.Graph.Write(f)
	case t.in.Join != nil:
		err = t.in.Join.Write(f)
	case t.in.Functions != nil:
		err = t.in.Functions.Write(f)
	default:
		err = t.in.Chain.Write(f)
	}
	return errors.Join(err, f.Close())
}

// flags are those of solve for the platform.
func (t *trial) flags(backend string) string {
	number := func(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }
	s := " --memory " + number(t.platform.Memory)
	if t.platform.Bandwidth > 0 {
		s += " --bandwidth " + number(t.platform.Bandwidth)
	}
	if t.problem == plan.Pipeline {
		s += fmt.Sprintf(" --gpus %d --weight-copies %d", t.platform.Processors, t.platform.WeightCopies)
	}
	if backend != "" {
		s += " --backend " + backend
	}
	return s
}

// smaller yields trials with less in them: a layer or node left out, a number 0.
func (t *trial) smaller(yield func(trial) bool) {
	switch {
	case t.in.Chain != nil:
		c := t.in.Chain
		for i := range c.Layers {
			d := *c
			if d.Layers = slices.Delete(slices.Clone(c.Layers), i, i+1); len(d.Layers) > 0 && !yield(t.with(plan.Instance{Chain: &d})) {
				return
			}
		}
		for k := range numbers(c) {
			d := *c
			d.Layers = slices.Clone(c.Layers)
			if x := numbers(&d)[k]; *x != 0 {
				*x = 0
				if d.Validate() == nil && !yield(t.with(plan.Instance{Chain: &d})) {
					return
				}
			}
		}
	case t.in.Graph != nil:
		g := t.in.Graph
		for k := range 3 * len(g.Nodes) {
			d := *g
			d.Nodes = slices.Clone(g.Nodes)
			n := &d.Nodes[k/3]
			if x := [...]*float64{&n.Time, &n.Memory, &n.Overhead}[k%3]; *x != 0 {
				*x = 0
				if !yield(t.with(plan.Instance{Graph: &d})) {
					return
				}
			}
		}
	}
}

func (t *trial) with(in plan.Instance) trial {
	u := *t
	u.in = in
	return u
}

// numbers are those of a chain.
func numbers(c *chain.Chain) (all []*float64) {
	for x := range c.Sizes() {
		all = append(all, x)
	}
	for i := range c.Layers {
		all = append(all, &c.Layers[i].ForwardTime, &c.Layers[i].BackwardTime)
	}
	return all
}
