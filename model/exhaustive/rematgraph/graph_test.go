package rematgraph

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"workbench/model/exhaustive"
	optimumremat "workbench/model/exhaustive/remat"
	"workbench/model/instance/graph"
	"workbench/model/plan"
	"workbench/model/testcase/random"
	"workbench/model/testfile"
	verifyrematgraph "workbench/model/verify/rematgraph"
)

// states is how many states the searches of these tests visit at most.
const states = 1 << 22

func checkGraph(t *testing.T, g *graph.Graph, p *plan.Plan) {
	t.Helper()
	r, err := verifyrematgraph.VerifyGraph(g, p)
	if err != nil {
		t.Fatal(err)
	}
	if !r.Valid() || r.ClaimErrors != nil {
		t.Errorf("%+v %v\n%+v\n%+v", r.Violations, r.ClaimErrors, g, p.Ops)
	}
}

// unit returns the training step of n forwards in a row, one loss and n
// backwards, B_i reading F_{i-1}: every time and size is 1.
func unit(n int) *graph.Graph {
	g := &graph.Graph{Name: "unit"}
	for v := range 2*n + 1 {
		kind := graph.Forward
		switch {
		case v == n:
			kind = graph.Loss
		case v > n:
			kind = graph.Backward
		}
		g.Nodes = append(g.Nodes, graph.Node{ID: fmt.Sprintf("v%d", v), Kind: kind, Time: 1, Memory: 1})
		if v > 0 {
			g.Edges = append(g.Edges, graph.Edge{From: v - 1, To: v})
		}
		if from := 2*n - 1 - v; v > n && from >= 0 {
			g.Edges = append(g.Edges, graph.Edge{From: from, To: v})
		}
	}
	return g
}

func TestGraphByHand(t *testing.T) {
	// A forward that nothing reads is computed all the same, and one that two
	// read need not be stored between.
	idle := &graph.Graph{
		Input: 2,
		Nodes: []graph.Node{
			{ID: "x", Kind: graph.Forward, Time: 1, Memory: 1},
			{ID: "idle", Kind: graph.Forward, Time: 2, Memory: 2, Overhead: 1},
			{ID: "big", Kind: graph.Forward, Time: 4, Memory: 3},
			{ID: "loss", Kind: graph.Loss, Time: 8, Memory: 1},
			{ID: "dx", Kind: graph.Backward, Time: 16, Memory: 1},
		},
		Edges: []graph.Edge{{From: 0, To: 1}, {From: 2, To: 3}, {From: 0, To: 4}, {From: 3, To: 4}},
	}
	for _, x := range []struct {
		name         string
		g            *graph.Graph
		memory, want float64 // -1: no plan
	}{
		{"unit chain, everything stored", unit(4), 9, 9},
		{"unit chain, one forward", unit(1), 2, 3},
		{"unit chain, one forward, no room", unit(1), 1, -1},
		// v0 v1 v2 (loss) with v0 dropped for v2, v0 and v1 dropped after it.
		{"unit chain, two forwards", unit(2), 3, 5},
		// big and the loss first, then x once, idle, dx: 2 + 3 + 1 at most.
		{"idle forward", idle, 6, 31},
		{"idle forward, no room", idle, 5, -1},
		{"all memory", idle, math.Inf(1), 31},
	} {
		got, p, err := Search(x.g, x.memory, states)
		if x.want < 0 {
			if !errors.Is(err, exhaustive.ErrInfeasible) {
				t.Errorf("%s: makespan %g, error %v; want %v", x.name, got, err, exhaustive.ErrInfeasible)
			}
			continue
		}
		if err != nil || got != x.want {
			t.Errorf("%s: makespan %g, %v; want %g", x.name, got, err, x.want)
			continue
		}
		checkGraph(t, x.g, p)
	}
}

// A graph of n nodes in the words of the rules: bits of what is stored, and of
// what was computed at all.
type graphState struct{ stored, computed uint16 }

