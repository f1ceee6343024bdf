package remat

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

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

// A slotRecurrence evaluates the recurrences of [004] Theorems 5 and 6 as they
// are printed, number by number.
type slotRecurrence struct {
	*model.View // in slots
	checkMoves  bool
	known       map[[4]int]float64
}

func newSlotRecurrence(w *model.View, checkMoves bool) *slotRecurrence {
	return &slotRecurrence{w, checkMoves, map[[4]int]float64{}}
}

func (r *slotRecurrence) memo(key [4]int, compute func() float64) float64 {
	if x, ok := r.known[key]; ok {
		return x
	}
	x := compute()
	r.known[key] = x
	return x
}

func (r *slotRecurrence) forward(s, t, h int) int { // M_{F_h}^{s,t}
	if h == s {
		return int(r.Delta[t] + r.A[s] + r.OC[s])
	}
	return int(r.Delta[t] + r.A[h-1] + r.A[h] + r.OC[h])
}

func (r *slotRecurrence) none(s, t, last int) int { // m_∅^{s,t} for last = t
	need := 0
	for h := s; h <= last; h++ {
		need = max(need, r.forward(s, t, h))
	}
	return need
}

func (r *slotRecurrence) all(s, t int) int { // m_all^{s,t}
	return int(max(r.Delta[t]+r.Abar[s]+r.OF[s], r.Abar[s]+r.Delta[s]+r.Delta[s-1]+r.OB[s]))
}

func (r *slotRecurrence) time(s, k int) float64 { // Σ_{s≤h≤k} uF_h
	x := 0.0
	for h := s; h <= k; h++ {
		x += r.UF[h]
	}
	return x
}

// persistent is C_MP(s,t,m), (2.9) and (2.10).
func (r *slotRecurrence) persistent(s, t, m int) float64 {
	return r.memo([4]int{s, t, 0, m}, func() float64 {
		best := math.Inf(1)
		if s == t {
			if m >= r.all(s, s) {
				return r.UF[s] + r.UB[s]
			}
			return best
		}
		if m >= r.all(s, t) {
			best = r.UF[s] + r.persistent(s+1, t, m-int(r.Abar[s])) + r.UB[s]
		}
		if m >= r.none(s, t, t) {
			for k := s; k < t; k++ {
				best = min(best, r.time(s, k)+r.persistent(k+1, t, m-int(r.A[k]))+r.persistent(s, k, m))
			}
		}
		return best
	})
}

// floating is C_FL(s,t,ℓ,m), (2.4) to (2.8).
func (r *slotRecurrence) floating(s, t, l, m int) float64 {
	return r.memo([4]int{s, t, l, m}, func() float64 {
		best := math.Inf(1)
		if s == t && t == l {
			if m >= r.all(s, s) {
				return r.UF[s] + r.UB[s]
			}
			return best
		}
		if m >= r.all(s, t) && s == l {
			best = r.UF[s] + r.floating(s+1, t, s+1, m-int(r.Abar[s])) + r.UB[s]
		}
		if m < r.none(s, t, t) || t == l {
			return best
		}
		for base := s; base <= l; base++ {
			if r.A[s-1] > r.A[base-1] {
				continue
			}
			left := m - int(r.A[base-1]) + int(r.A[s-1])
			for k := base; k < t; k++ {
				if r.checkMoves && left < r.none(base, t, k) {
					continue
				}
				for last := max(k, l) + 1; last <= t; last++ {
					best = min(best, r.time(s, k)+r.floating(k+1, t, last, left-int(r.A[k]))+r.floating(base, last-1, l, left))
				}
			}
		}
		return best
	})
}

// slotMethods are the methods over slots.
var slotMethods = []struct {
	name       string
	recurrence func(w *model.View) float64
}{
	{"persistent-slots", func(w *model.View) float64 {
		return newSlotRecurrence(w, true).persistent(1, w.N, int(w.Memory-w.A[0]))
	}},
	{"floating-slots", func(w *model.View) float64 {
		return newSlotRecurrence(w, true).floating(1, w.N, 1, int(w.Memory-w.A[0]))
	}},
	{"floating-printed", func(w *model.View) float64 {
		return newSlotRecurrence(w, false).floating(1, w.N, 1, int(w.Memory-w.A[0]))
	}},
}

