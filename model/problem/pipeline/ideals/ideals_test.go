package ideals

import (
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"workbench/model/exhaustive"
	optimum "workbench/model/exhaustive/pipeline"
	"workbench/model/instance/graph"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/testcase/random"
	"workbench/model/testfile"
	"workbench/model/verify/pipeline"
)

func randomGraph(r *rand.Rand, n int) *graph.Graph {
	g := random.Graph(r, n)
	for i := range g.Nodes {
		g.Nodes[i].Weight = float64(r.IntN(3))
	}
	return g
}

// The ideals are the sets that have, with each layer, all that it reads.
func TestLattice(t *testing.T) {
	r := testfile.Random(t, 1, 18)
	coarse := 0
	for range testfile.Cases(300) {
		v, err := New(randomGraph(r, 1+r.IntN(7)))
		if err != nil {
			t.Fatal(err)
		}
		want := map[int]bool{}
		for set := range 1 << v.N {
			closed := true
			for l := range v.N {
				for _, u := range v.Pred[l] {
					closed = closed && (set>>l&1 == 0 || set>>u&1 != 0)
				}
			}
			if closed {
				want[set] = true
			}
		}
		l, err := v.Lattice(1 << v.N)
		if err != nil {
			t.Fatal(err)
		}
		if got := sets(l); len(l.Atoms) != v.N || !reflect.DeepEqual(got, want) {
			t.Fatalf("%v, want %v", got, want)
		}
		some, err := v.Lattice(max(3, len(want)/2))
		if errors.Is(err, ErrMany) {
			continue
		}
		coarse++
		for set := range sets(some) {
			if !want[set] {
				t.Fatalf("%b is no ideal", set)
			}
		}
		if some.Len() > max(3, len(want)/2) {
			t.Fatalf("%d of %d ideals", some.Len(), len(want))
		}
	}
	if coarse < testfile.Cases(100) {
		t.Errorf("%d graphs were made coarser", coarse)
	}
}

// A finer lattice near some ideals has these, others that are ideals, no more than it may,
// and all where there is room.
func TestNear(t *testing.T) {
	r := testfile.Random(t, 6, 18)
	finer := 0
	for range testfile.Cases(300) {
		v, err := New(randomGraph(r, 3+r.IntN(6)))
		if err != nil {
			t.Fatal(err)
		}
		whole, err := v.Lattice(1 << v.N)
		if err != nil {
			t.Fatal(err)
		}
		coarse, err := v.Lattice(max(4, whole.Len()*2/3))
		if err != nil || len(coarse.Atoms) == v.N {
			continue
		}
		var chosen []int
		for i := coarse.Len() - 1; i > 0; i = coarse.Below[i][r.IntN(len(coarse.Below[i]))] {
			if i == coarse.Len()-1 || r.IntN(2) == 0 {
				chosen = append(chosen, i)
			}
		}
		slices.Reverse(chosen)
		if all := coarse.Near(chosen, 1<<v.N, nil); all == nil || all.Len() != whole.Len() {
			t.Fatal("where there is room not all ideals are there")
		}
		most := coarse.Len()
		near := coarse.Near(chosen, most, nil)
		if near == nil {
			continue // nothing more can be merged
		}
		if near.Len() > most {
			t.Fatalf("%d ideals where %d are asked for", near.Len(), most)
		}
		some, every, before := sets(near), sets(whole), sets(coarse)
		for set := range some {
			if !every[set] {
				t.Fatalf("%b is no ideal", set)
			}
			if !before[set] {
				finer++
			}
		}
		for _, i := range chosen {
			set := 0
			for l := range v.N {
				if coarse.Has(i, l) {
					set |= 1 << l
				}
			}
			if !some[set] {
				t.Fatalf("%b was chosen and is not there", set)
			}
		}
	}
	if finer < testfile.Cases(50) {
		t.Errorf("only %d ideals are new", finer)
	}
}

func sets(t *Lattice) map[int]bool {
	all := map[int]bool{}
	for i := range t.Len() {
		set := 0
		for l := range t.View.N {
			if t.Has(i, l) {
				set |= 1 << l
			}
		}
		all[set] = true
	}
	return all
}

