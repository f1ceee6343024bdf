package verify_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"workbench/model/instance/functions"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/testfile"
	"workbench/model/verify"
	"workbench/model/verify/replay"
	"workbench/model/verify/swap"
)

// swapping returns the plan with operations written "1@0" for f_1 at 0 and
// "in_w@0", each at its start; durations are those of the instance.
func swapping(s *functions.Sequence, memory, bandwidth float64, ops string) *plan.Plan {
	p := plan.New(plan.Swap, "by hand", s, platform.Platform{Memory: memory, Bandwidth: bandwidth})
	for _, word := range strings.Fields(ops) {
		name, at, _ := strings.Cut(word, "@")
		start, err := strconv.ParseFloat(at, 64)
		if err != nil {
			panic(word)
		}
		o := plan.Op{Op: plan.OpRun, Start: start, End: start}
		if kind, id, moves := strings.Cut(name, "_"); moves {
			o.Op, o.Variable = kind, id
			v := slices.IndexFunc(s.Variables, func(v functions.Variable) bool { return v.ID == id })
			if v >= 0 && kind != plan.OpDrop && bandwidth > 0 {
				o.End += s.Variables[v].Size / bandwidth
			}
		} else {
			if o.Function, err = strconv.Atoi(name); err != nil {
				panic(word)
			}
			if i := o.Function - 1; i >= 0 && i < s.Len() {
				o.End += s.Functions[i].Time
			}
		}
		p.Ops = append(p.Ops, o)
	}
	return p
}

// fourFunctions is a sequence of four functions and a plan in which everything
// moves:
//
//	x  4, on the device   f_1 reads, f_3 reads and writes
//	y  2                  f_1 writes, f_2 reads
//	w  2, on the host     f_2 and f_4 read
//	z  3                  f_2 writes, f_3 and f_4 read
//
// f_1..f_4 take 2, 3, 1 and 1.
func fourFunctions() (*functions.Sequence, *plan.Plan) {
	const x, y, w, z = 0, 1, 2, 3
	s := &functions.Sequence{
		Name: "four",
		Variables: []functions.Variable{
			{ID: "x", Size: 4, Initial: functions.Device},
			{ID: "y", Size: 2},
			{ID: "w", Size: 2, Initial: functions.Host},
			{ID: "z", Size: 3},
		},
		Functions: []functions.Function{
			{Name: "first", Time: 2, Uses: []int{x, y}, Writes: []int{y}},
			{Time: 3, Uses: []int{y, w, z}, Writes: []int{z}},
			{Time: 1, Uses: []int{x, z}, Writes: []int{x}},
			{Time: 1, Uses: []int{w, z}, Writes: []int{}},
		},
	}
	return s, swapping(s, 8, 1, fourByHand)
}

// readers returns two sequences in which f_1 reads x: f_3 does, too; or it is the
// last.
func readers() (reading, dying *functions.Sequence) {
	none := []int{}
	reading = &functions.Sequence{
		Variables: []functions.Variable{{ID: "x", Size: 2, Initial: functions.Device}, {ID: "z", Size: 2, Initial: functions.Host}},
		Functions: []functions.Function{
			{Time: 4, Uses: []int{0}, Writes: none},
			{Time: 1, Uses: []int{1}, Writes: none},
			{Time: 1, Uses: []int{0}, Writes: none},
		},
	}
	dying = &functions.Sequence{
		Variables: []functions.Variable{{ID: "x", Size: 2, Initial: functions.Device}, {ID: "y", Size: 2}},
		Functions: []functions.Function{{Time: 1, Uses: []int{0}, Writes: none}, {Time: 1, Uses: []int{1}}},
	}
	return reading, dying
}

// x goes out while f_1 still reads it, w by a drop.
const fourByHand = "1@0 out_x@0 in_w@0 2@4 drop_w@7 in_x@7 3@11 in_w@12 4@14"

