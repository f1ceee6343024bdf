package cycle

import (
	"cmp"
	"math"
	"slices"

	"workbench/model/plan"
)

// change is a step of the memory in use at a time in [0,T).
type change struct {
	t float64
	// rank orders simultaneous changes: releases first, then operations of no
	// duration in the order of the program, each with the deletion of its
	// weight, then other starts, then prefetches.
	rank int
	kind changeKind
	// d is bytes of weights or of others; for a moment what the operation
	// itself holds beside weights.
	d float64
}

type changeKind int

const (
	weight changeKind = iota
	other
	moment // an operation of no duration: changes nothing for long
)

// curve is the memory in use over one cycle, as changes.
type curve struct {
	in            *Instance
	s             *Schedule
	eps           float64 // times closer than this are simultaneous
	held, weights float64 // at time 0, before the operations that start then
	all           []change
}

// Ranks of changes that are not of operations of no duration.
func (c *curve) first() int { return -4 * c.in.N }
func (c *curve) start() int { return 4 * c.in.N }
func (c *curve) final() int { return 5 * c.in.N }

// instant returns the rank of operation j of no duration.
func (c *curve) instant(j int) int {
	if c.atEnd(j) {
		return 2*j - 2*c.in.N
	}
	return 2 * j
}

// atEnd reports whether operation j starts at T, which is the instant 0.
func (c *curve) atEnd(j int) bool { return c.s.Op[j]-c.s.Op[0] >= c.s.T-c.eps }

func (c *curve) add(t float64, rank int, kind changeKind, d float64) {
	if t = wrap(t-c.s.Op[0], c.s.T); t >= c.s.T-c.eps {
		t = 0
	}
	if d != 0 {
		c.all = append(c.all, change{t, rank, kind, d})
	}
}

// lap returns the number of the cycle that time t falls in, times just before
// its start included.
func (c *curve) lap(t float64) float64 {
	if c.s.T <= 0 {
		return 0
	}
	return math.Floor((t-c.s.Op[0])/c.s.T + plan.Tolerance)
}

// operations adds the changes of activations and gradients.
func (c *curve) operations() {
	in := c.in
	for j, t := range c.s.Op {
		if d := in.Act[j] - in.Act[in.Before(j)]; d < 0 {
			c.add(t, c.first(), other, d)
		} else {
			c.add(t, c.start(), other, d)
		}
		if g := in.Gap(j); in.Backward(j) && c.s.Away[g] && c.s.Pre[g] >= c.s.At(j+in.N*(g&1))-c.eps {
			// Its weight comes at this instant, before it starts and what was held goes.
			c.add(t, c.instant(j), moment, in.Act[in.Before(j)]+in.W[in.Layer(j)])
		}
		gradient := 0.0
		if in.Backward(j) {
			gradient = in.W[in.Layer(j)]
		}
		if in.U[j] <= c.eps {
			c.add(t, c.instant(j), moment, in.Act[j]+gradient)
			continue
		}
		c.add(t, c.start(), other, gradient)
		if gradient > 0 {
			// At T, not at 0, if only operations of no duration follow.
			c.all = append(c.all, change{t - c.s.Op[0] + in.U[j], c.first(), other, -gradient})
		}
	}
}

// transfers adds the changes of weights.
func (c *curve) transfers() {
	for g, away := range c.s.Away {
		if !away {
			continue
		}
		w, gone := c.in.W[g>>1], c.s.Deleted(c.in, g)
		rank := c.first()
		if j := c.in.Last(g); c.in.U[j] <= c.eps && gone-c.s.Op[j] <= c.eps {
			rank = c.instant(j) + 1
		}
		c.add(gone, rank, weight, -w)
		c.add(c.s.Pre[g], c.final(), weight, w)
		// Away at the instant 0 if the gap spans a multiple of T.
		c.weights -= w * (c.lap(c.s.Pre[g]) - c.lap(gone))
	}
}

// peak follows the changes through the cycle.
func (c *curve) peak() float64 {
	slices.SortFunc(c.all, func(a, b change) int { return cmp.Compare(a.t, b.t) })
	peak := 0.0
	for i := 0; i < len(c.all); {
		j := i + 1
		for j < len(c.all) && c.all[j].t-c.all[i].t <= c.eps {
			j++
		}
		slices.SortStableFunc(c.all[i:j], func(a, b change) int { return cmp.Compare(a.rank, b.rank) })
		for ; i < j; i++ {
			x := c.all[i]
			switch {
			case x.kind == moment:
				peak = max(peak, c.weights+x.d)
				continue
			case x.kind == weight:
				c.weights += x.d
			default:
				c.held += x.d
			}
			if x.d > 0 {
				peak = max(peak, c.held+c.weights)
			}
		}
	}
	return max(peak, c.held+c.weights)
}

// Peak returns the largest memory in use at any instant. Times closer than
// plan.Tolerance of T are simultaneous: releases come before starts, prefetches
// last. O(L log L).
func (s *Schedule) Peak(in *Instance) float64 {
	c := &curve{in: in, s: s, eps: plan.Tolerance * s.T, weights: in.Total, all: make([]change, 0, 6*in.L)}
	// At time 0 the operations that start at T have not; they do then.
	last := in.N - 1
	for last > 0 && c.atEnd(last) {
		last--
	}
	c.held = in.Act[last]
	c.operations()
	c.transfers()
	return c.peak()
}
