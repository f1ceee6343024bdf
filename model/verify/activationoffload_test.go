package verify_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/testfile"
	"workbench/model/verify"
	"workbench/model/verify/rematoffload"
	"workbench/model/verify/replay"
)

// transfers returns the plan with operations written "F_all_1@0", "O_abar_0@0",
// each at its start; durations are those of the instance.
func transfers(problem string, c *chain.Chain, memory, bandwidth float64, ops string) *plan.Plan {
	p := plan.New(problem, "by hand", c, platform.Platform{Memory: memory, Bandwidth: bandwidth})
	for _, word := range strings.Fields(ops) {
		name, at, ok := strings.Cut(word, "@")
		start, err := strconv.ParseFloat(at, 64)
		if !ok || err != nil {
			panic(word)
		}
		cut := strings.LastIndexByte(name, '_')
		layer, err := strconv.Atoi(name[cut+1:])
		if err != nil {
			panic(word)
		}
		o := plan.Op{Op: name[:cut], Layer: layer, Start: start}
		if i := strings.IndexByte(o.Op, '_'); i == 1 && strings.Contains("OPD", o.Op[:1]) {
			o.Op, o.Tensor = o.Op[:1], o.Op[2:]
		}
		o.End = start + lengthOf(c, bandwidth, o)
		p.Ops = append(p.Ops, o)
	}
	return p
}

// lengthOf returns what an operation takes by the instance.
func lengthOf(c *chain.Chain, bandwidth float64, o plan.Op) float64 {
	if o.Op == plan.OpD || o.Layer < 0 || o.Layer > c.Len() {
		return 0
	}
	size := c.Input.Activation
	if o.Layer > 0 {
		l := &c.Layers[o.Layer-1]
		switch {
		case o.Op == plan.OpB:
			return l.BackwardTime
		case o.Op[0] == 'F':
			return l.ForwardTime
		}
		size = l.Activation
		if o.Tensor == plan.TensorAbar {
			size = l.Saved
		}
	}
	if size == 0 || o.Op[0] == 'F' {
		return 0
	}
	return size / bandwidth
}

// finding17 are the three counterexamples of finding 17; the last one's sizes and
// times are printed with δ = 0 as the first's.
func finding17() []*chain.Chain {
	flat := func(abar, uF, oF []float64) *chain.Chain {
		c := vectors(abar, uF, oF)
		c.Input.Gradient = 0
		for i := range c.Layers {
			c.Layers[i].Gradient = 0
		}
		return c
	}
	one := flat([]float64{1, 0, 0, 2, 0, 0}, []float64{1, 0, 1, 2, 0}, []float64{0, 3, 0, 0, 2})
	ten := flat([]float64{10, 0, 0, 20, 0, 0}, []float64{10, 1, 10, 20, 1}, []float64{0, 30, 0, 0, 20})
	for i := range ten.Layers {
		ten.Layers[i].BackwardTime = 1
	}
	three := flat([]float64{2, 3, 2, 2}, nil, nil)
	three.Layers[1].BackwardTime = 3
	return []*chain.Chain{one, ten, three}
}

const (
	finding17One = "F_all_1@0 O_abar_0@0 F_all_2@1 F_all_3@1 P_abar_0@1 F_all_4@2 O_abar_3@2 F_all_5@4 B_5@4 P_abar_3@4 B_4@6 B_3@6 B_2@6 B_1@6"
	finding17Ten = "F_all_1@0 O_abar_0@0 F_all_2@10 F_all_3@11 P_abar_0@11 F_all_4@21 O_abar_3@21 F_all_5@41 B_5@42 P_abar_3@42 B_4@62 " +
		"B_3@63 B_2@64 B_1@65"
)

