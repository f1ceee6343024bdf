package weightoffload

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"workbench/ilp/certify"
	"workbench/ilp/formulation"
	"workbench/ilp/ilptest"
	"workbench/model/certificate"
	"workbench/model/plan"
	"workbench/solvers"
	"workbench/solvers/highs"
)

// table1 is [001] Table 1: depth, batch, Σu and the transfer of a layer, ms.
var table1 = []struct {
	depth, batch      int
	compute, transfer float64
}{
	{74, 64, 47421, 35.95},
	{56, 64, 35553, 35.95},
	{38, 64, 23694, 35.95},
	{74, 32, 23697, 35.95},
	{56, 32, 17762, 35.95},
	{38, 32, 11840, 35.95},
	{74, 16, 11612, 35.95},
	{56, 16, 8697, 35.95},
	{38, 16, 5794, 35.95},
	{144, 64, 34486, 13.6},
	{96, 64, 22965, 13.6},
	{144, 32, 17443, 13.6},
	{96, 32, 11617, 13.6},
	{144, 16, 9090, 13.6},
	{96, 16, 6058, 13.6},
}

// certified returns the bound of a program that a certificate proves, as near to
// the goal in seconds as so many nodes get, and how long that took.
func certified(t testing.TB, p *formulation.Program, goal float64, nodes int) (*certify.Result, time.Duration) {
	t.Helper()
	begin := time.Now()
	d := p.Model.Data()
	lp, err := solvers.OpenLP(highs.New(), &d)
	if err != nil {
		t.Fatal(err)
	}
	defer lp.Close()
	r, err := certify.Tree(t.Context(), lp, &d, certificate.Certificate{
		Instance: strings.Repeat("0", 64), Problem: plan.WeightOffload, Formulation: p.Formulation, Backend: "highs", Scale: p.Unit,
	}, certify.Options{Goal: p.ModelObjective(goal), Nodes: nodes})
	if err != nil {
		t.Fatal(err)
	}
	return r, time.Since(begin)
}

// Every row of Table 1 has a certificate of what HiGHS says of it at 12 GB/s,
// the paper's bandwidth, by one linear program; where the links are slow, the
// certificate comes near to it.
func TestTable1IsCertified(t *testing.T) {
	rows := table1
	if testing.Short() {
		rows = table1[5:6]
	}
	for i, x := range rows {
		c := uniform(x.depth, x.batch, x.compute/float64(x.depth), x.transfer)
		share := []float64{0.1, 0.3, 0.6}[i%3]
		check := func(beta float64, nodes int, gap float64) {
			t.Run(fmt.Sprintf("%s/%g GBps/%g", c.Name, beta/1e9, share), func(t *testing.T) {
				program := ilptest.Must(t, Nested, c, at(c, share, beta))
				begin := time.Now()
				solved, err := highs.New().Solve(t.Context(), program.Model, solvers.Options{Time: 20 * time.Second})
				if err != nil {
					t.Fatal(err)
				}
				took := time.Since(begin)
				claim := program.Objective(solved.Bound)
				r, certifying := certified(t, program, claim, nodes)
				if r.Certificate == nil {
					t.Fatalf("nothing is certified: %s", r.Note)
				}
				value := r.Certificate.Value()
				t.Logf("HiGHS %g s in %v, certified %g s in %v, %d nodes, gap %.2g", claim, took, value, certifying, r.Nodes, (claim-value)/claim)
				if !(value <= claim*(1+1e-6) && value >= claim*(1-gap)) {
					t.Errorf("certified %g, HiGHS says %g", value, claim)
				}
			})
		}
		check(12e9, 1, 1e-9)
		if x.depth == 38 && !testing.Short() {
			check(1e9, 20, 2e-3)
		}
	}
}
