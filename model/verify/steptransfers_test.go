package verify_test

import (
	"slices"
	"testing"

	"workbench/model/instance/training"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/verify"
	"workbench/model/verify/rematgraph"
)

// hostedStep is a step whose first value, of 4, travels while F2 runs, and comes back
// before B1 reads it: F1 0–2, F2 2–6, O a 2–6, loss 6–7, P a 7–11, B2 7–9, B1 11–12.
func hostedStep() (*training.Graph, *plan.Plan) {
	const a, b, l, g2, g1, pinned = 0, 1, 2, 3, 4, 5
	g := &training.Graph{
		Name: "hosted step",
		Storages: []training.Storage{
			{ID: "a", Bytes: 4, Kind: training.Value},
			{ID: "b", Bytes: 5, Kind: training.Value},
			{ID: "l", Bytes: 1, Kind: training.LossValue, Result: true},
			{ID: "g2", Bytes: 2, Kind: training.Value},
			{ID: "g1", Bytes: 1, Kind: training.Gradient, Result: true},
			{ID: "pinned", Bytes: 1, Kind: training.Value, NoOffload: true},
		},
		Nodes: []training.Node{
			{ID: "F1", Phase: training.Forward, Time: 2, Writes: []int{a, pinned}},
			{ID: "F2", Phase: training.Forward, Time: 4, Reads: []int{a}, Writes: []int{b}},
			{ID: "loss", Phase: training.Loss, Time: 1, Reads: []int{b}, Writes: []int{l}},
			{ID: "B2", Phase: training.Backward, Time: 2, Reads: []int{b}, Writes: []int{g2}, Workspace: 1},
			{ID: "B1", Phase: training.Backward, Time: 1, Reads: []int{a, g2, pinned}, Writes: []int{g1}},
		},
	}
	p := plan.New(plan.RematOffload, "by hand", g, platform.Platform{Memory: 14, Bandwidth: 1})
	p.Ops = []plan.Op{
		{Op: plan.OpC, Node: "F1", End: 2},
		{Op: plan.OpO, Storage: "a", Start: 2, End: 6},
		{Op: plan.OpC, Node: "F2", Start: 2, End: 6},
		{Op: plan.OpD, Storage: "a", Start: 6, End: 6},
		{Op: plan.OpC, Node: "loss", Start: 6, End: 7},
		{Op: plan.OpC, Node: "B2", Start: 7, End: 9},
		{Op: plan.OpP, Storage: "a", Start: 7, End: 11},
		{Op: plan.OpD, Storage: "b", Start: 9, End: 9},
		{Op: plan.OpC, Node: "B1", Start: 11, End: 12},
		{Op: plan.OpD, Storage: "a", Start: 12, End: 12},
	}
	p.Claims = plan.Claims{Makespan: 12, PeakMemory: 14}
	return g, p
}

// What a plan sends of a step without storages is nothing.
func TestTransfersOfNothing(t *testing.T) {
	g := &training.Graph{Name: "bare", Nodes: []training.Node{{ID: "F1", Phase: training.Forward, Time: 1}}}
	p := plan.New(plan.RematOffload, "by hand", g, platform.Platform{Memory: 1, Bandwidth: 1})
	p.Ops = []plan.Op{{Op: plan.OpC, Node: "F1", End: 1}, {Op: plan.OpO, Storage: "a", End: 1}}
	if s, err := rematgraph.SummarizeOffload(g, p); err != nil || s.Offload.Transfers != 0 || s.Violations != 1 {
		t.Errorf("%+v, %v", s, err)
	}
}

// Its peak is at 7: b, l, pinned, and a on its way, g2 made and 1 beside.
func TestTransfersByHand(t *testing.T) {
	g, p := hostedStep()
	r := verifyTraining(t, g, p)
	if !r.Valid() || r.Makespan != 12 || r.PeakMemory != 14 || r.PeakOp != 6 || r.PeakTime != 7 || len(r.ClaimErrors) > 0 {
		t.Errorf("%+v", r)
	}
	s, err := rematgraph.SummarizeOffload(g, p)
	if err != nil || s.Offload.Transfers != 1 || s.Prefetch.Bytes != 4 || s.AtLoss.Host != 1 || s.AtLoss.Activations != 2 || s.Idle != 2 {
		t.Errorf("%+v, %v", s, err)
	}
	steps, err := verify.Profile(g, p)
	if err != nil {
		t.Fatal(err)
	}
	most, until := 0.0, 0.0
	for _, m := range steps {
		if m.Start != until {
			t.Errorf("a step begins at %g, the one before ends at %g", m.Start, until)
		}
		most, until = max(most, m.During.Total()), m.End
	}
	if most != 14 || until != 12 {
		t.Errorf("the profile reaches %g and ends at %g", most, until)
	}
}

