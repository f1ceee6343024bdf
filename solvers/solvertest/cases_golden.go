package solvertest

import (
	"errors"
	"fmt"
	"math"

	"workbench/model/milp"
	"workbench/solvers"
)

// instance is a generated model that knows its optimum.
type instance interface {
	model() *milp.Model
	optimum() float64
}

// goldenCases are models of the kinds that this project solves, or that
// libraries are known to get wrong, in sizes for enumeration and larger.
func goldenCases() []testCase {
	c := []testCase{
		{"golden/knapsack", golden(newKnapsack(15, 20))},
		{"golden/knapsack, large", golden(newKnapsack(50, 21))},
		{"golden/multi-knapsack", golden(newMultiKnapsack(5, 14, 22))},
		{"golden/general assignment", golden(newGeneralAssignment(2, 7, 23))},
		{"golden/general assignment, large", golden(newGeneralAssignment(4, 9, 24))},
		{"golden/set cover", golden(newSetCover(12, 16, 25))},
		{"golden/set cover, large", golden(newSetCover(15, 45, 26))},
		{"golden/assignment", golden(newAssignment(4, 27))},
		{"golden/assignment, large", golden(newAssignment(9, 28))},
		{"golden/job shop", golden(tight{newJobShop(3, 2, 29)})},
		{"golden/job shop, M=1e4", golden(loose{newJobShop(3, 3, 30), 1e4})},
		{"golden/job shop, M=1e7", golden(loose{newJobShop(3, 3, 31), 1e7})},
		{"golden/job shop, large", golden(tight{newJobShop(5, 4, 32)})},
		{"golden/job shop, large, M=1e7", golden(loose{newJobShop(5, 4, 33), 1e7})},
		{"golden/weighted tardiness", golden(newTardiness(4, 34))},
		{"golden/weighted tardiness, large", golden(newTardiness(9, 35))},
		{"golden/market split", golden(split{newMarketSplit(2, 12, 36)})},
		{"golden/switch with M=1e7", bigSwitch},
		{"golden/7919a − 7907b = 99991", diophantine},
		{"golden/7919a − 7907b = 99991, small", smallDiophantine},
	}
	for _, p := range solvers.Probes() {
		run := solved(p.Optimum, p.Model)
		if math.IsInf(p.Optimum, 0) {
			run = endless(p.Model)
		}
		c = append(c, testCase{"golden/" + p.Name, run})
	}
	return c
}

// endless is the case of a model that is unbounded.
func endless(build func() *milp.Model) func(*harness) error {
	return func(h *harness) error {
		r, err := h.solve(build(), solvers.Options{})
		if err == nil && r.Status != solvers.Unbounded {
			err = fmt.Errorf("%v, but it is unbounded", r.Status)
		}
		return err
	}
}

func golden(i instance) func(*harness) error {
	return func(h *harness) error { return solved(i.optimum(), i.model)(h) }
}

// tight is a job shop with the least safe M, loose one with another.
type tight struct{ *jobShop }

func (t tight) model() *milp.Model { return t.jobShop.model(float64(t.horizon)) }

type loose struct {
	*jobShop
	large float64
}

func (l loose) model() *milp.Model { return l.jobShop.model(l.large) }

type split struct{ *marketSplit }

func (s split) model() *milp.Model { return s.slackModel() }
func (s split) optimum() float64   { return 0 }

// bigSwitch pays 10 to switch y on, y ≤ 1e7·on, and wants y ≥ 8. A library that
// uses up its tolerance switches on by 8e-7 and pays nothing.
func bigSwitch(h *harness) error {
	m := text("min y + 10 on; st; y - 1e7 on <= 0; y >= 8; bounds; y <= 1e7; bin; on")
	r, err := h.optimum(m, solvers.Options{}, 18)
	if err != nil {
		return err
	}
	if x, _ := r.Solution(); x[1] != 1 {
		return errors.New("switched on by less than 1")
	}
	return nil
}

// diophantine needs deep dives: lp_solve's default depth limit calls it
// infeasible.
func diophantine(h *harness) error { return diophantineTo(h, 7919, 7907, 99991, 100_000) }

func smallDiophantine(h *harness) error { return diophantineTo(h, 79, 73, 991, 20_000) }

// diophantineTo solves min a + b, pa − qb = c, 0 ≤ a, b ≤ up, in integers.
func diophantineTo(h *harness, p, q, c, up int) error {
	want := math.Inf(1)
	for b := range up + 1 {
		if a := (c + q*b) / p; a <= up && p*a-q*b == c {
			want = float64(a + b)
			break
		}
	}
	m := newModel("diophantine")
	v := m.cols(2, milp.Integer, 0, float64(up))
	m.row(float64(c), float64(c), term(float64(p), v[0]), term(-float64(q), v[1]))
	m.min(0, ones(v)...)
	_, err := h.optimum(m.Model, solvers.Options{}, want)
	return err
}