// Plans whose replay is easily followed: makespan and peak.
func TestSwapByHand(t *testing.T) {
	s, _ := fourFunctions()
	// The host holds what out has sent: x, not written since it came back, goes
	// a second time at no cost. n takes no time and reads it.
	again := &functions.Sequence{
		Variables: []functions.Variable{{ID: "x", Size: 2}, {ID: "big", Size: 6}, {ID: "nothing"}},
		Functions: []functions.Function{
			{Time: 1, Uses: []int{0, 2}},
			{Time: 1, Uses: []int{1}},
			{Time: 0, Uses: []int{0}, Writes: []int{}},
			{Time: 1, Uses: []int{1}},
			{Time: 1, Uses: []int{0, 2}},
		},
	}
	none := []int{}
	// w is gone during f_2.
	dropped := &functions.Sequence{
		Variables: []functions.Variable{{ID: "w", Size: 2, Initial: functions.Host}, {ID: "y", Size: 2}},
		Functions: []functions.Function{
			{Time: 1, Uses: []int{0}, Writes: none},
			{Time: 1, Uses: []int{1}},
			{Time: 1, Uses: []int{0}, Writes: none},
		},
	}
	reading, dying := readers()
	for _, x := range []struct {
		name           string
		s              *functions.Sequence
		memory, beta   float64
		ops            string
		makespan, peak float64
		peakOp         int
	}{
		{"everything stays", s, 11, 1, "1@0 in_w@0 2@2 3@5 4@6", 7, 11, 2},
		{"everything moves", s, 8, 1, fourByHand, 15, 8, 2},
		{"w stays", s, 9, 1, "1@0 out_x@0 in_w@0 2@4 in_x@7 3@11 4@12", 13, 9, 4},
		{"faster links", s, 8, 2, "1@0 out_x@0 in_w@1 2@2 drop_w@5 in_x@5 3@7 in_w@8 4@9", 10, 8, 2},
		{"order of the rest", s, 8, 1, "in_w@12 in_x@7 1@0 2@4 3@11 4@14 drop_w@7 in_w@0 out_x@0", 15, 8, 7},
		{"at the last moment", s, 9, 1, "1@0 in_w@0 out_x@2 2@6 in_x@9 3@13 4@14", 15, 9, 4},
		{"a transfer after the end", s, 11, 1, "1@0 in_w@0 2@2 3@5 out_z@6 4@6", 7, 11, 2},
		{"twice by a drop", again, 8, 1, "1@0 out_x@1 2@1 in_x@3 3@5 drop_x@5 4@5 in_x@6 5@8", 9, 8, 2},
		{"no time, the last reader", again, 8, 1, "1@0 out_x@1 2@1 in_x@3 3@5 out_x@5 4@5 in_x@7 5@9", 10, 8, 2},
		{"in before function", s, 8, 1, "in_w@0 1@0 out_x@0 2@4 drop_w@7 in_x@7 3@11 in_w@12 4@14", 15, 8, 0},
		{"drop listed after the function", dropped, 2, 1, "in_w@0 1@2 2@3 drop_w@3 in_w@4 3@6", 7, 2, 0},
		{"sent, but still read", reading, 4, 1, "1@0 out_x@0 in_z@2 2@4 in_x@5 3@7", 8, 4, 2},
		{"not read any more, but still sent", dying, 4, 1, "1@0 out_x@0 2@1", 2, 4, 2},
		{"nothing moves at all", again, 8, 0, "1@0 2@1 3@2 4@2 5@3 in_nothing@0 drop_nothing@2 out_nothing@9", 4, 8, 1},
	} {
		t.Run(x.name, func(t *testing.T) {
			p := swapping(x.s, x.memory, x.beta, x.ops)
			r, err := swap.Verify(x.s, p)
			if err != nil {
				t.Fatal(err)
			}
			if len(r.Violations) != 0 {
				t.Fatalf("violations %+v", r.Violations)
			}
			if r.Makespan != x.makespan || r.PeakMemory != x.peak || r.PeakOp != x.peakOp {
				t.Errorf("makespan %g, peak %g with operation %d; want %g, %g with %d", r.Makespan, r.PeakMemory, r.PeakOp, x.makespan, x.peak,
					x.peakOp)
			}
			// One byte less is too little.
			p.Platform.Memory = x.peak - 1
			if r, err = swap.Verify(x.s, p); err != nil || len(r.Violations) == 0 {
				t.Fatalf("%v, violations %+v", err, r.Violations)
			}
			for _, v := range r.Violations {
				if v.Rule != plan.RuleMemory {
					t.Errorf("violation %+v with a byte less", v)
				}
			}
		})
	}
}

