package pipeline

import (
	"errors"
	"math/rand/v2"
	"testing"

	"workbench/model/chain"
	"workbench/model/plan"
	"workbench/model/platform"
)

// admits reports whether a chain has an allocation with loads of at most T̂ that
// fits by MadPipe's estimates, by trying every partition and, stage by stage
// from the end, both kinds of processor.
func admits(d *madPipeDP, period float64) bool {
	in := d.in
	var place func(j, p, t, m int, v float64) bool
	place = func(j, p, t, m int, v float64) bool {
		if j == 0 {
			return true
		}
		for i := j; i >= 1; i-- {
			u := in.time(i, j)
			if u > period*(1+tiny) || in.cut[i-1] > period*(1+tiny) {
				continue
			}
			g := max(1, periods(v+u, period))
			before := d.before(i, v, u, period)
			if p > 0 && in.needs(i, j, g) <= in.limit && place(i-1, p-1, t, m, before) {
				return true
			}
			t2, m2 := t+steps(u, d.time), m+steps(d.special(i, j, g), d.size)
			if float64(t2)*d.time <= period*(1+tiny) && m2 < d.grid.Memory && place(i-1, p, t2, m2, before) {
				return true
			}
		}
		return false
	}
	return place(in.n, in.procs-1, 0, 0, 0)
}

// MadPipe-DP finds an allocation exactly where there is one, with every
// discretisation, and whatever it finds a larger T̂ allows as well.
func TestMadPipeDPExhaustively(t *testing.T) {
	yes, no := 0, 0
	eachSmall(t, func(c *chain.Chain, p platform.Platform) {
		for _, model := range models {
			in, err := readInstance(c, p, Options{Model: model})
			if err != nil {
				t.Fatal(err)
			}
			for _, g := range []Grid{PaperGrid, FineGrid, {Time: 7, Memory: 5, Delay: 9}} {
				d := newMadPipe(in, g)
				for _, d.safe = range []bool{false, true} {
					before := false
					for k := range 8 {
						period := in.latest() * float64(k+1) / 8
						stages := d.at(period)
						if got, want := stages != nil, admits(d, period); got != want {
							t.Fatalf("%s, %+v, T̂ = %v: found %v, exists %v: %+v %+v", model, g, period, got, want, c, p)
						}
						if before && stages == nil {
							t.Fatalf("%s, %+v: T̂ = %v has no allocation, a smaller one has: %+v %+v", model, g, period, c, p)
						}
						if stages == nil {
							no++
							continue
						}
						yes++
						before = true
						if err := in.checkAllocation(stages); err != nil {
							t.Fatal(err)
						}
					}
				}
			}
		}
	})
	if yes < 100 || no < 100 {
		t.Errorf("%d allocations, %d without", yes, no)
	}
}

// A pattern that has been retimed keeps its allocation's memory and never gets
// a longer period.
func TestRetime(t *testing.T) {
	shorter := 0
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 10))
		c, p := randomChain(r, 2+r.IntN(4), false), randomPlatform(r)
		p.Memory = 1e6
		in, err := readInstance(c, p, Options{})
		if err != nil {
			t.Fatal(err)
		}
		stages, _ := in.partition(0)
		s := in.oneFOneBStar(stages, in.items(stages), longest(in.items(stages))*(1+r.Float64()))
		// Period and starts as they are, but later by a tenth of each.
		slow := *s
		slow.period *= 1.1
		slow.f, slow.b = nil, nil
		for i := range s.f {
			slow.f, slow.b = append(slow.f, s.f[i]*1.1), append(slow.b, s.b[i]*1.1)
		}
		peak := slow.peak(in)
		was := slow.period
		if !slow.retime() {
			t.Fatalf("seed %d: not retimed", seed)
		}
		if slow.period > was*(1+1e-9) || slow.peak(in) > peak*(1+1e-9) {
			t.Fatalf("seed %d: period %v from %v, memory %v from %v", seed, slow.period, was, slow.peak(in), peak)
		}
		if slow.period < was*(1-1e-9) {
			shorter++
		}
		verified(t, c, slow.plan(in, "retimed"))
	}
	if shorter < 50 {
		t.Errorf("only %d became shorter", shorter)
	}
}

// Where MadPipe finds nothing it says so, and claims no proof.
func TestMadPipeFindsNothing(t *testing.T) {
	nothing := 0
	for seed := range uint64(150) {
		r := rand.New(rand.NewPCG(seed, 11))
		c, p := randomChain(r, 3+r.IntN(4), false), randomPlatform(r)
		_, err := MadPipe(c, p, Options{})
		_, _, phase := MadPipeAllocation(c, p, FineGrid, Options{})
		var proved *plan.Infeasible
		switch {
		case errors.As(err, &proved):
		case errors.Is(phase, plan.ErrNoPlan) && err == nil:
			// Only the safe estimate may exceed that of the paper.
			t.Fatalf("seed %d: a plan, but no allocation: %v", seed, phase)
		case errors.Is(err, plan.ErrNoPlan):
			nothing++
		case err != nil:
			t.Fatal(err)
		}
	}
	if nothing == 0 {
		t.Error("it always finds something")
	}
}
