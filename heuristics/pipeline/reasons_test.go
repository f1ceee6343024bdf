package pipeline

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"workbench/heuristics/pipeline/race"
	"workbench/model/plan"
	"workbench/model/testfile"
)

// had is what those processors have of layers 1..n, whoever has which.
func had(owner []int, of processors, n int) string {
	sets := map[int]string{}
	for l := 1; l <= n; l++ {
		if of.has(owner[l]) {
			sets[owner[l]] += fmt.Sprint(l, " ")
		}
	}
	var list []string
	for _, s := range sets {
		list = append(list, s)
	}
	slices.Sort(list)
	return strings.Join(list, "| ")
}

// Where races end as dice say, but for whole allocations, which are lost, every allocation is seen or has a reason that was found:
// nothing else is jumped over. Layers store nothing, so nothing but reasons excludes any.
func TestReasonsAreOfWhatIsSkipped(t *testing.T) {
	t.Parallel()
	const open = "wherever the next is: "
	seen, all := 0, 0
	for seed := range uint64(testfile.Cases(300)) {
		r := rand.New(rand.NewPCG(seed, 979))
		n := 3 + r.IntN(4)
		c, p := randomChain(r, n, false), randomPlatform(r)
		for l := range c.Layers {
			x := &c.Layers[l]
			x.Activation, x.Saved, x.Gradient, x.Weight = 0, 0, 0, 0
			if seed%3 == 0 && r.IntN(3) == 0 {
				x.ForwardTime, x.BackwardTime = 1e-9, 1e-9 // light
			}
		}
		c.Input.Activation, c.Input.Gradient = 0, 0
		p.Processors, p.Memory = 1+r.IntN(6), 1e9
		in, err := newInstance(c, p, Options{})
		if err != nil {
			t.Fatal(err)
		}
		often, hard, found := []float64{0.02, 0.1, 0.3, 0.6}[r.IntN(4)], []int{1, 1 << 9, 1 << 13, 1 << 20}[r.IntN(4)], map[string]bool{}
		var dice racer
		var a *allocations // whose race it is
		fresh := func() *allocations {
			a := newAllocations(in, 1.1*in.U[n], false, 0, func() bool { return false })
			a.budget, a.raceBy = 1<<40, dice
			return a
		}
		dice = func(m int, of team, _, most int) told {
			x := had(a.owner, of.processors, m)
			if of.open {
				x = open + x
			}
			h := fnv.New64a()
			fmt.Fprint(h, seed, x, of.time)
			drawn := rand.New(rand.NewPCG(h.Sum64(), 1))
			whole := !of.open && x == had(a.owner, everybody, n)
			switch ways := 1 + drawn.IntN(hard); {
			case ways > most:
				return told{race.Unfinished, most + 1, race.Standing{}}
			case whole || drawn.Float64() < often:
				seen += map[bool]int{true: 1}[whole]
				found[x] = true
				return told{race.Lost, ways, race.Standing{}}
			default:
				return told{race.GoesOn, ways, race.Standing{}}
			}
		}
		a = fresh()
		if seed%2 == 0 {
			a.run()
		} else {
			all := &abreast{}
			list := a.beginnings(1 + r.IntN(100))
			r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] }) // as where others are quicker
			all.budget.Store(1 << 40)
			a = fresh()
			a.runBeside(all, list)
		}
		if !a.proved() || a.back != 0 {
			t.Fatalf("seed %d: allocations are left, or it is on its way back to layer %d", seed, a.back)
		}
		allocationsOf(n, in.Procs, func(stages []plan.Stage) {
			owner := []int{none}
			for l, s := range stages {
				owner = append(owner, s.Processor)
				if a.light[l+1] {
					owner[l+1] = none
				}
			}
			for of := processors(1); of < 1<<in.Procs; of++ {
				for m := 1; m <= n; m++ {
					x := had(owner, of, m)
					if of.has(owner[m]) && ((m == n || owner[m+1] != owner[m]) && found[x] || found[open+x]) {
						all++
						return
					}
				}
			}
			t.Fatalf("seed %d: %v is skipped for no reason", seed, owner)
		})
	}
	t.Logf("%d of %d allocations seen", seen, all)
	if seen < all/100 || seen > all/2 {
		t.Errorf("%d of %d allocations seen", seen, all)
	}
}
