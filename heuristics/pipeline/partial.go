package pipeline

import (
	"math"
	"slices"

	"workbench/model/plan"
)

// partialAllocation places the layers 1..l of a chain on processors. Its bounds hold for every pattern of a period
// of at most T whose allocation begins so; O(n²/P) a layer.
type partialAllocation struct {
	*relaxation
	owner    []int     // by layer: its processor, or noProcessor
	on       [][]int   // by processor: its layers
	load     []float64 // by processor, seconds a period
	links    []float64 // by link p·P + q, p < q: seconds a period
	fixed    []float64 // by processor: bytes of weights and buffers
	fwd, bwd []float64 // by layer: seconds from the start of F_1 to that of F_ℓ, from the end of B_ℓ to that of B_1
	delay    []float64 // by layer: the lower bound on D_ℓ that bound found
	spare    float64   // bytes that all processors have left on average, as bound found
	room     headroom  // scratch
}

func newPartialAllocation(x *relaxation) partialAllocation {
	n, procs := x.in.N, x.in.Procs
	a := partialAllocation{relaxation: x, owner: make([]int, n+2), on: make([][]int, procs)}
	a.owner[0] = noProcessor
	a.load, a.fixed, a.links = make([]float64, procs), make([]float64, procs), make([]float64, procs*procs)
	a.fwd, a.bwd, a.delay = make([]float64, n+2), make([]float64, n+2), make([]float64, n+2)
	return a
}

// undo is what place changed. Values are saved and not recomputed by subtraction, so rounding does
// not add up.
type undo struct {
	link, other                              int
	carried, computed, here, there, fwd, bwd float64
}

// place puts layer l on processor r. If a load exceeds the period it changes nothing and returns the argument.
func (a *partialAllocation) place(l, r int) (before undo, why argument) {
	in, last := a.in, a.owner[l-1]
	u := in.UF[l] + in.UB[l]
	if a.load[r]+u > a.limit() {
		return undo{}, argument{loadOf, one(r)}
	}
	link, f, b, buffer, other := 0, 0.0, 0.0, 0.0, r
	if last != noProcessor && last != r {
		f, b, buffer, other = a.cutF[l-1], a.cutB[l-1], a.buffer[l-1], last
		link = min(r, last)*in.Procs + max(r, last)
		if a.links[link]+f+b > a.limit() {
			return undo{}, argument{linkBetween, one(r) | one(last)}
		}
	}
	before = undo{link, other, a.links[link], a.load[r], a.fixed[r], a.fixed[other], a.fwd[l], a.bwd[l]}
	a.links[link] += f + b
	a.fixed[other] += buffer
	a.fixed[r] += in.Copies * in.W[l]
	if other != r {
		a.fixed[r] += buffer
	}
	a.load[r] += u
	a.owner[l] = r
	a.on[r] = append(a.on[r], l)
	a.fwd[l] += f
	a.bwd[l] += b
	a.fwd[l+1], a.bwd[l+1] = a.fwd[l]+in.UF[l], a.bwd[l]+in.UB[l]
	return before, argument{}
}

// unplace undoes place.
func (a *partialAllocation) unplace(l, r int, before undo) {
	a.on[r] = a.on[r][:len(a.on[r])-1]
	a.links[before.link], a.load[r], a.fwd[l], a.bwd[l] = before.carried, before.computed, before.fwd, before.bwd
	a.fixed[r], a.fixed[before.other] = before.here, before.there
}

// skip passes over a negligible layer.
func (a *partialAllocation) skip(l int) {
	a.owner[l] = noProcessor
	a.fwd[l+1], a.bwd[l+1] = a.fwd[l]+a.in.UF[l], a.bwd[l]+a.in.UB[l]
}

