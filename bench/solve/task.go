package solve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"workbench/ilp/certify"
	"workbench/ilp/formulation"
	"workbench/model/certificate"
	"workbench/model/milp"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/verify"
	"workbench/solvers"
)

// Task returns the settings for the MILPs of a method, starting from a plan or nil. OnProgress receives their
// progress with the name of the phase.
func (s *Setting) Task(in *Instance, phase string, start *plan.Plan) *formulation.Task {
	began := time.Now()
	t := &formulation.Task{
		Backend: s.Backend,
		Options: solvers.Options{
			RelGap: solvers.Some(max(s.Gap, Tolerance/10)), Threads: solvers.Some(max(1, s.Threads)), Log: s.Log,
		},
		Start:    start,
		Document: s.Document,
		Level:    s.Certify,
		Verify: func(p *plan.Plan) (float64, error) {
			report, err := in.replay(p)
			if err != nil {
				return 0, err
			}
			return report.Objective(p.Problem), nil
		},
		Certify: func(ctx context.Context, p *formulation.Program, target float64, l formulation.Level) (*certificate.Certificate, error) {
			return s.certify(ctx, in, p, target, l)
		},
	}
	if t.Level == "" {
		t.Level = formulation.Full
	}
	if s.Backend.Can()&solvers.CanSeed != 0 {
		t.Options.Seed = solvers.Some(s.Seed)
	}
	if s.Backend.Can()&solvers.CanThreads == 0 {
		t.Options.Threads = solvers.Opt[int]{}
	}
	if s.OnProgress != nil {
		t.OnProgress = func(objective, bound float64, nodes int64) {
			s.OnProgress(Progress{Phase: phase, Elapsed: time.Since(began), Objective: objective, Bound: bound, Nodes: nodes})
		}
	}
	return t
}

// UpdateIncumbent keeps p if it is better than the current plan, by its replay and not by its declared objective.
// Methods composed of others use it. A plan that violates a rule is reported and otherwise ignored. nil is no
// plan.
func (out *Outcome) UpdateIncumbent(in *Instance, p *plan.Plan) {
	if p == nil || p == out.Plan {
		return
	}
	report, err := in.replay(p)
	if err != nil {
		if !slices.ContainsFunc(out.Refused, func(r Refusal) bool { return r.Method == p.Method }) {
			out.Refused = append(out.Refused, Refusal{p.Method, err})
		}
		return
	}
	objective := report.Objective(p.Problem)
	if out.Plan != nil && !(objective < out.objective) {
		return
	}
	if !(math.Abs(platform.Excess(p.Claims.Makespan, report.Makespan)) <= Exactness) {
		timed := *p
		timed.Claims.Makespan, p = report.Makespan, &timed
	}
	out.Plan, out.objective = p, objective
}

// replay replays a plan. The error describes the rule that the plan violates.
func (in *Instance) replay(p *plan.Plan) (*plan.Report, error) {
	report, err := verify.Replay(in.Instance, p)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: plan cannot be replayed: %w", p.Method, err)
	case !report.Valid():
		return report, &InvalidPlanError{p.Method, report}
	}
	return report, nil
}

// AddResult records the result of a task.
func (out *Outcome) AddResult(r *formulation.Result) {
	if r.Plan != nil || out.Plan == r.Refused {
		out.Plan = r.Plan
	}
	out.Bounds = append(out.Bounds, r.Bounds...)
	out.Claims = append(out.Claims, r.Claims...)
	out.Ended = r.Ended
	if r.Infeasible != nil {
		out.Infeasible, out.Supposing = r.Infeasible, r.Supposing
	}
	if r.Program != nil {
		out.Solver, out.Model = r.Solver, r.Program.Model
	}
	for _, n := range r.Notes {
		out.Remark(n)
	}
}

// Remark adds a note.
func (out *Outcome) Remark(note string) {
	if out.Note != "" {
		out.Note += "; "
	}
	out.Note += note
}

// certify returns a certificate that the objective of a program is at least target seconds, or as near to target
// as ctx and the level allow.
func (s *Setting) certify(ctx context.Context, in *Instance, p *formulation.Program, target float64,
	l formulation.Level,
) (*certificate.Certificate, error) {
	data := p.Model.Data()
	maker, lp, err := s.openLP(&data)
	if err != nil {
		return nil, err
	}
	defer lp.Close()
	head, err := s.head(in, p, maker)
	if err != nil {
		return nil, err
	}
	goal := target
	if !math.IsInf(target, 0) {
		goal = p.ModelObjective(target)
	}
	o := certify.Options{Goal: goal}
	if l == formulation.Root {
		o.Nodes = 1
	}
	r, err := certify.Tree(ctx, lp, &data, head, o)
	switch {
	case err != nil:
		return nil, err
	case r.Certificate == nil:
		return nil, errors.New(r.Note)
	}
	return r.Certificate, nil
}

// openLP loads a model whose relaxations are solved repeatedly. It uses the backend's library or, if that cannot
// keep models, that of LP. The check of multipliers does not depend on their origin.
func (s *Setting) openLP(d *milp.Data) (maker string, lp solvers.LP, err error) {
	lp, err = solvers.OpenLP(s.Backend, d)
	if s.LP == nil || !errors.Is(err, solvers.ErrUnsupported) {
		return s.Backend.Name(), lp, err
	}
	lp, err = solvers.OpenLP(s.LP, d)
	return s.LP.Name(), lp, err
}

// head returns the part of a certificate that identifies its program. Sizes are in bytes, as in files.
func (s *Setting) head(in *Instance, p *formulation.Program, maker string) (certificate.Certificate, error) {
	platform, err := json.Marshal(s.Platform.InBytes(in.Unit()))
	if err != nil {
		return certificate.Certificate{}, fmt.Errorf("platform of a certificate: %w", err)
	}
	scale := p.Unit
	if scale == 0 {
		scale = 1
	}
	return certificate.Certificate{
		Name: in.Name, Instance: in.SHA256, Problem: s.problem, Platform: platform,
		Formulation: p.Formulation, Options: p.Options, Backend: maker, Scale: scale,
	}, nil
}

// describe returns the size of a model, nil for nil.
func describe(m *milp.Model) *Formulation {
	if m == nil {
		return nil
	}
	return &Formulation{
		Name: m.Name(), Version: "1", Variables: m.NumCols(), Integers: m.NumIntegers(),
		Constraints: m.NumRows(), Nonzeros: m.NumNonzeros(),
	}
}
