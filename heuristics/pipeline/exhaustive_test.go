package pipeline

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"workbench/model/exhaustive"
	optimumpipeline "workbench/model/exhaustive/pipeline"
	"workbench/model/plan"
	"workbench/model/testfile"
)

// No 1-periodic plan beats exhaustive search over all allocations and patterns,
// nor does a bound; where nothing fits, no 1-periodic plan is found, and what
// is called infeasible is.
func TestExhaustive(t *testing.T) {
	t.Parallel()
	const decisions = 1 << 19
	equal, total := map[string]int{}, 0
	for seed := range uint64(testfile.Cases(60)) {
		r := rand.New(rand.NewPCG(seed, 7))
		c, p := randomChain(r, 2+r.IntN(4), false), randomPlatform(r)
		p.Processors = 1 + r.IntN(3)
		for _, model := range models {
			o := Options{Model: model}
			best, _, err := optimumpipeline.Search(c, p, model, decisions)
			if errors.Is(err, exhaustive.ErrLimit) {
				continue
			}
			nothing := errors.Is(err, exhaustive.ErrInfeasible)
			if err != nil && !nothing {
				t.Fatal(err)
			}
			bounds, err := boundsOf(c, p, o)
			var proved *plan.Infeasible
			if errors.As(err, &proved) {
				if !nothing {
					t.Fatalf("seed %d, %s: %v, but there is a pattern of period %v", seed, model, err, best)
				}
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, b := range bounds {
				if !nothing && !slices.Contains(b.Assumes, plan.ContiguousAllocation) && b.Value > best*(1+2*optimumpipeline.Closeness) {
					t.Fatalf("seed %d, %s: bound %v (%s) above the optimum %v: %+v %+v", seed, model, b.Value, b.By, best, c, p)
				}
			}
			if !nothing {
				total++
			}
			for name, method := range methods {
				q, err := method(c, p, o)
				if err != nil || q.K > 1 {
					continue
				}
				period := verified(t, c, q)
				if nothing || period < best*(1-2*optimumpipeline.Closeness) {
					t.Fatalf("seed %d, %s, %s: period %v, optimum %v: %+v %+v", seed, name, model, period, best, c, p)
				}
				if period < best*(1+2*optimumpipeline.Closeness) {
					equal[name]++
				}
			}
		}
	}
	t.Logf("1-periodic optimum reached, of %d: %v", total, equal)
	if total < testfile.Cases(40) || equal["search"] < total*9/10 {
		t.Errorf("of %d instances search solves %d", total, equal["search"])
	}
}

// With one layer a stage the smallest T of 1F1B* is the least of all 1-periodic
// patterns of the allocation (Theorem 15), communications included.
func TestTheorem15Exhaustively(t *testing.T) {
	t.Parallel()
	cases := 0
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 8))
		c, p := randomChain(r, 1+r.IntN(4), false), randomPlatform(r)
		n := c.Len()
		p.Processors = n
		o := Options{Model: plan.StageModel}
		best, _, err := optimumpipeline.SearchAllocation(c, p, onePerStage(n), o.Model, 1, 1<<16)
		if errors.Is(err, exhaustive.ErrLimit) {
			continue
		}
		got := math.Inf(1)
		if errors.Is(err, exhaustive.ErrInfeasible) {
			best = math.Inf(1)
		} else if err != nil {
			t.Fatal(err)
		}
		q, err := OneFOneBStarOn(c, p, onePerStage(n), o)
		if err == nil {
			got = verified(t, c, q)
		}
		if got < best*(1-2*optimumpipeline.Closeness) || got > best*(1+2*optimumpipeline.Closeness) {
			t.Fatalf("seed %d: 1F1B* %v (%v), optimum %v: %+v %+v", seed, got, err, best, c.Layers, p)
		}
		if best < math.Inf(1) {
			cases++
		}
	}
	if cases < 30 {
		t.Errorf("only %d cases", cases)
	}
}

// Cancelled iterations do not beat exhaustive search among 2-periodic patterns
// of the allocation.
func TestKPeriodicExhaustively(t *testing.T) {
	t.Parallel()
	cases, equal := 0, 0
	for seed := range uint64(80) {
		r := rand.New(rand.NewPCG(seed, 12))
		c, p := randomChain(r, 2+r.IntN(2), false), randomPlatform(r)
		n := c.Len()
		p.Processors = n
		o := Options{Model: plan.StageModel}
		q, err := KPeriodicOn(c, p, onePerStage(n), 2, o)
		if err != nil {
			continue
		}
		best, _, err := optimumpipeline.SearchAllocation(c, p, onePerStage(n), o.Model, 2, 1<<16)
		if errors.Is(err, exhaustive.ErrLimit) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		got := verified(t, c, q)
		if got < best*(1-2*optimumpipeline.Closeness) {
			t.Fatalf("seed %d: %v, optimum %v", seed, got, best)
		}
		cases++
		if got < best*(1+2*optimumpipeline.Closeness) {
			equal++
		}
	}
	t.Logf("2-periodic optimum reached in %d of %d", equal, cases)
	if cases < 20 || equal == 0 {
		t.Errorf("%d cases, %d equal", cases, equal)
	}
}
