package verify_test

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/verify"
)

// broken is a violation that a mutation must produce, without its words.
type broken struct {
	rule   string
	op     int
	time   float64
	amount float64
}

// vectors returns the chain of errata.md's notation: a from layer 0, uF and oF
// from layer 1 (short ones go on with 0), ā = δ = a, everything else 0.
func vectors(a, uF, oF []float64) *chain.Chain {
	c := &chain.Chain{Name: "vectors", Input: chain.Input{Activation: a[0], Gradient: a[0]}}
	at := func(x []float64, i int) float64 {
		if i < len(x) {
			return x[i]
		}
		return 0
	}
	for i, x := range a[1:] {
		c.Layers = append(c.Layers, chain.Layer{
			ForwardTime: at(uF, i), ForwardOverhead: at(oF, i), Activation: x, Saved: x, Gradient: x,
		})
	}
	return c
}

// sequence returns the plan that runs operations written "F_all_1", "D_abar_2"
// back to back.
func sequence(c *chain.Chain, memory float64, ops string) *plan.Plan {
	p := plan.New(plan.Remat, "by hand", c, platform.Platform{Memory: memory})
	for _, word := range strings.Fields(ops) {
		cut := strings.LastIndexByte(word, '_')
		layer, err := strconv.Atoi(word[cut+1:])
		if err != nil {
			panic(word)
		}
		o := plan.Op{Op: word[:cut], Layer: layer}
		if tensor, ok := strings.CutPrefix(o.Op, "D_"); ok {
			o.Op, o.Tensor = plan.OpD, tensor
		}
		p.Ops = append(p.Ops, o)
	}
	retime(p, func(o plan.Op) float64 {
		if o.Layer < 1 || o.Layer > c.Len() {
			return 0
		}
		switch l := &c.Layers[o.Layer-1]; o.Op {
		case plan.OpFAll, plan.OpFCk, plan.OpFNone:
			return l.ForwardTime
		case plan.OpB:
			return l.BackwardTime
		}
		return 0
	})
	return p
}

// retime runs the operations back to back.
func retime(p *plan.Plan, duration func(plan.Op) float64) {
	now := 0.0
	for k := range p.Ops {
		p.Ops[k].Start = now
		now += duration(p.Ops[k])
		p.Ops[k].End = now
	}
}

