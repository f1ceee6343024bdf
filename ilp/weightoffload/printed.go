package weightoffload

import (
	"workbench/ilp/formulation"
	"workbench/model/instance/chain"
	"workbench/model/platform"
)

// Printed builds the MILP of [001] §6 exactly as printed: (2), (3), (5), (7),
// (8) and the second of (6) as in paper.go, (4) and the first of (6) as here.
//
// It is no bound. (4) counts the weight of operation k in M_k although m_{i,k}
// does already, and P − D ≥ 0 forbids that anything is ever deleted: the model
// is infeasible, or above the optimum, on most small instances (findings 1).
func Printed(c *chain.Chain, p platform.Platform) (*formulation.Program, error) {
	f, err := newPaper("weights-printed", c, p)
	if err != nil {
		return nil, err
	}
	f.shared()
	f.printedMemory()
	f.printedSign()
	return f.program(formulation.Nothing), nil
}

// printedMemory is [001] (4): Σ_i m_{i,k} ≤ M − M_k at the start of operation k,
// where M_k of (1) contains the weight of operation k, as does Σ_i m_{i,k}.
func (f *paper) printedMemory() {
	g := f.m.Group("memory", "[001] (4)")
	for k := range f.N {
		f.fit(g, k, func(int) bool { return true })
	}
}

// printedSign is the first of [001] (6): Σ_{B_i}^{k-1} P − D ≥ 0.
func (f *paper) printedSign() {
	g := f.m.Group("no more than deleted", "[001] (6)")
	for i := range f.L {
		for k := range f.N {
			f.e.Reset().Add(1, f.here.At(i, k))
			g.AtLeast(&f.e, 1)
		}
	}
}
