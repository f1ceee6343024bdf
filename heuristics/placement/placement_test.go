package placement_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"workbench/heuristics/placement"
	optimumplacement "workbench/model/exhaustive/placement"
	"workbench/model/instance/lifetimes"
	"workbench/model/platform"
	view "workbench/model/problem/placement"
	"workbench/model/testcase/random"
	"workbench/model/testfile"
	verifyplacement "workbench/model/verify/placement"
)

// unlimited is a memory that everything fits in.
const unlimited = 1e12

// check verifies offsets and returns their height.
func check(t *testing.T, in *view.Instance, offsets []int64) float64 {
	t.Helper()
	p := in.Plan("test", offsets, platform.Platform{Memory: unlimited})
	r, err := verifyplacement.Verify(in.Lifetimes, p)
	if err != nil {
		t.Fatal(err)
	}
	if !r.Valid() || len(r.ClaimErrors) > 0 {
		t.Fatalf("%+v %v\n%+v", r.Violations, r.ClaimErrors, in.Lifetimes.Buffers)
	}
	return r.PeakMemory
}

// Every method makes valid placements, and the search finds and proves the
// optimum of the exhaustive one.
func TestAgainstExhaustiveSearch(t *testing.T) {
	t.Parallel()
	cases := 2000
	if testing.Short() {
		cases = 400
	}
	r := rand.New(rand.NewPCG(20, 1))
	above := 0 // optima above the load
	for n := range cases {
		l := random.Lifetimes(r, 1+r.IntN(7))
		if n%8 == 0 {
			l = random.AboveLoad(r)
		}
		best, _, err := optimumplacement.Search(l, unlimited, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		in := view.New(l)
		if float64(in.Load()) > best {
			t.Fatalf("case %d: load %d, optimum %g\n%+v", n, in.Load(), best, l.Buffers)
		}
		if float64(in.Load()) < best {
			above++
		}
		f := placement.Least(t.Context(), in, placement.Goal{Seed: uint64(n)})
		if h := check(t, in, f.Offsets); h != best || float64(f.Bound) != best {
			t.Fatalf("case %d: found %g, proved %d; the optimum is %g\n%+v", n, h, f.Bound, best, l.Buffers)
		}
		for _, place := range []func(*view.Instance, []int) []int64{placement.FirstFit, placement.BestFit, placement.Skyline} {
			if h := check(t, in, placement.Greedy(t.Context(), in, place)); h < best {
				t.Fatalf("case %d: %g is below the optimum, %g", n, h, best)
			}
		}
		if n%10 == 0 {
			repaired := placement.Repair(t.Context(), in, placement.Goal{Seed: uint64(n), Rounds: 1})
			if h := check(t, in, repaired.Offsets); h < best || h != float64(repaired.Height) {
				t.Fatalf("case %d: the repair says %d and has %g, the optimum is %g", n, repaired.Height, h, best)
			}
		}
		if up := in.Rises().Up(int64(best)); float64(up) != best {
			t.Fatalf("case %d: the optimum %g is no height that there may be, the next is %d\n%+v", n, best, up, l.Buffers)
		}
	}
	t.Logf("%d of %d optima are above the load", above, cases)
	if above == 0 {
		t.Error("no optimum is above the load: the cases prove nothing")
	}
}

// cut returns buffers that fill a rectangle without a gap, by cutting it again and
// again: the load is their height.
func cut(r *rand.Rand, buffers int, length, height int64) *lifetimes.Lifetimes {
	type rectangle struct{ x, y, w, h int64 }
	all := []rectangle{{0, 0, length, height}}
	for len(all) < buffers {
		k := r.IntN(len(all))
		a := all[k]
		b := a
		if r.IntN(2) == 0 && a.w > 1 {
			a.w = 1 + r.Int64N(a.w-1)
			b.x, b.w = b.x+a.w, b.w-a.w
		} else if a.h > 1 {
			a.h = 1 + r.Int64N(a.h-1)
			b.y, b.h = b.y+a.h, b.h-a.h
		} else {
			continue
		}
		all[k] = a
		all = append(all, b)
	}
	l := &lifetimes.Lifetimes{Name: "cut"}
	for _, a := range all {
		l.Buffers = append(l.Buffers, lifetimes.Buffer{Lower: a.x, Upper: a.x + a.w, Size: float64(a.h)})
	}
	r.Shuffle(len(all), func(i, j int) { l.Buffers[i], l.Buffers[j] = l.Buffers[j], l.Buffers[i] })
	for i := range l.Buffers {
		l.Buffers[i].ID = string(rune('a'+i%26)) + string(rune('a'+i/26))
	}
	return l
}

// Rectangles that are cut to fit, with no room to spare anywhere, are put together
// again.
func TestPutsTogetherWhatIsCut(t *testing.T) {
	t.Parallel()
	for seed := range uint64(10) {
		in := view.New(cut(rand.New(rand.NewPCG(seed, 0)), 60, 1000, 1<<20))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		f := placement.Least(ctx, in, placement.Goal{})
		cancel()
		if h := check(t, in, f.Offsets); h != 1<<20 {
			t.Errorf("seed %d: %g for %d", seed, h, 1<<20)
		}
	}
}

// With an alignment offsets are multiples of it, and only what is on top may end
// between two.
func TestAlignment(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(20, 2))
	for range 300 {
		l := random.Lifetimes(r, 1+r.IntN(6))
		l.Align = 4
		in := view.New(l)
		f := placement.Least(t.Context(), in, placement.Goal{})
		h := check(t, in, f.Offsets)
		for _, at := range f.Offsets {
			if at%4 != 0 {
				t.Fatalf("offset %d", at)
			}
		}
		// All offsets up to four rooms above each other, by trying them.
		if best := aligned(in, make([]int64, len(in.Buffers)), 0, 1<<40); h != float64(best) || f.Bound != best {
			t.Fatalf("found %g, proved %d, the optimum is %d\n%+v", h, f.Bound, best, l.Buffers)
		} else if judged, _, err := optimumplacement.Search(l, math.Inf(1), 1<<20); err != nil || judged != float64(best) {
			t.Fatalf("exhaustive search: %g, the optimum is %d (%v)\n%+v", judged, best, err, l.Buffers)
		}
	}
}

