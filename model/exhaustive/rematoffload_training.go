package exhaustive

import (
	"fmt"
	"math"
	"math/bits"
	"slices"

	"workbench/model/instance/training"
	"workbench/model/plan"
	"workbench/model/platform"
)

// TrainingOffload returns the least makespan of a training step within so much memory
// beside a link to the host, by the rules of docs/graph.md, and a plan that has it. Times
// and bytes/bandwidth must be integers of at most 100, the latter not 0; of bandwidth up to
// [platform.NoLink] nothing moves. limit
// is the most states to visit. The errors are [ErrInfeasible], [ErrLimit] and [ErrTooHard].
//
// It is A* over what [Training] looks at, which values the host has, and what runs and
// travels and for how long still, second by second. That everything starts at a whole time
// loses nothing: of a plan keep the order in which all starts, ends and discards
// happen, and every time can be the earliest that this order and the durations allow, a
// sum of durations. What then happens at one instant does so in an order that takes no more
// memory: ends come first. Left out are running a node again when all that it writes is
// there, sending what the host has, and moving values of no bytes.
func TrainingOffload(g *training.Graph, memory, bandwidth float64, limit int) (float64, *plan.Plan, error) {
	s, err := newTravels(g, memory, bandwidth, limit)
	if err != nil {
		return 0, nil, err
	}
	last, err := s.run(s, journey{op: -1})
	if err != nil {
		return 0, nil, err
	}
	p, err := s.plan(platform.Platform{Memory: memory, Bandwidth: bandwidth}, last)
	return float64(s.nodes[last].time), p, err
}

// A journey is a state at a whole time.
type journey struct {
	state uint64 // of steps: what is on the device, and what has run
	host  uint64
	op    int8 // the node that runs, −1: none
	left  int8 // seconds
	out   travel
	in    travel
}

// A travel is a value on its way, and the seconds that are left; none if these are 0.
type travel struct{ value, left int8 }

func (t travel) set() uint64 {
	if t.left == 0 {
		return 0
	}
	return 1 << t.value
}

// Kinds of steps.
const (
	passes   uint32 = iota << 8 // a second
	computes                    // a node starts
	frees
	sends
	fetches
)

type travels struct {
	*steps
	clocked[journey]
	duration []int8 // of nodes
	send     []int8 // of values; 0: it does not move
}

func newTravels(g *training.Graph, memory, bandwidth float64, limit int) (*travels, error) {
	d, err := newSteps(g, memory)
	if err != nil {
		return nil, err
	}
	if !(bandwidth >= 0) {
		return nil, fmt.Errorf("%w: bandwidth is %v, it must not be negative", ErrTooHard, bandwidth)
	}
	s := &travels{
		steps: d, clocked: clocked[journey]{memory: memory, limit: limit},
		duration: make([]int8, d.n), send: make([]int8, len(d.value)),
	}
	whole := func(x float64) int8 {
		if !(x >= 0 && x <= 100) || x != math.Trunc(x) {
			err = fmt.Errorf("%w: there is a time or a bytes/bandwidth of %g; an integer of 0 to 100 would do", ErrTooHard, x)
			return 0
		}
		return int8(x)
	}
	for v := range g.Nodes {
		s.duration[v] = whole(g.Nodes[v].Time)
	}
	for k, v := range d.value {
		if bandwidth > platform.NoLink && !g.Storages[v].NoOffload && d.size[k] > 0 {
			if s.send[k] = whole(d.size[k] / bandwidth); s.send[k] == 0 && err == nil {
				err = fmt.Errorf("%w: %s takes no time to transfer", ErrTooHard, g.Storages[v].ID)
			}
		}
	}
	return s, err
}

// values are those of a state that are on the device.
func (s *travels) values(state uint64) uint64 { return state & (1<<len(s.value) - 1) }

// finished says that everything has run, the results are there and nothing travels.
func (s *travels) finished(x journey) bool {
	all := uint64(1)<<(len(s.value)+s.n) - uint64(1)<<len(s.value) | s.results
	return x.state&all == all && x.op < 0 && x.out.left+x.in.left == 0
}

// bound is what has not run.
func (s *travels) bound(x journey) float64 {
	left := float64(x.left)
	for v := range s.n {
		if x.state&s.ran(v) == 0 && int8(v) != x.op {
			left += float64(s.duration[v])
		}
	}
	return left
}

// needs returns the memory in use.
func (s *travels) needs(x journey) float64 {
	sum := s.stored(x.state)
	if x.in.left > 0 {
		sum += s.size[x.in.value]
	}
	if x.op >= 0 {
		sum += s.stored(s.writes[x.op]) - s.g.Input + s.g.Nodes[x.op].Workspace
	}
	return sum
}

