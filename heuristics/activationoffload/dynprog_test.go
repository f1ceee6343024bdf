package activationoffload

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	view "workbench/model/problem/activationoffload"
	"workbench/model/testfile"
	"workbench/model/verify/rematoffload"
)

// drawDynProg is dynProgCase from a seed that rapid shrinks.
func drawDynProg(t *rapid.T, most int) (*chain.Chain, platform.Platform, *instance) {
	r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 5))
	c, p := dynProgCase(r, rapid.IntRange(1, most).Draw(t, "layers"))
	in, err := newInstance(c, p)
	if err != nil {
		t.Fatal(err)
	}
	return c, p, in
}

func drawSet(t *rapid.T, in *instance) []bool {
	away := rapid.SliceOfN(rapid.Bool(), in.N, in.N).Draw(t, "away")
	for i := range away {
		away[i] = away[i] && in.Abar[i] > 0
	}
	return away
}

func close9(x, y float64) bool { return x == y || math.Abs(x-y) <= 1e-9*max(1, math.Abs(x)) }

// The recurrences of Algorithm 5 give the makespan of the simulated schedule, for
// both rules; it is valid in the replay, and if the phases wait for each other no
// sooner schedule is.
func TestDynProgRecurrences(t *testing.T) {
	waits := 0
	testfile.Property(t, func(t *rapid.T) {
		c, _, in := drawDynProg(t, 10)
		away := drawSet(t, in)
		z := newComm(in)
		o := &ordered{in: in}
		for _, gap := range []Gap{GapOverlap, GapSimple} {
			T := o.simulate(away, gap == GapSimple)
			if got := c.TotalTime() + z.idle(away, gap)/in.Bandwidth; !close9(got, T) {
				t.Fatalf("rule %d: recurrences %v, simulated %v\n%+v %+v %v", gap, got, T, c, in.Platform, away)
			}
			if math.IsInf(T, 1) {
				return
			}
			r, err := rematoffload.VerifyFractional(c, o.plan(T))
			if err != nil {
				t.Fatal(err)
			}
			if !r.Valid() || !close9(r.Makespan, T) {
				t.Fatalf("rule %d: %v with %v, %v violations, first %+v\n%+v %+v", gap, r.Makespan, T, len(r.Violations), r.Violations[0], c,
					in.Platform)
			}
		}
		T := o.simulate(away, false)
		if least := o.endF[in.N] + o.endB[in.N]; T > least+1e-6 {
			waits++
			r, err := rematoffload.VerifyFractional(c, o.plan(T-1e-4*(T-least)))
			if err != nil {
				t.Fatal(err)
			}
			if r.Valid() {
				t.Fatalf("%v is not the least makespan\n%+v %+v %v", T, c, in.Platform, away)
			}
		}
	})
	if waits == 0 {
		t.Error("in no case do the phases wait for each other")
	}
}

// The claim is the least makespan over all sets, its set has it, and the plan for
// this set is valid in the integral model and no shorter than there.
func TestDynProgOptimal(t *testing.T) {
	r := testfile.Random(t, 6, 6)
	for range testfile.Cases(2000) {
		c, p := dynProgCase(r, 1+r.IntN(8))
		in, err := newInstance(c, p)
		if err != nil {
			t.Fatal(err)
		}
		o := &ordered{in: in}
		plans := math.Inf(1)
		for _, gap := range []Gap{GapOverlap, GapSimple} {
			best := math.Inf(1)
			sets(in.N, func(away []bool) { best = min(best, o.simulate(away, gap == GapSimple)) })
			got, err := DynProgClaim(context.Background(), c, p, gap)
			if err != nil {
				t.Fatal(err)
			}
			away := bools(in.N, got.Offload)
			if T := o.simulate(away, gap == GapSimple); !close9(got.Makespan, best) || !close9(T, best) || got.Within != 0 {
				t.Fatalf("rule %d: %+v, simulated %v, best set %v\n%+v %+v", gap, got, T, best, c, p)
			}
			x, err := view.Schedule(c, p, "test", view.Choice{Offload: got.Offload})
			if err != nil {
				t.Fatal(err)
			}
			verifyDynProg(t, c, x)
			if T := o.simulate(away, false); x.Claims.Makespan < T*(1-1e-9) {
				t.Fatalf("plan %v, the same set with fractional communications %v\n%+v %+v", x.Claims.Makespan, T, c, p)
			}
			plans = min(plans, x.Claims.Makespan)
		}
		got, err := DynProg(context.Background(), c, p)
		if err != nil {
			t.Fatal(err)
		}
		verifyDynProg(t, c, got)
		if got.Claims.Makespan != plans || got.Method != "dynprog" {
			t.Fatalf("%s: %v, the better of the two rules %v", got.Method, got.Claims.Makespan, plans)
		}
	}
}