// Every change of a valid plan breaks the rule that it is meant to break, and no
// other. Memory is ample but where it is the rule.
func TestSwapMutations(t *testing.T) {
	for _, x := range []struct {
		name, ops string
		rules     []string // once each
		detail    string   // of the first
	}{
		{
			"out too late", "1@0 out_x@1 in_w@0 2@4 drop_w@7 in_x@7 3@11 in_w@12 4@14",
			[]string{plan.RuleMemory},
			"memory reaches 11 of 8 with the start of run f_2",
		},
		{
			"in too early", "1@0 out_x@0 in_w@0 2@4 drop_w@7 in_x@6 3@11 in_w@12 4@14",
			[]string{plan.RuleMemory},
			"with the start of in x: 7 of variables on the GPU, 4 on their way in",
		},
		{
			"f_3 too early", "1@0 out_x@0 in_w@0 2@4 drop_w@7 in_x@7 3@10 in_w@12 4@14",
			[]string{plan.RuleMissingInput},
			"f_3 uses x, which is still on its way in",
		},
		{"no in", "1@0 out_x@0 in_w@0 2@4 drop_w@7 3@11 in_w@12 4@14", []string{plan.RuleMissingInput}, "f_3 uses x, which is on the host only"},
		{
			"f_2 too early", "1@0 out_x@0 in_w@0 2@1 drop_w@7 in_x@7 3@11 in_w@12 4@14",
			[]string{plan.RuleMissingInput, plan.RuleOverlap},
			"f_2 uses w, which is still on its way in",
		},
		{
			"no drop, and in", "1@0 out_x@0 in_w@0 2@4 in_x@8 3@12 in_w@13 4@15",
			[]string{plan.RulePrefetch},
			"in w fetches a variable that is on the GPU, or on its way there",
		},
		{
			"drop, no in", "1@0 out_x@0 in_w@0 2@4 drop_w@7 in_x@7 3@11 4@14",
			[]string{plan.RuleMissingInput},
			"f_4 uses w, which is on the host only",
		},
		{
			"drop in use", "1@0 out_x@0 in_w@0 2@4 drop_w@6 in_x@7 3@11 in_w@12 4@14",
			[]string{plan.RuleDiscardUsed, plan.RulePrefetch},
			"drop w discards a variable that a running function uses",
		},
		{
			"drop on the way out", "1@0 out_x@0 drop_x@3 in_w@0 2@4 drop_w@7 in_x@7 3@11 in_w@12 4@14",
			[]string{plan.RuleDiscardUsed},
			"on its way out",
		},
		{
			"drop of what is gone", "1@0 out_x@0 in_w@0 2@4 drop_w@7 drop_x@5 in_x@7 3@11 in_w@12 4@14",
			[]string{plan.RuleNotStored},
			"drop x discards a variable that is not on the GPU",
		},
		{
			"drop without a copy", "1@0 drop_x@2 in_w@0 2@4 drop_w@7 in_x@7 3@11 in_w@12 4@14",
			[]string{plan.RuleHostStale},
			"drop x discards a value of which the host holds no copy",
		},
		{
			"drop after the last use", "1@0 out_x@0 in_w@0 2@4 drop_w@7 in_x@7 3@11 drop_x@12 in_w@12 4@14",
			[]string{plan.RuleNotStored},
			"its last use is over",
		},
		{
			"out of what is gone", "1@0 out_x@0 in_w@0 2@4 drop_w@7 out_x@4 in_x@8 3@12 in_w@13 4@15",
			[]string{plan.RuleNotStored},
			"out x sends a variable that is not on the GPU",
		},
		{"out before it is made", "1@0 out_x@3 in_w@0 2@7 drop_w@10 out_z@0 in_x@10 3@14 in_w@15 4@17", []string{plan.RuleNotStored}, "out z"},
		{
			"out while it is made", "1@0 out_x@0 in_w@0 2@4 drop_w@7 out_z@6 in_x@9 in_z@13 3@16 in_w@17 4@19",
			[]string{plan.RuleOutWritten},
			"out z starts while a function changes the variable",
		},
		{"in of what is there", "1@0 out_x@0 in_w@0 in_w@2 2@4 drop_w@7 in_x@7 3@11 in_w@12 4@14", []string{plan.RulePrefetch}, ""},
		{
			"in of what is coming", "1@0 out_x@0 in_w@0 in_w@1 2@4 drop_w@7 in_x@7 3@11 in_w@12 4@14",
			[]string{plan.RuleLinkOverlap, plan.RulePrefetch},
			"",
		},
		{"in before the host has it", "1@0 out_x@0 in_w@0 in_x@3 2@7 drop_w@10 3@11 in_w@12 4@14", []string{plan.RulePrefetch}, ""},
		{
			"in after the last use", "1@0 out_x@0 in_w@0 2@4 drop_w@7 in_x@7 3@11 in_w@12 4@14 in_y@15",
			[]string{plan.RuleHostAbsent},
			"its last use is over",
		},
		{
			"in of what was never sent", "1@0 out_x@0 in_z@2 in_w@0 2@5 drop_w@8 in_x@8 3@12 in_w@13 4@15",
			[]string{plan.RuleHostAbsent},
			"in z fetches a variable of which the host holds no valid copy",
		},
		{
			"two ins at once", "1@0 out_x@0 in_w@0 2@4 drop_w@7 in_x@7 3@12 in_w@10.5 4@14",
			[]string{plan.RuleLinkOverlap},
			"in w starts 0.5 s before in x ends",
		},
		{
			"two functions at once", "1@0 out_x@0 in_w@0 2@4 drop_w@7 in_x@7 3@11 in_w@12 4@11.5",
			[]string{plan.RuleMissingInput, plan.RuleOverlap, plan.RulePrefetch},
			"",
		},
		{
			"functions in another order", "2@4 1@0 out_x@0 in_w@0 drop_w@7 in_x@7 3@11 in_w@12 4@14",
			[]string{plan.RuleOrder, plan.RuleOrder},
			"f_1 (first) comes after f_2",
		},
		{
			"a function twice", "1@0 out_x@0 in_w@0 2@4 drop_w@7 in_x@7 3@11 in_w@12 4@14 2@15",
			[]string{plan.RuleRepeated},
			"f_2 runs a second time",
		},
		{"a function is missing", "1@0 out_x@0 in_w@0 2@4 drop_w@7 in_x@7 3@11", []string{plan.RuleMissing}, "f_4 is missing"},
		{
			"a function that is not there", "1@0 out_x@0 in_w@0 2@4 drop_w@7 in_x@7 3@11 in_w@12 4@14 5@15",
			[]string{plan.RuleFunction},
			"run is of function 5; the sequence has functions 1 to 4",
		},
		{"function 0", "0@0 1@0 out_x@0 in_w@0 2@4 drop_w@7 in_x@7 3@11 in_w@12 4@14", []string{plan.RuleFunction}, "function 0"},
		{
			"a variable that is not there", "1@0 out_x@0 in_w@0 2@4 drop_w@7 in_x@7 3@11 in_w@12 4@14 in_q@15",
			[]string{plan.RuleVariable},
			`in is of variable "q"`,
		},
		{
			"another kind", "1@0 out_x@0 in_w@0 2@4 drop_w@7 in_x@7 3@11 in_w@12 4@14 P_x@15",
			[]string{plan.RuleUnknownOp},
			`operation "P" is unknown in swap`,
		},
		{"before time 0", "1@-1 out_x@0 in_w@0 2@4 drop_w@7 in_x@7 3@11 in_w@12 4@14", []string{plan.RuleTime}, "starts 1 s before time 0"},
	} {
		t.Run(x.name, func(t *testing.T) {
			s, _ := fourFunctions()
			memory := 20.0
			if slices.Contains(x.rules, plan.RuleMemory) {
				memory = 8
			}
			r, err := swap.Verify(s, swapping(s, memory, 1, x.ops))
			if err != nil {
				t.Fatal(err)
			}
			wantRules(t, r, x.rules, x.detail)
		})
	}
	reading, dying := readers()
	for _, x := range []struct {
		name, ops string
		s         *functions.Sequence
		rules     []string
		detail    string
	}{
		{"out of what has been sent", "1@0 out_x@0 out_x@2 in_z@2 2@4 in_x@5 3@7", reading, []string{plan.RuleNotStored}, ""},
		{"in of what has been sent, but not used since", "1@0 out_x@0 2@1 in_x@2", dying, []string{plan.RuleHostAbsent}, "its last use is over"},
		{"in of what is still read", "1@0 out_x@0 in_x@2 in_z@4 2@6 3@7", reading, []string{plan.RulePrefetch}, ""},
	} {
		t.Run(x.name, func(t *testing.T) {
			r, err := swap.Verify(x.s, swapping(x.s, 20, 1, x.ops))
			if err != nil {
				t.Fatal(err)
			}
			wantRules(t, r, x.rules, x.detail)
		})
	}
	for _, x := range []struct {
		name   string
		edit   func(p *plan.Plan)
		rules  []string
		detail string
	}{
		{"a short function", func(p *plan.Plan) { p.Ops[0].End = 1 }, []string{plan.RuleDuration}, "run f_1 takes 1 s; it must take 2 s"},
		{"a short transfer", func(p *plan.Plan) { p.Ops[1].End = 3 }, []string{plan.RuleDuration}, "out x takes 3 s; it must take 4 s"},
		{"a drop that takes time", func(p *plan.Plan) { p.Ops[4].End = 8 }, []string{plan.RuleDuration}, ""},
		{
			"an end before the start", func(p *plan.Plan) { p.Ops[8].Start, p.Ops[8].End = 15, 14 },
			[]string{plan.RuleTime},
			"ends 1 s before it starts",
		},
		{"no number", func(p *plan.Plan) { p.Ops[0].Start = math.NaN() }, []string{plan.RuleTime}, ""},
		{"a tensor", func(p *plan.Plan) { p.Ops[0].Tensor = "w" }, []string{plan.RuleMissing, plan.RuleUnknownOp}, ""},
		{"a layer", func(p *plan.Plan) { p.Ops[4].Layer = 2 }, []string{plan.RulePrefetch, plan.RuleUnknownOp}, ""},
		{"function and variable", func(p *plan.Plan) { p.Ops[8].Variable = "x" }, []string{plan.RuleMissing, plan.RuleUnknownOp}, ""},
		{
			"variable and function", func(p *plan.Plan) { p.Ops[4].Function = 1 },
			[]string{plan.RulePrefetch, plan.RuleUnknownOp},
			"drop w has function 1; it has a variable",
		},
		{"too little from the start", func(p *plan.Plan) { p.Platform.Memory = 3 }, nil, "4 are stored at the start; there is memory for 3"},
	} {
		t.Run(x.name, func(t *testing.T) {
			s, p := fourFunctions()
			p.Platform.Memory = 20
			x.edit(p)
			r, err := swap.Verify(s, p)
			if err != nil {
				t.Fatal(err)
			}
			if x.rules == nil && len(r.Violations) == 0 {
				t.Error("no violation")
			}
			wantRules(t, r, x.rules, x.detail)
		})
	}
}

