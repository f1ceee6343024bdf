package pipeline

import (
	"fmt"
	"math"

	"workbench/ilp/formulation"
	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
)

// Patterns builds the corrected ILP of [004] chapter 6. Its optimum is the minimum period of a 1-periodic pattern
// that fits under the task model of memory, over all allocations. It has 10 N³ rows. The error wraps ErrInstance
// or ErrTooLong, or is a *plan.Infeasible if nothing fits.
//
// It differs from the printed equations in four points:
//
//   - (6.1) is required in all three rotations; otherwise z is no equivalence relation;
//   - the duration of a communication is multiplied by 1 − z_{ℓ,ℓ+1}; otherwise a value is sent to the processor
//     that holds it;
//   - K is slightly larger, because (6.24) needs the period plus a communication;
//   - tasks of zero duration are ordered.
func Patterns(c *chain.Chain, p platform.Platform) (*formulation.Program, error) {
	in, err := newWholePipeline(c, p, plan.TaskModel)
	if err != nil {
		return nil, err
	}
	f := newColumns(patternsName, in, in.horizon, in.late(in.horizon), 2*in.n)
	f.corrected()
	return f.program(patternsName), nil
}

// StageILP builds the ILP of [004] 7.2: the minimum period of a 1-periodic pattern of a given allocation, which
// need not be contiguous. The layers of a stage are computed without interruption. To allow interruptions, pass
// each layer as a stage. model is a memory model, the task model if empty.
func StageILP(c *chain.Chain, p platform.Platform, allocation []plan.Stage, model string) (*formulation.Program, error) {
	f, err := newStageILP(c, p, allocation, model, math.Inf(1))
	if err != nil {
		return nil, err
	}
	program := f.program("")
	program.Promise, program.Assumptions = formulation.Restriction, nil
	return program, nil
}

// newStageILP builds the ILP for periods of at most longest seconds.
func newStageILP(c *chain.Chain, p platform.Platform, allocation []plan.Stage, model string, longest float64) (*pipelineILP, error) {
	in, err := newPipelineInstance(c, p, allocation, model)
	if err != nil {
		return nil, err
	}
	for i, s := range allocation {
		if s.Processor < 0 {
			return nil, fmt.Errorf("%w: stage %d is on processor %d; there are processors 0 to %d", formulation.ErrInstance, i+1, s.Processor,
				p.Processors-1)
		}
	}
	limit := min(in.roundUp(longest/in.time), in.horizon)
	f := newColumns("pipeline-stages", in, limit, in.late(limit), 2*in.n)
	f.corrected()
	f.fixAllocation()
	return f, nil
}

// newWholePipeline reads the chain, with single layers as stages. The error is a *plan.Infeasible if nothing fits.
func newWholePipeline(c *chain.Chain, p platform.Platform, model string) (*pipelineInstance, error) {
	x, err := read(c, p, model)
	if err != nil {
		return nil, err
	}
	if err := x.Infeasible(); err != nil {
		return nil, err
	}
	return staged(x, singleLayers(c))
}

// corrected adds the equations for the memory model of the instance.
func (f *pipelineILP) corrected() {
	f.equivalence() // (6.1)
	f.processors()  // (6.2), (6.3)
	f.colocated()   // (6.4)
	f.order()       // (6.5)–(6.7)
	f.instants()
	f.links()     // (6.8)–(6.13)
	f.linkOrder() // (6.14)–(6.16)
	f.ends()      // (6.17)–(6.19)
	f.spans()     // (6.20), (6.21)
	f.shifts()    // (6.23)–(6.30)
	f.turns()
	if f.model == plan.StageModel {
		f.stageMemory()
		return
	}
	f.waiting()                 // (6.22)
	f.storedInputs(f.allCopies) // (6.31), (6.32)
	f.buffers()                 // (6.34), (6.35)
	f.memoryRows()              // (6.33), (6.36)
}

// instants orders tasks of zero duration, which (6.5) and (6.6) leave open. One of two tasks on a processor
// precedes the other, and three such tasks do not precede each other in a cycle.
func (f *pipelineILP) instants() {
	g := f.m.Group("order at an instant", "ours")
	for t := range f.d {
		for u := range t {
			g.Equal(f.e.Reset().Add(1, f.w.At(t, u)).Add(1, f.w.At(u, t)).Add(-1, f.z.pair(t, u)), 0)
		}
		for u := range f.d {
			for x := range f.d {
				if t != u && u != x && x != t && t < u && t < x && f.d[t]+f.d[u]+f.d[x] == 0 {
					g.AtMost(f.e.Reset().Add(1, f.w.At(t, u)).Add(1, f.w.At(u, x)).Add(1, f.w.At(x, t)), 2)
				}
			}
		}
	}
}

// turns adds that if u > t precedes t in the order of a processor, a mini-batch reaches u at least one period
// after t. (6.23)–(6.30) leave this open for tasks that start at the same time.
func (f *pipelineILP) turns() {
	g := f.m.Group("later than before", "ours")
	for t := range f.d {
		for u := t + 1; u < len(f.d); u++ {
			f.e.Reset().Add(-1, f.w.At(u, t))
			for m := t; m < u; m++ {
				f.e.Add(1, f.v.At(m)).Add(1, f.v2.At(m)).Add(1, f.vt.At(m)).Add(1, f.vt2.At(m))
			}
			g.AtLeast(&f.e, 0)
		}
	}
}

// fixAllocation fixes z and f according to the processors of the stages.
func (f *pipelineILP) fixAllocation() {
	seen := map[int]bool{}
	for t := range f.hosts {
		p := f.stages[f.stage(t)].Processor
		first := 0.0
		if !seen[p] {
			seen[p], first = true, 1
		}
		f.m.Fix(f.f.At(t), first)
		for u := range t {
			together := 0.0
			if f.stages[f.stage(u)].Processor == p {
				together = 1
			}
			f.m.Fix(f.z.pair(u, t), together)
		}
	}
	f.m.SetBounds(f.period, f.leastPeriod(), f.longest)
}

// leastPeriod returns the maximum load of a processor or a link of the allocation, in units.
func (f *pipelineILP) leastPeriod() float64 {
	type link struct{ a, b int }
	compute, send := make([]float64, f.platform.Processors), map[link]float64{}
	least := 0.0
	for t, d := range f.d {
		p := f.stages[f.stage(t)].Processor
		compute[p] += d
		least = max(least, compute[p])
		if t+1 < len(f.d) {
			if q := f.stages[f.stage(t+1)].Processor; q != p {
				l := link{min(p, q), max(p, q)}
				send[l] += f.comm[t]
				least = max(least, send[l])
			}
		}
	}
	return least
}
