package solvertest

import (
	"errors"
	"fmt"
	"math"

	"workbench/model/milp"
	"workbench/solvers"
)

// modelCases are about what a model may look like.
func modelCases() []testCase {
	return []testCase{
		{"model/lp", optimal(3.5, lp)},
		{"model/integers", optimal(11, pick)},
		{"model/duplicate columns in a row are summed", solved(2, duplicates)},
		{"model/x minus x leaves nothing", solved(10, cancelling)},
		{"model/rows without entries", solved(3, emptyRows)},
		{"model/no rows", optimal(-11, "min x - 2y + z + 1; st; bounds; -2 <= x <= 4; -2 <= y <= 4; -2 <= z <= 4; int; x y z")},
		{"model/no columns", noColumns},
		{"model/offset with max", optimal(111, "max 3x + 2y + 100; st; x + y <= 4; x <= 3; bounds; x <= 4; y <= 4; int; x y")},
		{"model/zero objective", optimal(0, "min 0x + 0y + 0z; st; x + y + z = 2; bin; x y z")},
		{"model/free rows and infinite sides", optimal(5, "max x + y; st; -inf <= x + y <= inf; x <= 3; -y >= -2; -inf <= 7x <= inf")},
		{"model/huge numbers are infinite", solved(5, hugeBounds)},
		{"model/ranged row, upper side active", optimal(7, "max x + y; st; 3 <= x + y <= 7; bounds; x <= 10; y <= 10")},
		{"model/ranged row, lower side active", optimal(3, "min x + y; st; 3 <= x + y <= 7; bounds; x <= 10; y <= 10")},
		{"model/equalities", optimal(6, // at (1, 2, 3) only
			"min x + y + z; st; x + y + z = 6; y + z = 5; y - z = -1; x + y + z = 6; bounds; x free; y free; z free")},
		{"model/negative bounds", optimal(-12, "min x + y; st; x + y >= -12.5; bounds; -7 <= x <= -2; -7 <= y <= -2; int; x y")},
		{"model/free columns", optimal(-3, "min x; st; x - y >= -4; y >= 1; bounds; x free; bin; y")},
		{"model/column with an upper bound only", optimal(-4, "min x; st; x >= -4; bounds; -inf <= x <= -2")},
		{"model/fixed columns", optimal(12, "max x + 2y + z; st; x + 2y + z <= 12; bounds; x = 3; y = 2.5; z <= 20; int; x z")},
		{"model/fractional bounds of integers", optimal(3, // of 1 and 2
			"max x + y; st; -inf <= x + y <= inf; y - x = 1; bounds; 0.3 <= x <= 2.7; 0.3 <= y <= 2.7; int; x y")},
		{"model/computed bounds of integers", optimal(3, "max x; st; bounds; x <= 2.9999999999; int; x")},
		{"model/tiny entry that matters nothing", optimal(2, "max y; st; 1e-12 x + y <= 2; bounds; x <= 10; y <= 5")},
		{"model/tiny entry that matters is refused", badModel(func() *milp.Model {
			return text("max y; st; 1e-12 x + y <= 2; bounds; x <= 1e12; y <= 5")
		})},
		{"model/entry too large is refused", badModel(func() *milp.Model {
			m := newModel("entry 1e16")
			m.row(0, 1, term(1e16, m.col(milp.Continuous, 0, 1)))
			return m.Model
		})},
		{"model/lower bound at infinity is refused", badModel(func() *milp.Model {
			m := newModel("lower 1e20")
			m.col(milp.Continuous, 1e20, inf)
			return m.Model
		})},
		{"model/mistakes are refused", mistakes},
		{"model/mixed scales", optimal(2_000_003.5, // x megabytes moved by y transfers
			"min x + y + 1.5z; st; x >= 2e6; x - 1e6 y <= 0; 1e-3 y + 1.5e-3 z >= 3.5e-3; z <= 1; bounds; x <= 1e9; y <= 10; z <= 1; int; y")},
		{"model/plain data and back", roundTrip},
		{"model/rows that bind if a binary is 1", solved(7, func() *milp.Model { return conditional(false) })},
		{"model/rows that bind if a binary is 0", solved(7, func() *milp.Model { return conditional(true) })},
		{"model/rows that bind if several hold", solved(-9, both)},
		{"model/semicontinuous", solved(6.25, func() *milp.Model { return semi(milp.Continuous) })},
		{"model/semi-integer", solved(6.5, func() *milp.Model { return semi(milp.Integer) })},
		{"model/conditional row without limits is refused", badModel(func() *milp.Model {
			m := newModel("unlimited")
			on, x := m.col(milp.Binary, 0, 1), m.col(milp.Continuous, 0, inf)
			m.Group("rows", "").When(milp.Is(on)).AtMost(new(milp.Expr).Add(1, x), 1)
			return m.Model
		})},
	}
}

