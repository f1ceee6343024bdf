package remat

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"workbench/model/exhaustive"
	optimumremat "workbench/model/exhaustive/remat"
	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/proof"
	"workbench/model/testfile"
	verifyremat "workbench/model/verify/remat"
	"workbench/model/zoo"
)

// anyChain returns a random chain of at most so many layers: small whole
// numbers, so that ties and zeros are common. kind says what differs: 1 ā from
// a, 2 δ from a, 4 overheads.
func anyChain(r *rand.Rand, layers, kind int) *chain.Chain {
	below := func(k int) float64 { return float64(r.IntN(k)) }
	c := &chain.Chain{Name: "random", Input: chain.Input{Activation: below(3)}}
	c.Input.Gradient = c.Input.Activation
	for range 1 + r.IntN(layers) {
		l := chain.Layer{ForwardTime: below(4), BackwardTime: below(3), Activation: below(4)}
		l.Saved, l.Gradient = l.Activation, l.Activation
		if kind&1 != 0 {
			l.Saved += below(3)
		}
		if kind&2 != 0 {
			l.Gradient = below(4)
		}
		if kind&4 != 0 {
			l.ForwardOverhead, l.BackwardOverhead = below(4), below(4)
			l.CheckpointOverhead = l.ForwardOverhead + min(l.Saved-l.Activation, l.BackwardOverhead)
		}
		c.Layers = append(c.Layers, l)
	}
	return c
}

// check verifies the plan and returns its makespan.
func check(t interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
}, c *chain.Chain, p *plan.Plan,
) float64 {
	t.Helper()
	r, err := verifyremat.Verify(c, p)
	if err != nil {
		t.Fatal(err)
	}
	if !r.Valid() || len(r.ClaimErrors) > 0 {
		t.Fatalf("%v %v\n%+v\n%+v", r.Violations, r.ClaimErrors, c, p.Ops)
	}
	return r.Makespan
}

// TestPlansAreTheSame runs every method 20 times on 20 chains full of ties: the plan is the same each time.
func TestPlansAreTheSame(t *testing.T) {
	type method func(context.Context, *chain.Chain, platform.Platform) (*plan.Plan, error)
	methods := map[string]method{
		"periodic": Periodic, "revolve": Revolve, "persistent": Persistent, "floating": Floating,
		"persistent-slots": func(ctx context.Context, c *chain.Chain, p platform.Platform) (*plan.Plan, error) {
			return PersistentSlots(ctx, c, p, 50)
		},
		"floating-slots": func(ctx context.Context, c *chain.Chain, p platform.Platform) (*plan.Plan, error) {
			return FloatingSlots(ctx, c, p, 50)
		},
		"optimum": func(ctx context.Context, c *chain.Chain, p platform.Platform) (*plan.Plan, error) {
			r, err := Optimum(ctx, c, p, nil)
			if err != nil {
				return nil, err
			}
			return r.Plan, nil
		},
	}
	r := testfile.Random(t, 21, 1)
	compared := map[string]int{}
	for k := range 20 {
		c := anyChain(r, 9, k%8)
		low, high := Range(c)
		p := platform.Platform{Memory: math.Floor((low + high) / 2)}
		for name, solve := range methods {
			first, err := solve(t.Context(), c, p)
			if err != nil {
				continue // less than this method needs
			}
			for range 19 {
				other, err := solve(t.Context(), c, p)
				if err != nil || !slices.Equal(first.Ops, other.Ops) {
					t.Fatalf("%s: %v, then %v (%v): %+v at %v", name, first.Ops, other, err, c, p.Memory)
				}
			}
			compared[name]++
		}
	}
	for name := range methods {
		if compared[name] < 10 {
			t.Errorf("%s: a plan on %d of 20 chains", name, compared[name])
		}
	}
}

