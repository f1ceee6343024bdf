package rematoffload

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"workbench/model/exhaustive"
	optimumrematoffload "workbench/model/exhaustive/rematoffload"
	"workbench/model/plan"
	"workbench/model/platform"
	view "workbench/model/problem/rematoffload"
	"workbench/model/testcase/random"
	"workbench/model/testfile"
	"workbench/model/zoo"
)

// Optimum is the truth: that of exhaustive search at thirds of the unit of time, or at
// most a third better for an offload that ends right after a computation has started.
func TestOptimum(t *testing.T) {
	const finer = 3
	r := testfile.Random(t, 5, 7)
	same, better, far := 0, 0, 0
	for trial := range testfile.Cases(120) {
		n := 1 + r.IntN(5)
		c := random.Chain(r, n)
		least, _ := view.Least(c)
		_, high := view.Range(c)
		memory := math.Floor(least + r.Float64()*(high-least))
		pace := 1.0
		if n <= 3 {
			pace = finer
		}
		want, _, err := optimumrematoffload.Search(random.Pace(c, pace), memory, 1/pace, 100_000)
		if errors.Is(err, exhaustive.ErrLimit) || errors.Is(err, exhaustive.ErrTooHard) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		want /= pace
		o, err := Optimum(t.Context(), c, platform.Platform{Memory: memory, Bandwidth: 1}, nil, 0)
		if err != nil {
			t.Errorf("trial %d: %+v in %v: %v, exhaustive search has %v s", trial, c, memory, err, want)
			continue
		}
		got := verified(t, c, o.Plan)
		switch {
		case !o.Proved || o.Value > got*(1+plan.Tolerance):
			t.Errorf("trial %d: %+v in %v: %v s, bound %v s", trial, c, memory, got, o.Value)
		case got > want*(1+optimumTolerance):
			t.Errorf("trial %d: %+v in %v: %v s, exhaustive search %v s", trial, c, memory, got, want)
		case got < want-float64(n)/pace:
			t.Errorf("trial %d: %+v in %v: %v s, exhaustive search needs %v s at whole times", trial, c, memory, got, want)
		case got < want*(1-optimumTolerance):
			better++
		default:
			same++
		}
		if n == 5 {
			far++
		}
	}
	t.Logf("%d as exhaustive search, %d of 5 layers, %d better", same, far, better)
	if same < testfile.Cases(120)*9/10 || far == 0 {
		t.Errorf("only %d as exhaustive search, %d of 5 layers", same, far)
	}
}

// From a better plan, or within a gap, less is to be done, and what is proved is no
// more than the truth; cut off, it is what the states that are left say.
func TestOptimumIsCutOff(t *testing.T) {
	c, err := zoo.Load("zoo:bert?layers=6")
	if err != nil {
		t.Fatal(err)
	}
	low, high := view.Range(c)
	p := platform.Platform{Memory: math.Floor(low + 0.3*(high-low)), Bandwidth: 12e9}
	start, err := PureRemat(t.Context(), c, p)
	if err != nil {
		t.Fatal(err)
	}
	best, err := Optimum(t.Context(), c, p, start, 0)
	if err != nil {
		t.Fatal(err)
	}
	makespan := verified(t, c, best.Plan)
	if !best.Proved || makespan >= start.Claims.Makespan {
		t.Errorf("proved: %v, %v s, without transfers %v s", best.Proved, makespan, start.Claims.Makespan)
	}
	again, err := Optimum(t.Context(), c, p, best.Plan, 0.01)
	if err != nil || !again.Proved || again.Plan != best.Plan || again.Value > makespan {
		t.Errorf("within 1 %%: %+v, %v", again, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	cut, err := Optimum(ctx, c, p, start, 0)
	if err != nil || cut.Proved || cut.Plan != start || cut.Value > best.Value || !strings.HasPrefix(cut.By, "the search for the optimum") {
		t.Errorf("cut off: %+v, %v", cut, err)
	}
	none, err := Optimum(ctx, c, p, nil, 0)
	if !errors.Is(err, plan.ErrNoPlan) || none == nil || none.Value > best.Value {
		t.Errorf("cut off without a plan: %+v, %v", none, err)
	}
	if _, err := Optimum(t.Context(), c, platform.Platform{Memory: p.Memory}, nil, 0); !errors.Is(err, plan.ErrNoPlan) {
		t.Errorf("without a link: %v", err)
	}
}
