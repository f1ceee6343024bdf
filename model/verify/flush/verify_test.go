package flush_test

import (
	"slices"
	"strings"
	"testing"

	optimum "workbench/model/exhaustive/flush"
	"workbench/model/instance/stages"
	"workbench/model/plan"
	"workbench/model/platform"
	verifyflush "workbench/model/verify/flush"
)

// Of four stages in a V, gpu0 has the first and the last. In 4 units beside the weights it cannot
// hold a micro-batch in both; where everything takes no time, or next to none beside one forward, each
// operation could be at the instant of what it waits for, in an order in which none can begin.
func TestOperationsThatWaitForEachOther(t *testing.T) {
	for _, long := range []float64{0, 1e6} {
		for _, short := range []float64{0, 1e-12} {
			in := &stages.Partition{Name: "v", Stages: make([]stages.Stage, 4)}
			for i := range in.Stages {
				in.Stages[i] = stages.Stage{ForwardTime: short, BackwardTime: short, ForwardMemory: 4, BackwardMemory: -4}
			}
			in.Stages[1].ForwardTime += long
			p := platform.Platform{Memory: 4, Processors: 2, MicroBatches: 1, Placement: plan.VShaped, Objective: plan.SpanObjective}
			if least, _, err := optimum.Search(in, p, 1<<20); err == nil {
				t.Errorf("exhaustive search has a plan of %v s", least)
			}
			p.Memory = 8
			_, best, err := optimum.Search(in, p, 1<<20)
			if err != nil {
				t.Fatal(err)
			}
			if r, err := verifyflush.Verify(in, best); err != nil || !r.Valid() {
				t.Fatalf("%v, %+v", err, r)
			}
			bad := plan.New(plan.Flush, "none", in, p)
			bad.Platform.Memory = 4
			add := func(op string, stage int, gpu string, at float64) {
				s := &in.Stages[stage-1]
				length := s.BackwardTime
				if op == plan.OpF {
					length = s.ForwardTime
				}
				bad.Ops = append(bad.Ops, plan.Op{Op: op, Stage: stage, MicroBatch: 1, Resource: gpu, Start: at, End: at + length})
			}
			end := short + in.Stages[1].ForwardTime
			add(plan.OpF, 1, "gpu0", 0)
			add(plan.OpB, 1, "gpu0", end)
			add(plan.OpF, 4, "gpu0", end)
			add(plan.OpB, 4, "gpu0", end)
			add(plan.OpF, 2, "gpu1", short)
			add(plan.OpB, 2, "gpu1", end)
			add(plan.OpF, 3, "gpu1", end)
			add(plan.OpB, 3, "gpu1", end)
			r, err := verifyflush.Verify(in, bad)
			if err != nil {
				t.Fatal(err)
			}
			if r.Valid() {
				t.Errorf("a plan whose operations wait for each other is valid, with times of %v and %v s", long, short)
			}
		}
	}
}

