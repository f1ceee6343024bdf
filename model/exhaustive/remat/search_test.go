package remat

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"workbench/model/exhaustive"
	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/testcase/random"
	"workbench/model/testfile"
	verifyremat "workbench/model/verify/remat"
)

// states is how many states the searches of these tests visit at most.
const states = 1 << 22

// abstract returns a chain with a = ā = δ and what else is given; a starts at
// layer 0, the others at layer 1, and what is left out is 0.
func abstract(a, uF, oF []float64) *chain.Chain {
	c := &chain.Chain{Name: "abstract", Input: chain.Input{Activation: a[0], Gradient: a[0]}}
	for i, x := range a[1:] {
		l := chain.Layer{Name: fmt.Sprintf("layer%d", i+1), Activation: x, Saved: x, Gradient: x}
		if i < len(uF) {
			l.ForwardTime = uF[i]
		}
		if i < len(oF) {
			l.ForwardOverhead = oF[i]
		}
		c.Layers = append(c.Layers, l)
	}
	return c
}

// figure23 is the chain of [004] Fig. 2.3, whose memory is 15.
func figure23(n int) *chain.Chain {
	a, uF := make([]float64, n+4), make([]float64, n+3)
	for l := 2; l <= n+1; l++ {
		a[l] = 3
	}
	a[1], a[n+2] = 1, 4
	uF[0], uF[1] = float64(n-2), 2
	return abstract(a, uF, nil)
}

