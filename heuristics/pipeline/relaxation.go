package pipeline

import (
	"math"
	"slices"

	view "workbench/model/problem/pipeline"
)

// relaxation has the data of an instance at a period T: which layers are negligible, and lower
// bounds on the rest of the chain after each layer. Slices are indexed by layer, 0..N+1.
//
// Delays: let D_ℓ be the time from the start of F_ℓ to the end of B_ℓ. It is at least the time
// between. In a 1-periodic pattern F_ℓ and B_ℓ do not overlap modulo T, nor do the two
// communications of a cut, so it is V ⊕ U_ℓ by [004] 7.1.2, V being the delay after it. For any k,
// delays add up.
type relaxation struct {
	in     *instance
	period float64
	anyK   bool // of patterns with any number of mini-batches a period, not 1-periodic ones

	negligible []bool      // on no processor, with no cut next to it: its time is a delay
	hold       []float64   // bytes that layer ℓ keeps of a mini-batch, 0 if negligible
	cutF, cutB []float64   // seconds of the communications of a cut after ℓ, 0 next to negligible layers
	buffer     []float64   // bytes of that cut on each side
	minDelay   []float64   // a lower bound on D_ℓ over all allocations of ℓ..N
	work       []float64   // seconds of the layers from ℓ on
	stored     []float64   // bytes of the layers from ℓ on: averages over time, and weights
	pieces     [][]float64 // of the layers from ℓ on: prefix sums of the sorted indivisible pieces
	stop       func() bool
	stopped    bool // while the tables were computed
}

// noProcessor is the owner of negligible layers.
const noProcessor = -1

const (
	// A layer is negligible that takes at most these parts of the period and of the memory. Leaving it out drops
	// constraints, so proofs stand.
	negligibleTime   = 1e-3
	negligibleMemory = 0.02
)

// newRelaxation computes the tables for a period. exactLayers says that no layer is negligible. O(n⁴) where runs
// that take no more than T are long.
func newRelaxation(in *instance, period float64, exactLayers, anyK bool, stop func() bool) *relaxation {
	n := in.N
	x := &relaxation{in: in, period: period, anyK: anyK, negligible: make([]bool, n+2), stop: stop}
	for _, s := range []*[]float64{&x.hold, &x.cutF, &x.cutB, &x.buffer, &x.minDelay, &x.work, &x.stored} {
		*s = make([]float64, n+2)
	}
	some := false
	for l := 1; l <= n; l++ {
		size := in.Kept[l] + in.A[l] + in.D[l] + in.D[l-1] + in.Copies*in.W[l]
		x.negligible[l] = !exactLayers && in.Time(l, l) <= negligibleTime*period && size <= negligibleMemory*in.Memory
		some = some || !x.negligible[l]
	}
	if !some {
		clear(x.negligible)
	}
	for l := 1; l <= n; l++ {
		if x.negligible[l] {
			continue
		}
		x.hold[l] = in.Kept[l]
		if l < n && !x.negligible[l+1] && in.Procs > 1 {
			x.buffer[l] = in.Buffer[l]
			x.cutF[l], x.cutB[l] = in.A[l]/in.Platform.Bandwidth, in.D[l]/in.Platform.Bandwidth
		}
	}
	x.boundDelays()
	x.sortPieces()
	return x
}

// limit is T with the rounding of sums of times.
func (x *relaxation) limit() float64 { return x.period * (1 + view.Rounding) }

func (x *relaxation) cut(l int) float64 { return x.cutF[l] + x.cutB[l] }

// delayAround returns a lower bound on D_ℓ if the delay from the end of F_ℓ to the start of B_ℓ is at least v.
func (x *relaxation) delayAround(l int, v float64) float64 {
	if x.negligible[l] || x.anyK {
		return v + x.in.UF[l] + x.in.UB[l]
	}
	return view.Plus(v, x.in.UF[l]+x.in.UB[l], x.period)
}

