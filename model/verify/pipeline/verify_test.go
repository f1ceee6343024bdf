package pipeline_test

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/verify"
	"workbench/model/verify/pipeline"
)

// patternOp is an operation of a pattern: "F", 1 on gpu0 with shift 1.
func patternOp(kind string, layer int, resource string, start, end float64, shift int) plan.Op {
	return plan.Op{Op: kind, Layer: layer, Resource: resource, Start: start, End: end, Shift: shift}
}

// twoStages is a chain of two layers, one on each of two GPUs, and a pattern
// that passes one mini-batch after the other. uF = 1, uB = 2, a = 1, 1, 2,
// W = 3, 4, δ_1 = 2; β = 1.
func twoStages() (*chain.Chain, *plan.Plan) {
	c := &chain.Chain{Name: "two", Input: chain.Input{Activation: 1, Gradient: 1}, Layers: []chain.Layer{
		{ForwardTime: 1, BackwardTime: 2, Activation: 1, Saved: 1, Gradient: 2, Weight: 3},
		{ForwardTime: 1, BackwardTime: 2, Activation: 2, Saved: 2, Gradient: 2, Weight: 4},
	}}
	p := plan.New(plan.Pipeline, "by hand", c, platform.Platform{Memory: 20, Bandwidth: 1, Processors: 2, WeightCopies: 3})
	period := 9.0
	p.Period = &period
	p.Allocation = []plan.Stage{{Processor: 0, From: 1, To: 1}, {Processor: 1, From: 2, To: 2}}
	p.Ops = []plan.Op{
		patternOp("F", 1, "gpu0", 0, 1, 0),
		patternOp("CF", 1, "link0-1", 1, 2, 0),
		patternOp("F", 2, "gpu1", 2, 3, 0),
		patternOp("B", 2, "gpu1", 3, 5, 0),
		patternOp("CB", 1, "link0-1", 5, 7, 0),
		patternOp("B", 1, "gpu0", 7, 9, 0),
	}
	return c, p
}

// insideStage is the counterexample to [004] Theorem 15: stages {1,2} and {3}
// at T = 4, all times and sizes 1, communications that take no time.
func insideStage() (*chain.Chain, *plan.Plan) {
	c := &chain.Chain{Name: "inside a stage", Input: chain.Input{Activation: 1, Gradient: 1}}
	for range 3 {
		c.Layers = append(c.Layers, chain.Layer{ForwardTime: 1, BackwardTime: 1, Activation: 1, Saved: 1, Gradient: 1})
	}
	p := plan.New(plan.Pipeline, "by hand", c, platform.Platform{Memory: 7, Bandwidth: 1e20, Processors: 2})
	period := 4.0
	p.Period = &period
	p.MemoryModel = plan.StageModel
	p.Allocation = []plan.Stage{{Processor: 0, From: 1, To: 2}, {Processor: 1, From: 3, To: 3}}
	p.Ops = []plan.Op{
		patternOp("F", 1, "gpu0", 0, 1, 1),
		patternOp("B", 2, "gpu0", 1, 2, 0),
		patternOp("F", 2, "gpu0", 2, 3, 1),
		patternOp("B", 1, "gpu0", 3, 4, 0),
		patternOp("CF", 2, "link0-1", 3, 3, 1),
		patternOp("F", 3, "gpu1", 3, 4, 1),
		patternOp("B", 3, "gpu1", 4, 5, 1), // in the period after: 0 with shift 0
		patternOp("CB", 2, "link0-1", 1, 1, 0),
	}
	return c, p
}

