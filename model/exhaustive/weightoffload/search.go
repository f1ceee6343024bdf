// Package weightoffload finds optimal plans of weight offloading of tiny chains by exhaustive
// search.
package weightoffload

import (
	"errors"
	"fmt"
	"slices"

	"workbench/model/exhaustive"
	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
)

// MaxLayers is the length of the longest chain that is searched.
const MaxLayers = 5

// Search returns the least period of weight offloading ([001] §3, by
// the rules of docs/weight-offload.md) among plans in which everything starts at
// an integer time, and a plan that has it. With integer data that is the least
// period of all; TestFinerGrid halves the grid to no avail.
//
// Durations and weight/bandwidth must be integers of at most 100, one of the
// durations positive, and the chain at most [MaxLayers] long. Transfers of no time
// have their turn all the same, in which everything must fit: so the period is what that of
// shorter and shorter ones goes down to. limit is the
// most states to visit from one steady state; three layers with numbers up to 3 have some ten
// thousand, and at most a hundred steady states. The errors are
// [exhaustive.ErrInfeasible], [exhaustive.ErrLimit] and [exhaustive.ErrTooHard].
//
// The search fixes time 0 as a start of B_L and tries each state that the
// weights can then have. From it, by Dijkstra's algorithm over (computation, place and
// transfer of each weight), it looks for the shortest way back to the same
// state after every computation ran once.
func Search(c *chain.Chain, p platform.Platform, limit int) (float64, *plan.Plan, error) {
	s, err := newSearch(c, p, limit)
	if err != nil {
		return 0, nil, err
	}
	for _, start := range s.starts() {
		if err := s.searchFrom(start); err != nil {
			return 0, nil, err
		}
	}
	if s.best == nil {
		return 0, nil, exhaustive.ErrInfeasible
	}
	return s.period, s.plan(c, p), nil
}

// Where a weight is, and in a transfer how much is left of it. The host holds
// the current value of all but stale and uploading weights.
type place int8

const (
	absent    place = iota // on the host only
	coming                 // a prefetch runs
	fresh                  // here, and the host holds the value
	stale                  // here, changed since the last upload
	uploading              // here, changed, an upload runs
)

// A state of the cycle at an instant. The weights of layers without weight are
// fresh for ever.
type state struct {
	next  int8 // computations started in this period, in the paper's order
	left  int8 // time that the running one still needs, 0: none runs
	where [MaxLayers]place
	rest  [MaxLayers]int8 // time that the transfer of the weight still needs
}

// Kinds of steps, the layer in the low bits: what starts, or that time passes.
const (
	wait uint32 = iota << 8
	discard
	compute
	upload
	prefetch
)

type (
	none   = struct{}
	engine = exhaustive.Search[state, none]
	label  = exhaustive.Label[state, none]
)

type search struct {
	n       int
	u       []int8 // of computation j, in the order B_L..B_1, F_1..F_L
	layer   []int  // of computation j
	send    []int8 // time of a transfer of w_i
	w       []float64
	act     []float64 // Σ_{k≤i} |a^k|
	over    []float64 // of a computation, while it runs
	memory  float64
	compute float64 // Σu, no period is shorter
	limit   int

	goal   state   // of the search from one state
	period float64 // of the best cycle
	best   []label // it, nil: none yet
	peak   float64
}

