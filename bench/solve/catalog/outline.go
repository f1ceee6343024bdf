package catalog

import (
	"context"
	"errors"

	"workbench/bench/solve"
	"workbench/bench/solve/method"
	"workbench/model/instance/graph"
	"workbench/model/instance/training"
	"workbench/model/plan"
	"workbench/model/platform"
)

// OutlineFormat names the format of [Outline].
const OutlineFormat = "workbench.outline/v1"

// Outline describes an instance and, for each problem, the range of memory in which there is a decision to make.
// Sizes are in bytes (slots for joins), times in seconds.
type Outline struct {
	Format   string           `json:"format"`
	Instance plan.InstanceRef `json:"instance"`
	Kind     string           `json:"kind"`
	Size     string           `json:"size"`
	Samples  int              `json:"samples,omitempty"`
	Compute  float64          `json:"compute"` // computing everything once
	Ranges   []MemoryRange    `json:"ranges"`
	// Step outlines training steps: graph/v2, and graph/v1 converted to one.
	Step *training.Outline `json:"step,omitempty"`
}

// MemoryRange is the minimum memory for which a problem has a plan, and the minimum that leaves nothing to decide.
// Holds names what needs the former, "" where that is not known.
type MemoryRange struct {
	Problem string  `json:"problem"`
	Least   float64 `json:"least"`
	Most    float64 `json:"most"`
	Holds   string  `json:"holds,omitempty"`
}

// OutlineOf returns the outline of an instance.
func OutlineOf(in *solve.Instance) *Outline {
	o := &Outline{
		Format: OutlineFormat, Instance: in.Ref(), Kind: in.Instance.Kind(), Size: in.Size(), Samples: in.Samples(), Compute: in.Compute(),
		Ranges: []MemoryRange{},
	}
	for _, p := range Problems() {
		if p.Accepts(in) != nil {
			continue
		}
		if low, high := p.Range(in, solve.Setting{}); high > 0 { // otherwise no plan exists for an instance of this size
			o.Ranges = append(o.Ranges, MemoryRange{p.Name, low, high, minMemoryReason(p, in, low)})
		}
	}
	if g := Step(in); g != nil {
		o.Step = g.Outline()
	}
	return o
}

// minMemoryReason returns what needs the minimum memory. Where nothing fits in less, the views of problems report
// it before a method begins.
func minMemoryReason(p *solve.Problem, in *solve.Instance, least float64) string {
	switch {
	case p.Holds != nil:
		return p.Holds(in)
	case least < 1:
		return ""
	}
	s := solve.Setting{Platform: platform.Platform{ // one unit less
		Memory: least - 1, Bandwidth: 12e9, Processors: method.DefaultProcessors, WeightCopies: platform.DefaultWeightCopies,
	}}
	ended, stop := context.WithCancel(context.Background()) // no method runs beyond its view
	stop()
	methods := MethodsFor(p, in)
	for _, m := range methods[:min(len(methods), 3)] { // one of them reports it; other errors vary
		if m.Solver {
			continue
		}
		_, err := m.Run(ended, in, s.WithDefaults(m))
		if nothing, ok := errors.AsType[*plan.Infeasible](err); ok {
			return nothing.Why
		}
	}
	return ""
}

// Step returns the training step of an instance, nil if it is not one.
func Step(in *solve.Instance) *training.Graph {
	switch x := in.Instance.(type) {
	case *training.Graph:
		return x
	case *graph.Graph:
		return training.FromGraph(x)
	}
	return nil
}
