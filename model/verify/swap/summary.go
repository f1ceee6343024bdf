package swap

import (
	"fmt"

	"workbench/model/instance/functions"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/verify/replay"
)

// Summary is what one wants to know of a plan of [plan.Swap] at a glance. Times
// are in seconds, sizes in bytes.
type Summary struct {
	replay.About
	Functions int     `json:"functions"` // of the sequence
	Variables int     `json:"variables"`
	Makespan  float64 `json:"makespan"`
	Compute   float64 `json:"compute"` // time that functions run
	Idle      float64 `json:"idle"`    // the rest of the makespan

	replay.Peak

	Bandwidth float64        `json:"bandwidth"` // of each link
	In        replay.Traffic `json:"in"`
	Out       replay.Traffic `json:"out"` // Busy is of the makespan
	Drops     int            `json:"drops"`
	Leaving   int            `json:"leaving"` // variables that leave the GPU by out or drop

	Violations int `json:"violations"` // broken rules
}

// Summarize replays p, a plan of [plan.Swap], and sums it up. The error is that of
// [Verify].
func Summarize(seq *functions.Sequence, p *plan.Plan) (*Summary, error) {
	v, err := replaySwap(seq, p, false)
	if err != nil {
		return nil, err
	}
	r := v.Report
	s := &Summary{
		About: replay.NewAbout(p), Functions: seq.Len(), Variables: len(seq.Variables), Makespan: r.Makespan,
		Peak: replay.NewPeak(p, r, seq.Unit), Bandwidth: p.Unit.Bytes(p.Platform.Bandwidth), Violations: len(r.Violations),
	}
	leaves := make([]bool, len(seq.Variables))
	for k := range p.Ops {
		o, x := &p.Ops[k], &v.actions[k]
		d := o.End - o.Start
		if !x.Meant || !plan.Finite(d) {
			continue // a broken rule, or a transfer of nothing
		}
		switch o.Op {
		case plan.OpRun:
			s.Compute = replay.InRange(s.Compute + d)
		case plan.OpIn:
			s.In.Add(seq.Unit.Bytes(v.size(x.id)), d)
		case plan.OpOut:
			s.Out.Add(seq.Unit.Bytes(v.size(x.id)), d)
			leaves[x.id] = true
		case plan.OpDrop:
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
		s.In.Busy, s.Out.Busy = replay.InRange(s.In.Busy/s.Makespan), replay.InRange(s.Out.Busy/s.Makespan)
	}
	if idle := s.Makespan - s.Compute; idle > plan.Tolerance*s.Makespan { // else rounding
		s.Idle = replay.InRange(idle)
	}
	return s, nil
}

// String returns the summary as lines of text.
func (s *Summary) String() string {
	var b replay.Sheet
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
