package weightoffload

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"workbench/model/exhaustive"
	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/plan/plantest"
	"workbench/model/platform"
	"workbench/model/testfile"
	"workbench/model/verify"
)

const states = 1 << 22

func TestByHand(t *testing.T) {
	inf := math.Inf(1)
	for _, x := range []struct {
		name   string
		c      *chain.Chain
		memory float64
		want   float64 // 0: infeasible
	}{
		// docs/findings.md 1.
		{"one layer just fits", plantest.Network(0, [4]float64{1, 1, 0, 1}), 2, 2},
		{"one layer does not fit", plantest.Network(0, [4]float64{1, 1, 0, 1}), 1.5, 0},
		{"unlimited memory", plantest.Network(3, [4]float64{1, 2, 1, 2}, [4]float64{2, 1, 5, 3}), inf, 6},
		// Beside B_1 and B_2 there is no room, so both weights must come and go:
		// B_2, then O_2 and P_1 together, B_1, F_1 beside O_1 and P_2, F_2.
		{"two layers, room for one backward", plantest.Network(0, [4]float64{2, 2, 0, 2}, [4]float64{2, 2, 0, 2}), 4, 10},
		{"two layers, room for all", plantest.Network(0, [4]float64{2, 2, 0, 2}, [4]float64{2, 2, 0, 2}), 6, 8},
		{"no weights", plantest.Network(1, [4]float64{1, 1, 1, 0}, [4]float64{0, 3, 1, 0}), 3, 5},
		{"no weights, no room", plantest.Network(1, [4]float64{1, 1, 1, 0}, [4]float64{0, 3, 1, 0}), 2.9, 0},
		// A computation without duration needs memory, too.
		{"backward without duration", plantest.Network(0, [4]float64{1, 0, 0, 2}), 3, 0},
	} {
		t.Run(x.name, func(t *testing.T) {
			got, p, err := Search(x.c, platform.Platform{Memory: x.memory, Bandwidth: 1}, states)
			if x.want == 0 {
				if !errors.Is(err, exhaustive.ErrInfeasible) {
					t.Fatalf("period %g, error %v; want %v", got, err, exhaustive.ErrInfeasible)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got != x.want {
				t.Errorf("period %g, want %g", got, x.want)
			}
			check(t, x.c, p)
		})
	}
}

func check(t *testing.T, c *chain.Chain, p *plan.Plan) {
	t.Helper()
	r, err := verify.Replay(c, p)
	if err != nil {
		t.Fatal(err)
	}
	// With computations that take no time, the search may count a weight that
	// it could as well discard an instant earlier.
	timed := true
	for _, l := range c.Layers {
		timed = timed && l.ForwardTime > 0 && l.BackwardTime > 0
	}
	if !r.Valid() || timed && r.ClaimErrors != nil {
		t.Errorf("%+v %v\n%+v\n%+v", r.Violations, r.ClaimErrors, c, p.Ops)
	}
}

// random returns a chain with small integers.
func random(r *rand.Rand, layers, largest int) *chain.Chain {
	c := &chain.Chain{Name: "random", Input: chain.Input{Activation: float64(r.IntN(2))}}
	for range layers {
		c.Layers = append(c.Layers, chain.Layer{
			ForwardTime: float64(r.IntN(largest + 1)), BackwardTime: float64(r.IntN(largest + 1)),
			Activation: float64(r.IntN(largest)), Weight: float64(r.IntN(largest + 1)),
		})
	}
	return c
}

func TestTooHard(t *testing.T) {
	one := [4]float64{1, 1, 1, 1}
	for name, x := range map[string]struct {
		c         *chain.Chain
		bandwidth float64
		limit     int
		want      error
	}{
		"empty":           {plantest.Network(0), 1, states, exhaustive.ErrTooHard},
		"long":            {plantest.Network(0, slices.Repeat([][4]float64{one}, MaxLayers+1)...), 1, states, exhaustive.ErrTooHard},
		"fraction":        {plantest.Network(0, [4]float64{0.5, 1, 1, 1}), 1, states, exhaustive.ErrTooHard},
		"transfer":        {plantest.Network(0, one), 3, states, exhaustive.ErrTooHard},
		"no bandwidth":    {plantest.Network(0, one), 0, states, exhaustive.ErrTooHard},
		"NaN":             {plantest.Network(0, [4]float64{math.NaN(), 1, 1, 1}), 1, states, exhaustive.ErrTooHard},
		"no computations": {plantest.Network(0, [4]float64{0, 0, 1, 1}), 1, states, exhaustive.ErrTooHard},
		"limit":           {plantest.Network(0, one, one, one), 1, 10, exhaustive.ErrLimit},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := Search(x.c, platform.Platform{Memory: 5.5, Bandwidth: x.bandwidth}, x.limit)
			if !errors.Is(err, x.want) {
				t.Errorf("error %v, want %v", err, x.want)
			}
		})
	}
}