// cancelled is the family of [004] Theorem 16: P = k+1 layers of
// uF = uB = 1 and the pattern of Figure 5.4, in which every (k+1)-th mini-batch
// of the pattern without idle times is left out.
func cancelled(k int) (*chain.Chain, *plan.Plan) {
	c := &chain.Chain{Name: "theorem 16", Input: chain.Input{Activation: 1, Gradient: 1}}
	for l := range k + 1 {
		weight := float64(max(1, l))
		if l == 0 || l == k {
			weight += 2 // of the buffers that the outer processors do not have
		}
		c.Layers = append(c.Layers, chain.Layer{ForwardTime: 1, BackwardTime: 1, Activation: 1, Saved: 1, Gradient: 1, Weight: weight})
	}
	p := plan.New(plan.Pipeline, "by hand", c, platform.Platform{Memory: float64(k+1) + 4, Bandwidth: 1e20, Processors: k + 1, WeightCopies: 1})
	period := 2 * float64(k+1)
	p.Period, p.K, p.MemoryModel = &period, k, plan.StageModel
	n := k + 1
	for l := 1; l <= n; l++ {
		p.Allocation = append(p.Allocation, plan.Stage{Processor: l - 1, From: l, To: l})
	}
	// Mini-batch m enters at 2(m + m/k): each (k+1)-th place stays empty.
	gpu := func(l int) string { return "gpu" + string(rune('0'+l-1)) }
	for m := range k {
		place := float64(2 * m)
		// B_1 of mini-batch m starts at 2n-1 after its F_1; in whole periods.
		add := func(kind string, l int, resource string, after, length float64) {
			p.Ops = append(p.Ops, patternOp(kind, l, resource, place+after-float64(2*n-1), place+after-float64(2*n-1)+length, m))
		}
		for l := 1; l <= n; l++ {
			add("F", l, gpu(l), float64(l-1), 1)
			add("B", l, gpu(l), float64(2*n-l), 1)
			if l < n {
				link := "link" + string(rune('0'+l-1)) + "-" + string(rune('0'+l))
				add("CF", l, link, float64(l), 0)
				add("CB", l, link, float64(2*n-l), 0)
			}
		}
	}
	return c, p
}

func TestPatternsByHand(t *testing.T) {
	for _, x := range []struct {
		name    string
		pattern func() (*chain.Chain, *plan.Plan)
		want    plan.PatternReport
		period  float64
		peak    float64
		peakOp  int
	}{
		// gpu0: 3·3 weights, 1 + 2 buffers, then F_1: a_0, a_1; B_1: δ_1, δ_0, a_0.
		// gpu1: 3·4, 1 + 2, then B_2: δ_2, δ_1, a_1, with a_2 gone as it is δ_2.
		{"two stages", twoStages, plan.PatternReport{StageMemory: []float64{13, 16}, TaskMemory: []float64{16, 20}, NCA: []int{1, 1}}, 9, 20, 3},
		// gpu0: 2 buffers; F_1^1: 2 and a_0 of 0; B_2^0: 2, a_0 of 0 and 1, a_1 of
		// 0, a_1 of 1 waiting; F_2^1: 2, a_0 of both.
		{
			"inside a stage", insideStage,
			plan.PatternReport{StageMemory: []float64{5, 3}, TaskMemory: []float64{8, 5}, NCA: []int{2, 1, 1}},
			4, 5,
			-1,
		},
		{
			"theorem 16, k = 2",
			func() (*chain.Chain, *plan.Plan) { return cancelled(2) },
			plan.PatternReport{StageMemory: []float64{7, 7, 7}, TaskMemory: []float64{9, 9, 9}, NCA: []int{2, 2, 1}},
			3, 7, -1,
		},
		{
			"theorem 16, k = 3",
			func() (*chain.Chain, *plan.Plan) { return cancelled(3) },
			plan.PatternReport{StageMemory: []float64{8, 8, 8, 8}, TaskMemory: []float64{10, 10, 10, 10}, NCA: []int{3, 3, 2, 1}},
			8.0 / 3, 8, -1,
		},
	} {
		t.Run(x.name, func(t *testing.T) {
			c, p := x.pattern()
			r := mustVerify(t, c, p)
			if !r.Valid() {
				t.Fatal(r.Violations)
			}
			if diff := cmp.Diff(&x.want, r.Pattern); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if r.Makespan != x.period || r.PeakMemory != x.peak || r.PeakOp != x.peakOp {
				t.Errorf("period %g, peak %g by %d; want %g, %g by %d", r.Makespan, r.PeakMemory, r.PeakOp, x.period, x.peak, x.peakOp)
			}
			compareUnrolled(t, c, p, r)
		})
	}
}