func newSearch(c *chain.Chain, p platform.Platform, limit int) (*search, error) {
	n := c.Len()
	if n == 0 || n > MaxLayers {
		return nil, fmt.Errorf("%w: %d layers, there can be 1 to %d", exhaustive.ErrTooHard, n, MaxLayers)
	}
	s := &search{
		n: n, u: make([]int8, 2*n), layer: make([]int, 2*n),
		send: make([]int8, n), w: make([]float64, n), act: make([]float64, n), over: make([]float64, 2*n),
		memory: p.Memory, limit: limit,
	}
	integer := func(what string, i int, x float64) (int8, error) {
		return exhaustive.SmallInteger(fmt.Sprintf("%s of layer %d", what, i+1), x)
	}
	c = c.Count(p.Model)
	act := c.Input.Activation
	for i := range c.Layers {
		l := &c.Layers[i]
		act += c.SavedSize(i + 1)
		s.act[i], s.w[i] = act, l.Weight
		s.over[n+i], s.over[n-1-i] = c.TransientSizes(i + 1)
		b, f := n-1-i, n+i
		s.layer[b], s.layer[f] = i, i
		var errs [3]error
		s.u[b], errs[0] = integer("backward time", i, l.BackwardTime)
		s.u[f], errs[1] = integer("forward time", i, l.ForwardTime)
		if l.Weight > 0 {
			s.send[i], errs[2] = integer("weight over bandwidth", i, l.Weight/p.Bandwidth)
		}
		if err := errors.Join(errs[:]...); err != nil {
			return nil, err
		}
		s.compute += float64(s.u[b]) + float64(s.u[f])
	}
	if s.compute == 0 {
		return nil, fmt.Errorf("%w: no computation takes time, so there is no least positive period", exhaustive.ErrTooHard)
	}
	return s, nil
}

// starts returns every state in which B_L can just have started: w_L here and
// being changed, the others anywhere, one transfer on each link at most.
func (s *search) starts() []state {
	first := state{next: 1, left: s.u[0]}
	for i := range s.n {
		first.where[i] = fresh
	}
	if s.w[s.n-1] > 0 {
		first.where[s.n-1] = stale
	}
	states := []state{first}
	for i := range s.n - 1 {
		if s.w[i] == 0 {
			continue
		}
		for _, x := range states {
			for _, y := range []place{absent, stale} {
				x.where[i] = y
				states = append(states, x)
			}
			for _, y := range []place{coming, uploading} {
				if s.busy(&x, y) {
					continue
				}
				z := x
				z.where[i] = y
				for z.rest[i] = 1; z.rest[i] <= s.send[i]; z.rest[i]++ {
					states = append(states, z)
				}
			}
		}
	}
	return states
}

// busy reports whether the link of such transfers carries one.
func (s *search) busy(x *state, transfer place) bool {
	return slices.Contains(x.where[:s.n], transfer)
}

// searchFrom finds the shortest cycle through the state start, if it is shorter than
// the best one.
func (s *search) searchFrom(start state) error {
	if s.best != nil && s.period == s.compute {
		return nil // nothing is shorter
	}
	s.goal = start
	e := &engine{Memory: s.memory, Limit: s.limit}
	last, err := e.Run(start, s.closes, func(x label) { s.expand(x, e) })
	if errors.Is(err, exhaustive.ErrInfeasible) {
		return nil
	}
	if err == nil {
		s.keep(e.Labels[last].Cost, e.Path(last))
	}
	return err
}

// expand adds every state that x becomes by starting or discarding one thing, or as time
// passes. Of several ways to the same state the first is kept: the one that
// discards first and prefetches last. Values that the host holds are not
// uploaded: without such an upload a plan is as good.
func (s *search) expand(at label, e *engine) {
	x := at.State
	transfer := func(how place, kind uint32, i int) {
		y := x
		if y.where[i], y.rest[i] = how, s.send[i]; y.rest[i] == 0 {
			if y.where[i] = fresh; !platform.Fits(s.needs(&y), s.memory) {
				return
			}
		}
		e.Add(y, kind|uint32(i), 0, 0)
	}
	using, backward := -1, false // layer of the running computation
	if x.left > 0 {
		using, backward = s.layer[x.next-1], int(x.next) <= s.n
	}
	for i := range s.n {
		if x.where[i] == fresh && s.w[i] > 0 && using != i {
			y := x
			y.where[i] = absent
			e.Add(y, discard|uint32(i), 0, 0)
		}
	}
	if int(x.next) < 2*s.n {
		if y, ok := s.begin(x); ok {
			e.Add(y, compute|uint32(x.next), 0, 0)
		}
	}
	for i := range s.n {
		if x.where[i] == stale && !s.busy(&x, uploading) && !(using == i && backward) {
			transfer(uploading, upload, i)
		}
	}
	for i := range s.n {
		if x.where[i] == absent && !s.busy(&x, coming) {
			transfer(coming, prefetch, i)
		}
	}
	if s.best == nil || at.Cost+1 < s.period {
		e.Add(s.pass(x), wait, 1, s.needs(&x))
	}
}