const slotPrinted = 2 // index in slotMethods of the one whose plans may not fit

// slotMakespan verifies p, which must fit unless it may not, and returns its
// makespan.
func slotMakespan(t interface {
	Helper()
	Fatalf(string, ...any)
}, c *chain.Chain, p *plan.Plan, mayNotFit bool,
) float64 {
	t.Helper()
	report, err := verifyremat.Verify(c, p)
	if err != nil {
		t.Fatalf("%s: %v", p.Method, err)
	}
	for _, v := range report.Violations {
		if !mayNotFit || v.Rule != "memory" {
			t.Fatalf("%s in %g bytes: %s: %s\n%+v\n%+v", p.Method, p.Platform.Memory, v.Rule, v.Detail, c, p.Ops)
		}
	}
	if len(report.ClaimErrors) > 0 {
		t.Fatalf("%s: %s", p.Method, report.ClaimErrors)
	}
	return report.Makespan
}

// slotRun is the makespan of a method's plan, +Inf if it finds none.
func slotRun(t interface {
	Helper()
	Fatalf(string, ...any)
}, method int, c *chain.Chain, memory float64, slots int,
) float64 {
	t.Helper()
	p, err := solveInSlots(context.Background(), slotMethods[method].name, c, platform.Platform{Memory: memory}, slots)
	var infeasible *plan.Infeasible
	switch {
	case errors.Is(err, plan.ErrNoPlan) || errors.As(err, &infeasible):
		return math.Inf(1)
	case err != nil:
		t.Fatalf("%s: %v", slotMethods[method].name, err)
	case p.Method != slotMethods[method].name:
		t.Fatalf("%s returns a plan of %s", slotMethods[method].name, p.Method)
	}
	return slotMakespan(t, c, p, method == slotPrinted)
}

// On random chains with slots of one byte every method is its recurrence, no
// better than the optimum if its plans fit, and floating no worse than
// persistent; with other slots it is its recurrence too.
func TestSlotsRandom(t *testing.T) {
	r := testfile.Random(t, 11, 12)
	worse, unfit, found := 0, 0, 0
	for i := range testfile.Cases(700) {
		c := random.Chain(r, 1+r.IntN(5))
		v := model.FromChain(c)
		high := storeAll(v).Peak
		memory := math.Max(1, math.Ceil(high*(0.55+0.5*r.Float64())))
		optimum, _, err := optimumremat.Search(c, memory, 1<<20)
		if errors.Is(err, exhaustive.ErrInfeasible) {
			optimum = math.Inf(1)
		} else if err != nil {
			t.Fatal(err)
		}
		for _, slots := range []int{int(memory), 1 + r.IntN(40), 2 * int(memory)} {
			w := (&slotted{slots, memory}).round(v)
			var got [3]float64
			for m, method := range slotMethods {
				got[m] = slotRun(t, m, c, memory, slots)
				if want := method.recurrence(w); got[m] != want {
					t.Fatalf("chain %d, %s in %g bytes, %d slots: %g, the recurrence says %g\n%+v", i, method.name, memory, slots, got[m], want, c)
				}
				if m != slotPrinted && got[m] < optimum {
					t.Fatalf("chain %d, %s in %g bytes, %d slots: %g is below the optimum %g", i, method.name, memory, slots, got[m], optimum)
				}
			}
			if got[1] > got[0] {
				t.Fatalf("chain %d in %g bytes, %d slots: floating %g is worse than persistent %g", i, memory, slots, got[1], got[0])
			}
			if slots == int(memory) {
				if got[1] > optimum {
					worse++
				}
				if got[slotPrinted] < got[1] {
					unfit++
				}
				if !math.IsInf(got[0], 1) {
					found++
				}
			}
		}
	}
	t.Logf("persistent found %d, floating missed the optimum %d times, the printed one was below the repaired %d times", found, worse, unfit)
	if found < testfile.Cases(400) || worse == 0 {
		t.Errorf("the chains show nothing: persistent found %d, floating missed the optimum %d times", found, worse)
	}
}

