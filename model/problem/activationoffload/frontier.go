package activationoffload

import "math"

// Limits on the number of sets of a frontier: maxSets for short chains; for longer ones as many as
// keep the time well below a second, at least fewSets. On random chains with 2,000 and 20,000
// layers one set proves as much as 512. MinSets is for frontiers that are queried at every step of
// a search.
const (
	maxSets   = 1 << 15
	fewSets   = 64
	MinSets   = 512
	totalSets = 1 << 19
)

// Shipment is a set of activations: its bytes, the time when it has been sent, and how long before
// the end of the plan its return transfers start.
type Shipment struct{ Bytes, Out, Back float64 }

// frontier has the nondominated sets of activations by bytes, time sent and time fetched, the
// largest first.
type frontier struct {
	most       int     // maximum number of sets
	top        float64 // bytes beyond which more does not count
	sets, next []Shipment
}

func NewFrontier(limit int, top float64) *frontier {
	return &frontier{most: limit, top: top, sets: []Shipment{{}}}
}

// Add extends every set by an activation, and keeps it without the activation. The activation takes
// move seconds to transfer and can be sent, and in reversed time fetched, not before the given
// times. O(sets).
func (f *frontier) Add(bytes, move, send, fetch float64) {
	if bytes == 0 {
		return
	}
	f.next = f.next[:0]
	without, with := f.sets, f.sets
	for len(without) > 0 || len(with) > 0 {
		if len(with) > 0 {
			w := with[0]
			x := Shipment{min(f.top, w.Bytes+bytes), max(w.Out, send) + move, max(w.Back, fetch) + move}
			if len(without) == 0 || x.Bytes >= without[0].Bytes {
				f.keep(x)
				with = with[1:]
				continue
			}
		}
		f.keep(without[0])
		without = without[1:]
	}
	for len(f.next) > f.most {
		f.halve()
	}
	f.sets, f.next = f.next, f.sets
}

// keep appends x unless a set with at least as many bytes is as fast. It compares with the last few
// only; a dominated set does no harm.
func (f *frontier) keep(x Shipment) {
	const last = 24
	for k := len(f.next) - 1; k >= max(0, len(f.next)-last); k-- {
		if y := f.next[k]; y.Out <= x.Out && y.Back <= x.Back {
			return
		}
	}
	for k := len(f.next); k > 0 && f.next[k-1].Bytes == x.Bytes && f.next[k-1].Out >= x.Out && f.next[k-1].Back >= x.Back; k-- {
		f.next = f.next[:k-1]
	}
	f.next = append(f.next, x)
}

// halve merges pairs of sets into one that dominates both.
func (f *frontier) halve() {
	k := 0
	for i := 0; i < len(f.next); i += 2 {
		x := f.next[i]
		if i+1 < len(f.next) {
			y := f.next[i+1]
			x.Out, x.Back = min(x.Out, y.Out), min(x.Back, y.Back)
		}
		f.next[k] = x
		k++
	}
	f.next = f.next[:k]
}

// Least returns the minimum cost of the sets with at least the given bytes, +Inf if there are none.
func (f *frontier) Least(bytes float64, cost func(Shipment) float64) float64 {
	best := math.Inf(1)
	for _, x := range f.sets {
		if x.Bytes < bytes {
			break
		}
		best = min(best, cost(x))
	}
	return best
}
