package activationoffload

import (
	"context"
	"math"
	"testing"

	"workbench/model/instance/chain"
	"workbench/model/platform"
	view "workbench/model/problem/activationoffload"
	"workbench/model/testfile"
)

// A printed is Algorithm 5 of [004] line by line, with hash tables, on integral
// data times β = 1, of which numbers are exact. Sizes of (3.4) and so on are
// computed as they stand.
type printed struct {
	*instance
	M float64
	// What differs between the papers.
	epsG     func(a *printed, x entry) float64
	misprint bool // finding 17: "u_{B_i} ε_{B_i}" in the first update
}

// An entry is a key of O_i.
type entry struct{ A, F, B float64 }

func plus(x float64) float64 { return max(x, 0) }

// run returns the least O_tot.
func (a *printed) run() float64 {
	O := map[entry]float64{{}: 0}
	for i := 1; i <= a.N; i++ {
		next := map[entry]float64{}
		update := func(x entry, value float64) {
			if old, ok := next[x]; !ok || value < old {
				next[x] = value
			}
		}
		for x, value := range O {
			in := a.Abar[i-1]
			MF, MB := x.A+plus(x.F)+in, x.A+plus(x.B)+in            // (3.4), (3.5)
			if a.NeedF[i] > a.M-x.A-in || a.NeedB[i] > a.M-x.A-in { // (3.8), (3.9)
				continue
			}
			epsF, epsB := plus(a.NeedF[i]-a.M+MF), plus(a.NeedB[i]-a.M+MB) // (3.6), (3.7)
			time := a.UF[i] + epsF + a.UB[i] + epsB
			first := time
			if a.misprint {
				first = a.UF[i] + epsF + a.UB[i]*epsB
			}
			update(entry{ // (3.10) - (3.12)
				A: x.A,
				F: plus(x.F) + in - (epsF + a.UF[i]),
				B: max(x.B-(epsB+a.UB[i]), 0) + in,
			}, value+first)
			update(entry{ // (3.13) - (3.15)
				A: x.A + in,
				F: x.F - (epsF + a.UF[i]),
				B: x.B - (epsB + a.UB[i]),
			}, value+time)
		}
		O = next
	}
	best := math.Inf(1)
	for x, value := range O {
		best = min(best, value+a.epsG(a, x))
	}
	return best
}

// between is 3.3.2.2, given R_{F_j} and R_{B_j}.
func (a *printed) between(x entry, rF, rB func(j int) float64) float64 {
	MF, MB := x.A+plus(x.F)+a.Abar[a.N], x.A+plus(x.B)+a.Abar[a.N]
	switch {
	case x.F <= 0 && x.B <= 0:
		return 0
	case x.F > 0 && x.B > 0:
		return x.F + x.B
	case x.F > 0: // (3.16)
		av, eps, U := -x.B, 0.0, 0.0
		eps = max(eps, x.F-av)
		for j := a.N; j >= 1; j-- {
			if U < av {
				eps = max(eps, rB(j)-a.M+MF-U)
			}
			U += a.UB[j]
		}
		return eps
	}
	av, eps, U := -x.F, 0.0, 0.0 // (3.17)
	eps = max(eps, x.B-av)
	for j := a.N; j >= 1; j-- {
		if U < av {
			eps = max(eps, rF(j)-a.M+MB-U)
		}
		U += a.UF[j]
	}
	return eps
}

// thesis is ε_G by (3.16) and (3.17) of [004].
func thesis(a *printed, x entry) float64 {
	gone := func(j int) float64 { return a.Before[a.N] - a.Before[j] + a.Abar[a.N] - a.Abar[j] } // Σ_{i≥j+1} ā_i
	return a.between(x,
		func(j int) float64 { return a.OF[j] - gone(j) },
		func(j int) float64 { return a.Delta[j-1] + a.Delta[j] + a.OB[j] - gone(j) })
}

// paper is ε_G by (9) and (10) of [000], which leave out the removal of ā_i.
func paper(a *printed, x entry) float64 {
	return a.between(x,
		func(j int) float64 { return a.OF[j] },
		func(j int) float64 { return a.Delta[j-1] + a.Delta[j] + a.OB[j] })
}

// simple is the rule at the end of 3.3.3.1.
func simple(_ *printed, x entry) float64 { return plus(x.F) + plus(x.B) }