// Every point of a curve is what the method returns for its memory alone, and
// between the points nothing changes.
func TestSlotsCurve(t *testing.T) {
	r := testfile.Random(t, 13, 14)
	for range testfile.Cases(150) {
		c := random.Chain(r, 1+r.IntN(6))
		memory := math.Max(1, storeAll(model.FromChain(c)).Peak)
		for m, method := range slotMethods {
			k, err := curveInSlots(context.Background(), method.name, c, memory, int(memory))
			if err != nil {
				t.Fatal(err)
			}
			points := k.Points()
			last := math.Inf(1)
			for bytes := 1.0; bytes <= memory; bytes++ {
				for len(points) > 0 && points[0].Memory <= bytes { // below 1 where all sizes are 0
					if points[0].Makespan >= last {
						t.Fatalf("%s: the makespan does not fall: %v", method.name, k.Points())
					}
					last, points = points[0].Makespan, points[1:]
				}
				if got := slotRun(t, m, c, bytes, int(bytes)); got != last {
					t.Fatalf("%s in %g bytes: %g, by the curve %g", method.name, bytes, got, last)
				}
				p, err := k.Plan(bytes + 0.5)
				if math.IsInf(last, 1) {
					var none *plan.Infeasible
					if !errors.Is(err, plan.ErrNoPlan) && !errors.As(err, &none) {
						t.Fatalf("%s in %g bytes: error %v", method.name, bytes, err)
					}
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				if got := slotMakespan(t, c, p, m == slotPrinted); got != last {
					t.Fatalf("%s in %g bytes: the plan takes %g, by the curve %g", method.name, bytes, got, last)
				}
			}
			if len(points) > 0 {
				t.Fatalf("%s: points %v are beyond %g bytes or no whole bytes", method.name, points, memory)
			}
		}
	}
}

// With more slots than tensors a plan that leaves a slot for each tensor free
// is found: slots tend to the exact program. Times are any numbers.
func TestSlotsTendToExact(t *testing.T) {
	testfile.Property(t, func(t *rapid.T) {
		c := random.Chain(rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1)), rapid.IntRange(1, 6).Draw(t, "layers"))
		noise, size := rapid.OneOf(rapid.Just(0.0), rapid.Float64Range(1e-60, 1)),
			rapid.Custom(func(t *rapid.T) float64 { return float64(rapid.IntRange(0, 1e6).Draw(t, "size")) })
		c.Input.Activation = 1e6*c.Input.Activation + size.Draw(t, "a_0")
		for i := range c.Layers {
			l := &c.Layers[i]
			l.Activation = 1e6*l.Activation + size.Draw(t, "a")
			l.Gradient, l.ForwardOverhead, l.BackwardOverhead = 1e6*l.Gradient, 1e6*l.ForwardOverhead, 1e6*l.BackwardOverhead
			l.Saved = l.Activation + size.Draw(t, "abar")
			l.CheckpointOverhead *= 1e6
			l.ClampOverhead()
			l.ForwardTime += noise.Draw(t, "uF")
		}
		v := model.FromChain(c)
		memory := storeAll(v).Peak * rapid.Float64Range(0.6, 1.05).Draw(t, "memory")
		const slots = 2000
		// No more tensors and overheads than this are in memory at once.
		tensors := 2*v.N + 6
		for m := range slotMethods[:slotPrinted] {
			fine := slotRun(t, m, c, memory, 10*slots)
			few := slotRun(t, m, c, memory*(1-float64(tensors)/slots), slots)
			if coarse := slotRun(t, m, c, memory, slots); !(coarse <= few*(1+1e-9)) || !(fine <= few*(1+1e-9)) {
				t.Fatalf("%s in %g bytes: %g with %d slots and %g with %d, but %g with %d bytes less", slotMethods[m].name, memory, coarse, slots, fine,
					10*slots, few, tensors)
			}
		}
	})
}

