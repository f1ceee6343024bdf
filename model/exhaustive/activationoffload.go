package exhaustive

import (
	"fmt"
	"math"
	"slices"

	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
)

// MaxOffloadLayers is the length of the longest chain that [Offload] searches.
const MaxOffloadLayers = 10

// Offload returns the least makespan of activation offloading in the integral
// model ([004] Problem 7, by the rules of [plan.VerifyOffload]), and a plan that
// has it: all sets of tensors, all orders of the transfers, offloads and
// prefetches mixed in any way (errata 4 shows that they must be), all ways to
// interleave them with the computations. Durations and sizes may be any numbers.
// limit is the most states to visit: random chains of five layers have some
// hundred, at most a few thousand, of nine some ten thousand. The errors are [ErrInfeasible], [ErrLimit] and [ErrTooHard].
//
// It is A* over states (computations started, place of each tensor, what runs)
// with the times at which what runs will end. Of two ways to a state one is
// dropped if it is nowhere earlier. The lower bound on what is to come is the
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
func Offload(c *chain.Chain, memory, bandwidth float64, limit int) (float64, *plan.Plan, error) {
	s, err := newOffload(c, memory, bandwidth, limit)
	if err != nil {
		return 0, nil, err
	}
	last, err := s.search()
	if err != nil {
		return 0, nil, err
	}
	return s.ways[last].now, s.plan(c, platform.Platform{Memory: memory, Bandwidth: bandwidth}, last), nil
}

// OffloadLeastMemory returns the least memory in which activation offloading has
// a plan, if the bandwidth is positive: nothing but what a computation needs is
// on the device while it runs. O(layers).
func OffloadLeastMemory(c *chain.Chain) float64 {
	most := 0.0
	in, deltaIn := c.Input.Activation, c.Input.Gradient
	for i := range c.Layers {
		l := &c.Layers[i]
		most = max(most, in+l.Saved+max(l.ForwardOverhead, deltaIn+l.Gradient+l.BackwardOverhead))
		in, deltaIn = l.Saved, l.Gradient
	}
	return most
}

// OffloadPeak returns the memory that activation offloading needs without any
// transfer ([004] (3.3)). O(layers).
func OffloadPeak(c *chain.Chain) float64 {
	most := 0.0
	before, deltaIn := c.Input.Activation, c.Input.Gradient // Σ ā_k, k < ℓ
	for i := range c.Layers {
		l := &c.Layers[i]
		most = max(most, before+l.Saved+max(l.ForwardOverhead, deltaIn+l.Gradient+l.BackwardOverhead))
		before, deltaIn = before+l.Saved, l.Gradient
	}
	return most
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
	where [MaxOffloadLayers]int8
}

// A way is a way to a state.
type way struct {
	state        offloadState
	now          float64
	device, link float64 // when what runs there ends
	from         int32
	did          int8 // what led here
	dropped      bool // a better way is known
}

// Steps of a way beside the transfers, which are written as in offloadState.link.
const (
	didWait    int8 = 100
	didCompute int8 = 101
)

type offloadSearch struct {
	n        int
	duration []float64 // of computation j
	size     []float64 // ā_0..ā_N
	delta    []float64
	oF, oB   []float64
	send     []float64 // how long a transfer of ā_i takes; 0: it stays
	memory   float64
	near     float64 // times that differ by no more are equal
	limit    int

	ways  []way
	best  map[offloadState][]int32 // none of these is better than another
	queue queue
}

func newOffload(c *chain.Chain, memory, bandwidth float64, limit int) (*offloadSearch, error) {
	n := c.Len()
	switch {
	case n == 0 || n > MaxOffloadLayers:
		return nil, fmt.Errorf("%w: %d layers, there can be 1 to %d", ErrTooHard, n, MaxOffloadLayers)
	case !(memory >= 0):
		return nil, fmt.Errorf("%w: memory is %v bytes, it must not be negative", ErrTooHard, memory)
	case !(bandwidth >= 0):
		return nil, fmt.Errorf("%w: bandwidth is %v, it must not be negative", ErrTooHard, bandwidth)
	}
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrTooHard, err)
	}
	s := &offloadSearch{
		n: n, duration: make([]float64, 2*n), size: make([]float64, n+1), delta: make([]float64, n+1),
		oF: make([]float64, n+1), oB: make([]float64, n+1), send: make([]float64, n),
		memory: memory, limit: limit, best: make(map[offloadState][]int32),
	}
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

// search returns the best way to the end.
func (s *offloadSearch) search() (int32, error) {
	first := way{from: -1}
	if platform.Fits(s.needs(&first.state), s.memory) {
		s.add(first)
	}
	for left := 0; len(s.queue) > 0; {
		at := s.queue.pop().node
		w := s.ways[at]
		if w.dropped {
			continue
		}
		if int(w.state.next) == 2*s.n && !w.state.runs {
			return at, nil
		}
		if left++; left > s.limit {
			return 0, fmt.Errorf("%w: more than %d", ErrLimit, s.limit)
		}
		s.expand(&w, at)
	}
	return 0, ErrInfeasible
}

