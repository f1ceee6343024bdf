package weights

import (
	"context"
	"errors"
	"flag"
	"math/rand/v2"
	"testing"
	"time"

	"workbench/heuristics/weights"
	"workbench/ilp/formulation"
	"workbench/model/chain"
	"workbench/model/exhaustive"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/solvers"
	"workbench/solvers/highs"
	"workbench/solvers/lpsolve"
)

var (
	cases = flag.Int("cases", 150, "random instances of TestRandom")
	seed  = flag.Uint64("seed", 1, "of random instances")
)

// What solvers say of the models, cold, on random instances of all magnitudes,
// with memory one unit below, at and above what must fit: no bound is above the
// optimum, or for longer chains above a plan that a heuristic has; the plans of
// the exact model hold and have the optimum.
func TestRandom(t *testing.T) {
	rng := rand.New(rand.NewPCG(*seed, 77))
	units := []float64{1, 1e-12, 1e-9, 1e-6, 1e-3, 1e6}
	backends := []solvers.Backend{highs.New(), lpsolve.New()}
	solved, optimal := 0, 0
	for n := range *cases {
		whole, q := exhaustive.RandomWeights(rng, []int{1, 2, 2, 3, 3, 5, 8}[rng.IntN(7)])
		unit := units[rng.IntN(len(units))]
		c, p := exhaustive.InUnits(whole, q, unit)
		best, exact, err := leastPeriod(t.Context(), whole, q, c, p, unit)
		for _, f := range weightFormulations()[2:] {
			if f.Promise == formulation.Equal && !exact {
				continue // takes long
			}
			program, unfit := f.Build(c, p)
			var e *plan.Infeasible
			if errors.As(err, &e) != errors.As(unfit, &e) {
				t.Fatalf("case %d: %v, %s: %v: %+v %+v", n, err, f.Name, unfit, c, p)
			}
			if unfit != nil {
				continue
			}
			for _, b := range backends {
				if b.Name() != backends[0].Name() && c.Len() > 2 {
					continue // takes long
				}
				r, err := b.Solve(t.Context(), program.Model, solvers.Options{Time: 5 * time.Second})
				if err != nil {
					t.Errorf("case %d: %s by %s: %v: %+v %+v", n, f.Name, b.Name(), err, c, p)
					continue
				}
				solved++
				if bound := program.Objective(r.Bound); bound > best*(1+1e-6) {
					t.Errorf("case %d: %s by %s: bound %g, a plan takes %g: %+v %+v", n, f.Name, b.Name(), bound, best, c, p)
				}
				if r.Status == solvers.Infeasible {
					t.Errorf("case %d: %s by %s: infeasible: %+v %+v", n, f.Name, b.Name(), c, p)
				}
				if x, ok := r.Solution(); ok && program.Plan != nil && r.Status == solvers.Optimal {
					optimal++
					found, err := program.Plan(x)
					if err != nil {
						t.Errorf("case %d: %s by %s: %v: %+v %+v", n, f.Name, b.Name(), err, c, p)
						continue
					}
					if report, err := plan.Verify(c, found); err != nil || !report.Valid() || *found.Period > best*(1+1e-6) {
						t.Errorf("case %d: %s by %s: period %g of %g, %v %+v: %+v %+v", n, f.Name, b.Name(), *found.Period, best, err, report.Violations, c, p)
					}
				}
			}
		}
	}
	t.Logf("%d solved, %d of them with plans", solved, optimal)
}

// leastPeriod returns the least period by exhaustive search of a short chain,
// and one of a plan of a longer one.
func leastPeriod(ctx context.Context, whole *chain.Chain, q platform.Platform, c *chain.Chain, p platform.Platform, unit float64) (period float64, exact bool, err error) {
	if whole.Len() <= 3 {
		best, _, err := exhaustive.WeightOffload(whole, q, 5e6)
		if errors.Is(err, exhaustive.ErrInfeasible) {
			err = &plan.Infeasible{}
		}
		return best * unit, true, err
	}
	best, err := weights.Search(ctx, c, p, weights.Options{Moves: 500})
	if err != nil {
		return 0, false, err
	}
	return *best.Period, false, nil
}
