package activationoffload

import (
	"context"
	"errors"
	"math"
	"testing"

	"pgregory.net/rapid"

	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	view "workbench/model/problem/activationoffload"
	"workbench/model/testfile"
	"workbench/model/verify/rematoffload"
	"workbench/model/zoo"
)

// With slots of one byte and whole numbers nothing is rounded.
func TestDynProgSlotsOfOneByte(t *testing.T) {
	r := testfile.Random(t, 8, 8)
	for range 1000 {
		c, p := dynProgCase(r, 1+r.IntN(12))
		whole(c, &p)
		if p.Memory == 0 {
			continue
		}
		for _, gap := range []Gap{GapOverlap, GapSimple, GapPrinted} {
			exact, err := DynProgClaim(context.Background(), c, p, gap)
			if err != nil {
				t.Fatal(err)
			}
			got, err := DynProgSlotsClaim(context.Background(), c, p, int(p.Memory), gap)
			if err != nil {
				t.Fatal(err)
			}
			if got.Makespan != exact.Makespan || got.Rounded != exact.Makespan || got.Repairs != 0 {
				t.Fatalf("rule %d: slots %+v, exact %+v\n%+v %+v", gap, got, exact, c, p)
			}
		}
	}
}

// With any number of slots the set fits, is not better than the optimum, and the
// claim is that of the set with true sizes. Repairs happen.
func TestDynProgSlots(t *testing.T) {
	r := testfile.Random(t, 9, 9)
	repairs, none := 0, 0
	for range 1500 {
		c, p := dynProgCase(r, 1+r.IntN(12))
		in, err := newInstance(c, p)
		if err != nil {
			t.Fatal(err)
		}
		o := &ordered{in: in}
		slots := 1 + r.IntN(40)
		for _, gap := range []Gap{GapOverlap, GapSimple} {
			got, err := DynProgSlotsClaim(context.Background(), c, p, slots, gap)
			if err != nil {
				if !errors.Is(err, plan.ErrNoPlan) {
					t.Fatal(err)
				}
				none++
				continue
			}
			exact, err := DynProgClaim(context.Background(), c, p, gap)
			if err != nil {
				t.Fatal(err)
			}
			repairs += got.Repairs
			if T := o.simulate(bools(in.N, got.Offload), gap == GapSimple); !close9(got.Makespan, T) {
				t.Fatalf("rule %d: %+v, simulated %v\n%+v %+v", gap, got, T, c, p)
			}
			if got.Makespan < exact.Makespan*(1-1e-9) || got.Makespan > (exact.Makespan+got.Within)*(1+1e-9) {
				t.Fatalf("rule %d: %+v, exact %+v\n%+v %+v", gap, got, exact, c, p)
			}
		}
		got, err := DynProgSlots(context.Background(), c, p, slots)
		if err != nil {
			if !errors.Is(err, plan.ErrNoPlan) {
				t.Fatal(err)
			}
			continue
		}
		verifyDynProg(t, c, got)
		if got.Method != "dynprog-slots" {
			t.Fatal(got.Method)
		}
	}
	if repairs == 0 || none == 0 {
		t.Errorf("%d repairs, %d times nothing", repairs, none)
	}
}

