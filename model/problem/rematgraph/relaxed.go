package rematgraph

import (
	"math"

	"workbench/model/maxflow"
)

// A Lagrangian relaxation of a choice prices memory: to keep a value costs its
// size, to compute it again its time, and who computes a value again needs all
// that it reads. The cheapest way is a minimum cut, and less the price of the
// room it is a lower bound for any price.
type relaxed struct {
	*choice
	cut maxflow.Network
	arc []int // the arc of the size of each value

	// The nodes that are computed again at the last prices below and above the
	// best: too little to fit, and enough.
	less, more []int

	tangents []tangent // that have been found: what computing again takes at least
}

// A tangent says that what is computed again takes cut quanta less price for each byte
// that there is room for at least.
type tangent struct {
	price float64
	cut   int64
}

// needed and computed are the nodes of the network for the i-th value, and for
// the j-th node.
func (k *relaxed) needed(i int) int   { return 2 + i }
func (k *relaxed) computed(j int) int { return 2 + len(k.value) + j }

// build makes the network of the cut: for each value a node "needed after x", for
// each node one "computed after x". An arc from a value to its writer has the
// price of keeping it, one from the latter to the sink its time, nothing if it may
// not have been computed before; who computes a node needs what that reads.
func (k *relaxed) build() {
	v := k.b.v
	k.cut.Reset(2 + len(k.value) + len(k.node))
	k.arc = k.arc[:0]
	for i, f := range k.value {
		if k.needs[f] {
			k.cut.Arc(maxflow.Source, k.needed(i), maxflow.Unlimited)
		}
		k.arc = append(k.arc, k.cut.Arc(k.needed(i), k.computed(k.place[v.Writer[f]]), 0))
	}
	for j, x := range k.node {
		if !k.free[x] {
			k.cut.Arc(k.computed(j), maxflow.Sink, k.b.time[x])
		}
		for _, p := range v.Pred[x] {
			if i := k.item[p]; i >= 0 {
				k.cut.Arc(k.computed(j), k.needed(i), maxflow.Unlimited)
			}
		}
	}
}

// at returns the Lagrangian at a price of memory in quanta per byte: its value,
// rounded down, its slope, which is the size of what is kept less the room, and
// appends to again what is computed again.
func (k *relaxed) lagrangian(price float64, again []int) (value int64, slope float64, _ []int) {
	v := k.b.v
	k.cut.Restore()
	for i, f := range k.value {
		// More than mostQuanta is in no minimum cut.
		k.cut.Set(k.arc[i], int64(min(math.Nextafter(price*v.Memory[f], 0), mostQuanta)))
	}
	cut := k.cut.Run()
	k.tangents = append(k.tangents, tangent{price, cut})
	value = cut - int64(min(math.Ceil(math.Nextafter(price*k.room, math.Inf(1))), 4*mostQuanta))
	side := k.cut.SourceSide()
	for i, f := range k.value {
		if side[k.needed(i)] && !side[k.computed(k.place[v.Writer[f]])] {
			slope += v.Memory[f]
		}
	}
	for j, x := range k.node {
		if side[k.computed(j)] && !k.free[x] {
			again = append(again, x)
		}
	}
	return value, slope - k.room, again
}

// solve returns the largest value of the Lagrangian, which is concave and
// piecewise linear: where the tangents of two prices on either side of the
// maximum meet, until nothing is above. It gives up, with a value that is still
// a bound, when it cannot exceed enough. All times are in quanta.
func (k *relaxed) solve(enough int64) int64 {
	k.build()
	// For nothing everything needed is kept; at some price nothing that takes memory
	// is. That of values of a few bytes, which products of prices would not survive, is
	// not where to begin.
	low, lowValue, lowSlope := 0.0, int64(0), k.size-k.room
	k.less = k.less[:0]
	total := 0.0
	for _, j := range k.node {
		total += float64(k.b.time[j])
	}
	high := total / max(k.size, k.room)
	if high == 0 {
		return 0
	}
	var highValue int64
	var highSlope float64
	for {
		if highValue, highSlope, k.more = k.lagrangian(high, k.more[:0]); highSlope <= 0 {
			break
		}
		low, lowValue, lowSlope = high, highValue, highSlope
		k.less = append(k.less[:0], k.more...)
		high *= 4
	}
	best := max(lowValue, highValue)
	var again []int
	for highSlope < lowSlope {
		// lowValue + lowSlope (p - low) = highValue + highSlope (p - high)
		p := (float64(highValue-lowValue) + lowSlope*low - highSlope*high) / (lowSlope - highSlope)
		top := float64(lowValue) + lowSlope*(p-low)
		// The last 1e-9 are not worth a cut.
		if top <= float64(best)*(1+1e-9) || top <= float64(enough) || !(p > low && p < high) {
			break
		}
		var value int64
		var slope float64
		value, slope, again = k.lagrangian(p, again[:0])
		best = max(best, value)
		if slope == lowSlope || slope == highSlope {
			break // a tangent that is known, but for rounding
		}
		if slope > 0 {
			low, lowValue, lowSlope = p, value, slope
			k.less = append(k.less[:0], again...)
		} else {
			high, highValue, highSlope = p, value, slope
			k.more = append(k.more[:0], again...)
		}
	}
	return best
}
