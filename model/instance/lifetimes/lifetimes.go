// Package lifetimes holds buffers with their lifetimes and sizes, the instances
// of offline dynamic storage allocation: which addresses the buffers get is the
// answer, in what order memory is asked for and given back is known beforehand.
// Garey and Johnson, Computers and Intractability, 1979, problem SR2.
package lifetimes

import (
	"workbench/model/platform"
	"workbench/model/strictjson"
)

// Format names the file format written by this package.
const Format = "workbench.lifetimes/v1"

// Kind names instances of this type.
const Kind = "lifetimes"

// Lifetimes are buffers that each need an address while they live. Sizes are
// whole numbers of Unit, which is the byte unless a file has decimals.
type Lifetimes struct {
	Name    string
	Buffers []Buffer
	Align   int64 // addresses are multiples of so many bytes; 0 is any, as 1
	Unit    platform.Unit
	Source  map[string]any     // where the numbers come from; free form
	Extra   []strictjson.Extra // the user's own fields ("x-…")
}

// A Buffer lives from Lower up to Upper, the latter excluded: one that ends when
// another begins may give it its address. The instants count something, steps,
// operations, cycles; only their order matters.
type Buffer struct {
	ID           string // unique
	Lower, Upper int64  // Lower < Upper
	Size         float64
}

// Kind, Title, Size, Batch, TotalTime and Scale say what is common to all
// instances: see package plan. A buffer takes no time to compute.
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
