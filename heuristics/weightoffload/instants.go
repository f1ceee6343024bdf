package weightoffload

import (
	"fmt"
	"math"
	"slices"

	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/problem/weightoffload"
)

// solve runs a method and returns its schedule as a plan. If operations merge in it that must not,
// see [instance.merges], the method runs again with every transfer four instants longer, then eight
// and so on. The plan has the true transfer times, so its period may be longer than necessary by
// the instants of those on its critical cycle, at most 8e-9 of it each the first time.
func solve(c *chain.Chain, p platform.Platform, method string, run func(*instance) (*weightoffload.Schedule, error)) (*plan.Plan, error) {
	in, err := newInstance(c, p)
	if err != nil {
		return nil, err
	}
	s, err := run(in)
	view := in
	for instants := 4.0; err == nil && view.merges(s); instants *= 2 {
		if instants > mostInstants {
			return nil, fmt.Errorf("%s: %w that separates computations of zero duration by %g of the period", method, plan.ErrNoPlan,
				plan.Tolerance)
		}
		view = in.slower(instants * plan.Tolerance * s.T)
		s, err = run(view)
	}
	if err != nil {
		return nil, err
	}
	// The transfer is placed in the middle of its lengthened time, away from both neighbours.
	for k, move := range in.Move {
		late := (view.Move[k] - move) / 2
		s.Up[k] += late
		s.Pre[2*k] += late
		s.Pre[2*k+1] += late
		if len(s.Again) > 0 {
			s.Again[k] += late
		}
	}
	return s.Plan(in.Instance, method), nil
}

// mostInstants is the maximum lengthening: sequences of a thousand operations of less than an
// instant each.
const mostInstants = 2048

// slower returns the instance with transfers that take more to twice more additional seconds. The
// amounts differ, since equal ones would leave sums of transfers as close to each other as before.
func (in *instance) slower(more float64) *instance {
	slow := *in.Instance
	slow.Move = slices.Clone(in.Move)
	for k := range slow.Move {
		if in.W[k] > 0 {
			slow.Move[k] += more * (1 + float64(k)/float64(in.L))
		}
	}
	return &instance{&slow, true}
}

// merges reports whether an operation merges with the previous one although it waited for a
// transfer in between. To the verifier, zero-duration operations within an instant of each other
// are simultaneous. All of them happen when the first does, together with weights that are deleted
// later and with those that any of them still has to fetch, since prefetches come last in a tie.
// The same holds for the ends of a transfer so short that rounding hides it. O(L), and O(L) more
// for each zero-duration operation that follows another.
func (in *instance) merges(s *weightoffload.Schedule) bool {
	instant := 1.05 * plan.Tolerance * s.T // and rounding
	since := func(t, from float64) float64 { t -= from; return t - s.T*math.Floor(t/s.T) }
	joined := func(j int) bool {
		a := in.Predecessor(j)
		return in.U[j] <= instant && in.U[a] <= instant && since(s.Op[j]+in.U[j]/2+instant/100, s.Op[a]+in.U[a]/2) <= instant*1.01
	}
	for g, away := range s.Away {
		if away && in.Move[g>>1] < instant/1000 {
			return true
		}
	}
	for j, at := range s.Op {
		if !joined(j) {
			continue
		}
		first := in.Predecessor(j)
		for first != j && joined(first) {
			first = in.Predecessor(first)
		}
		at += instant / 100
		run, g := since(at, s.Op[first]), in.Gap(j)
		if s.Away[g] && since(at, s.Pre[g]) <= run+instant {
			return true
		}
		for g, away := range s.Away {
			last, gone := in.Last(g), s.Deleted(in.Instance, g)
			if away && gone > s.Op[last]+in.U[last] && since(at, gone) < run-instant/3 {
				return true
			}
		}
	}
	return false
}
