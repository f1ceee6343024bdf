package pipeline

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"workbench/model/plan"
	"workbench/model/testfile"
)

// layersOf says which of layers 1..n those processors have, whichever has which.
func layersOf(owner []int, set processors, n int) string {
	lists := map[int]string{}
	for l := 1; l <= n; l++ {
		if set.has(owner[l]) {
			lists[owner[l]] += fmt.Sprint(l, " ")
		}
	}
	var list []string
	for _, s := range lists {
		list = append(list, s)
	}
	slices.Sort(list)
	return strings.Join(list, "| ")
}

// Where searches end by dice, except for whole allocations, which are infeasible, every allocation is searched or has a
// nogood that was found: nothing else is jumped over. Layers store nothing, so nothing but nogoods excludes any.
func TestNogoodsExcludeWhatIsSkipped(t *testing.T) {
	t.Parallel()
	seen, all := 0, 0
	for seed := range uint64(testfile.Cases(300)) {
		r := rand.New(rand.NewPCG(seed, 979))
		n := 3 + r.IntN(4)
		c, p := randomChain(r, n, false), randomPlatform(r)
		for l := range c.Layers {
			x := &c.Layers[l]
			x.Activation, x.Saved, x.Gradient, x.Weight = 0, 0, 0, 0
			if seed%3 == 0 && r.IntN(3) == 0 {
				x.ForwardTime, x.BackwardTime = 1e-9, 1e-9 // negligible
			}
		}
		c.Input.Activation, c.Input.Gradient = 0, 0
		p.Processors, p.Memory = 1+r.IntN(6), 1e9
		in, err := newInstance(c, p, Options{})
		if err != nil {
			t.Fatal(err)
		}
		often, hard, found := []float64{0.02, 0.1, 0.3, 0.6}[r.IntN(4)], []int{1, 1 << 9, 1 << 13, 1 << 18}[r.IntN(4)], map[string]bool{}
		e := newEnumeration(in, 1.1*in.U[n], false, true, 1<<40, func() bool { return false })
		e.nogoods.run = func(a *partialAllocation, m int, set processors, _, most int) (verdict, int) {
			x := layersOf(a.owner, set, m)
			h := fnv.New64a()
			fmt.Fprint(h, seed, x)
			dice := rand.New(rand.NewPCG(h.Sum64(), 1))
			whole := x == layersOf(a.owner, allProcessors, n)
			switch labels := 1 + dice.IntN(hard); {
			case labels > most:
				return unknown, most + 1
			case whole || dice.Float64() < often:
				if whole {
					seen++
				}
				found[x] = true
				return infeasible, labels
			default:
				return feasible, labels
			}
		}
		e.run()
		if !e.proved() || e.backjump != 0 {
			t.Fatalf("seed %d: allocations are left, or it is on its way back to layer %d", seed, e.backjump)
		}
		if sum := parts(e.excluded.shares()); sum < 1-1e-9 || sum > 1+1e-9 {
			t.Fatalf("seed %d: arguments exclude %v of the allocations: %v", seed, sum, e.excluded.shares())
		}
		allocationsOf(n, in.Procs, func(stages []plan.Stage) {
			owner := []int{noProcessor}
			for l, s := range stages {
				owner = append(owner, s.Processor)
				if e.negligible[l+1] {
					owner[l+1] = noProcessor
				}
			}
			for set := processors(1); set < 1<<in.Procs; set++ {
				for m := 1; m <= n; m++ {
					if set.has(owner[m]) && (m == n || owner[m+1] != owner[m]) && found[layersOf(owner, set, m)] {
						all++
						return
					}
				}
			}
			t.Fatalf("seed %d: %v is skipped without a nogood", seed, owner)
		})
	}
	t.Logf("%d of %d allocations searched", seen, all)
	if seen < all/100 || seen > all/2 {
		t.Errorf("%d of %d allocations searched", seen, all)
	}
}