// begin starts the next computation, after the last one of a period the
// first of the next.
func (s *search) begin(x state) (state, bool) {
	j := int(x.next) % (2 * s.n)
	i := s.layer[j]
	at := x.where[i]
	if x.left > 0 || at == absent || at == coming || at == uploading && j < s.n {
		return x, false
	}
	x.next, x.left = int8(j)+1, s.u[j]
	if j < s.n && s.w[i] > 0 {
		x.where[i] = stale
	}
	// A computation that takes no time needs its memory all the same.
	return x, x.left > 0 || platform.Fits(s.needsDuring(&x, j), s.memory)
}

// closes reports whether B_L, starting now, leads to the state that the cycle
// began with.
func (s *search) closes(x state) bool {
	if int(x.next) < 2*s.n {
		return false
	}
	y, ok := s.begin(x)
	return ok && y == s.goal
}

// pass lets one unit of time pass.
func (s *search) pass(x state) state {
	x.left = max(0, x.left-1)
	for i := range s.n {
		if x.rest[i] > 0 {
			x.rest[i]--
			if x.rest[i] == 0 { // both transfers leave the value on both sides
				x.where[i] = fresh
			}
		}
	}
	return x
}

// needs returns the memory in use while x lasts: what the running computation
// needs, or the weights and the activations that the last one left.
func (s *search) needs(x *state) float64 {
	j := int(x.next) - 1
	if x.left > 0 {
		return s.needsDuring(x, j)
	}
	return s.weights(x) + s.act[s.layer[j]]
}

// needsDuring returns the memory in use during computation j in state x.
func (s *search) needsDuring(x *state, j int) float64 {
	i := s.layer[j]
	if j < s.n {
		return s.weights(x) + s.act[i] + s.w[i] + s.over[j] // its gradient
	}
	return s.weights(x) + s.act[i] + s.over[j]
}

func (s *search) weights(x *state) float64 {
	sum := 0.0
	for i := range s.n {
		if x.where[i] != absent {
			sum += s.w[i]
		}
	}
	return sum
}

// keep stores a cycle and its period.
func (s *search) keep(period float64, path []label) {
	s.period, s.best, s.peak = period, path, 0
	if s.u[0] == 0 {
		s.peak = s.needsDuring(&s.goal, 0)
	}
	x := s.goal
	for _, to := range path {
		switch y := to.State; to.Step &^ 0xff {
		case wait:
			s.peak = max(s.peak, s.needs(&x))
		case compute:
			if y.left == 0 {
				s.peak = max(s.peak, s.needsDuring(&y, int(y.next)-1))
			}
		case prefetch:
			s.peak = max(s.peak, s.needs(&y))
		}
		x = to.State
	}
}

// plan writes the best cycle as a plan.
func (s *search) plan(c *chain.Chain, p platform.Platform) *plan.Plan {
	ops := []plan.Op{{Op: plan.OpB, Layer: s.n, End: float64(s.u[0])}}
	for _, t := range s.best {
		i := int(t.Step & 0xff)
		o := plan.Op{Tensor: plan.TensorW, Layer: i + 1, Start: t.Cost, End: t.Cost}
		switch t.Step &^ 0xff {
		case wait:
			continue
		case compute:
			if o.Op = plan.OpF; i < s.n {
				o.Op = plan.OpB
			}
			o.Tensor, o.Layer, o.End = "", s.layer[i]+1, o.Start+float64(s.u[i])
		case discard:
			o.Op = plan.OpD
		case prefetch:
			o.Op, o.End = plan.OpP, o.Start+float64(s.send[i])
		case upload:
			o.Op, o.End = plan.OpO, o.Start+float64(s.send[i])
		}
		ops = append(ops, o)
	}
	q := plan.New(plan.WeightOffload, "exhaustive", c, p)
	q.Period, q.Ops = &s.period, ops
	q.Claims = plan.Claims{Makespan: s.period, PeakMemory: s.peak}
	return q
}
