package activationoffload

import "math"

// Numbers of sets that a frontier holds: of short chains maxSets, of longer ones as
// many as keeps the time well below a second, but fewSets. On random chains of 2,000
// and 20,000 layers one set proves as much as 512 do. MinSets are for frontiers that
// are asked at every step of a search.
const (
	maxSets   = 1 << 15
	fewSets   = 64
	MinSets   = 512
	totalSets = 1 << 19
)

// Shipment is a set of activations: its bytes, when it is out, and how long before
// the end of the plan its way back starts.
type Shipment struct{ Bytes, Out, Back float64 }

// A frontier holds sets of activations that no other set dominates, by having as
// many bytes and being sent and fetched as fast; the largest first.
type frontier struct {
	most       int     // sets that are held
	top        float64 // bytes beyond which more do not count
	sets, next []Shipment
}

func NewFrontier(limit int, top float64) *frontier {
	return &frontier{most: limit, top: top, sets: []Shipment{{}}}
}

// Add adds to every set, and leaves out of it, an activation of so many bytes that
// takes move seconds to transfer and can be sent, and in reversed time fetched,
// not before these times. O(sets).
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

// keep appends x unless one of the sets of more bytes is as fast. It looks at the
// last few only: a set too many does no harm.
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

// halve replaces two sets each by one that dominates both.
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

// Least returns the least cost of the sets of at least so many bytes, +Inf if
// there are none.
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
