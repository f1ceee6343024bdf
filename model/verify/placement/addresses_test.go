package placement_test

import (
	"bytes"
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
		{"overlap above", func(p *plan.Plan) { p.Offsets[2].Offset = 2 }, []string{plan.RuleOverlap}, `buffers "b" and "c" are alive at 3 and both there from 2 on`},
		{"overlap below", func(p *plan.Plan) { p.Offsets[1].Offset, p.Offsets[2].Offset = 2, 0 }, []string{plan.RuleOverlap}, ""},
		{"within", func(p *plan.Plan) { p.Offsets[2].Offset = 0 }, []string{plan.RuleOverlap}, ""},
		{"missing", func(p *plan.Plan) { p.Offsets = p.Offsets[1:] }, []string{plan.RuleMissing}, `buffer "a" has no offset`},
		{"none at all", func(p *plan.Plan) { p.Offsets = nil }, []string{plan.RuleMissing, plan.RuleMissing, plan.RuleMissing}, ""},
		{"unknown", func(p *plan.Plan) { p.Offsets = append(p.Offsets, plan.Offset{ID: "d"}) }, []string{plan.RuleBuffer}, `there is no buffer "d"`},
		{"twice", func(p *plan.Plan) { p.Offsets = append(p.Offsets, plan.Offset{ID: "a"}) }, []string{plan.RuleTwice}, ""},
		{"negative", func(p *plan.Plan) { p.Offsets[0].Offset = -1 }, []string{plan.RuleMissing, plan.RuleOffset}, ""},
		{"no whole number", func(p *plan.Plan) { p.Offsets[0].Offset = 0.5 }, []string{plan.RuleMissing, plan.RuleOffset}, ""},
		{"not aligned", func(p *plan.Plan) { p.Offsets[2].Offset = 5 }, []string{plan.RuleMissing, plan.RuleOffset}, ""},
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