// wantRules checks which rules are broken (nil: any), and that one of the
// details reads so.
func wantRules(t *testing.T, r *plan.Report, rules []string, detail string) {
	t.Helper()
	var broken []string
	found := detail == ""
	for _, v := range r.Violations {
		broken = append(broken, v.Rule)
		found = found || strings.Contains(v.Detail, detail)
	}
	slices.Sort(broken)
	if rules != nil && !slices.Equal(broken, rules) || !found {
		t.Errorf("want %q: %s; got %q, violations %+v", rules, detail, broken, r.Violations)
	}
}

// By default a function writes all it uses, so an out has to wait for its end
// and there is nothing to drop.
func TestSwapWritesByDefault(t *testing.T) {
	s, _ := fourFunctions()
	for i := range s.Functions {
		s.Functions[i].Writes = nil
	}
	for ops, rules := range map[string][]string{
		fourByHand: {plan.RuleHostStale, plan.RuleOutWritten},
		"1@0 in_w@0 out_x@2 2@6 out_w@9 in_x@9 3@13 in_w@14 4@16": nil,
	} {
		r, err := swap.Verify(s, swapping(s, 9, 1, ops))
		if err != nil {
			t.Fatal(err)
		}
		if rules == nil {
			rules = []string{}
		}
		broken := []string{}
		for _, v := range r.Violations {
			broken = append(broken, v.Rule)
		}
		slices.Sort(broken)
		if !slices.Equal(broken, rules) {
			t.Errorf("%s: violations %+v, want %q", ops, r.Violations, rules)
		}
	}
}

