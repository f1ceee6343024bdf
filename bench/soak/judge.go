package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"workbench/bench/solve"
	"workbench/bench/solve/backends"
	"workbench/bench/solve/catalog"
	"workbench/ilp"
	"workbench/model/exhaustive"
	"workbench/model/plan"
	"workbench/model/verify"
	"workbench/solvers"
	"workbench/solvers/highs"
)

// near is how far, relative to themselves, an objective and a bound may be on
// the wrong sides of each other: objectives are equal within 1e-9, and a gap is
// closed within 1e-6, the precision of the search for pipelines, too.
const near = 2e-6

// perMethod is the time limit of a run.
const perMethod = 2 * time.Second

// A finding is a contradiction.
type finding struct {
	method, backend, kind, says string
}

// run runs all methods of a trial, or one on one backend, and returns what
// contradicts, and whether exhaustive search answered.
func (s *soak) run(ctx context.Context, t trial, method, backend string) (found []finding, answered bool) {
	file := filepath.Join(s.folder, fmt.Sprintf("soak-%d.json", os.Getpid()))
	defer os.Remove(file)
	if err := t.write(file); err != nil {
		return []finding{{kind: "the instance cannot be written", says: err.Error()}}, false
	}
	in, err := solve.Load(file, nil)
	if err != nil {
		return []finding{{kind: "the instance cannot be read", says: err.Error()}}, false
	}
	p := t.problem
	if p.Fit(in, t.Platform) != nil {
		return nil, false
	}
	least, optimum, err := t.truth()
	v := &verdict{t: &t, in: in, least: least, optimum: optimum, infeasible: errors.Is(err, exhaustive.ErrInfeasible)}
	v.answered = err == nil || v.infeasible
	for _, m := range catalog.MethodsFor(p, in) {
		if method != "" && m.Name != method {
			continue
		}
		for name, b := range s.backends {
			if backend != "" && name != backend || !m.Solver && name != backends.Names()[0] {
				continue
			}
			r := solve.Run(ctx, p, m, in, setting(&t, b))
			if ctx.Err() != nil {
				return v.found, v.answered
			}
			if method == "" {
				if s.statuses[p.Name] == nil {
					s.statuses[p.Name] = map[solve.Status]int{}
				}
				s.statuses[p.Name][r.Status]++
			}
			v.judge(m.Name, name, r)
		}
	}
	v.judgeTogether()
	if method == "" {
		v.judgeRows(ilp.Formulations())
	}
	return v.found, v.answered
}

func setting(t *trial, b solvers.Backend) solve.Setting {
	return solve.Setting{
		Platform: t.Platform, Backend: b, LP: solvers.New(highs.Engine{}), Threads: t.threads, Time: perMethod, Slots: 50,
		MemoryModel: plan.TaskModel,
	}
}

// A verdict holds the results on a trial against each other and the truth.
type verdict struct {
	t          *trial
	in         *solve.Instance
	answered   bool // by exhaustive search
	infeasible bool // it says
	least      float64
	optimum    *plan.Plan // has it; nil: not known
	results    []named
	found      []finding
}

type named struct {
	method, backend string
	*solve.Result
}

