package verify_test

import (
	"slices"
	"testing"

	"workbench/model/instance/training"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/verify/rematgraph"
)

// smallStep is a training step with all that a node can have, and a valid plan
// that runs F2, which writes two storages, and B2 twice. It fills its memory of
// 17 once, at the second F2: 1 of input, x2, mask, l and dw stored, y and mask
// written while mask is still there, 3 beside.
func smallStep() (*training.Graph, *plan.Plan) {
	const w, stat, x2, y, mask, l, g2, dw, g1 = 0, 1, 2, 3, 4, 5, 6, 7, 8
	g := &training.Graph{
		Name: "small step", Input: 1,
		Storages: []training.Storage{
			{ID: "w", Bytes: 1000, Kind: training.Parameter, Resident: true},
			{ID: "stat", Bytes: 1000, Kind: training.Buffer, Resident: true},
			{ID: "x2", Bytes: 3, Kind: training.Value},
			{ID: "y", Bytes: 4, Kind: training.Value},
			{ID: "mask", Bytes: 1, Kind: training.Value},
			{ID: "l", Bytes: 1, Kind: training.LossValue, Result: true},
			{ID: "g2", Bytes: 2, Kind: training.Value},
			{ID: "dw", Bytes: 3, Kind: training.Gradient},
			{ID: "g1", Bytes: 1, Kind: training.Gradient, Result: true},
		},
		Nodes: []training.Node{
			{ID: "F1", Phase: training.Forward, Time: 1, Reads: []int{w}, Writes: []int{x2}, Random: true},
			{
				ID: "F2", Phase: training.Forward, Time: 2, Reads: []int{x2, w}, Writes: []int{y, mask}, Workspace: 3, Mutates: []int{stat},
				Random: true,
			},
			{ID: "loss", Phase: training.Loss, Time: 1, Reads: []int{y}, Writes: []int{l}},
			{ID: "B2", Phase: training.Backward, Time: 1, Reads: []int{y}, Writes: []int{g2, dw}},
			{ID: "B1", Phase: training.Backward, Time: 1, Reads: []int{y, mask, g2}, Writes: []int{g1}, Once: true},
			{ID: "step", Phase: training.Optimizer, Time: 1, Reads: []int{dw, w}, Mutates: []int{w}},
		},
	}
	p := plan.New(plan.Remat, "by hand", g, platform.Platform{Memory: 17, Bandwidth: 1})
	for _, o := range []string{
		"C F1", "C F2", "C loss", "C B2", "D y", "D g2", "C F2", "D dw", "C B2", "C B1", "D x2", "D y", "D mask",
		"D g2", "C step", "D dw",
	} {
		if o[0] == 'C' {
			p.Ops = append(p.Ops, plan.Op{Op: plan.OpC, Node: o[2:]})
		} else {
			p.Ops = append(p.Ops, plan.Op{Op: plan.OpD, Storage: o[2:]})
		}
	}
	retime(p, func(o plan.Op) float64 {
		if k := slices.IndexFunc(g.Nodes, func(n training.Node) bool { return n.ID == o.Node }); k >= 0 {
			return g.Nodes[k].Time
		}
		return 0
	})
	return g, p
}

