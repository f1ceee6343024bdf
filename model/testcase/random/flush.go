package random

import (
	"math/rand/v2"
	"slices"

	"workbench/model/instance/stages"
	"workbench/model/plan"
	"workbench/model/platform"
)

// Stages returns the given number of stages of small integer times and sizes, with split
// backwards or without.
func Stages(r *rand.Rand, stageCount int, split bool) *stages.Partition {
	in := &stages.Partition{Name: "random", CommunicationTime: float64(r.IntN(3))}
	for range stageCount {
		s := stages.Stage{
			ForwardTime: float64(r.IntN(6)), BackwardTime: float64(r.IntN(6)),
			ForwardMemory: float64(r.IntN(5)), Weight: float64(r.IntN(3)), Overhead: float64(max(0, r.IntN(6)-3)),
		}
		if split && r.IntN(6) > 0 {
			s.WeightTime, s.WeightMemory = float64(r.IntN(5)), -float64(r.IntN(int(s.ForwardMemory)+1))
		}
		s.BackwardMemory = -s.ForwardMemory - s.WeightMemory
		in.Stages = append(in.Stages, s)
	}
	return in
}

// PaceStages returns stages whose times are multiplied by a factor.
func PaceStages(in *stages.Partition, pace float64) *stages.Partition {
	x := *in
	x.Stages = slices.Clone(in.Stages)
	x.CommunicationTime *= pace
	for i := range x.Stages {
		s := &x.Stages[i]
		s.ForwardTime, s.BackwardTime, s.WeightTime, s.OffloadTime = s.ForwardTime*pace, s.BackwardTime*pace, s.WeightTime*pace,
			s.OffloadTime*pace
	}
	return &x
}

// Flush returns a synchronous pipeline that exhaustive search answers in a moment, mostly,
// with a memory near the least one.
func Flush(r *rand.Rand) (*stages.Partition, platform.Platform) {
	p := platform.Platform{Placement: plan.Straight, Objective: [...]string{plan.SpanObjective, plan.MakespanObjective}[r.IntN(2)]}
	var in *stages.Partition
	switch r.IntN(4) {
	case 0: // two stages on each of two GPUs; most without W, as orders are many
		in, p.Processors, p.MicroBatches = Stages(r, 4, r.IntN(4) == 0), 2, 2
		p.Placement = [...]string{plan.Interleaved, plan.VShaped}[r.IntN(2)]
	case 1:
		in, p.Processors, p.MicroBatches = Stages(r, 3, true), 3, 2
	case 2:
		in, p.Processors, p.MicroBatches = Stages(r, 2, r.IntN(2) == 0), 2, 3
	default:
		in, p.Processors, p.MicroBatches = Stages(r, 1+r.IntN(2), true), 0, 1+r.IntN(2)
		p.Processors = len(in.Stages)
	}
	if r.IntN(3) == 0 {
		Copies(r, in)
	}
	p.Memory = max(0, leastFlush(in, &p)+float64([...]int{0, 0, 1, 2, 3, 5, 9, 50, 50, -1}[r.IntN(10)]))
	return in, p
}

// Copies lets a stage send a part of what it keeps to the host, and now and then another one.
func Copies(r *rand.Rand, in *stages.Partition) {
	for again := true; again; again = r.IntN(3) == 0 {
		s := &in.Stages[r.IntN(len(in.Stages))]
		s.OffloadMemory, s.OffloadTime = float64(r.IntN(int(s.ForwardMemory)+1)), float64(r.IntN(4))
	}
}

// leastFlush is the memory of one micro-batch after the other, on the GPU that needs most.
func leastFlush(in *stages.Partition, p *platform.Platform) float64 {
	least := 0.0
	for g := range p.Processors {
		weights, overhead, need, held := 0.0, 0.0, 0.0, 0.0
		for i := range in.Stages {
			if i%p.Processors == g && p.Placement != plan.VShaped || p.Placement == plan.VShaped && (i == g || i == 2*p.Processors-1-g) {
				s := &in.Stages[i]
				weights, overhead, need = weights+s.Weight, max(overhead, s.Overhead), max(need, held+s.ForwardMemory)
				held += s.ForwardMemory - s.OffloadMemory
			}
		}
		least = max(least, weights+overhead+need)
	}
	return least
}
