package pipeline

import (
	"math"
	"slices"

	"workbench/model/plan"
	view "workbench/model/problem/pipeline"
)

// mostReplicating is the maximum number of processors that are considered.
const mostReplicating = 256

// replicated returns a pipeline whose stages may have replicas on several processors, nil if none
// fits. It follows PipeDream's optimizer (Narayanan et al., SOSP 2019, §3.1;
// optimizer_graph_hierarchical.py): the r replicas of a stage take mini-batches in turn. After each
// backward a replica takes 4(r-1)w/(rβ) for the all-reduce of the gradients of the stage's weights
// w, so it completes r mini-batches every (U + 4(r-1)w/(rβ))/r on average.
//
// PipeDream minimises the maximum of these times and of 2a/(βr) of the cuts, and ignores or
// estimates memory and schedule. Here all mini-batches have the same times, a period T apart, as in
// 1F1B* ([004] 7.1). An item of r replicas, or the communication before it, has r·T for a
// mini-batch; its backward follows as early as possible, but does not overlap its forward modulo
// r·T. So x, the time between the two, increases with the time V that all later items take, and the
// mini-batches in flight on a replica, ⌊x/(rT)⌋+1, increase with x. At a given T a dynamic program
// over the layers and the remaining processors keeps the minimum V, and finds a pipeline that fits
// if there is one. T is bracketed, to rounding. If memory does not bind, it is at most PipeDream's
// period, since a link between two replicas carries a + δ, both ways, once in as many mini-batches
// as both stages meet in, not 2a once in r.
//
// The number of mini-batches of a period is the least common multiple of the numbers of replicas,
// at most [view.Instance.MostTurns]. If that of the best ones is larger, each of [multiples] is
// tried, with its divisors only, if they suffice for an improvement. The result has the shortest
// period of all pipelines with that many mini-batches, [view.FewTurns] beyond 64 processors, that
// follow this rule. The rule disadvantages a pipeline with a link after more replicas than are
// after it, which really has the least common multiple of both numbers of periods for a mini-batch.
// O(P²·n²) for each of some periods, and O(P·d·n²) for each of 10 to 250 multiples, d of whose
// divisors are at most P, for P of at most 256: more processors remain idle.
func (in *instance) replicated() *view.Pattern {
	most := in.MostTurns()
	if min(in.Platform.Processors, mostReplicating) > manyProcessors {
		return in.replicatedOf(most, view.FewTurns)
	}
	return in.replicatedOf(most, most)
}

// replicatedOf is replicated with periods of at most most mini-batches, and at most tried where
// multiples are tried.
func (in *instance) replicatedOf(most, tried int) *view.Pattern {
	x := newReplicator(in)
	stages, least := x.least(in.U[in.N]/float64(x.procs), in.Latest())
	if stages == nil {
		return nil
	}
	best, high := x.pattern(stages, least, most), in.Latest()
	if best != nil {
		return best
	}
	for _, m := range multiples(x.procs, tried) {
		if in.stopped() {
			break
		}
		x.multiple = m
		if stages, period := x.least(least, high); stages != nil {
			best, high = x.pattern(stages, period, tried), period*(1-1e-9)
		}
	}
	return best
}

// manyProcessors is the number of processors beyond which not all multiples are tried.
const manyProcessors = 64

// multiples returns the least common multiples of numbers with sum at most sum that are at most
// most and divide no other one. Powers of different primes sum to at most their product, so m is
// one if the sum of its prime powers is at most sum.
func multiples(sum, most int) (list []int) {
	for m := most; m > 0; m-- {
		divides := func(n int) bool { return n%m == 0 }
		if primePowers(m) <= sum && !slices.ContainsFunc(list, divides) {
			list = append(list, m)
		}
	}
	return list
}

// primePowers returns the sum of the prime powers whose product is m.
func primePowers(m int) (sum int) {
	for p := 2; m > 1; p++ {
		power := 1
		for m%p == 0 {
			m /= p
			power *= p
		}
		if power > 1 {
			sum += power
		}
	}
	return sum
}

// replicator is the dynamic program of replicated.
type replicator struct {
	in       *instance
	procs    int
	multiple int         // of the numbers of replicas; 0: any
	weight   []float64   // Σ W of layers 1..
	delay    [][]float64 // [p][i]: minimum V after layer i, whose later layers are on p processors
	next     [][]taken
}

// taken is the stage after a layer: its last layer and its number of replicas.
type taken struct{ to, copies int }

func newReplicator(in *instance) *replicator {
	x := &replicator{in: in, procs: min(in.Platform.Processors, mostReplicating), weight: make([]float64, in.N+1)}
	for l := 1; l <= in.N; l++ {
		x.weight[l] = x.weight[l-1] + in.W[l]
	}
	for range x.procs + 1 {
		x.delay = append(x.delay, make([]float64, in.N+1))
		x.next = append(x.next, make([]taken, in.N+1))
	}
	return x
}

