package rematgraph

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	optimum "workbench/model/exhaustive/rematgraph"
	"workbench/model/instance/graph"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/testcase"
	"workbench/model/testcase/random"
	"workbench/model/testfile"
	"workbench/model/verify"
	"workbench/model/zoo"
)

// checkLeast checks that the plan of least memory is valid and takes what it says.
func checkLeast(t *testing.T, v *View) Least {
	t.Helper()
	x := v.Least()
	p := x.Fill(v.NewPlan("least", platform.Platform{Memory: x.High}), v)
	if r, err := verify.Replay(v.Instance, p); err != nil || !r.Valid() || len(r.ClaimErrors) > 0 || r.PeakMemory != x.High {
		t.Errorf("%s: %v, peak %v of %v: %+v", v.Graph.Name, err, r.PeakMemory, x.High, r.Violations)
	}
	if x.Low > x.High {
		t.Errorf("%s: a plan of %v, where none takes less than %v", v.Graph.Name, x.High, x.Low)
	}
	return x
}

// What a search says of the least memory holds, and it is the least where it came
// to an end; each search is tried, and ended early.
func TestLeast(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 11))
	graphs := 3000
	if testing.Short() {
		graphs = 300
	}
	closed, contracted, eager, late := 0, 0, 0, 0
	for k := range graphs {
		g, want := drawn(t, r, k)
		v := of(t, g)
		if x := checkLeast(t, v); x.Low != want || x.High != want {
			t.Fatalf("%s: the least memory is %v: %+v", g.Title(), want, x)
		}
		b := v.bounds()
		if b.least == want {
			closed++
		}
		if slices.Max(v.late()) >= 0 && b.least < want {
			late++
		}
		inf := 2*want + 1
		if low, _, _ := newBounds(v.contracted(r.Float64()*want)).search(0, inf, false, 1<<20); low > want {
			t.Fatalf("%s: the least memory is %v, of the contracted graph %v", g.Title(), want, low)
		} else if low == want {
			contracted++
		}
		if low, order, done := b.search(0, inf, false, 1<<20); low != want || !done || v.peak(order) != want {
			t.Fatalf("%s: the least memory is %v, searched %v (%v)", g.Title(), want, low, done)
		}
		if low, _, _ := b.search(0, inf, false, 1+r.IntN(20)); low > want {
			t.Fatalf("%s: the least memory is %v, a search that was cut off says %v", g.Title(), want, low)
		}
		low, order, _ := b.search(want, inf, true, 1<<20)
		if low < want || order != nil && v.peak(order) > low {
			t.Fatalf("%s: the least memory is %v, eagerly %v: %v", g.Title(), want, low, order)
		}
		if low == want {
			eager++
		}
	}
	t.Logf("of %d graphs the least memory is the closed form on %d, that of a contraction on %d, found eagerly on %d, more than the "+
		"closed form where values are put off on %d", graphs, closed, contracted, eager, late)
	if eager < graphs*9/10 || contracted < graphs/2 || late < graphs/50 {
		t.Error("too few")
	}
}

// drawn is a random graph and its least memory.
func drawn(t *testing.T, r *rand.Rand, k int) (plan.Instance, float64) {
	t.Helper()
	g := random.Graph(r, 1+r.IntN(7))
	switch k % 5 {
	case 4:
		g = crossed(r, 1+r.IntN(3))
	case 0:
		g = testcase.MixedGraph(r, 1+r.IntN(6))
	case 1:
		g = randomGraph(r, 1+r.IntN(12), r.IntN(2) == 0)
	case 2:
		step := random.Training(r, 1+r.IntN(3))
		for j := range step.Nodes { // what follows knows nothing of orders that matter
			step.Nodes[j].Mutates, step.Nodes[j].Random = nil, false
		}
		want, err := optimum.LeastMemory(step, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		return step, want
	}
	want, err := optimum.LeastMemory(g, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	return g, want
}

// A search that is ended says what is so far known, and goes on when it is asked again.
func TestLeastStopped(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 13))
	open, cases := 0, testfile.Cases(500)
	for k := range cases {
		g, want := drawn(t, r, k)
		v := of(t, g)
		left := r.IntN(20)
		v.Stopped = func() bool { left--; return left < 0 }
		if x := checkLeast(t, v); x.Low > want || x.High < want {
			t.Fatalf("%s: the least memory is %v: %+v", g.Title(), want, x)
		} else if x.Low < x.High {
			open++
		}
		v.Stopped = nil
		if x := checkLeast(t, v); x.Low != want || x.High != want {
			t.Fatalf("%s: the least memory is %v: %+v", g.Title(), want, x)
		}
	}
	if open < cases/50 {
		t.Errorf("only %d were ended early", open)
	}
}