// compareUnrolled holds a report to the execution of the pattern.
func compareUnrolled(t interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
}, c *chain.Chain, p *plan.Plan, r *plan.Report,
) {
	t.Helper()
	u, err := pipeline.Unroll(c, p, 0)
	if err != nil {
		t.Fatal(err)
	}
	if r.Valid() != (len(u.Broken) == 0) {
		t.Fatalf("verified: %v\nunrolled: %v", r.Violations, u.Broken)
	}
	if diff := cmp.Diff(r.Pattern, &plan.PatternReport{StageMemory: u.StageMemory, TaskMemory: u.TaskMemory, NCA: u.NCA}); diff != "" {
		t.Fatalf("(-verified +unrolled):\n%s", diff)
	}
	if r.Valid() && math.Abs(u.Period-r.Makespan) > 1e-9*r.Makespan {
		t.Fatalf("verified period %g, unrolled %g", r.Makespan, u.Period)
	}
	if n := len(u.Runs); n == 0 || n%u.Minibatches != 0 {
		t.Fatalf("%d runs of %d mini-batches", n, u.Minibatches)
	}
}

// Each rule is broken by one change, and by no other rule's name.
func TestPatternMutations(t *testing.T) {
	for _, x := range []struct {
		name   string
		mutate func(c *chain.Chain, p *plan.Plan)
		want   []string
		detail string
	}{
		{"nothing", func(*chain.Chain, *plan.Plan) {}, nil, ""},
		{"unknown operation", func(_ *chain.Chain, p *plan.Plan) { p.Ops[0].Op = "F_all" }, []string{plan.RuleKind, plan.RuleMissing}, ""},
		{"tensor", func(_ *chain.Chain, p *plan.Plan) { p.Ops[0].Tensor = "a" }, []string{plan.RuleKind, plan.RuleMissing}, ""},
		{
			"layer 0", func(_ *chain.Chain, p *plan.Plan) { p.Ops[0].Layer = 0 },
			[]string{plan.RuleLayer, plan.RuleMissing},
			"F is of layer 0; the chain has layers 1 to 2",
		},
		{
			"communication after the loss", func(_ *chain.Chain, p *plan.Plan) { p.Ops[1].Layer = 2 },
			[]string{plan.RuleLayer, plan.RuleMissing},
			"CF is of layer 2; there are communications after layers 1 to 1",
		},
		{"NaN", func(_ *chain.Chain, p *plan.Plan) { p.Ops[0].Start = math.NaN() }, []string{plan.RuleTime, plan.RuleMissing}, ""},
		{"infinite end", func(_ *chain.Chain, p *plan.Plan) { p.Ops[0].End = math.Inf(1) }, []string{plan.RuleTime, plan.RuleMissing}, ""},
		{
			"backwards in time", func(_ *chain.Chain, p *plan.Plan) { p.Ops[0].End = -1 },
			[]string{plan.RuleMissing, plan.RuleTime},
			"F_1^0 ends 1 s before it starts",
		},
		{
			"far away", func(_ *chain.Chain, p *plan.Plan) { p.Ops[0].Start, p.Ops[0].End = 1e9, 1e9+1 },
			[]string{plan.RuleMissing, plan.RuleTime},
			"",
		},
		{"far shift", func(_ *chain.Chain, p *plan.Plan) { p.Ops[0].Shift = math.MinInt }, []string{plan.RuleMissing, plan.RuleShift}, ""},
		{
			"too short", func(_ *chain.Chain, p *plan.Plan) { p.Ops[0].End = 0.5 },
			[]string{plan.RuleDuration},
			"F_1^0 takes 0.5 s; the instance says 1 s",
		},
		{
			"communication too short", func(_ *chain.Chain, p *plan.Plan) { p.Ops[4].End = 6 },
			[]string{plan.RuleDuration},
			"CB_1^0 takes 1 s; the instance says 2 s",
		},
		{"a rounding", func(_ *chain.Chain, p *plan.Plan) { p.Ops[0].End += 1e-12 }, nil, ""},
		{"missing", func(_ *chain.Chain, p *plan.Plan) { p.Ops = p.Ops[1:] }, []string{plan.RuleMissing}, "F_1 is missing"},
		{
			"no communication", func(_ *chain.Chain, p *plan.Plan) { p.Ops = slices.Delete(p.Ops, 1, 2) },
			[]string{plan.RuleMissing},
			"CF_1 is missing",
		},
		{
			"repeated", func(_ *chain.Chain, p *plan.Plan) { p.Ops = append(p.Ops, patternOp("F", 1, "gpu0", 4, 5, 0)) },
			[]string{plan.RuleRepeated},
			"F_1 occurs 2 times; in a 1-periodic pattern it occurs 1 times",
		},
		{
			"on the other GPU", func(_ *chain.Chain, p *plan.Plan) { p.Ops[0].Resource = "gpu1" },
			[]string{plan.RuleColocation},
			"F_1^0 runs on gpu1; the allocation has layer 1 on gpu0",
		},
		{"on no GPU that there is", func(_ *chain.Chain, p *plan.Plan) { p.Ops[0].Resource = "gpu2" }, []string{plan.RuleResource}, ""},
		{"on the link", func(_ *chain.Chain, p *plan.Plan) { p.Ops[0].Resource = "link0-1" }, []string{plan.RuleResource}, ""},
		{
			"nowhere", func(_ *chain.Chain, p *plan.Plan) { p.Ops[0].Resource = "" },
			[]string{plan.RuleResource},
			"F_1^0 has no resource; it runs on gpu0",
		},
		{
			"link the other way", func(_ *chain.Chain, p *plan.Plan) { p.Ops[1].Resource = "link1-0" },
			[]string{plan.RuleResource},
			"CF_1^0 runs on link1-0; it goes over link0-1",
		},
		{"shift of B_1", func(_ *chain.Chain, p *plan.Plan) {
			for k := range p.Ops {
				p.Ops[k].Shift++
			}
		}, []string{plan.RuleShift}, "the first B_1 has shift 1; shifts are counted from it, so it must be 0"},
		{
			"too early", func(_ *chain.Chain, p *plan.Plan) { p.Ops[0].Start, p.Ops[0].End = 0.5, 1.5 },
			[]string{plan.RuleDependency},
			"CF_1^0 starts 0.5 s before F_1^0 of the same mini-batch ends",
		},
		{
			"early by shift", func(_ *chain.Chain, p *plan.Plan) { p.Ops[0].Shift = -1 },
			[]string{plan.RuleDependency},
			"CF_1^0 starts 9 s before F_1^-1 of the same mini-batch ends",
		},
		{"a mini-batch ahead", func(_ *chain.Chain, p *plan.Plan) { p.Ops[0].Shift = 1; p.Platform.Memory = 100 }, nil, ""},
		{
			"a mini-batch ahead, in memory", func(_ *chain.Chain, p *plan.Plan) { p.Ops[0].Shift = 1; p.Platform.Memory = 16 },
			[]string{plan.RuleMemory, plan.RuleMemory},
			"gpu0 needs 17 of 16 bytes while B_1^0 runs",
		},
		{"one period on", func(_ *chain.Chain, p *plan.Plan) { p.Ops[2].Start, p.Ops[2].End, p.Ops[2].Shift = 11, 12, 1 }, nil, ""},
		{"overlap", func(_ *chain.Chain, p *plan.Plan) {
			*p.Period = 8
			p.Ops[0].Start, p.Ops[0].End = -0.5, 0.5
		}, []string{plan.RuleComputeOverlap}, "F_1^0 starts 1.5 s before B_1^0 ends on gpu0"},
		{"overlap on the link", func(_ *chain.Chain, p *plan.Plan) {
			*p.Period = 8
			for _, k := range []int{0, 1} {
				p.Ops[k].Start, p.Ops[k].End = p.Ops[k].Start-2.5, p.Ops[k].End-2.5
			}
			p.Ops[0].Start, p.Ops[0].End = -3, -2
		}, []string{plan.RuleLinkOverlap}, ""},
		{
			"period too short", func(_ *chain.Chain, p *plan.Plan) { *p.Period = 2.5; p.Platform.Memory = 100 },
			[]string{plan.RuleComputeOverlap, plan.RuleComputeOverlap, plan.RuleLinkOverlap},
			"",
		},
		{
			"memory", func(_ *chain.Chain, p *plan.Plan) { p.Platform.Memory = 19 },
			[]string{plan.RuleMemory},
			"gpu1 needs 20 of 19 bytes while B_2^0 runs",
		},
		{
			"memory of stages", func(_ *chain.Chain, p *plan.Plan) { p.Platform.Memory = 15; p.MemoryModel = plan.StageModel },
			[]string{plan.RuleMemory},
			"gpu1 needs 16 of 15 bytes by the stage model",
		},
		{
			"weights", func(_ *chain.Chain, p *plan.Plan) { p.Platform.WeightCopies = 4 },
			[]string{plan.RuleMemory},
			"gpu1 needs 24 of 20 bytes while B_2^0 runs",
		},
		{
			"processor", func(_ *chain.Chain, p *plan.Plan) { p.Allocation[1].Processor = 2 },
			[]string{plan.RuleAllocation, plan.RuleAllocation},
			"stage 2 is on processor 2; there are processors 0 to 1",
		},
		{
			"no such layer", func(_ *chain.Chain, p *plan.Plan) { p.Allocation[1].To = 3 },
			[]string{plan.RuleAllocation, plan.RuleAllocation},
			"stage 2 has layers 2 to 3; the chain has layers 1 to 2",
		},
		{"a layer twice", func(_ *chain.Chain, p *plan.Plan) { p.Allocation[0].To = 2 }, nil, "layer 2 is in two stages, on gpu0 and on gpu1"},
		{
			"a layer nowhere", func(_ *chain.Chain, p *plan.Plan) { p.Allocation = p.Allocation[:1] },
			[]string{plan.RuleAllocation},
			"layer 2 is in no stage",
		},
		{"on one processor", func(_ *chain.Chain, p *plan.Plan) {
			p.Allocation[1].Processor = 0
			p.Platform.Memory = 100
			p.Ops[2].Resource, p.Ops[3].Resource = "gpu0", "gpu0"
		}, []string{plan.RuleNoCut, plan.RuleNoCut}, "CF_1^0 sends from gpu0 to itself: layers 1 and 2 are both there"},
		{
			"k", func(_ *chain.Chain, p *plan.Plan) { p.K = 2 }, slices.Repeat([]string{plan.RuleMissing}, 6),
			"B_1 occurs 1 times; in a 2-periodic pattern it occurs 2 times",
		},
	} {
		t.Run(x.name, func(t *testing.T) {
			c, p := twoStages()
			x.mutate(c, p)
			r := mustVerify(t, c, p)
			var rules []string
			found := x.detail == ""
			for _, v := range r.Violations {
				rules = append(rules, v.Rule)
				found = found || v.Detail == x.detail
			}
			slices.Sort(rules)
			want := slices.Sorted(slices.Values(x.want))
			if x.name == "a layer twice" {
				want = rules[:1] // and what follows from it
			}
			if x.name != "a layer twice" && !slices.Equal(rules, want) || !found {
				t.Errorf("violations %+v\nwant %v, %q", r.Violations, want, x.detail)
			}
			if u, err := pipeline.Unroll(c, p, 0); r.Valid() != (err == nil && len(u.Broken) == 0) {
				t.Errorf("unrolled: %v, %+v", err, u)
			}
		})
	}
}

