package pipeline

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"

	"workbench/heuristics/pipeline/stuck"
	view "workbench/model/problem/pipeline"
)

const (
	// As many states of a processor as stateNodes cost as much as a node.
	stateNodes = 16
	// awayParts is the number of parts of a period in which times away are told apart.
	awayParts = 256
)

// way returns the way through some layers of processor r, in order. What others of r need
// while they run is left out. O(layers of r).
func (a *allocations) way(r int, layers []int) *stuck.Way {
	in, m := a.in, len(layers)
	w := &stuck.Way{
		Stored: make([]float64, 2*m+1), Needs: make([]float64, 2*m+1), Time: make([]float64, 2*m+1), Away: make([]bool, 2*m+1),
		Room: in.Memory - a.fixed[r],
	}
	held, k := 0.0, 0
	for _, l := range a.on[r] {
		held += a.hold[l]
		if k == m || l != layers[k] {
			continue
		}
		k++
		f, b := k, 2*m+1-k
		w.Stored[f], w.Stored[b-1], w.Needs[f], w.Needs[b] = held, held, held, held
		w.Time[f], w.Time[b] = in.UF[l], in.UB[l]
		w.Away[f] = k == m || layers[k] != l+1
		w.Away[b-1] = w.Away[f]
		if !in.Task {
			continue
		}
		w.Needs[f] += in.A[l]
		w.Needs[b] += in.D[l] + in.D[l-1]
		if !w.Away[f] { // what was made waits for the next op
			w.Stored[f] += in.A[l]
			w.Stored[b-1] += in.D[l]
		}
	}
	return w
}

// passes reports whether mini-batches can pass through processor r, one a period on
// average, as each is away for others between its ops there. It holds for every k. It tells
// more than turns, and takes longer.
//
// Time away is reckoned in all, and behind the last layer of r only. What is known is
// kept, for the same layers in the same room and a time away.
func (a *allocations) passes(r int) bool {
	a.key = binary.LittleEndian.AppendUint64(a.key[:0], math.Float64bits(a.fixed[r]))
	for _, x := range a.on[r] {
		a.key = binary.LittleEndian.AppendUint16(a.key, uint16(x))
	}
	known := a.known[string(a.key)]
	if known == nil {
		known = a.limits(r)
		a.known[string(a.key)] = known
	}
	if len(known.layers) == 0 {
		return true
	}
	first, last := known.layers[0], known.layers[len(known.layers)-1]
	own := a.in.UF[last] + a.in.UB[last]
	behind := a.delay[last] - own
	if !a.mayBeAway(r, known, &known.behind, behind) {
		return false
	}
	// Before the last layer only what lies between counts: what ⊕ adds there may pass between two layers
	// in a row, where a mini-batch is not away.
	before := a.fwd[last] - a.fwd[first] + a.bwd[last] - a.bwd[first] - (known.work - own)
	return known.behindOnly || a.mayBeAway(r, known, &known.all, behind+before)
}

// allPass reports whether mini-batches can pass through each processor that is used.
func (a *allocations) allPass(used int) bool {
	for r := range used {
		if !a.passes(r) {
			return false
		}
	}
	return true
}

// A limit is what is known of how long mini-batches can be away.
type limit struct {
	maybe, never float64
	behind       bool // the last layer, else in all
}

// limits are those of a processor.
type limits struct {
	layers      []int   // of it that are looked at
	work        float64 // that they take
	behindOnly  bool    // there is no other way to be away
	behind, all limit
}

// limits chooses the layers of processor r that are looked at: those that hold most.
func (a *allocations) limits(r int) *limits {
	layers := slices.Clone(a.on[r])
	slices.SortStableFunc(layers, func(x, y int) int { return cmp.Compare(a.hold[y], a.hold[x]) })
	for m := min(len(layers), 31); m > 0; m = m * 3 / 4 {
		some := slices.Clone(layers[:m])
		slices.Sort(some)
		s := a.way(r, some).States(a.number)
		if s == nil {
			a.budget -= int64(stuck.Most / stateNodes)
			continue
		}
		a.budget -= int64(s.Size() / stateNodes)
		x := &limits{layers: some, behindOnly: true, behind: limit{0, math.Inf(1), true}, all: limit{0, math.Inf(1), false}}
		for k, l := range some {
			x.work += a.in.UF[l] + a.in.UB[l]
			x.behindOnly = x.behindOnly && (k == 0 || some[k-1] == l-1)
		}
		a.latest, a.latestStates = x, s
		return x
	}
	return &limits{}
}

// mayBeAway reports whether nothing excludes that time away, rounded down.
func (a *allocations) mayBeAway(r int, known *limits, x *limit, away float64) bool {
	grain := a.period / awayParts
	away = math.Floor(away*(1-safe)/grain) * grain
	if x.maybe < away && away < x.never {
		if a.latest != known {
			a.latest, a.latestStates = known, a.way(r, known.layers).States(a.number)
		}
		a.budget -= int64(a.latestStates.Size() / stateNodes)
		if a.latestStates.Excluded(a.period*(1+view.Rounding), away, x.behind) {
			x.never = away
		} else {
			x.maybe = away
		}
	}
	return away < x.never
}
