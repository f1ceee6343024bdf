package pipeline

import (
	"workbench/model/plan"
)

// Item is a stage or a communication between two stages. Both have a forward and a backward
// operation on one resource.
type Item struct {
	From, To int // layers of the stage; of a communication, both the layer whose output is sent
	Cut      bool
	// Resource is the processor, or for a communication the number of
	// processors plus that of the link.
	Resource int
	F, B     float64 // durations, seconds
	// Copies is the number of replicas of a stage, on processors from Resource on; 0 means one.
	Copies int
	// Reduce is the time of the all-reduce of a replica's weight gradients after each backward,
	// seconds.
	Reduce float64
}

// Time returns the time of both operations, seconds.
func (x *Item) Time() float64 { return x.F + x.B }

// Items returns the stages of an allocation and the communications between stages on different
// processors, in chain order.
func (in *Instance) Items(stages []plan.Stage) []Item {
	list := make([]Item, 0, 2*len(stages))
	for k, s := range stages {
		if k > 0 && stages[k-1].Processor != s.Processor {
			list = append(list, in.Communication(s.From-1, stages[k-1].Processor, s.Processor))
		}
		x := Item{From: s.From, To: s.To, Resource: s.Processor}
		weight := 0.0
		for l := s.From; l <= s.To; l++ {
			x.F += in.UF[l]
			x.B += in.UB[l]
			weight += in.W[l]
		}
		if r := s.Copies(); r > 1 {
			x.Copies, x.Reduce = r, in.Reduce(weight, r)
		}
		list = append(list, x)
	}
	return list
}

// Reduce returns the time of one all-reduce of weight gradients for each of r replicas, in seconds.
// As in PipeDream's optimizer, 4(r-1)/r of the weights pass its link.
func (in *Instance) Reduce(weight float64, r int) float64 {
	return 4 * float64(r-1) * weight / (float64(r) * in.Platform.Bandwidth)
}

// Communication returns the item that sends the output of layer l between processors
// p and q.
func (in *Instance) Communication(l, p, q int) Item {
	if p > q {
		p, q = q, p
	}
	return Item{
		From: l, To: l, Cut: true, Resource: in.Platform.Processors + p*in.Platform.Processors + q,
		F: in.A[l] / in.Platform.Bandwidth, B: in.D[l] / in.Platform.Bandwidth,
	}
}

// link returns the processors that a communication resource connects.
func (in *Instance) link(resource int) (p, q int) {
	r := resource - in.Platform.Processors
	return r / in.Platform.Processors, r % in.Platform.Processors
}

// SplitLayers returns the layers of stages as separate stages, except for replicated stages.
func SplitLayers(stages []plan.Stage) []plan.Stage {
	var list []plan.Stage
	for _, s := range stages {
		if s.Copies() > 1 {
			list = append(list, s)
			continue
		}
		for l := s.From; l <= s.To; l++ {
			list = append(list, plan.Stage{Processor: s.Processor, From: l, To: l})
		}
	}
	return list
}

// Merged merges neighbouring stages on the same processor.
func Merged(stages []plan.Stage) []plan.Stage {
	var list []plan.Stage
	for _, s := range stages {
		if k := len(list) - 1; k >= 0 && list[k].Processor == s.Processor {
			list[k].To = s.To
			continue
		}
		list = append(list, s)
	}
	return list
}
