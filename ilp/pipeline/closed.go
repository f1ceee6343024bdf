package pipeline

import (
	"fmt"
	"math"

	"workbench/ilp/formulation"
	"workbench/model/instance/chain"
	"workbench/model/milp"
	"workbench/model/platform"
	view "workbench/model/problem/pipeline"
)

// Closed builds a program of one column, the period, with one row for each closed-form bound that holds for every
// pattern. It applies to chains of any length. Its optimum is the best of these bounds, proved at
// [view.Instance.Bounds]. A certificate of it takes milliseconds, however long the linear programs of other
// formulations take. The bounds are rounded down by a relative 1e-9.
func Closed(c *chain.Chain, p platform.Platform, o MemoryOption) (*formulation.Program, error) {
	in, err := view.New(c, p, o.MemoryModel)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", formulation.ErrInstance, err)
	}
	if err := in.Infeasible(); err != nil {
		return nil, err
	}
	program := &formulation.Program{Promise: formulation.LowerBound, Formulation: closedName, Unit: timeUnit(in)}
	if program.Options, err = options(closedName, MemoryOption{in.Model}); err != nil {
		return nil, err
	}
	m := milp.New(closedName)
	t := m.Var("T", milp.Continuous, 0, math.Inf(1))
	g := m.Group("closed form", "[004] 5.1.1; ours")
	var e milp.Expr
	for _, b := range in.Bounds() {
		g.AtLeast(e.Reset().Add(1, t), math.Floor(b.Value/program.Unit/timeGrain)*timeGrain)
	}
	m.Minimize(e.Reset().Add(1, t))
	program.Model = m
	return program, nil
}

// timeUnit returns the unit of time of a model in seconds: the average load of a processor is about scale units.
func timeUnit(in *view.Instance) float64 { return 1 / milp.PowerOfTwo(in.Load(), scale) }
