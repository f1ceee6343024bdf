// Package weightoffload has the MILPs of weight offloading, one file each. Start at paper.go, which
// follows [001] §6 equation by equation. printed.go and printedmemory.go have the differences as
// printed, nested.go is the compact form that proves bounds, exact.go the exact problem.
//
// [001] is O. Beaumont, L. Eyraud-Dubois, A. Shilova, X. Zhao, "Weight Offloading Strategies for
// Training Large DNN Models", 2022.
//
// # Numbers
//
// Sizes and times of the models are those of the file times powers of two, see instance, so no
// digit changes; sums of sizes are exact. Transfer times and sums of times must be computed: each
// is rounded so that its row gets weaker, by milp.Down and milp.Up. So each model, with its numbers
// taken as exact, is a relaxation of the problem in the file wherever this package states that it
// is one.
package weightoffload

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"workbench/ilp/formulation"
	"workbench/model/instance/chain"
	"workbench/model/milp"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/problem/weightoffload"
)

// instance is OFF(L, M, β) of model/problem/weightoffload with its numbers in units of the models:
// the minimum period is about 2¹⁰ units of time, and the largest weight at least 2¹⁰ units of size.
type instance struct {
	*weightoffload.Instance
	size, time float64 // a unit of the models, in units of sizes and in seconds

	u      []float64 // u[j]: duration of operation j
	w      []float64 // w[k]: |w_k|
	total  float64   // Σ|w_k|
	rate   float64   // 1/β rounded down: time that a transfer takes for a size of 1
	moves  []float64 // moves[k]: time of a transfer of w_k rounded down
	period float64   // Σu rounded down
}

// MostLayers is the maximum length of a chain for models: with 1000 layers they have up to 16
// million nonzeros and take 2 GB and seconds.
const MostLayers = 1000

// scale is the magnitude of the numbers of the models.
const scale = 1 << 10

// least is a lower bound on nonzero coefficients of time: 10⁻¹⁰ of a period, which solvers cannot
// distinguish from 0.
const least = 1. / (1 << 23)

// lost is the magnitude below which libraries drop coefficients.
const lost = 1. / (1 << 29)

// down and up round a coefficient that is a time, where its row is the weaker
// the smaller or the larger it is.
func down(x float64) float64 {
	if x < least {
		return 0
	}
	return x
}

func up(x float64) float64 {
	if x == 0 {
		return 0
	}
	return max(x, least)
}

// newInstance returns the instance if a plan exists. The error is a *plan.Infeasible if memory is
// below the minimum, ErrTooLong for chains of more than MostLayers, and wraps ErrInstance for
// invalid input.
func newInstance(c *chain.Chain, p platform.Platform) (*instance, error) {
	y, err := weightoffload.New(c, p)
	switch {
	case errors.Is(err, weightoffload.ErrInstance):
		return nil, fmt.Errorf("%w: %w", formulation.ErrInstance, err)
	case err != nil:
		return nil, err
	case y.L > MostLayers:
		return nil, fmt.Errorf("%w: %d layers, formulations take %d at most: their size grows with the square", formulation.ErrTooLong, y.L,
			MostLayers)
	}
	compute := y.Compute()
	if !(compute > 0) {
		return nil, fmt.Errorf("%w: every computation of chain %q has zero duration; a period must be positive", formulation.ErrInstance, c.Name)
	}
	in := &instance{Instance: y, u: make([]float64, y.N), w: make([]float64, y.L), moves: make([]float64, y.L)}
	times := milp.PowerOfTwo(max(compute, y.MostAway()/p.Bandwidth), scale)
	sizes := milp.PowerOfTwo(slices.Max(y.W), 2*scale)
	in.size, in.time = 1/sizes, 1/times
	in.total, in.period = y.Total*sizes, compute*times
	in.rate = down(milp.Down.Quo(1, p.Bandwidth*sizes*in.time))
	for j, u := range y.U {
		in.u[j] = u * times
	}
	for k, w := range y.W {
		in.w[k] = w * sizes
		in.moves[k] = down(milp.Down.Quo(w, p.Bandwidth) * times)
	}
	return in, nil
}