// least returns the stages with the shortest period of at most high, nil if none fit. No period is
// below low.
func (x *replicator) least(low, high float64) (best []plan.Stage, period float64) {
	best = x.stagesAt(high)
	for best != nil && high-low > 1e-9*high && !x.in.stopped() {
		middle := low + (high-low)/2
		stages := x.stagesAt(middle)
		if stages == nil {
			low = middle
			continue
		}
		best, high = stages, middle
		// They may do with their load.
		if load := x.load(stages); load < high && x.gaps(x.in.Items(stages), load) != nil {
			high = load
		}
	}
	return best, high
}

// load returns the maximum time of a mini-batch of a stage, or of a communication before one, over
// its replicas.
func (x *replicator) load(stages []plan.Stage) (load float64) {
	items := x.in.Items(stages)
	copies := 1
	for i := len(items) - 1; i >= 0; i-- {
		if !items[i].Cut {
			copies = max(1, items[i].Copies)
		}
		load = max(load, (items[i].Time()+items[i].Reduce)/float64(copies))
	}
	return load
}

// firstGap returns the minimum time from v on between a forward and a backward that do not
// overlap modulo a period; they fit in one.
func firstGap(v, f, b, period float64) float64 {
	turns := math.Floor(v/period + view.Rounding)
	if max(0, v-turns*period)+f+b <= period*(1+view.Rounding) {
		return v
	}
	return (turns + 1) * period
}

// stagesAt returns stages that fit at a period, nil: there are none, or no time.
func (x *replicator) stagesAt(period float64) []plan.Stage {
	in := x.in
	for p := range x.delay {
		for i := range x.delay[p] {
			x.delay[p][i] = math.Inf(1)
		}
	}
	x.delay[0][in.N] = 0
	for i := in.N - 1; i >= 0; i-- {
		if in.stopped() {
			return nil
		}
		for copies := 1; copies <= x.procs; copies++ {
			if x.multiple%copies == 0 {
				x.stagesFrom(i, copies, period)
			}
		}
	}
	for p := range x.delay {
		if !math.IsInf(x.delay[p][0], 1) {
			return x.stages(p)
		}
	}
	return nil
}

// stagesFrom tries the stages that start after layer i with the given number of replicas.
func (x *replicator) stagesFrom(i, copies int, period float64) {
	in := x.in
	turn := float64(copies) * period
	most := turn * (1 + view.Rounding)
	if in.Cut[i] > most {
		return
	}
	cutF, cutB := in.A[i]/in.Platform.Bandwidth, in.D[i]/in.Platform.Bandwidth
	f, b := 0.0, 0.0
	for j := i + 1; j <= in.N; j++ {
		f += in.UF[j]
		b += in.UB[j]
		reduce := 0.0
		if copies > 1 {
			reduce = in.Reduce(x.weight[j]-x.weight[i], copies)
		}
		if f+b+reduce > most {
			return
		}
		for p := copies; p <= x.procs; p++ {
			v := x.delay[p-copies][j]
			if math.IsInf(v, 1) {
				continue
			}
			gap := firstGap(v, f, b+reduce, turn)
			if !x.fits(i+1, j, gap, turn) {
				continue
			}
			after := f + gap + b
			if i > 0 {
				after = cutF + firstGap(after, cutF, cutB, turn) + cutB
			}
			if after < x.delay[p][i] {
				x.delay[p][i], x.next[p][i] = after, taken{j, copies}
			}
		}
	}
}

// stages returns those that were chosen for all layers on p processors.
func (x *replicator) stages(p int) []plan.Stage {
	var list []plan.Stage
	first := 0
	for i := 0; i < x.in.N; {
		c := x.next[p][i]
		s := plan.Stage{Processor: first, From: i + 1, To: c.to}
		if c.copies > 1 {
			s.Replicas = c.copies
		}
		list = append(list, s)
		first += c.copies
		i, p = c.to, p-c.copies
	}
	return list
}

// gaps returns the time between the forward and the backward of each item at a period,
// nil: they do not fit.
func (x *replicator) gaps(items []view.Item, period float64) []float64 {
	gaps := make([]float64, len(items))
	copies, v := 1, 0.0
	for i := len(items) - 1; i >= 0; i-- {
		y := &items[i]
		if !y.Cut {
			copies = max(1, y.Copies)
		}
		turn := float64(copies) * period
		gaps[i] = firstGap(v, y.F, y.B+y.Reduce, turn)
		v = y.F + gaps[i] + y.B
		if y.Time()+y.Reduce > turn*(1+view.Rounding) || !y.Cut && !x.fits(y.From, y.To, gaps[i], turn) {
			return nil
		}
	}
	return gaps
}

// fits reports whether memory suffices for a stage with the given time between forward and
// backward, of which a replica starts one each turn.
func (x *replicator) fits(from, to int, gap, turn float64) bool {
	return x.in.Fits(x.in.Needs(from, to, 1+int(gap/turn+view.Rounding)))
}

// pattern returns the pattern of stages that fit at a period, nil: it would be of more
// mini-batches than most.
func (x *replicator) pattern(stages []plan.Stage, period float64, most int) *view.Pattern {
	items := x.in.Items(stages)
	f, b := make([]float64, len(items)), x.gaps(items, period)
	t := 0.0
	for i := range items {
		f[i], b[i] = t, b[i]+t+items[i].F
		t += items[i].F
	}
	return view.Alike(stages, items, f, b, period, most)
}