func verifyTraining(t *testing.T, g *training.Graph, p *plan.Plan) *plan.Report {
	t.Helper()
	r, err := rematgraph.Verify(g, p)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestTrainingMutations(t *testing.T) {
	type change = func(*training.Graph, *plan.Plan)
	drop := func(k int) change {
		return func(_ *training.Graph, p *plan.Plan) { p.Ops = slices.Delete(p.Ops, k, k+1) }
	}
	replace := func(k int, f func(*plan.Op)) change {
		return func(_ *training.Graph, p *plan.Plan) { f(&p.Ops[k]) }
	}
	swap := func(j, k int) change { // of operations of one duration
		return func(_ *training.Graph, p *plan.Plan) {
			p.Ops[j].Node, p.Ops[k].Node = p.Ops[k].Node, p.Ops[j].Node
		}
	}
	for _, x := range []struct {
		name  string
		apply change
		want  []broken
	}{
		{"as it is", func(*training.Graph, *plan.Plan) {}, nil},
		{"memory lower", func(_ *training.Graph, p *plan.Plan) { p.Platform.Memory = 16 }, []broken{{plan.RuleMemory, 6, 5, 1}}},
		{"larger input", func(g *training.Graph, _ *plan.Plan) { g.Input = 2 }, []broken{{plan.RuleMemory, 6, 5, 1}}},
		{"old copy kept", drop(4), []broken{{plan.RuleMemory, 5, 5, 4}}},
		{"old copy freed", func(_ *training.Graph, p *plan.Plan) {
			p.Platform.Memory = 16
			p.Ops = slices.Insert(p.Ops, 6, plan.Op{Op: plan.OpD, Storage: "mask", Start: 5, End: 5})
		}, nil},
		{"drop D g2", drop(5), []broken{{plan.RuleMemory, 5, 5, 2}}},
		{"drop second C F2", drop(6), []broken{
			{plan.RuleMissingInput, 7, 7, 4}, {plan.RuleMissingInput, 8, 8, 4}, {plan.RuleNotStored, 10, 9, 4},
		}},
		{"drop second C B2", drop(8), []broken{
			{plan.RuleMissingInput, 8, 8, 2},
			{plan.RuleNotStored, 12, 9, 2},
			{plan.RuleMissingInput, 13, 9, 3},
			{plan.RuleNotStored, 14, 10, 3},
		}},
		{"loss never", drop(2), []broken{{plan.RuleMissing, -1, 10, 0}, {plan.RuleMissingOutput, -1, 10, 1}}},
		{"result discarded", replace(15, func(o *plan.Op) { o.Storage = "g1" }), []broken{{plan.RuleMissingOutput, -1, 10, 1}}},
		{"resident discarded", replace(15, func(o *plan.Op) { o.Storage = "w" }), []broken{{plan.RuleNotStored, 15, 10, 1000}}},
		{"discarded twice", replace(15, func(o *plan.Op) { o.Storage = "y" }), []broken{{plan.RuleNotStored, 15, 10, 4}}},
		{"once", func(_ *training.Graph, p *plan.Plan) {
			p.Ops = slices.Insert(p.Ops, 10, plan.Op{Op: plan.OpC, Node: "B1", Start: 9, End: 10})
			for k := 11; k < len(p.Ops); k++ {
				p.Ops[k].Start++
				p.Ops[k].End++
			}
		}, []broken{{plan.RuleTwice, 10, 9, 1}}},
		{
			"a layer after its weight has changed", func(g *training.Graph, _ *plan.Plan) { g.Nodes[3].Mutates = []int{0} },
			[]broken{{plan.RuleChanged, 6, 5, 0}},
		},
		{"mutated out of turn", func(g *training.Graph, _ *plan.Plan) { g.Nodes[5].Mutates = []int{0, 1}; g.Nodes[5].Reads = []int{7} }, nil},
		{"random out of turn", func(g *training.Graph, _ *plan.Plan) {
			g.Nodes[4].Random, g.Nodes[5].Random = true, true
			g.Nodes[4], g.Nodes[5] = g.Nodes[5], g.Nodes[4]
		}, []broken{{plan.RuleChanged, 9, 8, 0}, {plan.RuleChanged, 14, 9, 0}}},
		{"changed out of turn", func(g *training.Graph, _ *plan.Plan) {
			g.Nodes[4].Mutates, g.Nodes[5].Mutates = []int{1}, []int{1}
			g.Nodes[4], g.Nodes[5] = g.Nodes[5], g.Nodes[4]
		}, []broken{{plan.RuleChanged, 9, 8, 0}, {plan.RuleChanged, 14, 9, 0}}},
		{
			"reads what it has changed", func(g *training.Graph, _ *plan.Plan) { g.Nodes[1].Reads = []int{2, 0, 1} },
			[]broken{{plan.RuleChanged, 6, 5, 0}},
		},
		{"another order", swap(2, 3), nil},
		{"unknown node", replace(14, func(o *plan.Op) { o.Node = "z" }), []broken{{plan.RuleNode, 14, 9, 0}, {plan.RuleMissing, -1, 10, 0}}},
		{"unknown storage", replace(15, func(o *plan.Op) { o.Storage = "z" }), []broken{{plan.RuleNode, 15, 10, 0}}},
		{"node for a storage", replace(15, func(o *plan.Op) { o.Storage, o.Node = "", "F1" }), []broken{{plan.RuleUnknownOp, 15, 10, 0}}},
		{
			"storage beside a node", replace(14, func(o *plan.Op) { o.Storage = "w" }),
			[]broken{{plan.RuleUnknownOp, 14, 9, 0}, {plan.RuleMissing, -1, 10, 0}},
		},
		{
			"of chains", replace(15, func(o *plan.Op) { *o = plan.Op{Op: "F_all", Layer: 1, Start: 10, End: 10} }),
			[]broken{{plan.RuleUnknownOp, 15, 10, 0}},
		},
		{"shorter", replace(14, func(o *plan.Op) { o.End -= 0.5 }), []broken{{plan.RuleDuration, 14, 9, -0.5}}},
	} {
		t.Run(x.name, func(t *testing.T) {
			g, p := smallStep()
			x.apply(g, p)
			compareViolations(t, verifyTraining(t, g, p), x.want)
		})
	}
}

func TestTrainingByHand(t *testing.T) {
	g, p := smallStep()
	p.Claims = plan.Claims{Makespan: 10, PeakMemory: 17}
	r := verifyTraining(t, g, p)
	if !r.Valid() || r.Makespan != 10 || r.PeakMemory != 17 || r.PeakOp != 6 || r.PeakTime != 5 || len(r.ClaimErrors) > 0 {
		t.Errorf("%+v", r)
	}
	if p.Platform.Bandwidth != 0 || p.Instance.SHA256 == "" || p.Problem != plan.Remat {
		t.Errorf("new: %+v", p)
	}
}
