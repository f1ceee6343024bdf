package weights

import (
	"cmp"
	"math"
	"slices"
)

// change is a step of the memory in use at a time in [0,T).
type change struct {
	t float64
	// rank orders simultaneous changes: releases first, then operations of no
	// duration in the order of the program, each with the deletion of its
	// weight, then other starts, then prefetches.
	rank int
	kind changeKind
	// d is bytes of weights or of others; for a moment what the operation
	// itself holds beside weights.
	d float64
}

type changeKind int

const (
	weight changeKind = iota
	other
	moment // an operation of no duration: changes nothing for long
)

// peak returns the largest memory in use at any instant. Times closer than
// 1e-9 T are simultaneous: releases come before starts, prefetches last.
// O(L log L).
func (s *schedule) peak(in *instance) float64 {
	eps := 1e-9 * s.T
	// At time 0 the operations that start at T have not; they do then.
	last := in.n - 1
	for last > 0 && s.op[last]-s.op[0] >= s.T-eps {
		last--
	}
	held, weights := in.Act[last], in.total
	all := make([]change, 0, 6*in.L)
	add := func(t float64, rank int, kind changeKind, d float64) {
		if t = wrap(t-s.op[0], s.T); t >= s.T-eps {
			t = 0
		}
		if d != 0 {
			all = append(all, change{t, rank, kind, d})
		}
	}
	first, start, final := -4*in.n, 4*in.n, 5*in.n
	// instant returns the rank of operation j of no duration.
	instant := func(j int) int {
		if s.op[j]-s.op[0] >= s.T-eps {
			return 2*j - 2*in.n
		}
		return 2 * j
	}
	for j, t := range s.op {
		if d := in.Act[j] - in.Act[in.before(j)]; d < 0 {
			add(t, first, other, d)
		} else {
			add(t, start, other, d)
		}
		gradient := 0.0
		if in.Backward(j) {
			gradient = in.W[in.Layer(j)]
		}
		if in.U[j] <= eps {
			add(t, instant(j), moment, in.Act[j]+gradient)
			continue
		}
		add(t, start, other, gradient)
		if gradient > 0 {
			// At T, not at 0, if only operations of no duration follow.
			all = append(all, change{t - s.op[0] + in.U[j], first, other, -gradient})
		}
	}
	for g, away := range s.away {
		if !away {
			continue
		}
		w, gone := in.W[g>>1], s.deleted(in, g)
		rank := first
		if j := in.last(g); in.U[j] <= eps && gone-s.op[j] <= eps {
			rank = instant(j) + 1
		}
		add(gone, rank, weight, -w)
		add(s.pre[g], final, weight, w)
		// Away at the instant 0 if the gap spans a multiple of T.
		weights -= w * (s.lap(s.pre[g]) - s.lap(gone))
	}
	slices.SortFunc(all, func(a, b change) int { return cmp.Compare(a.t, b.t) })
	peak := 0.0
	for i := 0; i < len(all); {
		j := i + 1
		for j < len(all) && all[j].t-all[i].t <= eps {
			j++
		}
		slices.SortStableFunc(all[i:j], func(a, b change) int { return cmp.Compare(a.rank, b.rank) })
		for ; i < j; i++ {
			x := all[i]
			switch {
			case x.kind == moment:
				peak = max(peak, weights+x.d)
				continue
			case x.kind == weight:
				weights += x.d
			default:
				held += x.d
			}
			if x.d > 0 {
				peak = max(peak, held+weights)
			}
		}
	}
	return max(peak, held+weights)
}

// lap returns the number of the cycle that time t falls in, times just before
// its start included.
func (s *schedule) lap(t float64) float64 {
	if s.T <= 0 {
		return 0
	}
	return math.Floor((t-s.op[0])/s.T + 1e-9)
}
