package pipeline

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"workbench/model/testfile"
)

// Several who enumerate prove what one proves, about chains at and near the least period that one excludes nothing of, and
// leave open what one does.
func TestAbreastProvesTheSame(t *testing.T) {
	t.Parallel()
	proved, left := 0, 0
	for seed := range uint64(testfile.Cases(60)) {
		r := rand.New(rand.NewPCG(seed, 983))
		c, p := randomChain(r, 2+r.IntN(4), seed%5 == 0), randomPlatform(r)
		p.Processors = 1 + r.IntN(4)
		in, err := newInstance(c, p, Options{})
		if err != nil {
			continue // one layer fits nowhere
		}
		never := func() bool { return false }
		end := func(period float64, workers int) (string, bool) {
			a := newAllocations(in, period, seed%3 == 0, 0, never)
			a.budget = 1 << 40
			a.runAbreast(workers)
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
