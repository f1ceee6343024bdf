package check_test

import (
	"slices"
	"strings"
	"testing"

	"workbench/bench/solve/catalog"
	"workbench/bench/solve/formulate"
	"workbench/ilp"
	"workbench/ilp/check"
	"workbench/ilp/formulation"
	"workbench/ilp/ilptest"
	"workbench/model/milp"
	"workbench/model/plan"
	"workbench/model/testfile"
	"workbench/solvers"
	"workbench/solvers/highs"
)

// rows returns the rows of the groups whose name has the word, of all groups for "".
func rows(d *milp.Data, word string) (list []int) {
	for i := range d.RowLower {
		if strings.Contains(d.Groups[d.RowGroup[i]].Name, word) {
			list = append(list, i)
		}
	}
	return list
}

// entries returns the indices of the coefficients of row i.
func entries(d *milp.Data, i int) (list []int) {
	for k := d.Start[i]; k < d.Start[i+1]; k++ {
		list = append(list, int(k))
	}
	return list
}

// drop makes a row one that always holds.
func drop(d *milp.Data, i int) {
	for _, k := range entries(d, i) {
		d.Val[k] = 0
	}
	d.RowLower[i], d.RowUpper[i] = min(d.RowLower[i], 0), max(d.RowUpper[i], 0)
}

// tighten moves the sides of a row by so much.
func tighten(d *milp.Data, i int, by float64) {
	if d.RowLower[i] > -1e30 && d.RowLower[i] != d.RowUpper[i] {
		d.RowLower[i] += by
	}
	if d.RowUpper[i] < 1e30 && d.RowLower[i] != d.RowUpper[i] {
		d.RowUpper[i] -= by
	}
}

// uppers moves the upper bounds of continuous columns by so much.
func uppers(by float64) func(*milp.Data) {
	return func(d *milp.Data) {
		for j := range d.Upper {
			if d.Upper[j] >= 1 && d.Upper[j] < 1e30 && !d.Integer[j] {
				d.Upper[j] += by
			}
		}
	}
}

func each(word string, edit func(d *milp.Data, i int)) func(*milp.Data) {
	return func(d *milp.Data) {
		for _, i := range rows(d, word) {
			edit(d, i)
		}
	}
}

func last(word string, edit func(d *milp.Data, i int)) func(*milp.Data) {
	return func(d *milp.Data) {
		if list := rows(d, word); len(list) > 0 {
			edit(d, list[len(list)-1])
		}
	}
}

func relaxed(d *milp.Data) {
	for j := range d.Integer {
		d.Integer[j] = false
	}
}

func scaled(by float64) func(*milp.Data) {
	return func(d *milp.Data) {
		for j := range d.Cost {
			d.Cost[j] *= by
		}
		d.Offset *= by
	}
}

// mutant is a mistake that is planted into a formulation.
type mutant struct {
	name, formulation string
	model             func(*milp.Data)
	program           func(*formulation.Program)
}

var mutants = []mutant{
	{"sign of a coefficient", "checkmate", each("", func(d *milp.Data, i int) {
		if k := entries(d, i); i == 0 {
			d.Val[k[0]] = -d.Val[k[0]]
		}
	}), nil},
	{"big-M × 0.7", "placement-orders", each("", func(d *milp.Data, i int) {
		for _, k := range entries(d, i) {
			if d.Integer[d.Col[k]] {
				d.Val[k] *= 0.7
			}
		}
	}), nil},
	{"upper bound less by one", "placement-orders", uppers(-1), nil},
	{"units mixed", "checkmate", each("memory", func(d *milp.Data, i int) {
		if k := entries(d, i); len(k) > 0 {
			d.Val[k[len(k)-1]] *= 1024
		}
	}), nil},
	{"a cut too strong by one", "weights", last("", func(d *milp.Data, i int) { tighten(d, i, 1) }), nil},
	{"a cut too strong by one, large instances only", "chain-milp-bound", func(d *milp.Data) {
		if len(d.Cost) >= 60 {
			last("", func(d *milp.Data, i int) { tighten(d, i, 1) })(d)
		}
	}, nil},
	{"objective × 2", "swap", scaled(2), nil},
	{"objective × 0.5", "swap", scaled(0.5), nil},
	{"< for ≤", "checkmate", uppers(-1), nil}, // of the memory that is in use
	{"F and B exchanged", "checkmate", func(d *milp.Data) {
		for j, k := 0, len(d.Cost)-1; j < k; j, k = j+1, k-1 {
			d.Cost[j], d.Cost[k] = d.Cost[k], d.Cost[j]
		}
	}, nil},
	{"rows have each other's sides", "checkmate", func(d *milp.Data) {
		slices.Reverse(d.RowUpper)
		slices.Reverse(d.RowLower)
	}, nil},
	{"continuous for integer, exact", "checkmate", relaxed, nil},
	{"continuous for integer, bound", "remat-offload", relaxed, nil},
	{"a byte of memory more", "checkmate", uppers(1), nil},
	{"a row is missing, exact", "placement-orders", last("", drop), nil},
	{"memory rows are missing, bound", "weights", each("memory", drop), nil},
	{"a row is missing, bound", "swap", last("", drop), nil},
	{"shifted index", "checkmate", last("memory", func(d *milp.Data, i int) {
		for _, k := range entries(d, i) {
			d.Col[k] = (d.Col[k] + 1) % int32(len(d.Cost))
		}
	}), nil},
	{"milliseconds for seconds", "remat-offload", scaled(1000), nil},
	{"plans are an operation short", "checkmate", nil, func(p *formulation.Program) {
		make := p.Plan
		p.Plan = func(x []float64) (*plan.Plan, error) {
			q, err := make(x)
			if err == nil && len(q.Ops) > 1 {
				q.Ops = q.Ops[1:]
			}
			return q, err
		}
	}},
	{"a start is off by one", "checkmate", nil, func(p *formulation.Program) {
		start := p.Start
		p.Start = func(q *plan.Plan) ([]float64, error) {
			x, err := start(q)
			if err == nil {
				x[0] = 1 - x[0]
			}
			return x, err
		}
	}},
	{"a decoder that panics", "checkmate", nil, func(p *formulation.Program) {
		p.Plan = func(x []float64) (*plan.Plan, error) { return nil, []error{nil}[len(x)] }
	}},
}