// aligned returns the least height over all multiples of the alignment.
func aligned(in *view.Instance, at []int64, k int, best int64) int64 {
	if k == len(at) {
		return min(best, in.Height(at))
	}
	b := &in.Buffers[k]
	if b.Size == 0 {
		at[k] = 0
		return aligned(in, at, k+1, best)
	}
next:
	for x := int64(0); x+b.Size < best; x += in.Align {
		for j := range k {
			if c := &in.Buffers[j]; c.Size > 0 && b.Meets(c) && x < at[j]+c.Size && at[j] < x+b.Size {
				continue next
			}
		}
		at[k] = x
		best = aligned(in, at, k+1, best)
	}
	return best
}

// The annealing keeps to the rules, and does not lose to first fit.
func TestSearch(t *testing.T) {
	t.Parallel()
	in := view.New(cut(rand.New(rand.NewPCG(7, 7)), 40, 100, 1000))
	first := check(t, in, placement.Greedy(t.Context(), in, placement.FirstFit))
	f := placement.Search(t.Context(), in, placement.Goal{Seed: 1})
	if h := check(t, in, f.Offsets); h > first || h != float64(f.Height) {
		t.Errorf("search %g (says %d), first fit %g", h, f.Height, first)
	}
}

// What cannot be met in a window is no height of the whole: a few buffers above their
// load, amid others that take less.
func TestWindows(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(20, 3))
	proved := 0
	cases := testfile.Cases(60)
	for n := range cases {
		l := random.AboveLoad(r)
		best, _, err := optimumplacement.Search(l, unlimited, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		long := float64(1 + r.IntN(3)) // it joins all others, which are as high on it as alone
		best += long
		l.Buffers = append(l.Buffers, lifetimes.Buffer{ID: "long", Lower: -310, Upper: 700, Size: long})
		for k := range 300 { // lastGap and after the few
			from := int64(k%150)*2 - 304
			if k >= 150 {
				from += 404
			}
			l.Buffers = append(l.Buffers, lifetimes.Buffer{
				ID: fmt.Sprint("other", k), Lower: from, Upper: from + 1 + r.Int64N(3), Size: float64(r.Int64N(max(1, int64(best)/3))),
			})
		}
		in := view.New(l)
		bound := placement.BoundByWindows(t.Context(), in, 6)
		if bound > int64(best) {
			t.Fatalf("case %d: bound %d, the few need %g and the others less", n, bound, best)
		}
		if in.Load() < int64(best) && bound == int64(best) {
			proved++
		}
	}
	t.Logf("%d of %d are proved above their load by windows alone", proved, cases)
	if proved < cases/3 {
		t.Error("windows prove hardly anything")
	}
}

