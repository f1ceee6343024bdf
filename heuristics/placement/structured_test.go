package placement_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"workbench/heuristics/placement"
	"workbench/model/exhaustive"
	optimumplacement "workbench/model/exhaustive/placement"
	"workbench/model/instance/lifetimes"
	"workbench/model/plan"
	"workbench/model/platform"
	view "workbench/model/problem/placement"
	"workbench/model/testcase/random"
	"workbench/model/testfile"
	verifyplacement "workbench/model/verify/placement"
)

// verified replays what a method placed, and returns the objective.
func verified(t *testing.T, y *view.Layout, f *placement.Placed) float64 {
	t.Helper()
	l := y.Lifetimes
	p := plan.New(plan.Placement, "test", l, platform.Platform{Memory: unlimited, Objective: y.Objective})
	for i, at := range y.Offsets(f.Blocks) {
		p.Offsets = append(p.Offsets, plan.Offset{ID: l.Buffers[i].ID, Offset: float64(at)})
	}
	r, err := verifyplacement.Verify(l, p)
	if err != nil {
		t.Fatal(err)
	}
	if value := r.Objective(p.Problem); !r.Valid() || value != float64(f.Value(y)) {
		t.Fatalf("%+v, value %g, said to be %d\n%+v", r.Violations, value, f.Value(y), l)
	}
	return r.Objective(p.Problem)
}

func all(ok []bool) bool {
	for _, x := range ok {
		if !x {
			return false
		}
	}
	return true
}

// With every rule mixed, the search finds and proves the optimum of the exhaustive one, or
// that there is no placement; greedy methods keep to the rules.
func TestStructuredAgainstExhaustiveSearch(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(45, 1))
	cases, none, charged, undecided := 2000, 0, 0, 0
	if testing.Short() {
		cases = 400
	}
	for n := range cases {
		l := random.Structured(r, 6)
		best, _, err := optimumplacement.Search(l, math.Inf(1), 1<<20)
		if errors.Is(err, exhaustive.ErrLimit) {
			undecided++
			continue
		}
		infeasible := errors.Is(err, exhaustive.ErrInfeasible)
		if err != nil && !infeasible {
			t.Fatal(err)
		}
		y, err := view.NewLayout(l, "")
		if err == nil {
			err = y.Fits(unlimited)
		}
		if err != nil {
			var proved *plan.Infeasible
			if !errors.As(err, &proved) || !infeasible {
				t.Fatalf("case %d: %v; the optimum is %g\n%+v", n, err, best, l)
			}
			none++
			continue
		}
		f := placement.Exact().Place(t.Context(), y, placement.Goal{Seed: uint64(n)}, nil)
		impossible := false
		for _, x := range f.Impossible {
			impossible = impossible || x
		}
		switch {
		case impossible != infeasible || !infeasible && !all(f.Fits):
			t.Fatalf("case %d: impossible %v, fits %v; exhaustive search: infeasible %v, %g\n%+v", n, f.Impossible, f.Fits, infeasible, best, l)
		case infeasible:
			none++
			continue
		}
		if value := verified(t, y, f); value != best || float64(f.Bound(y)) != best {
			t.Fatalf("case %d: found %g, proved %d; the optimum is %g\n%+v", n, value, f.Bound(y), best, l)
		}
		if y.Objective == lifetimes.TotalPenalty && best > 0 {
			charged++
		}
		for _, m := range []placement.Method{
			placement.Constructive(placement.FirstFit, true, false), placement.Constructive(placement.BestFit, true, true), placement.Heap(),
			placement.HillClimb(),
		} {
			if f := m.Place(t.Context(), y, placement.Goal{}, nil); all(f.Fits) && verified(t, y, f) < best {
				t.Fatalf("case %d: a greedy method is below the optimum, %g", n, best)
			}
		}
	}
	t.Logf("%d cases: %d infeasible, %d pay a penalty, %d undecided", cases, none, charged, undecided)
	if none < cases/20 || charged < cases/50 || undecided > cases/20 {
		t.Error("the cases prove little")
	}
}