func verifyDynProg(t interface {
	Helper()
	Fatalf(string, ...any)
}, c *chain.Chain, p *plan.Plan,
) {
	t.Helper()
	r, err := rematoffload.Verify(c, p)
	if err != nil {
		t.Fatalf("%v", err)
	}
	if !r.Valid() || len(r.ClaimErrors) > 0 {
		t.Fatalf("%s: %+v\n%+v %+v", p.Method, r, c, p.Platform)
	}
}

// With few states, or no time, the claim is within what it says of the optimum.
func TestDynProgWithin(t *testing.T) {
	r := testfile.Random(t, 7, 7)
	cancelled, stop := context.WithCancel(context.Background())
	stop()
	worse := map[string]int{}
	for range 2000 {
		c, p := dynProgCase(r, 1+r.IntN(14))
		in, err := newInstance(c, p)
		if err != nil {
			t.Fatal(err)
		}
		exact, err := in.claim(context.Background(), GapOverlap, math.MaxInt)
		if err != nil {
			t.Fatal(err)
		}
		states := 1 + r.IntN(3)
		few, err := in.claim(context.Background(), GapOverlap, states)
		if err != nil {
			t.Fatal(err)
		}
		none, err := in.claim(cancelled, GapOverlap, math.MaxInt)
		if err != nil {
			t.Fatal(err)
		}
		for name, k := range map[string]*Claim{"few states": few, "no time": none} {
			if k.Makespan < exact.Makespan*(1-1e-9) || k.Makespan > (exact.Makespan+k.Within)*(1+2e-9) {
				t.Fatalf("%s: %+v, with all %+v\n%+v %+v", name, k, exact, c, p)
			}
			if k.Makespan > exact.Makespan*(1+1e-6) {
				worse[name]++
			}
		}
		if few.States > states {
			t.Fatalf("%d states, at most %d", few.States, states)
		}
	}
	if worse["few states"] < 10 || worse["no time"] < 100 {
		t.Errorf("how often worse: %v", worse)
	}
}

// least is J of commSearch, by trying everything.
func (z *comm) least(i int, x commState, gap Gap) float64 {
	if i > z.n {
		return x.end()
	}
	if !z.fits(i, &x) {
		return math.Inf(1)
	}
	keep, offload := z.step(i, &x, gap)
	return min(z.least(i+1, keep, gap), z.least(i+1, offload, gap))
}

// What commSearch says of dominance and of bounds, for states that need not
// come from anything.
func TestDynProgDominance(t *testing.T) {
	testfile.Property(t, func(t *rapid.T) {
		_, _, in := drawDynProg(t, 7)
		z := newComm(in)
		gap := Gap(rapid.IntRange(0, 2).Draw(t, "gap"))
		i := rapid.IntRange(1, in.N).Draw(t, "layer")
		delta := rapid.Float64Range(-z.memory, z.memory)
		if gap == GapSimple {
			delta = rapid.Float64Range(0, z.memory)
		}
		kept := rapid.Map(rapid.IntRange(0, int(z.memory)), func(k int) float64 { return float64(k) }) // sums of sizes are whole
		x := commState{kept: kept.Draw(t, "A"), deltaF: delta.Draw(t, "ΔF"), deltaB: delta.Draw(t, "ΔB")}
		y := commState{kept: kept.Draw(t, "A′"), deltaF: delta.Draw(t, "Δ′F"), deltaB: delta.Draw(t, "Δ′B")}
		if x.kept > y.kept {
			x, y = y, x
		}
		jx, jy := z.least(i, x, gap), z.least(i, y, gap)
		if wait := max(0, x.deltaF-y.deltaF) + max(0, x.deltaB-y.deltaB); jx > jy+wait+1e-9 {
			t.Fatalf("rule %d, layer %d: J%+v = %v, J%+v = %v", gap, i, x, jx, y, jy)
		}
		s := newSearch(z, gap, math.MaxInt, 0)
		if b := s.bound(i, &x); b > jx+1e-9 || x.kept > s.room[i] && !math.IsInf(jx, 1) {
			t.Fatalf("rule %d, layer %d: bound %v, room %v, J%+v = %v", gap, i, b, s.room[i], x, jx)
		}
	})
}

