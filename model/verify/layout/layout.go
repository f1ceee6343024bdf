// Package layout replays layouts of synchronous pipelines. It adds up the stages of a plan from the chain by the rules of the
// documentation, shares no code with methods, and has the schedule replayed by the verifier of synchronous schedules.
package layout

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"workbench/model/instance/chain"
	"workbench/model/instance/stages"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/verify/flush"
)

// Names of the options that every layer has.
const (
	none = "none" // computes nothing again
	full = "full" // keeps the input of the layer only
)

// Verify replays p, a plan of [plan.Layout], on c: [Schedule] says what the stages take, and [flush.Verify] replays the
// operations. The error wraps [plan.ErrUnreadable]. O(operations + layers).
func Verify(c *chain.Chain, p *plan.Plan) (*plan.Report, error) {
	in, q, err := Schedule(c, p)
	if err != nil {
		return nil, err
	}
	return flush.Verify(in, q)
}

// Summary is what one wants to know of a plan at a glance.
type Summary struct {
	*flush.Summary
	Allocation []plan.Stage `json:"allocation"`
	Recompute  []string     `json:"recompute"`
}

// Summarize sums up p. The error is that of [Verify].
func Summarize(c *chain.Chain, p *plan.Plan) (*Summary, error) {
	in, q, err := Schedule(c, p)
	if err != nil {
		return nil, err
	}
	s, err := flush.Summarize(in, q)
	if err != nil {
		return nil, err
	}
	s.Problem, s.Placement = p.Problem, p.Platform.Placement
	return &Summary{s, p.Allocation, p.Recompute}, nil
}

// String returns the summary as lines of text.
func (s *Summary) String() string {
	var b strings.Builder
	b.WriteString(strings.TrimSuffix(s.Summary.String(), "\n"))
	for k, line := range StageLines(s.Allocation, s.Recompute) {
		fmt.Fprintf(&b, "\n  stage %-5d %s", k+1, line)
	}
	return b.String() + "\n"
}

// StageLines returns for each stage its GPU, its layers, and how many of them compute what again: "gpu0, layers 1–9, 6 selective".
func StageLines(allocation []plan.Stage, recompute []string) (lines []string) {
	for _, s := range allocation {
		line, counts, names := fmt.Sprintf("gpu%d, layers %d–%d", s.Processor, s.From, s.To), map[string]int{}, []string{}
		for _, o := range recompute[s.From-1 : s.To] {
			if o != none && counts[o] == 0 {
				names = append(names, o)
			}
			counts[o]++
		}
		for _, o := range names {
			line += fmt.Sprintf(", %d %s", counts[o], o)
		}
		lines = append(lines, line)
	}
	return lines
}

// Schedule returns the stages of a plan and the plan as one of [plan.Flush] on them. The error wraps [plan.ErrUnreadable] and names
// the field that is wrong.
//
// A stage takes the sums of the times of its layers and of what is computed again, and holds of a micro-batch from the start of F to
// the end of W, or of B if the backward is not split, what the options of its layers hold: without recomputation the input of the
// layer and all it saves but its output, with full recomputation the input. Gradients for W are held from B on. The gradients of the
// weights of a layer are part of B where its option does not split. A GPU also holds the weights of its stages and the largest
// transient of a layer. A transfer takes the latency and the bytes of the largest tensor between two GPUs over the bandwidth. By the
// rules of PyTorch's runtime a stage also holds its output, unless it is the last, and all of the backward of the first stage is W,
// if that is split.
func Schedule(c *chain.Chain, p *plan.Plan) (*stages.Partition, *plan.Plan, error) {
	if err := readable(c, p); err != nil {
		return nil, nil, err
	}
	x := p.Converted(c.Unit).Platform
	in := &stages.Partition{Name: c.Name, Unit: c.Unit, Runtime: x.Runtime}
	ranks := make([]int, len(p.Allocation))
	for k, a := range p.Allocation {
		s, err := stage(c, &x, a, p.Recompute)
		if err != nil {
			return nil, nil, err
		}
		last := k == len(p.Allocation)-1
		if x.Runtime == stages.Torch {
			if !last {
				out := c.Layers[a.To-1].Activation
				s.ForwardMemory, s.WeightMemory = s.ForwardMemory+out, s.WeightMemory-out
			}
			if k == 0 && s.WeightTime > 0 {
				s.BackwardTime, s.WeightTime = 0, s.BackwardTime+s.WeightTime
			}
		}
		if s.WeightTime == 0 {
			s.BackwardMemory, s.WeightMemory = -s.ForwardMemory, 0
		}
		s.RecomputeTime = min(s.RecomputeTime, s.BackwardTime) // for pictures
		ranks[k] = a.Processor
		if in.Stages = append(in.Stages, s); !last && p.Allocation[k+1].Processor != a.Processor {
			in.CommunicationTime = max(in.CommunicationTime, transfer(c, &x, a.To))
		}
	}
	q := *p
	q.Problem, q.Allocation, q.Recompute = plan.Flush, nil, nil
	q.Platform.Placement, q.Platform.Objective = plan.WriteRanks(ranks), cmp.Or(x.Objective, plan.MakespanObjective)
	return in, &q, in.Validate()
}