// The chain of an order is the one that the verifier makes, which shares nothing with it;
// once and each bound what is kept.
func TestChainIsTheVerifiers(t *testing.T) {
	r := testfile.Random(t, 2, 18)
	for range testfile.Cases(500) {
		g := randomGraph(r, 1+r.IntN(6))
		v, err := New(g)
		if err != nil {
			t.Fatal(err)
		}
		order := shuffled(r, v)
		var stages []plan.Stage
		for l := 1; l <= v.N; l++ {
			stages = append(stages, plan.Stage{Processor: r.IntN(2), From: l, To: l})
		}
		want, err := pipeline.Line(g, &plan.Plan{Order: v.IDs(order), Allocation: stages})
		if err != nil {
			t.Fatal(err)
		}
		got := v.Chain(order, Stages, stages)
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("%+v\nthe verifier has\n%+v", got, want)
		}
		each, once := v.Chain(order, Each, nil), v.Chain(order, Once, nil)
		for i := range want.Kept {
			if once.Kept[i] > want.Kept[i] || want.Kept[i] > each.Kept[i] {
				t.Fatalf("layer %d keeps %g, in stages %g, by itself %g", i+1, once.Kept[i], want.Kept[i], each.Kept[i])
			}
		}
	}
}

// shuffled is a random topological order with the loss last.
func shuffled(r *rand.Rand, v *View) []int {
	var order []int
	for len(order) < v.N {
		var ready []int
		for l := range v.N {
			if !slices.Contains(order, l) && !slices.ContainsFunc(v.Pred[l], func(u int) bool { return !slices.Contains(order, u) }) &&
				(l < v.N-1 || len(order) == v.N-1) {
				ready = append(ready, l)
			}
		}
		order = append(order, ready[r.IntN(len(ready))])
	}
	return order
}

