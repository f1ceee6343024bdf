package pipeline

import (
	"fmt"
	"math"

	"workbench/ilp/formulation"
	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
)

// Patterns builds the ILP of [004] chapter 6, corrected: its optimum is the
// least period of a 1-periodic pattern, over all allocations, that fits by the
// task model. 10 N³ rows. The error wraps ErrInstance or ErrTooLong, or is a
// *plan.Infeasible if nothing fits.
//
// What differs from the printed equations: (6.1) is demanded in all three
// rotations, without which z is no equivalence relation; the time of a
// communication is multiplied by 1 − z_{ℓ,ℓ+1}, without which a value is sent
// that stays where it is; K is a little larger, as (6.24) needs the period and a
// communication; and tasks that take no time have an order.
func Patterns(c *chain.Chain, p platform.Platform) (*formulation.Program, error) {
	in, err := newWholePipeline(c, p, plan.TaskModel)
	if err != nil {
		return nil, err
	}
	f := newColumns(patternsName, in, in.horizon, in.late(in.horizon), 2*in.n)
	f.corrected()
	return f.program(patternsName), nil
}

// StageILP builds the ILP of [004] 7.2: the shortest period of a 1-periodic
// pattern of an allocation, which need not be contiguous. The layers of a stage
// are computed without interruption; to let them be interrupted, give each
// layer as a stage. model is a memory model, task if empty.
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

// newWholePipeline reads the chain, of single layers. The error is a
// *plan.Infeasible if nothing fits.
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

// corrected adds the equations, in the instance's model of memory.
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

// instants forbids what (6.5) and (6.6) allow to tasks that take no time: that
// neither of two is before the other, and that each of three at the same time is
// before the next, around.
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

// turns makes a mini-batch that passes t before u do so a period later where u
// comes first: (6.23)–(6.30) leave it open for tasks at the same time.
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

// fixAllocation fixes z and f by the processors of the stages.
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

// leastPeriod is the largest load of a processor or a link of the allocation.
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
