// Package lifetimes holds buffers with their lifetimes and sizes, the instances
// of offline dynamic storage allocation: which addresses the buffers get is the
// answer, in what order memory is allocated and freed is known beforehand.
// Garey and Johnson, Computers and Intractability, 1979, problem SR2.
package lifetimes

import (
	"math"
	"slices"

	"workbench/model/platform"
	"workbench/model/strictjson"
)

// Format and FormatV2 name the file formats written by this package: the second where an
// instance has more than buffers with one lifetime each and a common alignment.
const (
	Format   = "workbench.lifetimes/v1"
	FormatV2 = "workbench.lifetimes/v2"
)

// Kind names instances of this type.
const Kind = "lifetimes"

// Objectives of a placement.
const (
	Height        = "height"         // the sum of the heights of all pools; the default
	LargestHeight = "largest-height" // the height of the highest pool
	TotalPenalty  = "penalty"        // the penalties within the capacities, then the height
)

// Objectives returns the names of the objectives, the default first.
func Objectives() []string { return []string{Height, LargestHeight, TotalPenalty} }

// Lifetimes are buffers that each need an address while they live. Sizes, offsets and
// capacities are integers of Unit, which is the byte unless a file has decimals. Pairs
// refer to buffers by index.
type Lifetimes struct {
	Name    string
	Buffers []Buffer
	Align   int64  // addresses are multiples of so many bytes; 0 is any, as 1
	Pools   []Pool // nil: one without a capacity
	// Separations never share an address, Colocations have the same one, Exclusions never
	// coexist although their lifetimes overlap.
	Separations, Colocations, Exclusions []Pair
	Penalties                            []Penalty
	Objective                            string // "": Height
	Unit                                 platform.Unit
	Source                               map[string]any     // where the numbers come from; free form
	Extra                                []strictjson.Extra // the user's own fields ("x-…")
}

// A Pool is a memory of its own.
type Pool struct {
	ID, Name string
	Capacity float64 // infinite: none
	Reserved []Range // that no buffer may overlap
}

// A Range is the addresses from Begin on up to End, the latter excluded.
type Range struct{ Begin, End float64 }

// A Pair is two buffers.
type Pair struct{ First, Second int }

// A Penalty costs Cost if the address ranges of the two buffers overlap in one pool.
type Penalty struct {
	Pair
	Cost int64
}

// An Interval is the instants from Lower on up to Upper, the latter excluded.
type Interval struct {
	Lower int64 `json:"lower"`
	Upper int64 `json:"upper"`
}

// A Buffer lives from Lower up to Upper, the latter excluded: one that ends when
// another begins may give it its address. Instants count steps, operations or cycles;
// only their order matters.
type Buffer struct {
	ID           string // unique
	Lower, Upper int64  // Lower < Upper
	Gaps         []Interval
	Size         float64
	Align        int64 // of this buffer, in bytes; 0: that of the instance
	Pool         int   // index
	// Pinned buffers have their Offset given. Exclusive ones share it with no other buffer
	// of the pool at any time.
	Pinned, Exclusive bool
	Offset            float64
}

// Kind, Title, Size, Batch, TotalTime and Scale are common to all instances: see package
// plan. A buffer takes no time to compute.
func (l *Lifetimes) Kind() string         { return Kind }
func (l *Lifetimes) Title() string        { return l.Name }
func (l *Lifetimes) Size() string         { return platform.Count(len(l.Buffers), "buffer") }
func (l *Lifetimes) Batch() int           { return 0 }
func (l *Lifetimes) TotalTime() float64   { return 0 }
func (l *Lifetimes) Scale() platform.Unit { return l.Unit }

// Grid returns what addresses are multiples of in units: 1 if any will do.
func (l *Lifetimes) Grid() int64 {
	if l.Align == 0 {
		return 1
	}
	return l.Align * int64(l.Unit.PerByte())
}

// GridOf returns what the addresses of buffer i are multiples of in units. The buffer's
// alignment replaces that of the instance.
func (l *Lifetimes) GridOf(i int) int64 {
	if a := l.Buffers[i].Align; a > 0 {
		return a * int64(l.Unit.PerByte())
	}
	return l.Grid()
}

// Intervals returns when the buffer lives, in order of time. O(gaps).
func (b *Buffer) Intervals() []Interval {
	all := make([]Interval, 0, len(b.Gaps)+1)
	from := b.Lower
	for _, g := range b.Gaps {
		all = append(all, Interval{from, g.Lower})
		from = g.Upper
	}
	return append(all, Interval{from, b.Upper})
}

// Overlaps reports whether two buffers are alive at one instant, by their intervals
// alone. O(gaps).
func (b *Buffer) Overlaps(c *Buffer) bool {
	if b.Lower >= c.Upper || c.Lower >= b.Upper {
		return false
	}
	if len(b.Gaps)+len(c.Gaps) == 0 {
		return true
	}
	p, q := b.Intervals(), c.Intervals()
	for i, j := 0, 0; i < len(p) && j < len(q); {
		if p[i].Lower < q[j].Upper && q[j].Lower < p[i].Upper {
			return true
		}
		if p[i].Upper <= q[j].Upper {
			i++
		} else {
			j++
		}
	}
	return false
}

// PoolList returns the pools, one without a capacity where the file names none.
func (l *Lifetimes) PoolList() []Pool {
	if l.Pools == nil {
		return []Pool{{Capacity: math.Inf(1)}}
	}
	return l.Pools
}

// Structured reports whether only a v2 file can hold the instance.
func (l *Lifetimes) Structured() bool {
	return l.Pools != nil || len(l.Separations)+len(l.Colocations)+len(l.Exclusions)+len(l.Penalties) > 0 || l.Objective != "" ||
		slices.ContainsFunc(l.Buffers, func(b Buffer) bool { return b.Gaps != nil || b.Align > 0 || b.Pinned })
}
