package allocator

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/verify"
)

// ErrInvalid is wrapped by the errors of [Traces] for plans that break a rule,
// of which nobody can say what they hold in memory.
var ErrInvalid = errors.New("the plan is not valid")

// Periods is how many periods of a plan that repeats are in its trace.
const Periods = 3

// mostBytes is the size from which on a byte more is no different number.
const mostBytes = 1 << 53

// A Tracer makes the traces of valid plans of one problem: one trace, or one for each
// GPU. A slot of plans that count in slots is unit bytes. Its cost is
// O(operations · log operations + size of the instance).
//
// A computation takes its output and then its overhead when it starts, and gives
// back the overhead and what it consumes when it ends; a prefetch takes its
// tensor when it starts, an offload gives it back when the verifier lets it go.
// Every a, ā, δ and w is one block, as it is one number in the instance: a
// framework has several in an ā.
type Tracer func(in plan.Instance, p *plan.Plan, unit int64) ([]*Trace, error)

// Traces returns what p takes and gives back on each device, tensor by tensor.
// The total of what is taken at any time is what the verifier counts, sizes
// rounded up to whole bytes. The error wraps [ErrInvalid], or is that of the
// verifier.
func Traces(t Tracer, in plan.Instance, p *plan.Plan, unit int64) ([]*Trace, error) {
	report, err := verify.Replay(in, p)
	if err != nil {
		return nil, err
	}
	if n := len(report.Violations); n > 0 {
		return nil, fmt.Errorf("%w: it breaks %d rules, the first, %s: %s", ErrInvalid, n, report.Violations[0].Rule, report.Violations[0].Detail)
	}
	return t(in, p, unit)
}

// one returns the only trace of a plan, as note notes it.
func one(in plan.Instance, note func(*tracer) error) ([]*Trace, error) {
	b := &tracer{unit: in.Scale()}
	if err := note(b); err != nil {
		return nil, err
	}
	t, err := b.trace()
	return []*Trace{t}, err
}

// none is the block of what has no bytes, or is not there.
const none int32 = -1

// A tracer notes what is taken and given back.
type tracer struct {
	t     Trace
	unit  platform.Unit // of what is taken
	large *Block        // one too large to be counted; nil: none
}

// allocate notes that a block of so many units is taken and returns it: of whole
// bytes, a part of one takes it.
func (b *tracer) allocate(time, units float64, tensor string, layer int) int32 {
	bytes := b.unit.Bytes(units)
	if bytes <= 0 {
		return none
	}
	x := Block{Size: mostBytes, Tensor: tensor, Layer: layer}
	if bytes < mostBytes {
		x.Size = int64(math.Ceil(bytes))
	} else {
		b.large = &x
	}
	b.t.Blocks = append(b.t.Blocks, x)
	id := int32(len(b.t.Blocks) - 1)
	b.t.Events = append(b.t.Events, Event{Time: time, Block: id})
	return id
}

// free notes that a block, if it is one, is given back, and forgets it.
func (b *tracer) free(time float64, id *int32) {
	if *id != none {
		b.t.Events = append(b.t.Events, Event{Time: time, Block: *id, Free: true})
		*id = none
	}
}

// trace returns what has been noted.
func (b *tracer) trace() (*Trace, error) {
	if b.large != nil {
		return nil, fmt.Errorf("%s has %d bytes or more, too many to count them one by one", b.large, int64(mostBytes))
	}
	if len(b.t.Blocks) > math.MaxInt32 {
		return nil, fmt.Errorf("the plan takes %d blocks of memory, too many to replay", len(b.t.Blocks))
	}
	return &b.t, nil
}

// vacant returns n blocks that are not there.
func vacant(n int) []int32 {
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = none
	}
	return ids
}

// A stay is a time in which a block is held; of simultaneous events, late ones
// are taken last, after everything else.
type stay struct {
	from, to, bytes float64
	tensor          string
	layer           int
	late            bool
}

// stays notes stays in order of time. Those that end beyond the end are not
// given back. Instants closer than eps are simultaneous: what is given back then
// is so before anything is taken.
func (b *tracer) stays(all []stay, end, eps float64) {
	type edge struct {
		key, time float64
		order     int // 0: give, 1: take, 2: take late
		stay      int
	}
	var edges []edge
	for i := range all {
		s := &all[i]
		if s.to-s.from <= eps || s.from >= end-eps/2 {
			continue
		}
		order := 1
		if s.late {
			order = 2
		}
		edges = append(edges, edge{s.from + eps/2, s.from, order, i})
		if s.to < end-eps/2 {
			edges = append(edges, edge{s.to - eps/2, s.to, 0, i})
		}
	}
	slices.SortFunc(edges, func(a, b edge) int {
		return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.order, b.order), cmp.Compare(a.stay, b.stay))
	})
	held := vacant(len(all))
	for _, e := range edges {
		if s := &all[e.stay]; e.order > 0 {
			held[e.stay] = b.allocate(e.time, s.bytes, s.tensor, s.layer)
		} else {
			b.free(e.time, &held[e.stay])
		}
	}
}
