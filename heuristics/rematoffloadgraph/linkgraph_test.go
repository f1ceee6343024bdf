package rematoffloadgraph

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"workbench/heuristics/rematgraph"
	"workbench/model/exhaustive"
	"workbench/model/instance/training"
	"workbench/model/plan"
	"workbench/model/platform"
	problemrematgraph "workbench/model/problem/rematgraph"
	"workbench/model/testcase"
	"workbench/model/testcase/random"
	"workbench/model/testfile"
	verifyrematgraph "workbench/model/verify/rematgraph"
	"workbench/model/zoo"
)

// Plans of small steps are valid, are what they claim, and none beats exhaustive search;
// there is one wherever exhaustive search has one, unless values are pinned; and the search
// is no worse than the one without transfers.
func TestSmallSteps(t *testing.T) {
	r := testfile.Random(t, 18, 1)
	about := testcase.Linked()
	searched, optimal, moved, faster := 0, 0, 0, 0
	for i := range testfile.Cases(1500) {
		x := about.Draw(r)
		if x.Platform.Bandwidth < 0.1 {
			continue
		}
		v, err := problemrematgraph.New(x.In)
		if err != nil {
			t.Fatal(err)
		}
		best, _, err := about.Search(x, 1<<13)
		if errors.Is(err, exhaustive.ErrLimit) {
			continue
		}
		searched++
		pinned := false
		for _, is := range v.Pinned {
			pinned = pinned || is
		}
		at := x.Platform
		at.Bandwidth = 0
		alone, none := rematgraph.Search(context.Background(), v, at, 1, 60)
		for name, work := range map[string]func() (*plan.Plan, error){
			"offload": func() (*plan.Plan, error) { return Offload(context.Background(), v, x.Platform) },
			"search":  func() (*plan.Plan, error) { return Search(context.Background(), v, x.Platform, 1, 60) },
		} {
			p, bad := work()
			switch {
			case bad != nil && err == nil && !pinned:
				t.Fatalf("case %d, %s: %v, the optimum is %g", i, name, bad, best)
			case bad != nil:
				if none == nil && name == "search" {
					t.Fatalf("case %d, %s: %v, without a link %g", i, name, bad, alone.Claims.Makespan)
				}
				continue
			case err != nil:
				t.Fatalf("case %d, %s: a plan of %g s, but %v", i, name, p.Claims.Makespan, err)
			case p.Claims.Makespan < best*(1-1e-9):
				t.Fatalf("case %d, %s: %g s, the optimum is %g", i, name, p.Claims.Makespan, best)
			case name == "search" && none == nil && p.Claims.Makespan > alone.Claims.Makespan*(1+1e-9):
				t.Fatalf("case %d: %g s, without a link %g", i, p.Claims.Makespan, alone.Claims.Makespan)
			}
			replays(t, x.In.(*training.Graph), p)
			if name == "search" && p.Claims.Makespan <= best*(1+1e-9) {
				optimal++
			}
			if name == "search" && none == nil && p.Claims.Makespan < alone.Claims.Makespan*(1-1e-9) {
				faster++
			}
			for k := range p.Ops {
				if p.Ops[k].Op == plan.OpP {
					moved++
					break
				}
			}
		}
	}
	t.Logf("%d searched, %d plans of the search are optimal, %d are faster for a link, %d move", searched, optimal, faster, moved)
	if optimal < testfile.Cases(380) || faster < testfile.Cases(10) || moved < testfile.Cases(100) {
		t.Errorf("%d searched, %d plans of the search are optimal, %d are faster for a link, %d move", searched, optimal, faster, moved)
	}
}

// replays checks a plan.
func replays(t *testing.T, g *training.Graph, p *plan.Plan) {
	t.Helper()
	report, err := verifyrematgraph.Verify(g, p)
	if err != nil || !report.Valid() || len(report.ClaimErrors) > 0 {
		t.Fatalf("%s of %s: %+v, %v\n%+v", p.Method, g.Name, report, err, p.Ops)
	}
}

