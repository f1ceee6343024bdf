package remat

import (
	"math/bits"
	"slices"
	"testing"

	"workbench/ilp/check"
	"workbench/ilp/formulation"
	"workbench/ilp/ilptest"
	"workbench/model/instance/chain"
	"workbench/model/platform"
	model "workbench/model/problem/remat"
	"workbench/model/testcase"
	"workbench/model/testfile"
	"workbench/solvers"
	"workbench/solvers/highs"
)

// Models that are wrong on purpose are caught by the check of formulations.
func TestMutants(t *testing.T) {
	testfile.Long(t)
	scale := func(x []float64, by float64) {
		for i := range x {
			x[i] *= by
		}
	}
	for name, spoil := range map[string]func(v *model.View){
		"recomputation costs 1.2 times":      func(v *model.View) { scale(v.UF, 1.2) },
		"a backward of another layer":        func(v *model.View) { v.UB[1], v.UB[v.N] = v.UB[v.N], v.UB[1]+1 },
		"gradients of the next layer":        func(v *model.View) { v.Delta = append(slices.Clone(v.Delta[1:]), v.Delta[0]+1) },
		"one unit less memory":               func(v *model.View) { v.Memory-- },
		"ā is a unit larger":                 func(v *model.View) { v.Abar[1]++ },
		"overheads of backwards count twice": func(v *model.View) { scale(v.OB, 2) },
	} {
		for _, f := range Formulations() {
			spoilt := f
			spoilt.Build = formulation.Without(func(c *chain.Chain, p platform.Platform) (*formulation.Program, error) {
				m, err := newChainMILP(c, p, f.Promise == formulation.LowerBound)
				if err != nil {
					return nil, err
				}
				spoil(m.v)
				if err := m.build(t.Context(), nil); err != nil {
					return nil, err
				}
				program := m.program()
				if m.bound {
					program.Start, program.Plan = nil, nil
				}
				return program, nil
			})
			if !ilptest.Fails(t, spoilt, testcase.Remat(), check.Options{Seed: 7, Cases: 300, Layers: 4}) {
				t.Errorf("%s: nobody sees that %s", f.Name, name)
			}
		}
	}
}

// A larger memory or shorter times leave a lower bound: nothing to be caught there.
func TestWeakerIsNoMutant(t *testing.T) {
	f := ilptest.Formulation(t, Formulations(), nameBound)
	spoilt := f
	spoilt.Build = formulation.Without(func(c *chain.Chain, p platform.Platform) (*formulation.Program, error) {
		p.Memory++
		return f.Build(c, p, nil)
	})
	r, err := check.Run(t.Context(), spoilt, testcase.Remat(), []solvers.Backend{highs.New()}, check.Options{Seed: 7, Cases: 100, Layers: 4})
	if err != nil || len(r.Failures) > 0 {
		t.Errorf("%+v, %v", r.Failures, err)
	}
}

// A cover that is wrong from four items on, for what it takes just fits, is caught
// too, by chains that are long enough.
func TestCoverOfFour(t *testing.T) {
	testfile.Long(t)
	f := ilptest.Formulation(t, Formulations(), nameBound)
	spoilt, wrong := f, 0
	spoilt.Build = formulation.Without(func(c *chain.Chain, p platform.Platform) (*formulation.Program, error) {
		m, err := newChainMILP(c, p, true)
		if err != nil {
			return nil, err
		}
		if err := m.build(t.Context(), nil); err != nil {
			return nil, err
		}
		for _, row := range m.rows {
			for set := range 1 << len(row.items) {
				sum := 0.0
				m.e.Reset()
				for k, x := range row.items {
					if set>>k&1 != 0 {
						sum += x.size
						m.e.Add(1, x.v)
					}
				}
				if n := bits.OnesCount(uint(set)); n >= 4 && sum == row.room {
					wrong++
					m.m.Group("wrong", "these cannot all stay").AtMost(&m.e, float64(n-1))
				}
			}
		}
		program := m.program()
		program.Start, program.Plan = nil, nil
		return program, m.m.Err()
	})
	if !ilptest.Fails(t, spoilt, testcase.Remat(), check.Options{Seed: 7, Cases: 400, Layers: 6}) {
		t.Errorf("nobody sees %d such covers", wrong)
	}
}
