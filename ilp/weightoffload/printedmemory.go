package weightoffload

import (
	"workbench/ilp/formulation"
	"workbench/model/instance/chain"
	"workbench/model/platform"
)

// PrintedMemory builds the MILP of [001] §6 with (4) as printed and the sign of (6) corrected, the
// effect of (4) alone (findings 1). It proves no bound.
func PrintedMemory(c *chain.Chain, p platform.Platform) (*formulation.Program, error) {
	f, err := newPaper("weights-printed-memory", c, p)
	if err != nil {
		return nil, err
	}
	f.shared()
	f.printedMemory()
	f.noMoreThanDeleted()
	return f.program(formulation.Nothing), nil
}
