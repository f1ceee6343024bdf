package pipeline

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"workbench/heuristics/pipeline/race"
	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/testfile"
)

// Several who enumerate prove what one proves, about chains at and near the least period that one excludes nothing of, and
// leave open what one does, whether the last begins at once, soon or never.
func TestAbreastProvesTheSame(t *testing.T) {
	t.Parallel()
	never := make(chan struct{})
	proved, left := 0, 0
	for seed := range uint64(testfile.Cases(60)) {
		r := rand.New(rand.NewPCG(seed, 983))
		c, p := randomChain(r, 2+r.IntN(4), seed%5 == 0), randomPlatform(r)
		p.Processors = 1 + r.IntN(4)
		in, err := newInstance(c, p, Options{})
		if err != nil {
			continue // one layer fits nowhere
		}
		end := func(period float64, workers int) (string, bool) {
			a := newAllocations(in, period, seed%3 == 0, 0, func() bool { return false })
			a.budget = 1 << 40
			soon := make(chan struct{})
			go close(soon)
			a.runAbreast(workers, []chan struct{}{nil, soon, never}[seed/3%3])
			return fmt.Sprint(a.proved(), a.undecided, a.short), a.proved()
		}
		low, high := in.U[in.N]/float64(p.Processors)/2, 2*in.Latest()
		for range 12 {
			if test := (low + high) / 2; func() bool { _, ok := end(test, 1); return ok }() {
				low = test
			} else {
				high = test
			}
		}
		for _, period := range []float64{low, high, low * 0.9, high * 1.1} {
			one, ok := end(period, 1)
			for _, workers := range []int{2, 3, 8} {
				if several, _ := end(period, workers); several != one {
					t.Fatalf("seed %d, period %v: %d say %s, one says %s", seed, period, workers, several, one)
				}
			}
			if ok {
				proved++
			} else {
				left++
			}
		}
	}
	if t.Logf("%d proved, %d left", proved, left); proved == 0 || left == 0 {
		t.Errorf("%d proved, %d left", proved, left)
	}
}

// Beginnings are of every allocation that one sees to its end: each is under one of them, and no two are of one.
func TestBeginningsAreOfAll(t *testing.T) {
	t.Parallel()
	for seed := range uint64(testfile.Cases(60)) {
		r := rand.New(rand.NewPCG(seed, 991))
		c, p := randomChain(r, 1+r.IntN(6), false), randomPlatform(r)
		p.Processors = 1 + r.IntN(4)
		in, err := newInstance(c, p, Options{})
		if err != nil {
			continue // one layer fits nowhere
		}
		period := in.U[in.N] * (0.3 + r.Float64())
		fresh := func() *allocations {
			a := newAllocations(in, period, false, 0, func() bool { return false })
			a.budget = 1 << 40
			return a
		}
		list := fresh().beginnings(1 + r.IntN(60))
		all := fresh()
		all.upTo = in.N // whole ones, that no race is asked about
		if all.mayStart() {
			all.owner[0] = none
			all.place(1, 0)
		}
		for _, whole := range all.begun {
			n := 0
			for _, x := range list {
				if slices.Equal(x, whole[:min(len(x), len(whole))]) {
					n++
				}
			}
			if n != 1 {
				t.Fatalf("seed %d: %v is under %d of %v", seed, whole, n, list)
			}
		}
	}
}

// With little work, or none from some moment on, one and several prove nothing that one does not prove with all the work there
// is, and say that work was short; and nor does a climb.
func TestLittleWorkProvesNoMore(t *testing.T) {
	t.Parallel()
	never, proved, short := func() bool { return false }, 0, 0
	for seed := range uint64(testfile.Cases(300)) {
		r := rand.New(rand.NewPCG(seed, 1009))
		c, p := randomChain(r, 2+r.IntN(5), false), randomPlatform(r)
		p.Processors = 2 + r.IntN(3)
		in, err := newInstance(c, p, Options{})
		if err != nil {
			continue // one layer fits nowhere
		}
		provable := func(period float64) bool {
			a := newAllocations(in, period, false, 0, never)
			a.budget = 1 << 40
			a.run()
			return a.proved()
		}
		period, budget, workers := in.U[in.N]*(0.3+0.8*r.Float64()), int64(r.IntN(1<<r.IntN(12))), 1+r.IntN(4)
		var calls atomic.Int64
		last := int64(r.IntN(1 << r.IntN(10)))
		ended := func() bool { return seed%2 == 0 && calls.Add(1) > last }
		a := newAllocations(in, period, false, 0, ended)
		a.budget = budget
		a.runAbreast(workers, nil)
		switch {
		case !a.proved():
			short += map[bool]int{true: 1}[a.short]
		case provable(period):
			proved++
		default:
			t.Fatalf("seed %d: %d with work %d prove period %v, one with more does not", seed, workers, budget, period)
		}
		x := newClimb(in, in.U[in.N]/float64(p.Processors)*(1-safe), workers, ended)
		start := x.every
		for range 3 {
			x.raise(budget, grain, func() float64 { return 2 * in.Latest() }, func(news) {})
		}
		if x.every > start && !provable(x.every*(1-1e-9)) {
			t.Fatalf("seed %d: %d climb to %v with work %d, one with more proves less", seed, workers, x.every, budget)
		}
	}
	if t.Logf("%d proved, %d short", proved, short); proved == 0 || short == 0 {
		t.Errorf("%d proved, %d short of work", proved, short)
	}
}

