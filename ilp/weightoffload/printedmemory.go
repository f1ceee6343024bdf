package weightoffload

import (
	"workbench/ilp/formulation"
	"workbench/model/instance/chain"
	"workbench/model/platform"
)

// PrintedMemory builds the MILP of [001] §6 with (4) as printed and the sign of
// (6) corrected, as findings 1 tried it: what (4) alone does. It is no bound.
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
