package weightoffload_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/plan/plantest"
	"workbench/model/testfile"
	"workbench/model/verify"
	"workbench/model/verify/replay"
	verifyweightoffload "workbench/model/verify/weightoffload"
)

func TestUnreadable(t *testing.T) {
	for _, x := range []struct {
		name   string
		mutate func(*chain.Chain, *plan.Plan)
		want   string
	}{
		{"no period", func(_ *chain.Chain, p *plan.Plan) { p.Period = nil }, "period is missing"},
		{"period 0", func(_ *chain.Chain, p *plan.Plan) { *p.Period = 0 }, "period is 0"},
		{"period NaN", func(_ *chain.Chain, p *plan.Plan) { *p.Period = math.NaN() }, "period is NaN"},
		{"period infinite", func(_ *chain.Chain, p *plan.Plan) { *p.Period = math.Inf(1) }, "period is +Inf"},
		{"no memory", func(_ *chain.Chain, p *plan.Plan) { p.Platform.Memory = 0 }, "platform.memory is 0"},
		{"memory NaN", func(_ *chain.Chain, p *plan.Plan) { p.Platform.Memory = math.NaN() }, "platform.memory is NaN"},
		{"no bandwidth", func(_ *chain.Chain, p *plan.Plan) { p.Platform.Bandwidth = 0 }, "platform.bandwidth is 0"},
		{"no layers", func(c *chain.Chain, _ *plan.Plan) { c.Layers = nil }, "no instance"},
	} {
		c, p := plantest.TwoLayers()
		x.mutate(c, p)
		r, err := verify.Replay(c, p)
		if !errors.Is(err, plan.ErrUnreadable) || !strings.Contains(err.Error(), x.want) || r != nil {
			t.Errorf("%s: report %v, error %v", x.name, r, err)
		}
	}
	c, p := plantest.TwoLayers()
	if _, err := verify.Replay(c, nil); !errors.Is(err, plan.ErrUnreadable) {
		t.Errorf("no plan: %v", err)
	}
	if _, err := verify.Replay((*chain.Chain)(nil), p); !errors.Is(err, plan.ErrUnreadable) {
		t.Errorf("no chain: %v", err)
	}
	p.Problem = "sudoku"
	if _, err := verify.Replay(c, p); !errors.Is(err, plan.ErrProblem) {
		t.Errorf("another problem: %v", err)
	}
	if _, err := verifyweightoffload.Verify(c, p); !errors.Is(err, plan.ErrUnreadable) {
		t.Errorf("another problem's plan: %v", err)
	}
	// Without transfers nothing asks for a bandwidth.
	c = plantest.Network(0, [4]float64{1, 1, 0, 1})
	p = plantest.Cyclic(2, 2, plantest.Op("B", 1, 0, 1), plantest.Op("F", 1, 1, 2))
	p.Platform.Bandwidth = 0
	if r := mustVerify(t, c, p); !r.Valid() {
		t.Errorf("no transfers, no bandwidth: %+v", r.Violations)
	}
}

func TestTooLong(t *testing.T) {
	// A transfer that takes more than a period can never keep up.
	c := plantest.Network(0, [4]float64{1, 1, 0, 5})
	p := plantest.Cyclic(100, 4, plantest.Op("B", 1, 0, 1), plantest.Op("F", 1, 1, 2), plantest.Op("O", 1, 1, 6))
	r := mustVerify(t, c, p)
	if len(r.Violations) == 0 || !slices.ContainsFunc(r.Violations, func(v plan.Violation) bool {
		return v.Rule == plan.RulePeriod && v.Op == 2 && v.Time == 1 && v.Amount == 1
	}) {
		t.Errorf("%+v", r.Violations)
	}
	// Nor computations that do.
	c = plantest.Network(0, [4]float64{3, 3, 0, 0})
	p = plantest.Cyclic(100, 4, plantest.Op("B", 1, 0, 3), plantest.Op("F", 1, 3, 6))
	r = mustVerify(t, c, p)
	if !slices.ContainsFunc(r.Violations, func(v plan.Violation) bool {
		return v.Rule == plan.RulePeriod && v.Op == -1 && v.Amount == 2
	}) {
		t.Errorf("%+v", r.Violations)
	}
}

