package rematgraph_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"workbench/model/exhaustive"
	"workbench/model/exhaustive/rematgraph"
	"workbench/model/instance/graph"
	"workbench/model/instance/training"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/testcase/random"
	"workbench/model/testfile"
	verifyrematgraph "workbench/model/verify/rematgraph"
)

// mostStates is enough for the training steps of these tests.
const mostStates = 1 << 19

// The plans of the search are valid, as fast and as small as it says, also one
// unit above the least memory, and below that there is none.
func TestTrainingPlans(t *testing.T) {
	r := testfile.Random(t, 16, 1)
	slower := 0
	for i := range testfile.Cases(300) {
		g := random.Training(r, 1+i%3)
		if err := g.Validate(); err != nil {
			t.Fatal(err)
		}
		least, err := rematgraph.LeastMemory(g, mostStates)
		if err != nil {
			t.Fatal(err)
		}
		before := math.Inf(1)
		for _, memory := range []float64{least, least + 1, least + 1000} {
			time, p, err := rematgraph.Search(g, memory, mostStates)
			if err != nil {
				t.Fatalf("case %d, memory %v: %v", i, memory, err)
			}
			report, err := verifyrematgraph.Verify(g, p)
			if err != nil || !report.Valid() || report.Makespan != time || len(report.ClaimErrors) > 0 {
				t.Fatalf("case %d, memory %v: %g s, %+v, %v", i, memory, time, report, err)
			}
			if time > before {
				t.Fatalf("case %d: slower with memory %v", i, memory)
			}
			before = time
			inStages(t, g, memory, time)
			if memory == least && time > g.TotalTime() {
				slower++
			}
		}
		if before != g.TotalTime() {
			t.Fatalf("case %d: with all memory it takes %g s, everything once %g", i, before, g.TotalTime())
		}
		if least == 0 {
			continue
		}
		if _, _, err := rematgraph.Search(g, least-1, mostStates); !errors.Is(err, exhaustive.ErrInfeasible) {
			t.Fatalf("case %d: below the least memory: %v", i, err)
		}
	}
	if slower == 0 {
		t.Error("no case computes anything again")
	}
}

// inStages checks that plans in stages are valid and no faster than the best ones.
func inStages(t *testing.T, g *training.Graph, memory, best float64) {
	t.Helper()
	time, p, err := rematgraph.SearchStages(g, memory, mostStates)
	if errors.Is(err, exhaustive.ErrInfeasible) {
		return // the least memory may take another order
	}
	if err != nil {
		t.Fatal(err)
	}
	report, err := verifyrematgraph.Verify(g, p)
	if err != nil || !report.Valid() || report.Makespan != time || len(report.ClaimErrors) > 0 || time < best {
		t.Fatalf("in stages: %g s, %+v, %v", time, report, err)
	}
}

// A graph/v1 and the training step that it means have the same plans: same least
// memory, same optimum, and a plan of the one is one of the other with the same
// peak, also one that computes again what is stored, or breaks a rule.
func TestTrainingOfGraph(t *testing.T) {
	r := testfile.Random(t, 16, 2)
	valid, broken := 0, 0
	for i := range testfile.Cases(300) {
		g := random.Graph(r, 1+i%4)
		if r.IntN(2) == 0 {
			g.Nodes[0].Weight = 3
		}
		step := training.FromGraph(g)
		if err := step.Validate(); err != nil {
			t.Fatal(err)
		}
		least, err := rematgraph.LeastMemory(g, mostStates)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := rematgraph.LeastMemory(step, mostStates); err != nil || got != least {
			t.Fatalf("case %d: least memory %v (%v), of the graph %v", i, got, err, least)
		}
		want, p, err := rematgraph.Search(g, least, mostStates)
		if err != nil {
			t.Fatal(err)
		}
		if got, _, err := rematgraph.Search(step, least, mostStates); err != nil || got != want {
			t.Fatalf("case %d: %v s (%v), of the graph %v", i, got, err, want)
		}
		for range 10 {
			a, err := verifyrematgraph.VerifyGraph(g, p)
			if err != nil {
				t.Fatal(err)
			}
			b, err := verifyrematgraph.Verify(step, translated(step, p))
			if err != nil {
				t.Fatal(err)
			}
			if a.Valid() != b.Valid() || a.Makespan != b.Makespan || a.PeakMemory != b.PeakMemory || a.PeakOp != b.PeakOp ||
				len(a.Violations) != len(b.Violations) {
				t.Fatalf("case %d: %+v\nof the graph %+v", i, b, a)
			}
			if a.Valid() {
				valid++
			} else {
				broken++
			}
			p = changed(r, g, p)
		}
	}
	if valid < testfile.Cases(100) || broken < testfile.Cases(100) {
		t.Errorf("%d plans are valid, %d are not", valid, broken)
	}
}