func TestTransferMutations(t *testing.T) {
	at := func(k int, f func(*plan.Op)) func(*training.Graph, *plan.Plan) {
		return func(_ *training.Graph, p *plan.Plan) { f(&p.Ops[k]) }
	}
	when := func(start, end float64) func(*plan.Op) {
		return func(o *plan.Op) { o.Start, o.End = start, end }
	}
	for _, x := range []struct {
		name  string
		apply func(*training.Graph, *plan.Plan)
		want  []broken
	}{
		{"as it is", func(*training.Graph, *plan.Plan) {}, nil},
		{"memory lower", func(_ *training.Graph, p *plan.Plan) { p.Platform.Memory = 13 }, []broken{{plan.RuleMemory, 6, 7, 1}}},
		{
			"faster link", func(_ *training.Graph, p *plan.Plan) { p.Platform.Bandwidth = 2 },
			[]broken{{plan.RuleDuration, 1, 2, 2}, {plan.RuleDuration, 6, 7, 2}},
		},
		{"sent too early", at(1, when(1, 5)), []broken{{plan.RuleNotStored, 1, 1, 4}, {plan.RuleTravels, 1, 1, 4}}},
		{"freed while it is sent", at(3, when(5, 5)), []broken{{plan.RuleDiscardUsed, 3, 5, 4}}},
		{"used before it is there", at(8, when(10, 11)), []broken{{plan.RuleMissingInput, 8, 10, 4}}},
		{"fetched before it has left", at(6, when(5, 9)), []broken{{plan.RuleHostAbsent, 6, 5, 4}, {plan.RulePrefetch, 6, 5, 4}}},
		{"never sent", func(_ *training.Graph, p *plan.Plan) { p.Ops = slices.Delete(p.Ops, 1, 2) }, []broken{{plan.RuleHostAbsent, 5, 7, 4}}},
		{"pinned", func(_ *training.Graph, p *plan.Plan) {
			p.Ops = append(p.Ops, plan.Op{Op: plan.OpO, Storage: "pinned", Start: 11, End: 12})
		}, []broken{{plan.RuleNotStored, 10, 11, 1}}},
		{"two at once", func(_ *training.Graph, p *plan.Plan) {
			p.Ops = append(p.Ops, plan.Op{Op: plan.OpO, Storage: "l", Start: 8, End: 9}, plan.Op{Op: plan.OpO, Storage: "b", Start: 7, End: 12})
			p.Ops[7].Start, p.Ops[7].End = 12, 12
		}, []broken{{plan.RuleLinkOverlap, 10, 8, 4}}},
		{"both ways at once", func(_ *training.Graph, p *plan.Plan) {
			p.Ops = append(p.Ops, plan.Op{Op: plan.OpO, Storage: "l", Start: 8, End: 9})
		}, nil},
		{"made while it travels", func(_ *training.Graph, p *plan.Plan) {
			p.Platform.Memory = 19
			p.Ops = slices.Insert(p.Ops, 7, plan.Op{Op: plan.OpC, Node: "F1", Start: 9, End: 11})
		}, []broken{{plan.RuleTravels, 7, 9, 4}}},
		{"nodes at once", at(5, when(6, 8)), []broken{{plan.RuleOverlap, 5, 6, 1}}},
		{"a late transfer", func(_ *training.Graph, p *plan.Plan) {
			p.Ops = append(p.Ops, plan.Op{Op: plan.OpO, Storage: "l", Start: 12, End: 13})
		}, nil},
		{"unknown storage", at(9, func(o *plan.Op) { o.Storage = "z" }), []broken{{plan.RuleNode, 9, 12, 0}}},
		{
			"of chains", at(9, func(o *plan.Op) { *o = plan.Op{Op: plan.OpFAll, Layer: 1, Start: 12, End: 12} }),
			[]broken{{plan.RuleUnknownOp, 9, 12, 0}},
		},
		{"a result that stays away", func(_ *training.Graph, p *plan.Plan) {
			p.Ops = append(p.Ops, plan.Op{Op: plan.OpO, Storage: "l", Start: 11, End: 12}, plan.Op{Op: plan.OpD, Storage: "l", Start: 12, End: 12})
		}, []broken{{plan.RuleMissingOutput, -1, 12, 1}}},
	} {
		t.Run(x.name, func(t *testing.T) {
			g, p := hostedStep()
			x.apply(g, p)
			compareViolations(t, verifyTraining(t, g, p), x.want)
		})
	}
}
