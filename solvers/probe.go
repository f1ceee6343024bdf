package solvers

import (
	"context"
	"fmt"
	"math"
	"time"

	"workbench/model/milp"
)

// Probe is a tiny model for which some version of a library reported a suboptimal point as optimal or the model as
// infeasible. No check of a point detects that; a certificate does.
type Probe struct {
	Name    string
	Optimum float64 // infinite: the model is unbounded
	Model   func() *milp.Model
}

// Probes returns the known probes. Numbers refer to issues of ERGO-Code/HiGHS. The others are models of this
// project, reduced by removing rows and columns while the answer stayed wrong.
func Probes() []Probe {
	return []Probe{
		{"presolve takes a continuous column for an integer", 1.25, falselyInteger}, // HiGHS 1.10.0 says 0
		{"HiGHS 3043", 9, highs3043}, // 1.14.0 says 15
		{"HiGHS 3073", 0.03, highs3073},
		{"HiGHS 3094", 8000, highs3094},
		{"weights that nearly fit", 0, nearlyFits},        // HiGHS 1.10.0 says infeasible
		{"a side of 6e-5 beside 500", 0, smallSides},      // HiGHS 1.10.0 says 0.4
		{"a byte beside a value", 0, byteBeside},          // HiGHS 1.10.0 says infeasible
		{"memory to the last byte", 0, lastByte},          // lp_solve 5.5.2.5 says infeasible
		{"stages on two processors", 1000, twoProcessors}, // lp_solve 5.5.2.5 says 1230
		{"one point", -175.91, onePoint},                  // HiGHS 1.10.0 says infeasible
		{"HiGHS 2204", 6, highs2204},                      // 1.10.0 says infeasible
		{"HiGHS 2446", 0, highs2446},                      // 1.10.0 says infeasible
		{"unbounded", math.Inf(1), noEnd},                 // HiGHS 1.15.1 says optimal, 0
	}
}

// probeTime is more than any probe takes.
const probeTime = 10 * time.Second

// Wrong solves the probes with b and returns a line for each wrong or missing answer.
func Wrong(ctx context.Context, b Backend) (findings []string) {
	for _, p := range Probes() {
		r, err := b.Solve(ctx, p.Model(), Options{Time: probeTime})
		switch {
		case err != nil:
			findings = append(findings, fmt.Sprintf("%s: %v", p.Name, err))
		case math.IsInf(p.Optimum, 0):
			if r.Status != Unbounded {
				findings = append(findings, fmt.Sprintf("%s: %v, but it is unbounded", p.Name, r.Status))
			}
		case r.Status != Optimal:
			findings = append(findings, fmt.Sprintf("%s: %v, the optimum is %g", p.Name, r.Status, p.Optimum))
		case math.Abs(r.Obj-p.Optimum) > objectiveTol(p.Optimum):
			findings = append(findings, fmt.Sprintf("%s: calls %g optimal, the optimum is %g", p.Name, r.Obj, p.Optimum))
		}
	}
	return findings
}

// probe is a model in a compact notation.
type probe struct {
	*milp.Model
	rows milp.Group
}

func newProbe(name string) probe {
	m := milp.New(name)
	return probe{m, m.Group("row", "")}
}

func (m probe) col(k milp.Kind, lower, upper float64) milp.Var { return m.Var("x", k, lower, upper) }

func (m probe) row(lower, upper float64, terms ...milp.Term) {
	m.rows.Between(lower, &milp.Expr{Terms: terms}, upper)
}

func (m probe) min(terms ...milp.Term) *milp.Model {
	m.Minimize(&milp.Expr{Terms: terms})
	return m.Model
}

