package main

import (
	"fmt"
	"time"

	"workbench/ilp/formulation"
	"workbench/model/milp"
	"workbench/solvers"
)

// A variant is a program's model with some strengthenings left out.
type variant struct {
	name  string
	model *milp.Model
	of    *formulation.Program
}

// without adds the last model of the list without each group, and without all of them if
// there are several.
func without(list []variant, groups []string) ([]variant, error) {
	whole := list[len(list)-1]
	for k := range len(groups) + 1 {
		if k == len(groups) && k < 2 {
			break
		}
		name, some := "all of these", groups
		if k < len(groups) {
			name, some = groups[k], groups[k:k+1]
		}
		less, err := whole.model.Without(some...)
		if err != nil {
			return nil, err
		}
		list = append(list, variant{"… without " + name, less, whole.of})
	}
	return list, nil
}

func variantHead() {
	fmt.Println("| instance | model | columns | integers | rows | LP, ms | bound, ms | best, ms | gap | nodes | s |")
	fmt.Println("|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|")
}

// solveVariants solves the relaxation of each model and the model, within the limit, and
// prints a row of it.
func (m *measurer) solveVariants(instance string, list []variant, limit time.Duration) error {
	for _, v := range list {
		o := solvers.Options{Threads: solvers.Some(2), RelGap: solvers.Some(1e-4), Time: limit, Relax: true}
		lp, err := m.setting.Backend.Solve(m.ctx, v.model, o)
		if err != nil {
			return fmt.Errorf("%s on %s, relaxed: %w", v.name, instance, err)
		}
		o.Relax = false
		r, err := m.setting.Backend.Solve(m.ctx, v.model, o)
		if err != nil {
			return fmt.Errorf("%s on %s: %w", v.name, instance, err)
		}
		best, gap := "–", "–"
		if x, ok := r.Objective(); ok {
			best = milliseconds(v, x)
			gap = fmt.Sprintf("%.2f %%", 100*solvers.Gap(x, r.Bound))
		}
		fmt.Printf("| %s | %s | %d | %d | %d | %s | %s | %s | %s | %d | %.1f |\n", instance, v.name,
			v.model.NumCols(), v.model.NumIntegers(), v.model.NumRows(), milliseconds(v, lp.Bound), milliseconds(v, r.Bound), best, gap, r.Nodes, r.Wall.Seconds())
		if m.ctx.Err() != nil {
			return m.ctx.Err()
		}
	}
	return nil
}

// milliseconds writes what a variant's objective stands for with five digits, or without decimals.
func milliseconds(v variant, objective float64) string {
	x := 1e3 * v.of.Objective(objective)
	if x < 1e5 {
		return fmt.Sprintf("%.5g", x)
	}
	return fmt.Sprintf("%.0f", x)
}