func mustVerifyOn(t interface {
	Helper()
	Fatal(...any)
}, in plan.Instance, p *plan.Plan,
) *plan.Report {
	t.Helper()
	r, err := verify.Replay(in, p)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// figure23 is [004] Fig. 2.3 for n, and the plan of 2n seconds: keep a_1 until
// ā_2 takes its place, then recompute it before B_2.
func figure23(n int) (*chain.Chain, string) {
	l := n + 2
	a := []float64{0, 1}
	for len(a) < l {
		a = append(a, 3)
	}
	a = append(a, 4, 0)
	var s strings.Builder
	s.WriteString("F_ck_1 F_ck_2 ")
	for i := 3; i < l; i++ {
		fmt.Fprintf(&s, "F_none_%d ", i)
	}
	fmt.Fprintf(&s, "F_all_%d F_all_%d B_%d B_%d F_all_2 D_a_1 ", l, l+1, l+1, l)
	for b := l - 1; b >= 3; b-- {
		kind := "ck"
		for i := 3; i < b; i++ {
			fmt.Fprintf(&s, "F_%s_%d ", kind, i)
			kind = "none"
		}
		fmt.Fprintf(&s, "F_all_%d B_%d ", b, b)
	}
	s.WriteString("F_all_1 B_2 B_1")
	return vectors(a, []float64{float64(n - 2), 2}, nil), s.String()
}

// Plans of the papers and of errata.md.
func TestPlansByHand(t *testing.T) {
	type example struct {
		name           string
		c              *chain.Chain
		ops            string
		makespan, peak float64
	}
	floating1 := vectors([]float64{0, 1, 0, 1}, []float64{0, 1, 0}, nil)
	missingMove := "F_all_1 F_all_2 D_abar_1 F_all_3 B_3 F_all_1 B_2 B_1"
	unit := vectors([]float64{1, 1, 1, 1, 1, 1}, []float64{1, 1, 1, 1, 1}, nil)
	least := vectors([]float64{0, 1, 0}, nil, []float64{1, 1})
	examples := []example{
		{"[004] (2.1)", unit, "F_ck_1 F_none_2 F_ck_3 F_all_4 F_all_5 B_5 B_4 F_all_3 B_3 F_all_1 F_all_2 B_2 B_1", 8, 7},
		{"[004] (2.2)", unit, "F_ck_1 F_none_2 F_ck_3 F_ck_4 F_all_5 B_5 F_all_4 B_4 F_all_3 B_3 F_ck_1 F_all_2 B_2 F_all_1 B_1", 10, 7},
		{"[004] (2.3)", unit, "F_ck_1 F_none_2 F_all_3 F_ck_4 F_all_5 B_5 F_all_4 B_4 B_3 F_all_1 F_all_2 B_2 B_1", 8, 7},
		{"finding 7, floating", floating1, "F_all_1 F_all_2 F_all_3 B_3 B_2 B_1", 1, 3},
		{"finding 7", floating1, missingMove, 1, 2},
		{"finding 9a, recompute everything", least, "F_ck_1 F_all_2 B_2 F_all_1 B_1", 0, 3},
		{"finding 9a, store all", least, "F_all_1 F_all_2 B_2 B_1", 0, 2},
		{"finding 9b", vectors([]float64{1, 1, 1, 0}, nil, []float64{0, 2, 3}), missingMove, 0, 5},
		{"one layer", vectors([]float64{1, 2}, []float64{3}, nil), "F_all_1 B_1", 3, 6},
		{"sizes of zero", vectors([]float64{0, 0, 0}, []float64{1, 1}, nil), "F_all_1 F_all_2 B_2 B_1", 2, 0},
	}
	for n := 4; n <= 8; n++ {
		c, ops := figure23(n)
		examples = append(examples, example{fmt.Sprintf("[004] Fig. 2.3, n = %d", n), c, ops, float64(2 * n), 15})
	}
	for _, x := range examples {
		t.Run(x.name, func(t *testing.T) {
			p := sequence(x.c, x.peak, x.ops)
			p.Claims = plan.Claims{Makespan: x.makespan, PeakMemory: x.peak}
			r := mustVerifyOn(t, x.c, p)
			if !r.Valid() || len(r.ClaimErrors) > 0 || r.Makespan != x.makespan || r.PeakMemory != x.peak {
				t.Errorf("makespan %g, peak %g, want %g, %g; %v %v", r.Makespan, r.PeakMemory, x.makespan, x.peak, r.Violations, r.ClaimErrors)
			}
			if x.peak == 0 {
				return
			}
			p.Platform.Memory = x.peak - 1e-3
			r = mustVerifyOn(t, x.c, p)
			for _, v := range r.Violations {
				if v.Rule != plan.RuleMemory || math.Abs(v.Amount-1e-3) > 1e-9 {
					t.Errorf("below the peak: %+v", v)
				}
			}
			if r.Valid() {
				t.Error("it is valid below its peak")
			}
		})
	}
}

// finding 8: what (2.6) as printed returns does not fit where F_4 runs with
// the base moved to a_2.
func TestPrintedFloatingDoesNotFit(t *testing.T) {
	c := vectors([]float64{1, 2, 3, 2, 1, 2}, []float64{1, 1, 0, 0, 1}, []float64{3, 1, 1, 3, 1})
	p := sequence(c, 11, "F_ck_1 F_none_2 F_ck_3 F_none_4 F_all_5 B_5 F_all_3 F_all_4 B_4 B_3 F_all_1 F_all_2 B_2 B_1")
	r := mustVerifyOn(t, c, p)
	want := []plan.Violation{{
		Rule: plan.RuleMemory, Op: 3, Time: 2, Amount: 1,
		Detail: "F_none_4 needs 12 of 11: 8 stored before, 1 for its output, 3 beside",
	}}
	if diff := cmp.Diff(want, r.Violations); diff != "" || r.Makespan != 5 {
		t.Errorf("makespan %g, want 5; (-want +got):\n%s", r.Makespan, diff)
	}
}

// threeLayers is a valid plan that fills its memory of 22 once, with F_all_3: 8
// stored before, 9 for ā_3 and 5 beside.
func threeLayers() (*chain.Chain, *plan.Plan) {
	c := &chain.Chain{Name: "three", Input: chain.Input{Activation: 1, Gradient: 1}, Layers: []chain.Layer{
		{ForwardTime: 1, BackwardTime: 2, Activation: 2, Saved: 5, Gradient: 2, ForwardOverhead: 1, BackwardOverhead: 2},
		{ForwardTime: 2, BackwardTime: 3, Activation: 3, Saved: 7, Gradient: 3, ForwardOverhead: 2, BackwardOverhead: 1},
		{ForwardTime: 1, BackwardTime: 1, Activation: 4, Saved: 9, Gradient: 4, ForwardOverhead: 5, BackwardOverhead: 1},
	}}
	p := sequence(c, 22, "F_ck_1 F_none_2 F_all_3 B_3 F_ck_1 F_all_2 B_2 F_all_1 B_1")
	return c, p
}

// Operations of threeLayers by index.
const (
	tF1  = iota // 0 to 1
	tF2         // 1 to 3
	tF3         // 3 to 4
	tB3         // 4 to 5
	tF1b        // 5 to 6
	tF2b        // 6 to 8
	tB2         // 8 to 11
	tF1c        // 11 to 12
	tB1         // 12 to 14
	tOps
)

// Each case breaks threeLayers in one way and lists everything that is then
// wrong, in the order of the report.
func TestRematMutations(t *testing.T) {
	_, valid := threeLayers()
	end := valid.Ops[tB1].End
	type change = func(*chain.Chain, *plan.Plan)
	// drop takes an operation out and leaves the time that it took idle.
	drop := func(k int) change {
		return func(_ *chain.Chain, p *plan.Plan) { p.Ops = slices.Delete(p.Ops, k, k+1) }
	}
	replace := func(k int, f func(*plan.Op)) change {
		return func(_ *chain.Chain, p *plan.Plan) { f(&p.Ops[k]) }
	}
	kind := func(k int, kind string) change { return replace(k, func(o *plan.Op) { o.Op = kind }) }
	insert := func(k int, o plan.Op) change {
		return func(_ *chain.Chain, p *plan.Plan) {
			o.Start, o.End = p.Ops[k].Start, p.Ops[k].Start
			p.Ops = slices.Insert(p.Ops, k, o)
		}
	}
	for _, x := range []struct {
		name  string
		apply change
		want  []broken
	}{
		{"as it is", func(*chain.Chain, *plan.Plan) {}, nil},
		{"drop F_ck_1", drop(tF1), []broken{{plan.RuleMissingInput, 0, 1, 2}}},
		{"drop F_none_2", drop(tF2), []broken{{plan.RuleMissingInput, 1, 3, 3}, {plan.RuleMissingInput, 2, 4, 3}}},
		{"drop F_all_3", drop(tF3), []broken{{plan.RuleMissingInput, 2, 4, 9}}},
		{"drop B_3", drop(tB3), []broken{
			{plan.RuleMemory, 4, 6, 6},
			{plan.RuleMemory, 5, 8, 7},
			{plan.RuleMissingInput, 5, 8, 3},
			{plan.RuleMemory, 6, 11, 3},
			{plan.RuleMemory, 7, 12, 5},
			{plan.RuleMissingBackward, -1, end, 0},
		}},
		{"drop second F_ck_1", drop(tF1b), []broken{{plan.RuleMissingInput, 4, 6, 2}, {plan.RuleMissingInput, 5, 8, 2}}},
		{"drop F_all_2", drop(tF2b), []broken{{plan.RuleMissingInput, 5, 8, 7}}},
		{"drop B_2", drop(tB2), []broken{{plan.RuleMissingInput, 7, 12, 2}, {plan.RuleMissingBackward, -1, end, 0}}},
		{"drop F_all_1", drop(tF1c), []broken{{plan.RuleMissingInput, 7, 12, 5}}},
		{"drop B_1", drop(tB1), []broken{{plan.RuleMissingBackward, -1, end - 2, 0}}},
		{"no operations", func(_ *chain.Chain, p *plan.Plan) { p.Ops = nil }, []broken{
			{plan.RuleMissingBackward, -1, 0, 0}, {plan.RuleMissingBackward, -1, 0, 0}, {plan.RuleMissingBackward, -1, 0, 0},
		}},
		{"swap F_none_2 and F_all_3", func(_ *chain.Chain, p *plan.Plan) { p.Ops[tF2], p.Ops[tF3] = p.Ops[tF3], p.Ops[tF2] }, []broken{
			{plan.RuleOrder, 2, 1, 2}, {plan.RuleMissingInput, 1, 3, 3},
		}},
		{"repeat B_3", insert(tF1b, plan.Op{Op: "B", Layer: 3}), []broken{{plan.RuleDuration, 4, 5, -1}, {plan.RuleTwice, 4, 5, 1}}},
		{"repeat F_all_3", insert(tB3, plan.Op{Op: "F_all", Layer: 3}), []broken{{plan.RuleDuration, 3, 4, -1}, {plan.RuleMemory, 3, 4, 9}}},
		{"memory lower", func(_ *chain.Chain, p *plan.Plan) { p.Platform.Memory = 21 }, []broken{{plan.RuleMemory, tF3, 3, 1}}},
		{
			"memory lower by less than a unit", func(_ *chain.Chain, p *plan.Plan) { p.Platform.Memory = 22 * (1 - 1e-10) },
			[]broken{{plan.RuleMemory, tF3, 3, 22e-10}},
		},
		{"no memory for the start", func(_ *chain.Chain, p *plan.Plan) { p.Ops, p.Platform.Memory = nil, 4 }, []broken{
			{plan.RuleMemory, -1, 0, 1},
			{plan.RuleMissingBackward, -1, 0, 0},
			{plan.RuleMissingBackward, -1, 0, 0},
			{plan.RuleMissingBackward, -1, 0, 0},
		}},
		{"overhead", func(c *chain.Chain, _ *plan.Plan) { c.Layers[2].ForwardOverhead++ }, []broken{{plan.RuleMemory, tF3, 3, 1}}},
		{"larger δ_2", func(c *chain.Chain, _ *plan.Plan) { c.Layers[1].Gradient += 2 }, []broken{{plan.RuleMemory, tB3, 4, 1}}},
		{"F_ck instead of F_all", kind(tF3, "F_ck"), []broken{{plan.RuleMissingInput, tB3, 4, 9}}},
		{"F_all instead of F_ck", kind(tF1, "F_all"), []broken{
			{plan.RuleMissingInput, tF2, 1, 2},
			{plan.RuleMemory, tF3, 3, 5},
			{plan.RuleMemory, tB3, 4, 4},
		}},
		{"F_none instead of F_ck", kind(tF1, "F_none"), []broken{
			{plan.RuleMissingInput, tF1b, 5, 1},
			{plan.RuleMissingInput, tF1c, 11, 1},
			{plan.RuleMissingInput, tB1, 12, 1},
		}},
		{
			"F_none instead of the last F_all", kind(tF1c, "F_none"),
			[]broken{{plan.RuleMissingInput, tB1, 12, 5}, {plan.RuleMissingInput, tB1, 12, 1}},
		},
		{"F_ck instead of F_none", kind(tF2, "F_ck"), []broken{{plan.RuleMemory, tF3, 3, 2}, {plan.RuleMemory, tB3, 4, 1}}},
		{"longer", replace(tF2, func(o *plan.Op) { o.End += 0.5 }), []broken{{plan.RuleDuration, tF2, 1, 0.5}, {plan.RuleOverlap, tF3, 3, 0.5}}},
		{"shorter", replace(tF2, func(o *plan.Op) { o.End -= 0.5 }), []broken{{plan.RuleDuration, tF2, 1, -0.5}}},
		{"shorter by a rounding", replace(tF2, func(o *plan.Op) { o.End -= 1e-9 }), nil},
		{"earlier", replace(tF3, func(o *plan.Op) { o.Start, o.End = 2.5, 3.5 }), []broken{{plan.RuleOverlap, tF3, 2.5, 0.5}}},
		{"at the same time", replace(tF3, func(o *plan.Op) { o.Start, o.End = 1, 2 }), []broken{{plan.RuleOverlap, tF3, 1, 2}}},
		{
			"much longer", replace(tF1, func(o *plan.Op) { o.End += 3 }),
			[]broken{{plan.RuleDuration, tF1, 0, 3}, {plan.RuleOverlap, tF2, 1, 3}, {plan.RuleOverlap, tF3, 3, 1}},
		},
		{"two operations back in time", func(_ *chain.Chain, p *plan.Plan) {
			p.Ops[tF1].Start, p.Ops[tF1].End = 20, 21
			p.Ops[tF2].Start, p.Ops[tF2].End = 22, 24
			for k := tF1b; k < tOps; k++ {
				p.Ops[k].Start, p.Ops[k].End = p.Ops[k].Start+20, p.Ops[k].End+20
			}
		}, []broken{{plan.RuleOrder, tF3, 3, 19}, {plan.RuleOrder, tB3, 4, 18}}},
		{"before time 0", replace(tF1, func(o *plan.Op) { o.Start, o.End = -1, 0 }), []broken{{plan.RuleTime, tF1, -1, 1}}},
		{"later, after a pause", replace(tB1, func(o *plan.Op) { o.Start, o.End = 20, 22 }), nil},
		{"ends before it starts", replace(tB1, func(o *plan.Op) { o.End = 10 }), []broken{{plan.RuleTime, tB1, 12, 2}}},
		{"NaN", replace(tF1, func(o *plan.Op) { o.Start = math.NaN() }), []broken{{plan.RuleTime, tF1, 0, 0}}},
		{"infinite", replace(tB1, func(o *plan.Op) { o.End = math.Inf(1) }), []broken{{plan.RuleTime, tB1, 12, 0}}},
		{"layer 0", replace(tF1, func(o *plan.Op) { o.Layer = 0 }), []broken{{plan.RuleLayer, tF1, 0, 0}, {plan.RuleMissingInput, tF2, 1, 2}}},
		{"layer 4", insert(tB3, plan.Op{Op: "B", Layer: 4}), []broken{{plan.RuleLayer, tB3, 4, 0}}},
		{"layer -1", insert(tB3, plan.Op{Op: "D", Tensor: "a", Layer: -1}), []broken{{plan.RuleLayer, tB3, 4, 0}}},
		{"unknown operation", insert(tB3, plan.Op{Op: "C", Layer: 1}), []broken{{plan.RuleUnknownOp, tB3, 4, 0}}},
		{"forward of another problem", kind(tF1, "F"), []broken{{plan.RuleUnknownOp, tF1, 0, 0}, {plan.RuleMissingInput, tF2, 1, 2}}},
		{
			"tensor of a forward", replace(tF1, func(o *plan.Op) { o.Tensor = "a" }),
			[]broken{{plan.RuleUnknownOp, tF1, 0, 0}, {plan.RuleMissingInput, tF2, 1, 2}},
		},
		{
			"branch", replace(tF1, func(o *plan.Op) { o.Branch = 1 }),
			[]broken{{plan.RuleUnknownOp, tF1, 0, 0}, {plan.RuleMissingInput, tF2, 1, 2}},
		},
		{"node", replace(tF1, func(o *plan.Op) { o.Node = "F1" }), []broken{{plan.RuleUnknownOp, tF1, 0, 0}, {plan.RuleMissingInput, tF2, 1, 2}}},
		{"discard without tensor", insert(tB3, plan.Op{Op: "D", Layer: 1}), []broken{{plan.RuleUnknownOp, tB3, 4, 0}}},
		{"discard of a gradient", insert(tB3, plan.Op{Op: "D", Tensor: "delta", Layer: 3}), []broken{{plan.RuleUnknownOp, tB3, 4, 0}}},
		{"discard of ā_0", insert(tB3, plan.Op{Op: "D", Tensor: "abar", Layer: 0}), []broken{{plan.RuleLayer, tB3, 4, 0}}},
		{"discard of what is not stored", insert(tB3, plan.Op{Op: "D", Tensor: "a", Layer: 1}), []broken{{plan.RuleNotStored, tB3, 4, 2}}},
		{"discard of ā instead of a", insert(tB3, plan.Op{Op: "D", Tensor: "abar", Layer: 2}), []broken{{plan.RuleNotStored, tB3, 4, 7}}},
		{"discard of a_2", insert(tB3, plan.Op{Op: "D", Tensor: "a", Layer: 2}), []broken{{plan.RuleMissingInput, tB3 + 1, 4, 3}}},
		{"discard of ā_3", insert(tB3, plan.Op{Op: "D", Tensor: "abar", Layer: 3}), []broken{{plan.RuleMissingInput, tB3 + 1, 4, 9}}},
		{
			"discard of a_0", insert(tF1c, plan.Op{Op: "D", Tensor: "a", Layer: 0}),
			[]broken{{plan.RuleMissingInput, tF1c + 1, 11, 1}, {plan.RuleMissingInput, tB1 + 1, 12, 1}},
		},
		{"discard of the result", insert(tOps-1, plan.Op{Op: "D", Tensor: "delta", Layer: 1}), []broken{{plan.RuleUnknownOp, tB1, 12, 0}}},
		{"discard that takes time", func(_ *chain.Chain, p *plan.Plan) {
			p.Ops = append(p.Ops[:tB1], append([]plan.Op{{Op: "D", Tensor: "a", Layer: 2, Start: 12, End: 12.5}}, p.Ops[tB1:]...)...)
		}, []broken{{plan.RuleDuration, tB1, 12, 0.5}, {plan.RuleNotStored, tB1, 12, 3}, {plan.RuleOverlap, tB1 + 1, 12, 0.5}}},
	} {
		t.Run(x.name, func(t *testing.T) {
			c, p := threeLayers()
			x.apply(c, p)
			compareViolations(t, mustVerifyOn(t, c, p), x.want)
		})
	}
}

// compareViolations compares all but the words.
func compareViolations(t *testing.T, r *plan.Report, want []broken) {
	t.Helper()
	var got []broken
	for _, v := range r.Violations {
		got = append(got, broken{v.Rule, v.Op, v.Time, v.Amount})
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateApprox(0, 1e-9), cmp.AllowUnexported(broken{})); diff != "" {
		t.Errorf("violations (-want +got):\n%s%+v", diff, r.Violations)
	}
}

// Operations that are each short by a rounding gain no time together.
func TestManyRoundings(t *testing.T) {
	c := vectors([]float64{0, 1, 1}, []float64{1, 1}, nil)
	p := sequence(c, 4, strings.Repeat("F_ck_1 D_a_1 ", 998)+"F_all_1 F_all_2 B_2 B_1")
	const short = 0.9 * 1000 * plan.Tolerance
	for _, x := range []struct {
		name string
		d    float64
		want []broken
	}{
		{"exact", 0, nil},
		{"longer", short, nil},
		{"shorter", -short, []broken{{plan.RuleDuration, -1, 1000 * (1 - short), 1000 * short}}},
	} {
		retime(p, func(o plan.Op) float64 {
			if strings.HasPrefix(o.Op, "F_") {
				return 1 + x.d
			}
			return 0
		})
		r := mustVerifyOn(t, c, p)
		t.Run(x.name, func(t *testing.T) { compareViolations(t, r, x.want) })
	}
}

// Violations name tensors as the papers do.
func TestRematDetails(t *testing.T) {
	c, _ := threeLayers()
	for _, x := range []struct{ ops, want string }{
		{"F_none_2", "F_none_2 needs a_1, which is not stored"},
		{"F_all_1 F_none_2", "F_none_2 needs a_1 itself, which is not stored; it cannot consume ā_1"},
		{"F_ck_2", "F_ck_2 needs a_1 or ā_1, neither of which is stored"},
		{"D_a_0 F_all_1", "F_all_1 needs a_0, which is not stored"},
		{"F_ck_1 F_ck_2 F_ck_3 B_3", "B_3 needs ā_3, which is not stored"},
		{"F_ck_1 F_all_2 B_2", "B_2 needs δ_2, which is not stored"},
		{"F_ck_1 F_ck_2 F_all_3 D_a_2 B_3", "B_3 needs a_2 or ā_2, neither of which is stored"},
		{"F_ck_1 D_a_2", "D discards a_2, which is not stored"},
		{"F_ck_1 D_abar_1", "D discards ā_1, which is not stored"},
		{"D_abar_0", "D is of layer 0; it has one of layers 1 to 3"},
		{"F_ck_1 F_ck_2 F_all_3 B_3 B_3", "B_3 runs a second time; each backward runs once"},
		{"F_ck_1", "B_3 is missing, so there is no δ_2"},
		{"F_all_4", "F_all is of layer 4; it has one of layers 1 to 3"},
	} {
		r := mustVerifyOn(t, c, sequence(c, 100, x.ops))
		if !slices.ContainsFunc(r.Violations, func(v plan.Violation) bool { return v.Detail == x.want }) {
			t.Errorf("%s: %+v\nwant %s", x.ops, r.Violations, x.want)
		}
	}
}
