package pipeline

import (
	"math"
	"slices"

	"workbench/heuristics/pipeline/race"
	"workbench/heuristics/pipeline/stuck"
	"workbench/model/plan"
	view "workbench/model/problem/pipeline"
)

// allocations enumerates the allocations that may have a 1-periodic pattern, or
// a k-periodic one of any k, of period T a mini-batch or less, from the first
// layer to the last: the first layers have few places to be, for they store the
// most. At each, what is known of all patterns that begin so must leave T
// possible:
//
//   - Loads: what a processor computes and what a link carries is at most T, and
//     the layers to come fit in what the processors have left.
//   - Delays: let D_ℓ be the time from the start of F_ℓ to the end of B_ℓ. It is
//     at least what lies between, and as F_ℓ and B_ℓ do not overlap modulo T,
//     and nor do the two communications of a cut, it is V ⊕ U_ℓ by [004] 7.1.2
//     (proof at [Bounds]). Behind the last layer that is placed, V is the least
//     of all ways to cut the rest into runs that fit.
//   - Memory, task model: while B_x runs, a_{ℓ-1} of ⌈X/T⌉ mini-batches at least
//     is stored for every ℓ ≤ x of its processor, X from the start of F_ℓ to the
//     end of B_x: as many have started F_ℓ before B_x ends, so have ended it
//     before B_x starts, and none of them has run B_ℓ. While F_x runs, ⌈X/T⌉
//     again, X from the start of F_x to the end of B_ℓ. Of ℓ > x, and at any
//     time, ⌈D_ℓ/T⌉-1 are stored at least. On average over time they are D_ℓ/T
//     (Little's law), and what a computation needs beside is there while it
//     runs. Stage model: NCA_ℓ ≥ ⌈D_ℓ/T⌉.
//
// For every k delays add up without ⊕. The averages and NCA_ℓ ≥ ⌈D_ℓ/T⌉ hold, so
// in the task model so many mini-batches are between F_ℓ and B_ℓ at some F_ℓ,
// and so are the inputs of the layers before ℓ on its processor; and B_ℓ needs
// those of one. Mini-batches take turns on a processor, and few fit beside the
// one at work (turns); it never gets stuck, and they can be away from it only so long (passes); and all
// processors together, from empty, must start one every T (race), and so must some of them, all else
// being a delay (reason). An allocation that is left ends the enumeration: nothing is known of its
// patterns.
//
// Layers that hardly count (see light) are delays only: on no processor, with no
// cuts beside them. That leaves out constraints, so that a proof stands, and
// saves their choices.
//
// A node costs O(n²/P), and the races of the runs that end there.
type allocations struct {
	in     *instance
	ended  func() bool // the caller wants no more
	period float64
	budget int64     // work that is left
	decide int       // decisions that a pattern may take
	levels []float64 // scratch of circles

	all   *abreast // others that enumerate the same; nil: nobody else does
	drawn int64    // what was left when last it was asked, see draw
	heard int      // how many of what others have excluded are known here
	upTo  int      // allocations of so many layers are begun, not gone on with; 0: of all
	begun [][]int  // those, by layer
	heavy bool     // no layer is light

	every bool // by what holds for every k only
	k     int  // of the patterns that are looked for; 0: an allocation that is left ends the enumeration

	light      []bool    // by layer
	hold       []float64 // a_{ℓ-1}, 0 if light
	cutF, cutB []float64 // of a cut behind ℓ; 0 beside light ones
	buffer     []float64
	least      []float64   // the least D_ℓ whatever the allocation of ℓ..n
	rest       []float64   // Σ U of the layers from ℓ on that are not light
	pieces     [][]float64 // from ℓ on: sums of the k+1 smallest of the large pieces that no cut may divide
	stored     []float64   // Σ of average and C·W of the layers from ℓ on

	owner    []int   // of layers 1..; none: light
	on       [][]int // layers of each processor
	load     []float64
	links    []float64 // load of link p·P + q, p < q
	delay    []float64 // D_ℓ
	fwd, bwd []float64 // from the start of F_1 to that of F_ℓ; from the end of B_ℓ to that of B_1
	fixed    []float64 // of each processor: weights and buffers
	spare    float64   // bytes that all processors have left on average, as mayFit found last

	rooms        rooms              // scratch of turns
	beams        bool               // guesses, in a beam search: without passes
	first        bool               // a probe of the first round, which has passes for k = 1, too: with more work they tell little
	known        map[string]*limits // of passes, by room and layers
	key          []byte             // scratch of it
	number       map[uint64]int32   // scratch of states
	ways         race.Memory        // of races
	back         int                // from which layer on what was tried is excluded, wherever it is; 0: nothing
	apart        bool               // races are of some processors, too
	set          []int32            // by processor: a number for its layers, see reason
	sets         map[[2]int32]int32 // these numbers, by that without the last layer, and that
	tried        map[reason]trials  // what races have told
	triedWhole   map[string]trials  // of all processors, by who has the layers
	raceBy       racer              // raceOf, but in tests
	won          []winner           // the last teams that have excluded an allocation
	cuts         race.Cuts          // of layers that are on none of the processors of a race
	latest       *limits            // whose states are latestStates
	latestStates *stuck.States

	nodes, decisions int64
	left             []ray         // whole allocations that have to be settled
	undecided        bool          // an allocation was left without pattern or proof
	short            bool          // because of the budget
	found            *view.Pattern // of at most that period
	better           *view.Pattern // of a longer one, but less than what was known
	below            float64       // the least that is known; 0: nothing longer counts
}

