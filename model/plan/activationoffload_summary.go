package plan

import (
	"workbench/model/instance/chain"
	"workbench/model/instance/training"
	"workbench/model/platform"
)

// OffloadSummary is what one wants to know of a plan of [ActivationOffload] or
// [RematOffload] at a glance: what a [RematSummary] says of the computations,
// and what goes over the link.
type OffloadSummary struct {
	RematSummary
	Bandwidth float64 `json:"bandwidth"`
	Offload   Traffic `json:"offload"`  // to the host
	Prefetch  Traffic `json:"prefetch"` // and back; Busy is of the makespan
	// OffloadShare and PrefetchShare are their bytes over those of ā_0..ā_{N-1}
	// together, all that activation offloading can send, of a training step over
	// those of all values; 0 if there are none.
	OffloadShare  float64 `json:"offload_share"`
	PrefetchShare float64 `json:"prefetch_share"`
}

// SummarizeOffload replays p, a plan of [ActivationOffload] or [RematOffload],
// and sums it up. The error is that of [VerifyOffload].
func SummarizeOffload(c *chain.Chain, p *Plan) (*OffloadSummary, error) {
	v, err := replayOffload(c, p, false)
	if err != nil {
		return nil, err
	}
	s := &OffloadSummary{RematSummary: *summarize(c, c.Len(), p, v.replay), Bandwidth: p.Unit.Bytes(p.Platform.Bandwidth)}
	all := c.Input.Activation
	for i := range c.Layers[:c.Len()-1] {
		all += c.Layers[i].Saved
	}
	s.sum(p, c.Unit.Bytes(all), func(k int) (bytes float64, meant bool) {
		return c.Unit.Bytes(v.actions[k].size), v.actions[k].meant
	})
	return s, nil
}

// SummarizeStep does so on a training step, of which all storages that are not resident
// are what can be sent. The error is that of [VerifyTraining].
func SummarizeStep(g *training.Graph, p *Plan) (*OffloadSummary, error) {
	v, err := stepReplay(g, p, false, false)
	if err != nil {
		return nil, err
	}
	s := &OffloadSummary{RematSummary: *summarize(g, g.Len(), p, v.replay), Bandwidth: p.Unit.Bytes(p.Platform.Bandwidth)}
	all := 0.0
	for k := range g.Storages {
		if !g.Storages[k].Resident {
			all += g.Storages[k].Bytes
		}
	}
	s.sum(p, g.Unit.Bytes(all), func(k int) (bytes float64, meant bool) {
		if x := &v.actions[k]; x.meant {
			return g.Unit.Bytes(g.Storages[x.of].Bytes), true
		}
		return 0, false
	})
	return s, nil
}

// sum adds up the transfers of p, of which all is what can be sent.
func (s *OffloadSummary) sum(p *Plan, all float64, of func(k int) (bytes float64, meant bool)) {
	for k := range p.Ops {
		o := &p.Ops[k]
		var t *Traffic
		switch o.Op {
		case OpO:
			t = &s.Offload
		case OpP:
			t = &s.Prefetch
		default:
			continue
		}
		bytes, meant := of(k)
		if !meant || !Finite(o.End-o.Start) {
			continue // a broken rule
		}
		t.Transfers++
		t.Bytes += bytes
		t.Busy = InRange(t.Busy + o.End - o.Start)
	}
	if all > 0 {
		s.OffloadShare, s.PrefetchShare = s.Offload.Bytes/all, s.Prefetch.Bytes/all
	}
	for _, t := range []*Traffic{&s.Offload, &s.Prefetch} {
		if s.Makespan > 0 {
			t.Busy = InRange(t.Busy / s.Makespan)
		}
	}
}

// String returns the summary as lines of text.
func (s *OffloadSummary) String() string {
	var b Sheet
	s.write(&b)
	describe := func(t *Traffic, name, what string, share float64) {
		if t.Transfers == 0 {
			b.Line(name, "no %s", what)
			return
		}
		all := "ā"
		if s.Kind == training.Kind {
			all = "values"
		}
		b.Line(name, "%d %s of %s (%.2f %% of all %s), the link at %s busy for %.2f %%",
			t.Transfers, what, platform.FormatBytes(t.Bytes), 100*share, all, platform.FormatRate(s.Bandwidth), 100*t.Busy)
	}
	describe(&s.Offload, "GPU → host", "offloads", s.OffloadShare)
	describe(&s.Prefetch, "host → GPU", "prefetches", s.PrefetchShare)
	return b.End(s.Violations)
}