// handmade returns a chain of three layers and a plan for each problem:
//
//	size   a_0 2   a_1 1  ā_1 3   a_2 1  ā_2 2   a_3 0  ā_3 1   δ 1, δ_0 0
//	time   F 2, 1, 1   B 2, 2, 1   overhead of B_2: 1
func handmade(problem string) (*chain.Chain, *plan.Plan) {
	c := &chain.Chain{Name: "handmade", Input: chain.Input{Activation: 2}, Layers: []chain.Layer{
		{ForwardTime: 2, BackwardTime: 2, Activation: 1, Saved: 3, Gradient: 1},
		{ForwardTime: 1, BackwardTime: 2, Activation: 1, Saved: 2, Gradient: 1, BackwardOverhead: 1},
		{ForwardTime: 1, BackwardTime: 1, Saved: 1, Gradient: 1},
	}}
	if problem == plan.ActivationOffload {
		return c, transfers(problem, c, 10, 1,
			"F_all_1@0 O_abar_0@0 F_all_2@2 O_abar_1@2 F_all_3@3 B_3@4 P_abar_1@5 B_2@8 P_abar_0@8 B_1@10")
	}
	return c, transfers(problem, c, 8, 1,
		"F_ck_1@0 O_a_0@0 F_ck_2@2 F_all_2@3 O_a_1@3 D_a_2@4 F_all_3@4 B_3@5 P_a_1@5 B_2@6 P_a_0@6 F_all_1@8 B_1@10")
}

// Plans whose replay is easily followed: makespan, peak, and the peak where
// transfers hold memory in parts.
func TestOffloadByHand(t *testing.T) {
	c := finding17()
	hand, _ := handmade(plan.ActivationOffload)
	instant := vectors([]float64{1, 1, 1}, nil, nil)
	instant.Layers[1].Gradient = 0
	sent := vectors([]float64{3, 0, 0}, []float64{1, 2}, []float64{0, 1})
	sent.Input.Gradient = 0
	empty := vectors([]float64{0, 0, 0}, []float64{1, 1}, nil)
	lateLoss := vectors([]float64{1, 0, 0}, []float64{1, 1}, []float64{9, 9})
	lateLoss.Layers[1].Gradient = 8
	for _, x := range []struct {
		name                  string
		problem               string
		c                     *chain.Chain
		beta                  float64
		ops                   string
		makespan, peak, parts float64
	}{
		{"finding 17", plan.ActivationOffload, c[0], 1, finding17One, 6, 3, 3},
		{"finding 17, in tens", plan.ActivationOffload, c[1], 1, finding17Ten, 66, 30, 30},
		{"nothing moves", plan.ActivationOffload, hand, 0, "F_all_1@0 F_all_2@2 F_all_3@3 B_3@4 B_2@5 B_1@7", 9, 10, 10},
		{
			"listed by resource", plan.ActivationOffload, hand, 1,
			"F_all_1@0 F_all_2@2 F_all_3@3 B_3@4 B_2@8 B_1@10 O_abar_0@0 O_abar_1@2 P_abar_1@5 P_abar_0@8", 12, 10, 10,
		},
		{
			"transfers before computations", plan.ActivationOffload, hand, 1,
			"O_abar_0@0 O_abar_1@2 P_abar_1@5 P_abar_0@8 F_all_1@0 F_all_2@2 F_all_3@3 B_3@4 B_2@8 B_1@10", 12, 10, 10,
		},
		// ā_0 is there until F_1, late, has ended. In parts B_2 meets none of it.
		{
			"the offload waits for F_1", plan.ActivationOffload, hand, 1,
			"O_abar_0@0 F_all_1@5 F_all_2@7 F_all_3@8 B_3@9 B_2@10 P_abar_0@12 B_1@14", 16, 8, 8,
		},
		// F_2 starts when a third of a_0 has been sent; whole, it is still there.
		{"in parts", plan.ActivationOffload, sent, 1, "F_all_1@0 O_abar_0@0 F_all_2@1 B_2@3 P_abar_0@3 B_1@6", 6, 4, 3},
		// Not so if F_1 still reads it, or reads it late.
		{"in parts, but in use", plan.ActivationOffload, sent, 1, "F_all_1@2 O_abar_0@0 F_all_2@3 B_2@5 P_abar_0@5 B_1@8", 8, 3, 3},
		{
			"a transfer that ends last does not count", plan.ActivationOffload, hand, 1,
			"F_all_1@0 F_all_2@2 F_all_3@3 B_3@4 B_2@5 B_1@7 O_abar_0@8", 9, 10, 10,
		},
		// A plan for one problem is one for the other with tensor a_0.
		{
			"both problems", plan.RematOffload, hand, 1,
			"F_all_1@0 O_a_0@0 F_all_2@2 O_abar_1@2 F_all_3@3 B_3@4 P_abar_1@5 B_2@8 P_a_0@8 B_1@10", 12, 10, 10,
		},
		{
			"twice to the host and back", plan.RematOffload, hand, 1,
			"F_all_1@0 O_a_0@0 P_a_0@2 O_a_0@4 F_all_2@4 P_a_0@6 F_all_3@6 B_3@8 B_2@9 B_1@11", 13, 10, 10,
		},
		// a_1 goes while F_2 reads ā_1: memory is for ā_1, ā_2 and nothing else.
		{
			"the one that stays is read", plan.RematOffload, vectors([]float64{0, 2, 0, 0}, []float64{1, 2, 1}, nil), 1,
			"F_ck_1@0 O_a_1@1 F_all_1@1 F_all_2@2 F_all_3@4 B_3@5 B_2@5 B_1@5", 5, 4, 4,
		},
		{"no time", plan.ActivationOffload, instant, 1, "F_all_1@0 O_abar_0@0 F_all_2@1 B_2@1 P_abar_0@1 B_1@2", 2, 4, 4},
		{"no bytes", plan.ActivationOffload, empty, 0, "F_all_1@0 O_abar_0@0.5 F_all_2@1 B_2@2 O_abar_1@2 P_abar_1@2 B_1@2", 2, 0, 0},
		// δ_2 is not there while F_1 and F_2 run.
		{"the loss's gradient", plan.ActivationOffload, lateLoss, 1, "F_all_1@0 F_all_2@1 B_2@2 B_1@2", 2, 10, 10},
	} {
		t.Run(x.name, func(t *testing.T) {
			p := transfers(x.problem, x.c, x.peak, x.beta, x.ops)
			p.Claims = plan.Claims{Makespan: x.makespan, PeakMemory: x.peak}
			r := mustVerifyOn(t, x.c, p)
			if !r.Valid() || r.ClaimErrors != nil {
				t.Errorf("%+v %q", r.Violations, r.ClaimErrors)
			}
			p.Claims.PeakMemory, p.Platform.Memory = x.parts, x.parts
			f, err := rematoffload.VerifyFractional(x.c, p)
			if err != nil || !f.Valid() || f.ClaimErrors != nil {
				t.Errorf("in parts: %+v, %v", f, err)
			}
			// Less memory is too little, and nothing else is wrong.
			for _, less := range []float64{x.peak, x.parts} {
				if less == 0 {
					continue
				}
				p.Platform.Memory = less - 0.5
				r, err = rematoffload.Verify(x.c, p)
				if less == x.parts {
					r, err = rematoffload.VerifyFractional(x.c, p)
				}
				if err != nil || r.Valid() || slices.ContainsFunc(r.Violations, func(v plan.Violation) bool { return v.Rule != plan.RuleMemory }) {
					t.Errorf("in %g: %+v, %v", p.Platform.Memory, r, err)
				}
			}
		})
	}
}