// Computations that take no time need their memory all the same, at their
// place in the order and whatever comes and goes at the same instant.
func TestInstants(t *testing.T) {
	for _, x := range []struct {
		name string
		c    *chain.Chain
		ops  []plan.Op
		peak float64
		op   int
	}{
		{"backward", plantest.Network(0, [4]float64{2, 0, 1, 3}), []plan.Op{plantest.Op("B", 1, 0, 0), plantest.Op("F", 1, 0, 2)}, 7, 0},
		{
			"everything at once", plantest.Network(1, [4]float64{0, 0, 2, 0}, [4]float64{0, 0, 4, 1}),
			[]plan.Op{plantest.Op("B", 2, 1, 1), plantest.Op("B", 1, 1, 1), plantest.Op("F", 1, 1, 1), plantest.Op("F", 2, 1, 1)},
			9, 0,
		},
		{
			// a^2 is there during F_2, B_2 only, all at time 0.
			"the upper layer at once", plantest.Network(1, [4]float64{1, 1, 2, 0}, [4]float64{0, 0, 4, 0}),
			[]plan.Op{plantest.Op("B", 2, 0, 0), plantest.Op("B", 1, 0, 1), plantest.Op("F", 1, 1, 2), plantest.Op("F", 2, 2, 2)},
			7, 0,
		},
		{
			// a^2 is there at all times but that of B_1, F_1.
			"the lower layer at once", plantest.Network(1, [4]float64{0, 0, 2, 0}, [4]float64{1, 1, 4, 0}),
			[]plan.Op{plantest.Op("B", 2, 0, 1), plantest.Op("B", 1, 1, 1), plantest.Op("F", 1, 1, 1), plantest.Op("F", 2, 1, 2)},
			7, -1,
		},
		{
			// At time 13 come F_2, F_3, F_4 and the discards of their weights.
			// Those of w_3 and w_4 follow F_2, which adds its activation.
			"discards wait for their computations", plantest.Network(0, [4]float64{1, 1, 0, 0}, [4]float64{0, 1, 1, 1}, [4]float64{0, 1, 0, 1},
				[4]float64{0, 1, 0, 1}),
			[]plan.Op{
				plantest.Op("B", 4, 0, 1), plantest.Op("O", 4, 1, 2), plantest.Op("D", 4, 2, 2), plantest.Op("P", 3, 2, 3),
				plantest.Op("B", 3, 3, 4), plantest.Op("O", 3, 4, 5), plantest.Op("D", 3, 5, 5), plantest.Op("P", 2, 5, 6),
				plantest.Op("B", 2, 6, 7), plantest.Op("O", 2, 7, 8), plantest.Op("D", 2, 8, 8), plantest.Op("B", 1, 8, 9), plantest.Op("F", 1, 9, 10),
				plantest.Op("P", 2, 10, 11), plantest.Op("P", 3, 11, 12), plantest.Op("P", 4, 12, 13),
				plantest.Op("F", 2, 13, 13), plantest.Op("F", 3, 13, 13), plantest.Op("F", 4, 13, 13),
				plantest.Op("D", 2, 13, 13), plantest.Op("D", 3, 13, 13), plantest.Op("D", 4, 13, 13), plantest.Op("P", 4, 13, 14),
			},
			4, 16,
		},
	} {
		t.Run(x.name, func(t *testing.T) {
			period := 14.0
			if len(x.ops) <= 4 {
				period = 2
			}
			r := mustVerify(t, x.c, plantest.Cyclic(100, period, x.ops...))
			if !r.Valid() || r.PeakMemory != x.peak || r.PeakOp != x.op {
				t.Errorf("peak %g with operation %d, want %g with %d: %+v", r.PeakMemory, r.PeakOp, x.peak, x.op, r.Violations)
			}
			r = mustVerify(t, x.c, plantest.Cyclic(x.peak-0.5, period, x.ops...))
			if r.Valid() {
				t.Errorf("valid with %g bytes", x.peak-0.5)
			}
			for _, v := range r.Violations {
				if v.Rule != plan.RuleMemory || v.Amount > 0.5 {
					t.Errorf("with %g bytes: %+v", x.peak-0.5, v)
				}
			}
		})
	}
}

