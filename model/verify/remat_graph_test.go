package verify_test

import (
	"math"
	"slices"
	"testing"

	"workbench/model/instance/graph"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/verify/rematgraph"
)

// fiveNodes is a graph with a skip connection and a valid plan that computes y
// twice and fills its memory of 20 once, with the loss z: 10 of input, 5 stored,
// 3 for its value, 2 beside.
func fiveNodes() (*graph.Graph, *plan.Plan) {
	g := &graph.Graph{
		Name: "five nodes", Input: 10,
		Nodes: []graph.Node{
			{ID: "x", Kind: graph.Forward, Time: 1, Memory: 2},
			{ID: "y", Kind: graph.Forward, Time: 2, Memory: 3},
			{ID: "z", Kind: graph.Loss, Time: 1, Memory: 3, Overhead: 2},
			{ID: "dy", Kind: graph.Backward, Time: 3, Memory: 1},
			{ID: "dx", Kind: graph.Backward, Time: 2, Memory: 2, Overhead: 1},
		},
		Edges: []graph.Edge{
			{From: 0, To: 1},
			{From: 1, To: 2},
			{From: 0, To: 2},
			{From: 1, To: 3},
			{From: 2, To: 3},
			{From: 0, To: 4},
			{From: 3, To: 4},
		},
	}
	p := plan.New(plan.Remat, "by hand", g, platform.Platform{Memory: 20, Bandwidth: 1})
	for _, o := range []string{"C x", "C y", "C z", "D y", "C y", "C dy", "D z", "D y", "C dx"} {
		p.Ops = append(p.Ops, plan.Op{Op: o[:1], Node: o[2:]})
	}
	retime(p, func(o plan.Op) float64 {
		k := slices.IndexFunc(g.Nodes, func(n graph.Node) bool { return n.ID == o.Node })
		if o.Op == plan.OpD {
			return 0
		}
		return g.Nodes[k].Time
	})
	return g, p
}

func TestGraphMutations(t *testing.T) {
	const end = 11
	type change = func(*graph.Graph, *plan.Plan)
	drop := func(k int) change {
		return func(_ *graph.Graph, p *plan.Plan) { p.Ops = slices.Delete(p.Ops, k, k+1) }
	}
	replace := func(k int, f func(*plan.Op)) change {
		return func(_ *graph.Graph, p *plan.Plan) { f(&p.Ops[k]) }
	}
	for _, x := range []struct {
		name  string
		apply change
		want  []broken
	}{
		{"as it is", func(*graph.Graph, *plan.Plan) {}, nil},
		{"drop C x", drop(0), []broken{
			{plan.RuleMissingInput, 0, 1, 2},
			{plan.RuleMissingInput, 1, 3, 2},
			{plan.RuleMissingInput, 3, 4, 2},
			{plan.RuleMissingInput, 7, 9, 2},
			{plan.RuleMissing, -1, end, 0},
		}},
		{"drop C z", drop(2), []broken{{plan.RuleMissingInput, 4, 6, 3}, {plan.RuleNotStored, 5, 9, 3}, {plan.RuleMissing, -1, end, 0}}},
		{"drop C dy", drop(5), []broken{{plan.RuleMissingInput, 7, 9, 1}, {plan.RuleMissingBackward, -1, end, 0}}},
		{"drop D y", drop(3), []broken{{plan.RuleMemory, 3, 4, 1}}},
		{"drop second C y", drop(4), []broken{{plan.RuleMissingInput, 4, 6, 3}, {plan.RuleNotStored, 6, 9, 3}}},
		{"drop D z", drop(6), nil},
		{"loss twice", func(_ *graph.Graph, p *plan.Plan) { p.Ops[4].Node = "z"; p.Ops[4].End = 5 }, []broken{
			{plan.RuleTwice, 4, 4, 1}, {plan.RuleMissingInput, 5, 6, 3}, {plan.RuleNotStored, 7, 9, 3},
		}},
		{"memory lower", func(_ *graph.Graph, p *plan.Plan) { p.Platform.Memory = 19 }, []broken{{plan.RuleMemory, 2, 3, 1}}},
		{"larger input", func(g *graph.Graph, _ *plan.Plan) { g.Input = 11 }, []broken{{plan.RuleMemory, 2, 3, 1}}},
		{
			"another edge", func(g *graph.Graph, _ *plan.Plan) { g.Edges = append(g.Edges, graph.Edge{From: 2, To: 4}) },
			[]broken{{plan.RuleMissingInput, 8, 9, 3}},
		},
		{
			"unknown node", replace(0, func(o *plan.Op) { o.Node = "w" }),
			[]broken{
				{plan.RuleNode, 0, 0, 0},
				{plan.RuleMissingInput, 1, 1, 2},
				{plan.RuleMissingInput, 2, 3, 2},
				{plan.RuleMissingInput, 4, 4, 2},
				{plan.RuleMissingInput, 8, 9, 2},
				{plan.RuleMissing, -1, end, 0},
			},
		},
		{"no node", replace(6, func(o *plan.Op) { o.Node, o.Layer = "", 3 }), []broken{{plan.RuleUnknownOp, 6, 9, 0}}},
		{"layer", replace(6, func(o *plan.Op) { o.Layer = 3 }), []broken{{plan.RuleUnknownOp, 6, 9, 0}}},
		{"tensor", replace(6, func(o *plan.Op) { o.Tensor = "a" }), []broken{{plan.RuleUnknownOp, 6, 9, 0}}},
		{"branch", replace(6, func(o *plan.Op) { o.Branch = 1 }), []broken{{plan.RuleUnknownOp, 6, 9, 0}}},
		{
			"of chains", replace(6, func(o *plan.Op) { *o = plan.Op{Op: "F_all", Layer: 1, Start: 9, End: 9} }),
			[]broken{{plan.RuleUnknownOp, 6, 9, 0}},
		},
		{
			"discard that takes time", replace(7, func(o *plan.Op) { o.Start -= 0.5 }),
			[]broken{{plan.RuleDuration, 7, 8.5, 0.5}, {plan.RuleOrder, 7, 8.5, 0.5}},
		},
		{"shorter", replace(8, func(o *plan.Op) { o.End-- }), []broken{{plan.RuleDuration, 8, 9, -1}}},
	} {
		t.Run(x.name, func(t *testing.T) {
			g, p := fiveNodes()
			x.apply(g, p)
			compareViolations(t, mustVerifyOn(t, g, p), x.want)
		})
	}
}