// Each mutant breaks just the rule it is meant to.
func TestOffloadMutants(t *testing.T) {
	find := func(p *plan.Plan, name string) int {
		for k := range p.Ops {
			if strings.ReplaceAll(p.Ops[k].String(), " ", "_") == name {
				return k
			}
		}
		panic(name)
	}
	drop := func(name string) func(*chain.Chain, *plan.Plan) {
		return func(_ *chain.Chain, p *plan.Plan) {
			k := find(p, name)
			p.Ops = slices.Delete(p.Ops, k, k+1)
		}
	}
	add := func(ops string) func(*chain.Chain, *plan.Plan) {
		return func(c *chain.Chain, p *plan.Plan) {
			p.Ops = append(p.Ops, transfers(p.Problem, c, 0, 1, ops).Ops...)
		}
	}
	move := func(name string, start, end float64) func(*chain.Chain, *plan.Plan) {
		return func(_ *chain.Chain, p *plan.Plan) {
			o := &p.Ops[find(p, name)]
			o.Start, o.End = start, end
		}
	}
	swap := func(a, b string) func(*chain.Chain, *plan.Plan) {
		return func(_ *chain.Chain, p *plan.Plan) {
			i, j := find(p, a), find(p, b)
			p.Ops[i], p.Ops[j] = p.Ops[j], p.Ops[i]
		}
	}
	change := func(name string, f func(*plan.Op)) func(*chain.Chain, *plan.Plan) {
		return func(_ *chain.Chain, p *plan.Plan) { f(&p.Ops[find(p, name)]) }
	}
	both := func(fs ...func(*chain.Chain, *plan.Plan)) func(*chain.Chain, *plan.Plan) {
		return func(c *chain.Chain, p *plan.Plan) {
			for _, f := range fs {
				f(c, p)
			}
		}
	}
	for _, x := range []struct {
		name, problem string
		mutate        func(*chain.Chain, *plan.Plan)
		rule, detail  string // "": still valid
	}{
		{"nothing", plan.ActivationOffload, func(*chain.Chain, *plan.Plan) {}, "", ""},
		{
			"less memory", plan.ActivationOffload, func(_ *chain.Chain, p *plan.Plan) { p.Platform.Memory = 9 }, plan.RuleMemory,
			"memory reaches 10 of 9 with the start of P abar_0",
		},
		{
			"no memory for a_0", plan.ActivationOffload, func(_ *chain.Chain, p *plan.Plan) { p.Platform.Memory, p.Ops = 1, p.Ops[:0] },
			"memory missing-backward missing-backward missing-backward", "2 are stored at the start",
		},
		{"no prefetch", plan.ActivationOffload, drop("P_abar_0"), plan.RuleMissingInput, "B_1 needs ā_0, which is on the host only"},
		{
			"prefetch too late", plan.ActivationOffload, move("P_abar_0", 9, 11), plan.RuleMissingInput,
			"B_1 needs ā_0, whose prefetch has not ended",
		},
		{
			"offload before the forward ends", plan.ActivationOffload, both(drop("O_abar_0"), drop("P_abar_0"), move("O_abar_1", 1.5, 4.5)),
			plan.RuleNotStored, "O offloads ā_1, which is not stored",
		},
		{"offload of what is gone", plan.ActivationOffload, add("O_abar_1@12"), plan.RuleNotStored, "O offloads ā_1, which is on the host only"},
		{
			"two transfers at once", plan.ActivationOffload, move("P_abar_0", 7, 9), plan.RuleLinkOverlap,
			"P abar_0 starts 1 s before P abar_1 ends; the link carries one transfer at a time",
		},
		{"offload too short", plan.ActivationOffload, move("O_abar_0", 0, 1.5), plan.RuleDuration, "O abar_0 takes 1.5 s; it must take 2 s"},
		{"backward too long", plan.ActivationOffload, move("B_1", 10, 13), plan.RuleDuration, "B_1 takes 3 s; it must take 2 s"},
		{"before time 0", plan.ActivationOffload, move("O_abar_0", -1, 1), plan.RuleTime, "O abar_0 starts 1 s before time 0"},
		{"no number", plan.ActivationOffload, move("O_abar_0", math.NaN(), 1), plan.RuleTime, "O abar_0 runs from NaN to 1"},
		{"backwards", plan.ActivationOffload, move("O_abar_0", 2, 0), plan.RuleTime, "O abar_0 ends 2 s before it starts"},
		{"a layer too many", plan.ActivationOffload, add("F_all_4@12"), plan.RuleLayer, "F_all is of layer 4; it has one of layers 1 to 3"},
		{"the loss's ā", plan.ActivationOffload, add("O_abar_3@12"), plan.RuleLayer, "it has one of layers 0 to 2"},
		{"recomputation", plan.ActivationOffload, add("F_all_1@12"), plan.RuleTwice, "F_1 runs a second time"},
		{"two backwards", plan.ActivationOffload, add("B_1@12"), plan.RuleTwice, "B_1 runs a second time"},
		{"no last backward", plan.ActivationOffload, drop("B_1"), plan.RuleMissingBackward, "B_1 is missing"},
		{
			"a checkpoint", plan.ActivationOffload, add("F_ck_1@12"), plan.RuleUnknownOp,
			"\"F_ck\" is unknown in activation-offload; there are F_all, B, O and P",
		},
		{"a discard", plan.ActivationOffload, add("D_abar_0@12"), plan.RuleUnknownOp, "\"D\" is unknown"},
		{"another tensor", plan.ActivationOffload, add("O_a_0@12"), plan.RuleUnknownOp, "tensor \"a\"; it has \"abar\""},
		{
			"a forward with a tensor", plan.ActivationOffload, change("F_all_1", func(o *plan.Op) { o.Tensor = "a" }),
			"unknown-op missing-input not-stored memory prefetch-present", "",
		},
		{
			"a branch", plan.ActivationOffload, both(add("O_abar_2@12"), change("O_abar_2", func(o *plan.Op) { o.Branch = 1 })), plan.RuleUnknownOp,
			"branch 1; it has none",
		},
		{
			"a node", plan.ActivationOffload, both(add("O_abar_2@12"), change("O_abar_2", func(o *plan.Op) { o.Node = "v" })), plan.RuleUnknownOp,
			"",
		},
		{
			"no bandwidth but also no transfers", plan.ActivationOffload,
			both(drop("O_abar_0"), drop("O_abar_1"), drop("P_abar_0"), drop("P_abar_1"),
				func(_ *chain.Chain, p *plan.Plan) { p.Platform.Bandwidth = 0 }), "", "",
		},
		{
			"twice as fast", plan.ActivationOffload, func(_ *chain.Chain, p *plan.Plan) { p.Platform.Bandwidth = 2 },
			"duration duration duration duration", "",
		},

		{"nothing", plan.RematOffload, func(*chain.Chain, *plan.Plan) {}, "", ""},
		{
			"less memory", plan.RematOffload, func(_ *chain.Chain, p *plan.Plan) { p.Platform.Memory = 7 }, plan.RuleMemory,
			"memory reaches 8 of 7 with the start of P a_0",
		},
		{
			"no prefetch", plan.RematOffload, drop("P_a_1"), plan.RuleMissingInput,
			"B_2 needs a_1, which is on the host only, or ā_1, which is not stored",
		},
		{
			"fetching what was never sent", plan.RematOffload, both(add("P_a_2@4"), func(_ *chain.Chain, p *plan.Plan) { p.Platform.Memory++ }),
			plan.RuleHostAbsent, "P fetches a_2, which the host does not hold",
		},
		{"fetching what is there", plan.RematOffload, add("P_a_0@8"), plan.RulePrefetch, "P fetches a_0, which is on the device already"},
		{
			"discarding what is not there", plan.RematOffload, change("D_a_2", func(o *plan.Op) { o.Layer = 3 }), plan.RuleNotStored,
			"D discards a_3, which is not stored",
		},
		{
			"discarding what is being sent", plan.RematOffload, both(move("O_a_1", 4, 5), change("D_a_2", func(o *plan.Op) { o.Layer = 1 })),
			plan.RuleDiscardUsed, "D discards a_1, which is being offloaded",
		},
		{
			"a discard in a forward", plan.RematOffload, both(swap("D_a_2", "F_all_3"), move("D_a_2", 4.5, 4.5)), plan.RuleOverlap,
			"D a_2 starts 0.5 s before F_all_3 ends",
		},
		{
			"listed the wrong way round", plan.RematOffload, swap("F_ck_2", "F_all_2"), plan.RuleOrder,
			"F_ck_2 starts 1 s before F_all_2, which stands before it in the plan",
		},
		{"offload listed much later", plan.RematOffload, both(drop("O_a_1"), add("O_a_1@3")), "", ""},
		{
			"gone at the instant of use", plan.RematOffload, both(move("O_a_1", 2, 3)), plan.RuleMissingInput,
			"F_all_2 needs a_1, which is on the host only",
		},
		{
			"F_none of ā", plan.RematOffload, both(change("F_ck_1", func(o *plan.Op) { o.Op = plan.OpFAll }),
				change("F_ck_2", func(o *plan.Op) { o.Op = plan.OpFNone }), func(_ *chain.Chain, p *plan.Plan) { p.Platform.Memory = 99 }),
			"missing-input not-stored", "F_none_2 needs a_1 itself, which is not stored; it cannot consume ā_1",
		},
		{"ā_0", plan.RematOffload, add("O_abar_0@12"), plan.RuleLayer, "ā_0 is a_0, tensor \"a\""},
		{
			"weights", plan.RematOffload, both(add("O_a_2@12"), change("O_a_2", func(o *plan.Op) { o.Tensor = "w" })), plan.RuleUnknownOp,
			"tensor \"w\"; it has \"a\" or \"abar\"",
		},
		{"sent again", plan.RematOffload, add("O_a_0@10"), "", ""},
		{"two backwards", plan.RematOffload, add("B_1@12"), plan.RuleTwice, "each backward runs once"},
		{"no backward", plan.RematOffload, drop("B_1"), plan.RuleMissingBackward, ""},
	} {
		t.Run(x.problem+"/"+x.name, func(t *testing.T) {
			c, p := handmade(x.problem)
			x.mutate(c, p)
			r := mustVerifyOn(t, c, p)
			var rules []string
			found := x.detail == ""
			for _, v := range r.Violations {
				rules = append(rules, v.Rule)
				found = found || strings.Contains(v.Detail, x.detail)
			}
			want := strings.Fields(x.rule)
			slices.Sort(rules)
			slices.Sort(want)
			if !slices.Equal(rules, want) || !found {
				t.Errorf("%+v; want %s: …%s…", r.Violations, x.rule, x.detail)
			}
		})
	}
}

