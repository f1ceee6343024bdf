package solvertest

import (
	"fmt"
	"math"
	"time"

	"workbench/model/milp"
	"workbench/solvers"
)

var nan = math.NaN()

// startCases are about Options.Start.
func startCases() []testCase {
	return []testCase{
		{"start/complete", func(h *harness) error { return started(h, []float64{2, 2}, solvers.StartAccepted) }},
		{"start/optimal", func(h *harness) error { return started(h, []float64{3, 1}, solvers.StartAccepted) }},
		{"start/partial", func(h *harness) error {
			return started(h, []float64{nan, 1}, solvers.StartAccepted, solvers.StartRejected)
		}},
		{"start/nothing given", func(h *harness) error { return started(h, []float64{nan, nan}, solvers.StartRejected) }},
		{"start/fractional", func(h *harness) error { return started(h, []float64{2.5, 1}, solvers.StartRejected) }},
		{"start/out of bounds", func(h *harness) error { return started(h, []float64{4, 0}, solvers.StartRejected) }},
		{"start/infinite", func(h *harness) error { return started(h, []float64{1, inf}, solvers.StartRejected) }},
		{"start/infeasible", func(h *harness) error { return started(h, []float64{3, 4}, solvers.StartRejected) }},
		{"start/kept at the limit", startKept},
		{"start/integers only, completed", startCompleted},
		{"start/not changed", startUnchanged},
	}
}

// started solves pick, whose optimum no start may spoil.
func started(h *harness, start []float64, want ...solvers.StartUse) error {
	r, err := h.optimum(text(pick), solvers.Options{Start: start}, 11)
	if err != nil {
		return err
	}
	for _, w := range want {
		if r.Start == w {
			return nil
		}
	}
	return fmt.Errorf("%v, want %v", r.Start, want)
}

// nearPoint is a start for a market split that is good but not optimal: the
// planted point but for one column.
func nearPoint(s *marketSplit) (start []float64, m *milp.Model, obj float64) {
	m = s.slackModel()
	start = make([]float64, m.NumCols())
	copy(start, s.point)
	start[0] = 1 - start[0]
	for i, a := range s.a {
		off := -float64(s.planted[i])
		for j := range s.point {
			off += float64(a[j]) * start[j]
		}
		// off − less + more = 0.
		start[len(s.point)+i] = max(0, -off)
		start[len(s.point)+len(s.a)+i] = max(0, off)
		obj += math.Abs(off)
	}
	return start, m, obj
}

// startKept gives a start that is hard to match and a short time.
func startKept(h *harness) error {
	start, m, obj := nearPoint(newMarketSplit(4, 30, 40))
	r, err := h.solve(m, solvers.Options{Start: start, Time: 3 * shortly})
	if err != nil {
		return err
	}
	if got, ok := r.Objective(); !ok || got > obj {
		return fmt.Errorf("%v with objective %v, start %v", r.Status, got, obj)
	}
	if r.Start != solvers.StartAccepted {
		return fmt.Errorf("%v", r.Start)
	}
	return nil
}

// startCompleted gives the integers of an optimal point, which is proven by the
// bound 0 as soon as the library has completed it.
func startCompleted(h *harness) error {
	s := newMarketSplit(4, 30, 41)
	m := s.slackModel()
	start := make([]float64, m.NumCols())
	for j := range start {
		start[j] = nan
	}
	copy(start, s.point)
	r, err := h.optimum(m, solvers.Options{Start: start, Time: 5 * time.Second}, 0)
	if err != nil {
		return err
	}
	if r.Start != solvers.StartAccepted {
		return fmt.Errorf("%v", r.Start)
	}
	return nil
}

func startUnchanged(h *harness) error {
	start := []float64{2.0000001, nan}
	if _, err := h.optimum(text(pick), solvers.Options{Start: start}, 11); err != nil {
		return err
	}
	if start[0] != 2.0000001 || !math.IsNaN(start[1]) {
		return fmt.Errorf("start changed to %v", start)
	}
	return nil
}