// What is rounded how: overheads and gradients up each, β u down and ā up as
// partial sums.
func TestDynProgRounding(t *testing.T) {
	testfile.Property(t, func(t *rapid.T) {
		_, p, in := drawDynProg(t, 12)
		if p.Memory == 0 {
			return
		}
		slots := rapid.IntRange(1, 1000).Draw(t, "slots")
		slot := p.Memory / float64(slots)
		r := newRounding(in, slots)
		z := r.comm()
		const tiny = 1e-9
		sumA, sumF, sumB := 0.0, 0.0, 0.0 // of the rounded sizes, less the true ones, in slots
		near := func(what string, x, from, to float64) {
			if x != x || x < from-tiny || x > to+tiny {
				t.Fatalf("%s: off by %v slots\n%+v %d", what, x, in.Chain, slots)
			}
		}
		for l := range in.N + 1 {
			sumA += z.abar[l] - in.Abar[l]/slot
			near("Σ ā", sumA, 0, 1)
			if l == 0 {
				continue
			}
			sumF += z.uF[l] - min(in.UF[l]*in.Bandwidth, 2*in.Memory)/slot
			sumB += z.uB[l] - min(in.UB[l]*in.Bandwidth, 2*in.Memory)/slot
			near("Σ β uF", sumF, -1, 0)
			near("Σ β uB", sumB, -1, 0)
			near("F", z.needF[l]-z.abar[l]-in.OF[l]/slot, 0, 1)
			near("B", z.needB[l]-z.abar[l]-(in.OB[l]+in.Delta[l]+in.Delta[l-1])/slot, 0, 3)
			if z.uF[l] != math.Trunc(z.uF[l]) || z.abar[l] != math.Trunc(z.abar[l]) || z.needB[l] != math.Trunc(z.needB[l]) {
				t.Fatal("not whole slots")
			}
		}
		// Repairs round up the nearest first, until all are.
		for last := 0.0; ; {
			before := append([]float64(nil), r.abar...)
			if !r.repair() {
				break
			}
			for i := range before {
				if r.abar[i] == before[i] {
					continue
				}
				lost := in.Abar[i]/slot - before[i]
				if r.abar[i] != before[i]+1 || lost < last-tiny || lost > 1+tiny {
					t.Fatalf("ā_%d: from %v to %v, %v lost, before %v", i, before[i], r.abar[i], lost, last)
				}
				last = lost
			}
		}
		for i, a := range r.abar {
			near("ā repaired", a-in.Abar[i]/slot, 0, 2)
		}
	})
}

// More slots come nearer to the exact program.
func TestDynProgSlotsConverge(t *testing.T) {
	c, p := dynProgZoo(t, "resnet101?image=500&batch=16", 0.4)
	exact, err := DynProgClaim(context.Background(), c, p, GapOverlap)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		slots int
		near  float64
	}{{50, 0.2}, {500, 0.02}, {5000, 0.002}, {50000, 0.0002}} {
		got, err := DynProgSlotsClaim(context.Background(), c, p, x.slots, GapOverlap)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%d slots: %+v", x.slots, got)
		for what, T := range map[string]float64{"claim": got.Makespan, "rounded": got.Rounded} {
			if math.Abs(T/exact.Makespan-1) > x.near {
				t.Errorf("%d slots, %s: %v, exact %v", x.slots, what, T, exact.Makespan)
			}
		}
		if got.Makespan < exact.Makespan*(1-1e-9) {
			t.Errorf("%d slots: %v, better than exact %v", x.slots, got.Makespan, exact.Makespan)
		}
	}
}

// dynProgZoo is a network with memory in the range where it matters, from 0 to 1.
func dynProgZoo(t testing.TB, name string, share float64) (*chain.Chain, platform.Platform) {
	t.Helper()
	c, err := zoo.Load("zoo:" + name)
	if err != nil {
		t.Fatal(err)
	}
	low, high := view.Range(c)
	return c, platform.Platform{Memory: low + share*(high-low), Bandwidth: 12e9}
}