// A mistake that only instances beyond exhaustive search show is found by the plans of heuristics, which no right formulation
// excludes.
func TestPlansOfHeuristics(t *testing.T) {
	testfile.Long(t)
	backend := highs.New()
	large, spoilt := 0, 0
	for _, f := range ilp.Formulations() {
		problem, err := catalog.FindProblem(f.Problem)
		if err != nil {
			t.Fatal(err)
		}
		about := problem.SubjectOf(f)
		if about == nil || f.Promise == formulation.Nothing {
			continue
		}
		o := check.Options{Cases: 1, Known: formulate.KnownPlans(problem)}
		r, err := check.Run(t.Context(), f, about, []solvers.Backend{backend}, o)
		if err != nil {
			t.Fatal(err)
		}
		large += r.Large
		for _, x := range r.Failures {
			t.Errorf("%s: %s: %v", f.Name, x.Kind, &x.Smallest)
		}
		searched := map[string]int{"weights-nested": 150, "checkmate-strong": 60, "swap": 60, "placement-orders": 15, "flush-orders": 30}[f.Name]
		if searched == 0 {
			continue
		}
		f = ilptest.Spoilt(f, func(d *milp.Data) {
			if len(d.Cost) > searched {
				scaled(1.5)(d)
				each("", func(d *milp.Data, i int) { tighten(d, i, 1) })(d)
			}
		}, nil)
		if r, err = check.Run(t.Context(), f, about, []solvers.Backend{backend}, o); err != nil {
			t.Fatal(err)
		}
		if len(r.Failures) == 0 || r.Failures[0].Kind != check.KnownAbove && r.Failures[0].Kind != check.KnownStart {
			t.Errorf("%s, wrong on large instances: %+v", f.Name, r.Failures)
			continue
		}
		if text := r.Failures[0].Smallest.String(); !strings.Contains(text, "plan of ") {
			t.Errorf("%s: %s", f.Name, text)
		}
		spoilt++
	}
	if large < 80 || spoilt != 5 {
		t.Errorf("%d large instances, %d mistakes found", large, spoilt)
	}
}

// Of the planted mistakes the check finds all but one at least.
func TestPlantedMistakes(t *testing.T) {
	testfile.Long(t)
	backend := highs.New()
	var missed []string
	for _, m := range mutants {
		i := slices.IndexFunc(ilp.Formulations(), func(f formulation.Formulation) bool { return f.Name == m.formulation })
		if i < 0 {
			t.Fatalf("no formulation %s", m.formulation)
		}
		f := ilp.Formulations()[i]
		problem, err := catalog.FindProblem(f.Problem)
		if err != nil {
			t.Fatal(err)
		}
		f = ilptest.Spoilt(f, m.model, m.program)
		r, err := check.Run(t.Context(), f, problem.SubjectOf(f), []solvers.Backend{backend}, check.Options{})
		switch {
		case err != nil:
			t.Logf("%s: refused: %v", m.name, err)
		case len(r.Failures) == 0:
			missed = append(missed, m.name)
		default:
			t.Logf("%s: %d %s", m.name, r.Failures[0].Count, r.Failures[0].Kind)
		}
	}
	if len(mutants) != 22 || len(missed) > 1 {
		t.Errorf("of %d mistakes %d are missed: %v", len(mutants), len(missed), missed)
	}
}