// Transfers shorter than one can tell from no time, as of the few bytes of a
// normalisation in a long step, follow the same rules.
func TestTinyTransfers(t *testing.T) {
	const w = 1e-9 // of a period of 10
	c := plantest.Network(0, [4]float64{2, 3, 1, w})
	p := plantest.Cyclic(10, 10,
		plantest.Op("B", 1, 0, 3), plantest.Op("O", 1, 3, 3+w), plantest.Op("D", 1, 3+w, 3+w),
		plantest.Op("P", 1, 5-w, 5), plantest.Op("F", 1, 5, 7), plantest.Op("D", 1, 7, 7), plantest.Op("P", 1, 10-w, 10))
	if r := mustVerify(t, c, p); !r.Valid() {
		t.Errorf("%+v", r.Violations)
	}
	for k, rule := range map[int]string{
		1: plan.RuleHostStale, 2: plan.RulePrefetch, 3: plan.RuleAbsent, 5: plan.RulePrefetch,
		6: plan.RuleAbsent,
	} {
		q := *p
		q.Ops = slices.Delete(slices.Clone(p.Ops), k, k+1)
		if r := mustVerify(t, c, &q); !slices.ContainsFunc(r.Violations, func(v plan.Violation) bool { return v.Rule == rule }) {
			t.Errorf("without %s: %+v, want %s", &p.Ops[k], r.Violations, rule)
		}
	}
}

// A weight may leave and come back within one instant, after the computation
// that changed it or before: its uses belong to the stays that make that valid.
func TestThereAndBackInAnInstant(t *testing.T) {
	const w = 1e-9 // of a period of 10
	c := plantest.Network(0, [4]float64{2, 3, 1, w})
	for name, p := range map[string]*plan.Plan{
		"after": plantest.Cyclic(10, 10,
			plantest.Op("B", 1, 0, 3), plantest.Op("O", 1, 3, 3+w), plantest.Op("D", 1, 3+w, 3+w), plantest.Op("P", 1, 3+w, 3+2*w),
			plantest.Op("F", 1, 5, 7)),
		"across the end of the period": plantest.Cyclic(10, 10,
			plantest.Op("B", 1, 7, 10), plantest.Op("F", 1, 3, 5), plantest.Op("O", 1, 0, w), plantest.Op("D", 1, w, w),
			plantest.Op("P", 1, w, 2*w)),
		"rounded to one time": plantest.Cyclic(10, 10,
			plantest.Op("B", 1, 0, 3), plantest.Op("O", 1, 3, 3), plantest.Op("D", 1, 3, 3), plantest.Op("P", 1, 3, 3), plantest.Op("F", 1, 5, 7)),
	} {
		if r := mustVerify(t, c, p); !r.Valid() {
			t.Errorf("%s: %+v", name, r.Violations)
		}
		k := slices.IndexFunc(p.Ops, func(o plan.Op) bool { return o.Op == plan.OpO })
		p.Ops = slices.Delete(p.Ops, k, k+1)
		r := mustVerify(t, c, p)
		if len(r.Violations) != 1 || r.Violations[0].Rule != plan.RuleHostStale {
			t.Errorf("%s, without upload: %+v, want %s", name, r.Violations, plan.RuleHostStale)
		}
	}
}