// Every method places what is long and short, large and small, on one address or aligned.
func TestEveryMethodIsValid(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(20, 4))
	for n := range testfile.Cases(60) {
		l := &lifetimes.Lifetimes{Name: "mixed", Align: [...]int64{0, 3, 512}[n%3]}
		for k := range 1 + r.IntN(400) {
			from := r.Int64N(1000)
			l.Buffers = append(l.Buffers, lifetimes.Buffer{
				ID: fmt.Sprint(k), Lower: from, Upper: from + 1 + int64(math.Pow(1000, r.Float64())), Size: math.Floor(math.Pow(1e9, r.Float64())) - 1,
			})
		}
		in := view.New(l)
		for _, place := range []func(*view.Instance, []int) []int64{placement.FirstFit, placement.BestFit, placement.Skyline} {
			for _, o := range placement.Orders() {
				if h := check(t, in, place(in, placement.Sorted(in, o))); h < float64(in.Load()) {
					t.Fatalf("case %d, %s: %g is below the load, %d", n, o.Name, h, in.Load())
				}
			}
		}
		f := placement.Repair(t.Context(), in, placement.Goal{Rounds: 1})
		check(t, in, f.Offsets)
	}
}

// The default search is never worse than a constructive heuristic, however many buffers
// there are, even without time for a round, and parts that are equal but for a shift in
// time are all placed.
func TestNoHeuristicIsBetter(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(20, 5))
	skyline := 0 // instances on which the skyline is the best
	for n := range 12 {
		block, copies := cut(r, 30+r.IntN(90), 50, 10_000), 1
		if n == 0 {
			copies = 80 // more than 5,000 buffers
		}
		l := &lifetimes.Lifetimes{Name: "copies"}
		for c := range copies {
			for _, b := range block.Buffers {
				b.ID = fmt.Sprint(c, b.ID)
				b.Lower, b.Upper, b.Size = b.Lower+int64(50*c), b.Upper+int64(50*c), b.Size-float64(n%2)
				l.Buffers = append(l.Buffers, b)
			}
		}
		in := view.New(l)
		ended, cancel := context.WithCancel(t.Context())
		f := placement.Least(ended, in, placement.Goal{Rounds: 1})
		cancel()
		h := check(t, in, f.Offsets)
		var heights []float64
		for _, place := range []func(*view.Instance, []int) []int64{placement.FirstFit, placement.BestFit, placement.Skyline} {
			heights = append(heights, check(t, in, placement.Greedy(t.Context(), in, place)))
		}
		if h > min(heights[0], heights[1], heights[2]) {
			t.Errorf("case %d, %d buffers: %g; first fit, best fit and skyline reach %v", n, len(l.Buffers), h, heights)
		}
		if heights[2] < min(heights[0], heights[1]) {
			skyline++
		}
	}
	if skyline == 0 {
		t.Error("the skyline is never the best: the cases prove nothing")
	}
}
