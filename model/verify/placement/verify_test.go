package placement_test

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"workbench/model/instance/lifetimes"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/verify/placement"
)

// threeBuffers are a, then b beside c, and a placement of height 7: a on 0, b on 0,
// c on 4.
func threeBuffers() (*lifetimes.Lifetimes, *plan.Plan) {
	l := &lifetimes.Lifetimes{Name: "three", Buffers: []lifetimes.Buffer{
		{ID: "a", Lower: 0, Upper: 2, Size: 5},
		{ID: "b", Lower: 2, Upper: 4, Size: 4},
		{ID: "c", Lower: 3, Upper: 5, Size: 3},
	}}
	p := plan.New(plan.Placement, "by hand", l, platform.Platform{Memory: 7})
	p.Offsets = []plan.Offset{{ID: "a"}, {ID: "b"}, {ID: "c", Offset: 4}}
	p.Claims.PeakMemory = 7
	return l, p
}

// Each mutant breaks just the rule it is meant to.
func TestVerifyPlacement(t *testing.T) {
	for _, x := range []struct {
		name   string
		change func(*plan.Plan)
		rules  []string
		detail string
	}{
		{"as it is", func(*plan.Plan) {}, nil, ""},
		{"memory", func(p *plan.Plan) { p.Platform.Memory = 6 }, []string{plan.RuleMemory}, `buffer "c" reaches up to 7; there is memory for 6`},
		{
			"overlap above", func(p *plan.Plan) { p.Offsets[2].Offset = 2 },
			[]string{plan.RuleOverlap},
			`buffers "b" and "c" are alive at 3 and both there from 2 on`,
		},
		{"overlap below", func(p *plan.Plan) { p.Offsets[1].Offset, p.Offsets[2].Offset = 2, 0 }, []string{plan.RuleOverlap}, ""},
		{"within", func(p *plan.Plan) { p.Offsets[2].Offset = 0 }, []string{plan.RuleOverlap}, ""},
		{"missing", func(p *plan.Plan) { p.Offsets = p.Offsets[1:] }, []string{plan.RuleMissing}, `buffer "a" has no offset`},
		{"none at all", func(p *plan.Plan) { p.Offsets = nil }, []string{plan.RuleMissing, plan.RuleMissing, plan.RuleMissing}, ""},
		{
			"unknown", func(p *plan.Plan) { p.Offsets = append(p.Offsets, plan.Offset{ID: "d"}) },
			[]string{plan.RuleBuffer},
			`there is no buffer "d"`,
		},
		{"twice", func(p *plan.Plan) { p.Offsets = append(p.Offsets, plan.Offset{ID: "a"}) }, []string{plan.RuleTwice}, ""},
		{"negative", func(p *plan.Plan) { p.Offsets[0].Offset = -1 }, []string{plan.RuleMissing, plan.RuleOffset}, ""},
		{"no whole number", func(p *plan.Plan) { p.Offsets[0].Offset = 0.5 }, []string{plan.RuleMissing, plan.RuleOffset}, ""},
		{"not aligned", func(p *plan.Plan) { p.Offsets[2].Offset, p.Platform.Memory = 5, 8 }, []string{plan.RuleOffset}, ""},
		{"an operation", func(p *plan.Plan) { p.Ops = []plan.Op{{Op: plan.OpC, Node: "x"}} }, []string{plan.RuleUnknownOp}, ""},
	} {
		l, p := threeBuffers()
		l.Align = 2
		x.change(p)
		r, err := placement.Verify(l, p)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, v := range r.Violations {
			got = append(got, v.Rule)
		}
		slices.Sort(got)
		if !slices.Equal(got, x.rules) || x.detail != "" && r.Violations[0].Detail != x.detail {
			t.Errorf("%s: %+v", x.name, r.Violations)
		}
		if x.rules == nil && (len(r.ClaimErrors) > 0 || r.Objective(p.Problem) != 7) {
			t.Errorf("%s: %v, height %g", x.name, r.ClaimErrors, r.PeakMemory)
		}
	}
}

// structured has every rule of lifetimes/v2, and a placement that keeps them: pool l1 from
// 16 on, reserved below; p pinned and exclusive, q and r separated, s colocated with q,
// t excluded from r, on whose addresses it lies.
func structured() (*lifetimes.Lifetimes, *plan.Plan) {
	pair := func(i, j int) lifetimes.Pair { return lifetimes.Pair{First: i, Second: j} }
	l := &lifetimes.Lifetimes{
		Name: "structured", Objective: lifetimes.TotalPenalty,
		Pools: []lifetimes.Pool{{ID: "l1", Capacity: 64, Reserved: []lifetimes.Range{{Begin: 0, End: 16}}}, {ID: "l2", Capacity: 8}},
		Buffers: []lifetimes.Buffer{
			{ID: "p", Lower: 0, Upper: 1, Size: 8, Pinned: true, Exclusive: true, Offset: 16},
			{ID: "q", Lower: 0, Upper: 9, Gaps: []lifetimes.Interval{{Lower: 2, Upper: 4}}, Size: 8},
			{ID: "r", Lower: 2, Upper: 4, Size: 8, Align: 16},
			{ID: "s", Lower: 10, Upper: 12, Size: 8},
			{ID: "t", Lower: 3, Upper: 5, Size: 4},
			{ID: "u", Lower: 0, Upper: 9, Size: 8, Pool: 1},
		},
		Separations: []lifetimes.Pair{pair(1, 2)}, Colocations: []lifetimes.Pair{pair(3, 1)}, Exclusions: []lifetimes.Pair{pair(2, 4)},
		Penalties: []lifetimes.Penalty{{Pair: pair(2, 4), Cost: 5}, {Pair: pair(1, 3), Cost: 7}, {Pair: pair(0, 2), Cost: 9}},
	}
	p := plan.New(plan.Placement, "by hand", l, platform.Platform{Memory: 100})
	for i, at := range []float64{16, 24, 32, 24, 36, 0} {
		p.Offsets = append(p.Offsets, plan.Offset{ID: l.Buffers[i].ID, Offset: at})
	}
	p.Claims.PeakMemory = 48
	return l, p
}