// Every value of the functions is the recurrence's number.
func TestSlotsEntries(t *testing.T) {
	r := testfile.Random(t, 17, 18)
	for i := range 60 {
		c := random.Chain(r, 1+r.IntN(5))
		v := model.FromChain(c)
		slots := 30 + r.IntN(100)
		w := (&slotted{slots, math.Max(1, storeAll(v).Peak)}).round(v)
		p := &splits{v: w, forwardsKeep: true}
		f, printed := &moves{v: w}, &moves{v: w, printed: true}
		for _, d := range []exactProgram{p, f, printed} {
			if err := d.fill(context.Background(), w.Memory, nil); err != nil {
				t.Fatal(err)
			}
		}
		persistent, floating, asPrinted := newSlotRecurrence(w, true), newSlotRecurrence(w, true), newSlotRecurrence(w, false)
		for s := 1; s <= w.N; s++ {
			left := w.Memory - w.A[0]
			if s > 1 {
				left -= w.A[s-1]
			}
			for t1 := s; t1 <= w.N; t1++ {
				time := 0.0 // Σ_{s≤h≤t} uF_h + Σ_{ℓ≤h≤t} uB_h
				for h := s; h <= t1; h++ {
					time += w.UF[h] + w.UB[h]
				}
				for l := s; l <= t1; l++ {
					for m := 0; m <= int(left); m++ {
						if got, want := p.cost(s, t1).value(float64(m))+time, persistent.persistent(s, t1, m); l == s && got != want {
							t.Fatalf("chain %d, C_MP(%d,%d,%d) = %g, want %g", i, s, t1, m, got, want)
						}
						if s == 1 && l > 1 {
							continue // a_0 does not move: these are in no plan
						}
						if got, want := f.cost(s, t1, l).value(float64(m))+time, floating.floating(s, t1, l, m); got != want {
							t.Fatalf("chain %d, C_FL(%d,%d,%d,%d) = %g, want %g", i, s, t1, l, m, got, want)
						}
						if got, want := printed.cost(s, t1, l).value(float64(m))+time, asPrinted.floating(s, t1, l, m); got != want {
							t.Fatalf("chain %d, C_FL(%d,%d,%d,%d) as printed = %g, want %g", i, s, t1, l, m, got, want)
						}
					}
					time -= w.UB[l]
				}
			}
		}
	}
}

// Slots of one byte are the exact programs, for longer chains than a search or
// the recurrences can do; other slots are never below them.
func TestSlotsEqualExact(t *testing.T) {
	exact := []func(context.Context, *chain.Chain, platform.Platform) (*plan.Plan, error){Persistent, Floating, FloatingPrinted}
	r := testfile.Random(t, 15, 16)
	for m, longest := range []int{25, 12, 12} {
		found := 0
		for i := range testfile.Cases(200) {
			c := random.Chain(r, 1+r.IntN(longest))
			memory := math.Max(1, math.Ceil(storeAll(model.FromChain(c)).Peak*(0.3+0.7*r.Float64())))
			want := math.Inf(1)
			p, err := exact[m](context.Background(), c, platform.Platform{Memory: memory})
			var infeasible *plan.Infeasible
			switch {
			case err == nil:
				want = slotMakespan(t, c, p, m == slotPrinted)
				found++
			case !errors.Is(err, plan.ErrNoPlan) && !errors.As(err, &infeasible):
				t.Fatal(err)
			}
			if got := slotRun(t, m, c, memory, int(memory)); got != want {
				t.Errorf("%s, chain %d in %g bytes: %g, exactly %g", slotMethods[m].name, i, memory, got, want)
			}
			if got := slotRun(t, m, c, memory, 1+r.IntN(200)); got < want {
				t.Errorf("%s, chain %d in %g bytes: %g is below the exact %g", slotMethods[m].name, i, memory, got, want)
			}
		}
		if found < testfile.Cases(100) {
			t.Errorf("%s: only %d of 200 have a plan", slotMethods[m].name, found)
		}
	}
}