// falselyInteger is max −5(n + x), n + x ≥ −1/4, n binary, x ≤ 0, y ≤ 5x, y ≥ −100, found at random and reduced.
// HiGHS 1.10.0 with presolve rounds the side up to 0, as if x were integer.
func falselyInteger() *milp.Model {
	m := newProbe("falsely integer")
	n, x, y := m.col(milp.Binary, 0, 1), m.col(milp.Continuous, -100, 0), m.col(milp.Continuous, -100, 0)
	m.row(math.Inf(-1), 1, milp.Term{Coef: -4, Var: n}, milp.Term{Coef: -4, Var: x})
	m.row(math.Inf(-1), 0, milp.Term{Coef: -5, Var: x}, milp.Term{Coef: 1, Var: y})
	m.Maximize(&milp.Expr{Terms: []milp.Term{{Coef: -5, Var: n}, {Coef: -5, Var: x}}})
	return m.Model
}

func highs3043() *milp.Model {
	m := newProbe("HiGHS 3043")
	x, z := m.col(milp.Continuous, 0, 10), m.col(milp.Integer, 0, 10)
	m.row(4.5, math.Inf(1), milp.Term{Coef: 1, Var: x}, milp.Term{Coef: 1, Var: z})
	return m.min(milp.Term{Coef: 2, Var: x}, milp.Term{Coef: 3, Var: z})
}

func highs3073() *milp.Model {
	m := newProbe("HiGHS 3073")
	inf := math.Inf(1)
	gap, t, x := m.col(milp.Continuous, 0, inf), m.col(milp.Continuous, -inf, inf), m.col(milp.Integer, 0, 1000)
	m.row(3, 3, milp.Term{Coef: 1, Var: gap}, milp.Term{Coef: 1, Var: x})
	m.row(-inf, 0, milp.Term{Coef: 1, Var: x}, milp.Term{Coef: -1, Var: t})
	m.row(-inf, 0, milp.Term{Coef: -1, Var: x}, milp.Term{Coef: -1, Var: t})
	m.row(-inf, 3, milp.Term{Coef: 1, Var: x})
	m.row(-inf, -0.45, milp.Term{Coef: -1, Var: x})
	return m.min(milp.Term{Coef: 100, Var: gap}, milp.Term{Coef: 0.01, Var: t})
}

func highs3094() *milp.Model {
	m := newProbe("HiGHS 3094")
	var d [2]milp.Var
	var once []milp.Term
	for i := range d {
		x, z := m.col(milp.Binary, 0, 1), m.col(milp.Continuous, 0, 1000)
		d[i] = m.col(milp.Continuous, 0, 1000)
		m.row(math.Inf(-1), 0, milp.Term{Coef: 1, Var: z}, milp.Term{Coef: -1000, Var: x})
		m.row(1000, 1000, milp.Term{Coef: 1, Var: z}, milp.Term{Coef: 1, Var: d[i]})
		once = append(once, milp.Term{Coef: 1, Var: x})
	}
	m.row(math.Inf(-1), 1, once...)
	return m.min(milp.Term{Coef: 10, Var: d[0]}, milp.Term{Coef: 8, Var: d[1]})
}

// nearlyFits is a reduced model of weight offloading (chain of 3 layers, weights of 1 MB, 3 MB and 2 MB, memory of
// 7 MB and 2 bytes): 1 − y = n, n binary, and y ≤ 1 − 3.3e-7, so that y = 0 and n = 1. HiGHS 1.10.0 treats y as
// integer, rounds its bound up, and reports the model as infeasible.
func nearlyFits() *milp.Model {
	inf := math.Inf(1)
	m := newProbe("weights that nearly fit")
	a, b, y, z := m.col(milp.Continuous, 0, inf), m.col(milp.Continuous, 0, inf), m.col(milp.Continuous, 0, inf),
		m.col(milp.Continuous, 0, inf)
	n := m.col(milp.Binary, 0, 1)
	m.row(1, 1, milp.Term{Coef: 1, Var: a}, milp.Term{Coef: 1, Var: z})
	m.row(0, 0, milp.Term{Coef: 1, Var: b}, milp.Term{Coef: 1, Var: y}, milp.Term{Coef: -1, Var: z})
	m.row(0, 0, milp.Term{Coef: 1, Var: a}, milp.Term{Coef: 1, Var: b}, milp.Term{Coef: -1, Var: n})
	m.row(-inf, 732.421630859375, milp.Term{Coef: 732.421875, Var: y})
	return m.min()
}

