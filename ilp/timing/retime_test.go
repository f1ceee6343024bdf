package timing

import (
	"errors"
	"math"
	"testing"
)

func TestRetime(t *testing.T) {
	// Two machines in a ring, the second one a turn behind the first.
	ring := []Precedence{{0, 1, 3, 0}, {1, 0, 4, 2}, {0, 0, 2, 1}}
	period, times, err := Retime(2, ring, 1)
	if err != nil || math.Abs(period-3.5) > 1e-12 {
		t.Fatalf("period %g, error %v, want 3.5", period, err)
	}
	for _, p := range ring {
		if times[p.To]+float64(p.Turns)*period-times[p.From] < p.Wait-1e-9 {
			t.Errorf("%+v does not hold at %v", p, times)
		}
	}
	if period, _, err := Retime(2, ring, 9); err != nil || period != 9 {
		t.Errorf("period %g, error %v, want 9", period, err)
	}
	for _, bad := range [][]Precedence{{{0, 1, 1, 0}, {1, 0, 0, 0}}, {{0, 0, 1, -1}}} {
		if _, _, err := Retime(2, bad, 1); !errors.Is(err, ErrCyclic) {
			t.Errorf("%v: error %v, want %v", bad, err, ErrCyclic)
		}
	}
}
