package pipeline_test

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"workbench/model/exhaustive"
	optimum "workbench/model/exhaustive/pipeline"
	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	view "workbench/model/problem/pipeline"
	"workbench/model/problem/pipeline/pipelinetest"
	"workbench/model/testfile"
)

// decisions is what exhaustive search may take.
const decisions = 1 << 17

// With the least memory there is a plan, with a unit less there is none, and
// what is said of it is the same from there.
func TestLeastEqualsExhaustive(t *testing.T) {
	t.Parallel()
	testfile.Property(t, func(t *rapid.T) {
		x := pipelinetest.Draw(t, 5)
		in, err := view.New(x.Chain, x.Platform, x.Model)
		if err != nil {
			t.Fatal(err)
		}
		least := in.Least()
		if least.Low != least.High {
			t.Fatalf("from %v to %v", least.Low, least.High)
		}
		at := func(memory float64) (proved, searched error) {
			p := x.Platform
			p.Memory = memory
			in, err := view.New(x.Chain, p, x.Model)
			if err != nil {
				t.Fatal(err)
			}
			_, _, searched = optimum.Search(x.Chain, p, x.Model, decisions)
			return in.Infeasible(), searched
		}
		if least.High > 0 {
			if proved, searched := at(least.High); proved != nil || searched != nil && !errors.Is(searched, exhaustive.ErrLimit) {
				t.Fatalf("at %v: %v, exhaustive search: %v", least.High, proved, searched)
			}
		}
		if least.High > 1 {
			proved, searched := at(least.High - 1)
			var infeasible *plan.Infeasible
			if !errors.As(proved, &infeasible) || infeasible.Memory != least.High {
				t.Fatalf("a unit below %v: %v", least.High, proved)
			}
			if !errors.Is(searched, exhaustive.ErrInfeasible) && !errors.Is(searched, exhaustive.ErrLimit) {
				t.Fatalf("a unit below %v: exhaustive search: %v", least.High, searched)
			}
		}
	})
}

// No bound is above the least period of the patterns that it is about.
func TestBoundsEqualExhaustive(t *testing.T) {
	t.Parallel()
	testfile.Property(t, func(t *rapid.T) {
		x := pipelinetest.Draw(t, 5)
		in, err := view.New(x.Chain, x.Platform, x.Model)
		if err != nil {
			t.Fatal(err)
		}
		if in.Infeasible() != nil {
			return
		}
		best, found, err := optimum.Search(x.Chain, x.Platform, x.Model, decisions)
		if errors.Is(err, exhaustive.ErrLimit) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range pipelinetest.Bounds(in) {
			meets := !slices.ContainsFunc(b.Assumes, func(a string) bool {
				yes, known := found.Meets(a)
				return known && !yes
			})
			if meets && b.Value > best*(1+2*optimum.Closeness) {
				t.Fatalf("%s: %v, there is a pattern of %v: %+v", b.By, b.Value, best, x)
			}
		}
	})
}

// What an instance of inexact sums is refused for.
func TestRefused(t *testing.T) {
	t.Parallel()
	with := func(f func(*chain.Chain, *platform.Platform)) (*chain.Chain, platform.Platform) {
		c := &chain.Chain{Name: "two", Layers: []chain.Layer{{ForwardTime: 1, Activation: 1, Saved: 1, Gradient: 1}, {BackwardTime: 1}}}
		p := platform.Platform{Processors: 2, Memory: 10, Bandwidth: 1, WeightCopies: 3}
		f(c, &p)
		return c, p
	}
	for _, x := range []struct {
		change func(*chain.Chain, *platform.Platform)
		is     error
		says   string
	}{
		{func(c *chain.Chain, _ *platform.Platform) { c.Layers[0].Weight = 0.5 }, view.ErrChain, "must be integers"},
		{func(c *chain.Chain, _ *platform.Platform) { c.Input.Gradient = math.Inf(1) }, view.ErrChain, "must be integers"},
		{func(c *chain.Chain, _ *platform.Platform) { c.Layers[0].Weight = 1 << 52 }, view.ErrPlatform, "2^53"},
		{func(c *chain.Chain, _ *platform.Platform) { c.Layers[1].BackwardTime = -1 }, view.ErrChain, "times"},
		{func(_ *chain.Chain, p *platform.Platform) { p.Processors = 0 }, view.ErrPlatform, "0 processors"},
	} {
		c, p := with(x.change)
		if _, err := view.New(c, p, ""); !errors.Is(err, x.is) || !strings.Contains(err.Error(), x.says) {
			t.Errorf("%v, want %q", err, x.says)
		}
	}
	c, p := with(func(*chain.Chain, *platform.Platform) {})
	if _, err := view.New(c, p, "other"); !errors.Is(err, view.ErrModel) {
		t.Error(err)
	}
}