// smallSides is a reduced model of weight offloading with coefficients and sides of many magnitudes. The optimum
// is 0: x_11 = 1, x_12 = 1e-6, all others 0. HiGHS 1.10.0 returns 0.4.
func smallSides() *milp.Model {
	inf := math.Inf(1)
	m := newProbe("a side of 6e-5 beside 500")
	var x [13]milp.Var
	for j := range x {
		switch {
		case j == 2:
			x[j] = m.col(milp.Binary, 0, 1)
		case j > 10:
			x[j] = m.col(milp.Continuous, 0, 1)
		default:
			x[j] = m.col(milp.Continuous, 0, inf)
		}
	}
	m.row(-inf, 200, milp.Term{Coef: -1, Var: x[0]}, milp.Term{Coef: 1.3e-07, Var: x[5]}, milp.Term{Coef: 1, Var: x[6]})
	m.row(-inf, 0, milp.Term{Coef: 1, Var: x[6]}, milp.Term{Coef: -1, Var: x[0]})
	m.row(-inf, 200, milp.Term{Coef: 1, Var: x[3]})
	m.row(0, 0, milp.Term{Coef: -1, Var: x[8]}, milp.Term{Coef: 1, Var: x[6]})
	m.row(0, 0, milp.Term{Coef: -1, Var: x[10]}, milp.Term{Coef: 1, Var: x[1]})
	m.row(0, 0, milp.Term{Coef: -1, Var: x[7]}, milp.Term{Coef: 1, Var: x[8]}, milp.Term{Coef: 1, Var: x[5]})
	m.row(0, 0, milp.Term{Coef: -1, Var: x[9]}, milp.Term{Coef: 1, Var: x[10]})
	m.row(0, inf, milp.Term{Coef: 1, Var: x[7]}, milp.Term{Coef: -1, Var: x[9]})
	m.row(-500, 0, milp.Term{Coef: -1, Var: x[3]}, milp.Term{Coef: 1, Var: x[4]}, milp.Term{Coef: -1, Var: x[1]})
	m.row(-inf, -6e-05, milp.Term{Coef: -1, Var: x[0]}, milp.Term{Coef: -200, Var: x[11]})
	m.row(-inf, -6e-05, milp.Term{Coef: -1, Var: x[0]}, milp.Term{Coef: -200, Var: x[12]})
	m.row(-500, inf, milp.Term{Coef: -1, Var: x[11]}, milp.Term{Coef: -500, Var: x[12]})
	return m.min(milp.Term{Coef: 1, Var: x[0]})
}

// byteBeside is a reduced printed model of Checkmate, a graph with a value of 950,518 bytes and one of a byte:
// 0.0009765625 in units of the model. A solution has x_10 = 0.0009765625 and all others 0. HiGHS 1.10.0 reports it
// as infeasible.
func byteBeside() *milp.Model {
	const value = 928.240234375
	inf := math.Inf(1)
	m := newProbe("a byte beside a value")
	var x [16]milp.Var
	for j := range x {
		if j >= 5 && j < 12 {
			x[j] = m.col(milp.Continuous, 0, 928.240478515625)
		} else {
			x[j] = m.col(milp.Binary, 0, 1)
		}
	}
	term := func(c float64, j int) milp.Term { return milp.Term{Coef: c, Var: x[j]} }
	m.row(0, 0, term(-1, 11), term(value, 4))
	m.row(0, 0, term(1, 11), term(-1, 5))
	m.row(0, 0, term(1, 5), term(-1, 6))
	m.row(0, 0, term(1, 6), term(-1, 7))
	m.row(0, 0, term(1, 7), term(value, 2), term(-1, 8))
	m.row(0, 0, term(1, 8), term(-value, 14), term(-1, 9))
	m.row(-0.0009765625, -0.0009765625, term(1, 9), term(-value, 15), term(-1, 10))
	m.row(0, inf, term(-1, 0), term(1, 3), term(1, 1), term(1, 12))
	m.row(-inf, 2, term(-1, 0), term(1, 3), term(1, 1), term(3, 12))
	m.row(0, inf, term(-1, 0), term(1, 1), term(1, 13))
	m.row(-inf, 2, term(-1, 0), term(1, 1), term(3, 13))
	return m.min()
}

