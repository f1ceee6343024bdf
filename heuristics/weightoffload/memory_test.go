package weightoffload

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/problem/weightoffload"
	"workbench/model/testcase/random"
	"workbench/model/zoo"
)

// With more memory no plan is longer, in steps of 5 % of the range, and where there
// is a plan there is one in any more memory.
func TestMoreMemory(t *testing.T) {
	r := rand.New(rand.NewPCG(15, 15))
	chains := 400
	networks := []string{"gpt2", "resnet50", "vgg16", "bert", "table1-gpt2", "inception"}
	if testing.Short() {
		chains, networks = 40, networks[:1]
	}
	plans := 0
	check := func(c *chain.Chain, bandwidth float64) {
		low, high := weightoffload.FromChain(c.Count("")).Range()
		low, high = max(1, low), max(1, high)
		for name, method := range map[string]func(context.Context, *chain.Chain, platform.Platform) (*plan.Plan, error){
			"greedy": Greedy, "greedy-nodiscount": GreedyNoDiscount, "first-half": FirstHalf,
			"l2l": func(_ context.Context, c *chain.Chain, p platform.Platform) (*plan.Plan, error) { return L2L(c, p) },
		} {
			best, has := math.Inf(1), false
			for k := range 2*steps + 1 {
				memory := math.Floor(low + (high-low)*float64(k)/(2*steps))
				p, err := method(t.Context(), c, platform.Platform{Memory: memory, Bandwidth: bandwidth})
				switch {
				case errors.Is(err, plan.ErrNoPlan) && !has:
					continue
				case err != nil:
					t.Fatalf("%s of %s in %v: %v, with less memory there was a plan", name, c.Name, memory, err)
				}
				has = true
				plans++
				if k%2 == 1 {
					continue
				}
				if *p.Period > best*(1+plan.Tolerance) {
					t.Fatalf("%s of %s in %v: %v s, with less memory it was %v s", name, c.Name, memory, *p.Period, best)
				}
				best = *p.Period
			}
		}
	}
	for range chains {
		c, p := random.Weights(r, 1+r.IntN(8))
		check(c, p.Bandwidth)
	}
	for _, name := range networks {
		c, err := zoo.Load(zoo.Scheme + name)
		if err != nil {
			t.Fatal(err)
		}
		check(c, 12e9)
	}
	t.Logf("%d plans", plans)
}
