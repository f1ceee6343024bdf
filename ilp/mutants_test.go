package ilp_test

import (
	"testing"

	"workbench/ilp"
	"workbench/ilp/check"
	"workbench/ilp/formulation"
	"workbench/model/chain"
	"workbench/model/functions"
	"workbench/model/graph"
	"workbench/model/milp"
	"workbench/model/platform"
	"workbench/solvers"
	"workbench/solvers/highs"
)

// dearer makes all costs of a program 1.2 times as high.
func dearer(p *formulation.Program, err error) (*formulation.Program, error) {
	if err != nil {
		return nil, err
	}
	d := p.Model.Data()
	cost := make([]float64, len(d.Cost))
	for j, c := range d.Cost {
		cost[j] = 1.2 * c
	}
	d.Cost, d.Offset = cost, 1.2*d.Offset
	p.Model = milp.FromData(d)
	return p, p.Model.Err()
}

// TestDearer: the check sees of every formulation that promises anything that its
// costs are 1.2 times as high.
func TestDearer(t *testing.T) {
	for _, f := range ilp.Formulations() {
		if f.Promise == formulation.Nothing {
			continue
		}
		spoilt := f
		if f.Build != nil {
			spoilt.Build = func(c *chain.Chain, p platform.Platform) (*formulation.Program, error) { return dearer(f.Build(c, p)) }
		}
		if f.BuildGraph != nil {
			spoilt.BuildGraph = func(g *graph.Graph, p platform.Platform) (*formulation.Program, error) {
				return dearer(f.BuildGraph(g, p))
			}
		}
		if f.BuildFunctions != nil {
			spoilt.BuildFunctions = func(s *functions.Sequence, p platform.Platform) (*formulation.Program, error) {
				return dearer(f.BuildFunctions(s, p))
			}
		}
		r, err := check.Run(t.Context(), spoilt, []solvers.Backend{highs.New()}, check.Options{Seed: 3, Cases: 6, Layers: 2})
		if err != nil {
			t.Errorf("%s: %v", f.Name, err)
		} else if len(r.Failures) == 0 {
			t.Errorf("%s: nobody sees that costs are 1.2 times as high", f.Name)
		}
	}
}
