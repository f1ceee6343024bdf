package testcase

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	optimum "workbench/model/exhaustive/flush"
	"workbench/model/instance/stages"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/testcase/random"
)

// Flush is the subject of stages of a synchronous pipeline schedule.
func Flush() *Subject {
	return &Subject{
		Kind: stages.Kind, Units: "stages", Usual: 3, Most: 4,
		Random: func(r *rand.Rand, units int) (*Trial, error) {
			for {
				if in, p := random.Flush(r); len(in.Stages) <= units {
					return &Trial{In: in, Platform: p, Pace: 1}, nil
				}
			}
		},
		Draw:     drawFlush,
		Searched: drawn,
		Search: func(t *Trial, states int) (float64, *plan.Plan, error) {
			return optimum.Search(plan.As[*stages.Partition](t.In), t.Platform, states)
		},
		Smaller: smallerFlush,
		Text:    flushText,
	}
}

// drawFlush returns stages of another pace and with sizes of mixed magnitude.
func drawFlush(r *rand.Rand) *Trial {
	in, p := random.Flush(r)
	t := pace(r)
	factor := [...]float64{1, 1, 1000, 1e6, 1e9 + 1}[r.IntN(5)]
	in = random.PaceStages(in, t)
	p.Memory *= factor
	for i := range in.Stages {
		s := &in.Stages[i]
		for _, x := range []*float64{&s.ForwardMemory, &s.BackwardMemory, &s.WeightMemory, &s.Weight, &s.Overhead, &s.OffloadMemory} {
			*x *= factor
		}
	}
	p.Memory = nearBreakpoint(r, p.Memory)
	return &Trial{In: in, Platform: p, Pace: t}
}

// smallerFlush drops a micro-batch, or reduces a time or size.
func smallerFlush(t *Trial) (all []*Trial) {
	in := plan.As[*stages.Partition](t.In)
	change := func(edit func(*stages.Partition, *platform.Platform)) {
		x, p := *in, t.Platform
		x.Stages = slices.Clone(in.Stages)
		if edit(&x, &p); x.Validate() == nil {
			all = append(all, &Trial{In: &x, Platform: p, Pace: t.Pace})
		}
	}
	if t.Platform.MicroBatches > 1 {
		change(func(_ *stages.Partition, p *platform.Platform) { p.MicroBatches-- })
	}
	if in.CommunicationTime > 0 {
		change(func(x *stages.Partition, _ *platform.Platform) { x.CommunicationTime = 0 })
	}
	for i := range in.Stages {
		for _, at := range []func(*stages.Stage) *float64{
			func(s *stages.Stage) *float64 { return &s.ForwardTime },
			func(s *stages.Stage) *float64 { return &s.BackwardTime },
			func(s *stages.Stage) *float64 { return &s.WeightTime },
			func(s *stages.Stage) *float64 { return &s.Weight },
			func(s *stages.Stage) *float64 { return &s.Overhead },
			func(s *stages.Stage) *float64 { return &s.OffloadTime },
			func(s *stages.Stage) *float64 { return &s.OffloadMemory },
		} {
			if *at(&in.Stages[i]) > 0 {
				change(func(x *stages.Partition, _ *platform.Platform) { *at(&x.Stages[i]) = 0 })
			}
		}
	}
	return all
}

func flushText(t *Trial, best *plan.Plan) string {
	var b strings.Builder
	in := plan.As[*stages.Partition](t.In)
	fmt.Fprintf(&b, "memory %g, micro-batches %d, GPUs %d, %s, %s, communication %g\n", t.Platform.Memory, t.Platform.MicroBatches,
		t.Platform.Processors, t.Platform.Placement, t.Platform.Objective, in.CommunicationTime)
	for i := range in.Stages {
		s := &in.Stages[i]
		fmt.Fprintf(&b, "stage %d: F %g, B %g, W %g s; memory %g, %g, %g, weights %g, overhead %g; sends %g in %g s\n", i+1,
			s.ForwardTime, s.BackwardTime, s.WeightTime, s.ForwardMemory, s.BackwardMemory, s.WeightMemory, s.Weight, s.Overhead, s.OffloadMemory,
			s.OffloadTime)
	}
	if best != nil {
		b.WriteString("best plan:")
		for k := range best.Ops {
			o := &best.Ops[k]
			fmt.Fprintf(&b, " %s:%s_%d^%d@%g", o.Resource, o.Op, o.Stage, o.MicroBatch, o.Start)
		}
		b.WriteByte('\n')
	}
	return b.String()
}
