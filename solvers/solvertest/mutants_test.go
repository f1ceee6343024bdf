package solvertest_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"workbench/model/milp"
	"workbench/model/testfile"
	"workbench/solvers"
	"workbench/solvers/enumerate"
	"workbench/solvers/solvertest"
)

// mutant is the enumerating backend with one defect.
type mutant struct {
	name   string
	fails  string // the case that must notice
	claims func(solvers.Features) solvers.Features
	solve  func(ctx context.Context, m *milp.Model, o solvers.Options) (*solvers.Result, error)
}

func (mutant) Name() string { return enumerate.New().Name() }

func (u mutant) Can() solvers.Features {
	if u.claims == nil {
		return enumerate.New().Can()
	}
	return u.claims(enumerate.New().Can())
}

func (u mutant) Solve(ctx context.Context, m *milp.Model, o solvers.Options) (*solvers.Result, error) {
	if u.solve == nil {
		return enumerate.New().Solve(ctx, m, o)
	}
	return u.solve(ctx, m, o)
}

type solveFunc func(ctx context.Context, m *milp.Model, o solvers.Options) (*solvers.Result, error)

// after spoils results.
func after(spoil func(m *milp.Model, o *solvers.Options, r *solvers.Result)) solveFunc {
	return func(ctx context.Context, m *milp.Model, o solvers.Options) (*solvers.Result, error) {
		r, err := enumerate.New().Solve(ctx, m, o)
		if err == nil {
			spoil(m, &o, r)
		}
		return r, err
	}
}

// before spoils options and contexts.
func before(spoil func(ctx context.Context, o *solvers.Options) context.Context) solveFunc {
	return func(ctx context.Context, m *milp.Model, o solvers.Options) (*solvers.Result, error) {
		return enumerate.New().Solve(spoil(ctx, &o), m, o)
	}
}

// misread spoils the model that is solved, and judges the values by it.
func misread(spoil func(d *milp.Data)) solveFunc {
	return func(ctx context.Context, m *milp.Model, o solvers.Options) (*solvers.Result, error) {
		if m == nil || m.Err() != nil {
			return enumerate.New().Solve(ctx, m, o)
		}
		d := m.Data()
		d.Val, d.Cost = slices.Clone(d.Val), slices.Clone(d.Cost)
		d.Lower, d.Upper = slices.Clone(d.Lower), slices.Clone(d.Upper)
		d.RowLower, d.RowUpper = slices.Clone(d.RowLower), slices.Clone(d.RowUpper)
		spoil(&d)
		return enumerate.New().Solve(ctx, milp.FromData(d), o)
	}
}

// fixed returns a context that ends by itself, after the grace of limits that
// are tested, and for no other reason.
func fixed(ctx context.Context) context.Context {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), solvertest.Grace+time.Second)
	context.AfterFunc(ctx, cancel)
	return ctx
}

