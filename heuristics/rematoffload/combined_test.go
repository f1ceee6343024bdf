package rematoffload

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"workbench/heuristics/activationoffload"
	"workbench/model/exhaustive"
	optimumrematoffload "workbench/model/exhaustive/rematoffload"
	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	view "workbench/model/problem/rematoffload"
	"workbench/model/testcase/random"
	"workbench/model/testfile"
)

// methods are all methods of the package without options.
var methods = []struct {
	name  string
	solve func(context.Context, *chain.Chain, platform.Platform) (*plan.Plan, error)
}{
	{"pofo", func(ctx context.Context, c *chain.Chain, p platform.Platform) (*plan.Plan, error) {
		return POFO(ctx, c, p, 10)
	}},
	{"opportunist", Opportunist},
	{"autocapper", Autocapper},
	{"pure-remat", PureRemat},
	{"offload-all", OffloadAll},
	{"pure-offload", func(ctx context.Context, c *chain.Chain, p platform.Platform) (*plan.Plan, error) {
		o, err := activationoffload.Greedy(ctx, c, p)
		if err != nil {
			return nil, plan.ErrNoPlan
		}
		return PureOffload(c, p, o)
	}},
	{"search", func(ctx context.Context, c *chain.Chain, p platform.Platform) (*plan.Plan, error) {
		return Search(ctx, c, p, 10)
	}},
}

// makespan is that of the plan, which must keep the rules, or +Inf.
func makespan(t testing.TB, c *chain.Chain, p *plan.Plan, err error) float64 {
	t.Helper()
	if errors.Is(err, plan.ErrNoPlan) {
		return math.Inf(1)
	}
	if err != nil {
		t.Fatal(err)
	}
	return verified(t, c, p)
}

// Every plan is valid on chains of any length, and Search is the best.
func TestMethodsGiveValidPlans(t *testing.T) {
	r := testfile.Random(t, 3, 4)
	ctx := context.Background()
	found := map[string]int{}
	tries := testfile.Cases(400)
	for range tries {
		c := random.Chain(r, 1+r.IntN(9))
		p := randomPlatform(r, c)
		best := math.Inf(1)
		for _, m := range methods {
			out, err := m.solve(ctx, c, p)
			x := makespan(t, c, out, err)
			if !math.IsInf(x, 1) {
				found[m.name]++
			}
			if m.name == "search" && x > best*(1+1e-9) {
				t.Fatalf("search: %g, another method: %g, in %g at %g\n%+v", x, best, p.Memory, p.Bandwidth, c)
			}
			best = min(best, x)
		}
	}
	t.Log(found)
	for _, always := range []string{"search", "offload-all"} {
		if found[always] != tries {
			t.Errorf("%s found %d plans of %d; there is one for each", always, found[always], tries)
		}
	}
	for _, m := range methods {
		if found[m.name] < tries/10 {
			t.Errorf("%s found %d plans of %d", m.name, found[m.name], tries)
		}
	}
}

// No method beats the exhaustive search, no bound is above it, and the least
// memory is that.
func TestAgainstExhaustiveSearch(t *testing.T) {
	r := testfile.Random(t, 5, 6)
	ctx := context.Background()
	solved, equal := 0, map[string]int{}
	tight, refused := 0, 0
	for k := range testfile.Cases(170) {
		c := random.Chain(r, 1+r.IntN(3)+k/145)
		p := randomPlatform(r, c)
		least, _ := view.Least(c)
		if k%2 == 0 { // often little memory: that is where methods differ
			p.Memory = least + math.Floor((p.Memory-least)/3)
		}
		p.Bandwidth = []float64{0.5, 1}[r.IntN(2)]
		best, _, err := optimumrematoffload.Search(c, p.Memory, p.Bandwidth, 50_000)
		if errors.Is(err, exhaustive.ErrLimit) || errors.Is(err, exhaustive.ErrTooHard) {
			continue
		}
		if err != nil {
			t.Fatalf("memory %g at least: %v\n%+v", p.Memory, err, c)
		}
		solved++
		bounds, err := view.Bounds(c, p)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range bounds {
			if b.Value > best*(1+1e-9) {
				t.Fatalf("bound %s: %g, optimum %g, in %g at %g\n%+v", b.By, b.Value, best, p.Memory, p.Bandwidth, c)
			}
		}
		if bounds[0].Value >= best*(1-1e-9) {
			tight++
		}
		for _, m := range methods {
			out, err := m.solve(ctx, c, p)
			switch x := makespan(t, c, out, err); {
			case x < best*(1-1e-9):
				t.Fatalf("%s: %g, optimum %g, in %g at %g\n%+v", m.name, x, best, p.Memory, p.Bandwidth, c)
			case x <= best*(1+1e-9):
				equal[m.name]++
			}
		}
		if least > 0 && c.Len() <= 3 {
			_, _, err := optimumrematoffload.Search(c, least-1, p.Bandwidth, 50_000)
			if errors.Is(err, exhaustive.ErrInfeasible) {
				refused++
			} else if !errors.Is(err, exhaustive.ErrLimit) {
				t.Fatalf("below %g: %v\n%+v", least, err, c)
			}
		}
	}
	t.Logf("%d solved, the best bound is the optimum in %d; methods that find it: %v", solved, tight, equal)
	if refused < testfile.Cases(80) || solved < testfile.Cases(130) || equal["search"] < solved*9/10 || tight < solved/2 {
		t.Error("too few solved, found or proved")
	}
}