// What is simultaneous but for rounding is in order: ends, what takes no time as
// it is listed, starts, ins.
func TestSwapRounding(t *testing.T) {
	s, p := fourFunctions()
	for k := range p.Ops {
		shift := 3e-10 * float64(k%3-1) // of a horizon of 15
		p.Ops[k].Start, p.Ops[k].End = p.Ops[k].Start+shift, p.Ops[k].End+shift
	}
	r, err := swap.Verify(s, p)
	if err != nil || len(r.Violations) != 0 {
		t.Errorf("%v, violations %+v", err, r.Violations)
	}
}

// Transfers that are each short by less than can be seen do not gain time by
// their number.
func TestSwapManyRoundings(t *testing.T) {
	const n = 200
	b := functions.NewBuilder("many")
	var all []int
	for i := range n {
		all = append(all, b.Variable(strconv.Itoa(i), 1, functions.Device))
	}
	b.Function("", functions.Unknown, n)
	b.Reads(all...)
	s := b.End()
	for short, rules := range map[float64][]string{0: {}, 0.9e-9 * n: {plan.RuleDuration}} {
		p := plan.New(plan.Swap, "by hand", s, platform.Platform{Memory: n, Bandwidth: 1})
		p.Ops = append(p.Ops, plan.Op{Op: plan.OpRun, Function: 1, End: n})
		for i := range n {
			start := float64(i) * (1 - short)
			p.Ops = append(p.Ops, plan.Op{Op: plan.OpOut, Variable: strconv.Itoa(i), Start: start, End: start + 1 - short})
		}
		r, err := swap.Verify(s, p)
		if err != nil {
			t.Fatal(err)
		}
		wantRules(t, r, rules, "")
	}
}