// none is the owner of light layers.
const none = -1

const (
	// lightTime of T and lightMemory of M are the most a light layer takes.
	lightTime   = 1e-3
	lightMemory = 0.02
)

// newAllocations is for patterns of k mini-batches, 0: for those of every k.
func newAllocations(in *instance, period float64, heavy bool, k int, ended func() bool) *allocations {
	n := in.N
	a := &allocations{in: in, period: period, heavy: heavy, every: k != 1, k: k, ended: ended, light: make([]bool, n+2), owner: make([]int, n+2)}
	for _, s := range []*[]float64{&a.hold, &a.cutF, &a.cutB, &a.buffer, &a.least, &a.rest, &a.stored, &a.delay, &a.fwd, &a.bwd} {
		*s = make([]float64, n+2)
	}
	a.on, a.load, a.fixed = make([][]int, in.Procs), make([]float64, in.Procs), make([]float64, in.Procs)
	a.links = make([]float64, in.Procs*in.Procs)
	a.set, a.sets, a.tried = make([]int32, in.Procs), map[[2]int32]int32{}, map[reason]trials{}
	a.triedWhole = map[string]trials{}
	a.cuts = race.Cuts{Time: make([]float64, n+2), Forward: a.cutF, Backward: a.cutB, Limit: period}
	a.raceBy = a.raceOf
	a.apart = a.every && in.Procs > together && in.Procs <= mostApart
	a.known, a.number = map[string]*limits{}, map[uint64]int32{}
	some := false
	for l := 1; l <= n; l++ {
		a.light[l] = !heavy && in.Time(l, l) <= lightTime*period && in.Kept[l]+in.A[l]+in.D[l]+in.D[l-1]+in.Copies*in.W[l] <= lightMemory*in.Memory
		some = some || !a.light[l]
	}
	if !some {
		clear(a.light)
	}
	for l := 1; l <= n; l++ {
		if a.light[l] {
			continue
		}
		a.hold[l], a.cuts.Time[l] = in.Kept[l], in.UF[l]+in.UB[l]
		if l < n && !a.light[l+1] && in.Procs > 1 {
			a.buffer[l] = in.Buffer[l]
			a.cutF[l], a.cutB[l] = in.A[l]/in.Platform.Bandwidth, in.D[l]/in.Platform.Bandwidth
		}
	}
	a.tails()
	a.divide()
	return a
}

func (a *allocations) cut(l int) float64 { return a.cutF[l] + a.cutB[l] }

// pass is the delay from the start of F_ℓ to the end of B_ℓ with v between.
func (a *allocations) pass(l int, v float64) float64 {
	if a.light[l] || a.every {
		return v + a.in.UF[l] + a.in.UB[l]
	}
	return view.Plus(v, a.in.UF[l]+a.in.UB[l], a.period)
}