// lastByte is a reduced model of activation offloading in which two tensors must be on the host because of the
// last byte: 976.5625 x + 0.0107421875 n ≥ their sum. lp_solve 5.5.2.5 reports it as infeasible.
func lastByte() *milp.Model {
	m := newProbe("memory to the last byte")
	x, n := m.col(milp.Continuous, 0, 1), m.col(milp.Binary, 0, 1)
	m.row(976.5732421875, math.Inf(1), milp.Term{Coef: 976.5625, Var: x}, milp.Term{Coef: 0.0107421875, Var: n})
	return m.min()
}

// twoProcessors is a reduced model of pipeline allocations: lp_solve 5.5.2.5 misses the solutions with x_1 = 1.
func twoProcessors() *milp.Model {
	inf := math.Inf(1)
	m := newProbe("stages on two processors")
	x := [8]milp.Var{m.col(milp.Continuous, 0, inf)}
	for j := 1; j < len(x); j++ {
		kind := milp.Continuous
		if j == 1 || j == 3 || j == 5 {
			kind = milp.Binary
		}
		x[j] = m.col(kind, 0, 1)
	}
	m.row(0, 0, milp.Term{Coef: -1, Var: x[2]}, milp.Term{Coef: -1, Var: x[3]}, milp.Term{Coef: 1, Var: x[6]}, milp.Term{Coef: 1, Var: x[7]})
	m.row(0, 0, milp.Term{Coef: -1, Var: x[1]}, milp.Term{Coef: 1, Var: x[3]}, milp.Term{Coef: 1, Var: x[4]}, milp.Term{Coef: 1, Var: x[5]})
	m.row(1, inf, milp.Term{Coef: 1, Var: x[1]}, milp.Term{Coef: 1, Var: x[2]})
	m.row(-inf, 1, milp.Term{Coef: 1, Var: x[4]}, milp.Term{Coef: 1, Var: x[6]})
	m.row(750, inf, milp.Term{Coef: 1, Var: x[0]}, milp.Term{Coef: -250, Var: x[1]}, milp.Term{Coef: -0.000499725341796875, Var: x[3]},
		milp.Term{Coef: -1500.0004997253418, Var: x[5]}, milp.Term{Coef: -1500, Var: x[7]})
	m.row(-inf, 200, milp.Term{Coef: 200, Var: x[1]}, milp.Term{Coef: 300, Var: x[3]}, milp.Term{Coef: 500, Var: x[5]},
		milp.Term{Coef: 400, Var: x[7]})
	m.row(-inf, 640.0078125, milp.Term{Coef: 300, Var: x[2]}, milp.Term{Coef: 640, Var: x[4]}, milp.Term{Coef: 500, Var: x[6]})
	return m.min(milp.Term{Coef: 1, Var: x[0]})
}

// onePoint is a model of four columns, two of them integer, with a single feasible point: 8.89, 0.29, 0, 4.
func onePoint() *milp.Model {
	inf := math.Inf(1)
	m := newProbe("one point")
	p, q := m.col(milp.Continuous, -100, 100), m.col(milp.Continuous, -100, 100)
	r, s := m.col(milp.Integer, -100, 100), m.col(milp.Integer, -100, 100)
	term := func(c float64, v milp.Var) milp.Term { return milp.Term{Coef: c, Var: v} }
	m.row(-inf, 1216.06, term(96.55, p), term(-32.45, r), term(88.78, s))
	m.row(-inf, -50.5404, term(-3.14, p), term(-78.02, q))
	m.row(-inf, 3.422, term(11.8, q), term(-21.94, r))
	m.row(-inf, -35.25, term(91.59, r), term(-10.58, s))
	m.row(-inf, 411.403, term(79.17, p), term(1.73, q), term(-73.23, s))
	m.row(-inf, 195.69, term(-10.61, p), term(-94.66, q), term(76.88, s))
	return m.min(term(-24, p), term(5, q), term(7.4, r), term(9, s))
}

