package allocator

import (
	"fmt"
	"strings"
)

// Trace is the sequence of allocations of a plan on one device, in order of time.
type Trace struct {
	Device string  `json:"device,omitempty"` // "gpu1" of a pipeline; else empty
	Blocks []Block `json:"-"`
	Events []Event `json:"-"`
}

// Block is memory that is allocated once and freed at most once; remaining blocks are freed at the end of the
// trace.
type Block struct {
	Size   int64  // bytes, at least 1
	Tensor string // its content: "a", "abar", "delta", "w", "overhead", the id of a variable or node
	Layer  int    // of a tensor of a chain; -1: none
}

// String returns the name of the content: "abar_3", "overhead of 4".
func (b *Block) String() string {
	switch {
	case b.Layer < 0:
		return b.Tensor
	case strings.Contains(b.Tensor, "overhead"):
		return fmt.Sprintf("%s of %d", b.Tensor, b.Layer)
	}
	return fmt.Sprintf("%s_%d", b.Tensor, b.Layer)
}

// Event allocates or frees a block.
type Event struct {
	Time  float64 // seconds
	Block int32   // index in Blocks
	Free  bool
}

// Sample is the usage from Time to the next sample's.
type Sample struct {
	Time float64 `json:"time"`
	Usage
}

// Failure is a request that failed.
type Failure struct {
	Time  float64 `json:"time"`  // seconds, from the start of the step
	Step  int     `json:"step"`  // from 1
	Block string  `json:"block"` // the requested content
	Size  int64   `json:"size"`
	Usage Usage   `json:"usage"` // at the failure
	// Fragmented reports that unrequested memory of the requested size exists, so that the failure is due to
	// fragmentation.
	Fragmented bool `json:"fragmented"`
}

// Report is the result of a replay. Sizes are in bytes.
type Report struct {
	Device    string `json:"device,omitempty"`
	Allocator string `json:"allocator"`
	Capacity  int64  `json:"capacity,omitempty"` // 0: unlimited
	Requests  int    `json:"requests"`           // of one step
	// Most is the maximum number of simultaneous blocks: N_max of [003] (2).
	Most int `json:"most_blocks"`
	// Maxima over time.
	Reserved  int64 `json:"peak_reserved"`
	Used      int64 `json:"peak_used"`
	Requested int64 `json:"peak_requested"`
	Internal  int64 `json:"peak_internal"`
	External  int64 `json:"peak_external"`
	// AtPeak is the usage when Reserved first attained its maximum.
	AtPeak  Usage    `json:"at_peak_reserved"`
	Failure *Failure `json:"failure"` // the first request that failed, where the replay ended; nil: none
	Samples []Sample `json:"samples,omitempty"`
}

// Replay runs t through a the given number of times with a persistent cache, as training repeats its step.
// capacity is a's, for the report. It stops at the first request that fails. If record is set, the samples are
// those of the last step. O(steps · events · cost of a).
func Replay(t *Trace, a Allocator, capacity int64, steps int, record bool) *Report {
	r := &Report{Device: t.Device, Allocator: a.Name()}
	if capacity < Unlimited {
		r.Capacity = capacity
	}
	held := make([]int, len(t.Blocks)) // 1 + the allocator's number of a block; 0: none
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

// sample records the last usage at each time and the highest before it, so that allocations freed at the same time
// are visible.
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

// Peak returns the maximum total of requested bytes. O(events).
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

// LeastCapacity returns, by bisection and within one part in a thousand, a small capacity on which t fits with the
// allocator that make returns; 0: none up to most. Best fit can fail with more memory where it succeeds with less,
// so smaller capacities may exist. O(log · steps · events).
func LeastCapacity(t *Trace, steps int, most int64, make func(capacity int64) Allocator) int64 {
	fits := func(capacity int64) bool { return Replay(t, make(capacity), capacity, steps, false).Failure == nil }
	low, high := t.Peak()-1, most // low does not suffice
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