// delayAcross returns the delay v plus the two communications of the cut after l around it.
func (x *relaxation) delayAcross(l int, v float64) float64 {
	switch c := x.cut(l); {
	case c <= 0:
		return v
	case x.anyK:
		return v + c
	default:
		return view.Plus(v, c, x.period)
	}
}

// average returns the bytes that layer ℓ stores on average over time at least, in addition to weights and buffers: its input
// for D_ℓ of every period (Little's law) and, in the task model, what F_ℓ and B_ℓ read and write. Rounded down.
func (x *relaxation) average(l int, delay float64) float64 {
	in := x.in
	held := x.hold[l] * delay
	if in.Task {
		held += in.A[l]*in.UF[l] + (in.D[l]+in.D[l-1])*in.UB[l]
	}
	return held / x.period * (1 - view.Rounding)
}

// count returns ⌈t/T⌉.
func (x *relaxation) count(t float64) float64 { return math.Ceil(t/x.period - view.Instant) }

// boundDelays fills in minDelay, work and stored from the last layer to the first: the minimum is over all ways to
// cut the rest of the chain into runs that fit.
func (x *relaxation) boundDelays() {
	in, n := x.in, x.in.N
	for l := range x.minDelay {
		x.minDelay[l] = math.Inf(1)
	}
	x.minDelay[n+1] = 0
	behind := make([]float64, n+1) // minimum delay after layer j if there is a cut
	for j := range behind {
		behind[j] = math.Inf(1)
	}
	behind[n] = 0
	run := newPartialAllocation(x)
	for j := n; j >= 1; j-- {
		if math.IsInf(behind[j], 1) {
			continue
		}
		if x.stop() {
			x.stopped = true
			return
		}
		v, load, weight := behind[j], 0.0, 0.0
		for i := j; i >= 1; i-- {
			v = x.delayAround(i, v)
			run.delay[i] = v
			if !x.negligible[i] {
				load += in.UF[i] + in.UB[i]
				weight += in.Copies * in.W[i]
			}
			if load > x.limit() {
				break
			}
			x.minDelay[i] = min(x.minDelay[i], v)
			if i == 1 || x.cut(i-1) > x.limit() {
				continue
			}
			if in.Fits(weight + x.buffer[i-1] + x.buffer[j] + run.needsOfRun(i, j)) {
				behind[i-1] = min(behind[i-1], x.delayAcross(i-1, v))
			}
		}
	}
	for l := n; l >= 1; l-- {
		x.work[l], x.stored[l] = x.work[l+1], x.stored[l+1]
		if !x.negligible[l] {
			x.work[l] += in.UF[l] + in.UB[l]
			x.stored[l] += x.average(l, x.minDelay[l]) + in.Copies*in.W[l]
		}
	}
}

// sortPieces fills in pieces: layers that no cut may divide are one piece. Small ones would only weaken the count.
// O(n² log n).
func (x *relaxation) sortPieces() {
	in := x.in
	x.pieces = make([][]float64, in.N+2)
	for first := 1; first <= in.N; first++ {
		var sizes []float64
		for l := first; l <= in.N; l++ {
			if x.negligible[l] {
				continue
			}
			if u := in.UF[l] + in.UB[l]; l > first && x.cut(l-1) > x.limit() {
				sizes[len(sizes)-1] += u
			} else {
				sizes = append(sizes, u)
			}
		}
		slices.Sort(sizes)
		if len(sizes) > 0 {
			small, _ := slices.BinarySearch(sizes, sizes[len(sizes)-1]/3)
			sizes = sizes[small:]
		}
		for k := 1; k < len(sizes); k++ {
			sizes[k] += sizes[k-1]
		}
		x.pieces[first] = sizes
	}
}

// possible reports whether the bounds on the complete chain allow the period.
func (x *relaxation) possible() bool { return !math.IsInf(x.minDelay[1], 1) }