// What no pipeline can be made of is refused by name.
func TestRefused(t *testing.T) {
	for name, g := range map[string]*graph.Graph{
		"no backward": {
			Nodes: []graph.Node{{ID: "f", Kind: graph.Forward}, {ID: "loss", Kind: graph.Loss}},
			Edges: []graph.Edge{{From: 0, To: 1}},
		},
		"no loss": {Nodes: []graph.Node{{ID: "f", Kind: graph.Forward}, {ID: "b", Kind: graph.Backward}}},
		"two losses": {Nodes: []graph.Node{
			{ID: "f", Kind: graph.Forward},
			{ID: "l", Kind: graph.Loss},
			{ID: "m", Kind: graph.Loss},
			{ID: "b", Kind: graph.Backward},
		}},
		"backwards in another order": {
			Nodes: []graph.Node{
				{ID: "f", Kind: graph.Forward},
				{ID: "g", Kind: graph.Forward},
				{ID: "loss", Kind: graph.Loss},
				{ID: "b", Kind: graph.Backward},
				{ID: "c", Kind: graph.Backward},
			},
			Edges: []graph.Edge{{From: 0, To: 1}, {From: 1, To: 2}, {From: 2, To: 3}, {From: 2, To: 4}},
		},
	} {
		if _, err := New(g); !errors.Is(err, ErrGraph) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// One unit below what is said to be needed nothing fits, as exhaustive search over all
// orders and allocations finds, and mostly something fits in it.
func TestNothingFitsBelow(t *testing.T) {
	r := testfile.Random(t, 4, 18)
	tight, splits := 0, 0
	for range testfile.Cases(400) {
		g := randomGraph(r, 2+r.IntN(2))
		for i := range g.Nodes {
			g.Nodes[i].Time++
			g.Nodes[i].Overhead = 0
		}
		v, err := New(g)
		if err != nil {
			t.Fatal(err)
		}
		lattice, err := v.Lattice(1 << v.N)
		if err != nil {
			t.Fatal(err)
		}
		p := platform.Platform{Memory: 1e-3, Bandwidth: 1, Processors: 1 + r.IntN(3), WeightCopies: 1 + r.IntN(3)}
		model := []string{plan.StageModel, plan.TaskModel}[r.IntN(2)]
		var none *plan.Infeasible
		if !errors.As(v.Infeasible(p, model, lattice), &none) {
			continue // nothing takes any memory
		}
		if closed, _ := v.needed(p); none.Memory > closed {
			splits++
		}
		for _, less := range []float64{0, 1} {
			p.Memory = none.Memory - less
			if known := v.Infeasible(p, model, lattice); (known != nil) != (less > 0) {
				t.Fatalf("in %g of %g: %v", p.Memory, none.Memory, known)
			}
			if p.Memory <= 0 {
				continue
			}
			_, _, err := optimum.SearchGraph(g, p, model, 1, 20000)
			switch fits := !errors.Is(err, exhaustive.ErrInfeasible); {
			case fits && less > 0:
				t.Fatalf("a plan in %g, %v (%v)\n%+v", p.Memory, none, err, g)
			case fits:
				tight++
			}
		}
	}
	t.Logf("%d are tight, %d by cuts", tight, splits)
	if tight < testfile.Cases(300) || splits < testfile.Cases(100) {
		t.Errorf("%d are tight, %d by cuts", tight, splits)
	}
}

// What is proved until searches are ended is no more than what they prove.
func TestStopped(t *testing.T) {
	r := testfile.Random(t, 5, 18)
	early := 0
	for range testfile.Cases(400) {
		v, err := New(randomGraph(r, 2+r.IntN(6)))
		if err != nil {
			t.Fatal(err)
		}
		lattice, err := v.Lattice(1 << v.N)
		if err != nil {
			t.Fatal(err)
		}
		p := platform.Platform{Memory: 1e-3, Bandwidth: 1, Processors: 2 + r.IntN(3), WeightCopies: 1 + r.IntN(3)}
		least := func() float64 {
			var none *plan.Infeasible
			if !errors.As(v.Infeasible(p, plan.TaskModel, lattice), &none) {
				return 0
			}
			return none.Memory
		}
		roomy := p
		roomy.Memory = 2 * least()
		bounds := func() []float64 {
			return []float64{least(), lattice.Held(roomy, true), lattice.Runs(p)}
		}
		whole, left := bounds(), r.IntN(200)
		v.Stopped = func() bool { left--; return left < 0 }
		for k, x := range bounds() {
			if x > whole[k] {
				t.Fatalf("bound %d is %g, of searches that were ended %g", k, whole[k], x)
			}
			if x < whole[k] {
				early++
			}
		}
	}
	if early < testfile.Cases(100) {
		t.Errorf("only %d were ended early", early)
	}
}

// What halving finds is the finest lattice of at most so many ideals, of all numbers of parts
// that are tried, made from the layers anew each time.
func TestLatticeIsTheFinest(t *testing.T) {
	r := testfile.Random(t, 9, 18)
	coarse := 0
	for range testfile.Cases(300) {
		v, err := New(randomGraph(r, 4+r.IntN(9)))
		if err != nil {
			t.Fatal(err)
		}
		most := 3 + r.IntN(20)
		var want [][]int
		for n := v.N; ; n = n * 7 / 8 {
			m := v.merging(make([]float64, v.N), make([]int, v.N))
			m.down(n, nil)
			if v.lattice(m.atoms(), most) != nil {
				want = m.atoms()
				break
			}
			if m.parts > n || n < 4 {
				break
			}
		}
		got, err := v.Lattice(most)
		switch {
		case want == nil && !errors.Is(err, ErrMany):
			t.Fatalf("%v: %v, there is none", got, err)
		case want != nil && (err != nil || !reflect.DeepEqual(got.Atoms, want)):
			t.Fatalf("%v (%v), want %v", got, err, want)
		}
		if want != nil && len(want) < v.N {
			coarse++
		}
	}
	if coarse < testfile.Cases(100) {
		t.Errorf("%d graphs were made coarser", coarse)
	}
}

// Searches that are to end do: that for the least memory asks at every ideal before it looks
// at it, also while it prepares, and not again after it was told; and nothing is made finer.
func TestSearchesAskWhetherTheyAreToEnd(t *testing.T) {
	r := testfile.Random(t, 10, 18)
	p := platform.Platform{Memory: 1e9, Bandwidth: 1, Processors: 3, WeightCopies: 3}
	given := make(chan struct{})
	close(given)
	for range testfile.Cases(100) {
		v, err := New(randomGraph(r, 4+r.IntN(6)))
		if err != nil {
			t.Fatal(err)
		}
		lattice := func() *Lattice {
			l, err := v.Lattice(1 << v.N)
			if err != nil {
				t.Fatal(err)
			}
			return l
		}
		asked, most := 0, math.MaxInt
		v.Stopped = func() bool { asked++; return asked > most }
		l := lattice()
		if order, _ := l.LeastContiguous(p, plan.TaskModel, nil); order == nil || asked < 2*l.Len()-1 {
			t.Fatalf("%v, asked %d times for %d ideals", order, asked, l.Len())
		}
		for most = range asked {
			asked = 0
			if order, _ := lattice().LeastContiguous(p, plan.TaskModel, nil); order != nil || asked != most+1 {
				t.Fatalf("%v, asked %d times, told at the %dth", order, asked, most+1)
			}
		}
		most = math.MaxInt
		if order, _ := lattice().LeastContiguous(p, plan.TaskModel, given); order != nil {
			t.Fatalf("%v though that was to end", order)
		}
		if near := l.Near([]int{l.Len() / 2, l.Len() - 1}, 4, given); near != nil {
			t.Fatal("a finer lattice though that was to end")
		}
	}
}
