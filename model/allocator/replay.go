package allocator

import (
	"fmt"
	"strings"
)

// A Trace is what a plan takes and gives back on one device, in order of time.
type Trace struct {
	Device string  `json:"device,omitempty"` // "gpu1" of a pipeline; else empty
	Blocks []Block `json:"-"`
	Events []Event `json:"-"`
}

// A Block is memory that is taken once and given back at most once; what is
// still taken when the trace ends goes with the end.
type Block struct {
	Size   int64  // bytes, at least 1
	Tensor string // what it holds: "a", "abar", "delta", "w", "overhead", the id of a variable or node
	Layer  int    // of a tensor of a chain; -1: none
}

// String names what is in the block: "abar_3", "overhead of 4".
func (b *Block) String() string {
	switch {
	case b.Layer < 0:
		return b.Tensor
	case strings.Contains(b.Tensor, "overhead"):
		return fmt.Sprintf("%s of %d", b.Tensor, b.Layer)
	}
	return fmt.Sprintf("%s_%d", b.Tensor, b.Layer)
}

// An Event takes a block or gives it back.
type Event struct {
	Time  float64 // seconds
	Block int32   // index in Blocks
	Free  bool
}

// A Sample is the use of memory from Time to the next sample's.
type Sample struct {
	Time float64 `json:"time"`
	Usage
}

// A Failure is a request that could not be met.
type Failure struct {
	Time  float64 `json:"time"`  // seconds, from the start of the step
	Step  int     `json:"step"`  // from 1
	Block string  `json:"block"` // what it was for
	Size  int64   `json:"size"`
	Usage Usage   `json:"usage"` // when it failed
	// Fragmented says that as much as was asked for is not requested by anybody,
	// so that only fragmentation is in the way.
	Fragmented bool `json:"fragmented"`
}

// A Report is what a replay saw. Sizes are in bytes.
type Report struct {
	Device    string `json:"device,omitempty"`
	Allocator string `json:"allocator"`
	Capacity  int64  `json:"capacity,omitempty"` // 0: unlimited
	Requests  int    `json:"requests"`           // of one step
	// Most is the most blocks in use at once: N_max of [003] (2).
	Most int `json:"most_blocks"`
	// Peaks, each over all the time.
	Reserved  int64 `json:"peak_reserved"`
	Used      int64 `json:"peak_used"`
	Requested int64 `json:"peak_requested"`
	Internal  int64 `json:"peak_internal"`
	External  int64 `json:"peak_external"`
	// AtPeak is the use when Reserved was first reached.
	AtPeak  Usage    `json:"at_peak_reserved"`
	Failure *Failure `json:"failure"` // the first request that did not fit, where the replay ended; nil: all fit
	Samples []Sample `json:"samples,omitempty"`
}

// Replay lets a run through t so many times, one after the other with what is
// cached kept, as training repeats its step. capacity is a's, to be reported. It
// stops at the first request that does not fit. If record, the samples are those
// of the last step. O(steps · events · cost of a).
func Replay(t *Trace, a Allocator, capacity int64, steps int, record bool) *Report {
	r := &Report{Device: t.Device, Allocator: a.Name()}
	if capacity < Unlimited {
		r.Capacity = capacity
	}
	held := make([]int, len(t.Blocks)) // the allocator's number of a block, and 1; 0: none
	if record {
		r.Samples = make([]Sample, 0, len(t.Events))
	}
	for step := 1; step <= steps; step++ {
		live := 0
		r.Requests = 0
		for _, e := range t.Events {
			if e.Free {
				a.Free(held[e.Block] - 1)
				held[e.Block] = 0
				live--
			} else {
				x := &t.Blocks[e.Block]
				id, ok := a.Alloc(x.Size)
				if !ok {
					u := a.Usage()
					r.Failure = &Failure{Time: e.Time, Step: step, Block: x.String(), Size: x.Size, Usage: u, Fragmented: x.Size <= capacity-u.Requested}
					return r
				}
				held[e.Block] = id + 1
				live++
				r.Requests++
				r.Most = max(r.Most, live)
			}
			u := a.Usage()
			r.observe(u)
			if record && step == steps {
				r.sample(e.Time, u)
			}
		}
		for b, id := range held {
			if id > 0 {
				a.Free(id - 1)
				held[b] = 0
			}
		}
	}
	return r
}

func (r *Report) observe(u Usage) {
	if u.Reserved > r.Reserved {
		r.Reserved, r.AtPeak = u.Reserved, u
	}
	r.Used = max(r.Used, u.Used)
	r.Requested = max(r.Requested, u.Requested)
	r.Internal = max(r.Internal, u.Internal())
	r.External = max(r.External, u.External())
}

// sample keeps the last use of each instant and the highest before it, so that
// what comes and goes within an instant is seen.
func (r *Report) sample(time float64, u Usage) {
	n := len(r.Samples)
	if n >= 2 && r.Samples[n-1].Time == time && r.Samples[n-2].Time == time {
		if r.Samples[n-1].Requested >= r.Samples[n-2].Requested {
			r.Samples[n-2] = r.Samples[n-1]
		}
		r.Samples[n-1] = Sample{time, u}
		return
	}
	r.Samples = append(r.Samples, Sample{time, u})
}

// Peak returns the most bytes that t requests at once. O(events).
func (t *Trace) Peak() int64 {
	var now, peak int64
	for _, e := range t.Events {
		if e.Free {
			now -= t.Blocks[e.Block].Size
		} else {
			now += t.Blocks[e.Block].Size
			peak = max(peak, now)
		}
	}
	return peak
}

// LeastCapacity looks by bisection for the smallest device, to a part in a
// thousand, on which t fits with the allocator that make returns; 0: none up to
// most. More room can let a best fit fail that less room did not, so that there
// may be smaller ones. O(log · steps · events).
func LeastCapacity(t *Trace, steps int, most int64, make func(capacity int64) Allocator) int64 {
	fits := func(capacity int64) bool { return Replay(t, make(capacity), capacity, steps, false).Failure == nil }
	low, high := t.Peak()-1, most // low does not fit
	if !fits(high) {
		return 0
	}
	for step := max(high>>10, 1); high-low > step; {
		if mid := low + (high-low)/2; fits(mid) {
			high = mid
		} else {
			low = mid
		}
	}
	return high
}
