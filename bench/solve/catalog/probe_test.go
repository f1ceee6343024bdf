package catalog_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"workbench/bench/solve"
	"workbench/bench/solve/backends"
	"workbench/ilp/formulation"
	"workbench/model/milp"
	"workbench/solvers"
)

// TestProbes: of models that libraries answer wrongly the driver passes on no bound
// that is wrong, nor that there is no solution; what they say stays a claim.
func TestProbes(t *testing.T) {
	in := loadText(t, fmt.Sprintf(tenths, ""))
	for _, name := range backends.Names() {
		s := solve.Setting{Threads: 1}
		if err := backends.Use(&s, name, false); err != nil || s.Missing != nil {
			t.Logf("%s is not here: %v %v", name, err, s.Missing)
			continue
		}
		linked := name == "highs" || name == "lpsolve" // whose linear programs give a bound
		for _, p := range solvers.Probes() {
			m, best := p.Model(), p.Optimum
			if d := m.Data(); d.Sense == milp.Maximize {
				d.Sense, d.Cost, best = milp.Minimize, slices.Clone(d.Cost), -best
				for j := range d.Cost {
					d.Cost[j] *= -1
				}
				m = milp.FromData(d)
			}
			program := &formulation.Program{Model: m, Promise: formulation.Equal, Formulation: "probe"}
			r, err := s.Task(in, "", nil).Run(t.Context(), formulation.Phases(&formulation.Phase{Program: program}))
			if err != nil {
				t.Fatal(err)
			}
			if r.Infeasible != nil || r.Bound() > best || linked && !math.IsInf(best, 0) && len(r.Bounds) != 1 {
				t.Errorf("%s, %s: infeasible %v, bounds %v, the optimum is %v; %v", name, p.Name, r.Infeasible != nil, r.Bounds, best, r.Notes)
			}
			// What is claimed above the optimum is not confirmed.
			wrong := r.Solver.Status == solvers.Infeasible || r.Solver.Bound > best+1e-5*math.Max(1, math.Abs(best))
			if wrong && len(r.Claims) == 0 {
				t.Errorf("%s, %s: the claim of %v %v is confirmed", name, p.Name, r.Solver.Status, r.Solver.Bound)
			}
		}
	}
}
