package solvertest

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"workbench/model/certificate"
	"workbench/model/milp"
	"workbench/solvers"
)

// statusCases are about the verdicts other than an optimum.
func statusCases() []testCase {
	infeasible := []solvers.Status{solvers.Infeasible}
	// A library may stop at this much.
	unbounded := []solvers.Status{solvers.Unbounded, solvers.InfeasibleOrUnbounded}
	return []testCase{
		{"status/infeasible rows", judged(infeasible, "min x + y; st; x + y >= 5; x + y <= 4; bounds; x <= 10; y <= 10")},
		{"status/infeasible by column bounds", judged(infeasible, "min 0x; st; x + y >= 5; bounds; x <= 2; y <= 2")},
		{"status/infeasible in integers only", judged(infeasible, "min 0x; st; 2x + 2y + 2z = 3; bin; x y z")},
		{"status/no integer within the bounds", judged(infeasible, "min 0x + 0y; st; bounds; x <= 1; 0.2 <= y <= 0.8; int; y")},
		{"status/bounds crossed", verdict(infeasible, func() *milp.Model {
			m := newModel("verdict")
			m.min(0, term(1, m.col(milp.Continuous, 3, 2)))
			return m.Model
		})},
		{"status/sides crossed", verdict(infeasible, func() *milp.Model {
			m := newModel("verdict")
			m.row(2, 1, term(1, m.col(milp.Continuous, 0, 3)))
			return m.Model
		})},
		{"status/violated row without entries", verdict(infeasible, func() *milp.Model {
			m := newModel("verdict")
			x := m.col(milp.Continuous, 0, 1)
			m.row(1, inf)
			m.min(0, term(1, x))
			return m.Model
		})},
		{"status/violated row without columns", verdict(infeasible, func() *milp.Model {
			m := newModel("verdict")
			m.row(1, inf)
			return m.Model
		})},
		{
			"status/infeasible and seemingly unbounded",
			judged(append(infeasible, solvers.InfeasibleOrUnbounded), "max x; st; y >= 2; bounds; y <= 1"),
		},
		{"status/unbounded lp", judged(unbounded, "max x + y; st; x - y <= 1")},
		{"status/unbounded below", judged(unbounded, "min 2x - y; st; x - y = 0; bounds; x free; y free")},
		{"status/unbounded in a continuous column of a mip", judged(unbounded, "max x + y; st; x + y >= 1; bounds; x <= 5; int; x")},
		{"status/unbounded in integers", judged(unbounded, "max x + y; st; x - y <= 1; int; x y")},
		{"status/unbounded without rows", judged(unbounded, "max x; st")},
		{"status/duals", duals},
		{"status/duals prove the optimum", dualsProve},
		{"status/no duals of a mip", noDuals},
	}
}

// judged is a case of a model in LP format that expects one of several verdicts.
func judged(want []solvers.Status, lp string) func(*harness) error {
	return verdict(want, func() *milp.Model { return text(lp) })
}

// verdict is a case that expects one of several verdicts.
func verdict(want []solvers.Status, build func() *milp.Model) func(*harness) error {
	return func(h *harness) error {
		r, err := h.status(build(), solvers.Options{}, want...)
		if err == nil && r.BoundBy != "" {
			err = fmt.Errorf("%v with bound %v", r.Status, r.Bound)
		}
		return err
	}
}

// duals solves two continuous models with known multipliers and compares, in
// either sense. Backends that do not claim duals must not return any.
func duals(h *harness) error {
	// max 3x + 5y + z: x ≤ 4, 2y ≤ 12, 3x + 2y = 18, z ≤ 7 as a bound. At
	// (2, 6, 7) rows 1 and 2 are active with 3/2 and 1.
	build := func(sense milp.Sense) *milp.Model {
		m := newModel("duals")
		v, z := m.cols(2, milp.Continuous, 0, inf), m.col(milp.Continuous, 0, 7)
		m.row(-inf, 4, term(1, v[0]))
		m.row(-inf, 12, term(2, v[1]))
		m.row(18, 18, term(3, v[0]), term(2, v[1]))
		if s := float64(sense); sense == milp.Maximize {
			m.max(0, term(-3*s, v[0]), term(-5*s, v[1]), term(-s, z))
		} else {
			m.min(0, term(-3*s, v[0]), term(-5*s, v[1]), term(-s, z))
		}
		return m.Model
	}
	for _, sense := range []milp.Sense{milp.Maximize, milp.Minimize} {
		s := -float64(sense)
		r, err := h.optimum(build(sense), solvers.Options{}, 43*s)
		if err != nil {
			return err
		}
		if h.backend.Can()&solvers.CanDuals == 0 {
			if r.Dual != nil {
				return fmt.Errorf("duals, although not claimed")
			}
			continue
		}
		if r.Dual == nil {
			return fmt.Errorf("no duals, although claimed")
		}
		row, reduced := []float64{0, 1.5 * s, s}, []float64{0, 0, s}
		for i, want := range row {
			if !near(r.Dual.Row[i], want, 1e-7) {
				return fmt.Errorf("row duals %v, want %v", r.Dual.Row, row)
			}
		}
		for j, want := range reduced {
			if !near(r.Dual.Reduced[j], want, 1e-7) {
				return fmt.Errorf("reduced costs %v, want %v", r.Dual.Reduced, reduced)
			}
		}
	}
	return nil
}