func TestDynProgErrors(t *testing.T) {
	c, p := dynProgZoo(t, "vgg16", 0.1)
	ctx := context.Background()
	for _, slots := range []int{-1, 0, maxSlots + 1} {
		if _, err := DynProgSlots(ctx, c, p, slots); !errors.Is(err, ErrSlots) {
			t.Errorf("%d slots: %v", slots, err)
		}
	}
	for _, gap := range []Gap{-1, 3} {
		if _, err := DynProgClaim(ctx, c, p, gap); !errors.Is(err, ErrGap) {
			t.Errorf("rule %d: %v", gap, err)
		}
		if _, err := DynProgSlotsClaim(ctx, c, p, 500, gap); !errors.Is(err, ErrGap) {
			t.Errorf("rule %d: %v", gap, err)
		}
	}
	if _, err := DynProgSlots(ctx, c, p, 1); !errors.Is(err, plan.ErrNoPlan) {
		t.Errorf("one slot: %v", err)
	}
	low, _ := view.Range(c)
	var infeasible *plan.Infeasible
	if _, err := DynProg(ctx, c, platform.Platform{Memory: low - 1, Bandwidth: 1}); !errors.As(err, &infeasible) || infeasible.Memory != low {
		t.Errorf("too little memory: %v", err)
	}
	for _, bad := range []platform.Platform{{Memory: p.Memory}, {Bandwidth: 1, Memory: math.NaN()}} {
		if _, err := DynProg(ctx, c, bad); !errors.Is(err, view.ErrPlatform) {
			t.Errorf("%+v: %v", bad, err)
		}
		if _, err := DynProgSlots(ctx, c, bad, 500); !errors.Is(err, view.ErrPlatform) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	if _, err := DynProg(ctx, nil, p); !errors.Is(err, view.ErrChain) {
		t.Errorf("no chain: %v", err)
	}
	cancelled, stop := context.WithCancel(ctx)
	stop()
	for name, run := range map[string]func() (*plan.Plan, error){
		"exact": func() (*plan.Plan, error) { return DynProg(cancelled, c, p) },
		"slots": func() (*plan.Plan, error) { return DynProgSlots(cancelled, c, p, 500) },
	} {
		got, err := run()
		if err != nil {
			t.Errorf("%s, cancelled: %v", name, err)
			continue
		}
		verifyDynProg(t, c, got)
	}
}

// Numbers at the ends of what instances may have, and chains of nothing.
func TestDynProgExtremes(t *testing.T) {
	for name, x := range map[string]struct {
		c *chain.Chain
		p platform.Platform
	}{
		"nothing": {&chain.Chain{Layers: make([]chain.Layer, 3)}, platform.Platform{Bandwidth: 1}},
		"no time": {
			&chain.Chain{Input: chain.Input{Activation: 1}, Layers: []chain.Layer{{Activation: 1, Saved: 1}, {ForwardOverhead: 1}}},
			platform.Platform{Memory: 2, Bandwidth: 1},
		},
		"large": {
			&chain.Chain{
				Input:  chain.Input{Activation: 2e14},
				Layers: []chain.Layer{{Activation: 2e14, Saved: 2e14, ForwardTime: platform.MaxTime}, {ForwardOverhead: 2e14}},
			},
			platform.Platform{Memory: 4e14, Bandwidth: 1e-286},
		},
		"a fast link": {&chain.Chain{
			Input:  chain.Input{Activation: 1},
			Layers: []chain.Layer{{Activation: 1, Saved: 1, ForwardTime: 1}, {ForwardOverhead: 1}},
		}, platform.Platform{Memory: 2, Bandwidth: 1e14}},
		"a slow link": {
			&chain.Chain{
				Input:  chain.Input{Activation: 1},
				Layers: []chain.Layer{{Activation: 1, Saved: 1, ForwardTime: 1}, {ForwardOverhead: 1}},
			},
			platform.Platform{Memory: 2, Bandwidth: 1e-290},
		},
		"little time": {
			&chain.Chain{
				Input:  chain.Input{Activation: 1},
				Layers: []chain.Layer{{Activation: 1, Saved: 1, ForwardTime: platform.MinTime}, {ForwardOverhead: 1}},
			},
			platform.Platform{Memory: 2, Bandwidth: 1e300},
		},
	} {
		for method, run := range map[string]func() (*plan.Plan, error){
			"exact": func() (*plan.Plan, error) { return DynProg(context.Background(), x.c, x.p) },
			"slots": func() (*plan.Plan, error) { return DynProgSlots(context.Background(), x.c, x.p, 500) },
		} {
			got, err := run()
			if err != nil {
				t.Errorf("%s, %s: %v", name, method, err)
				continue
			}
			r, err := rematoffload.Verify(x.c, got)
			if err != nil || !r.Valid() {
				t.Errorf("%s, %s: %+v %v", name, method, r, err)
			}
		}
	}
}
