package maxload_test

import (
	"math"
	"testing"

	program "workbench/ilp/maxload"
	"workbench/model/maxload"
	"workbench/model/maxload/maxloadtest"
	"workbench/model/testfile"
	"workbench/solvers"
	"workbench/solvers/highs"
	"workbench/solvers/lpsolve"
)

// Both programs have the optimum of all splits that they are about, by both solvers, and
// take a split as it is for a start.
func TestProgram(t *testing.T) {
	r := testfile.Random(t, 18, 3)
	found, none := 0, 0
	for range testfile.Cases(60) {
		in := maxloadtest.Random(r, 1+r.IntN(5))
		for _, contiguous := range []bool{false, true} {
			wanted := func([]int) bool { return true }
			if contiguous {
				wanted = in.Contiguous
			}
			want := maxloadtest.Best(in, wanted)
			for _, b := range []solvers.Backend{highs.New(), lpsolve.New()} {
				p, err := program.New(in, contiguous)
				if err != nil {
					t.Fatal(err)
				}
				got, err := b.Solve(t.Context(), p.Model, solvers.Options{})
				if err != nil {
					t.Fatal(err)
				}
				if math.IsInf(want, 1) != (got.Status == solvers.Infeasible) {
					t.Fatalf("%s: %v, the best split has %v: %+v", b.Name(), got.Status, want, in)
				}
				x, ok := got.Solution()
				if !ok {
					none++
					continue
				}
				found++
				checkSplit(t, p, in, x, want, wanted)
			}
		}
	}
	if found < testfile.Cases(120) || none < testfile.Cases(10) {
		t.Errorf("%d splits, %d instances without", found, none)
	}
}

// checkSplit holds a solution, its split and the start that this is against the optimum.
func checkSplit(t *testing.T, p *program.Program, in *maxload.Instance, x []float64, want float64, wanted func([]int) bool) {
	t.Helper()
	device := p.Split(x)
	load, err := in.MaxLoad(device)
	if err != nil || math.Abs(load-want) > 1e-9 || !wanted(device) || math.Abs(p.Model.Objective(x)/p.Scale-want) > 1e-6 {
		t.Fatalf("%v: %v (%v), the program says %v, the best split has %v: %+v", device, load, err, p.Model.Objective(x)/p.Scale, want, in)
	}
	m := p.Model.Clone()
	for j, v := range p.Start(device) {
		if !math.IsNaN(v) {
			m.Fix(m.Col(j).Var(), v)
		}
	}
	r, err := highs.New().Solve(t.Context(), m, solvers.Options{})
	if err != nil || r.Status != solvers.Optimal || math.Abs(r.Obj/p.Scale-want) > 1e-6 {
		t.Fatalf("the start of %v: %+v (%v), want %v", device, r, err, want)
	}
}