// graphByRules returns the least makespan for the memory, +Inf if there is no
// plan, and the least memory. It takes every step, sensible or not.
func graphByRules(g *graph.Graph, memory float64) (makespan, peak float64) {
	pred, _ := g.Adjacency()
	time, least := map[graphState]float64{{}: 0}, map[graphState]float64{{}: g.Input}
	queue := []graphState{{}}
	for len(queue) > 0 { // in any order, until nothing improves
		x := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		now := g.Input
		for v := range g.Nodes {
			if x.stored>>v&1 != 0 {
				now += g.Nodes[v].Memory
			}
		}
		step := func(y graphState, duration, needs float64) {
			improved := false
			better := func(cost map[graphState]float64, c float64) {
				if old, ok := cost[y]; !ok || c < old {
					cost[y], improved = c, true
				}
			}
			if t, ok := time[x]; ok && needs <= memory {
				better(time, t+duration)
			}
			better(least, max(least[x], needs))
			if improved {
				queue = append(queue, y)
			}
		}
		for v := range g.Nodes {
			n, bit, can := &g.Nodes[v], uint16(1)<<v, true
			for _, u := range pred[v] {
				can = can && x.stored>>u&1 != 0
			}
			if can && (n.Kind == graph.Forward || x.computed&bit == 0) {
				step(graphState{x.stored | bit, x.computed | bit}, n.Time, now+n.Memory+n.Overhead)
			}
			if x.stored&bit != 0 {
				step(graphState{x.stored &^ bit, x.computed}, 0, now)
			}
		}
	}
	makespan, peak = math.Inf(1), math.Inf(1)
	for x, p := range least {
		if x.computed != 1<<g.Len()-1 {
			continue
		}
		peak = min(peak, p)
		if t, ok := time[x]; ok {
			makespan = min(makespan, t)
		}
	}
	return makespan, peak
}

// The steps that the search leaves out cost nothing. Some forwards lose their
// readers, so that they are idle.
func TestGraphLeavesNothingOut(t *testing.T) {
	r := testfile.Random(t, 6, 6)
	for range 300 {
		g := random.Graph(r, 1+r.IntN(3))
		if r.IntN(3) == 0 {
			k := r.IntN(len(g.Edges))
			g.Edges = append(g.Edges[:k], g.Edges[k+1:]...)
		}
		least, err := LeastMemory(g, states)
		if err != nil {
			t.Fatal(err)
		}
		memory := max(0, least+float64(r.IntN(4)-1))
		makespan, peak := graphByRules(g, memory)
		if peak != least {
			t.Fatalf("least memory %g, by the rules %g: %+v", least, peak, g)
		}
		got, _, err := Search(g, memory, states)
		if errors.Is(err, exhaustive.ErrInfeasible) {
			got = math.Inf(1)
		} else if err != nil {
			t.Fatal(err)
		}
		if got != makespan {
			t.Fatalf("memory %g: makespan %g, by the rules %g: %+v", memory, got, makespan, g)
		}
	}
}

func TestGraphRandom(t *testing.T) {
	r := testfile.Random(t, 7, 7)
	recomputed := 0
	for i := range 1500 {
		g := random.Graph(r, 1+i%5)
		least, err := LeastMemory(g, states)
		if err != nil {
			t.Fatal(err)
		}
		if least > 0 {
			if _, _, err := Search(g, least*(1-1e-6), states); !errors.Is(err, exhaustive.ErrInfeasible) {
				t.Fatalf("below the least memory %g: %v, want %v: %+v", least, err, exhaustive.ErrInfeasible, g)
			}
		}
		last := math.Inf(1)
		for memory := max(least, 0.5); ; memory++ { // verifiers want some
			makespan, p, err := Search(g, memory, states)
			if err != nil {
				t.Fatal(err)
			}
			checkGraph(t, g, p)
			if makespan > last || makespan < g.TotalTime() {
				t.Fatalf("memory %g: makespan %g, with less memory %g, computations %g", memory, makespan, last, g.TotalTime())
			}
			if makespan > g.TotalTime() {
				recomputed++
			}
			if last = makespan; makespan == g.TotalTime() {
				break
			}
		}
	}
	if recomputed < 400 {
		t.Errorf("only %d optima recompute", recomputed)
	}
}