func mutants() []mutant {
	var kept, last atomic.Pointer[[]float64]
	var solves atomic.Int64
	return []mutant{
		{
			name: "drops the incumbent at the limit", fails: "limit/time with an incumbent",
			solve: after(func(_ *milp.Model, _ *solvers.Options, r *solvers.Result) {
				if r.Status == solvers.Feasible {
					r.Status, r.X, r.Obj = solvers.NoSolution, nil, math.NaN()
				}
			}),
		},
		{
			name: "calls the incumbent at the limit optimal", fails: "limit/time with an incumbent",
			solve: after(func(_ *milp.Model, _ *solvers.Options, r *solvers.Result) {
				if r.Status == solvers.Feasible {
					r.Status, r.Stop = solvers.Optimal, solvers.NotStopped
				}
			}),
		},
		{
			name: "makes the bound fit", fails: "limit/deadline of the context",
			solve: after(func(_ *milp.Model, _ *solvers.Options, r *solvers.Result) {
				if r.Status == solvers.Feasible {
					r.Status, r.Stop, r.Bound = solvers.Optimal, solvers.NotStopped, r.Obj
				}
			}),
		},
		{name: "claims a bound at the limit", fails: "limit/cancelled", solve: after(func(_ *milp.Model, _ *solvers.Options, r *solvers.Result) {
			if r.Status == solvers.Feasible {
				r.Bound = r.Obj * 0.9
			}
		})},
		{name: "flips the bound's sign on max", fails: "model/integers", solve: after(func(m *milp.Model, _ *solvers.Options, r *solvers.Result) {
			if m.Data().Sense == milp.Maximize {
				r.Bound = -r.Bound
			}
		})},
		{name: "bound NaN", fails: "model/integers", solve: after(
			func(_ *milp.Model, _ *solvers.Options, r *solvers.Result) { r.Bound = math.NaN() })},
		{
			name: "no bound is +Inf for min", fails: "status/infeasible rows",
			solve: after(func(_ *milp.Model, _ *solvers.Options, r *solvers.Result) {
				if math.IsInf(r.Bound, -1) {
					r.Bound = math.Inf(1)
				}
			}),
		},
		{name: "bound at infinity when optimal", fails: "model/lp", solve: after(func(m *milp.Model, _ *solvers.Options, r *solvers.Result) {
			r.Bound, r.BoundBy = math.Inf(-int(m.Data().Sense)), ""
		})},
		{
			name: "hides the gap that was asked for", fails: "limit/absolute gap",
			solve: after(func(_ *milp.Model, _ *solvers.Options, r *solvers.Result) {
				if r.Status == solvers.Optimal {
					r.Bound = r.Obj
				}
			}),
		},
		{
			name: "has a default gap", fails: "limit/no gap unless asked",
			solve: func(ctx context.Context, m *milp.Model, o solvers.Options) (*solvers.Result, error) {
				if o.RelGap.Set {
					return enumerate.New().Solve(ctx, m, o)
				}
				o.RelGap = solvers.Some(1e-3)
				r, err := enumerate.New().Solve(ctx, m, o)
				if err == nil && r.Status == solvers.Optimal {
					r.Bound = r.Obj
				}
				return r, err
			},
		},
		{name: "keeps values", fails: "repeat/infeasible between", solve: after(func(_ *milp.Model, _ *solvers.Options, r *solvers.Result) {
			if r.X != nil {
				x := slices.Clone(r.X)
				kept.Store(&x)
			} else if x := kept.Load(); x != nil {
				r.X = *x
			}
		})},
		{
			name: "returns values of the solve before", fails: "repeat/two models in turn",
			solve: after(func(_ *milp.Model, _ *solvers.Options, r *solvers.Result) {
				x := slices.Clone(r.X)
				if old := last.Swap(&x); old != nil && *old != nil {
					r.X = *old
				}
			}),
		},
		{
			name: "ignores cancellation", fails: "limit/cancelled",
			solve: before(func(ctx context.Context, _ *solvers.Options) context.Context { return fixed(ctx) }),
		},
		{
			name: "ignores the deadline of the context", fails: "limit/deadline of the context",
			solve: before(func(ctx context.Context, _ *solvers.Options) context.Context { return fixed(ctx) }),
		},
		{
			name: "ignores the time limit", fails: "limit/time without an incumbent",
			solve: before(func(ctx context.Context, o *solvers.Options) context.Context {
				o.Time = 0
				return fixed(ctx)
			}),
		},
		{
			name: "starts although cancelled", fails: "limit/cancelled before the start",
			solve: before(func(ctx context.Context, _ *solvers.Options) context.Context { return fixed(ctx) }),
		},
		{
			name: "calls the deadline a cancellation", fails: "limit/time with an incumbent",
			solve: after(func(_ *milp.Model, _ *solvers.Options, r *solvers.Result) {
				if r.Stop == solvers.Time {
					r.Stop = solvers.Cancelled
				}
			}),
		},
		{
			name: "calls the node limit a solution limit", fails: "limit/nodes",
			solve: after(func(_ *milp.Model, _ *solvers.Options, r *solvers.Result) {
				if r.Stop == solvers.Nodes {
					r.Stop = solvers.Solutions
				}
			}),
		},
		{
			name: "claims node limits, ignores them", fails: "limit/nodes",
			solve: before(func(ctx context.Context, o *solvers.Options) context.Context {
				o.Nodes, o.Time = solvers.Opt[int64]{}, 100*time.Millisecond
				return ctx
			}),
		},
		{
			name: "has node limits, denies it", fails: "limit/nodes",
			claims: func(f solvers.Features) solvers.Features { return f &^ solvers.CanNodes },
		},
		{
			name: "claims seeds, refuses them", fails: "option/seed repeats",
			claims: func(f solvers.Features) solvers.Features { return f | solvers.CanSeed },
		},
		{
			name: "drops what it does not do", fails: "option/threads 2, 1, 2",
			solve: before(func(ctx context.Context, o *solvers.Options) context.Context {
				o.Threads = solvers.Opt[int]{}
				return ctx
			}),
		},
		{
			name: "refuses without naming", fails: "option/memory to spare",
			solve: func(ctx context.Context, m *milp.Model, o solvers.Options) (*solvers.Result, error) {
				r, err := enumerate.New().Solve(ctx, m, o)
				if errors.Is(err, solvers.ErrUnsupported) {
					err = solvers.ErrUnsupported
				}
				return r, err
			},
		},
		{
			name: "drops raw options", fails: "option/unknown raw option",
			solve: before(func(ctx context.Context, o *solvers.Options) context.Context {
				o.Raw = nil
				return ctx
			}),
		},
		{name: "repairs options", fails: "option/out of range", solve: before(func(ctx context.Context, o *solvers.Options) context.Context {
			o.Time = max(0, o.Time)
			return ctx
		})},
		{name: "ignores Relax", fails: "option/relax", solve: before(func(ctx context.Context, o *solvers.Options) context.Context {
			o.Relax = false
			return ctx
		})},
		{
			name: "ignores the start", fails: "start/kept at the limit",
			solve: func(ctx context.Context, m *milp.Model, o solvers.Options) (*solvers.Result, error) {
				start := o.Start
				o.Start = nil
				r, err := enumerate.New().Solve(ctx, m, o)
				if err == nil && start != nil {
					r.Start = solvers.StartAccepted
				}
				return r, err
			},
		},
		{
			name: "is silent about the start", fails: "start/complete",
			solve: after(func(_ *milp.Model, _ *solvers.Options, r *solvers.Result) { r.Start = solvers.NoStart }),
		},
		{name: "accepts any start", fails: "start/infeasible", solve: after(func(_ *milp.Model, o *solvers.Options, r *solvers.Result) {
			if o.Start != nil {
				r.Start = solvers.StartAccepted
			}
		})},
		{
			name: "rounds the user's start", fails: "start/not changed",
			solve: before(func(ctx context.Context, o *solvers.Options) context.Context {
				for j, v := range o.Start {
					o.Start[j] = math.Round(v)
				}
				return ctx
			}),
		},
		{name: "coefficients of 2 become 1", fails: "model/duplicate columns in a row are summed", solve: misread(func(d *milp.Data) {
			for k, v := range d.Val {
				if v == 2 {
					d.Val[k] = 1
				}
			}
		})},
		{name: "last integer column is continuous", fails: "golden/knapsack", solve: misread(func(d *milp.Data) {
			if n := len(d.Integer); n > 0 {
				d.Integer[n-1] = false
			}
		})},
		{name: "upper bounds of integers off by one", fails: "model/integers", solve: misread(func(d *milp.Data) {
			for j, integer := range d.Integer {
				if integer && d.Upper[j] > d.Lower[j] {
					d.Upper[j]--
				}
			}
		})},
		{name: "integer bounds rounded outwards", fails: "model/fractional bounds of integers", solve: misread(func(d *milp.Data) {
			for j, integer := range d.Integer {
				if integer {
					d.Lower[j], d.Upper[j] = math.Floor(d.Lower[j]), math.Ceil(d.Upper[j])
				}
			}
		})},
		{name: "integer bounds truncated", fails: "model/computed bounds of integers", solve: misread(func(d *milp.Data) {
			for j, integer := range d.Integer {
				if integer {
					d.Upper[j] = math.Floor(d.Upper[j])
				}
			}
		})},
		{name: "lower bounds are 0", fails: "model/negative bounds", solve: misread(func(d *milp.Data) {
			for j := range d.Lower {
				d.Lower[j], d.Upper[j] = math.Max(0, d.Lower[j]), math.Max(0, d.Upper[j])
			}
		})},
		{name: "ranged rows lose their lower side", fails: "model/ranged row, lower side active", solve: misread(func(d *milp.Data) {
			for i, up := range d.RowUpper {
				if !math.IsInf(up, 1) && d.RowLower[i] < up {
					d.RowLower[i] = math.Inf(-1)
				}
			}
		})},
		{name: "rows without entries are dropped", fails: "status/violated row without entries", solve: misread(func(d *milp.Data) {
			for i := range d.RowLower {
				if d.Start[i] == d.Start[i+1] {
					d.RowLower[i], d.RowUpper[i] = math.Inf(-1), math.Inf(1)
				}
			}
		})},
		{name: "minimises always", fails: "model/integers", solve: misread(func(d *milp.Data) { d.Sense = milp.Minimize })},
		{name: "forgets the offset", fails: "model/offset with max", solve: misread(func(d *milp.Data) { d.Offset = 0 })},
		{name: "changes the model", fails: "model/integers", solve: after(func(m *milp.Model, _ *solvers.Options, r *solvers.Result) {
			if m.NumCols() > 0 && r.X != nil {
				m.Fix(m.Col(0).Var(), r.X[0])
			}
		})},
		{name: "values not rounded", fails: "model/integers", solve: after(func(_ *milp.Model, _ *solvers.Options, r *solvers.Result) {
			for j := range r.X {
				r.X[j] += 1e-9
			}
		})},
		{
			name: "infeasible is an error", fails: "status/infeasible rows",
			solve: func(ctx context.Context, m *milp.Model, o solvers.Options) (*solvers.Result, error) {
				r, err := enumerate.New().Solve(ctx, m, o)
				if err == nil && r.Status == solvers.Infeasible {
					return nil, solvers.ErrSolver
				}
				return r, err
			},
		},
		{
			name: "a limit is an error", fails: "limit/time without an incumbent",
			solve: func(ctx context.Context, m *milp.Model, o solvers.Options) (*solvers.Result, error) {
				r, err := enumerate.New().Solve(ctx, m, o)
				if err == nil && r.Stop == solvers.Time {
					return nil, solvers.ErrSolver
				}
				return r, err
			},
		},
		{name: "unbounded is infeasible", fails: "status/unbounded lp", solve: after(func(_ *milp.Model, _ *solvers.Options, r *solvers.Result) {
			if r.Status == solvers.Unbounded {
				r.Status = solvers.Infeasible
			}
		})},
		{
			name: "accepts models with mistakes", fails: "model/mistakes are refused",
			solve: func(ctx context.Context, m *milp.Model, o solvers.Options) (*solvers.Result, error) {
				if m != nil && m.Err() != nil {
					m = milp.New("nothing")
				}
				return enumerate.New().Solve(ctx, m, o)
			},
		},
		{
			name: "swallows panics", fails: "callback/panic in progress surfaces",
			solve: func(ctx context.Context, m *milp.Model, o solvers.Options) (r *solvers.Result, err error) {
				defer func() {
					if recover() != nil {
						r, err = nil, solvers.ErrSolver
					}
				}()
				return enumerate.New().Solve(ctx, m, o)
			},
		},
		{
			name: "does not report incumbents", fails: "callback/every incumbent",
			solve: before(func(ctx context.Context, o *solvers.Options) context.Context {
				if f := o.OnProgress; f != nil {
					o.OnProgress = func(p solvers.Progress) {
						p.X = nil
						f(p)
					}
				}
				return ctx
			}),
		},
		{
			name: "reports incumbents twice", fails: "callback/every incumbent",
			solve: before(func(ctx context.Context, o *solvers.Options) context.Context {
				if f := o.OnProgress; f != nil {
					o.OnProgress = func(p solvers.Progress) {
						q := p
						q.X = slices.Clone(p.X)
						f(q)
						f(p)
					}
				}
				return ctx
			}),
		},
		{
			name: "progress has the sense of min", fails: "callback/every incumbent",
			solve: before(func(ctx context.Context, o *solvers.Options) context.Context {
				if f := o.OnProgress; f != nil {
					o.OnProgress = func(p solvers.Progress) {
						p.Objective, p.Bound = -p.Objective, -p.Bound
						f(p)
					}
				}
				return ctx
			}),
		},
		{name: "logs nothing", fails: "callback/log", solve: before(func(ctx context.Context, o *solvers.Options) context.Context {
			o.Log = nil
			return ctx
		})},
		{name: "is moody", fails: "repeat/eight at once", solve: after(
			func(_ *milp.Model, _ *solvers.Options, r *solvers.Result) { r.Nodes = solves.Add(1) })},
		{name: "duals have the sense of min", fails: "status/duals", solve: after(func(m *milp.Model, _ *solvers.Options, r *solvers.Result) {
			if r.Dual != nil && m.Data().Sense == milp.Maximize {
				for i := range r.Dual.Row {
					r.Dual.Row[i] = -r.Dual.Row[i]
				}
			}
		})},
		{name: "has no duals", fails: "status/duals", solve: after(func(_ *milp.Model, _ *solvers.Options, r *solvers.Result) { r.Dual = nil })},
		{
			name: "has duals of anything", fails: "status/no duals of a mip",
			solve: after(func(_ *milp.Model, _ *solvers.Options, r *solvers.Result) { r.Dual = &solvers.Duals{} }),
		},
		{
			name: "neither result nor error", fails: "model/integers",
			solve: func(context.Context, *milp.Model, solvers.Options) (*solvers.Result, error) { return nil, nil },
		},
		{name: "panics", fails: "model/integers", solve: func(context.Context, *milp.Model, solvers.Options) (*solvers.Result,
			error,
		) {
			panic("mutant")
		}},
	}
}

// TestMutants holds the suite to its word: each defect is noticed by the case
// that is meant for it, which the sound backend passes.
func TestMutants(t *testing.T) {
	names := solvertest.Names()
	for _, u := range mutants() {
		t.Run(strings.ReplaceAll(u.name, " ", "_"), func(t *testing.T) {
			if strings.HasPrefix(u.name, "ignores") && strings.HasPrefix(u.fails, "limit/") { // until something else ends it
				testfile.Long(t)
			}
			t.Parallel()
			if !slices.Contains(names, u.fails) {
				t.Fatalf("there is no case %q", u.fails)
			}
			if len(solvertest.Check(t.Context(), u, u.fails)) == 0 {
				t.Errorf("%q does not notice", u.fails)
			}
		})
	}
}

// TestKnownBad checks both halves of the list of known failures.
func TestKnownBad(t *testing.T) {
	sound := enumerate.New()
	if f := solvertest.Check(t.Context(), sound, "model/lp"); f != nil {
		t.Error(f)
	}
	if f := solvertest.Check(t.Context(), mutants()[4], "model/integers", "model/lp"); len(f) != 1 || f[0].Case != "model/integers" {
		t.Errorf("got %v, want model/integers alone to fail", f)
	}
}
