package remat

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"workbench/model/exhaustive"
	optimumremat "workbench/model/exhaustive/remat"
	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	model "workbench/model/problem/remat"
	"workbench/model/testcase/random"
	"workbench/model/testfile"
	verifyremat "workbench/model/verify/remat"
	"workbench/model/zoo"
)

// A method is one of the methods without options.
type method struct {
	name  string
	solve func(context.Context, *chain.Chain, platform.Platform) (*plan.Plan, error)
}

// exactMethods come with the better ones first where that is a theorem: every
// one is at least as fast as those it lists.
var exactMethods = []struct {
	method
	beats []string
}{
	{method{"floating", Floating}, []string{"persistent"}},
	{method{"persistent", Persistent}, []string{"revolve", "periodic", "store-all"}},
	{method{"revolve", Revolve}, nil},
	{method{"periodic", Periodic}, nil},
	{method{"store-all", func(_ context.Context, c *chain.Chain, p platform.Platform) (*plan.Plan, error) {
		return StoreAll(c, p)
	}}, nil},
}

// makespan is that of the plan, which must keep the rules, or +Inf.
func (x *method) makespan(t testing.TB, c *chain.Chain, memory float64) float64 {
	t.Helper()
	p, err := x.solve(context.Background(), c, platform.Platform{Memory: memory})
	if errors.Is(err, plan.ErrNoPlan) || errors.As(err, new(*plan.Infeasible)) {
		return math.Inf(1)
	}
	if err != nil {
		t.Fatalf("%s: %v", x.name, err)
	}
	return verified(t, c, p)
}

func verified(t testing.TB, c *chain.Chain, p *plan.Plan) float64 {
	t.Helper()
	r, err := verifyremat.Verify(c, p)
	if err != nil {
		t.Fatal(err)
	}
	if !r.Valid() || len(r.ClaimErrors) > 0 {
		t.Fatalf("%s in %g bytes: %v %v\n%+v\n%v", p.Method, p.Platform.Memory, r.Violations, r.ClaimErrors, c, p.Ops)
	}
	return r.Makespan
}

// near says that two sums of the same times are equal.
func equal(x, y float64) bool { return x == y || math.Abs(x-y) <= 1e-9*math.Abs(x+y) }

// exhaustively is the optimum, +Inf if no plan exists.
func exhaustively(t testing.TB, c *chain.Chain, memory float64) float64 {
	t.Helper()
	best, _, err := optimumremat.Search(c, memory, 1<<16)
	if errors.Is(err, exhaustive.ErrInfeasible) {
		return math.Inf(1)
	}
	if err != nil {
		t.Fatal(err)
	}
	return best
}

// memories are limits worth trying: breakpoints of the curves, just below them,
// and below the least.
func memories(t testing.TB, c *chain.Chain) []float64 {
	t.Helper()
	_, high := Range(c)
	all := []float64{high + 1}
	if high == 0 {
		return all
	}
	k, err := PersistentCurve(context.Background(), c, high)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range k.Points() {
		for _, m := range []float64{x.Memory, x.Memory - 1} {
			if m > 0 {
				all = append(all, m)
			}
		}
	}
	return all
}

