package catalog_test

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"workbench/bench/solve"
	"workbench/bench/solve/backends"
	"workbench/bench/solve/catalog"
	"workbench/bench/solve/catalog/catalogtest"
	"workbench/ilp"
	"workbench/ilp/formulation"
	"workbench/model/milp"
	"workbench/model/plan"
	"workbench/model/platform"
)

// spoilt is a method that solves a spoilt model after the problem's own method: a
// mistake in a formulation as it would come about, certified as any other.
func spoilt(t *testing.T, p *solve.Problem, in *solve.Instance, f formulation.Formulation, spoil func(*formulation.Program, *milp.Data),
	planned bool,
) *solve.Method {
	own, err := catalog.FindMethod(p, catalog.DefaultMethod(p, in))
	if err != nil {
		t.Fatal(err)
	}
	return &solve.Method{
		Name: "spoilt", Kind: solve.Exact,
		Run: func(ctx context.Context, in *solve.Instance, s solve.Setting) (*solve.Outcome, error) {
			out := &solve.Outcome{}
			if planned {
				first, err := own.Run(ctx, in, s)
				if err != nil {
					return nil, err
				}
				out.Plan = first.Plan
			}
			program, err := ilp.Rebuild(f.Name, in.Instance, s.Platform, nil)
			if err != nil {
				return nil, err
			}
			d := program.Model.Data()
			spoil(program, &d)
			program.Model = milp.FromData(d)
			if err := program.Model.Err(); err != nil {
				return nil, err
			}
			program.Plan, program.Start, program.Hint = nil, nil, nil
			r, err := s.Task(in, "milp", nil).Run(ctx, formulation.Phases(&formulation.Phase{Program: program}))
			out.AddResult(r)
			return out, err
		},
	}
}

// dearer makes all costs 1.2 times as high.
func dearer(_ *formulation.Program, d *milp.Data) {
	cost := make([]float64, len(d.Cost))
	for j, c := range d.Cost {
		cost[j] = 1.2 * c
	}
	d.Cost, d.Offset = cost, 1.2*d.Offset
}

// impossible adds a row that asks the last column that has a least value for less.
func impossible(_ *formulation.Program, d *milp.Data) {
	n := len(d.Cost) - 1
	for math.IsInf(d.Lower[n], -1) {
		n--
	}
	d.RowLower, d.RowUpper = append(slices.Clone(d.RowLower), math.Inf(-1)), append(slices.Clone(d.RowUpper), d.Lower[n]-1)
	d.Col, d.Val = append(slices.Clone(d.Col), int32(n)), append(slices.Clone(d.Val), 1)
	d.Start, d.RowGroup = append(slices.Clone(d.Start), int32(len(d.Col))), append(slices.Clone(d.RowGroup), 0)
}

func supposing(p *formulation.Program, d *milp.Data) {
	impossible(p, d)
	p.Assumptions = []string{"something"}
}

// TestAlarm: a formulation of each problem with costs 1.2 times as high, or that no
// plan fulfils, is told from a right one as soon as there is a plan; and what has no
// solution under an assumption says nothing of other plans.
func TestAlarm(t *testing.T) {
	backend, err := backends.New("highs", false)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct{ problem, formulation, instance string }{
		{plan.Remat, "chain-milp-bound", "zoo:rnn?seq=3"},
		{plan.WeightOffload, "weights", "zoo:rnn?seq=3"},
		{plan.WeightOffload, "weights-nested", "zoo:rnn?seq=3"},
		{plan.ActivationOffload, "offload", "zoo:rnn?seq=3"},
		{plan.RematOffload, "remat-offload", "zoo:rnn?seq=3"},
		{plan.Pipeline, "pipeline-closed", "zoo:rnn?seq=3"},
		{plan.Remat, "checkmate-beside", "../../../testdata/examples/fork.graph.json"},
		{plan.Remat, "checkmate-strong", "../../../testdata/examples/fork.graph.json"},
		{plan.Swap, "swap", ""},
	} {
		p, err := catalog.FindProblem(x.problem)
		if err != nil {
			t.Fatal(err)
		}
		in, err := solve.Load(cmp.Or(x.instance, p.Example), nil)
		if err != nil {
			t.Fatal(err)
		}
		var f formulation.Formulation
		for _, y := range ilp.Formulations() {
			if y.Name == x.formulation {
				f = y
			}
		}
		s := solve.Setting{
			Platform: platform.Platform{Memory: catalogtest.Memory(p, in, platform.MemorySpec{Percent: true, Range: true, Value: 100}), Bandwidth: 1e12},
			Backend:  backend, Threads: 1, Time: time.Minute,
		}
		if p.Parallel {
			s.Platform.Processors, s.Platform.WeightCopies = 1, 1
			s.Platform.Memory = 1e15
		}
		for _, y := range []struct {
			name    string
			spoil   func(*formulation.Program, *milp.Data)
			planned bool
			status  solve.Status
			says    string
		}{
			{"right", func(*formulation.Program, *milp.Data) {}, true, solve.Optimal, ""},
			{"costs", dearer, true, solve.Failed, "the bound is wrong"},
			{"no solution", impossible, true, solve.Failed, "the formulation is wrong"},
			{"no solution, no plan", impossible, false, solve.Infeasible, "certified"},
			{"supposing", supposing, true, solve.Failed, "the formulation is wrong"}, // what nobody knows binds
			{"supposing, no plan", supposing, false, solve.Limit, "no plan"},
		} {
			if x.formulation == "checkmate-strong" && y.name == "no solution, no plan" {
				y.status, y.says = solve.Limit, "no plan" // there may be others
			}
			r := solve.Run(t.Context(), p, spoilt(t, p, in, f, y.spoil, y.planned), in, s)
			if r.Status != y.status || !strings.Contains(r.Error, y.says) {
				t.Errorf("%s, %s: %s, %q (%s), want %s, %q", x.formulation, y.name, r.Status, r.Error, r.Note, y.status, y.says)
			}
		}
	}
}