// expand takes every step out of a way: what can start now, or waiting for what
// ends next.
func (s *offloadSearch) expand(w *way, at int32) {
	x := &w.state
	if !x.fresh {
		if !x.runs && int(x.next) < 2*s.n {
			s.compute(w, at)
		}
		if x.link == 0 {
			s.transfer(w, at)
		}
	}
	if !x.runs && x.link == 0 {
		return
	}
	y := *w
	y.from, y.did, y.state.fresh = at, didWait, false
	y.now = math.Inf(1)
	if x.runs {
		y.now = w.device
	}
	if x.link != 0 {
		y.now = min(y.now, w.link)
	}
	if x.runs && w.device <= y.now+s.near {
		y.state.runs, y.device = false, 0
		y.now = max(y.now, w.device)
	}
	if x.link != 0 && w.link <= y.now+s.near {
		if i := x.link - 1; i >= 0 {
			y.state.where[i] = away
		}
		y.state.link, y.link = 0, 0
		y.now = max(y.now, w.link)
	}
	s.add(y)
}

// compute starts the next computation.
func (s *offloadSearch) compute(w *way, at int32) {
	x := &w.state
	j := int(x.next)
	if j >= s.n {
		i := 2*s.n - j - 1 // B_{i+1} needs ā_i, there to stay
		if x.where[i] == away || x.link == int8(i+1) || x.link == int8(-i-1) {
			return
		}
	}
	y := *w
	y.from, y.did = at, didCompute
	y.state.next++
	y.state.runs, y.device = true, w.now+s.duration[j]
	if !platform.Fits(s.needs(&y.state), s.memory) {
		return
	}
	if s.duration[j] == 0 {
		y.state.runs, y.device = false, 0
	}
	s.add(y)
}

// transfer starts an offload or a prefetch.
func (s *offloadSearch) transfer(w *way, at int32) {
	x := &w.state
	for i, d := range s.send {
		if d == 0 || i > 0 && !x.ended(i-1) || int(x.next) > s.backward(i+1) {
			continue
		}
		y := *w
		y.from, y.link = at, w.now+d
		switch {
		case x.where[i] == home:
			y.state.link = int8(i + 1)
		case x.where[i] == away && x.ended(i):
			y.state.link, y.state.where[i], y.state.fresh = int8(-i-1), back, true
			if !platform.Fits(s.needs(&y.state), s.memory) {
				continue
			}
		default:
			continue
		}
		y.did = y.state.link
		s.add(y)
	}
}

// add queues a way, unless a known one to the same state is as good.
func (s *offloadSearch) add(w way) {
	known := s.best[w.state]
	rest := known[:0]
	for _, k := range known {
		o := &s.ways[k]
		if o.now <= w.now+s.near && o.device <= w.device+s.near && o.link <= w.link+s.near {
			return // so it is no better than those that have been looked at either
		}
		if w.now <= o.now && w.device <= o.device && w.link <= o.link {
			o.dropped = true
			continue
		}
		rest = append(rest, k)
	}
	k := int32(len(s.ways))
	s.ways = append(s.ways, w)
	s.best[w.state] = append(rest, k)
	s.queue.push(queued{s.bound(&w), k})
}

// bound returns a time before which no plan that begins like this ends: the
// device computes what is left, the link fetches what is or will be away.
func (s *offloadSearch) bound(w *way) float64 {
	x := &w.state
	device, link := w.now, w.now
	if x.runs {
		device = w.device
	}
	for j := int(x.next); j < 2*s.n; j++ {
		device += s.duration[j]
	}
	if x.link != 0 {
		link = w.link
	}
	for i, d := range s.send {
		if x.where[i] == away || x.link == int8(i+1) {
			link += d
		}
	}
	return max(device, link)
}

// plan writes a way as a plan.
func (s *offloadSearch) plan(c *chain.Chain, m platform.Platform, last int32) *plan.Plan {
	p := plan.New(plan.ActivationOffload, "exhaustive", c, m)
	peak := s.size[0]
	for k := last; s.ways[k].from >= 0; k = s.ways[k].from {
		w := &s.ways[k]
		o := plan.Op{Start: w.now}
		x := w.state
		switch {
		case w.did == didWait:
			continue
		case w.did == didCompute:
			j := int(x.next) - 1
			o.Op, o.Layer = plan.OpFAll, j+1
			if j >= s.n {
				o.Op, o.Layer = plan.OpB, 2*s.n-j
			}
			o.End = o.Start + s.duration[j]
			x.runs = true
		default:
			i := int(w.did) - 1
			o.Op = plan.OpO
			if w.did < 0 {
				o.Op, i = plan.OpP, -int(w.did)-1
			}
			o.Tensor, o.Layer = plan.TensorAbar, i
			o.End = o.Start + s.send[i]
		}
		peak = max(peak, s.needs(&x))
		p.Ops = append(p.Ops, o)
	}
	slices.Reverse(p.Ops)
	p.Claims = plan.Claims{Makespan: s.ways[last].now, PeakMemory: peak}
	return p
}
