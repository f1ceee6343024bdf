package pipeline

import (
	"cmp"
	"math"
	"slices"

	"workbench/model/chain"
	"workbench/model/plan"
	"workbench/model/platform"
)

// Bound is a proven lower bound on T/k.
type Bound struct {
	Value float64 // seconds
	By    string  // how it is proved
	// Assumes is what the bound holds under, in the words of plan.Meets; nil: it
	// holds for every pattern in the memory model of the options.
	Assumes []string
}

// Bounds returns lower bounds on T/k, those without assumptions first and then
// the larger first. The errors are those of the methods. O(P·n²·log).
//
// Load: T/k ≥ ΣU/P. Largest layer: F_ℓ and B_ℓ run on one processor, so
// T/k ≥ uF_ℓ + uB_ℓ.
//
// Layer memory: each mini-batch's a_{ℓ-1} counts for at least U(ℓ,n), from the
// start of F_ℓ to the end of B_ℓ, so on average at least U(ℓ,n)·k/T of them
// count, and at some F_ℓ at least the average: NCA_ℓ ≥ U(ℓ,n)/(T/k). These and
// the weights have to fit beside each other, in the task model with a_ℓ, which
// F_ℓ writes. So T/k ≥ U(ℓ,n)/⌊(M - C·W_ℓ)/a_{ℓ-1}⌋.
//
// Held memory: summed over all layers, the time average of what all processors
// hold is at least Σ C·W_ℓ + Σ a_{ℓ-1}·U(ℓ,n)·k/T, and it is at most P·M. In the
// stage model each NCA_ℓ is an integer that counts whole: the bound is the least
// T/k with Σ C·W_ℓ + Σ a_{ℓ-1}·⌈U(ℓ,n)·k/T⌉ ≤ P·M.
//
// Runs: whatever the allocation, the chain falls into runs of layers on one
// processor. A run s(i,j) takes U(i,j), and each cut beside it (a+δ)/β. Between
// F_ℓ and B_ℓ lie the later layers and the communications of the later cuts: let
// V be their time. As above NCA_ℓ ≥ ⌈(V + U_ℓ)·k/T⌉. The processor holds the
// run's weights, its buffers, and in the stage model Σ NCA_ℓ·a_{ℓ-1} over its
// layers; in the task model, at some F_ℓ, for each layer ℓ of the run, a_ℓ and
// NCA_ℓ times the inputs of layers i..ℓ, as a mini-batch between F_ℓ and B_ℓ is
// between F_m and B_m for all m < ℓ of the run. Besides it needs 𝓜(i,j,1). The
// bound is the least T/k at which the chain can be cut into runs that all fit.
// With at most P runs it holds for contiguous allocations.
//
// Runs, 1-periodic: the same with V' = V ⊕ U_ℓ of [004] 7.1.2, layer by layer,
// and NCA_ℓ ≥ ⌈V'/T⌉. Let x be the time from the end of F_ℓ to the start of
// B_ℓ, x ≥ V, and h = ⌈V/T⌉. If V + U_ℓ > hT then x ≥ hT: else x > (h-1)T, and
// as F_ℓ and B_ℓ do not overlap modulo T, x ≤ hT - U_ℓ, so V + U_ℓ ≤ hT. So
// x + U_ℓ ≥ V ⊕ U_ℓ, and the same holds for the communications of a cut. This
// is Theorem 15 for layers, and of any allocation.
//
// Contiguous load: the smallest load of a processor or link over all contiguous
// allocations, a link's being (a_ℓ+δ_ℓ)/β.
func Bounds(c *chain.Chain, p platform.Platform, o Options) ([]Bound, error) {
	in, err := newInstance(c, p, o)
	if err != nil {
		return nil, err
	}
	list := []Bound{
		{in.u[in.n] / float64(in.procs) * (1 - tiny), "load", nil},
		{in.largestLayer(), "largest-layer", nil},
		{in.layerMemory() * (1 - tiny), "layer-memory", nil},
		{in.heldMemory() * (1 - tiny), "held-memory", nil},
		{in.runs(false, false) * (1 - 1e-9), "runs", nil},
		{in.runs(true, false) * (1 - 1e-9), "runs-1-periodic", []string{plan.OnePeriodic}},
		{in.runs(false, true) * (1 - 1e-9), "runs-contiguous", []string{plan.ContiguousAllocation}},
		{in.runs(true, true) * (1 - 1e-9), "runs-contiguous-1-periodic", []string{plan.ContiguousAllocation, plan.OnePeriodic}},
		{in.contiguousLoad() * (1 - tiny), "contiguous-load", []string{plan.ContiguousAllocation}},
	}
	slices.SortStableFunc(list, func(a, b Bound) int {
		return cmp.Or(slices.Compare(a.Assumes, b.Assumes), cmp.Compare(b.Value, a.Value))
	})
	return list, nil
}

