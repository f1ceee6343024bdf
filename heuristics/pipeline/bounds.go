package pipeline

import (
	"cmp"
	"math"
	"slices"

	"workbench/model/chain"
	"workbench/model/platform"
)

// Bound is a proven lower bound on T/k.
type Bound struct {
	Value float64 // seconds
	By    string  // how it is proved
	// Assumes is what the bound holds under; "": it holds for every pattern in
	// the memory model of the options.
	Assumes string
}

// Bounds returns lower bounds on T/k, those without assumptions first and then
// the larger first. The errors are those of the methods. O(P·n²).
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
// Contiguous: the smallest load of a processor or link over all contiguous
// allocations, a link's being (a_ℓ+δ_ℓ)/β.
func Bounds(c *chain.Chain, p platform.Platform, o Options) ([]Bound, error) {
	in, err := newInstance(c, p, o)
	if err != nil {
		return nil, err
	}
	list := []Bound{
		{in.u[in.n] / float64(in.procs) * (1 - tiny), "load", ""},
		{in.largestLayer(), "largest-layer", ""},
		{in.layerMemory() * (1 - tiny), "layer-memory", ""},
		{in.heldMemory() * (1 - tiny), "held-memory", ""},
		{in.contiguousLoad() * (1 - tiny), "contiguous-load", "contiguous allocation"},
	}
	slices.SortStableFunc(list, func(a, b Bound) int {
		return cmp.Or(cmp.Compare(a.Assumes, b.Assumes), cmp.Compare(b.Value, a.Value))
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
		room := in.limit - in.copies*in.w[l]
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
	room := float64(in.procs)*in.limit - in.weights[in.n]
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
