package plan

import (
	"workbench/model/chain"
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
	// together, all that activation offloading can send; 0 if there are none.
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
	for k := range p.Ops {
		o, x := &p.Ops[k], &v.actions[k]
		if !x.meant || !Finite(o.End-o.Start) {
			continue // a broken rule
		}
		var t *Traffic
		switch o.Op {
		case OpO:
			t = &s.Offload
		case OpP:
			t = &s.Prefetch
		default:
			continue
		}
		t.Transfers++
		t.Bytes += c.Unit.Bytes(x.size)
		t.Busy = InRange(t.Busy + o.End - o.Start)
	}
	all := c.Input.Activation
	for i := range c.Layers[:c.Len()-1] {
		all += c.Layers[i].Saved
	}
	if all = c.Unit.Bytes(all); all > 0 {
		s.OffloadShare, s.PrefetchShare = s.Offload.Bytes/all, s.Prefetch.Bytes/all
	}
	for _, t := range []*Traffic{&s.Offload, &s.Prefetch} {
		if s.Makespan > 0 {
			t.Busy = InRange(t.Busy / s.Makespan)
		}
	}
	return s, nil
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
		b.Line(name, "%d %s of %s (%.2f %% of all ā), the link at %s busy for %.2f %%",
			t.Transfers, what, platform.FormatBytes(t.Bytes), 100*share, platform.FormatRate(s.Bandwidth), 100*t.Busy)
	}
	describe(&s.Offload, "GPU → host", "offloads", s.OffloadShare)
	describe(&s.Prefetch, "host → GPU", "prefetches", s.PrefetchShare)
	return b.End(s.Violations)
}
