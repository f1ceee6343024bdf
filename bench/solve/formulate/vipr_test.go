package formulate_test

import (
	"bytes"
	"math"
	"math/big"
	"strings"
	"testing"
	"time"

	"workbench/bench/solve"
	"workbench/bench/solve/catalog"
	"workbench/bench/solve/method"
	"workbench/ilp"
	"workbench/ilp/certify"
	"workbench/ilp/formulation"
	"workbench/model/certificate"
	"workbench/model/platform"
	"workbench/model/vipr"
	"workbench/solvers"
	"workbench/solvers/highs"
)

// TestEveryKindOfCertificateAsVIPR: a certificate about every formulation whose bounds count,
// exported as VIPR, is accepted by a checker that shares nothing with ours and proves as much.
func TestEveryKindOfCertificateAsVIPR(t *testing.T) {
	t.Parallel()
	kinds := 0
	for _, f := range ilp.Formulations() {
		if f.Promise != formulation.Equal && f.Promise != formulation.LowerBound {
			continue
		}
		p, err := catalog.FindProblem(f.Problem)
		if err != nil {
			t.Fatal(err)
		}
		spec, stdin := p.Tiny[f.Kind], ""
		if strings.HasPrefix(spec, "{") {
			spec, stdin = "-", spec
		}
		in, err := solve.Load(spec, strings.NewReader(stdin))
		if err != nil {
			t.Fatal(err)
		}
		low, high := p.Range(in, solve.Setting{})
		program, err := method.Build(f, in, platform.Platform{Memory: math.Floor((low + high) / 2), Bandwidth: 1e9, Processors: 2})
		if err != nil {
			t.Logf("%s: %v", f.Name, err)
			continue
		}
		d := program.Model.Data()
		if d.Sense != 1 {
			t.Fatalf("%s is maximised", f.Name)
		}
		r, err := highs.New().Solve(t.Context(), program.Model, solvers.Options{Time: 2 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		goal := math.Inf(1)
		if x, ok := r.Objective(); ok {
			goal = x
		}
		lp, err := highs.Engine{}.OpenLP(&d)
		if err != nil {
			t.Fatal(err)
		}
		head := certificate.Certificate{
			Instance: strings.Repeat("0", 64), Name: in.Name, Problem: f.Problem, Formulation: f.Name,
			Backend: "highs",
		}
		made, err := certify.Tree(t.Context(), lp, &d, head, certify.Options{Goal: goal, Nodes: 200})
		lp.Close()
		if err != nil || made.Certificate == nil {
			t.Errorf("%s: %v, %+v", f.Name, err, made)
			continue
		}
		kinds++
		c := made.Certificate
		var b bytes.Buffer
		bound, err := c.WriteVIPR(&b, &d)
		if err != nil {
			t.Errorf("%s: %v", f.Name, err)
			continue
		}
		begin := time.Now()
		got, err := vipr.Check(bytes.NewReader(b.Bytes()))
		if err != nil {
			t.Errorf("%s: %v", f.Name, err)
			continue
		}
		t.Logf("%-28s %5d leaves %8d bytes %6d lines, checked in %v", f.Name, c.Leaves(), b.Len(), got.Derived,
			time.Since(begin).Round(time.Millisecond))
		if c.Infeasible != got.Infeasible {
			t.Errorf("%s: %+v", f.Name, got)
		}
		if !c.Infeasible {
			claim := new(big.Rat).Sub(c.Bound, new(big.Rat).SetFloat64(d.Offset))
			if less, _ := new(big.Rat).Sub(claim, bound).Float64(); less > 1e-9*math.Max(1, math.Abs(goal)) {
				t.Errorf("%s: the file proves %v less", f.Name, less)
			}
		}
		// Whatever claims more is refused.
		altered := strings.Replace(b.String(), "RTP range ", "RTP range 9", 1)
		if c.Infeasible {
			altered = strings.Replace(b.String(), "G 1 0 {", "G -1 0 {", 1)
		} else if bound.Sign() <= 0 {
			altered = strings.Replace(b.String(), "RTP range "+bound.RatString(), "RTP range 1", 1)
		}
		if _, err := vipr.Check(strings.NewReader(altered)); err == nil {
			t.Errorf("%s: an altered file is accepted", f.Name)
		}
	}
	if kinds < 15 {
		t.Errorf("only %d kinds of certificates", kinds)
	}
}
