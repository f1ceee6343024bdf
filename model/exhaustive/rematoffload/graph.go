package rematoffload

import (
	"fmt"
	"math"
	"math/bits"

	"workbench/model/exhaustive"
	"workbench/model/exhaustive/rematgraph"
	"workbench/model/instance/training"
	"workbench/model/plan"
	"workbench/model/platform"
	verifyrematgraph "workbench/model/verify/rematgraph"
)

// SearchGraph returns the least makespan of a training step within so much memory
// beside a link to the host, by the rules of docs/graph.md, and a plan that has it. Times
// and bytes/bandwidth must be integers of at most 100, the latter not 0; of bandwidth up to
// [platform.NoLink] nothing moves. limit is the most states to visit. The errors are
// [exhaustive.ErrInfeasible], [exhaustive.ErrLimit] and [exhaustive.ErrTooHard].
//
// It is A* over what rematgraph.Search looks at, which values the host has, and what runs and
// travels and for how long still, second by second. That everything starts at a whole time
// loses nothing: of a plan keep the order in which all starts, ends and discards
// happen, and every time can be the earliest that this order and the durations allow, a
// sum of durations. What then happens at one instant does so in an order that takes no more
// memory: ends come first. Left out are running a node again when all that it writes is
// there, sending what the host has, and moving values of no bytes.
func SearchGraph(g *training.Graph, memory, bandwidth float64, limit int) (float64, *plan.Plan, error) {
	s, err := newTravels(g, memory, bandwidth, limit)
	if err != nil {
		return 0, nil, err
	}
	last, err := s.Run(journey{op: -1}, s.finished, func(x exhaustive.Label[journey, none]) { s.expand(x.State) })
	if err != nil {
		return 0, nil, err
	}
	p, err := s.plan(platform.Platform{Memory: memory, Bandwidth: bandwidth}, last)
	return s.Labels[last].Cost, p, err
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
	*rematgraph.Model
	exhaustive.Search[journey, none]
	duration []int8 // of nodes
	send     []int8 // of values; 0: it does not move
}

func newTravels(g *training.Graph, memory, bandwidth float64, limit int) (*travels, error) {
	d, err := rematgraph.NewModel(g, memory)
	if err != nil {
		return nil, err
	}
	if !(bandwidth >= 0) {
		return nil, fmt.Errorf("%w: bandwidth is %v, it must not be negative", exhaustive.ErrTooHard, bandwidth)
	}
	s := &travels{
		Model: d, Search: exhaustive.Search[journey, none]{Memory: memory, Limit: limit},
		duration: make([]int8, g.Len()), send: make([]int8, len(d.Values)),
	}
	s.Needs, s.Bound = s.needs, s.bound
	integer := func(x float64) int8 {
		n, wrong := exhaustive.SmallInteger("a time or bytes/bandwidth", x)
		if wrong != nil {
			err = wrong
		}
		return n
	}
	for v := range g.Nodes {
		s.duration[v] = integer(g.Nodes[v].Time)
	}
	for k, v := range d.Values {
		if bandwidth > platform.NoLink && !g.Storages[v].NoOffload && d.Size[k] > 0 {
			if s.send[k] = integer(d.Size[k] / bandwidth); s.send[k] == 0 && err == nil {
				err = fmt.Errorf("%w: %s takes no time to transfer", exhaustive.ErrTooHard, g.Storages[v].ID)
			}
		}
	}
	return s, err
}

// finished says that everything has run, the results are there and nothing travels.
func (s *travels) finished(x journey) bool {
	return s.Done(x.state) && x.op < 0 && x.out.left+x.in.left == 0
}

// bound is what has not run.
func (s *travels) bound(at *exhaustive.Label[journey, none]) float64 {
	x := &at.State
	left := float64(x.left)
	for v := range s.Graph.Nodes {
		if x.state&s.Ran(v) == 0 && int8(v) != x.op {
			left += float64(s.duration[v])
		}
	}
	return left
}

