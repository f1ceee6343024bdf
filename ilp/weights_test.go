package ilp

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"workbench/model/chain"
	"workbench/model/exhaustive"
	"workbench/model/milp"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/solvers"
	"workbench/solvers/highs"
)

// network returns a chain of layers with forward and backward time, activation
// and weight each.
func network(input float64, layers ...[4]float64) *chain.Chain {
	c := &chain.Chain{Name: "test", Input: chain.Input{Activation: input}}
	for _, l := range layers {
		c.Layers = append(c.Layers, chain.Layer{ForwardTime: l[0], BackwardTime: l[1], Activation: l[2], Weight: l[3]})
	}
	return c
}

// randomNetwork returns a chain with small integers, whose computations take
// some time, and a memory within its range.
func randomNetwork(r *rand.Rand, layers, largest int) (*chain.Chain, platform.Platform) {
	c := &chain.Chain{Name: "random", Input: chain.Input{Activation: float64(r.IntN(2))}}
	for range layers {
		c.Layers = append(c.Layers, chain.Layer{
			ForwardTime: float64(r.IntN(largest + 1)), BackwardTime: float64(r.IntN(largest + 1)),
			Activation: float64(r.IntN(largest)), Weight: float64(r.IntN(largest + 1)),
		})
	}
	c.Layers[0].BackwardTime++
	in := scaleWeights(c, platform.Platform{Memory: 1, Bandwidth: 1})
	low, high := in.Range()
	return c, platform.Platform{Memory: max(1, low+float64(r.IntN(int(high-low)+1))), Bandwidth: 1}
}

// optimum solves a formulation to the end.
func optimum(t *testing.T, b solvers.Backend, m *milp.Model, start []float64) *solvers.Result {
	t.Helper()
	r, err := b.Solve(t.Context(), m, solvers.Options{Start: start})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func must(t *testing.T, build Builder, c *chain.Chain, p platform.Platform) *Program {
	t.Helper()
	prog, err := build(c, p)
	if err != nil {
		t.Fatal(err)
	}
	if err := prog.Model.Err(); err != nil {
		t.Fatal(err)
	}
	return prog
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-5*(1+math.Abs(b)) }

func TestWeightsAgainstExhaustive(t *testing.T) {
	b := highs.New()
	r := rand.New(rand.NewPCG(1, 2))
	equal, stronger, tight := 0, 0, 0
	const cases = 2000
	for n := range cases {
		c, p := randomNetwork(r, 1+n%3, 3)
		best, pl, err := exhaustive.WeightOffload(c, p, 1<<20)
		if errors.Is(err, exhaustive.ErrLimit) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		in, err := newWeightInstance(c, p)
		if err != nil {
			t.Fatal(err)
		}
		paper, compact := buildWeights(in, tightened), must(t, WeightsNested, c, p)
		plain, err := compact.Model.Without("whole weights", "arrival", "there and back", "in flight")
		if err != nil {
			t.Fatal(err)
		}
		var value [3]float64
		for i, m := range []*milp.Model{paper.Model, plain, compact.Model} {
			prog := paper
			if i > 0 {
				prog = compact
			}
			start, err := prog.Start(pl)
			if err != nil {
				t.Fatalf("%v %+v %+v %+v %v", err, c, p, pl.Ops, *pl.Period)
			}
			if err != nil {
				t.Fatal(err)
			}
			if v, ok := m.Violations(start, 1e-7), true; len(v) > 0 || !ok {
				t.Fatalf("case %d model %d: start violates %v\n%+v %+v\n%+v", n, i, v[0], c, p, pl.Ops)
			}
			res := optimum(t, b, m, nil)
			if res.Status != solvers.Optimal {
				t.Fatalf("case %d model %d: %v", n, i, res.Status)
			}
			value[i] = res.Obj
			if value[i] > best+1e-5 {
				t.Errorf("case %d model %d: bound %g above optimum %g\n%+v %+v", n, i, value[i], best, c, p)
			}
		}
		if !near(value[0], value[1]) {
			t.Errorf("case %d: paper %g, nested %g, best %g\n%+v %+v", n, value[0], value[1], best, c, p)
		}
		if near(value[0], best) {
			equal++
		}
		if value[2] > value[1]+1e-5 {
			stronger++
		}
		if near(value[2], best) {
			tight++
		}
	}
	t.Logf("%d cases: [001] equal %d, strengthened better %d, equal %d", cases, equal, stronger, tight)
}

var _ = plan.Infeasible{}
