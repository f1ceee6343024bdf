package fragmentation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"workbench/bench/solve"
	"workbench/model/allocator"
	"workbench/model/plan"
	"workbench/model/zoo"
)

// Shares are the fractions of a device's memory for which plans are made, the largest first: [003] §5.1 lowers the
// budget of the schedule until the allocator's reserved memory fits.
var Shares = []float64{1, 0.98, 0.95, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3}

// mostBatch exceeds any batch in use.
const mostBatch = 1 << 16

// BatchPoint is the fastest training step of a batch on a device, among plans for [Shares] of its memory whose
// allocations fit in it.
type BatchPoint struct {
	Method     string  `json:"method"`
	Allocator  string  `json:"allocator"`
	Batch      int     `json:"batch"`
	Fits       bool    `json:"fits"`
	Share      float64 `json:"share,omitempty"`       // of the memory for which the plan was made
	Budget     float64 `json:"budget,omitempty"`      // in bytes
	PeakMemory float64 `json:"peak_memory,omitempty"` // of the plan
	Reserved   int64   `json:"reserved,omitempty"`    // maximum reserved by the allocator
	Internal   int64   `json:"internal,omitempty"`    // maximum internal fragmentation
	External   int64   `json:"external,omitempty"`
	Most       int     `json:"most_blocks,omitempty"` // N_max of [003] (2)
	Makespan   float64 `json:"makespan,omitempty"`
	Throughput float64 `json:"throughput,omitempty"` // samples a second
	Why        string  `json:"why,omitempty"`        // why it does not fit
}

// Batches are the points of several batches, methods and allocators. Sizes are in
// bytes.
type Batches struct {
	Format   string        `json:"format"`
	Problem  string        `json:"problem"`
	Network  string        `json:"network"`
	Capacity int64         `json:"capacity"`
	Steps    int           `json:"steps"`
	Late     bool          `json:"late"`
	Points   []*BatchPoint `json:"points"`
}

// Batches returns points of b.
func (b *Batcher) Batches(points []*BatchPoint) *Batches {
	return &Batches{
		Format: BatchesFormat, Problem: b.Problem.Name, Network: b.Network, Capacity: b.Capacity,
		Steps: max(1, b.Steps), Late: b.Late, Points: points,
	}
}

// Batcher trains a built-in network at any batch on a device of the given capacity. It caches plans.
type Batcher struct {
	Problem  *solve.Problem
	Network  string        // zoo:NAME?…; its batch is ignored
	Setting  solve.Setting // its memory is ignored
	Capacity int64         // bytes
	Steps    int           // of each replay; at least 1
	// Keep makes plans for as much memory as can be used, whatever the capacity: the baseline without transfers
	// and recomputation.
	Keep bool
	Late bool // for plans of swapping: see allocator.Trace.Late

	instances map[int]*solve.Instance
	planned   map[plannedKey]*plannedStep
}

type plannedKey struct {
	method string
	batch  int
	memory float64
}

type plannedStep struct {
	result *solve.Result
	traces []*allocator.Trace
}

// Fastest returns the fastest step of a batch with that method and allocator. Plans for less memory are no faster,
// so it returns the first share that fits.
func (b *Batcher) Fastest(ctx context.Context, m *solve.Method, a AllocatorChoice, batch int) (*BatchPoint, error) {
	in, err := b.instance(batch)
	if err != nil {
		return nil, err
	}
	x := &BatchPoint{Method: m.Name, Allocator: a.Name(), Batch: batch}
	shares := Shares
	if b.Keep {
		_, high := b.Problem.Range(in, solve.Setting{})
		shares = []float64{high / float64(b.Capacity)}
	}
	for _, share := range shares {
		p, err := b.plan(ctx, m, in, batch, share*float64(b.Capacity))
		if err != nil {
			return nil, err
		}
		if p.result.Plan == nil {
			if x.Why == "" { // of the whole memory
				x.Why = p.result.Error
			}
			return x, nil // nor with less memory
		}
		if x.fits(b, p, a) {
			x.Share, x.Budget = share, p.result.Platform.Memory
			return x, nil
		}
	}
	return x, nil
}

// fits replays the plan on every device and sets the point.
func (x *BatchPoint) fits(b *Batcher, p *plannedStep, a AllocatorChoice) bool {
	x.Reserved, x.Internal, x.External, x.Most = 0, 0, 0, 0
	for _, t := range p.traces {
		r := allocator.Replay(t, a.New(b.Capacity), b.Capacity, max(1, b.Steps), false)
		x.Reserved, x.Internal, x.External, x.Most = max(x.Reserved, r.Reserved), max(x.Internal, r.Internal), max(x.External, r.External),
			max(x.Most, r.Most)
		if r.Failure != nil {
			x.Why = fmt.Sprintf("%s finds no room for %s", a.Name(), r.Failure.Block)
			return false
		}
	}
	x.Fits, x.Why = true, ""
	x.PeakMemory, x.Makespan = *p.result.PeakMemory, *p.result.Makespan
	if x.Makespan > 0 {
		x.Throughput = float64(x.Batch) / x.Makespan
	}
	return true
}

