package race

import "math"

const (
	// mostBeyond is how many places a mini-batch that is further is looked for.
	mostBeyond = 4
	// gone is the number of a mini-batch that has left.
	gone = mostInside
)

// compare finds where a mini-batch is so much further that no more of it is stored than anywhere on the way
// there. O(steps³·P).
func (c *Race) compare() {
	n := len(c.Steps)
	c.beyond, c.short = make([][]int, n+1), make([][]int, n+1)
	for p := 1; p < n; p++ {
		for q := p + 1; q <= n && len(c.beyond[p]) < mostBeyond; q++ {
			if c.noMore(p, q) {
				c.beyond[p] = append(c.beyond[p], q)
				c.short[q] = append(c.short[q], p)
			}
		}
	}
}

// noMore reports whether at place q no more is stored than anywhere from p on.
func (c *Race) noMore(p, q int) bool {
	for ; p < q && q < len(c.Steps); p++ {
		for r, held := range c.Stored[q] {
			if held > c.Stored[p][r] {
				return false
			}
		}
	}
	return true
}

// A way is ahead of another if one mini-batch is further, where no more of it is stored than anywhere on the way
// there, if what it has begun last is over, and if no time is later; that of the mini-batch than it can be when the
// other takes the same steps. What the other may do, it may do as early, without these steps.

// outrun reports whether a way is there that is ahead of x.
func (c *Race) outrun(x *runner) bool {
	y, first := &c.other, 1+len(c.Room)
	for m, at := range x.places[:x.inside] {
		p, limit := int(at), len(c.Steps)
		if m+1 < x.inside {
			limit = int(x.places[m+1])
		}
		for _, q := range c.beyond[p] {
			if q > limit {
				break
			}
			y.places, y.inside, y.times = x.places, x.inside, append(y.times[:0], x.times...)
			who := m
			if q == len(c.Steps) {
				y.inside, y.places[m], y.times, who = m, 0, y.times[:first+m], gone
			} else {
				y.places[m] = uint8(q)
				y.times[first+m] = max(x.times[first+m], x.times[1+c.Steps[p].On]) + c.lead[q] - c.lead[p]
			}
			if c.memory.outrun(y, who) {
				return true
			}
		}
	}
	return false
}

// outruns drops the ways that x is ahead of.
func (c *Race) outruns(x *runner) {
	y, first := &c.other, 1+len(c.Room)
	for m := range min(x.inside+1, mostInside) {
		q, least := len(c.Steps), 1
		if m < x.inside {
			q = int(x.places[m])
		}
		if x.open>>m&1 == 1 {
			continue
		}
		if m > 0 {
			least = int(x.places[m-1])
		}
		for _, p := range c.short[q] {
			if p < least {
				continue
			}
			y.places, y.inside, y.times = x.places, x.inside, append(y.times[:0], x.times...)
			y.places[m] = uint8(p)
			ready := int32(math.MinInt32)
			if m == x.inside {
				y.inside, y.times = y.inside+1, append(y.times, leastTime)
			} else {
				ready = x.times[first+m] - (c.lead[q] - c.lead[p])
				y.times[first+m] = leastTime
			}
			c.memory.drop(y, first+m, 1+c.Steps[p].On, ready)
		}
	}
}
