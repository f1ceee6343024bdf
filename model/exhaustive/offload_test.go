package exhaustive

import (
	"errors"
	"math/rand/v2"
	"testing"

	"workbench/model/chain"
	"workbench/model/plan"
	"workbench/model/platform"
)

// errata4 are the counterexamples of errata 4 to [004] Theorem 10: their memory
// and their optima with bandwidth 1.
func errata4() []struct {
	c                 *chain.Chain
	memory, want      float64
	printed, sortOnly float64
} {
	flat := func(abar, uF, oF []float64) *chain.Chain {
		c := abstract(abar, uF, oF)
		c.Input.Gradient = 0
		for i := range c.Layers {
			c.Layers[i].Gradient = 0
		}
		return c
	}
	one := flat([]float64{1, 0, 0, 2, 0, 0}, []float64{1, 0, 1, 2, 0}, []float64{0, 3, 0, 0, 2})
	ten := flat([]float64{10, 0, 0, 20, 0, 0}, []float64{10, 1, 10, 20, 1}, []float64{0, 30, 0, 0, 20})
	for i := range ten.Layers {
		ten.Layers[i].BackwardTime = 1
	}
	return []struct {
		c                 *chain.Chain
		memory, want      float64
		printed, sortOnly float64
	}{
		{one, 3, 6, 7, 7},
		{ten, 30, 66, 72, 72},
	}
}

func checkOffload(t *testing.T, c *chain.Chain, p *plan.Plan) {
	t.Helper()
	r, err := plan.VerifyOffload(c, p)
	if err != nil {
		t.Fatal(err)
	}
	if !r.Valid() || r.ClaimErrors != nil {
		t.Errorf("%+v %q\n%+v\n%+v", r.Violations, r.ClaimErrors, c, p.Ops)
	}
}

func TestOffloadErrata(t *testing.T) {
	for _, x := range errata4() {
		got, p, err := Offload(x.c, x.memory, 1, states)
		if err != nil || got != x.want {
			t.Errorf("makespan %g, %v; want %g", got, err, x.want)
			continue
		}
		checkOffload(t, x.c, p)
	}
}

func TestOffloadStates(t *testing.T) {
	for n := 1; n <= 9; n++ {
		r := rand.New(rand.NewPCG(uint64(n), 4))
		most, sum, none := 0, 0, 0
		for range 40 {
			c := RandomChain(r, n)
			low := OffloadLeastMemory(c)
			memory := low + float64(r.IntN(4))
			s, err := newOffload(c, memory, 1, 1e7)
			if err != nil {
				t.Fatal(err)
			}
			last, err := s.search()
			if errors.Is(err, ErrInfeasible) {
				none++
				t.Errorf("infeasible with %g, least %g: %+v", memory, low, c)
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			checkOffload(t, c, s.plan(c, platformOf(memory, 1), last))
			most = max(most, len(s.ways))
			sum += len(s.ways)
		}
		t.Logf("%d layers: %d ways on average, at most %d", n, sum/40, most)
	}
}

func platformOf(memory, bandwidth float64) platform.Platform {
	return platform.Platform{Memory: memory, Bandwidth: bandwidth}
}
