package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"workbench/bench/run"
	"workbench/ilp"
	"workbench/ilp/checkmate"
	"workbench/model/milp"
	"workbench/model/plan"
	"workbench/solvers"
)

// A variant is a model with some strengthenings left out.
type variant struct {
	name  string
	model *milp.Model
}

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
	fmt.Println("| instance | model | columns | integers | rows | LP / Σu | bound / Σu | best / Σu | gap | nodes | s |")
	fmt.Println("|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|")
	for _, spec := range args[1:] {
		in, err := run.Load(spec, os.Stdin)
		if err != nil {
			return err
		}
		low, high := m.problem.Range(in)
		s := m.at2(low + (high-low)*percent/100)
		list, err := variants(in, s)
		if err != nil {
			return err
		}
		for _, v := range list {
			if err := m.variant(strings.TrimPrefix(spec, "zoo:"), in, v, limit); err != nil {
				return err
			}
			if m.ctx.Err() != nil {
				return m.ctx.Err()
			}
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
			list = append(list, variant{f.Name, p.Model})
			for _, group := range f.Extra {
				less, err := p.Model.Without(group)
				if err != nil {
					return nil, err
				}
				list = append(list, variant{f.Name + " without " + group, less})
			}
			less, err := p.Model.Without(f.Extra...)
			if err != nil {
				return nil, err
			}
			list = append(list, variant{f.Name + " without all of these", less})
		}
		return list, nil
	}
	paper, err := checkmate.Printed(in.Graph(), s.Platform)
	if err != nil {
		return nil, err
	}
	list = append(list, variant{"checkmate, the paper's", paper.Model})
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
		list = append(list, variant{x.name, p.Model})
	}
	return list, nil
}

// variant prints the row of one model.
func (m *measurer) variant(spec string, in *run.Instance, v variant, limit time.Duration) error {
	lp, r, err := m.rootAndBest(v.model, limit)
	if err != nil {
		return fmt.Errorf("%s on %s: %w", v.name, spec, err)
	}
	unit := in.Compute()
	best, gap := "–", "–"
	if x, ok := r.Objective(); ok {
		best = fmt.Sprintf("%.4f", x/unit)
		gap = fmt.Sprintf("%.2f %%", 100*solvers.Gap(x, r.Bound))
	}
	fmt.Printf("| %s | %s | %d | %d | %d | %.4f | %.4f | %s | %s | %d | %.1f |\n", spec, v.name,
		v.model.NumCols(), v.model.NumIntegers(), v.model.NumRows(), lp.Bound/unit, r.Bound/unit, best, gap, r.Nodes, r.Wall.Seconds())
	return nil
}