// Transfers of a weight without bytes mean nothing, if they take no time.
func TestNoBytes(t *testing.T) {
	c := plantest.Network(0, [4]float64{1, 1, 1, 0})
	p := plantest.Cyclic(10, 2, plantest.Op("B", 1, 0, 1), plantest.Op("F", 1, 1, 2), plantest.Op("D", 1, 0.5, 0.5), plantest.Op("P", 1, 1, 1),
		plantest.Op("O", 1, 0.5, 0.5))
	if r := mustVerify(t, c, p); !r.Valid() || r.PeakMemory != 1 {
		t.Errorf("%+v", r)
	}
	p.Ops[4].End = 0.75
	if r := mustVerify(t, c, p); len(r.Violations) != 1 || r.Violations[0].Rule != plan.RuleDuration {
		t.Errorf("%+v", r.Violations)
	}
}

func TestClaims(t *testing.T) {
	c, p := plantest.TwoLayers()
	p.Claims = plan.Claims{Makespan: 12 * (1 + 1e-10), PeakMemory: 4}
	if r := mustVerify(t, c, p); r.ClaimErrors != nil {
		t.Errorf("%q", r.ClaimErrors)
	}
	p.Claims = plan.Claims{Makespan: 11, PeakMemory: 4 + 1e-12}
	want := []string{"claims.makespan is 11 seconds, the replay gives 12", "claims.peak_memory is 4.000000000001 bytes, the replay gives 4"}
	r := mustVerify(t, c, p)
	if diff := cmp.Diff(want, r.ClaimErrors); diff != "" || !r.Valid() {
		t.Errorf("valid %v\n%s", r.Valid(), diff)
	}
}

func TestProfile(t *testing.T) {
	c, p := plantest.TwoLayers()
	c.Input.Activation, c.Layers[1].Activation = 1, 2
	got, err := verifyweightoffload.Profile(c, p)
	if err != nil {
		t.Fatal(err)
	}
	want := []replay.Sample{
		{Time: 0, Weights: 2, Gradients: 2, Activations: 3},
		{Time: 2, Weights: 2, Activations: 3},
		{Time: 4, Weights: 2, Activations: 3}, // D w_2, P w_1
		{Time: 6, Weights: 2, Gradients: 2, Activations: 1},
		{Time: 8, Weights: 4, Activations: 1},
		{Time: 10, Weights: 2, Activations: 3},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	peak := 0.0
	for _, s := range got {
		peak = max(peak, (s.Weights + s.Gradients + s.Activations))
	}
	if r := mustVerify(t, c, p); r.PeakMemory != peak {
		t.Errorf("peak %g, of the profile %g", r.PeakMemory, peak)
	}
	stays, err := verifyweightoffload.Residencies(c, p)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]verifyweightoffload.Residency{{Layer: 1, Op: p1, Start: 4, End: 10}, {Layer: 2, Op: p2, Start: 8, End: 16}},
		stays); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestSummary(t *testing.T) {
	c, p := plantest.TwoLayers()
	p.Instance.Name = "two layers"
	s, err := verifyweightoffload.Summarize(c, p)
	if err != nil {
		t.Fatal(err)
	}
	want := &verifyweightoffload.Summary{
		About: replay.About{Problem: plan.WeightOffload, Method: "test", Instance: "two layers"}, Layers: 2,
		Period: 12, Compute: 8, Idle: 4, Peak: replay.Peak{Memory: 4, PeakMemory: 4, PeakOp: "B_2"}, Bandwidth: 1, Leaving: 2,
		Prefetch: replay.Traffic{Transfers: 2, Bytes: 4, Busy: 1.0 / 3}, Upload: replay.Traffic{Transfers: 2, Bytes: 4, Busy: 1.0 / 3},
	}
	if diff := cmp.Diff(want, s); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	c = plantest.Network(1, [4]float64{1, 1, 1, 1})
	q := plantest.Cyclic(1, 2, plantest.Op("B", 1, 0, 1), plantest.Op("F", 1, 1, 2))
	q.Instance.Name = "one layer"
	broken, err := verifyweightoffload.Summarize(c, q)
	if err != nil {
		t.Fatal(err)
	}
	testfile.Golden(t, "summary.txt", fmt.Sprintf("%s\n%s", s, broken))
}