// The optima of chains on which the dynamic programs of the papers fail.
func TestRematByHand(t *testing.T) {
	type example struct {
		name         string
		c            *chain.Chain
		memory, want float64 // -1: no plan
	}
	examples := []example{
		{"[004] Theorem 5", abstract([]float64{0, 1, 0, 1}, []float64{0, 1, 0}, nil), 2, 1},
		{"[004] (2.6), five layers", abstract([]float64{1, 2, 3, 2, 1, 2}, []float64{1, 1, 0, 0, 1}, []float64{3, 1, 1, 3, 1}), 11, 6},
		{"[004] (2.6), six layers", abstract([]float64{1, 0, 2, 2, 2, 0, 3}, []float64{0, 1, 2, 0, 0, 0}, []float64{0, 3, 0, 0, 3, 1}), 10, 7},
		{"neither program finds a plan", abstract([]float64{1, 1, 1, 0}, []float64{0, 0, 0}, []float64{0, 2, 3}), 5, 0},
		{"and none with less", abstract([]float64{1, 1, 1, 0}, nil, []float64{0, 2, 3}), 4.9, -1},
		// F_all 1 needs a_0 + ā_1, B_1 then a_0 + ā_1 + δ_1 + δ_0.
		{"one layer", abstract([]float64{1, 1}, []float64{3}, nil), 4, 3},
		{"one layer that does not fit", abstract([]float64{1, 1}, []float64{3}, nil), 3.9, -1},
		{"all memory", abstract([]float64{3, 1, 4, 1, 5}, []float64{2, 7, 1, 8}, nil), math.Inf(1), 18},
	}
	for n := 4; n <= 7; n++ {
		examples = append(examples, example{fmt.Sprintf("[004] Fig. 2.3, n = %d", n), figure23(n), 15, float64(2 * n)})
	}
	for _, x := range examples {
		t.Run(x.name, func(t *testing.T) {
			got, p, err := Search(x.c, x.memory, states)
			if x.want < 0 {
				if !errors.Is(err, exhaustive.ErrInfeasible) {
					t.Fatalf("makespan %g, error %v; want %v", got, err, exhaustive.ErrInfeasible)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got != x.want {
				t.Errorf("makespan %g, want %g", got, x.want)
			}
			checkRemat(t, x.c, p)
		})
	}
}

func TestRematLeastMemoryByHand(t *testing.T) {
	for _, x := range []struct {
		name string
		c    *chain.Chain
		want float64
	}{
		{"recomputing everything needs 3", abstract([]float64{0, 1, 0}, nil, []float64{1, 1}), 2},
		{"neither program finds it", abstract([]float64{1, 1, 1, 0}, nil, []float64{0, 2, 3}), 5},
		{"one layer", abstract([]float64{1, 1}, nil, nil), 4},
		{"nothing has a size", abstract([]float64{0, 0, 0}, nil, nil), 0},
	} {
		got, err := LeastMemory(x.c, states)
		if err != nil || got != x.want {
			t.Errorf("%s: %g, %v; want %g", x.name, got, err, x.want)
		}
	}
}

// checkRemat wants a plan that the verifier accepts, claims included.
func checkRemat(t *testing.T, c *chain.Chain, p *plan.Plan) {
	t.Helper()
	r, err := verifyremat.Verify(c, p)
	if err != nil {
		t.Fatal(err)
	}
	if !r.Valid() || r.ClaimErrors != nil {
		t.Errorf("%+v %v\n%+v\n%+v", r.Violations, r.ClaimErrors, c, p.Ops)
	}
}

// everything is a state in the words of the rules: which a_ℓ, ā_ℓ, δ_ℓ are
// stored. Every operation of [004] Table 2.1 leads on from it, sensible or not.
type everything struct {
	a, abar, delta uint8
}

// byRules returns the least makespan for the memory, +Inf if there is no plan,
// and the least memory. It relaxes all steps until nothing changes.
func byRules(c *chain.Chain, memory float64) (makespan, peak float64) {
	n := c.Len()
	layer := func(l int) chain.Layer {
		if l == 0 {
			return chain.Layer{Activation: c.Input.Activation, Saved: c.Input.Activation, Gradient: c.Input.Gradient}
		}
		return c.Layers[l-1]
	}
	size := func(x everything) float64 {
		sum := 0.0
		for l := 0; l <= n; l++ {
			bit, y := uint8(1)<<l, layer(l)
			if x.a&bit != 0 {
				sum += y.Activation
			}
			if x.abar&bit != 0 {
				sum += y.Saved
			}
			if x.delta&bit != 0 {
				sum += y.Gradient
			}
		}
		return sum
	}
	start := everything{a: 1, delta: 1 << n}
	time, least := map[everything]float64{start: 0}, map[everything]float64{start: size(start)}
	for changed := true; changed; {
		changed = false
		step := func(x, y everything, duration, needs float64) {
			better := func(cost map[everything]float64, c float64) {
				if old, ok := cost[y]; !ok || c < old {
					cost[y], changed = c, true
				}
			}
			if t, ok := time[x]; ok && needs <= memory {
				better(time, t+duration)
			}
			better(least, max(least[x], needs))
		}
		for x := range least {
			now := size(x)
			for l := 1; l <= n; l++ {
				in, out, y := uint8(1)<<(l-1), uint8(1)<<l, layer(l)
				if (x.a|x.abar)&in == 0 {
					continue
				}
				step(x, everything{x.a, x.abar | out, x.delta}, y.ForwardTime, now+y.Saved+y.ForwardOverhead)
				step(x, everything{x.a | out, x.abar, x.delta}, y.ForwardTime, now+y.Activation+y.ForwardOverhead)
				if x.a&in != 0 {
					step(x, everything{x.a&^in | out, x.abar, x.delta}, y.ForwardTime, now+y.Activation+y.ForwardOverhead)
				}
				if x.delta&out != 0 && x.abar&out != 0 {
					step(x, everything{x.a &^ in, x.abar &^ out, x.delta&^out | in}, y.BackwardTime, now+layer(l-1).Gradient+y.BackwardOverhead)
				}
			}
			for l := range n + 1 {
				bit := uint8(1) << l
				step(x, everything{x.a &^ bit, x.abar, x.delta}, 0, now)
				step(x, everything{x.a, x.abar &^ bit, x.delta}, 0, now)
			}
		}
	}
	makespan, peak = math.Inf(1), math.Inf(1)
	for x, p := range least {
		if x.delta != 1 {
			continue
		}
		peak = min(peak, p)
		if t, ok := time[x]; ok {
			makespan = min(makespan, t)
		}
	}
	return makespan, peak
}

// The steps that the search leaves out cost nothing.
func TestRematLeavesNothingOut(t *testing.T) {
	r := testfile.Random(t, 1, 1)
	for range testfile.Cases(400) {
		c := random.Chain(r, 1+r.IntN(3))
		least, err := LeastMemory(c, states)
		if err != nil {
			t.Fatal(err)
		}
		memory := least + float64(r.IntN(4)-1)
		if memory < 0 {
			continue
		}
		makespan, peak := byRules(c, memory)
		if peak != least {
			t.Fatalf("least memory %g, by the rules %g: %+v", least, peak, c)
		}
		got, _, err := Search(c, memory, states)
		if errors.Is(err, exhaustive.ErrInfeasible) {
			got = math.Inf(1)
		} else if err != nil {
			t.Fatal(err)
		}
		if got != makespan {
			t.Fatalf("memory %g: makespan %g, by the rules %g: %+v", memory, got, makespan, c)
		}
	}
}

// Plans pass the verifier from the least memory on and there is none below it;
// more memory never makes a makespan longer, and with enough nothing is
// computed twice.
func TestRematRandom(t *testing.T) {
	r := testfile.Random(t, 2, 2)
	recomputed := 0
	for i := range testfile.Cases(2000) {
		c := random.Chain(r, 1+i%5)
		least, err := LeastMemory(c, states)
		if err != nil {
			t.Fatal(err)
		}
		if least > 0 {
			if _, _, err := Search(c, least*(1-1e-6), states); !errors.Is(err, exhaustive.ErrInfeasible) {
				t.Fatalf("below the least memory %g: %v, want %v: %+v", least, err, exhaustive.ErrInfeasible, c)
			}
		}
		last := math.Inf(1)
		for memory := max(least, 0.5); ; memory++ { // verifiers want some
			makespan, p, err := Search(c, memory, states)
			if err != nil {
				t.Fatal(err)
			}
			checkRemat(t, c, p)
			if makespan > last || makespan < c.TotalTime() {
				t.Fatalf("memory %g: makespan %g, with less memory %g, computations %g", memory, makespan, last, c.TotalTime())
			}
			if makespan > c.TotalTime() {
				recomputed++
			}
			if last = makespan; makespan == c.TotalTime() {
				break
			}
		}
	}
	if recomputed < testfile.Cases(1000) {
		t.Errorf("only %d optima recompute", recomputed)
	}
}

func TestRematTooHard(t *testing.T) {
	long := abstract(make([]float64, MaxLayers+2), nil, nil)
	for name, x := range map[string]struct {
		c      *chain.Chain
		memory float64
		limit  int
		want   error
	}{
		"empty":         {abstract([]float64{1}, nil, nil), 1, states, exhaustive.ErrTooHard},
		"long":          {long, 1, states, exhaustive.ErrTooHard},
		"NaN":           {abstract([]float64{1, math.NaN()}, nil, nil), 1, states, exhaustive.ErrTooHard},
		"negative time": {abstract([]float64{1, 1}, []float64{-1}, nil), 1, states, exhaustive.ErrTooHard},
		"NaN memory":    {abstract([]float64{1, 1}, nil, nil), math.NaN(), states, exhaustive.ErrTooHard},
		"limit":         {abstract([]float64{1, 1, 1, 1}, nil, nil), 100, 2, exhaustive.ErrLimit},
	} {
		if _, _, err := Search(x.c, x.memory, x.limit); !errors.Is(err, x.want) {
			t.Errorf("%s: error %v, want %v", name, err, x.want)
		}
	}
	if _, err := LeastMemory(abstract([]float64{1, 1, 1, 1}, nil, nil), 2); !errors.Is(err, exhaustive.ErrLimit) {
		t.Errorf("error %v, want %v", err, exhaustive.ErrLimit)
	}
}

func BenchmarkRemat(b *testing.B) {
	for _, n := range []int{4, 5, 6, 8} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			r := rand.New(rand.NewPCG(3, 3))
			var chains []*chain.Chain
			var memory []float64
			for range 64 {
				c := random.Chain(r, n)
				least, err := LeastMemory(c, states)
				if err != nil {
					b.Fatal(err)
				}
				chains, memory = append(chains, c), append(memory, least+1)
			}
			b.ResetTimer()
			for i := 0; b.Loop(); i++ {
				if _, _, err := Search(chains[i%64], memory[i%64], states); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
