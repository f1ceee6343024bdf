// Package activationoffload finds optimal plans of activation offloading of tiny chains by
// exhaustive search.
package activationoffload

import (
	"fmt"
	"math"

	"workbench/model/exhaustive"
	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
)

// MaxLayers is the length of the longest chain that [Search] takes.
const MaxLayers = 10

// Search returns the least makespan of activation offloading in the integral
// model ([004] Problem 7), and a plan that has it: all sets of tensors, all orders of the transfers, offloads and
// prefetches mixed in any way (finding 17 shows that they must be), all ways to
// interleave them with the computations. Durations and sizes may be any numbers.
// limit is the most states to visit: random chains of five layers have some
// hundred, at most a few thousand, of nine some ten thousand. The errors are
// [exhaustive.ErrInfeasible], [exhaustive.ErrLimit] and [exhaustive.ErrTooHard].
//
// It is A* over states (computations started, place of each tensor, what runs), whose
// labels are the time and the times at which what runs will end: one label dominates
// another if it is nowhere later. The lower bound on what is to come is the
// computations that are left, and the transfers that must still run.
//
// It is enough to try plans in which
//
//  1. every ā_i is offloaded at most once, and then fetched once, before
//     B_{i+1} starts. Take an offload that runs or starts when or after B_{i+1}
//     starts. ā_i is freed after B_{i+1}, so if it is fetched for B_i, that is
//     between B_{i+1} and B_i. Leave out both, and of the transfers that start
//     between B_{i+1} and B_i let the offloads go first (and leave out both
//     transfers of what is fetched and offloaded again). The link is done no
//     later, memory first falls and then rises, at the end of B_{i+1} it is at
//     most that during B_{i+1}, and when B_i starts it is what it was. If it is
//     not fetched, B_i frees it sooner without the offload. And of two offloads
//     before B_{i+1}, the prefetch between them and the second offload can be
//     left out: nothing uses ā_i in between;
//  2. everything starts at time 0 or when something else ends. Take the order in
//     which things start in a plan, and for each start what has ended by then.
//     Whether the rules are kept depends only on that: if in addition
//     something ends sooner, memory is freed sooner and inputs are there sooner
//     (with 1, nothing that is offloaded is used after F_{i+1}, which it waits
//     for). So let everything start as early as the order of starts and the ends
//     before each start allow; then each start that is not at 0 is
//     at the time of an end, or of another start of which the same holds. The
//     plan is no longer than before. Starts that have become simultaneous only
//     gain by the rule that prefetches reserve last;
//  3. tensors of no bytes stay where they are.
func Search(c *chain.Chain, memory, bandwidth float64, limit int) (float64, *plan.Plan, error) {
	s, err := newOffload(c, memory, bandwidth, limit)
	if err != nil {
		return 0, nil, err
	}
	last, err := s.Run(offloadState{}, s.finished, s.expand)
	if err != nil {
		return 0, nil, err
	}
	return s.Labels[last].Cost, s.plan(c, platform.Platform{Memory: memory, Bandwidth: bandwidth}, last), nil
}

// Places of a tensor. A tensor that is being sent is home, one that is being
// fetched is back.
const (
	home int8 = iota
	away
	back
)

// offloadState is a state; the numbers of tensors are those of the papers.
type offloadState struct {
	next  int8 // computations started: F_1..F_N, B_N..B_1
	runs  bool // the last of them
	link  int8 // i+1: ā_i is being sent, −i−1: fetched, 0: nothing
	fresh bool // a prefetch has just started: it reserves last
	where [MaxLayers]int8
}

// ends are when what runs on the device and on the link ends.
type ends struct{ device, link float64 }

type label = exhaustive.Label[offloadState, ends]

// Steps in addition to the transfers, which are written as in offloadState.link.
const (
	didWait    = 100
	didCompute = 101
)