// One GPU sends of each of two micro-batches 3 of 4 to the host and back. In 5 units F of the second waits for
// O of the first, and the P that comes back for B; what is too early, elsewhere, left out or too much is told.
func TestCopiesToTheHost(t *testing.T) {
	in := &stages.Partition{Name: "sends", Stages: []stages.Stage{
		{ForwardTime: 1, BackwardTime: 2, ForwardMemory: 4, BackwardMemory: -4, OffloadMemory: 3, OffloadTime: 1},
	}}
	made := func() *plan.Plan {
		p := plan.New(plan.Flush, "by hand", in, platform.Platform{Memory: 5, Processors: 1, MicroBatches: 2, Placement: plan.Straight})
		add := func(op, on string, job int, start, end float64) {
			p.Ops = append(p.Ops, plan.Op{Op: op, Stage: 1, MicroBatch: job, Resource: on, Start: start, End: end})
		}
		add(plan.OpF, "gpu0", 1, 0, 1)
		add(plan.OpO, "link0", 1, 1, 2)
		add(plan.OpF, "gpu0", 2, 2, 3)
		add(plan.OpO, "link0", 2, 3, 4)
		add(plan.OpP, "link0", 1, 4, 5)
		add(plan.OpB, "gpu0", 1, 5, 7)
		add(plan.OpP, "link0", 2, 7, 8)
		add(plan.OpB, "gpu0", 2, 8, 10)
		p.Claims = plan.Claims{Makespan: 10, PeakMemory: 5}
		return p
	}
	for _, x := range []struct {
		name, rule string
		edit       func(p *plan.Plan)
	}{
		{"as it is", "", func(*plan.Plan) {}},
		{"less memory", plan.RuleMemory, func(p *plan.Plan) { p.Platform.Memory = 4 }},
		{"F before the first has left", plan.RuleDependency, func(p *plan.Plan) { p.Ops[2].Start, p.Ops[2].End = 1.5, 2.5 }},
		{"listed before the first has left", plan.RuleMemory, func(p *plan.Plan) { p.Ops[1], p.Ops[2] = p.Ops[2], p.Ops[1] }},
		{"O before F has ended", plan.RuleDependency, func(p *plan.Plan) { p.Ops[1].Start, p.Ops[1].End = 0.5, 1.5 }},
		{"two copies at once", plan.RuleLinkOverlap, func(p *plan.Plan) { p.Ops[4].Start, p.Ops[4].End = 3.5, 4.5 }},
		{"B before P has ended", plan.RuleDependency, func(p *plan.Plan) { p.Ops[5].Start, p.Ops[5].End = 4.5, 6.5 }},
		{"P in the room of B", plan.RuleDependency, func(p *plan.Plan) { p.Ops[6].Start, p.Ops[6].End = 6, 7 }},
		{"a long copy", plan.RuleDuration, func(p *plan.Plan) { p.Ops[4].End = 4.5 }},
		{"on another link", plan.RuleResource, func(p *plan.Plan) { p.Ops[4].Resource = "link1" }},
		{"twice", plan.RuleRepeated, func(p *plan.Plan) { p.Ops = append(p.Ops, p.Ops[7-1]) }},
		{"never back", plan.RuleMissing, func(p *plan.Plan) { p.Ops = append(p.Ops[:6], p.Ops[7]) }},
	} {
		p := made()
		x.edit(p)
		r, err := verifyflush.Verify(in, p)
		if err != nil {
			t.Fatal(err)
		}
		if x.rule == "" && (!r.Valid() || len(r.ClaimErrors) > 0 || r.Flush.Span != 10) {
			t.Errorf("%s: %+v", x.name, r)
		}
		if x.rule != "" && !slices.ContainsFunc(r.Violations, func(v plan.Violation) bool { return v.Rule == x.rule }) {
			t.Errorf("%s: %+v, not %s", x.name, r.Violations, x.rule)
		}
	}
	none := *in
	none.Stages = []stages.Stage{in.Stages[0]}
	none.Stages[0].OffloadMemory, none.Stages[0].OffloadTime = 0, 0
	if r, err := verifyflush.Verify(&none, made()); err != nil ||
		!slices.ContainsFunc(r.Violations, func(v plan.Violation) bool { return v.Rule == plan.RuleKind }) {
		t.Errorf("copies of a stage that sends nothing: %v %+v", err, r)
	}
}

// One stage is a stage, and one rule is broken one time.
func TestFlushSummaryCounts(t *testing.T) {
	s := &verifyflush.Summary{GPUs: []verifyflush.GPU{{Stages: []int{1}}, {Stages: []int{2, 3}}}, Violations: 1}
	for _, want := range []string{"gpu0        stage 1: busy", "gpu1        stages 2 3: busy", "breaks the rules 1 time;"} {
		if got := s.String(); !strings.Contains(got, want) {
			t.Errorf("%q lacks %q", got, want)
		}
	}
}
