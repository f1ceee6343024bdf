// Package certify makes certificates ([certificate.Certificate]) of bounds on
// mixed-integer programs, by a branch and bound of its own over the linear
// programs of a library. Nothing of it need be trusted: every certificate has
// passed its check before anybody sees it.
//
// The search knows nothing but branching, so that all of it can be carried by a
// certificate: no cuts, no propagation, no fixing by reduced costs. What a
// formulation can say more tightly, it has to say in its rows.
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
	// Goal is the bound to be proved, in the program's units: the objective of
	// the best plan, or what a solver claims, less what a gap may be. A bound
	// that is below it by 1e-9 of the greatest cost and 1e-12 of itself, which is
	// what libraries and rounding lose, or by less than what the
	// costs are whole multiples of, will do. +Inf: look for a proof that there
	// is no point at all.
	Goal float64
	// Nodes limits the linear programs that are branched on; 0: no limit. 1
	// bounds the root.
	Nodes int
	// Memory limits the multipliers that are kept, in bytes; 0: 1 GiB.
	Memory int64
}

// Result of a search.
type Result struct {
	// Certificate is checked. Nil: nothing is proved; Note says why.
	Certificate *certificate.Certificate
	// Closed says that the certificate proves the goal, or that there is no
	// point.
	Closed bool
	// Ended is why the search stopped before; NotStopped also if there is a point
	// that is better than the goal.
	Ended             solvers.Stop
	Nodes, Iterations int64
	// Point is a solution of a linear program, its integers integral to 1e-7, that is better
	// than the goal by more than a closed proof allows; nil: none was met.
	Point []float64
	Note  string
}

// Tree proves a bound on d, which has to be minimised and is of a model without
// mistakes, as near to the goal as it comes until ctx ends or a limit is
// reached. lp has d loaded, with its bounds, and is left with others.
//
// head is the certificate but for Model, Bound, Infeasible, Granularity and
// Tree; Scale 0 stands for 1. Exponential at worst: a linear program and
// O(columns + entries) a node.
//
// An error means that the library failed before anything was proved or, which
// would be a mistake of this package, that the certificate did not pass its
// check. If it fails later, what is proved until then counts, and Note says so.
func Tree(ctx context.Context, lp solvers.LP, d *milp.Data, head certificate.Certificate, o Options) (*Result, error) {
	if d.Sense != milp.Minimize {
		return nil, fmt.Errorf("%w: certificates are of programs to be minimised", solvers.ErrUnsupported)
	}
	s := newSearch(lp, d, o)
	failed := s.run(ctx)
	r := &Result{Ended: s.ended, Nodes: s.nodes, Iterations: s.iterations, Point: s.point}
	if failed == nil && !math.IsInf(s.found, 1) {
		// It is not empty; with a goal more can be proved, and of less.
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

// claim is the greatest bound that the tree proves, in the program's units, nil
// if there is none; empty if it proves that there is no point.
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
	// The proof may suppose that the objective is at most the goal.
	bound = new(big.Rat).SetFloat64(math.Min(least, s.goal))
	if s.grain != 0 {
		bound = s.next(bound)
	}
	return bound, false
}

// next is the least value from v on that the objective may have if it is of
// whole multiples of the grain.
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

// granularity is the greatest number of which all costs are whole multiples, if
// only whole columns have costs and if it is more than a millionth of the goal;
// else 0.
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

// digits to which multipliers are rounded: as few as prove what is needed, so
// that files are short.
var digits = [...]int{4, 7, 10, 17}
