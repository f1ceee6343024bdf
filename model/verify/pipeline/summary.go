package pipeline

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/verify/replay"
)

// Summary is what one wants to know of a plan of a pipeline at a glance.
// Times are in seconds, sizes in bytes.
type Summary struct {
	replay.About
	Layers      int     `json:"layers"`
	K           int     `json:"k"`
	Period      float64 `json:"period"`     // T
	Makespan    float64 `json:"makespan"`   // T/k
	Bound       float64 `json:"load_bound"` // the work of one mini-batch over all processors
	Latency     float64 `json:"latency"`    // of a mini-batch, from the start of F_1 to the end of B_1; the longest
	MemoryModel string  `json:"memory_model"`
	Memory      float64 `json:"memory"`      // the limit
	PeakMemory  float64 `json:"peak_memory"` // by the memory model
	// Contiguous: no processor has layers on both sides of another's.
	Contiguous bool             `json:"contiguous"`
	GPUs       []GPU            `json:"gpus"`
	Links      []PatternTraffic `json:"links"` // in use
	Violations int              `json:"violations"`
}

// GPU is what one processor does.
type GPU struct {
	Name        string       `json:"name"`
	Stages      []plan.Stage `json:"stages"`
	Busy        float64      `json:"busy"` // part of the period, 1: all of it
	StageMemory float64      `json:"stage_memory"`
	TaskMemory  float64      `json:"task_memory"`
	Activations int          `json:"activations"` // the largest NCA of its layers
}

// PatternTraffic is what goes over one link in a period.
type PatternTraffic struct {
	Name      string  `json:"name"`
	Transfers int     `json:"transfers"`
	Bytes     float64 `json:"bytes"`
	Busy      float64 `json:"busy"` // part of the period
}

// Summarize replays p and sums it up. The error is that of
// [Verify].
func Summarize(in plan.Instance, p *plan.Plan) (*Summary, error) {
	r, err := Verify(in, p)
	if err != nil {
		return nil, err
	}
	c, err := Line(in, p)
	if err != nil {
		return nil, err
	}
	s := &Summary{
		About: replay.NewAbout(p), Layers: c.Len(),
		K: max(1, p.K), Period: *p.Period, Makespan: r.Makespan,
		Bound:       replay.InRange(c.TotalTime() / float64(p.Platform.Processors)),
		MemoryModel: p.MemoryModel, Memory: p.Unit.Bytes(p.Platform.Memory), PeakMemory: p.Unit.Bytes(r.PeakMemory),
		Contiguous: true, Links: []PatternTraffic{}, Violations: len(r.Violations),
	}
	if s.MemoryModel == "" {
		s.MemoryModel = plan.TaskModel
	}
	for i := range p.Platform.Processors {
		g := GPU{
			Name: gpuName(i), Stages: []plan.Stage{}, StageMemory: p.Unit.Bytes(r.Pattern.StageMemory[i]),
			TaskMemory: p.Unit.Bytes(r.Pattern.TaskMemory[i]),
		}
		for _, x := range p.Allocation {
			here := x.Processor <= i && i < x.Processor+x.Copies()
			if here {
				g.Stages = append(g.Stages, x)
			}
			for l := max(1, x.From); here && l <= min(x.To, c.Len()); l++ {
				g.Activations = max(g.Activations, r.Pattern.NCA[l-1])
			}
		}
		slices.SortFunc(g.Stages, func(a, b plan.Stage) int { return a.From - b.From })
		for k := 1; k < len(g.Stages); k++ {
			s.Contiguous = s.Contiguous && g.Stages[k].From == g.Stages[k-1].To+1
		}
		s.GPUs = append(s.GPUs, g)
	}
	s.addOps(c, p)
	return s, nil
}