// dualsProve solves random continuous models, bounded or not, many of them degenerate:
// multipliers of rows prove every optimum, and reduced costs are what they leave of the costs.
// That the two values are the same is complementary slackness.
func dualsProve(h *harness) error {
	random := rand.New(rand.NewPCG(5, 5))
	proved := 0
	for k := range 200 {
		m, sense := randomLP(random)
		r, err := h.solve(m.Model, solvers.Options{})
		if err != nil {
			return err
		}
		if r.Status != solvers.Optimal || h.backend.Can()&solvers.CanDuals == 0 {
			if r.Dual != nil {
				return fmt.Errorf("model %d: duals %v, although %v", k, *r.Dual, r.Status)
			}
			continue
		}
		if r.Dual == nil {
			return fmt.Errorf("model %d: an optimum without duals, although claimed", k)
		}
		proved++
		if err := dualsFit(m.Data(), r.Dual, sense, r.Obj, r.X); err != nil {
			return fmt.Errorf("model %d: %w", k, err)
		}
	}
	if h.backend.Can()&solvers.CanDuals != 0 && proved < 80 {
		return fmt.Errorf("duals of %d models", proved)
	}
	return nil
}

// randomLP makes a model of up to five columns and six rows: equalities, ranges, sides at 0,
// rows that are there twice, columns fixed and free.
func randomLP(random *rand.Rand) (m model, sense float64) {
	m = newModel("random duals")
	zero := random.IntN(3) == 0 // all sides are: degenerate
	side := func(x float64) float64 {
		if zero {
			return 0
		}
		return x
	}
	v := make([]milp.Var, 1+random.IntN(5))
	for j := range v {
		lower := side(float64(random.IntN(7) - 3))
		bounds := [][2]float64{
			{lower, lower + float64(random.IntN(6))},
			{lower, lower + 4},
			{lower, inf},
			{-inf, lower},
			{-inf, inf},
		}[random.IntN(5)]
		v[j] = m.col(milp.Continuous, bounds[0], bounds[1])
	}
	terms := func() (terms []milp.Term) {
		for _, x := range v {
			if a := float64(random.IntN(9) - 4); a != 0 {
				terms = append(terms, term(a, x))
			}
		}
		return terms
	}
	for range 1 + random.IntN(4) {
		lower := side(float64(random.IntN(25) - 18))
		sides := [][2]float64{{lower, lower}, {lower, lower + 2}, {lower, inf}, {-inf, lower}}[random.IntN(4)]
		row := terms()
		for range 1 + random.IntN(4)/3 {
			m.row(sides[0], sides[1], row...)
		}
	}
	if random.IntN(2) == 0 {
		m.max(1, terms()...)
		return m, float64(milp.Maximize)
	}
	m.min(1, terms()...)
	return m, float64(milp.Minimize)
}

// dualsFit checks duals of d, whose optimum is known, and where it is.
func dualsFit(d milp.Data, y *solvers.Duals, sense, optimum float64, at []float64) error {
	// Of a maximum, the minimum of the negative has the negative duals.
	row := make([]float64, len(y.Row))
	for i, v := range y.Row {
		row[i] = sense * v
	}
	for j := range d.Cost {
		reduced := d.Cost[j]
		for i := range d.RowLower {
			for k := d.Start[i]; k < d.Start[i+1]; k++ {
				if int(d.Col[k]) == j {
					reduced -= d.Val[k] * y.Row[i]
				}
			}
		}
		if !near(reduced, y.Reduced[j], 1e-7) {
			return fmt.Errorf("reduced costs %v, want %v of column %d", y.Reduced, reduced, j)
		}
	}
	minimised := d
	// Far from the optimum a bound that is not there is as good as one; a reduced cost that is
	// 0 but for rounding proves nothing without it.
	minimised.Lower, minimised.Upper = slices.Clone(d.Lower), slices.Clone(d.Upper)
	for j, x := range at {
		minimised.Lower[j], minimised.Upper[j] = max(d.Lower[j], x-1000), min(d.Upper[j], x+1000)
	}
	minimised.Sense, minimised.Offset, minimised.Cost = milp.Minimize, sense*d.Offset, make([]float64, len(d.Cost))
	for j, c := range d.Cost {
		minimised.Cost[j] = sense * c
	}
	if v := sense * certificate.NewModel(&minimised, inf).Bound(multipliers(&minimised, row, 1), true); !near(v, optimum, 1e-6) {
		return fmt.Errorf("duals %v prove %v, the optimum is %v", y.Row, v, optimum)
	}
	return nil
}

func noDuals(h *harness) error {
	r, err := h.optimum(text(pick), solvers.Options{}, 11)
	if err != nil {
		return err
	}
	if r.Dual != nil {
		return fmt.Errorf("duals of a model with integers: %v", *r.Dual)
	}
	return nil
}
