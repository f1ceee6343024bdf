package weightoffload_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/plan/plantest"
	"workbench/model/verify"
)

func mustVerify(t interface {
	Helper()
	Fatal(...any)
}, c *chain.Chain, p *plan.Plan,
) *plan.Report {
	t.Helper()
	r, err := verify.Replay(c, p)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestByHand(t *testing.T) {
	// docs/findings.md 1: one layer whose gradient just fits.
	c := plantest.Network(0, [4]float64{1, 1, 0, 1})
	r := mustVerify(t, c, plantest.Cyclic(2, 2, plantest.Op("B", 1, 0, 1), plantest.Op("F", 1, 1, 2)))
	if !r.Valid() || r.PeakMemory != 2 || r.PeakOp != 0 || r.Makespan != 2 {
		t.Errorf("one layer: %+v", r)
	}
	c, p := plantest.TwoLayers()
	r = mustVerify(t, c, p)
	if !r.Valid() || r.PeakMemory != 4 || r.Makespan != 12 {
		t.Errorf("two layers: %+v", r)
	}
}

// broken is a violation that a mutation must produce, without its words.
type broken struct {
	rule   string
	op     int
	time   float64
	amount float64
}

// never is the time of a violation that has none, reported as 0.
const never = -1

// Operations of twoLayers by index.
const (
	b2 = iota
	o2
	d2
	p1
	b1
	o1
	p2
	f1
	d1
	f2
)

// Each case breaks twoLayers in one way and lists everything that is then
// wrong, in the order of the report.
func TestMutations(t *testing.T) {
	move := func(k int, start float64) func(*chain.Chain, *plan.Plan) {
		return func(_ *chain.Chain, p *plan.Plan) {
			p.Ops[k].End += start - p.Ops[k].Start
			p.Ops[k].Start = start
		}
	}
	drop := func(ks ...int) func(*chain.Chain, *plan.Plan) {
		return func(_ *chain.Chain, p *plan.Plan) {
			slices.Sort(ks)
			for n, k := range ks {
				p.Ops = slices.Delete(p.Ops, k-n, k-n+1)
			}
		}
	}
	add := func(o plan.Op) func(*chain.Chain, *plan.Plan) {
		return func(_ *chain.Chain, p *plan.Plan) {
			if o.Op != "F" && o.Op != "B" {
				o.Tensor = plan.TensorW
			}
			p.Ops = append(p.Ops, o)
		}
	}
	all := func(fs ...func(*chain.Chain, *plan.Plan)) func(*chain.Chain, *plan.Plan) {
		return func(c *chain.Chain, p *plan.Plan) {
			for _, f := range fs {
				f(c, p)
			}
		}
	}
	memory := func(m float64) func(*chain.Chain, *plan.Plan) {
		return func(_ *chain.Chain, p *plan.Plan) { p.Platform.Memory = m }
	}
	period := func(x float64) func(*chain.Chain, *plan.Plan) {
		return func(_ *chain.Chain, p *plan.Plan) { p.Period = &x }
	}
	set := func(k int, f func(*plan.Op)) func(*chain.Chain, *plan.Plan) {
		return func(_ *chain.Chain, p *plan.Plan) { f(&p.Ops[k]) }
	}
	roomy := memory(100)

	for _, x := range []struct {
		name   string
		mutate func(*chain.Chain, *plan.Plan)
		want   []broken
	}{
		{"nothing", func(*chain.Chain, *plan.Plan) {}, nil},
		{"more memory", roomy, nil},

		// Computations.
		{"B_1 missing", drop(b1), []broken{{plan.RuleMissing, -1, 0, 0}}},
		{"B_2 missing", drop(b2), []broken{{plan.RuleMissing, -1, 0, 0}}},
		{"F_1 missing", drop(f1), []broken{{plan.RuleMissing, -1, 0, 0}}},
		{"F_2 missing", drop(f2), []broken{{plan.RuleMissing, -1, 0, 0}}},
		{"F_2 twice", add(plantest.Op("F", 2, 2, 4)), []broken{{plan.RuleRepeated, 10, 2, 0}}},
		{"F_1 twice, the second time without its weight", add(plantest.Op("F", 1, 4, 6)), []broken{
			{plan.RuleRepeated, 10, 4, 0}, {plan.RuleAbsent, 10, 4, 2},
		}},
		{"B_2 twice, the second time during the upload", add(plantest.Op("B", 2, 2, 4)), []broken{
			{plan.RuleUploadBackward, o2, 2, 0}, {plan.RuleRepeated, 10, 2, 0}, {plan.RuleHostStale, d2, 4, 0},
		}},
		{"F_2 runs into the next period", move(f2, 10.5), []broken{{plan.RuleComputeOverlap, b2, 0, 0.5}}},
		{"F_2 before F_1 ends", move(f2, 9.5), []broken{{plan.RuleComputeOverlap, f2, 9.5, 0.5}, {plan.RuleAbsent, f2, 9.5, 2}}},
		{"B_1 and F_1 at once", all(roomy, move(b1, 8)), []broken{
			{plan.RuleUploadBackward, o1, 8, 0}, {plan.RuleComputeOverlap, f1, 8, 2}, {plan.RuleHostStale, d1, 10, 0},
		}},
		{"F_1 and F_2 swapped", all(move(f1, 10), move(f2, 8)), []broken{
			{plan.RuleOrder, f2, 8, 0}, {plan.RuleAbsent, f2, 8, 2}, {plan.RuleAbsent, f1, 10, 2},
		}},
		{"B_1 and F_1 swapped", all(roomy, move(f1, 6), move(b1, 8), move(o1, 10), move(d1, 12)), []broken{
			{plan.RuleOrder, f1, 6, 0},
		}},
		{"F_1 before B_1", all(roomy, move(f1, 4), drop(p1, d1)), []broken{
			{plan.RuleOrder, 6, 4, 0}, // F_1, counted without the dropped ones
		}},
		{"short backward", set(b1, func(o *plan.Op) { o.End = 7.5 }), []broken{{plan.RuleDuration, b1, 6, -0.5}}},
		{"long prefetch", set(p1, func(o *plan.Op) { o.End = 7 }), []broken{{plan.RuleDuration, p1, 4, 1}, {plan.RuleAbsent, b1, 6, 2}}},
		{"short upload", set(o1, func(o *plan.Op) { o.End = 9 }), []broken{{plan.RuleDuration, o1, 8, -1}}},
		{"discard that takes time", set(d1, func(o *plan.Op) { o.End = 11 }), []broken{{plan.RuleDuration, d1, 10, 1}}},
		{"period too short for the idle time", period(11), []broken{{plan.RuleComputeOverlap, b2, 0, 1}}},
		{"period longer", period(13), nil},

		// Where the weight is.
		{"first prefetch missing", drop(p1), []broken{
			{plan.RuleAbsent, 3, 6, 2}, {plan.RuleUploadAbsent, 4, 8, 2}, {plan.RuleAbsent, 6, 8, 2}, {plan.RuleDiscardAbsent, 7, 10, 2},
		}},
		{"second prefetch missing", drop(p2), []broken{
			{plan.RuleAbsent, b2, 0, 2}, {plan.RuleUploadAbsent, o2, 2, 2}, {plan.RuleDiscardAbsent, d2, 4, 2}, {plan.RuleAbsent, 8, 10, 2},
		}},
		{"prefetch ends late", move(p1, 4.5), []broken{{plan.RuleAbsent, b1, 6, 2}}},
		{"prefetch ends late, before a forward", move(p2, 8.5), []broken{{plan.RuleAbsent, f2, 10, 2}}},
		{"prefetch before the discard", all(roomy, move(p2, 3)), []broken{
			{plan.RulePrefetch, p2, 3, 2}, {plan.RuleLinkOverlap, p1, 4, 1},
		}},
		{"prefetch of a weight that is there", all(roomy, add(plantest.Op("P", 1, 6, 8))), []broken{{plan.RulePrefetch, 10, 6, 2}}},
		{"first discard missing", drop(d2), []broken{{plan.RuleMemory, 3, 6, 2}, {plan.RulePrefetch, 5, 8, 2}}},
		{"second discard missing", drop(d1), []broken{{plan.RuleMemory, b2, 0, 2}, {plan.RulePrefetch, p1, 4, 2}}},
		{"weight stays", all(roomy, drop(o2, d2, p2)), nil},
		{"weight stays, uploaded all the same", all(roomy, drop(d2, p2)), nil},
		{"discard twice", add(plantest.Op("D", 1, 11, 11)), []broken{{plan.RuleDiscardAbsent, 10, 11, 2}}},
		{"later discards", all(move(d1, 10.5), move(d2, 5)), nil},
		{"discard at the start of its backward", move(d2, 0), []broken{{plan.RuleAbsent, b2, 0, 2}, {plan.RuleUploadAbsent, o2, 2, 2}}},
		{"discard during its backward", move(d2, 1), []broken{{plan.RuleDiscardUsed, d2, 1, 1}, {plan.RuleUploadAbsent, o2, 2, 2}}},
		{"discard during its forward and its upload", move(d1, 9), []broken{{plan.RuleDiscardUsed, d1, 9, 1}, {plan.RuleDiscardUsed, d1, 9, 1}}},
		{"discard during its upload", move(d2, 3), []broken{{plan.RuleDiscardUsed, d2, 3, 1}}},

		// What the host holds.
		{"upload missing", drop(o2), []broken{{plan.RuleHostStale, 1, 4, 2}}},
		{"other upload missing", drop(o1), []broken{{plan.RuleHostStale, 7, 10, 2}}},
		{"discard instead of upload", move(d2, 2), []broken{{plan.RuleUploadAbsent, o2, 2, 2}, {plan.RuleHostStale, d2, 2, 0}}},
		{"upload during the backward", move(o2, 1), []broken{{plan.RuleUploadBackward, o2, 1, 0}, {plan.RuleHostStale, d2, 4, 2}}},
		{"upload during the other backward", move(o1, 7), []broken{{plan.RuleUploadBackward, o1, 7, 0}, {plan.RuleHostStale, d1, 10, 2}}},
		{"upload into its backward", move(o2, 11), []broken{{plan.RuleHostStale, d2, 4, 2}, {plan.RuleUploadBackward, o2, 11, 0}}},
		{"upload before the backward", move(o2, 10), []broken{{plan.RuleHostStale, d2, 4, 2}}},
		{"upload of a weight that is not there", all(move(o1, 2), move(o2, 6)), []broken{
			{plan.RuleUploadAbsent, o1, 2, 2}, {plan.RuleHostStale, d2, 4, 2}, {plan.RuleUploadAbsent, o2, 6, 2}, {plan.RuleHostStale, d1, 10, 2},
		}},

		// Links.
		{"two prefetches at once", all(roomy, move(p2, 5)), []broken{{plan.RuleLinkOverlap, p2, 5, 1}}},
		{"two uploads at once", all(roomy, move(o2, 9), drop(d2, p2)), []broken{{plan.RuleLinkOverlap, 1, 9, 1}}},
		{"three uploads at once", all(roomy, add(plantest.Op("O", 1, 8.5, 10.5)), move(o2, 9), move(d1, 11), drop(d2, p2)), []broken{
			{plan.RuleLinkOverlap, 8, 8.5, 1.5}, {plan.RuleLinkOverlap, 1, 9, 1.5},
		}},

		// Memory.
		{"a little less memory", memory(4 - 1e-6), []broken{
			{plan.RuleMemory, b2, 0, 1e-6}, {plan.RuleMemory, b1, 6, 1e-6}, {plan.RuleMemory, p2, 8, 1e-6},
		}},
		{"less memory by less than a unit", memory(4 - 1e-9), []broken{
			{plan.RuleMemory, b2, 0, 1e-9}, {plan.RuleMemory, b1, 6, 1e-9}, {plan.RuleMemory, p2, 8, 1e-9},
		}},
		{"prefetch too early for memory", move(p1, 1.5), []broken{{plan.RuleMemory, p1, 1.5, 2}}},
		{"prefetch as early as memory allows", move(p1, 2), nil},
		{"discard too late for memory", move(d2, 6.5), []broken{{plan.RuleMemory, b1, 6, 2}}},
		{"activations", func(c *chain.Chain, _ *plan.Plan) { c.Input.Activation = 1 }, []broken{
			{plan.RuleMemory, b2, 0, 1}, {plan.RuleMemory, b1, 6, 1}, {plan.RuleMemory, p2, 8, 1},
		}},
		// a^2 is there from the start of F_2 to the start of B_1.
		{"activation of the last layer", func(c *chain.Chain, _ *plan.Plan) { c.Layers[1].Activation = 2.5 }, []broken{
			{plan.RuleMemory, p1, 4, 0.5}, {plan.RuleMemory, f2, 10, 2.5},
		}},

		// Nonsense.
		{"unknown kind", set(f1, func(o *plan.Op) { o.Op = "F_all" }), []broken{{plan.RuleMissing, -1, 0, 0}, {plan.RuleKind, f1, 8, 0}}},
		{"forward of a tensor", set(f1, func(o *plan.Op) { o.Tensor = "w" }), []broken{{plan.RuleMissing, -1, 0, 0}, {plan.RuleKind, f1, 8, 0}}},
		{
			"upload of an activation", set(o1, func(o *plan.Op) { o.Tensor = "a" }),
			[]broken{{plan.RuleKind, o1, 8, 0}, {plan.RuleHostStale, d1, 10, 2}},
		},
		{"layer 0", set(f1, func(o *plan.Op) { o.Layer = 0 }), []broken{{plan.RuleMissing, -1, 0, 0}, {plan.RuleLayer, f1, 8, 0}}},
		{"layer 3", set(f1, func(o *plan.Op) { o.Layer = 3 }), []broken{{plan.RuleMissing, -1, 0, 0}, {plan.RuleLayer, f1, 8, 0}}},
		{"NaN", set(f1, func(o *plan.Op) { o.Start = math.NaN() }), []broken{{plan.RuleMissing, -1, 0, 0}, {plan.RuleTime, f1, never, 0}}},
		{"infinite", set(f1, func(o *plan.Op) { o.End = math.Inf(1) }), []broken{{plan.RuleMissing, -1, 0, 0}, {plan.RuleTime, f1, never, 0}}},
		{"backwards", set(f1, func(o *plan.Op) { o.End = 7 }), []broken{{plan.RuleMissing, -1, 0, 0}, {plan.RuleTime, f1, 8, 1}}},
	} {
		for _, shift := range []float64{0, 1, 1.25, 3, 5.5, 9, 11, -7, 1200} {
			t.Run(fmt.Sprintf("%s/%g", x.name, shift), func(t *testing.T) {
				c, p := plantest.TwoLayers()
				x.mutate(c, p)
				rotate(p, shift)
				var want, got []broken
				for _, b := range x.want {
					if b.op >= 0 && b.time != never {
						b.time += shift
						b.time -= *p.Period * math.Floor(b.time / *p.Period)
					}
					b.time = max(0, b.time)
					want = append(want, b)
				}
				for _, v := range mustVerify(t, c, p).Violations {
					got = append(got, broken{v.Rule, v.Op, v.Time, v.Amount})
					t.Log(v.Rule, v.Detail)
				}
				options := cmp.Options{cmp.AllowUnexported(broken{}), cmpopts.EquateApprox(0, 1e-8), cmpopts.EquateEmpty()}
				if shift != 0 { // the order of time is another one
					options = append(options, cmpopts.SortSlices(func(a, b broken) bool {
						return a.rule < b.rule || a.rule == b.rule && (a.op < b.op || a.op == b.op && a.time < b.time)
					}))
				}
				if diff := cmp.Diff(want, got, options); diff != "" {
					t.Errorf("violations (-want +got):\n%s", diff)
				}
			})
		}
	}
}

// rotate shifts all times of p.
func rotate(p *plan.Plan, by float64) {
	for k := range p.Ops {
		p.Ops[k].Start += by
		p.Ops[k].End += by
	}
}
