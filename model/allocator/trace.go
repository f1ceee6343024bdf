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

// ErrInvalid is wrapped by the errors of [Traces] for invalid plans, whose memory is not defined.
var ErrInvalid = errors.New("the plan is not valid")

// Periods is the number of periods in the trace of a periodic plan.
const Periods = 3

// mostBytes is the size from which on float64 does not represent every integer.
const mostBytes = 1 << 53

// Tracer returns the traces of valid plans of one problem: one trace, or one for each GPU. A slot of plans that
// count in slots is unit bytes. It takes O(operations · log operations + size of the instance).
//
// A computation allocates its output and then its overhead when it starts, and frees the overhead and its consumed
// inputs when it ends. A prefetch allocates its tensor when it starts; an offload frees it when the verifier does.
// Every a, ā, δ and w is one block, as it is one number in the instance: a framework has several in an ā.
type Tracer func(in plan.Instance, p *plan.Plan, unit int64) ([]*Trace, error)

// Traces returns the allocations of p on each device, tensor by tensor. The total at any time equals that of the
// verifier, with sizes rounded up to whole bytes. The error wraps [ErrInvalid], or is that of the verifier.
func Traces(t Tracer, in plan.Instance, p *plan.Plan, unit int64) ([]*Trace, error) {
	report, err := verify.Replay(in, p)
	if err != nil {
		return nil, err
	}
	if n := len(report.Violations); n > 0 {
		return nil, fmt.Errorf("%w: it violates %d rules, the first, %s: %s", ErrInvalid, n, report.Violations[0].Rule,
			report.Violations[0].Detail)
	}
	return t(in, p, unit)
}

// one returns the only trace of a plan, as recorded by note.
func one(in plan.Instance, note func(*tracer) error) ([]*Trace, error) {
	b := &tracer{unit: in.Scale()}
	if err := note(b); err != nil {
		return nil, err
	}
	t, err := b.trace()
	return []*Trace{t}, err
}

// none is the block of a tensor of no bytes or outside the device.
const none int32 = -1

// tracer records allocations.
type tracer struct {
	t     Trace
	unit  platform.Unit // of sizes
	large *Block        // one too large to be represented; nil: none
}

// Allocate records the allocation of a block of the given size, rounded up to whole bytes, and returns it. It implements
// [replay.Blocks].
func (b *tracer) Allocate(time, units float64, tensor string, layer int) int32 {
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

// Free records that a block, unless it is none, is freed, and resets id.
func (b *tracer) Free(time float64, id *int32) {
	if *id != none {
		b.t.Events = append(b.t.Events, Event{Time: time, Block: *id, Free: true})
		*id = none
	}
}

// trace returns the recorded trace.
func (b *tracer) trace() (*Trace, error) {
	if b.large != nil {
		return nil, fmt.Errorf("%s has %d bytes or more, too many to count them one by one", b.large, int64(mostBytes))
	}
	if len(b.t.Blocks) > math.MaxInt32 {
		return nil, fmt.Errorf("the plan takes %d blocks of memory, too many to replay", len(b.t.Blocks))
	}
	return &b.t, nil
}

// vacant returns n entries with the value none.
func vacant(n int) []int32 {
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = none
	}
	return ids
}

// stay is an interval in which a block is allocated; at a tie, late ones are allocated after everything else.
type stay struct {
	from, to, bytes float64
	tensor          string
	layer           int
	late            bool
}

// stays records intervals in order of time. Those that reach beyond end are not freed. Times closer than eps are
// simultaneous: frees then precede allocations.
func (b *tracer) stays(all []stay, end, eps float64) {
	type edge struct {
		key, time float64
		order     int // 0: free, 1: allocate, 2: allocate late
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
			held[e.stay] = b.Allocate(e.time, s.bytes, s.tensor, s.layer)
		} else {
			b.Free(e.time, &held[e.stay])
		}
	}
}