// transfer returns how long the output of layer l, from 1, or its gradient takes between GPUs.
func transfer(c *chain.Chain, x *platform.Platform, l int) float64 {
	if x.Bandwidth > 0 {
		return x.Latency + max(c.Layers[l-1].Activation, c.Layers[l-1].Gradient)/x.Bandwidth
	}
	return x.Latency
}

// stage adds up layers. What a split backward gives back it gives back at the end of W.
func stage(c *chain.Chain, x *platform.Platform, a plan.Stage, recompute []string) (s stages.Stage, err error) {
	s.Name = fmt.Sprintf("layers %d–%d", a.From, a.To)
	for l := a.From; l <= a.To; l++ {
		layer := &c.Layers[l-1]
		o, known := option(c, l, recompute[l-1])
		if !known {
			return s, fmt.Errorf("%w: recompute[%d]: layer %d (%s) has no option %q", plan.ErrUnreadable, l-1, l, layer.Name, recompute[l-1])
		}
		w := layer.WeightGradientTime
		if w == 0 {
			w = x.Split * layer.BackwardTime
		}
		s.ForwardTime += layer.ForwardTime
		if s.BackwardTime += layer.BackwardTime - w + o.ForwardTime; o.Splits && w > 0 {
			s.WeightTime += w
			s.BackwardMemory += layer.WeightGradientSaved
		} else {
			s.BackwardTime += w
		}
		s.RecomputeTime += o.ForwardTime
		s.ForwardMemory += o.Saved
		s.Weight += float64(x.WeightCopies) * layer.Weight
		s.Overhead = max(s.Overhead, max(layer.ForwardOverhead, layer.BackwardOverhead)+o.Transient)
	}
	s.WeightMemory = -s.ForwardMemory - s.BackwardMemory
	return s, nil
}

// option returns what layer l, from 1, holds, computes again and needs for a moment by an option.
func option(c *chain.Chain, l int, name string) (chain.Recomputation, bool) {
	input, dropped := c.Input.Activation, false
	if l > 1 {
		input, dropped = c.Layers[l-2].Activation, c.Layers[l-2].OutputDropped
	}
	x := &c.Layers[l-1]
	all := x.Saved - x.Activation
	if !dropped {
		all += input
	}
	if name == none {
		return chain.Recomputation{Saved: all, Splits: true}, true
	}
	if k := slices.IndexFunc(x.Recompute, func(r chain.Recomputation) bool { return r.Name == name }); k >= 0 {
		return x.Recompute[k], true
	}
	return chain.Recomputation{Saved: input, ForwardTime: x.ForwardTime, Transient: max(0, all-input)}, name == full
}

// readable checks what a plan says about its stages.
func readable(c *chain.Chain, p *plan.Plan) error {
	invalid := plan.ErrNoInstance
	if c != nil {
		invalid = c.Validate()
	}
	fail := func(format string, args ...any) error {
		return fmt.Errorf("%w: %w", plan.ErrUnreadable, fmt.Errorf(format, args...))
	}
	switch {
	case p == nil:
		return fail("no plan")
	case p.Problem != plan.Layout:
		return fail("problem is %q, not %q", p.Problem, plan.Layout)
	case invalid != nil:
		return fmt.Errorf("%w: %w", plan.ErrUnreadable, invalid)
	case len(p.Recompute) != len(c.Layers):
		return fail("recompute has %d entries for %d layers", len(p.Recompute), len(c.Layers))
	case len(p.Allocation) == 0:
		return fail("allocation: there is no stage")
	}
	next := 1
	for k, a := range p.Allocation {
		if a.From != next || a.To < a.From || a.To > len(c.Layers) || a.Copies() > 1 {
			return fail("allocation[%d]: layers %d to %d on %d GPUs; a stage is a run of layers from %d on, up to %d, on one GPU", k, a.From, a.To,
				a.Copies(), next, len(c.Layers))
		}
		if g := placed(&p.Platform, k); g >= 0 && g != a.Processor {
			return fail("allocation[%d]: the stage is on GPU %d; placement %s has it on GPU %d", k, a.Processor, p.Platform.Placement, g)
		}
		next = a.To + 1
	}
	if next != len(c.Layers)+1 {
		return fail("allocation: layers %d to %d are on no stage", next, len(c.Layers))
	}
	return nil
}

// placed returns where a placement by name has a stage, from 0; -1: anywhere.
func placed(x *platform.Platform, stage int) int {
	n := x.Processors
	switch x.Placement {
	case plan.Straight:
		return stage
	case plan.Interleaved:
		return stage % max(1, n)
	case plan.VShaped:
		if stage >= n {
			return 2*n - 1 - stage
		}
		return stage
	}
	return -1
}