// Optimum and LeastMemory are exhaustive search on small chains, whatever their
// numbers.
func TestOptimumIsExhaustive(t *testing.T) {
	r := testfile.Random(t, 3, 1)
	var searched, tight int
	cases := testfile.Cases(4000)
	for k := range cases {
		c := anyChain(r, 5, k%8)
		least, err := optimumremat.LeastMemory(c, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		m, leastPlan, proved, err := LeastMemory(t.Context(), c)
		if err != nil || !proved || m != least {
			t.Fatalf("least memory %v (proved: %v, %v), should be %v: %+v", m, proved, err, least, c)
		}
		if least > 0 {
			check(t, c, leastPlan)
		}
		p := platform.Platform{Memory: least - 1 + float64(r.IntN(7))}
		if p.Memory <= 0 {
			continue
		}
		want, _, err := optimumremat.Search(c, p.Memory, 1<<20)
		got, search, gotErr := searchIn(t.Context(), c, p, optimumLimits)
		if errors.Is(err, exhaustive.ErrInfeasible) {
			var none *plan.Infeasible
			if !errors.As(gotErr, &none) || none.Memory != least {
				t.Fatalf("%v, should be infeasible with %v: %+v", gotErr, least, c)
			}
			continue
		}
		if err != nil || gotErr != nil {
			t.Fatal(err, gotErr)
		}
		if makespan := check(t, c, got.Plan); makespan != want || got.Value != want || !got.Proved {
			t.Fatalf("makespan %v, bound %v, proved %v; should be %v in %v: %+v", makespan, got.Value, got.Proved, want, p.Memory, c)
		}
		if search {
			searched++
		}
		// Without the search, and with hardly any of it, the bound stays one.
		for _, o := range []limits{{-1, optimumLimits.steps}, {20, optimumLimits.steps}, {optimumLimits.states, 3}} {
			part, _, err := searchIn(t.Context(), c, p, o)
			if errors.Is(err, plan.ErrNoPlan) {
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			makespan := check(t, c, part.Plan)
			if makespan < want || part.Value > want || part.Proved && makespan != want {
				t.Fatalf("%+v: makespan %v, bound %v, proved %v; should be %v in %v: %+v", o, makespan, part.Value, part.Proved, want, p.Memory, c)
			}
			if o.states < 0 && part.Proved {
				tight++
			}
		}
	}
	t.Logf("%d of %d needed the search, %d did not", searched, cases, tight)
	if searched < cases/200 || tight < cases/2 {
		t.Error("one of the two ways is hardly tested")
	}
}

// Sizes of many magnitudes, memory at what subsets need and one unit around it,
// times that hardly ever tie and are as short or long as you like.
func TestOptimumMagnitudes(t *testing.T) {
	searched := 0
	testfile.Property(t, func(t *rapid.T) {
		c, memory := magnitudes(t, 6)
		least, err := optimumremat.LeastMemory(c, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		m, p, proved, err := LeastMemory(context.Background(), c)
		if err != nil || !proved || m != least || p.Claims.PeakMemory != least {
			t.Fatalf("least memory %v (proved: %v, %v), should be %v", m, proved, err, least)
		}
		want, _, err := optimumremat.Search(c, memory, 1<<20)
		got, search, gotErr := searchIn(context.Background(), c, platform.Platform{Memory: memory}, optimumLimits)
		if memory < least {
			var none *plan.Infeasible
			if !errors.As(gotErr, &none) || none.Memory > least || none.Memory <= memory {
				t.Fatalf("%v, should be infeasible with %v", gotErr, least)
			}
			return
		}
		if err != nil || gotErr != nil {
			t.Fatal(err, gotErr)
		}
		if makespan := check(t, c, got.Plan); !equal(makespan, want) || !got.Proved || !equal(got.Value, want) {
			t.Fatalf("makespan %v, bound %v, proved %v; should be %v in %v", makespan, got.Value, got.Proved, want, memory)
		}
		if search {
			searched++
		}
	})
	t.Logf("%d needed the search", searched)
}

// magnitudes draws a chain of at most so many layers, sizes from 1 to 10^12 and
// times from 10^-12 to 10^6 s, most of them 0 or small multiples of powers of
// ten, and a memory that is a sum of sizes, or one unit or a few beside it.
func magnitudes(t *rapid.T, layers int) (*chain.Chain, float64) {
	size := rapid.Custom(func(t *rapid.T) float64 {
		if rapid.IntRange(0, 2).Draw(t, "none") == 0 {
			return 0
		}
		return float64(rapid.SampledFrom([]int{1, 1, 2, 3}).Draw(t, "digit")) * math.Pow10(rapid.IntRange(0, 12).Draw(t, "magnitude"))
	})
	scale := math.Pow10(rapid.IntRange(-12, 6).Draw(t, "time scale"))
	time := rapid.Custom(func(t *rapid.T) float64 {
		return scale * float64(rapid.IntRange(0, 9).Draw(t, "time")) * math.Pow10(-rapid.IntRange(0, 3).Draw(t, "shorter"))
	})
	c := &chain.Chain{Name: "magnitudes", Input: chain.Input{Activation: size.Draw(t, "a_0"), Gradient: size.Draw(t, "δ_0")}}
	memory := c.Input.Activation
	for range rapid.IntRange(1, layers).Draw(t, "layers") {
		l := chain.Layer{ForwardTime: time.Draw(t, "uF"), BackwardTime: time.Draw(t, "uB"), Activation: size.Draw(t, "a")}
		l.Saved = l.Activation + size.Draw(t, "ā-a")
		l.Gradient = rapid.SampledFrom([]float64{0, l.Activation, size.Draw(t, "δ")}).Draw(t, "gradient")
		if rapid.Bool().Draw(t, "overheads") {
			l.ForwardOverhead, l.BackwardOverhead = size.Draw(t, "oF"), size.Draw(t, "oB")
			l.CheckpointOverhead = size.Draw(t, "oF of F_ck")
			l.ClampOverhead()
		}
		c.Layers = append(c.Layers, l)
	}
	least, err := optimumremat.LeastMemory(c, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	if rapid.Bool().Draw(t, "above the least") {
		memory = least
	}
	for i := range c.Layers {
		l := &c.Layers[i]
		for _, x := range [...]float64{l.Activation, l.Saved, l.Gradient, l.ForwardOverhead + l.BackwardOverhead} {
			if rapid.IntRange(0, 3).Draw(t, "counted") == 0 {
				memory += x
			}
		}
	}
	return c, max(0, memory+float64(rapid.IntRange(-1, 3).Draw(t, "beside")))
}

// An interrupted run returns what it has.
func TestOptimumInterrupted(t *testing.T) {
	c, err := zoo.Load("zoo:resnet50")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	least, start, _, err := LeastMemory(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	p := platform.Platform{Memory: 1.5 * least}
	if _, err := Optimum(ctx, c, p, nil); !errors.Is(err, plan.ErrNoPlan) {
		t.Errorf("no plan can be known: %v", err)
	}
	r, err := Optimum(ctx, c, p, start)
	if err != nil || r.Plan != start || r.Proved || !equal(r.Value, c.TotalTime()) {
		t.Errorf("%+v, %v", r, err)
	}
}

// layers returns a chain of layers 1..N with forward time, activation and
// forward overhead each; ā = δ = a.
func layers(input float64, uF, a, oF []float64) *chain.Chain {
	c := &chain.Chain{Name: "test", Input: chain.Input{Activation: input, Gradient: input}}
	for i := range a {
		l := chain.Layer{ForwardTime: uF[i], Activation: a[i], Saved: a[i], Gradient: a[i]}
		if oF != nil {
			l.ForwardOverhead = oF[i]
		}
		c.Layers = append(c.Layers, l)
	}
	return c
}

// Finding 7 to 3: where the printed recurrences fail.
func TestOptimumErrata(t *testing.T) {
	for _, x := range []struct {
		name           string
		c              *chain.Chain
		memory, expect float64
	}{
		{"1", layers(0, []float64{0, 1, 0}, []float64{1, 0, 1}, nil), 2, 1},
		{"2, N = 5", layers(1, []float64{1, 1, 0, 0, 1}, []float64{2, 3, 2, 1, 2}, []float64{3, 1, 1, 3, 1}), 11, 6},
		{"2, N = 6", layers(1, []float64{0, 1, 2, 0, 0, 0}, []float64{0, 2, 2, 2, 0, 3}, []float64{0, 3, 0, 0, 3, 1}), 10, 7},
		{"3b", layers(1, []float64{0, 0, 0}, []float64{1, 1, 0}, []float64{0, 2, 3}), 5, 0},
	} {
		r, err := Optimum(t.Context(), x.c, platform.Platform{Memory: x.memory}, nil)
		if err != nil {
			t.Fatalf("%s: %v", x.name, err)
		}
		if makespan := check(t, x.c, r.Plan); makespan != x.expect || !r.Proved {
			t.Errorf("%s: makespan %v, proved %v; should be %v", x.name, makespan, r.Proved, x.expect)
		}
	}
	c := layers(0, []float64{0, 0}, []float64{1, 0}, []float64{1, 1})
	if m, _, proved, err := LeastMemory(t.Context(), c); err != nil || m != 2 || !proved {
		t.Errorf("3a: least memory %v, %v, %v; should be 2", m, proved, err)
	}
}

// figure23 is the chain of [004] Fig. 2.3.
func figure23(n int) *chain.Chain {
	uF, a := make([]float64, n+3), make([]float64, n+3)
	uF[0], uF[1] = float64(n-2), 2
	for i := range a {
		a[i] = 3
	}
	a[0], a[n+1], a[n+2] = 1, 4, 0
	return layers(0, uF, a, nil)
}

func TestOptimumFigure23(t *testing.T) {
	for n := 4; n <= 20; n++ {
		c := figure23(n)
		r, err := Optimum(t.Context(), c, platform.Platform{Memory: 15}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if makespan := check(t, c, r.Plan); makespan != float64(2*n) || !r.Proved {
			t.Errorf("n = %d: makespan %v, proved %v; should be %d", n, makespan, r.Proved, 2*n)
		}
	}
}

// Chains of real networks are solved without the search, at every memory.
func TestOptimumOfNetworks(t *testing.T) {
	for _, name := range testfile.Few(2, "resnet18", "gpt2", "resnet50", "vgg16") {
		c, err := zoo.Load(zoo.Scheme + name)
		if err != nil {
			t.Fatal(err)
		}
		least, _, proved, err := LeastMemory(t.Context(), c)
		if err != nil || !proved {
			t.Fatal(name, proved, err)
		}
		total := c.Input.Activation
		for i := range c.Layers {
			l := &c.Layers[i]
			total += l.Saved + 2*l.Gradient + l.ForwardOverhead + l.BackwardOverhead
		}
		last := math.Inf(1)
		for part := 0.0; part <= 1; part += 0.125 {
			p := platform.Platform{Memory: least + part*(total-least)}
			r, search, err := searchIn(t.Context(), c, p, optimumLimits)
			if err != nil {
				t.Fatal(err)
			}
			makespan := check(t, c, r.Plan)
			if !r.Proved || search || makespan > last {
				t.Errorf("%s at %g: proved %v, search %v, makespan %v after %v", name, p.Memory, r.Proved, search, makespan, last)
			}
			last = makespan
		}
		if excess := last/c.TotalTime() - 1; math.Abs(excess) > 1e-9 {
			t.Errorf("%s: %g over the sum of times with ample memory", name, excess)
		}
	}
}

// Bad input is an error that says what is wrong.
func TestOptimumBadInput(t *testing.T) {
	one := layers(0, []float64{1}, []float64{1}, nil)
	for _, x := range []struct {
		c      *chain.Chain
		memory float64
	}{{nil, 1}, {&chain.Chain{}, 1}, {one, math.NaN()}, {one, -1}} {
		if _, err := Optimum(t.Context(), x.c, platform.Platform{Memory: x.memory}, nil); err == nil {
			t.Errorf("no error for %+v in %v", x.c, x.memory)
		}
	}
	long := &chain.Chain{Layers: make([]chain.Layer, testfile.Cases(1_000_000))}
	if _, err := Optimum(t.Context(), long, platform.Platform{Memory: 1}, nil); !errors.Is(err, plan.ErrNoPlan) {
		t.Errorf("a million layers: %v", err)
	}
	if _, _, _, err := LeastMemory(t.Context(), long); !errors.Is(err, plan.ErrNoPlan) {
		t.Errorf("a million layers: %v", err)
	}
}

func BenchmarkOptimum(b *testing.B) {
	for _, name := range []string{"resnet50", "resnet101", "gpt2-large"} {
		c, err := zoo.Load(zoo.Scheme + name)
		if err != nil {
			b.Fatal(err)
		}
		least, _, _, err := LeastMemory(b.Context(), c)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := Optimum(b.Context(), c, platform.Platform{Memory: 1.5 * least}, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// A start bounds the search and may not mislead it: with one and without, at
// every limit, the optimum is the same and proved, and less memory is never
// faster.
func TestOptimumWithAStart(t *testing.T) {
	testfile.Long(t)
	for _, name := range []string{"resnet50"} {
		c, err := zoo.Load(zoo.Scheme + name)
		if err != nil {
			t.Fatal(err)
		}
		low, high := Range(c)
		last := math.Inf(1)
		for k := range 60 {
			p := platform.Platform{Memory: low + (high-low)*float64(k)/59}
			start, err := Persistent(t.Context(), c, p)
			if err != nil {
				t.Fatal(err)
			}
			alone, err := Optimum(t.Context(), c, p, nil)
			if err != nil {
				t.Fatal(err)
			}
			from, err := Optimum(t.Context(), c, p, start)
			if err != nil {
				t.Fatal(err)
			}
			a, b := alone.Plan.Claims.Makespan, from.Plan.Claims.Makespan
			if !alone.Proved || !from.Proved || math.Abs(a-b) > 1e-9*a {
				t.Errorf("%s at %g: %g s (proved: %v), from a start %g s (proved: %v)", name, p.Memory, a, alone.Proved, b, from.Proved)
			}
			if b > last*(1+1e-9) {
				t.Errorf("%s at %g: %g s, with less memory %g s", name, p.Memory, b, last)
			}
			last = b
		}
	}
}

// searchIn is Optimum within limits; searched says that canonical plans did not suffice.
func searchIn(ctx context.Context, c *chain.Chain, p platform.Platform, o limits) (r *proof.Optimum, searched bool, err error) {
	s, err := newOptimum(c, p, nil, o)
	if err != nil {
		return nil, false, err
	}
	r, err = s.run(ctx)
	return r, s.search, err
}