// Algorithm 5 as printed gives what the search gives: for the simple rule, and for
// (3.17) as it stands. The two variants that are wrong differ, in the direction
// that one expects.
func TestDynProgPrinted(t *testing.T) {
	r := testfile.Random(t, 11, 11)
	count := map[string]int{}
	for range testfile.Cases(3000) {
		c, p := dynProgCase(r, 1+r.IntN(8))
		whole(c, &p)
		in, err := newInstance(c, p)
		if err != nil {
			t.Fatal(err)
		}
		a := &printed{instance: in, M: p.Memory}
		claim := func(gap Gap) float64 {
			k, err := DynProgClaim(context.Background(), c, p, gap)
			if err != nil {
				t.Fatal(err)
			}
			return k.Makespan
		}
		a.epsG = simple
		if got, want := claim(GapSimple), a.run(); got != want {
			t.Fatalf("simple rule: %v, printed %v\n%+v %+v", got, want, c, p)
		}
		a.epsG = thesis
		right := a.run()
		if got := claim(GapPrinted); got != right {
			t.Fatalf("(3.16), (3.17): %v, printed %v\n%+v %+v", got, right, c, p)
		}
		switch overlap := claim(GapOverlap); {
		case overlap < right:
			t.Fatalf("(3.17) as printed gives %v, no prefetch before F_i has ended %v\n%+v %+v", right, overlap, c, p)
		case overlap > right:
			count["(3.17) too small"]++
		}
		a.epsG = paper
		switch got := a.run(); {
		case got < right:
			t.Fatalf("[000]: %v, [004] %v\n%+v %+v", got, right, c, p)
		case got > right:
			count["[000] too large"]++
		}
		a.epsG, a.misprint = thesis, true
		if got := a.run(); got < c.TotalTime() {
			count["misprint below the computations"]++
		} else if got != right {
			count["misprint differs"]++
		}
	}
	t.Log(count)
	for _, x := range []string{"(3.17) too small", "[000] too large", "misprint below the computations"} {
		if count[x] == 0 {
			t.Errorf("%s: never", x)
		}
	}
}

// whole makes all numbers whole, and β 1.
func whole(c *chain.Chain, p *platform.Platform) {
	for i := range c.Layers { // times as long as transfers at β were
		c.Layers[i].ForwardTime *= p.Bandwidth
		c.Layers[i].BackwardTime *= p.Bandwidth
	}
	for i := range c.Layers {
		l := &c.Layers[i]
		for _, x := range []*float64{&l.ForwardTime, &l.BackwardTime, &l.Saved, &l.Gradient, &l.ForwardOverhead, &l.BackwardOverhead} {
			*x = math.Ceil(*x)
		}
		l.ClampOverhead()
	}
	p.Bandwidth = 1
	low, _ := view.Range(c)
	p.Memory = max(low, math.Floor(p.Memory))
}

// (3.17) as printed: F_1 fills the memory and runs from 0 to 10, while ā_0 leaves,
// by 4; F_2 may have 2 of its 4 bytes back. The prefetch of ā_0 can start at 10
// only, when F_2 starts, so that after F_2, at 11, 3 bytes are missing: ε_G = 3.
// (3.17) lets it start at 9, while ā_0 is there, and has ε_G = 2.
func TestDynProgPrintedTooSmall(t *testing.T) {
	c := &chain.Chain{Input: chain.Input{Activation: 4}, Layers: []chain.Layer{
		{ForwardTime: 10, Activation: 1, Saved: 1, ForwardOverhead: 5},
		{ForwardTime: 1, ForwardOverhead: 7},
	}}
	p := platform.Platform{Memory: 10, Bandwidth: 1}
	for gap, want := range map[Gap]float64{GapOverlap: 14, GapPrinted: 13, GapSimple: 15} {
		k, err := DynProgClaim(context.Background(), c, p, gap)
		if err != nil {
			t.Fatal(err)
		}
		if k.Makespan != want {
			t.Errorf("rule %d: %+v, want %v", gap, k, want)
		}
	}
	in, err := newInstance(c, p)
	if err != nil {
		t.Fatal(err)
	}
	if best := optimum(in); best < 14 {
		t.Errorf("optimum %v", best)
	}
}
