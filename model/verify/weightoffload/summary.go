package weightoffload

import (
	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/verify/replay"
)

// Summary is what one wants to know of a weight-offloading plan at a glance.
// Times are in seconds, sizes in bytes, all of one period.
type Summary struct {
	replay.About
	Layers  int     `json:"layers"`
	Period  float64 `json:"period"`
	Compute float64 `json:"compute"` // time that the GPU computes
	Idle    float64 `json:"idle"`    // the rest of the period
	replay.Peak
	Bandwidth  float64        `json:"bandwidth"`
	Leaving    int            `json:"leaving"` // layers whose weight leaves the GPU
	Prefetch   replay.Traffic `json:"prefetch"`
	Upload     replay.Traffic `json:"upload"`
	Violations int            `json:"violations"` // broken rules
}

// Summarize replays p, a plan of weight offloading, and sums it up. The error
// is that of [Verify].
func Summarize(c *chain.Chain, p *plan.Plan) (*Summary, error) {
	r, err := Verify(c, p)
	if err != nil {
		return nil, err
	}
	s := &Summary{
		About: replay.NewAbout(p), Layers: c.Len(), Period: *p.Period, Peak: replay.NewPeak(p, r, p.Unit),
		Bandwidth: p.Unit.Bytes(p.Platform.Bandwidth), Violations: len(r.Violations),
	}
	leaves := make([]bool, c.Len())
	for k := range p.Ops {
		o := &p.Ops[k]
		if o.Layer < 1 || o.Layer > c.Len() || !plan.Finite(o.End-o.Start) {
			continue // a broken rule
		}
		switch o.Op {
		case plan.OpF, plan.OpB:
			s.Compute += o.End - o.Start
		case plan.OpP:
			s.Prefetch.Add(c.Unit.Bytes(c.Layers[o.Layer-1].Weight), o.End-o.Start)
		case plan.OpO:
			s.Upload.Add(c.Unit.Bytes(c.Layers[o.Layer-1].Weight), o.End-o.Start)
		case plan.OpD:
			leaves[o.Layer-1] = true
		}
	}
	for _, l := range leaves {
		if l {
			s.Leaving++
		}
	}
	s.Idle = s.Period - s.Compute
	if s.Idle < plan.Tolerance*s.Period {
		s.Idle = 0 // the rounding of a sum
	}
	s.Prefetch.Busy /= s.Period
	s.Upload.Busy /= s.Period
	return s, nil
}

// String returns the summary as lines of text.
func (s *Summary) String() string {
	var b replay.Sheet
	b.Title(&s.About, "a chain")
	b.Line("period", "%s: computing %s, idle %s (%.2f %%)",
		platform.FormatSeconds(s.Period), platform.FormatSeconds(s.Compute), platform.FormatSeconds(s.Idle), 100*s.Idle/s.Period)
	b.Line("peak memory", "%s of %s, %s", platform.FormatBytes(s.PeakMemory), platform.FormatBytes(s.Memory), s.First("at all times"))
	b.Line("weights", "of %d of %d layers leave the GPU", s.Leaving, s.Layers)
	b.Line("host → GPU", "%s", s.Prefetch.Describe("prefetches", s.Bandwidth))
	b.Line("GPU → host", "%s", s.Upload.Describe("uploads", s.Bandwidth))
	return b.End(s.Violations)
}