// translated is a plan of a graph/v1 as one of its training step.
func translated(step *training.Graph, p *plan.Plan) *plan.Plan {
	q := plan.New(plan.Remat, p.Method, step, p.Platform)
	for _, o := range p.Ops {
		if o.Op == plan.OpD {
			o.Node, o.Storage = "", o.Node
		}
		q.Ops = append(q.Ops, o)
	}
	return q
}

// changed is p with one operation more or less, or two in another order.
func changed(r *rand.Rand, g *graph.Graph, p *plan.Plan) *plan.Plan {
	q := plan.New(plan.Remat, p.Method, g, platform.Platform{Memory: p.Platform.Memory + float64(r.IntN(3))})
	q.Ops = append(q.Ops, p.Ops...)
	switch k := r.IntN(len(q.Ops)); r.IntN(3) {
	case 0:
		q.Ops = append(q.Ops[:k], q.Ops[k+1:]...)
	case 1:
		again := plan.Op{Op: plan.OpC, Node: g.Nodes[r.IntN(g.Len())].ID}
		q.Ops = append(q.Ops[:k], append([]plan.Op{again}, q.Ops[k:]...)...)
	case 2:
		j := r.IntN(len(q.Ops))
		q.Ops[j], q.Ops[k] = q.Ops[k], q.Ops[j]
	}
	time := make(map[string]float64, g.Len())
	for v := range g.Nodes {
		time[g.Nodes[v].ID] = g.Nodes[v].Time
	}
	now := 0.0
	for k := range q.Ops {
		o := &q.Ops[k]
		o.Start, o.End = now, now
		if o.Op == plan.OpC {
			o.End = now + time[o.Node]
		}
		now = o.End
	}
	return q
}

// Running a node again needs room for all that it writes, also for what is still
// there.
func TestTrainingCountsBothCopies(t *testing.T) {
	// a makes x and y; b reads x, c reads y and what b makes. y is not needed while
	// b runs, but running a again for it needs room for x, too.
	g := &training.Graph{
		Storages: []training.Storage{
			{ID: "x", Bytes: 4, Kind: training.Value},
			{ID: "y", Bytes: 4, Kind: training.Value},
			{ID: "z", Bytes: 1, Kind: training.Value},
			{ID: "end", Kind: training.Value, Result: true},
		},
		Nodes: []training.Node{
			{ID: "a", Phase: training.Forward, Time: 1, Writes: []int{0, 1}},
			{ID: "b", Phase: training.Forward, Time: 1, Reads: []int{0}, Writes: []int{2}, Workspace: 4},
			{ID: "c", Phase: training.Forward, Time: 1, Reads: []int{0, 1, 2}, Writes: []int{3}},
		},
	}
	// x, y and z while b runs: 4 + 4 + 1 + 4. Without y: 9, and a again with x gone: 1 + 8.
	for memory, want := range map[float64]float64{13: 3, 12: 4, 9: 4} {
		if time, _, err := rematgraph.Search(g, memory, mostStates); err != nil || time != want {
			t.Errorf("memory %v: %v s (%v), want %v", memory, time, err, want)
		}
	}
	if least, err := rematgraph.LeastMemory(g, mostStates); err != nil || least != 9 {
		t.Errorf("least memory %v (%v), want 9", least, err)
	}
	p := plan.New(plan.Remat, "by hand", g, platform.Platform{Memory: 12})
	p.Ops = []plan.Op{
		{Op: plan.OpC, Node: "a", Start: 0, End: 1},
		{Op: plan.OpD, Storage: "y", Start: 1, End: 1},
		{Op: plan.OpC, Node: "b", Start: 1, End: 2},
		{Op: plan.OpC, Node: "a", Start: 2, End: 3},
		{Op: plan.OpC, Node: "c", Start: 3, End: 4},
	}
	report, err := verifyrematgraph.Verify(g, p)
	if err != nil || len(report.Violations) != 1 || report.PeakMemory != 13 {
		t.Errorf("running a again with x still there: %+v (%v), want a peak of 4 + 1 + 8", report, err)
	}
}

func TestTrainingTooHard(t *testing.T) {
	g := random.Training(rand.New(rand.NewPCG(16, 3)), 40)
	if _, _, err := rematgraph.Search(g, 1, 1); !errors.Is(err, exhaustive.ErrTooHard) {
		t.Errorf("40 layers: %v", err)
	}
	if _, err := rematgraph.LeastMemory(&training.Graph{}, 1); !errors.Is(err, exhaustive.ErrTooHard) {
		t.Errorf("no nodes: %v", err)
	}
	small := random.Training(rand.New(rand.NewPCG(16, 3)), 2)
	if _, _, err := rematgraph.Search(small, math.NaN(), 1); !errors.Is(err, exhaustive.ErrTooHard) {
		t.Errorf("memory that is no number: %v", err)
	}
	if _, _, err := rematgraph.Search(small, 1e6, 1); !errors.Is(err, exhaustive.ErrLimit) {
		t.Errorf("one state: %v", err)
	}
}