// bound returns the argument that excludes every allocation that begins with layers 1..l as placed, none if there is
// none; used is the number of processors in use. Arguments, in this order:
//
//   - load: what is left of the period on all processors takes the layers to come, as a sum, and by the number of
//     their large pieces (were all as small as the smallest, a bin-packing bound);
//   - delay: behind the last layer there is a way to cut the rest into runs that fit;
//   - memory of a processor, see needs;
//   - occupancy of a processor, see occupancy;
//   - memory of all processors: the sum of what is stored on average over time, by Little's law.
func (a *partialAllocation) bound(l, used int) argument {
	in := a.in
	if !a.hasRoom(l + 1) {
		return argument{kind: loadOfAll}
	}
	v := a.minDelay[l+1]
	if l < in.N && !a.negligible[l+1] && a.load[a.owner[l]]+in.UF[l+1]+in.UB[l+1] > a.limit() {
		v = a.delayAcross(l, v) // the next layer is on another processor
	}
	if math.IsInf(v, 1) {
		return argument{kind: delayBehind}
	}
	for k := l; k >= 1; k-- {
		if k < l && a.owner[k] != a.owner[k+1] {
			v = a.delayAcross(k, v)
		}
		v = a.delayAround(k, v)
		a.delay[k] = v
	}
	spare := float64(in.Procs-used) * in.Memory
	for r := range used {
		if !in.Fits(a.needs(a.on[r]) + a.fixed[r]) {
			return argument{memoryOf, one(r)}
		}
		if !a.occupancy(r) {
			return argument{occupancyOf, one(r)}
		}
		held := 0.0
		for _, k := range a.on[r] {
			held += a.average(k, a.delay[k])
		}
		spare += in.Memory - a.fixed[r] - held
	}
	a.spare = spare - a.stored[l+1]
	// An average is no size: the rounding of its sum counts.
	if a.spare < -float64(in.N+in.Procs)*0x1p-52*float64(in.Procs)*in.Memory {
		return argument{kind: memoryOfAll}
	}
	return argument{}
}

// hasRoom reports whether the processors have time for the layers from l on.
func (a *partialAllocation) hasRoom(l int) bool {
	room, places := 0.0, 0
	sizes := a.pieces[l]
	for _, x := range a.load {
		left := a.limit() - x
		room += max(0, left)
		k, _ := slices.BinarySearch(sizes, left)
		places += k
	}
	return a.work[l] <= room && len(sizes) <= places
}

// needsOfRun is needs of the layers i..j on one processor, with the delays in a.delay. O(n²).
func (a *partialAllocation) needsOfRun(i, j int) float64 {
	list := a.on[0][:0]
	f, b := 0.0, 0.0
	for l := i; l <= j; l++ {
		a.fwd[l], a.bwd[l] = f, b
		f += a.in.UF[l]
		b += a.in.UB[l]
		if !a.negligible[l] {
			list = append(list, l)
		}
	}
	a.on[0] = list[:0]
	return a.needs(list)
}

// needs returns a lower bound on the peak bytes of the layers of a processor, in addition to weights and buffers. O(k²) for k
// layers.
//
// Stage model: NCA_ℓ ≥ ⌈D_ℓ/T⌉. Task model, for any k: the average over time; as many mini-batches are between F_ℓ
// and B_ℓ at some F_ℓ, and so are the inputs of the layers before ℓ; and B_ℓ needs those of one. Task model,
// 1-periodic: while B_x runs, ⌈X/T⌉ mini-batches of each ℓ ≤ x of the processor are stored, X from the start of F_ℓ
// to the end of B_x: so many have started F_ℓ before B_x ends, so have ended it before B_x starts, and none has run
// B_ℓ. While F_x runs, ⌈X/T⌉ again, X from the start of F_x to the end of B_ℓ. Of ℓ > x, and at any time,
// ⌈D_ℓ/T⌉-1 are stored.
func (a *partialAllocation) needs(list []int) float64 {
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
	if a.anyK {
		before := 0.0
		for _, x := range list {
			before += a.hold[x]
			most = max(most, before*a.count(a.delay[x])+in.OwnF[x], before+in.OwnB[x])
		}
		return most
	}
	for k, x := range list {
		later -= a.hold[x] * (a.count(a.delay[x]) - 1)
		forward, backward := later+in.OwnF[x], later+in.OwnB[x]
		for _, l := range list[:k+1] {
			backward += a.hold[l] * a.count(a.delay[x]+a.fwd[x]-a.fwd[l])
			forward += a.hold[l] * a.count(a.delay[x]+a.bwd[x]-a.bwd[l])
		}
		most = max(most, forward, backward)
	}
	return most
}

// stages returns the allocation layer by layer. Negligible layers are on the processor of the
// previous layer, the first ones on that of the next.
func (a *partialAllocation) stages() []plan.Stage {
	list := make([]plan.Stage, a.in.N)
	for l := 1; l <= a.in.N; l++ {
		r := a.owner[l]
		if r == noProcessor && l > 1 {
			r = list[l-2].Processor
		}
		for k := l; r == noProcessor; k++ {
			r = a.owner[k]
		}
		list[l-1] = plan.Stage{Processor: r, From: l, To: l}
	}
	return list
}