func TestOffloadUnreadable(t *testing.T) {
	period := 1.0
	for _, x := range []struct {
		name   string
		mutate func(*chain.Chain, *plan.Plan)
		want   string
	}{
		{"period", func(_ *chain.Chain, p *plan.Plan) { p.Period = &period }, "plans of activation-offload do not repeat"},
		{"memory", func(_ *chain.Chain, p *plan.Plan) { p.Platform.Memory = math.NaN() }, "platform.memory is NaN"},
		{
			"no bandwidth", func(_ *chain.Chain, p *plan.Plan) { p.Platform.Bandwidth = 0 },
			"platform.bandwidth is 0; it must be a positive number of bytes per second for O abar_0",
		},
		{"bandwidth without end", func(_ *chain.Chain, p *plan.Plan) { p.Platform.Bandwidth = math.Inf(1) }, "platform.bandwidth is +Inf"},
		{"no layers", func(c *chain.Chain, _ *plan.Plan) { c.Layers = nil }, "the instance is not valid"},
		{"another problem", func(_ *chain.Chain, p *plan.Plan) { p.Problem = plan.Remat }, "problem is \"remat\""},
	} {
		c, p := handmade(plan.ActivationOffload)
		x.mutate(c, p)
		for name, verify := range map[string]func(*chain.Chain, *plan.Plan) (*plan.Report, error){
			"whole": rematoffload.Verify,
			"parts": rematoffload.VerifyFractional,
		} {
			r, err := verify(c, p)
			if !errors.Is(err, plan.ErrUnreadable) || !strings.Contains(err.Error(), x.want) || r != nil {
				t.Errorf("%s, %s: report %v, error %v", x.name, name, r, err)
			}
		}
	}
	c, p := handmade(plan.RematOffload)
	if _, err := rematoffload.Verify(nil, p); !errors.Is(err, plan.ErrUnreadable) {
		t.Errorf("no chain: %v", err)
	}
	if _, err := rematoffload.Verify(c, nil); !errors.Is(err, plan.ErrUnreadable) {
		t.Errorf("no plan: %v", err)
	}
	_, g := twoBranches()
	g.Problem = plan.RematOffload
	if _, err := verify.Replay(nil, g); !errors.Is(err, plan.ErrProblem) {
		t.Errorf("no instance: %v", err)
	}
}