// Halving the unit of time halves nothing: the optimum of doubled durations and
// weights is twice the optimum, so no plan gains by starting at half units.
func TestFinerGrid(t *testing.T) {
	r := testfile.Random(t, 3, 4)
	for range 60 {
		c := random(r, 1+r.IntN(2), 2)
		if c.TotalTime() == 0 {
			continue
		}
		fine := &chain.Chain{Name: c.Name, Input: chain.Input{Activation: 2 * c.Input.Activation}}
		for _, l := range c.Layers {
			fine.Layers = append(fine.Layers, chain.Layer{
				ForwardTime: 2 * l.ForwardTime, BackwardTime: 2 * l.BackwardTime, Activation: 2 * l.Activation, Weight: 2 * l.Weight,
			})
		}
		for m := 1.0; m <= 12; m++ {
			period, _, err := Search(c, platform.Platform{Memory: m, Bandwidth: 1}, states)
			finer, _, errFiner := Search(fine, platform.Platform{Memory: 2 * m, Bandwidth: 1}, states)
			if errors.Is(err, exhaustive.ErrInfeasible) != errors.Is(errFiner, exhaustive.ErrInfeasible) || finer != 2*period {
				t.Fatalf("memory %g: period %g (%v), in half units %g (%v): %+v", m, period, err, finer, errFiner, c)
			}
		}
	}
}

// The period with transfers of no time is what that of short ones goes down to: with a fortieth of a unit
// each it is longer by no more than all transfers one after the other, and neither has a plan where the other has none.
func TestTransfersOfNoTime(t *testing.T) {
	const fine = 40
	r := testfile.Random(t, 7, 8)
	plans, waits := 0, 0
	for range testfile.Cases(120) {
		c := random(r, 1+r.IntN(2), 2)
		slow := &chain.Chain{Name: c.Name, Input: c.Input}
		for i := range c.Layers {
			l := &c.Layers[i]
			l.Weight = min(l.Weight, 1)
			slow.Layers = append(slow.Layers, chain.Layer{
				ForwardTime: fine * l.ForwardTime, BackwardTime: fine * l.BackwardTime, Activation: l.Activation, Weight: l.Weight,
			})
		}
		if c.TotalTime() == 0 {
			continue
		}
		for m := 1.0; m <= 7; m++ {
			none, _, err := Search(c, platform.Platform{Memory: m, Bandwidth: math.Inf(1)}, states)
			short, _, errShort := Search(slow, platform.Platform{Memory: m, Bandwidth: 1}, states)
			if errors.Is(err, exhaustive.ErrInfeasible) != errors.Is(errShort, exhaustive.ErrInfeasible) || (err == nil) != (errShort == nil) {
				t.Fatalf("memory %g: %v, with short transfers %v: %+v", m, err, errShort, c)
			}
			if more := short - fine*none; more < 0 || more > 4*float64(c.Len()) {
				t.Fatalf("memory %g: %g, with transfers of a fortieth %g/40: %+v", m, none, short, c)
			} else if err == nil {
				plans++
				if more > 0 {
					waits++
				}
			}
		}
	}
	if waits < testfile.Cases(120)/20 {
		t.Errorf("%d plans, %d of which wait for transfers", plans, waits)
	}
	t.Logf("%d plans, %d of which wait for transfers", plans, waits)
}