type offloadSearch struct {
	exhaustive.Search[offloadState, ends]
	n        int
	duration []float64 // of computation j
	size     []float64 // ā_0..ā_N
	delta    []float64
	oF, oB   []float64
	send     []float64 // how long a transfer of ā_i takes; 0: it stays
	near     float64   // times that differ by no more are equal
}

func newOffload(c *chain.Chain, memory, bandwidth float64, limit int) (*offloadSearch, error) {
	n := c.Len()
	switch {
	case n == 0 || n > MaxLayers:
		return nil, fmt.Errorf("%w: %d layers, there can be 1 to %d", exhaustive.ErrTooHard, n, MaxLayers)
	case !(memory >= 0):
		return nil, fmt.Errorf("%w: memory is %v bytes, it must not be negative", exhaustive.ErrTooHard, memory)
	case !(bandwidth >= 0):
		return nil, fmt.Errorf("%w: bandwidth is %v, it must not be negative", exhaustive.ErrTooHard, bandwidth)
	}
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("%w: %w", exhaustive.ErrTooHard, err)
	}
	s := &offloadSearch{
		n: n, duration: make([]float64, 2*n), size: make([]float64, n+1), delta: make([]float64, n+1),
		oF: make([]float64, n+1), oB: make([]float64, n+1), send: make([]float64, n),
	}
	s.Memory, s.Limit, s.Bound, s.Dominates = memory, limit, s.bound, s.dominates
	s.Needs = func(x offloadState) float64 { return s.needs(&x) }
	s.size[0], s.delta[0] = c.Input.Activation, c.Input.Gradient
	for i := range c.Layers {
		l := &c.Layers[i]
		s.duration[i], s.duration[2*n-1-i] = l.ForwardTime, l.BackwardTime
		s.size[i+1], s.delta[i+1], s.oF[i+1], s.oB[i+1] = l.Saved, l.Gradient, l.ForwardOverhead, l.BackwardOverhead
	}
	horizon := c.TotalTime()
	if bandwidth > 0 {
		for i := range s.send {
			s.send[i] = s.size[i] / bandwidth
			horizon += 2 * s.send[i]
		}
	}
	s.near = 1e-13 * horizon
	return s, nil
}

// ended reports whether computation j has.
func (x *offloadState) ended(j int) bool {
	return int(x.next) > j+1 || int(x.next) == j+1 && !x.runs
}

// backward is the computation B_ℓ; that of F_ℓ is ℓ−1.
func (s *offloadSearch) backward(l int) int { return 2*s.n - l }

// needs returns the memory in use in state x.
func (s *offloadSearch) needs(x *offloadState) float64 {
	sum := 0.0
	for i := 0; i <= s.n && i <= int(x.next); i++ {
		// ā_i is there from the start of F_i to the end of B_i (ā_0: B_1), but not
		// between F_{i+1} and its prefetch if it has been sent.
		gone := i < s.n && x.where[i] == away && x.ended(i)
		if !gone && !x.ended(s.backward(max(i, 1))) {
			sum += s.size[i]
		}
	}
	j := int(x.next) - 1
	switch {
	case j < 0:
	case j < s.n:
		if x.runs {
			sum += s.oF[j+1]
		}
	default:
		l := 2*s.n - j // of B_ℓ
		sum += s.delta[l-1]
		if x.runs {
			sum += s.delta[l] + s.oB[l]
		}
	}
	return sum
}

func (s *offloadSearch) finished(x offloadState) bool { return int(x.next) == 2*s.n && !x.runs }

// dominates reports whether a is nowhere later than b, but for a rounding.
func (s *offloadSearch) dominates(a, b *label) bool {
	return a.Cost <= b.Cost+s.near && a.Rest.device <= b.Rest.device+s.near && a.Rest.link <= b.Rest.link+s.near
}

