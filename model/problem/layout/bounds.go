package layout

import (
	"math"
	"slices"
	"sort"

	"workbench/model/plan"
)

// Bound is a lower bound, in seconds, on the objective of every layout with any cut, options and
// schedule, with the name of its proof.
type Bound struct {
	Value float64
	By    string
}

// rounding exceeds the relative error of sums of times.
const rounding = 1e-11

// Bounds returns all bounds, the best first. For the span of a GPU the times before its first and
// after its last operation are omitted.
func (in *Instance) Bounds() []Bound {
	list := []Bound{{in.load(), "load"}, {in.occupancy(), "load and occupancy"}}
	if in.Platform.Placement == plan.Straight {
		list = append(list, Bound{in.bottleneck().value(), "bottleneck of all cuts"})
	}
	if in.Platform.Placement == plan.VShaped {
		list = append(list, Bound{in.pairs(max(list[0].Value, list[1].Value)), "pairs of runs of all cuts"})
	}
	for i := range list {
		list[i].Value *= 1 - rounding
	}
	slices.SortStableFunc(list, func(a, b Bound) int {
		switch {
		case a.Value > b.Value:
			return -1
		case a.Value < b.Value:
			return 1
		}
		return 0
	})
	return list
}

// load returns B1: the GPUs share all computation, and one of them has the longest layer.
func (in *Instance) load() float64 {
	sum, longest := 0.0, 0.0
	for i := range in.Layers {
		l := &in.Layers[i]
		t := l.F + l.I + l.W
		sum, longest = sum+t, max(longest, t)
	}
	return float64(in.Jobs) * max(sum/float64(in.GPUs), longest)
}

// forwardToBackward returns for each layer the minimum time from the end of its forward to the
// start of its backward for the input: the time of all later layers. Transfers are counted only by
// the bounds that know their number.
func (in *Instance) forwardToBackward() []float64 {
	d := make([]float64, len(in.Layers)+1)
	for i := len(in.Layers) - 1; i >= 0; i-- {
		d[i] = d[i+1] + in.Layers[i].F + in.Layers[i].I
	}
	return d
}

// occupancy is B2, for every placement: a micro-batch holds what an option of a layer holds for at least τ, the layer's forward,
// the way to the loss and back, and its backward for the input. Over the time T of the pipeline all GPUs hold no more than their
// memory less all weights (Little's law), and they compute what is computed again, too. For a T the least that has to be computed again
// to fit is a fractional knapsack over the options of all layers; bisection finds the least T. O(options·log options) a step.
func (in *Instance) occupancy() float64 {
	d, jobs := in.forwardToBackward(), float64(in.Jobs)
	room := float64(in.GPUs) * in.Platform.Memory
	base, work := 0.0, 0.0
	type step struct{ area, again float64 }
	var steps []step
	for i := range in.Layers {
		l := &in.Layers[i]
		tau := l.F + l.I + d[i+1]
		room -= l.Weight
		work += l.F + l.I + l.W
		base += jobs * tau * l.Options[0].Held
		for _, x := range l.hull() {
			steps = append(steps, step{jobs * tau * x.held, jobs * x.again})
		}
	}
	sort.SliceStable(steps, func(i, j int) bool { return steps[i].area*steps[j].again > steps[j].area*steps[i].again })
	fits := func(T float64) bool {
		over, again := base-room*T, 0.0
		for _, s := range steps {
			if over <= 0 {
				break
			}
			part := 1.0
			if s.area > over {
				part = over / s.area
			}
			over, again = over-part*s.area, again+part*s.again
		}
		return over <= base*1e-12 && jobs*work+again <= T*float64(in.GPUs)*(1+1e-12)
	}
	if room <= 0 {
		return 0 // nothing fits: see [Instance.Fits]
	}
	low, high := 0.0, jobs*work
	for k := 0; !fits(high); k++ {
		if low, high = high, 2*high; k > 60 {
			return 0
		}
	}
	for range 60 {
		if middle := low + (high-low)/2; fits(middle) {
			high = middle
		} else {
			low = middle
		}
	}
	return low
}