// solved is a case that expects an optimum.
func solved(want float64, build func() *milp.Model) func(*harness) error {
	return func(h *harness) error {
		m := build()
		r, err := h.optimum(m, solvers.Options{}, want)
		if err != nil {
			return err
		}
		return boundHolds(m, r, want)
	}
}

// optimal is a case that expects an optimum of a model in LP format.
func optimal(want float64, lp string) func(*harness) error {
	return solved(want, func() *milp.Model { return text(lp) })
}

// badModel is a case that expects a refusal of the model.
func badModel(build func() *milp.Model) func(*harness) error {
	return func(h *harness) error {
		return h.refused(build(), solvers.Options{}, solvers.ErrModel)
	}
}

// duplicates has x + x + y − 3x + 3x ≥ 4, that is 2x + y ≥ 4, and the objective
// 2x − x: where the last or the first term wins the optimum is another than 2.
func duplicates() *milp.Model {
	m := newModel("duplicates")
	x, y := m.col(milp.Integer, 0, 10), m.col(milp.Integer, 0, 1)
	m.row(4, inf, term(1, x), term(1, x), term(1, y), term(-3, x), term(3, x))
	m.min(0, term(2, x), term(-1, x), term(1, y), term(-1, y))
	return m.Model
}

// cancelling has x − x + y ≤ 7 and y − y ≤ 1, so that x is free to be 3.
func cancelling() *milp.Model {
	m := newModel("cancelling")
	x, y := m.col(milp.Integer, 0, 3), m.col(milp.Integer, 0, 9)
	m.row(-inf, 7, term(1, x), term(-1, x), term(1, y))
	m.row(-inf, 1, term(1, y), term(-1, y))
	m.max(0, term(1, x), term(1, y))
	return m.Model
}

func emptyRows() *milp.Model {
	m := newModel("empty rows")
	x := m.col(milp.Integer, 0, 5)
	m.row(-1, 1)
	m.row(-inf, 3, term(1, x))
	m.row(0, 0)
	m.row(-inf, inf)
	m.max(0, term(1, x))
	return m.Model
}

func noColumns(h *harness) error {
	m := newModel("no columns")
	m.row(-1, 1)
	m.max(7)
	r, err := h.optimum(m.Model, solvers.Options{}, 7)
	if err != nil {
		return err
	}
	if x, _ := r.Solution(); x == nil || len(x) != 0 {
		return fmt.Errorf("values %v", x)
	}
	return nil
}

func hugeBounds() *milp.Model {
	m := newModel("huge bounds")
	v := m.cols(2, milp.Continuous, -1e30, 1e25)
	m.row(-1e20, 3, term(1, v[0]))
	m.row(-1e300, 2, term(1, v[1]))
	m.max(0, ones(v)...)
	return m.Model
}

