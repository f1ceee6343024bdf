package replay

import (
	"fmt"
	"strings"

	"workbench/model/plan"
	"workbench/model/platform"
)

// Summary is what one wants to know of a plan of [plan.Remat] or [plan.Join] at a
// glance. Times are in seconds, sizes in bytes, of a join in slots.
type Summary struct {
	About
	Kind string `json:"kind"` // of instance: "chain", "graph", "training", "join"
	Size int    `json:"size"` // its layers, nodes or forwards

	Makespan   float64      `json:"makespan"`
	Compute    float64      `json:"compute"`   // time of computing everything once
	Recompute  float64      `json:"recompute"` // time of computing again
	Share      float64      `json:"share"`     // recompute / compute; 0 if that is 0
	Idle       float64      `json:"idle"`
	Recomputed []Recomputed `json:"recomputed"`

	Peak
	AtLoss *Checkpoints `json:"at_loss,omitempty"` // nil: there is no loss

	Violations int `json:"violations"` // broken rules
}

// Recomputed is how many operations of one kind compute what has been computed
// before.
type Recomputed struct {
	Op    string `json:"op"`
	Count int    `json:"count"`
}

// Checkpoints is what is stored when the turning point of a plan begins: B_N of
// a chain, the loss of a graph or join.
type Checkpoints struct {
	Activations int `json:"activations"` // a, a_0 included; of a graph, forward values
	Saved       int `json:"saved"`       // ā
	// Host counts what is on the host only; of problems with offloads.
	Host int `json:"host,omitempty"`
}

// summarize sums up a replay on an instance of so many layers, nodes or forwards.
func Summarize(in plan.Instance, size int, p *plan.Plan, r *Replay) *Summary {
	s := &Summary{
		About: NewAbout(p), Kind: in.Kind(), Makespan: r.Report.Makespan, Peak: NewPeak(p, r.Report, in.Scale()),
		AtLoss: r.AtLoss, Violations: len(r.Report.Violations),
	}
	s.Size, s.Compute = size, InRange(in.TotalTime())
	s.addOps(p)
	if s.Compute > 0 {
		s.Share = InRange(s.Recompute / s.Compute)
	}
	return s
}

// forwards are the kinds of operation that may run again, in the order in which
// they are listed.
var forwards = [...]string{plan.OpFAll, plan.OpFCk, plan.OpFNone, plan.OpF, plan.OpC}

// addOps adds up what is computed again, and when nothing runs.
func (s *Summary) addOps(p *plan.Plan) {
	type computation struct {
		branch, layer int
		node          string
	}
	seen := map[computation]bool{}
	count := map[string]int{}
	busy := 0.0
	for k := range p.Ops {
		o := &p.Ops[k]
		d := o.End - o.Start
		if !plan.Finite(d) || o.Op == plan.OpO || o.Op == plan.OpP {
			continue // a broken rule, or not on the device
		}
		busy = InRange(busy + d)
		if o.Op == plan.OpB || o.Op == plan.OpD || o.Op == plan.OpS || o.Op == plan.OpLoss {
			continue
		}
		id := computation{o.Branch, o.Layer, o.Node}
		if seen[id] {
			count[o.Op]++
			s.Recompute = InRange(s.Recompute + d)
		}
		seen[id] = true
	}
	s.Recomputed = []Recomputed{}
	for _, op := range forwards {
		if n := count[op]; n > 0 {
			s.Recomputed = append(s.Recomputed, Recomputed{op, n})
		}
	}
	if idle := s.Makespan - busy; idle > plan.Tolerance*s.Makespan { // else rounding
		s.Idle = InRange(idle)
	}
}

// String returns the summary as lines of text.
func (s *Summary) String() string {
	var b Sheet
	s.write(&b)
	return b.End(s.Violations)
}

// write writes everything but the verdict.
func (s *Summary) write(b *Sheet) {
	b.Title(&s.About, "a "+s.Kind)
	idle := ""
	if s.Idle > 0 {
		idle = ", idle " + platform.FormatSeconds(s.Idle)
	}
	b.Line("step time", "%s = %s compute + %s recompute (+%.2f %%)%s",
		platform.FormatSeconds(s.Makespan), platform.FormatSeconds(s.Compute), platform.FormatSeconds(s.Recompute), 100*s.Share, idle)
	used := fmt.Sprintf("%s of %s", platform.FormatBytes(s.PeakMemory), platform.FormatBytes(s.Memory))
	if s.Kind == "join" {
		used = fmt.Sprintf("%g of %g slots", s.PeakMemory, s.Memory)
	}
	b.Line("peak memory", "%s, %s", used, s.First("from the start"))
	b.Line("again", "%s", s.describeRecomputed())
	if c := s.AtLoss; c != nil {
		b.Line("at the loss", "%s", s.describeCheckpoints(c))
	}
}

func (s *Summary) describeRecomputed() string {
	total := 0
	var kinds []string
	for _, r := range s.Recomputed {
		total += r.Count
		kinds = append(kinds, fmt.Sprintf("%d %s", r.Count, r.Op))
	}
	switch total {
	case 0:
		return "nothing is computed again"
	case 1:
		return "one operation, " + s.Recomputed[0].Op
	}
	return platform.Count(total, "operation") + ": " + strings.Join(kinds, ", ")
}

func (s *Summary) describeCheckpoints(c *Checkpoints) string {
	on := ""
	if c.Host > 0 {
		on = fmt.Sprintf(", %d more on the host", c.Host)
	}
	switch s.Kind {
	case "chain":
		return fmt.Sprintf("%d a and %d ā are stored%s", c.Activations, c.Saved, on)
	case "graph", "training":
		return fmt.Sprintf("%s of forward nodes stored%s", platform.Count(c.Activations, "value"), on)
	}
	return fmt.Sprintf("%d a are stored", c.Activations)
}
