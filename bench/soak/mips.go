package main

import (
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"workbench/bench/solve/backends"
	"workbench/bench/solve/formulate"
	"workbench/model/milp"
	"workbench/solvers"
	"workbench/solvers/enumerate"
	"workbench/solvers/highs"
)

// mips holds random small mixed-integer programs against enumeration, on every backend, programs
// by command among them. A wrong claim of a backend is counted; that something wrong is
// certified is a contradiction.
type mips struct {
	backends                 map[string]solvers.Backend
	tried, certified, claims int
	wrong                    map[string][]string // what was claimed, by backend
	contradictions           []string
}

// mipTime is for one model, on one backend.
const mipTime = 4 * time.Second

func newMIPs() *mips {
	s := &mips{backends: available(), wrong: map[string][]string{}}
	commands, _ := backends.Commands() // doctor says what is wrong with the configuration
	for _, b := range commands {
		if b.Available() == nil {
			s.backends[b.Name] = solvers.New(b.Engine)
		}
	}
	return s
}

// try solves the model of a seed.
func (s *mips) try(ctx context.Context, seed uint64) {
	m := randomMIP(source(seed))
	truth, err := enumerate.New().Solve(ctx, m, solvers.Options{})
	if err != nil || truth.Status != solvers.Optimal && truth.Status != solvers.Infeasible {
		return // too large, or in trouble
	}
	s.tried++
	f := &formulate.File{Name: fmt.Sprintf("random %d", seed), SHA256: strings.Repeat("0", 64), Model: m}
	for _, name := range slices.Sorted(maps.Keys(s.backends)) {
		r, err := f.Certify(ctx, s.backends[name], solvers.New(highs.Engine{}), solvers.Options{Time: mipTime}, false)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			s.wrong[name] = append(s.wrong[name], fmt.Sprintf("seed %d: %v", seed, err))
			continue
		}
		s.claims++
		if why := disagrees(r.Claim.Status, r.Claim.Objective, truth); why != "" {
			s.wrong[name] = append(s.wrong[name], fmt.Sprintf("seed %d: %s", seed, why))
		}
		if !r.Certified {
			continue
		}
		s.certified++
		if why := disagrees(r.Status, r.Objective, truth); why != "" {
			text := fmt.Sprintf("random MIP of seed %d by %s: certified, but %s", seed, name, why)
			fmt.Println(text)
			s.contradictions = append(s.contradictions, text)
		}
	}
}

// disagrees returns what is wrong with a verdict and its objective, "" if nothing is.
func disagrees(status string, objective *float64, truth *solvers.Result) string {
	switch status {
	case "infeasible", "unbounded":
		if truth.Status.String() != status {
			return fmt.Sprintf("%s; enumeration says %v, %v", status, truth.Status, truth.Obj)
		}
	case "optimal":
		if truth.Status != solvers.Optimal {
			return fmt.Sprintf("optimal, %v; enumeration says %v", *objective, truth.Status)
		}
		if math.Abs(*objective-truth.Obj) > 1e-5*math.Max(1, math.Abs(truth.Obj)) {
			return fmt.Sprintf("optimal, %v; enumeration says %v", *objective, truth.Obj)
		}
	}
	return ""
}

// report prints what was found.
func (s *mips) report() {
	fmt.Printf("soak: %d random MIPs, %d answers, %d of them certified; wrong claims by backend:\n", s.tried, s.claims, s.certified)
	for _, name := range slices.Sorted(maps.Keys(s.backends)) {
		fmt.Printf("  %-20s %6d\n", name, len(s.wrong[name]))
		for _, text := range s.wrong[name][:min(3, len(s.wrong[name]))] {
			fmt.Printf("    %s\n", text)
		}
	}
}

// randomMIP returns a model that enumeration solves: decimals, magnitudes from 10⁻³ to 10⁵,
// rows that a large constant switches, and rows that contradict each other by one unit.
func randomMIP(r *rand.Rand) *milp.Model {
	m := milp.New("random")
	rows := m.Group("row", "")
	var x []milp.Var
	var point []float64
	var objective, e milp.Expr
	decimal := func(magnitude int) float64 { // of four digits
		return float64(r.IntN(19999)-9999) / 1e4 * math.Pow10(magnitude)
	}
	for range 2 + r.IntN(5) {
		lo, width := r.IntN(4)-2, 1+r.IntN(3)
		x = append(x, m.Var("n", milp.Integer, float64(lo), float64(lo+width)))
		point = append(point, float64(lo+r.IntN(width+1)))
	}
	for range r.IntN(4) {
		size := math.Pow10(r.IntN(6) - 1)
		x = append(x, m.Var("x", milp.Continuous, -size, size))
		point = append(point, size*float64(r.IntN(201)-100)/100)
	}
	for _, v := range x {
		objective.Add(decimal(r.IntN(4)-1), v)
	}
	for range 2 + r.IntN(4) {
		e.Reset()
		at, magnitude := 0.0, r.IntN(9)-3
		for k, v := range x {
			if r.IntN(3) > 0 {
				a := decimal(magnitude)
				e.Add(a, v)
				at += a * point[k]
			}
		}
		slack := math.Abs(decimal(magnitude - r.IntN(3)))
		switch r.IntN(4) {
		case 0:
			rows.AtLeast(&e, at-slack)
		case 1: // switched by a large constant
			on := m.Var("on", milp.Binary, 0, 1)
			objective.Add(math.Abs(decimal(1)), on)
			rows.AtMost(e.Add(-math.Pow10(3+r.IntN(4)), on), at-slack)
		default:
			rows.AtMost(&e, at+slack)
		}
	}
	if r.IntN(6) == 0 { // infeasible by one unit, over integers
		e.Reset()
		at := 0.0
		for k, v := range x {
			if lo, up := m.Bounds(v); up-lo <= 3 && point[k] == math.Round(point[k]) {
				a := float64(1 + r.IntN(9))
				e.Add(a, v)
				at += a * point[k]
			}
		}
		rows.AtLeast(&e, at)
		rows.AtMost(&e, at-1)
	}
	if r.IntN(2) == 0 {
		m.Maximize(&objective)
	} else {
		m.Minimize(&objective)
	}
	return m
}