// expand adds every step out of a state: what can start now, or waiting for what ends next.
func (s *offloadSearch) expand(w label) {
	x := w.State
	if !x.fresh {
		if !x.runs && int(x.next) < 2*s.n {
			s.compute(w)
		}
		if x.link == 0 {
			s.transfer(w)
		}
	}
	if !x.runs && x.link == 0 {
		return
	}
	y, end := w, w.Rest
	y.Step, y.State.fresh, y.Cost = didWait, false, math.Inf(1)
	if x.runs {
		y.Cost = end.device
	}
	if x.link != 0 {
		y.Cost = min(y.Cost, end.link)
	}
	if x.runs && end.device <= y.Cost+s.near {
		y.State.runs, y.Rest.device = false, 0
		y.Cost = max(y.Cost, end.device)
	}
	if x.link != 0 && end.link <= y.Cost+s.near {
		if i := x.link - 1; i >= 0 {
			y.State.where[i] = away
		}
		y.State.link, y.Rest.link = 0, 0
		y.Cost = max(y.Cost, end.link)
	}
	s.AddLabel(y)
}

// compute starts the next computation.
func (s *offloadSearch) compute(y label) {
	x := &y.State
	j := int(x.next)
	if j >= s.n {
		i := 2*s.n - j - 1 // B_{i+1} needs ā_i, there to stay
		if x.where[i] == away || x.link == int8(i+1) || x.link == int8(-i-1) {
			return
		}
	}
	y.Step = didCompute
	x.next++
	x.runs, y.Rest.device = true, y.Cost+s.duration[j]
	if !platform.Fits(s.needs(x), s.Memory) {
		return
	}
	if s.duration[j] == 0 {
		x.runs, y.Rest.device = false, 0
	}
	s.AddLabel(y)
}

// transfer starts an offload or a prefetch.
func (s *offloadSearch) transfer(w label) {
	x := &w.State
	for i, d := range s.send {
		if d == 0 || i > 0 && !x.ended(i-1) || int(x.next) > s.backward(i+1) {
			continue
		}
		y := w
		y.Rest.link = w.Cost + d
		switch {
		case x.where[i] == home:
			y.State.link = int8(i + 1)
		case x.where[i] == away && x.ended(i):
			y.State.link, y.State.where[i], y.State.fresh = int8(-i-1), back, true
		default:
			continue
		}
		y.Step = uint32(uint8(y.State.link))
		s.AddLabel(y)
	}
}

// bound returns a lower bound on the time that is left: the device computes what is to come,
// the link fetches what is or will be away.
func (s *offloadSearch) bound(w *label) float64 {
	x := &w.State
	device, link := w.Cost, w.Cost
	if x.runs {
		device = w.Rest.device
	}
	for j := int(x.next); j < 2*s.n; j++ {
		device += s.duration[j]
	}
	if x.link != 0 {
		link = w.Rest.link
	}
	for i, d := range s.send {
		if x.where[i] == away || x.link == int8(i+1) {
			link += d
		}
	}
	return max(device, link) - w.Cost
}

// plan writes a way as a plan.
func (s *offloadSearch) plan(c *chain.Chain, m platform.Platform, last int32) *plan.Plan {
	p := plan.New(plan.ActivationOffload, "exhaustive", c, m)
	peak := s.size[0]
	for _, w := range s.Path(last) {
		o := plan.Op{Start: w.Cost}
		x := w.State
		switch {
		case w.Step == didWait:
			continue
		case w.Step == didCompute:
			j := int(x.next) - 1
			o.Op, o.Layer = plan.OpFAll, j+1
			if j >= s.n {
				o.Op, o.Layer = plan.OpB, 2*s.n-j
			}
			o.End = o.Start + s.duration[j]
			x.runs = true
		default:
			i := int(int8(w.Step)) - 1
			o.Op = plan.OpO
			if i < 0 {
				o.Op, i = plan.OpP, -i-2
			}
			o.Tensor, o.Layer = plan.TensorAbar, i
			o.End = o.Start + s.send[i]
		}
		peak = max(peak, s.needs(&x))
		p.Ops = append(p.Ops, o)
	}
	p.Claims = plan.Claims{Makespan: s.Labels[last].Cost, PeakMemory: peak}
	return p
}
