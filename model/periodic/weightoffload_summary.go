package periodic

import (
	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
)

// WeightSummary is what one wants to know of a weight-offloading plan at a glance.
// Times are in seconds, sizes in bytes, all of one period.
type WeightSummary struct {
	plan.About
	Layers  int     `json:"layers"`
	Period  float64 `json:"period"`
	Compute float64 `json:"compute"` // time that the GPU computes
	Idle    float64 `json:"idle"`    // the rest of the period
	plan.Peak
	Bandwidth  float64      `json:"bandwidth"`
	Leaving    int          `json:"leaving"` // layers whose weight leaves the GPU
	Prefetch   plan.Traffic `json:"prefetch"`
	Upload     plan.Traffic `json:"upload"`
	Violations int          `json:"violations"` // broken rules
}

// SummarizeWeights replays p, a plan of weight offloading, and sums it up. The error
// is that of [VerifyWeights].
func SummarizeWeights(c *chain.Chain, p *plan.Plan) (*WeightSummary, error) {
	r, err := VerifyWeights(c, p)
	if err != nil {
		return nil, err
	}
	s := &WeightSummary{
		About: p.About(), Layers: c.Len(), Period: *p.Period, Peak: p.PeakIn(r, p.Unit),
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
			tally(&s.Prefetch, o, c)
		case plan.OpO:
			tally(&s.Upload, o, c)
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
func (s *WeightSummary) String() string {
	var b plan.Sheet
	b.Title(&s.About, "a chain")
	b.Line("period", "%s: computing %s, idle %s (%.2f %%)",
		platform.FormatSeconds(s.Period), platform.FormatSeconds(s.Compute), platform.FormatSeconds(s.Idle), 100*s.Idle/s.Period)
	b.Line("peak memory", "%s of %s, %s", platform.FormatBytes(s.PeakMemory), platform.FormatBytes(s.Memory), s.First("at all times"))
	b.Line("weights", "of %d of %d layers leave the GPU", s.Leaving, s.Layers)
	b.Line("host → GPU", "%s", s.Prefetch.Describe("prefetches", s.Bandwidth))
	b.Line("GPU → host", "%s", s.Upload.Describe("uploads", s.Bandwidth))
	return b.End(s.Violations)
}

// tally adds a transfer; Busy is in seconds until all are counted.
func tally(t *plan.Traffic, o *plan.Op, c *chain.Chain) {
	t.Transfers++
	t.Bytes += c.Unit.Bytes(c.Layers[o.Layer-1].Weight)
	t.Busy += o.End - o.Start
}
