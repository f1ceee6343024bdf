package plan

import (
	"fmt"
	"strings"

	"workbench/model/functions"
	"workbench/model/platform"
)

// SwapSummary is what one wants to know of a plan of [Swap] at a glance. Times
// are in seconds, sizes in bytes.
type SwapSummary struct {
	Problem   string  `json:"problem"`
	Method    string  `json:"method"`
	Instance  string  `json:"instance"`
	Functions int     `json:"functions"` // of the sequence
	Variables int     `json:"variables"`
	Makespan  float64 `json:"makespan"`
	Compute   float64 `json:"compute"` // time that functions run
	Idle      float64 `json:"idle"`    // the rest of the makespan

	Memory     float64 `json:"memory"` // the limit
	PeakMemory float64 `json:"peak_memory"`
	PeakTime   float64 `json:"peak_time"`         // when it is first reached
	PeakOp     string  `json:"peak_op,omitempty"` // and by what: "run f_3"; empty: from the start

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
		Problem: p.Problem, Method: p.Method, Instance: p.Instance.Name,
		Functions: seq.Len(), Variables: len(seq.Variables),
		Makespan: r.Makespan, Memory: p.Unit.Bytes(p.Platform.Memory), Bandwidth: p.Unit.Bytes(p.Platform.Bandwidth),
		PeakMemory: seq.Unit.Bytes(r.PeakMemory), PeakTime: r.PeakTime, Violations: len(r.Violations),
	}
	if r.PeakOp >= 0 {
		s.PeakOp = p.Ops[r.PeakOp].String()
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
	var b strings.Builder
	line := func(name, format string, args ...any) { summaryLine(&b, name, format, args...) }
	instance := s.Instance
	if instance == "" {
		instance = "a sequence of functions"
	}
	fmt.Fprintf(&b, "%s plan for %s by %s\n", s.Problem, instance, s.Method)
	idle := ""
	if s.Makespan > 0 {
		idle = fmt.Sprintf(" (%.2f %%)", 100*s.Idle/s.Makespan)
	}
	line("makespan", "%s: computing %s, idle %s%s",
		platform.FormatSeconds(s.Makespan), platform.FormatSeconds(s.Compute), platform.FormatSeconds(s.Idle), idle)
	peak := "from the start"
	if s.PeakOp != "" {
		peak = fmt.Sprintf("first with %s at %s", s.PeakOp, platform.FormatSeconds(s.PeakTime))
	}
	line("peak memory", "%s of %s, %s", platform.FormatBytes(s.PeakMemory), platform.FormatBytes(s.Memory), peak)
	line("variables", "%d of %d leave the GPU before their last use; drops: %d", s.Leaving, s.Variables, s.Drops)
	line("host → GPU", "%s", s.In.Describe("ins", s.Bandwidth))
	line("GPU → host", "%s", s.Out.Describe("outs", s.Bandwidth))
	if s.Violations > 0 {
		line("INVALID", "breaks the rules %d times; verify says where", s.Violations)
	}
	return b.String()
}
