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
// the larger first. The errors are those of the methods. O(n³), for more than 256
// layers O(P·n²) with a weaker bound of runs.
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
// processor. A run s(i,j) takes U(i,j), and each cut beside it (a+δ)/β. The
// processor holds the run's weights, its buffers, and by the arguments above in
// the stage model Σ a_{ℓ-1}·⌈U(ℓ,n)·k/T⌉ over its layers, in the task model
// Σ a_{ℓ-1}·U(ℓ,n)·k/T, and at some F_ℓ, for each of its layers,
// a_{ℓ-1}·⌈U(ℓ,n)·k/T⌉ + a_ℓ. So each run has a least T/k, and the bound is the
// least T/k over all ways to cut the chain into runs of which the longest is
// that of the worst run. With at most P runs it holds for contiguous allocations.
//
// Contiguous load: the smallest load of a processor or link over all contiguous
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
		{in.runs(in.n) * (1 - tiny), "runs", ""},
		{in.runs(in.procs) * (1 - tiny), "contiguous-runs", "contiguous allocation"},
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

// allRuns is the number of layers up to which copies are counted whole in runs.
const allRuns = 256

// runs is the bound of that name, with at most the given number of runs. It is
// finite, as fitsSomewhere has seen, unless there have to be fewer runs: then
// it says nothing, 0.
func (in *instance) runs(most int) float64 {
	n := in.n
	if in.procs == 1 {
		most = 1
	}
	held := make([]float64, n+1) // Σ_{ℓ≤j} a_{ℓ-1}·U(ℓ,n)
	for l := 1; l <= n; l++ {
		held[l] = held[l-1] + in.a[l-1]*in.time(l, n)
	}
	least := make([]float64, n*n) // of run s(i,j), at (i-1)n + j-1
	for i := 1; i <= n; i++ {
		for j := i; j <= n; j++ {
			t := max(in.time(i, j), in.cut[i-1], in.cut[j])
			if room := in.limit - in.fixed(i, j); room <= 0 && held[j] > held[i-1] || room < 0 {
				t = math.Inf(1)
			} else if held[j] > held[i-1] {
				t = max(t, (held[j]-held[i-1])/room)
			}
			if n <= allRuns && !math.IsInf(t, 1) {
				t = in.wholeCopies(i, j, t)
			}
			least[(i-1)*n+j-1] = t
		}
	}
	best := make([]float64, n+1) // of layers 1..j, in at most r runs
	for j := 1; j <= n; j++ {
		best[j] = least[j-1]
	}
	for range most - 1 {
		changed := false
		for j := n; j >= 1; j-- {
			for i := 2; i <= j; i++ {
				if t := max(best[i-1], least[(i-1)*n+j-1]); t < best[j] {
					best[j], changed = t, true
				}
			}
		}
		if !changed {
			break
		}
	}
	if math.IsInf(best[n], 1) {
		return 0
	}
	return best[n]
}

// wholeCopies raises the bound t of run s(i,j) by counting whole copies, +Inf if
// even one of each is too much.
func (in *instance) wholeCopies(i, j int, t float64) float64 {
	room := in.limit - in.fixed(i, j)
	if in.needs(i, j, 1) > in.limit {
		return math.Inf(1)
	}
	if in.task {
		for l := i; l <= j; l++ {
			if in.inputs(i, l) > 0 {
				if nca := math.Floor((room - in.a[l]) / in.inputs(i, l) * (1 + tiny)); nca >= 1 {
					t = max(t, in.time(l, in.n)/nca)
				}
			}
		}
		return t
	}
	fits := func(t float64) bool {
		sum := 0.0
		for l := i; l <= j; l++ {
			sum += in.a[l-1] * math.Ceil(in.time(l, in.n)/t-tiny)
		}
		return sum <= room
	}
	if fits(t) {
		return t
	}
	low, high := t, in.time(i, in.n)
	for range 40 {
		if t = low + (high-low)/2; fits(t) {
			high = t
		} else {
			low = t
		}
	}
	return low
}
