package allocator

import (
	"workbench/model/instance/chain"
	"workbench/model/instance/functions"
	"workbench/model/instance/training"
	"workbench/model/plan"
	"workbench/model/verify/rematoffload"
	"workbench/model/verify/replay"
	verifyswap "workbench/model/verify/swap"
	"workbench/model/verify/weightoffload"
)

// OfOffload is the [Tracer] of activation offloading and of rematerialization with offloading, on chains and training
// steps, in the integral model.
func OfOffload(in plan.Instance, p *plan.Plan, _ int64) ([]*Trace, error) {
	return one(in, func(b *tracer) error {
		if g := plan.As[*training.Graph](in); g != nil {
			b.graph(g, p)
			return nil
		}
		return rematoffload.Allocate(plan.As[*chain.Chain](in), p, b)
	})
}

// OfWeights is the [Tracer] of weight offloading: [Periods] periods.
func OfWeights(in plan.Instance, p *plan.Plan, _ int64) ([]*Trace, error) {
	return one(in, func(b *tracer) error { return b.weights(plan.As[*chain.Chain](in), p) })
}

// OfSwapping is the [Tracer] of swapping.
func OfSwapping(in plan.Instance, p *plan.Plan, _ int64) ([]*Trace, error) {
	return one(in, func(b *tracer) error { return b.swap(plan.As[*functions.Sequence](in), p) })
}

// edges returns the starts and ends of all operations of a valid plan in the order of the verifier.
func edges(p *plan.Plan) []replay.Event {
	r := &replay.Replay{Plan: p, Report: &plan.Report{}}
	transfer := func(o *plan.Op) bool { return o.Op == plan.OpO || o.Op == plan.OpP }
	if err := r.AllowTransfers(func(o *plan.Op) bool { return !transfer(o) }, func(*plan.Op) bool { return false }); err != nil {
		return nil // not of a valid plan
	}
	timings := make([]replay.Timing, len(p.Ops))
	for k := range timings {
		timings[k].Meant = true
	}
	return r.Events(func(k int) *replay.Timing { return &timings[k] }, func(*plan.Op) bool { return true }, func(o *plan.Op) int8 {
		if o.Op == plan.OpP {
			return replay.Fetching
		}
		return replay.Starting
	})
}

// weights records a valid plan of weight offloading: Periods periods from time 0 on. Weights are allocated while
// they are resident, a^k from the start of F_k to the start of B_{k-1}, gradients of weights during their B ([001]
// (1)).
func (b *tracer) weights(c *chain.Chain, p *plan.Plan) error {
	c = c.Count(p.Platform.Model)
	period := *p.Period
	circle := replay.Circle{Period: period}
	eps := plan.Tolerance * period
	residencies, err := weightoffload.Residencies(c, p)
	if err != nil {
		return err
	}
	forward, backward := make([]*plan.Op, c.Len()), make([]*plan.Op, c.Len())
	for k := range p.Ops {
		switch o := &p.Ops[k]; o.Op {
		case plan.OpF:
			forward[o.Layer-1] = o
		case plan.OpB:
			backward[o.Layer-1] = o
		}
	}
	var all []stay
	end := Periods * period
	always := func(bytes float64, tensor string, layer int) {
		all = append(all, stay{to: end, bytes: bytes, tensor: tensor, layer: layer})
	}
	// turns adds an interval in every period, and the part of it that extends beyond time 0.
	turns := func(s stay) {
		length := s.to - s.from
		for from := circle.Wrap(s.from) - period; from < end; from += period {
			if to := from + length; to > eps {
				turn := s
				turn.from, turn.to = max(from, 0), to
				all = append(all, turn)
			}
		}
	}
	always(c.Input.Activation, plan.TensorA, 0)
	always(c.SavedSize(1), plan.TensorA, 1)
	for _, r := range residencies {
		w := c.Layers[r.Layer-1].Weight
		if r.Op < 0 {
			always(w, plan.TensorW, r.Layer)
		} else {
			turns(stay{from: r.Start, to: r.End, bytes: w, tensor: plan.TensorW, layer: r.Layer, late: true})
		}
	}
	rest := c.TotalTime()
	for i := range c.Layers {
		l := &c.Layers[i]
		turns(stay{from: backward[i].Start, to: backward[i].End, bytes: l.Weight, tensor: "gradient of w", layer: i + 1})
		if i > 0 {
			gap := circle.Wrap(backward[i-1].Start - forward[i].Start)
			if gap <= eps || gap >= period-eps { // simultaneous: all, or nothing
				if gap = 0; rest > eps {
					gap = period
				}
			}
			turns(stay{from: forward[i].Start, to: forward[i].Start + gap, bytes: c.SavedSize(i + 1), tensor: plan.TensorA, layer: i + 1})
		}
		over, under := c.TransientSizes(i + 1)
		turns(stay{from: forward[i].Start, to: forward[i].End, bytes: over, tensor: "overhead", layer: i + 1})
		turns(stay{from: backward[i].Start, to: backward[i].End, bytes: under, tensor: "gradients and overhead", layer: i + 1})
		rest -= l.ForwardTime + l.BackwardTime
	}
	b.stays(all, end, eps)
	return nil
}

// swap records a valid plan of swapping.
func (b *tracer) swap(s *functions.Sequence, p *plan.Plan) error {
	events, err := verifyswap.Allocations(s, p)
	if err != nil {
		return err
	}
	held := vacant(len(s.Variables))
	for _, e := range events {
		if e.Free {
			b.Free(e.Time, &held[e.Variable])
		} else {
			held[e.Variable] = b.Allocate(e.Time, s.Variables[e.Variable].Size, s.Variables[e.Variable].ID, -1)
		}
	}
	return nil
}