func TestErrors(t *testing.T) {
	ctx := context.Background()
	c := &chain.Chain{Name: "two", Input: chain.Input{Activation: 1, Gradient: 1}}
	for range 2 {
		c.Layers = append(c.Layers, chain.Layer{Name: "l", ForwardTime: 1, BackwardTime: 1, Activation: 1, Saved: 2, Gradient: 1})
	}
	least, _ := view.Least(c)
	for _, m := range methods {
		if m.name == "pure-offload" {
			continue
		}
		var infeasible *plan.Infeasible
		if _, err := m.solve(ctx, c, platform.Platform{Memory: least - 1, Bandwidth: 1}); !errors.As(err, &infeasible) ||
			infeasible.Memory != least || infeasible.Problem != view.Problem {
			t.Errorf("%s: %v", m.name, err)
		}
		if _, err := m.solve(ctx, &chain.Chain{Name: "none"}, platform.Platform{Memory: 1, Bandwidth: 1}); !errors.Is(err, view.ErrChain) {
			t.Errorf("%s: %v", m.name, err)
		}
		for _, p := range []platform.Platform{
			{Memory: -1},
			{Memory: math.NaN()},
			{Memory: math.Inf(1)},
			{Memory: 9, Bandwidth: -1},
			{Memory: 9, Bandwidth: math.NaN()},
			{Memory: 9, Bandwidth: math.Inf(1)},
		} {
			if _, err := m.solve(ctx, c, p); !errors.Is(err, view.ErrPlatform) {
				t.Errorf("%s on %v: %v", m.name, p, err)
			}
		}
	}
	if _, err := POFO(ctx, c, platform.Platform{Memory: 99, Bandwidth: 1}, 0); !errors.Is(err, ErrSlots) {
		t.Error(err)
	}
	if _, err := POFO(ctx, c, platform.Platform{Memory: 99, Bandwidth: 1}, 1<<20); !errors.As(err, new(*TooLargeError)) {
		t.Error(err)
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := POFO(ended, c, platform.Platform{Memory: 99, Bandwidth: 1}, 10); !errors.Is(err, plan.ErrNoPlan) ||
		!errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	out, err := Search(ended, c, platform.Platform{Memory: least, Bandwidth: 1}, 10)
	if err != nil {
		t.Fatal(err)
	}
	verified(t, c, out)
}

// Without a link all methods rematerialize, or say that they cannot.
func TestWithoutLink(t *testing.T) {
	r := testfile.Random(t, 7, 8)
	ctx := context.Background()
	for range 200 {
		c := random.Chain(r, 1+r.IntN(7))
		p := randomPlatform(r, c)
		p.Bandwidth = 0
		pure, pureErr := PureRemat(ctx, c, p)
		for _, m := range methods {
			if m.name == "pure-offload" {
				continue
			}
			out, err := m.solve(ctx, c, p)
			if m.name == "offload-all" {
				if !errors.Is(err, plan.ErrNoPlan) {
					t.Fatalf("%s: %v", m.name, err)
				}
				continue
			}
			if errors.As(err, new(*plan.Infeasible)) || errors.Is(err, plan.ErrNoPlan) {
				if pureErr == nil && m.name != "pofo" {
					t.Fatalf("%s: %v", m.name, err)
				}
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			if x := verified(t, c, out); pure == nil || x < pure.Claims.Makespan*(1-1e-9) {
				t.Fatalf("%s: %g, pure-remat: %v %v", m.name, x, pure, pureErr)
			}
		}
	}
}

func TestRange(t *testing.T) {
	r := testfile.Random(t, 9, 10)
	for range 500 {
		c := random.Chain(r, 1+r.IntN(8))
		in := &instance{view.NewView(c)}
		in.Memory, in.Bandwidth = 1e9, 1
		low, high := view.Range(c)
		var recompute []view.Step
		for l := in.N; l >= 1; l-- {
			if l > 1 {
				recompute = view.Segment(recompute, 1, l-1)
			}
			recompute = append(recompute, view.Step{Kind: view.FAll, Layer: int32(l)}, view.Step{Kind: view.Backward, Layer: int32(l)})
		}
		for _, x := range []struct {
			steps []view.Step
			most  float64
		}{{recompute, low}, {in.keepAll(), high}} {
			p, ok := view.NewProfile(in.Instance, x.steps)
			if !ok {
				t.Fatalf("%v breaks the rules", x.steps)
			}
			s, ok := view.Retime(p, nil)
			if !ok {
				t.Fatal("no times")
			}
			all, err := s.Plan("all")
			if err != nil {
				t.Fatal(err)
			}
			if got := all.Claims.PeakMemory; got > x.most || got < x.most && low < high {
				t.Fatalf("range says %g, the sequence takes %g: %v\n%+v", x.most, got, x.steps, c)
			}
		}
		if least, _ := view.Least(c); least > low {
			t.Fatalf("least %g above low %g", least, low)
		}
	}
}

// Without recomputation autocapper offloads what GREEDY does.
func TestCapperIsGreedy(t *testing.T) {
	r := testfile.Random(t, 11, 12)
	ctx := context.Background()
	same := 0
	for range 300 {
		c := random.Chain(r, 1+r.IntN(8))
		p := randomPlatform(r, c)
		g, err := activationoffload.Greedy(ctx, c, p)
		if err != nil {
			continue
		}
		in, err := newInstance(c, p)
		if err != nil {
			t.Fatal(err)
		}
		s, ok := in.capper(in.keepAll())
		if !ok {
			t.Fatalf("capper finds nothing, GREEDY %v", g.Ops)
		}
		set := map[int]bool{}
		for _, o := range g.Ops {
			if l := o.Layer; o.Op == plan.OpO && (l == 0 && c.Input.Activation > 0 || l > 0 && c.Layers[l-1].Saved > 0) {
				set[l] = true
			}
		}
		if len(set) != len(s.Away) {
			t.Logf("capper %v, GREEDY %v", s.Away, set)
			continue
		}
		same++
		for _, x := range s.Away {
			if !set[int(x.Tensor>>1)] {
				t.Fatalf("capper %v, GREEDY %v", s.Away, set)
			}
		}
	}
	if same < 200 {
		t.Error(same)
	}
}

// Search takes the plans that it is given, and is never worse than they are.
func TestSearchTakesOthers(t *testing.T) {
	r := testfile.Random(t, 19, 20)
	ctx := context.Background()
	given := 0
	for range testfile.Cases(40) {
		c := random.Chain(r, 2+r.IntN(3))
		p := randomPlatform(r, c)
		p.Bandwidth = 1
		value, best, err := optimumrematoffload.Search(c, p.Memory, p.Bandwidth, 200_000)
		if err != nil {
			continue
		}
		given++
		out, err := Search(ctx, c, p, 10, nil, best)
		if x := makespan(t, c, out, err); x > value*(1+1e-9) {
			t.Fatalf("given %g, found %g", value, x)
		}
		if o, err := activationoffload.Search(ctx, c, p, 1); err == nil {
			out, err := Search(ctx, c, p, 10, o)
			if x := makespan(t, c, out, err); x > o.Claims.Makespan*(1+1e-9) {
				t.Fatalf("given %g, found %g", o.Claims.Makespan, x)
			}
		}
	}
	if given < testfile.Cases(20) {
		t.Error(given)
	}
}

// Numbers at the ends of their ranges give valid plans or clear errors.
func TestExtremes(t *testing.T) {
	ctx := context.Background()
	layers := func(n int, u, size float64) *chain.Chain {
		c := &chain.Chain{Name: "extreme", Input: chain.Input{Activation: size, Gradient: size}}
		for range n {
			c.Layers = append(c.Layers, chain.Layer{Name: "l", ForwardTime: u, BackwardTime: u, Activation: size, Saved: size, Gradient: size})
		}
		return c
	}
	for _, c := range testfile.Few(
		7, layers(1, 1, 1), layers(5, 0, 1), layers(5, 1, 0), layers(5, 0, 0), layers(5, 1e-12, 1e12), layers(5, platform.MaxTime, 1e12),
		layers(5, platform.MinTime, 1), layers(30, 1, 1),
	) {
		least, _ := view.Least(c)
		for _, p := range []platform.Platform{
			{Memory: least, Bandwidth: 1},
			{Memory: math.Floor(1.5 * least), Bandwidth: 1e-9},
			{Memory: math.Floor(1.5 * least), Bandwidth: 1e15},
			{Memory: 1e3 * least, Bandwidth: 1},
			{Memory: least},
		} {
			for _, m := range methods {
				out, err := m.solve(ctx, c, p)
				if err == nil {
					verified(t, c, out)
				} else if !errors.Is(err, plan.ErrNoPlan) && !errors.As(err, new(*plan.Infeasible)) {
					t.Errorf("%s on %+v: %v", m.name, p, err)
				}
			}
		}
	}
}

// Plans of activation offloading, also those that mix directions, are plans of
// this problem.
func TestPureOffload(t *testing.T) {
	r := testfile.Random(t, 21, 22)
	ctx := context.Background()
	kept, all := 0, 0
	for range testfile.Cases(60) {
		c := random.Chain(r, 2+r.IntN(5))
		p := randomPlatform(r, c)
		o, err := activationoffload.Search(ctx, c, p, 1)
		if err != nil {
			continue
		}
		all++
		out, err := PureOffload(c, p, o)
		if x := makespan(t, c, out, err); x <= o.Claims.Makespan*(1+1e-9) {
			kept++
		}
	}
	t.Logf("%d of %d are as fast", kept, all)
	if all < testfile.Cases(30) || kept < all*3/4 {
		t.Error("too few")
	}
}

// Finding 7: persistent and floating plans take 2 here, as ā_2 is kept and its
// input recomputed in none of them. On a link so slow that it does not help,
// Search finds the optimum 1.
func TestSearchGoesBeyondPersistence(t *testing.T) {
	ctx := context.Background()
	c := &chain.Chain{Name: "finding 7"}
	for l, a := range []float64{1, 0, 1} {
		x := chain.Layer{Name: "l", Activation: a, Saved: a, Gradient: a}
		if l == 1 {
			x.ForwardTime = 1
		}
		c.Layers = append(c.Layers, x)
	}
	p := platform.Platform{Memory: 2, Bandwidth: 1e-3}
	pofo, err := POFO(ctx, c, p, 10)
	if x := makespan(t, c, pofo, err); x != 2 {
		t.Errorf("pofo: %g", x)
	}
	found, err := Search(ctx, c, p, 10)
	if x := makespan(t, c, found, err); x != 1 {
		t.Errorf("search: %g", x)
	}
}

// Search has the plans of what is quick even if there is no time for more.
func TestSearchBeginsWithWhatIsQuick(t *testing.T) {
	c := &chain.Chain{Name: "equal", Input: chain.Input{Activation: 1e6, Gradient: 1e6}}
	for range testfile.Cases(300) {
		c.Layers = append(c.Layers, chain.Layer{Name: "l", ForwardTime: 0.005, BackwardTime: 0.01, Activation: 1e6, Saved: 3e6, Gradient: 1e6})
	}
	low, high := view.Range(c)
	p := platform.Platform{Memory: math.Floor(low + 0.3*(high-low)), Bandwidth: 1e8}
	begin := time.Now()
	quick, err := Opportunist(t.Context(), c, p)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), max(time.Second/2, 20*time.Since(begin)))
	defer cancel()
	found, err := Search(ctx, c, p, 50)
	if x := makespan(t, c, found, err); x > quick.Claims.Makespan {
		t.Errorf("search %g s, opportunist %g s", x, quick.Claims.Makespan)
	}
}