func TestGraphByHand(t *testing.T) {
	g, p := fiveNodes()
	p.Claims = plan.Claims{Makespan: 11, PeakMemory: 20}
	r, err := rematgraph.VerifyGraph(g, p)
	if err != nil {
		t.Fatal(err)
	}
	if !r.Valid() || r.Makespan != 11 || r.PeakMemory != 20 || r.PeakOp != 2 || r.PeakTime != 3 || len(r.ClaimErrors) > 0 {
		t.Errorf("%+v", r)
	}
	if p.Platform.Bandwidth != 0 || p.Instance.SHA256 == "" || p.Problem != plan.Remat {
		t.Errorf("new: %+v", p)
	}
}

// A plan of the graph of a chain is, operation by operation, one of the chain
// that is as fast and needs no more memory: the chain frees what B consumes.
func TestGraphOfChain(t *testing.T) {
	c, _ := threeLayers()
	g := graph.FromChain(c)
	p := plan.New(plan.Remat, "store all", g, platform.Platform{Memory: math.Inf(1)})
	onChain := plan.New(plan.Remat, "store all", c, p.Platform)
	for v := range g.Nodes {
		n := &g.Nodes[v]
		p.Ops = append(p.Ops, plan.Op{Op: plan.OpC, Node: n.ID})
		kind, layer := plan.OpFAll, v+1
		if n.Kind == graph.Backward {
			kind, layer = plan.OpB, 2*c.Len()-v
		}
		onChain.Ops = append(onChain.Ops, plan.Op{Op: kind, Layer: layer})
	}
	now := 0.0
	for k := range p.Ops {
		end := now + g.Nodes[k].Time
		p.Ops[k].Start, p.Ops[k].End = now, end
		onChain.Ops[k].Start, onChain.Ops[k].End = now, end
		now = end
	}
	r := mustVerifyOn(t, g, p)
	s := mustVerifyOn(t, c, onChain)
	if !r.Valid() || !s.Valid() || r.Makespan != s.Makespan || r.Makespan != c.TotalTime() {
		t.Errorf("graph %+v\nchain %+v", r, s)
	}
	if want := []float64{34, 31}; r.PeakMemory != want[0] || s.PeakMemory != want[1] {
		t.Errorf("peak %g of the graph, %g of the chain; want %g", r.PeakMemory, s.PeakMemory, want)
	}
}
