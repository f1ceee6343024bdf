package solvertest

import (
	"math/rand/v2"

	"workbench/model/milp"
	"workbench/solvers"
)

// metamorphicCases change models in ways that change the optimum in a known
// way, or not at all.
func metamorphicCases() []testCase {
	return []testCase{
		{"metamorphic/rows in another order", metamorphic(func(d *milp.Data, r *rand.Rand) {
			*d = permuteRows(*d, r.Perm(len(d.RowLower)))
		}, 1, 0)},
		{"metamorphic/columns in another order", metamorphic(func(d *milp.Data, r *rand.Rand) {
			*d = permuteColumns(*d, r.Perm(len(d.Cost)))
		}, 1, 0)},
		{"metamorphic/max f is −min −f", metamorphic(func(d *milp.Data, _ *rand.Rand) {
			d.Sense, d.Offset = -d.Sense, -d.Offset
			scale(d.Cost, -1)
		}, -1, 0)},
		{"metamorphic/objective in thousandths", metamorphic(func(d *milp.Data, _ *rand.Rand) { scale(d.Cost, 1000) }, 1000, 0)},
		{"metamorphic/offset", metamorphic(func(d *milp.Data, _ *rand.Rand) { d.Offset += 17.5 }, 1, 17.5)},
		{"metamorphic/rows negated", metamorphic(func(d *milp.Data, _ *rand.Rand) {
			lower := append([]float64(nil), d.RowLower...)
			for i, up := range d.RowUpper {
				d.RowLower[i], d.RowUpper[i] = -up, -lower[i]
			}
			scale(d.Val, -1)
		}, 1, 0)},
	}
}

func scale(v []float64, by float64) {
	for i := range v {
		v[i] *= by
	}
}

// metamorphic solves several models and their images under change, and expects
// image = by·optimum + plus.
func metamorphic(change func(*milp.Data, *rand.Rand), by, plus float64) func(*harness) error {
	return func(h *harness) error {
		r := source(50)
		for _, i := range []instance{
			newMultiKnapsack(4, 13, 51), newGeneralAssignment(3, 5, 52), newSetCover(10, 13, 53),
			tight{newJobShop(3, 2, 54)},
			newTardiness(4, 55),
		} {
			d := i.model().Data()
			d.Cost, d.Val = append([]float64(nil), d.Cost...), append([]float64(nil), d.Val...)
			d.RowLower, d.RowUpper = append([]float64(nil), d.RowLower...), append([]float64(nil), d.RowUpper...)
			change(&d, r)
			if _, err := h.optimum(milp.FromData(d), solvers.Options{}, by*i.optimum()+plus); err != nil {
				return err
			}
		}
		return nil
	}
}

// permuteRows returns d with old row order[i] as row i.
func permuteRows(d milp.Data, order []int) milp.Data {
	p := d
	p.RowLower, p.RowUpper, p.RowGroup = nil, nil, nil
	p.Start, p.Col, p.Val = []int32{0}, nil, nil
	p.Groups = nil
	for _, i := range order {
		p.RowLower, p.RowUpper = append(p.RowLower, d.RowLower[i]), append(p.RowUpper, d.RowUpper[i])
		p.Col = append(p.Col, d.Col[d.Start[i]:d.Start[i+1]]...)
		p.Val = append(p.Val, d.Val[d.Start[i]:d.Start[i+1]]...)
		p.Start = append(p.Start, int32(len(p.Col)))
	}
	return p
}

// permuteColumns returns d with old column j as column to[j].
func permuteColumns(d milp.Data, to []int) milp.Data {
	p := d
	n := len(to)
	p.Cost, p.Lower, p.Upper, p.Integer = make([]float64, n), make([]float64, n), make([]float64, n), make([]bool, n)
	for j, k := range to {
		p.Cost[k], p.Lower[k], p.Upper[k], p.Integer[k] = d.Cost[j], d.Lower[j], d.Upper[j], d.Integer[j]
	}
	p.Col = make([]int32, len(d.Col))
	for k, j := range d.Col {
		p.Col[k] = int32(to[j])
	}
	return p
}
