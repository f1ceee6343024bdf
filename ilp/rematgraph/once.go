package rematgraph

import (
	"workbench/ilp/formulation"
	"workbench/model/plan"
	"workbench/model/platform"
)

// Once builds the strengthened model of stages in which no node is recomputed more than once, as in the strategies
// of Kusumoto et al., "A Graph Theoretic Framework of Recomputation Algorithms for Memory-Efficient
// Backpropagation", NeurIPS 2019. The difference to [Strong] is the value of a second recomputation. It is a
// restriction: its solutions are plans, and it may be infeasible where plans exist. Kusumoto et al. recompute
// complete segments of the graph between chosen sets; this model recomputes any node.
func Once(g plan.Instance, p platform.Platform) (*formulation.Program, error) {
	in, err := newGraphInstance(g, p)
	if err != nil {
		return nil, err
	}
	if err := in.atMost(MostCheckmate); err != nil {
		return nil, err
	}
	f := buildStrong(in, Options{once: true})
	again := f.m.Group("once again", "after Kusumoto et al. 2019")
	for j := range f.n {
		f.e.Reset()
		for t := j + 1; t < f.n; t++ {
			f.addR(1, t, j)
		}
		if len(f.e.Terms) > 1 {
			again.AtMost(&f.e, 1)
		}
	}
	made := f.restriction()
	made.Formulation, made.Promise = onceName, formulation.Restriction
	return made, nil
}