// The graph of a chain knows less ways than the chain, so its plans are no
// better; with one layer, and whenever nothing need be computed again, they are
// as good.
func TestGraphOfChain(t *testing.T) {
	r := testfile.Random(t, 10, 10)
	equal := 0
	for i := range 400 {
		c := random.Chain(r, 1+i%5)
		g := graph.FromChain(c)
		least, err := LeastMemory(g, states)
		if err != nil {
			t.Fatal(err)
		}
		memory := least + float64(r.IntN(3))
		ofGraph, _, err := Search(g, memory, states)
		if err != nil {
			t.Fatal(err)
		}
		ofChain, _, err := optimumremat.Search(c, memory, states)
		if err != nil || ofChain > ofGraph {
			t.Fatalf("memory %g: the graph takes %g, the chain %g, %v: %+v", memory, ofGraph, ofChain, err, c)
		}
		if ofChain == ofGraph {
			equal++
		} else if c.Len() == 1 || ofGraph == c.TotalTime() {
			t.Fatalf("memory %g: the graph takes %g, the chain %g: %+v", memory, ofGraph, ofChain, c)
		}
	}
	if equal < 100 || equal == 400 {
		t.Errorf("%d of 400 equal", equal)
	}
}

// Schedules of Checkmate are plans, so none is better than the best plan; on
// some graphs all are worse, or need more memory.
func TestStages(t *testing.T) {
	r := testfile.Random(t, 12, 12)
	equal, worse, larger := 0, 0, 0
	for i := range testfile.Cases(1200) {
		g := random.Graph(r, 1+i%5)
		least, err := LeastMemory(g, states)
		if err != nil {
			t.Fatal(err)
		}
		staged, err := StagesLeastMemory(g, states)
		if err != nil || staged < least {
			t.Fatalf("least memory %g, of all plans %g, %v: %+v", staged, least, err, g)
		}
		if staged > least {
			larger++
		}
		if staged > 0 {
			if _, _, err := SearchStages(g, staged*(1-1e-6), states); !errors.Is(err, exhaustive.ErrInfeasible) {
				t.Fatalf("below the least memory %g: %v, want %v: %+v", staged, err, exhaustive.ErrInfeasible, g)
			}
		}
		last := math.Inf(1)
		for memory := max(staged, 0.5); ; memory++ {
			makespan, p, err := SearchStages(g, memory, states)
			if err != nil {
				t.Fatal(err)
			}
			checkGraph(t, g, p)
			best, _, err := Search(g, memory, states)
			if err != nil || makespan < best || makespan > last {
				t.Fatalf("memory %g: makespan %g, of all plans %g, with less memory %g, %v: %+v", memory, makespan, best, last, err, g)
			}
			if makespan > best {
				worse++
			} else {
				equal++
			}
			if last = makespan; makespan == g.TotalTime() {
				break
			}
		}
	}
	t.Logf("%d optima of all plans, %d above; %d of 1200 need more memory", equal, worse, larger)
	if equal < testfile.Cases(1000) {
		t.Errorf("only %d are as good as all plans", equal)
	}
	g := unit(2)
	g.Edges = append(g.Edges[:0:0], graph.Edge{From: 3, To: 1})
	if _, _, err := SearchStages(g, 9, states); !errors.Is(err, exhaustive.ErrTooHard) {
		t.Errorf("order: error %v, want %v", err, exhaustive.ErrTooHard)
	}
}

// stagesByMatrices returns the least makespan for the memory, +Inf if there is
// none, over all matrices R and S of Checkmate: node i is computed in stage t,
// and its value is retained from stage t−1 to t. Within a stage a value is
// freed after the last computation that reads it, unless it is retained.
func stagesByMatrices(g *graph.Graph, memory float64) float64 {
	n := g.Len()
	pred, succ := g.Adjacency()
	best := math.Inf(1)
	// run returns the peak memory and the time of a stage.
	run := func(R, S, next uint) (peak, took float64) {
		now := g.Input
		for i := range n {
			if S>>i&1 == 1 {
				now += g.Nodes[i].Memory
			}
		}
		free := func(i, k int) { // if i is not needed after k
			if next>>i&1 == 1 {
				return
			}
			for _, j := range succ[i] {
				if j > k && R>>j&1 == 1 {
					return
				}
			}
			now -= g.Nodes[i].Memory
		}
		for k := range n {
			if R>>k&1 == 0 {
				continue
			}
			v := &g.Nodes[k]
			peak = max(peak, now+v.Memory+v.Overhead)
			now += v.Memory
			took += v.Time
			for _, i := range pred[k] {
				free(i, k)
			}
			free(k, k)
		}
		return peak, took
	}
	// stage continues with stage t, in which the values in S are there.
	var stage func(t int, S uint, time float64)
	stage = func(t int, S uint, time float64) {
		if time >= best {
			return
		}
		if t == n {
			best = time
			return
		}
		for R := uint(1) << t; R < 2<<t; R++ {
			possible := R&S == 0 // or it would be of no use
			for k := range n {
				for _, i := range pred[k] {
					possible = possible && (R>>k&1 == 0 || (R|S)>>i&1 == 1)
				}
				possible = possible && (R>>k&1 == 0 || k == t || g.Nodes[k].Kind == graph.Forward)
			}
			for next := R | S; possible; next = (next - 1) & (R | S) { // S of stage t+1
				if peak, took := run(R, S, next); peak <= memory {
					stage(t+1, next, time+took)
				}
				if next == 0 {
					break
				}
			}
		}
	}
	stage(0, 0, 0)
	return best
}

