package placement

import (
	"fmt"
	"math"
	"testing"

	"workbench/ilp/check"
	"workbench/ilp/formulation"
	"workbench/ilp/ilptest"
	"workbench/model/instance/lifetimes"
	"workbench/model/milp"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/testcase"
	"workbench/model/testcase/random"
	"workbench/model/testfile"
	"workbench/solvers"
	"workbench/solvers/highs"
	"workbench/solvers/lpsolve"
)

// Every formulation keeps its promise on random instances, with and without the rules of
// lifetimes/v2, and on those whose least height is above their load.
func TestCheckPlacement(t *testing.T) {
	both := []solvers.Backend{highs.New(), lpsolve.New()}
	for name, tight := range map[string]float64{"placement-load": 0.95, "placement-orders": 1, "placement-cliques": 1} {
		f := ilptest.Formulation(t, Formulations(), name)
		ilptest.Keeps(t, f, testcase.Placement(), ilptest.Check{Backends: both, Cases: 150, Layers: 4, Tight: tight})
		if name != "placement-orders" { // takes minutes
			ilptest.Keeps(t, f, testcase.Placement(), ilptest.Check{Backends: both[:1], Cases: 60, Layers: 8, Tight: 0.2})
		}
	}
}

// load adds up what is alive at each instant, rounded up to the alignment but for one buffer.
func load(l *lifetimes.Lifetimes) (most float64) {
	for i := range l.Buffers {
		sum, cut, at := 0.0, 0.0, l.Buffers[i].Lower
		for j := range l.Buffers {
			if b := &l.Buffers[j]; b.Lower <= at && at < b.Upper && b.Size > 0 {
				room := math.Ceil(b.Size/float64(l.Grid())) * float64(l.Grid())
				sum, cut = sum+room, max(cut, room-b.Size)
			}
		}
		most = max(most, sum-cut)
	}
	return most
}

// relaxed returns the optimum of the linear relaxation in units of the problem.
func relaxed(t testing.TB, program *formulation.Program) float64 {
	t.Helper()
	r, err := highs.New().Solve(t.Context(), program.Model, solvers.Options{Relax: true})
	if err != nil || r.Status != solvers.Optimal {
		t.Fatalf("%v, %v", r, err)
	}
	return program.Objective(r.Obj)
}

// placement-load is the load, and no relaxation of placement-cliques is below it, whichever
// section has it: the first, the last or one between.
func TestLoadOfEverySection(t *testing.T) {
	p := platform.Platform{Memory: 1e6}
	for peak := range 4 {
		l := &lifetimes.Lifetimes{Name: "steps"}
		for i := range 4 { // pairs, one after the other
			for k := range 2 {
				size := 2.0
				if i == peak {
					size = 5
				}
				l.Buffers = append(l.Buffers, lifetimes.Buffer{ID: fmt.Sprint(i, k), Lower: int64(i), Upper: int64(i) + 1, Size: size})
			}
		}
		if x := relaxed(t, ilptest.Must(t, Load, l, p)); x != 10 {
			t.Errorf("load %v with the peak in section %d, want 10", x, peak)
		}
		if x := relaxed(t, ilptest.Must(t, Cliques, l, p)); math.Abs(x-10) > 1e-6 {
			t.Errorf("relaxation %v with the peak in section %d, want 10", x, peak)
		}
	}
	r := testfile.Random(t, 1, 7)
	for range testfile.Cases(300) {
		l := random.Lifetimes(r, 1+r.IntN(7))
		l.Align = [...]int64{0, 3, 4}[r.IntN(3)]
		want := load(l)
		if x := relaxed(t, ilptest.Must(t, Load, l, p)); x != want {
			t.Fatalf("load %v, want %v of %+v", x, want, l)
		}
		if x := relaxed(t, ilptest.Must(t, Cliques, l, p)); x < want-1e-6 {
			t.Fatalf("relaxation %v is below the load %v of %+v", x, want, l)
		}
	}
}