// On these networks, with so many slots and so much memory, floating persistence
// gains nothing, as [004] 2.4.3 finds (it does on DenseNet-121 close to the least
// memory), and slots cost some time beside the exact program.
func TestSlotsOfNetworks(t *testing.T) {
	for _, network := range testfile.Few(2, "vgg16", "resnet18", "resnet50", "resnet101", "mobilenet", "inception") {
		c, err := zoo.Load("zoo:" + network)
		if err != nil {
			t.Fatal(err)
		}
		low, high := Range(c)
		for _, share := range []float64{0.05, 0.3, 0.7} {
			memory := low + share*(high-low)
			p, err := Persistent(context.Background(), c, platform.Platform{Memory: memory})
			if err != nil {
				t.Fatal(err)
			}
			exact := slotMakespan(t, c, p, false)
			persistent, floating := slotRun(t, 0, c, memory, 200), slotRun(t, 1, c, memory, 200)
			if !(math.Abs(persistent-floating) <= 1e-9*exact) {
				t.Errorf("%s at %g of its range: persistent %g s, floating %g s", network, share, persistent, floating)
			}
			if persistent < exact*(1-1e-9) || !(persistent < exact*1.2) {
				t.Errorf("%s at %g of its range: %g s with 200 slots, exactly %g s", network, share, persistent, exact)
			}
		}
	}
}

// slotFig23 is the chain of [004] Fig. 2.3 for n, with M = 15.
func slotFig23(n int) *chain.Chain {
	c := &chain.Chain{Name: fmt.Sprintf("[004] Fig. 2.3, n = %d", n)}
	for l := 1; l <= n+3; l++ {
		a := 3.0
		switch l {
		case 1:
			a = 1
		case n + 2:
			a = 4
		case n + 3:
			a = 0
		}
		x := chain.Layer{Activation: a, Saved: a, Gradient: a}
		switch l {
		case 1:
			x.ForwardTime = float64(n - 2)
		case 2:
			x.ForwardTime = 2
		}
		c.Layers = append(c.Layers, x)
	}
	return c
}

func TestSlotsFigure23(t *testing.T) {
	for n := 4; n <= 8; n++ {
		c := slotFig23(n)
		for m, want := range []float64{float64(3*n - 2), float64(2*n + 2), float64(2*n + 2)} {
			for _, slots := range []int{15, 30, 150} {
				if got := slotRun(t, m, c, 15, slots); got != want {
					t.Errorf("n = %d, %s with %d slots: %g, want %g", n, slotMethods[m].name, slots, got, want)
				}
			}
		}
	}
}

// slotChainOf makes a chain of integers as errata list them: a = ā = δ, uB = 0.
func slotChainOf(a0 float64, a, uF, oF, oB []float64) *chain.Chain {
	c := &chain.Chain{Name: "counterexample", Input: chain.Input{Activation: a0, Gradient: a0}}
	for i := range a {
		l := chain.Layer{ForwardTime: uF[i], Activation: a[i], Saved: a[i], Gradient: a[i]}
		if oF != nil {
			l.ForwardOverhead = oF[i]
		}
		if oB != nil {
			l.BackwardOverhead = oB[i]
		}
		c.Layers = append(c.Layers, l)
	}
	return c
}

