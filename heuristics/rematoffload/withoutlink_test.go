package rematoffload

import (
	"errors"
	"math"
	"testing"

	"workbench/model/exhaustive"
	optimum "workbench/model/exhaustive/rematoffload"
	"workbench/model/plan"
	"workbench/model/platform"
	view "workbench/model/problem/rematoffload"
	"workbench/model/testcase/random"
	"workbench/model/testfile"
)

// WithoutLink is the truth: that of exhaustive search over a link so slow
// that the least transfer takes longer than the fastest plan.
func TestOptimumWithoutLink(t *testing.T) {
	const slow = 25 // seconds a byte
	r := testfile.Random(t, 5, 6)
	proved, none := 0, 0
	for range testfile.Cases(300) {
		c := random.Chain(r, 1+r.IntN(3))
		least, _ := view.Least(c)
		_, high := view.Range(c)
		memory := math.Floor(least + (0.2+r.Float64())*(high-least))
		want, _, err := optimum.Search(c, memory, 1.0/slow, 1_000_000)
		if errors.Is(err, exhaustive.ErrLimit) || errors.Is(err, exhaustive.ErrTooHard) {
			continue
		}
		p, bound, none1 := WithoutLink(t.Context(), c, platform.Platform{Memory: memory})
		switch {
		case errors.As(none1, new(*plan.Infeasible)):
			if none++; err == nil && want < slow {
				t.Errorf("%+v in %v: %v, exhaustive search has %v s", c, memory, none1, want)
			}
		case none1 != nil:
			t.Errorf("%+v in %v: %v", c, memory, none1)
		case err != nil:
			t.Errorf("%+v in %v: %v s, exhaustive search: %v", c, memory, p.Claims.Makespan, err)
		default:
			if got := verified(t, c, p); got < want*(1-plan.Tolerance) || bound > got*(1+plan.Tolerance) || want < slow &&
				(got > want*(1+plan.Tolerance) || bound < want*(1-plan.Tolerance)) {
				t.Errorf("%+v in %v: %v s, bound %v s, exhaustive search %v s", c, memory, got, bound, want)
			}
			if want < slow {
				proved++
			}
		}
	}
	t.Logf("%d proved, %d infeasible", proved, none)
	if proved < testfile.Cases(300)/4 || none == 0 {
		t.Errorf("only %d proved, %d infeasible", proved, none)
	}
}