// table is the dynamic program of [Instance.bottleneck]: by GPU and by the end of its layers, the
// minimum bound and the layer it starts at.
type table struct {
	best  [][]float64
	start [][]int
}

func (t *table) value() float64 {
	last := t.best[len(t.best)-1]
	return last[len(last)-1]
}

// ends returns the cut that attains the bound, nil if nothing fits.
func (t *table) ends() []int {
	n := len(t.best[0]) - 1
	if math.IsInf(t.value(), 1) {
		return nil
	}
	ends := make([]int, len(t.best))
	for q, at := len(ends)-1, n; q >= 0; q-- {
		ends[q], at = at, t.start[q][at]
	}
	return ends
}

// bottleneck returns the table of B3, for one stage on each GPU: GPU q has a run of layers, and its
// time bounds the makespan by the argument of [Instance.rank]. Every layout has some cut, so the
// minimum over all cuts of the maximum bound of a GPU is a bound. O(GPUs·layers²) calls of rank.
func (in *Instance) bottleneck() *table {
	n := len(in.Layers)
	t := &table{best: make([][]float64, in.GPUs), start: make([][]int, in.GPUs)}
	d, known := in.forwardToBackward(), map[[2]int][]Sum{}
	head := make([]float64, n+1)
	tail := make([]float64, n+1)
	for i := range in.Layers {
		head[i+1], tail[i+1] = head[i]+in.Layers[i].F, tail[i]+in.Layers[i].I
	}
	for q := range t.best {
		t.best[q], t.start[q] = make([]float64, n+1), make([]int, n+1)
		for to := range t.best[q] {
			t.best[q][to] = math.Inf(1)
			if to < q+1 || n-to < in.GPUs-1-q || q == in.GPUs-1 && to < n {
				continue
			}
			load := 0.0
			for from := to - 1; from >= q; from-- {
				l := &in.Layers[from]
				if load += float64(in.Jobs) * (l.F + l.I + l.W); load >= t.best[q][to] {
					break
				}
				before := 0.0
				if q > 0 {
					before = t.best[q-1][from]
				} else if from > 0 {
					continue
				}
				if before >= t.best[q][to] {
					continue
				}
				if x := max(before, in.rank(q, from, to, head[from], tail[from], d[to], t.best[q][to], known)); x < t.best[q][to] {
					t.best[q][to], t.start[q][to] = x, from
				}
			}
		}
	}
	return t
}

// rank returns what the makespan, or span, is at least if GPU q alone has layers from..to−1, by any options; +Inf: they do not fit.
// below is a value above which it need not be exact.
//
// Nothing runs on the GPU before the first micro-batch has come through the layers and q transfers before (head), and after
// its last backward for the input that goes back through them (tail). Between its first forward and its first backward at least
// D pass, the way to the loss and back; only the forwards that fit, k, run in that time, and the rest of it is idle
// (warm-up). After its last
// forward D pass, too, in which backwards of at most k − 1 others run (cool-down). If k is less than all, both are there. After
// its last backward for the input only W of at most k micro-batches run. And a micro-batch holds what it holds from its
// forward to its backward: m
// of them, one after the other, are no more than the memory over all the time (Little's law).
func (in *Instance) rank(q, from, to int, head, tail, D, below float64, known map[[2]int][]Sum) float64 {
	transfer := 0.0 // the shortest transfer before and after it, once each way for each cut
	behind := 0.0
	cheapest := in.cheapest()
	if in.GPUs > 1 {
		transfer = float64(q) * cheapest
		behind = 2 * float64(in.GPUs-1-q) * cheapest
	}
	D += behind
	head, tail = head+transfer, tail+transfer
	if in.Platform.Objective == plan.SpanObjective {
		head, tail = 0, 0
	}
	var base Sum
	for i := from; i < to; i++ {
		base.Add(&in.Layers[i], 0)
	}
	if jobs := float64(in.Jobs); head+jobs*(base.F+base.I+base.W) >= below {
		return below
	}
	if base.Weight > in.Platform.Memory {
		return math.Inf(1)
	}
	least := math.Inf(1)
	for _, f := range in.frontier(from, to, known) {
		least = min(least, in.bound(&f, head, tail, D))
	}
	return least
}