// average is what layer ℓ stores on average over time at least, beside weights
// and buffers: its input for D_ℓ of every period and, in the task model, what
// F_ℓ and B_ℓ write and read beside. It is rounded down.
func (a *allocations) average(l int, delay float64) float64 {
	in := a.in
	held := a.hold[l] * delay
	if in.Task {
		held += in.A[l]*in.UF[l] + (in.D[l]+in.D[l-1])*in.UB[l]
	}
	return held / a.period * (1 - view.Rounding)
}

// tails computes what is least of the layers from each one on. O(n⁴), in which
// the longest run that takes no more than T counts thrice.
func (a *allocations) tails() {
	in, n := a.in, a.in.N
	for l := range a.least {
		a.least[l] = math.Inf(1)
	}
	a.least[n+1] = 0
	after := make([]float64, n+1) // the least V behind j if there is a cut
	for j := range after {
		after[j] = math.Inf(1)
	}
	after[n] = 0
	for j := n; j >= 1; j-- {
		if math.IsInf(after[j], 1) {
			continue
		}
		if a.ended() {
			a.undecided = true
			return
		}
		v, load, weight := after[j], 0.0, 0.0
		for i := j; i >= 1; i-- {
			v = a.pass(i, v)
			a.delay[i] = v
			if !a.light[i] {
				load += in.UF[i] + in.UB[i]
				weight += in.Copies * in.W[i]
			}
			if load > a.period*(1+view.Rounding) {
				break
			}
			a.least[i] = min(a.least[i], v)
			if i == 1 || a.cut(i-1) > a.period*(1+view.Rounding) {
				continue
			}
			if !in.Fits(weight + a.buffer[i-1] + a.buffer[j] + a.runNeeds(i, j)) {
				continue
			}
			after[i-1] = min(after[i-1], a.through(i-1, v))
		}
	}
	for l := n; l >= 1; l-- {
		a.rest[l], a.stored[l] = a.rest[l+1], a.stored[l+1]
		if !a.light[l] {
			a.rest[l] += in.UF[l] + in.UB[l]
			a.stored[l] += a.average(l, a.least[l]) + in.Copies*in.W[l]
		}
	}
}

// divide sorts what is left behind each layer by size. O(n² log n).
func (a *allocations) divide() {
	in := a.in
	a.pieces = make([][]float64, in.N+2)
	for first := 1; first <= in.N; first++ {
		var sizes []float64
		for l := first; l <= in.N; l++ {
			if a.light[l] {
				continue
			}
			if u := in.UF[l] + in.UB[l]; l > first && a.cut(l-1) > a.period*(1+view.Rounding) {
				sizes[len(sizes)-1] += u
			} else {
				sizes = append(sizes, u)
			}
		}
		slices.Sort(sizes)
		if len(sizes) > 0 { // small ones would only weaken the count
			small, _ := slices.BinarySearch(sizes, sizes[len(sizes)-1]/3)
			sizes = sizes[small:]
		}
		for k := 1; k < len(sizes); k++ {
			sizes[k] += sizes[k-1]
		}
		a.pieces[first] = sizes
	}
}

// hasRoom reports whether the loads leave room for the layers from l on: for
// their sum and, were they all as small as the smallest of them, for the number
// of the large pieces.
func (a *allocations) hasRoom(l int) bool {
	room, places := 0.0, 0
	sizes := a.pieces[l]
	for _, x := range a.load {
		left := a.period*(1+view.Rounding) - x
		room += max(0, left)
		k, _ := slices.BinarySearch(sizes, left)
		places += k
	}
	return a.rest[l] <= room && len(sizes) <= places
}

// through is the delay v and the two communications of the cut behind l.
func (a *allocations) through(l int, v float64) float64 {
	switch c := a.cut(l); {
	case c <= 0:
		return v
	case a.every:
		return v + c
	default:
		return view.Plus(v, c, a.period)
	}
}

// runNeeds is what layers i..j of one processor store beside weights and
// buffers, with the delays in a.delay. O(n²).
func (a *allocations) runNeeds(i, j int) float64 {
	list := a.on[0][:0]
	f, b := 0.0, 0.0
	for l := i; l <= j; l++ {
		a.fwd[l], a.bwd[l] = f, b
		f += a.in.UF[l]
		b += a.in.UB[l]
		if !a.light[l] {
			list = append(list, l)
		}
	}
	a.on[0] = list[:0]
	return a.needs(list)
}

