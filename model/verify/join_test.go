package verify_test

import (
	"slices"
	"testing"

	"workbench/model/instance/join"
	"workbench/model/plan"
	"workbench/model/platform"
	verifyjoin "workbench/model/verify/join"
)

// twoBranches is a join of which the first branch keeps its δ_0, and a valid
// plan that fills its four slots with the copy of a_0 of the second branch.
func twoBranches() (*join.Join, *plan.Plan) {
	j := &join.Join{Name: "two branches", Branches: []int{2, 1}, Keep: []bool{true, false}, ForwardTime: 1, BackwardTime: 2, LossTime: 3}
	p := plan.New(plan.Join, "by hand", j, platform.Platform{Memory: 4})
	on := func(branch int, kind string, layer int) {
		p.Ops = append(p.Ops, plan.Op{Op: kind, Branch: branch, Layer: layer})
	}
	on(1, "S", 0)
	on(1, "F", 1)
	on(1, "F", 2)
	on(2, "S", 0)
	on(2, "F", 1)
	on(0, "LOSS", 0)
	on(2, "B", 1)
	p.Ops = append(p.Ops, plan.Op{Op: "D", Tensor: "delta", Branch: 2})
	on(1, "S", 0)
	on(1, "F", 1)
	on(1, "B", 2)
	on(1, "B", 1)
	retime(p, func(o plan.Op) float64 {
		return map[string]float64{"F": 1, "B": 2, "LOSS": 3}[o.Op]
	})
	return j, p
}

// Operations of twoBranches by index.
const (
	jS1 = iota // at 0
	jF11
	jF12 // 1 to 2
	jS2
	jF2   // 2 to 3
	jLoss // 3 to 6
	jB2   // 6 to 8
	jD    // at 8
	jS1b
	jF11b // 8 to 9
	jB12  // 9 to 11
	jB11  // 11 to 13
)