// The memory in use over time, and what is taken and given back.
func TestSwapMemoryProfile(t *testing.T) {
	s, p := fourFunctions()
	steps, err := verify.Profile(s, p)
	if err != nil {
		t.Fatal(err)
	}
	got := ""
	for _, m := range steps {
		got += fmt.Sprintf("%g–%g: %g+%g ", m.Start, m.End, m.During.Activations, m.During.Saved)
		if m.During.Total() != m.During.Activations+m.During.Saved {
			t.Errorf("other parts: %+v", m)
		}
	}
	if want := "0–2: 6+2 2–4: 8+0 4–7: 7+0 7–11: 3+4 11–12: 7+0 12–14: 3+2 14–15: 5+0 "; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	events, err := swap.Allocations(s, p)
	if err != nil {
		t.Fatal(err)
	}
	got = ""
	for _, e := range events {
		sign := "+"
		if e.Free {
			sign = "-"
		}
		got += fmt.Sprintf("%s%s@%g#%d ", sign, s.Variables[e.Variable].ID, e.Time, e.Op)
	}
	if want := "+x@0#-1 +y@0#0 +w@0#2 -x@4#1 +z@4#3 -y@7#3 -w@7#4 +x@7#5 -x@12#6 +w@12#7 -w@15#8 -z@15#8 "; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestSwapSummary(t *testing.T) {
	s, p := fourFunctions()
	sum, err := verify.Summarize(s, p)
	if err != nil {
		t.Fatal(err)
	}
	want := &swap.Summary{
		About: replay.About{Problem: plan.Swap, Method: "by hand", Instance: "four"}, Functions: 4, Variables: 4,
		Makespan: 15, Compute: 7, Idle: 8, Peak: replay.Peak{Memory: 8, PeakMemory: 8, PeakOp: "in w"}, Bandwidth: 1,
		In:    replay.Traffic{Transfers: 3, Bytes: 8, Busy: 8. / 15},
		Out:   replay.Traffic{Transfers: 1, Bytes: 4, Busy: 4. / 15},
		Drops: 1, Leaving: 2,
	}
	if diff := cmp.Diff(want, sum); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	p.Ops[0].Start++
	broken, err := swap.Summarize(s, p)
	if err != nil {
		t.Fatal(err)
	}
	testfile.Golden(t, "swap.summary", sum.String()+broken.String())
}

// What cannot be replayed is an error, whichever way it is asked.
func TestSwapNothingToReplay(t *testing.T) {
	s, _ := fourFunctions()
	huge := *s
	huge.Variables = slices.Clone(s.Variables)
	huge.Variables[1].Size = 1e308
	period := 1.0
	for _, x := range []struct {
		name string
		s    *functions.Sequence
		edit func(p *plan.Plan)
		want string
	}{
		{"no functions", &functions.Sequence{}, nil, "the instance is not valid: functions: a sequence needs"},
		{"too large", &huge, nil, "all sizes together are"},
		{"period", s, func(p *plan.Plan) { p.Period = &period }, "plans of swap do not repeat"},
		{"memory", s, func(p *plan.Plan) { p.Platform.Memory = math.NaN() }, "platform.memory is NaN"},
		{
			"no bandwidth", s, func(p *plan.Plan) { p.Platform.Bandwidth = 0 },
			"platform.bandwidth is 0; it must be a positive number of bytes per second for out x",
		},
		{"negative bandwidth", s, func(p *plan.Plan) { p.Platform.Bandwidth = -1 }, "platform.bandwidth is -1"},
	} {
		t.Run(x.name, func(t *testing.T) {
			_, p := fourFunctions()
			if x.edit != nil {
				x.edit(p)
			}
			in := x.s
			_, verified := verify.Replay(in, p)
			_, profiled := verify.Profile(in, p)
			_, summed := verify.Summarize(in, p)
			_, allocated := swap.Allocations(x.s, p)
			for _, err := range []error{verified, profiled, summed, allocated} {
				if !errors.Is(err, plan.ErrUnreadable) || !strings.Contains(err.Error(), x.want) {
					t.Errorf("error %v, want %s", err, x.want)
				}
			}
		})
	}
	_, p := fourFunctions()
	p.Problem = plan.Remat
	if _, err := verify.Replay(s, p); !errors.Is(err, plan.ErrProblem) || !strings.Contains(err.Error(), "on a functions") {
		t.Errorf("error %v", err)
	}
	for _, err := range []error{second(swap.Verify(nil, p)), second(swap.Verify(s, nil)), second(swap.Verify(s, p))} {
		if !errors.Is(err, plan.ErrUnreadable) {
			t.Errorf("error %v", err)
		}
	}
}

// Plans of swapping are written and read as they are.
func TestSwapFile(t *testing.T) {
	_, p := fourFunctions()
	p.Claims = plan.Claims{Makespan: 15, PeakMemory: 8}
	var b bytes.Buffer
	if err := p.Write(&b); err != nil {
		t.Fatal(err)
	}
	if err := testfile.Schema(t, "plan-v1.json")(b.String()); err != nil {
		t.Error(err)
	}
	again, err := plan.Read(bytes.NewReader(b.Bytes()), "plan.json")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(p, again); diff != "" {
		t.Errorf("(-written +read):\n%s", diff)
	}
	for _, want := range []string{`{"op":"run","function":1,"start":0,"end":2}`, `{"op":"out","variable":"x","start":0,"end":4}`} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%s is not in\n%s", want, b.String())
		}
	}
}
