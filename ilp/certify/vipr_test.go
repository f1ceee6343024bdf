package certify

import (
	"bytes"
	"context"
	"math"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"workbench/model/milp"
	"workbench/model/testfile"
	"workbench/model/vipr"
)

// TestVIPR: certificates of random models, exported, are accepted by a checker that shares nothing
// with ours, and prove as much.
func TestVIPR(t *testing.T) {
	testfile.Property(t, func(t *rapid.T) {
		m := models().Draw(t, "model")
		d := m.Data()
		lp := open(t, &d)
		defer lp.Close()
		r, err := Tree(context.Background(), lp, &d, head, Options{Goal: optimum(t, m), Nodes: rapid.IntRange(0, 3).Draw(t, "nodes")})
		if err != nil {
			t.Fatal(err)
		}
		c := r.Certificate
		if c == nil {
			return
		}
		var b bytes.Buffer
		bound, err := c.WriteVIPR(&b, &d)
		if err != nil {
			t.Fatalf("%v\n%s", err, b.String())
		}
		got, err := vipr.Check(bytes.NewReader(b.Bytes()))
		if err != nil {
			t.Fatalf("%v\n%s", err, b.String())
		}
		if got.Infeasible != c.Infeasible || !c.Infeasible && got.Lower.Cmp(bound) != 0 {
			t.Fatalf("%+v", got)
		}
		if !c.Infeasible {
			claim := new(big.Rat).Sub(c.Bound, new(big.Rat).SetFloat64(d.Offset))
			if less, _ := new(big.Rat).Sub(claim, bound).Float64(); less > 1e-9*math.Max(1, math.Abs(value(c))) {
				t.Fatalf("the file proves %v less\n%s", less, b.String())
			}
		}
	})
}

// TestVIPRMutants: of a file any number of which is altered, nothing wrong is accepted.
func TestVIPRMutants(t *testing.T) {
	m := milp.New("knapsack")
	var weight, value milp.Expr
	for k, w := range []float64{5, 7, 4, 3, 6} {
		x := m.Var("x", milp.Integer, 0, 2)
		weight.Add(w, x)
		value.Add(-1.5*w-float64(k), x)
	}
	m.Group("row", "").AtMost(&weight, 14)
	m.Minimize(&value)
	d := m.Data()
	lp := open(t, &d)
	defer lp.Close()
	r, err := Tree(t.Context(), lp, &d, head, Options{Goal: math.Inf(1)})
	if err != nil || r.Certificate == nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	bound, err := r.Certificate.WriteVIPR(&b, &d)
	if err != nil {
		t.Fatal(err)
	}
	text := b.String()
	if _, err := vipr.Check(strings.NewReader(text)); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	_, derived, _ := strings.Cut(text, "RTP")
	problem := strings.TrimSuffix(text, derived)
	random, refused, tried := rand.New(rand.NewPCG(1, 1)), 0, 0
	for range 2000 {
		words := strings.Fields(derived)
		k := random.IntN(len(words))
		v, ok := new(big.Rat).SetString(words[k])
		if !ok {
			continue
		}
		words[k] = v.Add(v, big.NewRat(int64(random.IntN(5)-2), int64(1+random.IntN(3)))).RatString()
		tried++
		got, err := vipr.Check(strings.NewReader(problem + " " + strings.Join(words, " ")))
		switch {
		case err != nil:
			refused++
		case got.Infeasible || got.Lower != nil && got.Lower.Cmp(bound) > 0:
			t.Fatalf("word %d of %s: accepted, and proves %v", k, derived, got.Lower)
		}
	}
	if refused < tried/2 {
		t.Errorf("%d of %d refused", refused, tried)
	}
	for _, cut := range []int{len(text) / 3, len(text) / 2, len(text) - 20} {
		if _, err := vipr.Check(strings.NewReader(text[:cut])); err == nil {
			t.Errorf("cut off after %d bytes: accepted", cut)
		}
	}
}