// judge holds one result against the truth:
//
//   - no run ends in an error;
//   - where there is no plan, none is found; where there is one, nothing is
//     called infeasible;
//   - no plan beats the optimum; what is called optimal is as good;
//   - no bound that binds an optimal plan is above it;
//   - a plan that is written and read is valid, with the peak and the makespan
//     that it claims.
func (v *verdict) judge(method, backend string, r *solve.Result) {
	v.results = append(v.results, named{method, backend, r})
	add := func(kind, format string, args ...any) {
		v.found = append(v.found, finding{method, backend, kind, method + " on " + backend + ": " + fmt.Sprintf(format, args...)})
	}
	if r.Status == solve.Failed && !r.Unverified && !errors.Is(r.Err, solve.ErrInput) {
		add("error", "%s", r.Error)
		return
	}
	if r.Plan != nil && r.Report.Valid() {
		if says := v.verifyWritten(r.Plan, *r.Objective); says != "" {
			add("verify disagrees", "%s", says)
		}
	}
	for _, x := range r.Refused {
		add("a wrong plan", "%v", x.Err)
	}
	searched := v.t.searched(r.Plan)
	switch {
	case !v.answered:
	case v.infeasible && r.Plan != nil && r.Report.Valid() && searched:
		add("a plan where there is none", "%v s", *r.Objective)
	case v.infeasible:
	case r.Status == solve.Infeasible:
		add("infeasible where there is a plan", "%v s: %s", v.least, r.Error)
	case r.Objective != nil && r.Report.Valid() && searched && *r.Objective < v.least*(1-near):
		add("a plan that beats the optimum", "%v s, the optimum is %v s", *r.Objective, v.least)
	case r.Objective != nil && r.Status == solve.Optimal && r.Bound != nil && len(r.Bound.Assumptions) == 0 && *r.Objective > v.least*(1+near):
		add("optimal, which it is not", "%v s, the optimum is %v s", *r.Objective, v.least)
	}
	if v.answered && !v.infeasible {
		for _, b := range r.Bounds {
			if v.binds(b.Assumptions) && b.Value > v.least*(1+near) {
				add("a wrong bound", "%v s by %s, the optimum is %v s", b.Value, b.By, v.least)
				break
			}
		}
	}
}

// binds reports whether a bound with assumptions binds the optimal plan.
func (v *verdict) binds(assumptions []string) bool {
	return !slices.ContainsFunc(assumptions, func(a string) bool {
		if v.optimum == nil {
			return true
		}
		meets, known := v.optimum.Meets(a)
		return !meets || !known
	})
}

// verifyWritten writes and reads a plan and verifies it.
func (v *verdict) verifyWritten(p *plan.Plan, objective float64) (says string) {
	var b bytes.Buffer
	if err := p.Write(&b); err != nil {
		return err.Error()
	}
	q, err := plan.Read(&b, "plan.json")
	if err != nil {
		return err.Error()
	}
	switch r, err := verify.Replay(v.in.Instance, q); {
	case err != nil:
		return err.Error()
	case !r.Valid():
		return r.Violations[0].Detail
	case len(r.ClaimErrors) > 0:
		return r.ClaimErrors[0]
	case r.Objective(p.Problem) != objective:
		return fmt.Sprintf("%v, then %v", objective, r.Objective(p.Problem))
	}
	return ""
}

// judgeTogether holds the results against each other: no bound without
// assumptions is above a valid plan, and nothing is infeasible for which there
// is one.
func (v *verdict) judgeTogether() {
	var best *named
	for i := range v.results {
		if r := &v.results[i]; r.Objective != nil && r.Report.Valid() && (best == nil || *r.Objective < *best.Objective) {
			best = r
		}
	}
	if best == nil {
		return
	}
	for _, r := range v.results {
		if r.Status == solve.Infeasible {
			v.found = append(v.found, finding{
				r.method, r.backend, "infeasible where there is a plan",
				fmt.Sprintf("%s, but %s has one of %v s", r.Error, best.method, *best.Objective),
			})
		}
		for _, b := range r.Bounds {
			if len(b.Assumptions) == 0 && b.Value > *best.Objective*(1+near) {
				v.found = append(v.found, finding{
					r.method, r.backend, "a wrong bound",
					fmt.Sprintf("%v s by %s, but %s has a plan of %v s", b.Value, b.By, best.method, *best.Objective),
				})
				break
			}
		}
	}
}

// shrink returns a smaller trial with the same kind of contradiction, and it.
func (s *soak) shrink(ctx context.Context, t trial, f finding) (trial, finding) {
	until := time.Now().Add(20 * time.Second)
	for again := true; again; {
		again = false
		for u := range t.smaller {
			if time.Now().After(until) || ctx.Err() != nil {
				return t, f
			}
			found, _ := s.run(ctx, u, f.method, f.backend)
			if k := slices.IndexFunc(found, func(g finding) bool { return g.kind == f.kind }); k >= 0 {
				t, f, again = u, found[k], true
				break
			}
		}
	}
	return t, f
}
