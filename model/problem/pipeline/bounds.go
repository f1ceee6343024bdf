package pipeline

import (
	"math"

	"workbench/model/proof"
)

// Bounds returns lower bounds on T/k that hold for every pattern, rounded down, the largest first.
// [Instance.Infeasible] must not have proved that nothing fits. O(n²·log).
//
// Load: T/k ≥ ΣU/P. Largest layer: F_ℓ and B_ℓ run on one processor, so T/k ≥ uF_ℓ + uB_ℓ.
//
// Layer memory: each mini-batch holds a_{ℓ-1} for at least U(ℓ,n), from the start of F_ℓ to the end
// of B_ℓ. So on average at least U(ℓ,n)·k/T of them are held, and at some F_ℓ at least the average:
// NCA_ℓ ≥ U(ℓ,n)/(T/k). These must fit together with the weights and, in the task model, with a_ℓ,
// which F_ℓ writes. So T/k ≥ U(ℓ,n)/⌊(M - C·W_ℓ)/a_{ℓ-1}⌋.
//
// Held memory: summed over all layers, the time average of the memory of all processors is at least
// Σ C·W_ℓ + Σ a_{ℓ-1}·U(ℓ,n)·k/T, and at most P·M. In the stage model each NCA_ℓ is an integer: the
// bound is the minimum T/k with Σ C·W_ℓ + Σ a_{ℓ-1}·⌈U(ℓ,n)·k/T⌉ ≤ P·M.
//
// Runs: any allocation divides the chain into runs of layers on one processor. A run s(i,j) takes
// U(i,j), and each cut next to it (a+δ)/β. Between F_ℓ and B_ℓ come the later layers and the
// communications of the later cuts: let V be their time. As above NCA_ℓ ≥ ⌈(V + U_ℓ)·k/T⌉. The
// processor holds the weights and buffers of the run. In the stage model it also holds Σ
// NCA_ℓ·a_{ℓ-1} over its layers. In the task model it also holds, at some F_ℓ, for each layer ℓ of
// the run, a_ℓ and NCA_ℓ times the inputs of layers i..ℓ, since a mini-batch between F_ℓ and B_ℓ is
// between F_m and B_m for all m < ℓ of the run. It needs at least 𝓜(i,j,1). The bound is the
// minimum T/k at which the chain can be cut into runs that all fit. Limited to P runs it holds for
// contiguous allocations.
//
// Runs, 1-periodic: the same with V' = V ⊕ U_ℓ of [004] 7.1.2, layer by layer, and NCA_ℓ ≥ ⌈V'/T⌉.
// Let x be the time from the end of F_ℓ to the start of B_ℓ, x ≥ V, and h = ⌈V/T⌉. If V + U_ℓ > hT
// then x ≥ hT. Otherwise x > (h-1)T would give, as F_ℓ and B_ℓ do not overlap modulo T, x ≤ hT -
// U_ℓ, so V + U_ℓ ≤ hT. So x + U_ℓ ≥ V ⊕ U_ℓ, and the same holds for the communications of a cut.
// This is Theorem 15 for layers, for any allocation.
//
// Contiguous load: the minimum over contiguous allocations of the maximum load of a processor or
// link. A link has load (a_ℓ+δ_ℓ)/β.
func (in *Instance) Bounds() []proof.Bound {
	return proof.BestFirst(
		proof.BySearch(in.Load()*(1-Rounding), "load"),
		proof.BySearch(in.LargestLayer()*(1-Rounding), "largest-layer"),
		proof.BySearch(in.LayerMemory()*(1-Rounding), "layer-memory"),
		proof.BySearch(in.HeldMemory()*(1-Rounding), "held-memory"),
		proof.BySearch(in.Runs(false, false), "runs"),
	)
}

// Load returns ΣU/P, seconds.
func (in *Instance) Load() float64 { return in.U[in.N] / float64(in.Procs) }

// LargestLayer returns the maximum of uF_ℓ + uB_ℓ over the layers, seconds.
func (in *Instance) LargestLayer() float64 {
	t := 0.0
	for l := 1; l <= in.N; l++ {
		t = max(t, in.UF[l]+in.UB[l])
	}
	return t
}

// LayerMemory returns the layer memory bound, seconds.
func (in *Instance) LayerMemory() float64 {
	t := 0.0
	for l := 1; l <= in.N; l++ {
		room := in.Memory - in.Copies*in.W[l]
		if in.Task {
			room -= in.A[l]
		}
		if nca := Count(room, in.Kept[l]); nca >= 1 {
			t = max(t, in.Time(l, in.N)/nca)
		}
	}
	return t
}