// No method beats exhaustive search, none finds a plan where there is none, and
// the methods come in order. Bounds hold.
func TestRandomChains(t *testing.T) {
	r := testfile.Random(t, 3, 1)
	worse := map[string]int{}
	instances := 0
	for i := range testfile.Cases(2000) {
		c := random.Chain(r, 1+i%5)
		if i%7 == 0 {
			spread(r, c)
		}
		least, err := optimumremat.LeastMemory(c, 1<<16)
		if err != nil {
			t.Fatal(err)
		}
		if bound, why := model.FromChain(c).LeastBound(); bound > least {
			t.Fatalf("LeastBound is %g by %s, but a plan exists in %g: %+v", bound, why, least, c)
		} else if bound < least {
			worse["least bound"]++
		}
		low, high := Range(c)
		if low != least || high < low {
			t.Fatalf("range %g..%g, least memory %g: %+v", low, high, least, c)
		}
		ms := memories(t, c)
		if least > 0 {
			ms = append(ms, least)
		}
		for k, memory := range ms {
			if k > 3 && k < len(ms)-1 {
				continue
			}
			instances++
			optimum := exhaustively(t, c, memory)
			best := map[string]float64{}
			for _, x := range exactMethods {
				m := x.makespan(t, c, memory)
				best[x.name] = m
				if m < optimum && !equal(m, optimum) {
					t.Fatalf("%s takes %g, the optimum %g, in %g bytes: %+v", x.name, m, optimum, memory, c)
				}
				if m > optimum && !equal(m, optimum) {
					worse[x.name]++
				}
			}
			for _, x := range exactMethods {
				for _, y := range x.beats {
					if best[x.name] > best[y] && !equal(best[x.name], best[y]) {
						t.Fatalf("%s takes %g, %s %g, in %g bytes: %+v", x.name, best[x.name], y, best[y], memory, c)
					}
				}
			}
			if memory >= high && !equal(best["store-all"], c.TotalTime()) {
				t.Fatalf("store-all takes %g, not %g: %+v", best["store-all"], c.TotalTime(), c)
			}
			bounds, err := Bounds(c, platform.Platform{Memory: memory})
			if err != nil {
				if !math.IsInf(optimum, 1) {
					t.Fatalf("%v, but the optimum is %g: %+v", err, optimum, c)
				}
				continue
			}
			for _, b := range bounds {
				if b.Value > optimum*(1+1e-9) {
					t.Fatalf("bound %g by %s, the optimum is %g, in %g bytes: %+v", b.Value, b.By, optimum, memory, c)
				}
			}
			if !equal(bounds[0].Value, optimum) && !math.IsInf(optimum, 1) {
				worse["bound"]++
			}
		}
	}
	// A test in which nothing differs would show nothing.
	for _, name := range []string{"floating", "persistent", "revolve", "periodic", "least bound", "bound"} {
		if worse[name] == 0 && !(testing.Short() && name == "least bound") { // which is rare
			t.Errorf("%s is always the optimum", name)
		}
	}
	t.Logf("%d instances; not the optimum: %v", instances, worse)
}

// spread gives c sizes of many magnitudes, and times that hardly ever tie.
func spread(r *rand.Rand, c *chain.Chain) {
	size := func(x float64) float64 { return math.Floor(x * math.Pow(10, 9*r.Float64())) }
	c.Input.Activation, c.Input.Gradient = size(c.Input.Activation), size(c.Input.Gradient)
	for i := range c.Layers {
		l := &c.Layers[i]
		more := l.Saved - l.Activation
		l.Activation, l.Gradient = size(l.Activation), size(l.Gradient)
		l.Saved = l.Activation + size(more)
		l.ForwardOverhead, l.BackwardOverhead = size(l.ForwardOverhead), size(l.BackwardOverhead)
		l.CheckpointOverhead = size(l.CheckpointOverhead)
		l.ClampOverhead()
		l.ForwardTime *= 0.1 + r.Float64()
		l.BackwardTime *= 1e-7
	}
}

// slowPersistent is C_MP(s,t,m) of [004] (2.9)-(2.10) as it stands there, or
// without C_1.
func slowPersistent(c *chain.Chain, revolve bool, s, t int, m float64) float64 {
	v := model.FromChain(c)
	inf := math.Inf(1)
	all := max(v.Delta[t]+v.Abar[s]+v.OF[s], v.Abar[s]+v.Delta[s]+v.Delta[s-1]+v.OB[s])
	if s == t {
		if m < all {
			return inf
		}
		return v.UF[s] + v.UB[s]
	}
	best := inf
	if m >= all && !revolve {
		best = v.UF[s] + slowPersistent(c, revolve, s+1, t, m-v.Abar[s]) + v.UB[s]
	}
	for h := s; h <= t; h++ {
		need := v.Delta[t] + v.A[h] + v.OC[h]
		if h > s {
			need += v.A[h-1]
		}
		if m < need {
			return best
		}
	}
	forward := 0.0
	for k := s; k < t; k++ {
		forward += v.UF[k]
		best = min(best, forward+slowPersistent(c, revolve, k+1, t, m-v.A[k])+slowPersistent(c, revolve, s, k, m))
	}
	return best
}

