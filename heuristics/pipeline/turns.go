package pipeline

import (
	"math"
	"slices"

	view "workbench/model/problem/pipeline"
)

// turns reports whether processor r can do its work within the period, by how many
// mini-batches fit beside the one at work. It holds for every k.
//
// Let x be a layer of r, and p what the layers of r up to x keep of a mini-batch. It is
// inside from the start of F_x to the end of B_x and holds p all that time. On average
// D_x/T are inside (Little's law). How many can be depends on what r does: beside an
// operation that leaves a room there are ⌊room/p⌋ at most, and the mini-batch at work
// is inside, too, if its layer is x or a later one. So
//
//	D_x ≤ Σ_ops u·([layer ≥ x] + ⌊room/p⌋) + (T - Σ_ops u)·⌊idle/p⌋.
//
// While a mini-batch is away on other processors its own can only be at work on what fits
// beside it, so the rest of its work needs time of its own.
//
// Of layers to come nothing is known but that they hold no less: their operations count as
// idle time. O(k²) for k layers of r.
func (a *allocations) turns(r int) bool {
	in, list := a.in, a.on[r]
	idle := max(0, a.period*(1+view.Rounding)-a.load[r])
	for k, x := range list {
		if a.counts(x) == 0 {
			continue
		}
		m := a.beside(r, k)
		p := m.own[k]
		most := idle * math.Floor(m.idle/p)
		for j, y := range list {
			at := 0.0
			if j >= k {
				at = 1
			}
			most += in.UF[y]*(at+math.Floor(m.forward[j]/p)) + in.UB[y]*(at+math.Floor(m.backward[j]/p))
		}
		if a.delay[x]*(1-safe) > most {
			return false
		}
	}
	return true
}

// counts is what layer x keeps of a mini-batch, 0 if that is next to nothing: what would
// be taken off it hides what others hold.
func (a *allocations) counts(x int) float64 {
	if a.hold[x] < 1e-3*a.in.Memory {
		return 0
	}
	return a.hold[x]
}

// rooms are what is left on a processor, of its memory, for what all mini-batches but the
// one at work keep of some first layers of it. Slices are indexed as the list of its layers.
type rooms struct {
	own               []float64 // what these layers keep of a mini-batch up to each
	forward, backward []float64 // beside F and B of each layer
	idle              float64   // while nothing runs
}

// beside fills in the rooms on processor r for what its layers up to list[last] keep.
//
// Beside F_y there is no room for what the layers up to y keep, and for a_y. In the task model
// there is less. Let S be what the others keep, and F_y be followed by F_{y+1} on r. If S fits
// beside that, nothing is said. If not, some of S has to go before, and the first backward to
// take some away, B_z of another mini-batch, finds S, at least, and what waits between F_y
// and F_{y+1}, a_y, and needs δ_z and δ_{z-1}. What B_y finds is the same in reverse: either S fitted beside
// B_{y+1}, or the last forward to add to S, F_z of another mini-batch, ended in S and had a_z,
// while δ_y was waiting. If layer y+1 is elsewhere, or the processor is idle, the next backward
// to take some away and the last forward to add some may be of any mini-batch, and all that
// these first layers keep is what they find, or leave.
func (a *allocations) beside(r, last int) *rooms {
	in, list, m := a.in, a.on[r], &a.rooms
	for _, s := range []*[]float64{&m.own, &m.forward, &m.backward} {
		*s = slices.Grow((*s)[:0], len(list))[:len(list)]
	}
	room, own, all := in.Memory-a.fixed[r], 0.0, 0.0
	takes, adds := math.Inf(1), math.Inf(1) // the least that a B_z needs, and an F_z
	for k, x := range list {
		all += a.hold[x]
		if k <= last && a.counts(x) > 0 {
			own += a.hold[x]
			takes, adds = min(takes, in.D[x]+in.D[x-1]), min(adds, in.A[x])
		}
		m.own[k], m.forward[k], m.backward[k] = own, room-all, room-all
	}
	m.idle = room
	if !in.Task {
		return m
	}
	m.idle -= max(takes, adds)
	for k := len(list) - 1; k >= 0; k-- {
		x := list[k]
		after, before := room-m.own[k]-takes, room-m.own[k]-adds
		if k+1 < len(list) && list[k+1] == x+1 {
			after = max(m.forward[k]-in.A[x]-takes, m.forward[k+1])
			before = max(m.backward[k]-in.D[x]-adds, m.backward[k+1])
		}
		m.forward[k] = min(m.forward[k]-in.A[x], after)
		m.backward[k] = min(m.backward[k]-in.D[x]-in.D[x-1], before)
	}
	return m
}
