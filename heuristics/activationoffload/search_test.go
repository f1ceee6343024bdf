package activationoffload

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"workbench/model/exhaustive"
	optimumactivationoffload "workbench/model/exhaustive/activationoffload"
	"workbench/model/plan"
	"workbench/model/platform"
	view "workbench/model/problem/activationoffload"
	"workbench/model/testcase/random"
	"workbench/model/testfile"
)

// Search finds the optimum of all small instances tried, and no bound is above it.
func TestSearchFindsOptima(t *testing.T) {
	r := testfile.Random(t, 4, 4)
	tight := 0
	cases := testfile.Cases(300)
	for range cases {
		c := random.Chain(r, 1+r.IntN(4))
		p := device(r, c)
		in, err := newInstance(c, p)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Search(context.Background(), c, p, 1)
		if err != nil {
			t.Fatal(err)
		}
		verify(t, c, got)
		want := optimum(in)
		if math.Abs(got.Claims.Makespan-want) > 1e-9 {
			t.Fatalf("search %v, optimum %v\n%+v %+v", got.Claims.Makespan, want, c, p)
		}
		bounds, err := view.Bounds(c, p)
		if err != nil {
			t.Fatal(err)
		}
		for k, b := range bounds {
			if b.Value > want*(1+1e-9) || k > 0 && b.Value > bounds[k-1].Value {
				t.Fatalf("bounds %+v, optimum %v\n%+v %+v", bounds, want, c, p)
			}
		}
		if in.LB() > in.Fractional().Makespan*(1+1e-9) || in.Fractional().Makespan > in.BestBound()*(1+1e-9) {
			t.Fatalf("lb %v, fractional %v, best %v", in.LB(), in.Fractional().Makespan, in.BestBound())
		}
		if bounds[0].Value > want*(1-1e-9) {
			tight++
		}
	}
	if tight < cases/2 {
		t.Errorf("the best bound is the optimum in %d cases of %d", tight, cases)
	}
}

// On instances as large as exhaustive search allows no bound is above the
// optimum and no plan below it; the two searches for it agree; Search finds nearly
// all.
func TestAgainstExhaustiveSearch(t *testing.T) {
	r := testfile.Random(t, 13, 13)
	missed := 0
	cases := testfile.Cases(80)
	for k := range cases {
		c := random.Chain(r, 3+r.IntN(5))
		p := device(r, c)
		switch k % 3 {
		case 0:
			smooth(r, c)
			p.Memory, p.Bandwidth = between(r, c), 1000*p.Bandwidth
		case 1: // one in four needs a prefetch before an offload
			c, p.Memory, p.Bandwidth = random.Offload(r, 5+r.IntN(3))
			p.Memory = max(p.Memory, random.OffloadLeastMemory(c))
		}
		want, best, err := optimumactivationoffload.Search(c, p.Memory, p.Bandwidth, 1<<20)
		if errors.Is(err, exhaustive.ErrLimit) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		verify(t, c, best)
		in, err := newInstance(c, p)
		if err != nil {
			t.Fatal(err)
		}
		if in.N <= 4 {
			if got := optimum(in); math.Abs(got-want) > 1e-9*want {
				t.Fatalf("optimum %v by orders of starts, %v by states\n%+v %+v", got, want, c, p)
			}
		}
		// Every plan has an order of starts, with which the machine is as fast.
		if got := view.NewMachine(in.Instance).Run(in.OrderOf(best)); got > want*(1+1e-9) {
			t.Fatalf("machine %v, optimum %v\n%+v %+v", got, want, c, p)
		}
		bounds, err := view.Bounds(c, p)
		if err != nil {
			t.Fatal(err)
		}
		if bounds[0].Value > want*(1+1e-9) {
			t.Fatalf("bounds %+v, optimum %v\n%+v %+v", bounds, want, c, p)
		}
		got, err := Search(context.Background(), c, p, 1)
		if err != nil {
			t.Fatal(err)
		}
		verify(t, c, got)
		switch T := got.Claims.Makespan; {
		case T < want*(1-1e-9):
			t.Fatalf("search %v, optimum %v\n%+v %+v", T, want, c, p)
		case T > want*(1+1e-9):
			missed++
		}
	}
	if missed > cases/20 {
		t.Errorf("search misses %d optima of %d", missed, cases)
	}
}

