package cycleratio_test

import (
	"errors"
	"math"
	"testing"

	"pgregory.net/rapid"

	"workbench/model/cycleratio"
	"workbench/model/testfile"
)

func TestLeast(t *testing.T) {
	// Two machines in a ring, the second one a turn behind the first.
	ring := []cycleratio.Precedence{{0, 1, 3, 0}, {1, 0, 4, 2}, {0, 0, 2, 1}}
	period, times, err := cycleratio.Least(2, ring, 1)
	if err != nil || period != 3.5 {
		t.Fatalf("period %g, error %v, want 3.5", period, err)
	}
	holds(t, ring, period, times)
	if period, _, err := cycleratio.Least(2, ring, 9); err != nil || period != 9 {
		t.Errorf("period %g, error %v, want 9", period, err)
	}
	for _, bad := range [][]cycleratio.Precedence{{{0, 1, 1, 0}, {1, 0, 0, 0}}, {{0, 0, 1, -1}}} {
		if _, _, err := cycleratio.Least(2, bad, 1); !errors.Is(err, cycleratio.ErrContradiction) {
			t.Errorf("%v: error %v, want %v", bad, err, cycleratio.ErrContradiction)
		}
	}
	var g cycleratio.Graph
	g.Reset(2)
	for _, p := range ring {
		g.Add(p)
	}
	if _, err := g.Least(1, 3); !errors.Is(err, cycleratio.ErrCutoff) {
		t.Errorf("error %v, want %v", err, cycleratio.ErrCutoff)
	}
	if len(g.Critical()) != 2 {
		t.Errorf("critical %v, want both", g.Critical())
	}
}

func holds(t interface {
	Helper()
	Errorf(string, ...any)
}, ps []cycleratio.Precedence, period float64, times []float64,
) {
	t.Helper()
	for _, p := range ps {
		if x := times[p.To] + float64(p.Turns)*period - times[p.From]; x < p.Wait-2*cycleratio.Tolerance*period {
			t.Errorf("%+v does not hold at %v, period %g: %g", p, times, period, x)
		}
	}
}

// The least period is the largest ratio of the simple cycles, all of which are
// listed here, whatever the unit of time.
func TestLeastIsTheMaximumCycleRatio(t *testing.T) {
	testfile.Property(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 6).Draw(t, "events")
		unit := rapid.SampledFrom([]float64{1e-12, 1e-9, 1, 1e6}).Draw(t, "unit")
		mixed := rapid.Bool().Draw(t, "mixed")
		var ps []cycleratio.Precedence
		for range rapid.IntRange(1, 14).Draw(t, "precedences") {
			p := cycleratio.Precedence{
				From: rapid.IntRange(0, n-1).Draw(t, "from"), To: rapid.IntRange(0, n-1).Draw(t, "to"),
				Wait: unit * float64(rapid.IntRange(0, 9).Draw(t, "wait")), Turns: rapid.IntRange(-1, 2).Draw(t, "turns"),
			}
			if mixed && rapid.Bool().Draw(t, "small") {
				p.Wait *= 1e-6
			}
			ps = append(ps, p)
		}
		want, possible := byCycles(n, ps)
		from := unit * float64(rapid.IntRange(1, 3).Draw(t, "least"))
		period, times, err := cycleratio.Least(n, ps, from)
		if !possible {
			if err == nil {
				t.Fatalf("period %g, no period is enough", period)
			}
			return
		}
		if err != nil || math.Abs(period-max(want, from)) > 1e-11*period {
			t.Fatalf("period %g, error %v, want %g", period, err, max(want, from))
		}
		holds(t, ps, period, times)
	})
}

// byCycles returns the largest ratio of the simple cycles; false if one has a
// wait and no turns.
func byCycles(n int, ps []cycleratio.Precedence) (ratio float64, possible bool) {
	possible = true
	on := make([]bool, n)
	var walk func(start, v int, wait float64, turns int)
	walk = func(start, v int, wait float64, turns int) {
		for _, p := range ps {
			w, k := wait+p.Wait, turns+p.Turns
			switch {
			case p.From != v || p.To < start:
			case p.To == start && k > 0:
				ratio = max(ratio, w/float64(k))
			case p.To == start && (w > 0 || k < 0):
				// With K < 0 and no wait only a period of 0 would do.
				possible = false
			case p.To != start && !on[p.To]:
				on[p.To] = true
				walk(start, p.To, w, k)
				on[p.To] = false
			}
		}
	}
	for v := range n {
		walk(v, v, 0, 0)
	}
	return ratio, possible
}