// Cases on which [004] is wrong: its floating program is not optimal, and as
// printed it returns sequences that do not fit.
func TestSlotsCounterexamples(t *testing.T) {
	for _, x := range []struct {
		name                                   string
		c                                      *chain.Chain
		memory                                 float64
		persistent, floating, printed, optimum float64
		peak                                   float64 // of the printed one's plan
	}{
		{"floating is not optimal", slotChainOf(0, []float64{1, 0, 1}, []float64{0, 1, 0}, nil, nil), 2, 2, 2, 2, 1, 2},
		{
			"printed does not fit", slotChainOf(1, []float64{2, 3, 2, 1, 2}, []float64{1, 1, 0, 0, 1}, []float64{3, 1, 1, 3, 1}, nil), 11, 7, 6, 5,
			6, 12,
		},
		{
			"printed beats the optimum", slotChainOf(1, []float64{0, 2, 2, 2, 0, 3}, []float64{0, 1, 2, 0, 0, 0}, []float64{0, 3, 0, 0, 3, 1}, nil),
			10, 9, 9, 6, 7, 11,
		},
		{"a sequence that does not fit is as good", slotChainOf(1, []float64{1, 3, 3, 3, 0, 3}, []float64{0, 2, 0, 0, 0, 0},
			[]float64{0, 0, 0, 3, 0, 0}, []float64{0, 0, 0, 1, 1, 0}), 14, 4, 4, 4, 4, 16},
		{
			"nothing found", slotChainOf(1, []float64{1, 1, 0}, []float64{0, 0, 0}, []float64{0, 2, 3}, nil), 5, math.Inf(1), math.Inf(1),
			math.Inf(1), 0, 0,
		},
	} {
		t.Run(x.name, func(t *testing.T) {
			optimum, _, err := optimumremat.Search(x.c, x.memory, 1<<20)
			if err != nil || optimum != x.optimum {
				t.Errorf("optimum %g, error %v, want %g", optimum, err, x.optimum)
			}
			for m, want := range []float64{x.persistent, x.floating, x.printed} {
				if got := slotRun(t, m, x.c, x.memory, int(x.memory)); got != want {
					t.Errorf("%s: %g, want %g", slotMethods[m].name, got, want)
				}
			}
			if math.IsInf(x.printed, 1) {
				return
			}
			p, err := solveInSlots(context.Background(), "floating-printed", x.c, platform.Platform{Memory: x.memory}, int(x.memory))
			if err != nil || p.Claims.PeakMemory != x.peak {
				t.Errorf("the printed one's plan: error %v, %+v, want a peak of %g", err, p.Claims, x.peak)
			}
		})
	}
}

func TestSlotsRounding(t *testing.T) {
	testfile.Property(t, func(t *rapid.T) {
		z := &slotted{
			n:      rapid.IntRange(1, 1<<30).Draw(t, "slots"),
			memory: float64(rapid.Uint64Range(1, 1<<52).Draw(t, "memory")),
		}
		k := rapid.IntRange(0, z.n).Draw(t, "k")
		bytes := z.bytes(k)
		if z.down(bytes) < k || z.up(bytes) < k {
			t.Fatalf("%d slots are %v bytes, in which %d slots fit, and which take %d", k, bytes, z.down(bytes), z.up(bytes))
		}
		if k > 0 && (z.down(bytes-1) >= k || z.up(bytes-1) > k) {
			t.Fatalf("%d slots are %v bytes; in one less fit %d slots, it takes %d", k, bytes, z.down(bytes-1), z.up(bytes-1))
		}
		if up, down := z.up(z.memory+1), z.down(z.memory+1); up != z.n+1 || down != z.n {
			t.Fatalf("more than the memory: %d and %d", up, down)
		}
	})
	if z := (&slotted{n: 7}); z.up(0) != 0 || z.up(1) != 8 || z.down(0) != 7 || z.bytes(7) != 0 {
		t.Errorf("no memory: %d, %d, %d", z.up(0), z.up(1), z.down(0))
	}
}

