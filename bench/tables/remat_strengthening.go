package main

import (
	"os"
	"strconv"
	"strings"
	"time"

	"workbench/bench/run"
	"workbench/ilp"
	"workbench/ilp/checkmate"
	"workbench/model/plan"
)

// strengthening solves the models of an instance with every strengthening, and
// with each left out, without a start.
func (m *measurer) strengthening(limit time.Duration, args []string) error {
	percent, err := strconv.ParseFloat(args[0], 64)
	if err != nil {
		return err
	}
	if err := m.about(plan.Remat); err != nil {
		return err
	}
	variantHead()
	for _, spec := range args[1:] {
		in, err := run.Load(spec, os.Stdin)
		if err != nil {
			return err
		}
		low, high := m.problem.Range(in)
		list, err := variants(in, m.at2(low+(high-low)*percent/100))
		if err != nil {
			return err
		}
		if err := m.solveVariants(strings.TrimPrefix(spec, "zoo:"), list, limit); err != nil {
			return err
		}
	}
	return nil
}

// variants returns the models of an instance.
func variants(in *run.Instance, s run.Setting) (list []variant, err error) {
	if in.Chain() != nil {
		for _, f := range ilp.Formulations() {
			if f.Name != "chain-milp" && f.Name != "chain-milp-bound" {
				continue
			}
			p, err := f.Build(in.Chain(), s.Platform, nil)
			if err != nil {
				return nil, err
			}
			list = append(list, variant{f.Name, p.Model, p})
			if list, err = without(list, f.Extra); err != nil {
				return nil, err
			}
		}
		return list, nil
	}
	paper, err := checkmate.Printed(in.Graph(), s.Platform)
	if err != nil {
		return nil, err
	}
	list = append(list, variant{"checkmate, the paper's", paper.Model, paper})
	for _, x := range []struct {
		name string
		o    checkmate.Options
	}{
		{"strong: liveness for FREE and U", checkmate.Options{}},
		{"… without the forward phase", checkmate.Options{Backward: true}},
		{"… and without rows of recomputations", checkmate.Options{Backward: true, Ends: true}},
		{"… and contracted", checkmate.Options{Backward: true, Ends: true, Contract: true}},
	} {
		p, err := checkmate.Strong(in.Graph(), s.Platform, x.o)
		if err != nil {
			return nil, err
		}
		list = append(list, variant{x.name, p.Model, p})
	}
	return list, nil
}
