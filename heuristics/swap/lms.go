package swap

import (
	"context"
	"math"
	"slices"

	"workbench/model/instance/functions"
	"workbench/model/plan"
	"workbench/model/platform"
)

// lms appends the list of Large Model Support (Le et al. 2019, as described in [003] §2) to list.
// The distance of two functions is that of their positions in the sequence, and far reports which
// distances are above the threshold. A variable that f_i and next f_j use is swapped out after f_i
// if far(j − i), and swapped in right before f_k with j − k = ahead. If that leaves no function in
// between, it stays resident. Variables on the host are swapped in as far ahead of f_j; for those
// on the device i is 0.
//
// It ignores memory: a small threshold and a small ahead need little, but possibly too much.
// O(uses).
func (in *instance) lms(o *orders, far func(int) bool, ahead int, list []int) []int {
	use := func(v, i, j int) {
		if k := max(i+1, j-ahead); far(j-i) && k > i+1 {
			o.addRoundTrip(v, i, k)
		}
	}
	for v, where := range in.Initial {
		if where == functions.Device && in.Size[v] > 0 {
			use(v, -1, in.First[v])
		}
	}
	for i := range in.N {
		for k := in.At[i]; k < in.At[i+1]; k++ {
			if j := in.Next[k]; j < in.N {
				use(in.Use[k], i, j)
			}
		}
	}
	o.fetchInitial(ahead)
	return o.list(list)
}

// Sizes of the grid of LMSGrid.
const (
	lmsThresholds = 12
	lmsUses       = 400_000 // of all thresholds
	lmsAheads     = 8
)

// LMSGrid returns the best plan of Large Model Support (Le et al., "Automatic GPU memory management
// for large neural models in TensorFlow", 2019) over a grid: thresholds are the distances that
// occur, or quantiles of them, as many as make 400,000 uses but at least twelve; swap-ins are 1, 2,
// 4, … 128 functions ahead. It stops with the best plan when a plan attains a bound or ctx ends.
// O(uses · log uses) for each of some hundred pairs.
//
// Distances are those in the sequence, where Le et al. use a graph. Large distances are swapped, as
// there; [003] §2 prints d ≤ threshold (findings).
func LMSGrid(ctx context.Context, s *functions.Sequence, p platform.Platform) (*plan.Plan, error) {
	in, err := newInstance(s, p)
	if err != nil {
		return nil, err
	}
	b := newBest(ctx, in)
	b.floor = in.BestBound()
	in.lmsGrid(b, newOrders(in))
	return b.plan("lms")
}

func (in *instance) lmsGrid(b *best, o *orders) {
	d := in.distances()
	if len(d) == 0 {
		d = []int{1}
	}
	thresholds := min(len(d), max(lmsThresholds, lmsUses/(len(in.Use)+1)))
	for q := range thresholds {
		threshold := d[q*len(d)/thresholds] - 1 // all that are as far, or farther
		for a := range lmsAheads {
			if ahead := 1 << a; !b.done() && (a == 0 || ahead < 2*in.N) {
				b.lms(o, threshold, ahead)
			}
		}
	}
	for a := range lmsAheads { // nothing moves but what is on the host
		if !b.done() {
			b.lms(o, in.N, 1<<a)
		}
	}
}

func (b *best) lms(o *orders, threshold, ahead int) float64 {
	b.work = b.m.in.lms(o, func(d int) bool { return d > threshold }, ahead, b.work[:0])
	return b.try(b.work, "lms")
}

// distances returns the different distances of functions that use a variable one
// after the other, ascending.
func (in *instance) distances() []int {
	var d []int
	for i := range in.N {
		for k := in.At[i]; k < in.At[i+1]; k++ {
			if in.Next[k] < in.N {
				d = append(d, in.Next[k]-i)
			}
		}
	}
	slices.Sort(d)
	return slices.Compact(d)
}

// LMSTuned is LMS (see [LMSGrid]) with the thresholds that its auto-tuning finds, in
// the words of [003] by a simulation of memory and time: swapping little takes little time, so
// the largest threshold that fits with swap-ins one function ahead, by bisection,
// and with it the largest ahead that fits. (That what fits is an interval is
// assumed, as there.) The end of ctx ends it with the best until then.
// O(log functions) runs of the machine.
func LMSTuned(ctx context.Context, s *functions.Sequence, p platform.Platform) (*plan.Plan, error) {
	in, err := newInstance(s, p)
	if err != nil {
		return nil, err
	}
	b := newBest(ctx, in)
	in.lmsTuned(b, newOrders(in))
	return b.plan("lms-tuned")
}

func (in *instance) lmsTuned(b *best, o *orders) {
	largest := func(low, high int, T func(int) float64) int {
		for low < high && b.ctx.Err() == nil {
			if mid := low + (high-low+1)/2; math.IsInf(T(mid), 1) {
				high = mid - 1
			} else {
				low = mid
			}
		}
		return low
	}
	threshold := largest(0, in.N, func(x int) float64 { return b.lms(o, x, 1) })
	ahead := largest(1, in.N, func(x int) float64 { return b.lms(o, threshold, x) })
	if b.ctx.Err() == nil { // the plan is that of the parameters found
		b.T = math.Inf(1)
		b.lms(o, threshold, ahead)
	}
}
