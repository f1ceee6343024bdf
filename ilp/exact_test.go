package ilp

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"workbench/model/exhaustive"
	"workbench/model/plan"
	"workbench/solvers"
	"workbench/solvers/highs"
)

func TestExactAgainstExhaustive(t *testing.T) {
	b := highs.New()
	r := rand.New(rand.NewPCG(3, 4))
	var took [4]time.Duration
	for n := range 3000 {
		c, p := randomNetwork(r, 1+n%3, 3)
		best, pl, err := exhaustive.WeightOffload(c, p, 1<<20)
		if errors.Is(err, exhaustive.ErrLimit) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		prog := must(t, WeightsExact, c, p)
		start, err := prog.Start(pl)
		if err != nil {
			t.Fatal(err)
		}
		if v := prog.Model.Violations(start, 1e-7); len(v) > 0 {
			t.Fatalf("case %d: start violates %v\n%+v %+v\n%+v", n, v[0], c, p, pl.Ops)
		}
		begin := time.Now()
		res, err := b.Solve(t.Context(), prog.Model, solvers.Options{Time: 20 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		took[c.Len()] += time.Since(begin)
		if res.Status != solvers.Optimal || !near(res.Obj, best) {
			t.Errorf("case %d: %v %g, want %g\n%+v %+v %+v", n, res.Status, res.Obj, best, c, p, pl.Ops)
			continue
		}
		x, _ := res.Solution()
		q, err := prog.Plan(x)
		if err != nil {
			t.Fatal(err)
		}
		rep, err := plan.Verify(c, q)
		if err != nil {
			t.Fatal(err)
		}
		if !rep.Valid() || rep.ClaimErrors != nil || *q.Period > best*(1+1e-9) {
			t.Errorf("case %d: %v %v T %g best %g\n%+v %+v\n%+v", n, rep.Violations, rep.ClaimErrors, *q.Period, best, c, p, q.Ops)
		}
	}
	t.Log(took)
}