// Of several operations of a layer each is for other mini-batches.
func TestPatternShifts(t *testing.T) {
	c, p := cancelled(3)
	p.Ops[0].Shift += 3
	p.Ops[0].Start += 8
	p.Ops[0].End += 8
	if r := mustVerify(t, c, p); !r.Valid() {
		t.Errorf("moved by a period: %v", r.Violations)
	}
	c, p = cancelled(3)
	p.Ops[0].Shift++
	r := mustVerify(t, c, p)
	if len(r.Violations) != 1 || r.Violations[0].Rule != plan.RuleShift ||
		r.Violations[0].Detail != "F_1 has shifts 1 and 1, which are for the same mini-batches: they are equal modulo k = 3" {
		t.Errorf("%+v", r.Violations)
	}
	c, p = cancelled(3)
	p.Platform.Memory--
	if r := mustVerify(t, c, p); len(r.Violations) != 4 || r.Violations[0].Rule != plan.RuleMemory {
		t.Errorf("%+v", r.Violations)
	}
}

// Roundings gain no time together.
func TestPatternRoundings(t *testing.T) {
	c := &chain.Chain{Name: "many"}
	p := plan.New(plan.Pipeline, "by hand", c, platform.Platform{Processors: 1})
	const n = 1000
	at := 0.0
	for l := range 2 * n {
		kind, layer := "F", l+1
		if l >= n {
			kind, layer = "B", 2*n-l
		} else {
			c.Layers = append(c.Layers, chain.Layer{ForwardTime: 1, BackwardTime: 1})
		}
		p.Ops = append(p.Ops, patternOp(kind, layer, "gpu0", at, at+1, 0))
		at += 1 - 1e-6 // of a period of 2000: half of what counts as a rounding
	}
	p.Period = &at
	p.Allocation = []plan.Stage{{From: 1, To: n}}
	r := mustVerify(t, c, p)
	if len(r.Violations) != 1 || r.Violations[0].Rule != plan.RulePeriod {
		t.Errorf("%+v", r.Violations)
	}
}