func (in *instance) largestLayer() float64 {
	t := 0.0
	for l := 1; l <= in.n; l++ {
		t = max(t, in.uF[l]+in.uB[l])
	}
	return t
}

func (in *instance) layerMemory() float64 {
	t := 0.0
	for l := 1; l <= in.n; l++ {
		room := in.forgiven - in.copies*in.w[l]
		if in.task {
			room -= in.a[l]
		}
		if in.a[l-1] > 0 {
			if nca := math.Floor(room / in.a[l-1] * (1 + tiny)); nca >= 1 {
				t = max(t, in.time(l, in.n)/nca)
			}
		}
	}
	return t
}

func (in *instance) heldMemory() float64 {
	room := float64(in.procs)*in.forgiven - in.weights[in.n]
	held := 0.0
	for l := 1; l <= in.n; l++ {
		held += in.a[l-1] * in.time(l, in.n)
	}
	if held == 0 {
		return 0
	}
	// room > 0, as fitsSomewhere has seen; were it 0, no period would do.
	low := held / max(room, math.SmallestNonzeroFloat64)
	if in.task || math.IsInf(low, 1) {
		return min(low, math.MaxFloat64)
	}
	count := func(t float64) float64 {
		sum := 0.0
		for l := 1; l <= in.n; l++ {
			sum += in.a[l-1] * math.Ceil(in.time(l, in.n)/t-tiny)
		}
		return sum
	}
	if count(low) <= room {
		return low
	}
	high := in.u[in.n] // one of each: fits, as fitsSomewhere has seen
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

// contiguousLoad is the least load over contiguous allocations, memory aside.
func (in *instance) contiguousLoad() float64 {
	best := make([]float64, in.n+1) // of layers 1..j, on at most p processors
	for j := 1; j <= in.n; j++ {
		best[j] = in.time(1, j)
	}
	for range in.procs - 1 {
		for j := in.n; j >= 1; j-- {
			for i := j; i >= 2; i-- {
				u := in.time(i, j)
				if u >= best[j] {
					break
				}
				best[j] = min(best[j], max(u, in.cut[i-1], best[i-1]))
			}
		}
	}
	return best[in.n]
}

// runs is the bound of that name, for 1-periodic patterns, for contiguous
// allocations, or for both. Where no period will do, it says nothing: 0.
func (in *instance) runs(one, contiguous bool) float64 {
	low, high := in.largestLayer(), in.latest()
	if in.runsFit(low, one, contiguous) {
		return low
	}
	if !in.runsFit(high, one, contiguous) {
		return 0
	}
	for high-low > 1e-9*high {
		if t := low + (high-low)/2; in.runsFit(t, one, contiguous) {
			high = t
		} else {
			low = t
		}
	}
	return low
}

// runsFit reports whether the chain can be cut into runs that all fit at a
// period. Of all ways to cut off layers j+1..n the one with the least V is the
// best for the layers before. O(n²), for contiguous allocations O(P·n²).
func (in *instance) runsFit(period float64, one, contiguous bool) bool {
	rounds := 1
	if contiguous {
		rounds = in.procs
	}
	plus := func(v, u float64) float64 {
		if one {
			return add(v, u, period)
		}
		return v + u
	}
	limit := period * (1 + tiny)
	before, after := make([]float64, in.n+1), make([]float64, in.n+1) // V by j
	for j := range before {
		before[j], after[j] = math.Inf(1), math.Inf(1)
	}
	before[in.n], after[in.n] = 0, 0
	var most []float64 // task model: by NCA, what its layers need, plus NCA·stored[i-1]
	for range rounds {
		for j := in.n; j >= 1; j-- {
			start := after[j]
			if contiguous {
				start = before[j]
			}
			if math.IsInf(start, 1) {
				continue
			}
			v, held := start, 0.0
			most = most[:0]
			for i := j; i >= 1 && in.time(i, j) <= limit; i-- {
				v = plus(v, in.uF[i]+in.uB[i])
				nca := max(1, periods(v, period))
				room := in.forgiven - in.fixed(i, j)
				if in.task {
					for len(most) <= min(nca, maxNCA) {
						most = append(most, math.Inf(-1))
					}
					nca = min(nca, maxNCA) // fewer: still a bound
					most[nca] = max(most[nca], float64(nca)*in.stored[i]+in.a[i])
					held = 0
					for g, m := range most {
						held = max(held, m-float64(g)*in.stored[i-1])
					}
				} else {
					held += float64(nca) * in.a[i-1]
				}
				if held > room || !in.mayRun(i, j) || in.needs(i, j, 1) > in.forgiven || in.cut[i-1] > limit {
					continue
				}
				w := v
				if i > 1 {
					w = plus(v, in.cut[i-1])
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

// maxNCA is what runs count up to.
const maxNCA = 64