func TestJoinMutations(t *testing.T) {
	const end = 13
	type change = func(*join.Join, *plan.Plan)
	drop := func(k int) change {
		return func(_ *join.Join, p *plan.Plan) { p.Ops = slices.Delete(p.Ops, k, k+1) }
	}
	replace := func(k int, f func(*plan.Op)) change {
		return func(_ *join.Join, p *plan.Plan) { f(&p.Ops[k]) }
	}
	insert := func(k int, o plan.Op) change {
		return func(_ *join.Join, p *plan.Plan) {
			o.Start, o.End = p.Ops[k].Start, p.Ops[k].Start
			p.Ops = slices.Insert(p.Ops, k, o)
		}
	}
	for _, x := range []struct {
		name  string
		apply change
		want  []broken
	}{
		{"as it is", func(*join.Join, *plan.Plan) {}, nil},
		{"drop S of branch 1", drop(jS1), []broken{{plan.RuleMissingInput, jS1b - 1, 8, 1}, {plan.RuleMissingInput, jB11 - 1, 11, 1}}},
		{"drop F_2", drop(jF12), []broken{
			{plan.RuleMissingInput, jLoss - 1, 3, 1},
			{plan.RuleMemory, jB2 - 1, 6, 1},
			{plan.RuleLeftOver, -1, end, 1},
		}},
		{"drop S of branch 2", drop(jS2), []broken{{plan.RuleMissingInput, jB2 - 1, 6, 1}}},
		{"drop F of branch 2", drop(jF2), []broken{
			{plan.RuleMissingInput, jLoss - 1, 3, 1},
			{plan.RuleMemory, jB2 - 1, 6, 1},
			{plan.RuleLeftOver, -1, end, 1},
		}},
		{"drop LOSS", drop(jLoss), []broken{
			{plan.RuleMissingInput, jB2 - 1, 6, 1},
			{plan.RuleMissingInput, jB12 - 1, 9, 1},
			{plan.RuleMissing, -1, end, 0},
		}},
		{"drop B of branch 2", drop(jB2), []broken{
			{plan.RuleNotStored, jD - 1, 8, 1},
			{plan.RuleMemory, jS1b - 1, 8, 1},
			{plan.RuleMemory, jF11b - 1, 8, 1},
			{plan.RuleMemory, jB12 - 1, 9, 1},
			{plan.RuleMissingBackward, -1, end, 0},
		}},
		{"drop D", drop(jD), []broken{{plan.RuleLeftOver, -1, end, 1}}},
		{"drop second F_1", drop(jF11b), []broken{{plan.RuleMissingInput, jB12 - 1, 9, 1}, {plan.RuleLeftOver, -1, end, 1}}},
		{"drop B_1", drop(jB11), []broken{{plan.RuleMissingBackward, -1, 11, 0}}},
		{
			"keep the other", func(j *join.Join, _ *plan.Plan) { j.Keep = []bool{false, true} },
			[]broken{{plan.RuleLeftOver, -1, end, 1}, {plan.RuleMissingOutput, -1, end, 1}},
		},
		{"keep none", func(j *join.Join, _ *plan.Plan) { j.Keep = nil }, []broken{{plan.RuleLeftOver, -1, end, 1}}},
		{"memory lower", func(_ *join.Join, p *plan.Plan) { p.Platform.Memory = 3 }, []broken{
			{plan.RuleMemory, jS2, 2, 1}, {plan.RuleMemory, jF2, 2, 1}, {plan.RuleMemory, jLoss, 3, 1}, {plan.RuleMemory, jB2, 6, 1},
		}},
		{"loss twice", insert(jB2, plan.Op{Op: "LOSS"}), []broken{{plan.RuleDuration, jB2, 6, -3}, {plan.RuleTwice, jB2, 6, 3}}},
		{
			"backward twice", insert(jD, plan.Op{Op: "B", Branch: 2, Layer: 1}),
			[]broken{{plan.RuleDuration, jD, 8, -2}, {plan.RuleTwice, jD, 8, 2}},
		},
		{"copy of nothing", insert(jB2, plan.Op{Op: "S", Branch: 1, Layer: 1}), []broken{
			{plan.RuleMemory, jB2, 6, 1}, {plan.RuleMissingInput, jB2, 6, 1}, {plan.RuleMemory, jB2 + 1, 6, 1}, {plan.RuleLeftOver, -1, end, 1},
		}},
		{"discard of nothing", insert(jB2, plan.Op{Op: "D", Tensor: "a", Branch: 1, Layer: 1}), []broken{{plan.RuleNotStored, jB2, 6, 1}}},
		{"discard of δ_2", insert(jB2, plan.Op{Op: "D", Tensor: "delta", Branch: 1, Layer: 2}), []broken{{plan.RuleLayer, jB2, 6, 0}}},
		{
			"discard of ā", replace(jD, func(o *plan.Op) { o.Tensor = "abar" }),
			[]broken{{plan.RuleUnknownOp, jD, 8, 0}, {plan.RuleLeftOver, -1, end, 1}},
		},
		{"branch 0", replace(jD, func(o *plan.Op) { o.Branch = 0 }), []broken{{plan.RuleBranch, jD, 8, 0}, {plan.RuleLeftOver, -1, end, 1}}},
		{"branch 3", replace(jD, func(o *plan.Op) { o.Branch = 3 }), []broken{{plan.RuleBranch, jD, 8, 0}, {plan.RuleLeftOver, -1, end, 1}}},
		{"layer of the other branch", insert(jB2, plan.Op{Op: "F", Branch: 2, Layer: 2}), []broken{{plan.RuleLayer, jB2, 6, 0}}},
		{"backward 0", insert(jB2, plan.Op{Op: "B", Branch: 2}), []broken{{plan.RuleLayer, jB2, 6, 0}}},
		{"node", replace(jD, func(o *plan.Op) { o.Node = "v" }), []broken{{plan.RuleUnknownOp, jD, 8, 0}, {plan.RuleLeftOver, -1, end, 1}}},
		{"branch of the loss", insert(jB2, plan.Op{Op: "LOSS", Branch: 1}), []broken{{plan.RuleUnknownOp, jB2, 6, 0}}},
		{"layer of the loss", insert(jB2, plan.Op{Op: "LOSS", Layer: 1}), []broken{{plan.RuleUnknownOp, jB2, 6, 0}}},
		{"of chains", insert(jB2, plan.Op{Op: "F_all", Branch: 1, Layer: 1}), []broken{{plan.RuleUnknownOp, jB2, 6, 0}}},
		{"longer", replace(jB11, func(o *plan.Op) { o.End++ }), []broken{{plan.RuleDuration, jB11, 11, 1}}},
		{
			"copy that takes time", replace(jS1, func(o *plan.Op) { o.End++ }),
			[]broken{{plan.RuleDuration, jS1, 0, 1}, {plan.RuleOverlap, jF11, 0, 1}},
		},
	} {
		t.Run(x.name, func(t *testing.T) {
			j, p := twoBranches()
			x.apply(j, p)
			compareViolations(t, mustVerifyOn(t, j, p), x.want)
		})
	}
}

func TestJoinByHand(t *testing.T) {
	j, p := twoBranches()
	p.Claims = plan.Claims{Makespan: 13, PeakMemory: 4}
	r, err := verifyjoin.Verify(j, p)
	if err != nil {
		t.Fatal(err)
	}
	if !r.Valid() || r.Makespan != 13 || r.PeakMemory != 4 || r.PeakOp != jS2 || len(r.ClaimErrors) > 0 {
		t.Errorf("%+v", r)
	}
	if p.Problem != plan.Join || p.Instance.SHA256 == "" {
		t.Errorf("new: %+v", p)
	}
	// Branches without layers: the loss replaces a_0 by δ_0.
	j = &join.Join{Branches: []int{0, 0}, Keep: []bool{true, false}, LossTime: 1}
	p = plan.New(plan.Join, "by hand", j, platform.Platform{Memory: 2})
	p.Ops = []plan.Op{{Op: "LOSS", End: 1}, {Op: "D", Tensor: "delta", Branch: 2, Start: 1, End: 1}}
	if r := mustVerifyOn(t, j, p); !r.Valid() || r.Makespan != 1 || r.PeakMemory != 2 {
		t.Errorf("no layers: %+v", r)
	}
}
