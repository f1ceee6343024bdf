package pipeline

import (
	"workbench/ilp/formulation"
	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
)

// Printed builds the ILP of [004] chapter 6 exactly as printed; groups.go quotes each group of equations. Its
// optimum is no bound, and its solutions need not be patterns:
//
//   - (6.1) covers t < u < x in one rotation only, so that z is no equivalence relation (findings 15);
//   - a communication takes d~ even where nothing is sent, in (6.18), (6.25), (6.26), (6.29) and (6.30) (findings
//     15);
//   - K is Σd + Σd~, which (6.24) may exceed by a communication;
//   - tasks of zero duration may be unordered if they start at the same time.
func Printed(c *chain.Chain, p platform.Platform) (*formulation.Program, error) {
	in, err := newWholePipeline(c, p, plan.TaskModel)
	if err != nil {
		return nil, err
	}
	f := newColumns(printedName, in, in.horizon, in.horizon, 2*in.n)
	f.alwaysSent = true

	f.sameAsPrinted()           // (6.1)
	f.processors()              // (6.2), (6.3)
	f.colocated()               // (6.4)
	f.order()                   // (6.5)–(6.7)
	f.links()                   // (6.8)–(6.13)
	f.linkOrder()               // (6.14)–(6.16)
	f.ends()                    // (6.17)–(6.19)
	f.spans()                   // (6.20), (6.21)
	f.shifts()                  // (6.23)–(6.30)
	f.waiting()                 // (6.22)
	f.storedInputs(f.allCopies) // (6.31), (6.32)
	f.buffers()                 // (6.34), (6.35)
	f.memoryRows()              // (6.33), (6.36)
	return &formulation.Program{
		Model: f.m, Promise: formulation.Nothing, Formulation: printedName, Options: memoryOptions(in.model),
		Unit: f.time,
	}, nil
}

// sameAsPrinted adds (6.1) for t < u < x: if u and x are both on the processor of t, they share a processor.
func (f *pipelineILP) sameAsPrinted() {
	g := f.m.Group("same resource", "[004] (6.1)")
	for t := range f.hosts {
		for u := t + 1; u < f.hosts; u++ {
			for x := u + 1; x < f.hosts; x++ {
				g.AtLeast(f.e.Reset().Add(1, f.z.pair(u, x)).Add(-1, f.z.pair(t, u)).Add(-1, f.z.pair(t, x)), -1)
			}
		}
	}
}