func mistakes(h *harness) error {
	other := milp.New("other")
	foreign := other.Var("v", milp.Continuous, 0, 1)
	for _, c := range []struct {
		name  string
		spoil func(m model, x milp.Var)
		cause error
	}{
		{"NaN cost", func(m model, x milp.Var) { m.min(0, term(math.NaN(), x)) }, milp.ErrNotFinite},
		{"infinite cost", func(m model, x milp.Var) { m.min(0, term(inf, x)) }, milp.ErrNotFinite},
		{"NaN offset", func(m model, x milp.Var) { m.min(math.NaN(), term(1, x)) }, milp.ErrNotFinite},
		{"NaN coefficient", func(m model, x milp.Var) { m.row(0, 1, term(math.NaN(), x)) }, milp.ErrNotFinite},
		{"infinite coefficient", func(m model, x milp.Var) { m.row(0, 1, term(-inf, x)) }, milp.ErrNotFinite},
		{"NaN side", func(m model, x milp.Var) { m.row(math.NaN(), 1, term(1, x)) }, milp.ErrNotFinite},
		{"side +Inf below", func(m model, x milp.Var) { m.row(inf, inf, term(1, x)) }, milp.ErrNotFinite},
		{"NaN bound", func(m model, x milp.Var) { m.col(milp.Continuous, math.NaN(), 1) }, milp.ErrNotFinite},
		{"foreign variable", func(m model, x milp.Var) { m.row(0, 1, term(1, foreign)) }, milp.ErrForeignVar},
		{"zero variable", func(m model, x milp.Var) { m.row(0, 1, term(1, milp.Var{})) }, milp.ErrForeignVar},
	} {
		m := newModel(c.name)
		c.spoil(m, m.col(milp.Continuous, 0, 1))
		if err := h.refused(m.Model, solvers.Options{}, solvers.ErrModel); err != nil {
			return err
		}
		if err := h.refused(m.Model, solvers.Options{}, c.cause); err != nil {
			return err
		}
	}
	return h.refused(nil, solvers.Options{}, solvers.ErrModel)
}

func roundTrip(h *harness) error {
	k := newKnapsack(12, 3)
	want := k.optimum()
	if _, err := h.optimum(k.model(), solvers.Options{}, want); err != nil {
		return err
	}
	again := milp.FromData(k.model().Data())
	if again.NumIntegers() != 12 {
		return errors.New("integers lost")
	}
	_, err := h.optimum(again, solvers.Options{}, want)
	return err
}

// conditional is max x + y − 3z, 0 ≤ x, y ≤ 6, with x − y ≤ −2 if z = 1 and y ≤ 0.5 if z = 0:
// 4 + 6 − 3 = 7 against 6.5; turned, z is 1 − z.
func conditional(turned bool) *milp.Model {
	m := newModel("conditional")
	z, x, y := m.col(milp.Binary, 0, 1), m.col(milp.Continuous, 0, 6), m.col(milp.Continuous, 0, 6)
	on, off, price, offset := milp.Is(z), milp.IsNot(z), -3., 0.
	if turned {
		on, off, price, offset = off, on, 3, -3
	}
	g := m.Group("if", "")
	g.When(on).AtMost(new(milp.Expr).Add(1, x).Add(-1, y), -2)
	g.When(off).AtMost(new(milp.Expr).Add(1, y), 0.5)
	m.max(offset, term(1, x), term(1, y), term(price, z))
	return m.Model
}

// both is min x − 3a + 2b, −8 ≤ x ≤ 8 integer, with 2x + a ≥ 5 if a = 1 and b = 0: −8 − 3 + 2.
func both() *milp.Model {
	m := newModel("both")
	x, a, b := m.col(milp.Integer, -8, 8), m.col(milp.Binary, 0, 1), m.col(milp.Binary, 0, 1)
	m.Group("if", "").When(milp.Is(a), milp.IsNot(b)).AtLeast(new(milp.Expr).Add(2, x).Add(1, a), 5)
	m.min(0, term(1, x), term(-3, a), term(2, b))
	return m.Model
}

// semi is min 2x + y, x + y ≥ 3.5, x within [2.75, 4] or 0, y ≤ 3: with x at 2.75, and 3 if
// it is integer.
func semi(k milp.Kind) *milp.Model {
	m := newModel("semi")
	x, on, y := m.col(k, 0, 4), m.col(milp.Binary, 0, 1), m.col(milp.Continuous, 0, 3)
	m.Group("semi", "").Semi(x, on, 2.75, 4)
	m.row(3.5, inf, term(1, x), term(1, y))
	m.min(0, term(2, x), term(1, y))
	return m.Model
}