// What counts as simultaneous is measured by the computations: a transfer that
// ends in a million years makes nothing else right. Nor do many roundings.
func TestOffloadTolerance(t *testing.T) {
	c, p := handmade(plan.ActivationOffload)
	p.Ops = append(p.Ops, transfers(p.Problem, c, 0, 1, "O_abar_2@4.5").Ops...)
	k := len(p.Ops) - 1
	p.Ops[k].Start, p.Ops[k].End = 3e13, 3e13+2
	p.Ops[0].End = 1.5
	r := mustVerifyOn(t, c, p)
	rules := rulesOf(r)
	if want := []string{"0 duration", "10 not-stored"}; !slices.Equal(rules, want) || r.Makespan != 12 {
		t.Errorf("%q, want %q; makespan %g", rules, want, r.Makespan)
	}
	// 2,000 transfers, each shorter by half of what can be told.
	c = vectors([]float64{1, 0}, []float64{4000}, nil)
	p = transfers(plan.RematOffload, c, 9, 1, "")
	now := 0.0
	step := 1 - 0.5*plan.Tolerance*4000
	for range 1000 {
		for _, kind := range []string{plan.OpO, plan.OpP} {
			p.Ops = append(p.Ops, plan.Op{Op: kind, Tensor: plan.TensorA, Start: now, End: now + step})
			now += step
		}
	}
	p.Ops = append(p.Ops,
		plan.Op{Op: plan.OpFAll, Layer: 1, Start: now, End: now + 4000},
		plan.Op{Op: plan.OpB, Layer: 1, Start: now + 4000, End: now + 4000})
	r = mustVerifyOn(t, c, p)
	if rules := rulesOf(r); !slices.Equal(rules, []string{"-1 duration"}) ||
		!strings.Contains(r.Violations[0].Detail, "the transfers take 2000 s together") {
		t.Errorf("%+v", r.Violations)
	}
}

