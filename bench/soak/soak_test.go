package main

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"workbench/bench/solve"
	"workbench/bench/solve/catalog"
	"workbench/bench/solve/method"
	"workbench/ilp"
	"workbench/ilp/formulation"
	optimumremat "workbench/model/exhaustive/remat"
	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/testcase"
	"workbench/model/testcase/random"
	"workbench/model/testfile"
	"workbench/model/verify"
	"workbench/model/verify/remat"
)

// Every kind of contradiction is found, and what agrees is none.
func TestJudge(t *testing.T) {
	c := random.Chain(rand.New(rand.NewPCG(1, 1)), 3)
	in := &solve.Instance{Instance: c}
	least, optimum, err := optimumremat.Search(c, 100, testcase.States)
	if err != nil || least == 0 {
		t.Fatal(least, err)
	}
	report, err := remat.Verify(c, optimum)
	if err != nil {
		t.Fatal(err)
	}
	slower, faster := least+1, least/2
	bound := func(value float64, assumptions ...string) []solve.Bound {
		return []solve.Bound{{Value: value, By: "test", Assumptions: assumptions}}
	}
	with := func(status solve.Status, makespan float64, bounds []solve.Bound) *solve.Result {
		r := &solve.Result{Status: status, Plan: optimum, Report: report, Objective: &makespan, Bounds: bounds}
		if len(bounds) > 0 {
			r.Bound = &bounds[0]
		}
		return r
	}
	for _, x := range []struct {
		name       string
		infeasible bool
		r          *solve.Result
		want       []string
	}{
		{"optimal", false, with(solve.Optimal, least, bound(least)), nil},
		{"feasible", false, with(solve.Feasible, least, bound(faster)), nil},
		{"infeasible", true, &solve.Result{Status: solve.Infeasible}, nil},
		{"refused", false, &solve.Result{Status: solve.Failed, Err: solve.InputError(errors.New("too long"))}, nil},
		{"an assumption that the plan does not keep", false, with(solve.Feasible, least, bound(slower, "another order")), nil},
		{"error", false, &solve.Result{Status: solve.Failed, Error: "a solver's"}, []string{"error"}},
		{"bound", false, &solve.Result{Status: solve.Limit, Bounds: bound(slower)}, []string{"a wrong bound"}},
		{"bound that binds", false, &solve.Result{Status: solve.Limit, Bounds: bound(slower, plan.OnePeriodic)}, []string{"a wrong bound"}},
		{
			"not optimal", false, with(solve.Optimal, slower, bound(slower)),
			[]string{"verify disagrees", "optimal, which it is not", "a wrong bound"},
		},
		{"too fast", false, with(solve.Feasible, faster, nil), []string{"verify disagrees", "a plan that beats the optimum"}},
		{"not infeasible", false, &solve.Result{Status: solve.Infeasible}, []string{"infeasible where there is a plan"}},
		{"a plan of nothing", true, with(solve.Feasible, least, nil), []string{"a plan where there is none"}},
	} {
		v := &verdict{
			t: &trial{problem: method.Remat(), about: testcase.Remat()}, in: in, answered: true, infeasible: x.infeasible, least: least,
			optimum: optimum,
		}
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
		for seed := range uint64(max(5, testfile.Cases(20))) {
			x := draw(p, source(seed))
			found, ok := s.run(context.Background(), x, "none", "")
			if ok {
				answered++
			}
			for _, f := range found {
				t.Errorf("%s, seed %d: %+v", p.Name, seed, f)
			}
		}
		if answered < testfile.Cases(15) {
			t.Errorf("%s: only %d trials are answered", p.Name, answered)
		}
	}
}

// Exhaustive search at whole times misses an offload that ends right after a computation
// without duration has started, and the optimum has it: no contradiction.
func TestBetweenWholeTimes(t *testing.T) {
	layer := func(seconds, activation, saved, gradient float64) chain.Layer {
		return chain.Layer{ForwardTime: seconds, BackwardTime: seconds, Activation: activation, Saved: saved, Gradient: gradient}
	}
	c := &chain.Chain{Name: "between", Layers: []chain.Layer{layer(0, 3e6, 3e6, 3e6), layer(0, 3e6, 3e6, 3e6-1), layer(1, 0, 2e6, 2e6-1)}}
	c.Input.Activation = 2e6
	p := platform.Platform{Memory: 13e6 + 3, Bandwidth: 1e6}
	x := trial{Trial: testcase.Trial{In: c, Platform: p, Pace: 1}, problem: method.RematOffload(), about: testcase.RematOffload(), threads: 1}
	s := &soak{backends: available(), folder: t.TempDir()}
	if found, answered := s.run(t.Context(), x, "optimum", ""); len(found) > 0 || !answered {
		t.Errorf("found %+v, answered: %v", found, answered)
	}
	x.about.Covers = nil
	if found, _ := s.run(t.Context(), x, "optimum", ""); len(found) != 1 || found[0].kind != "a plan that beats the optimum" {
		t.Errorf("found %+v if all plans are held against whole times", found)
	}
}

// What is smaller is valid and differs.
func TestSmaller(t *testing.T) {
	x := trial{Trial: testcase.Trial{In: random.Chain(rand.New(rand.NewPCG(3, 1)), 3), Platform: platform.Platform{Memory: 9}}}
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

// Plans, and what is near them, are solutions of every formulation of their problem; one that has less
// memory than there is cuts plans off, or says that there is none.
func TestJudgeRows(t *testing.T) {
	less := slices.Clone(ilp.Formulations())
	for i, f := range less {
		less[i].Build = func(in plan.Instance, p platform.Platform, o json.RawMessage) (*formulation.Program, error) {
			p.Memory--
			return f.Build(in, p, o)
		}
	}
	caught := map[string]int{}
	for _, p := range catalog.Problems() {
		for _, s := range p.Subjects {
			r := rand.New(rand.NewPCG(5, 1))
			for n := 0; n < max(12, testfile.Cases(40)) && s.Random != nil; n++ {
				x, err := s.Random(r, 1+n%2)
				if err != nil {
					t.Fatal(err)
				}
				_, best, err := s.Search(x, testcase.States)
				if err != nil || best == nil {
					continue
				}
				report, err := verify.Replay(x.In, best)
				if err != nil {
					t.Fatal(err)
				}
				result := named{"exhaustive", "", &solve.Result{Plan: best, Report: report}}
				for _, table := range [][]formulation.Formulation{ilp.Formulations(), less} {
					v := &verdict{t: &trial{Trial: *x, problem: p, about: s}, in: &solve.Instance{Instance: x.In}, results: []named{result}}
					v.judgeRows(table)
					for _, f := range v.found {
						if &table[0] != &less[0] {
							t.Errorf("%s: %s: %s", p.Name, f.kind, f.says)
							continue
						}
						caught[p.Name]++
					}
				}
			}
		}
	}
	for _, p := range catalog.Problems() {
		if slices.ContainsFunc(ilp.Formulations(), func(f formulation.Formulation) bool { return f.Problem == p.Name }) && caught[p.Name] == 0 {
			t.Errorf("%s: less memory is not caught", p.Name)
		}
	}
}
