package plan

import (
	"fmt"
	"strings"

	"workbench/model/chain"
	"workbench/model/platform"
)

// Summary is what one wants to know of a weight-offloading plan at a glance.
// Times are in seconds, sizes in bytes, all of one period.
type Summary struct {
	Problem    string  `json:"problem"`
	Method     string  `json:"method"`
	Instance   string  `json:"instance"`
	Layers     int     `json:"layers"`
	Period     float64 `json:"period"`
	Compute    float64 `json:"compute"` // time that the GPU computes
	Idle       float64 `json:"idle"`    // the rest of the period
	Memory     float64 `json:"memory"`  // the limit
	PeakMemory float64 `json:"peak_memory"`
	PeakTime   float64 `json:"peak_time"`         // when it is first reached
	PeakOp     string  `json:"peak_op,omitempty"` // and by what: "B_3"
	Bandwidth  float64 `json:"bandwidth"`
	Leaving    int     `json:"leaving"` // layers whose weight leaves the GPU
	Prefetch   Traffic `json:"prefetch"`
	Upload     Traffic `json:"upload"`
	Violations int     `json:"violations"` // broken rules
}

// Traffic is what goes over one link in a period.
type Traffic struct {
	Transfers int     `json:"transfers"`
	Bytes     float64 `json:"bytes"`
	Busy      float64 `json:"busy"` // part of the period, 1: all of it
}

// Summarize replays p, a plan of weight offloading, and sums it up. The error
// is that of [VerifyWeightOffload].
func Summarize(c *chain.Chain, p *Plan) (*Summary, error) {
	r, err := VerifyWeightOffload(c, p)
	if err != nil {
		return nil, err
	}
	s := &Summary{
		Problem: p.Problem, Method: p.Method, Instance: p.Instance.Name, Layers: c.Len(),
		Period: *p.Period, Memory: p.Unit.Bytes(p.Platform.Memory), Bandwidth: p.Unit.Bytes(p.Platform.Bandwidth),
		PeakMemory: p.Unit.Bytes(r.PeakMemory), PeakTime: r.PeakTime, Violations: len(r.Violations),
	}
	if r.PeakOp >= 0 {
		s.PeakOp = p.Ops[r.PeakOp].String()
	}
	leaves := make([]bool, c.Len())
	for k := range p.Ops {
		o := &p.Ops[k]
		if o.Layer < 1 || o.Layer > c.Len() || !finite(o.End-o.Start) {
			continue // a broken rule
		}
		switch o.Op {
		case OpF, OpB:
			s.Compute += o.End - o.Start
		case OpP:
			s.Prefetch.add(o, c)
		case OpO:
			s.Upload.add(o, c)
		case OpD:
			leaves[o.Layer-1] = true
		}
	}
	for _, l := range leaves {
		if l {
			s.Leaving++
		}
	}
	s.Idle = s.Period - s.Compute
	if s.Idle < Tolerance*s.Period {
		s.Idle = 0 // the rounding of a sum
	}
	s.Prefetch.Busy /= s.Period
	s.Upload.Busy /= s.Period
	return s, nil
}

// add counts a transfer; Busy is in seconds until all are counted.
func (t *Traffic) add(o *Op, c *chain.Chain) {
	t.Transfers++
	t.Bytes += c.Unit.Bytes(c.Layers[o.Layer-1].Weight)
	t.Busy += o.End - o.Start
}

// String returns the summary as lines of text.
func (s *Summary) String() string {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "  %-11s "+format+"\n", append([]any{name}, args...)...)
	}
	fmt.Fprintf(&b, "%s plan for %s by %s\n", s.Problem, s.Instance, s.Method)
	line("period", "%s: computing %s, idle %s (%.2f %%)",
		platform.FormatSeconds(s.Period), platform.FormatSeconds(s.Compute), platform.FormatSeconds(s.Idle), 100*s.Idle/s.Period)
	peak := "at all times"
	if s.PeakOp != "" {
		peak = fmt.Sprintf("first with %s at %s", s.PeakOp, platform.FormatSeconds(s.PeakTime))
	}
	line("peak memory", "%s of %s, %s", platform.FormatBytes(s.PeakMemory), platform.FormatBytes(s.Memory), peak)
	line("weights", "of %d of %d layers leave the GPU", s.Leaving, s.Layers)
	line("host → GPU", "%s", s.Prefetch.describe("prefetches", s.Bandwidth))
	line("GPU → host", "%s", s.Upload.describe("uploads", s.Bandwidth))
	if s.Violations > 0 {
		line("INVALID", "breaks the rules %d times; verify says where", s.Violations)
	}
	return b.String()
}

func (t *Traffic) describe(what string, bandwidth float64) string {
	if t.Transfers == 0 {
		return "no " + what
	}
	return fmt.Sprintf("%d %s of %s, the link at %s busy for %.2f %%",
		t.Transfers, what, platform.FormatBytes(t.Bytes), platform.FormatRate(bandwidth), 100*t.Busy)
}
