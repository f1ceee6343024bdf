package rematgraph

import (
	"fmt"
	"math"

	"workbench/ilp/formulation"
	"workbench/model/instance/training"
	"workbench/model/milp"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/problem/rematgraph"
)

// instance is a graph and a memory for the models of this package. Sizes are integers in the unit
// of the graph until they are scaled in a row; times are in units of the objective.
type instance struct {
	*rematgraph.View
	platform platform.Platform
	n        int
	room     float64   // memory less the input
	unit     float64   // seconds per unit of the objective, a power of two
	cost     []float64 // time of nodes, in units of the objective
	// behind is the first node after the last forward node: with graph/v1, all nodes from it on are computed once.
	behind int
	// variable[i] is false if value i is kept from its computation to its last use
	// in every schedule: it is computed once and so are all its readers.
	variable []bool
	// fixed[t] is the total size of such values throughout stage t, without those of node t.
	fixed []float64
}

// about is the scaled value of the total time and of the memory of a row: far above the absolute tolerances of
// solvers.
const about = 1 << 10

// view returns the view of a graph. The error wraps formulation.ErrInstance.
func view(g plan.Instance) (*rematgraph.View, error) {
	v, err := rematgraph.New(g)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", formulation.ErrInstance, err)
	}
	return v, nil
}

// newGraphInstance is newInstance for a graph.
func newGraphInstance(g plan.Instance, p platform.Platform) (*instance, error) {
	v, err := view(g)
	if err != nil {
		return nil, err
	}
	return newInstance(v, p)
}

// newInstance reads an instance and rejects those for which no model can be built. The error wraps
// formulation.ErrInstance or is a *plan.Infeasible.
func newInstance(v *rematgraph.View, p platform.Platform) (*instance, error) {
	if !(p.Memory > 0) || math.IsInf(p.Memory, 0) {
		return nil, fmt.Errorf("%w: memory is %v bytes, it must be positive and finite", formulation.ErrInstance, p.Memory)
	}
	if err := v.Fits(p.Memory); err != nil {
		return nil, err
	}
	in := &instance{
		View: v, platform: p, n: v.N, room: math.Floor(p.Memory) - v.Graph.Input, unit: 1 / milp.PowerOfTwo(v.Graph.TotalTime(), about),
		cost: make([]float64, v.N), behind: v.N, variable: make([]bool, v.M), fixed: make([]float64, v.N),
	}
	for j := range v.N {
		in.cost[j] = v.Time[j] / in.unit
	}
	for in.behind > 0 && in.isBehind(in.behind-1) {
		in.behind--
	}
	for i := range v.M {
		in.variable[i] = !v.Once[v.Writer[i]]
		for _, j := range v.Succ[i] {
			in.variable[i] = in.variable[i] || !v.Once[j]
		}
		if !in.variable[i] {
			for t := v.Writer[i] + 1; t <= min(v.End(i), v.N-1); t++ {
				in.fixed[t] += v.Memory[i]
			}
		}
	}
	return in, nil
}

// isBehind reports whether node j is no forward, or one that is computed once.
func (in *instance) isBehind(j int) bool {
	return in.Once[j] || in.Graph.Nodes[j].Phase != training.Forward
}

// may reports whether node j may be recomputed in stage t > j.
func (in *instance) may(t, j int) bool { return t <= in.Until[j] }

// atMost returns an error for graphs of more nodes than the given maximum.
func (in *instance) atMost(nodes int) error {
	if in.n > nodes {
		return fmt.Errorf("%w: %d nodes, this model is built for %d at most", formulation.ErrTooLong, in.n, nodes)
	}
	return nil
}

// withMemory returns the instance with a fraction of its memory.
func (in *instance) withMemory(part float64) *instance {
	less := *in
	less.room = math.Floor(in.platform.Memory*part) - in.Graph.Input
	return &less
}

// fits reports whether the peak of a schedule is within the memory.
func (in *instance) fits(s *rematgraph.Schedule) bool {
	peak, _, _ := s.Peak()
	return platform.Fits(peak, in.platform.Memory)
}

// read returns the schedule of a plan for use as a start.
func (in *instance) read(p *plan.Plan) (*rematgraph.Schedule, error) {
	s, err := in.FromPlan(p)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", formulation.ErrStart, err)
	}
	return s, nil
}

// plan returns a schedule as a plan.
func (in *instance) plan(method string, s *rematgraph.Schedule) *plan.Plan {
	return s.Fill(in.NewPlan(method, in.platform))
}

// value returns the value of a binary column.
func value(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// program returns a model of schedules in stages, without a proven relation to the problem.
// Solutions of relaxations may yield schedules that do not fit and are not plans.
func (in *instance) program(m *milp.Model, values func(*rematgraph.Schedule) []float64,
	schedule func([]float64) *rematgraph.Schedule,
) *formulation.Program {
	return &formulation.Program{
		Model: m, Unit: in.unit,
		Start: func(start *plan.Plan) ([]float64, error) {
			s, err := in.read(start)
			if err != nil {
				return nil, err
			}
			return values(s), nil
		},
		Plan: func(x []float64) (*plan.Plan, error) {
			s := schedule(x)
			if !in.fits(s) {
				peak, _, node := s.Peak()
				return nil, fmt.Errorf("its schedule needs %.0f, at node %q", peak, in.Graph.Nodes[node].ID)
			}
			return in.plan(m.Name(), s), nil
		},
	}
}
