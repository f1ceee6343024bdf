package pipeline_test

import (
	"slices"
	"strings"
	"testing"

	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/verify/pipeline"
)

// twoReplicas is a chain of one layer on two GPUs in turn, each busy all the time: F, B
// and AR take 1 s each of the 3 s in which there are two mini-batches.
func twoReplicas() (*chain.Chain, *plan.Plan) {
	c := &chain.Chain{
		Name: "one", Input: chain.Input{Activation: 5},
		Layers: []chain.Layer{{ForwardTime: 1, BackwardTime: 1, Activation: 1, Saved: 1, Gradient: 1, Weight: 1}},
	}
	p := plan.New(plan.Pipeline, "by hand", c, platform.Platform{Memory: 14, Bandwidth: 2, Processors: 2, WeightCopies: 3, Replicas: true})
	period := 3.0
	p.Period, p.K, p.MemoryModel = &period, 2, plan.TaskModel
	p.Allocation = []plan.Stage{{Processor: 0, From: 1, To: 1, Replicas: 2}}
	for m, at := range []float64{0, 1.5} {
		gpu := []string{"gpu0", "gpu1"}[m]
		for k, op := range []string{plan.OpF, plan.OpB, plan.OpAR} {
			start := at + float64(k)
			p.Ops = append(p.Ops, plan.Op{Op: op, Layer: 1, Start: start, End: start + 1, Resource: gpu, Shift: m})
		}
	}
	return c, p
}

func TestReplicas(t *testing.T) {
	c, p := twoReplicas()
	r, err := pipeline.Verify(c, p)
	if err != nil || !r.Valid() || r.Makespan != 1.5 {
		t.Fatalf("%v %+v", err, r)
	}
	// Weights thrice, the input, a_1 or its gradient and that of the input, on each GPU.
	if want := []float64{9, 9}; !slices.Equal(r.Pattern.TaskMemory, want) {
		t.Errorf("memory %v, want %v", r.Pattern.TaskMemory, want)
	}
	for name, x := range map[string]struct {
		change func(*plan.Plan)
		says   string
	}{
		"not allowed":       {func(p *plan.Plan) { p.Platform.Replicas = false }, "the platform does not say"},
		"too many":          {func(p *plan.Plan) { p.Allocation[0].Replicas = 3; p.K = 3 }, "there are processors 0 to 1"},
		"k is no multiple":  {func(p *plan.Plan) { p.K = 1 }, "must be a multiple"},
		"negative":          {func(p *plan.Plan) { p.Allocation[0].Replicas = -1 }, "-1 replicas"},
		"the other replica": {func(p *plan.Plan) { p.Ops[0].Resource = "gpu1" }, "has layer 1 on gpu0"},
		"no AR":             {func(p *plan.Plan) { p.Ops = p.Ops[:5] }, "AR_1 occurs 1 times"},
		"AR during B":       {func(p *plan.Plan) { p.Ops[2].Start, p.Ops[2].End = 1, 2 }, "before B_1^0"},
		"AR too short":      {func(p *plan.Plan) { p.Ops[2].End = 2.5 }, "the instance says 1 s"},
		"period too short":  {func(p *plan.Plan) { *p.Period = 2.5 }, "before AR_1^0 ends"},
		"too little memory": {func(p *plan.Plan) { p.Platform.Memory = 8 }, "needs 9"},
		"another stage beside": {
			func(p *plan.Plan) { p.Allocation = append(p.Allocation, plan.Stage{Processor: 1, From: 1, To: 1}) },
			"there is another stage",
		},
		"AR without replicas":   {func(p *plan.Plan) { p.Allocation[0].Replicas = 0 }, "begins no stage with replicas"},
		"both are mini-batch 0": {func(p *plan.Plan) { p.Ops[3].Shift = 0 }, "same mini-batches"},
	} {
		c, p := twoReplicas()
		x.change(p)
		r, err := pipeline.Verify(c, p)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(r.Violations, func(v plan.Violation) bool { return strings.Contains(v.Detail, x.says) }) {
			t.Errorf("%s: %+v", name, r.Violations)
		}
	}
}
