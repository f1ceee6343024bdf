package allocator

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/verify/pipeline"
)

// turn is an F or a B of one mini-batch.
type turn struct {
	start, end float64
	batch      int
	step       int // 0..N-1: F_1..F_N; N..2N-1: B_N..B_1
}

// OfPipeline is the [Tracer] of asynchronous pipelines. It records a pattern on each of its GPUs, the mini-batches
// from an empty pipeline on, until each GPU has been at its maximum for [Periods] of them. Weights and buffers are
// permanent. a_{ℓ-1} of a mini-batch is allocated from its computation, on the same GPU, or from the start of F_ℓ,
// to the end of B_ℓ. Gradients and a_N are allocated while they are computed, wait or are used ([004] 6.3).
func OfPipeline(in plan.Instance, p *plan.Plan, _ int64) ([]*Trace, error) {
	c, err := pipeline.Line(in, p)
	if err != nil {
		return nil, err
	}
	n := c.Len()
	owner, copies := make([]int, n+2), slices.Repeat([]int{1}, n+2)
	gpus := 0
	for _, s := range p.Allocation {
		gpus = max(gpus, s.Processor+s.Copies())
		for l := s.From; l <= s.To; l++ {
			owner[l], copies[l] = s.Processor, s.Copies()
		}
	}
	gpus = max(gpus, p.Platform.Processors)
	turns := make([][]turn, gpus)
	k := max(1, p.K)
	most := 0 // mini-batches ahead of B_1
	for i := range p.Ops {
		if o := &p.Ops[i]; o.Op == plan.OpF || o.Op == plan.OpB {
			most = max(most, o.Shift)
		}
	}
	batches := most + Periods*k
	for i := range p.Ops {
		o := &p.Ops[i]
		step := o.Layer - 1
		switch o.Op {
		case plan.OpF:
		case plan.OpB:
			step = 2*n - o.Layer
		default:
			continue
		}
		// In period j it processes mini-batch j·k + shift.
		for j := -int(math.Floor(float64(o.Shift) / float64(k))); j*k+o.Shift < batches; j++ {
			at := float64(j) * *p.Period
			gpu := owner[o.Layer] + (j*k+o.Shift)%copies[o.Layer]
			turns[gpu] = append(turns[gpu], turn{at + o.Start, at + o.End, j*k + o.Shift, step})
		}
	}
	traces := make([]*Trace, gpus)
	for gpu := range traces {
		slices.SortFunc(turns[gpu], func(a, b turn) int {
			return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.end, b.end), cmp.Compare(a.batch, b.batch), cmp.Compare(a.step, b.step))
		})
		g := &stageTracer{tracer: tracer{unit: c.Unit}, n: n, owner: owner, copies: copies, gpu: gpu}
		g.t.Device = fmt.Sprintf("gpu%d", gpu)
		g.run(c, p, turns[gpu], batches)
		t, err := g.trace()
		if err != nil {
			return nil, err
		}
		traces[gpu] = t
	}
	return traces, nil
}

// stageTracer follows one GPU of a pipeline.
type stageTracer struct {
	tracer
	n, gpu int
	owner  []int // the first owner of layer ℓ
	copies []int // the number of its replicas
}

// has reports whether layer l is on this GPU.
func (g *stageTracer) has(l int) bool { return g.owner[l] <= g.gpu && g.gpu < g.owner[l]+g.copies[l] }

// here reports whether a step runs on this GPU.
func (g *stageTracer) here(step int) bool {
	l := step + 1
	if step >= g.n {
		l = 2*g.n - step
	}
	return step >= 0 && step < 2*g.n && g.has(l)
}

func (g *stageTracer) run(c *chain.Chain, p *plan.Plan, turns []turn, batches int) {
	begin := 0.0
	if len(turns) > 0 {
		begin = turns[0].start
	}
	for l := 1; l <= g.n; l++ {
		if g.has(l) {
			for range p.Platform.WeightCopies {
				g.Allocate(begin, c.Layers[l-1].Weight, plan.TensorW, l)
			}
		}
		if l < g.n && g.owner[l] != g.owner[l+1] && (g.has(l) || g.has(l+1)) {
			g.Allocate(begin, c.A(l), "buffer for a", l)
			g.Allocate(begin, c.Delta(l), "buffer for delta", l)
		}
	}
	stored := vacant(batches * (g.n + 1)) // a_{ℓ-1} of a mini-batch
	waiting := vacant(batches)            // the output of its last step, for the next one here
	for _, t := range turns {
		at := func(l int) *int32 { return &stored[t.batch*(g.n+1)+l] }
		wait := &waiting[t.batch]
		if t.step < g.n { // F_ℓ
			l := t.step + 1
			if c.Kept != nil || c.AllSaved { // what B_ℓ reads, not what crosses the cut
				g.Free(t.start, wait)
			}
			if *at(l - 1) = *wait; c.Kept != nil || c.AllSaved || !g.here(t.step-1) {
				*at(l - 1) = g.Allocate(t.start, c.KeptBy(l), plan.TensorA, l-1)
			}
			*wait = g.Allocate(t.start, c.A(l), plan.TensorA, l)
		} else { // B_ℓ
			l := 2*g.n - t.step
			input := *wait
			switch {
			case t.step == g.n: // a_N has become δ_N
				g.Free(t.start, &input)
				input = g.Allocate(t.start, c.Delta(l), plan.TensorDelta, l)
			case !g.here(t.step - 1):
				input = g.Allocate(t.start, c.Delta(l), plan.TensorDelta, l)
			}
			*wait = g.Allocate(t.start, c.Delta(l-1), plan.TensorDelta, l-1)
			g.Free(t.end, &input)
			g.Free(t.end, at(l-1))
		}
		if !g.here(t.step + 1) {
			g.Free(t.end, wait)
		}
	}
}