// cheapest returns the minimum transfer time of a cut, seconds.
func (in *Instance) cheapest() float64 {
	least := math.Inf(1)
	for i := range len(in.Cut) - 1 {
		least = min(least, in.Cut[i])
	}
	return least
}

// frontier returns, and caches in known, the nondominated sums of the options of a run of layers,
// by numbers of options of equal layers. Beyond mostPoints it merges neighbours into their minima,
// a relaxation. I and W include what the options move between them.
func (in *Instance) frontier(from, to int, known map[[2]int][]Sum) []Sum {
	key := [2]int{from, to}
	if points, ok := known[key]; ok {
		return points
	}
	points := []Sum{{}}
	if to > from+1 {
		points = in.frontier(from+1, to, known)
	}
	l := &in.Layers[from]
	var next []Sum
	for _, p := range points {
		for k := range l.Options {
			x := p
			x.Add(l, k)
			next = append(next, x)
		}
	}
	known[key] = undominated(next)
	return known[key]
}

// mostPoints is the maximum number of points of a frontier.
const mostPoints = 256

// undominated returns the points that are nondominated in I + W, W, held and transient memory.
func undominated(points []Sum) []Sum {
	slices.SortStableFunc(points, func(a, b Sum) int {
		if x, y := a.I+a.W, b.I+b.W; x != y {
			if x < y {
				return -1
			}
			return 1
		}
		if a.Held < b.Held {
			return -1
		}
		return 1
	})
	kept := points[:0:0]
	for _, p := range points {
		if !slices.ContainsFunc(kept, func(x Sum) bool {
			return x.Held <= p.Held && x.Transient <= p.Transient && x.W >= p.W && x.I <= p.I || x == p
		}) {
			kept = append(kept, p)
		}
	}
	for len(kept) > mostPoints {
		half := kept[:0:0]
		for k := 0; k < len(kept); k += 2 {
			x := kept[k]
			if k+1 < len(kept) {
				y := kept[k+1]
				total := min(x.I+x.W, y.I+y.W)
				x.Held, x.Transient, x.W, x.Kept = min(x.Held, y.Held), min(x.Transient, y.Transient), max(x.W, y.W), min(x.Kept, y.Kept)
				x.I = max(0, total-x.W)
			}
			half = append(half, x)
		}
		kept = half
	}
	return kept
}

// bound returns the value of [Instance.rank] for one point of the frontier.
func (in *Instance) bound(s *Sum, head, tail, D float64) float64 {
	room := in.Platform.Memory - s.Weight - s.Transient
	k := in.Jobs
	if s.Held > 0 {
		k = int(min(float64(in.Jobs), math.Floor(room/s.Held+1e-12)))
	}
	if room < 0 || k < 1 {
		return math.Inf(1)
	}
	jobs, n := float64(in.Jobs), float64(k)
	load := jobs * (s.F + s.I + s.W)
	warm, cool := max(0, s.F+D-n*s.F), 0.0
	if k < in.Jobs {
		cool = max(0, D-(n-1)*(s.I+s.W))
	}
	x := load + max(warm+cool, tail-n*s.W)
	if s.Held > 0 {
		x = max(x, jobs*s.Held*(s.F+D+s.I+s.W)/room)
	}
	return head + max(x, s.F+D+jobs*s.I+tail)
}

// Balanced returns the cut that attains the bound over all cuts. With several stages on a GPU it
// uses as many GPUs as stages, each with an equal share of the memory. It returns nil if nothing
// fits. See [Instance.bottleneck].
func (in *Instance) Balanced() []int {
	x := *in
	if x.Stages > x.GPUs {
		x.Platform.Memory = math.Floor(x.Platform.Memory * float64(in.GPUs) / float64(in.Stages))
		x.GPUs, x.Platform.Placement = x.Stages, plan.Straight
	}
	return x.bottleneck().ends()
}