// expand takes every step out of a state.
func (s *travels) expand(x journey, at, time int32) {
	var used, made uint64
	if x.op >= 0 {
		used, made = s.reads[x.op]|s.writes[x.op], s.writes[x.op]
	} else {
		s.computations(x, at, time)
	}
	for left := s.values(x.state) &^ used &^ x.out.set(); left != 0; left &= left - 1 {
		k := bits.TrailingZeros64(left)
		y := x
		y.state &^= 1 << k
		s.enqueue(y, at, frees|uint32(k), time)
	}
	for k, long := range s.send {
		bit := uint64(1) << k
		if long == 0 || made&bit != 0 {
			continue
		}
		y := x
		switch {
		case x.state&bit != 0 && x.host&bit == 0 && x.out.left == 0:
			y.out = travel{int8(k), long}
			s.enqueue(y, at, sends|uint32(k), time)
		case x.state&bit == 0 && x.host&bit != 0 && x.in.left == 0:
			y.in = travel{int8(k), long}
			s.enqueue(y, at, fetches|uint32(k), time)
		}
	}
	if x.op >= 0 || x.out.left+x.in.left > 0 {
		s.wait(x, at, time)
	}
}

func (s *travels) computations(x journey, at, time int32) {
	for v := range s.n {
		if !s.canRun(x.state, v) || s.writes[v]&(x.out.set()|x.in.set()) != 0 {
			continue
		}
		y := x
		y.op, y.left = int8(v), s.duration[v]
		if y.left == 0 {
			if !platform.Fits(s.needs(y), s.memory) {
				continue
			}
			s.end(&y)
		}
		s.enqueue(y, at, computes|uint32(v), time)
	}
}

// end ends the node that runs. What nothing to come can need is freed.
func (s *travels) end(x *journey) {
	x.state |= s.writes[x.op] | s.ran(int(x.op))
	x.op = -1
	need := s.needed(x.state)
	x.state &= need | x.out.set() | ^uint64(1<<len(s.value)-1)
	x.host &= need
}

// wait lets a second pass.
func (s *travels) wait(x journey, at, time int32) {
	out, in := x.out, x.in
	pass := func(t *travel) bool {
		if t.left > 0 {
			t.left--
		}
		ended := t.left == 0
		if ended {
			t.value = 0
		}
		return ended
	}
	if pass(&x.out) {
		x.host |= out.set()
	}
	if pass(&x.in) {
		x.state |= in.set()
	}
	if x.op >= 0 {
		if x.left--; x.left == 0 {
			s.end(&x)
		}
	}
	s.enqueue(x, at, passes, time+1)
}

// plan writes a way as a plan. Its peak is what the verifier says.
func (s *travels) plan(at platform.Platform, last int32) (*plan.Plan, error) {
	p := plan.New(plan.RematOffload, "exhaustive", s.g, at)
	var way []int32
	for k := last; k >= 0; k = s.nodes[k].from {
		way = append(way, k)
	}
	slices.Reverse(way)
	for i := 1; i < len(way); i++ {
		from, to := &s.nodes[way[i-1]], &s.nodes[way[i]]
		x, y := &from.state, &to.state
		k, start := int(to.did&0xff), float64(to.time)
		there := s.values(x.state)
		add := func(op string, storage int, long int8) {
			p.Ops = append(p.Ops, plan.Op{Op: op, Storage: s.g.Storages[s.value[storage]].ID, Start: start, End: start + float64(long)})
		}
		switch to.did &^ 0xff {
		case passes:
			if x.op >= 0 && y.op < 0 {
				there |= s.writes[x.op]
			}
			if y.in.left == 0 {
				there |= x.in.set()
			}
		case computes:
			n := &s.g.Nodes[k]
			p.Ops = append(p.Ops, plan.Op{Op: plan.OpC, Node: n.ID, Start: start, End: start + n.Time})
			if y.op < 0 {
				there |= s.writes[k]
			}
		case sends:
			add(plan.OpO, k, s.send[k])
		case fetches:
			add(plan.OpP, k, s.send[k])
		}
		for gone := there &^ s.values(y.state); gone != 0; gone &= gone - 1 {
			add(plan.OpD, bits.TrailingZeros64(gone), 0)
		}
	}
	r, err := plan.VerifyTraining(s.g, p)
	if err != nil {
		return nil, err
	}
	p.Claims = plan.Claims{Makespan: float64(s.nodes[last].time), PeakMemory: r.PeakMemory}
	return p, nil
}