// instance returns the network at a batch.
func (b *Batcher) instance(batch int) (*solve.Instance, error) {
	if in := b.instances[batch]; in != nil {
		return in, nil
	}
	spec, err := WithBatch(b.Network, batch)
	if err != nil {
		return nil, err
	}
	in, err := solve.Load(spec, nil)
	if err != nil {
		return nil, err
	}
	if b.instances == nil {
		b.instances, b.planned = map[int]*solve.Instance{}, map[plannedKey]*plannedStep{}
	}
	b.instances[batch] = in
	return in, nil
}

func (b *Batcher) plan(ctx context.Context, m *solve.Method, in *solve.Instance, batch int, memory float64) (*plannedStep, error) {
	key := plannedKey{m.Name, batch, memory}
	if p := b.planned[key]; p != nil {
		return p, nil
	}
	setting := b.Setting
	setting.Platform.Memory = memory
	p := &plannedStep{result: solve.Run(ctx, b.Problem, m, in, setting)}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	switch r := p.result; {
	case r.Err != nil && r.Status == solve.Failed:
		return nil, r.Err
	case r.Plan != nil:
		var err error
		if p.traces, err = allocator.Traces(b.Problem.Tensors, in.Instance, r.Plan, 1); err != nil {
			return nil, err
		}
		if b.Late {
			if err := allLate(b.Problem, r.Plan, p.traces); err != nil {
				return nil, err
			}
		}
	}
	b.planned[key] = p
	return p, nil
}

// Largest returns the largest batch found that fits, and its step. It finds the largest batch with a plan by
// doubling and bisection. From there it decreases by a twentieth until a batch fits, and then bisects upwards.
// With best fit a batch may fit although a smaller one does not, depending on how blocks are placed, so a larger
// one may fit that is not tried. A point of batch 0: nothing fits.
func (b *Batcher) Largest(ctx context.Context, m *solve.Method, a AllocatorChoice) (*BatchPoint, error) {
	planned, err := lastWhere(0, 1, func(batch int) (bool, error) { return b.plannable(ctx, m, batch) })
	if err != nil {
		return nil, err
	}
	best := &BatchPoint{Method: m.Name, Allocator: a.Name()}
	fits := func(batch int) (bool, error) {
		x, err := b.Fastest(ctx, m, a, batch)
		switch {
		case err != nil:
			return false, err
		case x.Fits:
			best = x
		case best.Batch == 0:
			best.Why = x.Why
		}
		return x.Fits, nil
	}
	bad := planned + 1
	for batch := max(planned, 1); batch >= 1; batch = min(batch-1, batch*19/20) {
		ok, err := fits(batch)
		if err != nil {
			return nil, err
		}
		if ok {
			break
		}
		bad = batch
	}
	if best.Batch == 0 {
		return best, nil
	}
	if _, err := bisect(best.Batch, bad, fits); err != nil {
		return nil, err
	}
	return best, nil
}

// plannable reports whether a plan of a batch exists for the whole memory.
func (b *Batcher) plannable(ctx context.Context, m *solve.Method, batch int) (bool, error) {
	in, err := b.instance(batch)
	if err != nil {
		return false, err
	}
	if b.Keep {
		_, high := b.Problem.Range(in, solve.Setting{})
		return high <= float64(b.Capacity), nil
	}
	p, err := b.plan(ctx, m, in, batch, float64(b.Capacity))
	if err != nil {
		return false, err
	}
	return p.result.Plan != nil, nil
}

// lastWhere returns the last number from good on where a predicate holds. The predicate holds up to some number
// and not beyond it; next is tried first.
func lastWhere(good, next int, holds func(int) (bool, error)) (int, error) {
	for ; next <= mostBatch; next *= 2 {
		ok, err := holds(next)
		switch {
		case err != nil:
			return good, err
		case !ok:
			return bisect(good, next, holds)
		}
		good = next
	}
	return good, nil
}

// bisect returns a number where a predicate holds but not for the next one, between a number where it holds and a
// larger one where it does not.
func bisect(good, bad int, holds func(int) (bool, error)) (int, error) {
	for bad-good > 1 {
		mid := good + (bad-good)/2
		ok, err := holds(mid)
		switch {
		case err != nil:
			return good, err
		case ok:
			good = mid
		default:
			bad = mid
		}
	}
	return good, nil
}

// WithBatch returns the specification of a built-in network with another batch.
func WithBatch(spec string, batch int) (string, error) {
	if !strings.HasPrefix(spec, zoo.Scheme) {
		return "", solve.InputError(fmt.Errorf("instance %s: the batch can only be varied for built-in networks, as %sresnet50", spec,
			zoo.Scheme))
	}
	name, query, _ := strings.Cut(spec, "?")
	pairs := strings.Split(query, "&")
	pairs = slices.DeleteFunc(pairs, func(s string) bool { return s == "" || strings.HasPrefix(s, "batch=") })
	return name + "?" + strings.Join(append(pairs, "batch="+strconv.Itoa(batch)), "&"), nil
}

// ErrNoBatch is wrapped by errors of networks for which no batch fits.
var ErrNoBatch = errors.New("no batch that was tried fits")

// NoBatch returns an error wrapping [ErrNoBatch] and plan.ErrNoPlan if none of
// the points fits.
func NoBatch(points []*BatchPoint) error {
	for _, x := range points {
		if x.Fits {
			return nil
		}
	}
	why := "nothing was tried"
	if len(points) > 0 && points[0].Why != "" {
		why = points[0].Why
	}
	return fmt.Errorf("%w: %w: %s", plan.ErrNoPlan, ErrNoBatch, why)
}
