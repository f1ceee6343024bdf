// Package certify produces certificates ([certificate.Certificate]) of bounds on mixed-integer programs, by a
// branch and bound of its own over the linear programs of a library. The search need not be trusted: every
// certificate has passed its check before it is returned.
//
// The search only branches, so that a certificate can carry all of it: no cuts, no propagation, no reduced-cost
// fixing. A formulation that can be tightened must state the tightening in its rows.
package certify

import (
	"context"
	"fmt"
	"math"
	"math/big"

	"workbench/model/certificate"
	"workbench/model/milp"
	"workbench/model/platform"
	"workbench/solvers"
)

// Options of a search.
type Options struct {
	// Goal is the bound to be proved, in the program's units: the objective of the best plan, or the bound of a
	// solver, less an allowed gap. A proof suffices if it is below the goal by at most 1e-9 of the greatest cost
	// and 1e-12 of itself, which covers the errors of libraries and rounding. It also suffices if it is below by
	// less than the granularity of the costs. +Inf asks for a proof of infeasibility.
	Goal float64
	// Nodes limits the linear programs that are branched on; 0: no limit. 1 bounds the root.
	Nodes int
	// Memory limits the memory of the stored multipliers, in bytes; 0: 1 GiB.
	Memory int64
}

// Result of a search.
type Result struct {
	// Certificate is checked. It is nil if nothing is proved; Note says why.
	Certificate *certificate.Certificate
	// Closed reports whether the certificate proves the goal or infeasibility.
	Closed bool
	// Ended is the reason why the search stopped early. It is NotStopped also if a point better than the goal
	// exists.
	Ended             solvers.Stop
	Nodes, Iterations int64
	// Point is a solution of a linear program, its integers integral to 1e-7, that is better than the goal by more
	// than a closed proof allows. It is nil if none was found.
	Point []float64
	Note  string
}

// Tree proves a bound on d as near to the goal as it can until ctx ends or a limit is reached. d must be a
// minimisation problem of a valid model. lp has d loaded, with its bounds; the search changes these bounds.
//
// head is the certificate without Model, Bound, Infeasible, Granularity and Tree; Scale 0 stands for 1. The worst
// case is exponential: each node takes one linear program and O(columns + entries).
//
// The error says that the library failed before anything was proved, or that the certificate did not pass its
// check, which would be a defect of this package. After a later failure of the library, the proof up to then is
// returned, and Note describes the failure.
func Tree(ctx context.Context, lp solvers.LP, d *milp.Data, head certificate.Certificate, o Options) (*Result, error) {
	if d.Sense != milp.Minimize {
		return nil, fmt.Errorf("%w: a certificate needs a minimisation problem", solvers.ErrUnsupported)
	}
	s := newSearch(lp, d, o)
	failed := s.run(ctx)
	r := &Result{Ended: s.ended, Nodes: s.nodes, Iterations: s.iterations, Point: s.point}
	if failed == nil && !math.IsInf(s.found, 1) {
		// The root is not empty: with a goal the search proves more.
		if err := s.enter(s.root); err != nil {
			return nil, err
		}
		o.Goal = s.found
		r, err := Tree(ctx, lp, d, head, o)
		if err == nil && r.Point == nil {
			r.Point = s.point
		}
		return r, err
	}
	if failed != nil {
		r.Ended, r.Note = solvers.Unknown, failed.Error()
	}
	c := &head
	if c.Scale == 0 {
		c.Scale = 1
	}
	c.Model, c.Tree = certificate.Digest(d), s.tree()
	claim, empty := s.claim()
	switch {
	case empty:
		c.Infeasible, c.Scale, r.Closed = true, 0, true
	case claim == nil:
		if failed == nil {
			r.Note = fmt.Sprintf("no linear program gave a bound; the rows imply none of %s", platform.Count(s.unbounded, "column"))
		}
		return r, failed
	default:
		c.Bound = claim.Mul(claim, new(big.Rat).SetFloat64(c.Scale))
		c.Granularity = s.grain
		r.Closed = s.least >= s.target
	}
	if err := c.Check(d); err != nil {
		return nil, fmt.Errorf("the certificate does not pass its check: %w", err)
	}
	r.Certificate = c
	return r, nil
}

// claim returns the greatest bound that the tree proves, in the program's units, or nil if there is none. empty
// reports a proof of infeasibility.
func (s *search) claim() (bound *big.Rat, empty bool) {
	least := s.least
	for _, n := range s.open {
		least = math.Min(least, n.bound)
	}
	s.least = least
	switch {
	case math.IsInf(least, -1):
		return nil, false
	case math.IsInf(least, 1) && math.IsInf(s.goal, 1):
		return nil, true
	}
	// The proof may assume that the objective is at most the goal.
	bound = new(big.Rat).SetFloat64(math.Min(least, s.goal))
	if s.grain != 0 {
		bound = s.next(bound)
	}
	return bound, false
}

// next returns the minimum value at or above v that an objective with the granularity of the costs can attain.
func (s *search) next(v *big.Rat) *big.Rat {
	grain, offset := new(big.Rat).SetFloat64(s.grain), new(big.Rat).SetFloat64(s.d.Offset)
	steps := new(big.Rat).Sub(v, offset)
	steps.Quo(steps, grain)
	whole := new(big.Int).Div(steps.Num(), steps.Denom()) // rounds down
	if !steps.IsInt() {
		whole.Add(whole, big.NewInt(1))
	}
	return steps.Add(offset, steps.Mul(grain, steps.SetInt(whole)))
}

// granularity returns the largest common divisor of all costs. It returns 0 if a continuous
// column has a cost, or if that number is at most a millionth of the goal.
func granularity(d *milp.Data, goal float64) float64 {
	g := 0.
	for j, c := range d.Cost {
		if c != 0 && !d.Integer[j] {
			return 0
		}
		for a := math.Abs(c); a != 0; { // Euclid: Mod is exact
			g, a = a, math.Mod(g, a)
		}
	}
	if g <= 1e-6*math.Abs(goal) {
		return 0
	}
	return g
}

// digits are the precisions to which multipliers are rounded, in ascending order: the lowest that proves enough
// keeps files short.
var digits = [...]int{4, 7, 10, 17}
