package replay

import (
	"workbench/model/instance/training"
	"workbench/model/plan"
	"workbench/model/platform"
)

// OffloadSummary is what one wants to know of a plan of [plan.ActivationOffload] or
// [plan.RematOffload] at a glance: what a [RematSummary] says of the computations,
// and what goes over the link.
type OffloadSummary struct {
	Summary
	Bandwidth float64 `json:"bandwidth"`
	Offload   Traffic `json:"offload"`  // to the host
	Prefetch  Traffic `json:"prefetch"` // and back; Busy is of the makespan
	// OffloadShare and PrefetchShare are their bytes over those of ā_0..ā_{N-1}
	// together, all that activation offloading can send, of a training step over
	// those of all values; 0 if there are none.
	OffloadShare  float64 `json:"offload_share"`
	PrefetchShare float64 `json:"prefetch_share"`
}

// AddTransfers adds up the transfers of p; all is what could be sent.
func (s *OffloadSummary) AddTransfers(p *plan.Plan, all float64, of func(k int) (bytes float64, meant bool)) {
	for k := range p.Ops {
		o := &p.Ops[k]
		var t *Traffic
		switch o.Op {
		case plan.OpO:
			t = &s.Offload
		case plan.OpP:
			t = &s.Prefetch
		default:
			continue
		}
		bytes, meant := of(k)
		if !meant || !plan.Finite(o.End-o.Start) {
			continue // a broken rule
		}
		t.Add(bytes, o.End-o.Start)
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