// count is ⌈x/T⌉.
func (a *allocations) count(x float64) float64 { return math.Ceil(x/a.period - view.Instant) }

// needs is the most that the layers of a processor store at least beside weights
// and buffers. O(k²) of k layers.
func (a *allocations) needs(list []int) float64 {
	in := a.in
	most, all, later := 0.0, 0.0, 0.0
	for _, l := range list {
		most += a.average(l, a.delay[l])
		all += a.hold[l] * a.count(a.delay[l])
		later += a.hold[l] * (a.count(a.delay[l]) - 1)
	}
	if !in.Task {
		return all
	}
	if a.every {
		before := 0.0
		for _, x := range list {
			before += a.hold[x]
			most = max(most, before*a.count(a.delay[x])+in.A[x], before+in.D[x]+in.D[x-1])
		}
		return most
	}
	for k, x := range list {
		later -= a.hold[x] * (a.count(a.delay[x]) - 1)
		forward, backward := later+in.A[x], later+in.D[x]+in.D[x-1]
		for _, l := range list[:k+1] {
			backward += a.hold[l] * a.count(a.delay[x]+a.fwd[x]-a.fwd[l])
			forward += a.hold[l] * a.count(a.delay[x]+a.bwd[x]-a.bwd[l])
		}
		most = max(most, forward, backward)
	}
	return most
}

func (a *allocations) proved() bool { return a.found == nil && !a.undecided }

func (a *allocations) over() bool { return a.found != nil || a.budget < 0 }

// run enumerates.
func (a *allocations) run() {
	if !a.mayStart() {
		return
	}
	a.owner[0] = none
	a.place(1, 0)
	a.settle()
	a.settleShort()
}

// mayStart reports whether anything is left to enumerate.
func (a *allocations) mayStart() bool {
	return !a.undecided && !math.IsInf(a.least[1], 1) && a.hasRoom(1)
}

// settleShort leaves all open where the work has not sufficed.
func (a *allocations) settleShort() {
	if a.budget < 0 && !(a.k == 0 && a.undecided) {
		a.undecided, a.short = true, true
	}
}

// place gives layer l and those behind it their processors; used is how many
// have one.
func (a *allocations) place(l, used int) {
	a.nodes++
	a.draw()
	if a.budget -= 1; a.nodes%256 == 0 && a.ended() {
		a.budget = -1
	}
	in := a.in
	a.hear(l)
	switch {
	case a.over() || a.back > 0:
		return
	case a.upTo > 0 && l > a.upTo:
		a.begun = append(a.begun, slices.Clone(a.owner[:l]))
		return
	case l > in.N && a.every && (!a.allPass(used) || !a.mayGoOn(used)):
		return
	case l > in.N && a.k == 0:
		a.undecided, a.short, a.budget = true, a.budget <= 1, -1
		return
	case l > in.N:
		a.leaf(used)
		return
	case a.light[l]:
		a.skip(l)
		a.place(l+1, used)
		if a.back == l {
			a.back = 0
		}
		return
	}
	// First the processor of the layer before, for every cut takes time, then
	// one that has nothing yet; these are alike.
	last := a.owner[l-1]
	if last != none {
		a.try(l, last, used)
		if a.apart && a.back == 0 && !a.over() && !a.mayEnd(l-1, used) {
			return
		}
	}
	if used < in.Procs && a.back == 0 {
		a.try(l, used, used+1)
	}
	for r := range used {
		if r != last && a.back == 0 && !a.over() {
			a.try(l, r, used)
		}
	}
	if a.back == l {
		a.back = 0
	}
}

// try places layer l on processor r and goes on from there.
func (a *allocations) try(l, r, used int) {
	if before, ok := a.put(l, r); ok {
		if a.mayFit(l, used) {
			a.place(l+1, used)
		}
		a.takeBack(l, r, before)
	}
}

// placed is what put changes: saved, not undone by subtraction, so that rounding
// does not add up.
type placed struct {
	link, other                              int
	set                                      int32
	carried, computed, here, there, fwd, bwd float64
}

