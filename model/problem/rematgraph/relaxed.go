package rematgraph

import (
	"math"

	"workbench/model/maxflow"
)

// relaxed is the Lagrangian relaxation of a choice: it prices memory. Keeping a value costs its
// size times the price, recomputing it costs its time, and recomputing it needs everything its node
// reads. The minimum of this is a minimum cut. Less the price of the available memory it is a lower
// bound for any price.
type relaxed struct {
	*choice
	cut maxflow.Network
	arc []int // by value: the arc with its size as capacity

	// less and more are the nodes recomputed at the last prices below and above the best one: too
	// few for the rest to fit, and enough.
	less, more []int

	tangents []tangent // lower bounds on recomputation found so far
}

// tangent is a valid inequality: recomputation takes at least cut − price·s quanta if s bytes are
// available.
type tangent struct {
	price float64
	cut   int64
}

// needed and computed return the network nodes of the i-th value and of the j-th node.
func (k *relaxed) needed(i int) int   { return 2 + i }
func (k *relaxed) computed(j int) int { return 2 + len(k.value) + j }

// build builds the network of the cut. It has a node "needed after x" for each value, and a node
// "computed after x" for each graph node. An arc from a value to its writer has the price of
// keeping the value. An arc from a writer to the sink has its time, and is absent if the node may
// be computed for the first time after x. Unlimited arcs from a node to its inputs state that
// computing it needs them.
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

// lagrangian returns the Lagrangian at a price in quanta per byte: its value, rounded down, and its
// slope, the size of what is kept less the available memory. It appends the recomputed nodes to
// again.
func (k *relaxed) lagrangian(price float64, again []int) (value int64, slope float64, _ []int) {
	v := k.b.v
	k.cut.Restore()
	for i, f := range k.value {
		// No minimum cut has an arc above mostQuanta.
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

// solve returns the maximum of the Lagrangian, which is concave and piecewise linear, in quanta.
// The next price is where the tangents of two prices on either side of the maximum intersect, until
// nothing is above the intersection. It stops early, with a valid bound, when it cannot exceed
// enough.
func (k *relaxed) solve(enough int64) int64 {
	k.build()
	// At price 0 everything needed is kept; at a high enough price nothing that occupies memory is.
	// The first price is not derived from the smallest values: with values of a few bytes, products
	// of such prices would overflow.
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
		// A relative improvement of 1e-9 is not worth another cut.
		if top <= float64(best)*(1+1e-9) || top <= float64(enough) || !(p > low && p < high) {
			break
		}
		var value int64
		var slope float64
		value, slope, again = k.lagrangian(p, again[:0])
		best = max(best, value)
		if slope == lowSlope || slope == highSlope {
			break // a known tangent, except for rounding
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
