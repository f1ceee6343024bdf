package weights

import (
	"fmt"
	"math"

	"workbench/ilp/formulation"
	"workbench/model/chain"
	"workbench/model/cycle"
	"workbench/model/plan"
	"workbench/model/platform"
)

// weightInstance is OFF(L, M, β) in the units of the models: a size of 1 is the
// largest weight, a time of 1 is its transfer, so that β = 1, solvers meet
// numbers near 1 whatever the instance, and an absolute tolerance means the
// same everywhere.
//
// A gap g = 2k+d is the time between two uses of w_k: d = 0 from B_k to F_k,
// d = 1 from F_k to the next B_k. Layers and operations are numbered from 0 as
// in package cycle.
type weightInstance struct {
	*cycle.Cycle
	chain    *chain.Chain
	platform platform.Platform

	n           int     // 2L operations
	size, time  float64 // bytes, seconds of a unit
	u           []float64
	w           []float64 // w[k] is 0 or more than 1e-9 of the largest
	total       float64   // Σ|w_k|
	room        []float64 // room[j]: for weights at the start of operation j, its own included: M − M_j + |w_own|
	roomBefore  []float64 // room for weights just before operation j, while the activations of j−1 are held
	slack       float64   // of room, by which the verifier lets rounding exceed the memory
	computation float64   // Σu, seconds
}

// MostLayers is the length of the longest chain of which models are built: with
// 1000 layers they have up to 16 million nonzeros and take 2 GB and seconds.
const MostLayers = 1000

// newWeightInstance checks that a plan exists: the error is a *plan.Infeasible
// if the memory is below what one layer at a time needs. It is ErrTooLong for
// chains of more than MostLayers.
func newWeightInstance(c *chain.Chain, p platform.Platform) (*weightInstance, error) {
	if err := formulation.CheckPlatform(c, p); err != nil {
		return nil, err
	}
	if n := c.Len(); n > MostLayers {
		return nil, fmt.Errorf("%w: %d layers, formulations take %d at most: their size grows with the square", formulation.ErrTooLong, n, MostLayers)
	}
	in := scaleWeights(c, p)
	if !(in.computation > 0) {
		return nil, fmt.Errorf("%w: no computation of chain %q takes time, a period must be positive", formulation.ErrInstance, c.Name)
	}
	return in, in.fits()
}

// scaleWeights brings the instance to the units of the models.
func scaleWeights(c *chain.Chain, p platform.Platform) *weightInstance {
	y := cycle.Of(c)
	n := 2 * y.L
	in := &weightInstance{
		Cycle: y, chain: c, platform: p, n: n, size: 1, computation: y.Compute(),
		u: make([]float64, n), w: make([]float64, y.L), room: make([]float64, n), roomBefore: make([]float64, n),
	}
	largest := 0.0
	for _, w := range y.W {
		largest = max(largest, w)
	}
	if largest > 0 {
		in.size = largest
	}
	in.time = in.size / p.Bandwidth
	in.slack = plan.Tolerance * p.Memory / in.size
	for k, w := range y.W {
		in.w[k] = w / in.size
		in.total += in.w[k]
	}
	for j, u := range y.U {
		in.u[j] = u / in.time
		own := y.W[y.Layer(j)]
		in.room[j] = (p.Memory - (y.Peak[j] - own)) / in.size
		in.roomBefore[j] = (p.Memory - y.Act[(j+n-1)%n]) / in.size
	}
	return in
}

// fits returns a *plan.Infeasible if no plan exists. Some plan exists exactly
// from the lower end of cycle.Range on.
func (in *weightInstance) fits() error {
	low, _ := in.Range()
	if low <= in.platform.Memory*(1+plan.Tolerance) {
		return nil
	}
	e := &plan.Infeasible{Problem: plan.WeightOffload, Memory: low, Given: in.platform.Memory}
	for j := range in.U {
		k := in.Layer(j)
		name := in.opName(j)
		switch {
		case in.Peak[j] == low && in.Backward(j):
			e.Why = fmt.Sprintf("%s needs its weight, its gradient and the activations held", name)
			return e
		case in.Peak[j] == low:
			e.Why = fmt.Sprintf("%s needs its weight and the activations held", name)
			return e
		case in.W[k] > 0 && in.Act[(j+in.n-1)%in.n]+in.W[k] == low:
			e.Why = fmt.Sprintf("the weight of %s must be there before %s releases its activations", name, in.opName((j+in.n-1)%in.n))
			return e
		}
	}
	return e
}

// opName returns the name of operation j as in the paper: "B_3".
func (in *weightInstance) opName(j int) string {
	if in.Backward(j) {
		return fmt.Sprintf("B_%d", in.Layer(j)+1)
	}
	return fmt.Sprintf("F_%d", in.Layer(j)+1)
}

// last and use return the operation before gap g that last used the weight,
// and the one that ends the gap. use < last for gaps that go over the end of
// the cycle: d = 1.
func (in *weightInstance) last(g int) int {
	if g&1 == 0 {
		return in.B(g >> 1)
	}
	return in.F(g >> 1)
}

func (in *weightInstance) use(g int) int { return in.last(g ^ 1) }

// mustLeave returns the least sum of whole weights that is at least need, the
// weight of layer own being here; +Inf if all others are too few.
func (in *weightInstance) mustLeave(own int, need float64) float64 {
	if need <= in.slack {
		return 0
	}
	return leastWhole(in.w, own, need-in.slack)
}

// wholeWeights is the limit of the search in leastWhole.
const wholeWeights = 100_000

// leastWhole returns the least sum of whole weights, without that of layer
// own, that is at least need; need itself if the search would be long, +Inf if
// all of them are too few.
//
// Layers mostly come in few sizes: for all counts of all sizes but one, the
// count of that one is a quotient. O(wholeWeights) at most.
func leastWhole(w []float64, own int, need float64) float64 {
	const tiny = 1e-9
	if need <= tiny {
		return max(0, need)
	}
	var sizes []float64
	var counts []int
next:
	for k, x := range w {
		if k == own || x == 0 {
			continue
		}
		for s := range sizes {
			if math.Abs(sizes[s]-x) <= tiny*x {
				counts[s]++
				continue next
			}
		}
		sizes, counts = append(sizes, x), append(counts, 1)
	}
	if len(sizes) == 0 {
		return math.Inf(1)
	}
	// The most frequent size is the one to divide by.
	for s := range sizes {
		if counts[s] > counts[0] {
			sizes[0], sizes[s], counts[0], counts[s] = sizes[s], sizes[0], counts[s], counts[0]
		}
	}
	combinations := 1
	for _, c := range counts[1:] {
		if combinations *= c + 1; combinations > wholeWeights {
			return need
		}
	}
	best := math.Inf(1)
	var try func(s int, sum float64)
	try = func(s int, sum float64) {
		if s == len(sizes) {
			q := max(0, math.Ceil((need-sum)/sizes[0]-tiny))
			if q <= float64(counts[0]) {
				best = min(best, sum+q*sizes[0])
			}
			return
		}
		for range counts[s] + 1 {
			try(s+1, sum)
			sum += sizes[s]
		}
	}
	try(1, 0)
	return max(best, need)
}
