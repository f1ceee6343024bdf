package flush

import "workbench/model/plan"

// gaps is a bound of all GPUs together, where each has one stage. Let t_g be the time
// from the first start of GPU g to the start of its last B. That of g − 1 starts no
// later than g less F and the way, and its last B no earlier than that of g with B and the
// way, so that
//
//	t_{g−1} ≥ t_g + B_g + F_{g−1} + 2·delay
//
// Before its last B the GPU runs all F, all other B, and some whole number w of Ws: m − 1 at
// most, for its last W follows, and no fewer than leave room for those that wait. If
// its span is T, what it is idle is T less its load; up of that is before its first B. So
//
//	t_g is in some [A_g(w) + up_g, A_g(w) + T − load_g],  A_g(w) = m·F + (m − 1)·B + w·W
//
// From the last GPU on the least t_g is found one after the other. Where there is none T
// is too short for some GPU: which T are is a matter of bisection, since more time only
// widens the intervals. O(stages·micro-batches) a step.
func (v *Instance) gaps(from float64) float64 {
	if v.Platform.Placement != plan.Straight || v.Jobs < 2 {
		return 0
	}
	up := make([]float64, v.GPUs)
	for s := range up { // GPU s has stage s
		up[s] = max(0, v.forwards(s)+v.backwards(s)-v.mostForward(s)) * (1 - 0x1p-40)
	}
	low, high := from, from
	for step := max(from, 1e-300) * 1e-3; !v.leaves(high, up); step *= 2 {
		if low = high; high > 4*from {
			return low
		}
		high += step
	}
	if low == high {
		return 0 // none is too short
	}
	for range 50 {
		if middle := low + (high-low)/2; v.leaves(middle, up) {
			high = middle
		} else {
			low = middle
		}
	}
	return low
}

// leaves reports whether there are times of the last Bs for a span of T.
func (v *Instance) leaves(T float64, up []float64) bool {
	t, jobs := 0.0, float64(v.Jobs)
	for s := v.Stages - 1; s >= 0; s-- {
		if s+1 < v.Stages {
			t += v.Time[s+1][B] + v.Time[s][F] + 2*v.Delay[s]
		}
		least := v.Jobs - 1 - v.fit(v.Room[s]-v.Memory[s][F], -v.Memory[s][W])
		work := jobs*v.Time[s][F] + (jobs-1)*v.Time[s][B]
		idle := T - work - v.Time[s][B] - jobs*v.Time[s][W]
		// What rounding may have added to any of these.
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