// slowFloating is C_FL(s,t,ℓ,m) of [004] (2.4)-(2.8) as printed, or with moves of
// the base checked.
func slowFloating(v *model.View, printed bool, s, t, l int, m float64) float64 {
	inf := math.Inf(1)
	all := max(v.Delta[t]+v.Abar[s]+v.OF[s], v.Abar[s]+v.Delta[s]+v.Delta[s-1]+v.OB[s])
	if s == t {
		if m < all {
			return inf
		}
		return v.UF[s] + v.UB[s]
	}
	forward := func(base, h int) float64 {
		if h == base {
			return v.Delta[t] + v.A[h] + v.OC[h]
		}
		return v.Delta[t] + v.A[h-1] + v.A[h] + v.OC[h]
	}
	best := inf
	if s == l && m >= all {
		best = v.UF[s] + slowFloating(v, printed, s+1, t, s+1, m-v.Abar[s]) + v.UB[s]
	}
	for h := s; h <= t; h++ {
		if m < forward(s, h) {
			return best
		}
	}
	for r := s; r <= l; r++ {
		if v.A[s-1] > v.A[r-1] {
			continue
		}
		left := m - v.A[r-1] + v.A[s-1]
		for k := r; k < t; k++ {
			if !printed && left < forward(r, k) {
				break
			}
			time := 0.0
			for h := s; h <= k; h++ {
				time += v.UF[h]
			}
			for last := max(k, l) + 1; last <= t; last++ {
				if x := slowFloating(v, printed, k+1, t, last, left-v.A[k]); time+x < best {
					best = min(best, time+x+slowFloating(v, printed, r, last-1, l, left))
				}
			}
		}
	}
	return best
}

// The step functions are the recurrences, at their breakpoints and between.
func TestRecurrences(t *testing.T) {
	r := testfile.Random(t, 5, 8)
	for i := range testfile.Cases(400) {
		c := random.Chain(r, 1+i%6)
		v := model.FromChain(c)
		n := c.Len()
		ctx := context.Background()
		_, high := Range(c)
		if high == 0 {
			continue
		}
		for _, x := range []struct {
			name  string
			curve func(context.Context, *chain.Chain, float64) (*Curve, error)
			slow  func(m float64) float64
		}{
			{"persistent", PersistentCurve, func(m float64) float64 { return slowPersistent(c, false, 1, n, m) }},
			{"revolve", RevolveCurve, func(m float64) float64 { return slowPersistent(c, true, 1, n, m) }},
			{"floating", FloatingCurve, func(m float64) float64 { return slowFloating(v, false, 1, n, 1, m) }},
			{"floating-printed", func(ctx context.Context, c *chain.Chain, most float64) (*Curve, error) {
				return newCurve(ctx, "floating-printed", c, most, 0)
			}, func(m float64) float64 { return slowFloating(v, true, 1, n, 1, m) }},
		} {
			k, err := x.curve(ctx, c, high)
			if err != nil {
				t.Fatal(err)
			}
			last := Point{-1, math.Inf(1)}
			for _, p := range append(k.Points(), Point{high + 1, 0}) {
				if p.Memory <= last.Memory || p.Makespan >= last.Makespan && p.Memory <= high {
					t.Fatalf("%s: %v after %v", x.name, p, last)
				}
				// All numbers are whole.
				if before := x.slow(p.Memory - 1 - v.A[0]); !equal(before, last.Makespan) && last.Memory < p.Memory-1 {
					t.Fatalf("%s below %g bytes: %g, the recurrence has %g: %+v", x.name, p.Memory, last.Makespan, before, c)
				}
				if p.Memory > high {
					break
				}
				if want := x.slow(p.Memory - v.A[0]); !equal(want, p.Makespan) {
					t.Fatalf("%s in %g bytes: %g, the recurrence has %g: %+v", x.name, p.Memory, p.Makespan, want, c)
				}
				if p.Memory == 0 {
					continue
				}
				q, err := k.Plan(p.Memory)
				if err != nil {
					t.Fatal(err)
				}
				if !equal(q.Claims.Makespan, p.Makespan) {
					t.Fatalf("%s in %g bytes: the plan takes %g, not %g: %+v", x.name, p.Memory, q.Claims.Makespan, p.Makespan, c)
				}
				if x.name != "floating-printed" {
					verified(t, c, q)
				}
				last = p
			}
			var none *plan.Infeasible
			if _, err := k.Plan(k.start() - 1); !errors.Is(err, plan.ErrNoPlan) && !errors.As(err, &none) {
				t.Fatalf("%s: %v", x.name, err)
			}
		}
	}
}