// finding 17: what Algorithm 5 claims is above the optimum, of the integral problem
// in the first two cases, with interrupted transfers in the third (11).
func TestDynProgIsNoBound(t *testing.T) {
	at := func(kind string, layer int, start, end float64) plan.Op {
		o := plan.Op{Op: kind, Layer: layer, Start: start, End: end}
		if kind == plan.OpO || kind == plan.OpP {
			o.Tensor = plan.TensorAbar
		}
		return o
	}
	for _, x := range []struct {
		name            string
		c               *chain.Chain
		memory          float64
		overlap, simple float64 // claims
		plan            float64 // of DynProg
		better          []plan.Op
		makespan        float64
	}{
		{
			"7 > 6", dynProgFinding([]float64{1, 0, 0, 2, 0, 0}, []float64{1, 0, 1, 2, 0}, 0, 3, 2), 3, 7, 7, 7,
			[]plan.Op{
				at(plan.OpFAll, 1, 0, 1), at(plan.OpO, 0, 0, 1), at(plan.OpFAll, 2, 1, 1), at(plan.OpFAll, 3, 1, 2),
				at(plan.OpP, 0, 1, 2), at(plan.OpFAll, 4, 2, 4), at(plan.OpO, 3, 2, 4), at(plan.OpFAll, 5, 4, 4),
				at(plan.OpB, 5, 4, 4), at(plan.OpP, 3, 4, 6), at(plan.OpB, 4, 6, 6), at(plan.OpB, 3, 6, 6),
				at(plan.OpB, 2, 6, 6), at(plan.OpB, 1, 6, 6),
			},
			6,
		},
		{
			"72 > 66", dynProgFinding([]float64{10, 0, 0, 20, 0, 0}, []float64{10, 1, 10, 20, 1}, 1, 30, 20), 30, 72, 73, 73,
			[]plan.Op{
				at(plan.OpFAll, 1, 0, 10), at(plan.OpO, 0, 0, 10), at(plan.OpFAll, 2, 10, 11), at(plan.OpFAll, 3, 11, 21),
				at(plan.OpP, 0, 11, 21), at(plan.OpFAll, 4, 21, 41), at(plan.OpO, 3, 21, 41), at(plan.OpFAll, 5, 41, 42),
				at(plan.OpB, 5, 42, 43), at(plan.OpP, 3, 42, 62), at(plan.OpB, 4, 62, 63), at(plan.OpB, 3, 63, 64),
				at(plan.OpB, 2, 64, 65), at(plan.OpB, 1, 65, 66),
			},
			66,
		},
		{"12 > 11", &chain.Chain{Input: chain.Input{Activation: 2}, Layers: []chain.Layer{
			{Activation: 3, Saved: 3}, {Activation: 2, Saved: 2, BackwardTime: 3}, {Activation: 2, Saved: 2},
		}}, 6, 12, 12, 13, nil, 0},
	} {
		p := platform.Platform{Memory: x.memory, Bandwidth: 1}
		for gap, want := range map[Gap]float64{GapOverlap: x.overlap, GapPrinted: x.overlap, GapSimple: x.simple} {
			k, err := DynProgClaim(context.Background(), x.c, p, gap)
			if err != nil {
				t.Fatal(err)
			}
			if k.Makespan != want {
				t.Errorf("%s, rule %d: claims %v, want %v", x.name, gap, k.Makespan, want)
			}
		}
		got, err := DynProg(context.Background(), x.c, p)
		if err != nil {
			t.Fatal(err)
		}
		verifyDynProg(t, x.c, got)
		if got.Claims.Makespan != x.plan {
			t.Errorf("%s: plan of %v, want %v", x.name, got.Claims.Makespan, x.plan)
		}
		if x.better != nil {
			better := plan.New(view.Problem, "by-hand", x.c, p)
			better.Ops = x.better
			r, err := rematoffload.Verify(x.c, better)
			if err != nil {
				t.Fatal(err)
			}
			if !r.Valid() || r.Makespan != x.makespan {
				t.Errorf("%s: %+v", x.name, r)
			}
		}
	}
}

// dynProgFinding is a chain of finding 17, a = ā and δ = 0.
func dynProgFinding(abar, uF []float64, uB, oF2, oF5 float64) *chain.Chain {
	c := &chain.Chain{Input: chain.Input{Activation: abar[0]}}
	for i, a := range abar[1:] {
		c.Layers = append(c.Layers, chain.Layer{ForwardTime: uF[i], BackwardTime: uB, Activation: a, Saved: a})
	}
	c.Layers[1].ForwardOverhead, c.Layers[4].ForwardOverhead = oF2, oF5
	return c
}