func TestPatternClaims(t *testing.T) {
	c, p := insideStage()
	p.Claims = plan.Claims{Makespan: 4, PeakMemory: 5}
	if r := mustVerify(t, c, p); len(r.ClaimErrors) != 0 {
		t.Error(r.ClaimErrors)
	}
	p.MemoryModel, p.Platform.Memory = plan.TaskModel, 8
	if r := mustVerify(t, c, p); !r.Valid() || len(r.ClaimErrors) != 1 || !strings.Contains(r.ClaimErrors[0], "the replay gives 8") {
		t.Error(r.Violations, r.ClaimErrors)
	}
}

func TestPatternUnreadable(t *testing.T) {
	c, _ := twoStages()
	for want, mutate := range map[string]func(*plan.Plan){
		`problem is "remat", not "pipeline"`:    func(p *plan.Plan) { p.Problem = "remat" },
		"period is missing":                     func(p *plan.Plan) { p.Period = nil },
		"period is 0":                           func(p *plan.Plan) { *p.Period = 0 },
		"period is NaN":                         func(p *plan.Plan) { *p.Period = math.NaN() },
		"platform.memory is -1":                 func(p *plan.Plan) { p.Platform.Memory = -1 },
		"platform.processors is 0":              func(p *plan.Plan) { p.Platform.Processors = 0 },
		"platform.processors is 1000000000":     func(p *plan.Plan) { p.Platform.Processors = 1e9 },
		"platform.weight_copies is -1":          func(p *plan.Plan) { p.Platform.WeightCopies = -1 },
		"platform.bandwidth is 0":               func(p *plan.Plan) { p.Platform.Bandwidth = 0 },
		"k is -1":                               func(p *plan.Plan) { p.K = -1 },
		"k is 1000000000":                       func(p *plan.Plan) { p.K = 1e9 },
		"allocation is missing":                 func(p *plan.Plan) { p.Allocation = nil },
		`memory_model is "both"`:                func(p *plan.Plan) { p.MemoryModel = "both" },
		"the instance is not valid: layers: a ": func(p *plan.Plan) { p.Method = "no chain" },
	} {
		_, p := twoStages()
		mutate(p)
		on := c
		if p.Method == "no chain" {
			on = &chain.Chain{}
		}
		for _, err := range []error{second(pipeline.Verify(on, p)), func() error { _, err := pipeline.Unroll(on, p, 0); return err }()} {
			if !errors.Is(err, plan.ErrUnreadable) || !strings.Contains(err.Error(), want) {
				t.Errorf("error %v, want %s", err, want)
			}
		}
	}
	if _, err := pipeline.Verify(c, nil); !errors.Is(err, plan.ErrUnreadable) {
		t.Error(err)
	}
}

