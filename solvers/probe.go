package solvers

import (
	"context"
	"fmt"
	"math"
	"time"

	"workbench/model/milp"
)

// Probe is a tiny model of which some version of a library has called a worse
// point optimal. No check of a point can find that out.
type Probe struct {
	Name    string
	Optimum float64
	Model   func() *milp.Model
}

// Probes are those known. The numbers are of issues of ERGO-Code/HiGHS.
func Probes() []Probe {
	return []Probe{
		{"presolve takes a continuous column for an integer", 1.25, falselyInteger}, // HiGHS 1.10.0 says 0
		{"HiGHS 3043", 9, highs3043}, // 1.14.0 says 15
		{"HiGHS 3073", 0.03, highs3073},
		{"HiGHS 3094", 8000, highs3094},
	}
}

// probeTime is more than any of them takes.
const probeTime = 10 * time.Second

// Wrong solves the probes with b and returns a line for each that it answers
// wrongly or not at all.
func Wrong(ctx context.Context, b Backend) (findings []string) {
	for _, p := range Probes() {
		r, err := b.Solve(ctx, p.Model(), Options{Time: probeTime})
		switch {
		case err != nil:
			findings = append(findings, fmt.Sprintf("%s: %v", p.Name, err))
		case r.Status != Optimal:
			findings = append(findings, fmt.Sprintf("%s: %v, the optimum is %g", p.Name, r.Status, p.Optimum))
		case math.Abs(r.Obj-p.Optimum) > objectiveTol(p.Optimum):
			findings = append(findings, fmt.Sprintf("%s: calls %g optimal, the optimum is %g", p.Name, r.Obj, p.Optimum))
		}
	}
	return findings
}

// probe is a model that is quick to write down.
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

// falselyInteger is max −5(n + x), n + x ≥ −1/4, n binary, x ≤ 0, y ≤ 5x, y ≥
// −100, found at random and cut down. HiGHS 1.10.0 with presolve rounds the side
// up to 0, as if x were integer.
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
