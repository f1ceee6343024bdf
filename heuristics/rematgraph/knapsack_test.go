package rematgraph

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"

	"workbench/model/exhaustive"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/testcase/random"
	"workbench/model/testfile"
)

// gain returns what is saved, in memory and in time.
func gain(memory, time []float64, saved []bool) (bytes, seconds float64) {
	for i, is := range saved {
		if is {
			bytes, seconds = bytes+memory[i], seconds+time[i]
		}
	}
	return bytes, seconds
}

// Against all subsets: the greedy keeps budgets and the best item for its memory, the
// program is the best of rounded items.
func TestKnapsacks(t *testing.T) {
	r := testfile.Random(t, 8, 1)
	optimal, over := 0, 0
	for range testfile.Cases(500) {
		n := 1 + r.IntN(9)
		memory, time, rounded := make([]float64, n), make([]float64, n), make([]float64, n)
		for i := range n {
			memory[i], time[i] = (50*float64(1+r.IntN(60))+float64(r.IntN(9)-4)/10)/10000, float64(r.IntN(9))
			rounded[i] = math.RoundToEven(memory[i] * 10000)
		}
		greedy, program := KnapsackGreedy(memory, time), KnapsackDP(memory, time)
		for range 4 {
			budget := float64(r.IntN(101)) / 100
			bestOfRounded, best := 0.0, 0.0
			for set := range 1 << n {
				saved := make([]bool, n)
				for i := range n {
					saved[i] = set>>i&1 != 0
				}
				if bytes, seconds := gain(rounded, time, saved); bytes <= math.RoundToEven(budget*10000) {
					bestOfRounded = max(bestOfRounded, seconds)
				}
				if bytes, seconds := gain(memory, time, saved); bytes <= budget {
					best = max(best, seconds)
				}
			}
			byGreedy, err := greedy(budget)
			if err != nil {
				t.Fatal(err)
			}
			bytes, seconds := gain(memory, time, byGreedy)
			if bytes > budget || seconds > best {
				t.Fatalf("greedy saves %v s in %v of %v, the best is %v s", seconds, bytes, budget, best)
			}
			if seconds == best {
				optimal++
			}
			byProgram, err := program(budget)
			if err != nil {
				t.Fatal(err)
			}
			if _, seconds := gain(rounded, time, byProgram); seconds != bestOfRounded {
				t.Fatalf("the program saves %v s, the best of rounded items is %v s", seconds, bestOfRounded)
			}
			if bytes, _ := gain(memory, time, byProgram); bytes > budget {
				over++
			}
		}
	}
	if optimal < testfile.Cases(800) || over < testfile.Cases(20) {
		t.Errorf("%d greedy choices are the best, %d of the program exceed the budget", optimal, over)
	}
}

// Plans under budgets are plans, none is better than the optimum, and the search, which
// starts from them and from the minimum cut, is never worse.
func TestBudgets(t *testing.T) {
	r := testfile.Random(t, 8, 2)
	operations := []string{"aten.add.Tensor", "aten.mm.default", "aten._softmax.default", "aten.convolution.default"}
	ctx := context.Background()
	found, optimal, better := 0, 0, 0
	for range testfile.Cases(60) {
		g := random.Training(r, 2+r.IntN(3))
		for j := range g.Nodes {
			g.Nodes[j].Operation = operations[r.IntN(len(operations))]
		}
		v := view(t, g)
		low, high := Range(v)
		for m := low; m <= high; m++ {
			p := platform.Platform{Memory: m}
			want, err := optimum(g, m)
			if errors.Is(err, exhaustive.ErrTooHard) || errors.Is(err, exhaustive.ErrLimit) {
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			ours, err := Search(ctx, v, p, 1, 4)
			if err != nil {
				t.Fatal(err)
			}
			all := map[string]func() (*plan.Plan, error){
				"min-cut":            func() (*plan.Plan, error) { return MinCut(v, p, false) },
				"min-cut-aggressive": func() (*plan.Plan, error) { return MinCut(v, p, true) },
				"knapsack-greedy":    func() (*plan.Plan, error) { return WithinBudget(ctx, "knapsack-greedy", v, p, KnapsackGreedy) },
				"knapsack-dp":        func() (*plan.Plan, error) { return WithinBudget(ctx, "knapsack-dp", v, p, KnapsackDP) },
			}
			for name, method := range all {
				out, err := method()
				if err != nil {
					if !errors.Is(err, plan.ErrNoPlan) {
						t.Fatalf("%s: %v", name, err)
					}
					continue
				}
				got, least := verified(t, g, out), verified(t, g, ours)
				if got < want-1e-9 || least > got+1e-9 {
					t.Fatalf("%s, memory %v: %s takes %v, the search %v, the optimum is %v", g.Name, m, name, got, least, want)
				}
				found++
				if got < want+1e-9 {
					optimal++
				} else if least < got-1e-9 {
					better++
				}
			}
		}
	}
	if found < testfile.Cases(300) || optimal == found || better == 0 {
		t.Errorf("%d plans, %d of them optimal; the search is better than %d", found, optimal, better)
	}
}

// Of the budgets that fit the fastest is taken, and what a budget keeps is no more than it
// says, but for the halves of parts.
func TestFastestBudget(t *testing.T) {
	r := testfile.Random(t, 8, 3)
	operations := []string{"aten.add.Tensor", "aten.mm.default"}
	ctx := context.Background()
	for range testfile.Cases(60) {
		g := random.Training(r, 3+r.IntN(6))
		for j := range g.Nodes {
			g.Nodes[j].Operation = operations[r.IntN(len(operations))]
		}
		v := view(t, g)
		all, err := Budgets(ctx, "knapsack-greedy", v, KnapsackGreedy)
		if err != nil {
			t.Fatal(err)
		}
		peaks := make([]float64, len(all))
		for k := range all {
			peaks[k], _, _ = all[k].Schedule().Peak()
		}
		m := peaks[r.IntN(len(peaks))]
		least := math.Inf(1)
		for k := range all {
			if peaks[k] <= m {
				least = min(least, all[k].Schedule().Cost())
			}
		}
		p, err := WithinBudget(ctx, "knapsack-greedy", v, platform.Platform{Memory: m}, KnapsackGreedy)
		if err != nil {
			t.Fatal(err)
		}
		if got := verified(t, g, p); math.Abs(got-least) > 1e-9 {
			t.Fatalf("%s: %v, the best budget takes %v", g.Name, got, least)
		}
		if slices.ContainsFunc(all, func(b Budget) bool { return b.Again < 0 || b.Kept < 0 }) {
			t.Fatalf("%s: %+v", g.Name, all)
		}
	}
	if _, err := WithinBudget(ctx, "x", view(t, random.Training(r, 3)), platform.Platform{Memory: math.Inf(1)},
		KnapsackGreedy); !errors.Is(err, plan.ErrNoPlan) {
		t.Errorf("operations of nobody: %v", err)
	}
}
