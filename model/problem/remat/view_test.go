package remat_test

import (
	"errors"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	optimum "workbench/model/exhaustive/remat"
	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/problem/remat"
	"workbench/model/testcase/random"
	"workbench/model/testfile"
	verifyremat "workbench/model/verify/remat"
)

const states = 1 << 16

// One unit below the bound on memory there is no plan, bounds on time hold, and
// so do they with sizes of many magnitudes and times of any scale.
func TestBounds(t *testing.T) {
	r := testfile.Random(t, 13, 1)
	tight, late := 0, 0
	const cases = 800
	for i := range cases {
		c := random.Chain(r, 1+i%5)
		scale(r, c)
		least, err := optimum.LeastMemory(c, states)
		if err != nil {
			t.Fatal(err)
		}
		bound, why := remat.FromChain(c).LeastBound()
		if bound > least {
			t.Fatalf("the least memory is %g, not %g, %s: %+v", least, bound, why, c)
		}
		if bound == least {
			tight++
		}
		var none *plan.Infeasible
		if _, err := remat.New(c, bound-1); bound > 0 && (!errors.As(err, &none) || none.Memory != bound || none.Why != why) {
			t.Fatalf("%v in %g", err, bound-1)
		}
		memory := least + float64(r.IntN(4))
		v, err := remat.New(c, memory+0.5) // which is no more
		if err != nil || !v.Fits(memory) || v.Fits(memory+1) {
			t.Fatal(err, memory)
		}
		want, best, err := optimum.Search(c, memory, states)
		if err != nil {
			t.Fatal(err)
		}
		if got := v.Time(best.Ops); math.Abs(got-want) > 1e-12*want {
			t.Fatalf("%g, should be %g", got, want)
		}
		for _, b := range v.Bounds() {
			if b.Value > want*(1+1e-12) {
				t.Fatalf("%s: %g, but a plan takes %g in %g: %+v", b.By, b.Value, want, memory, c)
			}
			if b.By == "stored-set" && b.Value > v.Compute() {
				late++
			}
		}
	}
	if tight < cases/2 || late < cases/20 {
		t.Errorf("%d least memories met, %d bounds above the sum", tight, late)
	}
}

// scale gives sizes magnitudes of their own, and all times one.
func scale(r *rand.Rand, c *chain.Chain) {
	size := func(x float64) float64 { return x * math.Pow10(r.IntN(10)) }
	time := math.Pow10(r.IntN(16) - 12)
	c.Input.Activation, c.Input.Gradient = size(c.Input.Activation), size(c.Input.Gradient)
	for i := range c.Layers {
		l := &c.Layers[i]
		more := l.Saved - l.Activation
		l.Activation, l.Gradient = size(l.Activation), size(l.Gradient)
		l.Saved = l.Activation + size(more)
		l.ForwardOverhead, l.BackwardOverhead = size(l.ForwardOverhead), size(l.BackwardOverhead)
		l.CheckpointOverhead = size(l.CheckpointOverhead)
		l.ClampOverhead()
		l.ForwardTime, l.BackwardTime = l.ForwardTime*time, l.BackwardTime*time
	}
}

// Rounded times are not longer, and their sums are exact.
func TestRoundedDown(t *testing.T) {
	r := testfile.Random(t, 13, 2)
	for range 100 {
		runs := 1 + r.IntN(300)
		c := random.Chain(r, 1+r.IntN(60))
		for i := range c.Layers {
			l := &c.Layers[i]
			l.ForwardTime, l.BackwardTime = r.Float64()*math.Pow10(r.IntN(18)-12), r.Float64()
		}
		v := remat.FromChain(c)
		w := v.RoundedDown(runs)
		sum, exact := 0.0, new(big.Float).SetPrec(2000)
		for range runs {
			for l := 1; l <= v.N; l++ {
				if w.UF[l] > v.UF[l] || w.UB[l] > v.UB[l] {
					t.Fatalf("layer %d takes %g and %g, rounded down %g and %g", l, v.UF[l], v.UB[l], w.UF[l], w.UB[l])
				}
				sum += w.UF[l] + w.UB[l]
				exact.Add(exact, big.NewFloat(w.UF[l]))
				exact.Add(exact, big.NewFloat(w.UB[l]))
			}
		}
		if exact.Cmp(big.NewFloat(sum)) != 0 {
			t.Fatalf("%g, should be %v", sum, exact)
		}
		if lost := v.Compute() - w.Compute(); lost > float64(2*v.N*runs)*0x1p-51*v.Compute() {
			t.Fatalf("%g lost of %g", lost, v.Compute())
		}
	}
}

// A sequence follows what is stored as the verifier does, and says what is
// missing.
func TestSequence(t *testing.T) {
	r := testfile.Random(t, 13, 3)
	wrong := 0
	for range 2000 {
		c := random.Chain(r, 1+r.IntN(4))
		s := remat.FromChain(c).NewSequence()
		next := c.Len()
		for range r.IntN(12) {
			switch l := 1 + r.IntN(c.Len()); r.IntN(5) {
			case 0:
				s.All(l)
			case 1:
				s.Checkpoint(l)
			case 2:
				s.None(l)
			case 3:
				s.Discard(l)
			case 4:
				if next > 0 {
					s.Backward(next)
					next--
				}
			}
		}
		p := s.Plan("any", c, platform.Platform{Memory: 1e9})
		report, err := verifyremat.Verify(c, p)
		if err != nil {
			t.Fatal(err)
		}
		lacks := false
		for _, v := range report.Violations {
			lacks = lacks || v.Rule == plan.RuleMissingInput
		}
		if lacks {
			wrong++
		}
		if lacks != (s.Err != nil) {
			t.Fatalf("%v, but %v: %+v", s.Err, report.Violations, p.Ops)
		}
		if !lacks && len(report.ClaimErrors) > 0 {
			t.Fatal(report.ClaimErrors)
		}
	}
	if wrong < 200 || wrong > 1900 {
		t.Errorf("%d of 2000 lack something", wrong)
	}
}

func TestBadInput(t *testing.T) {
	good := &chain.Chain{Layers: []chain.Layer{{ForwardTime: 1}}}
	for _, x := range []struct {
		c      *chain.Chain
		memory float64
		want   error
	}{
		{nil, 1, remat.ErrChain},
		{&chain.Chain{}, 1, remat.ErrChain},
		{&chain.Chain{Layers: []chain.Layer{{ForwardTime: 1e308}, {}}}, 1, remat.ErrChain},
		{good, -1, remat.ErrPlatform},
		{good, math.NaN(), remat.ErrPlatform},
		{good, math.Inf(1), remat.ErrPlatform},
	} {
		if _, err := remat.New(x.c, x.memory); !errors.Is(err, x.want) {
			t.Errorf("%+v in %g: %v, should be %v", x.c, x.memory, err, x.want)
		}
	}
}