// Larger steps with sizes and times that are no whole numbers of each other.
func TestLargerSteps(t *testing.T) {
	r := testfile.Random(t, 18, 2)
	for i := range testfile.Cases(40) {
		g := random.Training(r, 4+i%12)
		uneven(r, g)
		v, err := problemrematgraph.New(g)
		if err != nil {
			t.Fatal(err)
		}
		low, high := rematgraph.Range(v)
		least, _ := v.LinkedLeast()
		for _, part := range []float64{0, 0.3, 0.7} {
			p := platform.Platform{Memory: low + part*(high-low), Bandwidth: 5e6 * (0.1 + r.Float64())}
			p.Memory = max(least, float64(int(p.Memory)))
			x, err := Search(context.Background(), v, p, 1, 60)
			if err != nil {
				t.Fatalf("case %d: %v", i, err)
			}
			replays(t, g, x)
			if b := v.LinkedBound(p.Memory, p.Bandwidth).Seconds; x.Claims.Makespan < b {
				t.Fatalf("case %d: %g s, below the bound of %g", i, x.Claims.Makespan, b)
			}
		}
	}
}

// uneven makes sizes and times any numbers.
func uneven(r *rand.Rand, g *training.Graph) {
	for s := range g.Storages {
		g.Storages[s].Bytes = float64(int(g.Storages[s].Bytes * 1e6 * (0.5 + r.Float64())))
	}
	for v := range g.Nodes {
		g.Nodes[v].Time *= 0.5 + r.Float64()
		g.Nodes[v].Workspace = float64(int(g.Nodes[v].Workspace * 1e6 * r.Float64()))
	}
}

// What is found for a dozen blocks of a transformer is a plan of all, which sends and is
// much faster than sending alone.
func TestUnrolled(t *testing.T) {
	testfile.Long(t)
	g, err := zoo.LoadTraining("zoo:gpt2?layers=24")
	if err != nil {
		t.Fatal(err)
	}
	v, err := problemrematgraph.New(g)
	if err != nil {
		t.Fatal(err)
	}
	low, high := rematgraph.Range(v)
	p := platform.Platform{Memory: math.Floor(low + 0.4*(high-low)), Bandwidth: 12e9}
	sending, err := Offload(context.Background(), v, p)
	if err != nil {
		t.Fatal(err)
	}
	s := &search{ctx: context.Background(), v: v, p: p, seed: 1, r: rand.New(rand.NewPCG(1, 1))}
	s.unrolled(600)
	if s.wrong != nil || s.best == nil {
		t.Fatalf("no plan: %v", s.wrong)
	}
	replays(t, g, s.best)
	sent := slices.ContainsFunc(s.best.Ops, func(o plan.Op) bool { return o.Op == plan.OpO })
	bound := v.LinkedBound(p.Memory, p.Bandwidth).Seconds
	if time := s.best.Claims.Makespan; !sent || time < bound || time-bound > (sending.Claims.Makespan-bound)/4 {
		t.Errorf("%g s, the bound is %g and sending alone takes %g; it sends: %v", time, bound, sending.Claims.Makespan, sent)
	}
}

// What computes far longer than the best plan takes is not looked at: of huge graphs its route
// takes gigabytes. Without a plan there is nothing to compare it with but the number of its computations.
func TestHopelessScheduleIsNotTimed(t *testing.T) {
	from := func(network string) (*search, *problemrematgraph.View) {
		g, err := zoo.LoadTraining(network)
		if err != nil {
			t.Fatal(err)
		}
		v, err := problemrematgraph.New(g)
		if err != nil {
			t.Fatal(err)
		}
		p := platform.Platform{Memory: 1e13, Bandwidth: 12e9}
		return &search{ctx: t.Context(), v: v, p: p, seed: 1, r: rand.New(rand.NewPCG(1, 1))}, v
	}
	s, v := from("zoo:rnn?seq=3000&hidden=8")
	if long := v.Frugal(); s.replaySchedule(long, s.stageLimits(0)) != nil || s.best != nil {
		t.Errorf("%d computations are timed where there is no plan", long.Computations())
	}
	s, v = from("zoo:gpt2?layers=2")
	frugal, limits := v.Frugal(), s.stageLimits(0)
	if s.replaySchedule(v.StoreAll(), limits) == nil || s.replaySchedule(frugal, limits) != nil {
		t.Error("one of the two is taken wrongly")
	}
	best := s.best
	s.best = nil
	if s.replaySchedule(frugal, limits) == nil || s.best.Claims.Makespan < hopeless*best.Claims.Makespan {
		t.Errorf("not taken, though nothing else is there; or the example is none: %g s of %g", frugal.Cost(), best.Claims.Makespan)
	}
}
