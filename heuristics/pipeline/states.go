package pipeline

import (
	"cmp"
	"encoding/binary"
	"math"
	"math/bits"
	"slices"

	view "workbench/model/pipeline"
)

const (
	// mostStates is how many states of a processor are looked at. As many as stateNodes
	// cost as much as a node.
	mostStates, stateNodes = 1000, 16
	// awayParts is the number of parts of a period in which times away are told apart.
	awayParts = 256
)

// A way is how a mini-batch goes through a processor: op j = 1..2m takes it from position
// j-1 to j, forwards of m of its layers and then their backwards; at positions 0 and 2m it
// is outside.
type way struct {
	stored []float64 // bytes, between op j and the next
	needs  []float64 // bytes for the mini-batch at work while op j runs
	time   []float64 // of op j
	away   []bool    // behind op j it leaves these layers for others
	room   float64   // for all mini-batches
}

// way returns the way through some layers of processor r, in order. What others of r need
// while they run is left out. O(layers of r).
func (a *allocations) way(r int, layers []int) *way {
	in, m := a.in, len(layers)
	w := &way{
		stored: make([]float64, 2*m+1), needs: make([]float64, 2*m+1), time: make([]float64, 2*m+1), away: make([]bool, 2*m+1),
		room: in.Memory - a.fixed[r],
	}
	held, k := 0.0, 0
	for _, l := range a.on[r] {
		held += a.hold[l]
		if k == m || l != layers[k] {
			continue
		}
		k++
		f, b := k, 2*m+1-k
		w.stored[f], w.stored[b-1], w.needs[f], w.needs[b] = held, held, held, held
		w.time[f], w.time[b] = in.UF[l], in.UB[l]
		w.away[f] = k == m || layers[k] != l+1
		w.away[b-1] = w.away[f]
		if !in.Task {
			continue
		}
		w.needs[f] += in.A[l]
		w.needs[b] += in.D[l] + in.D[l-1]
		if !w.away[f] { // what was made waits for the next op
			w.stored[f] += in.A[l]
			w.stored[b-1] += in.D[l]
		}
	}
	return w
}

// states are the states of a processor that can recur: a state says how many mini-batches
// are at which position.
type states struct {
	*way
	width int      // bits of a position
	of    []uint64 // the positions of the mini-batches inside, the least lowest
	moves []move
}

// A move is an op of one mini-batch.
type move struct {
	from, to int32
	op       uint16
}

// states finds the states to which an empty processor leads, by the ops that fit beside
// what the others store, and of them those that lead back to it; nil if they are more than mostStates.
// No other state is on a cycle: without new mini-batches a cycle empties the processor,
// and without old ones it fills it, both with less memory. number is scratch. O(states).
func (w *way) states(number map[uint64]int32) *states {
	last := len(w.time) - 1
	s := &states{way: w, width: bits.Len(uint(last)), of: []uint64{0}}
	position := uint64(1)<<s.width - 1
	clear(number)
	number[0] = 0
	for k := 0; k < len(s.of); k++ {
		here := s.of[k]
		if len(s.of) > mostStates || here>>(64-s.width) != 0 {
			return nil
		}
		all := 0.0
		for x := here; x != 0; x >>= s.width {
			all += w.stored[x&position]
		}
		to := func(op int, next uint64) {
			if all-w.stored[op-1]+w.needs[op] > w.room {
				return
			}
			n, known := number[next]
			if !known {
				n = int32(len(s.of))
				number[next] = n
				s.of = append(s.of, next)
			}
			s.moves = append(s.moves, move{int32(k), n, uint16(op)})
		}
		to(1, here<<s.width|1)
		for i := 0; here>>i != 0; i += s.width {
			switch p, behind := here>>i&position, here>>i>>s.width; {
			case behind&position == p: // of several at one position, the last goes on
			case int(p)+1 == last:
				to(last, here&(1<<i-1)|behind<<i)
			default:
				to(int(p)+1, here+1<<i)
			}
		}
	}
	s.leadBack()
	return s
}

// leadBack drops the moves to states that do not lead back to an empty processor.
func (s *states) leadBack() {
	back := make([]bool, len(s.of))
	back[0] = true
	for changed := true; changed; {
		changed = false
		for k := len(s.moves) - 1; k >= 0; k-- {
			if m := &s.moves[k]; back[m.to] && !back[m.from] {
				back[m.from], changed = true, true
			}
		}
	}
	s.moves = slices.DeleteFunc(s.moves, func(m move) bool { return !back[m.to] })
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
		s := a.way(r, some).states(a.number)
		if s == nil {
			a.budget -= int64(mostStates / stateNodes)
			continue
		}
		a.budget -= int64(len(s.of) / stateNodes)
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
			a.latest, a.latestStates = known, a.way(r, known.layers).states(a.number)
		}
		a.budget -= int64(len(a.latestStates.of) / stateNodes)
		if a.latestStates.excluded(a.period*(1+view.Rounding), away, x.behind) {
			x.never = away
		} else {
			x.maybe = away
		}
	}
	return away < x.never
}

