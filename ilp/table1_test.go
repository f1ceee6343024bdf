package ilp

import (
	"fmt"
	"os"
	"testing"
	"time"

	"workbench/model/chain"
	"workbench/model/cycle"
	"workbench/model/platform"
	"workbench/solvers"
	"workbench/solvers/highs"
)

// table1 is a row of Table 1 of [001]: layers of the given time and transfer
// time (ms).
type table1 struct {
	net          string
	depth, batch int
	u, transfer  float64
}

var table1Rows = []table1{
	{"gpt2", 74, 64, 47421. / 74, 35.95},
	{"gpt2", 56, 64, 35553. / 56, 35.95},
	{"gpt2", 38, 64, 23694. / 38, 35.95},
	{"gpt2", 74, 32, 23697. / 74, 35.95},
	{"gpt2", 56, 32, 17762. / 56, 35.95},
	{"gpt2", 38, 32, 11840. / 38, 35.95},
	{"gpt2", 74, 16, 11612. / 74, 35.95},
	{"gpt2", 56, 16, 8697. / 56, 35.95},
	{"gpt2", 38, 16, 5794. / 38, 35.95},
	{"bert", 144, 64, 34486. / 144, 13.6},
	{"bert", 96, 64, 22965. / 96, 13.6},
	{"bert", 144, 32, 17443. / 144, 13.6},
	{"bert", 96, 32, 11617. / 96, 13.6},
	{"bert", 144, 16, 9090. / 144, 13.6},
	{"bert", 96, 16, 6058. / 96, 13.6},
}

func (r table1) chain() *chain.Chain {
	a := 20e6 * float64(r.batch) / 16
	c := &chain.Chain{Name: fmt.Sprintf("%s-%d-b%d", r.net, r.depth, r.batch), Input: chain.Input{Activation: a}}
	for range r.depth {
		c.Layers = append(c.Layers, chain.Layer{ForwardTime: r.u / 4000, BackwardTime: 3 * r.u / 4000, Activation: a, Weight: r.transfer / 1000 * 12e9})
	}
	return c
}

func memory(c *chain.Chain, fraction float64) float64 {
	low, high := cycle.Of(c).Range()
	return low + fraction*(high-low)
}

func TestTable1(t *testing.T) {
	b := highs.New()
	beta := 12e9
	fmt.Sscan(os.Getenv("BETA"), &beta)
	frac := []float64{0.1, 0.3, 0.6}
	for _, f := range frac {
		total := time.Duration(0)
		for _, r := range table1Rows {
			c := r.chain()
			p := platform.Platform{Memory: memory(c, f), Bandwidth: beta}
			prog, err := WeightsNested(c, p)
			if err != nil {
				t.Fatal(err)
			}
			res, err := b.Solve(t.Context(), prog.Model, solvers.Options{Time: 60 * time.Second, Threads: solvers.Some(2)})
			if err != nil {
				t.Fatal(err)
			}
			lp, err := b.Solve(t.Context(), prog.Model, solvers.Options{Relax: true})
			if err != nil {
				t.Fatal(err)
			}
			total += res.Wall
			t.Logf("%.0f%% %s Σu %.3f obj %.6f bound %.6f lp %.6f %v %v nodes %d", 100*f, c.Name, cycle.Of(c).Compute(), res.Obj, res.Bound, lp.Obj, res.Status, res.Wall, res.Nodes)
		}
		t.Logf("total %v", total)
	}
}
