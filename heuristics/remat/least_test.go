package remat

import (
	"context"
	"errors"
	"runtime"
	"testing"

	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/testfile"
	"workbench/model/zoo"
)

// At the low end of the range there is a plan, and one unit below it every method
// proves that there is none: on every network that is a chain.
func TestLeastOfNetworks(t *testing.T) {
	chains := 0
	names := zoo.Names()
	for _, name := range testfile.Few(len(names)/4, names...) {
		c, err := zoo.Load(zoo.Scheme + name)
		if err != nil {
			continue // a join
		}
		chains++
		low, high := Range(c)
		p, err := StoreAll(c, platform.Platform{Memory: high})
		if err != nil || check(t, c, p) == 0 {
			t.Errorf("%s: store-all in %.0f: %v", name, high, err)
		}
		if c.Len() <= 120 {
			p, err := Persistent(t.Context(), c, platform.Platform{Memory: low})
			if err != nil {
				t.Errorf("%s: nothing in %.0f: %v", name, low, err)
				continue
			}
			check(t, c, p)
		}
		below := platform.Platform{Memory: low - 1}
		for method, run := range map[string]func(context.Context, *chain.Chain, platform.Platform) (*plan.Plan, error){
			"periodic": Periodic, "revolve": Revolve, "persistent": Persistent, "floating": Floating,
			"store-all": func(_ context.Context, c *chain.Chain, p platform.Platform) (*plan.Plan, error) {
				return StoreAll(c, p)
			},
			"persistent-slots": func(ctx context.Context, c *chain.Chain, p platform.Platform) (*plan.Plan, error) {
				return PersistentSlots(ctx, c, p, 20)
			},
			"floating-slots": func(ctx context.Context, c *chain.Chain, p platform.Platform) (*plan.Plan, error) {
				return FloatingSlots(ctx, c, p, 20)
			},
			"optimum": func(ctx context.Context, c *chain.Chain, p platform.Platform) (*plan.Plan, error) {
				r, err := Optimum(ctx, c, p, nil)
				if err != nil {
					return nil, err
				}
				return r.Plan, nil
			},
		} {
			var none *plan.Infeasible
			if _, err := run(t.Context(), c, below); !errors.As(err, &none) || none.Memory != low || none.Given != low-1 {
				t.Errorf("%s, %s in %.0f: %v; the least is %.0f", name, method, below.Memory, err, low)
			}
		}
	}
	if chains < testfile.Cases(20) {
		t.Errorf("%d chains", chains)
	}
}

// A method that has too little memory does not prove the least memory of any plan where a
// persistent one fits: the tables of that take 130 MB and half a second on 56 layers, which
// a combination lost before its first plan.
func TestTooLittleForStoreAllIsSaidAtOnce(t *testing.T) {
	c, err := zoo.Load(zoo.Scheme + "resnet152")
	if err != nil {
		t.Fatal(err)
	}
	low, high := Range(c)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err = StoreAll(c, platform.Platform{Memory: (low + high) / 2})
	runtime.ReadMemStats(&after)
	if !errors.Is(err, plan.ErrNoPlan) {
		t.Fatal(err)
	}
	if took := after.TotalAlloc - before.TotalAlloc; took > 1<<20 {
		t.Errorf("%d bytes were allocated to say that store-all does not fit", took)
	}
}