// put places layer l on processor r if the loads allow it.
func (a *allocations) put(l, r int) (before placed, ok bool) {
	in, last := a.in, a.owner[l-1]
	limit := a.period * (1 + view.Rounding)
	u := in.UF[l] + in.UB[l]
	if a.load[r]+u > limit {
		return placed{}, false
	}
	link, f, b, buffer, other := 0, 0.0, 0.0, 0.0, r
	if last != none && last != r {
		f, b, buffer, other = a.cutF[l-1], a.cutB[l-1], a.buffer[l-1], last
		link = min(r, last)*in.Procs + max(r, last)
		if a.links[link]+f+b > limit {
			return placed{}, false
		}
	}
	before = placed{link, other, a.set[r], a.links[link], a.load[r], a.fixed[r], a.fixed[other], a.fwd[l], a.bwd[l]}
	a.links[link] += f + b
	a.fixed[other] += buffer
	a.fixed[r] += in.Copies * in.W[l]
	if other != r {
		a.fixed[r] += buffer
	}
	a.load[r] += u
	a.owner[l] = r
	a.on[r] = append(a.on[r], l)
	if a.apart {
		a.set[r] = a.longer(a.set[r], l)
	}
	a.fwd[l] += f
	a.bwd[l] += b
	a.fwd[l+1], a.bwd[l+1] = a.fwd[l]+in.UF[l], a.bwd[l]+in.UB[l]
	return before, true
}

// takeBack undoes put.
func (a *allocations) takeBack(l, r int, before placed) {
	a.on[r], a.set[r] = a.on[r][:len(a.on[r])-1], before.set
	a.links[before.link], a.load[r], a.fwd[l], a.bwd[l] = before.carried, before.computed, before.fwd, before.bwd
	a.fixed[r], a.fixed[before.other] = before.here, before.there
}

// skip passes over a light layer.
func (a *allocations) skip(l int) {
	a.owner[l] = none
	a.fwd[l+1], a.bwd[l+1] = a.fwd[l]+a.in.UF[l], a.bwd[l]+a.in.UB[l]
}

// mayFit reports whether nothing known excludes what is placed, layers 1..l.
func (a *allocations) mayFit(l, used int) bool {
	in := a.in
	if !a.hasRoom(l + 1) {
		return false
	}
	v := a.least[l+1]
	if l < in.N && !a.light[l+1] && a.load[a.owner[l]]+in.UF[l+1]+in.UB[l+1] > a.period*(1+view.Rounding) {
		v = a.through(l, v) // the next is on another processor
	}
	if math.IsInf(v, 1) {
		return false
	}
	for k := l; k >= 1; k-- {
		if k < l && a.owner[k] != a.owner[k+1] {
			v = a.through(k, v)
		}
		v = a.pass(k, v)
		a.delay[k] = v
	}
	room := float64(in.Procs-used) * in.Memory
	over := a.owner[l-1] != a.owner[l] && !a.beams && (a.every || a.first) // what others have in a row is complete
	for r := range used {
		needs := a.needs(a.on[r])
		if !in.Fits(needs + a.fixed[r]) {
			return false
		}
		if !a.turns(r) || over && r != a.owner[l] && !a.passes(r) {
			return false
		}
		held := 0.0
		for _, k := range a.on[r] {
			held += a.average(k, a.delay[k])
		}
		room += in.Memory - a.fixed[r] - held
	}
	a.spare = room - a.stored[l+1]
	// An average is no size: the rounding of its sum counts.
	return a.spare >= -float64(in.N+in.Procs)*0x1p-52*float64(in.Procs)*in.Memory
}

// stages returns the allocation layer by layer; light layers are with the layer
// before, the first ones with the layer behind.
func (a *allocations) stages() []plan.Stage {
	list := make([]plan.Stage, a.in.N)
	for l := 1; l <= a.in.N; l++ {
		r := a.owner[l]
		if r == none && l > 1 {
			r = list[l-2].Processor
		}
		for k := l; r == none; k++ {
			r = a.owner[k]
		}
		list[l-1] = plan.Stage{Processor: r, From: l, To: l}
	}
	return list
}
