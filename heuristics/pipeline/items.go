package pipeline

import (
	"fmt"

	"workbench/model/plan"
)

// An item is a stage or a communication between two stages: both have a
// forward and a backward operation on one resource.
type item struct {
	from, to int // layers of the stage; of a communication, both the layer whose output is sent
	cut      bool
	// resource is the processor, or for a communication the number of
	// processors plus that of the link.
	resource int
	f, b     float64 // durations, seconds
}

func (x *item) time() float64 { return x.f + x.b }

// items returns the stages of an allocation and the communications between
// those on different processors, in the order of the chain.
func (in *instance) items(stages []plan.Stage) []item {
	list := make([]item, 0, 2*len(stages))
	for k, s := range stages {
		if k > 0 && stages[k-1].Processor != s.Processor {
			list = append(list, in.communication(s.From-1, stages[k-1].Processor, s.Processor))
		}
		x := item{from: s.From, to: s.To, resource: s.Processor}
		for l := s.From; l <= s.To; l++ {
			x.f += in.UF[l]
			x.b += in.UB[l]
		}
		list = append(list, x)
	}
	return list
}

func (in *instance) communication(l, p, q int) item {
	if p > q {
		p, q = q, p
	}
	return item{
		from: l, to: l, cut: true, resource: in.Platform.Processors + p*in.Platform.Processors + q,
		f: in.A[l] / in.Platform.Bandwidth, b: in.D[l] / in.Platform.Bandwidth,
	}
}

// link returns the processors that a communication's resource joins.
func (in *instance) link(resource int) (p, q int) {
	r := resource - in.Platform.Processors
	return r / in.Platform.Processors, r % in.Platform.Processors
}

// checkAllocation says what is wrong with an allocation given by a user.
func (in *instance) checkAllocation(stages []plan.Stage) error {
	next := 1
	for k, s := range stages {
		switch {
		case s.From != next:
			return fmt.Errorf("%w: stage %d begins at layer %d, it should at %d", ErrAllocation, k+1, s.From, next)
		case s.To < s.From || s.To > in.N:
			return fmt.Errorf("%w: stage %d ends at layer %d, it should between %d and %d", ErrAllocation, k+1, s.To, s.From, in.N)
		case s.Processor < 0 || s.Processor >= in.Platform.Processors:
			return fmt.Errorf("%w: stage %d is on processor %d, there are 0 to %d", ErrAllocation, k+1, s.Processor, in.Platform.Processors-1)
		}
		next = s.To + 1
	}
	if next != in.N+1 {
		return fmt.Errorf("%w: it ends at layer %d, the chain at %d", ErrAllocation, next-1, in.N)
	}
	return nil
}

// merged joins neighbouring stages of one processor.
func merged(stages []plan.Stage) []plan.Stage {
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

// fromEnds returns the stages that end at the given layers, one a processor.
func fromEnds(ends []int) []plan.Stage {
	stages := make([]plan.Stage, len(ends))
	from := 1
	for p, to := range ends {
		stages[p] = plan.Stage{Processor: p, From: from, To: to}
		from = to + 1
	}
	return stages
}