// Even without time the default is no worse than first fit and the other greedy methods.
func TestStructuredDefaultIsNoWorse(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(45, 2))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for range testfile.Cases(300) {
		l := random.Structured(r, 9)
		l.Objective = ""
		for k := range l.Pools {
			l.Pools[k].Capacity = math.Inf(1)
		}
		y, err := view.NewLayout(l, "")
		if err != nil {
			continue
		}
		f := placement.Exact().Place(t.Context(), y, placement.Goal{Rounds: 1}, nil)
		first := placement.Heap().Place(ended, y, placement.Goal{}, nil)
		if verified(t, y, f) > verified(t, y, first) {
			t.Fatalf("%d above %d\n%+v", f.Value(y), first.Value(y), l)
		}
	}
}

// Buffers that fill a rectangle above a reserved range exactly, some of them pinned: the bound is the
// height of the rectangle, placements are valid, and the default is no worse than the others.
func TestPinnedRectangles(t *testing.T) {
	r := testfile.Random(t, 45, 3)
	found := 0
	cases := testfile.Cases(30)
	for n := range cases {
		l, height := rectangle(r, []int{12, 40, 120}[n%3])
		y, err := view.NewLayout(l, "")
		if err != nil {
			t.Fatal(err)
		}
		f := placement.Exact().Place(t.Context(), y, placement.Goal{Seed: uint64(n), Rounds: 1}, nil)
		if verified(t, y, f); f.Bounds[0] != height {
			t.Fatalf("bound %d, want %d\n%+v", f.Bounds[0], height, l)
		}
		if f.Heights[0] == height {
			found++
		}
		for _, m := range []placement.Method{
			placement.Constructive(placement.FirstFit, true, false), placement.Constructive(placement.BestFit, true, true), placement.Heap(),
			placement.HillClimb(),
		} {
			if g := m.Place(t.Context(), y, placement.Goal{}, nil); verified(t, y, g) < float64(f.Heights[0]) {
				t.Fatalf("case %d: %d, another method %d\n%+v", n, f.Heights[0], g.Heights[0], l)
			}
		}
	}
	if found < cases/3 {
		t.Errorf("%d of %d rectangles are found", found, cases)
	}
}

// rectangle cuts one of time × addresses above a reserved range into n buffers, a few of them pinned.
func rectangle(r *rand.Rand, n int) (l *lifetimes.Lifetimes, height int64) {
	const begin, width, tall = 7, 1000, 900
	type part struct{ x, y, w, h int64 }
	parts := []part{{0, begin, width, tall}}
	for len(parts) < n {
		k := r.IntN(len(parts))
		p, q := parts[k], parts[k]
		if r.IntN(2) == 0 && p.w > 1 {
			p.w = 1 + r.Int64N(p.w-1)
			q.x, q.w = q.x+p.w, q.w-p.w
		} else if p.h > 1 {
			p.h = 1 + r.Int64N(p.h-1)
			q.y, q.h = q.y+p.h, q.h-p.h
		} else {
			continue
		}
		parts[k] = p
		parts = append(parts, q)
	}
	l = &lifetimes.Lifetimes{Name: "rectangle", Pools: []lifetimes.Pool{{
		ID: "pool", Capacity: math.Inf(1), Reserved: []lifetimes.Range{{Begin: 0, End: begin}},
	}}}
	for k, p := range parts {
		b := lifetimes.Buffer{ID: fmt.Sprint(k), Lower: p.x, Upper: p.x + p.w, Size: float64(p.h)}
		if r.IntN(10) == 0 {
			b.Pinned, b.Offset = true, float64(p.y)
		}
		l.Buffers = append(l.Buffers, b)
	}
	return l, begin + tall
}
