package catalog

import (
	"workbench/bench/run"
	"workbench/model/graph"
	"workbench/model/plan"
	"workbench/model/training"
)

// OutlineFormat names the format of [Outline].
const OutlineFormat = "workbench.outline/v1"

// Outline says what an instance is and between which memories each problem has
// something to decide. Sizes are in bytes (slots for joins), times in seconds.
type Outline struct {
	Format   string           `json:"format"`
	Instance plan.InstanceRef `json:"instance"`
	Kind     string           `json:"kind"`
	Size     string           `json:"size"`
	Samples  int              `json:"samples,omitempty"`
	Compute  float64          `json:"compute"` // computing everything once
	Ranges   []MemoryRange    `json:"ranges"`
	// Step is of training steps: graph/v2, and graph/v1 as what it means.
	Step *training.Outline `json:"step,omitempty"`
}

// MemoryRange is the least memory for which a problem has a plan, and the least that
// leaves nothing to decide.
type MemoryRange struct {
	Problem string  `json:"problem"`
	Least   float64 `json:"least"`
	Most    float64 `json:"most"`
}

// OutlineOf sums up an instance.
func OutlineOf(in *run.Instance) *Outline {
	o := &Outline{
		Format: OutlineFormat, Instance: in.Ref(), Kind: in.Instance.Kind(), Size: in.Size(), Samples: in.Samples(), Compute: in.Compute(), Ranges: []MemoryRange{},
	}
	for _, p := range Problems() {
		if p.Accepts(in) == nil {
			low, high := p.Range(in)
			o.Ranges = append(o.Ranges, MemoryRange{p.Name, low, high})
		}
	}
	if g := Step(in); g != nil {
		o.Step = g.Outline()
	}
	return o
}

// Step returns the training step that an instance is, nil if it is none.
func Step(in *run.Instance) *training.Graph {
	switch x := in.Instance.(type) {
	case *training.Graph:
		return x
	case *graph.Graph:
		return training.Of(x)
	}
	return nil
}