// Each group of rows that strengthens placement-cliques does so on some instance: without it a
// point that is no placement comes in or a relaxation gets weaker.
func TestEachGroupCounts(t *testing.T) {
	l := &lifetimes.Lifetimes{Name: "three and a twin"}
	for i, size := range []float64{3, 5, 7, 7} {
		l.Buffers = append(l.Buffers, lifetimes.Buffer{ID: fmt.Sprint(i), Lower: 0, Upper: 2, Size: size})
	}
	program := ilptest.Must(t, Cliques, l, platform.Platform{Memory: 1000})
	weaker := func(groups ...string) float64 {
		m, err := program.Model.Without(groups...)
		if err != nil {
			t.Fatal(err)
		}
		r, err := highs.New().Solve(t.Context(), m, solvers.Options{Relax: true})
		if err != nil || r.Status != solvers.Optimal {
			t.Fatalf("%v, %v", r, err)
		}
		return program.Objective(r.Obj)
	}
	for _, x := range []struct {
		groups []string
		want   float64
	}{
		{nil, 22},
		{[]string{"load"}, 22}, // under and over add up to it
		{[]string{"under", "over"}, 22},
	} {
		if got := weaker(x.groups...); math.Abs(got-x.want) > 1e-6 {
			t.Errorf("without %v the relaxation is %v, want %v", x.groups, got, x.want)
		}
	}
	for _, groups := range [][]string{{"load", "under"}, {"load", "over"}} {
		if got := weaker(groups...); got > 22-1e-6 {
			t.Errorf("without %v the relaxation is still %v", groups, got)
		}
	}
	rows := map[string]int{}
	for _, g := range program.Model.Groups() {
		rows[g.Name] = g.Rows
	}
	// 4 buffers in one section: 6 pairs, 4 triples, a pair of twins.
	for name, want := range map[string]int{"load": 1, "under": 4, "over": 4, "cycles": 4, "twins": 1, "apart": 12, "height": 4} {
		if rows[name] != want {
			t.Errorf("%d rows of %s, want %d", rows[name], name, want)
		}
	}
}

// Rows under and over have no room in a stack without holes: each counts every buffer below, or above.
func TestStacksAreTight(t *testing.T) {
	l := &lifetimes.Lifetimes{Name: "a stack"}
	offsets, at := &plan.Plan{Problem: plan.Placement}, 0.0
	for i, size := range []float64{5, 1, 7, 3} {
		id := fmt.Sprint(i)
		l.Buffers = append(l.Buffers, lifetimes.Buffer{ID: id, Lower: 0, Upper: 2, Size: size})
		offsets.Offsets = append(offsets.Offsets, plan.Offset{ID: id, Offset: at})
		at += size
	}
	program := ilptest.Must(t, Cliques, l, platform.Platform{Memory: 1000})
	x, err := program.Start(offsets)
	if err != nil {
		t.Fatal(err)
	}
	sums, groups := program.Model.Activity(x), program.Model.Groups()
	for r := range program.Model.Rows() {
		if name := groups[r.Group()].Name; (name == "under" || name == "over" || name == "load") && sums[r.Index] != r.Lower && sums[r.Index] != r.Upper {
			t.Errorf("%s is %v, between %v and %v", name, sums[r.Index], r.Lower, r.Upper)
		}
	}
}

// Mistakes in any row of any group are found by the check.
func TestMutants(t *testing.T) {
	testfile.Long(t)
	tighter := func(word string) func(*milp.Data) {
		return func(d *milp.Data) {
			for i := range d.RowLower {
				if d.Groups[d.RowGroup[i]].Name != word {
					continue
				}
				if !math.IsInf(d.RowLower[i], 0) {
					d.RowLower[i]++
				}
				if !math.IsInf(d.RowUpper[i], 0) {
					d.RowUpper[i]--
				}
			}
		}
	}
	dropped := func(word string) func(*milp.Data) {
		return func(d *milp.Data) {
			for i := range d.RowLower {
				if d.Groups[d.RowGroup[i]].Name == word {
					d.RowLower[i], d.RowUpper[i] = math.Inf(-1), math.Inf(1)
				}
			}
		}
	}
	for _, x := range []struct {
		name, formulation string
		spoil             func(*milp.Data)
	}{
		{"the load is one more", "placement-load", tighter("load")},
		{"Turán's number is one more", "placement-load", tighter("turan")},
		{"lower rows are one tighter", "placement-cliques", tighter("under")},
		{"upper rows are one tighter", "placement-cliques", tighter("over")},
		{"cycles of two of three are forbidden", "placement-cliques", tighter("cycles")},
		{"buffers are a unit larger", "placement-cliques", tighter("height")},
		{"pairs are a unit apart", "placement-orders", tighter("apart")},
		{"charges begin before the overlap", "placement-orders", tighter("charged")},
		{"no height", "placement-orders", dropped("height")},
		{"nothing is apart", "placement-orders", dropped("apart")},
		{"nothing is charged", "placement-orders", dropped("charged")},
		{"respected pairs overlap", "placement-orders", dropped("respected")},
		{"reserved ranges are free", "placement-orders", dropped("reserved")},
		{"the largest height is any", "placement-orders", dropped("largest")},
	} {
		f := ilptest.Formulation(t, Formulations(), x.formulation)
		if !ilptest.Fails(t, ilptest.Spoilt(f, x.spoil, nil), testcase.Placement(), check.Options{Seed: 5, Cases: 400, Layers: 5}) {
			t.Errorf("%s: not found that %s", x.formulation, x.name)
		}
	}
}