// occupancy reports whether processor r can do its work within the period, given how many mini-batches fit at once.
// It holds for any k. O(k²) for k layers of r.
//
// Let x be a layer of r, and p the bytes that the layers of r up to x keep of a mini-batch. A mini-batch is inside
// from the start of F_x to the end of B_x and holds p all that time. On average D_x/T are inside (Little's law). While
// an operation runs for which r has a headroom of h bytes, at most ⌊h/p⌋ others are inside, and its own mini-batch if
// its layer is x or later. So
//
//	D_x ≤ Σ_ops u·([layer ≥ x] + ⌊h/p⌋) + (T - Σ_ops u)·⌊h_idle/p⌋.
//
// The operations of layers that are not placed yet count as idle time, since these layers hold no less.
func (a *partialAllocation) occupancy(r int) bool {
	in, list := a.in, a.on[r]
	idle := max(0, a.limit()-a.load[r])
	for k, x := range list {
		if a.hold[x] < occupancyLeast*in.Memory {
			continue
		}
		h := a.headroom(r, k)
		p := h.own[k]
		most := idle * math.Floor(h.idle/p)
		for j, y := range list {
			self := 0.0
			if j >= k {
				self = 1
			}
			most += in.UF[y]*(self+math.Floor(h.forward[j]/p)) + in.UB[y]*(self+math.Floor(h.backward[j]/p))
		}
		if a.delay[x]*(1-safe) > most {
			return false
		}
	}
	return true
}

// occupancyLeast is the fraction of memory from which on the input of a layer counts for occupancy:
// smaller ones would only hide what others hold.
const occupancyLeast = 1e-3

// headroom is the remaining memory of a processor for what mini-batches other than the current one
// keep of its first layers. Slices are indexed as the list of its layers.
type headroom struct {
	own               []float64 // bytes that these layers keep of a mini-batch, up to each
	forward, backward []float64 // while F and B of each layer run
	idle              float64   // while nothing runs
}

// headroom returns the headroom on processor r for what its layers up to list[last] keep.
//
// While F_y runs there is no room for what the layers up to y keep, and for a_y. In the task model there is less. Let
// S be the bytes that the others keep, and F_y be followed by F_{y+1} on r. If S fits while that runs, there is
// nothing to subtract. If not, some of S has to go before, and the first backward to take some away, B_z of another
// mini-batch, finds at least S, and a_y, which waits between F_y and F_{y+1}, and needs δ_z and δ_{z-1}. What B_y
// finds is the same in reverse: either S fitted while B_{y+1} ran, or the last forward to add to S, F_z of another
// mini-batch, ended in S and had a_z, while δ_y was waiting. If layer y+1 is elsewhere, or the processor is idle, the
// next backward to take some away and the last forward to add some may be of any mini-batch, and find, or leave, all
// that these first layers keep.
func (a *partialAllocation) headroom(r, last int) *headroom {
	in, list, h := a.in, a.on[r], &a.room
	for _, s := range []*[]float64{&h.own, &h.forward, &h.backward} {
		*s = slices.Grow((*s)[:0], len(list))[:len(list)]
	}
	room, own, all := in.Memory-a.fixed[r], 0.0, 0.0
	takes, adds := math.Inf(1), math.Inf(1) // the minimum that a B_z needs, and an F_z
	for k, x := range list {
		all += a.hold[x]
		if k <= last && a.hold[x] >= occupancyLeast*in.Memory {
			own += a.hold[x]
			takes, adds = min(takes, in.D[x]+in.D[x-1]), min(adds, in.A[x])
		}
		h.own[k], h.forward[k], h.backward[k] = own, room-all, room-all
	}
	h.idle = room
	if !in.Task {
		return h
	}
	h.idle -= max(takes, adds)
	for k := len(list) - 1; k >= 0; k-- {
		x := list[k]
		after, before := room-h.own[k]-takes, room-h.own[k]-adds
		if k+1 < len(list) && list[k+1] == x+1 {
			after = max(h.forward[k]-in.A[x]-takes, h.forward[k+1])
			before = max(h.backward[k]-in.D[x]-adds, h.backward[k+1])
		}
		h.forward[k] = min(h.forward[k]-in.A[x], after)
		h.backward[k] = min(h.backward[k]-in.D[x]-in.D[x-1], before)
	}
	return h
}