func TestStagesByMatrices(t *testing.T) {
	r := testfile.Random(t, 13, 13)
	none := 0
	for i := range testfile.Cases(45) {
		g := random.Graph(r, 1+i%3)
		least, err := StagesLeastMemory(g, states)
		if err != nil {
			t.Fatal(err)
		}
		memory := max(0, least+float64(r.IntN(4)-1))
		got, _, err := SearchStages(g, memory, states)
		if errors.Is(err, exhaustive.ErrInfeasible) {
			got = math.Inf(1)
			none++
		} else if err != nil {
			t.Fatal(err)
		}
		if want := stagesByMatrices(g, memory); got != want {
			t.Fatalf("memory %g: makespan %g, by matrices %g: %+v", memory, got, want, g)
		}
	}
	if none == 0 || none > 22 {
		t.Errorf("%d of 45 without a schedule", none)
	}
}

func TestGraphTooHard(t *testing.T) {
	change := func(edit func(*graph.Graph)) *graph.Graph {
		g := unit(2)
		edit(g)
		return g
	}
	for name, x := range map[string]struct {
		g      *graph.Graph
		memory float64
		limit  int
		want   error
	}{
		"empty":      {&graph.Graph{}, 1, states, exhaustive.ErrTooHard},
		"large":      {unit(16), 1, states, exhaustive.ErrTooHard},
		"cycle":      {change(func(g *graph.Graph) { g.Edges = append(g.Edges, graph.Edge{From: 1, To: 0}) }), 9, states, exhaustive.ErrTooHard},
		"loop":       {change(func(g *graph.Graph) { g.Edges[0] = graph.Edge{From: 1, To: 1} }), 9, states, exhaustive.ErrTooHard},
		"edge":       {change(func(g *graph.Graph) { g.Edges[0].To = 5 }), 9, states, exhaustive.ErrTooHard},
		"kind":       {change(func(g *graph.Graph) { g.Nodes[0].Kind = "" }), 9, states, exhaustive.ErrTooHard},
		"NaN":        {change(func(g *graph.Graph) { g.Nodes[0].Time = math.NaN() }), 9, states, exhaustive.ErrTooHard},
		"infinite":   {change(func(g *graph.Graph) { g.Input = math.Inf(1) }), 9, states, exhaustive.ErrTooHard},
		"NaN memory": {unit(2), math.NaN(), states, exhaustive.ErrTooHard},
		"limit":      {unit(4), 9, 3, exhaustive.ErrLimit},
	} {
		if _, _, err := Search(x.g, x.memory, x.limit); !errors.Is(err, x.want) {
			t.Errorf("%s: error %v, want %v", name, err, x.want)
		}
	}
}

func BenchmarkGraph(b *testing.B) {
	for _, n := range []int{3, 5, 7} {
		b.Run(fmt.Sprint(2*n+1), func(b *testing.B) {
			r := rand.New(rand.NewPCG(8, 8))
			var graphs []*graph.Graph
			var memory []float64
			for range 16 {
				g := random.Graph(r, n)
				least, err := LeastMemory(g, 1<<24)
				if err != nil {
					b.Fatal(err)
				}
				graphs, memory = append(graphs, g), append(memory, least+1)
			}
			b.ResetTimer()
			for i := 0; b.Loop(); i++ {
				if _, _, err := Search(graphs[i%16], memory[i%16], 1<<24); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