// addOps adds up what the resources do, and finds the latency.
func (s *Summary) addOps(c *chain.Chain, p *plan.Plan) {
	first := slices.Repeat([]float64{math.NaN()}, s.K) // starts of F_1 and ends of B_1 of mini-batch r
	last := slices.Clone(first)
	for k := range p.Ops {
		o := &p.Ops[k]
		d := o.End - o.Start
		if !plan.Finite(d) || o.Layer < 1 || o.Layer > c.Len() {
			continue // a broken rule
		}
		r := ((o.Shift % s.K) + s.K) % s.K
		turn := float64((r-o.Shift)/s.K) * s.Period
		switch {
		case o.Op == plan.OpF && o.Layer == 1:
			first[r] = o.Start + turn
		case o.Op == plan.OpB && o.Layer == 1:
			last[r] = o.End + turn
		}
		if o.Op == plan.OpF || o.Op == plan.OpB || o.Op == plan.OpAR {
			if i := slices.IndexFunc(s.GPUs, func(g GPU) bool { return g.Name == o.Resource }); i >= 0 {
				s.GPUs[i].Busy += d / s.Period
			}
			continue
		}
		i := slices.IndexFunc(s.Links, func(l PatternTraffic) bool { return l.Name == o.Resource })
		if i < 0 {
			i = len(s.Links)
			s.Links = append(s.Links, PatternTraffic{Name: o.Resource})
		}
		l := &s.Links[i]
		l.Transfers++
		l.Busy += d / s.Period
		if o.Op == plan.OpCF {
			l.Bytes += c.Unit.Bytes(c.Layers[o.Layer-1].Activation)
		} else {
			l.Bytes += c.Unit.Bytes(c.Layers[o.Layer-1].Gradient)
		}
	}
	for r := range first {
		if d := last[r] - first[r]; d > s.Latency {
			s.Latency = d
		}
	}
	slices.SortFunc(s.Links, func(a, b PatternTraffic) int { return strings.Compare(a.Name, b.Name) })
}

// String returns the summary as lines of text.
func (s *Summary) String() string {
	var b replay.Sheet
	b.Title(&s.About, "a chain")
	many := ""
	if s.K > 1 {
		many = fmt.Sprintf(" (%s for %d)", platform.FormatSeconds(s.Period), s.K)
	}
	b.Line("period", "%s a mini-batch%s; the work shared evenly: %s", platform.FormatSeconds(s.Makespan), many,
		platform.FormatSeconds(s.Bound))
	b.Line("latency", "%s, %.1f periods", platform.FormatSeconds(s.Latency), s.Latency/s.Period)
	kind := "contiguous"
	if !s.Contiguous {
		kind = "not contiguous"
	}
	b.Line("allocation", "%s, %d of %d GPUs", kind, s.used(), len(s.GPUs))
	b.Line("peak memory", "%s of %s by the %s model", platform.FormatBytes(s.PeakMemory), platform.FormatBytes(s.Memory), s.MemoryModel)
	for i := 0; i < len(s.GPUs); i++ {
		g := &s.GPUs[i]
		if len(g.Stages) == 0 { // as its neighbours may be
			name := g.Name
			for i+1 < len(s.GPUs) && len(s.GPUs[i+1].Stages) == 0 {
				i++
				name = g.Name + " to " + s.GPUs[i].Name
			}
			b.Line(name, "nothing")
			continue
		}
		var layers []string
		for _, x := range g.Stages {
			text := fmt.Sprintf("%d–%d", x.From, x.To)
			if x.From == x.To {
				text = fmt.Sprint(x.From)
			}
			layers = append(layers, text)
		}
		b.Line(g.Name, "layers %s, busy for %.2f %%, %s (stage) and %s (task), inputs stored at most %d times",
			strings.Join(layers, ", "), 100*g.Busy, platform.FormatBytes(g.StageMemory), platform.FormatBytes(g.TaskMemory), g.Activations)
	}
	for i := range s.Links {
		l := &s.Links[i]
		b.Line(l.Name, "%s of %s, busy for %.2f %%", platform.Count(l.Transfers, "transfer"), platform.FormatBytes(l.Bytes), 100*l.Busy)
	}
	return b.End(s.Violations)
}

// used returns how many GPUs have layers.
func (s *Summary) used() (n int) {
	for i := range s.GPUs {
		if len(s.GPUs[i].Stages) > 0 {
			n++
		}
	}
	return n
}
