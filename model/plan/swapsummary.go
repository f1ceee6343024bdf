package plan

import (
	"fmt"

	"workbench/model/instance/functions"
	"workbench/model/platform"
)

// SwapSummary is what one wants to know of a plan of [Swap] at a glance. Times
// are in seconds, sizes in bytes.
type SwapSummary struct {
	About
	Functions int     `json:"functions"` // of the sequence
	Variables int     `json:"variables"`
	Makespan  float64 `json:"makespan"`
	Compute   float64 `json:"compute"` // time that functions run
	Idle      float64 `json:"idle"`    // the rest of the makespan

	Peak

	Bandwidth float64 `json:"bandwidth"` // of each link
	In        Traffic `json:"in"`
	Out       Traffic `json:"out"` // Busy is of the makespan
	Drops     int     `json:"drops"`
	Leaving   int     `json:"leaving"` // variables that leave the GPU by out or drop

	Violations int `json:"violations"` // broken rules
}

// SummarizeSwap replays p, a plan of [Swap], and sums it up. The error is that of
// [VerifySwap].
func SummarizeSwap(seq *functions.Sequence, p *Plan) (*SwapSummary, error) {
	v, err := replaySwap(seq, p, false)
	if err != nil {
		return nil, err
	}
	r := v.report
	s := &SwapSummary{
		About: p.About(), Functions: seq.Len(), Variables: len(seq.Variables), Makespan: r.Makespan,
		Peak: p.PeakIn(r, seq.Unit), Bandwidth: p.Unit.Bytes(p.Platform.Bandwidth), Violations: len(r.Violations),
	}
	leaves := make([]bool, len(seq.Variables))
	for k := range p.Ops {
		o, x := &p.Ops[k], &v.actions[k]
		d := o.End - o.Start
		if !x.meant || !Finite(d) {
			continue // a broken rule, or a transfer of nothing
		}
		switch o.Op {
		case OpRun:
			s.Compute = InRange(s.Compute + d)
		case OpIn:
			s.In.transfer(seq.Unit.Bytes(v.size(x.id)), d)
		case OpOut:
			s.Out.transfer(seq.Unit.Bytes(v.size(x.id)), d)
			leaves[x.id] = true
		case OpDrop:
			s.Drops++
			leaves[x.id] = true
		}
	}
	for _, l := range leaves {
		if l {
			s.Leaving++
		}
	}
	if s.Makespan > 0 {
		s.In.Busy, s.Out.Busy = InRange(s.In.Busy/s.Makespan), InRange(s.Out.Busy/s.Makespan)
	}
	if idle := s.Makespan - s.Compute; idle > Tolerance*s.Makespan { // else rounding
		s.Idle = InRange(idle)
	}
	return s, nil
}

// transfer counts a transfer; Busy is in seconds until all are counted.
func (t *Traffic) transfer(size, time float64) {
	t.Transfers++
	t.Bytes += size
	t.Busy = InRange(t.Busy + time)
}

// String returns the summary as lines of text.
func (s *SwapSummary) String() string {
	var b Sheet
	b.Title(&s.About, "a sequence of functions")
	idle := ""
	if s.Makespan > 0 {
		idle = fmt.Sprintf(" (%.2f %%)", 100*s.Idle/s.Makespan)
	}
	b.Line("makespan", "%s: computing %s, idle %s%s",
		platform.FormatSeconds(s.Makespan), platform.FormatSeconds(s.Compute), platform.FormatSeconds(s.Idle), idle)
	b.Line("peak memory", "%s of %s, %s", platform.FormatBytes(s.PeakMemory), platform.FormatBytes(s.Memory), s.First("from the start"))
	b.Line("variables", "%d of %d leave the GPU before their last use; drops: %d", s.Leaving, s.Variables, s.Drops)
	b.Line("host → GPU", "%s", s.In.Describe("ins", s.Bandwidth))
	b.Line("GPU → host", "%s", s.Out.Describe("outs", s.Bandwidth))
	return b.End(s.Violations)
}
