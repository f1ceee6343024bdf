package offload

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"workbench/model/chain"
	"workbench/model/exhaustive"
	"workbench/model/plan"
	"workbench/model/platform"
)

type method struct {
	name string
	run  func(context.Context, *chain.Chain, platform.Platform) (*plan.Plan, error)
}

func methods() []method {
	return []method{
		{"greedy", Greedy},
		{"vdnn", VDNN},
		{"tflms", TFLMS},
		{"autoswap", func(ctx context.Context, c *chain.Chain, p platform.Platform) (*plan.Plan, error) {
			return AutoSwap(ctx, c, p, 1)
		}},
	}
}

// verify fails the test if p is not a valid plan with right claims.
func verify(t testing.TB, c *chain.Chain, p *plan.Plan) {
	t.Helper()
	r, err := plan.VerifyOffload(c, p)
	if err != nil {
		t.Fatalf("%s: %v", p.Method, err)
	}
	if !r.Valid() {
		t.Fatalf("%s: %d violations, first %+v\n%+v %+v\n%+v", p.Method, len(r.Violations), r.Violations[0], c, p.Platform, p.Ops)
	}
	if len(r.ClaimErrors) > 0 {
		t.Fatalf("%s: claims: %v\n%+v %+v\n%+v", p.Method, r.ClaimErrors, c, p.Platform, p.Ops)
	}
}

// smooth makes the numbers of c real ones.
func smooth(r *rand.Rand, c *chain.Chain) {
	f := func(x *float64) { *x *= 0.1 + r.Float64() }
	for i := range c.Layers {
		l := &c.Layers[i]
		for _, x := range []*float64{&l.ForwardTime, &l.BackwardTime, &l.Activation, &l.Gradient, &l.ForwardOverhead, &l.BackwardOverhead} {
			f(x)
		}
		l.Saved = l.Activation * (1 + r.Float64())
	}
}

func TestMethodsGiveValidPlans(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	found := map[string]int{}
	for k := range 600 {
		c := exhaustive.RandomChain(r, 1+r.IntN(12))
		p := device(r, c)
		if k%2 == 0 {
			smooth(r, c)
			low, high := Range(c)
			p.Memory = low + r.Float64()*(high-low)
		}
		bounds, err := Bounds(c, p)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range methods() {
			got, err := m.run(context.Background(), c, p)
			if err != nil {
				if !errors.Is(err, plan.ErrNoPlan) || m.name != "tflms" {
					t.Fatalf("%s: %v\n%+v %+v", m.name, err, c, p)
				}
				continue
			}
			found[m.name]++
			verify(t, c, got)
			for _, b := range bounds {
				if got.Claims.Makespan < b.Value*(1-1e-9) {
					t.Fatalf("%s takes %v, below bound %+v\n%+v %+v", m.name, got.Claims.Makespan, b, c, p)
				}
			}
		}
	}
	if found["tflms"] < 100 {
		t.Fatalf("tflms found %d plans", found["tflms"])
	}
}

// optimum is the least makespan of the integral model, by trying every order of
// starts; pruned by time only. Small N.
func optimum(in *instance) float64 {
	n := in.n
	left := make([]float64, 2*n+1) // computing time from computation c on
	for c := 2*n - 1; c >= 0; c-- {
		left[c] = left[c+1] + in.duration(c)
	}
	best := math.Inf(1)
	var search func(m *machine, now float64, c int)
	search = func(m *machine, now float64, c int) {
		if c == 2*n {
			best = min(best, m.compute.end)
			return
		}
		if max(now, m.compute.end)+left[c] >= best {
			return
		}
		next := func(e, c int) {
			copied := *m
			copied.ends = append([]float64(nil), m.ends...)
			copied.out = append([]float64(nil), m.out...)
			copied.back = append([]float64(nil), m.back...)
			if t, ok := copied.begin(e, now); ok {
				search(&copied, t, c)
			}
		}
		next(c, c+1)
		for i := range n - 1 {
			if in.abar[i] == 0 {
				continue
			}
			if m.out[i] < 0 {
				next(2*n+i, c)
			} else if m.back[i] < 0 {
				next(3*n+i, c)
			}
		}
	}
	m := newMachine(in)
	m.reset()
	search(m, 0, 0)
	return best
}

// bestOrders is the least makespan of Schedule over all sets and pairs of orders.
func bestOrders(in *instance) float64 {
	s := newScheduler(in)
	best := math.Inf(1)
	var offload, fetch []int
	var extend func(used int)
	var order func(left int)
	order = func(left int) {
		if left == 0 {
			s.offload, s.fetch = offload, fetch
			best = min(best, s.evaluate())
			return
		}
		for i := range in.n {
			if left&(1<<i) != 0 {
				fetch = append(fetch, i)
				order(left &^ (1 << i))
				fetch = fetch[:len(fetch)-1]
			}
		}
	}
	extend = func(used int) {
		order(used)
		for i := range in.n {
			if used&(1<<i) == 0 {
				offload = append(offload, i)
				extend(used | 1<<i)
				offload = offload[:len(offload)-1]
			}
		}
	}
	extend(0)
	return best
}

// The errata's list of what is confirmed: the best pair of orders is the
// integral optimum for N ≤ 3.
func TestBestOrdersAreOptimalForThreeLayers(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	for range 1500 {
		c := exhaustive.RandomChain(r, 1+r.IntN(3))
		p := device(r, c)
		in, err := newInstance(c, p)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := bestOrders(in), optimum(in); math.Abs(got-want) > 1e-9 {
			t.Fatalf("best orders %v, optimum %v\n%+v %+v", got, want, c, p)
		}
	}
}

// mixed is a counterexample of errata 4: a prefetch has to precede an offload.
func mixed(abar, uF []float64, uB, oF2, oF5 float64) *chain.Chain {
	c := &chain.Chain{Name: "errata-4"}
	c.Input.Activation = abar[0]
	for i, a := range abar[1:] {
		c.Layers = append(c.Layers, chain.Layer{ForwardTime: uF[i], BackwardTime: uB, Activation: a, Saved: a})
	}
	c.Layers[1].ForwardOverhead, c.Layers[4].ForwardOverhead = oF2, oF5
	return c
}

type erratum struct {
	chain           *chain.Chain
	device          platform.Platform
	optimum, orders float64
}

func errata() []erratum {
	return []erratum{
		{mixed([]float64{1, 0, 0, 2, 0, 0}, []float64{1, 0, 1, 2, 0}, 0, 3, 2), platform.Platform{Memory: 3, Bandwidth: 1}, 6, 7},
		// Alg. 5 takes 72 here; its schedule needs 73 when whole tensors move.
		{mixed([]float64{10, 0, 0, 20, 0, 0}, []float64{10, 1, 10, 20, 1}, 1, 30, 20), platform.Platform{Memory: 30, Bandwidth: 1}, 66, 73},
	}
}

func TestErrata(t *testing.T) {
	for _, e := range errata() {
		in, err := newInstance(e.chain, e.device)
		if err != nil {
			t.Fatal(err)
		}
		if got := optimum(in); got != e.optimum {
			t.Errorf("optimum %v, want %v", got, e.optimum)
		}
		if got := bestOrders(in); got != e.orders {
			t.Errorf("best orders %v, want %v", got, e.orders)
		}
	}
}