// Once the work of all is used up it stays so, whoever has taken too much, and says then that it ends: others have turned back,
// and what they did not look at is not proved.
func TestUsedUpWorkStaysSo(t *testing.T) {
	t.Parallel()
	testfile.Property(t, func(rt *rapid.T) {
		all, budget := &abreast{}, rapid.Int64Range(0, math.MaxInt64/16).Draw(rt, "budget")
		all.budget.Store(budget)
		those := make([]*allocations, rapid.IntRange(2, 40).Draw(rt, "workers"))
		for k := range those {
			those[k] = &allocations{all: all, budget: budget, drawn: budget}
		}
		usedUp := false
		for range rapid.IntRange(1, 100).Draw(rt, "steps") {
			a := those[rapid.IntRange(0, len(those)-1).Draw(rt, "who")]
			switch rapid.SampledFrom([]string{"works", "ends", "draws"}).Draw(rt, "does") {
			case "works": // as races do, so much that nobody else should have any left
				a.budget -= max(0, a.budget/4*rapid.Int64Range(0, 4).Draw(rt, "quarters"))
			case "ends":
				a.budget = -1
			default:
				a.draw()
			}
			if usedUp = usedUp || all.budget.Load() < 0; usedUp && all.budget.Load() >= 0 {
				rt.Fatalf("%d came back", all.budget.Load())
			}
		}
	})
}

// Where light layers are all that is behind a beginning, delays are those of it, not of what was looked at before.
func TestDelaysAreOfTheBeginning(t *testing.T) {
	t.Parallel()
	whole := 0
	for seed := range uint64(testfile.Cases(100)) {
		r := rand.New(rand.NewPCG(seed, 997))
		c, p := randomChain(r, 3+r.IntN(4), false), randomPlatform(r)
		for l := range c.Layers {
			x := &c.Layers[l]
			if l >= 2 {
				x.ForwardTime, x.BackwardTime = 1e-9, 1e-9 // light
			}
		}
		p.Processors, p.Memory = 2+r.IntN(3), 1e9
		in, err := newInstance(c, p, Options{})
		if err != nil {
			t.Fatal(err)
		}
		fresh := func() *allocations {
			a := newAllocations(in, 2*in.Latest(), false, 0, func() bool { return false })
			a.budget = 1 << 40
			return a
		}
		all, list, a := &abreast{}, fresh().beginnings(100), fresh()
		all.budget.Store(1 << 40)
		a.raceBy = func(n int, of team, _, _ int) told {
			if of.processors == everybody {
				whole++
				found := slices.Clone(a.delay[1:3])
				if a.mayFit(2, len(a.on)); !slices.Equal(found, a.delay[1:3]) {
					t.Fatalf("seed %d: of %v delays are %v, were %v", seed, a.owner[:n+1], a.delay[1:3], found)
				}
			}
			return told{race.Lost, 1, race.Standing{}}
		}
		a.runBeside(all, list)
	}
	if whole == 0 {
		t.Error("no allocation was seen whole")
	}
}

// What has a pattern is never excluded: a plan of this chain takes 19.002 s, and delays of other allocations, behind beginnings with
// only a light layer after them, made it look as if nothing took less than 26.
func TestBoundBeforeALightLayer(t *testing.T) {
	t.Parallel()
	layer := func(f, b, a, d, w float64) chain.Layer {
		return chain.Layer{ForwardTime: f, BackwardTime: b, Activation: a, Saved: a, Gradient: d, Weight: w}
	}
	c := &chain.Chain{Name: "light", Input: chain.Input{Activation: 2048}, Layers: []chain.Layer{
		layer(2, 1, 0, 512, 512), layer(1, 3, 0, 0, 512), layer(1, 1, 1536, 1536, 512), layer(4, 2, 0, 4096, 1024),
		layer(2, 2, 0, 512, 0), layer(1, 2, 0, 512, 0), layer(3, 1, 0, 0, 1024), layer(0.0009765625, 0.0009765625, 0, 0, 0),
	}}
	p := platform.Platform{Memory: 5120, Bandwidth: 358.4, Processors: 2, WeightCopies: 1}
	in, err := newInstance(c, p, Options{Model: plan.StageModel})
	if err != nil {
		t.Fatal(err)
	}
	for _, period := range []float64{24.9, 26.5} {
		for _, workers := range []int{1, 2, 30} {
			a := newAllocations(in, period, false, 0, func() bool { return false })
			a.budget = 1 << 40
			if a.runAbreast(workers, nil); a.proved() {
				t.Errorf("%d exclude a period of %v s", workers, period)
			}
		}
	}
}
