package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"workbench/ilp/formulation"
	"workbench/model/milp"
	"workbench/model/plan"
	"workbench/model/verify"
)

// variants is how many plans a little different from one are tried.
const variants = 8

// judgeRows holds plans, and what is near them, against the rows of every formulation that bounds
// them: in its normal form a plan is a solution that costs no more. No formulation may call
// infeasible what has a plan.
func (v *verdict) judgeRows(table []formulation.Formulation) {
	r := rand.New(rand.NewPCG(uint64(len(v.results)), 3))
	var plans []*plan.Plan
	some := false
	for _, x := range v.results {
		if x.Plan == nil || !x.Report.Valid() {
			continue
		}
		if some = true; !blurred(x.Plan) {
			plans = append(plans, x.Plan)
			for range variants {
				plans = append(plans, v.variant(r, x.Plan)...)
			}
		}
	}
	if !some {
		return
	}
	for _, f := range table {
		if f.Problem != v.t.problem.Name || f.Kind != v.in.Kind() || f.Promise != formulation.Equal && f.Promise != formulation.LowerBound {
			continue
		}
		program, err := f.Build(v.in.Instance, v.t.Platform, nil)
		if errors.As(err, new(*plan.Infeasible)) {
			v.found = append(v.found, finding{kind: "infeasible by " + f.Name + " where there is a plan", says: err.Error()})
		}
		if err != nil || program.Start == nil {
			continue
		}
		for _, p := range plans {
			if says := v.solution(program, p); says != "" {
				v.found = append(v.found, finding{kind: "a plan that is no solution of " + f.Name, says: says + "\n" + v.t.about.Text(&v.t.Trial, p)})
				break
			}
		}
	}
}

// solution says what is wrong with a plan as a solution, "" if nothing, or if the program is
// about others.
func (v *verdict) solution(program *formulation.Program, p *plan.Plan) string {
	for _, a := range program.Assumptions {
		meets, known := p.Meets(a)
		if test := v.t.problem.Meets; test != nil {
			meets, known = test(v.in, p, a)
		}
		if !meets || !known {
			return ""
		}
	}
	report, err := verify.Replay(v.in.Instance, p)
	if err != nil {
		return err.Error()
	}
	x, err := program.Start(p)
	if err != nil {
		return err.Error()
	}
	cost := report.Objective(p.Problem)
	// What the verifier takes for one instant may be so far apart, for each of a few transfers.
	wrong := program.Model.Violations(x, max(1e-6, 16*plan.Tolerance*program.ModelObjective(cost)))
	late := func(w milp.Violation) bool {
		return w.Rule == milp.BoundRule && program.Model.Col(w.Index).Kind == milp.Continuous
	}
	switch {
	case program.Promise == formulation.Equal && slices.ContainsFunc(wrong, late):
		return "" // it is longer than some best one, beyond which no times are
	case len(wrong) > 0:
		return wrong[0].String()
	}
	if value := program.Objective(program.Model.Objective(x)); value > cost*(1+near) {
		return fmt.Sprintf("costs %v, its plan %v", value, cost)
	}
	return ""
}

// blurred reports whether a cyclic plan has transfers that the tolerance hides. In what order
// happens what its replay takes for one instant is not for it to say: uploads may count as of one order and
// memory of another, while rows have one for all. Its period is as right as any and held against bounds.
func blurred(p *plan.Plan) bool {
	return p.Period != nil && slices.ContainsFunc(p.Ops, func(o plan.Op) bool {
		return o.Tensor == plan.TensorW && o.Op != plan.OpD && o.End-o.Start <= 8*plan.Tolerance**p.Period
	})
}

// variant returns a valid plan that differs a little from another, if what comes out is one: what
// starts from some instant on is later, one operation is at another time, or there twice.
func (v *verdict) variant(r *rand.Rand, p *plan.Plan) []*plan.Plan {
	if len(p.Ops) == 0 {
		return nil
	}
	q := *p
	q.Ops = slices.Clone(p.Ops)
	k := r.IntN(len(q.Ops))
	some := v.t.Pace * float64(1+r.IntN(4)) / float64(1+r.IntN(2))
	later := func(from, by float64) {
		for i := range q.Ops {
			if q.Ops[i].Start >= from {
				q.Ops[i].Start, q.Ops[i].End = q.Ops[i].Start+by, q.Ops[i].End+by
			}
		}
		if p.Period != nil {
			period := *p.Period + by
			q.Period = &period
		}
	}
	switch o := q.Ops[k]; r.IntN(4) {
	case 0:
		later(o.Start, some)
	case 1:
		later(o.Start, o.End-o.Start)
		q.Ops = slices.Insert(q.Ops, k, o)
	case 2:
		o.Start, o.End = o.Start+some, o.End+some
		q.Ops = append(q.Ops, o)
	default:
		q.Ops[k].Start, q.Ops[k].End = o.Start-some, o.End-some
	}
	report, err := verify.Replay(v.in.Instance, &q)
	if err != nil || !report.Valid() {
		return nil
	}
	q.Claims.Makespan, q.Claims.PeakMemory = report.Makespan, report.PeakMemory
	return []*plan.Plan{&q}
}
