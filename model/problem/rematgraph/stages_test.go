package rematgraph

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"workbench/model/instance/chain"
	"workbench/model/instance/graph"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/testcase/random"
	"workbench/model/testfile"
	"workbench/model/verify"
)

// randomGraph returns a graph of n nodes with small integers: forward nodes, the
// loss, backward nodes, and edges of any span. If mixed is set, nodes of all
// kinds stand in any order.
func randomGraph(r *rand.Rand, n int, mixed bool) *graph.Graph {
	g := &graph.Graph{Name: "random", Input: float64(r.IntN(3))}
	for i := range n {
		kind := graph.Forward
		switch {
		case mixed && r.IntN(3) == 0, i > n/2:
			kind = graph.Backward
		case i == n/2:
			kind = graph.Loss
		}
		g.Nodes = append(g.Nodes, graph.Node{
			ID: fmt.Sprintf("v%d", i), Kind: kind,
			Time: float64(r.IntN(4)), Memory: float64(r.IntN(4)), Overhead: float64(r.IntN(2) * r.IntN(3)),
		})
		for j := range i {
			if j == i-1 || r.IntN(4) == 0 {
				g.Edges = append(g.Edges, graph.Edge{From: j, To: i})
			}
		}
	}
	return g
}

// either returns randomGraph, or a random training step whose nodes write several
// values and change others, in an order that a file may have.
func either(r *rand.Rand, n int, mixed bool) plan.Instance {
	if r.IntN(2) == 0 {
		return randomGraph(r, n, mixed)
	}
	return random.Training(r, (n+2)/3)
}

func of(t rapid.TB, g plan.Instance) *View {
	t.Helper()
	v, err := New(g)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// Whatever is retained, the completed schedule is a valid plan whose makespan
// and peak are those the schedule says, and the plan leads back to it.
func TestPlans(t *testing.T) {
	testfile.Property(t, func(rt *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 0))
		v := of(rt, either(r, 1+r.IntN(12), r.IntN(2) == 0))
		s := v.New()
		for t := range v.N {
			for i := range v.M {
				s.Retain(t, i, v.Writer[i] < t && r.IntN(2) == 0)
			}
		}
		s.Complete()
		peak, _, _ := s.Peak()
		p := s.Fill(v.NewPlan("test", platform.Platform{Memory: max(peak, 1)}))
		report, err := verify.Replay(v.Instance, p)
		if err != nil {
			rt.Fatal(err)
		}
		if !report.Valid() || len(report.ClaimErrors) > 0 {
			rt.Fatalf("violations %v, claims %v", report.Violations, report.ClaimErrors)
		}
		if cost := s.Cost(); math.Abs(cost-report.Makespan) > 1e-9 || math.Abs(peak-report.PeakMemory) > 1e-9 {
			rt.Fatalf("cost %g and peak %g, replayed %g and %g", cost, peak, report.Makespan, report.PeakMemory)
		}
		for _, assumption := range []string{InGraphOrder, InStages} {
			if meets, known := v.Meets(p, assumption); !meets || !known {
				rt.Fatalf("a schedule of stages is taken for none: %s", assumption)
			}
		}
		back, err := v.FromPlan(p)
		if err != nil {
			rt.Fatal(err)
		}
		if !slices.Equal(s.S, back.S) || !slices.Equal(s.R, back.R) {
			rt.Fatalf("the plan of a schedule leads to another schedule")
		}
	})
}

// Complete computes as little as possible: leaving out any computation leaves
// something missing. And it does nothing the second time.
func TestCompleteIsLeast(t *testing.T) {
	testfile.Property(t, func(rt *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
		v := of(rt, either(r, 2+r.IntN(9), false))
		s := v.New()
		for t := range v.N {
			for i := range v.M {
				s.Retain(t, i, v.Writer[i] < t && r.IntN(2) == 0)
			}
		}
		s.Complete()
		again := s.Clone()
		again.Complete()
		if !slices.Equal(s.S, again.S) || !slices.Equal(s.R, again.R) {
			rt.Fatal("completing twice differs from once")
		}
		for t := range v.N {
			for j := range t + 1 {
				if s.Computed(t, j) {
					serves(rt, s, t, j)
				}
			}
			for i := range v.M {
				if s.Retained(t+1, i) && !s.Retained(t, i) && !s.Computed(t, v.Writer[i]) {
					rt.Fatalf("value %d is retained into stage %d out of nothing", i, t+1)
				}
			}
		}
	})
}

