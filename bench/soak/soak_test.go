package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"workbench/bench/catalog"
	"workbench/bench/method"
	"workbench/bench/run"
	"workbench/model/chain"
	"workbench/model/exhaustive"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/subject"
)

// Every kind of contradiction is found, and what agrees is none.
func TestJudge(t *testing.T) {
	c := exhaustive.RandomChain(rand.New(rand.NewPCG(1, 1)), 3)
	in := &run.Instance{Instance: c}
	least, optimum, err := exhaustive.Remat(c, 100, subject.States)
	if err != nil || least == 0 {
		t.Fatal(least, err)
	}
	report, err := plan.VerifyRemat(c, optimum)
	if err != nil {
		t.Fatal(err)
	}
	slower, faster := least+1, least/2
	bound := func(value float64, assumptions ...string) []run.Bound {
		return []run.Bound{{Value: value, By: "test", Assumptions: assumptions}}
	}
	with := func(status run.Status, makespan float64, bounds []run.Bound) *run.Result {
		r := &run.Result{Status: status, Plan: optimum, Report: report, Objective: &makespan, Bounds: bounds}
		if len(bounds) > 0 {
			r.Bound = &bounds[0]
		}
		return r
	}
	for _, x := range []struct {
		name       string
		infeasible bool
		r          *run.Result
		want       []string
	}{
		{"optimal", false, with(run.Optimal, least, bound(least)), nil},
		{"feasible", false, with(run.Feasible, least, bound(faster)), nil},
		{"infeasible", true, &run.Result{Status: run.Infeasible}, nil},
		{"refused", false, &run.Result{Status: run.Failed, Err: run.InputError(errors.New("too long"))}, nil},
		{"an assumption that the plan does not keep", false, with(run.Feasible, least, bound(slower, "another order")), nil},
		{"error", false, &run.Result{Status: run.Failed, Error: "a solver's"}, []string{"error"}},
		{"bound", false, &run.Result{Status: run.Limit, Bounds: bound(slower)}, []string{"a wrong bound"}},
		{"bound that binds", false, &run.Result{Status: run.Limit, Bounds: bound(slower, plan.OnePeriodic)}, []string{"a wrong bound"}},
		{"not optimal", false, with(run.Optimal, slower, bound(slower)), []string{"verify disagrees", "optimal, which it is not", "a wrong bound"}},
		{"too fast", false, with(run.Feasible, faster, nil), []string{"verify disagrees", "a plan that beats the optimum"}},
		{"not infeasible", false, &run.Result{Status: run.Infeasible}, []string{"infeasible where there is a plan"}},
		{"a plan of nothing", true, with(run.Feasible, least, nil), []string{"a plan where there is none"}},
	} {
		v := &verdict{t: &trial{problem: method.Remat(), about: subject.Remat()}, in: in, answered: true, infeasible: x.infeasible, least: least, optimum: optimum}
		v.judge("method", "backend", x.r)
		var kinds []string
		for _, f := range v.found {
			kinds = append(kinds, f.kind)
		}
		if !slices.Equal(kinds, x.want) {
			t.Errorf("%s: found %q, want %q", x.name, kinds, x.want)
		}
	}
}

// Trials of every problem can be read by their methods and are searched.
func TestDraws(t *testing.T) {
	for _, p := range catalog.Problems() {
		s := &soak{folder: t.TempDir()}
		answered := 0
		for seed := range uint64(20) {
			x := draw(p, source(seed))
			found, ok := s.run(context.Background(), x, "none", "")
			if ok {
				answered++
			}
			for _, f := range found {
				t.Errorf("%s, seed %d: %+v", p.Name, seed, f)
			}
		}
		if answered < 15 {
			t.Errorf("%s: %d of 20 trials are answered", p.Name, answered)
		}
	}
}

// What is smaller is valid and differs.
func TestSmaller(t *testing.T) {
	x := trial{Trial: subject.Trial{In: exhaustive.RandomChain(rand.New(rand.NewPCG(3, 1)), 3), Platform: platform.Platform{Memory: 9}}}
	n := 0
	for y := range x.smaller {
		n++
		if err := y.Chain().Validate(); err != nil || y.Platform != x.Platform || same(y.Chain(), x.Chain()) {
			t.Errorf("%+v: %v", y.Chain(), err)
		}
	}
	if n < 4 {
		t.Errorf("%d are smaller", n)
	}
}

func same(a, b *chain.Chain) bool {
	x, _ := a.Digest()
	y, _ := b.Digest()
	return x == y
}