// excluded reports whether no pattern has each mini-batch away so long, in all or behind
// the last layer only, with one a period on average.
//
// A pattern is a closed walk in states: each move takes the time of its op, and the
// processor may be idle before it, but no longer than away, for then nobody that is away has to
// be for longer. Let n of a state be how many are away. In time they are away for ∫n, and
// each is for away or longer, so with a price μ on time, B mini-batches and B periods
//
//	0 ≤ ∫n - B·away ≤ Σ_moves (u·(n' - μ) + away·max(0, n - μ)) + B·(μ·T - away),
//
// n' without the one at work. If for some μ no cycle of states has a sum that is not below zero, there
// is no such walk. The sum is convex in μ, so tangents close in on the best. O(states·moves) for
// each at worst.
func (s *states) excluded(period, away float64, behind bool) bool {
	counts := make([]float64, len(s.away)) // by position
	for j, x := range s.away {
		if x && (!behind || j == len(s.away)/2) {
			counts[j] = 1
		}
	}
	n, most := make([]float64, len(s.of)), 0.0
	for k, x := range s.of {
		for ; x != 0; x >>= s.width {
			n[k] += counts[x&(1<<s.width-1)]
		}
		most = max(most, n[k])
	}
	gain, time := make([]float64, len(s.moves)), make([]float64, len(s.moves))
	low, high := tangent{at: 0}, tangent{at: most + 1}
	for price := high.at / 2; ; {
		for k, m := range s.moves {
			u := s.time[m.op]
			gain[k], time[k] = u*(n[m.from]-counts[m.op-1]-price), u
			if n[m.from] > price {
				gain[k] += away * (n[m.from] - price)
				time[k] += away
			}
			if m.op == 1 {
				gain[k] += price*period - away + safe*period
			}
		}
		cycle := s.positive(gain, period)
		if cycle == nil {
			return true
		}
		x := tangent{at: price, known: true}
		batches := 0.0
		for _, k := range cycle {
			x.value += gain[k]
			x.slope -= time[k]
			if s.moves[k].op == 1 {
				batches++
			}
		}
		x.value, x.slope = x.value/batches, x.slope/batches+period
		if x.slope > 0 {
			high = x
		} else {
			low = x
		}
		if price = low.meets(&high); !(price > low.at && price < high.at) || high.at-low.at < 1e-4 {
			return false
		}
	}
}

// A tangent is a line below a convex function.
type tangent struct {
	at, value, slope float64
	known            bool
}

// meets returns where two tangents meet, NaN if above zero; if one is not known, the middle.
func (low *tangent) meets(high *tangent) float64 {
	if !low.known || !high.known {
		return (low.at + high.at) / 2
	}
	at := (high.at*high.slope - high.value - low.at*low.slope + low.value) / (high.slope - low.slope)
	if low.value+low.slope*(at-low.at) > 0 {
		return math.NaN()
	}
	return at
}

// positive returns the moves of a cycle with a gain, nil if there is none, by Bellman and
// Ford's passes.
func (s *states) positive(gain []float64, period float64) []int32 {
	best, via, seen := make([]float64, len(s.of)), make([]int32, len(s.of)), make([]int32, len(s.of))
	for k := range via {
		via[k] = none
	}
	for pass := 1; ; pass++ {
		changed := false
		for k, m := range s.moves {
			if x := best[m.from] + gain[k]; x > best[m.to]+1e-12*period {
				best[m.to], via[m.to], changed = x, int32(k), true
			}
		}
		if !changed {
			return nil
		}
		if pass%4 != 0 {
			continue
		}
		for k := range seen {
			seen[k] = none
		}
		for k := range int32(len(s.of)) {
			x := k
			for seen[x] == none && via[x] != none {
				seen[x] = k
				x = s.moves[via[x]].from
			}
			if via[x] == none || seen[x] != k {
				continue
			}
			cycle := []int32{via[x]}
			for y := s.moves[via[x]].from; y != x; y = s.moves[via[y]].from {
				cycle = append(cycle, via[y])
			}
			return cycle
		}
	}
}
