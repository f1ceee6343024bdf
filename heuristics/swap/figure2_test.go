package swap

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"workbench/model/instance/functions"
	"workbench/model/plan"
	"workbench/model/platform"
	view "workbench/model/problem/swap"
	"workbench/model/testfile"
)

// figure2 has the variable-sequence a b | b c | c d | a d, all of one byte, and
// functions of 2 s, two forward and two backward. Links carry 1 byte a second.
func figure2(memory float64) (*functions.Sequence, platform.Platform) {
	const a, b, c, d = 0, 1, 2, 3
	s := &functions.Sequence{Name: "figure-2", Functions: []functions.Function{
		{Kind: functions.Forward, Time: 2, Uses: []int{a, b}},
		{Kind: functions.Forward, Time: 2, Uses: []int{b, c}},
		{Kind: functions.Backward, Time: 2, Uses: []int{c, d}},
		{Kind: functions.Backward, Time: 2, Uses: []int{a, d}},
	}}
	for _, id := range []string{"a", "b", "c", "d"} {
		s.Variables = append(s.Variables, functions.Variable{ID: id, Size: 1})
	}
	return s, platform.Platform{Memory: memory, Bandwidth: 1}
}

// same fails unless a method's plan is this one: operations at their starts.
func same(t *testing.T, s *functions.Sequence, p *plan.Plan, err error, want ...string) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	verified(t, s, p)
	var got []string
	for i := range p.Ops {
		got = append(got, fmt.Sprintf("%s %g", p.Ops[i].String(), p.Ops[i].Start))
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n%s\nwant\n%s", p.Method, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// The four cases of [003] Figure 2, by hand.
func TestWindowByHand(t *testing.T) {
	ctx := context.Background()

	// Schedule-window 2, M = 3. f_1: a and b come into the window and are made
	// there; (c) reserves their swap-outs. f_2: b comes into the window and is
	// reserved already, so (d) it stays; with a reserved, b and c memory is full,
	// nothing is exceeded. (d) b is not used again. f_3: c stays; a, c, d. f_4: a
	// is reserved, but still there: it stays. No swap-out was waited for.
	s, p := figure2(3)
	got, err := Window(ctx, s, p, 2)
	same(t, s, got, err, "run f_1 0", "run f_2 2", "run f_3 4", "run f_4 6")

	// M = 2. (b) For c at f_2 the oldest swap-out, that of a, is waited for: it
	// began when f_1 ended, f_2 starts when it has ended. At f_4 (a): a is on the
	// CPU; it is swapped in when it comes into the window, at the end of f_3.
	s, p = figure2(2)
	got, err = Window(ctx, s, p, 2)
	same(t, s, got, err, "run f_1 0", "out a 2", "run f_2 3", "run f_3 5", "in a 7", "run f_4 8")

	// Schedule-window 4, M = 3: a b b c at f_1, the repeated b counts twice. b is
	// in the next window, so (d) it is not reserved; a is. At f_2 the window is b
	// c c d; for d (b) a is waited for. At f_3 it is c d a d: (a) a is swapped in at the
	// end of f_2, while f_3 runs.
	s, p = figure2(3)
	got, err = Window(ctx, s, p, 4)
	same(t, s, got, err, "run f_1 0", "out a 2", "run f_2 3", "in a 5", "run f_3 5", "run f_4 7")

	// What only is read and comes from the host is dropped, not sent: w, read by
	// f_1 and f_3, which does not fit beside b and c.
	s = &functions.Sequence{
		Variables: []functions.Variable{{ID: "w", Size: 1, Initial: functions.Host}, {ID: "b", Size: 1}, {ID: "c", Size: 1}},
		Functions: []functions.Function{
			{Time: 1, Uses: []int{0, 1}, Writes: []int{1}},
			{Time: 1, Uses: []int{1, 2}},
			{Time: 1, Uses: []int{0}, Writes: []int{}},
		},
	}
	got, err = Window(ctx, s, platform.Platform{Memory: 2, Bandwidth: 1}, 2)
	same(t, s, got, err, "in w 0", "run f_1 1", "drop w 2", "run f_2 2", "in w 3", "run f_3 4")
}

// The same sequence by the other methods. The distances are 3 for a, 1 for the others.
func TestOtherMethodsByHand(t *testing.T) {
	ctx := context.Background()
	moved := []string{"run f_1 0", "out a 2", "run f_2 2", "in a 4", "run f_3 4", "run f_4 6"}
	stays := []string{"run f_1 0", "run f_2 2", "run f_3 4", "run f_4 6"}
	s, p := figure2(3)

	// a moves if 3 > threshold, out after f_1, in right before f_3 with one ahead.
	got, err := LMS(ctx, s, p, 2, 1)
	same(t, s, got, err, moved...)
	got, err = LMS(ctx, s, p, 3, 1)
	same(t, s, got, err, stays...)
	got, err = LMS(ctx, s, p, 1, 2) // in right before f_2: there is no function in between
	same(t, s, got, err, stays...)
	// As printed, a moves if 3 ≤ threshold.
	got, err = LMSPrinted(ctx, s, p, 3, 1)
	same(t, s, got, err, moved...)
	got, err = LMSPrinted(ctx, s, p, 2, 1)
	same(t, s, got, err, stays...)
	// The last forward that uses a is f_1, the first backward f_4.
	got, err = VDNNSwap(ctx, s, p)
	same(t, s, got, err, moved...)
	got, err = Naive(ctx, s, p)
	same(t, s, got, err, "run f_1 0", "out a 2", "out b 3", "in b 4", "run f_2 5", "out c 7", "in c 8", "run f_3 9",
		"out d 11", "in a 12", "in d 13", "run f_4 14")
	// The bounds: all fits; one byte must be away during f_2, for which f_1 must
	// have ended, and d, made by f_3, leaves no room for a before f_3 has.
	bounds, err := view.Bounds(s, p)
	if err != nil || math.Abs(bounds[0].Value-8) > 1e-9 {
		t.Errorf("%v %v", bounds, err)
	}
	s, p = figure2(2)
	if bounds, err = view.Bounds(s, p); err != nil || bounds[0].By != "the transfers that memory forces" || bounds[0].Value < 10*(1-1e-9) ||
		bounds[0].Value > 10 {
		t.Errorf("%v %v", bounds, err)
	}
	for _, m := range []string{"lms", "vdnn"} { // f_3 and a do not fit
		if m == "lms" {
			_, err = LMS(ctx, s, p, 2, 1)
		} else {
			_, err = VDNNSwap(ctx, s, p)
		}
		if !errors.Is(err, plan.ErrNoPlan) || !strings.Contains(err.Error(), "f_3 does not fit") {
			t.Errorf("%s: %v", m, err)
		}
	}
}

// unmarked returns a sequence of which nothing says what is a backward.
func unmarked(s *functions.Sequence) *functions.Sequence {
	q := *s
	q.Functions = slices.Clone(s.Functions)
	for i := range q.Functions {
		q.Functions[i].Kind = functions.Unknown
	}
	return &q
}

// A sequence without backwards keeps all where that fits.
func TestUnmarked(t *testing.T) {
	s, p := figure2(9)
	q, err := VDNNSwap(context.Background(), unmarked(s), p)
	if err != nil || slices.ContainsFunc(q.Ops, func(o plan.Op) bool { return o.Op == plan.OpOut }) {
		t.Errorf("%+v, %v", q, err)
	}
}

// Input that means nothing is a clear error, too little memory a proof.
func TestErrors(t *testing.T) {
	ctx := context.Background()
	s, p := figure2(2)
	for _, x := range []struct {
		name string
		run  func() (*plan.Plan, error)
		is   error
		says string
	}{
		{"a small window", func() (*plan.Plan, error) { return Window(ctx, s, p, 1) }, ErrParameter, "f_1 alone has variables of 2 bytes"},
		{"a threshold", func() (*plan.Plan, error) { return LMS(ctx, s, p, -1, 1) }, ErrParameter, "at least 0 and 1"},
		{"an ahead", func() (*plan.Plan, error) { return LMS(ctx, s, p, 1, 0) }, ErrParameter, "at least 0 and 1"},
		{"nothing", func() (*plan.Plan, error) { return Naive(ctx, nil, p) }, view.ErrSequence, "none"},
		{"no functions", func() (*plan.Plan, error) { return Naive(ctx, &functions.Sequence{}, p) }, view.ErrSequence, "at least one function"},
		{"no link", func() (*plan.Plan, error) { return Naive(ctx, s, platform.Platform{Memory: 3}) }, view.ErrPlatform, "bandwidth is 0"},
		{
			"a memory", func() (*plan.Plan, error) { return Naive(ctx, s, platform.Platform{Memory: -1, Bandwidth: 1}) }, view.ErrPlatform,
			"memory is -1",
		},
		{"no kinds", func() (*plan.Plan, error) {
			return VDNNSwap(ctx, unmarked(s), p)
		}, plan.ErrNoPlan, "no function of"},
	} {
		if q, err := x.run(); q != nil || !errors.Is(err, x.is) || !strings.Contains(err.Error(), x.says) {
			t.Errorf("%s: %v", x.name, err)
		}
	}
	p.Memory = 1
	for _, m := range methods() {
		var infeasible *plan.Infeasible
		if _, err := m.run(ctx, s, p); !errors.As(err, &infeasible) || infeasible.Memory != 2 ||
			!strings.Contains(err.Error(), "f_1 needs its 2 variables") {
			t.Errorf("%s: %v", m.name, err)
		}
	}
}

// A context that has ended leaves a plan or wraps its error.
func TestEndOfContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	s, p := figure2(2)
	for _, m := range methods() {
		q, err := m.run(ctx, s, p)
		switch {
		case err == nil:
			verified(t, s, q)
		case !errors.Is(err, context.Canceled) || !errors.Is(err, plan.ErrNoPlan):
			t.Errorf("%s: %v", m.name, err)
		}
	}
	if _, err := Search(ctx, s, p, 1); err != nil {
		t.Errorf("search leaves nothing: %v", err)
	}
}

// The same seed gives the same plan.
func TestSearchIsDeterministic(t *testing.T) {
	s, _ := figure2(2)
	for range 3 {
		s.Functions = append(s.Functions, s.Functions...)
	}
	for seed := range uint64(testfile.Cases(3)) {
		var first *plan.Plan
		for range 2 {
			q, err := Search(context.Background(), s, platform.Platform{Memory: 2, Bandwidth: 1}, seed)
			if err != nil {
				t.Fatal(err)
			}
			if first == nil {
				first = q
			} else if !slices.Equal(first.Ops, q.Ops) {
				t.Errorf("seed %d: two plans", seed)
			}
		}
	}
}