// Every rule is broken once, by name, and no other.
func TestVerifyStructured(t *testing.T) {
	at := func(i int, offset float64) func(*lifetimes.Lifetimes, *plan.Plan) {
		return func(_ *lifetimes.Lifetimes, p *plan.Plan) { p.Offsets[i].Offset = offset }
	}
	for _, x := range []struct {
		name   string
		change func(*lifetimes.Lifetimes, *plan.Plan)
		rule   string
		detail string
	}{
		{"as it is", func(*lifetimes.Lifetimes, *plan.Plan) {}, "", ""},
		{"pin", at(0, 40), plan.RulePin, `buffer "p" is at 40 and is pinned to 16`},
		{"alignment of a buffer", at(2, 40), plan.RuleOffset, `the offset of buffer "r" is 40; it is a multiple of 16 bytes, the alignment`},
		{"capacity", at(5, 1), plan.RuleCapacity, `buffer "u" reaches up to 9; pool "l2" has 8`},
		{"reserved", at(4, 12), plan.RuleReserved, `buffer "t" is at [12, 16), and [0, 16) is reserved`},
		{"exclusive", at(4, 20), plan.RuleSeparation, `buffers "p" and "t" may not share an address, the first being exclusive, and are at [16, 24) and [20, 24)`},
		{"colocation", at(3, 28), plan.RuleColocated, `buffers "s" and "q" are colocated and begin at 28 and 24`},
		{"separation", func(l *lifetimes.Lifetimes, p *plan.Plan) {
			p.Offsets[1].Offset, p.Offsets[3].Offset, p.Offsets[4].Offset = 32, 32, 40
		}, plan.RuleSeparation, `buffers "q" and "r" are separated and are at [32, 40) and [32, 40)`},
		{"overlap beside an exclusion", at(4, 28), plan.RuleOverlap, `buffers "q" and "t" are alive at 4 and both there from 28 on`},
		{
			"exclusion", func(l *lifetimes.Lifetimes, _ *plan.Plan) { l.Exclusions = nil }, plan.RuleOverlap,
			`buffers "r" and "t" are alive at 3 and both there from 36 on`,
		},
		{"gap", func(l *lifetimes.Lifetimes, p *plan.Plan) {
			l.Exclusions, l.Separations, l.Buffers[1].Gaps = nil, nil, nil
			p.Offsets[4].Offset, p.Offsets[1].Offset, p.Offsets[3].Offset = 48, 36, 36
		}, plan.RuleOverlap, `buffers "q" and "r" are alive at 2 and both there from 36 on`},
		{
			"memory", func(_ *lifetimes.Lifetimes, p *plan.Plan) { p.Platform.Memory = 47 }, plan.RuleMemory,
			`buffer "r" reaches up to 48; there is memory for 47`,
		},
	} {
		l, p := structured()
		x.change(l, p)
		r, err := placement.Verify(l, p)
		if err != nil {
			t.Fatal(x.name, err)
		}
		switch v := r.Violations; {
		case x.rule == "" && (len(v) > 0 || r.Objective(p.Problem) != 12 || r.PeakMemory != 48 || len(r.ClaimErrors) > 0):
			t.Errorf("%s: %+v, objective %g, peak %g, %v", x.name, v, r.Objective(p.Problem), r.PeakMemory, r.ClaimErrors)
		case x.rule != "" && (len(v) != 1 || v[0].Rule != x.rule || v[0].Detail != x.detail):
			t.Errorf("%s: %+v", x.name, v)
		}
	}
	l, p := structured()
	for objective, want := range map[string]float64{lifetimes.Height: 48, lifetimes.LargestHeight: 40, lifetimes.TotalPenalty: 12} {
		p.Platform.Objective = objective
		if r, err := placement.Verify(l, p); err != nil || r.Objective(p.Problem) != want {
			t.Errorf("%s: %v, want %g", objective, err, want)
		}
	}
	p.Platform.Objective = "span"
	if _, err := placement.Verify(l, p); !errors.Is(err, plan.ErrUnreadable) {
		t.Errorf("an objective of other problems: %v", err)
	}
	if s, err := placement.Summarize(l, p); err == nil || s != nil {
		t.Error("it is summed up")
	}
	p.Platform.Objective = ""
	s, err := placement.Summarize(l, p)
	if err != nil || *s.Penalty != 12 || !slices.Equal(s.Heights, []float64{40, 8}) || s.Load != 24 {
		t.Errorf("%v %+v", err, s)
	}
}

// A placement is written and read back; in tenths of bytes it is the same one.
func TestPlacementFile(t *testing.T) {
	l, p := threeBuffers()
	l.Unit, p.Unit = 1, 1
	var b bytes.Buffer
	if err := p.Write(&b); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), `"offset": 0.4`) {
		t.Errorf("4 tenths are not written as bytes:\n%s", b.String())
	}
	q, err := plan.Read(&b, "plan.json")
	if err != nil {
		t.Fatal(err)
	}
	r, err := placement.Verify(l, q)
	if err != nil || !r.Valid() || r.PeakMemory != 0.7 {
		t.Errorf("%v %+v", err, r)
	}
}