func TestSlotsBadInput(t *testing.T) {
	ctx := context.Background()
	small := slotFig23(4)
	long := &chain.Chain{Layers: make([]chain.Layer, 100_000)}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	broken := slotFig23(4)
	broken.Layers[2].Saved = 1
	for _, method := range slotMethods {
		for _, x := range []struct {
			name   string
			ctx    context.Context
			c      *chain.Chain
			memory float64
			slots  int
			is     error
			want   string
		}{
			{"no slots", ctx, small, 15, 0, ErrSlots, "was given 0, it needs at least 1"},
			{"negative slots", ctx, small, 15, -3, ErrSlots, "was given -3"},
			{"absurd slots", ctx, small, 15, math.MaxInt, ErrSlots, "takes at most"},
			{"100,000 layers", ctx, long, 15, 500, plan.ErrNoPlan, "on 100000 layers needs tables of"},
			{"bad chain", ctx, broken, 15, 15, model.ErrChain, "layers[2].saved"},
			{"bad memory", ctx, small, math.NaN(), 15, model.ErrPlatform, "NaN"},
			{"cancelled", cancelled, small, 15, 15, plan.ErrNoPlan, context.Canceled.Error()},
			{"too few slots", ctx, small, 15, 3, plan.ErrNoPlan, "with 3 slots, to which sizes are rounded up, finds no plan in 15 bytes"},
		} {
			p, err := solveInSlots(x.ctx, method.name, x.c, platform.Platform{Memory: x.memory}, x.slots)
			if p != nil || !errors.Is(err, x.is) || !strings.Contains(err.Error(), x.want) {
				t.Errorf("%s, %s: plan %v, error %v", method.name, x.name, p, err)
			}
			if x.ctx == cancelled && !errors.Is(err, context.Canceled) {
				t.Errorf("%s: %v does not wrap the context's error", method.name, err)
			}
		}
		var large *TooLargeError
		_, err := curveInSlots(ctx, method.name, long, 15, 500)
		if !errors.As(err, &large) || large.Need < 1e11 || large.Limit != tableLimit {
			t.Errorf("%s: error %#v", method.name, err)
		}
		k, err := curveInSlots(ctx, method.name, small, 15, 15)
		if err != nil {
			t.Fatal(err)
		}
		for _, memory := range []float64{math.NaN(), math.Inf(1), -1} {
			if _, err := k.Plan(memory); !errors.Is(err, model.ErrPlatform) {
				t.Errorf("%s: %v bytes: error %v", method.name, memory, err)
			}
		}
		var none *plan.Infeasible
		if _, err := k.Plan(10); !errors.As(err, &none) || none.Memory != 14 {
			t.Errorf("%s: error %v", method.name, err)
		}
	}
}

func TestSlotsSmallChains(t *testing.T) {
	loss := &chain.Chain{Name: "loss", Input: chain.Input{Activation: 5, Gradient: 5}, Layers: []chain.Layer{
		{ForwardTime: 1, BackwardTime: 2, Activation: 1, Saved: 2, Gradient: 1, ForwardOverhead: 3, BackwardOverhead: 4},
	}}
	nothing := &chain.Chain{Name: "nothing", Layers: []chain.Layer{{ForwardTime: 1}, {BackwardTime: 2}, {ForwardTime: 4}}}
	for m, method := range slotMethods {
		// F_all: a_0 5, δ_1 1, ā_1 2, overhead 3; B: a_0 5, δ_1 1, ā_1 2, δ_0 5, overhead 4.
		if got := slotRun(t, m, loss, 17, 17); got != 3 {
			t.Errorf("%s, N = 1: %g, want 3", method.name, got)
		}
		if got := slotRun(t, m, loss, 16, 16); !math.IsInf(got, 1) {
			t.Errorf("%s, N = 1, too little memory: %g", method.name, got)
		}
		if got := slotRun(t, m, nothing, 1, 1); got != 7 {
			t.Errorf("%s, sizes zero: %g, want 7", method.name, got)
		}
		if k, err := curveInSlots(context.Background(), method.name, nothing, 0, 1); err != nil || len(k.Points()) != 1 || k.Points()[0] != (Point{0, 7}) {
			t.Errorf("%s, sizes zero and no memory: error %v, points %v", method.name, err, k.Points())
		}
	}
}

// A context that ends is noticed at once, however long the chain.
func TestSlotsCancelled(t *testing.T) {
	for _, x := range []struct {
		method, n, slots int
	}{{0, 500, 300}, {1, 90, 200}} {
		c := slotResNet(x.n)
		memory := storeAll(model.FromChain(c)).Peak
		ctx, cancel := context.WithCancelCause(context.Background())
		reason := errors.New("enough")
		timer := time.AfterFunc(30*time.Millisecond, func() { cancel(reason) })
		p, err := solveInSlots(ctx, slotMethods[x.method].name, c, platform.Platform{Memory: memory}, x.slots)
		timer.Stop()
		if p != nil || !errors.Is(err, reason) || !errors.Is(err, plan.ErrNoPlan) {
			t.Errorf("%s: plan %v, error %v", slotMethods[x.method].name, p != nil, err)
		}
	}
}