// HeldMemory returns the held memory bound, seconds.
func (in *Instance) HeldMemory() float64 {
	room := float64(in.Procs)*in.Memory - in.Weights[in.N]
	held := 0.0
	for l := 1; l <= in.N; l++ {
		held += in.Kept[l] * in.Time(l, in.N)
	}
	if held == 0 {
		return 0
	}
	low := held / room // room > 0: one mini-batch of each layer fits
	if in.Task || room >= mostSize {
		return low
	}
	count := func(t float64) float64 {
		sum := 0.0
		for l := 1; l <= in.N; l++ {
			sum += in.Kept[l] * math.Ceil(in.Time(l, in.N)/t-Rounding)
		}
		return sum
	}
	if count(low) <= room {
		return low
	}
	high := in.U[in.N] // one mini-batch of each layer
	for range 60 {
		t := low + (high-low)/2
		if count(t) <= room {
			high = t
		} else {
			low = t
		}
	}
	return low
}

// ContiguousLoad returns the contiguous load bound, seconds. It ignores memory.
func (in *Instance) ContiguousLoad() float64 {
	best := make([]float64, in.N+1) // for layers 1..j on at most p processors
	for j := 1; j <= in.N; j++ {
		best[j] = in.Time(1, j)
	}
	for range in.Procs - 1 {
		for j := in.N; j >= 1; j-- {
			for i := j; i >= 2; i-- {
				u := in.Time(i, j)
				if u >= best[j] {
					break
				}
				best[j] = min(best[j], max(u, in.Cut[i-1], best[i-1]))
			}
		}
	}
	return best[in.N]
}

// Runs returns the runs bound in seconds, rounded down, for 1-periodic patterns (one), for
// contiguous allocations, or for both. It returns 0 if no period is feasible. Once in.Stop is
// closed the bound is smaller but valid.
func (in *Instance) Runs(one, contiguous bool) float64 {
	low, high := in.LargestLayer(), in.Latest()
	if in.runsFit(low, one, contiguous) {
		return low * (1 - Rounding)
	}
	if !in.runsFit(high, one, contiguous) {
		return 0
	}
	for high-low > 1e-9*high && !in.Stop.Given() {
		if t := low + (high-low)/2; in.runsFit(t, one, contiguous) {
			high = t
		} else {
			low = t
		}
	}
	return low * (1 - Rounding)
}

// runsFit reports whether the chain can be cut into runs that all fit at a period. Of all ways to
// cut off layers j+1..n, the one with the minimum V dominates the others. O(n²), for contiguous
// allocations O(P·n²).
func (in *Instance) runsFit(period float64, one, contiguous bool) bool {
	rounds := 1
	if contiguous {
		rounds = in.Procs
	}
	plus := func(v, u float64) float64 {
		if one {
			return Plus(v, u, period)
		}
		return v + u
	}
	limit := period * (1 + Rounding)
	before, after := make([]float64, in.N+1), make([]float64, in.N+1) // V by j
	for j := range before {
		before[j], after[j] = math.Inf(1), math.Inf(1)
	}
	before[in.N], after[in.N] = 0, 0
	counted := in.counted()
	var most []float64 // task model: by NCA, the needs of its layers plus NCA·stored[i-1]
	for range rounds {
		for j := in.N; j >= 1; j-- {
			start := after[j]
			if contiguous {
				start = before[j]
			}
			if math.IsInf(start, 1) {
				continue
			}
			v, held := start, 0.0
			most = most[:0]
			for i := j; i >= 1 && in.Time(i, j) <= limit; i-- {
				v = plus(v, in.UF[i]+in.UB[i])
				nca := max(1, Periods(v, period))
				room := in.Memory - in.Fixed(i, j)
				if in.Task {
					nca = min(nca, counted) // a smaller count is still a bound
					for len(most) <= nca {
						most = append(most, math.Inf(-1))
					}
					most[nca] = max(most[nca], float64(nca)*in.Stored[i]+in.A[i])
					held = 0
					for g, m := range most {
						held = max(held, m-float64(g)*in.Stored[i-1])
					}
				} else {
					held += float64(nca) * in.Kept[i]
				}
				if held > room || !in.MayRun(i, j) || !in.Fits(in.Needs(i, j, 1)) || in.Cut[i-1] > limit {
					continue
				}
				w := v
				if i > 1 {
					w = plus(v, in.Cut[i-1])
				}
				after[i-1] = min(after[i-1], w)
			}
		}
		if contiguous {
			copy(before, after)
		}
	}
	return !math.IsInf(after[0], 1)
}

// counted returns the maximum NCA that runs count: 64, or less if sums of sizes would not be exact.
func (in *Instance) counted() int {
	return int(max(1, min(64, math.Floor((mostSize-1)/(in.Stored[in.N]+1))-1)))
}
