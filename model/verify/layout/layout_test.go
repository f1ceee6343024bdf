package layout_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"workbench/model/exhaustive"
	optimum "workbench/model/exhaustive/layout"
	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/testcase/random"
	"workbench/model/testfile"
	"workbench/model/verify/layout"
)

// two is a chain of two layers on two GPUs, with one micro-batch, and its plan by the rules of PyTorch: the first stage holds its input,
// what it saves beside its output, and its output.
func two() (*chain.Chain, *plan.Plan) {
	c := &chain.Chain{Name: "two", Input: chain.Input{Activation: 2, Gradient: 2}, Layers: []chain.Layer{
		{
			Name: "a", ForwardTime: 1, BackwardTime: 3, WeightGradientTime: 2, Activation: 3, Gradient: 3, Saved: 7, Weight: 1,
			Recompute: []chain.Recomputation{{Name: "some", Saved: 4, ForwardTime: 1, Transient: 2, Splits: true}},
		},
		{Name: "b", ForwardTime: 2, BackwardTime: 4, Activation: 0, Saved: 1, Weight: 2, BackwardOverhead: 1},
	}}
	p := plan.New(plan.Layout, "by hand", c, platform.Platform{
		Memory: 11, Processors: 2, WeightCopies: 2, MicroBatches: 1, Placement: plan.Straight, Objective: plan.MakespanObjective,
		Bandwidth: 3, Latency: 1, Split: 0.5, Runtime: "torch",
	})
	p.Allocation = []plan.Stage{{Processor: 0, From: 1, To: 1}, {Processor: 1, From: 2, To: 2}}
	p.Recompute = []string{"none", "none"}
	p.Ops = []plan.Op{
		{Op: plan.OpF, Stage: 1, MicroBatch: 1, Resource: "gpu0", Start: 0, End: 1},
		{Op: plan.OpF, Stage: 2, MicroBatch: 1, Resource: "gpu1", Start: 3, End: 5},
		{Op: plan.OpB, Stage: 2, MicroBatch: 1, Resource: "gpu1", Start: 5, End: 7},
		{Op: plan.OpW, Stage: 2, MicroBatch: 1, Resource: "gpu1", Start: 7, End: 9},
		{Op: plan.OpB, Stage: 1, MicroBatch: 1, Resource: "gpu0", Start: 11, End: 11},
		{Op: plan.OpW, Stage: 1, MicroBatch: 1, Resource: "gpu0", Start: 11, End: 14},
	}
	return c, p
}

// GPU 0 holds two copies of 1, the input 2, 4 saved beside the output and the output 3; GPU 1 four of weights, its input 3, 1 saved and
// an overhead of 1.
func TestTwo(t *testing.T) {
	c, p := two()
	r, err := layout.Verify(c, p)
	if err != nil || !r.Valid() || r.Makespan != 14 || !slices.Equal(r.Flush.Memory, []float64{11, 9}) {
		t.Fatalf("%v %+v", err, r)
	}
	p.Platform.Runtime = "" // the first stage computes the gradient of its input, and holds no output
	p.Ops[4].End, p.Ops[5].Start = 12, 12
	if r, err = layout.Verify(c, p); err != nil || !r.Valid() || !slices.Equal(r.Flush.Memory, []float64{8, 9}) {
		t.Fatalf("%v %+v", err, r)
	}
	p.Recompute[0] = "some" // 2 of weights, 4 held, 2 for a moment
	p.Ops[4].End, p.Ops[5].Start, p.Ops[5].End = 13, 13, 15
	if r, err = layout.Verify(c, p); err != nil || !r.Valid() || r.Makespan != 15 || r.Flush.Memory[0] != 8 {
		t.Fatalf("%v %+v", err, r)
	}
	p.Recompute[0] = "full" // one operation: 2 of weights, the input, 4 for a moment
	p.Ops[4].End, p.Ops = 15, p.Ops[:5]
	if r, err = layout.Verify(c, p); err != nil || !r.Valid() || r.Makespan != 15 || r.Flush.Memory[0] != 8 {
		t.Fatalf("%v %+v", err, r)
	}
}

// What is wrong is named.
func TestWrong(t *testing.T) {
	for _, x := range []struct {
		name, text string
		edit       func(*plan.Plan)
	}{
		{"too little memory", plan.RuleMemory, func(p *plan.Plan) { p.Platform.Memory = 10 }},
		{"too early", plan.RuleDependency, func(p *plan.Plan) { p.Ops[1].Start, p.Ops[1].End = 2, 4 }},
		{"too short", plan.RuleDuration, func(p *plan.Plan) { p.Ops[5].End = 13 }},
		{"other GPU", plan.RuleResource, func(p *plan.Plan) { p.Ops[1].Resource = "gpu0" }},
		{"missing", plan.RuleMissing, func(p *plan.Plan) { p.Ops = p.Ops[:5] }},
		{"another problem", "problem is", func(p *plan.Plan) { p.Problem = plan.Flush }},
		{"a gap", "allocation[1]: layers 3 to 3", func(p *plan.Plan) { p.Allocation[1].From, p.Allocation[1].To = 3, 3 }},
		{"too few layers", "layers 2 to 2 are on no stage", func(p *plan.Plan) { p.Allocation = p.Allocation[:1] }},
		{"against the placement", "placement straight has it on GPU 1", func(p *plan.Plan) { p.Allocation[1].Processor = 0 }},
		{"no option", `has no option "most"`, func(p *plan.Plan) { p.Recompute[1] = "most" }},
		{"too few options", "recompute has 1 entries", func(p *plan.Plan) { p.Recompute = p.Recompute[:1] }},
		{"no stage", "there is no stage", func(p *plan.Plan) { p.Allocation = nil }},
	} {
		c, p := two()
		x.edit(p)
		r, err := layout.Verify(c, p)
		switch {
		case err != nil && (!errors.Is(err, plan.ErrUnreadable) || !strings.Contains(err.Error(), x.text)):
			t.Errorf("%s: %v, want %s", x.name, err, x.text)
		case err == nil && !slices.ContainsFunc(r.Violations, func(v plan.Violation) bool { return v.Rule == x.text }):
			t.Errorf("%s: %+v, want %s", x.name, r.Violations, x.text)
		}
	}
}

// The plans of exhaustive search are valid and as good as it says.
func TestExhaustivePlans(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 44))
	planned := 0
	for range testfile.Cases(60) {
		c, p := random.Layout(r, 4)
		value, best, err := optimum.Search(c, p, 1<<18)
		if errors.Is(err, exhaustive.ErrInfeasible) || errors.Is(err, exhaustive.ErrLimit) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		report, err := layout.Verify(c, best)
		if err != nil || !report.Valid() || report.Objective(plan.Layout) != value {
			t.Fatalf("%v %+v, want %g\n%+v\n%+v", err, report, value, c, best)
		}
		planned++
	}
	if planned < 5 {
		t.Errorf("only %d plans", planned)
	}
}