// Search is no worse than any other method, and the same for the same seed.
func TestSearchBeatsTheOthers(t *testing.T) {
	r := testfile.Random(t, 5, 5)
	others := append(methods(), method{"dynprog", DynProg})
	for range testfile.Cases(10) {
		c := random.Chain(r, 5+r.IntN(16))
		smooth(r, c)
		p := platform.Platform{Memory: between(r, c), Bandwidth: 1000}
		got, err := Search(context.Background(), c, p, 1)
		if err != nil {
			t.Fatal(err)
		}
		verify(t, c, got)
		for _, m := range others {
			other, err := m.run(context.Background(), c, p)
			if err == nil && other.Claims.Makespan < got.Claims.Makespan*(1-1e-12) {
				t.Fatalf("%s %v, search %v\n%+v %+v", m.name, other.Claims.Makespan, got.Claims.Makespan, c, p)
			}
		}
		again, err := Search(context.Background(), c, p, 1)
		if err != nil || !reflect.DeepEqual(got, again) {
			t.Fatalf("another plan for the same seed: %v\n%+v\n%+v", err, got, again)
		}
	}
}

// Before it anneals, Search has the best plan of the methods it starts from.
func TestSearchStartsFromTheOthers(t *testing.T) {
	r := testfile.Random(t, 14, 14)
	for range 300 {
		c := random.Chain(r, 2+r.IntN(10))
		p := device(r, c)
		in, err := newInstance(c, p)
		if err != nil {
			t.Fatal(err)
		}
		s := newSearcher(context.Background(), in, 1)
		s.methods(1)
		for _, m := range methods() {
			other, err := m.run(context.Background(), c, p)
			if err == nil && other.Claims.Makespan < s.T*(1-1e-12) {
				t.Fatalf("%s %v, at the start %v\n%+v %+v", m.name, other.Claims.Makespan, s.T, c, p)
			}
		}
	}
}

// Sets and orders are not all: Search finds the optima of finding 17.
func TestSearchMixesTransfers(t *testing.T) {
	for _, e := range errata() {
		got, err := Search(context.Background(), e.chain, e.device, 1)
		if err != nil {
			t.Fatal(err)
		}
		verify(t, e.chain, got)
		if math.Abs(got.Claims.Makespan-e.optimum) > 1e-9 {
			t.Errorf("search %v, optimum %v", got.Claims.Makespan, e.optimum)
		}
	}
}

// A context that has ended leaves a plan where one is cheap.
func TestEndedContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	c := random.Chain(rand.New(rand.NewPCG(6, 6)), 12)
	low, high := view.Range(c)
	p := platform.Platform{Memory: (low + high) / 2, Bandwidth: 1}
	got, err := Search(ctx, c, p, 1)
	if err != nil {
		t.Fatal(err)
	}
	verify(t, c, got)
	if _, err := TFLMS(ctx, c, p); err != nil && !errors.Is(err, plan.ErrNoPlan) {
		t.Fatal(err)
	}
}

// The decoder gives no plan that the machine does not give for its order of starts.
func TestDecoderAgreesWithMachine(t *testing.T) {
	r := testfile.Random(t, 8, 8)
	runs := 0
	for range 2000 {
		c := random.Chain(r, 2+r.IntN(6))
		in, err := newInstance(c, device(r, c))
		if err != nil {
			t.Fatal(err)
		}
		n := in.N
		list := make([]int, 0, 4*n)
		for e := range 2 * n {
			list = append(list, e)
		}
		s := &searcher{in: in, rng: r}
		for range 1 + r.IntN(n) {
			i := r.IntN(n)
			list = s.add(s.drop(list, i), i)
		}
		d := view.NewDecoder(in.Instance)
		T := d.Run(list, math.Inf(1))
		if math.IsInf(T, 1) {
			continue
		}
		runs++
		order := append([]int(nil), d.Order...)
		if got := view.NewMachine(in.Instance).Run(order); got > T+1e-9 {
			t.Fatalf("machine %v, decoder %v\n%v", got, T, order)
		}
		verify(t, c, d.M.Plan("test", order, T))
	}
	if runs < 500 {
		t.Fatalf("%d lists gave plans", runs)
	}
}