// serves checks that the computation of node j in stage t has what it reads, may
// run, and makes something that is needed and not there.
func serves(t *rapid.T, s *Schedule, stage, j int) {
	v := s.View()
	needed := stage == j
	for _, i := range v.Writes[j] {
		if s.Retained(stage, i) {
			t.Fatalf("stage %d computes node %d, of which it has a value", stage, j)
		}
		needed = needed || s.Retained(stage+1, i)
		for _, k := range v.Succ[i] {
			needed = needed || s.Computed(stage, k)
		}
	}
	if !needed || stage > v.Until[j] {
		t.Fatalf("stage %d computes node %d for nothing, or when it may not", stage, j)
	}
	for _, i := range v.Pred[j] {
		if !s.Computed(stage, v.Writer[i]) && !s.Retained(stage, i) {
			t.Fatalf("stage %d computes node %d without value %d", stage, j, i)
		}
	}
}

func TestStoreAll(t *testing.T) {
	g := randomGraph(rand.New(rand.NewPCG(1, 2)), 20, false)
	s := of(t, g).StoreAll()
	if s.Cost() != g.TotalTime() {
		t.Errorf("cost %g, want %g: every node once", s.Cost(), g.TotalTime())
	}
}

// Operations are written down in room that is made once, where nodes write several values, too.
func TestOpsTakeTheirRoomOnce(t *testing.T) {
	r := testfile.Random(t, 18, 1)
	for i := range testfile.Cases(200) {
		v, err := New(random.Training(r, 1+i%3))
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range []*Schedule{v.StoreAll(), v.Frugal()} {
			room := 0
			for t := range v.N {
				for j := range v.N {
					if s.Computed(t, j) {
						room += v.room(j)
					}
				}
			}
			if ops := s.Ops(); len(ops) > room || cap(ops) != room {
				t.Fatalf("case %d: %d operations in room for %d, %d were to suffice", i, len(ops), cap(ops), room)
			}
		}
	}
}

func TestBadInput(t *testing.T) {
	node := func(time, memory float64) graph.Node {
		return graph.Node{ID: "v", Kind: graph.Forward, Time: time, Memory: memory}
	}
	for name, g := range map[string]*graph.Graph{
		"empty":         {},
		"backward edge": {Nodes: []graph.Node{node(1, 1), node(1, 1)}, Edges: []graph.Edge{{From: 1, To: 0}}},
		"loop":          {Nodes: []graph.Node{node(1, 1)}, Edges: []graph.Edge{{}}},
		"far edge":      {Nodes: []graph.Node{node(1, 1)}, Edges: []graph.Edge{{From: 0, To: 7}}},
		"no time":       {Nodes: []graph.Node{node(math.NaN(), 1)}},
		"negative":      {Nodes: []graph.Node{node(1, -1)}},
		"half a byte":   {Nodes: []graph.Node{node(1, 0.5)}},
		"half an input": {Nodes: []graph.Node{node(1, 1)}, Input: 0.5},
		"too much":      {Nodes: []graph.Node{node(1, 1<<52), node(1, 1<<52)}},
		"input":         {Nodes: []graph.Node{node(1, 1)}, Input: math.Inf(1)},
		"huge":          {Nodes: make([]graph.Node, Most+1)},
	} {
		if _, err := New(g); !errors.Is(err, ErrGraph) {
			t.Errorf("%s: error %v, want ErrGraph", name, err)
		}
	}
	for name, in := range map[string]plan.Instance{"nil": nil, "nil graph": (*graph.Graph)(nil), "chain": &chain.Chain{}} {
		if _, err := New(in); !errors.Is(err, ErrGraph) {
			t.Errorf("%s: error %v, want ErrGraph", name, err)
		}
	}
}