// highs2204 is a puzzle: the minimum number of 25 edges such that each of twelve corners has an odd or an even
// degree, as given.
func highs2204() *milp.Model {
	m := newProbe("HiGHS 2204")
	var edges [25]milp.Var
	var count []milp.Term
	for j := range edges {
		edges[j] = m.col(milp.Binary, 0, 1)
		count = append(count, milp.Term{Coef: 1, Var: edges[j]})
	}
	for _, corner := range []struct {
		odd float64
		of  []int
	}{
		{1, []int{1, 2, 6, 7}},
		{1, []int{3, 4, 8, 9}},
		{0, []int{5, 6, 10, 11}},
		{1, []int{7, 8, 12, 13}},
		{1, []int{11, 12, 16, 17}},
		{1, []int{13, 14, 18, 19}},
		{0, []int{15, 16, 20, 21}},
		{0, []int{17, 18, 22, 23}},
		{0, []int{0, 1}},
		{1, []int{21, 22}},
		{1, []int{2, 3}},
		{1, []int{23, 24}},
	} {
		terms := []milp.Term{{Coef: -2, Var: m.col(milp.Integer, 0, 2)}}
		for _, j := range corner.of {
			terms = append(terms, milp.Term{Coef: 1, Var: edges[j]})
		}
		m.row(corner.odd, corner.odd, terms...)
	}
	return m.min(count...)
}

// highs2446 is the public model of that issue, 1,963 rows and 2,200 columns, reduced. Rows were removed and
// columns fixed at the values of a known point while 1.10.0 reported it as infeasible: x_0 = 7.2159, all others 0.
func highs2446() *milp.Model {
	m := newProbe("HiGHS 2446")
	x := [10]milp.Var{m.col(milp.Continuous, 0, 5000), m.col(milp.Continuous, 0, 500)}
	for j := 2; j < 8; j++ {
		x[j] = m.col(milp.Continuous, 0, 1000)
	}
	x[8], x[9] = m.col(milp.Binary, 0, 1), m.col(milp.Binary, 0, 1)
	term := func(c float64, j int) milp.Term { return milp.Term{Coef: c, Var: x[j]} }
	m.row(-7.2159, -7.2159, term(-1, 0), term(-1, 1))
	m.row(0, 0, term(1, 1), term(-0.5, 2), term(1./120, 3), term(1./120, 4))
	m.row(0, 0, term(-0.5, 5), term(1./120, 6), term(1./120, 7))
	m.row(0, 0, term(1, 2), term(-1, 4))
	m.row(0, 0, term(-1, 2), term(1, 3), term(1, 5), term(-1, 7))
	m.row(0, 0, term(1, 2), term(-1000, 8))
	m.row(0, 0, term(1, 5), term(-1000, 9))
	return m.min()
}

// noEnd is max −5n − 4x, −5n − 5x + 5y ≤ 0, −5x + 5y ≥ −1, x and y ≤ 0, n binary.
func noEnd() *milp.Model {
	m := newProbe("no end")
	n, x, y := m.col(milp.Binary, 0, 1), m.col(milp.Continuous, math.Inf(-1), 0), m.col(milp.Continuous, math.Inf(-1), 0)
	m.row(math.Inf(-1), 0, milp.Term{Coef: -5, Var: n}, milp.Term{Coef: -5, Var: x}, milp.Term{Coef: 5, Var: y})
	m.row(-1, math.Inf(1), milp.Term{Coef: -5, Var: x}, milp.Term{Coef: 5, Var: y})
	m.Maximize(&milp.Expr{Terms: []milp.Term{{Coef: -5, Var: n}, {Coef: -4, Var: x}}})
	return m.Model
}