// crossed is a training step of T5's shape: so many layers of a decoder read what an encoder
// wrote, and some of their gradients come together at its end. Sizes are of several
// magnitudes, and mostly the same.
func crossed(r *rand.Rand, layers int) *graph.Graph {
	g := &graph.Graph{Name: "crossed", Input: float64(r.IntN(3))}
	base := [...]float64{1, 1, 3, 1000, 1e9}[r.IntN(5)]
	add := func(kind string, reads ...int) int {
		i := len(g.Nodes)
		size := base*float64(1+r.IntN(4)) + float64(r.IntN(8)/7)
		g.Nodes = append(g.Nodes, graph.Node{ID: fmt.Sprintf("v%d", i), Kind: kind, Time: 1, Memory: size, Overhead: base * float64(r.IntN(6)/5)})
		for _, j := range reads {
			g.Edges = append(g.Edges, graph.Edge{From: j, To: i})
		}
		return i
	}
	encoded := add(graph.Forward, add(graph.Forward))
	x := []int{add(graph.Forward)}
	for l := range layers {
		x = append(x, add(graph.Forward, x[l], encoded))
	}
	grad := add(graph.Loss, x[layers])
	ends := []int{encoded}
	for l := layers; l > 0; l-- {
		context := add(graph.Backward, x[l], grad)
		if r.IntN(4) > 0 {
			ends = append(ends, add(graph.Backward, encoded, context))
		}
		scores := context
		if layers < 3 && r.IntN(4) > 0 {
			scores = add(graph.Backward, context)
			ends = append(ends, add(graph.Backward, encoded, scores))
		}
		grad = add(graph.Backward, x[l-1], scores)
	}
	add(graph.Backward, x[0], grad)
	add(graph.Backward, 0, add(graph.Backward, ends...))
	return g
}

// Where the order of first computations matters, the searches of the least memory
// give bounds on both sides of it.
func TestLeastInOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	known, cases := 0, testfile.Cases(500)
	for range cases {
		g := random.Training(r, 1+r.IntN(3))
		want, err := optimum.LeastMemory(g, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		x := checkLeast(t, of(t, g))
		if x.Low > want || x.High < want {
			t.Fatalf("%s: the least memory is %v: %+v", g.Name, want, x)
		}
		if x.Low == x.High {
			known++
		}
	}
	t.Logf("the least memory of %d of %d is known", known, cases)
	if known < cases*8/10 {
		t.Error("too few")
	}
}

// Of every network of the zoo the least memory is known.
func TestLeastOfNetworks(t *testing.T) {
	for _, name := range zoo.Names() {
		if testing.Short() && name != "bert" && name != "siamese" && name != "resnet50" {
			continue
		}
		g, err := zoo.Graph(name, nil)
		if err != nil {
			t.Fatal(err)
		}
		v := of(t, g)
		x := checkLeast(t, v)
		if x.Low != x.High {
			t.Errorf("%s: from %v to %v", name, x.Low, x.High)
		}
		var none *plan.Infeasible
		if err := v.Fits(x.Low - 1); !errors.As(err, &none) || none.Memory != x.Low {
			t.Errorf("%s: one unit below %v: %v", name, x.Low, err)
		}
		if err := v.Fits(x.Low); err != nil {
			t.Errorf("%s in %v: %v", name, x.Low, err)
		}
		t.Logf("%s: %.0f, by the closed form %.0f", name, x.Low, v.bounds().least)
	}
}