func TestPatternSummary(t *testing.T) {
	c, p := twoStages()
	sum, err := verify.Summarize(c, p)
	if err != nil {
		t.Fatal(err)
	}
	const want = `pipeline plan for two by by hand
  period      9 s a mini-batch; the work shared evenly: 3 s
  latency     9 s, 1.0 periods
  allocation  contiguous, 2 of 2 GPUs
  peak memory 20 B of 20 B by the task model
  gpu0        layers 1, busy for 33.33 %, 13 B (stage) and 16 B (task), inputs stored at most 1 times
  gpu1        layers 2, busy for 33.33 %, 16 B (stage) and 20 B (task), inputs stored at most 1 times
  link0-1     2 transfers of 3 B, busy for 33.33 %
`
	if diff := cmp.Diff(want, sum.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	c, p = cancelled(3)
	p.Platform.Processors += 3
	p.Platform.Memory = 1
	sum, err = verify.Summarize(c, p)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{
		"2.6667 s a mini-batch (8 s for 3)", "latency     8 s, 1.0 periods", "gpu4 to gpu6 nothing", "4 of 7 GPUs",
		"by the stage model", "INVALID     breaks the rules 4 times",
	} {
		if !strings.Contains(sum.String(), part) {
			t.Errorf("no %q in\n%s", part, sum)
		}
	}
}

func second(_ *plan.Report, err error) error { return err }

func mustVerify(t interface {
	Helper()
	Fatal(...any)
}, c *chain.Chain, p *plan.Plan,
) *plan.Report {
	t.Helper()
	r, err := pipeline.Verify(c, p)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
