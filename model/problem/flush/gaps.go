package flush

import "workbench/model/plan"

// gaps returns a lower bound on the span of all GPUs together if each has one stage; from is a
// known bound. Let t_g be the time from the first start of GPU g to the start of its last B. GPU g
// − 1 starts at least F and a delay before g, and its last B starts at least B and a delay after
// that of g, so that
//
//	t_{g−1} ≥ t_g + B_g + F_{g−1} + 2·delay
//
// Before its last B the GPU runs all Fs, all other Bs, and an integer number w of Ws. w is at most
// m − 1, since the last W follows, and large enough that the pending Ws fit in memory. If the span
// is T, the idle time is T less the load; at least up of it precedes the first B. So
//
//	t_g is in some [A_g(w) + up_g, A_g(w) + T − load_g],  A_g(w) = m·F + (m − 1)·B + w·W
//
// The minimum t_g follow one after the other from the last GPU on. If some GPU has none, T is too
// short. A larger T only widens the intervals, so bisection finds the smallest feasible T.
// O(stages·micro-batches) a step.
func (v *Instance) gaps(from float64) float64 {
	if v.Platform.Placement != plan.Straight || v.Jobs < 2 {
		return 0
	}
	up := make([]float64, v.GPUs)
	for s := range up { // GPU s has stage s
		up[s] = max(0, v.forwards(s)+v.backwards(s)-v.mostForward(s)) * (1 - 0x1p-40)
	}
	low, high := from, from
	for step := max(from, 1e-300) * 1e-3; !v.feasible(high, up); step *= 2 {
		if low = high; high > 4*from {
			return low
		}
		high += step
	}
	if low == high {
		return 0 // from itself is feasible
	}
	for range 50 {
		if middle := low + (high-low)/2; v.feasible(middle, up) {
			high = middle
		} else {
			low = middle
		}
	}
	return low
}

// feasible reports whether the last Bs have start times for a span of T.
func (v *Instance) feasible(T float64, up []float64) bool {
	t, jobs := 0.0, float64(v.Jobs)
	for s := v.Stages - 1; s >= 0; s-- {
		if s+1 < v.Stages {
			t += v.Time[s+1][B] + v.Time[s][F] + 2*v.Delay[s]
		}
		least := v.Jobs - 1 - v.fit(v.Room[s]-v.Memory[s][F], -v.Memory[s][W])
		work := jobs*v.Time[s][F] + (jobs-1)*v.Time[s][B]
		idle := T - work - v.Time[s][B] - jobs*v.Time[s][W]
		// slack covers the rounding error of the values above.
		slack := T * 0x1p-36
		found := false
		for w := max(0, least); w < v.Jobs; w++ {
			a := work + float64(w)*v.Time[s][W]
			if idle+slack >= up[s] && t <= a+idle+slack {
				t, found = max(t, a+up[s])-slack, true
				break
			}
		}
		if !found {
			return false
		}
	}
	return true
}