func (k *Curve) start() float64 {
	if p := k.Points(); len(p) > 0 {
		return p[0].Memory
	}
	return 0
}

// exactFigure23 is the family of [004] Fig. 2.3.
func exactFigure23(n int) *chain.Chain {
	c := &chain.Chain{Name: fmt.Sprintf("fig-2.3-n%d", n)}
	for l := 1; l <= n+3; l++ {
		x := chain.Layer{Activation: 3}
		switch l {
		case 1:
			x.ForwardTime, x.Activation = float64(n-2), 1
		case 2:
			x.ForwardTime = 2
		case n + 2:
			x.Activation = 4
		case n + 3:
			x.Activation = 0
		}
		x.Saved, x.Gradient = x.Activation, x.Activation
		c.Layers = append(c.Layers, x)
	}
	return c
}

func TestExactFigure23(t *testing.T) {
	for n := 4; n <= 8; n++ {
		c := exactFigure23(n)
		p, err := FloatingPrinted(context.Background(), c, platform.Platform{Memory: 15})
		if err != nil {
			t.Fatal(err)
		}
		if p.Claims.Makespan != float64(2*n+2) {
			t.Errorf("n = %d: floating as printed takes %g, want %d", n, p.Claims.Makespan, 2*n+2)
		}
		for _, x := range []struct {
			method
			want int
		}{{method{"persistent", Persistent}, 3*n - 2}, {method{"floating", Floating}, 2*n + 2}} {
			if got := x.makespan(t, c, 15); got != float64(x.want) {
				t.Errorf("n = %d: %s takes %g, want %d", n, x.name, got, x.want)
			}
		}
	}
}