// room and roomBefore are Room and RoomBefore in the units of the models.
func (in *instance) room(j int) float64       { return in.Room(j) / in.size }
func (in *instance) roomBefore(j int) float64 { return in.RoomBefore(j) / in.size }

// others returns the weights of all layers but own, units of sizes, the largest
// first; those of 0 are left out.
func (in *instance) others(own int) []float64 {
	w := slices.Delete(slices.Clone(in.W), own, own+1)
	slices.SortFunc(w, func(a, b float64) int { return cmp.Compare(b, a) })
	if i := slices.Index(w, 0); i >= 0 {
		w = w[:i]
	}
	return w
}

// demand is how much of the weights must be on the host at some time while the weight of one layer
// is resident.
type demand struct {
	whole float64 // minimum sum of complete weights that suffices, units of the models; +Inf: all are too few
	count int     // minimum number of weights that suffices
	// counts is true if count does not follow from the sum: of the largest weights, a fraction of
	// one suffices.
	counts bool
}

// demand returns what must be on the host for the rest to fit in room, in units of sizes, while the
// weight of layer own is resident.
func (in *instance) demand(own int, room float64) demand {
	need := in.Total - room
	if need <= 0 {
		return demand{}
	}
	w := in.others(own)
	d := demand{whole: leastWhole(w, need)}
	sum := 0.0
	for d.count < len(w) && sum < need {
		sum += w[d.count]
		d.count++
	}
	d.counts = sum > d.whole && sum >= need
	d.whole /= in.size
	return d
}

// wholeWeights is the limit of the search in leastWhole.
const wholeWeights = 100_000

// leastWhole returns the minimum sum of some of the integers w, in decreasing order, that is at
// least need (subset sum). It returns need itself if the search would be long, and +Inf if all of
// them are too few.
//
// Layers usually have few distinct sizes: for all counts of all sizes but one, the count of that
// one is a quotient. O(wholeWeights).
func leastWhole(w []float64, need float64) float64 {
	if need <= 0 {
		return 0
	}
	var sizes []float64
	var counts []int
	for i, x := range w {
		if i == 0 || x != w[i-1] {
			sizes, counts = append(sizes, x), append(counts, 0)
		}
		counts[len(counts)-1]++
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
			rest := max(0, need-sum)
			over := math.Mod(rest, sizes[0]) // exact
			q := math.Round((rest - over) / sizes[0])
			if over > 0 {
				q++
			}
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
	return best
}

// read returns the normal form of a plan; times remain in seconds.
func (in *instance) read(p *plan.Plan) (*weightoffload.Schedule, error) {
	s, err := in.Read(p)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", formulation.ErrStart, err)
	}
	s.Shift(-s.Op[0])
	return s, nil
}

// share calls add(j, part) for each interval [start of operation j, start of j+1) from operation a
// to before operation b, with the fraction of w_k that a transfer starting at x sends in it; the
// transfer carries the fraction all of w_k. a < b may count beyond 2L. The remainder of rounding goes
// to the last interval it touches. A transfer that starts within an instant before an operation is
// a prefetch that comes after its start, or an upload that has ended then if it is as short.
func (in *instance) share(s *weightoffload.Schedule, kind string, a, b int, x float64, k int, all float64, add func(j int, part float64)) {
	left, instant, upload := all, plan.Tolerance*s.T, kind == plan.OpO
	for j := a; j < b && left > 0; j++ {
		sent := min(left, (s.StartOf(j+1)-max(x, s.StartOf(j)))/in.Move[k])
		if j == b-1 || upload && x+all*in.Move[k] <= s.StartOf(j+1)+instant {
			sent = left
		} else if !upload && x >= s.StartOf(j+1)-instant {
			continue
		}
		if sent > 0 {
			add(j%in.N, sent)
			left -= sent
		}
	}
}

// next returns the operation that ends gap g, counted on beyond 2L if it is of
// the next cycle.
func (in *instance) next(g int) int {
	if b := in.Use(g); b >= in.Last(g) {
		return b
	}
	return in.Use(g) + in.N
}

// hint returns an empty hint.
func (in *instance) hint() *formulation.Hint {
	return &formulation.Hint{Away: make([]bool, in.N), Idle: make([]float64, in.N)}
}