// From an optimal plan a walk over plans that the verifier accepts, by half
// units, finds none that is shorter.
func TestNoShorterPlan(t *testing.T) {
	r := testfile.Random(t, 5, 6)
	accepted := 0
	for range testfile.Cases(300) {
		c := random(r, 1+r.IntN(3), 3)
		if c.TotalTime() == 0 {
			continue
		}
		memory := 1.0
		period, p, err := Search(c, platform.Platform{Memory: memory, Bandwidth: 1}, states)
		for ; errors.Is(err, exhaustive.ErrInfeasible); memory++ {
			period, p, err = Search(c, platform.Platform{Memory: memory, Bandwidth: 1}, states)
		}
		if err != nil {
			t.Fatal(err)
		}
		if period == c.TotalTime() {
			continue
		}
		valid := func(q *plan.Plan) bool {
			report, err := verify.Replay(c, q)
			return err == nil && report.Valid()
		}
		for range 300 {
			q := *p
			q.Ops = slices.Clone(p.Ops)
			o, by := &q.Ops[r.IntN(len(q.Ops))], []float64{-1, -0.5, 0.5, 1}[r.IntN(4)]
			o.Start += by
			o.End += by
			if valid(&q) {
				p = &q
				accepted++
			}
			// Half a unit taken out of the period at some time.
			less := *p
			less.Ops = slices.Clone(p.Ops)
			shorter, cut := period-0.5, float64(r.IntN(int(2*period)))/2
			less.Period = &shorter
			for k := range less.Ops {
				if o := &less.Ops[k]; o.Start >= cut {
					o.Start -= 0.5
					o.End -= 0.5
				}
			}
			if valid(&less) {
				t.Fatalf("period %g is called optimal, %g is valid: %+v\n%+v", period, shorter, c, less.Ops)
			}
		}
	}
	if accepted < testfile.Cases(2000) {
		t.Errorf("only %d steps", accepted)
	}
}

// Every plan passes the verifier, more memory never makes a period longer, and
// with enough of it the period is the computations'.
func TestRandom(t *testing.T) {
	r := testfile.Random(t, 1, 2)
	searched, offloaded := 0, 0
	for range testfile.Cases(600) {
		c := random(r, 1+r.IntN(3), 3)
		if c.TotalTime() == 0 {
			continue
		}
		all := c.Input.Activation
		for _, l := range c.Layers {
			all += l.Activation + 2*l.Weight
		}
		last := math.Inf(1)
		for m := 1.0; m <= all+1; m++ {
			period, p, err := Search(c, platform.Platform{Memory: m, Bandwidth: 1}, states)
			if errors.Is(err, exhaustive.ErrInfeasible) {
				if !math.IsInf(last, 1) {
					t.Fatalf("memory %g: infeasible, and feasible with less: %+v", m, c)
				}
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			searched++
			if period > c.TotalTime() {
				offloaded++
			}
			check(t, c, p)
			if period > last || period < c.TotalTime() {
				t.Fatalf("memory %g: period %g, with less memory %g, computations %g", m, period, last, c.TotalTime())
			}
			if last = period; period == c.TotalTime() {
				break
			}
		}
		if last != c.TotalTime() {
			t.Fatalf("all memory: period %g, computations %g: %+v", last, c.TotalTime(), c)
		}
	}
	if offloaded < testfile.Cases(100) {
		t.Errorf("only %d of %d optima were above the time of the computations", offloaded, searched)
	}
}