func TestOffloadSummary(t *testing.T) {
	var text strings.Builder
	for _, problem := range []string{plan.ActivationOffload, plan.RematOffload} {
		c, p := handmade(problem)
		in := c
		for range 2 {
			s, err := verify.Summarize(in, p)
			if err != nil {
				t.Fatal(err)
			}
			data, err := json.MarshalIndent(s, "", " ")
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&text, "%s%s\n", s, data)
			p.Ops = slices.DeleteFunc(p.Ops, func(o plan.Op) bool { return o.Op == plan.OpO || o.Op == plan.OpP })
		}
	}
	testfile.Golden(t, "offloadsummary.txt", text.String())
}

func TestOffloadProfile(t *testing.T) {
	c, p := handmade(plan.RematOffload)
	steps, err := verify.Profile(c, p)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range steps {
		got = append(got, fmt.Sprintf("%g-%g %s: %g, then %g", s.Start, s.End, &p.Ops[s.Op], s.During.Total(), s.After.Total()))
	}
	want := []string{
		"0-2 O a_0: 3, then 1",
		"2-3 F_ck_2: 2, then 2",
		"3-4 O a_1: 4, then 3",
		"4-5 F_all_3: 3, then 3",
		"5-6 P a_1: 6, then 4",
		"6-8 P a_0: 8, then 3",
		"8-10 F_all_1: 6, then 6",
		"10-12 B_1: 6, then 0",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	last := steps[len(steps)-1]
	if want := (replay.MemoryParts{Activations: 2, Saved: 3, Gradients: 1}); last.During != want {
		t.Errorf("during B_1 %+v, want %+v", last.During, want)
	}
}

// Plans with transfers keep their bandwidth and pass through files.
func TestOffloadFiles(t *testing.T) {
	validate := testfile.Schema(t, "plan-v1.json")
	for _, problem := range []string{plan.ActivationOffload, plan.RematOffload} {
		c, p := handmade(problem)
		var b bytes.Buffer
		if err := p.Write(&b); err != nil {
			t.Fatal(err)
		}
		if err := validate(b.String()); err != nil {
			t.Error(err)
		}
		q, err := plan.Read(&b, "plan.json")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(p, q); diff != "" || q.Platform.Bandwidth != 1 {
			t.Errorf("(-written +read):\n%s", diff)
		}
		if r := mustVerifyOn(t, c, q); !r.Valid() {
			t.Errorf("%+v", r.Violations)
		}
	}
}

// One replay of a plan in which every ā is sent and fetched.
func BenchmarkVerifyOffload(b *testing.B) {
	for _, n := range []int{100, 1000, 10000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			c := &chain.Chain{Input: chain.Input{Activation: 1}, Layers: make([]chain.Layer, n)}
			p := plan.New(plan.ActivationOffload, "all", c, platform.Platform{Memory: 1e9, Bandwidth: 1})
			for i := range c.Layers {
				c.Layers[i] = chain.Layer{ForwardTime: 1, BackwardTime: 1, Activation: 1, Saved: 1}
				now := float64(i)
				p.Ops = append(
					p.Ops,
					plan.Op{Op: plan.OpFAll, Layer: i + 1, Start: now, End: now + 1},
					plan.Op{Op: plan.OpO, Tensor: plan.TensorAbar, Layer: i, Start: now, End: now + 1},
				)
			}
			for l := n; l >= 1; l-- {
				now := float64(2*n - l + 1)
				p.Ops = append(
					p.Ops,
					plan.Op{Op: plan.OpP, Tensor: plan.TensorAbar, Layer: l - 1, Start: now - 1, End: now},
					plan.Op{Op: plan.OpB, Layer: l, Start: now, End: now + 1},
				)
			}
			for name, verify := range map[string]func(*chain.Chain, *plan.Plan) (*plan.Report, error){
				"whole": rematoffload.Verify,
				"parts": rematoffload.VerifyFractional,
			} {
				b.Run(name, func(b *testing.B) {
					b.ReportAllocs()
					for b.Loop() {
						if r, err := verify(c, p); err != nil || !r.Valid() {
							b.Fatal(r, err)
						}
					}
				})
			}
		})
	}
}