// Plans of another form are told from schedules of stages.
func TestMeets(t *testing.T) {
	g := &graph.Graph{Nodes: []graph.Node{{ID: "a", Kind: graph.Forward}, {ID: "b", Kind: graph.Forward}, {ID: "c", Kind: graph.Loss}}}
	v := of(t, g)
	for ops, want := range map[string][2]bool{ // InGraphOrder, InStages
		"abc":   {true, true},
		"bac":   {false, true},
		"abaac": {true, false}, // a twice in a stage
		"abbac": {true, false}, // against the order in a stage
		"ababc": {true, true},
		"abcba": {true, true}, // what follows serves nothing
	} {
		p := &plan.Plan{}
		for _, node := range ops {
			p.Ops = append(p.Ops, plan.Op{Op: plan.OpC, Node: string(node)})
		}
		for k, assumption := range []string{InGraphOrder, InStages} {
			if meets, known := v.Meets(p, assumption); meets != want[k] || !known {
				t.Errorf("%s: %q is %v, %v", ops, assumption, meets, known)
			}
		}
	}
	if _, known := v.Meets(&plan.Plan{}, "another"); known {
		t.Error("an assumption of no graph is known")
	}
}

func TestBadPlans(t *testing.T) {
	g := &graph.Graph{
		Nodes: []graph.Node{{ID: "a", Kind: graph.Forward}, {ID: "b", Kind: graph.Forward}, {ID: "c", Kind: graph.Loss}},
		Edges: []graph.Edge{{From: 0, To: 2}, {From: 1, To: 2}},
	}
	v := of(t, g)
	c := func(id string) plan.Op { return plan.Op{Op: plan.OpC, Node: id} }
	for name, ops := range map[string][]plan.Op{
		"nothing":       {},
		"unknown node":  {c("x")},
		"other order":   {c("b"), c("a"), c("c")},
		"incomplete":    {c("a"), c("b")},
		"missing input": {c("a"), {Op: plan.OpD, Node: "a"}, c("b"), c("c")},
		"chain":         {{Op: plan.OpFAll, Node: "a"}},
	} {
		if _, err := v.FromPlan(&plan.Plan{Ops: ops}); !errors.Is(err, ErrPlan) {
			t.Errorf("%s: error %v, want ErrPlan", name, err)
		}
	}
	if _, err := v.FromPlan(nil); !errors.Is(err, ErrPlan) {
		t.Errorf("nil plan: error %v, want ErrPlan", err)
	}
	if s, err := v.FromPlan(&plan.Plan{Ops: []plan.Op{c("a"), c("b"), c("c")}}); err != nil || !s.Retained(2, 0) || !s.Retained(2, 1) {
		t.Errorf("a valid plan: error %v", err)
	}
}

// layers is a training step of n layers whose backwards read the value of the
// layer and of the one before.
func layers(n int) *graph.Graph {
	g := &graph.Graph{Name: "chain"}
	for i := range 2*n + 1 {
		x := graph.Node{ID: fmt.Sprint(i), Kind: graph.Forward, Time: 1, Memory: 1}
		if i == n {
			x.Kind = graph.Loss
		} else if i > n {
			x.Kind = graph.Backward
		}
		g.Nodes = append(g.Nodes, x)
		if i > 0 {
			g.Edges = append(g.Edges, graph.Edge{From: i - 1, To: i})
		}
		for j := 2*n - i; i > n && j >= max(0, 2*n-i-1); j-- {
			g.Edges = append(g.Edges, graph.Edge{From: j, To: i})
		}
	}
	return g
}

// BenchmarkComplete completes and judges a schedule of a graph as large as that
// of ResNet-50 that retains every twelfth value.
func BenchmarkComplete(b *testing.B) {
	v := of(b, layers(175))
	kept := v.New()
	for t := 1; t < v.N; t++ {
		for i := 0; i < min(t, 175); i += 12 {
			kept.Retain(t, i, true)
		}
	}
	s := v.New()
	b.ReportAllocs()
	for b.Loop() {
		s.Copy(kept)
		s.Complete()
		s.Peak()
	}
}