// needs returns the memory in use.
func (s *travels) needs(x journey) float64 {
	sum := s.Graph.Input + s.Bytes(x.state)
	if x.in.left > 0 {
		sum += s.Size[x.in.value]
	}
	if x.op >= 0 {
		sum += s.Bytes(s.Writes[x.op]) + s.Graph.Nodes[x.op].Workspace
	}
	return sum
}

// expand adds every step out of a state.
func (s *travels) expand(x journey) {
	var used, made uint64
	if x.op >= 0 {
		used, made = s.Reads[x.op]|s.Writes[x.op], s.Writes[x.op]
	} else {
		s.computations(x)
	}
	for left := s.Stored(x.state) &^ used &^ x.out.set(); left != 0; left &= left - 1 {
		k := bits.TrailingZeros64(left)
		y := x
		y.state &^= 1 << k
		s.Add(y, frees|uint32(k), 0, 0)
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
			s.Add(y, sends|uint32(k), 0, 0)
		case x.state&bit == 0 && x.host&bit != 0 && x.in.left == 0:
			y.in = travel{int8(k), long}
			s.Add(y, fetches|uint32(k), 0, 0)
		}
	}
	if x.op >= 0 || x.out.left+x.in.left > 0 {
		s.wait(x)
	}
}

func (s *travels) computations(x journey) {
	for v := range s.Graph.Nodes {
		if !s.CanRun(x.state, v) || s.Writes[v]&(x.out.set()|x.in.set()) != 0 {
			continue
		}
		y := x
		y.op, y.left = int8(v), s.duration[v]
		if y.left == 0 {
			if !platform.Fits(s.needs(y), s.Memory) {
				continue
			}
			s.end(&y)
		}
		s.Add(y, computes|uint32(v), 0, 0)
	}
}

// end ends the node that runs. What nothing to come can need is freed.
func (s *travels) end(x *journey) {
	x.state |= s.Writes[x.op] | s.Ran(int(x.op))
	x.op = -1
	need := s.Needed(x.state)
	x.state &= need | x.out.set() | ^s.Stored(math.MaxUint64)
	x.host &= need
}

// wait lets a second pass.
func (s *travels) wait(x journey) {
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
	s.Add(x, passes, 1, 0)
}

// plan writes a way as a plan. Its peak is what the verifier says.
func (s *travels) plan(m platform.Platform, last int32) (*plan.Plan, error) {
	p := plan.New(plan.RematOffload, "exhaustive", s.Graph, m)
	from := &s.Labels[0]
	path := s.Path(last)
	for i := range path {
		to := &path[i]
		x, y := &from.State, &to.State
		k, start := int(to.Step&0xff), to.Cost
		there := s.Stored(x.state)
		add := func(op string, storage int, long int8) {
			p.Ops = append(p.Ops, plan.Op{Op: op, Storage: s.Graph.Storages[s.Values[storage]].ID, Start: start, End: start + float64(long)})
		}
		switch to.Step &^ 0xff {
		case passes:
			if x.op >= 0 && y.op < 0 {
				there |= s.Writes[x.op]
			}
			if y.in.left == 0 {
				there |= x.in.set()
			}
		case computes:
			n := &s.Graph.Nodes[k]
			p.Ops = append(p.Ops, plan.Op{Op: plan.OpC, Node: n.ID, Start: start, End: start + n.Time})
			if y.op < 0 {
				there |= s.Writes[k]
			}
		case sends:
			add(plan.OpO, k, s.send[k])
		case fetches:
			add(plan.OpP, k, s.send[k])
		}
		for gone := there &^ s.Stored(y.state); gone != 0; gone &= gone - 1 {
			add(plan.OpD, bits.TrailingZeros64(gone), 0)
		}
		from = to
	}
	r, err := verifyrematgraph.Verify(s.Graph, p)
	if err != nil {
		return nil, err
	}
	p.Claims = plan.Claims{Makespan: s.Labels[last].Cost, PeakMemory: r.PeakMemory}
	return p, nil
}
