package plan

import (
	"fmt"
	"strings"

	"workbench/model/chain"
	"workbench/model/graph"
	"workbench/model/join"
	"workbench/model/platform"
	"workbench/model/training"
)

// RematSummary is what one wants to know of a plan of [Remat] or [Join] at a
// glance. Times are in seconds, sizes in bytes, of a join in slots.
type RematSummary struct {
	Problem  string `json:"problem"`
	Method   string `json:"method"`
	Instance string `json:"instance"`
	Kind     string `json:"kind"` // of instance: "chain", "graph", "training", "join"
	Size     int    `json:"size"` // its layers, nodes or forwards

	Makespan   float64      `json:"makespan"`
	Compute    float64      `json:"compute"`   // time of computing everything once
	Recompute  float64      `json:"recompute"` // time of computing again
	Share      float64      `json:"share"`     // recompute / compute; 0 if that is 0
	Idle       float64      `json:"idle"`
	Recomputed []Recomputed `json:"recomputed"`

	Memory     float64      `json:"memory"` // the limit
	PeakMemory float64      `json:"peak_memory"`
	PeakTime   float64      `json:"peak_time"`         // when it is first reached
	PeakOp     string       `json:"peak_op,omitempty"` // and by what: "B_3"; empty: from the start
	AtLoss     *Checkpoints `json:"at_loss,omitempty"` // nil: there is no loss

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

// SummarizeRemat, SummarizeGraph, SummarizeTraining and SummarizeJoin replay p, a plan of [Remat] or
// [Join], and sum it up.
func SummarizeRemat(c *chain.Chain, p *Plan) (*RematSummary, error) {
	r, err := replayChain(c, p, false)
	if err != nil {
		return nil, err
	}
	return summarize(c, c.Len(), p, r), nil
}

func SummarizeGraph(g *graph.Graph, p *Plan) (*RematSummary, error) {
	r, err := replayGraph(g, p, false)
	if err != nil {
		return nil, err
	}
	return summarize(g, g.Len(), p, r), nil
}

func SummarizeTraining(g *training.Graph, p *Plan) (*RematSummary, error) {
	r, err := replayTraining(g, p, false)
	if err != nil {
		return nil, err
	}
	return summarize(g, g.Len(), p, r), nil
}

func SummarizeJoin(j *join.Join, p *Plan) (*RematSummary, error) {
	r, err := replayJoin(j, p, false)
	if err != nil {
		return nil, err
	}
	forwards := 0
	for _, length := range j.Branches {
		forwards += length
	}
	return summarize(j, forwards, p, r), nil
}

// summarize sums up a replay on an instance of so many layers, nodes or forwards.
func summarize(in Instance, size int, p *Plan, r *replay) *RematSummary {
	s := &RematSummary{
		Problem: p.Problem, Method: p.Method, Instance: p.Instance.Name, Kind: in.Kind(),
		Makespan: r.report.Makespan, Memory: p.Unit.Bytes(p.Platform.Memory),
		PeakMemory: in.Scale().Bytes(r.report.PeakMemory), PeakTime: r.report.PeakTime,
		AtLoss: r.atLoss, Violations: len(r.report.Violations),
	}
	if r.report.PeakOp >= 0 {
		s.PeakOp = p.Ops[r.report.PeakOp].String()
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
var forwards = [...]string{OpFAll, OpFCk, OpFNone, OpF, OpC}

// addOps adds up what is computed again, and when nothing runs.
func (s *RematSummary) addOps(p *Plan) {
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
		if !Finite(d) || o.Op == OpO || o.Op == OpP {
			continue // a broken rule, or not on the device
		}
		busy = InRange(busy + d)
		if o.Op == OpB || o.Op == OpD || o.Op == OpS || o.Op == OpLoss {
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
	if idle := s.Makespan - busy; idle > Tolerance*s.Makespan { // else rounding
		s.Idle = InRange(idle)
	}
}

// String returns the summary as lines of text.
func (s *RematSummary) String() string {
	var b strings.Builder
	s.write(&b)
	if s.Violations > 0 {
		summaryLine(&b, "INVALID", "breaks the rules %d times; verify says where", s.Violations)
	}
	return b.String()
}

// summaryLine writes a line of a summary under its name.
func summaryLine(b *strings.Builder, name, format string, args ...any) {
	fmt.Fprintf(b, "  %-11s "+format+"\n", append([]any{name}, args...)...)
}

// write writes everything but the verdict.
func (s *RematSummary) write(b *strings.Builder) {
	line := func(name, format string, args ...any) { summaryLine(b, name, format, args...) }
	instance := s.Instance
	if instance == "" {
		instance = "a " + s.Kind
	}
	fmt.Fprintf(b, "%s plan for %s by %s\n", s.Problem, instance, s.Method)
	idle := ""
	if s.Idle > 0 {
		idle = ", idle " + platform.FormatSeconds(s.Idle)
	}
	line("makespan", "%s: everything once %s, again %s (%.2f %%)%s",
		platform.FormatSeconds(s.Makespan), platform.FormatSeconds(s.Compute), platform.FormatSeconds(s.Recompute), 100*s.Share, idle)
	used := fmt.Sprintf("%s of %s", platform.FormatBytes(s.PeakMemory), platform.FormatBytes(s.Memory))
	if s.Kind == "join" {
		used = fmt.Sprintf("%g of %g slots", s.PeakMemory, s.Memory)
	}
	peak := "from the start"
	if s.PeakOp != "" {
		peak = fmt.Sprintf("first with %s at %s", s.PeakOp, platform.FormatSeconds(s.PeakTime))
	}
	line("peak memory", "%s, %s", used, peak)
	line("again", "%s", s.describeRecomputed())
	if c := s.AtLoss; c != nil {
		line("at the loss", "%s", s.describeCheckpoints(c))
	}
}

func (s *RematSummary) describeRecomputed() string {
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
	return fmt.Sprintf("%d operations: %s", total, strings.Join(kinds, ", "))
}

func (s *RematSummary) describeCheckpoints(c *Checkpoints) string {
	switch s.Kind {
	case "chain":
		on := ""
		if c.Host > 0 {
			on = fmt.Sprintf(", %d more on the host", c.Host)
		}
		return fmt.Sprintf("%d a and %d ā are stored%s", c.Activations, c.Saved, on)
	case "graph", "training":
		return fmt.Sprintf("%d values of forward nodes are stored", c.Activations)
	}
	return fmt.Sprintf("%d a are stored", c.Activations)
}