// chainOf has ā = a = δ and the given vectors, which start at layer 1 and are 0
// where they end.
func chainOf(input float64, a, uF, oF []float64) *chain.Chain {
	c := &chain.Chain{Name: "example", Input: chain.Input{Activation: input, Gradient: input}}
	for i, x := range a {
		l := chain.Layer{Activation: x, Saved: x, Gradient: x}
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

// Where the thesis fails: the counterexamples to Theorem 5, to (2.6), and to the
// least memory of 4.4.
func TestExactCounterexamples(t *testing.T) {
	ctx := context.Background()
	printed := method{"floating-printed", FloatingPrinted}
	t.Run("Theorem 5", func(t *testing.T) {
		c := chainOf(0, []float64{1, 0, 1}, []float64{0, 1, 0}, nil)
		if got := exactMethods[0].makespan(t, c, 2); got != 2 {
			t.Errorf("floating takes %g, want 2", got)
		}
		if got := printed.makespan(t, c, 2); got != 2 {
			t.Errorf("floating as printed takes %g, want 2", got)
		}
		if got := exhaustively(t, c, 2); got != 1 {
			t.Errorf("the optimum is %g, want 1", got)
		}
	})
	for _, x := range []struct {
		c                        *chain.Chain
		memory, claimed, optimum float64
	}{
		{chainOf(1, []float64{2, 3, 2, 1, 2}, []float64{1, 1, 0, 0, 1}, []float64{3, 1, 1, 3, 1}), 11, 5, 6},
		{chainOf(1, []float64{0, 2, 2, 2, 0, 3}, []float64{0, 1, 2}, []float64{0, 3, 0, 0, 3, 1}), 10, 6, 7},
	} {
		t.Run("(2.6)", func(t *testing.T) {
			p, err := FloatingPrinted(ctx, x.c, platform.Platform{Memory: x.memory})
			if err != nil {
				t.Fatal(err)
			}
			r, err := verifyremat.Verify(x.c, p)
			if err != nil {
				t.Fatal(err)
			}
			if r.Makespan != x.claimed || r.Valid() || r.PeakMemory <= x.memory {
				t.Errorf("as printed: makespan %g, want %g, peak %g in %g bytes", r.Makespan, x.claimed, r.PeakMemory, x.memory)
			}
			if got := exactMethods[0].makespan(t, x.c, x.memory); got < x.optimum {
				t.Errorf("floating takes %g, the optimum is %g", got, x.optimum)
			}
			if got := exhaustively(t, x.c, x.memory); got != x.optimum {
				t.Errorf("the optimum is %g, want %g", got, x.optimum)
			}
		})
	}
	t.Run("least memory", func(t *testing.T) {
		c := chainOf(0, []float64{1, 0}, nil, []float64{1, 1})
		if low, _ := Range(c); low != 2 || recomputeAll(model.FromChain(c)) != 3 {
			t.Errorf("low is %g, want 2; computing everything again takes %g, want 3", low, recomputeAll(model.FromChain(c)))
		}
		c = chainOf(1, []float64{1, 1, 0}, nil, []float64{0, 2, 3})
		for _, x := range exactMethods {
			if got := x.makespan(t, c, 5); !math.IsInf(got, 1) {
				t.Errorf("%s takes %g in 5 bytes", x.name, got)
			}
		}
		if got := exhaustively(t, c, 5); math.IsInf(got, 1) {
			t.Error("a plan exists in 5 bytes")
		}
		if least, _ := model.FromChain(c).LeastBound(); least > 5 {
			t.Errorf("LeastBound is %g, but a plan exists in 5 bytes", least)
		}
	})
}

// One layer, nothing to store, no time: every method has a plan.
func TestExactTiny(t *testing.T) {
	one := chainOf(2, []float64{3}, []float64{1}, []float64{1})
	zeros := chainOf(0, make([]float64, 6), nil, nil)
	for _, x := range exactMethods {
		if got := x.makespan(t, one, 12); got != 1 { // B_1: a_0, ā_1, δ_1, δ_0
			t.Errorf("%s takes %g for one layer, want 1", x.name, got)
		}
		if got := x.makespan(t, zeros, 1e-9); got != 0 {
			t.Errorf("%s takes %g for nothing", x.name, got)
		}
	}
	if least, why := model.FromChain(one).LeastBound(); least != 10 || why == "" {
		t.Errorf("least memory %g (%s), want 10", least, why)
	}
	var infeasible *plan.Infeasible
	if _, err := StoreAll(one, platform.Platform{Memory: 9}); !errors.As(err, &infeasible) || infeasible.Memory != 10 {
		t.Errorf("%v", err)
	}
}

func TestExactBadInput(t *testing.T) {
	c := chainOf(1, []float64{1, 1, 1}, []float64{1, 1, 1}, nil)
	bad := *c
	bad.Layers = append([]chain.Layer(nil), c.Layers...)
	bad.Layers[1].ForwardTime = math.NaN()
	for _, x := range exactMethods {
		for _, y := range []struct {
			c      *chain.Chain
			memory float64
			want   error
		}{
			{&chain.Chain{}, 1, model.ErrChain},
			{&bad, 10, model.ErrChain},
			{c, math.NaN(), model.ErrPlatform},
			{c, math.Inf(1), model.ErrPlatform},
			{c, -1, model.ErrPlatform},
		} {
			if _, err := x.solve(context.Background(), y.c, platform.Platform{Memory: y.memory}); !errors.Is(err, y.want) {
				t.Errorf("%s: %v, want %v", x.name, err, y.want)
			}
		}
	}
	if _, err := Bounds(c, platform.Platform{Memory: -1}); !errors.Is(err, model.ErrPlatform) {
		t.Errorf("%v", err)
	}
}

func TestExactStops(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	c := exactFigure23(5)
	for _, x := range exactMethods[:4] {
		if _, err := x.solve(ctx, c, platform.Platform{Memory: 15}); !errors.Is(err, context.Canceled) || !errors.Is(err, plan.ErrNoPlan) {
			t.Errorf("%s: %v", x.name, err)
		}
	}
	long := &chain.Chain{Name: "long", Layers: make([]chain.Layer, testfile.Cases(200_000))}
	for _, x := range exactMethods[:3] {
		if _, err := x.solve(context.Background(), long, platform.Platform{Memory: 1}); !errors.As(err, new(*TooLargeError)) {
			t.Errorf("%s: %v", x.name, err)
		}
	}
	if low, high := Range(long); low != 0 || high != 0 {
		t.Errorf("range %g..%g", low, high)
	}
	if b, err := Bounds(long, platform.Platform{Memory: 1}); err != nil || b[0].Value != 0 {
		t.Errorf("%v, %v", b, err)
	}
}

// Plans within a budget are those of the whole curve.
func TestBudget(t *testing.T) {
	r := testfile.Random(t, 2, 7)
	for i := range testfile.Cases(30) {
		c := random.Chain(r, 15+i%4)
		if i%3 == 0 { // times that are all different
			for l := range c.Layers {
				c.Layers[l].ForwardTime = r.Float64()
			}
		}
		_, high := Range(c)
		for _, x := range []struct {
			method
			curve func(context.Context, *chain.Chain, float64) (*Curve, error)
		}{
			{method{"persistent", Persistent}, PersistentCurve},
			{method{"floating", Floating}, FloatingCurve},
			{method{"revolve", Revolve}, RevolveCurve},
		} {
			k, err := x.curve(context.Background(), c, max(high, 1))
			if err != nil {
				t.Fatal(err)
			}
			points := k.Points()
			for j := 0; j < len(points); j += 1 + len(points)/6 {
				p := points[j]
				if p.Memory == 0 {
					continue
				}
				if got := x.makespan(t, c, p.Memory); !equal(got, p.Makespan) {
					t.Fatalf("%s in %g bytes: %g, the curve has %g: %+v", x.name, p.Memory, got, p.Makespan, c)
				}
			}
		}
	}
}

// A budget that is just enough leaves the optimum, one that is not leaves nothing.
func TestTightBudget(t *testing.T) {
	r := testfile.Random(t, 1, 4)
	ctx := context.Background()
	for i := range testfile.Cases(600) {
		c := random.Chain(r, 2+i%6)
		v := model.FromChain(c).RoundedDown(c.Len())
		_, high := Range(c)
		for _, name := range []string{"persistent", "floating", "revolve"} {
			d, err := newProgram(name, v)
			if err != nil {
				t.Fatal(err)
			}
			if err := d.fill(ctx, high, nil); err != nil {
				t.Fatal(err)
			}
			all := *d.whole()
			for j, m := range all.m {
				want, most := all.c[j], m+v.A[0]
				if err := d.fill(ctx, most, newBudget(ctx, v, most, want, name == "revolve")); err != nil {
					t.Fatal(err)
				}
				if got := d.whole().value(m); got != want {
					t.Fatalf("%s in %g bytes: %g, want %g: %+v", name, most, got, want, c)
				}
				if err := d.fill(ctx, most, newBudget(ctx, v, most, want-0.5, name == "revolve")); err != nil {
					t.Fatal(err)
				}
				if got := d.whole().value(m); !math.IsInf(got, 1) {
					t.Fatalf("%s in %g bytes: %g, the budget is %g: %+v", name, most, got, want-0.5, c)
				}
			}
		}
	}
}

// Beyond 512 layers bounds are weaker, but hold and say something.
func TestBoundsLong(t *testing.T) {
	c := &chain.Chain{Name: "long"}
	for i := range testfile.Cases(700) {
		a := float64(1 + i%3)
		c.Layers = append(c.Layers, chain.Layer{ForwardTime: float64(1 + i%2), BackwardTime: 1, Activation: a, Saved: 4 + a, Gradient: a})
	}
	low, high := Range(c)
	memory := (low + high) / 2
	b, err := Bounds(c, platform.Platform{Memory: memory})
	if err != nil {
		t.Fatal(err)
	}
	best := exactMethods[3].makespan(t, c, memory)
	if b[0].By != "stored-set" || b[0].Value < 1.1*c.TotalTime() || b[0].Value > best {
		t.Errorf("bounds %v, Σu %g, periodic %g", b, c.TotalTime(), best)
	}
}

// PyTorch's segments: of 7 layers and a loss, 3 segments are 2, 2 and 3 layers.
func TestPeriodicSegments(t *testing.T) {
	c := chainOf(1, make([]float64, 8), nil, nil)
	for i := range c.Layers {
		c.Layers[i].ForwardTime, c.Layers[i].BackwardTime = 1, 10
	}
	got := ""
	for _, o := range PeriodicSegments(c, 3).Ops {
		got += fmt.Sprintf("%s%d ", o.Op, o.Layer)
	}
	want := "F_ck1 F_none2 F_ck3 F_none4 F_all5 F_all6 F_all7 F_all8 B8 B7 B6 B5 F_all3 F_all4 B4 B3 F_all1 F_all2 B2 B1 "
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	v := model.FromChain(c)
	if n, one, three := segments(v), periodicPoint(v, 1), periodicPoint(v, 3); n != 7 || one.Makespan != 88 || three.Makespan != 92 {
		t.Errorf("up to %d segments; 1: %v, 3: %v", n, one, three)
	}
	for k := 1; k <= segments(v); k++ {
		p, x := PeriodicSegments(c, k), periodicPoint(v, k)
		if verified(t, c, p) != x.Makespan || p.Claims.PeakMemory != x.Memory {
			t.Errorf("%d segments: %+v, point %+v", k, p.Claims, x)
		}
	}
}

// On networks: the ends of the range are what they are said to be, plans keep
// the rules, and bounds are below them.
func TestExactNetworks(t *testing.T) {
	for _, name := range testfile.Few(1, "vgg16", "resnet50", "gpt2", "mobilenet", "densenet121") {
		c, err := zoo.Load("zoo:" + name)
		if err != nil {
			t.Fatal(err)
		}
		low, high := Range(c)
		for _, x := range exactMethods {
			last := math.Inf(1)
			for _, f := range []float64{0, 0.1, 0.3, 0.6, 1} {
				if x.name == "floating" && c.Len() > 30 {
					continue
				}
				memory := low + f*(high-low)
				m := x.makespan(t, c, memory)
				if m > last*(1+1e-9) {
					t.Errorf("%s on %s: %g in %g bytes, %g in less", x.name, name, m, memory, last)
				}
				last = m
				b, err := Bounds(c, platform.Platform{Memory: memory})
				if err != nil || b[0].Value > m*(1+1e-9) {
					t.Errorf("%s on %s: %g, bounds %v, %v", x.name, name, m, b, err)
				}
			}
		}
		// Nothing at all fits in less than low.
		if least, why := model.FromChain(c).LeastBound(); !equal(least, low) {
			t.Errorf("%s: low is %g, but %g is proved (%s)", name, low, least, why)
		}
		persistent := exactMethods[1]
		if m := persistent.makespan(t, c, low*(1-1e-6)); !math.IsInf(m, 1) {
			t.Errorf("persistent on %s takes %g below %g bytes", name, m, low)
		}
		if m := persistent.makespan(t, c, high); !equal(m, c.TotalTime()) {
			t.Errorf("persistent on %s takes %g in %g bytes, want %g", name, m, high, c.TotalTime())
		}
	}
}
